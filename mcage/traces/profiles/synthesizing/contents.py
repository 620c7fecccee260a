"""Contents of registers, drawn bit by bit: planes that are the same in all lanes, and others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.traces.patterns import GROUP, OTHER, classify, first_block_fits
from mcage.traces.profiles.levels import chosen, spread
from mcage.traces.profiles.profile import Contents

_BIT = np.arange(COMPONENT_BITS, dtype=np.uint32)
_STEPS_OF_PROBABILITY = 12
"""Bits of a probability: one in 4096."""


def contents_drawn(
    contents: Contents,
    pattern: str,
    window: NDArray[np.int64],
    geometry: SliceGeometry,
    random: np.random.Generator,
) -> NDArray[np.uint32]:
    """Draw contents of a kind: uint32[n, components].

    Parameters
    ----------
    contents : Contents
        What they are like.
    pattern : str
        Their pattern.
    window : int64[n]
        Their windows, in order.
    geometry : SliceGeometry
        The slice.
    random : Generator
        Where random numbers come from.
    """
    count = len(window)
    starts = np.diff(window, prepend=-1) != 0
    source, complement = _kept(contents, starts, random)
    base = _planes(np.array(contents.ones), count, random)
    if pattern != "other":
        base = _from_sources(base[:, None], source) ^ complement[:, None]
        return _regular(base, contents, geometry, random)
    values = np.repeat(base[:, None], geometry.components, axis=1)
    uniform = np.array(contents.uniform)
    if (uniform < 1).any():
        mixed = ~_planes(uniform, count, random)
        mixed = np.where(mixed == 0, np.uint32(1 << int(uniform.argmin())), mixed)
        values = np.where(
            mixed[:, None],
            values & ~mixed[:, None]
            | _lanes(contents, count, geometry.components, random) & mixed[:, None],
            values,
        )
    values = _from_sources(values, source) ^ complement[:, None]
    return _shaped(values, contents, geometry, random)


def _kept(
    contents: Contents, starts: NDArray[np.bool_], random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Where each plane of each content comes from, [n, 32], and the planes that are inverted.

    A plane is that of the content before more often than two draws agree by chance, or, such as
    the lowest bit of a counter, less often: it is then inverted.
    """
    ones, uniform = np.array(contents.ones), np.array(contents.uniform)
    alike = uniform**2 * (ones**2 + (1 - ones) ** 2)
    copied = np.clip((np.array(contents.kept) - alike) / np.maximum(1 - alike, 1e-9), -1, 1)
    index = np.arange(len(starts))[:, None]
    varies = alike < 1
    taken = np.zeros((len(starts), COMPONENT_BITS), np.bool_)
    taken[:, varies] = _spread_columns(random, len(starts), int(varies.sum())) < np.abs(
        copied[varies]
    )
    taken &= ~starts[:, None]
    source = np.maximum.accumulate(np.where(taken, 0, index), axis=0)
    inverted = np.cumsum(taken & (copied < 0), axis=0)
    parity = (inverted - np.take_along_axis(inverted, source, axis=0)) & 1
    complement = _word(parity)
    return source, complement


def _from_sources(values: NDArray[np.uint32], source: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Contents with each plane taken from the content that it comes from."""
    itself = np.arange(len(values))
    result = values.copy()
    for bit in range(COMPONENT_BITS):
        from_other = np.flatnonzero(source[:, bit] != itself)
        if len(from_other):
            plane = np.uint32(1 << bit)
            taken = values[source[from_other, bit]] & plane
            result[from_other] = result[from_other] & ~plane | taken
    return result


def _word(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Words of bits, the least significant first: [..., 32] to [...]."""
    return np.bitwise_or.reduce(bits.astype(np.uint32) << _BIT, axis=-1)  # type: ignore[no-any-return]


def _planes(
    shares: NDArray[np.float64], count: int, random: np.random.Generator
) -> NDArray[np.uint32]:
    """Words whose bits are 1 in these shares of them, [count]: 32 shares."""
    words = np.full(count, _word(shares >= 1))
    varying = np.flatnonzero((shares > 0) & (shares < 1))
    bits = _spread_columns(random, count, len(varying)) < shares[varying]
    for bit, column in zip(varying, bits.T, strict=True):
        words |= column.astype(np.uint32) << np.uint32(bit)
    return words


def _spread_columns(random: np.random.Generator, count: int, columns: int) -> NDArray[np.float64]:
    """Numbers between 0 and 1, [count, columns]: in each column one in each of equal parts."""
    order = np.argsort(random.random((count, columns)), axis=0)
    return (order + random.random((count, columns))) / max(count, 1)


def _regular(
    base: NDArray[np.uint32],
    contents: Contents,
    geometry: SliceGeometry,
    random: np.random.Generator,
) -> NDArray[np.uint32]:
    """Contents of a compressible pattern from their lane 0, [n, 1]."""
    if not contents.deltas:
        return np.repeat(base, geometry.components, axis=1)
    picked = chosen([share for _, _, share in contents.deltas], spread(random, len(base)))
    exponents = np.array([pair[:2] for pair in contents.deltas])
    deltas = np.where(exponents < 0, 0, 1 << np.maximum(exponents, 0)).astype(np.uint32)[picked]
    components = np.arange(geometry.components, dtype=np.uint32)
    group, lane = components // np.uint32(GROUP), components % np.uint32(GROUP)
    regular: NDArray[np.uint32] = base + deltas[:, :1] * lane + deltas[:, 1:] * group
    return regular


def _lanes(
    contents: Contents, count: int, components: int, random: np.random.Generator
) -> NDArray[np.uint32]:
    """Contents whose bits differ from lane to lane, [count, components]."""
    ones = np.array(contents.mixed_ones)
    by_chance = 2 * ones * (1 - ones)
    alike = 1 - np.array(contents.neighbours) / np.maximum(by_chance, 1e-9)
    alike = np.clip(np.where(by_chance > 0, alike, 0), -1, 1)
    lanes = bernoulli(ones, (count, components), random)
    if not alike.any():
        return lanes
    linked = bernoulli(np.abs(alike), (count, components), random)
    inverted = _word(alike < 0)
    for lane in range(1, components):
        link = linked[:, lane]
        lanes[:, lane] = lanes[:, lane] & ~link | (lanes[:, lane - 1] ^ inverted) & link
    return lanes


def bernoulli(
    shares: NDArray[np.float64], shape: tuple[int, ...], random: np.random.Generator
) -> NDArray[np.uint32]:
    """Words whose bits are 1 with these probabilities, each by itself.

    The binary digits of the probabilities are gone through from the last: a random bit that meets a
    digit 1 by OR and 0 by AND halves what it meets, and adds a half for a 1.
    """
    whole = np.rint(shares * (1 << _STEPS_OF_PROBABILITY)).astype(np.int64)
    words = np.zeros(shape, np.uint32)
    for step in range(_STEPS_OF_PROBABILITY):
        digit = _word(whole >> step & 1)
        if digit or words.any():
            fair = random.integers(0, 1 << 32, shape, np.uint32)
            words = words & fair | digit & (words | fair)
    always = _word(whole >> _STEPS_OF_PROBABILITY)
    return np.asarray(words | always)


def _shaped(
    values: NDArray[np.uint32],
    contents: Contents,
    geometry: SliceGeometry,
    random: np.random.Generator,
) -> NDArray[np.uint32]:
    """Contents with narrow differences and regular first blocks in their shares."""
    one_byte, two_bytes = contents.narrow
    wide = max(1 - one_byte - two_bytes, 0.0)
    width = np.array([8, 16, 32])[
        chosen([one_byte, two_bytes, max(wide, 1e-12)], spread(random, len(values)))
    ]
    shift = (32 - width).astype(np.uint32)[:, None]
    base = values[:, :1]
    difference = ((values - base) << shift).view(np.int32) >> shift.view(np.int32)
    values = base + difference.view(np.uint32)
    first = geometry.block_components
    if first < geometry.components and contents.first_block > 0:
        fitting = np.flatnonzero(spread(random, len(values)) < contents.first_block)
        regular = first_block_fits(values[fitting], geometry, None)
        values[fitting[~regular], :first] = values[fitting[~regular], :1]
    # By chance regular: one bit of the last lane makes it other, as its pattern says.
    accident = np.flatnonzero(classify(values).code != OTHER)
    values[accident, -1] ^= np.uint32(1)
    return values
