"""The history of transistors: what each epoch does to those of a batch of instances."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcage.aging.draws import Columns
from mcage.aging.nbti import NbtiModel, Rates, with_constants

TOGETHER = 1 << 13
"""Transistors that are advanced together, so that their states stay in the cache."""

DutyIn = Callable[[int, slice], NDArray[np.float64]]
"""From an epoch and a slice of m transistors to their duty cycles while the slice is busy."""


@dataclass(frozen=True, eq=False)
class History:
    """What the epochs do to the transistors of n instances.

    Parameters
    ----------
    nbti : NbtiModel
        Model of the threshold shift.
    rates : tuple of Rates
        What a second does in each epoch; arrays [n], or a number for all.
    edges : tuple of float
        Ages in seconds at which epochs begin and end, from 0 to the horizon.
    activity : array
        Fraction of the time in which cells hold what is replayed: float64[n], or a number for all;
        the rest of it they are off.
    of_model : mapping
        Constants of the model that differ, by name: float64[n] each.
    pull_downs : History, optional
        What they do to the pull-down transistors; by default nothing.
    """

    nbti: NbtiModel
    rates: tuple[Rates, ...]
    edges: tuple[float, ...]
    activity: NDArray[np.float64]
    of_model: Columns = field(default_factory=dict)
    pull_downs: "History | None" = None

    def model_of(self, instance: NDArray[np.int64]) -> NbtiModel:
        """The model of transistors, by the instance of each."""
        of_model = {name: values[instance] for name, values in self.of_model.items()}
        return with_constants(self.nbti, of_model)

    def advance(
        self,
        state: NDArray[np.float64],
        epoch: int,
        instance: NDArray[np.int64],
        duty: NDArray[np.float64],
        seconds: float | NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """States of transistors after a number of seconds of an epoch.

        Parameters
        ----------
        state : float64[state_size, ..., m]
            Their states before.
        epoch : int
            The epoch.
        instance : int64[m]
            Instance of each transistor.
        duty : float64[..., m]
            Fraction of the busy time of the epoch under stress.
        seconds : float or float64[m]
            Seconds of the epoch that pass.
        """
        rates, activity = self.rates[epoch], self.activity
        if rates.stress.ndim or rates.diffusion.ndim:
            rates = Rates(_of(rates.stress, instance), _of(rates.diffusion, instance))
        if activity.ndim or float(activity) != 1.0:
            duty = duty * _of(activity, instance)
        return self.model_of(instance).advance(state, rates, duty, seconds)

    def dvth(
        self,
        epochs: int,
        instance: NDArray[np.int64],
        duty: DutyIn,
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shifts in volts of transistors that are advanced from new through the first epochs.

        Parameters
        ----------
        epochs : int
            Number of epochs.
        instance : int64[m]
            Instance of each transistor.
        duty : callable
            Duty cycles of the m transistors in an epoch: `DutyIn`.
        moment : float64[instances]
            Age of each instance, within the last of the epochs.
        """
        shift = np.empty(len(instance))
        for first in range(0, len(instance), TOGETHER):
            chunk = slice(first, first + TOGETHER)
            owner = instance[chunk]
            state = self.nbti.initial_state(owner.shape)
            for epoch in range(epochs):
                seconds = self._seconds(epoch, epochs, moment[owner])
                state = self.advance(state, epoch, owner, duty(epoch, chunk), seconds)
            shift[chunk] = self.model_of(owner).dvth_of(state)
        return shift

    def life_duty(
        self,
        epochs: int,
        instance: NDArray[np.int64],
        duty: DutyIn,
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Duty cycles of transistors over their lives; arguments as of `dvth`."""
        held = np.zeros(len(instance))
        for epoch in range(epochs):
            held += duty(epoch, slice(None)) * self._seconds(epoch, epochs, moment[instance])
        return _of(self.activity, instance) * (held / moment[instance])

    def _seconds(
        self, epoch: int, epochs: int, moment: NDArray[np.float64]
    ) -> float | NDArray[np.float64]:
        """Seconds of an epoch that have passed at moments in the last of so many epochs."""
        begin, end = self.edges[epoch : epoch + 2]
        return moment - begin if epoch == epochs - 1 else end - begin


def _of(values: NDArray[np.float64], instance: NDArray[np.int64]) -> NDArray[np.float64]:
    return values[instance] if values.ndim else values
