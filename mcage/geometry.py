"""Geometry of a register-file slice, and the one place that says how its cells are numbered.

Numbering: arrays are ``[instance, entry, ...]``, instance first. Bit ``b`` of component ``c`` of
an entry is bit ``32*c + b`` of that entry; byte ``k`` of an entry is its bits ``8*k ... 8*k + 7``;
block ``k`` is components ``k*n ... k*n + n - 1``, for blocks of ``n`` components.
"""

from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal

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
ENTRIES_OF_WORD = 64
"""A set of entries is made of 64-bit words, all of whose bits are entries."""
MOST_ENTRIES = 1536
"""Entries of the largest slice: free places of 32 slices have room in a multiprocessor's memory."""
ENTRY_COUNTS = range(ENTRIES_OF_WORD, MOST_ENTRIES + 1, ENTRIES_OF_WORD)
"""Numbers of entries. Priority encoders go round all of them, whether a power of two or not."""


@dataclass(frozen=True)
class SliceGeometry:
    """Shape of a slice: the part of the register file that belongs to a SIMD unit.

    Default: AMD GCN HD 7770 (Valero et al., IEEE TC 2019, section 2.1 and Table 4).

    Parameters
    ----------
    entries : int
        Registers of the slice: a multiple of 64 up to 1,536.
    components : int
        Components of 32 bit of an entry, a lane each: a multiple of 8 from 16 to 64.
    block_components : int
        Components of a block, the unit that is moved per cycle and that a compressed value takes:
        at least 8; 1, 2 or 4 blocks make an entry.
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
        rules: dict[str, tuple[bool, str]] = {
            "entries": (self.entries in ENTRY_COUNTS, f"must be 64, 128, 192, ... {MOST_ENTRIES}"),
            "components": (lanes, f"must be a multiple of 8 from 16 to {MOST_COMPONENTS}"),
            "block_components": (
                self.block_components >= 8 and blocks in (1, 2, MOST_BLOCKS),
                f"must be 8 or more and make 1, 2 or {MOST_BLOCKS} blocks of {self.components} "
                "components",
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
        """Name of the first preset that is equal, or at least of the same shape.

        If there is none, the numbers: entries x components.
        """
        equal = (name for name, known in PRESETS.items() if known == self)
        alike = (name for name, known in PRESETS.items() if known.shape == self.shape)
        return next(chain(equal, alike), f"{self.entries} x {self.components}")

    def described(self) -> dict[str, Any]:
        """All numbers by name, as results and digests record them."""
        return asdict(self)


# Presets, by architecture: slices of the GPUs that there are.

SPILL_BYTES = 8192
"""A slice's part of the local memory for spilled registers: half of 64 KiB on four slices, as Toca-
Díaz et al. (RRCD) have it for GCN. That all others keep as many bytes for it is an assumption."""


def _preset(entries: int, components: int, lanes: int, windows: int, granule: int) -> SliceGeometry:
    """Slice of so many lanes a cycle, in which a register moves in one block after the other."""
    lds_rows = SPILL_BYTES // (COMPONENT_BITS // 8 * components)
    return SliceGeometry(entries, components, lanes, windows, granule, lds_rows)


GCN = _preset(256, 64, 16, 16, 4)
"""The slice of all four papers: 256 entries of 64 x 32 bit, 64 KiB.

One of the four SIMD units of a compute unit, of 16 lanes; granularity: AMDGPUBaseInfo of LLVM,
``getVGPRAllocGranule``. Windows: the recorded machine (Multi2Sim); GCN itself keeps ten.
"""

CDNA2 = _preset(512, 64, 16, 8, 8)
"""MI200 (gfx90a): a SIMD unit of 16 lanes with 256 VGPRs and 256 AGPRs, which are one file.

512 registers in multiples of 8, and eight waves: AMDGPUBaseInfo of LLVM, ``getTotalNumVGPRs``,
``getVGPRAllocGranule``, ``getMaxWavesPerEU``; one file: AMD, "MI200" Instruction Set Architecture,
section 3.6.4. 16 lanes: AMD, CDNA 2 Architecture.
"""

CDNA3 = CDNA2
"""MI300 (gfx940 to gfx942): as MI200, by the same functions of LLVM; AMD, CDNA 3 Architecture."""

RDNA2 = _preset(1024, 32, 32, 16, 16)
"""RX 6000 (gfx103x): a SIMD unit of 32 lanes, waves of 32.

1,024 registers in multiples of 16, and 16 waves: AMDGPUBaseInfo of LLVM, as of `CDNA2`. 32 lanes,
so that a register moves in one block: AMD, RDNA Architecture.
"""

RDNA3 = _preset(1536, 32, 32, 16, 24)
"""RX 7900 (gfx1100, gfx1101, gfx1151): as RX 6000, with half as many registers more.

1,536 registers in multiples of 24: AMDGPUBaseInfo of LLVM, ``Feature1_5xVGPRs``; others of RDNA 3
have 1,024, in multiples of 16, as `RDNA2`.
"""

VOLTA = _preset(512, 32, 16, 16, 8)
"""GV100 (compute capability 7.0): one of the four partitions of an SM, 64 KiB.

Of all of NVIDIA's slices: the table of compute capabilities of the CUDA C++ Programming Guide has
64 K registers and so many warps of an SM, which four partitions share. A warp gets registers in
units of 256, which is 8 a lane (NVIDIA's occupancy calculator). Lanes a cycle are the FP32 lanes of
a partition. Here 16 of them, and 64 warps: NVIDIA, Tesla V100 GPU Architecture, 2017.
"""

TURING = _preset(512, 32, 16, 8, 8)
"""TU10x (7.5): 16 lanes, 32 warps an SM (NVIDIA, Turing GPU Architecture, 2018)."""

AMPERE = _preset(512, 32, 16, 16, 8)
"""GA100 (8.0): 16 lanes, 64 warps an SM (NVIDIA, A100 Tensor Core GPU Architecture, 2020)."""

GA10X = _preset(512, 32, 32, 12, 8)
"""GA10x (8.6, 8.7): 32 lanes, 48 warps an SM (NVIDIA, Ampere GA102 GPU Architecture, 2020).

A register moves in one block. Only 16 of the lanes add integers, which takes a warp two cycles.
"""

ADA = GA10X
"""AD10x (8.9): 32 lanes, 48 warps an SM (NVIDIA, Ada GPU Architecture, 2022)."""

HOPPER = _preset(512, 32, 32, 16, 8)
"""GH100 (9.0): 32 lanes, 64 warps an SM (NVIDIA, H100 Tensor Core GPU Architecture, 2022)."""

BLACKWELL = HOPPER
"""GB100 (10.0): 64 warps an SM (NVIDIA, Blackwell Tuning Guide); 32 lanes: Programming Guide."""

GB20X = GA10X
"""GB20x (12.0): 48 warps an SM (NVIDIA, Blackwell Tuning Guide); 32 lanes: Programming Guide."""

NVIDIA = VOLTA
"""The slice of Volta, called ``nvidia`` before there were presets by architecture."""

PresetName = Literal[
    "gcn",
    "nvidia",
    "cdna2",
    "cdna3",
    "rdna2",
    "rdna3",
    "volta",
    "turing",
    "ampere",
    "ga10x",
    "ada",
    "hopper",
    "blackwell",
    "gb20x",
]

PRESETS: dict[PresetName, SliceGeometry] = {
    "gcn": GCN,
    "nvidia": NVIDIA,
    "cdna2": CDNA2,
    "cdna3": CDNA3,
    "rdna2": RDNA2,
    "rdna3": RDNA3,
    "volta": VOLTA,
    "turing": TURING,
    "ampere": AMPERE,
    "ga10x": GA10X,
    "ada": ADA,
    "hopper": HOPPER,
    "blackwell": BLACKWELL,
    "gb20x": GB20X,
}
"""Presets by name. Of several that are equal, the first is that by which a slice is named."""


def preset(name: str) -> SliceGeometry:
    """Return a slice by its name.

    Raises
    ------
    UserError
        There is no such slice.
    """
    for known, geometry in PRESETS.items():
        if name == known:
            return geometry
    raise UserError(f"unknown geometry {name!r:.60}; choose one of {', '.join(PRESETS)}")


def usual_slice(components: int, entries: int | None = None) -> SliceGeometry:
    """Slice of which no more is known: the first preset of so many entries and components.

    If there is none, or the entries are not known, that of NVIDIA up to its components, else GCN.
    """
    for known in PRESETS.values():
        if (known.entries, known.components) == (entries, components):
            return known
    return NVIDIA if components <= NVIDIA.components else GCN


def repeated_components(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Values of components, repeated along their axis until there are 64, as compiled engines do.

    What is sought of all components, a bound or the longest time, stays the same.
    """
    components = values.shape[axis]
    if components == MOST_COMPONENTS:
        return values
    of_all: NDArray[Any] = np.take(values, np.arange(MOST_COMPONENTS) % components, axis=axis)
    return of_all
