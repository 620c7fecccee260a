"""Runs mcage commands one after the other, each in a process of its own that is cheap to start.

A program: it imports mcage once, then reads one JSON request a line, forks, runs the command line
in the child, and answers with one JSON line. Started by `commands.CommandServer`.
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
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import tomli_w
import typer.main
from mutated_specs import FULL, SMALL
from small_traces import small_trace

import mcage
from mcage.cli.main import app
from mcage.errors import UserError
from mcage.files import foreign_hdf5, plain_hdf5
from mcage.traces import save_trace
from mcage.variation.field import sample_field
from mcage.variation.scenarios import SCENARIOS, scenario

SECONDS_TO_DIE = 0.002
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

    It is what `foreign_hdf5` uses of a `subprocess.Popen`.
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
    foreign_hdf5.subprocess = SimpleNamespace(Popen=ForkedReader, DEVNULL=None)
    _fill_caches()
    gc.freeze()  # a collection in a child would copy the pages of all that
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_answer(request)), flush=True)


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
        foreign_hdf5._Process.running().end()


def _answer(request: dict) -> dict:
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        _run(request)
    deadline = begin + request["seconds"]
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            break
        time.sleep(SECONDS_TO_DIE)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - begin,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def _run(request: dict) -> NoReturn:
    """Become the command: its folder, its streams, its arguments."""
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    raise AssertionError


if __name__ == "__main__":
    main()
