"""Drift: how the transistors of some instances shift with the seconds that they were stressed."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import AdditiveModel, Rates

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
    """

    nbti: AdditiveModel
    rates: Rates
    activity: NDArray[np.float64]

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "Drift":
        """Those of some instances, also repeated."""
        own = (self.rates.stress, self.rates.diffusion, self.activity)
        if not any(one.ndim for one in own):
            return self
        stress, diffusion, activity = (one[which] if one.ndim else one for one in own)
        return replace(self, rates=Rates(stress, diffusion), activity=activity)

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
