"""Shards in other processes: those of this machine, or the workers of a Dask scheduler.

A process of this machine has its share of the cores and a device of its own; one that dies is
replaced by another one of the same name, share and device.
"""

import importlib.util
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from mcage.campaign.executors import Answer, Executor, MadeShard, Say, WorkerDiedError
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import limit_cores, share_devices, usable_cores
from mcage.errors import UserError, pip_install
from mcage.files.atomic import remove_all_in_work
from mcage.files.disk_cache import cache_folder, warn_of_others
from mcage.plain_text import said_by, shown

if TYPE_CHECKING:
    from distributed import Client

# A process that computes shards, as the process that has started it sees it.
#
# It is started, not forked, for CUDA does not survive a fork; and it ends with the process that
# has started it, however that ends. The processes of `concurrent.futures` do neither: they import
# the script of the user once more, and outlive a process that is killed.

MODULE = "mcage.campaign.processes"
STDERR = 2
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS_TO_END = 1.0
"""A process ends when its connection is closed; if not within this time, it is killed."""

MOST_STARTS = 3
"""Processes that may die one after the other before they are ready."""

READY = -1
"""In place of the number of a call: the process is ready."""


class WorkerProcess:
    """A process that computes shards, started when it is first needed, and again when it has died.

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
    calls : dict of int to Future
        What it has not answered yet.
    """

    def __init__(self, name: str, cores: int, device: int | None, sharers: int) -> None:
        self.name = name
        self.calls: dict[int, Future[Any]] = {}
        self._cores, self._device, self._sharers = cores, device, sharers
        self._numbers = count()
        self._connection: Connection[Any, Any] | None = None
        self._starts = 0
        self._state = Lock()
        self._listener = Thread()

    def submit(self, function: Callable[[], Answer]) -> "Future[Answer]":
        """Have a function called; as `Executor.submit`.

        Raises
        ------
        UserError
            The process has died too often before it was ready.
        """
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()
        number = next(self._numbers)
        with self._state:
            connection = self._connection or self._start()
            self.calls[number] = future
            with suppress(OSError):  # it has died, as its listener will say
                connection.send((number, function))
        return future

    def _start(self) -> "Connection[Any, Any]":
        if self._starts == MOST_STARTS:
            raise UserError(f"{self.name} does not start; what it says stands above")
        self._starts += 1
        if folder := cache_folder():
            warn_of_others(folder)  # workers say nothing of it
        ours, theirs = socket.socketpair()
        program = (
            f"from {MODULE} import work; work({theirs.fileno()}, {self._cores}, {self._sharers})"
        )
        # A new session: Ctrl-C and the end of a terminal reach the process that has started it.
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=STDERR,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=self._environment(),
        )
        theirs.close()
        self._connection = connection = Connection(ours.detach())
        self._listener = Thread(target=self._listen, args=(process, connection), daemon=True)
        self._listener.start()
        return connection

    def _environment(self) -> dict[str, str]:
        """Modules are found where this process finds them; of all devices one is visible."""
        changed = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if self._device is not None:
            visible = os.environ.get(VISIBLE)
            changed[VISIBLE] = visible.split(",")[self._device] if visible else str(self._device)
        return os.environ | changed

    def _listen(
        self, process: "subprocess.Popen[bytes]", connection: "Connection[Any, Any]"
    ) -> None:
        """Take its answers until it has died."""
        is_ready = False
        try:
            while True:
                number, answer, error = connection.recv()
                is_ready, self._starts = True, 0
                if number == READY:
                    continue
                future = self.calls.pop(number)
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)
        except (EOFError, OSError):
            pass
        finally:
            how = _end(process)
            with self._state:
                self._connection = None
                connection.close()
                lost, self.calls = self.calls, {}
            for future in lost.values():
                future.set_exception(WorkerDiedError(self.name, how, int(is_ready)))

    def end(self) -> None:
        """End the process at once, if there is one."""
        with self._state:
            if self._connection:
                with socket.socket(fileno=os.dup(self._connection.fileno())) as ours:
                    ours.shutdown(socket.SHUT_RDWR)
        if self._listener.ident:
            self._listener.join()


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Wait until a process without a connection has ended; say how."""
    try:
        code = process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class Processes(Executor):
    """Computes in processes of this machine, until it is left.

    Parameters
    ----------
    number : int
        How many.
    devices : sequence of int
        Numbers of CUDA devices; the processes take turns with them. If there are none, each sees
        all devices.
    say : callable, optional
        Receives messages about workers that die.
    """

    def __init__(self, number: int, devices: Sequence[int] = (), say: Say | None = None) -> None:
        super().__init__(say)
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

    def submit(self, function: Callable[[], Answer]) -> "Future[Answer]":
        """As `Executor.submit`."""
        return min(self._crew, key=lambda worker: len(worker.calls)).submit(function)

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`: workers end whose shards nobody waits for any more."""
        try:
            yield from super().run(study, tasks)
        finally:
            for worker in self._crew:
                if worker.calls:
                    worker.end()


# A worker: the program of a process that computes shards for another one.
#
# It takes functions from a connection and answers through it; what it prints goes to standard
# error. When the connection ends, it ends.

MOST_AT_ONCE = 256
"""Shards that may be computed at once; how many are, those decide who send them."""


def work(descriptor: int, cores: int, sharers: int) -> NoReturn:
    """Compute until nobody asks any more."""
    limit_cores(cores)
    share_devices(sharers)
    warnings.filterwarnings("ignore", module="mcage.files.disk_cache")  # their parent says it
    connection: Connection[Any, Any] = Connection(descriptor)
    sending = Lock()

    def answer(number: int, function: Callable[[], Any]) -> None:
        error, result = None, None
        try:
            result = function()
        except BaseException as failure:
            error = _traveling(failure)
        with sending:
            connection.send((number, result, error))

    pool = ThreadPoolExecutor(MOST_AT_ONCE)
    answer(READY, bool)
    try:
        while True:
            pool.submit(answer, *connection.recv())
    except (EOFError, OSError):
        remove_all_in_work()
        os._exit(0)


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


# Shards in the workers of a Dask scheduler that the user runs, on one machine or on many.
#
# The client hands out a few shards for each worker at a time and forgets what is finished, so that
# neither it nor the scheduler grows with the campaign. No arrays travel: workers write into the
# shard folder, which all of them must see under the same path.

SECONDS_TO_CONNECT = 10.0
SECONDS_BETWEEN_LOOKS = 1.0
"""How old the number of workers may be."""

SECONDS_WITHOUT_NEWS = 60.0
"""Seconds without a finished shard after which the workers are checked."""


class Dask(Executor):
    """Computes in the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A client of its scheduler, not an asynchronous one.
    say : callable, optional
        Receives a message when there are no workers.
    """

    def __init__(self, client: "Client", say: Say | None = None) -> None:
        super().__init__(say)
        self._client = client
        self._pool = client.get_executor(pure=False)
        self._threads: tuple[int, ...] = ()
        self._looked = -SECONDS_BETWEEN_LOOKS

    @property
    def workers(self) -> int:
        """As `Executor.workers`; as many as there were a second ago."""
        now = time.monotonic()
        if now - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._threads, self._looked = tuple(self._client.nthreads().values()), now
        return len(self._threads)

    def submit(self, function: Callable[[], Answer]) -> "Future[Answer]":
        """As `Executor.submit`."""
        future: Future[Answer] = self._pool.submit(_called, function)
        return future

    def _may_begin(self, begun: Sequence[ShardTask], study: Study) -> bool:
        may = super()._may_begin(begun, study)
        one_at_a_time = min(self._threads, default=1) == 1
        return len(begun) < max(1, len(self._threads)) if one_at_a_time else may

    def _finished(self, begun: "Collection[Future[Any]]") -> "set[Future[Any]]":
        while True:
            if not self.workers:
                self._say("the Dask scheduler has no workers; waiting for some")
            if done := wait(begun, SECONDS_WITHOUT_NEWS, FIRST_COMPLETED).done:
                return done

    def _result(self, future: "Future[Answer]") -> Answer:
        from distributed import KilledWorker

        try:
            return super()._result(future)
        except KilledWorker as killed:
            deaths = killed.allowed_failures + 1
            raise WorkerDiedError(killed.last_worker.address, "as Dask says", deaths) from killed
        except (CancelledError, OSError) as error:
            raise UserError(
                f"the Dask scheduler is gone ({said_by(error)}): finished shards are kept, and "
                "the same command continues with another one"
            ) from error


def _called(function: Callable[[], Answer]) -> Answer:
    """Call a function in a worker."""
    from distributed import get_worker

    worker = get_worker()
    limit_cores(worker.state.nthreads)
    if "dask_cuda" in sys.modules:  # which shows a worker all devices, its own first
        visible = os.environ.get(VISIBLE, "")
        os.environ[VISIBLE] = visible.partition(",")[0]
    return function()


@contextmanager
def connected(scheduler: str, say: Say | None = None) -> Iterator[Dask]:
    """Use the workers of a scheduler, for as long as the block lasts.

    Parameters
    ----------
    scheduler : str
        Its address, or the file in which it has written it.
    say : callable, optional
        As for `Dask`.

    Raises
    ------
    UserError
        Dask is not installed, or no scheduler answers.
    """
    if importlib.util.find_spec("distributed") is None:
        raise UserError(f"Dask is not installed: {pip_install('distributed')}")
    from distributed import Client

    where = {"address": scheduler}
    if os.path.isfile(scheduler):
        where = {"scheduler_file": scheduler}
    try:
        client = Client(**where, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise UserError(
            f"--scheduler {shown(scheduler)}: no Dask scheduler answers there ({said_by(error)})"
        ) from error
    # Lost connections raise errors with words of their own.
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)
    with client:
        yield Dask(client, say)
