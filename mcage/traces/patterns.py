"""Which values compress, by the rules of the papers, and how many of a trace do."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.traces.model import ALLOC, RELEASE, WRITE, Trace

CONSTANT, SINGLE_DELTA, DOUBLE_DELTA, OTHER = 0, 1, 2, 3
"""Patterns, as coded in ``Patterns.code``; the first three are compressible."""

PATTERN_NAMES = ("constant", "single-delta", "double-delta", "other")

GROUP = 8
"""Components of one group: the block size BS of Valero et al., IEEE TC 2019, section 4."""

_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Patterns:
    """Pattern of each register content.

    Parameters
    ----------
    code : uint8[rows]
        ``CONSTANT``, ``SINGLE_DELTA``, ``DOUBLE_DELTA`` or ``OTHER``.
    delta_e : uint32[rows]
        Difference of neighbours inside every group of 8; 0 for ``OTHER``.
    delta_b : uint32[rows]
        Difference of the first components of successive groups; 0 for ``OTHER``.
    """

    code: npt.NDArray[np.uint8]
    delta_e: npt.NDArray[np.uint32]
    delta_b: npt.NDArray[np.uint32]


def classify(values: npt.NDArray[np.uint32]) -> Patterns:
    """Tell the pattern of each register content.

    A content is regular if all differences inside every group of 8 components equal one delta_e
    and all differences between the first components of successive groups equal one delta_b, each
    of the two zero or a power of two. Constant: both zero. Single-delta: delta_b = 8 * delta_e.
    Double-delta: any other regular content.

    Parameters
    ----------
    values : uint32[rows, components]
        Register contents.

    Notes
    -----
    Valero et al., IEEE TC 2019, sections 4 and 5.
    """
    rows = len(values)
    code = np.full(rows, OTHER, np.uint8)
    delta_e = np.zeros(rows, np.uint32)
    delta_b = np.zeros(rows, np.uint32)
    for chunk in _chunks(rows):
        regular, e, b = _group_deltas(values[chunk])
        single = b == np.uint32(GROUP) * e
        zero = (e == 0) & (b == 0)
        code[chunk] = np.select(
            [~regular, zero, single], [OTHER, CONSTANT, SINGLE_DELTA], DOUBLE_DELTA
        )
        delta_e[chunk] = np.where(regular, e, 0)
        delta_b[chunk] = np.where(regular, b, 0)
    return Patterns(code, delta_e, delta_b)


def compressible(patterns: Patterns, delta_limit: int | None) -> npt.NDArray[np.bool_]:
    """Tell which contents compress, [rows].

    Parameters
    ----------
    patterns : Patterns
        From ``classify``.
    delta_limit : int or None
        Largest delta that the encoding can express, a power of two up to 2**31; 64 as published
        (three bits for each exponent). None: any power of two.

    Raises
    ------
    UserError
        If ``delta_limit`` is not a power of two.
    """
    limit = _checked_limit(delta_limit)
    fits = (patterns.code != OTHER) & (patterns.delta_e <= limit) & (patterns.delta_b <= limit)
    return np.asarray(fits, np.bool_)


def first_block_fits(
    values: npt.NDArray[np.uint32], geometry: SliceGeometry, delta_limit: int | None
) -> npt.NDArray[np.bool_]:
    """Tell which contents look compressible from their first block, [rows].

    The speculation of Toca-Diaz et al. (RRCD): the first block decides, so a content for which
    this holds, but which does not compress as a whole, is a misprediction.

    Parameters
    ----------
    values : uint32[rows, components]
        Register contents.
    geometry : SliceGeometry
        The slice, for the size of a block.
    delta_limit : int or None
        As in ``compressible``.

    Raises
    ------
    UserError
        If ``delta_limit`` is not a power of two.
    """
    limit = _checked_limit(delta_limit)
    fits = np.empty(len(values), np.bool_)
    for chunk in _chunks(len(values)):
        regular, e, b = _group_deltas(values[chunk, : geometry.block_components])
        fits[chunk] = regular & (e <= limit) & (b <= limit)
    return fits


def wc_sizes(components: int) -> tuple[int, int, int, int]:
    """Bytes of a register of so many components under Warped-Compression.

    The base alone if all components equal the first one (4); the base and the other components'
    differences from it, if these fit a signed byte each (67 of 64 components) or two (130);
    uncompressed (256).

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5.3.
    """
    base, others = 4, components - 1
    return base, base + others, base + 2 * others, 4 * components


def wc_bytes(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Give the bytes that each content takes under Warped-Compression, [rows]: see `wc_sizes`.

    Parameters
    ----------
    values : uint32[rows, components]
        Register contents.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5.3.
    """
    sizes = np.empty(len(values), np.int64)
    of_class = wc_sizes(values.shape[1])
    for chunk in _chunks(len(values)):
        deltas = (values[chunk, 1:] - values[chunk, :1]).view(np.int32)
        lowest, highest = deltas.min(axis=1), deltas.max(axis=1)
        fits = [(lowest >= -reach) & (highest < reach) for reach in (1 << 7, 1 << 15)]
        sizes[chunk] = np.select([(lowest == 0) & (highest == 0), *fits], of_class[:3], of_class[3])
    return sizes


def _group_deltas(
    values: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Whether a content is regular, and its delta_e and delta_b if it is; [rows] each."""
    # Three of their components show most contents that are not regular.
    e = values[:, 1] - values[:, 0]
    # A single group, such as a block of 8 components, does not tell delta_b.
    b = values[:, GROUP] - values[:, 0] if values.shape[1] > GROUP else np.zeros_like(e)
    regular = _is_zero_or_power_of_two(e) & _is_zero_or_power_of_two(b)
    regular &= values[:, 2] - values[:, 1] == e
    left = np.flatnonzero(regular)
    components = np.arange(values.shape[1], dtype=np.uint32)
    group, lane = components // np.uint32(GROUP), components % np.uint32(GROUP)
    expected = values[left, :1] + b[left, None] * group + e[left, None] * lane
    regular[left] = (values[left] == expected).all(axis=1)
    return regular, e, b


def _is_zero_or_power_of_two(delta: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    return np.equal(delta & (delta - np.uint32(1)), 0)


def _checked_limit(delta_limit: int | None) -> int:
    if delta_limit is None:
        return 1 << 31
    if not 0 < delta_limit <= 1 << 31 or delta_limit & (delta_limit - 1):
        raise UserError(
            f"delta limit {delta_limit} is not a power of two from 1 to 2**31; "
            "64 is the published one, none lifts it"
        )
    return delta_limit


def _chunks(rows: int) -> Iterator[slice]:
    """Slices that cover the rows, short enough to keep intermediate arrays small."""
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, rows))


# Numbers that characterize a trace: how full the slice is, and how regular its values are.

PUBLISHED_DELTA_LIMIT = 64
"""Valero et al., IEEE TC 2019, section 5.1: three bits for each exponent."""

DELTA_LIMITS = {str(PUBLISHED_DELTA_LIMIT): PUBLISHED_DELTA_LIMIT, "none": None}
"""The two limits that every share is given for, under the names that keys use."""


@dataclass(frozen=True)
class TraceSummary:
    """Numbers about one pass of a trace; every share is a fraction of 1.

    Parameters
    ----------
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
