"""How many instances a shard holds, chosen from the time that earlier shards have taken.

Results do not depend on it. A shard should take some seconds: few enough that a kill costs little,
so many that writing, moving and reading it do not count. At first nothing is known, least of all
what compiling and preparing will take; so the first shards are small, and the size follows the
fastest of the last few.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from mcage.campaign.executors.executor import MadeShard
from mcage.campaign.study import Study
from mcage.results.header import Header
from mcage.results.variable import dimension_sizes

SECONDS = 4.0
"""Time that a shard should take."""

GROWTH = 8
"""A shard is at most so many times as large as the largest before it."""

REMEMBERED = 4
"""Shards whose times are looked at."""

MOST_BYTES = 8 << 20
"""Largest shard, in memory and on disk."""


class Cutting:
    """Cuts instances into shards.

    Parameters
    ----------
    study : Study
        What is computed.
    workers : int
        Processes that compute: the last shards are so small that all end together.
    fixed : int, optional
        Instances of a shard, if the user wants that size.
    """

    def __init__(self, study: Study, workers: int, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._workers = max(1, workers)
        self._batch = study.batch
        self._most = max(study.batch, MOST_BYTES // bytes_of_instance(study.header))
        self._largest = 0
        self._seconds_each: deque[float] = deque(maxlen=REMEMBERED)

    def learn(self, made: MadeShard) -> None:
        """Take note of the time of a shard."""
        instances = len(made.task.instances)
        self._largest = max(self._largest, instances)
        self._seconds_each.append(made.seconds / instances)

    def cut(self, missing: Iterable[range]) -> Iterator[range]:
        """Cut ranges of instances into shards; the size of each is chosen when it is asked for."""
        ranges = list(missing)
        remaining = sum(map(len, ranges))
        for instances in ranges:
            first = instances.start
            while first < instances.stop:
                last = min(first + self._size(remaining), instances.stop)
                yield range(first, last)
                remaining -= last - first
                first = last

    def _size(self, remaining: int) -> int:
        if self._fixed:
            return self._fixed
        if not self._seconds_each:
            return self._batch
        by_time = SECONDS / max(min(self._seconds_each), 1e-9)
        size = min(by_time, GROWTH * self._largest, remaining / self._workers, self._most)
        return max(1, int(size) // self._batch) * self._batch


def bytes_of_instance(header: Header) -> int:
    """Bytes that an instance adds to the arrays of a shard, at least 1."""
    sizes = dimension_sizes(header.coordinates) | {"instance": 1}
    return max(
        1,
        sum(
            int(np.prod(variable.shape(sizes))) * np.dtype(variable.dtype).itemsize
            for variable in header.variables
            if variable.per_instance
        ),
    )
