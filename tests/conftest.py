"""The order of tests, the memory of workers, and what is done once for all tests."""

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
from hypothesis import Phase, settings

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli import main
from mcage.traces import library

HERE = Path(__file__).parent
SUITES = ("validation", "parity", "system", "unit")
"""Folders, in the order in which they run: short tests last, so that all workers end together."""

settings.register_profile("few", max_examples=25, deadline=None)
settings.register_profile("many", max_examples=1000, deadline=None)
settings.register_profile(
    "unshrunk", settings.get_profile("few"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("few")  # `--hypothesis-profile=many` takes the other

MUCH_MEMORY_BYTES = 1 << 28
"""What a worker may take more before it looks for memory to give back."""

OBJECTS_BEFORE_GARBAGE = (20_000, 20, 50)
"""When Python looks for garbage itself: seldom, since tests leave little, and looking is slow."""

KEPT_TO_THE_END = "host_gpu.compiler"
"""Module whose caches are small, and needed to the end."""

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
    """Let devices of the host take the PTX of an architecture if that is asked for.

    Where workers share the engine, compile it while they collect tests.
    """
    if architecture := config.getoption("ptx"):
        from host_gpu.host_device import HostDevice

        HostDevice.everywhere_ptx, HostDevice.everywhere_architecture = True, architecture
    if getattr(config.option, "numprocesses", None) and not config.option.collectonly:
        import compile_engine

        compile_engine.begin()


def pytest_collection_finish():
    """Wait until the engine is compiled, where a process beside the workers does that."""
    if _workers_share():
        import compile_engine

        compile_engine.wait()


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
    """Sort tests by their suite."""
    items.sort(key=lambda item: SUITES.index(_suite(item)))


def _workers_share():
    return "PYTEST_XDIST_WORKER" in os.environ


def _suite(item):
    return _suite_of(item.path)


@functools.cache
def _suite_of(path):
    return path.relative_to(HERE).parts[0]


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
        if here and name != KEPT_TO_THE_END:
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
