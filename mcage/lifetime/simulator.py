"""The life of a batch of instances, epoch by epoch, until its end or the horizon.

In an epoch the kernel and the fault map stay as they are. Before it, the technique must find room
for the kernel on that map; after it, cells have aged, faults may have grown, and the technique must
still find room; whatever ends a life on the way is solved for inside the epoch.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.delay import delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.sampling import InstanceConstants
from mcage.engines.interface import Engine
from mcage.engines.stress import TrackedCells
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation.additive import AdditiveDegradation
from mcage.lifetime.degradation.base import Degradation
from mcage.lifetime.degradation.stepwise import StepwiseDegradation
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.lifetime.feasibility import Replayed, Room
from mcage.lifetime.new_faults import NewFaults
from mcage.replays.outcome import EVENTS, Event
from mcage.spec.epochs import growth_weights, middles_of_growth
from mcage.variation import EntryFaults, TailCells

BISECTIONS = 12
"""Halvings of an epoch in search of the moment at which room runs out: 4 hours of two years."""

MOMENTS = 3
"""Moments of an epoch at which its events are counted: start, middle of growth, end."""


@dataclass(frozen=True)
class Lives:
    """What became of the instances of a batch; arrays [instances, ...].

    Attributes
    ----------
    life_seconds, end_cause : float64[I], int8[I]
        End of life, or the horizon where the cause is `EndCause.CENSORED`.
    max_dvth_volts, longest_duty : float64[I, 2]
        Largest shift of T0 and T1; longest share of the life at '0' and at '1'.
    writes : float64[I, 4]
        Shares of the writes of the life: regular, to reliable, to faulty, LDS. NaN (as the next
        three) if there was no life.
    wakeups, movs, mispredictions : float64[I]
        Per write.
    peak_spilled_rows, faulty_start, faulty_end : int64[I]
        Spilled rows at most, those that found room only; faulty entries at the start and at the
        end.
    epoch_max_dvth_volts, epoch_faulty, epoch_peak_spilled : float64[I, epochs(, 2)]
        Shifts at the end of each epoch; faulty entries and spilled rows in it. NaN after death.
    sampled_dvth_volts : float64[I, sample, 2]
        Shifts of the sampled cells at the end.
    moment_seconds : float64[I, epochs, 3]
        Weights of the moments of each epoch that stand for all of it; 0 after death.
    moment_events : float64[I, epochs, 3, EVENTS]
        Events per cycle at these moments.
    """

    life_seconds: NDArray[np.float64]
    end_cause: NDArray[np.int8]
    max_dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]
    delay_increase: NDArray[np.float64]
    writes: NDArray[np.float64]
    wakeups: NDArray[np.float64]
    movs: NDArray[np.float64]
    mispredictions: NDArray[np.float64]
    peak_spilled_rows: NDArray[np.int64]
    faulty_start: NDArray[np.int64]
    faulty_end: NDArray[np.int64]
    epoch_max_dvth_volts: NDArray[np.float64]
    epoch_faulty: NDArray[np.float64]
    epoch_peak_spilled: NDArray[np.float64]
    sampled_dvth_volts: NDArray[np.float64]
    moment_seconds: NDArray[np.float64]
    moment_events: NDArray[np.float64]


def live(
    rules: LifeConditions,
    engine: Engine,
    shared: FaultFreeReplays,
    kernel_of_epoch: NDArray[np.int64],
    tail: TailCells,
    sample: NDArray[np.int64],
    constants: InstanceConstants | None = None,
) -> Lives:
    """Live a batch of instances of one case.

    Parameters
    ----------
    rules : LifeRules
        What holds for all of them.
    engine : Engine
        Replays what depends on a fault map.
    shared : SharedReplays
        The case's technique on each kernel.
    kernel_of_epoch : int64[I, epochs]
        Kernel that each instance runs.
    tail : TailCells
        Cells that may become faulty above the rules' floor.
    sample : int64[I, sample]
        Cells whose shifts stand for the distribution over the slice.
    constants : InstanceConstants, optional
        What the instances have of their own: to be given where the laws of the rules let them
        differ.

    Raises
    ------
    UserError
        As `LifeConditions.drift`.
    """
    return _Batch(rules, constants, engine, shared, kernel_of_epoch, tail, sample).run()


class _Batch:
    """State of a batch while it lives; index [instance] throughout.

    An instance that ends in the midst of an epoch is left as it was at the start of that epoch, its
    last. When all have come to their last one, the moments of all ends are solved for together.
    """

    def __init__(
        self,
        rules: LifeConditions,
        constants: InstanceConstants | None,
        engine: Engine,
        shared: FaultFreeReplays,
        kernel_of_epoch: NDArray[np.int64],
        tail: TailCells,
        sample: NDArray[np.int64],
    ) -> None:
        count, epochs = kernel_of_epoch.shape
        faulty = tail.vmin_volts > rules.environment.lowest_vdd_volts
        self.entries = EntryFaults.none(count).more(tail, faulty)
        # A cell that is faulty from the start stays so, whatever becomes of it.
        self.tail = tail.at(np.flatnonzero(~faulty), np.arange(count))
        self.rules, self.limits = rules, rules.limits(constants)
        self.kernel_of_epoch = kernel_of_epoch
        self.sampled_cells = sample.shape[1]
        self.room = Room(engine, shared, rules.lds_rows, rules.spill_limit)
        tracked = TrackedCells(
            np.concatenate([self.tail.instance, np.repeat(np.arange(count), sample.shape[1])]),
            np.concatenate([self.tail.cell.astype(np.int64), sample.ravel()]),
        )
        given = (engine, shared.duties, tracked, self.sampled_cells, count)
        self.degradation: Degradation
        if rules.sums_suffice:
            self.degradation = AdditiveDegradation(rules.drift(constants), *given)
        else:
            self.degradation = StepwiseDegradation(rules.history(constants), *given)

        # The last epoch of each instance so far, and the replays at both its ends.
        self.epoch = np.zeros(count, dtype=np.int64)
        self.first, self.last = Replayed.none(count), Replayed.none(count)

        self.faulty = np.zeros(len(self.tail.cell), dtype=bool)
        self.healthy = np.arange(len(self.tail.cell))
        self.fault_maps = self.entries.fault_maps(rules.spread_blocks)
        self.faulty_start = (self.fault_maps != 0).sum(axis=1)
        self.faulty_end = self.faulty_start.copy()

        self.ended_by_delay = np.zeros(count, dtype=bool)
        self.ended_by_faults = np.zeros(count, dtype=bool)
        self.end_seconds = np.full(count, rules.horizon_seconds)
        self.cause = np.full(count, EndCause.CENSORED, dtype=np.int8)
        self.moment_seconds = np.zeros((count, epochs, MOMENTS))
        self.moment_events = np.zeros((count, epochs, MOMENTS, EVENTS))
        self.peak = np.zeros(count, dtype=np.int64)
        self.epoch_max_dvth = np.full((count, epochs, 2), np.nan)
        self.epoch_faulty = np.full((count, epochs), np.nan)
        self.epoch_peak = np.full((count, epochs), np.nan)

    def run(self) -> Lives:
        edges = [years * SECONDS_PER_YEAR for years in self.rules.epoch_edges_years]
        running = np.arange(len(self.end_seconds))
        for epoch, (start, end) in enumerate(pairwise(edges)):
            first = self._begin(running, epoch, start)
            running, first = running[first.fits], first.of(first.fits)
            if not len(running):
                break
            self.first.keep(running, first)
            self.epoch[running] = epoch
            self.epoch_faulty[running, epoch] = (first.fault_maps != 0).sum(axis=1)
            running = self._age(running, first, start, end)
        self._end()
        return self._lives()

    def _begin(self, running: NDArray[np.int64], epoch: int, start: float) -> Replayed:
        """Let instances begin an epoch; those that find no room end there."""
        kernel = self.kernel_of_epoch[running, epoch]
        first = self.room.replay(kernel, self.fault_maps[running], self.last.of(running))
        dead = ~first.fits
        self.end_seconds[running[dead]] = start
        self.cause[running[dead]] = first.end_cause[dead]
        return first

    def _age(
        self, running: NDArray[np.int64], first: Replayed, start: float, end: float
    ) -> NDArray[np.int64]:
        """Let instances live through an epoch; return those that do not end in it."""
        self.degradation.add(running, first.kernel, first.fault_maps, start, end)
        found, places = self._new_faults(running)
        faults = found.faults_at(found.span.end)
        fault_maps = faults.fault_maps(self.rules.spread_blocks)
        last = self.room.replay(first.kernel, fault_maps, first)
        self.last.keep(running, last)
        limit = self.limits.of(running).dvth_limit_volts
        self.ended_by_delay[running] = self.degradation.exceeds(running, limit)
        without_room = np.flatnonzero(~last.fits)
        if len(without_room):
            self.ended_by_faults[running[without_room]] = self._runs_out(
                found.of(without_room), first.of(without_room), last.of(without_room)
            )

        ended = (self.ended_by_delay | self.ended_by_faults)[running]
        if ended.any():
            going = np.flatnonzero(~ended)
            running, found = running[going], found.of(going)
            first, last = first.of(going), last.of(going)
            faults, fault_maps = faults.of(going), fault_maps[going]
            places = places[self._chosen(running)[self.tail.instance[places]]]
        self._live_until(running, found.span.end, found, first, last)
        self.entries.keep(running, faults)
        self.fault_maps[running] = fault_maps
        self.faulty[places] = True
        self.healthy = self.healthy[~self.faulty[self.healthy]]
        return running

    def _new_faults(self, instances: NDArray[np.int64]) -> tuple[NewFaults, NDArray[np.int64]]:
        """Faults that appear in the last epoch of some instances, and their places in the tail.

        A cell that is healthy at both ends of an epoch is so throughout (docs/aging.md).
        """
        chosen = self._chosen(instances)
        healthy = self.healthy[chosen[self.tail.instance[self.healthy]]]
        instance, degradation = self.tail.instance[healthy], self.degradation.cells(healthy)
        shift = degradation.dvth(self.degradation.span.end[instance])
        fails = self.limits.of(instance).are_faulty(self.tail.vmin_volts[healthy], shift)
        places = healthy[fails]
        found = NewFaults(
            limits=self.limits.of(instances),
            spread_blocks=self.rules.spread_blocks,
            span=self.degradation.span.of(instances),
            earlier=self.entries.of(instances),
            cells=self.tail.at(places, instances),
            degradation=degradation.of(fails),
        )
        return found, places

    def _runs_out(self, found: NewFaults, first: Replayed, last: Replayed) -> NDArray[np.bool_]:
        """Whether instances without room at the end of an epoch lack it earlier.

        What fits up to the last moment that bisection looks at leaves the rest to the next epoch.
        """
        moment, end = found.span.start, found.span.end
        for _ in range(BISECTIONS):
            moment = 0.5 * (moment + end)
        return ~self.room.replay(first.kernel, found.fault_maps_at(moment), last, first).fits

    def _live_until(
        self,
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
        found: NewFaults,
        first: Replayed,
        last: Replayed,
    ) -> None:
        """Account for the last epochs of some instances, up to a moment of each."""
        start, epoch = found.span.start, self.epoch[instances]
        halfway = found.fault_maps_at(middles_of_growth(start, moment))
        middle = self.room.replay(first.kernel, halfway, first, last)
        self.moment_seconds[instances, epoch] = growth_weights(start, moment).T
        self.moment_events[instances, epoch] = np.stack(
            [first.events, middle.events, last.events], axis=1
        )
        # One row more than there is room for ends the life: it never lived in the LDS.
        peak = np.maximum(first.peak, np.minimum(last.peak, self.rules.lds_rows))
        self.epoch_peak[instances, epoch] = peak
        self.peak[instances] = np.maximum(self.peak[instances], peak)
        self.epoch_max_dvth[instances, epoch] = self.degradation.worst_dvth(instances, moment).T
        self.faulty_end[instances] = (last.fault_maps != 0).sum(axis=1)

    def _end(self) -> None:
        """Solve for the moments of the ends that lie inside an epoch."""
        ended = np.flatnonzero(self.ended_by_delay | self.ended_by_faults)
        if not len(ended):
            return
        found, _ = self._new_faults(ended)
        moment, cause = found.span.end.copy(), np.full(len(ended), EndCause.DELAY)
        late = np.flatnonzero(self.ended_by_delay[ended])
        limit = self.limits.of(ended[late]).dvth_limit_volts
        moment[late] = self.degradation.reaching(ended[late], limit)
        failed = np.flatnonzero(self.ended_by_faults[ended])
        by_faults, failure = self._end_by_faults(ended[failed], found.of(failed))
        sooner = by_faults < moment[failed]
        moment[failed[sooner]], cause[failed[sooner]] = by_faults[sooner], failure[sooner]
        self.end_seconds[ended], self.cause[ended] = moment, cause

        first, last = self.first.of(ended), self.last.of(ended)
        last = self.room.replay(first.kernel, found.fault_maps_at(moment), first, last)
        self._live_until(ended, moment, found, first, last)

    def _end_by_faults(
        self, instances: NDArray[np.int64], found: NewFaults
    ) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Moments at which kernels can run no longer, and why."""
        fits, full = self.first.of(instances), self.last.of(instances)
        low, high = found.span.start, found.span.end
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            tried = self.room.replay(fits.kernel, found.fault_maps_at(middle), fits, full)
            low, high = np.where(tried.fits, middle, low), np.where(tried.fits, high, middle)
            fits.keep(tried.fits, tried.of(tried.fits))
            full.keep(~tried.fits, tried.of(~tried.fits))
        return high, full.end_cause

    def _chosen(self, instances: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.zeros(len(self.end_seconds), dtype=bool)
        chosen[instances] = True
        return chosen

    def _lives(self) -> Lives:
        lived = np.flatnonzero(self.end_seconds > 0)
        age = self.end_seconds[lived]
        count = len(self.end_seconds)
        dvth, duty = np.zeros((count, 2)), np.zeros((count, 2))
        sampled = np.zeros((2, count, self.sampled_cells))
        dvth[lived] = self.degradation.worst_dvth(lived, age).T
        duty[lived] = self.degradation.longest_duty(lived, age).T
        sampled[:, lived] = self.degradation.sampled_dvth(lived, age)
        events = (self.moment_seconds[..., None] * self.moment_events).sum(axis=(1, 2))
        writes = events[:, : Event.LDS + 1].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = events / writes[:, None]
        return Lives(
            life_seconds=self.end_seconds,
            end_cause=self.cause,
            max_dvth_volts=dvth,
            longest_duty=duty,
            delay_increase=delay_increase(
                dvth.max(axis=1),
                self.rules.environment.highest_vdd_volts,
                self.limits.vt0_volts,
                self.rules.nbti.alpha,
            ),
            writes=rates[:, : Event.LDS + 1],
            wakeups=rates[:, Event.WAKEUP],
            movs=rates[:, Event.MOV],
            mispredictions=rates[:, Event.MISPREDICTION],
            peak_spilled_rows=self.peak,
            faulty_start=self.faulty_start,
            faulty_end=self.faulty_end,
            epoch_max_dvth_volts=self.epoch_max_dvth,
            epoch_faulty=self.epoch_faulty,
            epoch_peak_spilled=self.epoch_peak,
            sampled_dvth_volts=np.moveaxis(sampled, 0, 2),
            moment_seconds=self.moment_seconds,
            moment_events=self.moment_events,
        )
