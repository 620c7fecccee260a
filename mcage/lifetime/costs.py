"""Slowdown and power of a slice over its life: what its events cost, by `mcage.costs`.

All is told of the busy time. Where the slice holds while it is idle, that takes energy as well. A
slower slice is idle for longer, so that it is busy for the same share of the time; only where
wavefronts wait for one another is it busy for more of it, as in the trace that ages it.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment
from mcage.costs import (
    CONVENTIONAL,
    Activity,
    Component,
    Technology,
    energy,
    entries_that_hold,
    slowdown,
)
from mcage.costs.components import Penalties
from mcage.geometry import SLICE
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.replays.outcome import Event


@dataclass(frozen=True)
class Consumption:
    """What lives took, each compared with a conventional slice that does the same work.

    All float64[instances], NaN for a life of zero.

    Attributes
    ----------
    slowdown : float64[I]
        Busy time of the life over that of the conventional slice, less 1.
    power_mw : float64[I]
        Energy of the slice and of all that the technique adds, over the busy time of the life.
    energy_saving : float64[I]
        Energy saved over the conventional slice at the same operating points, a fraction of its.
    conventional_power_mw : float64[I]
        Energy of the conventional slice at the nominal Vdd of the technology, over its busy time.
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
    shares_vary : bool
        Whether instances differ in their shares of the time at the operating points.
    """

    shared: FaultFreeReplays
    conventional: tuple[Activity, ...]
    environment: Environment
    technology: Technology
    penalties: Penalties
    shares_vary: bool = False

    def read(
        self,
        kernel_of_epoch: NDArray[np.int64],
        seconds: NDArray[np.float64],
        events: NDArray[np.float64],
        shares: NDArray[np.float64] | None = None,
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
        shares : float64[points, I], optional
            Shares of the time at each operating point, to be given where they vary.
        """
        assert (shares is not None) == self.shares_vary
        kernel = np.broadcast_to(kernel_of_epoch[..., None], seconds.shape)
        disturbed = (seconds != 0) & (events != self.shared.events[kernel]).any(axis=-1)

        def over_life(rate: NDArray[np.float64]) -> NDArray[np.float64]:
            total: NDArray[np.float64] = (rate * seconds).sum(axis=(1, 2))
            return total

        spent = other = np.zeros(len(seconds))
        weights = np.ones(1) if shares is None else shares
        *same_points, nominal = self._conventional
        for one, technology in enumerate(self._technologies):
            busy, work, power = self._undisturbed[one][:, kernel]
            for number in np.unique(kernel[disturbed]):
                chosen = disturbed & (kernel == number)
                rates = self._rates(number, events[chosen], technology)
                busy[chosen], work[chosen], power[chosen] = rates
            spent = spent + weights[one] * over_life(power)
            other = other + weights[one] * over_life(work * same_points[one][kernel])
        duration, done = over_life(busy), over_life(work)
        with np.errstate(invalid="ignore"):
            return Consumption(
                slowdown=duration / done - 1,
                power_mw=spent / duration,
                energy_saving=1 - spent / other,
                conventional_power_mw=over_life(work * nominal[kernel]) / done,
            )

    @cached_property
    def _technologies(self) -> tuple[Technology, ...]:
        """The technology at each operating point, or as the whole life of all instances has it.

        Energies are linear in the slice's constants: their mean stands for all points. Speed does
        not depend on them.
        """
        points = self.environment.points
        slices = [self.technology.slice_at(point.vdd_volts) for point in points]
        if self.shares_vary:
            return tuple(replace(self.technology, slice=one) for one in slices)

        def mean(constant: str) -> float:
            pairs = zip(points, slices, strict=True)
            return math.fsum(point.share * getattr(one, constant) for point, one in pairs)

        constants = (field.name for field in fields(Component))
        return (replace(self.technology, slice=Component(*map(mean, constants))),)

    def _rates(
        self, kernel: int, events: NDArray[np.float64], technology: Technology
    ) -> NDArray[np.float64]:
        """Rates on fault maps, over all time: float64[3, n].

        Share of it that is busy; work, in busy time of the conventional slice; power in mW.
        """
        activity = self.shared.activities[kernel].under(events)
        replay, idle = self.shared.replays[kernel], self.shared.idle[kernel]
        technique = replay.technique
        lost = slowdown(activity, technique, technology, self.penalties)
        slower, waits = 1 + lost.total, 1 + events[:, Event.WAIT]
        longer = slower * waits
        spent = energy(activity, technique, technology, slowdown=longer - 1)
        whole = waits + idle
        held = entries_that_hold(replay) / SLICE.entries * technology.slice.leakage_mw
        power = spent.total / (self._nanoseconds(activity) * (slower * whole)) + held * idle / whole
        return np.stack([waits / whole, 1 / (slower * whole), power])

    def _nanoseconds(self, activity: Activity) -> float:
        return activity.cycles / self.technology.clock_ghz

    @cached_property
    def _undisturbed(self) -> list[NDArray[np.float64]]:
        """Rates on a slice without faults for each of the technologies: float64[3, kernels]."""
        events = self.shared.events
        return [
            np.hstack(
                [self._rates(one, events[one, None], technology) for one in range(len(events))]
            )
            for technology in self._technologies
        ]

    @cached_property
    def _conventional(self) -> list[NDArray[np.float64]]:
        """Energy per busy time for each of the technologies, and at the nominal Vdd: [kernels]."""
        return [
            np.array(
                [
                    energy(one, CONVENTIONAL, technology).total[0] / self._nanoseconds(one)
                    + technology.slice.leakage_mw * idle
                    for one, idle in zip(self.conventional, self.shared.idle, strict=True)
                ]
            )
            for technology in (*self._technologies, self.technology)
        ]
