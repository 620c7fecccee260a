"""Where shards are computed.

An executor takes a task and the ranges of instances to do, calls the task once for each, and
yields every range as it is finished, in any order. The task computes a shard and writes its
file, so nothing large travels back.
"""

from collections.abc import Callable, Iterable, Iterator

Executor = Callable[[Callable[[range], None], Iterable[range]], Iterator[range]]


def serial(task: Callable[[range], None], ranges: Iterable[range]) -> Iterator[range]:
    """Compute in this process, one shard after the other; engines use all cores inside one."""
    for instances in ranges:
        task(instances)
        yield instances
