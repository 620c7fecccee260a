"""The course of lives: what each epoch does to the transistors of some instances."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, Rates

TOGETHER = 1 << 13
"""Transistors that are advanced together, so that their pasts stay in the cache."""

DutyIn = Callable[[int, slice], NDArray[np.float64]]
"""Duty of some of m transistors in an epoch while the slice is busy."""


@dataclass(frozen=True, eq=False)
class History:
    """What the epochs do to transistors of n instances.

    Parameters
    ----------
    nbti : NbtiModel
        Model of the threshold shift.
    rates : tuple of Rates
        What a second does in each epoch; arrays [n], or one number for all.
    edges : tuple of float
        Ages in seconds at which epochs begin and end, from 0 to the horizon.
    activity : array
        Share of the time that cells hold what is replayed: float64[n], or one number for all; the
        rest of it they are off.
    """

    nbti: NbtiModel
    rates: tuple[Rates, ...]
    edges: tuple[float, ...]
    activity: NDArray[np.float64]

    def after(
        self,
        past: NDArray[np.float64],
        epoch: int,
        instance: NDArray[np.int64],
        duty: NDArray[np.float64],
        seconds: float | NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Pasts of transistors after some seconds of an epoch, begun with others.

        Parameters
        ----------
        past : float64[numbers, ..., m]
            Their pasts before.
        epoch : int
            The epoch.
        instance : int64[m]
            Instance of each.
        duty : float64[..., m]
            Share of the busy time of the epoch under stress.
        seconds : float or float64[m]
            Seconds of the epoch that pass.
        """
        rates, activity = self.rates[epoch], self.activity
        if rates.stress.ndim or rates.diffusion.ndim:
            rates = Rates(_of(rates.stress, instance), _of(rates.diffusion, instance))
        if activity.ndim or float(activity) != 1.0:
            duty = duty * _of(activity, instance)
        return self.nbti.after(past, rates, duty, seconds)

    def dvth(
        self,
        epochs: int,
        instance: NDArray[np.int64],
        duty: DutyIn,
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shifts in volts of transistors, followed from new through some epochs.

        Parameters
        ----------
        epochs : int
            How many.
        instance : int64[m]
            Instance of each transistor.
        duty : callable
            Duty of some of the m transistors in an epoch.
        moment : float64[instances]
            Age of each instance, within the last of the epochs.
        """
        shift = np.empty(len(instance))
        for first in range(0, len(instance), TOGETHER):
            some = slice(first, first + TOGETHER)
            mine = instance[some]
            past = self.nbti.fresh(mine.shape)
            for epoch in range(epochs):
                seconds = self._seconds(epoch, epochs, moment[mine])
                past = self.after(past, epoch, mine, duty(epoch, some), seconds)
            shift[some] = self.nbti.dvth_of(past)
        return shift

    def held(
        self,
        epochs: int,
        instance: NDArray[np.int64],
        duty: DutyIn,
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shares of their lives for which transistors were stressed; arguments as of `dvth`."""
        held = np.zeros(len(instance))
        for epoch in range(epochs):
            every = duty(epoch, slice(None))
            held += every * self._seconds(epoch, epochs, moment[instance])
        return _of(self.activity, instance) * (held / moment[instance])

    def _seconds(
        self, epoch: int, epochs: int, moment: NDArray[np.float64]
    ) -> float | NDArray[np.float64]:
        """Seconds of an epoch that have passed at moments in the last of some epochs."""
        begin, end = self.edges[epoch : epoch + 2]
        return moment - begin if epoch == epochs - 1 else end - begin


def _of(values: NDArray[np.float64], instance: NDArray[np.int64]) -> NDArray[np.float64]:
    return values[instance] if values.ndim else values
