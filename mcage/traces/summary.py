"""What a trace is like, in numbers: how full the slice is, and how regular its values are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcage.traces.model import ALLOC, RELEASE, WRITE, Kernel, Trace
from mcage.traces.patterns import (
    PATTERN_NAMES,
    classify,
    compressible,
    first_block_fits,
    wc_bytes,
    wc_sizes,
)

PUBLISHED_DELTA_LIMIT = 64
"""Valero et al., IEEE TC 2019, section 5.1: three bits for each exponent."""

DELTA_LIMITS = {str(PUBLISHED_DELTA_LIMIT): PUBLISHED_DELTA_LIMIT, "none": None}
"""The two limits that every share is given for, under the names that keys use."""


@dataclass(frozen=True)
class TraceSummary:
    """Numbers about one pass of a trace; every share is a fraction of 1.

    Parameters
    ----------
    name, digest, kernels, cycles, window_sizes, windows, generations, concurrent_windows
        As in ``Trace``.
    writes, reads : int
        Events of these kinds.
    peak_utilisation : float
        Largest share of the slice's entries that open windows held at once.
    mean_utilisation : float
        The same share, averaged over the cycles of the pass.
    pattern_shares : dict
        Of all writes, by the pattern of the register afterwards, whatever the lane mask.
    compressible_shares : dict
        Share of writes with a compressible pattern, by delta limit, whatever the lane mask.
    divergent_share : float
        Share of writes under a partial lane mask.
    mispredicted_shares : dict
        Share of writes under a full mask whose first block is compressible, but which are not as
        a whole; by delta limit.
    wc_shares : dict
        Of all writes, by the bytes of the register afterwards under Warped-Compression.
    """

    name: str
    digest: str
    kernels: tuple[Kernel, ...]
    cycles: int
    writes: int
    reads: int
    windows: int
    generations: int
    window_sizes: tuple[int, ...]
    concurrent_windows: int
    peak_utilisation: float
    mean_utilisation: float
    pattern_shares: dict[str, float]
    compressible_shares: dict[str, float]
    divergent_share: float
    mispredicted_shares: dict[str, float]
    wc_shares: dict[str, float]


def summarize_trace(trace: Trace) -> TraceSummary:
    """Count what a trace is like.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    is_write = trace.kind == WRITE
    row = trace.value[is_write]
    full = trace.exec_mask[is_write] == trace.geometry.all_lanes
    patterns = classify(trace.values)
    size = wc_bytes(trace.values)[row]
    code = patterns.code[row]
    compressible_shares, mispredicted_shares = {}, {}
    for key, limit in DELTA_LIMITS.items():
        fits = compressible(patterns, limit)
        guessed = first_block_fits(trace.values, trace.geometry, limit)
        compressible_shares[key] = _share(fits[row])
        mispredicted_shares[key] = _share(full & (guessed & ~fits)[row])
    used = _used_entries(trace)
    entries = trace.geometry.entries
    lasting = np.diff(trace.cycle, append=trace.cycles)
    return TraceSummary(
        name=trace.name,
        digest=trace.digest(),
        kernels=trace.kernels,
        cycles=trace.cycles,
        writes=trace.writes,
        reads=trace.reads,
        windows=trace.windows,
        generations=trace.generations,
        window_sizes=trace.window_sizes,
        concurrent_windows=trace.concurrent_windows,
        peak_utilisation=int(used.max()) / entries,
        mean_utilisation=int((used * lasting).sum()) / (entries * trace.cycles),
        pattern_shares={name: _share(code == i) for i, name in enumerate(PATTERN_NAMES)},
        compressible_shares=compressible_shares,
        divergent_share=_share(~full),
        mispredicted_shares=mispredicted_shares,
        wc_shares={
            str(bytes_): _share(size == bytes_) for bytes_ in wc_sizes(trace.geometry.components)
        },
    )


def _used_entries(trace: Trace) -> npt.NDArray[np.int64]:
    """Entries in open windows after each event, [events]."""
    size = trace.reg[trace.alloc_event].astype(np.int64)[trace.window_of_event()]
    opened = (trace.kind == ALLOC).astype(np.int64) - (trace.kind == RELEASE)
    return np.cumsum(opened * size)


def _share(marked: npt.NDArray[np.bool_]) -> float:
    return int(np.count_nonzero(marked)) / len(marked)
