"""Protection of the entries of a slice against hard faults: codes, pointers, spare entries.

Protection is a policy beside placement, storage and gating: it says which blocks of an entry a
technique cannot use, given the faulty cells of the entry.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import Integers, SliceGeometry
from mcage.plain_text import shortened
from mcage.protection.codes import Code, secded

DEFAULT = "ecp1"
"""Protection of the papers' slices: error-correcting pointers repair one bit of each entry."""

SECDED = "secded"
"""Beginning of the name of a code, before the data bits of its words."""

FORMS = (
    "none, ecp1, secded32, secded64, secded32+ecp1 or secded64+ecp1; with interleaved words as "
    "secded32x4, with spare entries as ecp1+spare8"
)
"""Names that a protection may have, in words."""

_NAME = re.compile(
    r"(?:none|(?P<ecp>ecp1)|(?P<code>secded(?:32|64))(?:x(?P<words>2|4|8|16|32|64))?(?P<also>\+ecp1)?)"
    r"(?:\+spare(?P<spares>[1-9][0-9]?))?"
)


@dataclass(frozen=True)
class Protection:
    """Protection of the entries of a slice.

    Parameters
    ----------
    code : Code, optional
        Code of each word; None: words have no check bits.
    interleave : int
        Number of words whose bits lie side by side: bit 0 of each, then bit 1 of each, and so on;
        with a code alone.
    pointers : int
        Faulty bits of an entry that error-correcting pointers replace: 0 or 1.
    spares : int
        Spare entries of a slice. They take the places of its faulty entries, the lowest first, and
        have no faults themselves (both assumed).
    spread_blocks : bool
        Whether an entry with i faulty bits, or words, that are too many loses i of its blocks, also
        where two of them lie in the same block.

    Notes
    -----
    Pointers: Schechter et al. (ECP), ISCA 2010; a single pointer: Toca-Díaz et al. (RRCD), section
    II.B. Codes: `mcage.protection.codes`.
    """

    code: Code | None = None
    interleave: int = 1
    pointers: int = 1
    spares: int = 0
    spread_blocks: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Read the name of a protection.

        Raises
        ------
        UserError
            There is no such protection.
        """
        known = _NAME.fullmatch(text)
        if known is None:
            raise UserError(f"protection {shortened(text)} is unknown; give {FORMS}")
        return cls(
            code=secded(int(known["code"].removeprefix(SECDED))) if known["code"] else None,
            interleave=int(known["words"] or 1),
            pointers=int(bool(known["ecp"] or known["also"])),
            spares=int(known["spares"] or 0),
        )

    @property
    def name(self) -> str:
        """Its name, from which `of` makes it."""
        parts = []
        if self.code is not None:
            words = f"x{self.interleave}" if self.interleave > 1 else ""
            parts.append(f"{SECDED}{self.code.data_bits}{words}")
        if self.pointers:
            parts.append(DEFAULT)
        if self.spares:
            parts.append(f"spare{self.spares}")
        return "+".join(parts if self.code or self.pointers else ["none", *parts])

    @property
    def of_cells(self) -> "Protection":
        """The part of a protection that decides which cells and bits an entry has."""
        return Protection(self.code, self.interleave, pointers=0)

    def spread(self, blocks: bool) -> "Protection":
        """The same by the conservative rule, or not."""
        return replace(self, spread_blocks=blocks)

    def check(self, geometry: SliceGeometry, segment_bits: int) -> None:
        """Refuse words that do not fit into the entries of a slice.

        Parameters
        ----------
        geometry : SliceGeometry
            The slice.
        segment_bits : int
            Neighbouring bits of an entry whose cells vary together.

        Raises
        ------
        UserError
            Words, or the check bits that lie beside a segment, are no whole number.
        """
        if self.code is None:
            return
        words, odd = divmod(geometry.entry_bits, self.code.data_bits)
        if odd or words % self.interleave:
            raise UserError(
                f"protection {self.name}: an entry of {geometry.entry_bits} bits has {words} words "
                f"of {self.code.data_bits}, which {self.interleave} do not divide"
            )
        if segment_bits * self.code.check_bits % self.code.data_bits:
            raise UserError(
                f"protection {self.name}: faults.arrays or nodes of {segment_bits} bits hold no "
                f"whole number of check bits, {self.code.check_bits} for each "
                f"{self.code.data_bits}"
            )

    @property
    def word_bits(self) -> int:
        """Data bits of a word; 0 without a code."""
        return 0 if self.code is None else self.code.data_bits

    def words(self, geometry: SliceGeometry) -> int:
        """Words of an entry that have a code."""
        return geometry.entry_bits // self.word_bits if self.word_bits else 0

    @property
    def check_share(self) -> float:
        """Check bits per data bit: cells that a slice has beside its own."""
        return 0.0 if self.code is None else self.code.overhead

    def without_spares(self, maps: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Fault maps once spares have taken the places of faulty entries: uint8[I, entries]."""
        if not self.spares:
            return maps
        left: NDArray[np.uint8] = np.where(np.cumsum(maps != 0, axis=1) > self.spares, maps, 0)
        return left.astype(np.uint8)


ECP = Protection()
"""Protection of the papers' slices."""


@cache
def protection(name: str, spread_blocks: bool = False) -> Protection:
    """Protection by its name; see `Protection.of`."""
    return Protection.of(name).spread(spread_blocks)


@cache
def unusable_blocks(blocks: int, protection: Protection) -> NDArray[np.uint8]:
    """Unusable blocks of an entry by what is too much in it, and the blocks that hold that.

    Returns
    -------
    uint8[n, 2 ** blocks]
        Without a code by the number of faulty bits. With a code by the number of faulty bits that
        are too many for their words, of which pointers replace some. n - 1 stands for all larger
        numbers.
    """
    rows = max(blocks, protection.pointers + 1) + 1
    bits, held = np.divmod(np.arange(rows << blocks), 1 << blocks)
    unusable = held[:, None] >> np.arange(blocks) & 1 == 1
    if protection.spread_blocks:
        rank = np.argsort(np.argsort(~unusable, axis=1, kind="stable"), axis=1)
        unusable = rank < bits[:, None]
    unusable &= (bits > protection.pointers)[:, None]
    table = np.packbits(unusable, axis=1, bitorder="little").reshape(rows, -1)
    table.setflags(write=False)
    return table


# Where the bits of words lie in an entry.
#
# The columns of an entry are cut into groups of so many words as are interleaved. Check bits lie
# beside the data bits whose number they follow, in the same order: the cells of a check bit vary
# with its neighbours.


def turns(words: int, bits: int, interleave: int) -> tuple[Integers, Integers]:
    """Word of each of the cells beside one another, and its bit there: int64[words x bits] each.

    Parameters
    ----------
    words, bits : int
        Words, and cells of each.
    interleave : int
        Words whose cells take turns.
    """
    group, within = np.divmod(np.arange(words * bits, dtype=np.int64), bits * interleave)
    bit, word = np.divmod(within, interleave)
    return group * interleave + word, bit


def logical_bits(protection: Protection, geometry: SliceGeometry) -> Integers:
    """Bit of an entry that lies in each of its columns: int64[entry bits]."""
    if protection.code is None or protection.interleave == 1:
        return np.arange(geometry.entry_bits, dtype=np.int64)
    word, bit = turns(protection.words(geometry), protection.code.data_bits, protection.interleave)
    return word * protection.code.data_bits + bit


def check_cells(protection: Protection, geometry: SliceGeometry) -> Integers:
    """Number of the check cell that lies in each check column of an entry: int64[check columns].

    Check bit c of word w has the number that data bit c of the word has.
    """
    assert protection.code is not None, "no check bits without a code"
    word, bit = turns(protection.words(geometry), protection.code.check_bits, protection.interleave)
    return word * protection.code.data_bits + bit
