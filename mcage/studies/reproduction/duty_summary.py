"""Duty cycles of the cells of a slice, reduced to what the papers plot."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import GCN
from mcage.replays.outcome import CellTimes

ZERO, ONE = 0, 1
"""Indices of the two duty cycles."""


@dataclass(frozen=True)
class CellDuties:
    """Duty cycles of the cells of one slice; the last axis is '0', '1'.

    Attributes
    ----------
    longest : float64[2]
        Longest duty cycle among all cells.
    most_stressed : float64[2, 2]
        Both duty cycles of the cell with the longest '0', and of the cell with the longest '1'.
    of_entries : float64[256, 2, 2]
        The same within each entry.
    of_bits : float64[2048, 2]
        By position in the entry, mean over the entries in use.
    used : bool[256]
        Entries that belong to a window at any time.
    """

    longest: NDArray[np.float64]
    most_stressed: NDArray[np.float64]
    of_entries: NDArray[np.float64]
    of_bits: NDArray[np.float64]
    used: NDArray[np.bool_]


def cell_duties(times: CellTimes, used: NDArray[np.bool_]) -> CellDuties:
    """Reduce the cell times of a slice to its duty cycles.

    Parameters
    ----------
    times : CellTimes
        Cell times of a single instance.
    used : bool[256]
        Entries in use.
    """
    duties = np.stack([times.zeros[0], times.ones[0]], axis=-1) / times.period
    of_entries = np.empty((GCN.entries, 2, 2))
    for which in (ZERO, ONE):
        cell = duties[..., which].argmax(axis=1)
        of_entries[:, which] = duties[np.arange(GCN.entries), cell]
    worst = [of_entries[:, which, which].argmax() for which in (ZERO, ONE)]
    most_stressed = np.stack([of_entries[entry, which] for which, entry in enumerate(worst)])
    return CellDuties(
        longest=np.diagonal(most_stressed).copy(),
        most_stressed=most_stressed,
        of_entries=of_entries,
        of_bits=duties[used].mean(axis=0),
        used=used,
    )
