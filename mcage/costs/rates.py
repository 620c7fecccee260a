"""Rates of a technique over busy and idle time, of all lives of a batch at once.

On most fault maps events differ from kernel to kernel and from life to life, so that a batch has up
to 100,000 activities. All of a kernel are weighed together by :func:`mcage.costs.energy` and
:func:`mcage.costs.slowdown`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import KernelActivity
from mcage.costs.energy import energy, slowdown
from mcage.replays.outcome import Event
from mcage.spec.cost_constants import Penalties, Technology
from mcage.techniques import Technique


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices under a technique, on each kernel of a sweep.

    Attributes
    ----------
    technique : Technique
        The technique.
    activities : tuple of KernelActivity
        What a slice does in a busy pass of each kernel.
    idle : float64[kernels]
        Idle time after a pass in which the slice holds, over its busy time.
    holding : int64[kernels]
        Entries that stay on meanwhile.
    penalties : Penalties
        Cycles that events cost.
    technologies : tuple of Technology
        Constants of the components at each operating point, those of the slice at its Vdd.
    fault_free : float64[kernels, EVENTS]
        Events per cycle on a fault-free slice.
    """

    technique: Technique
    activities: tuple[KernelActivity, ...]
    idle: NDArray[np.float64]
    holding: NDArray[np.int64]
    penalties: Penalties
    technologies: tuple[Technology, ...]
    fault_free: NDArray[np.float64]

    def rates(
        self, kernel: int, events: NDArray[np.float64], technology: Technology
    ) -> NDArray[np.float64]:
        """Rates on fault maps, over busy and idle time: float64[3, n].

        The rows are the busy fraction of the time; the work, in busy time of the conventional
        slice; and the power in mW, NaN for another slice than that of the technology.

        Parameters
        ----------
        kernel : int
            Number of the kernel.
        events : float64[n, EVENTS]
            Events per cycle.
        technology : Technology
            Constants of the components, those of the slice at its Vdd.
        """
        activity, idle = self.activities[kernel].under(events), self.idle[kernel]
        lost = slowdown(activity, self.technique, technology, self.penalties)
        slower, waits = 1 + lost.total, 1 + events[:, Event.WAIT]
        longer = slower * waits
        spent = energy(activity, self.technique, technology, slowdown=longer - 1)
        whole = waits + idle
        held = self.holding[kernel] / activity.geometry.entries * technology.slice.leakage_mw
        nanoseconds = activity.cycles / technology.clock_ghz
        power = spent.total / (nanoseconds * (slower * whole)) + held * idle / whole
        return np.stack([waits / whole, 1 / (slower * whole), power])

    @cached_property
    def undisturbed(self) -> NDArray[np.float64]:
        """Rates on a fault-free slice: float64[points, 3, kernels]."""
        events = self.fault_free
        return np.stack(
            [
                np.hstack([self.rates(k, events[k, None], technology) for k in range(len(events))])
                for technology in self.technologies
            ]
        )

    def add_up(
        self,
        seconds: NDArray[np.float64],
        events: NDArray[np.float64],
        kernel: NDArray[np.int64],
        weight: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Rates of the mix at each moment of each of I lives, times the seconds of the moment.

        Parameters
        ----------
        seconds : float64[I, epochs, moments]
            Weights of the moments. Where it is 0, so are the products.
        events : float64[I, epochs, moments, turns, EVENTS]
            Events per cycle of each kernel.
        kernel, weight : int64[I, epochs, turns], float64[I, epochs, turns]
            Kernels that take turns, and their shares.
        reference : float64[points + 1, kernels]
            Energy of a conventional slice per busy time by operating point, and at the nominal Vdd.

        Returns
        -------
        float64[3 + 2 x points, I, epochs, moments]
            Busy time, work, and the energy that a conventional slice takes for the work at the
            nominal Vdd; then at each point the energy of the slice, and that of a conventional one.
        """
        of_turn = np.broadcast_to(kernel[:, :, None], events.shape[:-1])
        differs = (events != self.fault_free[of_turn]).any(axis=-1) & (seconds != 0)[..., None]
        rates = self.undisturbed[:, :, of_turn]
        for number in range(len(self.fault_free)):
            places = np.nonzero(differs & (of_turn == number))
            if len(places[0]):
                for of_point, technology in zip(rates, self.technologies, strict=True):
                    of_point[:, *places] = self.rates(number, events[places], technology)
        products = np.zeros((3 + 2 * len(self.technologies), *seconds.shape))
        busy, work, _ = rates[-1]  # the same at all points
        *by_point, nominal = reference
        for turn in range(of_turn.shape[-1]):
            share, runs = weight[:, :, None, turn], of_turn[..., turn]
            products[0] += share * busy[..., turn]
            products[1] += share * work[..., turn]
            products[2] += share * (work[..., turn] * nominal[runs])
            for point, conventional in enumerate(by_point):
                products[3 + 2 * point] += share * rates[point, 2, ..., turn]
                products[4 + 2 * point] += share * (work[..., turn] * conventional[runs])
        return np.where(seconds != 0, products * seconds, 0.0)
