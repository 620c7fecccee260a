"""What more faulty cells do to the fault maps of slices; compiled."""

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled


@compiled
def add_faults(
    offsets: NDArray[np.int64],
    cell: NDArray[np.int32],
    faulty: NDArray[np.bool_],
    bits: NDArray[np.int16],
    blocks: NDArray[np.uint8],
    maps: NDArray[np.uint8],
    unusable: NDArray[np.uint8],
    counted: bool,
    entry_bits: int,
    block_bits: int,
) -> None:
    """Add faulty cells to fault maps.

    Parameters
    ----------
    offsets, cell : int64[I+1], int32[n]
        Cells of I slices, as of `mcage.variation.vmin_tail.TailCells`.
    faulty : bool[n]
        Which of them are faulty from now on.
    bits, blocks : int16[I, entries], uint8[I, entries]
        Faulty bits of entries, and blocks with faulty bits, so far.
    maps : uint8[I, entries]
        Fault maps, which are brought up to date.
    unusable : uint8[n, 2 ** blocks]
        Unusable blocks by faulty bits, 0 ... n - 1 or more, and blocks that hold them.
    counted : bool
        Whether ``bits`` and ``blocks`` are brought up to date, too.
    entry_bits, block_bits : int
        Cells of an entry and of a block.
    """
    for instance in range(len(offsets) - 1):
        place, last = offsets[instance], offsets[instance + 1]
        while place < last:
            entry = cell[place] // entry_bits
            number, held = 0, 0
            while place < last and cell[place] // entry_bits == entry:  # cells are in rising order
                if faulty[place]:
                    number += 1
                    held |= 1 << (cell[place] % entry_bits // block_bits)
                place += 1
            if number == 0:
                continue
            number += bits[instance, entry]
            held |= blocks[instance, entry]
            maps[instance, entry] = unusable[min(number, len(unusable) - 1), held]
            if counted:
                bits[instance, entry], blocks[instance, entry] = number, held
