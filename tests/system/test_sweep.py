"""The command line of a sweep: what it refuses, what it leaves behind, what it imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_cases import contents
from sweep_cases import SMALL_KERNELS, small_spec
from tables import each
from trace_strategies import alloc, release, trace_of, write

from mcage import run_sweep
from mcage.cli import main
from mcage.errors import UserError
from mcage.results.reader import open_results
from mcage.traces import save_trace

HEAVY = ("numpy", "numba", "pydantic", "matplotlib", "h5py", "scipy", "xarray", "rich.console")
SMALL = ("--kernel", "MatrixTranspose", "--generations", "1", "--periods", "1", "--epochs", "1")
QUICK = (*SMALL, "--instances", "1", "--technique", "baseline", "--environment", "turbo")
QUICK += ("--set", "spread=false")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(refusal, here):
    """Checks that a sweep is refused in one line with some words, and nothing is written."""

    def run(arguments, *words):
        before = contents(here)
        error = refusal("sweep", *arguments)
        (line,) = (line for line in error.splitlines() if not line.startswith("engine "))
        assert line.startswith("error: ")
        assert all(word in line for word in words), line
        assert contents(here) == before

    return run


# ---- values -----------------------------------------------------------------------------------


@each(
    ("line", "word"),
    [
        ("--idle retained", "no source gives a retention voltage"),
        ("--of spill_rate", "stopping = {'of': 'spill_rate'}: the precision to reach is missing"),
        ("--devices 0,x", "--devices 0,x: must be numbers separated by commas"),
        ("--environment dvfs --vdd 0.9", "'dvfs'"),
        ("--fault-mode table", "'turbo' asks for the faults at 1 V"),
        ("--vmin-coefficient 10 --scenario clustered", "the model speaks about"),
        ("part.toml --horizon 9", "part.toml: life = 5"),
        ("missing.toml", "missing.toml: cannot read"),
        (".", ".: cannot read the spec (a folder without a finished shard)"),
    ],
)
def test_values_that_cannot_be_meant(line, word, refused):
    Path("part.toml").write_text("life = 5\n")
    refused([*line.split(), *SMALL], word)


# ---- traces -----------------------------------------------------------------------------------


def test_windows_that_find_no_room(here, refused):
    """ARGO hands windows out in turn: those of 100 and 101 registers get in each other's way."""
    events = [alloc(0, slot, size) for slot, size in ((0, 100), (1, 101))]
    events += [write(1, slot, 0, 5) for slot in (0, 1)] + [release(50, slot) for slot in (0, 1)]
    save_trace(trace_of(events, 100), here / "tight.h5")
    arguments = ["--kernel", "tight.h5", "--technique", "argo", "--out", "r.h5"]
    refused(arguments, "no room for a window of 101 registers", "argo")


# ---- where the results go ---------------------------------------------------------------------


def test_a_refused_sweep_leaves_the_default_folder_as_it_was(here, refused):
    refused(["--technique", "rrdc"], "rrdc")
    (here / "results").mkdir()
    (here / "results" / "mine.txt").write_text("kept")
    refused(["--technique", "rrdc"], "rrdc")
    (here / "results" / "sweep.h5").write_text("kept, too")
    refused(QUICK, "results/sweep.h5")


def test_a_file_in_the_place_of_the_default_folder(here, refused):
    (here / "results").write_text("mine")
    refused(QUICK, "results")


# ---- what works -------------------------------------------------------------------------------


def test_one_instance_into_the_default_folder(here, command):
    code, out, error = command("sweep", *QUICK)
    assert code == 0
    assert [str(path) for path in Path().rglob("*.h5*")] == ["results/sweep.h5"]
    assert "baseline" in out
    assert out.endswith("results/sweep.h5\n")
    assert "engine numba" in error
    results = open_results("results/sweep.h5")
    assert results.sizes["instance"] == 1
    assert float(results.life_years[0, 0]) == pytest.approx(3.0, abs=1e-4)
    results.close()
    assert "baseline" in command("show", "results/sweep.h5")[1]


# ---- the program itself -----------------------------------------------------------------------


LOADED_AFTER = f"""
import sys
heavy = {{"scipy.stats", "mcage.engines.interface"}}.union({HEAVY})
def tell(code=0):
    print("loaded", code, *sorted(heavy & sys.modules.keys()), file=sys.stderr)
import mcage
tell()
from mcage.cli import main
for line in sys.argv[1:]:
    sys.argv = ["mcage", *line.split()]
    try:
        main.main()
    except SystemExit as leaving:
        tell(leaving.code or 0)
import numba
tell()
"""
"""Says which heavy modules are loaded after `import mcage`, and after each command line."""

COMMAND = {"pydantic"}
"""What is loaded to understand a line; help itself is drawn by rich."""
TO_READ = COMMAND | {"rich.console", "numpy", "h5py"}
TO_TABULATE = TO_READ | {"scipy", "xarray"}


@pytest.mark.slow
def test_commands_load_nothing_heavy_that_they_do_not_need(here):
    """In a single process: after each line, it has loaded no more than what that line needs."""
    run_sweep(small_spec(instances=2), "r.h5")
    most = {
        "--help": {"rich.console"},
        "cite": COMMAND | {"rich.console"},
        "sweep --out nowhere/r.h5": TO_READ,
        "verify r.h5": TO_READ,
        "status r.h5": TO_READ,
        "cite r.h5": TO_READ,
        "show r.h5": TO_TABULATE,
        "show --causes r.h5": TO_TABULATE,
        "compare r.h5 r.h5": TO_TABULATE,
    }
    done = subprocess.run(
        [sys.executable, "-c", LOADED_AFTER, *most], capture_output=True, text=True, cwd=here
    )
    assert done.returncode == 0, done.stderr
    assert "error: cannot write nowhere/r.h5: there is no folder nowhere" in done.stderr
    told = [line.split() for line in done.stderr.splitlines() if line.startswith("loaded ")]
    package, *after, with_numba = [(code, set(names)) for _, code, *names in told]
    assert package == ("0", set())
    for (line, may_be), (code, loaded) in zip(most.items(), after, strict=True):
        assert code == ("2" if "nowhere" in line else "0"), line
        assert loaded <= may_be, line
    assert {"numba", "xarray"} <= with_numba[1]


def test_debug_shows_where_it_happened(monkeypatch):
    for arguments in (
        ["--debug", "sweep"],
        ["sweep", "--debug"],
        ["sweep", "--seed", "3", "--debug"],
    ):
        monkeypatch.setattr(sys, "argv", ["mcage", *arguments, "--technique", "rrdc"])
        with pytest.raises(UserError, match="rrdc"):
            main.main()


def test_a_defect_is_not_the_users_mistake(command, here, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("mcage.studies.sweep.study.Sweep.compute", fail)
    code, _, error = command("sweep", *QUICK, "--out", "r.h5")
    assert code == 1
    assert "internal error: ZeroDivisionError: of ours" in error
    assert "--debug" in error
    assert "Traceback" not in error
    assert not (here / "r.h5").exists()
    with pytest.raises(ZeroDivisionError):
        command("sweep", "--debug", *QUICK, "--out", "r.h5")


# The files of real sweeps. Sweeps that are killed and continued: `test_kills.py`.

SWEEP = f"""
import atexit, sys
from mcage.cli.main import main
atexit.register(lambda: print(open("/proc/self/status").read()))
sys.argv[1:1] = "sweep --seed 5 --periods 3 --generations 2 --epochs 4 --shard-size 16".split()
for kernel in {SMALL_KERNELS[:2]}:
    sys.argv += ["--kernel", kernel]
main()
"""


def peak_megabytes(out, instances):
    """Peak memory of a sweep, by its own account.

    To what its parent is told of it, the parent's own memory at the time of the start belongs.
    """
    words = ["--technique", "baseline", "--technique", "rrcd", "--instances", str(instances)]
    sweep = [sys.executable, "-c", SWEEP, *words, "--out", str(out)]
    done = subprocess.run(sweep, capture_output=True, text=True, check=True)
    (kilobytes,) = re.findall(r"^VmHWM:\s*(\d+) kB$", done.stdout, re.MULTILINE)
    return int(kilobytes) / 1024


@pytest.mark.slow
def test_memory_does_not_grow_with_the_instances(tmp_path):
    """Four times as many, within what the memory of one and the same run varies."""
    few, many = (peak_megabytes(tmp_path / f"{n}.h5", n) for n in (32, 128))
    assert many < few + 60
    assert many < 1000
