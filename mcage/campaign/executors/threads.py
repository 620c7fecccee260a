"""Shards in threads of this process.

An executor takes a study and tasks, carries each of them out, and yields it when its file is
written, in any order. Threads share the study, with all that it has prepared.
"""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from threading import Lock

from mcage.campaign.study import ShardTask, Study

Executor = Callable[[Study, Iterable[ShardTask]], Generator[ShardTask, None, None]]

IN_FLIGHT = 2
"""Shards begun and not finished: while one ends and is written, the next keeps all cores busy."""


def overlapping(
    study: Study, tasks: Iterable[ShardTask], at_once: int = IN_FLIGHT
) -> Generator[ShardTask, None, None]:
    """Compute in this process, several shards at a time.

    A caller that is interrupted does not wait for the shards in flight: these are dropped as soon
    as they are computed.

    Parameters
    ----------
    study, tasks
        What is computed.
    at_once : int
        Shards begun and not finished.
    """
    to_do = iter(tasks)
    begun: dict[Future[None], ShardTask] = {}
    shards = _Shards(study)
    pool = ThreadPoolExecutor(at_once)
    try:
        while True:
            for task in islice(to_do, at_once - len(begun)):
                begun[pool.submit(shards.make, task)] = task
            if not begun:
                return
            for future in wait(begun, return_when=FIRST_COMPLETED).done:
                if future.exception():
                    pool.shutdown()  # a defect of one shard loses no other
                future.result()
                yield begun.pop(future)
    finally:
        shards.close()
        pool.shutdown(wait=False, cancel_futures=True)


class _Shards:
    """Computes shards and writes them, from any thread, until it is closed.

    Compiled code cannot be stopped: a shard that is being computed when this is closed is dropped
    as soon as it is ready. Closing waits for a shard that is being written.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._writing = Lock()
        self._open = True

    def make(self, task: ShardTask) -> None:
        arrays = self._study.compute(task.first, task.last)
        with self._writing:
            if self._open:
                task.write(arrays)

    def close(self) -> None:
        with self._writing:
            self._open = False
