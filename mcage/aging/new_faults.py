"""New faults: the cells that turn faulty in a stretch of life, and the fault maps on the way."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.aging.drift import Drift
from mcage.variation import EntryFaults, TailCells


@dataclass(frozen=True)
class Stretch:
    """A stretch of life of each of n instances, in which cells age evenly: float64[n] each."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def part(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Part of each stretch that has passed at a moment of each: float64[n]."""
        return (moment - self.start) / (self.end - self.start)

    def of(self, which: NDArray[np.int64]) -> "Stretch":
        """Those of some instances."""
        return Stretch(self.start[which], self.end[which])


def between(
    before: NDArray[np.float64], after: NDArray[np.float64], part: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Times of cells when a part of the stretch between has passed."""
    return before + (after - before) * part


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that turn faulty within a stretch of each.

    Attributes
    ----------
    drift : Drift
        How their cells drift.
    spread_blocks : bool
        Conservative rule for fault maps.
    stretch : Stretch
        The stretches.
    earlier : EntryFaults
        Faults at their starts, of n instances.
    cells : TailCells
        Cells that are healthy then and faulty at their ends.
    before, after : float64[2, cells]
        Seconds at '0' and '1' of these cells at both ends.
    """

    drift: Drift
    spread_blocks: bool
    stretch: Stretch
    earlier: EntryFaults
    cells: TailCells
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def of(self, which: NDArray[np.int64]) -> "NewFaults":
        """Those of some instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.drift.of(which),
            self.spread_blocks,
            self.stretch.of(which),
            self.earlier.of(which),
            self.cells.at(kept, which),
            self.before[:, kept],
            self.after[:, kept],
        )

    def faults_at(self, moment: NDArray[np.float64]) -> EntryFaults:
        """Faults at a moment of each stretch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        instance = self.cells.instance
        seconds = between(self.before, self.after, self.stretch.part(moment)[instance])
        drift = self.drift.of(instance)
        faulty = drift.are_faulty(self.cells.vmin_volts, seconds, moment[instance])
        return self.earlier.more(self.cells, faulty)

    def fault_maps_at(self, moment: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Fault maps at a moment of each stretch: uint8[n, 256]."""
        return self.faults_at(moment).fault_maps(self.spread_blocks)
