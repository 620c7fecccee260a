"""Threshold shifts of the transistors of many instances, where the total stress time decides."""

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mcage.aging.draws import Columns
from mcage.aging.nbti import AdditiveModel, Rates, with_constants

LEAST_RECOVERY = 1e-12
"""Fraction of the age below which a recovery time is a rounding error and is taken as 0: the shift
of some models falls at once when recovery begins."""


@dataclass(frozen=True, eq=False)
class AdditiveShift:
    """How the transistors of n instances shift; arrays [n], or a number for all instances.

    Parameters
    ----------
    nbti : AdditiveModel
        Model of the threshold shift.
    rates : Rates
        What a second in their environment does.
    activity : array
        Fraction of the time in which cells hold what is replayed; the rest of it they are off.
    of_model : mapping
        Constants of the model that differ, by name: float64[n] each.
    pull_downs : AdditiveShift, optional
        How their pull-down transistors shift; by default they do not.
    """

    nbti: AdditiveModel
    rates: Rates
    activity: NDArray[np.float64]
    of_model: Columns = field(default_factory=dict)
    pull_downs: "AdditiveShift | None" = None

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveShift":
        """The same for selected instances, also repeated."""
        arrays = (self.rates.stress, self.rates.diffusion, self.activity)
        pull_downs = self.pull_downs and self.pull_downs.of(which)
        alike = not self.of_model and not any(array.ndim for array in arrays)
        if alike and pull_downs is self.pull_downs:
            return self
        stress, diffusion, activity = (a[which] if a.ndim else a for a in arrays)
        return replace(
            self,
            rates=Rates(stress, diffusion),
            activity=activity,
            of_model={name: values[which] for name, values in self.of_model.items()},
            pull_downs=pull_downs,
        )

    def dvth(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shifts in volts of transistors of n instances.

        Parameters
        ----------
        busy : float64[2, n, ...]
            Stress time in seconds, if the slice were busy all the time.
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
        of_model = {name: along(values) for name, values in self.of_model.items()}
        nbti = cast(AdditiveModel, with_constants(self.nbti, of_model))
        return nbti.dvth_after(rates, stressed, recovered)

    def of_cells(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shifts in volts of all transistors of n cells that age; arguments as of `dvth`.

        Returns
        -------
        float64[2, n, ...] or float64[4, n, ...]
            T0 and T1, then N0 and N1 where these age.
        """
        dvth = self.dvth(busy, age)
        if self.pull_downs is None:
            return dvth
        return np.concatenate([dvth, self.pull_downs.dvth(busy, age)])

    @property
    def is_always_busy(self) -> bool:
        """Whether no instance is ever idle."""
        return not self.activity.ndim and float(self.activity) == 1.0
