"""Shards in threads of this process, which share the study, with all that it has prepared."""

import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Lock

from mcage.campaign.executors.executor import IN_FLIGHT, MadeShard, may_begin
from mcage.campaign.study import ShardTask, Study


class Threads:
    """Computes in this process, several shards at a time."""

    workers = 1

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        return make()

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`.

        A caller that is interrupted does not wait for the shards in flight: these are dropped as
        soon as they are computed.
        """
        to_do = iter(tasks)
        begun: dict[Future[float], ShardTask] = {}
        shards = _Shards(study)
        pool = ThreadPoolExecutor(IN_FLIGHT + study.threads)
        try:
            while True:
                while may_begin(begun.values(), study) and (task := next(to_do, None)):
                    begun[pool.submit(shards.make, task)] = task
                if not begun:
                    return
                for future in wait(begun, return_when=FIRST_COMPLETED).done:
                    if future.exception():
                        pool.shutdown()  # a defect of one shard loses no other
                    yield MadeShard(begun.pop(future), future.result())
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

    def make(self, task: ShardTask) -> float:
        """Compute and write a shard; return the seconds that it took."""
        begin = time.monotonic()
        arrays = self._study.compute(task.first, task.last)
        with self._writing:
            if self._open:
                task.write(arrays)
        return time.monotonic() - begin

    def close(self) -> None:
        with self._writing:
            self._open = False
