"""The order of tests, the memory of workers, and fixtures that suites share."""

import ctypes
import functools
import gc
import os
import shutil
import sys
from pathlib import Path

# Workers have a core each: a second thread of NumPy's linear algebra waits for work, which counts.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import places

# Tests, and what they start, import the checkout that they lie in, whatever is installed.
sys.path.insert(0, str(places.ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])])
)

import fake_campaign
import pytest
import typer.main
import typer.testing
from campaign_cases import CAMPAIGN
from hypothesis import settings

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli import main
from mcage.traces import library

HERE = Path(__file__).parent
SUITES = ("validation", "parity", "system", "unit")
"""Folders, in the order in which they run: short tests last, so that all workers end together."""

settings.register_profile("few", max_examples=25, deadline=None)
settings.register_profile("many", max_examples=1000, deadline=None)
settings.load_profile("few")  # `--hypothesis-profile=many` takes the other

NOTHING_COMPILED = (
    (
        "parity/test_kernels_compile.py",
        "parity/test_ptx.py",
        "system/test_worker_kills.py",
        "parity/test_host_gpu.py",
        "unit/variation",
        "validation/test_rare_proposals.py",
    ),
    (
        "system/test_foreign_files.py",
        "system/test_failing_calls.py",
        "system/test_kill_9.py",
        "unit/stats",
        "system/test_fuzz.py",
    ),
)
"""What two workers do while the numba engine is compiled beside them: what needs none of it.

The last of each half draw fault maps: by then the short functions for that are compiled, too.
"""

MUCH_MEMORY_BYTES = 1 << 28
"""What a worker may take more before it looks for memory to give back."""

OBJECTS_BEFORE_GARBAGE = (20_000, 20, 50)
"""When Python looks for garbage itself: seldom, since tests leave little, and looking is slow."""

KEPT_FOR_ALL_SUITES = ("compile_engine", "host_gpu.compiler")
"""Modules whose caches are small, and needed to the end."""

bytes_after_trim = 0


def resident_bytes():
    """Memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def pytest_addoption(parser):
    """``--ptx=90``: CUDA kernels that tests run on the host are NVRTC's PTX for sm_90."""
    parser.addoption("--ptx", type=int, metavar="ARCHITECTURE", help="run NVRTC's PTX of kernels")


def pytest_configure(config):
    """Let devices of the host take the PTX of an architecture if that is asked for."""
    if architecture := config.getoption("ptx"):
        from host_gpu.host_device import HostDevice

        HostDevice.everywhere_ptx, HostDevice.everywhere_architecture = True, architecture


@pytest.fixture(scope="session", autouse=True)
def _empty_folder(tmp_path_factory):
    """Work in an empty folder, so that no file of a test lies in the checkout."""
    os.chdir(tmp_path_factory.mktemp("empty"))


def pytest_sessionstart(session):
    """Keep on disk what fault-free slices do, for all workers and all that they start."""
    os.environ["MCAGE_CACHE"] = str(_replays(session))
    # The terminal's width, which workers are told, is no matter of what they test.
    os.environ.pop("COLUMNS", None)


def pytest_sessionfinish(session):
    """Remove replays when all workers have come to their end: a gigabyte would stay."""
    if not _workers_share():
        shutil.rmtree(_replays(session), ignore_errors=True)


def _replays(session):
    """A folder of this run of the tests, the same in all workers."""
    folder = session.config._tmp_path_factory.getbasetemp()
    return (folder.parent if _workers_share() else folder) / "replays"


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once():
    """Typer makes the commands of an app from its functions; each line would have them made anew.

    That would be four fifths of what a line takes that is refused or asks for help.
    """
    made = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", made)
        patch.setattr(typer.testing, "_get_command", made)
        yield


@pytest.fixture(scope="session", autouse=True)
def _bundled_traces_are_read_once():
    """All ten take 100 MB, and hundreds of tests read one or some of them, 60 ms each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "load_own_trace", functools.cache(library.load_own_trace))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, and later not among what is there by then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*OBJECTS_BEFORE_GARBAGE)
        gc.enable()


def pytest_collection_modifyitems(items):
    """Give each of two workers something to begin and to end with.

    Each worker starts with its half of the tests, in their order, and in the end takes tests over
    from behind: these are short.
    """
    items.sort(key=lambda item: SUITES.index(_suite(item)))
    free = [[item for item in items if _begins_with(item.path) == half] for half in range(2)]
    for half, files in zip(free, NOTHING_COMPILED, strict=True):
        half.sort(key=lambda item: [_is_in(name, item.path) for name in files].index(True))
    rest = [item for item in items if _begins_with(item.path) is None]
    if rest and _workers_share():
        _compile_engine().begin()
    first, second, short = (
        [item for item in rest if _suite(item) in suites]
        for suites in (("validation", "parity"), ("system",), ("unit",))
    )
    in_first_half = max(0, len(items) // 2 - len(free[0]) - len(first))
    items[:] = free[0] + first + short[:in_first_half] + free[1] + second + short[in_first_half:]


def _workers_share():
    return "PYTEST_XDIST_WORKER" in os.environ


def _compile_engine():
    import compile_engine

    return compile_engine


@functools.cache
def _begins_with(path):
    """The half of the tests that begins with those of a file; None if they need the engine."""
    halves = (any(_is_in(name, path) for name in names) for names in NOTHING_COMPILED)
    return next((half for half, found in enumerate(halves) if found), None)


def _is_in(name, path):
    return path.is_relative_to(HERE / name)


def _suite(item):
    return _suite_of(item.path)


@functools.cache
def _suite_of(path):
    return path.relative_to(HERE).parts[0]


def pytest_runtest_setup(item):
    """Where workers share the engine, wait until it is compiled."""
    if _workers_share() and _begins_with(item.path) is None:
        _compile_engine().wait()


def pytest_runtest_teardown(item, nextitem):
    """Let go of what a file or a suite has kept for its tests, and give memory to the system.

    C's library keeps it otherwise. To look for garbage takes a third of a second: that is done
    after each suite and where much was taken, not after each file.
    """
    global bytes_after_trim
    file_ends = nextitem is not None and nextitem.path != item.path
    suite_ends = file_ends and _suite(nextitem) != _suite(item)
    much_taken = resident_bytes() > bytes_after_trim + MUCH_MEMORY_BYTES
    if suite_ends:
        _forget_suite()
    elif file_ends:
        _forget(item.module)
    if suite_ends or much_taken:
        gc.collect()
    if file_ends or much_taken:
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
        bytes_after_trim = resident_bytes()


def _forget_suite():
    """Let go of the replays and sweeps that the tests of a suite have kept for one another."""
    for name, module in list(sys.modules.items()):
        here = Path(getattr(module, "__file__", None) or "/").is_relative_to(HERE)
        if here and name not in KEPT_FOR_ALL_SUITES:
            _forget(module)


def _forget(module):
    """Let go of what the functions of a module have kept."""
    for value in list(vars(module).values()):
        if hasattr(value, "cache_clear") and value.__module__ == module.__name__:
            value.cache_clear()


@pytest.fixture(params=["numpy", "numba", "cuda"])
def engine(request):
    """Every engine; the kernels of `cuda` run on the host."""
    if request.param == "numpy":
        from mcage.engines.numpy_engine import NumpyEngine

        return NumpyEngine()
    if request.param == "numba":
        from mcage.engines.numba_engine import NumbaEngine

        return NumbaEngine()
    from host_gpu.compiler import host_compiler
    from host_gpu.host_device import HostDevice

    from mcage.engines.cuda_engine import CudaEngine

    if host_compiler() is None:
        pytest.skip("no C++ compiler to run the kernels with")
    return CudaEngine([HostDevice()], 1)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`mcage` in an empty folder: exit code, text on stdout, text on stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mcage", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main.main()
        captured = capsys.readouterr()
        return leaving.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def refusal(command):
    """What `mcage` says on stderr when it refuses: exit code 2, and nothing on stdout."""

    def run(*arguments):
        code, out, said = command(*arguments)
        assert (code, out) == (2, ""), said
        return said

    return run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted") / "r.h5"
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20)
    return out.read_bytes()
