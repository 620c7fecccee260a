"""Drift: how the transistors of some instances shift, and which of their cells fail for it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import AdditiveModel, Rates
from mcage.aging.vmin import aged_vmin

LEAST_RECOVERY = 1e-12
"""Share of the age below which recovery is what rounding has left of none. It must not count: the
shift of some models falls at once when recovery begins."""


@dataclass(frozen=True, eq=False)
class Drift:
    """What the shifts of n instances follow from; arrays [n], or one number for all.

    Parameters
    ----------
    nbti : AdditiveModel
        Model of the threshold shift.
    rates : Rates
        What a second in their environment does.
    activity : array
        Share of the time that cells hold what is replayed; the rest of it they are off.
    vt0_volts, dvth_limit_volts : array
        Unaged threshold voltage, and the shift at which the delay uses up its guardband.
    vmin_coefficient : float
        Growth of Vmin per threshold shift, V/V.
    lowest_vdd_volts : float
        Vdd at which cells must work.
    """

    nbti: AdditiveModel
    rates: Rates
    activity: NDArray[np.float64]
    vt0_volts: NDArray[np.float64]
    dvth_limit_volts: NDArray[np.float64]
    vmin_coefficient: float
    lowest_vdd_volts: float

    def of(self, which: NDArray[np.int64]) -> "Drift":
        """Those of some instances, also repeated."""
        rates = (self.rates.stress, self.rates.diffusion)
        own = (*rates, self.activity, self.vt0_volts, self.dvth_limit_volts)
        if not any(one.ndim for one in own):
            return self
        stress, diffusion, activity, vt0, limit = (one[which] if one.ndim else one for one in own)
        return replace(
            self,
            rates=Rates(stress, diffusion),
            activity=activity,
            vt0_volts=vt0,
            dvth_limit_volts=limit,
        )

    def dvth(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shift in volts of transistors of n instances.

        Parameters
        ----------
        busy : float64[2, n, ...]
            Seconds under stress, if the slice were busy all the time.
        age : float64[n, ...]
            Their age in seconds.
        """
        shape = (-1,) + (1,) * (busy.ndim - 2)

        def along(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return values.reshape(shape) if values.ndim else values

        stressed = busy if self.is_always_busy else along(self.activity) * busy
        recovered = age - stressed
        recovered = np.where(recovered > LEAST_RECOVERY * age, recovered, 0.0)
        rates = Rates(along(self.rates.stress), along(self.rates.diffusion))
        return self.nbti.dvth_after(rates, stressed, recovered)

    @property
    def is_always_busy(self) -> bool:
        """Whether no instance is ever idle."""
        return not self.activity.ndim and float(self.activity) == 1.0

    def are_faulty(
        self,
        vmin_volts: NDArray[np.float64],
        busy: NDArray[np.float64],
        age: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Which cells do not work at the lowest Vdd; one cell of each of n instances.

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of the cells as manufactured.
        busy : float64[2, n]
            Seconds that they have held '0' and '1', if the slice were busy all the time.
        age : float64[n]
            Their age in seconds.
        """
        shift = self.dvth(busy, age).max(axis=0)
        vmin = aged_vmin(vmin_volts, shift, self.vmin_coefficient)
        faulty: NDArray[np.bool_] = vmin > self.lowest_vdd_volts
        return faulty
