"""Shards in the workers of a Dask cluster, on this machine or on many.

The client hands out a few shards for each worker at a time and forgets what is finished, so that
neither it nor the scheduler grows with the campaign. No arrays travel: workers write into the shard
folder, which all of them must see under the same path.
"""

import importlib.util
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcage.campaign.executors import Answer, Executor, Say, WorkerDiedError
from mcage.campaign.processes import VISIBLE
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import limit_cores, usable_cores
from mcage.errors import UserError, pip_install
from mcage.plain_text import said_by, shown

if TYPE_CHECKING:
    from distributed import Client


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


class Dask(Executor):
    """Computes in the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A client of its scheduler, not an asynchronous one.
    say : callable, optional
        Is told when there are no workers.
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
