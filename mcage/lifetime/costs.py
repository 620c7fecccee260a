"""Slowdown and power of a slice over its life: what its events cost, by `mcage.costs`.

All quantities refer to the busy time. Where the slice holds its values while it is idle, that takes
energy as well. A slower slice is idle for longer, too, so that it is busy for the same fraction of
the time. Only where wavefronts wait for one another is it busy for a larger fraction, as in the
trace that ages it.
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
    slowdown,
)
from mcage.engines.stress import by_kernel
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.lifetime.outcomes import LifeMoments
from mcage.replays.outcome import Event
from mcage.spec.cost_constants import Penalties


@dataclass(frozen=True)
class Consumption:
    """Slowdown and power over lives, compared with a conventional slice that does the same work.

    All are NaN for a life of zero.

    Attributes
    ----------
    slowdown : float64[I]
        Busy time of the life over that of the conventional slice, less 1.
    power_mw : float64[I]
        Energy of the slice and of all that the technique adds, over the busy time of the life.
    energy_saving : float64[I]
        Energy saved over the conventional slice at the same operating points, as a fraction of the
        energy of that slice.
    conventional_power_mw : float64[I]
        Energy of the conventional slice at the nominal Vdd of the technology, over its busy time.
    """

    slowdown: NDArray[np.float64]
    power_mw: NDArray[np.float64]
    energy_saving: NDArray[np.float64]
    conventional_power_mw: NDArray[np.float64]

    @property
    def energy_saving_nominal(self) -> NDArray[np.float64]:
        """Energy saved over the conventional slice at the nominal Vdd, as a fraction of it."""
        spent = self.power_mw * (1 + self.slowdown)
        return 1 - spent / self.conventional_power_mw


@dataclass(frozen=True, eq=False)
class Meter:
    """Adds up the slowdown and the energy of lives of a case.

    Parameters
    ----------
    fault_free : FaultFreeReplays
        The case's technique on each kernel.
    conventional : tuple of Activity
        The conventional slice on each kernel.
    environment : Environment
        Operating points. The slice runs at the Vdd of each, all other units at the nominal one.
    technology : Technology
        Constants of the components.
    penalties : Penalties
        Cycles that events cost.
    time_fractions_vary : bool
        Whether instances differ in their time fractions at the operating points.
    """

    fault_free: FaultFreeReplays
    conventional: tuple[Activity, ...]
    environment: Environment
    technology: Technology
    penalties: Penalties
    time_fractions_vary: bool = False

    def read(
        self,
        kernel_of_epoch: NDArray[np.int64],
        moments: LifeMoments,
        time_fractions: NDArray[np.float64] | None = None,
    ) -> Consumption:
        """Add up lives.

        Parameters
        ----------
        kernel_of_epoch : int64[I, epochs]
            Kernels that run.
        moments : LifeMoments
            Events of the lives.
        time_fractions : float64[points, I], optional
            Fraction of the time at each operating point, to be given where they vary.
        """
        seconds, events = moments.seconds, moments.events
        assert (time_fractions is not None) == self.time_fractions_vary
        kernel = np.broadcast_to(kernel_of_epoch[..., None], seconds.shape)
        disturbed = self._disturbed(kernel_of_epoch, moments)

        def over_life(rate: NDArray[np.float64]) -> NDArray[np.float64]:
            total: NDArray[np.float64] = (rate * seconds).sum(axis=(1, 2))
            return total

        spent = other = np.zeros(len(seconds))
        weights = np.ones(1) if time_fractions is None else time_fractions
        *same_points, nominal = self._conventional
        for point, technology in enumerate(self._technologies):
            busy, work, power = self._undisturbed[point][:, kernel]
            for number, runs_it in by_kernel(kernel[disturbed]):
                selected = tuple(indices[runs_it] for indices in disturbed)
                rates = self._rates(number, events[selected], technology)
                busy[selected], work[selected], power[selected] = rates
            spent = spent + weights[point] * over_life(power)
            other = other + weights[point] * over_life(work * same_points[point][kernel])
        duration, done = over_life(busy), over_life(work)
        with np.errstate(invalid="ignore"):
            return Consumption(
                slowdown=duration / done - 1,
                power_mw=spent / duration,
                energy_saving=1 - spent / other,
                conventional_power_mw=over_life(work * nominal[kernel]) / done,
            )

    def _disturbed(
        self, kernel_of_epoch: NDArray[np.int64], moments: LifeMoments
    ) -> tuple[NDArray[np.int64], ...]:
        """Instances, epochs and numbers of the moments at which faults change what happens."""
        if not (self.fault_free.redirects or self.fault_free.packs):
            none = np.empty(0, dtype=np.int64)
            return none, none, none
        undisturbed = self.fault_free.events[kernel_of_epoch][:, :, None]
        differs = (moments.events != undisturbed).any(axis=-1)
        return np.nonzero((moments.seconds != 0) & differs)

    @cached_property
    def _technologies(self) -> tuple[Technology, ...]:
        """The technology at each operating point, or that of the whole life if no fraction varies.

        Energies are linear in the slice's constants, so that the mean of these stands for all
        points. Speed does not depend on them.
        """
        points = self.environment.points
        slices = [self.technology.slice_at(point.vdd_volts) for point in points]
        if self.time_fractions_vary:
            return tuple(replace(self.technology, slice=component) for component in slices)

        def mean(constant: str) -> float:
            pairs = zip(points, slices, strict=True)
            return math.fsum(
                point.time_fraction * getattr(component, constant) for point, component in pairs
            )

        constants = (field.name for field in fields(Component))
        return (replace(self.technology, slice=Component(*map(mean, constants))),)

    def _rates(
        self, kernel: int, events: NDArray[np.float64], technology: Technology
    ) -> NDArray[np.float64]:
        """Rates on fault maps, over busy and idle time: float64[3, n].

        The rows are the busy fraction of the time; the work, in busy time of the conventional
        slice; and the power in mW.
        """
        activity = self.fault_free.activities[kernel].under(events)
        idle, technique = self.fault_free.idle[kernel], self.fault_free.replays[kernel].technique
        lost = slowdown(activity, technique, technology, self.penalties)
        slower, waits = 1 + lost.total, 1 + events[:, Event.WAIT]
        longer = slower * waits
        spent = energy(activity, technique, technology, slowdown=longer - 1)
        whole = waits + idle
        entries = self.fault_free.replays[kernel].geometry.entries
        held = self.fault_free.happens.holding[kernel] / entries * technology.slice.leakage_mw
        power = spent.total / (self._nanoseconds(activity) * (slower * whole)) + held * idle / whole
        return np.stack([waits / whole, 1 / (slower * whole), power])

    def _nanoseconds(self, activity: Activity) -> float:
        return activity.cycles / self.technology.clock_ghz

    @cached_property
    def _undisturbed(self) -> list[NDArray[np.float64]]:
        """Rates on a fault-free slice for each of the technologies: float64[3, kernels]."""
        events = self.fault_free.events
        return [
            np.hstack([self._rates(k, events[k, None], technology) for k in range(len(events))])
            for technology in self._technologies
        ]

    @cached_property
    def _conventional(self) -> list[NDArray[np.float64]]:
        """Energy per busy time for each of the technologies, and at the nominal Vdd: [kernels]."""
        return [
            np.array(
                [
                    energy(activity, CONVENTIONAL, technology).total[0]
                    / self._nanoseconds(activity)
                    + technology.slice.leakage_mw * idle
                    for activity, idle in zip(self.conventional, self.fault_free.idle, strict=True)
                ]
            )
            for technology in (*self._technologies, self.technology)
        ]
