"""Contents of registers, drawn from a profile lane by lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.traces.patterns import GROUP, classify, first_block_fits
from mcage.traces.profiles import PATTERNS, REGULAR, Contents, Value
from mcage.traces.profiles.measures import bits_of, states_of, widths_of

# Lanes of registers, drawn for 32 bits at a time.

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


_FIRST, _ZERO, _ONE, _MIXED = range(4)
_STATES = ("first", "was_zero", "was_one", "was_mixed")
_OF_LANES = {
    "mixed_ones": "mixed_ones",
    "neighbours": "neighbours",
    "linked": "linked",
    "again_ones": "mixed_ones",
    "again_neighbours": "neighbours",
}
"""Keys of what lanes are drawn by, and those that stand in for missing ones."""
_BECOMES_ONE, _BECOMES_MIXED, _STAYS, _INVERTS = range(1, 5)
_BYTE, _TWO_BYTES = PATTERNS.index("byte-deltas"), PATTERNS.index("two-byte-deltas")
_BITS_OF_WIDTH = np.array([32, 32, 32, 8, 16, 32])


@dataclass(frozen=True, eq=False)
class Writes:
    """Writes to registers, each register of each window in a row, in the order of time: [n] each.

    Attributes
    ----------
    kind : int64
        Index into the kinds of values.
    number : int64
        Number of the write in its window.
    lanes : uint64
        Lanes that are written.
    """

    kind: NDArray[np.int64]
    number: NDArray[np.int64]
    lanes: NDArray[np.uint64]


def contents_drawn(
    kinds: Sequence[Value], writes: Writes, geometry: SliceGeometry, random: np.random.Generator
) -> NDArray[np.uint32]:
    """Draw the contents of registers: uint32[n, components].

    Parameters
    ----------
    kinds : sequence of Value
        Kinds of values.
    writes : Writes
        What is written when.
    geometry : SliceGeometry
        The slice.
    random : Generator
        Where random numbers come from.
    """
    tables = _Tables(kinds)
    count = len(writes.kind)
    values = np.zeros((count, geometry.components), np.uint32)
    lane = np.arange(geometry.components, dtype=np.uint64)
    by_number = np.argsort(writes.number, kind="stable")
    edges = np.flatnonzero(np.diff(writes.number[by_number], prepend=-1, append=-1))
    deltas = np.zeros((count, 2), np.int64)
    for start, end in pairwise(edges.tolist()):
        rows = by_number[start:end]
        first = int(writes.number[rows[0]]) == 1
        lanes = (writes.lanes[rows, None] >> lane & np.uint64(1)).astype(np.bool_)
        if first:
            lanes[:] = True
        before = np.zeros_like(values[rows]) if first else values[rows - 1]
        pattern = tables.pattern[writes.kind[rows]]
        alike = np.zeros(len(rows), np.bool_)
        if not first:
            alike = pattern == tables.pattern[writes.kind[rows - 1]]
        step = _Step(tables, writes.kind[rows], before, lanes, first, alike, random)
        values[rows], deltas[rows] = step.drawn(deltas[rows - 1], geometry)
    return values


class _Tables:
    """Numbers of all kinds, by kind."""

    def __init__(self, kinds: Sequence[Value]) -> None:
        nothing = Contents()
        contents = [kind.contents or nothing for kind in kinds]
        self.pattern = np.array([PATTERNS.index(kind.pattern) for kind in kinds])
        self.same = np.array([each.same for each in contents])
        self.same_deltas = np.array([each.same_deltas for each in contents])
        self.first_block = np.array([each.first_block for each in contents])
        self.lanes = {
            name: _by_bit(
                [
                    getattr(each, default if getattr(each, name) is None else name)
                    for each in contents
                ]
            )
            for name, default in _OF_LANES.items()
        }
        # Upper ends of the outcomes: '0' above them all, then '1', mixed, kept, inverted.
        self.ends = np.zeros((len(kinds), len(_STATES), COMPONENT_BITS, 4))
        for state, name in enumerate(_STATES):
            ones, mixed = (
                _by_bit([(getattr(each, name) or each.after)[place] for each in contents])
                for place in (0, 1)
            )
            stays, inverts = np.zeros_like(mixed), np.zeros_like(mixed)
            if state == _MIXED:
                stays = np.minimum(_by_bit([each.kept for each in contents]), mixed)
                inverts = _by_bit([each.inverted for each in contents])
                inverts = np.minimum(inverts, mixed - stays)
            outcomes = np.stack([ones, mixed - stays - inverts, stays, inverts], axis=-1)
            self.ends[:, state] = np.cumsum(outcomes, axis=-1)
        self.deltas = [each.deltas or ((-1, -1, 1.0),) for each in contents]


def _by_bit(numbers: "list[float | tuple[float, ...]]") -> NDArray[np.float64]:
    return np.array([np.broadcast_to(each, COMPONENT_BITS) for each in numbers], np.float64)


@dataclass(frozen=True, eq=False)
class _Step:
    """Writes of one number: the kind, the content before and the lanes of each."""

    tables: _Tables
    kind: NDArray[np.int64]
    before: NDArray[np.uint32]
    lanes: NDArray[np.bool_]
    first: bool
    alike: NDArray[np.bool_]
    random: np.random.Generator

    def drawn(
        self, deltas_before: NDArray[np.int64], geometry: SliceGeometry
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Contents, and the exponents of their deltas where they are regular."""
        values, deltas = self.before.copy(), deltas_before.copy()
        spread = _spread(self.random, self.kind, 2)
        changes = ~(self.alike & (spread[:, 0] < self.tables.same[self.kind]))
        regular = self.tables.pattern[self.kind] < REGULAR
        rows = np.flatnonzero(changes & regular)
        if len(rows):
            keeps = self.alike[rows] & (spread[rows, 1] < self.tables.same_deltas[self.kind[rows]])
            fresh = self._deltas(rows)
            deltas[rows] = np.where(keeps[:, None], deltas_before[rows], fresh)
            base = self._planes(rows, self.before[rows, :1], np.ones((len(rows), 1), np.bool_))
            values[rows] = _regular(base, deltas[rows], geometry.components)
        rows = np.flatnonzero(changes & ~regular)
        if len(rows):
            lanes = self.lanes[rows]
            planes = self._planes(rows, self.before[rows], lanes)
            merged = np.where(lanes, planes, self.before[rows])
            values[rows] = self._shaped(rows, merged, geometry)
        return values, deltas

    def _deltas(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        spread = _spread(self.random, self.kind[rows], 1)[:, 0]
        deltas = np.empty((len(rows), 2), np.int64)
        for kind in np.unique(self.kind[rows]):
            members = self.kind[rows] == kind
            table = np.array(self.tables.deltas[kind])
            upper = np.cumsum(table[:, 2])
            picked = np.searchsorted(upper / upper[-1], spread[members], side="right")
            deltas[members] = table[np.minimum(picked, len(table) - 1), :2]
        return deltas

    def _planes(
        self, rows: NDArray[np.int64], before: NDArray[np.uint32], lanes: NDArray[np.bool_]
    ) -> NDArray[np.uint32]:
        """What the planes of some writes become, from what they were in the written lanes."""
        kind = self.kind[rows]
        zeros, ones, mixed = states_of(before, lanes)
        state = bits_of(ones) * _ONE + bits_of(zeros) * _ZERO + bits_of(mixed) * _MIXED
        if self.first:
            state = np.full_like(state, _FIRST)
        bit = np.arange(COMPONENT_BITS)
        ends = self.tables.ends[kind[:, None], state, bit]
        spread = _spread(self.random, kind, COMPONENT_BITS)
        below = spread[..., None] < ends
        outcome = np.where(below.any(axis=-1), below.argmax(axis=-1) + 1, 0)
        result = word(outcome == _BECOMES_ONE)[:, None] | np.zeros_like(before)
        result |= word(outcome == _STAYS)[:, None] & before
        result |= word(outcome == _INVERTS)[:, None] & ~before
        anew = word(outcome == _BECOMES_MIXED)
        some_anew = np.flatnonzero(anew)
        if len(some_anew):
            drawn = self._mixed_lanes(kind[some_anew], before[some_anew], mixed[some_anew])
            result[some_anew] |= drawn & anew[some_anew, None]
        return result

    def _mixed_lanes(
        self, kind: NDArray[np.int64], before: NDArray[np.uint32], mixed: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Planes that are mixed anew, some lanes as before in those that were mixed."""
        lanes = before.shape[1]
        ones, neighbours, linked, again_ones, again_neighbours = (
            self.tables.lanes[name][kind] for name in _OF_LANES
        )
        again = bits_of(mixed).astype(np.bool_) & ~self.first
        drawn = linked_lanes(
            np.where(again, again_ones, ones),
            np.where(again, again_neighbours, neighbours),
            lanes,
            self.random,
        )
        linked = np.where(again, linked, 0)
        if not linked.any():
            return drawn
        keeps = bernoulli(np.abs(linked), lanes, self.random)
        return drawn & ~keeps | (before ^ word(linked < 0)[:, None]) & keeps

    def _shaped(
        self, rows: NDArray[np.int64], values: NDArray[np.uint32], geometry: SliceGeometry
    ) -> NDArray[np.uint32]:
        """Contents with differences as narrow as their patterns say, and regular first blocks."""
        kind, lanes = self.kind[rows], self.lanes[rows]
        pattern = self.tables.pattern[kind]
        base = values[:, :1]
        shift = (32 - _BITS_OF_WIDTH[pattern]).astype(np.uint32)[:, None]
        difference = ((values - base) << shift).view(np.int32) >> shift.view(np.int32)
        values = np.where(lanes, base + difference.view(np.uint32), values)
        first = geometry.block_components
        wanted = self.tables.first_block[kind]
        if first < geometry.components and wanted.any():
            chosen = _spread(self.random, kind, 1)[:, 0] < wanted
            fitting = np.flatnonzero(chosen & lanes[:, :first].all(axis=1))
            irregular = fitting[~first_block_fits(values[fitting], geometry, None)]
            values[irregular, :first] = values[irregular, :1]
        # By chance too regular, or too narrow: a bit of the last lane makes it what it is to be.
        is_now = widths_of(values, classify(values).code)
        bit = np.select([pattern == _BYTE, pattern == _TWO_BYTES], [0, 10], 20)
        wrong = np.flatnonzero(is_now < pattern)
        last = lanes.shape[1] - 1 - lanes[wrong, ::-1].argmax(axis=1)
        values[wrong, last] ^= np.uint32(1) << bit[wrong].astype(np.uint32)
        return values


def _regular(
    base: NDArray[np.uint32], exponents: NDArray[np.int64], components: int
) -> NDArray[np.uint32]:
    """Regular contents from their lane 0, [n, 1], and the exponents of their deltas, [n, 2]."""
    deltas = np.where(exponents < 0, 0, 1 << np.maximum(exponents, 0)).astype(np.uint32)
    place = np.arange(components, dtype=np.uint32)
    group, lane = place // np.uint32(GROUP), place % np.uint32(GROUP)
    regular: NDArray[np.uint32] = base + deltas[:, :1] * lane + deltas[:, 1:] * group
    return regular


def _spread(
    random: np.random.Generator, kind: NDArray[np.int64], columns: int
) -> NDArray[np.float64]:
    """Numbers between 0 and 1, [n, columns]: of each kind, one in each of equal parts."""
    order = np.argsort(kind[:, None] + random.random((len(kind), columns)), axis=0)
    _, first, count = np.unique(np.sort(kind), return_index=True, return_counts=True)
    starts, counts = np.repeat(first, count), np.repeat(count, count)
    of_place = (np.arange(len(kind)) - starts)[:, None] + random.random((len(kind), columns))
    numbers = np.empty((len(kind), columns))
    np.put_along_axis(numbers, order, of_place / counts[:, None], axis=0)
    return numbers
