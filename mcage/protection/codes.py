"""Codes that correct one wrong bit of a word and detect two (SECDED), by odd columns.

Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of Research and
Development 14(4), 1970: every column of the parity-check matrix has an odd number of ones. Two
wrong bits give a syndrome of even weight, which no column has, so that they are always detected.
The paper chooses the columns of the smallest weights, so that there are as few ones as possible,
and rows with as equal numbers of ones as possible; it leaves open which columns these are.

**Columns of mcage.** Check bit i has the column ``1 << i``. For data bits, all columns of weight 3,
then of weight 5 and so on are used as far as whole weights are needed. Of the last weight, columns
are chosen one by one: the one that makes the sum of squares of the rows' ones smallest, of equal
ones the smallest integer. Sorted by weight, then as integers, they are the columns of data bits 0,
1, 2 and so on. What three or more wrong bits do depends on this choice within narrow bounds; what
neighbours that are wrong together do depends on the order as well.

**Order of cells.** Bits of a code word are its data bits from bit 0 on, then its check bits. Where
I words are interleaved, cell c of a group of I words belongs to word c mod I, bit c // I; groups
follow one another along a row of cells.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Floats, Integers

MOST_CHECK_BITS = 8
"""Check bits and syndromes are bytes."""


class Outcome(IntEnum):
    """Verdict of a decoder on an error pattern; the larger, the worse."""

    RIGHT = 0
    """No bit is wrong."""
    CORRECTED = 1
    """The word that leaves the decoder is right."""
    DETECTED = 2
    """The decoder reports an error that it cannot correct."""
    MISCORRECTED = 3
    """The decoder changes a right bit and reports a corrected error: the word is wrong."""
    UNDETECTED = 4
    """The pattern is a code word itself: the decoder sees nothing, the word is wrong."""


@dataclass(frozen=True)
class Code:
    """A SECDED code; `secded` makes it.

    Parameters
    ----------
    data_bits, check_bits : int
        Bits of a word, and bits that the code adds: at most 8.
    columns : tuple of int
        Column of the parity-check matrix of each data bit, bit i for row i: distinct, of odd
        weight 3 or more. Check bit i has the column ``1 << i``.

    Raises
    ------
    UserError
        Columns are not as stated.
    """

    data_bits: int
    check_bits: int
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        fits = 1 <= self.check_bits <= MOST_CHECK_BITS and len(self.columns) == self.data_bits
        odd = all(
            0 < column < 1 << self.check_bits
            and column.bit_count() >= 3
            and column.bit_count() % 2 == 1
            for column in self.columns
        )
        if not (fits and odd and len(set(self.columns)) == self.data_bits):
            raise UserError(
                f"code {self.name}: columns must be {self.data_bits} distinct ones of "
                f"{self.check_bits} bits (1 ... {MOST_CHECK_BITS}), of odd weight 3 or more"
            )

    @property
    def name(self) -> str:
        """Bits of a code word and of its data, as (39,32)."""
        return f"({self.bits},{self.data_bits})"

    @property
    def bits(self) -> int:
        """Bits of a code word: data and check bits."""
        return self.data_bits + self.check_bits

    @property
    def overhead(self) -> float:
        """Check bits per data bit."""
        return self.check_bits / self.data_bits

    @cached_property
    def all_columns(self) -> Bytes:
        """Columns of data bits, then of check bits: uint8[bits]."""
        return np.array([*self.columns, *(1 << np.arange(self.check_bits))], dtype=np.uint8)

    @cached_property
    def _of_bytes(self) -> Bytes:
        """Check bits of a word in which byte k alone is other than 0: uint8[bytes, 256]."""
        columns = np.reshape(np.array(self.columns, dtype=np.uint8), (-1, 1, 8))
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        parts: Bytes = np.bitwise_xor.reduce(columns * bits, axis=-1)
        return parts

    def check(self, words: NDArray[np.uint32]) -> Bytes:
        """Check bits of data words.

        Parameters
        ----------
        words : uint32[..., components]
            Components. A word of 64 bits is a pair of them, the lower one first: components
            0 and 1, 2 and 3, and so on.

        Returns
        -------
        uint8[..., components x 32 / data_bits]
            Bit i is check bit i.

        Raises
        ------
        UserError
            The code has no data words of 32 or 64 bits, or components do not fill them.
        """
        size, rest = divmod(self.data_bits, COMPONENT_BITS)
        components = words.shape[-1]
        if rest or components % size:
            raise UserError(
                f"code {self.name}: {components} components of {COMPONENT_BITS} bits cannot be "
                f"divided into words of {self.data_bits} bits"
            )
        parts = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
        parts = parts.reshape(*words.shape[:-1], components // size, self.data_bits // 8)
        check = np.zeros(parts.shape[:-1], dtype=np.uint8)
        for byte, of_byte in enumerate(self._of_bytes):
            check ^= of_byte[parts[..., byte]]
        return check

    def word_bits(self, data: NDArray[np.uint32], check: int) -> Booleans:
        """Bits of a code word: uint32[components of a word] and its check bits to bool[bits]."""
        parts = np.append(np.ascontiguousarray(data, "<u4").view(np.uint8), np.uint8(check))
        bits: Booleans = np.unpackbits(parts, bitorder="little")[: self.bits].astype(np.bool_)
        return bits

    def data_of(self, bits: Booleans) -> NDArray[np.uint32]:
        """Data of a code word: bool[bits] to uint32[components of a word]."""
        packed = np.packbits(bits[: self.data_bits], bitorder="little")
        return packed.view("<u4").astype(np.uint32)

    def syndrome(self, errors: Booleans) -> Bytes:
        """Syndromes of error patterns: bool[..., bits] to uint8[...]."""
        syndromes: Bytes = np.bitwise_xor.reduce(self.all_columns * errors.astype(bool), axis=-1)
        return syndromes

    def decode(self, errors: Booleans) -> NDArray[np.int8]:
        """Verdicts of the decoder on error patterns.

        The code is linear: it does not matter which word is stored.

        Parameters
        ----------
        errors : bool[..., bits]
            Bits that are wrong when the word is read: data bits, then check bits.

        Returns
        -------
        int8[...]
            Values of `Outcome`.
        """
        wrong = np.count_nonzero(errors, axis=-1)
        syndrome = self.syndrome(errors)
        outcome = np.where(
            syndrome == 0,
            Outcome.UNDETECTED,
            np.where(np.isin(syndrome, self.all_columns), Outcome.MISCORRECTED, Outcome.DETECTED),
        )
        outcome = np.where(wrong == 1, Outcome.CORRECTED, outcome)
        return np.where(wrong == 0, Outcome.RIGHT, outcome).astype(np.int8)

    def left_by(self, errors: Booleans) -> Booleans:
        """Bits that are wrong behind the decoder, of error patterns that it does not report.

        Parameters
        ----------
        errors : bool[..., bits]
            As of `decode`.

        Returns
        -------
        bool[..., bits]
            Without the bit that the decoder corrects, and with the bit that it changes wrongly.
        """
        named = self.syndrome(errors)[..., None] == self.all_columns
        left: Booleans = errors ^ named
        return left

    @cached_property
    def _patterns(self) -> list[list[int]]:
        """Error patterns of n bits that have each syndrome: exact integers [bits + 1][syndromes].

        A column more either takes part in a pattern or not, which makes the counts of all columns
        from those of fewer.
        """
        syndromes = range(1 << self.check_bits)
        counts = [[0] * len(syndromes) for _ in range(self.bits + 1)]
        counts[0][0] = 1
        for used, column in enumerate(self.all_columns.tolist(), start=1):
            for size in range(used, 0, -1):
                fewer = counts[size - 1]
                counts[size] = [counts[size][s] + fewer[s ^ column] for s in syndromes]
        return counts

    def shares(self, wrong: int) -> Floats:
        """Shares of outcomes among all error patterns of so many wrong bits; exact counts.

        Parameters
        ----------
        wrong : int
            Wrong bits of a code word, 0 ... bits.

        Returns
        -------
        float64[outcomes]
            Share of each `Outcome`; their sum is 1.

        Raises
        ------
        UserError
            There are not so many bits.
        """
        if not 0 <= wrong <= self.bits:
            raise UserError(f"code {self.name}: {wrong} wrong bits; must be 0 ... {self.bits}")
        shares = np.zeros(len(Outcome))
        if wrong < 2:
            shares[Outcome.CORRECTED if wrong else Outcome.RIGHT] = 1.0
            return shares
        counts, total = self._patterns[wrong], comb(self.bits, wrong)
        aliased = sum(counts[column] for column in self.all_columns.tolist())
        shares[Outcome.UNDETECTED] = counts[0] / total
        shares[Outcome.MISCORRECTED] = aliased / total
        shares[Outcome.DETECTED] = (total - aliased - counts[0]) / total
        return shares


@cache
def secded(data_bits: int) -> Code:
    """SECDED code of odd columns with the fewest check bits.

    Parameters
    ----------
    data_bits : int
        Bits of a word: 32 makes the code (39,32), 64 the code (72,64). At most 120.

    Raises
    ------
    UserError
        There is no such code with at most 8 check bits.
    """
    for check_bits in range(1, MOST_CHECK_BITS + 1):
        # Half of all columns are odd, and those of the check bits are among them.
        if 1 <= data_bits <= (1 << check_bits - 1) - check_bits:
            return Code(data_bits, check_bits, tuple(_odd_columns(data_bits, check_bits)))
    raise UserError(f"code: words of {data_bits} bits; must be 1 ... 120")


def _odd_columns(count: int, check_bits: int) -> list[int]:
    """Columns of so many data bits, by the rule at the top of this file."""
    columns: list[int] = []
    for weight in range(3, check_bits + 1, 2):
        of_weight = [
            sum(1 << row for row in rows) for rows in combinations(range(check_bits), weight)
        ]
        of_weight.sort()
        if len(columns) + len(of_weight) <= count:
            columns += of_weight
            continue
        chosen: list[int] = []
        ones = _ones(columns, check_bits)
        while len(columns) + len(chosen) < count:
            left = [column for column in of_weight if column not in chosen]
            best = min(left, key=lambda column: _imbalance(ones + _ones([column], check_bits)))
            ones += _ones([best], check_bits)
            chosen.append(best)
        return columns + sorted(chosen)
    return columns


def _ones(columns: list[int], check_bits: int) -> Integers:
    """Ones of each row: int64[check_bits]."""
    rows = np.array(columns, dtype=np.int64)[:, None] >> np.arange(check_bits) & 1
    ones: Integers = rows.sum(axis=0)
    return ones


def _imbalance(ones: NDArray[Any]) -> int:
    return int((ones**2).sum())
