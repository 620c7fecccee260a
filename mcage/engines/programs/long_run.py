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
    Arrivals,
    Integers,
    PassRecord,
    ProgramRunner,
)
from mcage.errors import UserError

FEWEST_PASSES = 32
"""Passes before which nothing counts as settled: a program may wait long before it acts."""


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
    """

    passes: int
    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    state: Integers


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
    program, state = runner.replay.program, state.copy()
    if not len(state):
        return _summed(runner, [runner.run_pass(fault_map, state)], state)
    after = {state.tobytes(): 0}
    records: list[PassRecord] = []
    before: LongRun | None = None
    change = 1.0
    while len(records) < program.most_passes:
        group = max(1, len(records))
        for _ in range(group):
            records.append(runner.run_pass(fault_map, state))
            first = after.setdefault(state.tobytes(), len(records))
            if first < len(records):
                return _summed(runner, records[first:], state)
        result = _summed(runner, records[-group:], state)
        if before is not None:
            change = _change(result, before, runner.replay.cycles)
            if change <= program.tolerance and len(records) >= FEWEST_PASSES:
                return result
        before = result
    raise UserError(
        f"technique {runner.replay.technique.name!r}: its duties have not settled on trace "
        f"{runner.replay.schedule.trace.name!r} after {len(records)} passes: they still "
        f"change by {change:.3g}; its program may set most_passes (now {program.most_passes}) or "
        f"tolerance (now {program.tolerance:g})"
    )


def counted_events(
    runner: ProgramRunner, fault_map: NDArray[np.uint8], state: Integers
) -> tuple[Integers, int]:
    """Events, int64[8], of so many passes that stand for the long run.

    Events settle sooner than duties: those of the second half of `FEWEST_PASSES` are taken, or the
    passes that repeat.

    Parameters
    ----------
    runner, fault_map, state
        As for `long_run`.
    """
    state, records = state.copy(), []
    after = {state.tobytes(): 0}
    for number in range(1, FEWEST_PASSES + 1):
        records.append(runner.run_pass(fault_map, state).counters)
        first = after.setdefault(state.tobytes(), number)
        if first < number:
            return _sum_of(records[first:]), number - first
    return _sum_of(records[FEWEST_PASSES // 2 :]), FEWEST_PASSES - FEWEST_PASSES // 2


def _summed(runner: ProgramRunner, records: list[PassRecord], state: Integers) -> LongRun:
    arrivals = Arrivals.joined(records, runner.replay.cycles)
    times = runner.cell_times(arrivals, len(records))
    narrow = np.min_scalar_type(len(records) * runner.replay.cycles)
    ones, powered = (cycles.astype(narrow) for cycles in times)
    return LongRun(len(records), ones, powered, state.copy())


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
