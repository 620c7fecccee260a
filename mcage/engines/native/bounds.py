"""How long the cells of an entry can hold '0' or '1' at most, for each bit of a component.

A bound looks at runs, not at writes, and at 32 bits, not at 2,048 cells. The same bit of the 64
components of a register is often alike in all of them, so that the bounds are near the truth.
"""

from typing import Any

import numpy as np

from mcage.engines.native.compile import inner
from mcage.engines.native.place import ENTRIES, WHOLE_ENTRY, begin_of, block_of, run_of
from mcage.engines.native.runs import BITS, LAST
from mcage.engines.native.vectors import LANES, add_row, add_where
from mcage.engines.native.visits import has_records
from mcage.engines.native.walk import ALL_LANES, BLOCKS


@inner
def bound_homes(runs: Any, kernel: int, homes: Any, at_most: Any) -> None:
    """Bounds where released places are off and every run has an entry to itself from its start.

    Parameters
    ----------
    runs, kernel, homes : Runs, int, Homes
        A placement.
    at_most : T[256, 64]
        Of each entry, cycles of bit b at '1' in ``[:, b]``, at '0' in ``[:, 32 + b]``.
    """
    home, longest = homes.home, runs.longest
    first = runs.run_starts[kernel]
    at_most[:] = 0
    for mine in range(runs.run_starts[kernel + 1] - first):
        for one in range(len(homes.founds)):
            add_row(at_most, home[one, mine] >> 3, longest, first + mine)


@inner
def bound_visits(runs: Any, kernel: int, visits: Any, room: Any, at_most: Any) -> None:
    """Bounds for any visits: as `bound_homes`; `room` is T[5, 64].

    The cells of a block's record see the visits to the whole entry and the records in their block,
    the others only those to the whole entry: five views of an entry, each with a bound.
    """
    passes = len(runs.selector_starts)
    at_most[:] = 0
    for entry in range(ENTRIES):
        first, last = visits.first[entry * passes], visits.first[(entry + 1) * passes]
        if first == last:
            continue
        if not has_records(visits, first, last):
            for one in range(passes):
                _add_view(runs, kernel, visits, entry * passes + one, WHOLE_ENTRY, at_most, entry)
            continue
        room[:] = 0
        for one in range(passes):
            for view in range(BLOCKS + 1):
                _add_view(runs, kernel, visits, entry * passes + one, view, room, view)
        if runs.gated:
            _add_records(runs, visits, first, last, room)
        for view in range(BLOCKS + 1):
            for which in range(LANES):
                at_most[entry, which] = max(at_most[entry, which], room[view, which])


@inner
def _add_view(
    runs: Any, kernel: int, visits: Any, place: int, block: int, sums: Any, row: int
) -> None:
    """Add what a pass does to the cells of a block's record, or, if block is 4, to the others."""
    visit_at, longest, facts = visits.visit, runs.longest, runs.facts
    cycle, run_end, write_starts = runs.cycle, runs.run_end, runs.write_starts
    previous = -1
    first_start = 0
    for i in range(visits.first[place], visits.first[place + 1]):
        visit = visit_at[i]
        if block_of(visit) != WHOLE_ENTRY and block_of(visit) != block:
            continue
        run, begin = run_of(visit), begin_of(visit)
        start = cycle[begin]
        if begin == write_starts[run]:
            add_row(sums, row, longest, run)
        else:  # it began in the LDS
            _add(sums, row, ALL_LANES, run_end[run] - start)
        if previous < 0:
            first_start = start
        elif not runs.gated:
            _add(sums, row, facts[previous, LAST], start - run_end[previous])
        previous = run
    if previous >= 0 and not runs.gated:
        until = first_start + runs.cycles[kernel]
        _add(sums, row, facts[previous, LAST], until - run_end[previous])


@inner
def _add(sums: Any, row: int, bits: np.uint64, cycles: int) -> None:
    add_where(sums, row, bits, sums.dtype.type(cycles))


@inner
def _add_records(runs: Any, visits: Any, first: int, last: int, room: Any) -> None:
    """A record powers all of its block: its other cells are on with what they held before."""
    longest = 0
    for block in range(BLOCKS):
        cycles = 0
        for i in range(first, last):
            visit = visits.visit[i]
            if block_of(visit) == block:
                cycles += runs.run_end[run_of(visit)] - runs.cycle[begin_of(visit)]
        longest = max(longest, cycles)
    for which in range(LANES):
        if room[WHOLE_ENTRY, which % BITS] or room[WHOLE_ENTRY, BITS + which % BITS]:
            room[WHOLE_ENTRY, which] += longest
