"""Slowdown and power of a slice over its life: what its events cost, by `mcage.costs`."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment
from mcage.aging.events import Event
from mcage.aging.shared import SharedReplays
from mcage.costs import CONVENTIONAL, Activity, Component, Technology, energy, slowdown
from mcage.costs.components import Penalties


@dataclass(frozen=True)
class Consumption:
    """What lives took, each compared with a conventional slice that does the same work.

    All float64[instances], NaN for a life of zero.

    Attributes
    ----------
    slowdown : float64[I]
        Duration of the life over the time that the conventional slice takes, less 1.
    power_mw : float64[I]
        Energy of the slice and of all that the technique adds, over the duration of the life.
    energy_saving : float64[I]
        Energy saved over the conventional slice at the same operating points, a fraction of its.
    conventional_power_mw : float64[I]
        Mean power of the conventional slice at the nominal Vdd of the technology.
    """

    slowdown: NDArray[np.float64]
    power_mw: NDArray[np.float64]
    energy_saving: NDArray[np.float64]
    conventional_power_mw: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Meter:
    """Reads off what lives of one case take.

    Parameters
    ----------
    shared : SharedReplays
        The case's technique on each kernel.
    conventional : tuple of Activity
        The conventional slice on each kernel.
    environment : Environment
        Operating points. The slice runs at the Vdd of each, all other units at the nominal one.
    technology : Technology
        Constants of the components.
    penalties : Penalties
        Cycles that events cost.
    """

    shared: SharedReplays
    conventional: tuple[Activity, ...]
    environment: Environment
    technology: Technology
    penalties: Penalties

    def read(
        self,
        kernel_of_epoch: NDArray[np.int64],
        seconds: NDArray[np.float64],
        events: NDArray[np.float64],
    ) -> Consumption:
        """Add up lives.

        Parameters
        ----------
        kernel_of_epoch : int64[I, epochs]
            Kernels that run.
        seconds : float64[I, epochs, moments]
            Weights of some moments of each epoch; their sum is the duration of the life.
        events : float64[I, epochs, moments, EVENTS]
            Events per cycle at these moments.
        """
        kernel = np.broadcast_to(kernel_of_epoch[..., None], seconds.shape)
        speed, power = self._undisturbed[:, kernel]
        disturbed = (seconds != 0) & (events != self.shared.events[kernel]).any(axis=-1)
        for number in np.unique(kernel[disturbed]):
            chosen = disturbed & (kernel == number)
            speed[chosen], power[chosen] = self._speed_and_power(number, events[chosen])
        same_points, nominal = self._conventional_mw[:, kernel]

        def over_life(rate: NDArray[np.float64]) -> NDArray[np.float64]:
            total: NDArray[np.float64] = (rate * seconds).sum(axis=(1, 2))
            return total

        duration, work, spent = over_life(np.ones_like(speed)), over_life(speed), over_life(power)
        with np.errstate(invalid="ignore"):
            return Consumption(
                slowdown=duration / work - 1,
                power_mw=spent / duration,
                energy_saving=1 - spent / over_life(speed * same_points),
                conventional_power_mw=over_life(speed * nominal) / work,
            )

    @cached_property
    def _in_environment(self) -> Technology:
        """The technology as a whole life has it: energies are linear in the slice's constants."""
        points = self.environment.points
        slices = [self.technology.slice_at(point.vdd_volts) for point in points]

        def mean(constant: str) -> float:
            pairs = zip(points, slices, strict=True)
            return math.fsum(point.share * getattr(one, constant) for point, one in pairs)

        constants = (field.name for field in fields(Component))
        return replace(self.technology, slice=Component(*map(mean, constants)))

    def _speed_and_power(self, kernel: int, events: NDArray[np.float64]) -> NDArray[np.float64]:
        """Work done in a unit of time, and power in mW, on fault maps: float64[2, n]."""
        activity = self.shared.activities[kernel].under(events)
        technique = self.shared.replays[kernel].technique
        slower = slowdown(activity, technique, self._in_environment, self.penalties)
        longer = (1 + slower.total) * (1 + events[:, Event.WAIT])
        spent = energy(activity, technique, self._in_environment, slowdown=longer - 1)
        return np.stack([1 / longer, spent.total / (self._nanoseconds(activity) * longer)])

    def _nanoseconds(self, activity: Activity) -> float:
        return activity.cycles / self.technology.clock_ghz

    @cached_property
    def _undisturbed(self) -> NDArray[np.float64]:
        """Speed and power on a slice without faults: float64[2, kernels]."""
        events = self.shared.events
        kernels = range(len(events))
        return np.hstack([self._speed_and_power(one, events[one, None]) for one in kernels])

    @cached_property
    def _conventional_mw(self) -> NDArray[np.float64]:
        """Power of the conventional slice at these operating points, and at the nominal Vdd."""
        return np.array(
            [
                [
                    energy(one, CONVENTIONAL, technology).total[0] / self._nanoseconds(one)
                    for one in self.conventional
                ]
                for technology in (self._in_environment, self.technology)
            ]
        )
