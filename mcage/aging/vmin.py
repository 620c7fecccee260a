"""Vmin of aged cells: how it grows, and when a cell fails.

The supply voltage that a cell needs (Vmin) rises with the threshold shifts of its transistors. A
cell is faulty once its Vmin exceeds the lowest supply voltage of the environment.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.margins import Margins
from mcage.aging.traps import TrapLaw


def aged_vmin(
    vmin_volts: ArrayLike, dvth_volts: ArrayLike, coefficient: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return the minimum supply voltage of aged cells, in volts.

    Parameters
    ----------
    vmin_volts : array, any shape
        Vmin of the cells as manufactured, in volts.
    dvth_volts : array, same shape
        Shift of a transistor of each cell, in volts, at least 0.
    coefficient : float, or array of the same shape
        Vmin growth per shift, in V/V.

    Notes
    -----
    The coefficient is assumed: Krishnan et al., IEDM 2006, find a growth of the order of the shift.
    For sensitivity studies take 0.5 ... 1. That the larger shift of T0 and T1 counts is assumed,
    too: the Vmin of a cell is the larger of those that follow from the two.
    """
    grown: NDArray[np.float64] = np.asarray(vmin_volts) + np.asarray(coefficient) * np.asarray(
        dvth_volts
    )
    return grown


@dataclass(frozen=True)
class CellFailure:
    """When cells fail.

    Parameters
    ----------
    vmin_coefficient : float or float64[n]
        Growth of Vmin per threshold shift, V/V: of all, or of each of n instances or cells.
    lowest_vdd_volts : float
        Vdd at which cells must work.
    margins : Margins, optional
        How Vmin grows by the margin that limits a cell, the coefficient being a factor on all its
        coefficients. By default Vmin grows with the larger shift of a cell.
    traps : TrapLaw, optional
        The law of the shifts, where there are margins and transistors differ by their luck.
    """

    vmin_coefficient: float | NDArray[np.float64]
    lowest_vdd_volts: float
    margins: Margins | None = None
    traps: TrapLaw | None = None

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "CellFailure":
        """The same for selected instances or cells, also repeated."""
        coefficient = self.vmin_coefficient
        if isinstance(coefficient, np.ndarray) and coefficient.ndim:
            return replace(self, vmin_coefficient=coefficient[which])
        return self

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Growth of Vmin as an array: float64[n], or float64[1] for all."""
        return np.atleast_1d(np.asarray(self.vmin_coefficient, dtype=np.float64))

    def start_of(
        self, vmin_volts: NDArray[np.float64], scores: NDArray[np.float64], traps: TrapLaw
    ) -> NDArray[np.float64]:
        """Vmin from which the mean shifts of transistors seem to start, by their luck.

        A transistor makes its cell fail once it has shifted far enough, and it has done so at one
        mean shift (`TrapLaw.mean_at`). A cell with this Vmin would fail at the same mean shift if
        all transistors shifted alike.

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of cells as manufactured, at most the lowest Vdd.
        scores : float64[k, n]
            Scores of T0 and T1 of each cell, and of N0 and N1 where these age.
        traps : TrapLaw
            The law of their shifts.

        Returns
        -------
        float64[k, n]
        """
        growth = np.broadcast_to(self.vmin_coefficient, vmin_volts.shape)
        grows = growth > 0
        needed = np.full(vmin_volts.shape, np.inf)
        np.divide(self.lowest_vdd_volts - vmin_volts, growth, out=needed, where=grows)
        start = np.stack([vmin_volts] * len(scores))
        reached = growth * np.where(grows, traps.mean_at(needed, scores), 0.0)
        return np.where(grows, self.lowest_vdd_volts - reached, start)

    def are_faulty(
        self,
        vmin_volts: NDArray[np.float64],
        dvth_volts: NDArray[np.float64],
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.bool_]:
        """Whether cells do not work at the lowest Vdd: bool[n].

        Parameters
        ----------
        vmin_volts : float64[k, n]
            Without margins: Vmin from which the shift of each transistor starts, that of the cell
            as manufactured, or what `start_of` makes of it where transistors differ by their luck.
            With margins: Vmin of each limit as manufactured, minus infinity for those that do not
            limit the cell.
        dvth_volts : float64[2, n] or float64[4, n]
            Shifts of T0 and T1 of each cell, and of N0 and N1 where these age; the mean of all
            transistors that are stressed alike.
        scores : float64[2, n] or float64[4, n], optional
            Scores of these transistors, where there are margins and transistors differ.
        """
        if self.margins is not None:
            if self.traps is not None and scores is not None:
                dvth_volts = self.traps.shift(dvth_volts, scores)
            dvth_volts = self.margins.growth(dvth_volts)
        vmin = aged_vmin(vmin_volts, dvth_volts, self.vmin_coefficient)
        faulty: NDArray[np.bool_] = np.logical_or.reduce(vmin > self.lowest_vdd_volts)
        return faulty
