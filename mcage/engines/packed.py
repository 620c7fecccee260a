"""Packed windows above any engine: its replays of re-timed traces, moved to where windows lie.

With one window size, the places are alike: a replay with each number of places is enough, and a
fault map only says which entries they are. Kernels of different size overlap differently on every
map, so that each is replayed as it lies there.
"""

import dataclasses
from collections.abc import Callable
from threading import RLock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mcage.engines.stress import DenseStress, FaultFreeDuties, SliceTimes
from mcage.engines.tracked_cells import TrackedCells
from mcage.replays.layout import Layout
from mcage.replays.outcome import CellTimes
from mcage.replays.packing import Packing, Places
from mcage.replays.prepare import FixedReplay, PackedReplay, PreparedReplay, prepare
from mcage.techniques import Placement


class Packed:
    """Packed replays on an engine, for any number of threads.

    Parameters
    ----------
    fixed_times : callable
        Cell times of an engine where windows have fixed places (`Engine.fixed_times`).
    """

    def __init__(self, fixed_times: Callable[[FixedReplay], CellTimes]) -> None:
        self._fixed_times = fixed_times
        self._lock = RLock()
        self._replays: WeakKeyDictionary[Packing, dict[Places, FixedReplay]] = WeakKeyDictionary()
        self._times: WeakKeyDictionary[Packing, dict[Places, SliceTimes]] = WeakKeyDictionary()

    def cell_times(self, replay: PackedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`; `period` is that of each instance.

        Where nothing can run, all cells are off for as long as the recorded trace takes.
        """
        slices = [self.slice_times(replay, fault_map) for fault_map in fault_maps]
        ones, powered, period = zip(*slices, strict=True)
        return CellTimes(np.stack(ones), np.stack(powered), np.array(period, dtype=np.int64))

    def slice_times(self, replay: PackedReplay, fault_map: NDArray[np.uint8]) -> SliceTimes:
        """Times of one slice, whose fault map is uint8[entries]."""
        packing, geometry = replay.packing, replay.geometry
        ones = np.zeros((geometry.entries, geometry.entry_bits), dtype=np.int64)
        powered = np.zeros_like(ones)
        places = packing.places(fault_map)
        if not all(places):
            return ones, powered, replay.period
        if len(packing.sizes) > 1:
            return self._replayed(self._laid_out(replay, fault_map, places))
        entries = packing.entries(fault_map, places)
        ones[entries], powered[entries], period = self._of_places(replay, places)
        return ones, powered, period

    def _of_places(self, replay: PackedReplay, places: Places) -> SliceTimes:
        """Times of the rows of all places, place after place."""
        packing = replay.packing
        with self._lock:
            known = self._times.setdefault(packing, {})
            if places not in known:
                ones, powered, period = self._replayed(self._retimed(replay, places))
                (size,), (count,) = packing.sizes, places
                narrow = np.min_scalar_type(period)
                rows = slice(size * count)
                known[places] = ones[rows].astype(narrow), powered[rows].astype(narrow), period
            return known[places]

    def _laid_out(
        self, replay: PackedReplay, fault_map: NDArray[np.uint8], places: Places
    ) -> FixedReplay:
        """Re-timed replay with its windows where they lie on a fault map."""
        base = replay.packing.bases(fault_map, places)[None]
        layout = Layout(base, np.zeros_like(base), np.zeros_like(replay.layout.step))
        return FixedReplay.of(self._retimed(replay, places).schedule, layout)

    def _retimed(self, replay: PackedReplay, places: Places) -> FixedReplay:
        packing = replay.packing
        with self._lock:
            known = self._replays.setdefault(packing, {})
            if places not in known:
                direct = dataclasses.replace(replay.technique, placement=Placement.DIRECT)
                retimed = prepare(packing.retimed(places), direct)
                assert isinstance(retimed, FixedReplay)
                known[places] = retimed
            return known[places]

    def _replayed(self, replay: FixedReplay) -> SliceTimes:
        times = self._fixed_times(replay)
        return times.ones[0], times.powered[0], replay.period


class PackedStress(DenseStress):
    """Stress times of instances whose windows are packed.

    Parameters
    ----------
    packed : Packed
        Replays.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self, packed: Packed, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._packed = packed

    def _times(
        self, replay: PreparedReplay, fault_map: NDArray[np.uint8], instance: int
    ) -> SliceTimes:
        assert isinstance(replay, PackedReplay)
        return self._packed.slice_times(replay, fault_map)
