"""Effect of a write on the cells of its home: bits, cells overwritten, cells powered."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Integers, SliceGeometry, Words
from mcage.protection.codes import Code
from mcage.techniques import Storage, refuse_policy
from mcage.traces.patterns import classify, wc_bytes, wc_sizes

REGIONS = 4
"""Parts of an entry that are powered separately: its blocks, or the byte ranges of WC. With
fewer than four blocks, the last parts are empty."""

CODE_MASK = np.uint32(0xFF)
"""Cells of a record's second component that hold its exponent codes: one byte."""


@dataclass(frozen=True)
class StoredValues:
    """Stored form of every write.

    Attributes
    ----------
    contents : uint32[n, components]
        Distinct contents of an entry.
    image : int64[writes]
        Row of `contents` that a write stores.
    masks : uint32[masks, components]
        Distinct sets of cells that writes overwrite; row 0 is all cells.
    mask : int64[writes]
        Row of `masks`.
    is_record : bool[writes]
        The write stores a record at the start of one block instead: component 0 of its image,
        then the byte `record_code`; the other cells of the block are not overwritten.
    record_code : uint8[writes]
        Exponent codes of a record.
    regions : int64[writes]
        Bit r set: region r of the entry is powered by this write (a record: its block).
    region_masks : uint32[4, components]
        Cells of each region.
    """

    contents: NDArray[np.uint32]
    image: Integers
    masks: NDArray[np.uint32]
    mask: Integers
    is_record: Booleans
    record_code: Bytes
    regions: Integers
    region_masks: NDArray[np.uint32]


def stored_values_of(
    values: NDArray[np.uint32],
    geometry: SliceGeometry,
    value: Integers,
    lanes: Words,
    compressed: Booleans,
    storage: Storage,
) -> StoredValues:
    """Stored form of every write under a storage policy.

    Parameters
    ----------
    values : uint32[rows, components]
        Distinct register contents of the trace.
    geometry : SliceGeometry
        The slice.
    value : int64[writes]
        Row of `values` that the register holds after the write.
    lanes : uint64[writes]
        Lanes that the wavefront has written so far: the others keep what the entry held.
    compressed : bool[writes]
        Stored compressed.
    storage : Storage
        Storage policy.
    """
    contents, image = values, value.copy()
    regions = np.full(len(value), 0b1111, dtype=np.int64)
    every_lane = geometry.all_lanes
    partial_sets = np.unique(lanes[lanes != every_lane])
    mask = np.where(lanes == every_lane, 0, 1 + np.searchsorted(partial_sets, lanes))
    masks = _lane_masks(np.append(every_lane, partial_sets), geometry.components)
    record_code = np.zeros(len(value), dtype=np.uint8)
    region_ends = [
        min(geometry.block_bits * (block + 1), geometry.entry_bits) for block in range(REGIONS)
    ]
    region_bytes = wc_sizes(geometry.components)
    is_record = np.zeros(len(value), dtype=bool)
    match storage:
        case Storage.PLAIN | Storage.TABLE:
            pass
        case Storage.BLOCK:
            is_record = compressed
            record_code[compressed] = record_codes(values)[value[compressed]]
        case Storage.INLINE:
            sizes = wc_bytes(values)
            size_class = np.searchsorted(region_bytes, sizes)[value[compressed]]
            contents = np.concatenate([values, packed_deltas(values, sizes)])
            image[compressed] += len(values)
            mask[compressed] = len(masks) + size_class
            masks = np.concatenate(
                [masks, *(cell_mask(0, 8 * size, geometry)[None] for size in region_bytes)]
            )
            regions[compressed] = (2 << size_class) - 1
            region_ends = [8 * size for size in region_bytes]
        case unknown:
            refuse_policy(unknown, "stored_values_of")
    return StoredValues(
        contents=np.ascontiguousarray(contents, dtype=np.uint32),
        image=image,
        masks=masks,
        mask=mask.astype(np.int64),
        is_record=is_record,
        record_code=record_code,
        regions=regions,
        region_masks=np.stack(
            [cell_mask(start, end, geometry) for start, end in pairwise([0, *region_ends])]
        ),
    )


CHECK_CELLS = 8
"""Check cells of a word, a byte: the last repeats the first where a code has seven."""

_REPEATED = np.uint32(0x01010101)


def check_bits_of(stored: StoredValues, code: Code) -> StoredValues:
    """Stored form of the check bits of what writes store, in a slice of check cells.

    Parameters
    ----------
    stored : StoredValues
        Stored bits of each write.
    code : Code
        Code of each word: a component, or a pair of components.

    Returns
    -------
    StoredValues
        Every byte of the components of a word holds its check bits, so that each cell of the slice
        has the times of a check cell. A word of which cells are overwritten, or powered, has all
        its check bits written, or powered. Of a record, the coder takes the three bytes after its
        fifth as zeros, and the slice keeps three copies of the check bits before (assumed).
    """
    contents, image = stored.contents, stored.image.copy()
    record_code = stored.record_code
    if stored.is_record.any():
        held = np.flatnonzero(stored.is_record)
        pairs = np.stack([contents[image[held], 0], record_code[held]], axis=1).astype(np.uint32)
        distinct, row = np.unique(pairs, axis=0, return_inverse=True)
        records = np.zeros((len(distinct), contents.shape[1]), dtype=np.uint32)
        records[:, :2] = distinct
        image[held] = len(contents) + row.reshape(-1)
        contents = np.concatenate([contents, records])
    of_words = _bytes_of_words(contents, code)
    if stored.is_record.any():
        record_code = record_code.copy()
        record_code[held] = of_words[image[held], 1]
    whole = np.uint32(0xFFFF_FFFF)
    touched = [_any_of_words(masks, code) for masks in (stored.masks, stored.region_masks)]
    masks, regions = (np.where(of_sets, whole, np.uint32(0)) for of_sets in touched)
    before = np.cumsum(regions != 0, axis=0) > 1  # powered with the first region that touches it
    return replace(
        stored,
        contents=of_words.astype(np.uint32) * _REPEATED,
        image=image,
        masks=masks,
        record_code=record_code,
        region_masks=np.where(before, np.uint32(0), regions),
    )


def _bytes_of_words(contents: NDArray[np.uint32], code: Code) -> Bytes:
    """Check bits of the word that each component belongs to: uint8[rows, components]."""
    check: Bytes = code.check(contents).astype(np.uint8)
    lacking = CHECK_CELLS - code.check_bits
    check |= (check & ((1 << lacking) - 1)) << code.check_bits
    return np.repeat(check, code.data_bits // COMPONENT_BITS, axis=1)


def _any_of_words(masks: NDArray[np.uint32], code: Code) -> Booleans:
    """Whether any cell of the word of each component is in a set: bool[sets, components]."""
    components = code.data_bits // COMPONENT_BITS
    touched = (masks != 0).reshape(len(masks), -1, components).any(axis=2)
    return np.repeat(touched, components, axis=1)


def cell_mask(start_bit: int, end_bit: int, geometry: SliceGeometry) -> NDArray[np.uint32]:
    """Cells start_bit ... end_bit - 1 of an entry as a set: uint32[components]."""
    bits = np.zeros(geometry.entry_bits, dtype=np.uint8)
    bits[start_bit:end_bit] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)


def _lane_masks(lanes: Words, components: int) -> NDArray[np.uint32]:
    """Cells of each set of lanes: uint64[sets] to uint32[sets, components]."""
    chosen = (lanes[:, None] >> np.arange(components, dtype=np.uint64)) & np.uint64(1)
    return np.where(chosen == 1, np.uint32(0xFFFF_FFFF), np.uint32(0))


def record_codes(values: NDArray[np.uint32]) -> Bytes:
    """Exponent codes of compressible contents: uint32[rows, components] to uint8[rows].

    Bits 0-2 log2 of the element delta, bits 3-5 log2 of the block delta, 7 for a delta of zero
    (Valero et al., IEEE TC 2019, section 5.1.1). A delta above 64, which compresses only without
    the published limit, does not fit: the low three bits of its exponent stand for it.
    """
    patterns = classify(values)
    return _exponent_code(patterns.delta_e) | (_exponent_code(patterns.delta_b) << np.uint8(3))


def _exponent_code(delta: NDArray[np.uint32]) -> Bytes:
    exponent = np.frexp(np.maximum(delta, 1).astype(np.float64))[1] - 1
    return np.where(delta == 0, 7, exponent & 7).astype(np.uint8)


def packed_deltas(values: NDArray[np.uint32], sizes: Integers) -> NDArray[np.uint32]:
    """Warped-Compression contents of an entry: base, then signed deltas of one or two bytes.

    uint32[rows, components] and byte sizes int64[rows] to uint32[rows, components]; bytes
    beyond the size are 0.
    """
    _, of_bytes, of_halves, whole = wc_sizes(values.shape[1])
    packed = np.zeros((len(values), whole), dtype=np.uint8)
    packed[:, :4] = np.ascontiguousarray(values[:, :1].astype("<u4")).view(np.uint8)
    deltas = values[:, 1:] - values[:, :1]
    byte, half = sizes == of_bytes, sizes == of_halves
    packed[byte, 4:of_bytes] = deltas[byte].astype(np.uint8)
    packed[half, 4:of_halves] = np.ascontiguousarray(deltas[half].astype("<u2")).view(np.uint8)
    return packed.view("<u4").astype(np.uint32)
