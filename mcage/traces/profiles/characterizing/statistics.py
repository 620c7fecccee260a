"""Statistics of a whole trace, in numbers that a reader can compare: nothing is drawn from them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import Trace
from mcage.traces.patterns import PATTERN_NAMES
from mcage.traces.profiles.characterizing.contents import bits_of
from mcage.traces.profiles.characterizing.values import Values
from mcage.traces.profiles.characterizing.windows import Windows
from mcage.traces.profiles.levels import levels_of, rounded
from mcage.traces.summary import TraceSummary

TENTHS = 10
MOST_MASKS, MOST_HOT, MOST_READS = 8, 8, 4
_ROWS_AT_ONCE = 4096


def statistics_of(
    trace: Trace,
    summary: TraceSummary,
    windows: Windows,
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
                str(size): rounded(np.mean(_sizes(trace) == size)) for size in trace.window_sizes
            },
            "lifetime_cycles": levels_of(lifetimes, TENTHS),
            "active_cycles": levels_of(windows.active, TENTHS),
            "allocation_interval_cycles": levels_of(np.diff(np.sort(windows.begin)), TENTHS),
        },
        "concurrency": _concurrency(trace, summary),
        "rates": {
            "writes_per_cycle": rounded(trace.writes / trace.cycles),
            "reads_per_cycle": rounded(trace.reads / trace.cycles),
            "writes_per_window": rounded(trace.writes / trace.windows),
            "reads_per_window": rounded(trace.reads / trace.windows),
        },
        "patterns": {
            "shares": {key: rounded(share) for key, share in summary.pattern_shares.items()},
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
    return {key: rounded(share) for key, share in shares.items()}


def _concurrency(trace: Trace, summary: TraceSummary) -> dict[str, Any]:
    lasting = np.diff(trace.cycle, append=trace.cycles)
    time = np.bincount(trace.open_windows(), weights=lasting) / trace.cycles
    time[0] += trace.cycle[0] / trace.cycles
    return {
        "most_open": trace.concurrent_windows,
        "mean_open": rounded(float(time @ np.arange(len(time)))),
        "time_by_open": [rounded(share) for share in time],
        "peak_utilisation": rounded(summary.peak_utilisation),
        "mean_utilisation": rounded(summary.mean_utilisation),
    }


def _transitions(values: Values, code: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    again = values.again
    counts = np.zeros((len(PATTERN_NAMES), len(PATTERN_NAMES)))
    np.add.at(counts, (code[again - 1], code[again]), 1)
    return {
        before: {
            after: rounded(share)
            for after, share in zip(PATTERN_NAMES, row / row.sum(), strict=True)
        }
        for before, row in zip(PATTERN_NAMES, counts, strict=True)
        if row.any()
    }


def _divergence(trace: Trace, summary: TraceSummary, values: Values) -> dict[str, Any]:
    masks, counts = np.unique(values.mask[values.number > 0], return_counts=True)
    lanes = np.bitwise_count(masks)
    most = np.argsort(-counts, kind="stable")[:MOST_MASKS]
    return {
        "share": rounded(summary.divergent_share),
        "mean_lanes": rounded(float((lanes * counts).sum() / counts.sum())),
        "lane_masks": {
            f"{int(masks[i]):0{trace.geometry.components // 4}x}": rounded(counts[i] / counts.sum())
            for i in most
        },
    }


def _bits(trace: Trace, values: Values, at: NDArray[np.int64]) -> dict[str, list[float]]:
    """Bits by position of all contents of a pattern, over all lanes: shares of 1."""
    ones, neighbours, before = np.zeros(32), np.zeros(32), np.zeros(32)
    again = at[values.number[at] > 1]
    for start in range(0, len(at), _ROWS_AT_ONCE):
        contents = trace.values[values.row[at[start : start + _ROWS_AT_ONCE]]]
        ones += bits_of(contents).sum(axis=(0, 1), dtype=np.int64)
        neighbours += bits_of(contents[:, 1:] ^ contents[:, :-1]).sum(axis=(0, 1), dtype=np.int64)
    for start in range(0, len(again), _ROWS_AT_ONCE):
        chunk = again[start : start + _ROWS_AT_ONCE]
        changed = trace.values[values.row[chunk]] ^ trace.values[values.row[chunk - 1]]
        before += bits_of(changed).sum(axis=(0, 1), dtype=np.int64)
    lanes = trace.geometry.components

    def shares(counts: NDArray[np.float64], of: int) -> list[float]:
        return [rounded(share) for share in counts / max(of, 1)]

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
        "write_to_next_write_cycles": levels_of((values.end - values.begin)[again], TENTHS),
        "write_to_last_read_cycles": levels_of((values.last_read - values.begin)[read], TENTHS),
        "reads_per_value": dict(zip(names, map(rounded, counts), strict=True)),
        "mean_reads_per_value": rounded(values.reads[written].mean()),
        "reads_before_any_write": int(values.reads[~written].sum()),
    }


def _hot(trace: Trace, windows: Windows, values: Values) -> dict[str, dict[str, Any]]:
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
                "writes": rounded(writes[which] / max(writes.sum(), 1)),
                "reads": rounded(reads[which] / max(reads.sum(), 1)),
            }
            for which in most.tolist()
        }
    return hot
