"""From faulty cells to fault maps: what error-correcting pointers leave to be avoided."""

from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.variation.scenarios import CLASSES
from mcage.variation.vmin_tail import TailCells

REPAIRED_BITS = 1
"""Replacement bits of an entry: entries with no more faulty bits than this are reliable."""


@dataclass(frozen=True)
class EntryFaults:
    """Faulty bits of all entries of I instances.

    Attributes
    ----------
    bits : int16[I, 256]
        Number of faulty bits.
    blocks : uint8[I, 256]
        Bit b is set if block b has a faulty bit.
    """

    bits: NDArray[np.int16]
    blocks: NDArray[np.uint8]

    @classmethod
    def none(cls, instances: int) -> Self:
        """Instances without faults."""
        shape = (instances, SLICE.entries)
        return cls(np.zeros(shape, dtype=np.int16), np.zeros(shape, dtype=np.uint8))

    def of(self, instances: NDArray[np.int64]) -> "EntryFaults":
        """Faults of selected instances."""
        return EntryFaults(self.bits[instances], self.blocks[instances])

    def keep(self, instances: NDArray[np.int64], others: "EntryFaults") -> None:
        """Replace the faults of selected instances."""
        self.bits[instances], self.blocks[instances] = others.bits, others.blocks

    def more(self, cells: TailCells, faulty: NDArray[np.bool_]) -> "EntryFaults":
        """The same with more faults: cells of the I instances, and which are faulty, bool[n]."""
        entry = cells.slice_entry[faulty]
        if not len(entry):
            return self
        # Cells are in rising order: those of an entry stand together.
        first = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]]))
        bits, blocks = self.bits.copy(), self.blocks.copy()
        with_faults = entry[first]
        bits.ravel()[with_faults] += np.diff(first, append=len(entry)).astype(np.int16)
        in_block = (1 << cells.block[faulty]).astype(np.uint8)
        blocks.ravel()[with_faults] |= np.bitwise_or.reduceat(in_block, first)
        return EntryFaults(bits, blocks)

    def fault_maps(self, spread_blocks: bool = False) -> NDArray[np.uint8]:
        """See `fault_map`."""
        table = _unusable_blocks(spread_blocks)
        row = np.minimum(self.bits, SLICE.blocks) << SLICE.blocks
        return table.take(row | self.blocks)


@cache
def _unusable_blocks(spread_blocks: bool) -> NDArray[np.uint8]:
    """Unusable blocks by faulty bits, 0 ... 4 or more, and blocks that hold them: uint8[5 * 16]."""
    bits, held = np.divmod(np.arange((SLICE.blocks + 1) << SLICE.blocks), 1 << SLICE.blocks)
    unusable = held[:, None] >> np.arange(SLICE.blocks) & 1 == 1
    if spread_blocks:
        rank = np.argsort(np.argsort(~unusable, axis=1, kind="stable"), axis=1)
        unusable = rank < bits[:, None]
    unusable &= (bits > REPAIRED_BITS)[:, None]
    table = np.packbits(unusable, axis=1, bitorder="little")[:, 0]
    table.setflags(write=False)
    return table


def faulty_bits(cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Faulty bits of each entry.

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
    return EntryFaults.none(cells.instances).more(cells, faulty).bits


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
        also where two of its bits lie in the same block. Blocks with faulty bits go first, then the
        lowest others.

    Returns
    -------
    uint8[I, 256]
        Bit b set: block b of that entry is unusable. 0: the entry is reliable.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B; Schechter et al. (ECP), ISCA 2010.
    """
    return EntryFaults.none(cells.instances).more(cells, faulty).fault_maps(spread_blocks)


def class_shares(bits: NDArray[np.int16]) -> NDArray[np.float64]:
    """Fractions of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    bits : int16[I, 256]
        Faulty bits of each entry.

    Returns
    -------
    float64[I, 5]
    """
    last = len(CLASSES) - 1
    classes = np.minimum(bits, last)
    shares: NDArray[np.float64] = (classes[:, :, None] == np.arange(len(CLASSES))).mean(axis=1)
    return shares
