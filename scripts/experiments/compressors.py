"""What a register takes under compression algorithms: those of papers, simple ones, and bounds.

For ``scripts/experiments/kernel_suites.py``. Each algorithm looks at the contents of one register
alone, all lanes of it, and gives the bytes that it stores: as many as the register has if nothing
is saved. What tells the decompressor how a register is stored, the tag, counts in addition, for
every register, compressed or not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces import classify, compressible, wc_bytes

Contents = NDArray[np.uint32]
"""Register contents: uint32[rows, lanes]."""

Sizes = NDArray[np.float64]
"""Bytes that each content takes, without its tag: float64[rows]."""

WORD = 4
"""Bytes of a component."""

ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class Algorithm:
    """A way to store a register.

    Attributes
    ----------
    name, title : str
        What tables call it, and what it does.
    tag_bits : int
        Bits beside the data of every register that say how it is stored.
    sizes : callable
        Bytes of each content, without the tag.
    is_bound : bool
        It says what codes can reach that do not look at the order of lanes; nobody has built it.
    """

    name: str
    title: str
    tag_bits: int
    sizes: Callable[[Contents], Sizes]
    is_bound: bool = False


def where(fits: NDArray[np.bool_], size: float, values: Contents) -> Sizes:
    """So many bytes for what fits, and the whole register for anything else."""
    return np.where(fits, float(size), float(whole(values)))


def whole(values: Contents) -> int:
    """Bytes of an uncompressed register."""
    return WORD * values.shape[1]


def rc(values: Contents, delta_limit: int | None, size: float) -> Sizes:
    """Constants and deltas of the papers, as mcage replays them."""
    return where(compressible(classify(values), delta_limit), size, values)


def warped(values: Contents) -> Sizes:
    return wc_bytes(values).astype(float)


def uniform(values: Contents) -> Sizes:
    return where((values == values[:, :1]).all(axis=1), WORD, values)


def affine(values: Contents) -> Sizes:
    steps = np.diff(values, axis=1)
    return where((steps == steps[:, :1]).all(axis=1), 2 * WORD, values)


def byte_planes(values: Contents) -> Sizes:
    """Of each plane of bytes one byte if all lanes agree, otherwise all."""
    differ = np.bitwise_or.reduce(values ^ values[:, :1], axis=1)
    same = [(differ >> np.uint32(8 * byte)) & np.uint32(0xFF) == 0 for byte in range(WORD)]
    return np.sum([np.where(plane, 1, values.shape[1]) for plane in same], axis=0).astype(float)


def zero(values: Contents) -> Sizes:
    return where(~values.any(axis=1), 0, values)


def narrow(values: Contents) -> Sizes:
    """All lanes fit into 8 or 16 bits, zero-extended or sign-extended."""
    numbers = values.view(np.int32)
    highest, least, most = values.max(axis=1), numbers.min(axis=1), numbers.max(axis=1)
    sizes = np.full(len(values), float(whole(values)))
    for size in (2, 1):
        bits = 8 * size
        fits = highest < 1 << bits
        fits |= (least >= -(1 << (bits - 1))) & (most < 1 << (bits - 1))
        sizes[fits] = size * values.shape[1]
    return sizes


def entropy_of_bytes(values: Contents) -> Sizes:
    """Empirical entropy of order 0 of each plane of bytes; what codes mean is known for nothing."""
    return _of_symbols(planes(values), table_bytes=0)


def coded_bytes(values: Contents) -> Sizes:
    """The same, and for each plane a table of the bytes that occur in it."""
    return np.minimum(_of_symbols(planes(values), table_bytes=1), whole(values))


def coded_words(values: Contents) -> Sizes:
    """Empirical entropy of order 0 of the components, and a table of those that occur."""
    return np.minimum(_of_symbols(values[:, None], table_bytes=WORD), whole(values))


def planes(values: Contents) -> NDArray[np.uint8]:
    """Planes of bytes: uint8[rows, 4, lanes]."""
    byte = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, WORD)
    return np.ascontiguousarray(np.moveaxis(byte, 2, 1))


def _of_symbols(symbols: NDArray[np.generic], table_bytes: int) -> Sizes:
    """Bytes of an optimal code for the symbols of each row and plane, and of its tables."""
    rows, parts, lanes = symbols.shape
    ascending = np.sort(symbols, axis=2).reshape(-1, lanes)
    starts = np.ones(ascending.shape, np.bool_)
    starts[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    places = np.flatnonzero(starts)
    count = np.diff(places, append=starts.size)
    # n symbols take n log2 n - sum of c log2 c bits, if each of them occurs c times.
    saved = np.bincount(places // lanes, count * np.log2(count), minlength=len(ascending))
    bits = lanes * np.log2(lanes) - saved
    total = bits / 8 + table_bytes * starts.sum(axis=1)
    return total.reshape(rows, parts).sum(axis=1)


ALGORITHMS = (
    Algorithm(
        "rc",
        "constant, single and double delta up to 64, as RC and RRCD: base and two exponents",
        1,
        lambda values: rc(values, 64, 5),
    ),
    Algorithm(
        "rc, in a block",
        "the same where a compressed value occupies a block of 16 lanes, as under RRCD",
        1,
        lambda values: rc(values, 64, 64),
    ),
    Algorithm(
        "rc, any delta",
        "the same with deltas of any power of two, whose exponents take six bits each",
        1,
        lambda values: rc(values, None, 6),
    ),
    Algorithm(
        "warped", "Warped-Compression: base, and deltas from it of 0, 1 or 2 bytes", 2, warped
    ),
    Algorithm("uniform", "all lanes equal", 1, uniform),
    Algorithm("affine", "base and one step from lane to lane, 32 bits each", 1, affine),
    Algorithm(
        "byte planes",
        "each of the four planes of bytes: one byte if all lanes agree",
        4,
        byte_planes,
    ),
    Algorithm("zero", "all lanes zero", 1, zero),
    Algorithm("narrow", "all lanes fit into 8 or 16 bits, with or without a sign", 3, narrow),
    Algorithm(
        "entropy of bytes",
        "bound: empirical entropy of order 0 of the bytes of each plane, tables for nothing",
        0,
        entropy_of_bytes,
        is_bound=True,
    ),
    Algorithm(
        "coded bytes",
        "bound: the same, and one byte for each distinct byte of each plane",
        0,
        coded_bytes,
        is_bound=True,
    ),
    Algorithm(
        "coded words",
        "bound: empirical entropy of order 0 of the components, four bytes for each distinct one",
        0,
        coded_words,
        is_bound=True,
    ),
)

BEST = "best of all"
BEST_TITLE = "the smallest of the algorithms above that are no bounds, chosen for each write"
BEST_TAG_BITS = 8
"""Which of the algorithms (3 bits), and its own tag (up to 4): a byte."""


def sizes_of(values: Contents) -> dict[str, Sizes]:
    """Bytes of each content under every algorithm, without tags, and under the best of them."""
    sizes = {}
    for algorithm in ALGORITHMS:
        parts = [
            algorithm.sizes(values[start : start + ROWS_AT_ONCE])
            for start in range(0, len(values), ROWS_AT_ONCE)
        ]
        sizes[algorithm.name] = np.concatenate(parts) if parts else np.empty(0)
    built = [sizes[each.name] for each in ALGORITHMS if not each.is_bound]
    return sizes | {BEST: np.min(built, axis=0)}


def tag_bits() -> dict[str, int]:
    """Bits of the tag of every algorithm."""
    return {each.name: each.tag_bits for each in ALGORITHMS} | {BEST: BEST_TAG_BITS}
