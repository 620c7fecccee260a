"""From faulty cells to fault maps: what error-correcting pointers leave to be avoided."""

from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import GCN, SliceGeometry
from mcage.variation.scenarios import CLASSES
from mcage.variation.vmin_tail import TailCells

REPAIRED_BITS = 1
"""Replacement bits of an entry: entries with no more faulty bits than this are reliable."""


@dataclass(frozen=True, eq=False)
class EntryFaults:
    """Faulty bits of all entries of I instances.

    Attributes
    ----------
    bits : int16[I, entries]
        Number of faulty bits.
    blocks : uint8[I, entries]
        Bit b is set if block b has a faulty bit.
    maps : uint8[I, entries]
        Fault maps that follow: see `fault_map`.
    spread_blocks : bool
        Whether they follow the paper's conservative rule.
    """

    bits: NDArray[np.int16]
    blocks: NDArray[np.uint8]
    maps: NDArray[np.uint8]
    spread_blocks: bool

    @classmethod
    def none(
        cls, instances: int, spread_blocks: bool = False, geometry: SliceGeometry = GCN
    ) -> Self:
        """Instances without faults."""
        shape = (instances, geometry.entries)
        blocks, maps = (np.zeros(shape, dtype=np.uint8) for _ in range(2))
        return cls(np.zeros(shape, dtype=np.int16), blocks, maps, spread_blocks)

    def of(self, instances: NDArray[np.int64]) -> "EntryFaults":
        """Faults of selected instances."""
        bits, blocks = self.bits[instances], self.blocks[instances]
        return EntryFaults(bits, blocks, self.maps[instances], self.spread_blocks)

    def keep(self, instances: NDArray[np.int64], others: "EntryFaults") -> None:
        """Replace the faults of selected instances."""
        self.bits[instances], self.blocks[instances] = others.bits, others.blocks
        self.maps[instances] = others.maps

    def more(self, cells: TailCells, faulty: NDArray[np.bool_]) -> "EntryFaults":
        """The same with more faults: cells of the I instances, and which are faulty, bool[n]."""
        bits, blocks = self.bits.copy(), self.blocks.copy()
        maps = self._more(cells, faulty, bits, blocks, counted=True)
        return EntryFaults(bits, blocks, maps, self.spread_blocks)

    def maps_with(self, cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Fault maps with more faults, as `more` has them: uint8[I, entries]."""
        return self._more(cells, faulty, self.bits, self.blocks, counted=False)

    def _more(
        self,
        cells: TailCells,
        faulty: NDArray[np.bool_],
        bits: NDArray[np.int16],
        blocks: NDArray[np.uint8],
        counted: bool,
    ) -> NDArray[np.uint8]:
        from mcage.variation.added_faults import add_faults  # Numba takes long to import

        geometry, maps = cells.geometry, self.maps.copy()
        unusable = _unusable_blocks(geometry.blocks, self.spread_blocks)
        add_faults(
            cells.offsets,
            cells.cell,
            faulty,
            bits,
            blocks,
            maps,
            unusable,
            counted,
            geometry.entry_bits,
            geometry.block_bits,
        )
        return maps


@dataclass(frozen=True, eq=False)
class NewSlices:
    """I slices as manufactured, at a Vdd: their faults, and the cells that may become faulty.

    Attributes
    ----------
    faults : EntryFaults
        Their faults; a cell that is faulty from the start stays faulty.
    tail : TailCells
        The weakest of the other cells.
    """

    faults: EntryFaults
    tail: TailCells

    @classmethod
    def at(cls, vdd_volts: float, cells: TailCells, spread_blocks: bool = False) -> Self:
        """Slices with these weak cells.

        Parameters
        ----------
        vdd_volts : float
            Vdd at which cells must work.
        cells : TailCells
            All cells that are faulty at this Vdd, or may become so.
        spread_blocks : bool
            See `fault_map`.
        """
        faulty, count = cells.vmin_volts > vdd_volts, cells.instances
        faults = EntryFaults.none(count, spread_blocks, cells.geometry).more(cells, faulty)
        return cls(faults, cells.at(np.flatnonzero(~faulty), np.arange(count)))

    def __len__(self) -> int:
        return self.tail.instances


@cache
def _unusable_blocks(blocks: int, spread_blocks: bool) -> NDArray[np.uint8]:
    """Unusable blocks of an entry by its faulty bits and the blocks that hold them.

    uint8[n, 2 ** blocks]; n - 1 faulty bits stand for all larger numbers.
    """
    rows = max(blocks, REPAIRED_BITS + 1) + 1
    bits, held = np.divmod(np.arange(rows << blocks), 1 << blocks)
    unusable = held[:, None] >> np.arange(blocks) & 1 == 1
    if spread_blocks:
        rank = np.argsort(np.argsort(~unusable, axis=1, kind="stable"), axis=1)
        unusable = rank < bits[:, None]
    unusable &= (bits > REPAIRED_BITS)[:, None]
    table = np.packbits(unusable, axis=1, bitorder="little").reshape(rows, -1)
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
    int16[I, entries]
    """
    return EntryFaults.none(cells.instances, False, cells.geometry).more(cells, faulty).bits


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
        The paper's conservative rule: an entry with i >= 2 faulty bits loses i blocks, or all,
        also where two of its bits lie in the same block. Blocks with faulty bits go first, then the
        lowest others.

    Returns
    -------
    uint8[I, entries]
        Bit b set: block b of that entry is unusable. 0: the entry is reliable.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B; Schechter et al. (ECP), ISCA 2010.
    """
    none = EntryFaults.none(cells.instances, spread_blocks, cells.geometry)
    return none.more(cells, faulty).maps


def class_shares(bits: NDArray[np.int16]) -> NDArray[np.float64]:
    """Fractions of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    bits : int16[I, entries]
        Faulty bits of each entry.

    Returns
    -------
    float64[I, 5]
    """
    last = len(CLASSES) - 1
    classes = np.minimum(bits, last)
    shares: NDArray[np.float64] = (classes[:, :, None] == np.arange(len(CLASSES))).mean(axis=1)
    return shares
