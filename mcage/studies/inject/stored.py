"""How a technique keeps values in the cells of an entry, and what wrong cells make of them.

The forms are those of `mcage.replays.stored_values`. There, a trace says what a write stores; here,
values are put into cells and read back, since a program with a wrong register writes other values
than its trace.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Integers
from mcage.replays.stored_values import packed_deltas, record_codes
from mcage.soft_errors.ace import RECORD_BYTES
from mcage.traces.patterns import GROUP, classify, compressible, wc_bytes, wc_sizes

Words = NDArray[np.uint32]

CODE_BITS = 6
"""Cells of a record's fifth byte that hold something: two exponents of three bits."""


class Form(IntEnum):
    """How a value is stored."""

    PLAIN = 0
    RECORD = 1
    """A base and two exponents, at the start of a block."""
    BASE = 2
    """Warped-Compression: the base alone."""
    BYTES = 3
    """The base, and differences of a byte."""
    HALVES = 4
    """The base, and differences of two bytes."""


@dataclass(frozen=True)
class Storing:
    """What decides the form of a value.

    Parameters
    ----------
    components : int
        Components of a register, a lane each.
    block_words : int
        Components of a block.
    inline : bool
        Whether values are compressed by Warped-Compression; otherwise as records.
    delta_limit : int or None
        Largest delta of a record.
    """

    components: int
    block_words: int
    inline: bool
    delta_limit: int | None = 64

    def forms(self, values: Words) -> Integers:
        """Return the form of each value if it is compressed: uint32[n, components] to int64[n]."""
        if not self.inline:
            fits = compressible(classify(values), self.delta_limit)
            return np.where(fits, Form.RECORD, Form.PLAIN)
        sizes = np.searchsorted(wc_sizes(self.components), wc_bytes(values))
        return np.array([Form.BASE, Form.BYTES, Form.HALVES, Form.PLAIN])[sizes]

    def cells(self, values: Words, form: Integers, block: Integers) -> Words:
        """Return what values leave in the cells of their entries.

        Parameters
        ----------
        values : uint32[n, components]
            The values.
        form, block : int64[n]
            `Form` of each, which must be able to hold it, and the block of a record.

        Returns
        -------
        uint32[n, components]
            Bit b of component c is cell 32 c + b; 0 in cells that hold nothing.
        """
        cells = np.where((form == Form.PLAIN)[:, None], values, np.uint32(0))
        for row in np.flatnonzero(form == Form.RECORD).tolist():
            place = int(block[row]) * self.block_words
            cells[row, place] = values[row, 0]
            cells[row, place + 1] = record_codes(values[row : row + 1])[0]
        sizes = wc_sizes(self.components)
        for kind, size in zip((Form.BASE, Form.BYTES, Form.HALVES), sizes[:3], strict=True):
            rows = np.flatnonzero(form == kind)
            if len(rows):
                cells[rows] = packed_deltas(values[rows], np.full(len(rows), size))
        return cells

    def values(self, cells: Words, form: Integers, block: Integers) -> Words:
        """Return what is read from the cells of entries; arguments and result as of `cells`."""
        values = cells.copy()
        lane = np.arange(self.components, dtype=np.uint32)
        for row in np.flatnonzero(form == Form.RECORD).tolist():
            place = int(block[row]) * self.block_words
            code = int(cells[row, place + 1])
            e, b = (_delta(code >> shift & 7) for shift in (0, 3))
            values[row] = cells[row, place] + e * (lane % GROUP) + b * (lane // GROUP)
        rows = np.flatnonzero(form == Form.BASE)
        values[rows] = cells[rows, :1]
        content = np.ascontiguousarray(cells).view(np.uint8)
        others = self.components - 1
        for kind, dtype in ((Form.BYTES, "<i1"), (Form.HALVES, "<i2")):
            rows = np.flatnonzero(form == kind)
            width = np.dtype(dtype).itemsize
            parts = np.ascontiguousarray(content[rows, 4 : 4 + width * others]).view(dtype)
            values[rows] = cells[rows, :1]
            values[rows, 1:] += parts.astype(np.int32).view(np.uint32)
        return values

    def used(self, form: Integers, block: Integers) -> Words:
        """Return the cells of entries that values occupy; arguments and result as of `cells`."""
        used = np.zeros((len(form), self.components), np.uint32)
        used[form == Form.PLAIN] = 0xFFFF_FFFF
        record = np.flatnonzero(form == Form.RECORD)
        used[record, block[record] * self.block_words] = 0xFFFF_FFFF
        used[record, block[record] * self.block_words + 1] = (1 << CODE_BITS) - 1
        content = used.view(np.uint8)
        sizes = wc_sizes(self.components)
        for kind, size in zip((Form.BASE, Form.BYTES, Form.HALVES), sizes[:3], strict=True):
            content[form == kind, :size] = 0xFF
        return used

    def bits_of(self, form: Form) -> int:
        """Return the cells that a value of this form occupies, of all lanes together."""
        sizes = wc_sizes(self.components)
        return {
            Form.PLAIN: self.components * COMPONENT_BITS,
            Form.RECORD: COMPONENT_BITS + CODE_BITS,
            Form.BASE: 8 * sizes[0],
            Form.BYTES: 8 * sizes[1],
            Form.HALVES: 8 * sizes[2],
        }[form]


def _delta(code: int) -> np.uint32:
    """Delta of an exponent code, of which 7 means 0."""
    return np.uint32(0 if code == 7 else 1 << code)


assert RECORD_BYTES * 8 - 2 == COMPONENT_BITS + CODE_BITS
