"""Where shards are computed.

An executor takes a task and the ranges of instances to do, calls the task once for each, and
yields every range as it is finished, in any order. The task computes a shard and writes its
file, so nothing large travels back.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

Executor = Callable[[Callable[[range], None], Iterable[range]], Iterator[range]]

IN_FLIGHT = 2
"""Shards begun and not finished: while one ends and is written, the next keeps all cores busy."""


def overlapping(task: Callable[[range], None], ranges: Iterable[range]) -> Iterator[range]:
    """Compute in this process, `IN_FLIGHT` shards at a time.

    Who interrupts it does not wait for the shards in flight; their threads end with them.
    """
    to_do = iter(ranges)
    begun: dict[Future[None], range] = {}
    pool = ThreadPoolExecutor(IN_FLIGHT)
    try:
        while True:
            for instances in islice(to_do, IN_FLIGHT - len(begun)):
                begun[pool.submit(task, instances)] = instances
            if not begun:
                return
            for future in wait(begun, return_when=FIRST_COMPLETED).done:
                if future.exception():
                    pool.shutdown()  # a defect of one shard loses no other
                future.result()
                yield begun.pop(future)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
