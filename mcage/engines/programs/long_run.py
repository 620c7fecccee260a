"""The long run of a placement program: passes of the trace until the duties of all cells settle.

What a program keeps goes on from pass to pass. If it keeps nothing, each pass is as the first. If
its state at the end of a pass is that of an earlier one, the passes between repeat for ever, and
their times are exact. Otherwise the passes are doubled: 1, 1, 2, 4, 8, ... of them make a group,
and the times of the latest group stand for the long run when they differ little from those of the
group before: the longest duties at '0' and at '1', and the duties of the cells in use by the root
of the mean square of their differences. The passes that stand for the long run are taken to repeat.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.programs.runner import (
    PEAK,
    Integers,
    PassRecord,
    ProgramRunner,
)
from mcage.errors import UserError

FEWEST_PASSES = 32
"""Passes before which nothing counts as settled: a program may wait long before it acts."""


CountedEvents = tuple[Integers, int]
"""Events, int64[8], of so many passes that stand for the long run."""


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


def long_run(runner: ProgramRunner, fault_map: NDArray[np.uint8], state: Integers) -> LongRun:
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


def counted_events(
    runner: ProgramRunner, fault_map: NDArray[np.uint8], state: Integers
) -> CountedEvents:
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
        self,
        runner: ProgramRunner,
        fault_map: NDArray[np.uint8],
        state: Integers,
        keep: bool = True,
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
