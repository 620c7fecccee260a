"""Shards in the workers of a Dask cluster, on this machine or on many.

A shard whose worker has died is computed again, and nothing beside it, so that it becomes clear
which shard has ended the worker. The client hands out a few shards for each worker at a time and
forgets what is finished, so that neither it nor the scheduler grows with the campaign. No arrays
travel: workers write into the shard folder, which all of them must see under the same path.
"""

import importlib.util
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from mcage.campaign.executors import TRIES, Answer, MadeShard, described, given_up, may_begin, timed
from mcage.campaign.processes import VISIBLE, Say
from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import limit_cores, usable_cores
from mcage.errors import UserError, pip_install
from mcage.plain_text import said_by, shown

if TYPE_CHECKING:
    from distributed import Client, Future


SECONDS_TO_CONNECT = 10.0
SECONDS_BETWEEN_LOOKS = 1.0
"""How old the number of workers may be."""

LOCAL_CLUSTER = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.worker.profile.enabled": False,
}
"""Each death is reported; workers do not look a hundred times a second at what they compute."""

SECONDS_WITHOUT_NEWS = 60.0
"""So long nothing is finished before a look at the workers."""


class Dask:
    """Computes in the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A client of its scheduler, not an asynchronous one.
    say : callable, optional
        Is told when there are no workers.
    """

    def __init__(self, client: "Client", say: Say | None = None) -> None:
        self._client = client
        self._say = say or (lambda _: None)
        self._threads: tuple[int, ...] = ()
        self._looked = -SECONDS_BETWEEN_LOOKS

    @property
    def workers(self) -> int:
        """As `Executor.workers`; as many as there were a second ago."""
        now = time.monotonic()
        if now - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._threads, self._looked = tuple(self._client.nthreads().values()), now
        return len(self._threads)

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        from distributed import KilledWorker

        deaths = 0
        while True:
            self._wait_for_workers()
            try:
                study, _ = self._result(self._begin(partial(described, make)))
            except KilledWorker as killed:
                deaths += killed.allowed_failures + 1
                if deaths >= TRIES:
                    raise given_up(None, deaths, "as Dask says") from killed
                self._say(
                    f"warning: {killed.last_worker.address} has died while it prepared the study, "
                    "which is prepared again"
                )
            else:
                assert isinstance(study, Study)
                return study

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`.

        A caller that is interrupted does not wait for the shards in flight: those that have not
        begun are cancelled, and nobody takes what the others write.
        """
        from distributed import KilledWorker

        to_do, suspects = iter(tasks), deque[tuple[ShardTask, int]]()
        begun: dict[Future, tuple[ShardTask, int]] = {}
        ended: SimpleQueue[Future] = SimpleQueue()

        def begin(task: ShardTask, deaths: int) -> None:
            future = self._begin(partial(timed, task))
            begun[future] = task, deaths
            future.add_done_callback(ended.put)

        try:
            while True:
                while not suspects and self._may_begin([task for task, _ in begun.values()], study):
                    task = next(to_do, None)
                    if task is None:
                        break
                    begin(task, 0)
                alone = bool(suspects) and not begun
                if alone:
                    begin(*suspects.popleft())
                if not begun:
                    return
                future = self._next(ended)
                task, deaths = begun.pop(future)
                try:
                    result = self._result(future)
                except KilledWorker as killed:
                    deaths += killed.allowed_failures + 1
                    self._say(
                        f"warning: {killed.last_worker.address} has died with instances "
                        f"{in_words(task.instances)}, which are computed again"
                    )
                    if alone and deaths >= TRIES:
                        raise given_up(task, deaths, "as Dask says") from killed
                    suspects.append((task, deaths))
                else:
                    yield MadeShard(task, *result, tries=deaths + 1)
        finally:
            for future in begun:
                future.release()

    def _begin(self, function: Callable[[], Answer]) -> "Future":
        return self._client.submit(_called, function, pure=False)

    def _may_begin(self, begun: Sequence[ShardTask], study: Study) -> bool:
        """Whether there is a worker for another shard, if all of them have equally many."""
        workers = max(1, self.workers)
        of_a_worker = begun[workers - 1 :: workers]
        if min(self._threads, default=1) == 1:
            return not of_a_worker
        return may_begin(of_a_worker, study)

    def _next(self, ended: "SimpleQueue[Future]") -> "Future":
        """Wait for the next shard that is finished or has failed."""
        while True:
            try:
                return ended.get(timeout=SECONDS_WITHOUT_NEWS)
            except Empty:
                if not self.workers:
                    self._say("the Dask scheduler has no workers; waiting for some")

    def _wait_for_workers(self) -> None:
        if not self.workers:
            self._say("the Dask scheduler has no workers; waiting for some")
            while not self.workers:
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def _result(self, future: "Future") -> tuple[Any, str]:
        """What a function has returned, and the worker that has called it."""
        from distributed.client import CancelledError

        try:
            result: tuple[Any, str] = future.result()
            return result
        except (CancelledError, OSError) as error:
            raise UserError(
                f"the Dask scheduler is gone ({said_by(error)}): finished shards are kept, and "
                "the same command continues with another one"
            ) from error


def _called(function: Callable[[], Answer]) -> tuple[Answer, str]:
    """Call a function in a worker; return its result and the name of the worker."""
    from distributed import get_worker

    worker = get_worker()
    limit_cores(worker.state.nthreads)
    if "dask_cuda" in sys.modules:  # which shows a worker all devices, its own first
        visible = os.environ.get(VISIBLE, "")
        os.environ[VISIBLE] = visible.partition(",")[0]
    return function(), worker.address


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
    _require("distributed")
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
    _silence()
    with client:
        yield Dask(client, say)


@contextmanager
def local_cluster(workers: int, say: Say | None = None) -> Iterator[Dask]:
    """Use Dask workers on this machine, started for as long as the block lasts.

    Other users of the machine could send them code: they and their scheduler listen only to who
    has the key that is made here.

    Parameters
    ----------
    workers : int
        How many.
    say : callable, optional
        As for `Dask`.

    Raises
    ------
    UserError
        Dask or cryptography is not installed, or workers do not start.
    """
    _require("distributed", "cryptography")
    import dask
    from distributed import Client, LocalCluster

    with dask.config.set(LOCAL_CLUSTER):  # also for workers that take the place of dead ones
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=max(1, usable_cores() // workers),
                processes=True,
                security=True,
                memory_limit=None,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
                preload=[__name__],
            )
        except (RuntimeError, OSError) as error:
            words = f"Dask workers do not start on this machine ({said_by(error)})"
            raise UserError(words) from error
        with cluster, Client(cluster) as client:
            _silence()
            yield Dask(client, say)


def _require(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            name = "Dask" if module == "distributed" else module
            raise UserError(f"{name} is not installed: {pip_install('distributed')}")


def dask_setup(worker: Any) -> None:
    """Prepare a worker in the foreground of a terminal: Ctrl-C is for its client.

    Dask calls it, by this name, before the worker takes tasks, also in one that replaces another.
    (Plug-ins that the client registers would not do: if a worker dies meanwhile, the scheduler
    closes its connection to the client.)
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _silence() -> None:
    """Say nothing of lost connections, which raise errors with words of their own."""
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)
