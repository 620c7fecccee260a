"""Cell times of one entry: a walk through the writes that land in it.

The content of an entry is a row of the schedule's images as long as whole writes follow each
other; only partial writes and records make it a content of its own. Functions that run once per
write take arrays, not tuples of them: each array of a tuple would be reference-counted per call.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.native.columns import DURATION, IMAGE, MASK, REGIONS
from mcage.engines.native.compile import compiled
from mcage.engines.native.prefetch import prefetch_row
from mcage.geometry import SLICE

COMPONENTS = SLICE.components
BLOCKS = SLICE.blocks
BLOCK_COMPONENTS = SLICE.block_components
BITS = SLICE.component_bits
RECORD_COMPONENTS = 2

_ALL_CELLS = np.uint32(0xFFFF_FFFF)
_CODE_CELLS = np.uint32(0xFF)
_LONGEST_SUM = 0xFFFF_FFFF
_BIT = np.uint32(1) << np.arange(BITS, dtype=np.uint32)
_ALL_REGIONS = 0b1111
_AHEAD = 4


class Entry(NamedTuple):
    """Times of the entry's cells, and working space.

    `ones` and `powered` are the results, int64[64, 32]. `sums` are cycles at '1' not yet in
    `ones`, at most `used[0]` for any cell: sums of 32 bits are the fast ones. `region_cycles` are
    powered cycles of whole regions not yet in `powered`.
    """

    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    sums: NDArray[np.uint32]
    used: NDArray[np.int64]
    region_cycles: NDArray[np.int64]
    content: NDArray[np.uint32]
    walked: NDArray[np.int64]
    lit: NDArray[np.uint32]
    written: NDArray[np.uint32]
    since: NDArray[np.int64]


@compiled
def new_entry() -> Any:
    """Entry without a past."""
    return Entry(
        np.zeros((COMPONENTS, BITS), np.int64),
        np.zeros((COMPONENTS, BITS), np.int64),
        np.zeros((COMPONENTS, BITS), np.uint32),
        np.zeros(1, np.int64),
        np.zeros(BLOCKS, np.int64),
        np.zeros((1, COMPONENTS), np.uint32),
        np.zeros(BLOCKS, np.int64),
        np.zeros((1, COMPONENTS), np.uint32),
        np.zeros(COMPONENTS, np.uint32),
        np.zeros(BLOCKS, np.int64),
    )


@compiled
def clear(entry: Any) -> None:
    """Forget the times of the entry before."""
    entry.ones[:] = 0
    entry.powered[:] = 0


@compiled
def finish(entry: Any, region_masks: Any) -> None:
    """Bring `ones` and `powered` up to date."""
    _empty_sums(entry)
    for region in range(BLOCKS):
        _power(entry.powered, region_masks, region, entry.region_cycles[region])
        entry.region_cycles[region] = 0


@compiled
def _empty_sums(entry: Any) -> None:
    if entry.used[0]:
        for component in range(COMPONENTS):
            ones = entry.ones[component]
            sums = entry.sums[component]
            for bit in range(BITS):
                ones[bit] += sums[bit]
                sums[bit] = 0
        entry.used[0] = 0


@compiled
def _power(powered: Any, cells: Any, chosen_row: int, cycles: int) -> None:
    """The cells of a row of sets are on for some cycles more."""
    if cycles:
        for component in range(COMPONENTS):
            chosen = cells[chosen_row, component]
            row = powered[component]
            for bit in range(BITS):
                if chosen & _BIT[bit]:
                    row[bit] += cycles


@compiled
def hold(sums: Any, contents: Any, held: int, cycles: int) -> None:
    """All components hold a row of `contents` for some cycles more."""
    for component in range(COMPONENTS):
        value = contents[held, component]
        row = sums[component]
        for bit in range(BITS):
            if value & _BIT[bit]:
                row[bit] += cycles


@compiled
def _hold_block(sums: Any, content: Any, block: int, cycles: int) -> None:
    """The components of a block hold `content` for some cycles more."""
    first = BLOCK_COMPONENTS * block
    for component in range(BLOCK_COMPONENTS):
        value = content[0, first + component]
        row = sums[first + component]
        for bit in range(BITS):
            if value & _BIT[bit]:
                row[bit] += cycles


@compiled
def hold_record(sums: Any, base: int, code: int, cycles: int) -> None:
    """The cells of a record hold it for some cycles more: uint32[2, 32]."""
    for bit in range(BITS):
        if base & _BIT[bit]:
            sums[0, bit] += cycles
        if code & _BIT[bit]:
            sums[1, bit] += cycles


@compiled
def _add(sums: Any, stays: Any, row: int) -> None:
    """Add the sum of a stay."""
    for component in range(COMPONENTS):
        total = sums[component]
        for bit in range(BITS):
            total[bit] += stays[row, component, bit]


@compiled
def _add_record(sums: Any, stays: Any, row: int, block: int) -> None:
    first = BLOCK_COMPONENTS * block
    for component in range(RECORD_COMPONENTS):
        total = sums[first + component]
        for bit in range(BITS):
            total[bit] += stays[row, component, bit]


@compiled
def _copy(content: Any, contents: Any, held: int) -> None:
    for component in range(COMPONENTS):
        content[0, component] = contents[held, component]


@compiled
def _overlay(content: Any, contents: Any, image: int, masks: Any, mask: int) -> None:
    for component in range(COMPONENTS):
        cells = masks[mask, component]
        content[0, component] = (content[0, component] & ~cells) | (
            contents[image, component] & cells
        )


@compiled
def _put_record(content: Any, base: int, code: int, block: int) -> None:
    first = BLOCK_COMPONENTS * block
    content[0, first] = base
    content[0, first + 1] = (content[0, first + 1] & ~_CODE_CELLS) | np.uint32(code)


@compiled
def walk(
    entry: Any,
    schedule: Any,
    stays: Any,
    which: Any,
    last: Any,
    when: Any,
    block: Any,
    period: int,
    gated: bool,
) -> None:
    """Add the cell times of one entry over one cycle of its passes.

    Parameters
    ----------
    entry : Entry
        Times that are added to.
    schedule : Columns
        Columns of the replay.
    stays : Stays
        Sums of stays.
    which, last : int64[n]
        Writes that the entry receives, in order; where `last` is a later write, all from one to
        the other, whose sum is known.
    when, block : int64[n]
        Time of `which`; the block that a record goes to.
    period : int
        Cycles after which all repeats; no cell gains more.
    gated : bool
        A place is on from the write that fills it until its value is gone; else for good.
    """
    if len(which) == 0:
        return
    if entry.used[0] + period > _LONGEST_SUM:
        _empty_sums(entry)
    if period > _LONGEST_SUM:
        _walk_into(entry, entry.ones, schedule, stays, which, last, when, block, period, gated)
    else:
        entry.used[0] += period
        _walk_into(entry, entry.sums, schedule, stays, which, last, when, block, period, gated)


@compiled
def _walk_into(
    entry: Any,
    sums: Any,
    schedule: Any,
    stays: Any,
    which: Any,
    last: Any,
    when: Any,
    block: Any,
    period: int,
    gated: bool,
) -> None:
    last_whole = len(which) - 1
    while last_whole >= 0 and schedule.facts[which[last_whole], MASK] != 0:
        last_whole -= 1
    entry.content[:] = 0
    _store_all(entry, schedule, last, block, max(last_whole, 0))
    if gated:
        entry.walked[:] = 0
        _walk_gated(entry, sums, schedule, stays, which, last, block)
    else:
        entry.walked[:] = period
        _walk_held(entry, sums, schedule, stays, which, last, when, block, period)
    if last_whole >= 0:
        for region in range(BLOCKS):
            entry.region_cycles[region] += entry.walked[region]
    else:
        _power_written(entry, schedule, which, block)


@compiled
def _store_all(entry: Any, schedule: Any, last: Any, block: Any, first: int) -> None:
    """What the entry holds at the end, hence at the start, of its writes."""
    content, contents = entry.content, schedule.contents
    facts, masks = schedule.facts, schedule.masks
    for i in range(first, len(last)):
        write = last[i]
        _store(content, contents, facts[write, IMAGE], masks, facts[write, MASK], block[i])


@compiled
def _store(content: Any, contents: Any, image: int, masks: Any, mask: int, block: int) -> None:
    """A write overwrites its cells."""
    if mask == 0:
        _copy(content, contents, image)
    elif mask > 0:
        _overlay(content, contents, image, masks, mask)
    else:
        _put_record(content, contents[image, 0], ~mask, block)


@compiled
def _walk_gated(
    entry: Any, sums: Any, schedule: Any, stays: Any, which: Any, last: Any, block: Any
) -> None:
    content, lit, walked = entry.content, entry.lit, entry.walked
    contents, facts, cycle = schedule.contents, schedule.facts, schedule.cycle
    masks, region_masks = schedule.masks, schedule.region_masks
    stay_row, whole, records = stays.row, stays.whole, stays.records
    own = True
    for i in range(len(which)):
        prefetch_row(contents, facts[last[min(i + _AHEAD, len(which) - 1)], IMAGE])
        write = last[i]
        image, mask, cycles = facts[write, IMAGE], facts[write, MASK], facts[write, DURATION]
        on = facts[write, REGIONS]
        stayed = cycle[write] - cycle[which[i]]
        if mask == 0 and on == _ALL_REGIONS:
            if write != which[i]:
                _add(sums, whole, stay_row[which[i]])
            hold(sums, contents, image, cycles)
            own = False
            for region in range(BLOCKS):
                walked[region] += stayed + cycles
            continue
        if not own:
            _copy(content, contents, facts[last[i - 1], IMAGE])
            own = True
        if mask < 0:
            if write != which[i]:
                _put_record(content, 0, 0, block[i])
                _hold_block(sums, content, block[i], stayed)
                _add_record(sums, records, stay_row[which[i]], block[i])
            _store(content, contents, image, masks, mask, block[i])
            _hold_block(sums, content, block[i], cycles)
            walked[block[i]] += stayed + cycles
            continue
        _store(content, contents, image, masks, mask, block[i])
        _light(lit, content, region_masks, on)
        hold(sums, lit, 0, cycles)
        for region in range(BLOCKS):
            if on >> region & 1:
                walked[region] += cycles


@compiled
def _light(lit: Any, content: Any, region_masks: Any, regions: int) -> None:
    """Content of the regions that are on."""
    for component in range(COMPONENTS):
        on = np.uint32(0)
        for region in range(BLOCKS):
            if regions >> region & 1:
                on |= region_masks[region, component]
        lit[0, component] = content[0, component] & on


@compiled
def _walk_held(
    entry: Any,
    sums: Any,
    schedule: Any,
    stays: Any,
    which: Any,
    last: Any,
    when: Any,
    block: Any,
    period: int,
) -> None:
    """What was written last is held until it is overwritten, across the end of the pass."""
    content, since = entry.content, entry.since
    contents, facts, masks = schedule.contents, schedule.facts, schedule.masks
    stay_row, whole, records = stays.row, stays.whole, stays.records
    cycle = schedule.cycle
    _last_touched(since, schedule, which, last, when, block, period)
    own = True
    held = 0
    for i in range(len(which)):
        prefetch_row(contents, facts[last[min(i + _AHEAD, len(which) - 1)], IMAGE])
        now = when[i]
        write = last[i]
        image, mask = facts[write, IMAGE], facts[write, MASK]
        stayed = cycle[write] - cycle[which[i]]
        if own or mask != 0:
            if not own:
                _copy(content, contents, held)
                own = True
            for one in range(BLOCKS):
                if mask >= 0 or one == block[i]:
                    _hold_block(sums, content, one, now - since[one])
                    since[one] = now + stayed
        else:
            hold(sums, contents, held, now - since[0])
            since[:] = now + stayed
        if mask == 0:
            if write != which[i]:
                _add(sums, whole, stay_row[which[i]])
            own = False
            held = image
        else:
            if write != which[i]:
                _put_record(content, 0, 0, block[i])
                _hold_block(sums, content, block[i], stayed)
                _add_record(sums, records, stay_row[which[i]], block[i])
            _store(content, contents, image, masks, mask, block[i])


@compiled
def _last_touched(
    since: Any, schedule: Any, which: Any, last: Any, when: Any, block: Any, period: int
) -> None:
    """When the last write of each block was, one period ago."""
    seen = 0
    for i in range(len(which) - 1, -1, -1):
        write = last[i]
        touched = _ALL_REGIONS if schedule.facts[write, MASK] >= 0 else 1 << block[i]
        for one in range(BLOCKS):
            if touched >> one & 1 and not seen >> one & 1:
                since[one] = when[i] + schedule.cycle[write] - schedule.cycle[which[i]] - period
        seen |= touched
        if seen == _ALL_REGIONS:
            return
    for one in range(BLOCKS):
        if not seen >> one & 1:
            since[one] = 0


@compiled
def _power_written(entry: Any, schedule: Any, which: Any, block: Any) -> None:
    """Powered cycles of an entry of which some cells are never written: those are off."""
    written = entry.written
    written[:] = 0
    for i in range(len(which)):
        if schedule.facts[which[i], MASK] < 0:
            first = BLOCK_COMPONENTS * block[i]
            written[first] = _ALL_CELLS
            written[first + 1] |= _CODE_CELLS
        else:
            cells = schedule.masks[schedule.facts[which[i], MASK]]
            for component in range(COMPONENTS):
                written[component] |= cells[component]
    for region in range(BLOCKS):
        for component in range(COMPONENTS):
            entry.lit[0, component] = written[component] & schedule.region_masks[region, component]
        _power(entry.powered, entry.lit, 0, entry.walked[region])


@compiled
def expose_entry(entry: Any, scale: float, zero: Any, one: Any, longest: Any) -> None:
    """Add the entry's times to float64[64, 32] seconds at '0' and '1'; raise the longest of them.

    `longest` is float64[2, 32], a maximum for each bit of a component.
    """
    for component in range(COMPONENTS):
        ones, powered = entry.ones[component], entry.powered[component]
        add_seconds(ones, powered, scale, zero[component], one[component], longest[0], longest[1])


@compiled
def add_seconds(
    ones: Any, powered: Any, scale: float, zero: Any, one: Any, longest_zero: Any, longest_one: Any
) -> None:
    """Add the times of a component's cells, and raise the longest so far, bit by bit."""
    for bit in range(BITS):
        zero[bit] += (powered[bit] - ones[bit]) * scale
        one[bit] += ones[bit] * scale
        if zero[bit] > longest_zero[bit]:
            longest_zero[bit] = zero[bit]
        if one[bit] > longest_one[bit]:
            longest_one[bit] = one[bit]
