"""``mcage faults``."""

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_line import from_json, run_mcage
from tables import each

from mcage.errors import UserError
from mcage.variation.fault_models import class_shares, fault_map, faulty_bits
from mcage.variation.field import sample_die
from mcage.variation.fitting import fit_vmin
from mcage.variation.scenarios import ArraySize, scenario
from mcage.variation.vmin_tail import sample_tail

run = partial(run_mcage, "faults")
run_json = partial(from_json, "faults")


def everything(cells):
    return np.ones(len(cells.cell), bool)


def bits_of(cells):
    """Faulty bits of the entries of slices, whose weak cells are all faulty."""
    return faulty_bits(cells, everything(cells))


def test_map_and_table_in_the_terminal() -> None:
    output = run("--scenario", "clustered", "--maps", 3, "--instance", 2)
    cells = sample_tail(scenario("clustered"), 1, np.array([2]), 0.497)
    blocks = fault_map(cells, everything(cells))
    lines = output.splitlines()
    band = [line[10:] for line in lines if line.startswith("entry")]
    assert len(band) == 4
    assert all(len(line) == 64 for line in band)
    drawn = sum(line.count("█") for line in lines if len(line) == 74)
    assert drawn == np.unpackbits(blocks).sum()
    table = [line for line in lines if "published" in line]
    assert [float(x) for x in table[0].split()[-6:]] == [43, 20, 12, 10, 15, 37]
    assert any("expected" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_json() -> None:
    changes = {"mu_volts": 0.15, "sigma_systematic_volts": 0.02, "sigma_random_volts": 0.06}
    law = ["--mu", 0.15, "--sigma-systematic", 0.02, "--sigma-random", 0.06, "--arrays", "64x256"]
    options = ["--vdd", 0.45, "--seed", 3, "--instance", 5, "--maps", 260, *law]
    result = run_json(*options)
    changed = dataclasses.replace(scenario("common"), **changes).in_arrays(ArraySize(64, 256))
    cells = sample_tail(changed, 3, np.array([5]), 0.45)
    assert result["faulty_bits"] == bits_of(cells)[0].tolist()
    assert result["unusable_blocks"] == fault_map(cells, everything(cells))[0].tolist()
    assert result["vdd_volts"] == 0.45
    shares = result["shares"]
    all_maps = sample_tail(changed, 3, np.arange(260), 0.45)
    bits = bits_of(all_maps)
    assert shares["mean"] == class_shares(bits).mean(axis=0).tolist()
    for mean, error, expected in zip(
        shares["mean"][:3], shares["standard_error"], shares["expected"], strict=False
    ):
        assert abs(mean - expected) < 4 * error


def test_table_modes() -> None:
    exact = run_json("--mode", "table-exact", "--maps", 4)
    assert np.bincount(exact["faulty_bits"]).tolist() == [87, 84, 51, 26, 8]
    assert exact["shares"]["standard_error"] == [0, 0, 0, 0, 0]
    assert "expected" not in exact["shares"]
    single = run_json("--mode", "table", "--maps", 1)
    assert single["shares"]["standard_error"] == [None] * 5


def test_slices_of_a_die() -> None:
    options = ["--scenario", "clustered", "--sigma-die", 0.02, "--slices-per-chip", 4]
    result = run_json(*options, "--instance", 6, "--maps", 10)
    spread = dataclasses.replace(scenario("clustered"), sigma_die_volts=0.02)
    cells = sample_tail(spread, 1, np.arange(4, 8), 0.497, slices_per_chip=4)
    bits = bits_of(cells)
    assert result["die"] == 1
    assert result["die_shift_volts"] == sample_die(spread, 1, np.array([1]))[0]
    assert result["faulty_entries_of_die"] == (bits > 1).sum(axis=1).tolist()
    assert result["faulty_bits"] == bits[2].tolist()
    assert (result["sigma_die_volts"], result["phi"]) == (0.02, 0.5)
    shown = run(*options, "--instance", 6, "--maps", 1).splitlines()[1]
    counts = result["faulty_entries_of_die"]
    assert shown == (
        f"die 1, Vmin {1000 * result['die_shift_volts']:+.1f} mV; faulty entries of its 4 slices: "
        f"{min(counts)} to {max(counts)}"
    )


def test_standard_error_takes_dies_not_slices() -> None:
    """Of three dies of 4, 4 and 2 slices, by hand: deviations summed over each die."""
    options = ["--scenario", "clustered", "--sigma-die", 0.02, "--slices-per-chip", 4]
    shares = run_json(*options, "--maps", 10)["shares"]
    spread = dataclasses.replace(scenario("clustered"), sigma_die_volts=0.02)
    cells = sample_tail(spread, 1, np.arange(10), 0.497, slices_per_chip=4)
    none = class_shares(bits_of(cells))[:, 0]
    off = none - none.mean()
    by_die = [off[:4].sum(), off[4:8].sum(), off[8:].sum()]
    error = np.sqrt(np.square(by_die).sum() * 3 / 2) / 10
    assert shares["standard_error"][0] == pytest.approx(error, rel=1e-9)
    one_die = run_json(*options, "--maps", 4)["shares"]
    assert one_die["standard_error"] == [None] * 5


@pytest.fixture
def quick_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bootstrap of a tenth of the samples."""
    monkeypatch.setattr("mcage.variation.fitting.fit_vmin", partial(fit_vmin, samples=20))


@pytest.mark.usefixtures("quick_fit")
@pytest.mark.slow
def test_a_fit_says_how_to_use_it() -> None:
    result = run_json("--fit", "shipped", "--leave-out", 0.56)
    assert (result["arrays"], result["bits"], result["likelihood"]) == (890, 7290880, "composite")
    assert 0.37 < result["mu_volts"]["value"] < 0.41
    prediction = result["predictions"][3]
    assert (prediction["volts"], prediction["left_out"]) == (0.56, True)
    assert prediction["faulty_bits"]["lower"] <= prediction["counted"] == 31
    assert prediction["faulty_bits"]["upper"] >= 31
    # The options give slices a third of whose entries are faulty, more or less.
    shares = run_json(*result["options"].split(), "--maps", 1)["shares"]
    assert sum(shares["expected"][2:]) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.usefixtures("quick_fit")
def test_a_fit_of_totals_says_what_it_cannot_tell(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("voltage,faulty_bits,bits\n0.5,20,1000000\n0.45,400,1000000\n")
    output = run("--fit", counts)
    assert "these counts determine only mu and the deviation of a cell" in output
    assert "sigma between arrays" not in output
    (usage,) = [line for line in output.splitlines() if line.startswith("to use it: ")]
    assert "--sigma-systematic 0 " in usage
    assert "--arrays none" in usage
    table = [line for line in output.splitlines() if "  " in line]
    assert len(table) > 5
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize("mode", ["varius", "table"])
def test_picture(tmp_path: Path, mode: str) -> None:
    png = tmp_path / "map.png"
    run("--maps", 1, "--mode", mode, "--png", png)
    assert png.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    assert imread(png).shape[1] == (825 if mode == "table" else 1500)


@each(
    ("arguments", "message"),
    [
        (["--mode", "varius-selected"], "choose one of varius, table, table-exact"),
        (["--geometry", "amd"], "unknown geometry 'amd'; choose one of gcn, nvidia"),
        (["--geometry", "nvidia", "--mode", "table"], "of entries of a gcn slice, not of nvidia"),
        (["--fit", "shipped", "--vdd", "0.5"], "--vdd: a fit draws no map"),
        (["--fit", "shipped", "--png", "map.png"], "--png: a fit draws no map"),
        (["--leave-out", "0.53"], "--leave-out 0.53: give the counts with --fit"),
        (["--png", "/"], r"cannot write /: its name must end in \.png"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(*arguments)
