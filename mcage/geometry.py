"""Geometry of a register-file slice, and the one place that says how its cells are numbered.

Numbering: arrays are ``[instance, entry, ...]``, instance first. Bit ``b`` of component ``c`` of
an entry is bit ``32*c + b`` of that entry; byte ``k`` of an entry is its bits ``8*k ... 8*k + 7``;
block ``k`` is components ``k*n ... k*n + n - 1``, for blocks of ``n`` components.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
"""Arrays by the type of their items; docstrings say their shapes."""

COMPONENT_BITS = 32
MOST_COMPONENTS = 64
"""A set of components is a 64-bit word."""
MOST_BLOCKS = 4
MOST_BLOCKS_OF_SLICE = 1024
"""Blocks of all entries together: the free ones of them are 32 bits in each lane of a CUDA warp."""
ENTRY_COUNTS = (64, 128, 256, 512, 1024)
"""Numbers of entries: priority encoders go round a power of two of them."""


@dataclass(frozen=True)
class SliceGeometry:
    """Shape of a slice: the part of the register file that belongs to a SIMD unit.

    Default: AMD GCN HD 7770 (Valero et al., IEEE TC 2019, section 2.1 and Table 4).

    Parameters
    ----------
    entries : int
        Registers of the slice: 64, 128, 256, 512 or 1024.
    components : int
        Components of 32 bit of an entry, a lane each: a multiple of 8 from 16 to 64.
    block_components : int
        Components of a block, the unit that is moved per cycle and that a compressed value takes:
        at least 8; 1, 2 or 4 blocks make an entry, and at most 1,024 a slice.
    max_windows : int
        Windows (wavefronts, warps) that the hardware keeps open at once.
    granularity : int
        Registers are allocated to a window in multiples of this number.
    lds_rows : int
        Registers that the slice's part of the local memory has room for.

    Raises
    ------
    UserError
        A number that is not as stated above.
    """

    entries: int = 256
    components: int = 64
    block_components: int = 16
    max_windows: int = 16
    granularity: int = 4
    lds_rows: int = 32

    def __post_init__(self) -> None:
        blocks = self.components / self.block_components if self.block_components > 0 else 0
        lanes = 16 <= self.components <= MOST_COMPONENTS and self.components % 8 == 0
        few = blocks * self.entries <= MOST_BLOCKS_OF_SLICE
        rules: dict[str, tuple[bool, str]] = {
            "entries": (self.entries in ENTRY_COUNTS, "must be 64, 128, 256, 512 or 1024"),
            "components": (lanes, f"must be a multiple of 8 from 16 to {MOST_COMPONENTS}"),
            "block_components": (
                self.block_components >= 8 and blocks in (1, 2, 4) and few,
                f"must be 8 or more and make 1, 2 or 4 blocks of {self.components} components, "
                f"and {self.entries} entries at most {MOST_BLOCKS_OF_SLICE} blocks",
            ),
            "max_windows": (1 <= self.max_windows <= self.entries, "must be 1 ... entries"),
            "granularity": (1 <= self.granularity <= self.entries, "must be 1 ... entries"),
            "lds_rows": (0 <= self.lds_rows <= 1 << 20, "must be 0 ... 2**20"),
        }
        for key, (right, rule) in rules.items():
            if not right:
                raise UserError(f"geometry: {key} is {getattr(self, key)!r:.40}, {rule}")

    @property
    def blocks(self) -> int:
        """Blocks of one entry."""
        return self.components // self.block_components

    @property
    def entry_bits(self) -> int:
        """Cells of one entry."""
        return self.components * COMPONENT_BITS

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry."""
        return self.entry_bits // 8

    @property
    def block_bits(self) -> int:
        """Cells of one block."""
        return self.block_components * COMPONENT_BITS

    @property
    def cells(self) -> int:
        """Cells of the slice."""
        return self.entries * self.entry_bits

    @property
    def all_blocks(self) -> int:
        """Set of all blocks of an entry, block b as bit b."""
        return (1 << self.blocks) - 1

    @property
    def all_lanes(self) -> np.uint64:
        """Lane mask of a write that is not divergent."""
        return np.uint64((1 << self.components) - 1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Entries, components and components of a block: all that a replay depends on."""
        return self.entries, self.components, self.block_components

    @property
    def name(self) -> str:
        """Name of a preset, or the numbers: entries x components."""
        for name, preset in PRESETS.items():
            if self.shape == preset.shape:
                return name
        return f"{self.entries} x {self.components}"

    def described(self) -> dict[str, Any]:
        """All numbers by name, as results and digests record them."""
        return asdict(self)


GCN = SliceGeometry()
"""The slice of all four papers: 256 entries of 64 x 32 bit, 64 KiB."""

NVIDIA = SliceGeometry(entries=512, components=32, granularity=8, lds_rows=64)
"""One of the four partitions of an SM, from Volta on: 512 entries of 32 x 32 bit, 64 KiB.

Sixteen lanes work at a time, so that a warp's register moves in two blocks, and an SM keeps 64
warps (NVIDIA, Tesla V100 GPU Architecture, 2017). A warp gets registers in units of 256, which is 8
a lane (CUDA C++ Programming Guide). That the shared memory has room for as many spilled
bytes as the LDS of the papers, 8 KiB, is an assumption.
"""

PRESETS = {"gcn": GCN, "nvidia": NVIDIA}


def preset(name: str) -> SliceGeometry:
    """Return a slice by its name.

    Raises
    ------
    UserError
        There is no such slice.
    """
    if name not in PRESETS:
        raise UserError(f"unknown geometry {name!r:.60}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def repeated_components(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Values of components, repeated along their axis until there are 64, as compiled engines do.

    What is sought of all components, a bound or the longest time, stays the same.
    """
    components = values.shape[axis]
    if components == MOST_COMPONENTS:
        return values
    of_all: NDArray[Any] = np.take(values, np.arange(MOST_COMPONENTS) % components, axis=axis)
    return of_all
