"""Events of a replay from the number of free places alone.

Unless the selectors rotate over blocks or rows have entries of their own, entries of a kind are
interchangeable: they are asked in an order that does not change, and a sound block of a faulty
entry is as good as any other. So how many reliable entries and how many sound blocks of faulty ones
there are decides what happens, not where they are, and what is more than enough makes no
difference.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.placement.contents import RECORD
from mcage.engines.numba_engine.placement.homes import count
from mcage.engines.numba_engine.placement.operations import ADVANCE, FREE, KINDS
from mcage.engines.numba_engine.placement.redirect import COUNTERS
from mcage.engines.numba_engine.placement.residencies import Residencies
from mcage.geometry import SLICE

_SOUND = np.array([SLICE.blocks - bin(faults).count("1") for faults in range(1 << SLICE.blocks)])
_SOUND_IF_FAULTY = np.where(np.arange(len(_SOUND)) > 0, _SOUND, 0)
_MANY = SLICE.entries * SLICE.blocks + 1


class Counts:
    """Events of the redirected replays of a kernel, and what is known of them.

    Parameters
    ----------
    residencies : Residencies
        A technique that redirects, on a single kernel.
    """

    def __init__(self, residencies: Residencies) -> None:
        self._residencies = residencies
        self._known: dict[int, NDArray[np.int64]] = {}
        in_block = np.logical_or.reduceat(
            residencies.writes.mask == RECORD, residencies.write_starts[:-1]
        )
        self._entries = _most_living(residencies, np.ones_like(in_block))
        self._blocks = _most_living(residencies, in_block) if residencies.rules.in_blocks else 0

    def of(self, fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Counters int64[n, 8] of instances with fault maps uint8[n, 256]."""
        rules = self._residencies.rules
        if rules.borrows or (rules.rotating and rules.in_blocks):
            return self._count(fault_maps)
        reliable = np.minimum((fault_maps == 0).sum(axis=1), self._entries)
        sound = np.minimum(_SOUND_IF_FAULTY[fault_maps].sum(axis=1), self._blocks)
        places, first, which = np.unique(
            reliable * _MANY + sound, return_index=True, return_inverse=True
        )
        unknown = [i for i, free in enumerate(places.tolist()) if free not in self._known]
        counted = self._count(fault_maps[first[unknown]])
        self._known.update(zip(places[unknown].tolist(), counted, strict=True))
        known = [self._known[free] for free in places.tolist()]
        return np.array(known, dtype=np.int64).reshape(-1, COUNTERS)[which]

    def _count(self, fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
        counters = np.zeros((len(fault_maps), COUNTERS), dtype=np.int64)
        count(self._residencies, fault_maps, counters)
        return counters


def _most_living(residencies: Residencies, chosen: NDArray[np.bool_]) -> int:
    """Return how many of the chosen residencies have a home at the same time, at most."""
    code = residencies.operations.code
    code = code[code % KINDS != ADVANCE]
    change = np.where(code % KINDS == FREE, -1, 1) * chosen[code // KINDS]
    return int(np.cumsum(change).max(initial=0))
