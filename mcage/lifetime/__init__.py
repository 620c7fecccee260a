"""The life of slices: epoch by epoch until the end of life or the horizon."""

from enum import IntEnum


class EndCause(IntEnum):
    """Why a life ended."""

    CENSORED = 0
    """It did not end before the horizon."""
    DELAY = 1
    """The worst transistor's delay used up the guardband."""
    FAULTY_ENTRY = 2
    """An entry in use had two faulty bits, and the technique cannot move data."""
    NO_HOME = 3
    """A register found neither a home in the slice nor room in the LDS; or no whole window did."""
    SPILL_LIMIT = 4
    """There was room, but more of the register writes went to the LDS than the limit allows."""
