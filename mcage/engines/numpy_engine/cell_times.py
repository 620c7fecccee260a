"""Cell times in the reference engine: what the cells of an entry hold, by algebra over writes.

Here an occupant is a single write that lands in the entry. Between two occupants nothing changes,
so the times of a cell are sums over occupants: for how long the occupant holds, whether the cell is
powered meanwhile, and the bit that the last occupant which overwrote the cell has put there. Cells
that are overwritten and powered by the same writes form a class and have these sums in common.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Integers, SliceGeometry
from mcage.replays.stored_values import CODE_MASK, REGIONS, StoredValues, cell_mask

_ALL_REGIONS = (1 << REGIONS) - 1
_RECORD_BITS = COMPONENT_BITS + int(CODE_MASK).bit_count()
_ALL_CELLS = np.uint32(0xFFFF_FFFF)
_MANY_CONTENTS = 256
"""Contents of which bytes are looked at instead of bits."""

_CellsAtOne = Callable[[NDArray[Any], Integers], Integers]
"""From the cycles of each content, and cells, the cycles at '1' of these cells."""


@dataclass(frozen=True)
class Occupants:
    """Writes that land in an entry, orbit after orbit, each in order of time.

    An orbit of passes repeats for ever: its first occupant meets what its last one left.

    Attributes
    ----------
    write, block : int64[occupants]
        Write, and the block that it goes to if it is a record.
    cycles : int64[occupants]
        For how long its value, or under no gating what it leaves in the entry, holds.
    orbit : int64[occupants]
        Orbit, in ascending order.
    """

    write: Integers
    block: Integers
    cycles: Integers
    orbit: Integers


@dataclass(frozen=True)
class Imprints:
    """Content that a write puts into each class of cells.

    Attributes
    ----------
    contents : uint32[images, components]
        Distinct contents of an entry; a record stands at the start of each of its blocks.
    image : int64[writes]
        Row of `contents` that a write stores.
    mask, regions : int64[writes, blocks]
        Set of cells that a write overwrites, and regions that it powers (bit r = region r), if
        it goes to each block.
    class_of_cell : int64[cells of an entry]
        Class of each cell.
    overwrites : bool[masks, classes]
        Which classes a mask takes in.
    powers : bool[16, classes]
        Which classes a set of regions takes in.
    """

    contents: NDArray[np.uint32]
    image: Integers
    mask: Integers
    regions: Integers
    class_of_cell: Integers
    overwrites: Booleans
    powers: Booleans


def make_imprints(
    stored_values: StoredValues, geometry: SliceGeometry, gates_released: bool
) -> Imprints:
    """Sort the cells of an entry into classes, and spread records over the blocks.

    If released places are switched off, a write powers its own place; otherwise nothing is ever
    switched off, and every occupant powers the whole entry.
    """
    contents, image = _with_records(stored_values, geometry)
    is_record, blocks = stored_values.is_record[:, None], np.arange(geometry.blocks)
    masks, regions = [stored_values.masks], np.full((len(image), geometry.blocks), _ALL_REGIONS)
    if is_record.any():
        starts = range(0, geometry.entry_bits, geometry.block_bits)
        of_records = [cell_mask(start, start + _RECORD_BITS, geometry) for start in starts]
        masks.append(np.stack(of_records))
    region_masks = np.full((REGIONS, geometry.components), _ALL_CELLS)
    if gates_released:
        regions = np.where(is_record, 1 << blocks, stored_values.regions[:, None])
        region_masks = stored_values.region_masks
    columns = _bits(np.concatenate([*masks, region_masks])).astype(bool)
    representative, class_of_cell = kinds_of_columns(columns)
    classes = columns[:, representative]
    sets = np.arange(1 << REGIONS)[:, None] >> np.arange(REGIONS) & 1 == 1
    return Imprints(
        contents=contents,
        image=image,
        mask=np.where(is_record, len(stored_values.masks) + blocks, stored_values.mask[:, None]),
        regions=regions,
        class_of_cell=class_of_cell,
        overwrites=classes[:-REGIONS],
        powers=(sets[:, :, None] & classes[-REGIONS:]).any(axis=1),
    )


def _with_records(
    stored_values: StoredValues, geometry: SliceGeometry
) -> tuple[NDArray[np.uint32], Integers]:
    """Contents with those of records added, and the row of it that each write stores.

    A record is repeated at the start of every block; a mask will pick the one that it goes to.
    """
    base = stored_values.contents[stored_values.image[stored_values.is_record], 0]
    words, record = np.unique(
        np.stack([base, stored_values.record_code[stored_values.is_record]]),
        axis=1,
        return_inverse=True,
    )
    shape = (words.shape[1], geometry.blocks, geometry.block_components)
    tiles = np.zeros(shape, dtype=np.uint32)
    tiles[:, :, :2] = words.T[:, None]
    image = stored_values.image.copy()
    image[stored_values.is_record] = len(stored_values.contents) + record.reshape(-1)
    records = tiles.reshape(-1, geometry.components)
    return np.concatenate([stored_values.contents, records]), image


def cell_times(imprints: Imprints, occupants: Occupants) -> tuple[Integers, Integers]:
    """Cycles that each cell of an entry holds '1' and is powered: int64[cells of an entry] twice.

    Cells that an orbit never writes are off in it.
    """
    ones = np.zeros(len(imprints.class_of_cell), dtype=np.int64)
    powered = np.zeros_like(ones)
    stored_values, image = np.unique(imprints.image[occupants.write], return_inverse=True)
    mask = imprints.mask[occupants.write, occupants.block]
    regions = imprints.regions[occupants.write, occupants.block]
    first = np.searchsorted(occupants.orbit, occupants.orbit, side="left")
    final = np.searchsorted(occupants.orbit, occupants.orbit, side="right") - 1
    at_one = _cells_at_one(imprints.contents[stored_values])
    for class_, cells in _classes_met(imprints, mask, regions):
        last = _last_overwrite(imprints.overwrites[mask, class_], first, final)
        on = imprints.powers[regions, class_] & (last >= 0)
        cycles = np.bincount(
            image[last[on]], weights=occupants.cycles[on], minlength=len(stored_values)
        )
        powered[cells] = occupants.cycles[on].sum()
        ones[cells] = at_one(cycles, cells)
    return ones, powered


def _classes_met(
    imprints: Imprints, mask: Integers, regions: Integers
) -> Iterator[tuple[int, Integers]]:
    """Classes that the masks and regions of an entry's occupants tell apart, and their cells.

    The first of classes that are not distinguished stands for all of them.

    Cells that are never overwritten or never powered are left out.
    """
    overwrites = imprints.overwrites[np.unique(mask)]
    powers = imprints.powers[np.unique(regions)]
    representative, met = kinds_of_columns(np.concatenate([overwrites, powers]))
    met_of_cell = met[imprints.class_of_cell]
    for number, class_ in enumerate(representative.tolist()):
        if overwrites[:, class_].any() and powers[:, class_].any():
            yield class_, np.flatnonzero(met_of_cell == number)


def kinds_of_columns(columns: Booleans) -> tuple[Integers, Integers]:
    """Kinds of columns, bool[rows, n]: the first column of each kind, and the kind of each column.

    64 rows at a time are the bits of a number. To compare columns as such takes ten times as long.
    """
    packed = np.packbits(columns, axis=0)
    words = np.zeros((packed.shape[1], -(-len(packed) // 8) * 8), dtype=np.uint8)
    words[:, : len(packed)] = packed.T
    kind = np.zeros(len(words), dtype=np.int64)
    for word in words.view(np.uint64).T:
        distinct, of_word = np.unique(word, return_inverse=True)
        _, first, kind = np.unique(
            kind * len(distinct) + of_word, return_index=True, return_inverse=True
        )
    return first, kind


def _last_overwrite(overwrites: Booleans, first: Integers, final: Integers) -> Integers:
    """Occupant that overwrote a class last, this occupant included; -1 if none of its orbit does.

    `first` and `final` are the first and the final occupant of each occupant's orbit.
    """
    last = np.maximum.accumulate(np.where(overwrites, np.arange(len(overwrites)), -1))
    last = np.where(last >= first, last, last[final])
    return np.where(last >= first, last, -1)


def _cells_at_one(contents: NDArray[np.uint32]) -> _CellsAtOne:
    """Sums of cycles at '1' for entries that show some contents.

    A replay lasts far less than 2**53 cycles, so that sums in float64 are exact.
    """
    if len(contents) >= _MANY_CONTENTS:
        by_byte = _bytes(contents)
        return lambda cycles, cells: _by_bytes(by_byte, cycles, cells)
    bits = _bits(contents).astype(np.float64)
    return lambda cycles, cells: np.asarray((cycles @ bits)[cells].astype(np.int64))


def _by_bytes(by_byte: Bytes, cycles: NDArray[Any], cells: Integers) -> Integers:
    """Cycles at '1' of cells: cycles are summed by byte value first, of which there are 256."""
    byte_of_cell = cells // 8
    needed, position = np.unique(byte_of_cell, return_inverse=True)
    of_value = np.stack(
        [np.bincount(by_byte[:, byte], weights=cycles, minlength=256) for byte in needed]
    )
    values = np.arange(256, dtype=np.uint8)[:, None]
    of_bit = of_value @ np.unpackbits(values, axis=1, bitorder="little").astype(np.float64)
    of_cell: Integers = of_bit[position, cells % 8].astype(np.int64)
    return of_cell


def _bytes(contents: NDArray[np.uint32]) -> Bytes:
    """Bytes of entries: uint32[n, components] to uint8[n, bytes]."""
    return np.ascontiguousarray(contents.astype("<u4")).view(np.uint8)


def _bits(contents: NDArray[np.uint32]) -> Bytes:
    """Cells of entries, one number each: uint32[n, components] to uint8[n, cells]."""
    return np.unpackbits(_bytes(contents), axis=1, bitorder="little")
