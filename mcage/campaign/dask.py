"""Shards in the workers of a Dask scheduler that the user runs, on one machine or on many.

The client hands out a few shards for each worker at a time and forgets what is finished, so that
neither it nor the scheduler grows with the campaign. No arrays travel: workers write into the shard
folder, which all of them must see under the same path.
"""

import importlib.util
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcage.campaign.executors import Answer, Executor, Say, WorkerDiedError
from mcage.campaign.processes import VISIBLE
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import limit_cores
from mcage.errors import UserError, pip_install
from mcage.plain_text import said_by, shown

if TYPE_CHECKING:
    from distributed import Client


SECONDS_TO_CONNECT = 10.0
SECONDS_BETWEEN_LOOKS = 1.0
"""How old the number of workers may be."""

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
