"""Contents of registers: planes of bits, what they become from one value to the next."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.traces.patterns import OTHER, Patterns, first_block_fits, wc_bytes, wc_sizes
from mcage.traces.profiles.profile import REGULAR, Bits, Contents

_ROWS_AT_ONCE = 4096
_DIGITS = 3
_LINKED = 0.98
"""Largest share of lanes that keep their bits: where all do, a plane is kept."""


def bits_of(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Bits of words, the least significant first: [..., 32]."""
    bytes_ = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
    return np.unpackbits(bytes_.reshape(*words.shape, 4), axis=-1, bitorder="little")


def widths_of(values: NDArray[np.uint32], code: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Patterns, those that are not regular by the width of differences from lane 0: [rows]."""
    _, byte, two_bytes, _ = wc_sizes(values.shape[1])
    sizes = wc_bytes(values)
    of_width = np.select([sizes <= byte, sizes == two_bytes], [OTHER, OTHER + 1], OTHER + 2)
    return np.where(code == OTHER, of_width, code.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Written:
    """Values of one kind: [n, components] or [n].

    Attributes
    ----------
    values, before : uint32[n, components]
        Contents, and those before in the same register and window.
    first : bool[n]
        Whether there are none before.
    patterns, patterns_before : Patterns
        Patterns of both.
    code, code_before : int64[n]
        Patterns with widths of both; -1 before the first value.
    lanes : bool[n, components]
        Which lanes were written.
    """

    values: NDArray[np.uint32]
    before: NDArray[np.uint32]
    first: NDArray[np.bool_]
    patterns: Patterns
    patterns_before: Patterns
    code: NDArray[np.int64]
    code_before: NDArray[np.int64]
    lanes: NDArray[np.bool_]


def contents_of(written: Written, geometry: SliceGeometry) -> Contents:
    """Characterize contents of a kind."""
    alike = ~written.first & (written.code == written.code_before)
    same = alike & (written.values == written.before).all(axis=1)
    left = ~same
    regular = int(written.code[0]) < REGULAR
    # What is the same tells nothing of how planes change.
    values, before = written.values[left], written.before[left]
    lanes, first = written.lanes[left].copy(), written.first[left]
    lanes[first] = True
    if regular:
        values, before, lanes = values[:, :1], before[:, :1], np.ones((len(values), 1), np.bool_)
    planes = _transitions(values, before, first, lanes)
    if regular:
        equal = (written.patterns.delta_e == written.patterns_before.delta_e) & (
            written.patterns.delta_b == written.patterns_before.delta_b
        )
        return Contents(
            deltas=_deltas(written.patterns, left & ~(equal & alike)),
            same=_share(same.sum(), alike.sum()),
            same_deltas=_share((equal & alike & left).sum(), (alike & left).sum()),
            **planes,
        )
    fits = first_block_fits(written.values, geometry, None)
    return Contents(
        same=_share(same.sum(), alike.sum()),
        first_block=_share(fits.sum(), np.int64(len(fits))),
        **planes,
    )


def states_of(
    values: NDArray[np.uint32], lanes: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Words of the planes that are '0', '1' and mixed in the given lanes: uint32[n] each."""
    active = np.where(lanes, np.uint32(0xFFFFFFFF), np.uint32(0))
    ones = np.bitwise_and.reduce(values | ~active, axis=1)
    any_ones = np.bitwise_or.reduce(values & active, axis=1)
    return ~any_ones, ones, any_ones & ~ones


def _transitions(
    values: NDArray[np.uint32],
    before: NDArray[np.uint32],
    first: NDArray[np.bool_],
    lanes: NDArray[np.bool_],
) -> dict[str, Any]:
    """What planes become, by what they were, as `Contents` names it."""
    if not len(values):
        return {
            "was_zero": (0.0, 0.0),
            "was_one": (1.0, 0.0),
            "was_mixed": (0.0, 1.0),
            "kept": 1.0,
        }
    active = np.where(lanes, np.uint32(0xFFFFFFFF), np.uint32(0))
    _, ones, mixed = states_of(values, lanes)
    differs = values ^ before
    unchanged = ~np.bitwise_or.reduce(differs & active, axis=1)
    opposite = np.bitwise_and.reduce(differs | ~active, axis=1)
    again = np.where(first, np.uint32(0), np.uint32(0xFFFFFFFF))
    of_before = tuple(state & again for state in states_of(before, lanes))
    both = of_before[2] & mixed
    kept, inverted = both & unchanged, both & opposite
    anew = mixed & ~kept & ~inverted
    shares: dict[str, Any] = {}
    if first.any():
        shares["first"] = _become(ones, mixed, ~again, (0.0, 0.0))
    if not first.all():
        of_any = _become(ones, mixed, again, (0.0, 0.0))
        shares["after"] = of_any
        for name, state in zip(("was_zero", "was_one", "was_mixed"), of_before, strict=True):
            # Of a state that was not seen, that bit becomes what it becomes of any.
            of_state = _become(ones, mixed, state, of_any)
            if of_state != of_any:
                shares[name] = of_state
    count = np.maximum(_count(both), 1)
    shares["kept"] = _bits(_count(kept), count)
    shares["inverted"] = _bits(_count(inverted), count)
    return shares | _lanes(values, before, active, anew, anew & both)


def _become(
    ones: NDArray[np.uint32],
    mixed: NDArray[np.uint32],
    state: NDArray[np.uint32],
    else_: tuple[Bits, Bits],
) -> tuple[Bits, Bits]:
    """Shares of planes that are '1', and mixed, after a state; where none was in it, others."""
    count = _count(state)
    become = (_count(ones & state), _count(mixed & state))
    of_one, of_mixed = (
        _compact(np.where(count > 0, after / np.maximum(count, 1), instead))
        for after, instead in zip(become, else_, strict=True)
    )
    return of_one, of_mixed


def _lanes(
    values: NDArray[np.uint32],
    before: NDArray[np.uint32],
    active: NDArray[np.uint32],
    anew: NDArray[np.uint32],
    again: NDArray[np.uint32],
) -> dict[str, Any]:
    """How lanes differ in planes that are mixed anew, and from before in those mixed again."""
    sums = np.zeros((11, COMPONENT_BITS))
    pairs = active[:, 1:] & active[:, :-1]
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        value, earlier, here = values[rows], before[rows], active[rows]
        of_fresh, of_again = here & (anew & ~again)[rows, None], here & again[rows, None]
        fresh_pairs = pairs[rows] & (anew & ~again)[rows, None]
        again_pairs = pairs[rows] & again[rows, None]
        differing = value[:, 1:] ^ value[:, :-1]
        words = (
            of_fresh,
            value & of_fresh,
            fresh_pairs,
            differing & fresh_pairs,
            of_again,
            earlier & of_again,
            earlier & value & of_again,
            ~earlier & value & of_again,
            again_pairs,
            differing & again_pairs,
            (earlier[:, 1:] ^ earlier[:, :-1]) & again_pairs,
        )
        for place, each in enumerate(words):
            sums[place] += bits_of(each).sum(axis=(0, 1), dtype=np.int64)
    lanes, ones, fresh, differ, both, ones_before, one_to_one, zero_to_one, pair, now, old = sums

    def share(counts: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
        return counts / np.maximum(of, 1)

    # A lane keeps its bit (or inverts it) in a share of lanes; in the others it is drawn by chance.
    of_one, of_zero = share(one_to_one, ones_before), share(zero_to_one, both - ones_before)
    linked = np.clip(of_one - of_zero, -_LINKED, _LINKED)
    left = 1 - np.abs(linked)
    again_ones = np.clip(np.minimum(of_one, of_zero) / left, 0, 1)
    before_one = share(ones_before, both)
    before_one = np.where(linked < 0, 1 - before_one, before_one)
    mixed_pair = before_one * (1 - again_ones) + again_ones * (1 - before_one)
    explained = linked**2 * share(old, pair) + 2 * np.abs(linked) * left * mixed_pair
    again_differ = np.clip((share(now, pair) - explained) / left**2, 0, 1)
    # Of planes that were not seen to become mixed, or to be mixed again, lanes are as in all.
    ones_of_any = share(ones + one_to_one + zero_to_one, lanes + both)
    differ_of_any = share(differ + now, fresh + pair)
    numbers: dict[str, Any] = {
        "mixed_ones": _compact(np.where(lanes > 0, share(ones, lanes), ones_of_any), 2),
        "neighbours": _compact(np.where(fresh > 0, share(differ, fresh), differ_of_any), 2),
    }
    if both.any():
        numbers |= {
            "linked": _compact(np.where(both > 0, linked, 0), 2),
            "again_ones": _compact(np.where(both > 0, again_ones, ones_of_any), 2),
            "again_neighbours": _compact(np.where(pair > 0, again_differ, differ_of_any), 2),
        }
    return numbers


def _count(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = bits_of(words).sum(axis=0, dtype=np.int64)
    return counts


def _share(count: np.number[Any], of: np.number[Any]) -> float:
    return round(float(count) / max(float(of), 1.0), _DIGITS)


def _bits(counts: NDArray[np.number[Any]], of: NDArray[np.number[Any]]) -> Bits:
    """Counts as shares, bit by bit; 0 where there is nothing to count."""
    return _compact(counts / np.maximum(of, 1))


def _compact(shares: NDArray[np.float64], digits: int = _DIGITS) -> "float | tuple[float, ...]":
    numbers = tuple(round(float(share), digits) + 0.0 for share in shares)
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _deltas(patterns: Patterns, fresh: NDArray[np.bool_]) -> tuple[tuple[int, int, float], ...]:
    """Exponents of the deltas of contents that do not have those before, else of all."""
    exponents = np.stack([exponents_of(patterns.delta_e), exponents_of(patterns.delta_b)], axis=1)
    exponents = exponents[fresh] if fresh.any() else exponents
    pairs, counts = np.unique(exponents, axis=0, return_counts=True)
    return tuple(
        (int(e), int(b), _share(count, counts.sum()))
        for (e, b), count in zip(pairs, counts, strict=True)
    )


def exponents_of(deltas: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Exponents of deltas; -1 of a delta of 0."""
    return np.where(deltas == 0, -1, np.log2(np.maximum(deltas, 1))).astype(np.int64)
