"""Processes that know mcage already: a process forks them, so that none waits for its imports.

A program, too: it serves the requests of a `Nursery`.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, NoReturn, Self

import mcage
from mcage.errors import UserError
from mcage.files import hdf5, plain_hdf5

MOST_BYTES = 1 << 18
"""Of a request or an answer: JSON over a socket."""

NO_FILTERS = {"HDF5_PLUGIN_PRELOAD": "::"}
"""As in the process that reads HDF5 files, which is forked here."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
IMPORTED_LATE = ("matplotlib.backends.backend_agg", "scipy.stats", "xarray.backends.h5netcdf_")
"""What commands import in the functions that use it."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes
    ----------
    code : int
        Exit code; minus the number of the signal that killed it.
    stdout, stderr : str
        What it printed.
    seconds, peak_bytes : float, int
        Processor time, and the most memory that its process held.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int


class Nursery:
    """The process that forks others, seen from a test; one that runs for as long as a block.

    Parameters
    ----------
    *ready : function
        Of modules, without arguments. They are called first: what they load, no child loads again.
    **environment : str
        More variables of the process.
    """

    def __init__(self, *ready: Callable, **environment: str) -> None:
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        printing = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *map(_name_of, ready)],
                pass_fds=[theirs.fileno()],
                env=os.environ | NO_FILTERS | ONE_THREAD | printing | environment,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait()

    def start(self, function: Callable, *arguments: Any) -> "Child":
        """Call a function of a module in a child, and give that child."""
        reader, writer = os.pipe()
        request = {"name": _name_of(function), "arguments": [*arguments]}
        socket.send_fds(self._socket, [json.dumps(request, default=os.fspath).encode()], [writer])
        os.close(writer)
        return Child(self, json.loads(self._socket.recv(MOST_BYTES)), reader)

    def wait(self, pid: int) -> tuple[int, float, int]:
        """Exit status, processor time and largest memory of a child, once it has ended."""
        self._socket.sendall(json.dumps({"pid": pid}).encode())
        status, seconds, kilobytes = json.loads(self._socket.recv(MOST_BYTES))
        return os.waitstatus_to_exitcode(status), seconds, kilobytes * 1024

    def run(self, arguments: list[str], folder: Path, streams: Path, seconds: float) -> Ended:
        """Run ``mcage ARGUMENTS`` in a folder; it is killed when its time by the clock is up.

        What it prints on standard error goes into a file of the folder ``streams``.
        """
        errors = streams / "stderr"
        child = self.start(command, folder, errors, *arguments)
        printed = child.read(seconds)
        code, processor_seconds, peak_bytes = self.wait(child.pid)
        stderr = errors.read_bytes().decode(errors="replace")
        return Ended(code, printed, stderr, processor_seconds, peak_bytes)


def _name_of(function: Callable) -> str:
    return f"{function.__module__}:{function.__qualname__}"


class Child:
    """A process of the nursery: its number, and what it prints on either stream."""

    def __init__(self, nursery: Nursery, pid: int, reader: int) -> None:
        self._nursery, self.pid = nursery, pid
        self.words = os.fdopen(reader, errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal: ended or not, it has not been waited for."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Exit status; until then, the number is not given to another process."""
        code, *_ = self._nursery.wait(self.pid)
        self.words.close()
        return code

    def read(self, seconds: float) -> str:
        """All that it prints until it ends; it is killed after some seconds."""
        printed, until = [], time.monotonic() + seconds
        with self.words:
            while select.select([self.words], [], [], max(0.0, until - time.monotonic()))[0]:
                printed.append(os.read(self.words.fileno(), 1 << 16))
                if not printed[-1]:
                    return b"".join(printed).decode(errors="replace")
        self.signal(signal.SIGKILL)
        return ""


# ---- the process -----------------------------------------------------------------------------


class ForkedReader:
    """Stands in for the process that reads HDF5 files: forked, since a new one takes long to start.

    It is what `mcage.files.hdf5` uses of a `subprocess.Popen`.
    """

    def __init__(self, command: list[str], pass_fds: list[int], **_: Any) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._read(*pass_fds)

    def _read(self, descriptor: int) -> NoReturn:
        try:
            os.setsid()
            for stream in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            os.closerange(3, descriptor)
            os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
            plain_hdf5.main(descriptor)
        finally:
            os._exit(0)

    def poll(self, options: int = os.WNOHANG) -> int | None:
        """See `subprocess.Popen`."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int | None:
        """See `subprocess.Popen`."""
        return self.poll(0)

    def kill(self) -> None:
        """See `subprocess.Popen`."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def main() -> None:
    """Serve requests until the other end of the socket is closed."""
    descriptor, *ready = sys.argv[1:]
    hdf5.subprocess = SimpleNamespace(Popen=ForkedReader, DEVNULL=None)
    for name in ready:
        resolve_name(name)()
    gc.freeze()  # a collection in a child would copy the pages of all that
    with socket.socket(fileno=int(descriptor)) as server:
        while True:
            message, descriptors, *_ = socket.recv_fds(server, MOST_BYTES, 1)
            if not message:
                return
            server.sendall(json.dumps(_answer(json.loads(message), *descriptors)).encode())


def _answer(request: dict[str, Any], printed: int | None = None) -> Any:
    """How a child has ended, and what it took; or the number of a new one."""
    if printed is None:
        _, status, usage = os.wait4(request["pid"], 0)
        return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
    function = resolve_name(request["name"])  # imported once for all children
    child = os.fork()
    if not child:
        _call(function, request["arguments"], printed)
    os.close(printed)
    return child


def _call(function: Callable, arguments: list[Any], printed: int) -> NoReturn:
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.close(printed)
    code = 0
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        function(*arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


# ---- what children do, and what their parent has done before ---------------------------------


def command(folder: str, errors: str, *words: str) -> None:
    """Run ``mcage WORDS`` in a folder as a program in the foreground, or with errors in a file."""
    from mcage.cli.main import main as command_line

    os.chdir(folder)
    hear_signals()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if errors:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    sys.argv = ["mcage", *map(str, words)]
    command_line()


def hear_signals() -> None:
    """Make signals do what they do for a program in the foreground.

    Tests that run in the background have been told to ignore Ctrl-C, and so have their children.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class ReadHere:
    """Stands in for a file that another process reads: to fork one takes longer than a campaign."""

    def __init__(self, path: Path, _: int) -> None:
        self._path = path

    def look_through(self) -> dict:
        """See `mcage.files.hdf5.ForeignFile`."""
        return plain_hdf5.look_through(os.fspath(self._path))


def small_campaign() -> None:
    """Run one, so that children import nothing any more; files are read by who asks for them."""
    import fake_campaign

    from mcage.results import reader

    reader.ForeignFile = ReadHere
    with tempfile.TemporaryDirectory() as folder:
        fake_campaign.run(f"{folder}/r.h5", 40, 9)


def small_sweep() -> None:
    """Run one with the numba engine, so that its machine code is loaded."""
    from sweep_cases import small_spec

    spec = small_spec(instances=2, techniques=["baseline", "rrcd"])
    _run_quietly({"spec.toml": spec.to_toml()}, "sweep spec.toml --engine numba --out r.h5")


def usual_commands() -> None:
    """Import all that commands use, and run usual ones: what they keep, no child makes again."""
    from grammars import FULL, SMALL, toml
    from small_traces import small_trace

    from mcage.traces import save_trace

    modules = [module.name for module in pkgutil.walk_packages(mcage.__path__, "mcage.")]
    for name in (*modules, *IMPORTED_LATE):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        save_trace(small_trace(), f"{folder}/t.h5")
        _run_quietly(
            {"small.toml": toml(SMALL).decode(), "full.toml": toml(FULL).decode()},
            "sweep small.toml --show-spec",
            "sweep full.toml --show-spec",
            "nbti",
            "techniques",
            "sweep small.toml --engine numpy --out r.h5",
            "show r.h5 --causes",
            f"replay {folder}/t.h5 --technique rrcd --engine numpy",
        )


def _run_quietly(files: dict[str, str], *lines: str) -> None:
    """Run commands in this process, in a folder of its own, with nothing printed."""
    from mcage.cli.app import app

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        for name, content in files.items():
            Path(name).write_text(content, encoding="utf-8")
        for line in lines:
            with contextlib.suppress(UserError):  # what refuses has loaded its code as well
                app(line.split(), standalone_mode=False)
    if hdf5._Process._running:
        hdf5._Process._running.end()


if __name__ == "__main__":
    main()
