"""Which instances are computed together: the shards of a campaign."""

from collections.abc import Iterable, Iterator
from itertools import pairwise


def shards(instances: range, shard_size: int) -> Iterator[range]:
    """Cut a range of instance ids into shards of at most ``shard_size``."""
    for first in range(instances.start, instances.stop, shard_size):
        yield range(first, min(first + shard_size, instances.stop))


def unfinished(instances: int, finished: Iterable[range]) -> list[range]:
    """Ranges of 0 ... ``instances`` - 1 that no finished shard holds, in rising order.

    Parameters
    ----------
    instances : int
        Number of instances of the campaign.
    finished : iterable of range
        Ranges that do not overlap, in rising order; ranges behind the last instance do not count.
    """
    within = [done for done in finished if done.start < instances]
    borders = [range(0, 0), *within, range(instances, instances)]
    return [range(a.stop, b.start) for a, b in pairwise(borders) if a.stop < b.start]


def in_words(instances: range) -> str:
    """Range of instance ids as a reader writes it, both ends included."""
    return f"{instances.start}-{instances.stop - 1}" if len(instances) > 1 else f"{instances.start}"
