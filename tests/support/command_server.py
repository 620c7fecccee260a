"""Runs mcage commands one after the other, each in a process of its own that is cheap to start.

A program: it imports mcage once, then reads one JSON request a line, forks, runs the command line
in the child, and answers with one JSON line. Started by `commands.CommandServer`.
"""

import json
import os
import resource
import signal
import sys
import time
from typing import NoReturn

SECONDS_TO_DIE = 0.005


def main() -> None:
    """Answer requests until standard input ends."""
    _import_what_commands_use()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_answer(request)), flush=True)


def _import_what_commands_use() -> None:
    import h5py  # noqa: F401
    import matplotlib  # noqa: F401
    import xarray  # noqa: F401

    import mcage.cli.main
    import mcage.engines.numpy_engine.engine
    import mcage.report.tables.summary
    import mcage.results.reader
    import mcage.spec  # noqa: F401


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
