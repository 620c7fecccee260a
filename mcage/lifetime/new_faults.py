"""New faults: the cells that turn faulty in a stretch of life, and the fault maps on the way."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.lifetime.degradation.base import CellDegradation
from mcage.lifetime.degradation.span import EpochSpan
from mcage.lifetime.failure_criteria import FailureCriteria
from mcage.variation import EntryFaults, TailCells


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that turn faulty within a stretch of each.

    Attributes
    ----------
    limits : Limits
        When their cells fail.
    spread_blocks : bool
        Conservative rule for fault maps.
    stretch : Stretch
        The stretches.
    earlier : EntryFaults
        Faults at their starts, of n instances.
    cells : TailCells
        Cells that are healthy then and faulty at their ends.
    wear : CellWear
        Shifts of these cells.
    """

    limits: FailureCriteria
    spread_blocks: bool
    span: EpochSpan
    earlier: EntryFaults
    cells: TailCells
    degradation: CellDegradation

    def of(self, which: NDArray[np.int64]) -> "NewFaults":
        """Those of some instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.limits.of(which),
            self.spread_blocks,
            self.span.of(which),
            self.earlier.of(which),
            self.cells.at(kept, which),
            self.degradation.of(kept),
        )

    def faults_at(self, moment: NDArray[np.float64]) -> EntryFaults:
        """Faults at a moment of each stretch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        instance = self.cells.instance
        shift = self.degradation.dvth(moment[instance])
        faulty = self.limits.of(instance).are_faulty(self.cells.vmin_volts, shift)
        return self.earlier.more(self.cells, faulty)

    def fault_maps_at(self, moment: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Fault maps at a moment of each stretch: uint8[n, 256]."""
        return self.faults_at(moment).fault_maps(self.spread_blocks)
