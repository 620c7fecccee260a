"""Registers of a role: how often and when they are written, and what they hold then."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.traces.patterns import Patterns
from mcage.traces.profiles.characterizing.contents import (
    Written,
    contents_of,
    exponents_of,
    states_of,
)
from mcage.traces.profiles.characterizing.steps import step_of_writes, steps_of
from mcage.traces.profiles.characterizing.values import Values
from mcage.traces.profiles.levels import levels_of, rounded, trend_of
from mcage.traces.profiles.profile import LAST, PATTERNS, Contents, Register, Value

_AT_ONCE = 4096
_BY_HELD, _PARTS = 16, 32
"""Parts of lives by the time to the next write, and in all, by that to the last read."""
_BYTES = np.array([0xFF << 8 * byte for byte in range(4)], np.uint32)


@dataclass(frozen=True, eq=False)
class Seen:
    """What is seen of a trace's values: pattern and lanes of each besides the values themselves.

    Attributes
    ----------
    values : Values
        The values.
    contents : uint32[rows, components]
        Register contents.
    geometry : SliceGeometry
        The slice.
    patterns : Patterns
        Patterns of the rows.
    code : int64[values]
        Pattern with its width; -1 of value 0.
    features : float64[values, features]
        What writes are compared by to tell steps apart.
    lanes : int64[values]
        Index into the lane masks of the kernel.
    begin, active : int64[windows]
        Cycle of the allocation, and cycles from there to the last access.
    """

    values: Values
    contents: NDArray[np.uint32]
    geometry: SliceGeometry
    patterns: Patterns
    code: NDArray[np.int64]
    features: NDArray[np.float64]
    lanes: NDArray[np.int64]
    begin: NDArray[np.int64]
    active: NDArray[np.int64]


def register_of(seen: Seen, which: NDArray[np.int64]) -> Register:
    """Characterize a register.

    Parameters
    ----------
    seen : Seen
        The trace.
    which : int64[n]
        Its values in all windows of a role, in the order of windows and time.
    """
    values = seen.values
    number, writes = values.number[which], values.writes[which]
    first, last = number == 1, (number == writes) & (number > 0)
    turn = np.flatnonzero((number > 0) & ~last)
    steps = steps_of(number[turn], seen.features[which[turn]])
    step = np.where(last, LAST, step_of_writes(steps, int(number.max(initial=0)))[number])
    kinds = np.stack([step, seen.code[which], seen.lanes[which]], axis=1)
    distinct, kind = np.unique(kinds, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    span = _span(values, which)
    of_window = np.maximum(seen.active[values.window[which]], 1)
    at = (values.begin[which] - seen.begin[values.window[which]]) / of_window
    drawn = tuple(_numbers_of(seen, which, kind, index, span) for index in range(len(distinct)))
    return Register(
        writes=tuple(levels_of(writes[number == 0])),
        written=_written(at[first], at[last]),
        steps=steps,
        values=tuple(
            Value(
                step=int(step),
                pattern=PATTERNS[code],
                lanes=int(lanes),
                **of_value,
            )
            for (step, code, lanes), of_value in zip(distinct, drawn, strict=True)
        ),
    )


def _written(
    first: NDArray[np.float64], last: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """First and last write of windows, in parts by the time between them."""
    if not len(first):
        return ((0.0, 0.0),)
    order = np.lexsort((first, last - first))
    parts = tuple(zip(trend_of(first[order]), trend_of(last[order]), strict=True))
    return parts[:1] if len(set(parts)) == 1 else parts


def features_of(
    values: Values,
    contents: NDArray[np.uint32],
    patterns: Patterns,
    code: NDArray[np.int64],
    all_lanes: np.uint64,
) -> NDArray[np.float64]:
    """What writes are compared by to tell steps apart: float64[values, features].

    Each is about from 0 to 1, but for the times: one that is eight times as long counts as 0.12.
    """
    row, before = np.maximum(values.row, 0), np.maximum(np.roll(values.row, 1), 0)
    everywhere = np.ones((1, 1), np.bool_)
    _, ones, mixed = states_of(contents, everywhere)
    lanes = contents.shape[1]
    changed = np.empty(len(row))
    for start in range(0, len(row), _AT_ONCE):
        chunk = slice(start, start + _AT_ONCE)
        differs = contents[row[chunk]] ^ contents[before[chunk]]
        changed[chunk] = np.bitwise_count(differs).sum(axis=1) / (32 * lanes)
    count = np.bitwise_count
    numbers = [
        *(code == pattern for pattern in range(len(PATTERNS) - 1)),
        values.mask != all_lanes,
        count(values.mask) / lanes,
        *(count(mixed & byte)[row] / 8 for byte in _BYTES),
        *(count(ones & byte)[row] / 8 for byte in _BYTES),
        (1 + exponents_of(patterns.delta_e))[row] / 16,
        (1 + exponents_of(patterns.delta_b))[row] / 16,
        np.where(values.number > 1, changed, 0),
        np.minimum(values.reads, 4) / 4,
        np.log2(1 + values.end - values.begin) / 25,
    ]
    return np.stack([np.asarray(each, np.float64) for each in numbers], axis=1)


def _span(values: Values, which: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cycles from the first to the last write of the register in the window of each value."""
    begin, number = values.begin[which], values.number[which]
    starts = np.flatnonzero(number == 0)
    writes = values.writes[which[starts]]
    first = np.where(writes > 0, begin[np.minimum(starts + 1, len(begin) - 1)], 0)
    last = np.where(writes > 0, begin[starts + writes], 0)
    return np.repeat(last - first, writes + 1)


def _numbers_of(
    seen: Seen,
    which: NDArray[np.int64],
    kind: NDArray[np.int64],
    index: int,
    span: NDArray[np.int64],
) -> dict[str, Any]:
    """Numbers of the values of a kind, as `Value` names them."""
    values = seen.values
    chosen = np.flatnonzero(kind == index)
    at = which[chosen]
    last = values.number[at] == values.writes[at]
    following = kind[chosen[~last] + 1]
    counts = np.bincount(following) if len(following) else np.zeros(0)
    return {
        "count": len(at),
        "then": {
            int(then): rounded(counts[then] / counts.sum()) for then in np.flatnonzero(counts)
        },
        "lives": _lives(values, at, span[chosen]),
        "other_reads": tuple(levels_of(_other_reads(values, at))),
        "contents": _contents(seen, at),
    }


def _lives(
    values: Values, at: NDArray[np.int64], span: NDArray[np.int64]
) -> tuple[tuple[float, float, float], ...]:
    """Lives of values in at most 32 parts of equal weight, the shortest first."""
    life, reads = values.end[at] - values.begin[at], values.reads[at]
    to_last_read = np.where(reads > 0, values.last_read[at] - values.begin[at], 0)
    between = (values.number[at] > 0) & (values.number[at] < values.writes[at])
    held = np.where(between, life / np.maximum(span, 1), 0)
    order = np.lexsort((reads, to_last_read, held))
    by_held = np.empty(len(at), np.int64)
    by_held[order] = np.arange(len(at)) * _BY_HELD // len(at)
    order = np.lexsort((reads, to_last_read, by_held))
    share = (to_last_read / np.maximum(life, 1))[order]
    # A part without reads takes the mean of all: what is rounded down to none asks for no time.
    weights = np.array(trend_of((reads > 0)[order].astype(np.float64), _PARTS))
    shares = np.array(trend_of(share, _PARTS)) / np.maximum(weights, 1e-9)
    rows = zip(trend_of(held[order], _PARTS), trend_of(reads[order], _PARTS), shares, strict=True)
    parts = tuple(
        (float(f"{held:.4g}"), float(f"{count:.4g}"), float(f"{min(share, 1.0):.4g}"))
        for held, count, share in rows
    )
    return parts[:1] if len(set(parts)) == 1 else parts


def _contents(seen: Seen, at: NDArray[np.int64]) -> Contents | None:
    if seen.code[at[0]] < 0:
        return None
    values = seen.values
    row, before = values.row[at], np.maximum(values.row[at - 1], 0)
    lane = np.arange(seen.geometry.components, dtype=np.uint64)
    mask = values.mask[at]
    return contents_of(
        Written(
            values=seen.contents[row],
            before=seen.contents[before],
            first=values.number[at] == 1,
            patterns=_taken(seen.patterns, row),
            patterns_before=_taken(seen.patterns, before),
            code=seen.code[at],
            code_before=seen.code[at - 1],
            lanes=(mask[:, None] >> lane & np.uint64(1)).astype(np.bool_),
        ),
        seen.geometry,
    )


def _taken(patterns: Patterns, row: NDArray[np.int64]) -> Patterns:
    return Patterns(patterns.code[row], patterns.delta_e[row], patterns.delta_b[row])


def _other_reads(values: Values, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """Times of all reads but the last of a value, as shares of that of the last."""
    first = np.searchsorted(values.read_value, at)
    count = values.reads[at]
    others = np.maximum(count - 1, 0)
    value = np.repeat(at, others)
    place = np.arange(len(value)) - np.repeat(np.cumsum(others) - others, others)
    cycle = values.read_cycle[np.repeat(first, others) + place]
    begin = values.begin[value]
    shares: NDArray[np.float64] = (cycle - begin) / np.maximum(values.last_read[value] - begin, 1)
    return shares
