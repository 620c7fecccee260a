"""From faulty cells to fault maps: what error-correcting pointers leave to be avoided."""

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.variation.cells import TailCells
from mcage.variation.scenarios import CLASSES

REPAIRED_BITS = 1
"""Replacement bits of an entry: entries with no more faulty bits than this are reliable."""


def faulty_bits(cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Faulty bits of every entry.

    Parameters
    ----------
    cells : TailCells
        Cells of I instances.
    faulty : bool[n]
        Which of them are faulty.

    Returns
    -------
    int16[I, 256]
    """
    bits: NDArray[np.int16] = _bits_per_block(cells, faulty).sum(axis=2, dtype=np.int16)
    return bits


def _bits_per_block(cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.int64]:
    entries = cells.instances * SLICE.entries
    number = (cells.instance * SLICE.entries + cells.entry) * SLICE.blocks + cells.block
    counts = np.bincount(number[faulty], minlength=entries * SLICE.blocks)
    return counts.reshape(cells.instances, SLICE.entries, SLICE.blocks)


def fault_map(
    cells: TailCells, faulty: NDArray[np.bool_], spread_blocks: bool = False
) -> NDArray[np.uint8]:
    """Blocks that cannot be used, after error-correcting pointers have repaired one bit an entry.

    Parameters
    ----------
    cells : TailCells
        Cells of I instances.
    faulty : bool[n]
        Which of them are faulty.
    spread_blocks : bool
        The paper's conservative rule: an entry with i >= 2 faulty bits loses min(i, 4) blocks,
        also where two of its bits share a block. Blocks with faulty bits go first, then the
        lowest others.

    Returns
    -------
    uint8[I, 256]
        Bit b set: block b of that entry is unusable. 0: the entry is reliable.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B; Schechter et al. (ECP), ISCA 2010.
    """
    counts = _bits_per_block(cells, faulty)
    bits = counts.sum(axis=2)
    unusable = counts > 0
    if spread_blocks:
        rank = np.argsort(np.argsort(~unusable, axis=2, kind="stable"), axis=2)
        unusable = rank < bits[:, :, None]
    unusable &= (bits > REPAIRED_BITS)[:, :, None]
    weights = np.uint8(1) << np.arange(SLICE.blocks, dtype=np.uint8)
    blocks: NDArray[np.uint8] = (unusable * weights).sum(axis=2, dtype=np.uint8)
    return blocks


def class_shares(bits: NDArray[np.int16]) -> NDArray[np.float64]:
    """Shares of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    bits : int16[I, 256]
        Faulty bits of every entry.

    Returns
    -------
    float64[I, 5]
    """
    last = len(CLASSES) - 1
    classes = np.minimum(bits, last)
    shares: NDArray[np.float64] = (classes[:, :, None] == np.arange(len(CLASSES))).mean(axis=1)
    return shares
