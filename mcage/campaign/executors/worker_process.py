"""A process that computes shards, as the process that has started it sees it.

It is started, not forked, for CUDA does not survive a fork; and it ends with the process that has
started it, however that ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from mcage.campaign.study import ShardTask
from mcage.errors import UserError
from mcage.files.disk_cache import cache_folder, warn_of_others

MODULE = "mcage.campaign.executors.worker"
STDERR = 2
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS_TO_END = 1.0
"""A process ends when its connection is closed; if not within this time, it is killed."""

MOST_STARTS = 3
"""Processes that may die one after the other before they are ready."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Failed:
    """What a worker answers where a function has raised an exception."""

    error: BaseException


class WorkerProcess:
    """A process that computes shards.

    Parameters
    ----------
    name : str
        What it is called.
    cores : int
        Cores that it may use.
    device : int, optional
        The only CUDA device that it sees.

    Attributes
    ----------
    ready : bool
        Whether it has said that it is ready.
    begun : dict of int to (ShardTask, int)
        What it computes, by first instance, and how many workers each shard has ended.
    connection : Connection
        To the process, once it has been started.
    """

    connection: "Connection[Any, Any]"

    def __init__(self, name: str, cores: int, device: int | None) -> None:
        self.name = name
        self.ready = False
        self.begun: dict[int, tuple[ShardTask, int]] = {}
        self._cores = cores
        self._device = device
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def tasks(self) -> list[ShardTask]:
        """What it computes, in the order in which it has begun."""
        return [task for task, _ in self.begun.values()]

    @property
    def is_suspicious(self) -> bool:
        """Whether it computes a shard that may have ended a worker."""
        return any(ended for _, ended in self.begun.values())

    def start(self) -> None:
        """Start the process, unless it has been started.

        Raises
        ------
        UserError
            It has died too often before it was ready.
        """
        if self._process:
            return
        if self._starts == MOST_STARTS:
            raise UserError(f"{self.name} does not start; what it says stands above")
        self._starts += 1
        if folder := cache_folder():
            warn_of_others(folder)  # workers say nothing of it
        self.connection, theirs = Pipe()
        # A new session: Ctrl-C and the end of a terminal reach the process that has started it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(self._cores)],
            stdin=subprocess.DEVNULL,
            stdout=STDERR,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=self._environment(),
        )
        theirs.close()

    def _environment(self) -> dict[str, str]:
        """Modules are found where this process finds them; of all devices one is visible."""
        changed = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if self._device is not None:
            visible = os.environ.get(VISIBLE)
            changed[VISIBLE] = visible.split(",")[self._device] if visible else str(self._device)
        return os.environ | changed

    def begin(self, task: ShardTask, ended: int) -> None:
        """Have a shard computed that has ended so many workers.

        Raises
        ------
        EOFError
            The process has died.
        """
        self.begun[task.first] = task, ended
        self.send(task)

    def send(self, what: ShardTask | Callable[[], Any]) -> None:
        """Have a shard computed, or a function called.

        Raises
        ------
        EOFError
            The process has died.
        """
        try:
            self.connection.send(what)
        except OSError as error:
            raise EOFError from error

    def receive(self) -> tuple[int, Any]:
        """Wait for what it says.

        Returns
        -------
        first, answer
            The first instance of a shard and the seconds that it took; -1 and the result of a
            function, or None when it is ready. The answer may be a `Failed`.

        Raises
        ------
        EOFError
            The process has died.
        """
        try:
            first, answer = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self.ready, self._starts = True, 0
        return first, answer

    def end(self) -> str:
        """End the process at once, and say how it has ended."""
        if not self._process:
            return ""
        self.ready = False
        self.begun.clear()
        self.connection.close()
        try:
            code = self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process = None
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
