"""Contents of registers: bits by position, and how they agree between lanes and over time."""

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.traces.patterns import (
    OTHER,
    classify,
    first_block_fits,
    wc_bytes,
    wc_sizes,
)
from mcage.traces.profiles.levels import rounded
from mcage.traces.profiles.profile import Contents

_ROWS_AT_ONCE = 4096
_ZERO = (0.0,) * COMPONENT_BITS


def bits_of(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Bits of words, the least significant first: [..., 32]."""
    bytes_ = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
    return np.unpackbits(bytes_.reshape(*words.shape, 4), axis=-1, bitorder="little")


def contents_of(
    values: NDArray[np.uint32], pattern: int, follows: NDArray[np.bool_], geometry: SliceGeometry
) -> Contents:
    """Characterize contents of a register that share a pattern.

    Parameters
    ----------
    values : uint32[n, components]
        The contents, in the order of time.
    pattern : int
        Their pattern.
    follows : bool[n]
        Whether the content before is one of the same window.
    geometry : SliceGeometry
        The slice.
    """
    differs = np.bitwise_or.reduce(values[1:] ^ values[:-1], axis=1)[follows[1:]]
    if pattern != OTHER:
        base = values[:, 0]
        differs = (base[1:] ^ base[:-1])[follows[1:]]
        return Contents(
            deltas=_deltas(values),
            ones=_of_bits(bits_of(base).sum(axis=0), len(base)),
            uniform=(1.0,) * COMPONENT_BITS,
            mixed_ones=_ZERO,
            neighbours=_ZERO,
            kept=_kept(differs),
        )
    all_ones, any_ones = np.bitwise_and.reduce(values, axis=1), np.bitwise_or.reduce(values, axis=1)
    mixed = any_ones & ~all_ones
    uniform = bits_of(~mixed).sum(axis=0)
    ones, neighbours = np.zeros(COMPONENT_BITS), np.zeros(COMPONENT_BITS)
    for start in range(0, len(values), _ROWS_AT_ONCE):
        of_mixed = (
            values[start : start + _ROWS_AT_ONCE] & mixed[start : start + _ROWS_AT_ONCE, None]
        )
        ones += bits_of(of_mixed).sum(axis=(0, 1), dtype=np.int64)
        neighbours += bits_of(of_mixed[:, 1:] ^ of_mixed[:, :-1]).sum(axis=(0, 1), dtype=np.int64)
    bytes_, (_, one_byte, two_bytes, _) = wc_bytes(values), wc_sizes(geometry.components)
    lanes, mixed_planes = values.shape[1], len(values) - uniform
    return Contents(
        narrow=(rounded(np.mean(bytes_ == one_byte)), rounded(np.mean(bytes_ == two_bytes))),
        first_block=rounded(np.mean(first_block_fits(values, geometry, None))),
        ones=_of_bits(bits_of(all_ones).sum(axis=0), uniform),
        uniform=_of_bits(uniform, len(values)),
        mixed_ones=_of_bits(ones, mixed_planes * lanes),
        neighbours=_of_bits(neighbours, mixed_planes * (lanes - 1)),
        kept=_kept(differs),
    )


def _kept(differs: NDArray[np.uint32]) -> tuple[float, ...]:
    return _of_bits(bits_of(~differs).sum(axis=0), len(differs))


def _of_bits(counts: NDArray[np.number], of: "NDArray[np.number] | int") -> tuple[float, ...]:
    """Counts as shares, bit by bit; 0 where there is nothing to count."""
    return tuple(map(rounded, counts / np.maximum(of, 1)))


def _deltas(values: NDArray[np.uint32]) -> tuple[tuple[int, int, float], ...]:
    patterns = classify(values)
    exponents = np.stack([_exponents(patterns.delta_e), _exponents(patterns.delta_b)], axis=1)
    pairs, counts = np.unique(exponents, axis=0, return_counts=True)
    return tuple(
        (int(e), int(b), rounded(count / len(values)))
        for (e, b), count in zip(pairs, counts, strict=True)
    )


def _exponents(deltas: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.where(deltas == 0, -1, np.log2(np.maximum(deltas, 1))).astype(np.int64)
