"""The cells of a slice that can become faulty, and their minimum working voltages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE


@dataclass(frozen=True)
class TailCells:
    """The weakest cells of some instances, all others being left out.

    Parameters
    ----------
    offsets : int64[I+1]
        Cells ``offsets[i] ... offsets[i+1] - 1`` belong to the i-th instance.
    cell : int32[n]
        Number of the cell in its slice, ``2048 * entry + bit``; ascending within an instance.
    vmin_volts : float64[n]
        Minimum working voltage; infinite where a cell is faulty at any Vdd.
    """

    offsets: NDArray[np.int64]
    cell: NDArray[np.int32]
    vmin_volts: NDArray[np.float64]

    @classmethod
    def join(cls, parts: Sequence[tuple[NDArray[np.int32], NDArray[np.float64]]]) -> "TailCells":
        """Cells of several instances, from ``(cell, vmin_volts)`` of each, in any order."""
        orders = [np.argsort(cell) for cell, _ in parts]
        cells = [cell[order] for (cell, _), order in zip(parts, orders, strict=True)]
        vmins = [vmin[order] for (_, vmin), order in zip(parts, orders, strict=True)]
        return cls(
            offsets=np.cumsum([0, *map(len, cells)], dtype=np.int64),
            cell=np.concatenate([np.empty(0, np.int32), *cells]),
            vmin_volts=np.concatenate([np.empty(0), *vmins]),
        )

    def at(self, places: NDArray[np.int64], instances: NDArray[np.int64]) -> "TailCells":
        """Cells at some places, all of them of some instances; both in rising order."""
        offsets = np.searchsorted(places, self.offsets)[instances]
        return TailCells(
            np.append(offsets, len(places)), self.cell[places], self.vmin_volts[places]
        )

    @property
    def instances(self) -> int:
        """Number of instances I."""
        return len(self.offsets) - 1

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Position (0 ... I-1) of the instance that each cell belongs to, int64[n]."""
        return np.repeat(np.arange(self.instances), np.diff(self.offsets))

    @property
    def entry(self) -> NDArray[np.int32]:
        """Entry of each cell, int32[n]."""
        return self.cell // np.int32(SLICE.entry_bits)

    @cached_property
    def slice_entry(self) -> NDArray[np.int64]:
        """Entry of each cell among those of all slices, 256 * instance + entry, int64[n]."""
        return self.instance * SLICE.entries + self.entry

    @cached_property
    def block(self) -> NDArray[np.int32]:
        """Block of each cell inside its entry, int32[n]."""
        return self.cell % np.int32(SLICE.entry_bits) // np.int32(SLICE.block_bits)
