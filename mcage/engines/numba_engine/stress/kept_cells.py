"""What is known of the stress times of each instance: bounds for all cells, sums for some bits."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.simd import COMPONENTS
from mcage.engines.numba_engine.stress.open_bits import BIT

KEPT = 2048
"""Bits of entries of an instance whose cells are kept."""


class Cells(NamedTuple):
    """Bounds of all cells of each instance, and seconds of those that have been worked out.

    Attributes
    ----------
    bounds : float64[2, instances, 256, 32]
        Seconds at '0' and at '1' that no cell with this bit of this entry exceeds.
    before : float64[2, instances, 256, 32]
        Bounds before the latest epoch.
    kept : int32[instances, 256, 32]
        Place at which the cells of the bit are kept, or -1.
    used : int64[instances]
        How many bits are kept.
    epochs : int64[instances, KEPT + 32]
        Epochs that are in `seconds`. The last 32 places are for bits that find no other.
    seconds : float64[instances, KEPT + 32, 2, 64]
        Seconds at '0' and at '1'.
    """

    bounds: NDArray[np.float64]
    before: NDArray[np.float64]
    kept: NDArray[np.int32]
    used: NDArray[np.int64]
    epochs: NDArray[np.int64]
    seconds: NDArray[np.float64]


class FaultFreeState(NamedTuple):
    """What instances have been through before their first fault.

    Attributes
    ----------
    seconds : float64[instances, kernels]
        Time spent on each kernel.
    at_zero, at_one : float64[kernels, 524288]
        Duty cycles at '0' and at '1' on a slice without faults.
    """

    seconds: NDArray[np.float64]
    at_zero: NDArray[np.float64]
    at_one: NDArray[np.float64]


class Epoch(NamedTuple):
    """An epoch of an instance.

    Attributes
    ----------
    number : int
        Epochs of the instance before it.
    scale : float
        Seconds that a cycle stands for.
    """

    number: Any
    scale: Any


def new_cells(instances: int) -> Cells:
    """Make cells that have not been stressed yet."""
    # Pages that are never touched take no memory.
    return Cells(
        np.zeros((2, instances, ENTRIES, BITS)),
        np.zeros((2, instances, ENTRIES, BITS)),
        np.full((instances, ENTRIES, BITS), -1, dtype=np.int32),
        np.zeros(instances, dtype=np.int64),
        np.empty((instances, KEPT + BITS), dtype=np.int64),
        np.empty((instances, KEPT + BITS, 2, COMPONENTS)),
    )


@inner
def raise_bounds(cells: Any, instance: int, at_most: Any, scale: float) -> None:
    """Raise bounds by what an epoch has added at most: cycles T[256, 64], see `Views`."""
    bounds, before = cells.bounds, cells.before
    for entry in range(ENTRIES):
        for bit in range(BITS):
            before[0, instance, entry, bit] = bounds[0, instance, entry, bit]
            before[1, instance, entry, bit] = bounds[1, instance, entry, bit]
            bounds[1, instance, entry, bit] += np.int64(at_most[entry, bit]) * scale
            bounds[0, instance, entry, bit] += np.int64(at_most[entry, BITS + bit]) * scale


@inner
def tighten(cells: Any, instance: int, epoch: Any, latest: Any, entry: int, bit: int) -> None:
    """Bound a bit by what the latest epoch has really added, unless its cells are worked out.

    `latest` are the times of the entry in the epoch.
    """
    kept = cells.kept[instance, entry, bit]
    if kept >= 0 and cells.epochs[instance, kept] >= epoch.number:
        return
    most_zeros, most_ones = np.int64(0), np.int64(0)
    for component in range(COMPONENTS):
        ones = np.int64(latest.ones[bit, component])
        most_ones = max(most_ones, ones)
        most_zeros = max(most_zeros, np.int64(latest.powered[bit, component]) - ones)
    bounds, before, scale = cells.bounds, cells.before, epoch.scale
    bounds[0, instance, entry, bit] = before[0, instance, entry, bit] + most_zeros * scale
    bounds[1, instance, entry, bit] = before[1, instance, entry, bit] + most_ones * scale


@inner
def find_places(state: Any, cells: Any, instance: int, entry: int, chosen: np.uint64) -> int:
    """Give every chosen bit a place; return the first epoch that is missing from any of them."""
    first = 1 << 62
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            kept = cells.kept[instance, entry, bit]
            if kept < 0:
                kept = KEPT + bit
                if cells.used[instance] < KEPT:
                    kept = cells.used[instance]
                    cells.used[instance] += 1
                cells.kept[instance, entry, bit] = kept
                cells.epochs[instance, kept] = 0
                _start(state, cells.seconds, instance, entry, bit, kept)
            first = min(first, cells.epochs[instance, kept])
    return first


@inner
def _start(state: Any, seconds: Any, instance: int, entry: int, bit: int, kept: int) -> None:
    """Start from the time that the instance spent without faults."""
    for component in range(COMPONENTS):
        seconds[instance, kept, 0, component] = 0.0
        seconds[instance, kept, 1, component] = 0.0
    for kernel in range(state.seconds.shape[1]):
        spent = state.seconds[instance, kernel]
        if spent:
            for component in range(COMPONENTS):
                cell = (entry * COMPONENTS + component) * BITS + bit
                seconds[instance, kept, 0, component] += spent * state.at_zero[kernel, cell]
                seconds[instance, kept, 1, component] += spent * state.at_one[kernel, cell]


@inner
def missing(cells: Any, instance: int, epoch: int, entry: int, chosen: np.uint64) -> np.uint64:
    """Return the chosen bits of which an epoch is missing in what is kept."""
    bits = np.uint64(0)
    for bit in range(BITS):
        kept = cells.kept[instance, entry, bit]
        if chosen >> np.uint64(bit) & BIT and cells.epochs[instance, kept] <= epoch:
            bits |= BIT << np.uint64(bit)
    return bits


@inner
def add_epoch(
    cells: Any, instance: int, scale: float, times: Any, entry: int, chosen: np.uint64
) -> None:
    """Add what an epoch did to the chosen bits of an entry: its times, scaled."""
    seconds = cells.seconds
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            kept = cells.kept[instance, entry, bit]
            for component in range(COMPONENTS):
                ones = np.int64(times.ones[bit, component])
                zeros = np.int64(times.powered[bit, component]) - ones
                seconds[instance, kept, 0, component] += zeros * scale
                seconds[instance, kept, 1, component] += ones * scale


@inner
def settle(cells: Any, instance: int, epochs: int, entry: int, bit: int) -> None:
    """Bound a bit whose cells are worked out up to an epoch: no bound is better than the truth."""
    kept = cells.kept[instance, entry, bit]
    cells.epochs[instance, kept] = epochs
    if kept >= KEPT:
        cells.kept[instance, entry, bit] = -1
    for which in range(2):
        most = 0.0
        for component in range(COMPONENTS):
            most = max(most, cells.seconds[instance, kept, which, component])
        cells.bounds[which, instance, entry, bit] = most
