"""The command line of a sweep: what it refuses, what it leaves behind, what it imports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbti_cases import prefactor_of
from sweep_cases import SMALL_KERNELS, file_content, small_spec
from tables import each
from trace_strategies import alloc, release, trace_of, write

from mcage import run_sweep
from mcage.aging.nbti import facelift
from mcage.cli import main
from mcage.errors import UserError
from mcage.results.reader import open_results, read_header
from mcage.studies.sweep.plan import with_programs
from mcage.traces import bundled_trace, save_trace

HEAVY = ("numpy", "numba", "pydantic", "matplotlib", "h5py", "scipy", "xarray", "rich.console")
SMALL = ("--kernel", "MatrixTranspose", "--generations", "1", "--periods", "1", "--epochs", "1")
QUICK = (*SMALL, "--instances", "1", "--technique", "baseline", "--environment", "turbo")
QUICK += ("--set", "spread=false")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot(folder):
    """Every file of a folder and its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def assert_refused(command, folder, arguments, *words):
    """Exit code 2, one line that names the thing, nothing printed, nothing written."""
    before = snapshot(folder)
    code, out, error = command("sweep", *arguments)
    lines = [line for line in error.splitlines() if not line.startswith("engine ")]
    assert code == 2, error
    assert out == ""
    assert len(lines) == 1, error
    assert lines[0].startswith("error: ")
    for word in words:
        assert str(word) in lines[0]
    assert snapshot(folder) == before


# ---- values -----------------------------------------------------------------------------------


@each(
    ("line", "word"),
    [
        ("--instances 0", "instances = 0"),
        ("--vdd 0.3", "every entry of a slice would be faulty in scenario common"),
        ("--mix weights(DCT:1)", "workload.mix: no weight for 'BlackScholes'"),
        ("--nbti facelifted", "NBTI model 'facelifted' is unknown"),
        ("--sigma-die -0.1", "sigma_die_volts = -0.1"),
        ("--phi 0", "phi = 0.0"),
        ("--temperature-swing uniform(-60,99)", "they add up to 273.15 ... 472.15 K"),
        ("--idle retained", "no source gives a retention voltage"),
        ("--vt0 uniform(0.2,0.9)", "must stay below the highest Vdd of environment 'dvfs'"),
        ("--of spill_rate", "stopping = {'of': 'spill_rate'}: the precision to reach is missing"),
        ("--technique rrdc", "technique 'rrdc' is unknown"),
        ("--kernel MatrixTransposed", "no trace 'MatrixTransposed'"),
        ("--engine metal", "engine 'metal' is unknown; choose from auto, numpy, numba, cuda"),
        ("--devices 0,x", "--devices 0,x: must be numbers separated by commas"),
        ("--environment dvfs --vdd 0.9", "'dvfs'"),
        ("--fault-mode table", "'turbo' asks for the faults at 1 V"),
        ("--fault-mode table --phi 0.2", "phi = 0.2: mode table takes classes from"),
        ("--rel-ci 0.1 --of median", "stopping.of = 'median': must be one of b10_life, "),
        (
            "--rel-ci 0.1 --slices-per-chip 4 --sigma-die 0.01",
            "stopping.rel_ci = 0.1: 4 slices share each die, and dies differ",
        ),
        ("--vmin-coefficient 10 --scenario clustered", "the model speaks about"),
    ],
)
def test_values_that_cannot_be_meant(line, word, here, command):
    words = line.split()
    assert_refused(command, here, words if "--mix" in words else [*SMALL, *words], word)


def test_words_that_are_no_numbers(here, command):
    """What the parser of the command line finds by itself it reports in its own form."""
    for arguments in (
        ["--instances", "many"],
        ["--shard-size", "0"],
        ["--no-such-option"],
    ):
        code, out, error = command("sweep", *arguments)
        assert (code, out) == (2, "")
        assert arguments[0].strip("-") in error
        assert "Traceback" not in error
    assert not list(here.iterdir())


def test_specs(here, command):
    Path("part.toml").write_text("life = 5\n")
    assert_refused(command, here, ["part.toml", "--epochs", "9"], "part.toml: life = 5")
    assert_refused(command, here, ["missing.toml"], "missing.toml: cannot read")
    assert_refused(
        command, here, ["."], ".: cannot read the spec (a folder without a finished shard)"
    )


# ---- traces -----------------------------------------------------------------------------------


@pytest.fixture
def good_trace(here):
    events = [alloc(0, 0, 1), write(0, 0, 0, 5), release(99, 0)]
    save_trace(trace_of(events, 100), here / "good.h5")
    return (here / "good.h5").read_bytes()


@each("kind", ["truncated", "foreign", "folder"])
def test_traces_that_are_none(kind, good_trace, here, command):
    bad = here / f"bad-{kind}.h5"
    match kind:
        case "truncated":
            bad.write_bytes(good_trace[: len(good_trace) // 2])
        case "foreign":
            bad.write_text("cycle,kind\n0,alloc\n")
        case "folder":
            bad.mkdir()
    assert_refused(command, here, ["--kernel", bad, "--out", "r.h5"], bad.name)


def test_windows_that_find_no_room(here, command):
    """ARGO hands windows out in turn: those of 100 and 101 registers get in each other's way."""
    events = [alloc(0, slot, size) for slot, size in ((0, 100), (1, 101))]
    events += [write(1, slot, 0, 5) for slot in (0, 1)] + [release(50, slot) for slot in (0, 1)]
    save_trace(trace_of(events, 100), here / "tight.h5")
    arguments = ["--kernel", "tight.h5", "--technique", "argo", "--out", "r.h5"]
    assert_refused(command, here, arguments, "no room for a window of 101 registers", "argo")


def test_a_trace_of_ones_own(good_trace, here, command):
    code, _, error = command(
        "sweep", "--kernel", "good.h5", "--instances", "2", "--technique", "rar", "--out", "r.h5"
    )
    assert code == 0, error
    assert read_header(here / "r.h5").kernels == ("by hand",)


# ---- where the results go ---------------------------------------------------------------------


def test_a_refused_sweep_leaves_the_default_folder_as_it_was(here, command):
    assert_refused(command, here, ["--technique", "rrdc"], "rrdc")
    (here / "results").mkdir()
    (here / "results" / "mine.txt").write_text("kept")
    assert_refused(command, here, ["--technique", "rrdc"], "rrdc")
    (here / "results" / "sweep.h5").write_text("kept, too")
    assert_refused(command, here, list(QUICK), "results/sweep.h5")


def test_a_file_in_the_place_of_the_default_folder(here, command):
    (here / "results").write_text("mine")
    assert_refused(command, here, list(QUICK), "results")


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


def test_twice_is_once(here, command):
    assert command("sweep", *QUICK, "--out", "r.h5")[0] == 0
    before = snapshot(here), os.stat("r.h5").st_mtime_ns
    code, out, error = command("sweep", *QUICK, "--out", "r.h5")
    assert code == 0
    assert "nothing to compute" in error
    assert "baseline" in out
    assert (snapshot(here), os.stat("r.h5").st_mtime_ns) == before


def test_every_option_reaches_the_results(here, command):
    """Guardband and horizon by their effect: full stress at 1.0 V."""
    code, _, error = command("sweep", *QUICK, "--guardband", "0.1", "--out", "r.h5")
    assert code == 0, error
    model = facelift()
    limit = 0.7 * (1 - 1.1 ** (-1 / 1.3))
    seconds = (limit / prefactor_of(model, 1.0, 353.15)) ** 4
    with open_results("r.h5") as results:
        assert results.life_years.item() == pytest.approx(seconds / 31_536_000, rel=1e-5)
    assert command("sweep", *QUICK, "--horizon", "2", "--out", "s.h5")[0] == 0
    with open_results("s.h5") as results:
        assert results.life_years.item() == 2.0
        assert results.end_cause.item() == 0


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


# ---- stopping ---------------------------------------------------------------------------------


# The files of real sweeps: the same to the last byte however they came about.
#
# Sweeps that are killed and continued: `test_kills.py`.

KERNELS = SMALL_KERNELS[:2]
SPEC = small_spec(
    instances=12,
    techniques=["baseline", "rrcd"],
    workload={"kernels": list(KERNELS), "periods": 3, "generations": 2},
)
OPTIONS = [
    *("--seed", "5", "--periods", "3", "--generations", "2", "--epochs", "4"),
    *("--technique", "baseline", "--technique", "rrcd"),
    *(word for kernel in KERNELS for word in ("--kernel", kernel)),
]


@pytest.mark.slow
def test_a_sweep_that_stops_when_it_knows_enough(here, command):
    """It says so on stderr and in the file, is left alone when finished, and equals a plain one."""
    asked = (*SMALL, "--technique", "rrcd", "--environment", "dvfs")
    asked += ("--temperature", "normal(353, 5)", "--out", "stopped.h5")
    stopping = ("--instances", "900", "--rel-ci", "0.2", "--of", "max_dvth")
    code, out, error = command("sweep", *asked, *stopping)
    assert code == 0, error
    assert "500 instances per case" in out
    said = error.splitlines()[-1]
    assert said.startswith(
        "max_dvth to ±20 % in every case with 500 of at most 900 instances; worst: rrcd dvfs "
    )
    assert said in command("show", "stopped.h5")[1].splitlines()
    code, json, error = command("show", "stopped.h5", "--json")
    assert (said in json, said in error.splitlines()) == (False, True)

    before = snapshot(here)
    assert "already holds this campaign" in command("sweep", *asked, *stopping)[2]
    assert snapshot(here) == before

    plain = [*asked[:-1], "plain.h5", "--instances", "500"]
    assert command("sweep", *plain)[0] == 0
    with open_results("stopped.h5") as single, open_results("plain.h5") as other:
        assert single.identical(other.assign_attrs(single.attrs))
        assert single.attrs.keys() - other.attrs.keys() == {"stopping", "stopped"}


def sweep_command(out, instances=12, shard_size=1, before=""):
    """A real `mcage sweep` in a process of its own, and what it does before."""
    words = ["--instances", str(instances), "--shard-size", str(shard_size), "--out", str(out)]
    program = f"{before}from mcage.cli.main import main; main()"
    return [sys.executable, "-c", program, "sweep", *OPTIONS, *words]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_sweep(SPEC, tmp_path_factory.mktemp("whole") / "whole.h5", shard_size=256)


@pytest.mark.parametrize("shard_size", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_shard_sizes_make_the_same_bytes(shard_size, whole, tmp_path):
    out = run_sweep(SPEC, tmp_path / "r.h5", shard_size=shard_size)
    assert out.read_bytes() == whole.read_bytes()
    assert list(tmp_path.iterdir()) == [out]


def test_engines_make_the_same_file_but_for_their_names(tmp_path):
    spec = small_spec(
        instances=2,
        techniques=["baseline", "rrcd+pg"],
        workload={"kernels": list(KERNELS[:1]), "periods": 1, "generations": 1},
        life={"epochs": 2},
    )
    numba, numpy = (
        file_content(run_sweep(spec, tmp_path / f"{engine}.h5", engine))
        for engine in ("numba", "numpy")
    )
    assert set(numba) == set(numpy)
    differing = {name for name in numba if numba[name] != numpy[name]}
    assert differing == {"@engine", "@campaign"}
    assert numba["@campaign"].replace('"numba"', '"numpy"') == numpy["@campaign"]
    assert (numba["@engine"], numpy["@engine"]) == ("'numba'", "'numpy'")
    assert {"spill_rate", "life_years@units", "@spec_digest", "case"} <= set(numba)


def test_the_file_names_its_sweep(whole):
    campaign = read_header(whole)
    assert campaign.spec_toml == with_programs(SPEC).to_toml()
    assert campaign.programs == {
        f"workload.kernels: {name}": bundled_trace(name).digest() for name in KERNELS
    }
    assert campaign.kernels == KERNELS
    assert [case["case"] for case in campaign.cases] == [
        "baseline turbo common 1 V",
        "rrcd turbo common 1 V",
        "baseline dvfs common 0.8/0.419 V",
        "rrcd dvfs common 0.8/0.419 V",
    ]
    assert campaign.engine == "numba"


def peak_megabytes(out, instances):
    """Peak memory of a sweep, by its own account.

    To what its parent is told of it, the parent's own memory at the time of the start belongs.
    """
    asked = "import atexit; atexit.register(lambda: print(open('/proc/self/status').read())); "
    sweep = sweep_command(out, instances, shard_size=16, before=asked)
    done = subprocess.run(sweep, capture_output=True, text=True, check=True)
    (kilobytes,) = re.findall(r"^VmHWM:\s*(\d+) kB$", done.stdout, re.MULTILINE)
    return int(kilobytes) / 1024


@pytest.mark.slow
def test_memory_does_not_grow_with_the_instances(tmp_path):
    """Four times as many, within what the memory of one and the same run varies."""
    few, many = (peak_megabytes(tmp_path / f"{n}.h5", n) for n in (32, 128))
    assert many < few + 60
    assert many < 1000
