"""Placements that instances share: without a spill RRCD places alike on every fault map.

Selectors that always begin with the first entry take the first free place. A value that takes a
block prefers faulty entries. As long as these have a sound block for each value of a block, and
reliable entries are left for all others, a kernel takes the same sound blocks, counted through the
slice, and the same reliable entries, counted likewise, on every map: two slices differ only in
where the places lie. So each kernel is replayed once, on a map of its own, and the cell times of an
instance are looked up.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from mcage.engines.numba_engine.bounds import (
    IN_SHARED_PLACES,
    Batch,
    Cells,
    EpochLog,
    SharedTimes,
    begin_epoch,
    keep_bounds,
)
from mcage.engines.numba_engine.jit import TOGETHER, compiled, inner
from mcage.engines.numba_engine.residencies import (
    ACQUIRE,
    ACQUIRE_BLOCK,
    BITS,
    FREE,
    KINDS,
    Residencies,
    Slice,
    each_by_itself,
)
from mcage.geometry import Booleans, Bytes, Floats, SliceGeometry
from mcage.replays.outcome import CellTimes


class SharedPlacements:
    """Placements that instances share, each made when first asked for; for all threads.

    Parameters
    ----------
    residencies : Residencies
        Those of the technique on every kernel.
    geometry : SliceGeometry
        The slice.
    times_on : callable
        From a kernel and fault maps, uint8[n, entries], to the cell times on them.
    """

    def __init__(
        self,
        residencies: Residencies,
        geometry: SliceGeometry,
        times_on: Callable[[int, Bytes], CellTimes],
    ) -> None:
        self._residencies, self._geometry, self._times_on = residencies, geometry, times_on
        self._can = not (
            residencies.rules.rotating
            or residencies.rules.borrows
            or each_by_itself(residencies.rules)
            or residencies.selector_starts.any()
            or geometry.blocks == 1
        )
        self.places = geometry.entries * geometry.blocks if self._can else 0
        kernels, cycles = len(residencies.kernels.cycles), residencies.at_most.dtype
        # Pages that are never touched take no memory.
        of_cells = (kernels, self.places, BITS, geometry.block_components)
        self.times = SharedTimes(
            np.zeros(of_cells, cycles),
            np.zeros(of_cells, cycles),
            np.zeros((kernels, 2, self.places, BITS), cycles),
            np.zeros(kernels, np.int64),
        )
        self._needs: dict[int, tuple[int, int]] = {}
        self._lock = Lock()

    def are_shared(self, kernel: int, fault_maps: Bytes) -> Booleans:
        """Which instances take the shared places of a kernel: uint8[n, entries] to bool[n]."""
        if not self._can:
            return np.zeros(len(fault_maps), dtype=bool)
        with self._lock:
            if kernel not in self._needs:
                self._needs[kernel] = self._make(kernel)
        in_blocks, whole = self._needs[kernel]
        sound = np.bitwise_count(~fault_maps & self._geometry.all_blocks).astype(np.int64)
        reliable = sound == self._geometry.blocks
        of_faulty = np.where(reliable, 0, sound).sum(axis=1)
        shared: Booleans = (of_faulty >= in_blocks) & (reliable.sum(axis=1) >= whole)
        return shared

    def _make(self, kernel: int) -> tuple[int, int]:
        """Replay a kernel; return how many blocks and how many entries it takes at most."""
        in_blocks, whole = most_places(self._residencies, kernel)
        entries, blocks = self._geometry.entries, self._geometry.blocks
        faulty = -(-in_blocks // (blocks - 1))
        if faulty + whole > entries:
            return entries * blocks, entries
        fault_map = np.zeros(entries, dtype=np.uint8)
        fault_map[:faulty] = 1 << (blocks - 1)
        replayed, times = self._times_on(kernel, fault_map[None]), self.times
        by_bit = (self.places, self._geometry.block_components, BITS)
        ones, powered = (
            cycles.reshape(by_bit).transpose(0, 2, 1)
            for cycles in (replayed.ones, replayed.powered)
        )
        times.ones[kernel], times.powered[kernel] = ones, powered
        times.most[kernel] = (powered - ones).max(axis=2), ones.max(axis=2)
        times.faulty[kernel] = faulty
        return in_blocks, whole


def most_places(residencies: Residencies, kernel: int) -> tuple[int, int]:
    """Most blocks, and most entries, that the values of a kernel take at a time."""
    begin, end = residencies.kernels.first_operation[kernel : kernel + 2].tolist()
    residency, kind = np.divmod(residencies.operations.code[begin:end].astype(np.int64), KINDS)
    takes = np.full(int(residency.max(initial=0)) + 1, ACQUIRE)
    takes[residency[kind == ACQUIRE_BLOCK]] = ACQUIRE_BLOCK
    change = np.where(kind == FREE, -1, 1)
    in_blocks, whole = (
        int(np.where(takes[residency] == what, change, 0).cumsum().max(initial=0))
        for what in (ACQUIRE_BLOCK, ACQUIRE)
    )
    return in_blocks, whole


@compiled
def run_shared(
    shared: SharedTimes,
    slice_: Slice,
    batch: Batch,
    epoch_log: EpochLog,
    cells: Cells,
    groups: Any,
    seconds: Floats,
    bounded: bool,
) -> None:
    """Take instances through a turn, in places that they share.

    Parameters
    ----------
    shared, slice_, batch : SharedTimes, Slice, Batch
        What happens.
    epoch_log : EpochLog
        Where it is written down.
    cells : Cells
        Bounds, which are raised if `bounded`.
    groups, seconds : TrackedGroups, float64[2, tracked]
        Tracked cells, and their seconds, which are raised.
    """
    kernel = batch.kernel
    for place in range(len(batch.instances)):
        instance, scale = batch.instances[place], batch.scale[place]
        epoch = begin_epoch(epoch_log, instance, kernel, scale, IN_SHARED_PLACES)
        alike = epoch_log.places[instance, epoch]
        _find_alike(shared.faulty[kernel], slice_, batch.fault_maps[place], alike)
        if bounded:
            if batch.turn[place] == 0:
                keep_bounds(cells, instance)
            _raise_bounds(shared.most[kernel], slice_, alike, cells, instance, scale)
        ones, powered = shared.ones[kernel], shared.powered[kernel]
        _add_tracked(ones, powered, slice_, alike, groups, instance, scale, seconds)


@inner
def _find_alike(faulty: int, slice_: Any, fault_map: Any, alike: Any) -> None:
    """Tell which place of a kernel's own map, with so many faulty entries, each place is like.

    Fills int16[places] in; -1: the place stays empty.
    """
    entries, blocks, all_blocks = slice_.entries, slice_.blocks, slice_.all_blocks
    reliable, sound = np.int64(faulty), np.int64(0)
    for entry in range(entries):
        usable = ~np.int64(fault_map[entry]) & all_blocks
        for block in range(blocks):
            like = np.int64(-1)
            if usable == all_blocks:
                if reliable < entries:
                    like = reliable * blocks + block
            elif usable >> block & 1:
                if sound < faulty * (blocks - 1):
                    like = sound // (blocks - 1) * blocks + sound % (blocks - 1)
                sound += 1
            alike[entry * blocks + block] = like
        reliable += usable == all_blocks


@inner
def _raise_bounds(
    most: Any, slice_: Any, alike: Any, cells: Any, instance: int, scale: float
) -> None:
    """Raise bounds by what a turn adds to the cell that gains most."""
    bounds, blocks = cells.bounds, slice_.blocks
    for entry in range(slice_.entries):
        for which in range(2):
            for bit in range(BITS):
                cycles = np.int64(0)
                for block in range(blocks):
                    like = alike[entry * blocks + block]
                    if like >= 0:
                        cycles = max(cycles, np.int64(most[which, like, bit]))
                bounds[which, instance, entry, bit] += cycles * scale


@inner
def _add_tracked(
    ones: Any,
    powered: Any,
    slice_: Any,
    alike: Any,
    groups: Any,
    instance: int,
    scale: float,
    seconds: Any,
) -> None:
    """Add a turn to the seconds of the tracked cells of an instance."""
    blocks, of_block = slice_.blocks, ones.shape[2]
    for entry in range(slice_.entries):
        of_entry = instance * slice_.entries + entry
        for group in range(groups.first[of_entry], groups.first[of_entry + 1]):
            for cell in range(TOGETHER):
                tracked, bit = groups.tracked[group, cell], groups.column[group, cell]
                block, within = divmod(np.int64(groups.component[group, cell]), of_block)
                like = alike[entry * blocks + block]
                if tracked >= 0 and like >= 0:
                    at_one = np.int64(ones[like, bit, within])
                    zeros = np.int64(powered[like, bit, within]) - at_one
                    seconds[0, tracked] += zeros * scale
                    seconds[1, tracked] += at_one * scale
