"""Commands of mcage as processes: what they print, how they end, how long and how big they get."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

NO_FILTERS = {"HDF5_PLUGIN_PRELOAD": "::"}
"""As in the process that reads HDF5 files, which is forked where commands are served."""


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
        Wall-clock time, and the most memory that its process held by then.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int


class CommandServer:
    """Runs commands for as long as it is open; mcage is imported once for all of them."""

    def __init__(self) -> None:
        one_thread = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("command_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | one_thread | NO_FILTERS | {"COLUMNS": "200", "NO_COLOR": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, arguments: list[str], folder: Path, streams: Path, seconds: float) -> Ended:
        """Run ``mcage ARGUMENTS`` in a folder; it is killed when its time is up.

        Parameters
        ----------
        arguments : list of str
            The command line without its first word; no NUL in it.
        folder : Path
            The current folder of the command.
        streams : Path
            Folder for what it prints.
        seconds : float
            Its time limit.
        """
        stdout, stderr = streams / "stdout", streams / "stderr"
        request = {
            "arguments": [os.fsencode(word).hex() for word in arguments],
            "folder": str(folder),
            "stdout": str(stdout),
            "stderr": str(stderr),
            "seconds": seconds,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        printed = (path.read_bytes().decode(errors="replace") for path in (stdout, stderr))
        out, err = printed
        return Ended(answer["code"], out, err, answer["seconds"], answer["peak_bytes"])
