"""The command line of a sweep: what it refuses, what it leaves behind, what it imports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbti_cases import prefactor_of
from sweep_cases import SMALL_KERNELS, file_content, small_spec
from trace_strategies import alloc, release, trace_of, write

from mcage import run_sweep
from mcage.aging.nbti import facelift
from mcage.cli import main
from mcage.errors import UserError
from mcage.results.reader import open_results, read_header
from mcage.studies.sweep.plan import with_programs
from mcage.studies.sweep.study import Sweep
from mcage.traces import bundled_trace, save_trace

HEAVY = ("numpy", "numba", "pydantic", "matplotlib", "h5py", "scipy", "xarray", "rich.console")
SMALL = ("--kernel", "MatrixTranspose", "--generations", "1", "--periods", "1", "--epochs", "1")
QUICK = (*SMALL, "--instances", "1", "--technique", "baseline", "--environment", "turbo")
QUICK += ("--set", "spread=false")


def quick_with(*options):
    """`QUICK` with these options in place of its own."""
    pairs = zip(QUICK[::2], QUICK[1::2], strict=True)
    return [*(text for pair in pairs if pair[0] not in options for text in pair), *options]


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


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--instances", "0", "instances = 0"),
        ("--instances", "-5", "instances = -5"),
        ("--instances", "99999999999", "instances = 99999999999"),
        ("--seed", "-1", "seed = -1"),
        ("--seed", str(2**63), "seed"),
        ("--vdd", "0", "vdd_volts.0 = 0"),
        ("--vdd", "-0.4", "vdd_volts.0 = -0.4"),
        ("--vdd", "nan", "vdd_volts.0 = nan"),
        ("--vdd", "inf", "vdd_volts.0 = inf"),
        ("--vdd", "419", "vdd_volts.0 = 419"),
        ("--vdd", "0.3", "every entry of a slice would be faulty in scenario common"),
        ("--periods", "0", "workload.periods = 0"),
        ("--generations", "-1", "workload.generations = -1"),
        ("--mix", "dirichlet(0)", "workload.mix = 'dirichlet(0)': alpha = 0 must be"),
        ("--mix", "weights(DCT: 1)", "workload.mix: no weight for 'BlackScholes'"),
        ("--release", "wave", "workload.release = 'wave'"),
        ("--horizon", "0", "life.horizon_years = 0"),
        ("--horizon", "nan", "life.horizon_years = nan"),
        ("--horizon", "1e300", "life.horizon_years"),
        ("--epochs", "0", "life.epochs = 0"),
        ("--guardband", "-0.1", "life.delay_guardband = -0.1"),
        ("--guardband", "nan", "life.delay_guardband = nan"),
        ("--temperature", "80", "life.temperature_kelvin = 80"),
        ("--temperature", "inf", "life.temperature_kelvin = inf"),
        ("--vmin-coefficient", "-1", "life.vmin_coefficient = -1"),
        ("--nbti", "facelifted", "NBTI model 'facelifted' is unknown"),
        ("--nbti", "nowhere:MINE", "cannot import 'nowhere'"),
        ("--slices-per-chip", "0", "faults.slices_per_chip = 0"),
        ("--sigma-die", "-0.1", "sigma_die_volts = -0.1"),
        ("--sigma-systematic", "nan", "faults.sigma_systematic_volts = nan"),
        ("--sigma-random", "0", "sigma_random_volts = 0.0"),
        ("--phi", "0", "phi = 0.0"),
        ("--temperature", "normal(353, 60)", "must stay within 200 ... 450 K, but it draws from"),
        ("--temperature", "norm(353, 5)", "life.temperature_kelvin = 'norm(353, 5)': 'norm' is no"),
        ("--temperature-swing", "uniform(-60, 99)", "they add up to 273.15 ... 472.15 K"),
        ("--temperature-swing", "hot", "life.temperature_swing_kelvin = 'hot'"),
        ("--activity", "0", "life.activity = 0"),
        ("--idle", "retained", "no source gives a retention voltage"),
        ("--vt0", "uniform(0.3)", "uniform(a, b) takes 2 numbers, not 1"),
        ("--vt0", "uniform(0.2, 0.9)", "must stay below the highest Vdd of environment 'dvfs'"),
        ("--shift-factor", "discrete(1: 0.5)", "shares above 0 that sum to 1, not to 0.5"),
        ("--lds-rows", "-1", "registers.lds_rows = -1"),
        ("--selector-offsets", "7", "registers.selector_offsets = 7"),
        ("--delta-limit", "63", "registers.delta_limit = 63"),
        ("--delta-limit", "some", "registers.delta_limit = 'some'"),
        ("--technology", "30nm", "costs.technology = '30nm'"),
        ("--rel-ci", "0", "stopping.rel_ci = 0.0: input should be greater than 0"),
        ("--rel-ci", "1", "stopping.rel_ci = 1.0: input should be less than 1"),
        ("--rel-ci", "nan", "stopping.rel_ci = nan"),
        (
            "--of",
            "spill_rate",
            "stopping = {'of': 'spill_rate'}: the precision to reach is missing",
        ),
        ("--technique", "rrdc", "technique 'rrdc' is unknown"),
        ("--technique", "nowhere:MINE", "cannot import 'nowhere'"),
        ("--environment", "usual", "environments: unknown 'usual'; choose from turbo"),
        ("--scenario", "Común", "scenarios.0 = 'Común'"),
        ("--kernel", "MatrixTransposed", "no trace 'MatrixTransposed'"),
        ("--fault-mode", "drawn", "faults.mode = 'drawn'"),
        ("--engine", "metal", "engine 'metal' is unknown; choose from auto, numpy, numba, cuda"),
        ("--devices", "0,x", "--devices 0,x: must be numbers separated by commas"),
    ],
)
def test_values_that_cannot_be_meant(option, value, word, here, command):
    assert_refused(command, here, [option, value], word)


def test_values_that_contradict_each_other(here, command):
    for arguments, word in [
        (["--environment", "dvfs", "--vdd", "0.9"], "'dvfs'"),
        (["--fault-mode", "table", "--environment", "turbo"], "knows those at 0.419 V only"),
        (["--fault-mode", "table"], "'turbo' asks for the faults at 1 V"),
        (["--fault-mode", "table", "--environment", "dvfs", "--vdd", "0.5"], "at 0.419 V only"),
        (["--fault-mode", "table", "--phi", "0.2"], "phi = 0.2: mode table takes classes from"),
        (["--fault-mode", "varius-selected"], "faults.mode = 'varius-selected': input should be"),
        (["--technique", "rrcd", "--technique", "rrcd"], "techniques = ['rrcd', 'rrcd']"),
        (
            ["--rel-ci", "0.1", "--of", "median"],
            "stopping.of = 'median': must be one of b10_life, ",
        ),
        (["--rel-ci", "0.1", "--of", "life"], "b10_life, median_life, rmst, max"),
        (
            ["--rel-ci", "0.1", "--slices-per-chip", "4", "--sigma-die", "0.01"],
            "stopping.rel_ci = 0.1: 4 slices share each die, and dies differ",
        ),
        (["--vmin-coefficient", "10", "--scenario", "clustered"], "the model speaks about"),
    ]:
        assert_refused(command, here, [*SMALL, *arguments], word)


def test_words_that_are_no_numbers(here, command):
    """What the parser of the command line finds by itself it reports in its own form."""
    for arguments in (
        ["--instances", "many"],
        ["--vdd", "low"],
        ["--shard-size", "0"],
        ["--no-such-option"],
        ["one.toml", "two.toml"],
    ):
        code, out, error = command("sweep", *arguments)
        assert (code, out) == (2, "")
        assert arguments[0].strip("-") in error or "two.toml" in error
        assert "Traceback" not in error
    assert not list(here.iterdir())


def test_specs(here, command):
    Path("unknown.toml").write_text("[life]\nepoch = 5\n")
    Path("nan.toml").write_text("vdd_volts = [nan]\n")
    Path("no.toml").write_text("instances : 5\n")
    Path("part.toml").write_text("life = 5\n")
    assert_refused(command, here, ["unknown.toml"], "unknown.toml", "unknown key 'life.epoch'")
    assert_refused(command, here, ["nan.toml"], "nan.toml", "vdd_volts.0 = nan")
    assert_refused(command, here, ["no.toml"], "no.toml: not TOML")
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


@pytest.mark.parametrize(
    "kind", ["missing", "truncated", "foreign", "empty", "corrupted", "folder"]
)
def test_traces_that_are_none(kind, good_trace, here, command):
    bad = here / "bad.h5"
    match kind:
        case "truncated":
            bad.write_bytes(good_trace[: len(good_trace) // 2])
        case "foreign":
            bad.write_text("cycle,kind\n0,alloc\n")
        case "empty":
            bad.write_bytes(b"")
        case "corrupted":
            middle = len(good_trace) // 2
            bad.write_bytes(good_trace[:middle] + b"\x55\xaa" + good_trace[middle + 2 :])
        case "folder":
            bad.mkdir()
    assert_refused(command, here, ["--kernel", "bad.h5", "--out", "r.h5"], "bad.h5")


def test_results_are_no_trace(here, command):
    assert command("sweep", *QUICK, "--out", "r.h5")[0] == 0
    assert_refused(command, here, ["--kernel", "r.h5", "--out", "s.h5"], "r.h5")


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


def test_destinations_that_cannot_be_written(here, command):
    (here / "folder").mkdir()
    (here / "file").write_text("mine")
    for out, word in [
        ("folder", "folder is a folder"),
        ("missing/r.h5", "no folder missing"),
        ("file/r.h5", "no folder file"),
        ("", "is a folder"),
    ]:
        assert_refused(command, here, [*QUICK, "--out", out], word)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that not even root writes to")
def test_a_folder_that_nobody_can_write_to(here, command):
    assert_refused(command, here, [*QUICK, "--out", "/proc/r.h5"], "cannot write", "/proc/r.h5")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(here, command):
    (here / "shut").mkdir(mode=0o555)
    assert_refused(command, here, [*QUICK, "--out", "shut/r.h5"], "cannot write", "shut/r.h5")


@pytest.mark.parametrize("content", [b"", b"my notes", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_a_file_of_something_else_is_kept(content, here, command):
    (here / "r.h5").write_bytes(content)
    assert_refused(command, here, [*QUICK, "--out", "r.h5"], "r.h5")


def test_results_of_another_sweep_are_kept(here, command):
    assert command("sweep", *QUICK, "--out", "r.h5")[0] == 0
    for change in (["--seed", "2"], ["--engine", "numpy"], ["--epochs", "2"]):
        line = quick_with("--out", "r.h5", *change)
        assert_refused(command, here, line, "r.h5 already holds")
    # More instances are the same sweep, and are added; fewer would lose some.
    assert command("sweep", *quick_with("--out", "r.h5", "--instances", "2"))[0] == 0
    assert_refused(command, here, [*QUICK, "--out", "r.h5"], "r.h5")


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_damaged_results_are_kept(where, damage, here, command, one_result):
    content = one_result
    byte = min(int(where * len(content)), len(content) - 1)
    changed = content[:byte] + bytes([content[byte] ^ 0x55]) + content[byte + 1 :]
    (here / "r.h5").write_bytes(content[:byte] if damage == "truncated" else changed)
    assert_refused(command, here, [*QUICK, "--out", "r.h5"], "r.h5")
    code, out, error = command("show", "r.h5")
    assert (code, out) == (2, "")
    assert "r.h5" in error


@pytest.fixture(scope="module")
def one_result(tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "r.h5"
    fields = {"kernels": ["MatrixTranspose"], "generations": 1, "periods": 1}
    run_sweep(small_spec(instances=1, techniques=["baseline"], workload=fields), out)
    return out.read_bytes()


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


def sweep_command(out, instances=12, shard_size=1, before=""):
    """A real `mcage sweep` in a process of its own, and what it does before."""
    words = ["--instances", str(instances), "--shard-size", str(shard_size), "--out", str(out)]
    program = f"{before}from mcage.cli.main import main; main()"
    return [sys.executable, "-c", program, "sweep", *OPTIONS, *words]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_sweep(SPEC, tmp_path_factory.mktemp("whole") / "whole.h5", shard_size=256)


@pytest.mark.parametrize("shard_size", [1, 5, 12])
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


def test_the_same_sweep_twice_computes_nothing(whole, monkeypatch):
    before = whole.read_bytes(), os.stat(whole).st_mtime_ns

    def compute(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(Sweep, "compute", compute)
    monkeypatch.setattr(Sweep, "prepare", compute)
    assert run_sweep(SPEC, whole) == whole
    assert (whole.read_bytes(), os.stat(whole).st_mtime_ns) == before


def digest_of(kernel):
    return bundled_trace(kernel).digest()


def test_the_file_names_its_sweep(whole):
    campaign = read_header(whole)
    assert campaign.spec_toml == with_programs(SPEC).to_toml()
    assert campaign.programs == {f"workload.kernels: {name}": digest_of(name) for name in KERNELS}
    assert campaign.kernels == KERNELS
    assert [case["case"] for case in campaign.cases] == [
        "baseline turbo common 1 V",
        "rrcd turbo common 1 V",
        "baseline dvfs common 0.8/0.419 V",
        "rrcd dvfs common 0.8/0.419 V",
    ]
    assert campaign.engine == "numba"


def test_one_instance(tmp_path):
    out = run_sweep(small_spec(instances=1, techniques=["rrcd"]), tmp_path / "r.h5")
    assert read_header(out).instances == 1


def peak_megabytes(out, instances):
    """Peak memory of a sweep, by its own account.

    To what its parent is told of it, the parent's own memory at the time of the start belongs.
    """
    asked = "import atexit; atexit.register(lambda: print(open('/proc/self/status').read())); "
    sweep = sweep_command(out, instances, shard_size=16, before=asked)
    done = subprocess.run(sweep, capture_output=True, text=True, check=True)
    (kilobytes,) = re.findall(r"^VmHWM:\s*(\d+) kB$", done.stdout, re.MULTILINE)
    return int(kilobytes) / 1024


def test_memory_does_not_grow_with_the_instances(tmp_path):
    """Four times as many, within what the memory of one and the same run varies."""
    few, many = (peak_megabytes(tmp_path / f"{n}.h5", n) for n in (32, 128))
    assert many < few + 60
    assert many < 1000
