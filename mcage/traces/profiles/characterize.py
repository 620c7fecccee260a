"""A trace as a profile: statistics from which similar traces are drawn."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.traces import profiles
from mcage.traces.model import MOST_REGISTERS, READ, WRITE, Trace
from mcage.traces.patterns import PATTERN_NAMES, Patterns, TraceSummary, classify, summarize_trace
from mcage.traces.profiles import measures
from mcage.traces.transforms import last_accesses

# Lives of values: what a register of a window holds, from a write to the next.


@dataclass(frozen=True, eq=False)
class Values:
    """Values of all registers of all windows, register by register, in the order of time.

    What a register holds before its first write counts as its value 0. [values] each.

    Attributes
    ----------
    window, register, number : int64
        Window, register in it, number of the value.
    writes : int64
        Writes of the register in the window.
    begin, end : int64
        Cycles of its write, or of the allocation, and of the next write, or of the window's last
        access.
    row : int64
        Row of the trace's values; -1 of value 0.
    mask : uint64
        Lanes of the write; 0 of value 0.
    reads, last_read : int64
        Reads, and the cycle of the last one, -1 without.
    read_value, read_cycle : int64[reads]
        Value and cycle of each read.
    """

    window: NDArray[np.int64]
    register: NDArray[np.int64]
    number: NDArray[np.int64]
    writes: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    mask: NDArray[np.uint64]
    reads: NDArray[np.int64]
    last_read: NDArray[np.int64]
    read_value: NDArray[np.int64]
    read_cycle: NDArray[np.int64]

    @property
    def again(self) -> NDArray[np.int64]:
        """Values that were written over others, not the first of a register in its window."""
        return np.flatnonzero(self.number > 1)


def values_of(trace: Trace) -> Values:
    """Follow the values of a valid trace."""
    sizes = trace.reg[trace.alloc_event].astype(np.int64)
    windows = np.repeat(np.arange(trace.windows), sizes)
    first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    opening = windows * MOST_REGISTERS + np.arange(len(windows)) - np.repeat(first, sizes)
    accesses = np.flatnonzero(trace.kind >= WRITE)
    of_accesses = trace.window_of_event()[accesses] * MOST_REGISTERS + trace.reg[accesses]
    order = np.argsort(np.concatenate((opening, of_accesses)), kind="stable")
    place = np.concatenate((opening, of_accesses))[order]
    allocated = trace.cycle[trace.alloc_event].astype(np.int64)
    cycle = np.concatenate((allocated[windows], trace.cycle[accesses]))[order]
    event = np.concatenate((np.full(len(opening), -1), accesses))[order]
    is_read = (event >= 0) & (trace.kind[event] == READ)

    begins = np.flatnonzero(~is_read)
    value_of = np.cumsum(~is_read) - 1
    place, begin, event = place[begins], cycle[begins], event[begins]
    starts = np.flatnonzero(event < 0)
    of_register = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(event)))
    number = np.arange(len(event)) - starts[of_register]
    writes = np.diff(starts, append=len(event))[of_register] - 1
    window = place // MOST_REGISTERS
    final = number == writes
    end = np.where(final, last_accesses(trace)[window], np.append(begin[1:], 0))
    last_read = np.full(len(event), -1)
    np.maximum.at(last_read, value_of[is_read], cycle[is_read])
    return Values(
        window=window,
        register=place % MOST_REGISTERS,
        number=number,
        writes=writes,
        begin=begin,
        end=end,
        row=np.where(event < 0, -1, trace.value[event]).astype(np.int64),
        mask=np.where(event < 0, np.uint64(0), trace.exec_mask[event]),
        reads=np.bincount(value_of[is_read], minlength=len(event)),
        last_read=last_read,
        read_value=value_of[is_read],
        read_cycle=cycle[is_read],
    )


# Statistics of a whole trace, in numbers that a reader can compare: nothing is drawn from them.

TENTHS = 10
STATISTICS_MOST_MASKS, MOST_HOT, MOST_READS = 8, 8, 4
_ROWS_AT_ONCE = 4096


def statistics_of(
    trace: Trace,
    summary: TraceSummary,
    windows: measures.Windows,
    values: Values,
    code: NDArray[np.int64],
) -> dict[str, Any]:
    """Statistics of a trace, by key: docs/trace-profiles.md.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    summary : TraceSummary
        What ``mcage trace show`` prints of it.
    windows, values : Windows, Values
        Its windows and values.
    code : int64[values]
        Pattern of each value; -1 of those before the first write.
    """
    lifetimes = windows.end - windows.begin
    return {
        "cycles": trace.cycles,
        "windows": {
            "count": trace.windows,
            "work_groups": int(windows.group.max()) + 1,
            "sizes": {
                str(size): profiles.rounded(np.mean(_sizes(trace) == size))
                for size in trace.window_sizes
            },
            "lifetime_cycles": profiles.levels_of(lifetimes, TENTHS),
            "active_cycles": profiles.levels_of(windows.active, TENTHS),
            "allocation_interval_cycles": profiles.levels_of(
                np.diff(np.sort(windows.begin)), TENTHS
            ),
        },
        "concurrency": _concurrency(trace, summary),
        "rates": {
            "writes_per_cycle": profiles.rounded(trace.writes / trace.cycles),
            "reads_per_cycle": profiles.rounded(trace.reads / trace.cycles),
            "writes_per_window": profiles.rounded(trace.writes / trace.windows),
            "reads_per_window": profiles.rounded(trace.reads / trace.windows),
        },
        "patterns": {
            "shares": {
                key: profiles.rounded(share) for key, share in summary.pattern_shares.items()
            },
            "transitions": _transitions(values, code),
            "compressible": _rounded(summary.compressible_shares),
            "mispredicted": _rounded(summary.mispredicted_shares),
            "warped_compression": _rounded(summary.wc_shares),
        },
        "divergence": _divergence(trace, summary, values),
        "bits": {
            name: _bits(trace, values, np.flatnonzero(code == pattern))
            for pattern, name in enumerate(PATTERN_NAMES)
            if (code == pattern).any()
        },
        "lifetimes": _lifetimes(values),
        "hot_registers": _hot(trace, windows, values),
    }


def _sizes(trace: Trace) -> NDArray[np.int64]:
    return trace.reg[trace.alloc_event].astype(np.int64)


def _rounded(shares: dict[str, float]) -> dict[str, float]:
    return {key: profiles.rounded(share) for key, share in shares.items()}


def _concurrency(trace: Trace, summary: TraceSummary) -> dict[str, Any]:
    lasting = np.diff(trace.cycle, append=trace.cycles)
    time = np.bincount(trace.open_windows(), weights=lasting) / trace.cycles
    time[0] += trace.cycle[0] / trace.cycles
    return {
        "most_open": trace.concurrent_windows,
        "mean_open": profiles.rounded(float(time @ np.arange(len(time)))),
        "time_by_open": [profiles.rounded(share) for share in time],
        "peak_utilisation": profiles.rounded(summary.peak_utilisation),
        "mean_utilisation": profiles.rounded(summary.mean_utilisation),
    }


def _transitions(values: Values, code: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    again = values.again
    counts = np.zeros((len(PATTERN_NAMES), len(PATTERN_NAMES)))
    np.add.at(counts, (code[again - 1], code[again]), 1)
    return {
        before: {
            after: profiles.rounded(share)
            for after, share in zip(PATTERN_NAMES, row / row.sum(), strict=True)
        }
        for before, row in zip(PATTERN_NAMES, counts, strict=True)
        if row.any()
    }


def _divergence(trace: Trace, summary: TraceSummary, values: Values) -> dict[str, Any]:
    masks, counts = np.unique(values.mask[values.number > 0], return_counts=True)
    lanes = np.bitwise_count(masks)
    most = np.argsort(-counts, kind="stable")[:STATISTICS_MOST_MASKS]
    return {
        "share": profiles.rounded(summary.divergent_share),
        "mean_lanes": profiles.rounded(float((lanes * counts).sum() / counts.sum())),
        "lane_masks": {
            f"{int(masks[i]):0{trace.geometry.components // 4}x}": profiles.rounded(
                counts[i] / counts.sum()
            )
            for i in most
        },
    }


def _bits(trace: Trace, values: Values, at: NDArray[np.int64]) -> dict[str, list[float]]:
    """Bits by position of all contents of a pattern, over all lanes: shares of 1."""
    ones, neighbours, before = np.zeros(32), np.zeros(32), np.zeros(32)
    again = at[values.number[at] > 1]
    for start in range(0, len(at), _ROWS_AT_ONCE):
        contents = trace.values[values.row[at[start : start + _ROWS_AT_ONCE]]]
        ones += measures.bits_of(contents).sum(axis=(0, 1), dtype=np.int64)
        neighbours += measures.bits_of(contents[:, 1:] ^ contents[:, :-1]).sum(
            axis=(0, 1), dtype=np.int64
        )
    for start in range(0, len(again), _ROWS_AT_ONCE):
        chunk = again[start : start + _ROWS_AT_ONCE]
        changed = trace.values[values.row[chunk]] ^ trace.values[values.row[chunk - 1]]
        before += measures.bits_of(changed).sum(axis=(0, 1), dtype=np.int64)
    lanes = trace.geometry.components

    def shares(counts: NDArray[np.float64], of: int) -> list[float]:
        return [profiles.rounded(share) for share in counts / max(of, 1)]

    return {
        "ones": shares(ones, len(at) * lanes),
        "neighbours_differ": shares(neighbours, len(at) * (lanes - 1)),
        "value_before_differs": shares(before, len(again) * lanes),
    }


def _lifetimes(values: Values) -> dict[str, Any]:
    written = values.number > 0
    again = written & (values.number < values.writes)
    read = written & (values.reads > 0)
    reads = np.minimum(values.reads[written], MOST_READS)
    counts = np.bincount(reads, minlength=MOST_READS + 1) / max(len(reads), 1)
    names = [*map(str, range(MOST_READS)), f"{MOST_READS} or more"]
    return {
        "write_to_next_write_cycles": profiles.levels_of(
            (values.end - values.begin)[again], TENTHS
        ),
        "write_to_last_read_cycles": profiles.levels_of(
            (values.last_read - values.begin)[read], TENTHS
        ),
        "reads_per_value": dict(zip(names, map(profiles.rounded, counts), strict=True)),
        "mean_reads_per_value": profiles.rounded(values.reads[written].mean()),
        "reads_before_any_write": int(values.reads[~written].sum()),
    }


def _hot(trace: Trace, windows: measures.Windows, values: Values) -> dict[str, dict[str, Any]]:
    """The registers of each kernel with most writes, and their shares of writes and reads."""
    hot: dict[str, dict[str, Any]] = {}
    for number, kernel in enumerate(trace.kernels):
        of_kernel = windows.kernel[values.window] == number
        register = values.register[of_kernel]
        writes = np.bincount(
            register, weights=values.number[of_kernel] > 0, minlength=kernel.window_size
        )
        reads = np.bincount(register, weights=values.reads[of_kernel], minlength=kernel.window_size)
        most = np.argsort(-writes, kind="stable")[:MOST_HOT]
        hot[kernel.name] = {
            str(which): {
                "writes": profiles.rounded(writes[which] / max(writes.sum(), 1)),
                "reads": profiles.rounded(reads[which] / max(reads.sum(), 1)),
            }
            for which in most.tolist()
        }
    return hot


# Registers of a role: how often and when they are written, and what they hold then.

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


def register_of(seen: Seen, which: NDArray[np.int64]) -> profiles.Register:
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
    steps = measures.steps_of(number[turn], seen.features[which[turn]])
    step = np.where(
        last, profiles.LAST, measures.step_of_writes(steps, int(number.max(initial=0)))[number]
    )
    kinds = np.stack([step, seen.code[which], seen.lanes[which]], axis=1)
    distinct, kind = np.unique(kinds, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    span = _span(values, which)
    of_window = np.maximum(seen.active[values.window[which]], 1)
    at = (values.begin[which] - seen.begin[values.window[which]]) / of_window
    drawn = tuple(_numbers_of(seen, which, kind, index, span) for index in range(len(distinct)))
    return profiles.Register(
        writes=tuple(profiles.levels_of(writes[number == 0])),
        written=_written(at[first], at[last]),
        steps=steps,
        values=tuple(
            profiles.Value(
                step=int(step),
                pattern=profiles.PATTERNS[code],
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
    parts = tuple(zip(profiles.trend_of(first[order]), profiles.trend_of(last[order]), strict=True))
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
    _, ones, mixed = measures.states_of(contents, everywhere)
    lanes = contents.shape[1]
    changed = np.empty(len(row))
    for start in range(0, len(row), _AT_ONCE):
        chunk = slice(start, start + _AT_ONCE)
        differs = contents[row[chunk]] ^ contents[before[chunk]]
        changed[chunk] = np.bitwise_count(differs).sum(axis=1) / (32 * lanes)
    count = np.bitwise_count
    numbers = [
        *(code == pattern for pattern in range(len(profiles.PATTERNS) - 1)),
        values.mask != all_lanes,
        count(values.mask) / lanes,
        *(count(mixed & byte)[row] / 8 for byte in _BYTES),
        *(count(ones & byte)[row] / 8 for byte in _BYTES),
        (1 + measures.exponents_of(patterns.delta_e))[row] / 16,
        (1 + measures.exponents_of(patterns.delta_b))[row] / 16,
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
            int(then): profiles.rounded(counts[then] / counts.sum())
            for then in np.flatnonzero(counts)
        },
        "lives": _lives(values, at, span[chosen]),
        "other_reads": tuple(profiles.levels_of(_other_reads(values, at))),
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
    weights = np.array(profiles.trend_of((reads > 0)[order].astype(np.float64), _PARTS))
    shares = np.array(profiles.trend_of(share, _PARTS)) / np.maximum(weights, 1e-9)
    rows = zip(
        profiles.trend_of(held[order], _PARTS),
        profiles.trend_of(reads[order], _PARTS),
        shares,
        strict=True,
    )
    parts = tuple(
        (float(f"{held:.4g}"), float(f"{count:.4g}"), float(f"{min(share, 1.0):.4g}"))
        for held, count, share in rows
    )
    return parts[:1] if len(set(parts)) == 1 else parts


def _contents(seen: Seen, at: NDArray[np.int64]) -> profiles.Contents | None:
    if seen.code[at[0]] < 0:
        return None
    values = seen.values
    row, before = values.row[at], np.maximum(values.row[at - 1], 0)
    lane = np.arange(seen.geometry.components, dtype=np.uint64)
    mask = values.mask[at]
    return measures.contents_of(
        measures.Written(
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


# The profile of a trace.

MOST_MASKS = 32
"""Lane masks of a kernel that are told apart; another counts as the one nearest to it."""


def characterize(trace: Trace) -> profiles.Profile:
    """Say what a trace is like, so that others like it can be drawn.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    summary = summarize_trace(trace)
    windows, values = measures.windows_of(trace), values_of(trace)
    patterns = classify(trace.values)
    code = np.where(values.row < 0, -1, patterns.code[values.row].astype(np.int64))
    widths = measures.widths_of(trace.values, patterns.code)
    of_values = np.where(values.row < 0, -1, widths[values.row])
    seen = Seen(
        values=values,
        contents=trace.values,
        geometry=trace.geometry,
        patterns=patterns,
        code=of_values,
        features=features_of(values, trace.values, patterns, of_values, trace.geometry.all_lanes),
        lanes=np.zeros(len(values.row), np.int64),
        begin=windows.begin,
        active=windows.active,
    )
    return profiles.Profile(
        format=profiles.FORMAT,
        name=trace.name,
        source={**trace.source, "digest": summary.digest},
        geometry=trace.geometry.described(),
        statistics=statistics_of(trace, summary, windows, values, code),
        kernels=tuple(
            _kernel(trace, number, windows, seen) for number in range(len(trace.kernels))
        ),
        launches=measures.launches_of(windows),
        rest=trace.cycles - int(trace.cycle[-1]),
    )


def _kernel(
    trace: Trace, number: int, windows: measures.Windows, seen: Seen
) -> profiles.KernelProfile:
    kernel, values = trace.kernels[number], seen.values
    of_kernel = windows.kernel[values.window] == number
    masks, lanes = _lanes(values.mask, of_kernel, trace.geometry.all_lanes)
    seen = replace(seen, lanes=lanes)
    members = windows.kernel == number
    roles = []
    for role in np.unique(windows.role[members]):
        in_role = members & (windows.role == role)
        of_role = np.flatnonzero(in_role[values.window])
        by_register = of_role[np.argsort(values.register[of_role], kind="stable")]
        edges = np.searchsorted(values.register[by_register], np.arange(kernel.window_size + 1))
        registers = tuple(
            register_of(seen, by_register[edges[i] : edges[i + 1]])
            for i in range(kernel.window_size)
        )
        active = tuple(profiles.levels_of(windows.share[in_role], profiles.MANY))
        roles.append(profiles.Role(active=active, registers=registers))
    times: dict[str, Any] = measures.times_of(windows, number)
    return profiles.KernelProfile(
        name=kernel.name,
        window_size=kernel.window_size,
        lane_masks=tuple(f"{int(mask):x}" for mask in masks),
        roles=tuple(roles),
        **times,
    )


def _lanes(
    mask: NDArray[np.uint64], chosen: NDArray[np.bool_], all_lanes: np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Lane masks of the chosen values, that of all lanes first, and the index of each value's."""
    masks, counts = np.unique(mask[chosen & (mask != 0)], return_counts=True)
    partial = masks != all_lanes
    most = np.argsort(-counts[partial], kind="stable")[: MOST_MASKS - 1]
    kept = np.concatenate(([all_lanes], masks[partial][most])).astype(np.uint64)
    differing = np.bitwise_count(masks[:, None] ^ kept)
    if len(kept) > 1:  # a divergent write stays divergent
        differing[partial, 0] = 255
    lanes = np.zeros(len(mask), np.int64)
    known = chosen & (mask != 0)
    lanes[known] = differing.argmin(axis=1)[np.searchsorted(masks, mask[known])]
    return kept, lanes
