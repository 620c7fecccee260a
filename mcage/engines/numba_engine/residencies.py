"""Residencies of one technique on several kernels, as the compiled functions take them.

A residency is what one register writes into one home: under redirect placement the writes between
two changes of its compression state, under guard placement those of a life, otherwise those of a
window's register. No fault map changes what a residency holds, and for how long. Residencies,
writes and contents are numbered through all kernels.
"""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Lazy, Memo
from mcage.engines.interface import check_writes
from mcage.engines.numba_engine.jit import (
    AT_ONCE,
    COMPONENTS,
    aligned_join,
    aligned_zeros,
    compiled,
    inner,
    sum_planes,
    with_bit,
)
from mcage.files.disk_cache import arrays_of_record, record_of_arrays
from mcage.geometry import (
    COMPONENT_BITS,
    Booleans,
    Bytes,
    Integers,
    SliceGeometry,
    Words,
    repeated_components,
)
from mcage.replays.prepare import PreparedReplay, RedirectedReplay, kept_of_replays
from mcage.replays.schedule import KINDS, Operations, Schedule, operations_of, residencies_of_writes
from mcage.replays.stored_values import CODE_MASK, cell_mask

# Stored bits of each write, as bit planes: bit b of all components of an entry is one 64-bit word.
#
# Where an entry has fewer than 64 components, they are repeated until the word is full: bounds and
# longest times of all components are then those of the components that there are.

BITS = COMPONENT_BITS
WHOLE, RECORD = 0, 1
"""Rows of `Contents.masks` that mean: all cells; the cells of a record in block 0."""

FIRST_PARTIAL = 2
"""From this row of `Contents.masks` on, a write leaves some components as they were."""

ALL_REGIONS = 15
"""The set of all regions of an entry."""

CODE_BITS = int(CODE_MASK).bit_count()
"""Bits of the second component of a record that hold its exponent codes."""

ALL_COMPONENTS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Contents(NamedTuple):
    """Distinct contents of an entry, and distinct sets of its cells.

    Attributes
    ----------
    planes : uint64[contents, 32]
        Bit c of ``planes[i, b]`` is bit b of component c.
    masks : uint64[masks, 32]
        Components of which a write overwrites bit b.
    regions_on : uint64[16, 32]
        Components of which bit b lies in a set of regions.
    first_block : uint64[1]
        Components of the first block.
    block_components : int
        Components of a block.
    """

    planes: Words
    masks: Words
    regions_on: Words
    first_block: Words
    block_components: int


def contents_of(schedule: Schedule, planes: Words, masks: list[Words]) -> Contents:
    """Contents of the slice that a schedule is about.

    Parameters
    ----------
    schedule : Schedule
        A schedule of the technique.
    planes : uint64[contents, 32]
        Distinct contents.
    masks : list of uint64[masks, 32]
        What is overwritten, from `FIRST_PARTIAL` on.
    """
    geometry = schedule.geometry
    first_block = cell_mask(0, COMPONENT_BITS * geometry.block_components, geometry)
    return Contents(
        planes=planes,
        masks=np.concatenate([_common_masks(geometry), *masks]),
        regions_on=_regions_on(schedule),
        first_block=by_bit(first_block[None])[0, :1],
        block_components=geometry.block_components,
    )


def planes_of(schedule: Schedule, held: Integers) -> tuple[Words, Integers]:
    """Bit planes of what writes store, records included, and the row of each write."""
    stored_values = schedule.stored_values
    record = stored_values.is_record[held]
    words = np.stack(
        [stored_values.contents[stored_values.image[held], 0], stored_values.record_code[held]],
        axis=1,
    )
    distinct, which = np.unique(words[record], axis=0, return_inverse=True)
    contents = np.zeros((len(distinct), schedule.geometry.components), dtype=np.uint32)
    contents[:, :2] = distinct
    used, image = np.unique(stored_values.image[held], return_inverse=True)
    image = image.reshape(-1).astype(np.int64)
    image[record] = len(used) + which.reshape(-1)
    return by_bit(np.concatenate([stored_values.contents[used], contents])), image


def _common_masks(geometry: SliceGeometry) -> Words:
    """Return the first rows of `Contents.masks`: all cells, and the cells of a record."""
    masks = np.full((FIRST_PARTIAL, BITS), ALL_COMPONENTS)
    masks[RECORD] = by_bit(cell_mask(0, COMPONENT_BITS + CODE_BITS, geometry)[None])
    return masks


def _regions_on(schedule: Schedule) -> Words:
    """Components in every set of regions: uint64[16, 32]."""
    each = by_bit(schedule.stored_values.region_masks)
    sets = np.zeros((ALL_REGIONS + 1, BITS), dtype=np.uint64)
    for chosen in range(ALL_REGIONS + 1):
        for region, components in enumerate(each):
            if chosen >> region & 1:
                sets[chosen] |= components
    return sets


def by_bit(contents: NDArray[np.uint32]) -> Words:
    """Return contents uint32[n, components] as bit planes uint64[n, 32]."""
    planes = np.empty((len(contents), BITS), dtype=np.uint64)
    _transpose(np.ascontiguousarray(repeated_components(contents, axis=1)), planes)
    return planes


@compiled
def _transpose(contents: NDArray[np.uint32], planes: Words) -> None:
    for image in range(len(contents)):
        for bit in range(BITS):
            planes[image, bit] = with_bit(contents, image, np.uint32(bit))


EVER, LAST, END, BEGIN, WRITES_END, PARTIAL = range(6)
"""Columns of `Residencies.facts`."""

MOST_WRITES = 1 << 28
"""Writes, and therefore residencies, that an occupant can name (`packing.py`)."""


class PlaceRules(NamedTuple):
    """Rules by which a technique uses places.

    Attributes
    ----------
    gated : bool
        A place is on from the write that fills it until its value is gone; otherwise for good.
    rotating : bool
        The scan of the selectors starts one entry further with every window.
    in_blocks : bool
        A compressed value takes a block of an entry.
    borrows : bool
        Rows have entries of their own.
    """

    gated: bool
    rotating: bool
    in_blocks: bool
    borrows: bool


def each_by_itself(rules: PlaceRules) -> bool:
    """Whether what a residency shows depends on nothing that was in its home before."""
    return rules.gated and not rules.in_blocks


class Kernels(NamedTuple):
    """Kernels of a sweep.

    Attributes
    ----------
    cycles, writes : int64[kernels]
        Cycles of a pass; register writes in it, those in the compression table included.
    whole : bool[kernels]
        Whether every write is one of all cells of an entry.
    first_residency, first_operation : int64[kernels + 1]
        Kernel k has the residencies and operations from its number up to that of k + 1.
    """

    cycles: Integers
    writes: Integers
    whole: Booleans
    first_residency: Integers
    first_operation: Integers


class EntryWrites(NamedTuple):
    """Writes that go to an entry, residency after residency.

    Attributes
    ----------
    cycle : int64[writes]
        When the write happens.
    duration : T[writes]
        Cycles for which its value counts.
    image : uint32[writes]
        Row of `Contents.planes` that it stores.
    mask : int32[writes]
        Row of `Contents.masks` that it overwrites.
    regions : uint8[writes]
        Set of regions that it powers.
    reads_after : int32[writes]
        Reads of its value.
    residency : int32[writes]
        Residency that it belongs to.
    """

    cycle: Integers
    duration: NDArray[np.unsignedinteger]
    image: NDArray[np.uint32]
    mask: NDArray[np.int32]
    regions: Bytes
    reads_after: NDArray[np.int32]
    residency: NDArray[np.int32]


class Slice(NamedTuple):
    """The slice, as compiled functions take it.

    Attributes
    ----------
    entries, blocks : int
        Entries, and blocks of an entry.
    all_blocks : int
        Set of all blocks of an entry.
    """

    entries: int
    blocks: int
    all_blocks: int


class Residencies(NamedTuple):
    """Residencies of several kernels. T has 32 bits if the cycles of a whole replay fit into them.

    Attributes
    ----------
    slice_ : Slice
        Where they live.
    rules, kernels, writes, contents, operations
        What the residencies consist of, and what the selectors do with them.
    lds_rows : int64[kernels]
        Spilled rows for which the LDS has room; those beyond live in memory.
    selector_starts : int64[passes]
        Entry at which the scan of the selectors starts in each pass.
    write_starts : int64[residencies + 1]
        Residency i has the writes from ``write_starts[i]`` up to ``write_starts[i + 1]``.
    register : int64[residencies]
        entries x window + register; where registers may move, the first write of the residency.
    row : int64[residencies]
        Row of the register, which is the number of its own entry.
    end : int64[residencies]
        Cycle at which the last value of the residency is gone from its home.
    wakes : bool[residencies]
        Its home was off because the register's value was compressed.
    at_most : T[residencies, 64]
        Bit b of any component is at '1' for ``[:, b]`` cycles at most, at '0' for ``[:, 32 + b]``.
    facts : uint64[residencies, 8]
        What is asked of a residency most often, in one cache line. `EVER` and `LAST`: bits,
        numbered as in `at_most`, that some component has at '1' or at '0' at any time of the
        residency, and at its end. `END`: its `end`. `BEGIN`, `WRITES_END`: the numbers of its
        first write, and after that of its last. `PARTIAL`: whether some write of it leaves
        components as they were.
    """

    slice_: Slice
    rules: PlaceRules
    kernels: Kernels
    writes: EntryWrites
    contents: Contents
    operations: Operations
    lds_rows: Integers
    selector_starts: Integers
    write_starts: Integers
    register: Integers
    row: Integers
    end: Integers
    wakes: Booleans
    at_most: NDArray[np.unsignedinteger]
    facts: Words


def residencies_of(replays: tuple[PreparedReplay, ...]) -> Residencies:
    """Number the residencies of a technique on several kernels through.

    Parameters
    ----------
    replays : tuple of PreparedReplay
        The technique on each kernel.

    Raises
    ------
    UserError
        There are more writes than an occupant can name.
    """
    technique, geometry = replays[0].technique, replays[0].geometry
    selector_starts = np.zeros(0, dtype=np.int64)
    if isinstance(replays[0], RedirectedReplay):
        selector_starts = replays[0].selector_starts
    parts = [_Part(replay) for replay in replays]
    first_residency = _starts([len(part.end) for part in parts])
    first_write = _starts([len(part.writes.image) for part in parts])
    check_writes(first_write[-1], MOST_WRITES, "numba")
    cycles = np.uint32 if max(replay.period for replay in replays) < 1 << 32 else np.int64
    residencies = Residencies(
        slice_=Slice(geometry.entries, geometry.blocks, geometry.all_blocks),
        rules=PlaceRules(
            gated=technique.gates_released,
            rotating=technique.rotating_selectors,
            in_blocks=technique.stores_in_blocks,
            borrows=technique.borrows,
        ),
        kernels=Kernels(
            cycles=np.array([replay.schedule.cycles for replay in replays]),
            writes=np.array([replay.schedule.writes for replay in replays]),
            whole=np.array([not part.writes.mask.any() for part in parts]),
            first_residency=first_residency,
            first_operation=_starts([len(part.operations.code) for part in parts]),
        ),
        writes=_joined_writes(parts, first_residency, cycles),
        contents=contents_of(
            replays[0].schedule,
            aligned_join([part.planes for part in parts]),
            [part.masks for part in parts],
        ),
        operations=_joined_operations(parts, first_residency, first_write),
        lds_rows=_room(replays),
        selector_starts=selector_starts,
        write_starts=np.append(
            _joined([part.write_starts for part in parts], first_write), first_write[-1]
        ),
        register=_joined([part.register for part in parts]),
        row=_joined([part.row for part in parts]),
        end=_joined([part.end for part in parts]),
        wakes=_joined([part.wakes for part in parts]),
        at_most=aligned_zeros((first_residency[-1], COMPONENTS), cycles),
        facts=aligned_zeros((first_residency[-1], 8), np.uint64),
    )
    if technique.redirects:
        _bound_residencies(residencies, np.empty((BITS, COMPONENTS), dtype=cycles))
    return residencies


class _Part:
    """Residencies, writes and contents of one kernel, numbered from 0."""

    def __init__(self, replay: PreparedReplay) -> None:
        schedule, technique = replay.schedule, replay.technique
        key = None
        if not technique.redirects:
            key = schedule.window * schedule.geometry.entries + schedule.reg
        held, residency = residencies_of_writes(schedule, key)
        self.write_starts = np.flatnonzero(np.diff(residency, prepend=-1))
        opens = held[self.write_starts]
        self.register = (schedule.residency_first if key is None else key)[opens]
        self.row = schedule.row[opens]
        ends = np.append(self.write_starts, len(held))[1:] - 1
        self.end = schedule.end_cycle[held[ends]]
        self.wakes = (schedule.was_compressed & ~schedule.compressed)[opens]
        if not technique.gates_empty:
            self.wakes[:] = False
        stored_values = schedule.stored_values
        self.planes, image = planes_of(schedule, held)
        self.masks = by_bit(stored_values.masks[1:])
        mask = stored_values.mask[held]
        mask[mask > 0] += FIRST_PARTIAL - 1
        mask[stored_values.is_record[held]] = RECORD
        self.writes = EntryWrites(
            cycle=schedule.cycle[held],
            duration=(schedule.end_cycle - schedule.cycle)[held].view(np.uint64),
            image=image.astype(np.uint32),
            mask=mask.astype(np.int32),
            regions=stored_values.regions[held].astype(np.uint8),
            reads_after=schedule.reads_after[held].astype(np.int32),
            residency=residency.astype(np.int32),
        )
        self.operations = operations_of(schedule, held, residency)


def _starts(counts: list[int], first: int = 0) -> Integers:
    return np.cumsum([first, *counts])


def _joined(columns: list[NDArray[Any]], first: Integers | None = None) -> NDArray[Any]:
    """Columns of all kernels, each raised by the number of its first item."""
    if first is None:
        return np.concatenate(columns)
    return np.concatenate([column + shift for column, shift in zip(columns, first, strict=False)])


def _joined_writes(
    parts: list[_Part], first_residency: Integers, cycles: type[np.integer]
) -> EntryWrites:
    first_image = _starts([len(part.planes) for part in parts])
    masks_before = _starts([len(part.masks) for part in parts])
    mask = [
        np.where(part.writes.mask < FIRST_PARTIAL, part.writes.mask, part.writes.mask + before)
        for part, before in zip(parts, masks_before, strict=False)
    ]
    return EntryWrites(
        cycle=_joined([part.writes.cycle for part in parts]),
        duration=_joined([part.writes.duration for part in parts]).astype(cycles),
        image=_joined([part.writes.image for part in parts], first_image).astype(np.uint32),
        mask=np.concatenate(mask).astype(np.int32),
        regions=_joined([part.writes.regions for part in parts]),
        reads_after=_joined([part.writes.reads_after for part in parts]),
        residency=_joined([part.writes.residency for part in parts], first_residency).astype(
            np.int32
        ),
    )


def _joined_operations(
    parts: list[_Part], first_residency: Integers, first_write: Integers
) -> Operations:
    first_retry = _starts([len(part.operations.retries) for part in parts])
    codes = [part.operations.code for part in parts]
    retry_starts = _joined([part.operations.retry_starts for part in parts], first_retry)
    return Operations(
        code=_joined(codes, KINDS * first_residency).astype(np.uint32),
        retry_starts=np.append(retry_starts, first_retry[-1]),
        retries=_joined([part.operations.retries for part in parts], first_write).astype(np.int32),
    )


@compiled
def _bound_residencies(residencies: Residencies, sums: NDArray[np.unsignedinteger]) -> None:
    """Fill in `at_most` and `facts`; `sums` is a workspace, T[32, 64]."""
    at_most, facts, starts = residencies.at_most, residencies.facts, residencies.write_starts
    planes, masks = residencies.contents.planes, residencies.contents.masks
    image, duration = residencies.writes.image, residencies.writes.duration
    mask = residencies.writes.mask
    for residency in range(len(facts)):
        first, end = starts[residency], starts[residency + 1]
        total = np.int64(0)
        for write in range(first, end):
            total += np.int64(duration[write])
        facts[residency, END] = residencies.end[residency]
        facts[residency, BEGIN], facts[residency, WRITES_END] = first, end
        for write in range(first, end):
            facts[residency, PARTIAL] |= np.uint64(mask[write] >= FIRST_PARTIAL)
        if facts[residency, PARTIAL]:
            for which in range(COMPONENTS):
                at_most[residency, which] = total
            facts[residency, EVER] = facts[residency, LAST] = ALL_COMPONENTS
            continue
        for bit in range(BITS):
            for component in range(COMPONENTS):
                sums[bit, component] = 0
        for bit in range(0, BITS, AT_ONCE):
            sum_planes(planes, image, duration, first, end, bit, sums, bit)
        for bit in range(BITS):
            written = masks[mask[first], bit]
            most, least = np.int64(0), total
            for component in range(COMPONENTS):
                most = max(most, np.int64(sums[bit, component]))
                if written >> np.uint64(component) & np.uint64(1):
                    least = min(least, np.int64(sums[bit, component]))
            at_most[residency, bit] = most
            at_most[residency, BITS + bit] = total - least
            facts[residency, EVER] |= _met(most > 0, total > least, bit)
            final = planes[image[end - 1], bit]
            facts[residency, LAST] |= _met(final != 0, ~final & written != 0, bit)


@inner
def _met(is_one: Any, is_zero: Any, bit: int) -> np.uint64:
    return (np.uint64(is_one) | np.uint64(is_zero) << np.uint64(BITS)) << np.uint64(bit)


# Tables of residencies: one for each technique, whatever asks for it, kept on disk.
#
# Counting, cell times and stress times take the same table. What is on disk is mapped: only the
# pages that are looked at take memory, and processes share them.

Replays = tuple[PreparedReplay, ...]


class ResidencyTables:
    """Residencies of techniques on several kernels, made when first asked for; for all threads.

    They are kept for as long as the replay of the first kernel lives.
    """

    def __init__(self) -> None:
        self._known: Memo[PreparedReplay, dict[Replays, Lazy[Residencies]]] = Memo(lambda _: {})
        self._lock = Lock()

    def of(self, replays: Sequence[PreparedReplay]) -> Residencies:
        """Residencies of a technique on several kernels.

        Parameters
        ----------
        replays : sequence of PreparedReplay
            The technique on each kernel.
        """
        first, *others = replays
        with self._lock:
            known = self._known.of(first)
            table = known.setdefault(tuple(others), Lazy(partial(_table, tuple(replays))))
        return table.get()


def _table(replays: Replays) -> Residencies:
    arrays = kept_of_replays(
        "residencies", replays, lambda: arrays_of_record(residencies_of(replays), "residencies")
    )
    # No other part of the tables depends on how much room there is.
    return record_of_arrays(Residencies, arrays, "residencies")._replace(lds_rows=_room(replays))


def _room(replays: Replays) -> Integers:
    """Spilled rows for which the LDS has room: int64[kernels]."""
    return np.array(
        [
            replay.lds_rows if isinstance(replay, RedirectedReplay) else replay.geometry.entries
            for replay in replays
        ]
    )
