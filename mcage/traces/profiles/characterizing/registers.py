"""Registers of a role: how often and when they are written, and what they hold then."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.traces.profiles.characterizing.contents import contents_of
from mcage.traces.profiles.characterizing.values import Values
from mcage.traces.profiles.levels import levels_of, rounded
from mcage.traces.profiles.profile import LAST, LATER, PATTERNS, STEPS, Contents, Register, Value


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
    code : int64[values]
        Pattern; -1 of value 0.
    lanes : int64[values]
        Index into the lane masks of the kernel.
    begin, active : int64[windows]
        Cycle of the allocation, and cycles from there to the last access.
    """

    values: Values
    contents: NDArray[np.uint32]
    geometry: SliceGeometry
    code: NDArray[np.int64]
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
    step = np.select([number <= STEPS, number < writes], [number, LATER], LAST)
    kinds = np.stack([step, seen.code[which], seen.lanes[which]], axis=1)
    distinct, kind = np.unique(kinds, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    first, last = number == 1, (number == writes) & (number > 0)
    span = _span(values, which)
    of_window = np.maximum(seen.active[values.window[which]], 1)
    at = (values.begin[which] - seen.begin[values.window[which]]) / of_window
    drawn = tuple(_numbers_of(seen, which, kind, index, span) for index in range(len(distinct)))
    return Register(
        writes=tuple(levels_of(writes[number == 0])),
        first_write=tuple(levels_of(at[first])),
        last_write=tuple(levels_of(at[last])),
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
    life = values.end[at] - values.begin[at]
    counts = np.bincount(following) if len(following) else np.zeros(0)
    between = ~last & (values.number[at] > 0)
    was_read = values.reads[at] > 0
    last_read = values.last_read[at] - values.begin[at]
    return {
        "count": len(at),
        "then": {
            int(then): rounded(counts[then] / counts.sum()) for then in np.flatnonzero(counts)
        },
        "held": tuple(levels_of(life[between] / np.maximum(span[chosen][between], 1))),
        "reads": tuple(levels_of(values.reads[at])),
        "last_read": tuple(levels_of(last_read[was_read] / np.maximum(life[was_read], 1))),
        "other_reads": tuple(levels_of(_other_reads(values, at))),
        "contents": _contents(seen, at),
    }


def _contents(seen: Seen, at: NDArray[np.int64]) -> Contents | None:
    if seen.code[at[0]] < 0:
        return None
    window = seen.values.window[at]
    return contents_of(
        seen.contents[seen.values.row[at]],
        int(seen.code[at[0]]),
        np.diff(window, prepend=-1) == 0,
        seen.geometry,
    )


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
