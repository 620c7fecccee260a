"""The new faults of an epoch: which cells become faulty, and what the fault maps are meanwhile."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.aging.vmin import CellFailure
from mcage.lifetime.degradation.base import CellDegradation, EpochSpan
from mcage.variation.fault_maps import EntryFaults
from mcage.variation.vmin_tail import TailCells


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that become faulty within an epoch of each.

    Attributes
    ----------
    failure : CellFailure
        When each of the cells fails.
    span : EpochSpan
        The epochs.
    earlier : EntryFaults
        Faults at the starts of the epochs.
    places : int64[m]
        Positions of the cells in the tail of the batch, in rising order.
    cells : TailCells
        Cells that are fault-free at the start and faulty at the end.
    vmin_volts : float64[2, m]
        Vmin of these cells from which the shifts of T0 and T1 start.
    degradation : CellDegradation
        Shifts of these cells.
    scores : float64[k, m], optional
        Scores of their transistors, as of `CellFailure.are_faulty`.
    """

    failure: CellFailure
    span: EpochSpan
    earlier: EntryFaults
    places: NDArray[np.int64]
    cells: TailCells
    vmin_volts: NDArray[np.float64]
    degradation: CellDegradation
    scores: NDArray[np.float64] | None = None

    def of(self, which: NDArray[np.int64]) -> "NewFaults":
        """New faults of selected instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.failure.of(kept),
            self.span.of(which),
            self.earlier.of(which),
            self.places[kept],
            self.cells.at(kept, which),
            self.vmin_volts[:, kept],
            self.degradation.of(kept),
            None if self.scores is None else self.scores[:, kept],
        )

    def faults_at(self, moment: NDArray[np.float64]) -> EntryFaults:
        """Faults at a moment of each epoch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        return self.earlier.more(self.cells, self.are_faulty_at(moment))

    def fault_maps_at(self, moment: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Fault maps at a moment of each epoch: uint8[n, 256]."""
        if not len(self.cells.cell):
            return self.earlier.maps
        return self.earlier.maps_with(self.cells, self.are_faulty_at(moment))

    def are_faulty_at(self, moment: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the cells are faulty at a moment of each epoch: bool[m]."""
        at = moment[self.cells.instance]
        return self.degradation.are_faulty(self.failure, self.vmin_volts, at, self.scores)
