"""Numbers of many random streams at once, by their places in the streams; compiled.

The streams are those of `mcage.random`, and the numbers those that `Generator.random` of NumPy
draws one after the other: Philox 4x64-10 (Salmon et al., SC 2011) turns a counter and a key into
four words, and four words make four numbers. A number can so be computed without those before it.

Integers take half a word each. Where NumPy would have to draw an integer again, all of the stream
are left to it.
"""

from collections.abc import Callable
from importlib.resources import files
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

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
"""Smallest number of choices for which NumPy may draw in another way."""


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


def first_numbers(key: Words, streams: Integers, count: int) -> Floats:
    """The first numbers of streams, as `Generator.random` draws them.

    Parameters
    ----------
    key : uint64[2]
        Key of all I streams.
    streams : int64[I]
        Their instances.
    count : int
        How many of each stream.

    Returns
    -------
    float64[I, count]
        0 <= number < 1.
    """
    rows, places = np.divmod(np.arange(len(streams) * count), max(count, 1))
    keys = np.broadcast_to(key, (len(streams), 2))
    return numbers_at(np.ascontiguousarray(keys), streams, rows, places).reshape(-1, count)


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


# Numbers of a stream one after the other, where how many are used depends on what they are.

_STATE = 10
_PLACE, _STREAM, _EVEN, _ODD, _HALF_HELD, _IS_HELD = range(_WORDS, _STATE)
"""State of a stream, uint64[10]: four words, the place of the next, the stream and its key, and the
half of a word that is left over, if any."""

_ONCE, _EACH = np.uint64(1), np.uint64(_WORDS)
_LOWER_HALF = np.uint64(2**_HALF - 1)


@compiled
def _begin(state: Words, key: Words, stream: int) -> None:
    state[_PLACE], state[_STREAM] = np.uint64(0), np.uint64(stream)
    state[_EVEN], state[_ODD], state[_IS_HELD] = key[0], key[1], np.uint64(0)


@compiled
def _next_word(state: Words) -> np.uint64:
    place = state[_PLACE]
    state[_PLACE] = place + _ONCE
    if place % _EACH == np.uint64(0):
        words = _words(place // _EACH + _ONCE, state[_STREAM], state[_EVEN], state[_ODD])
        for number in range(_WORDS):
            state[number] = words[number]
    word: np.uint64 = state[place % _EACH]
    return word


@compiled
def _next_half(state: Words) -> np.uint64:
    """Half a word: an upper half that is left over stays behind while whole words are drawn."""
    if state[_IS_HELD] != np.uint64(0):
        state[_IS_HELD] = np.uint64(0)
        half: np.uint64 = state[_HALF_HELD]
        return half
    word = _next_word(state)
    state[_HALF_HELD], state[_IS_HELD] = word >> np.uint64(_HALF), _ONCE
    return word & _LOWER_HALF


@compiled
def _next_number(state: Words) -> float:
    return _number(_next_word(state))


# Ziggurats (Marsaglia and Tsang, J. Stat. Software 2000), as NumPy has them: 256 layers below the
# density, of the same area. Most words fall well inside of a layer, and are a number at once.


def _ziggurats() -> NDArray[np.float64]:
    """Columns of ``ziggurats.csv``: float64[6, 256]."""
    text = files("mcage").joinpath("data", "ziggurats.csv").read_text(encoding="utf-8")
    columns: NDArray[np.float64] = np.loadtxt(text.splitlines(), delimiter=",", skiprows=5).T
    return np.ascontiguousarray(columns)


_LAYERS = _ziggurats()
_NORMAL_WIDTH, _NORMAL_DENSITY, _EXPONENTIAL_WIDTH, _EXPONENTIAL_DENSITY = _LAYERS[:4]
_NORMAL_INSIDE, _EXPONENTIAL_INSIDE = _LAYERS[4:].astype(np.uint64)
_NORMAL_TAIL, _EXPONENTIAL_TAIL = 3.6541528853610087963519472518, 7.69711747013104972
_NORMAL_TAIL_INVERSE = 0.27366123732975827203338247596
"""Where the lowest layers end and the tails begin."""


@compiled
def _next_exponential(state: Words) -> float:
    while True:
        word = _next_word(state) >> np.uint64(3)
        layer, part = word & np.uint64(255), word >> np.uint64(8)
        number = np.float64(np.int64(part)) * _EXPONENTIAL_WIDTH[layer]
        if part < _EXPONENTIAL_INSIDE[layer]:
            return float(number)
        if layer == np.uint64(0):
            tail: float = _EXPONENTIAL_TAIL - np.log1p(-_next_number(state))
            return tail
        above = _EXPONENTIAL_DENSITY[layer - _ONCE] - _EXPONENTIAL_DENSITY[layer]
        if above * _next_number(state) + _EXPONENTIAL_DENSITY[layer] < np.exp(-number):
            return float(number)


@compiled
def _next_normal(state: Words) -> float:
    while True:
        word = _next_word(state)
        layer, part = word & np.uint64(255), word >> np.uint64(9) & np.uint64(2**52 - 1)
        sign = 1.0 - np.float64(np.int64(word >> np.uint64(7) & np.uint64(2)))
        number = sign * (np.float64(np.int64(part)) * _NORMAL_WIDTH[layer])
        if part < _NORMAL_INSIDE[layer]:
            return float(number)
        if layer == np.uint64(0):
            while True:
                beyond = -_NORMAL_TAIL_INVERSE * np.log1p(-_next_number(state))
                height = -np.log1p(-_next_number(state))
                if height + height > beyond * beyond:
                    tail = float(_NORMAL_TAIL + beyond)
                    return -tail if part >> np.uint64(8) & _ONCE != np.uint64(0) else tail
        above = _NORMAL_DENSITY[layer - _ONCE] - _NORMAL_DENSITY[layer]
        if above * _next_number(state) + _NORMAL_DENSITY[layer] < np.exp(-0.5 * number * number):
            return float(number)


def first_normals(keys: Words, streams: Integers, count: int) -> Floats:
    """The first numbers of streams, as `Generator.standard_normal` draws them.

    Parameters
    ----------
    keys : uint64[I, 2]
        Key of each of I streams.
    streams : int64[I]
        Their instances.
    count : int
        How many of each stream.

    Returns
    -------
    float64[I, count]
    """
    normals = np.empty((len(streams), count))
    _draw_normals(keys, streams, np.empty(_STATE, np.uint64), normals)
    return normals


@compiled
def _draw_normals(keys: Words, streams: Integers, state: Words, normals: Floats) -> None:
    count, columns = normals.shape
    for row in range(count):
        _begin(state, keys[row], streams[row])
        for column in range(columns):
            normals[row, column] = _next_normal(state)


def fill_in_mixes(
    key: Words, streams: Integers, size: int, differ: bool, members: Integers, shares: Floats
) -> None:
    """Fill in random subsets and shares of their members, period after period, as NumPy does.

    In each period, `Generator.permutation` of the whole set comes first, and then, if shares
    differ, `Generator.dirichlet` with ones.

    Parameters
    ----------
    key : uint64[2]
        Key of all I streams.
    streams : int64[I]
        Their instances.
    size : int
        Members of the whole set, as many as of a subset or more.
    differ : bool
        Whether shares differ; otherwise they are left as they are.
    members : int64[I, periods, turns]
        Filled in with the members of the subsets, 0 ... size - 1, in rising order.
    shares : float64[I, periods, turns]
        Filled in with their shares, which sum to 1.
    """
    workspaces = np.empty(_STATE, np.uint64), np.empty(size, np.int64)
    _draw_mixes(key, streams, differ, *workspaces, members, shares)
    members.sort(axis=2)


@compiled
def _draw_mixes(
    key: Words,
    streams: Integers,
    differ: bool,
    state: Words,
    order: Integers,
    members: Integers,
    shares: Floats,
) -> None:
    count, periods, turns = members.shape
    for row in range(count):
        _begin(state, key, streams[row])
        for period in range(periods):
            for member in range(len(order)):
                order[member] = member
            mask = np.uint64(0)
            for last in range(1, len(order)):
                mask |= np.uint64(last)
            for last in range(len(order) - 1, 0, -1):
                while mask >> _ONCE >= np.uint64(last):
                    mask >>= _ONCE
                chosen = _next_half(state) & mask
                while chosen > np.uint64(last):
                    chosen = _next_half(state) & mask
                order[last], order[chosen] = order[chosen], order[last]
            for turn in range(turns):
                members[row, period, turn] = order[turn]
            if differ:
                total = 0.0
                for turn in range(turns):
                    shares[row, period, turn] = _next_exponential(state)
                    total += shares[row, period, turn]
                for turn in range(turns):
                    shares[row, period, turn] *= 1.0 / total


# The smallest of the exponential numbers of many groups.

_MARGIN = 1e-9
"""Relative margin of the first comparison, so that rounding cannot leave out a group."""


class SmallNumbers(NamedTuple):
    """Exponential numbers of I streams up to limits.

    Attributes
    ----------
    offsets : int64[I+1]
        Numbers ``offsets[i] ... offsets[i+1] - 1`` belong to the i-th stream.
    member : int32[n]
        Group x members of a group + place in the group; ascending within a stream.
    limit : int64[n]
        Place of the number's limit among all limits.
    number : float64[n]
        The numbers.
    """

    offsets: Integers
    member: NDArray[np.int32]
    limit: Integers
    number: Floats


class ExponentialGroups:
    """Groups of exponential numbers with mean 1, of which only the small ones are drawn.

    The smallest of n is exponential with mean 1/n, the next larger by an exponential with mean
    1/(n-1), and so on (Rényi, 1953); each is at a place among those not yet taken. Group g takes
    for its k-th number the numbers 2kG + g and (2k+1)G + g of the stream with G groups: what it
    draws depends neither on other groups nor on the limits.

    Parameters
    ----------
    groups : int
        Groups of a stream.
    members : int
        Numbers of a group, 2**15 - 1 at most.
    together : int
        Streams of a call at most. Workspaces are kept for the next.
    """

    def __init__(self, groups: int, members: int, together: int) -> None:
        self._groups, self._members = groups, members
        most = together * groups + 1  # memory that is never touched costs nothing
        self._ends, self._left = np.empty((2, together), np.int64)
        self._group, self._limit, self._last, self._begins, self._free = np.empty(
            (5, most), np.int32
        )
        self._step, self._drawn = np.empty(most), np.empty(most, _DRAWN)

    def up_to(self, keys: Words, streams: Integers, limits: Floats) -> SmallNumbers:
        """Numbers that do not exceed limits; where they hardly do, rounding may decide.

        Parameters
        ----------
        keys : uint64[I, 2]
            Key of each of I streams.
        streams : int64[I]
            Their instances.
        limits : float64[I, rows, columns]
            Limits of the groups, of which each row stands for several rows of groups. Groups are a
            multiple of all limits, and the columns are a multiple of four.
        """
        count, group, limit, step = len(streams), self._group, self._limit, self._step
        ends, left, bounds = self._ends[:count], self._left[:count], np.empty(limits.shape[2])
        draws = keys, streams, self._groups, self._members
        begun = remaining = _keep_small(*draws, limits, bounds, ends, group, limit, step)
        left[:] = ends
        drawn, taken = 0, 0
        while remaining:
            if drawn + remaining > len(self._drawn):
                self._drawn = np.concatenate([self._drawn, np.empty(drawn + remaining, _DRAWN)])
            steps = step[:remaining]
            np.log1p(np.negative(steps, out=steps), out=steps)
            of_left = *draws, limits.reshape(-1), group, limit, taken, left, self._last, step
            drawn = _draw_next(*of_left, drawn, self._drawn)
            remaining, taken = int(left[-1]), taken + 1
        offsets, begins = np.zeros(count + 1, np.int64), self._begins[: begun + 1]
        member, limit_of = np.empty(drawn, np.int32), np.empty(drawn, np.int64)
        numbers = SmallNumbers(offsets, member, limit_of, np.empty(drawn))
        begins[:] = 0
        listed = ends, group, limit, self._members, self._drawn[:drawn], begins, self._free
        _put_in_order(*listed, offsets, member, limit_of, numbers.number)
        return numbers


_DRAWN = np.dtype(
    [("by", "i4"), ("before", "i4"), ("chosen", "i2"), ("place", "i2"), ("number", "f8")],
    align=True,
)
"""A number that was drawn: its group among those that are kept, the number that this drew before,
the free place that was chosen, and the member that was there."""


@compiled
def _keep_small(
    keys: Words,
    streams: Integers,
    groups: int,
    members: int,
    limits: Floats,
    bounds: Floats,
    ends: Integers,
    group: NDArray[np.int32],
    limit: NDArray[np.int32],
    number: Floats,
) -> int:
    """Fill in the groups whose smallest number may lie below its limit; return how many.

    Filled in are the group, the place of its limit and its first number, of which a stream has
    those up to its end, and what comes last counts for nothing. That number makes a smallest one
    up to x/n if it does not exceed ``1 - exp(-x)``, which is x / (1 + x/2) at most.
    """
    _, limit_rows, columns = limits.shape
    repeated = groups // (limit_rows * columns)
    kept = 0
    for row in range(len(streams)):
        stream, even, odd = np.uint64(streams[row]), keys[row, 0], keys[row, 1]
        begin = 0
        for of_row in range(limit_rows):
            first = (row * limit_rows + of_row) * columns
            for column in range(columns):
                most = members * limits[row, of_row, column]
                bounds[column] = most / (1.0 + 0.5 * most) * (1.0 + _MARGIN)
            for _ in range(repeated):
                for column in range(0, columns, _WORDS):
                    place = begin + column
                    words = _words(np.uint64(place // _WORDS + 1), stream, even, odd)
                    for word in range(_WORDS):  # without a branch, which would often be a surprise
                        of_group = _number(words[word])
                        group[kept], limit[kept] = place + word, first + column + word
                        number[kept] = of_group
                        kept += of_group <= bounds[column + word]
                begin += columns
        ends[row] = kept
    return kept


@compiled
def _number_at(place: int, stream: np.uint64, even: np.uint64, odd: np.uint64) -> float:
    return _number(_words(np.uint64(place // _WORDS + 1), stream, even, odd)[place % _WORDS])


@compiled
def _draw_next(
    keys: Words,
    streams: Integers,
    groups: int,
    members: int,
    limits: Floats,
    group: NDArray[np.int32],
    limit: NDArray[np.int32],
    taken: int,
    ends: Integers,
    last: NDArray[np.int32],
    step: Floats,
    count: int,
    drawn: NDArray[Any],
) -> int:
    """Draw the next number of all groups that are left, and keep those groups that it leaves.

    Groups that are left have, up to the end of each stream, what they drew last, and the logarithm
    of the number that makes the next step. Returns how many numbers are drawn by now.
    """
    left, begin = 0, 0
    for row in range(len(streams)):
        stream, even, odd = np.uint64(streams[row]), keys[row, 0], keys[row, 1]
        for each in range(begin, ends[row]):
            before, by, number = -1, each, 0.0
            if taken > 0:
                before = last[each]
                by, number = drawn[before].by, drawn[before].number
            number -= step[each] / (members - taken)
            highest = limits[limit[by]]
            if number > highest:
                continue
            # A step of the Fisher-Yates shuffle: a random free place is swapped to the front.
            at = (2 * taken + 1) * groups + group[by]
            chosen = taken + int(_number_at(at, stream, even, odd) * (members - taken))
            place, earlier = chosen, before
            for swapped in range(taken - 1, -1, -1):  # what the swaps before have put there
                if drawn[earlier].chosen == place:
                    place = swapped
                earlier = drawn[earlier].before
            record = drawn[count]
            record.by, record.before, record.number = by, before, number
            record.chosen, record.place = chosen, place
            # The next step is this number or more, over those that are left.
            least = _number_at(at + groups, stream, even, odd)
            last[left], step[left] = count, least
            left += taken + 1 < members and number + least / (members - taken - 1) <= highest
            count += 1
        begin, ends[row] = ends[row], left
    return count


@compiled
def _put_in_order(
    ends: Integers,
    group: NDArray[np.int32],
    limit: NDArray[np.int32],
    members: int,
    drawn: NDArray[Any],
    begins: NDArray[np.int32],
    free: NDArray[np.int32],
    offsets: Integers,
    member: NDArray[np.int32],
    limit_of: Integers,
    number: Floats,
) -> None:
    """Fill in `SmallNumbers`; begins, zeros for all groups that are kept and one more, and free."""
    for each in range(len(drawn)):
        begins[drawn[each].by + 1] += 1
    for by in range(len(begins) - 1):
        free[by] = begins[by]
        begins[by + 1] += begins[by]
    for row in range(len(ends)):
        offsets[row + 1] = begins[ends[row]]
    for each in range(len(drawn)):
        by = drawn[each].by
        of_member = group[by] * members + drawn[each].place
        place = free[by]
        free[by] += 1
        limit_of[place] = limit[by]
        while place > begins[by] and member[place - 1] > of_member:
            member[place], number[place] = member[place - 1], number[place - 1]
            place -= 1
        member[place], number[place] = of_member, drawn[each].number
