"""Replays of one technique on several kernels, as the compiled functions take them.

A run is what one register writes into one home: under redirect placement the writes of a stay,
under guard placement those of a life, otherwise those of a window's register. What is in a run, and
for how long, no instance changes. Everything is numbered through all kernels.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.simd import AT_ONCE, LANES, sum_planes
from mcage.geometry import SLICE
from mcage.replays.prepare import PreparedReplay, RedirectedReplay
from mcage.replays.schedule import DEATH, Schedule
from mcage.techniques import Technique
from mcage.traces.model import ALLOC, RELEASE, WRITE

BITS = SLICE.component_bits
WHOLE, RECORD = 0, 1
"""Rows of `Residencies.masks` that mean: all cells; the cells of a record in block 0."""

KINDS = 4
ADVANCE, ACQUIRE, ACQUIRE_BLOCK, FREE = range(KINDS)
"""Kinds of operation of the selectors: they rotate on; a run needs an entry, or a block; a run's
home is given back."""

EVER, LAST, END, WRITES_END, PARTIAL = range(5)
"""Columns of `Residencies.facts`."""

ALL_REGIONS = 15
_ALL_LANES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_FIRST_PARTIAL = 2
_RECORD_LANES = (np.uint64(0b01), np.uint64(0b11))
CODE_BITS = 8


class Residencies(NamedTuple):
    """Runs of several kernels. Sums are in cycles, of 32 bits if a whole replay fits into them.

    Attributes
    ----------
    gated, rotating, in_blocks, borrows : bool
        A place is on from the write that fills it until its value is gone, else for good; the
        selectors rotate; a compressed value takes a block; rows have entries of their own.
    selector_starts : int64[passes]
        Entry at which the selectors start, one pass each.
    cycles, writes : int64[kernels]
        Length of a pass; register writes in it, those in the table included.
    run_starts, operation_starts : int64[kernels + 1]
        Runs and operations of each kernel.
    write_starts : int64[runs + 1]
        Writes of each run.
    register : int64[runs]
        256 x window + register; the first write of its stay or life where registers may move.
    own : int64[runs]
        The row, which is the number of its own entry.
    run_end : int64[runs]
        Cycle at which the last value of the run is gone from its home.
    wakes : bool[runs]
        Its home was off because the register's value was compressed.
    longest : uint32[runs, 64]
        Bit b of any component is at '1' for ``[:, b]`` cycles at most, at '0' for ``[:, 32 + b]``.
    facts : uint64[runs, 8]
        What a look at a run asks, in one cache line: columns `EVER` and `LAST`, bits, numbered
        likewise, that some component has at '1' or at '0' at any time of the run, and at its end;
        `END`, its `run_end`; `WRITES_END`, the number after its last write's; `PARTIAL`, whether
        some write of it leaves lanes as they were.
    cycle, duration, image, mask, regions : [writes]
        When a write happens; how long its value counts; what it stores: rows of `planes` and of
        `masks`, and set of regions.
    reads_after : int64[writes]
        Reads of its value.
    planes : uint64[images, 32]
        Lane c of ``planes[i, b]`` is bit b of component c.
    masks, regions_on : uint64[masks, 32], uint64[16, 32]
        Lanes that a write overwrites, and lanes in a set of regions.
    operations : uint32[operations]
        What the selectors do, in order: 4 x run + kind of operation.
    retry_starts, retries : int64[operations + 1], int64[...]
        Later writes of runs, between one operation and the next: what looks for a home at each
        of its writes if it lives in the LDS.
    run_of : int64[writes]
        The run that a write belongs to.
    """

    gated: bool
    rotating: bool
    in_blocks: bool
    borrows: bool
    selector_starts: NDArray[np.int64]
    cycles: NDArray[np.int64]
    writes: NDArray[np.int64]
    residency_starts: NDArray[np.int64]
    operation_starts: NDArray[np.int64]
    write_starts: NDArray[np.int64]
    register: NDArray[np.int64]
    own: NDArray[np.int64]
    residency_end: NDArray[np.int64]
    wakes: NDArray[np.bool_]
    longest: NDArray[np.unsignedinteger]
    facts: NDArray[np.uint64]
    cycle: NDArray[np.int64]
    duration: NDArray[np.unsignedinteger]
    image: NDArray[np.uint32]
    mask: NDArray[np.int64]
    regions: NDArray[np.int64]
    reads_after: NDArray[np.int64]
    planes: NDArray[np.uint64]
    masks: NDArray[np.uint64]
    regions_on: NDArray[np.uint64]
    operations: NDArray[np.uint32]
    retry_starts: NDArray[np.int64]
    retries: NDArray[np.int64]
    residency_of: NDArray[np.int64]


def residencies_of(replays: tuple[PreparedReplay, ...]) -> Residencies:
    """Number the runs of a technique on several kernels through."""
    technique, selector_starts = replays[0].technique, np.zeros(0, dtype=np.int64)
    if isinstance(replays[0], RedirectedReplay):
        selector_starts = replays[0].selector_starts
    parts = [_Part(replay) for replay in replays]

    def starts(counts: list[int], first: int = 0) -> NDArray[np.int64]:
        return np.cumsum([first, *counts])

    def joined(name: str, first: NDArray[np.int64] | None = None) -> NDArray[Any]:
        shifts = [0] * len(parts) if first is None else first.tolist()
        columns = [getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=False)]
        return np.concatenate(columns)

    residency_starts = starts([len(part.residency_end) for part in parts])
    writes = starts([len(part.image) for part in parts])
    stored_values = starts([len(part.planes) for part in parts])
    retries = starts([len(part.retries) for part in parts])
    masks = starts([len(part.masks) for part in parts], first=_FIRST_PARTIAL)
    mask = joined("mask", masks - _FIRST_PARTIAL)
    of_all = joined("mask") < _FIRST_PARTIAL
    mask[of_all] = joined("mask")[of_all]
    sums = np.uint32 if max(replay.period for replay in replays) < 1 << 32 else np.int64
    residencies = Residencies(
        gated=technique.gates_released,
        rotating=technique.rotating_selectors,
        in_blocks=technique.stores_in_blocks,
        borrows=technique.borrows,
        selector_starts=selector_starts,
        cycles=np.array([replay.schedule.cycles for replay in replays]),
        writes=np.array([replay.schedule.writes for replay in replays]),
        residency_starts=residency_starts,
        operation_starts=starts([len(part.kind) for part in parts]),
        write_starts=np.append(joined("write_starts", writes), writes[-1]),
        register=joined("key"),
        own=joined("own"),
        residency_end=joined("residency_end"),
        wakes=joined("wakes").astype(bool),
        longest=np.zeros((residency_starts[-1], LANES), dtype=sums),
        facts=np.zeros((residency_starts[-1], 8), dtype=np.uint64),
        cycle=joined("cycle"),
        duration=joined("duration").astype(sums),
        image=joined("image", stored_values).astype(np.uint32),
        mask=mask,
        regions=joined("regions"),
        reads_after=joined("reads_after"),
        planes=np.concatenate([part.planes for part in parts]),
        masks=np.concatenate([_common_masks(), *(part.masks for part in parts)]),
        regions_on=_regions_on(replays[0].schedule),
        operations=(joined("residency", residency_starts) * KINDS + joined("kind")).astype(
            np.uint32
        ),
        retry_starts=np.append(joined("retry_starts", retries), retries[-1]),
        retries=joined("retries", writes),
        residency_of=joined("residency_of", residency_starts),
    )
    _bound_residencies(residencies)
    return residencies


class _Part:
    """Runs of one kernel, numbered from 0."""

    def __init__(self, replay: PreparedReplay) -> None:
        schedule, technique = replay.schedule, replay.technique
        held = np.flatnonzero(~schedule.in_table)
        if technique.redirects:
            key = schedule.stay_first
        else:
            key = schedule.window * SLICE.entries + schedule.reg
        held = held[np.argsort(key[held], kind="stable")]
        begins = np.ones(len(held), dtype=bool)
        begins[1:] = key[held[1:]] != key[held[:-1]]
        first = np.flatnonzero(begins)
        self.key = key[held[first]]
        self.residency_of = np.cumsum(begins) - 1
        self.write_starts = first
        self.residency_end = schedule.end_cycle[held[np.append(first, len(held))[1:] - 1]]
        opens = held[first]
        self.own = schedule.row[opens]
        self.wakes = (schedule.was_compressed & ~schedule.compressed)[opens]
        if not technique.gates_empty:
            self.wakes[:] = False
        self.cycle = schedule.cycle[held]
        self.duration = schedule.end_cycle[held] - self.cycle
        self.regions = schedule.stored_values.regions[held]
        self.reads_after = schedule.reads_after[held]
        self.planes, self.image = _planes(schedule, held)
        stored_values = schedule.stored_values
        self.masks = _lanes_by_bit(stored_values.masks[1:])
        self.mask = np.where(stored_values.mask > 0, stored_values.mask + 1, stored_values.mask)[
            held
        ]
        self.mask[stored_values.is_record[held]] = RECORD
        self.kind, self.residency, self.retry_starts, self.retries = _operations(
            schedule, held, self.residency_of, technique
        )


def _planes(
    schedule: Schedule, held: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Bit planes of what writes store, records included, and the row of each write."""
    stored_values = schedule.stored_values
    record = stored_values.is_record[held]
    words = np.stack(
        [stored_values.contents[stored_values.image[held], 0], stored_values.record_code[held]],
        axis=1,
    )
    distinct, which = np.unique(words[record], axis=0, return_inverse=True)
    contents = np.zeros((len(distinct), SLICE.components), dtype=np.uint32)
    contents[:, :2] = distinct
    used, image = np.unique(stored_values.image[held], return_inverse=True)
    image = image.reshape(-1).astype(np.int64)
    image[record] = len(used) + which.reshape(-1)
    return _transposed(np.concatenate([stored_values.contents[used], contents])), image


def _transposed(contents: NDArray[np.uint32]) -> NDArray[np.uint64]:
    planes = np.empty((len(contents), BITS), dtype=np.uint64)
    _transpose(np.ascontiguousarray(contents), planes)
    return planes


@compiled
def _transpose(contents: NDArray[np.uint32], planes: NDArray[np.uint64]) -> None:
    """Contents uint32[images, 64] as planes uint64[images, 32]."""
    for image in range(len(contents)):
        for bit in range(BITS):
            word = np.uint64(0)
            for lane in range(LANES):
                one = np.uint64((contents[image, lane] >> np.uint32(bit)) & np.uint32(1))
                word |= one << np.uint64(lane)
            planes[image, bit] = word


def _lanes_by_bit(cells: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Sets of cells uint32[n, 64] as lanes uint64[n, 32] of each bit."""
    return _transposed(cells)


def _common_masks() -> NDArray[np.uint64]:
    masks = np.full((2, BITS), _ALL_LANES)
    masks[RECORD] = _RECORD_LANES[0]
    masks[RECORD, :CODE_BITS] = _RECORD_LANES[1]
    return masks


def _regions_on(schedule: Schedule) -> NDArray[np.uint64]:
    """Lanes of every set of regions: uint64[16, 32]."""
    each = _lanes_by_bit(schedule.stored_values.region_masks)
    sets = np.zeros((ALL_REGIONS + 1, BITS), dtype=np.uint64)
    for chosen in range(ALL_REGIONS + 1):
        for region, lanes in enumerate(each):
            if chosen >> region & 1:
                sets[chosen] |= lanes
    return sets


def _operations(
    schedule: Schedule,
    held: NDArray[np.int64],
    residency_of: NDArray[np.int64],
    technique: Technique,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """What the selectors do, and which writes look for a home again in between."""
    if not technique.redirects:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing.astype(np.uint8), nothing, nothing, nothing
    # When things happen: at event e homes are given back first (2 e), then looked for (2 e + 1).
    is_write = schedule.op_kind == WRITE
    event_of_write = np.flatnonzero(is_write)
    rotations = np.flatnonzero((schedule.op_kind == ALLOC) & technique.rotating_selectors)
    position = np.empty(schedule.writes, dtype=np.int64)
    position[held] = np.arange(len(held))
    opens = held[np.flatnonzero(np.diff(residency_of, prepend=-1))]
    if technique.borrows:
        freed = _deaths(schedule)
    else:
        freed = _releases(schedule)[schedule.window[opens]]
        follower, before = _changes(schedule)
        in_entry = np.isin(before, opens)
        freed[residency_of[position[before[in_entry]]]] = event_of_write[follower[in_entry]]
    residencies = np.arange(len(opens))
    in_block = schedule.stored_values.is_record[opens]
    when = np.concatenate([2 * rotations + 1, 2 * event_of_write[opens] + 1, 2 * freed])
    kind = np.concatenate(
        [
            np.full(len(rotations), ADVANCE),
            np.where(in_block, ACQUIRE_BLOCK, ACQUIRE),
            np.full(len(residencies), FREE),
        ]
    )
    residency = np.concatenate([np.zeros(len(rotations), dtype=np.int64), residencies, residencies])
    order = np.argsort(when, kind="stable")
    later = np.setdiff1d(held, opens)
    retry_starts = np.searchsorted(2 * event_of_write[later], when[order])
    return kind[order].astype(np.uint8), residency[order], retry_starts, position[later]


def _deaths(schedule: Schedule) -> NDArray[np.int64]:
    """Event at which each life is over; lives are numbered as runs, by their first writes."""
    events = np.flatnonzero(schedule.op_kind == DEATH)
    return events[np.argsort(schedule.op[events])]


def _releases(schedule: Schedule) -> NDArray[np.int64]:
    """Event at which each window is released."""
    events = np.flatnonzero(schedule.op_kind == RELEASE)
    event_of_window = np.empty(len(schedule.windows.size), dtype=np.int64)
    event_of_window[schedule.op[events]] = events
    return event_of_window


def _changes(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Writes that begin a stay, and the first write of the register's stay before, if any."""
    begins = np.flatnonzero(schedule.stay_first == np.arange(schedule.writes))
    key = (schedule.window * SLICE.entries + schedule.reg)[begins]
    order = begins[np.argsort(key, kind="stable")]
    same = np.flatnonzero(~schedule.first[order])
    return order[same], order[same - 1]


@compiled
def _bound_residencies(residencies: Residencies) -> None:
    """Fill in `longest` and `facts`."""
    longest, facts, planes, masks = (
        residencies.longest,
        residencies.facts,
        residencies.planes,
        residencies.masks,
    )
    image, duration, mask, starts = (
        residencies.image,
        residencies.duration,
        residencies.mask,
        residencies.write_starts,
    )
    sums = np.zeros((BITS, LANES), longest.dtype)
    one = np.uint64(1)
    for residency in range(len(facts)):
        first, end = starts[residency], starts[residency + 1]
        total = duration[first:end].sum()
        facts[residency, END], facts[residency, WRITES_END] = (
            residencies.residency_end[residency],
            end,
        )
        for write in range(first, end):
            facts[residency, PARTIAL] |= np.uint64(mask[write] >= _FIRST_PARTIAL)
        if facts[residency, PARTIAL]:
            longest[residency] = total
            facts[residency, EVER] = facts[residency, LAST] = _ALL_LANES
            continue
        sums[:] = 0
        for bit in range(0, BITS, AT_ONCE):
            sum_planes(planes, image, duration, first, end, bit, sums)
        for bit in range(BITS):
            written = masks[mask[first], bit]
            most, least = sums[bit].max(), total
            for lane in range(LANES):
                if written >> np.uint64(lane) & one:
                    least = min(least, sums[bit, lane])
            longest[residency, bit] = most
            longest[residency, BITS + bit] = total - least
            facts[residency, EVER] |= _met(most > 0, total > least, bit)
            final = planes[image[end - 1], bit]
            facts[residency, LAST] |= _met(final != 0, ~final & written != 0, bit)


@compiled
def _met(is_one: bool, is_zero: bool, bit: int) -> np.uint64:
    return (np.uint64(is_one) | np.uint64(is_zero) << np.uint64(BITS)) << np.uint64(bit)
