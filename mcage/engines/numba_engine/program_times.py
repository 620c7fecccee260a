"""Cell times of a slice from the arrivals of its values, entry by entry.

All that counts is for how long an entry shows each content. Contents come back pass after pass:
their cycles are added up first, and their cells are looked at once. A record overwrites few cells
of its block, which are added up for themselves; all others go on showing what the entry showed.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import ALL_BITS, clear, hand_over, plane_times
from mcage.engines.numba_engine.homes import WHOLE_ENTRY
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.residencies import (
    ALL_REGIONS,
    BITS,
    FIRST_PARTIAL,
    RECORD,
    WHOLE,
    Contents,
)
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    COMPONENTS,
    PARTS,
    aligned_zeros,
    sum_components,
    sum_planes_in_parts,
)
from mcage.engines.programs import CYCLE, PLACE, UNTIL, WRITE_OF
from mcage.geometry import Integers, Words
from mcage.techniques.programs import PLACES

_OF_PART = COMPONENTS // PARTS
_TILE = 128
"""Contents whose planes are looked at together: 32 KB, so that they stay in the cache."""


class Stored(NamedTuple):
    """What writes store.

    Attributes
    ----------
    contents : Contents
        Distinct contents.
    image, mask : int64[writes]
        Row of `Contents.planes` that each stores, and row of `Contents.masks` that it overwrites.
    gated : bool
        Whether a place is off while it holds no value.
    blocks : int
        Blocks of an entry.
    words, mask_words : uint64[contents, blocks], uint64[masks, blocks]
        Of `contents` and its masks, the first two components of each block in a word.
    block_of_part : int64[4]
        Block in which each part of 16 components lies; -1 if it is a part of several.
    """

    contents: Contents
    image: Integers
    mask: Integers
    gated: bool
    blocks: int
    words: Words
    mask_words: Words
    block_of_part: Integers


class Shown(NamedTuple):
    """For how long an entry shows each content; T is the type of sums of cycles.

    Contents are numbered as the rows of `Contents.planes`; those that writes of some lanes leave
    behind follow.

    Attributes
    ----------
    cycles : T[contents, 4]
        Cycles of each, in each part of the components.
    met : int32[contents]
        The latest entry, counted from 1, that has shown it.
    merged : uint64[contents left behind, 32]
        Planes of what writes of some lanes leave behind.
    row, of_row : uint32[contents], T[contents, 4]
        Rows of `Contents.planes` that the entry at hand shows, and their cycles.
    word : uint64[events]
        The cells that records write, after each event of a block.
    of_words : T[blocks, 64]
        Cycles of these cells at '1'.
    """

    cycles: NDArray[np.integer]
    met: NDArray[np.int32]
    merged: Words
    row: NDArray[np.uint32]
    of_row: NDArray[np.integer]
    word: Words
    of_words: NDArray[np.integer]


def new_shown(stored: Stored, events: int, merged: int, cycles: Any) -> Shown:
    """Make memory for entries of so many events, of which so many leave contents behind."""
    contents = len(stored.contents.planes) + merged
    return Shown(
        np.empty((contents, PARTS), cycles.dtype),
        np.zeros(contents, np.int32),
        np.empty((merged, BITS), np.uint64),
        np.empty(contents, np.uint32),
        np.empty((contents, PARTS), cycles.dtype),
        np.empty(events, np.uint64),
        aligned_zeros((stored.blocks, COMPONENTS), cycles.dtype),
    )


@compiled
def first_words(planes: Words, components: int, words: Words) -> None:
    """Find the first two components of all blocks: uint64[n, 32] to uint64[n, blocks].

    Blocks have so many components.
    """
    for row in range(len(planes)):
        for block in range(words.shape[1]):
            word = np.uint64(0)
            for bit in range(BITS):
                pair = planes[row, bit] >> np.uint64(block * components)
                word |= (pair & np.uint64(1)) << np.uint64(bit)
                word |= (pair >> np.uint64(1) & np.uint64(1)) << np.uint64(BITS + bit)
            words[row, block] = word


@compiled
def sort_by_entry(
    arrivals: NDArray[np.int32], first: Integers, in_order: NDArray[np.int32]
) -> None:
    """Sort arrivals, int32[n, 4], by entry: first[entry], int64[entries + 1], is where each begins.

    Those of an entry stay in the order in which they are.
    """
    first[:] = 0
    for i in range(len(arrivals)):
        first[arrivals[i, PLACE] // PLACES + 1] += 1
    for entry in range(1, len(first)):
        first[entry] += first[entry - 1]
    for i in range(len(arrivals)):
        entry = arrivals[i, PLACE] // PLACES
        for column in range(arrivals.shape[1]):
            in_order[first[entry], column] = arrivals[i, column]
        first[entry] += 1
    for entry in range(len(first) - 1, 0, -1):
        first[entry] = first[entry - 1]
    first[0] = 0


@compiled
def times_of_entries(
    stored: Stored,
    arrivals: NDArray[np.int32],
    first: Integers,
    cycles: int,
    events: Any,
    shown: Shown,
    times: Any,
    ones: Integers,
    powered: Integers,
) -> None:
    """Add the cycles of all cells of some entries at '1' and powered: int64[n, components, 32].

    Parameters
    ----------
    stored : Stored
        What writes store.
    arrivals : int32[arrivals, 4]
        Values that come to the entries, pass after pass, and in each entry after entry.
    first : int64[passes, n + 1]
        First arrival of each entry in each pass, and the end of the last.
    cycles : int
        Cycles of a pass.
    events, shown, times : Events, Shown, Times
        Workspaces.
    ones, powered : int64[n, components, 32]
        Added to.
    """
    shown.met[:] = 0  # of the entries before, whose numbers are the same
    for entry in range(len(ones)):
        records, whole, merged = False, False, 0
        for pass_ in range(len(first)):
            for i in range(first[pass_, entry], first[pass_, entry + 1]):
                mask = stored.mask[arrivals[i, WRITE_OF]]
                records |= mask == RECORD
                whole |= mask == WHOLE
                merged += mask >= FIRST_PARTIAL
        if not (records or whole or merged):
            continue
        clear(times, ALL_BITS)
        if whole and (not records or stored.block_of_part[0] >= 0):
            contents = 0
            for block in range(stored.blocks if records else 1):
                of_block = block if records else WHOLE_ENTRY
                _gather(stored, arrivals, first, entry, cycles, of_block, events)
                contents = _show(stored, events, entry, block, records, contents, shown, times)
            _sum_up(stored, contents, merged, shown, times)
            if records:
                _put_words(stored, shown, times)
        else:
            for block in range(stored.blocks) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1):
                all_ = _gather(stored, arrivals, first, entry, cycles, block, events)
                plane_times(stored.contents, events, all_, ALL_BITS, block, times)
        hand_over(times, 1, ones[entry], powered[entry])


@inner
def _gather(
    stored: Any, arrivals: Any, first: Any, entry: int, cycles: int, block: int, events: Any
) -> bool:
    """List what an entry, or a block of it, receives; whether all of it writes all components."""
    count, whole = 0, True
    previous = first_start = np.int64(0)
    for pass_ in range(len(first)):
        for i in range(first[pass_, entry], first[pass_, entry + 1]):
            write, mask = arrivals[i, WRITE_OF], stored.mask[arrivals[i, WRITE_OF]]
            if mask == RECORD and arrivals[i, PLACE] % PLACES != block:
                continue
            whole &= mask == WHOLE
            events.image[count] = stored.image[write]
            events.mask[count] = mask
            events.regions[count] = ALL_REGIONS
            when = pass_ * cycles + np.int64(arrivals[i, CYCLE])
            if stored.gated:
                events.held[count] = arrivals[i, UNTIL] - arrivals[i, CYCLE]
            elif count:
                events.held[count - 1] = when - previous
            else:
                first_start = when
            previous = when
            count += 1
    if count and not stored.gated:
        events.held[count - 1] = first_start + len(first) * cycles - previous
    events.orbits[1] = count
    return whole


@inner
def _show(
    stored: Any,
    events: Any,
    entry: int,
    block: int,
    records: bool,
    contents: int,
    shown: Any,
    times: Any,
) -> int:
    """Add up for how long a block, or an entry without records, shows each content.

    Some event writes all cells. The events from the last such one on say what the first one meets.
    Returns how many rows of `Contents.planes` the entry has shown so far.
    """
    image, mask, held, count = events.image, events.mask, events.held, events.orbits[1]
    images, last, left, total = len(stored.contents.planes), count - 1, 0, np.int64(0)
    while mask[last] != WHOLE:
        last -= 1
    for i in range(last):
        left += mask[i] >= FIRST_PARTIAL
    row, word = np.int64(0), np.uint64(0)
    for turn in range(2):
        merged = left if turn == 0 else 0
        for i in range(last if turn == 0 else 0, count):
            if mask[i] == WHOLE:
                row = np.int64(image[i])
            elif mask[i] != RECORD:
                if block == 0:
                    _merge(stored.contents, row, image[i], mask[i], shown.merged, merged)
                row = np.int64(images + merged)
                merged += 1
            if records:
                of_block = 0 if mask[i] == RECORD else block
                cells = stored.mask_words[mask[i], of_block]
                word = (word & ~cells) | (stored.words[image[i], of_block] & cells)
            if turn == 0:
                continue
            shown.word[i] = word
            total += np.int64(held[i])
            if shown.met[row] != entry + 1:
                shown.met[row] = entry + 1
                for part in range(PARTS):
                    shown.cycles[row, part] = 0
                if row < images:
                    shown.row[contents] = row
                    contents += 1
            for part in range(PARTS):
                if not records or stored.block_of_part[part] == block:
                    shown.cycles[row, part] += held[i]
    if records:
        for component in range(COMPONENTS):
            shown.of_words[block, component] = 0
        sum_components(shown.word, held, count, shown.of_words, block)
    for component in range(COMPONENTS):
        if not records or stored.block_of_part[component // _OF_PART] == block:
            for bit in range(BITS):
                times.powered[bit, component] += total
    return contents


@inner
def _merge(contents: Any, row: Any, image: Any, mask: Any, merged: Any, number: int) -> None:
    """What an entry shows after a write of some lanes, by what it has shown before."""
    images = len(contents.planes)
    for bit in range(BITS):
        before = contents.planes[row, bit] if row < images else merged[row - images, bit]
        cells = contents.masks[mask, bit]
        merged[number, bit] = (before & ~cells) | (contents.planes[image, bit] & cells)


@inner
def _sum_up(stored: Any, contents: int, merged: int, shown: Any, times: Any) -> None:
    """Add the cycles of the contents that an entry shows to the cells that hold '1' in them."""
    images = len(stored.contents.planes)
    for i in range(contents):
        for part in range(PARTS):
            shown.of_row[i, part] = shown.cycles[shown.row[i], part]
    for begin in range(0, contents, _TILE):
        end = min(begin + _TILE, contents)
        for bit in range(0, BITS, AT_ONCE):
            sum_planes_in_parts(
                stored.contents.planes, shown.row, shown.of_row, begin, end, bit, times.ones
            )
    if merged:
        for i in range(merged):
            shown.row[i] = i
        cycles = shown.cycles[images:]
        for bit in range(0, BITS, AT_ONCE):
            sum_planes_in_parts(shown.merged, shown.row, cycles, 0, merged, bit, times.ones)


@inner
def _put_words(stored: Any, shown: Any, times: Any) -> None:
    """Take the cells that records write from their own sums."""
    for block in range(stored.blocks):
        for component in range(2):
            for bit in range(BITS):
                cycles = shown.of_words[block, component * BITS + bit]
                times.ones[bit, block * stored.contents.block_components + component] = cycles
