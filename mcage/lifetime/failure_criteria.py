"""Limits: how far transistors of some instances may shift before a delay or a cell fails."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.lifetime.vmin_growth import aged_vmin


@dataclass(frozen=True, eq=False)
class FailureCriteria:
    """What shifts of n instances are held against; arrays [n], or one number for all.

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
        """Those of some instances, also repeated."""
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
        """Which cells do not work at the lowest Vdd.

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of the cells as manufactured.
        dvth_volts : float64[2, n]
            Shifts of T0 and T1 of each.
        """
        vmin = aged_vmin(vmin_volts, dvth_volts.max(axis=0), self.vmin_coefficient)
        faulty: NDArray[np.bool_] = vmin > self.lowest_vdd_volts
        return faulty
