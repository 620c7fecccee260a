"""An occupant of an entry as a number of 32 bits: who lives there, from which write on, and where.

Nearly every residency moves in with its first write; then the number holds the residency. One that
began in the LDS moves in with a later write; then the number holds that write, which knows its
residency. A batch keeps the occupants of all its epochs, so that their size decides on its memory.
"""

from typing import Any

import numpy as np

from mcage.engines.numba_engine.jit import inlined
from mcage.engines.numba_engine.placement.residencies import BEGIN

_LATE = 0b1000
_NUMBER = 4
"""Bits before the number, which has 28: `residencies.MOST_WRITES`."""


@inlined
def packed(residency: int, block: int) -> int:
    """Pack a residency that moves in with its first write; block 4 is the whole entry."""
    return residency << _NUMBER | block


@inlined
def packed_late(write: int, block: int) -> int:
    """Pack a residency that moves in with a later write of its own."""
    return write << _NUMBER | _LATE | block


@inlined
def is_late(occupant: int) -> bool:
    """Whether an occupant began in the LDS."""
    return occupant & _LATE != 0


@inlined
def block_of(occupant: int) -> int:
    """Block of an occupant, or 4 for the whole entry."""
    return occupant & 0b111


@inlined
def residency_of(residencies: Any, occupant: Any) -> Any:
    """Residency of an occupant."""
    number = occupant >> _NUMBER
    if is_late(occupant):
        return np.int64(residencies.writes.residency[number])
    return np.int64(number)


@inlined
def begin_of(residencies: Any, occupant: Any) -> Any:
    """First write of an occupant."""
    number = occupant >> _NUMBER
    if is_late(occupant):
        return np.int64(number)
    return np.int64(residencies.facts[number, BEGIN])
