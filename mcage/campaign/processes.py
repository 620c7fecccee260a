"""Shards in processes of this machine, each with its share of the cores and a device of its own.

A worker that dies is replaced, and what it had begun is computed again: by a worker that computes
nothing else meanwhile, so that it becomes clear which shard has ended it.
"""

import os
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from threading import Lock
from types import TracebackType
from typing import Any, NoReturn, Self

from mcage.campaign.executors import TRIES, Answer, MadeShard, described, given_up, may_begin, timed
from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import limit_cores, share_devices, usable_cores
from mcage.errors import UserError
from mcage.files.atomic import remove_all_in_work
from mcage.files.disk_cache import cache_folder, warn_of_others
from mcage.plain_text import said_by

# A process that computes shards, as the process that has started it sees it.
#
# It is started, not forked, for CUDA does not survive a fork; and it ends with the process that
# has started it, however that ends.

MODULE = "mcage.campaign.processes"
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
    sharers : int
        Processes that use each device which it sees, this one included.

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

    def __init__(self, name: str, cores: int, device: int | None, sharers: int) -> None:
        self.name = name
        self.ready = False
        self.begun: dict[int, tuple[ShardTask, int]] = {}
        self._cores = cores
        self._device = device
        self._sharers = sharers
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
        given = f"{theirs.fileno()}, {self._cores}, {self._sharers}"
        program = f"from {MODULE} import work; work({given})"
        # A new session: Ctrl-C and the end of a terminal reach the process that has started it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
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


class Processes:
    """Computes in processes of this machine, until it is left.

    Parameters
    ----------
    number : int
        How many.
    devices : sequence of int
        Numbers of CUDA devices; the processes take turns with them. If there are none, each sees
        all devices.
    say : callable, optional
        Is told of workers that die.
    """

    def __init__(self, number: int, devices: Sequence[int] = (), say: Say | None = None) -> None:
        self._say = say or (lambda _: None)
        cores = max(1, usable_cores() // number)
        device_of = [devices[place % len(devices)] if devices else None for place in range(number)]
        self._crew = [
            WorkerProcess(f"worker {place + 1}", cores, device, device_of.count(device))
            for place, device in enumerate(device_of)
        ]

    @property
    def workers(self) -> int:
        """As `Executor.workers`."""
        return len(self._crew)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._crew:
            worker.end()

    def ask(self, function: Callable[[], Answer]) -> Answer:
        """Call a function in a worker, and return what it returns.

        Parameters
        ----------
        function : callable
            A value that travels; so does its result.

        Raises
        ------
        Exception
            As the function does.
        UserError
            The function has ended `TRIES` workers.
        """
        worker = self._crew[0]
        deaths = 0
        while True:
            worker.start()
            try:
                while not worker.ready:
                    worker.receive()
                worker.send(function)
                _, answer = worker.receive()
            except EOFError as death:
                deaths += worker.ready  # otherwise it was not at work yet
                last = worker.end()
                if deaths == TRIES:
                    raise given_up(None, deaths, last) from death
                self._say(f"{worker.name} has died ({last}) and is replaced")
                continue
            if isinstance(answer, Failed):
                raise answer.error
            result: Answer = answer
            return result

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        return self.ask(partial(described, make))

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`.

        A caller that is interrupted does not wait for the shards in flight: their workers end.
        """
        for worker in self._crew:
            worker.start()
        try:
            yield from _Run(self._crew, self._say, study, tasks).finished()
        finally:
            for worker in self._crew:
                if worker.begun:
                    worker.end()


class _Run:
    """Tasks on their way through the workers."""

    def __init__(
        self, crew: Sequence[WorkerProcess], say: Say, study: Study, tasks: Iterable[ShardTask]
    ) -> None:
        self._crew = crew
        self._say = say
        self._study = study
        self._to_do = iter(tasks)
        self._all_taken = False
        self._again: deque[tuple[ShardTask, int]] = deque()
        self._failure: BaseException | None = None

    def finished(self) -> Generator[MadeShard, None, None]:
        while True:
            for worker in self._crew:
                self._hand_out(worker)
            waiting = [w for w in self._crew if w.begun or (self._more and not w.ready)]
            if not waiting:
                break
            ready = wait([worker.connection for worker in waiting])
            for worker in waiting:
                if worker.connection in ready:
                    yield from self._heard(worker)
        if self._failure:  # a defect of one shard loses no other
            raise self._failure

    @property
    def _more(self) -> bool:
        """Whether there is something to hand out."""
        return not self._failure and bool(self._again or not self._all_taken)

    def _hand_out(self, worker: WorkerProcess) -> None:
        while worker.ready and self._more and (task := self._next(worker)):
            try:
                worker.begin(*task)
            except EOFError:
                self._replace(worker)

    def _next(self, worker: WorkerProcess) -> tuple[ShardTask, int] | None:
        """What a worker should begin, and how many workers this task has ended."""
        if self._again:
            return None if worker.begun else self._again.popleft()
        if worker.is_suspicious or not may_begin(worker.tasks, self._study):
            return None
        task = next(self._to_do, None)
        self._all_taken = task is None
        return (task, 0) if task else None

    def _heard(self, worker: WorkerProcess) -> Generator[MadeShard, None, None]:
        try:
            first, answer = worker.receive()
        except EOFError:
            self._replace(worker)
            return
        if first not in worker.begun:  # it has said that it is ready
            return
        task, ended = worker.begun.pop(first)
        if isinstance(answer, Failed):
            self._failure = self._failure or answer.error
        else:
            yield MadeShard(task, answer, worker.name, ended + 1)

    def _replace(self, worker: WorkerProcess) -> None:
        """Start a worker anew, and note which shards it may have died of."""
        begun = tuple(worker.begun.values())
        how = worker.end()
        words = ", ".join(in_words(task.instances) for task, _ in begun)
        and_its = f"; its shards ({words}) are computed again" if begun else ""
        self._say(f"warning: {worker.name} has died ({how}) and is replaced{and_its}")
        for task, ended in begun:
            if ended + 1 == TRIES:
                self._failure = self._failure or given_up(task, TRIES, f"the last by {how}")
            else:
                self._again.append((task, ended + 1))
        worker.start()


# A worker: the program of a process that computes shards for another one.
#
# It takes tasks and functions from a connection and answers through it; what it prints goes to
# standard error. When the connection ends, it ends.

MOST_AT_ONCE = 256
"""Shards that may be computed at once; how many are, those decide who send them."""


def work(descriptor: int, cores: int, sharers: int) -> NoReturn:
    """Compute until nobody asks any more."""
    limit_cores(cores)
    share_devices(sharers)
    warnings.filterwarnings("ignore", module="mcage.files.disk_cache")  # their parent says it
    connection: Connection[Any, Any] = Connection(descriptor)
    answers = _Answers(connection)
    pool = ThreadPoolExecutor(MOST_AT_ONCE)
    answers.send(-1, None)
    try:
        while True:
            what = connection.recv()
            if isinstance(what, ShardTask):
                pool.submit(answers.give, what.first, partial(timed, what))
            else:
                pool.submit(answers.give, -1, what)
    except (EOFError, OSError):
        remove_all_in_work()
        os._exit(0)


class _Answers:
    """Sends results, from any thread."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._sending = Lock()

    def give(self, first: int, function: Any) -> None:
        """Call a function, and send its result or its error."""
        try:
            answer = function()
        except BaseException as error:
            answer = Failed(_traveling(error))
        self.send(first, answer)

    def send(self, first: int, answer: Any) -> None:
        with self._sending:
            self._connection.send((first, answer))


def _traveling(error: BaseException) -> BaseException:
    """The error, with its traceback as a note; or another one with its words, if it cannot travel.

    The traceback of a `UserError` says nothing to users.
    """
    import traceback

    if not isinstance(error, UserError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(said_by(error))
    return error
