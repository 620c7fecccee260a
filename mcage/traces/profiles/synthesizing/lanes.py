"""Lanes of registers, drawn for 32 bits at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS

_BIT = np.arange(COMPONENT_BITS, dtype=np.uint32)
_STEPS_OF_PROBABILITY = 12
"""Bits of a probability: one in 4096."""


def word(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Words of bits, the least significant first: [..., 32] to [...]."""
    packed = np.packbits(np.ascontiguousarray(bits, dtype=np.bool_), axis=-1, bitorder="little")
    return packed.view("<u4")[..., 0]


def bernoulli(
    shares: NDArray[np.float64], lanes: int, random: np.random.Generator
) -> NDArray[np.uint32]:
    """Words whose bits are 1 with these probabilities, each by itself: uint32[n, lanes].

    The binary digits of the probabilities are gone through from the last: a random bit that meets a
    digit 1 by OR and 0 by AND halves what it meets, and adds a half for a 1.

    Parameters
    ----------
    shares : float64[n, 32]
        Probabilities, the same for all lanes.
    lanes : int
        Lanes.
    random : Generator
        Where random numbers come from.
    """
    whole = np.rint(shares * (1 << _STEPS_OF_PROBABILITY)).astype(np.int64)
    words = np.zeros((len(shares), lanes), np.uint32)
    started = False
    for step in range(_STEPS_OF_PROBABILITY):
        digit = word(whole >> step & 1)[:, None]
        started = started or bool(digit.any())
        if started:
            fair = random.integers(0, 1 << 32, words.shape, np.uint32)
            words = words & fair | digit & (words | fair)
    return words | word(whole >> _STEPS_OF_PROBABILITY)[:, None]


def linked_lanes(
    ones: NDArray[np.float64],
    neighbours: NDArray[np.float64],
    lanes: int,
    random: np.random.Generator,
) -> NDArray[np.uint32]:
    """Words whose bits depend on those of the lane before: uint32[n, lanes].

    Parameters
    ----------
    ones, neighbours : float64[n, 32]
        Shares of lanes with '1', and of neighbouring lanes that differ.
    lanes, random
        As in `bernoulli`.
    """
    drawn = bernoulli(ones, lanes, random)
    by_chance = 2 * ones * (1 - ones)
    alike = np.where(by_chance > 0, 1 - neighbours / np.maximum(by_chance, 1e-9), 0)
    alike = np.clip(alike, -1, 1)
    if not alike.any():
        return drawn
    link = bernoulli(np.abs(alike), lanes, random)
    link[:, 0] = 0
    return _chained(link, drawn & ~link | word(alike < 0)[:, None] & link)


def _chained(link: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Bits that are those of the lane before where they are linked, all XOR the others.

    Lanes are joined in twos, fours and so on: link & (link' & x ^ other') ^ other.
    """
    distance = 1
    while distance < link.shape[1]:
        of_both = other.copy()
        of_both[:, distance:] ^= link[:, distance:] & other[:, :-distance]
        linked = np.zeros_like(link)
        linked[:, distance:] = link[:, distance:] & link[:, :-distance]
        link, other = linked, of_both
        distance *= 2
    return other
