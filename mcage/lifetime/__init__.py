"""The life of slices: epoch by epoch until the end of life or the horizon."""

from enum import IntEnum

import numpy as np


class EndCause(IntEnum):
    """Why a life ended."""

    CENSORED = 0
    """It did not end before the horizon."""
    DELAY = 1
    """The worst transistor's delay used up the guardband."""
    FAULTY_ENTRY = 2
    """An entry in use had two faulty bits, and the technique cannot move data."""
    NO_HOME = 3
    """A register found neither a home in the slice nor room in the LDS, and may not go to memory;
    or no whole window found a place."""
    SPILL_LIMIT = 4
    """There was room, but more of the register writes were spilled than the limit allows."""
    TOO_SLOW = 5
    """The mix was slower, against a conventional slice, than the limit allows."""


TRANSISTORS = ("T0", "T1")
"""PMOS transistors of a cell: T0 ages while it holds '0', T1 while it holds '1'."""

WRITE_KINDS = ("regular", "to_reliable", "to_faulty", "lds")
"""Kinds of register writes, as of `mcage.replays.outcome.Counters`."""

DVTH_BIN_EDGES_MV = np.arange(0.0, 201.0)
"""Borders of the dVth histogram, mV; ten years of full stress at 1.0 V and 80 °C give 90 mV."""

RANKS = 8
"""Uncorrectable words of a slice whose ages are recorded."""

BISECTIONS = 12
"""Halvings of an epoch in search of the moment from which a kernel cannot run, a word is
uncorrectable, or a cell is faulty: 4 hours of two years."""
