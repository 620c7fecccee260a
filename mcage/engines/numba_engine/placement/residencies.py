"""Residencies of one technique on several kernels, as the compiled functions take them.

A residency is what one register writes into one home: under redirect placement the writes between
two changes of its compression state, under guard placement those of a life, otherwise those of a
window's register. No fault map changes what a residency holds, and for how long. Residencies,
writes and contents are numbered through all kernels.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.aligned import aligned_join, aligned_zeros
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.contents import (
    ALL_COMPONENTS,
    BITS,
    FIRST_PARTIAL,
    RECORD,
    Contents,
    by_bit,
    contents_of,
    planes_of,
)
from mcage.engines.numba_engine.placement.operations import KINDS, Operations, operations_of
from mcage.engines.numba_engine.simd import AT_ONCE, sum_planes
from mcage.engines.numba_engine.vectors import COMPONENTS
from mcage.engines.numbered_writes import check_writes
from mcage.replays.prepare import PreparedReplay, RedirectedReplay

EVER, LAST, END, BEGIN, WRITES_END, PARTIAL = range(6)
"""Columns of `Residencies.facts`."""

MOST_WRITES = 1 << 28
"""Writes, and therefore residencies, that an occupant can name (`packing.py`)."""


class Rules(NamedTuple):
    """What a technique does with places.

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


def each_by_itself(rules: Rules) -> bool:
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

    cycles: NDArray[np.int64]
    writes: NDArray[np.int64]
    whole: NDArray[np.bool_]
    first_residency: NDArray[np.int64]
    first_operation: NDArray[np.int64]


class Writes(NamedTuple):
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

    cycle: NDArray[np.int64]
    duration: NDArray[np.unsignedinteger]
    image: NDArray[np.uint32]
    mask: NDArray[np.int32]
    regions: NDArray[np.uint8]
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
    rules: Rules
    kernels: Kernels
    writes: Writes
    contents: Contents
    operations: Operations
    selector_starts: NDArray[np.int64]
    write_starts: NDArray[np.int64]
    register: NDArray[np.int64]
    row: NDArray[np.int64]
    end: NDArray[np.int64]
    wakes: NDArray[np.bool_]
    at_most: NDArray[np.unsignedinteger]
    facts: NDArray[np.uint64]


def owners_of(residencies: Residencies) -> NDArray[np.int64] | None:
    """Rows whose entries the residencies prefer, where rows have entries: int64[residencies]."""
    return residencies.row if residencies.rules.borrows else None


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
        rules=Rules(
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
        held = np.flatnonzero(~schedule.in_table)
        if technique.redirects:
            key = schedule.residency_first
        else:
            key = schedule.window * schedule.geometry.entries + schedule.reg
        held = held[np.argsort(key[held], kind="stable")]
        begins = np.ones(len(held), dtype=bool)
        begins[1:] = key[held[1:]] != key[held[:-1]]
        self.write_starts = np.flatnonzero(begins)
        opens = held[self.write_starts]
        self.register, self.row = key[opens], schedule.row[opens]
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
        residency = np.cumsum(begins) - 1
        self.writes = Writes(
            cycle=schedule.cycle[held],
            duration=(schedule.end_cycle - schedule.cycle)[held].view(np.uint64),
            image=image.astype(np.uint32),
            mask=mask.astype(np.int32),
            regions=stored_values.regions[held].astype(np.uint8),
            reads_after=schedule.reads_after[held].astype(np.int32),
            residency=residency.astype(np.int32),
        )
        self.operations = operations_of(schedule, held, residency)


def _starts(counts: list[int], first: int = 0) -> NDArray[np.int64]:
    return np.cumsum([first, *counts])


def _joined(columns: list[NDArray[Any]], first: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """Columns of all kernels, each raised by the number of its first item."""
    if first is None:
        return np.concatenate(columns)
    return np.concatenate([column + shift for column, shift in zip(columns, first, strict=False)])


def _joined_writes(
    parts: list[_Part], first_residency: NDArray[np.int64], cycles: type[np.integer]
) -> Writes:
    first_image = _starts([len(part.planes) for part in parts])
    masks_before = _starts([len(part.masks) for part in parts])
    mask = [
        np.where(part.writes.mask < FIRST_PARTIAL, part.writes.mask, part.writes.mask + before)
        for part, before in zip(parts, masks_before, strict=False)
    ]
    return Writes(
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
    parts: list[_Part], first_residency: NDArray[np.int64], first_write: NDArray[np.int64]
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
            sum_planes(planes, image, duration, first, end, bit, sums)
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
