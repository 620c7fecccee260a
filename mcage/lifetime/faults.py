"""Faults: how Vmin grows, when a cell or a transistor fails, and the new faults of an epoch.

The supply voltage that a cell needs (Vmin) rises with the threshold shifts of its transistors. A
cell is faulty once its Vmin exceeds the lowest supply voltage of the environment.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.lifetime.degradation.base import CellDegradation, EpochSpan
from mcage.variation import EntryFaults, TailCells


def aged_vmin(
    vmin_volts: ArrayLike, dvth_volts: ArrayLike, coefficient: float = 1.0
) -> NDArray[np.float64]:
    """Return the minimum supply voltage of aged cells, in volts.

    Parameters
    ----------
    vmin_volts : array, any shape
        Vmin of the cells as manufactured, in volts.
    dvth_volts : array, same shape
        Larger of the shifts of each cell's T0 and T1, in volts, at least 0.
    coefficient : float
        Vmin growth per shift, in V/V.

    Notes
    -----
    The coefficient is assumed: Krishnan et al., IEDM 2006, find a growth of the order of the shift.
    For sensitivity studies take 0.5 ... 1. That the larger shift counts is assumed, too.
    """
    grown: NDArray[np.float64] = np.asarray(vmin_volts) + coefficient * np.asarray(dvth_volts)
    return grown


@dataclass(frozen=True, eq=False)
class FailureCriteria:
    """The shifts at which the cells and transistors of n instances fail; [n], or a number for all.

    Parameters
    ----------
    vt0_volts, dvth_limit_volts : array
        Unaged threshold voltage, and the shift at which the delay uses up its guardband.
    vmin_coefficient : float
        Growth of Vmin per threshold shift, V/V.
    lowest_vdd_volts : float
        Vdd at which cells must work.
    """

    vt0_volts: NDArray[np.float64]
    dvth_limit_volts: NDArray[np.float64]
    vmin_coefficient: float
    lowest_vdd_volts: float

    def of(self, which: NDArray[np.int64]) -> "FailureCriteria":
        """Criteria of selected instances, also repeated."""
        vt0, limit = self.vt0_volts, self.dvth_limit_volts
        if not vt0.ndim and not limit.ndim:
            return self
        return replace(
            self,
            vt0_volts=vt0[which] if vt0.ndim else vt0,
            dvth_limit_volts=limit[which] if limit.ndim else limit,
        )

    def are_faulty(
        self, vmin_volts: NDArray[np.float64], dvth_volts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether cells do not work at the lowest Vdd: bool[n].

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of the cells as manufactured.
        dvth_volts : float64[2, n]
            Shifts of T0 and T1 of each cell.
        """
        vmin = aged_vmin(vmin_volts, dvth_volts.max(axis=0), self.vmin_coefficient)
        faulty: NDArray[np.bool_] = vmin > self.lowest_vdd_volts
        return faulty


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that become faulty within an epoch of each.

    Attributes
    ----------
    criteria : FailureCriteria
        When their cells fail.
    spread_blocks : bool
        Whether fault maps follow the conservative rule of `mcage.variation.fault_map`.
    span : EpochSpan
        The epochs.
    earlier : EntryFaults
        Faults at the starts of the epochs.
    cells : TailCells
        Cells that are fault-free at the start and faulty at the end.
    degradation : CellDegradation
        Shifts of these cells.
    """

    criteria: FailureCriteria
    spread_blocks: bool
    span: EpochSpan
    earlier: EntryFaults
    cells: TailCells
    degradation: CellDegradation

    def of(self, which: NDArray[np.int64]) -> "NewFaults":
        """New faults of selected instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.criteria.of(which),
            self.spread_blocks,
            self.span.of(which),
            self.earlier.of(which),
            self.cells.at(kept, which),
            self.degradation.of(kept),
        )

    def faults_at(self, moment: NDArray[np.float64]) -> EntryFaults:
        """Faults at a moment of each epoch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        instance = self.cells.instance
        shift = self.degradation.dvth(moment[instance])
        faulty = self.criteria.of(instance).are_faulty(self.cells.vmin_volts, shift)
        return self.earlier.more(self.cells, faulty)

    def fault_maps_at(self, moment: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Fault maps at a moment of each epoch: uint8[n, 256]."""
        return self.faults_at(moment).fault_maps(self.spread_blocks)
