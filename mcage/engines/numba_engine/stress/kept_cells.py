"""What is known of the stress times of each instance: bounds for all cells, sums for some bits."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import inlined, inner
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.stress.open_bits import BIT
from mcage.engines.numba_engine.vectors import COMPONENTS

_KEPT = 256
"""Bits of entries whose cells are kept, for each instance of a batch on average."""


class Cells(NamedTuple):
    """Bounds of all cells of each instance, and seconds of those that have been worked out.

    Attributes
    ----------
    bounds : float64[2, instances, entries, 32]
        Seconds at '0' and at '1' that no cell with this bit of this entry exceeds.
    before : float64[2, instances, entries, 32]
        Bounds before the latest epoch.
    kept : int32[instances, entries, 32]
        Place at which the cells of the bit are kept, or -1.
    used : int64[1]
        How many bits are kept, of all instances together: some have ten times as many as others.
    epochs : int64[places + 32]
        Epochs that are in `seconds`. The last 32 places are for bits that find no other.
    seconds : float64[places + 32, 2, 64]
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
    period : int64[kernels]
        Cycles of a whole replay.
    at_zero, at_one : uint32 or int64[kernels, cells]
        Cycles of it at '0' and at '1' on a slice without faults.
    components : int
        Components of an entry.
    """

    seconds: NDArray[np.float64]
    period: NDArray[np.int64]
    at_zero: NDArray[np.integer]
    at_one: NDArray[np.integer]
    components: int


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


def new_cells(entries: int, instances: int) -> Cells:
    """Make space for the cells of so many instances, slices of so many entries."""
    places = instances * _KEPT + BITS
    return Cells(
        np.empty((2, instances, entries, BITS)),
        np.empty((2, instances, entries, BITS)),
        np.empty((instances, entries, BITS), dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        np.empty(places, dtype=np.int64),
        np.empty((places, 2, COMPONENTS)),
    )


@inner
def all_kept(cells: Any) -> bool:
    """Whether all bits that have been worked out so far found a place."""
    return bool(cells.used[0] < _places(cells))


@inlined
def place_without(cells: Any, bit: int) -> int:
    """Place of a bit that found no other, until the next is worked out."""
    return _places(cells) + bit


@inlined
def _places(cells: Any) -> int:
    return len(cells.epochs) - BITS


@inner
def raise_bounds(cells: Any, instance: int, at_most: Any, scale: float) -> None:
    """Raise bounds by what an epoch has added at most: cycles T[entries, 64], see `Views`."""
    bounds, before = cells.bounds, cells.before
    for entry in range(bounds.shape[2]):
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
    if kept >= 0 and cells.epochs[kept] >= epoch.number:
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
                kept = place_without(cells, bit)
                if all_kept(cells):
                    kept = cells.used[0]
                    cells.used[0] += 1
                cells.kept[instance, entry, bit] = kept
                cells.epochs[kept] = 0
                _start(state, cells.seconds, instance, entry, bit, kept)
            first = min(first, cells.epochs[kept])
    return first


@inner
def _start(state: Any, seconds: Any, instance: int, entry: int, bit: int, kept: int) -> None:
    """Start from the time that the instance spent without faults."""
    for component in range(COMPONENTS):
        seconds[kept, 0, component] = 0.0
        seconds[kept, 1, component] = 0.0
    of_entry = state.components
    for kernel in range(state.seconds.shape[1]):
        spent = state.seconds[instance, kernel]
        if spent:
            period = np.float64(state.period[kernel])
            for component in range(COMPONENTS):
                within = component if component < of_entry else component % of_entry
                cell = (entry * of_entry + within) * BITS + bit
                zeros, ones = state.at_zero[kernel, cell], state.at_one[kernel, cell]
                seconds[kept, 0, component] += spent * (np.float64(zeros) / period)
                seconds[kept, 1, component] += spent * (np.float64(ones) / period)


@inner
def missing(cells: Any, instance: int, epoch: int, entry: int, chosen: np.uint64) -> np.uint64:
    """Return the chosen bits of which an epoch is missing in what is kept."""
    bits = np.uint64(0)
    for bit in range(BITS):
        kept = cells.kept[instance, entry, bit]
        if chosen >> np.uint64(bit) & BIT and cells.epochs[kept] <= epoch:
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
                seconds[kept, 0, component] += zeros * scale
                seconds[kept, 1, component] += ones * scale


@inner
def settle(cells: Any, instance: int, epochs: int, entry: int, bit: int) -> None:
    """Bound a bit whose cells are worked out up to an epoch: no bound is better than the truth."""
    kept = cells.kept[instance, entry, bit]
    cells.epochs[kept] = epochs
    if kept >= _places(cells):
        cells.kept[instance, entry, bit] = -1
    for which in range(2):
        most = 0.0
        for component in range(COMPONENTS):
            most = max(most, cells.seconds[kept, which, component])
        cells.bounds[which, instance, entry, bit] = most
