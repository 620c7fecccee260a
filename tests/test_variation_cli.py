"""``mcage faults``."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mcage.cli.faults import faults
from mcage.errors import UserError
from mcage.variation import class_shares, fault_map, faulty_bits, sample_tail, scenario

app = typer.Typer()
app.command()(faults)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_map_and_table_in_the_terminal() -> None:
    output = run("--scenario", "clustered", "--maps", 3, "--instance", 2)
    cells = sample_tail(scenario("clustered"), 1, np.array([2]), 0.497)
    blocks = fault_map(cells, np.ones(len(cells.cell), bool))
    lines = output.splitlines()
    band = [line[10:] for line in lines if line.startswith("entry")]
    assert len(band) == 4
    assert all(len(line) == 64 for line in band)
    drawn = sum(line.count("█") for line in lines if len(line) == 74)
    assert drawn == np.unpackbits(blocks).sum()
    table = [line for line in lines if "published" in line]
    assert [float(x) for x in table[0].split("│")[2:8]] == [43, 20, 12, 10, 15, 37]
    assert any("expected" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_json() -> None:
    result = json.loads(run("--json", "--vdd", 0.45, "--seed", 3, "--instance", 5, "--maps", 260))
    cells = sample_tail(scenario("common"), 3, np.array([5]), 0.45)
    faulty = np.ones(len(cells.cell), bool)
    assert result["faulty_bits"] == faulty_bits(cells, faulty)[0].tolist()
    assert result["unusable_blocks"] == fault_map(cells, faulty)[0].tolist()
    assert result["vdd_volts"] == 0.45
    shares = result["shares"]
    assert shares["table"] == [0.34, 0.33, 0.20, 0.10, 0.03]
    all_maps = sample_tail(scenario("common"), 3, np.arange(260), 0.45)
    bits = faulty_bits(all_maps, np.ones(len(all_maps.cell), bool))
    assert shares["mean"] == class_shares(bits).mean(axis=0).tolist()
    for mean, error, expected in zip(
        shares["mean"][:3], shares["standard_error"], shares["expected"], strict=False
    ):
        assert abs(mean - expected) < 4 * error


def test_table_modes() -> None:
    exact = json.loads(run("--json", "--mode", "table-exact", "--maps", 4))
    assert np.bincount(exact["faulty_bits"]).tolist() == [87, 84, 51, 26, 8]
    assert exact["shares"]["standard_error"] == [0, 0, 0, 0, 0]
    assert "expected" not in exact["shares"]
    one = json.loads(run("--json", "--mode", "table", "--maps", 1))
    assert one["shares"]["standard_error"] == [None] * 5


def test_spread_blocks() -> None:
    plain, spread = (
        json.loads(run("--json", "--maps", 1, *option)) for option in ([], ["--spread-blocks"])
    )
    assert plain["faulty_bits"] == spread["faulty_bits"]
    assert plain["unusable_blocks"] != spread["unusable_blocks"]


@pytest.mark.parametrize("mode", ["varius", "table"])
def test_picture(tmp_path: Path, mode: str) -> None:
    png = tmp_path / "map.png"
    run("--maps", 1, "--mode", mode, "--png", png)
    assert png.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    assert imread(png).shape[1] == (1500 if mode == "varius" else 825)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenario", "foo"], "unknown scenario 'foo'"),
        (["--mode", "foo"], "unknown fault mode 'foo'"),
        (["--vdd", "0.3"], "every entry"),
        (["--vdd", "nan"], "vdd = nan V"),
        (["--vdd", "419"], "vdd = 419 V"),
        (["--mode", "table", "--vdd", "0.45"], "0.419 V only"),
        (["--png", "missing/folder/map.png"], "missing/folder/map.png: cannot be written"),
        (["--png", "/"], "/: cannot be written"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(*arguments)


def test_unwritable_picture_is_refused_before_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: object) -> None:
        raise AssertionError("computed first")

    monkeypatch.setattr("mcage.variation.FaultModel.sample", compute)
    with pytest.raises(UserError, match="cannot be written"):
        run("--png", tmp_path / "no" / "map.png")


def test_failed_check_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        run("--vdd", "0.1", "--png", tmp_path / "map.png")
    assert not list(tmp_path.iterdir())


def test_exit_code_and_message_of_the_real_command() -> None:
    mcage = Path(sys.executable).with_name("mcage")  # also where no environment is active
    done = subprocess.run([mcage, "faults", "--vdd", "0.3"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: vdd = 0.3 V")
    assert len(done.stderr.splitlines()) == 1
