"""The profile of a trace."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import Trace
from mcage.traces.patterns import classify
from mcage.traces.profiles.characterizing.contents import widths_of
from mcage.traces.profiles.characterizing.registers import Seen, features_of, register_of
from mcage.traces.profiles.characterizing.statistics import statistics_of
from mcage.traces.profiles.characterizing.values import values_of
from mcage.traces.profiles.characterizing.windows import (
    Windows,
    launches_of,
    times_of,
    windows_of,
)
from mcage.traces.profiles.levels import MANY, levels_of
from mcage.traces.profiles.profile import FORMAT, KernelProfile, Profile, Role
from mcage.traces.summary import summarize_trace

MOST_MASKS = 32
"""Lane masks of a kernel that are told apart; another counts as the one nearest to it."""


def characterize(trace: Trace) -> Profile:
    """Say what a trace is like, so that others like it can be drawn.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    summary = summarize_trace(trace)
    windows, values = windows_of(trace), values_of(trace)
    patterns = classify(trace.values)
    code = np.where(values.row < 0, -1, patterns.code[values.row].astype(np.int64))
    widths = widths_of(trace.values, patterns.code)
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
    return Profile(
        format=FORMAT,
        name=trace.name,
        source={**trace.source, "digest": summary.digest},
        geometry=trace.geometry.described(),
        statistics=statistics_of(trace, summary, windows, values, code),
        kernels=tuple(
            _kernel(trace, number, windows, seen) for number in range(len(trace.kernels))
        ),
        launches=launches_of(windows),
        rest=trace.cycles - int(trace.cycle[-1]),
    )


def _kernel(trace: Trace, number: int, windows: Windows, seen: Seen) -> KernelProfile:
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
        active = tuple(levels_of(windows.share[in_role], MANY))
        roles.append(Role(active=active, registers=registers))
    times: dict[str, Any] = times_of(windows, number)
    return KernelProfile(
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
