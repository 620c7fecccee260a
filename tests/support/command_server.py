"""Runs mcage commands one after the other, in processes that are cheap to start.

A program: it imports mcage once, then reads one JSON request a line, has a child run the command
line, and answers with one JSON line. A child runs `MOST_COMMANDS`, and no more after a command that
has ended in an unusual way or taken much memory: to fork takes longer than most commands, since
each child copies the pages that it changes, and starts a process that reads files. Started by
`commands.CommandServer`.
"""

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import tomli_w
import typer.main
from mutated_specs import FULL, SMALL
from small_traces import small_trace

import mcage
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.files import hdf5, plain_hdf5
from mcage.traces import save_trace
from mcage.variation.field import sample_field
from mcage.variation.scenarios import SCENARIOS, scenario

MOST_COMMANDS = 25
MUCH_MEMORY_BYTES = 500_000_000
IMPORTED_LATE = ("matplotlib.backends.backend_agg", "scipy.stats", "xarray.backends.h5netcdf_")
"""What commands import in the functions that use it."""

USUAL_LINES = (
    "sweep small.toml --show-spec",
    "sweep full.toml --show-spec",
    "nbti",
    "techniques",
    "sweep small.toml --engine numpy --out r.h5",
    "show r.h5 --causes",
    "replay t.h5 --technique rrcd --engine numpy",
)
"""Commands that are run before all others: what they keep in memory, no child computes again."""


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

    def poll(self) -> int | None:
        """See `subprocess.Popen`."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """See `subprocess.Popen`."""
        return self._wait(0)

    def kill(self) -> None:
        """See `subprocess.Popen`."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def main() -> None:
    """Answer requests until standard input ends."""
    _import_what_commands_use()
    for name in SCENARIOS:
        sample_field(scenario(name), 0, np.arange(1))  # keeps the factor of the field's correlation
    typer.main.get_command = functools.cache(typer.main.get_command)
    hdf5.subprocess = SimpleNamespace(Popen=ForkedReader, DEVNULL=None)
    _fill_caches()
    gc.freeze()  # a collection in a child would copy the pages of all that
    runner: Runner | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if runner and runner.is_done:
            runner.end()
            runner = None
        runner = runner or Runner()
        print(json.dumps(runner.run(request)), flush=True)
    if runner:
        runner.end()


def _import_what_commands_use() -> None:
    modules = [module.name for module in pkgutil.walk_packages(mcage.__path__, "mcage.")]
    for name in (*modules, *IMPORTED_LATE):
        if not name.endswith("__main__"):
            importlib.import_module(name)


def _fill_caches() -> None:
    """Run the usual commands in this process, in a folder of its own, with nothing printed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        Path("small.toml").write_text(tomli_w.dumps(SMALL), encoding="utf-8")
        Path("full.toml").write_text(tomli_w.dumps(FULL), encoding="utf-8")
        save_trace(small_trace(), "t.h5")
        for line in USUAL_LINES:
            with contextlib.suppress(UserError):
                app(line.split(), standalone_mode=False)
        hdf5._Process.running().end()


class Runner:
    """A process that runs a number of commands, as long as each ends as it may.

    Attributes
    ----------
    is_done : bool
        Whether it is to run no more.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._commands = 0
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(theirs)
        theirs.close()

    def run(self, request: dict) -> dict:
        """How a command ended, how long it took, and how large the process has become."""
        begin = time.monotonic()
        self._connection.send(request)
        try:
            if not self._connection.poll(request["seconds"]):
                os.killpg(self._pid, signal.SIGKILL)
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            _, status, usage = os.wait4(self._pid, 0)
            self._pid = 0
            code = os.waitstatus_to_exitcode(status)
            answer = {"code": code, "peak_bytes": usage.ru_maxrss * 1024}
        self._commands += 1
        sound = answer["code"] in (0, 2) and answer["peak_bytes"] < MUCH_MEMORY_BYTES
        self.is_done = self._commands == MOST_COMMANDS or not sound
        return answer | {"seconds": time.monotonic() - begin}

    def end(self) -> None:
        """Let the process end, if it has not."""
        self._connection.close()
        if self._pid:
            os.waitpid(self._pid, 0)


def _serve(connection: Connection) -> NoReturn:
    """Run commands, as the first process of a group, until the other end is closed."""
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while True:
            code = _run(connection.recv())
            used = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            peak = max(resource.getrusage(who).ru_maxrss for who in used) * 1024
            connection.send({"code": code, "peak_bytes": peak})
    except EOFError:
        os._exit(0)
    finally:
        os._exit(70)


def _run(request: dict) -> int:
    """Become the command: its folder, its streams, its arguments."""
    code = 70
    try:
        os.chdir(request["folder"])
        for descriptor, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, request["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, request["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.argv = ["mcage", *(os.fsdecode(bytes.fromhex(word)) for word in request["arguments"])]
        from mcage.cli.main import main as command_line

        command_line()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        sys.stderr.write(f"Traceback: {type(error).__name__}: {error}\n")
        code = 71
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    return code


if __name__ == "__main__":
    main()
