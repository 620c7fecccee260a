"""Placement programs above all engines: passes until duties settle, and what instances learn."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import usable_cores
from mcage.engines.stress import DenseStress, FaultFreeDuties, SliceTimes, TrackedCells, Turns
from mcage.errors import UserError
from mcage.geometry import Booleans, Bytes, Integers
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay, ProgrammedReplay

# Work of an engine for placement programs: run them for some passes, and sum up cell times.

COUNTERS = 10
(
    REGULAR,
    TO_RELIABLE,
    TO_FAULTY,
    LDS,
    LDS_READS,
    PEAK,
    ROW_CYCLES,
    WAKEUPS,
    MEMORY,
    MEMORY_READS,
) = range(COUNTERS)
"""Columns of counted events: the arrays of `mcage.replays.outcome.Counters` in their order."""


FINE, NO_ENTRY, NEEDS_BLOCK, NEEDS_ENTRY, NOT_SOUND, TAKEN, KEPT = range(7)
PROBLEMS = (
    "",
    "there is no such entry",
    "a compressed value needs a block of it",
    "an uncompressed value needs the whole of it",
    "it has a faulty block, which the value does not fit into",
    "another row lives there",
    "it is not free though all windows are closed",
)
"""Errors of an answer."""


ARRIVAL = ("cycle", "until", "write", "place")
CYCLE, UNTIL, WRITE_OF, PLACE = range(len(ARRIVAL))
"""Columns of arrivals, which are values that come to a place of the slice, by a write or by a swap:
when, from the start of the pass; when the value is gone from there, as it is replaced, released or
swapped; the write that it is of; and the place, as programs answer it."""


@dataclass(frozen=True, eq=False)
class PassRecord:
    """Events of a pass.

    Attributes
    ----------
    counters : int64[10]
        Counted events; of the spilled rows the most at once.
    arrivals : int32[n, 4]
        Where values lived: entry after entry, in the order of time in each.
    """

    counters: Integers
    arrivals: NDArray[np.int32]


class ProgramRunner(ABC):
    """Runs the program of a replay, for one slice at a time.

    Parameters
    ----------
    replay : ProgrammedReplay
        A technique with a program on a trace.
    """

    def __init__(self, replay: ProgrammedReplay) -> None:
        self.replay = replay

    @abstractmethod
    def run_pass(self, fault_map: Bytes, state: Integers) -> PassRecord:
        """Run one pass.

        Parameters
        ----------
        fault_map : uint8[entries]
            Bit b set = block b is unusable.
        state : int64[words]
            What the program keeps; changed.

        Raises
        ------
        UserError
            The program fails, or answers what cannot be.
        """

    @abstractmethod
    def cell_times(self, passes: Sequence[PassRecord]) -> tuple[Integers, Integers]:
        """Cycles of each cell at '1' and powered in passes that repeat: int64[entries, bits]."""


def breach(
    replay: ProgrammedReplay, cycle: int, row: int, entry: int, problem: int, answer: int
) -> UserError:
    """Error of a program whose answer cannot be; `problem` is a number of `PROBLEMS`."""
    return UserError(
        f"technique {replay.technique.name!r}: cycle {cycle}, row {row}, entry {entry}: "
        f"{PROBLEMS[problem]} (answer {answer})"
    )


# The long run of a placement program: passes of the trace until the duties of all cells settle.
#
# What a program keeps goes on from pass to pass. If it keeps nothing, each pass is as the first. If
# its state at the end of a pass is that of an earlier one, the passes between repeat for ever, and
# their times are exact. Otherwise the passes are doubled: 1, 1, 2, 4, 8, ... of them make a group,
# and the times of the latest group stand for the long run when they differ little from those of the
# group before: the longest duties at '0' and at '1', and the duties of the cells in use by the root
# of the mean square of their differences. The passes that stand for the long run are taken to
# repeat.

FEWEST_PASSES = 32
"""Passes before which nothing counts as settled: a program may wait long before it acts."""


CountedEvents = tuple[Integers, int]
"""Events, int64[10], of so many passes that stand for the long run."""


@dataclass(frozen=True, eq=False)
class LongRun:
    """The long run of a slice.

    Attributes
    ----------
    passes : int
        Passes that stand for it.
    ones, powered : unsignedinteger[entries, bits]
        Cycles of each cell at '1' and powered in these passes.
    state : int64[words]
        What the program keeps at their end.
    events : CountedEvents
        Events, as `counted_events` counts them.
    """

    passes: int
    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    state: Integers
    events: CountedEvents


def long_run(runner: ProgramRunner, fault_map: Bytes, state: Integers) -> LongRun:
    """Run the program of a replay until duties settle.

    Parameters
    ----------
    runner : ProgramRunner
        An engine's runner of the replay.
    fault_map : uint8[entries]
        Bit b set = block b is unusable.
    state : int64[words]
        What the program keeps at the beginning.

    Raises
    ------
    UserError
        The program fails, or its duties do not settle.
    """
    program, passes = runner.replay.program, _Passes(runner, fault_map, state)
    before, change = None, 1.0
    while len(passes.records) < program.most_passes:
        group = max(1, len(passes.records))
        if passes.go_on(group):
            return passes.long_run()
        if 2 * len(passes.records) < min(FEWEST_PASSES, program.most_passes):
            continue  # too early for these duties to be compared
        result = passes.long_run(latest=group)
        if before is not None:
            change = _change(result, before, runner.replay.cycles)
            if change <= program.tolerance and len(passes.records) >= FEWEST_PASSES:
                return result
        before = result
    raise UserError(
        f"technique {runner.replay.technique.name!r}: its duties have not settled on trace "
        f"{runner.replay.schedule.trace.name!r} after {len(passes.records)} passes: they still "
        f"change by {change:.3g}; its program may set most_passes (now {program.most_passes}) or "
        f"tolerance (now {program.tolerance:g})"
    )


def counted_events(runner: ProgramRunner, fault_map: Bytes, state: Integers) -> CountedEvents:
    """Events of the long run, and of how many passes they are.

    Events settle sooner than duties: those of the second half of `FEWEST_PASSES` are taken, or the
    passes that repeat.

    Parameters
    ----------
    runner, fault_map, state
        As for `long_run`.
    """
    passes = _Passes(runner, fault_map, state, keep=False)
    passes.go_on(FEWEST_PASSES)
    return passes.events


class _Passes:
    """Passes of a program on a fault map, from a state on, until one ends as an earlier one did.

    `records` are those of all passes so far, unless they are not to be kept.
    """

    def __init__(
        self, runner: ProgramRunner, fault_map: Bytes, state: Integers, keep: bool = True
    ) -> None:
        self.records: list[PassRecord] = []
        self._runner, self._fault_map, self._keep = runner, fault_map, keep
        self._state, self._after = state.copy(), {state.tobytes(): 0}
        self._counters: list[Integers] = []
        self._repeats_from: int | None = None

    def go_on(self, passes: int) -> bool:
        """Run so many more passes, unless they repeat; whether they do."""
        for _ in range(passes):
            record = self._runner.run_pass(self._fault_map, self._state)
            self._counters.append(record.counters)
            if self._keep:
                self.records.append(record)
            number = len(self._counters)
            first = self._after.setdefault(self._state.tobytes(), number)
            if first < number:
                self._repeats_from = first
                return True
        return False

    @property
    def events(self) -> CountedEvents:
        """See `counted_events`."""
        last = min(len(self._counters), FEWEST_PASSES)
        first = last // 2
        if self._repeats_from is not None and len(self._counters) <= FEWEST_PASSES:
            first = self._repeats_from
        return _sum_of(self._counters[first:last]), last - first

    def long_run(self, latest: int = 0) -> LongRun:
        """The long run for which the latest passes stand; by default those that repeat."""
        records = self.records[-latest or self._repeats_from :]
        narrow = np.min_scalar_type(len(records) * self._runner.replay.cycles)
        ones, powered = (cycles.astype(narrow) for cycles in self._runner.cell_times(records))
        return LongRun(len(records), ones, powered, self._state.copy(), self.events)


def _sum_of(counters: list[Integers]) -> Integers:
    """Events of several passes; of the spilled rows the most at once."""
    total: Integers = np.sum(counters, axis=0)
    total[PEAK] = np.max(counters, axis=0)[PEAK]
    return total


def _change(result: LongRun, before: LongRun, cycles: int) -> float:
    """How far duties differ between two groups of passes: the largest of four differences."""
    largest = 0.0
    pairs = (
        (result.ones, before.ones),
        (result.powered - result.ones, before.powered - before.ones),
    )
    for now, then in pairs:
        duty, duty_before = now / (result.passes * cycles), then / (before.passes * cycles)
        written = (duty > 0) | (duty_before > 0)
        difference = (duty - duty_before)[written]
        mean_square = float(np.mean(difference**2)) if len(difference) else 0.0
        largest = max(largest, abs(float(duty.max() - duty_before.max())), mean_square**0.5)
    return largest


# Techniques with a placement program on any engine, which lends it a runner.
#
# What an instance has learnt is a row of int64[n, words]: the state of its program at the start of
# the epoch that it lives in.

PROGRAM_BATCH = 16
"""Instances in a batch: the long runs of their latest epoch are kept, 4 MB each."""

_RUNNERS = 32
"""Kernels whose runners are kept."""

Value = TypeVar("Value")


class Programs:
    """Long runs of placement programs, the latest of which are kept; for any number of threads.

    Parameters
    ----------
    runner_of : callable
        The engine's runner of a replay.
    """

    def __init__(self, runner_of: Callable[[ProgrammedReplay], ProgramRunner]) -> None:
        self._runner_of = runner_of
        self._runners: _Recent[ProgramRunner] = _Recent(_RUNNERS)
        self._runs: _Recent[LongRun] = _Recent(PROGRAM_BATCH * usable_cores())

    def long_run(
        self, replay: PreparedReplay, fault_map: Bytes, state: Integers | None = None
    ) -> LongRun:
        """Long run of a slice.

        Parameters
        ----------
        replay : ProgrammedReplay
            A technique with a program on a trace.
        fault_map : uint8[entries]
            Fault map.
        state : int64[words], optional
            What the program knows at the beginning; by default nothing.

        Raises
        ------
        UserError
            See `mcage.engines.programs.long_run`.
        """
        runner, known = self._begun(replay, state)
        key = replay, fault_map.tobytes(), known.tobytes()
        return self._runs.of(key, lambda: long_run(runner, fault_map, known))

    def _events(
        self, replay: PreparedReplay, fault_map: Bytes, state: Integers | None
    ) -> CountedEvents:
        """Events of a slice."""
        runner, known = self._begun(replay, state)
        run = self._runs.known((replay, fault_map.tobytes(), known.tobytes()))
        return run.events if run else counted_events(runner, fault_map, known)

    def _begun(
        self, replay: PreparedReplay, state: Integers | None
    ) -> tuple[ProgramRunner, Integers]:
        """Runner of a replay, and the state that it begins with."""
        assert isinstance(replay, ProgrammedReplay)
        runner = self._runners.of(replay, lambda: self._runner_of(replay))
        return runner, np.zeros(sum(replay.lengths), np.int64) if state is None else state

    def count(
        self,
        replays: Sequence[PreparedReplay],
        kernel: Integers,
        fault_maps: Bytes,
        states: Integers | None = None,
    ) -> Counters:
        """Events of instances that run the kernels ``kernel`` int64[n]; see `counted_events`.

        Those of a long run that is kept are known.
        """
        counted, passes = np.zeros((len(kernel), COUNTERS), np.int64), np.ones_like(kernel)
        for place, number in enumerate(kernel.tolist()):
            state = None if states is None else states[place]
            counted[place], passes[place] = self._events(replays[number], fault_maps[place], state)
        return Counters(passes, *counted.T)

    def cell_times(
        self, replay: PreparedReplay, fault_maps: Bytes, states: Integers | None = None
    ) -> CellTimes:
        """Cell times of instances; the period of each is that of the passes of its long run."""
        known = [None] * len(fault_maps) if states is None else list(states)
        runs = [
            self.long_run(replay, fault_map, state)
            for fault_map, state in zip(fault_maps, known, strict=True)
        ]
        return CellTimes(
            np.stack([run.ones for run in runs]).astype(np.int64),
            np.stack([run.powered for run in runs]).astype(np.int64),
            np.array([run.passes * replay.cycles for run in runs], dtype=np.int64),
        )


class _Recent(Generic[Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def known(self, key: Hashable) -> Value | None:
        """Return the value of a key; None if it is not kept any more."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made anew if it is not kept any more."""
        value = self.known(key)
        if value is not None:
            return value
        value = make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


# What the placement programs of a batch of instances have learnt, from epoch to epoch.
#
# In an epoch each instance begins with the state that the long run of its epoch before has left,
# and all that is asked of the epoch begins with it: events on any fault map, times of cells. A
# state is therefore that of the passes that were run, not of all passes of a life.


class Learnt:
    """States of the programs of a batch of instances; those of new slices know nothing.

    Parameters
    ----------
    programs : Programs
        Long runs on an engine.
    replays : tuple of ProgrammedReplay
        The technique on each kernel.
    instances : int
        Size of the batch.
    """

    def __init__(
        self, programs: Programs, replays: Sequence[ProgrammedReplay], instances: int
    ) -> None:
        self._programs, self._replays = programs, replays
        # At the start of each turn of the latest epochs: [instances, turns, words].
        self._states = np.zeros((instances, 1, sum(replays[0].lengths)), dtype=np.int64)

    @property
    def differs(self) -> bool:
        """Whether instances differ although they have no faults: each has its own history."""
        return self._states.shape[2] > 0

    def count(
        self,
        replays: Sequence[PreparedReplay],
        instances: Integers,
        turn: Integers,
        kernel: Integers,
        fault_maps: Bytes,
    ) -> Counters:
        """Events of instances, each in a turn of its epoch: on a kernel and a fault map."""
        return self._programs.count(replays, kernel, fault_maps, self._states[instances, turn])

    def begin(self, instances: Integers, turns: Turns, fault_maps: Bytes) -> None:
        """Let instances begin an epoch: their long runs are worked out, whose events are counted.

        Each turn begins with what the one before has left. What is wrong with a long run is said
        when its times are asked for.
        """
        if len(turns) > self._states.shape[1]:
            more = np.zeros_like(self._states[:, :1]).repeat(len(turns), axis=1)
            more[:, : self._states.shape[1]] = self._states
            self._states = more
        each = zip(instances.tolist(), turns.kernel.tolist(), fault_maps, strict=True)
        with suppress(UserError):
            for instance, kernels, fault_map in each:
                states = self._states[instance]
                for turn, kernel in enumerate(kernels):
                    run = self._programs.long_run(self._replays[kernel], fault_map, states[turn])
                    if turn + 1 < len(kernels):
                        states[turn + 1] = run.state

    def cell_times(
        self,
        replays: Sequence[PreparedReplay],
        instances: Integers,
        turn: int,
        kernel: Integers,
        fault_maps: Bytes,
    ) -> Iterator[CellTimes]:
        """Cell times of instances, each alone, in a turn: on a kernel and a fault map."""
        each = zip(instances.tolist(), kernel.tolist(), fault_maps, strict=True)
        for instance, number, fault_map in each:
            state = self._states[instance, turn]
            yield self._programs.cell_times(replays[number], fault_map[None], state[None])

    def slice_times(
        self, instance: int, turn: int, replay: PreparedReplay, fault_map: Bytes
    ) -> SliceTimes:
        """Times of an instance in a turn: on a replay and a fault map."""
        run = self._programs.long_run(replay, fault_map, self._states[instance, turn])
        return run.ones, run.powered, run.passes * replay.cycles

    def advance(self, instances: Integers, turns: Turns, fault_maps: Bytes) -> None:
        """Let instances go on to the next epoch, after one on a fault map."""
        if not self.differs:
            return
        last = len(turns) - 1
        each = zip(instances.tolist(), turns.kernel[:, last].tolist(), fault_maps, strict=True)
        for instance, number, fault_map in each:
            state = self._states[instance, last]
            run = self._programs.long_run(self._replays[number], fault_map, state)
            self._states[instance, 0] = run.state


class ProgramStress(DenseStress):
    """Stress times of instances whose placement a program decides.

    Parameters
    ----------
    learnt : Learnt
        What the instances have learnt.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self, learnt: Learnt, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._learnt = learnt

    def _are_alone(self, instances: Integers, fault_maps: Bytes) -> Booleans:
        if self._learnt.differs:
            return np.ones(len(instances), dtype=bool)
        return super()._are_alone(instances, fault_maps)

    def _times(
        self, replay: PreparedReplay, fault_map: Bytes, instance: int, turn: int
    ) -> SliceTimes:
        return self._learnt.slice_times(instance, turn, replay, fault_map)
