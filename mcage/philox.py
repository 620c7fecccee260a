"""Numbers of many random streams at once, by their places in the streams; compiled.

The streams are those of `mcage.random`, and the numbers those that `Generator.random` of NumPy
draws one after the other: Philox 4x64-10 (Salmon et al., SC 2011) turns a counter and a key into
four words, and four words make four numbers. A number can so be computed without those before it.

Integers take half a word each. Where NumPy would have to draw an integer again, all of the stream
are left to it.
"""

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mcage.compiled import compiled
from mcage.geometry import Booleans, Floats, Integers, Words
from mcage.random import successive_streams

_MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_INCREMENTS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_WORDS = 4
_UNUSED_BITS = np.uint64(11)
_STEP = 2.0**-53
"""A number is a multiple of this; it takes the upper 53 bits of a word."""

_HALF = 32
"""Bits of a half of a word; the lower half comes first."""

_TAIL = 20
"""If one of so many numbers is chosen, or more, NumPy may draw in another way."""


def _product(typing_context: Any, first: Any, second: Any) -> Any:
    """Types and code of `_halves`: the upper and the lower 64 of the 128 bits of a product."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), narrow)
        lower = builder.trunc(product, narrow)
        return context.make_tuple(builder, signature.return_type, (upper, lower))

    pair: Any = types.Tuple
    return pair((types.uint64, types.uint64))(types.uint64, types.uint64), generate


_halves: Any = intrinsic(_product)


@compiled
def _words(
    counter: np.uint64, stream: np.uint64, even: np.uint64, odd: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Four words of a stream whose key has two words; its first counter is 1."""
    first, second, third, fourth = counter, np.uint64(0), np.uint64(0), stream
    for _ in range(_ROUNDS):
        upper, lower = _halves(_MULTIPLIERS[0], first)
        other_upper, other_lower = _halves(_MULTIPLIERS[1], third)
        first, second = other_upper ^ second ^ even, other_lower
        third, fourth = upper ^ fourth ^ odd, lower
        even, odd = even + _INCREMENTS[0], odd + _INCREMENTS[1]
    return first, second, third, fourth


@compiled
def _number(word: np.uint64) -> float:
    return np.float64(np.int64(word >> _UNUSED_BITS)) * _STEP


def numbers_at(keys: Words, streams: Integers, rows: Integers, places: Integers) -> Floats:
    """Numbers at places of streams.

    Parameters
    ----------
    keys : uint64[I, 2]
        Key of each of I streams.
    streams : int64[I]
        Their instances.
    rows : int64[n]
        The stream of each number, 0 ... I-1.
    places : int64[n]
        The place of each number in its stream, 0 or above.

    Returns
    -------
    float64[n]
        0 <= number < 1.
    """
    upper = _words_at(keys, streams, rows, places) >> _UNUSED_BITS
    return upper.astype(np.float64) * _STEP


def _words_at(keys: Words, streams: Integers, rows: Integers, places: Integers) -> Words:
    """Words of which the numbers at places of streams are made."""
    words = np.empty(len(rows), np.uint64)
    _fill_in(keys, streams, rows, places, words)
    return words


@compiled
def _fill_in(
    keys: Words, streams: Integers, rows: Integers, places: Integers, words: Words
) -> None:
    for wanted in range(len(rows)):
        row, place = rows[wanted], places[wanted]
        counter, stream = np.uint64(place // _WORDS + 1), np.uint64(streams[row])
        words[wanted] = _words(counter, stream, keys[row, 0], keys[row, 1])[place % _WORDS]


def integers_below(bound: int, key: Words, streams: Integers, count: int) -> Integers:
    """The first integers of streams, as `Generator.integers` draws them.

    Parameters
    ----------
    bound : int
        Above all of them, 2**32 - 1 at most.
    key : uint64[2]
        Key of all I streams.
    streams : int64[I]
        Their instances.
    count : int
        How many of each stream.

    Returns
    -------
    int64[I, count]
        0 ... bound - 1.
    """
    numbers, final = _integers(key, streams, np.full(count, bound, np.uint64))
    return _redrawn(
        numbers, ~final, key, streams, lambda drawing: drawing.integers(bound, size=count)
    )


def distinct_below(bound: int, key: Words, streams: Integers, count: int) -> Integers:
    """Different integers of streams, as `Generator.choice` draws them first, unshuffled.

    Parameters as of `integers_below`; bound is count or more. For each of the last numbers below
    bound, in turn, one up to it is drawn, and the number itself in place of one that is there
    already (Floyd; Bentley, CACM 1987).
    """

    def choose(drawing: np.random.Generator) -> Integers:
        return drawing.choice(bound, count, replace=False, shuffle=False)

    numbers, final = _integers(key, streams, np.arange(bound - count, bound, dtype=np.uint64) + 1)
    ordered = np.sort(numbers, axis=1)
    final &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
    return _redrawn(numbers, ~final | (count > bound // _TAIL), key, streams, choose)


def _integers(key: Words, streams: Integers, bounds: Words) -> tuple[Integers, Booleans]:
    """Integers of each stream below bounds uint64[n]: int64[I, n]; where they are final: bool[I].

    An integer is the upper half of the product of bound and half a word; it is drawn again if the
    lower half is so small that not all integers would be equally likely (Lemire, TOMACS 2019).
    """
    count = len(streams)
    words = -(-len(bounds) // 2)
    rows, places = np.divmod(np.arange(count * words), words)
    drawn = _words_at(np.tile(key, (count, 1)), streams, rows, places).astype("<u8").view("<u4")
    products = drawn.reshape(count, 2 * words)[:, : len(bounds)] * bounds
    fair = products.astype(np.uint32) >= (2**_HALF - bounds) % bounds
    return (products >> np.uint64(_HALF)).astype(np.int64), fair.all(axis=1)


def _redrawn(
    numbers: Integers,
    again: Booleans,
    key: Words,
    streams: Integers,
    draw: Callable[[np.random.Generator], Integers],
) -> Integers:
    """Numbers of all streams; those of some, bool[I], are drawn by NumPy."""
    rows = np.flatnonzero(again)
    for row, drawing in zip(
        rows, successive_streams(repeat(key), streams[rows].tolist()), strict=True
    ):
        numbers[row] = draw(drawing)
    return numbers


def first_numbers_below(
    keys: Words, streams: Integers, bounds: Floats, count: int
) -> tuple[Integers, Integers, Floats]:
    """Those of the first numbers of streams that do not exceed their bounds.

    Parameters
    ----------
    keys, streams
        As of `numbers_at`.
    bounds : float64[I, rows, columns]
        Bounds of the numbers of each stream, of which each row stands for several rows of numbers.
    count : int
        How many numbers of each stream are looked at: a multiple of all bounds, and the columns
        are a multiple of four.

    Returns
    -------
    int64[n], int64[n], float64[n]
        Stream and place of each number, in rising order, and the number.
    """
    most = len(streams) * count + 1  # memory that is never touched costs nothing
    rows, places, numbers = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    kept = _keep_below(keys, streams, bounds, count, rows, places, numbers)
    return rows[:kept], places[:kept], numbers[:kept]


@compiled
def _keep_below(
    keys: Words,
    streams: Integers,
    bounds: Floats,
    count: int,
    rows: Integers,
    places: Integers,
    numbers: Floats,
) -> int:
    """Fill in what `first_numbers_below` returns, and one more; return how many they are."""
    _, bound_rows, columns = bounds.shape
    repeated = count // (bound_rows * columns)
    kept = 0
    for row in range(len(streams)):
        stream, even, odd = np.uint64(streams[row]), keys[row, 0], keys[row, 1]
        for begin in range(0, count, columns):
            of_row = bounds[row, begin // columns // repeated]
            for column in range(0, columns, _WORDS):
                place = begin + column
                words = _words(np.uint64(place // _WORDS + 1), stream, even, odd)
                for word in range(_WORDS):  # without a branch, which would often be a surprise
                    number = _number(words[word])
                    rows[kept], places[kept], numbers[kept] = row, place + word, number
                    kept += number <= of_row[column + word]
    return kept
