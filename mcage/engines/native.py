"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

Per instance: place every write (the selector's event machine), sort the writes by entry, then walk
through the entries one by one, so that the 2,048 sums of an entry stay in the first-level cache.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mcage.engines.extremes import DutyGroups
from mcage.engines.images import CODE_MASK
from mcage.engines.interface import CellTimes, Counters, Engine
from mcage.engines.layout import Layout
from mcage.engines.prepare import PreparedReplay
from mcage.geometry import SLICE
from mcage.techniques import Gating, Placement, Storage
from mcage.traces.model import ALLOC, WRITE

_ENTRIES = SLICE.entries
_COMPONENTS = SLICE.components
_BLOCKS = SLICE.blocks
_BLOCK_COMPONENTS = SLICE.block_components
_BITS = SLICE.component_bits
_CELLS = SLICE.entry_bits
_NOWHERE, _SPILLED, _IN_TABLE = -1, -2, -3
_WHOLE = 4
"""A home is entry x 8 + block for a record, entry x 8 + 4 for a whole entry."""
_COUNTERS = 8
_REGULAR, _TO_RELIABLE, _TO_FAULTY, _LDS, _LDS_READS, _PEAK, _ROW_CYCLES, _WAKEUPS = range(8)
_UINT32_MAX = 0xFFFF_FFFF
_BIT_OF_COMPONENT = np.uint32(1) << np.arange(_BITS, dtype=np.uint32)
_ALL_REGIONS = 0b1111

_jit = nb.njit(cache=True, nogil=True, boundscheck=False)


class _Writes(NamedTuple):
    """Columns of the schedule as the compiled functions take them."""

    cycle: NDArray[np.int64]
    duration: NDArray[np.int64]
    row: NDArray[np.int64]
    first: NDArray[np.bool_]
    compressed: NDArray[np.bool_]
    was_compressed: NDArray[np.bool_]
    reads_after: NDArray[np.int64]
    op_kind: NDArray[np.uint8]
    op: NDArray[np.int32]
    window_base: NDArray[np.int64]
    window_size: NDArray[np.int64]
    release_cycle: NDArray[np.int64]
    contents: NDArray[np.uint32]
    image: NDArray[np.int64]
    masks: NDArray[np.uint32]
    mask: NDArray[np.int64]
    is_record: NDArray[np.bool_]
    record_code: NDArray[np.uint8]
    regions: NDArray[np.int64]
    region_masks: NDArray[np.uint32]


class _Entry(NamedTuple):
    """Working state of the entry that is walked through."""

    content: NDArray[np.uint32]
    since: NDArray[np.int64]
    sums: NDArray[np.uint32]
    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    region_cycles: NDArray[np.int64]
    written: NDArray[np.uint32]
    powered_content: NDArray[np.uint32]
    used: NDArray[np.int64]


@_jit
def _new_entry() -> Any:
    return _Entry(
        np.zeros(_COMPONENTS, np.uint32),
        np.zeros(_BLOCKS, np.int64),
        np.zeros(_CELLS, np.uint32),
        np.zeros(_CELLS, np.int64),
        np.zeros(_CELLS, np.int64),
        np.zeros(_BLOCKS, np.int64),
        np.zeros(_COMPONENTS, np.uint32),
        np.zeros(_COMPONENTS, np.uint32),
        np.zeros(1, np.int64),
    )


@_jit
def _settle(entry: Any) -> None:
    """Move the 32-bit sums to the 64-bit ones."""
    for cell in range(_CELLS):
        entry.ones[cell] += entry.sums[cell]
        entry.sums[cell] = 0
    entry.used[0] = 0


@_jit
def _hold(entry: Any, content: Any, first: int, last: int, cycles: int) -> None:
    """Components first ... last - 1 hold `content` for some cycles more."""
    while cycles > 0:
        if entry.used[0] + cycles > _UINT32_MAX and entry.used[0] > 0:
            _settle(entry)
        step = np.uint32(min(cycles, _UINT32_MAX))
        for component in range(first, last):
            value = content[component]
            for bit in range(_BITS):
                if value & _BIT_OF_COMPONENT[bit]:
                    entry.sums[_BITS * component + bit] += step
        entry.used[0] += step
        cycles -= step


@_jit
def _store(entry: Any, writes: Any, write: int, block: int) -> None:
    """Overwrite the cells that a write touches."""
    image = writes.contents[writes.image[write]]
    if writes.is_record[write]:
        component = _BLOCK_COMPONENTS * block
        entry.content[component] = image[0]
        entry.content[component + 1] = (entry.content[component + 1] & ~CODE_MASK) | np.uint32(
            writes.record_code[write]
        )
    elif writes.mask[write] == 0:
        for component in range(_COMPONENTS):
            entry.content[component] = image[component]
    else:
        mask = writes.masks[writes.mask[write]]
        for component in range(_COMPONENTS):
            entry.content[component] = (entry.content[component] & ~mask[component]) | (
                image[component] & mask[component]
            )


@_jit
def _mark_written(entry: Any, writes: Any, write: int, block: int) -> None:
    if writes.is_record[write]:
        component = _BLOCK_COMPONENTS * block
        entry.written[component] = np.uint32(_UINT32_MAX)
        entry.written[component + 1] |= CODE_MASK
    else:
        mask = writes.masks[writes.mask[write]]
        for component in range(_COMPONENTS):
            entry.written[component] |= mask[component]


@_jit
def _walk(
    entry: Any,
    writes: Any,
    which: Any,
    when: Any,
    block: Any,
    count: int,
    period: int,
    gates_released: bool,
) -> None:
    """Cell times of one entry over one cycle of its passes.

    `which` are the `count` writes that the entry receives, in order, at times `when`; `block` is
    the block that a record goes to.
    """
    if count == 0:
        return
    start = 0
    whole = False
    for i in range(count - 1, -1, -1):
        if not writes.is_record[which[i]] and writes.mask[which[i]] == 0:
            start = i
            whole = True
            break
    entry.content[:] = 0
    for i in range(start, count):
        _store(entry, writes, which[i], block[i])
    if gates_released:
        _walk_gated(entry, writes, which, block, count)
    else:
        _walk_held(entry, writes, which, when, block, count, period)
        entry.region_cycles[:] = period
    if whole:
        entry.written[:] = np.uint32(_UINT32_MAX)
    else:
        entry.written[:] = 0
        for i in range(count):
            _mark_written(entry, writes, which[i], block[i])
    for region in range(_BLOCKS):
        cycles = entry.region_cycles[region]
        if cycles:
            for component in range(_COMPONENTS):
                cells = entry.written[component] & writes.region_masks[region, component]
                if cells:
                    for bit in range(_BITS):
                        if cells & _BIT_OF_COMPONENT[bit]:
                            entry.powered[_BITS * component + bit] += cycles
        entry.region_cycles[region] = 0


@_jit
def _walk_gated(entry: Any, writes: Any, which: Any, block: Any, count: int) -> None:
    """A place is on from the write that fills it until its value is gone."""
    for i in range(count):
        write = which[i]
        _store(entry, writes, write, block[i])
        cycles = writes.duration[write]
        regions = writes.regions[write]
        if writes.is_record[write]:
            first = _BLOCK_COMPONENTS * block[i]
            _hold(entry, entry.content, first, first + _BLOCK_COMPONENTS, cycles)
            regions = 1 << block[i]
        elif regions == _ALL_REGIONS:
            _hold(entry, entry.content, 0, _COMPONENTS, cycles)
        else:
            entry.powered_content[:] = 0
            for region in range(_BLOCKS):
                if regions >> region & 1:
                    for component in range(_COMPONENTS):
                        entry.powered_content[component] |= (
                            entry.content[component] & writes.region_masks[region, component]
                        )
            _hold(entry, entry.powered_content, 0, _COMPONENTS, cycles)
        for region in range(_BLOCKS):
            if regions >> region & 1:
                entry.region_cycles[region] += cycles


@_jit
def _walk_held(
    entry: Any, writes: Any, which: Any, when: Any, block: Any, count: int, period: int
) -> None:
    """A cell holds what was written last until it is overwritten, across the end of the pass."""
    seen = 0
    for i in range(count - 1, -1, -1):
        touched = 1 << block[i] if writes.is_record[which[i]] else _ALL_REGIONS
        for one in range(_BLOCKS):
            if touched >> one & 1 and not seen >> one & 1:
                entry.since[one] = when[i] - period
        seen |= touched
        if seen == _ALL_REGIONS:
            break
    for i in range(count):
        write = which[i]
        now = when[i]
        if writes.is_record[write]:
            one = block[i]
            first = _BLOCK_COMPONENTS * one
            _hold(entry, entry.content, first, first + _BLOCK_COMPONENTS, now - entry.since[one])
            entry.since[one] = now
        else:
            since = entry.since[0]
            if entry.since[1] == since and entry.since[2] == since and entry.since[3] == since:
                _hold(entry, entry.content, 0, _COMPONENTS, now - since)
            else:
                for one in range(_BLOCKS):
                    first = _BLOCK_COMPONENTS * one
                    _hold(
                        entry,
                        entry.content,
                        first,
                        first + _BLOCK_COMPONENTS,
                        now - entry.since[one],
                    )
            entry.since[:] = now
        _store(entry, writes, write, block[i])


@_jit
def _fixed_cell_times(
    writes: Any,
    registers: Any,
    register_starts: Any,
    stored_in_entry: Any,
    base: Any,
    rotation: Any,
    step: Any,
    cycles: int,
    gates_released: bool,
    ones: Any,
    powered: Any,
) -> None:
    """Cell times under a window layout; `registers` lists the writes of each (window, register)."""
    passes = len(base)
    entry = _new_entry()
    for number in range(_ENTRIES):
        capacity = 1024
        which = np.empty(capacity, np.int64)
        when = np.empty(capacity, np.int64)
        done = np.zeros(passes, np.bool_)
        entry.ones[:] = 0
        entry.powered[:] = 0
        for origin in range(passes):
            if done[origin]:
                continue
            count = 0
            turn = 0
            current = origin
            while not done[current]:
                done[current] = True
                for window in range(base.shape[1]):
                    offset = number - base[current, window]
                    size = writes.window_size[window]
                    if offset < 0 or offset >= size:
                        continue
                    reg = (offset - rotation[current, window]) % size
                    key = window * _ENTRIES + reg
                    for i in range(register_starts[key], register_starts[key + 1]):
                        write = registers[i]
                        if not stored_in_entry[write]:
                            continue
                        if count == capacity:
                            capacity *= 2
                            which = np.concatenate((which, np.empty_like(which)))
                            when = np.concatenate((when, np.empty_like(when)))
                        which[count] = write
                        when[count] = writes.cycle[write] + turn * cycles
                        count += 1
                turn += 1
                current = (current + step[number]) % passes
            block = np.zeros(count, np.int64)
            _walk(entry, writes, which, when, block, count, turn * cycles, gates_released)
        _settle(entry)
        ones[number] = entry.ones
        powered[number] = entry.powered


@_jit
def _rotated_cell_times(
    writes: Any,
    window_writes: Any,
    window_starts: Any,
    base: Any,
    passes: int,
    ones: Any,
    powered: Any,
) -> None:
    """Cell times of a rotating layout whose released places are off and whose writes are whole.

    Over all offsets every register of a window visits every entry of it equally often, and no
    value outlives its write: the window's total, shared out, is exact.
    """
    entry = _new_entry()
    for window in range(len(base)):
        first, last = window_starts[window], window_starts[window + 1]
        block = np.zeros(last - first, np.int64)
        entry.ones[:] = 0
        entry.powered[:] = 0
        which = window_writes[first:last]
        _walk(entry, writes, which, which, block, last - first, 0, True)
        _settle(entry)
        size = writes.window_size[window]
        visits = passes // size
        for number in range(base[window], base[window] + size):
            for cell in range(_CELLS):
                ones[number, cell] += visits * entry.ones[cell]
                powered[number, cell] += visits * entry.powered[cell]


@_jit
def _lowest(word: np.uint64) -> int:
    """Position of the lowest set bit of a non-zero word."""
    position = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if not word & ((np.uint64(1) << np.uint64(shift)) - np.uint64(1)):
            word >>= np.uint64(shift)
            position += shift
    return position


@_jit
def _first_in(entries: Any, start: int) -> int:
    """First member of a set of entries at or after `start`, wrapping; -1 if it is empty."""
    word = start >> 6
    upper = entries[word] & (np.uint64(_UINT32_MAX << 32 | _UINT32_MAX) << np.uint64(start & 63))
    if upper:
        return (word << 6) + _lowest(upper)
    for _ in range(4):
        word = (word + 1) & 3
        if entries[word]:
            return (word << 6) + _lowest(entries[word])
    return -1


@_jit
def _include(entries: Any, entry: int, member: bool) -> None:
    bit = np.uint64(1) << np.uint64(entry & 63)
    if member:
        entries[entry >> 6] |= bit
    else:
        entries[entry >> 6] &= ~bit


@_jit
def _place(
    writes: Any,
    fault_map: Any,
    start: int,
    rotating: bool,
    table: bool,
    gated: bool,
    home: Any,
    counters: Any,
) -> None:
    """Event machine of the redirection selectors: a home for every write of one pass."""
    usable = np.empty(_ENTRIES, np.uint8)
    free = np.empty(_ENTRIES, np.uint8)
    sound_blocks = np.zeros(4, np.uint64)
    part_filled = np.zeros(4, np.uint64)
    empty_reliable = np.zeros(4, np.uint64)
    for entry in range(_ENTRIES):
        usable[entry] = ~fault_map[entry] & 0xF
        free[entry] = usable[entry]
        if fault_map[entry] == 0:
            _include(empty_reliable, entry, True)
        elif usable[entry]:
            _include(sound_blocks, entry, True)
    home_of_row = np.full(_ENTRIES, _NOWHERE, np.int64)
    spilled = 0
    peak = 0
    spilled_since = 0
    position = start

    for i in range(len(writes.op)):
        kind = writes.op_kind[i]
        if kind == ALLOC:
            if rotating:
                position = (position + 1) % _ENTRIES
            continue
        if kind != WRITE:
            window = writes.op[i]
            base = writes.window_base[window]
            for row in range(base, base + writes.window_size[window]):
                old = home_of_row[row]
                if old >= 0:
                    _release(old, fault_map, free, sound_blocks, part_filled, empty_reliable)
                elif old == _SPILLED:
                    now = writes.release_cycle[window]
                    counters[_ROW_CYCLES] += spilled * (now - spilled_since)
                    spilled_since = now
                    spilled -= 1
                home_of_row[row] = _NOWHERE
            continue

        write = writes.op[i]
        row = writes.row[write]
        old = home_of_row[row]
        compressed = writes.compressed[write]
        if old != _NOWHERE and old != _SPILLED and compressed == writes.was_compressed[write]:
            counters[_REGULAR] += 1
            home[write] = old
            continue
        if old >= 0:
            _release(old, fault_map, free, sound_blocks, part_filled, empty_reliable)
        new = _SPILLED
        if compressed and table:
            new = _IN_TABLE
        elif compressed:
            entry = _first_in(sound_blocks, position)
            if entry < 0:
                entry = _first_in(part_filled, position)
            if entry < 0:
                entry = _first_in(empty_reliable, position)
            if entry >= 0:
                block = _lowest(np.uint64(free[entry]))
                free[entry] &= ~np.uint8(1 << block)
                if fault_map[entry]:
                    _include(sound_blocks, entry, free[entry] != 0)
                else:
                    _include(empty_reliable, entry, False)
                    _include(part_filled, entry, free[entry] != 0)
                new = entry * 8 + block
        else:
            entry = _first_in(empty_reliable, position)
            if entry >= 0:
                free[entry] = 0
                _include(empty_reliable, entry, False)
                new = entry * 8 + _WHOLE
        if new == _SPILLED:
            counters[_LDS] += 1
            counters[_LDS_READS] += writes.reads_after[write]
        elif new == _IN_TABLE:
            counters[_REGULAR] += 1
        elif fault_map[new >> 3]:
            counters[_TO_FAULTY] += 1
        else:
            counters[_TO_RELIABLE] += 1
        if (old == _SPILLED) != (new == _SPILLED):
            now = writes.cycle[write]
            counters[_ROW_CYCLES] += spilled * (now - spilled_since)
            spilled_since = now
            spilled += 1 if new == _SPILLED else -1
            peak = max(peak, spilled)
        if gated and new >= 0 and writes.was_compressed[write] and not compressed:
            counters[_WAKEUPS] += 1
        home_of_row[row] = new
        home[write] = new
    counters[_PEAK] = max(counters[_PEAK], peak)


@_jit
def _release(
    old: int, fault_map: Any, free: Any, sound_blocks: Any, part_filled: Any, empty_reliable: Any
) -> None:
    """Give back a home."""
    entry, block = old >> 3, old & 7
    if block == _WHOLE:
        free[entry] = 0xF
    else:
        free[entry] |= np.uint8(1 << block)
    if fault_map[entry]:
        _include(sound_blocks, entry, True)
    else:
        whole = free[entry] == 0xF
        _include(empty_reliable, entry, whole)
        _include(part_filled, entry, not whole)


@_jit
def _place_all(
    writes: Any,
    fault_maps: Any,
    starts: Any,
    rotating: bool,
    table: bool,
    gated: bool,
    counters: Any,
) -> None:
    home = np.empty(len(writes.cycle), np.int64)
    for instance in range(len(fault_maps)):
        for start in starts:
            _place(
                writes,
                fault_maps[instance],
                start,
                rotating,
                table,
                gated,
                home,
                counters[instance],
            )


@_jit
def _sort_by_entry(home: Any, entry_starts: Any, which: Any, block: Any) -> None:
    """Counting sort of the placed writes by entry, stable in time."""
    entry_starts[:] = 0
    for write in range(len(home)):
        if home[write] >= 0:
            entry_starts[(home[write] >> 3) + 1] += 1
    for entry in range(_ENTRIES):
        entry_starts[entry + 1] += entry_starts[entry]
    fill = entry_starts.copy()
    for write in range(len(home)):
        if home[write] >= 0:
            entry = home[write] >> 3
            which[fill[entry]] = write
            block[fill[entry]] = home[write] & 7
            fill[entry] += 1


@_jit
def _walk_redirected(
    entry: Any,
    writes: Any,
    number: int,
    entry_starts: Any,
    which: Any,
    when: Any,
    block: Any,
    cycles: int,
    gates_released: bool,
) -> None:
    """Cell times of one entry over all passes, each of them cyclic in itself."""
    entry.ones[:] = 0
    entry.powered[:] = 0
    for one in range(len(entry_starts)):
        first, last = entry_starts[one, number], entry_starts[one, number + 1]
        for i in range(first, last):
            when[i - first] = writes.cycle[which[one, i]]
        _walk(
            entry,
            writes,
            which[one, first:last],
            when,
            block[one, first:last],
            last - first,
            cycles,
            gates_released,
        )
    _settle(entry)


@_jit
def _redirected_homes(
    writes: Any,
    fault_map: Any,
    starts: Any,
    rotating: bool,
    table: bool,
    entry_starts: Any,
    which: Any,
    block: Any,
) -> None:
    home = np.empty(len(writes.cycle), np.int64)
    ignored = np.zeros(_COUNTERS, np.int64)
    for one in range(len(starts)):
        _place(writes, fault_map, starts[one], rotating, table, False, home, ignored)
        _sort_by_entry(home, entry_starts[one], which[one], block[one])


@_jit
def _redirected_cell_times(
    writes: Any,
    fault_maps: Any,
    starts: Any,
    rotating: bool,
    table: bool,
    cycles: int,
    gates_released: bool,
    ones: Any,
    powered: Any,
) -> None:
    entry_starts = np.empty((len(starts), _ENTRIES + 1), np.int64)
    which = np.empty((len(starts), len(writes.cycle)), np.int64)
    block = np.empty((len(starts), len(writes.cycle)), np.int64)
    when = np.empty(len(writes.cycle), np.int64)
    entry = _new_entry()
    for instance in range(len(fault_maps)):
        _redirected_homes(
            writes, fault_maps[instance], starts, rotating, table, entry_starts, which, block
        )
        for number in range(_ENTRIES):
            _walk_redirected(
                entry, writes, number, entry_starts, which, when, block, cycles, gates_released
            )
            ones[instance, number] = entry.ones
            powered[instance, number] = entry.powered


@_jit
def _expose(
    writes: Any,
    fault_maps: Any,
    starts: Any,
    rotating: bool,
    table: bool,
    cycles: int,
    gates_released: bool,
    seconds: Any,
    rows: Any,
    zero_seconds: Any,
    one_seconds: Any,
) -> None:
    entry_starts = np.empty((len(starts), _ENTRIES + 1), np.int64)
    which = np.empty((len(starts), len(writes.cycle)), np.int64)
    block = np.empty((len(starts), len(writes.cycle)), np.int64)
    when = np.empty(len(writes.cycle), np.int64)
    entry = _new_entry()
    for instance in range(len(fault_maps)):
        _redirected_homes(
            writes, fault_maps[instance], starts, rotating, table, entry_starts, which, block
        )
        row = rows[instance]
        scale = seconds[instance] / (len(starts) * cycles)
        for number in range(_ENTRIES):
            _walk_redirected(
                entry, writes, number, entry_starts, which, when, block, cycles, gates_released
            )
            first = _CELLS * number
            for cell in range(_CELLS):
                ones = entry.ones[cell]
                zeros = entry.powered[cell] - ones
                zero_seconds[row, first + cell] += zeros * scale
                one_seconds[row, first + cell] += ones * scale


@_jit
def _longest_total(seconds: Any, duty: Any, cells: Any, bound: Any, longest: Any) -> None:
    """See `mcage.engines.extremes.longest_total`: same sums, same order of terms."""
    kernels, groups = bound.shape
    limit = np.empty(groups)
    for instance in range(len(seconds)):
        limit[:] = 0.0
        for kernel in range(kernels):
            spent = seconds[instance, kernel]
            for group in range(groups):
                limit[group] += spent * bound[kernel, group]
        best = 0.0
        first = np.argmax(limit)
        for turn in range(-1, groups):
            group = first if turn < 0 else turn
            if limit[group] <= best:
                continue
            for cell in cells[group]:
                total = 0.0
                for kernel in range(kernels):
                    total += seconds[instance, kernel] * duty[kernel, cell]
                best = max(best, total)
        longest[instance] = best


def _columns(replay: PreparedReplay) -> _Writes:
    schedule, windows = replay.schedule, replay.schedule.windows
    images = schedule.images
    return _Writes(
        cycle=schedule.cycle,
        duration=schedule.end_cycle - schedule.cycle,
        row=schedule.row,
        first=schedule.first,
        compressed=schedule.compressed,
        was_compressed=schedule.was_compressed,
        reads_after=schedule.reads_after,
        op_kind=schedule.op_kind,
        op=schedule.op,
        window_base=windows.base,
        window_size=windows.size,
        release_cycle=windows.release_cycle,
        contents=images.contents,
        image=images.image,
        masks=images.masks,
        mask=images.mask,
        is_record=images.is_record,
        record_code=images.record_code,
        regions=images.regions,
        region_masks=images.region_masks,
    )


def _policies(replay: PreparedReplay) -> tuple[bool, bool]:
    technique = replay.technique
    return technique.rotating_selectors, technique.storage is Storage.TABLE


class NativeEngine(Engine):
    """Numba engine. Its functions release the GIL, so threads may run batches side by side."""

    name = "numba"

    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        counters = np.zeros((len(fault_maps), _COUNTERS), dtype=np.int64)
        gated = replay.technique.gating is Gating.EMPTY
        _place_all(
            _columns(replay),
            fault_maps,
            replay.selector_starts,
            *_policies(replay),
            gated,
            counters,
        )
        return Counters(replay.passes, *(counters[:, one] for one in range(_COUNTERS)))

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`."""
        schedule, layout = replay.schedule, replay.layout
        instances = len(fault_maps) if layout is None else 1
        ones = np.zeros((instances, _ENTRIES, _CELLS), dtype=np.int64)
        powered = np.zeros_like(ones)
        if layout is None:
            _redirected_cell_times(
                _columns(replay),
                fault_maps,
                replay.selector_starts,
                *_policies(replay),
                schedule.cycles,
                replay.technique.gates_released,
                ones,
                powered,
            )
        else:
            self._fixed_cell_times(replay, layout, ones[0], powered[0])
        return CellTimes(ones, powered, replay.period)

    def longest_total(
        self, seconds: NDArray[np.float64], groups: DutyGroups
    ) -> NDArray[np.float64]:
        """See `Engine.longest_total`."""
        longest = np.empty(len(seconds))
        _longest_total(seconds, groups.duty, groups.cells, groups.bound, longest)
        return longest

    def _fixed_cell_times(
        self,
        replay: PreparedReplay,
        layout: Layout,
        ones: NDArray[np.int64],
        powered: NDArray[np.int64],
    ) -> None:
        schedule = replay.schedule
        in_table = schedule.compressed & (replay.technique.storage is Storage.TABLE)
        windows = len(schedule.windows.size)
        gated = replay.technique.gates_released
        if replay.technique.placement is Placement.ROTATE and gated and schedule.writes_whole:
            held = np.flatnonzero(~in_table)
            order = held[np.argsort(schedule.window[held], kind="stable")]
            starts = np.searchsorted(schedule.window[order], np.arange(windows + 1))
            _rotated_cell_times(
                _columns(replay),
                order,
                starts,
                schedule.windows.base,
                layout.passes,
                ones,
                powered,
            )
            return
        key = schedule.window * _ENTRIES + schedule.reg
        order = np.argsort(key, kind="stable")
        starts = np.searchsorted(key[order], np.arange(windows * _ENTRIES + 1))
        _fixed_cell_times(
            _columns(replay),
            order,
            starts,
            ~in_table,
            layout.base,
            layout.rotation,
            layout.step,
            schedule.cycles,
            gated,
            ones,
            powered,
        )

    def expose(
        self,
        replay: PreparedReplay,
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
        rows: NDArray[np.int64],
        zero_seconds: NDArray[np.float64],
        one_seconds: NDArray[np.float64],
    ) -> None:
        """See `Engine.expose`."""
        _expose(
            _columns(replay),
            fault_maps,
            replay.selector_starts,
            *_policies(replay),
            replay.schedule.cycles,
            replay.technique.gates_released,
            seconds,
            rows,
            zero_seconds,
            one_seconds,
        )
