"""Geometry of one register-file slice, and the one place that says how its cells are numbered.

Numbering: arrays are ``[instance, entry, ...]``, instance first. Bit ``b`` of component ``c`` of
an entry is bit ``32*c + b`` of that entry (0 ... 2047); byte ``k`` of an entry is its bits
``8*k ... 8*k + 7``; block ``k`` is components ``16*k ... 16*k + 15``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class SliceGeometry:
    """Shape of a slice: the part of the register file that belongs to a SIMD unit.

    Default: AMD GCN HD 7770 (Valero et al., IEEE TC 2019, section 2.1 and Table 4).
    """

    entries: int = 256
    components: int = 64
    component_bits: int = 32
    blocks: int = 4
    max_windows: int = 16
    lds_rows: int = 32

    @property
    def entry_bits(self) -> int:
        """Cells of one entry."""
        return self.components * self.component_bits

    @property
    def block_bits(self) -> int:
        """Cells of one block, the unit moved per cycle."""
        return self.entry_bits // self.blocks

    @property
    def block_components(self) -> int:
        """Components of one block."""
        return self.components // self.blocks

    @property
    def cells(self) -> int:
        """Cells of the slice."""
        return self.entries * self.entry_bits


SLICE = SliceGeometry()
"""The slice of all four papers: 256 entries of 64 x 32 bit."""
