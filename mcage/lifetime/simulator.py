"""The life of a batch of instances, epoch by epoch, until its end or the horizon.

In an epoch the kernels and the fault map stay as they are. Before an epoch, the technique must be
able to run every kernel of the epoch on that fault map. After it, cells have degraded, faults may
have grown, and the technique must still be able to run them. The moment at which a life ends is
solved for inside its last epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.sampling import InstanceConstants
from mcage.aging.vmin import VALUES
from mcage.engines.interface import Engine
from mcage.engines.stress import TrackedCells, Turns, TurnsByEpoch
from mcage.geometry import Booleans, Floats, Integers
from mcage.lifetime import BISECTIONS, EndCause, outcomes
from mcage.lifetime.check_cells import DegradationOfBoth
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import AdditiveDegradation, Degradation, StepwiseDegradation
from mcage.lifetime.faults import BatchLuck, CellLimits, NewFaults, delay_end
from mcage.lifetime.feasibility import FaultFreeReplays, FaultMapReplays, Feasibility
from mcage.replays.outcome import Event
from mcage.spec.epochs import growth_weights, middles_of_growth
from mcage.variation.fault_models import NewSlices


@dataclass(frozen=True, eq=False)
class SliceBatch:
    """I instances that are simulated together; their results do not depend on the batch.

    Parameters
    ----------
    workload : sequence of Turns
        Kernels that take turns in each epoch, equally many in all of them.
    new : NewSlices
        Their faults at the lowest Vdd, and the cells that may become faulty: above the floor of the
        conditions.
    sampled_cells : int64[I, sample]
        Cells whose shifts stand for the distribution over the slice.
    constants : InstanceConstants, optional
        Constants of the instances. They may be left out if the distributions of the conditions
        make all instances alike.
    luck : BatchLuck, optional
        Scores of the transistors, where the conditions let them differ by their luck.
    limits : CellLimits, optional
        What decides when the cells of the tail fail, where the conditions know margins.
    """

    workload: Sequence[Turns]
    new: NewSlices
    sampled_cells: Integers
    constants: InstanceConstants | None = None
    luck: BatchLuck | None = None
    limits: CellLimits | None = None

    def vmin_volts(self, conditions: LifeConditions) -> Floats:
        """Vmin of the cells of the tail, as `CellFailure.are_faulty` takes it: float64[k, n]."""
        if conditions.margins is not None:
            assert self.limits is not None, "no limits were drawn for the margins of the cells"
            return self.limits.vmin_volts
        if self.luck is not None:
            return self.luck.vmin_volts
        if conditions.pbti is None:
            return self.new.tail.vmin_of_both
        return np.stack([self.new.tail.vmin_volts] * 4)

    def __len__(self) -> int:
        return len(self.workload[0].kernel)


def simulate_lifetimes(
    conditions: LifeConditions,
    engine: Engine,
    fault_free: FaultFreeReplays,
    batch: SliceBatch,
) -> outcomes.LifeOutcomes:
    """Simulate the lives of a batch of instances in a case.

    Parameters
    ----------
    conditions : LifeConditions
        What holds for all of them.
    engine : Engine
        Replays what depends on a fault map.
    fault_free : FaultFreeReplays
        The case's technique on each kernel.
    batch : SliceBatch
        The instances.

    Raises
    ------
    UserError
        As `LifeConditions.additive_shift`.
    """
    with engine.working():
        return BatchOfLives(conditions, engine, fault_free, batch).run()


class BatchOfLives:
    """State of a batch while it lives; index [instance] throughout.

    An instance that ends in the midst of an epoch is left as it was at the start of that epoch, its
    last. When all instances have come to their last epochs, the moments of all ends are solved for
    together.
    """

    def __init__(
        self,
        conditions: LifeConditions,
        engine: Engine,
        fault_free: FaultFreeReplays,
        batch: SliceBatch,
    ) -> None:
        count, epochs = len(batch), len(batch.workload)
        self.tail, self.entries = batch.new.tail, batch.new.faults.copy()
        self.vmin_volts = batch.vmin_volts(conditions)
        self.scores = batch.limits.scores if batch.limits else None
        self.conditions, self.batch, self.engine = conditions, batch, engine
        self.delay_end = delay_end(conditions, batch.constants, batch.luck)
        self.failure = conditions.cell_failure(batch.constants)
        self.learnt = engine.learnt(fault_free.duties.replays, count)
        self.feasibility = Feasibility(engine, fault_free, conditions.limits, self.learnt)
        self.epoch = np.zeros(count, dtype=np.int64)  # the last of each instance so far
        self.ended_by_delay = np.zeros(count, dtype=bool)
        self.ended_by_faults = np.zeros(count, dtype=bool)
        # Instances that end in the midst of an epoch, and the replays at both its ends.
        self.ended: list[tuple[Integers, FaultMapReplays, FaultMapReplays]] = []

        self.end = outcomes.LifeEnd.at_horizon(count, conditions.horizon_seconds)
        self.spills = outcomes.Spills.none(count, epochs)
        self.faulty_entries = outcomes.FaultyEntries.of(self.entries.maps, epochs)
        self.uncovered = outcomes.UncoveredByEpoch.none(count, epochs)
        self.uncorrectable = outcomes.UncorrectableWords.none(count)
        self.moments = outcomes.LifeMoments.none(count, TurnsByEpoch.of(batch.workload))
        self.epoch_max_dvth = np.full((count, epochs, 2), np.nan)

    @cached_property
    def degradation(self) -> Degradation:
        """Transistors of the batch; they need no memory where all instances are dead on arrival."""
        batch, followed = self.batch, self.batch.sampled_cells
        if batch.luck:
            followed = np.concatenate([followed, batch.luck.unlucky_cells], axis=1)
        count, sampled = followed.shape
        cells = batch.new.cells_with(followed)
        tracked = TrackedCells(*cells, self.vmin_volts, sampled, self.scores)
        fault_free, conditions = self.feasibility.fault_free, self.conditions

        def degradation(of_check: bool, tracked: TrackedCells) -> Degradation:
            duties = fault_free.check_duties if of_check else fault_free.duties
            assert duties is not None, "words have a code whose check cells were not replayed"
            batch_on = self.engine, duties, tracked, count, self.learnt
            if conditions.sums_suffice:
                return AdditiveDegradation(conditions.additive_shift(batch.constants), *batch_on)
            return StepwiseDegradation(conditions.history(batch.constants), *batch_on)

        if conditions.protection.code is None:
            return degradation(False, tracked)
        return DegradationOfBoth(degradation, tracked, self.tail.geometry.cells, count)

    def run(self) -> outcomes.LifeOutcomes:
        """Let all instances live until their ends, or the horizon."""
        edges = [years * SECONDS_PER_YEAR for years in self.conditions.epoch_edges_years]
        running, last = np.arange(len(self.epoch)), None
        for epoch, (start, end) in enumerate(pairwise(edges)):
            first = self._begin(running, epoch, start, last)
            if not first.feasible.all():
                running, first = running[first.feasible], first.of(first.feasible)
            if not len(running):
                break
            self.epoch[running] = epoch
            self.faulty_entries.epoch[running, epoch] = self.faulty_entries.at_end[running]
            self.uncovered.begin(running, epoch, self.entries)
            running, last = self._age(running, epoch, first, start, end)
        self._solve_ends()
        return self._outcomes()

    def _begin(
        self, running: Integers, epoch: int, start: float, last: FaultMapReplays | None
    ) -> FaultMapReplays:
        """Let instances begin an epoch; those of which a kernel cannot run end there.

        `last` are their replays at the end of the epoch before.
        """
        turns, fault_maps = self.batch.workload[epoch].of(running), self.entries.maps[running]
        if epoch == 0 and self._counts_words:
            self.uncorrectable.begin(running, self.entries.of(running), self._needed(turns))
        if self.learnt:
            self.learnt.begin(running, turns, fault_maps)
        first = self.feasibility.replay(
            running, turns, fault_maps, *([] if last is None else [last])
        )
        dead = np.flatnonzero(~first.feasible)
        self.end.seconds[running[dead]] = start
        self.end.cause[running[dead]] = first.end_cause[dead]
        return first

    def _age(
        self, running: Integers, epoch: int, first: FaultMapReplays, start: float, end: float
    ) -> tuple[Integers, FaultMapReplays]:
        """Let instances live through an epoch.

        Returns
        -------
        int64[n], FaultMapReplays
            Those that do not end in it, and their replays at its end.
        """
        turns = self.batch.workload[epoch].of(running)
        self.degradation.add(running, turns, first.fault_maps, start, end)
        new_faults = self._new_faults(running)
        faults = new_faults.faults_at(new_faults.span.end)
        if self._counts_words:
            self.uncorrectable.grow(running, new_faults, faults, self._needed(turns))
        last = first
        if len(new_faults.places) or self.learnt:
            last = self.feasibility.replay(running, turns, faults.maps, first)
        self.ended_by_delay[running] = self.delay_end.exceeded(self.degradation, running)
        infeasible = np.flatnonzero(~last.feasible)
        if len(infeasible):
            self.ended_by_faults[running[infeasible]] = self._ends_within(
                running[infeasible],
                new_faults.of(infeasible),
                first.of(infeasible),
                last.of(infeasible),
            )

        ended = (self.ended_by_delay | self.ended_by_faults)[running]
        if ended.any():
            alive, dying = np.flatnonzero(~ended), np.flatnonzero(ended)
            self.ended.append((running[dying], first.of(dying), last.of(dying)))
            running, new_faults = running[alive], new_faults.of(alive)
            first, last = first.of(alive), last.of(alive)
            faults = faults.of(alive)
        self.record(running, new_faults.span.end, new_faults, first, last)
        if len(new_faults.places):
            self.entries.keep(running, faults)
            self.degradation.mark_faulty(new_faults.places)
        if self.learnt:
            turns = self.batch.workload[epoch].of(running)
            self.learnt.advance(running, turns, first.fault_maps)
        return running, last

    @property
    def _counts_words(self) -> bool:
        """Whether words may be uncorrectable in entries that are in use."""
        return self.conditions.protection.code is not None and not self._avoids_faults

    @property
    def _avoids_faults(self) -> bool:
        """Whether events depend on fault maps: the technique moves what is stored in their way."""
        fault_free = self.feasibility.fault_free
        return fault_free.redirects or fault_free.packs

    def _needed(self, turns: Turns) -> Booleans:
        """Entries that the kernels of n instances need: bool[n, entries]."""
        of_turns = self.feasibility.fault_free.needed[turns.kernel]
        needed: Booleans = np.logical_or.reduce(of_turns, axis=1)
        return needed

    def _new_faults(self, instances: Integers) -> NewFaults:
        """Faults that appear in the last epochs of instances."""
        places, degradation = self.degradation.failing(instances, self.failure)
        return NewFaults(
            failure=self.failure.of(self.tail.instance[places]),
            span=self.degradation.span.of(instances),
            earlier=self.entries.of(instances),
            places=places,
            cells=self.tail.at(places, instances),
            vmin_volts=self.vmin_volts[:, places],
            degradation=degradation,
            scores=None if self.scores is None else self.scores[:, places],
        )

    def _ends_within(
        self,
        instances: Integers,
        new_faults: NewFaults,
        first: FaultMapReplays,
        last: FaultMapReplays,
    ) -> Booleans:
        """Whether kernels that cannot run at the end of an epoch cannot run within it: bool[n].

        One that can run up to the last moment that bisection looks at ends with the next
        epoch.
        """
        moment, end = new_faults.span.start, new_faults.span.end
        for _ in range(BISECTIONS):
            moment = 0.5 * (moment + end)
        fault_maps = new_faults.fault_maps_at(moment)
        tried = self.feasibility.replay(instances, first.turns, fault_maps, last, first)
        return ~tried.feasible

    def record(
        self,
        instances: Integers,
        moment: Floats,
        new_faults: NewFaults,
        first: FaultMapReplays,
        last: FaultMapReplays,
    ) -> None:
        """Record the last epochs of n instances, up to a moment of each.

        Every epoch of an instance is recorded once, also that in which its life ends; not the
        epochs that it cannot begin. A subclass may record more than the outcomes say.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        moment : float64[n]
            Ends of their epochs, or of their lives.
        new_faults : NewFaults
            Cells that become faulty by the ends of the epochs.
        first, last : FaultMapReplays
            Their replays at the starts of the epochs and at the moments.
        """
        start, epoch = new_faults.span.start, self.epoch[instances]
        middle = first
        if (len(new_faults.places) and self._avoids_faults) or self.learnt:
            halfway = new_faults.fault_maps_at(middles_of_growth(start, moment))
            middle = self.feasibility.replay(instances, first.turns, halfway, first, last)
        self.moments.seconds[instances, epoch] = growth_weights(start, moment).T
        for place, replays in enumerate((first, middle, last)):
            self.moments.events[instances, epoch, place] = replays.events
        found_room = last.peak_spilled_rows.max(axis=1)
        if not self.conditions.limits.to_memory:
            # A row more than there is room for ends the life: it never was in the LDS.
            found_room = np.minimum(found_room, self.conditions.limits.lds_rows)
        peak = np.maximum(first.peak_spilled_rows.max(axis=1), found_room)
        self.spills.epoch_peak_rows[instances, epoch] = peak
        self.spills.peak_rows[instances] = np.maximum(self.spills.peak_rows[instances], peak)
        worst = self.delay_end.worst_dvth(self.degradation, instances, moment)
        self.epoch_max_dvth[instances, epoch] = worst.T
        self.faulty_entries.at_end[instances] = np.count_nonzero(last.fault_maps, axis=1)
        if self.batch.limits is not None:
            faulty = new_faults.are_faulty_at(moment)
            kind = self.batch.limits.limit[new_faults.places[faulty]] // VALUES
            instance = instances[new_faults.cells.instance[faulty]]
            np.add.at(self.faulty_entries.new_by_margin, (instance, kind), 1)

    def _solve_ends(self) -> None:
        """Solve for the moments of the ends that lie inside an epoch."""
        if not self.ended:
            return
        ended = np.flatnonzero(self.ended_by_delay | self.ended_by_faults)
        first, last = self._replays_of_ended(ended)
        new_faults = self._new_faults(ended)
        moment, cause = new_faults.span.end.copy(), np.full(len(ended), EndCause.DELAY)
        late = np.flatnonzero(self.ended_by_delay[ended])
        moment[late] = self.delay_end.reaching(self.degradation, ended[late])
        failed = np.flatnonzero(self.ended_by_faults[ended])
        by_faults, failure = self._solve_ends_by_faults(
            ended[failed], new_faults.of(failed), first.of(failed), last.of(failed)
        )
        sooner = by_faults < moment[failed]
        moment[failed[sooner]], cause[failed[sooner]] = by_faults[sooner], failure[sooner]
        self.end.seconds[ended], self.end.cause[ended] = moment, cause

        fault_maps = new_faults.fault_maps_at(moment)
        last = self.feasibility.replay(ended, first.turns, fault_maps, first, last)
        self.record(ended, moment, new_faults, first, last)

    def _replays_of_ended(self, ended: Integers) -> tuple[FaultMapReplays, FaultMapReplays]:
        """Replays at both ends of the last epochs of all that end within one, in rising order."""
        turns, entries = len(self.batch.workload[0]), self.entries.maps.shape[1]
        first, last = (FaultMapReplays.none(len(ended), turns, entries) for _ in range(2))
        for instances, at_start, at_end in self.ended:
            places = np.searchsorted(ended, instances)
            first.keep(places, at_start)
            last.keep(places, at_end)
        return first, last

    def _solve_ends_by_faults(
        self,
        instances: Integers,
        new_faults: NewFaults,
        feasible: FaultMapReplays,
        infeasible: FaultMapReplays,
    ) -> tuple[Floats, NDArray[np.int8]]:
        """Moments from which kernels cannot run any longer, and why: float64[n], int8[n].

        The replays are those at the starts and at the ends of the epochs; they are changed.
        """
        low, high = new_faults.span.start, new_faults.span.end
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            fault_maps = new_faults.fault_maps_at(middle)
            turns = feasible.turns
            tried = self.feasibility.replay(instances, turns, fault_maps, feasible, infeasible)
            runs = tried.feasible
            low, high = np.where(runs, middle, low), np.where(runs, high, middle)
            feasible.keep(runs, tried.of(runs))
            infeasible.keep(~runs, tried.of(~runs))
        return high, infeasible.end_cause

    def _outcomes(self) -> outcomes.LifeOutcomes:
        return outcomes.LifeOutcomes(
            end=self.end,
            degradation=self._degradation_outcome(),
            writes=self._write_rates(),
            spills=self.spills,
            faulty_entries=self.faulty_entries,
            uncovered=self.uncovered,
            uncorrectable=self.uncorrectable,
            moments=self.moments,
        )

    def _degradation_outcome(self) -> outcomes.DegradationOutcome:
        lived = np.flatnonzero(self.end.seconds > 0)
        age, count = self.end.seconds[lived], len(self.epoch)
        dvth, duty, of_path = np.zeros((count, 2)), np.zeros((count, 2)), np.zeros(count)
        dvth[lived] = self.delay_end.worst_dvth(self.degradation, lived, age).T
        of_path[lived] = self.delay_end.path_dvth(self.degradation, lived, age)
        duty[lived] = self.degradation.longest_duty(lived, age).T
        return outcomes.DegradationOutcome(
            max_dvth_volts=dvth,
            longest_duty=duty,
            delay_increase=delay_increase(
                of_path,
                self.conditions.environment.highest_vdd_volts,
                self.delay_end.limit.vt0_volts,
                self.conditions.alpha(self.batch.constants),
            ),
            sampled=outcomes.SampledCells(
                self.degradation, count, lived, age, self._sampled_luck()
            ),
            epoch_max_dvth_volts=self.epoch_max_dvth,
        )

    def _sampled_luck(self) -> outcomes.SampledLuck | None:
        spread, luck = self.conditions.spread, self.batch.luck
        return outcomes.SampledLuck(spread.traps, luck.sampled) if spread and luck else None

    def _write_rates(self) -> outcomes.WriteRates:
        events = self.moments.events_of_lives()
        writes = events[:, : Event.LDS + 1].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = events / writes[:, None]
        return outcomes.WriteRates(
            fractions=rates[:, : Event.LDS + 1],
            memory=rates[:, Event.MEMORY],
            wakeups=rates[:, Event.WAKEUP],
            movs=rates[:, Event.MOV],
            mispredictions=rates[:, Event.MISPREDICTION],
        )
