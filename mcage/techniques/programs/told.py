"""What a placement program is told, and the kinds of arrays that it may keep.

All numbers are signed 64-bit integers, so that Python and compiled code compute the same.
"""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

PerEntry = Annotated[Integers, "entry"]
"""Kept for each entry: int64[entries]."""
PerWindow = Annotated[Integers, "window"]
"""Kept for each slot, that is for the window which lies in it: int64[windows at once]."""
PerSlice = Annotated[Integers, "slice"]
"""Kept once for the slice: int64[1]."""

SCOPES = ("entry", "window", "slice")


class Entries(NamedTuple):
    """The entries of the slice as they are. A program reads them, and does not change them.

    Attributes
    ----------
    unusable : int64[entries]
        Fault map: bit b set = block b of the entry is unusable. 0: the entry is reliable.
    free : int64[entries]
        Bit b set = block b of the entry is sound and holds no value.
    all_blocks : int
        Set of all blocks of an entry: an entry whose `free` equals it is reliable and empty.
    home : int64[rows]
        Where the value of each row lives: a place, `NOWHERE`, `SPILL` or `IN_TABLE`.
    """

    unusable: Integers
    free: Integers
    all_blocks: int
    home: Integers


class Window(NamedTuple):
    """A window that is allocated or released.

    Attributes
    ----------
    cycle : int
        When, from the start of the pass.
    number, slot : int
        Number of the window in the pass, and the slot that it lies in.
    base, size : int
        Its first row, and its number of registers: its rows are base ... base + size - 1.
    """

    cycle: int
    number: int
    slot: int
    base: int
    size: int


class Value(NamedTuple):
    """A value that is written or read.

    Attributes
    ----------
    cycle : int
        When, from the start of the pass.
    window, slot, size : int
        Its window: number in the pass, slot, registers.
    register, row : int
        Register in the window; row, which is the window's first row + register.
    mask : int
        Lanes that are written, lane i as bit i; all 64 lanes are -1. 0 for a read.
    compressible : bool
        Whether its pattern is compressible and all its lanes were written at once.
    compressed : bool
        Whether it is stored compressed, so that it needs a block and not an entry.
    home : int
        Where the row's value has lived so far: a place, `NOWHERE`, `SPILL` or `IN_TABLE`.
        While a write is answered, that place is free.
    words : int64[components]
        The register's content, an unsigned number of 32 bits for each component.
    """

    cycle: int
    window: int
    slot: int
    size: int
    register: int
    row: int
    mask: int
    compressible: bool
    compressed: bool
    home: int
    words: Integers
