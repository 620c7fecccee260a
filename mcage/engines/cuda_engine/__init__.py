"""The CUDA engine: batches of instances on a device or several.

It knows devices by the protocol of `mcage.engines.cuda_engine.devices` only.
"""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from typing_extensions import override

from mcage.concurrency import device_sharers, in_background
from mcage.engines.cuda_engine.devices import Device
from mcage.engines.cuda_engine.programs import Runner, is_wide, programs_of
from mcage.engines.cuda_engine.stress import CudaStress, duties_on, tables_on
from mcage.engines.cuda_engine.walk import Walk
from mcage.engines.interface import POLICIES, RememberingEngine
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells
from mcage.geometry import Bytes, Integers, SliceGeometry
from mcage.replays.outcome import CellTimes
from mcage.replays.prepare import FixedReplay, PreparedReplay, RedirectedReplay
from mcage.techniques import Technique

MOST_INSTANCES = 4096
"""A batch that keeps any device busy, also where a slice has a single pass."""

_STRESS_BYTES = 41 << 16
"""Bounds of an instance, seconds of cells that are kept, and the log of twelve turns of the bundled
traces under eight passes."""

LEAST_BYTES = 1 << 30
"""Free memory that a device needs: half of it is for instances, the rest for workspace and for what
all threads use. The bundled traces take 0.4 GB for each technique."""


class CudaEngine(RememberingEngine):
    """CUDA engine. Threads of the host may run batches side by side, on all of the devices.

    Parameters
    ----------
    devices : sequence of Device
        At least one device.
    threads : int
        Threads of the host that would use the engine at once. They share the devices' memory; if
        that is not enough for them all, `threads` of the engine says for how many it is.
    """

    name = "cuda"
    policies = POLICIES
    batches_of_thread = 1  # a kernel takes as long as its longest chain, however many there are

    def __init__(self, devices: Sequence[Device], threads: int = 1) -> None:
        super().__init__(counts_ahead=True)
        sharers = device_sharers()
        free = min(device.free_bytes() for device in devices) // sharers
        most = max(1, free // LEAST_BYTES)
        each = min(-(-threads // len(devices)), most)
        self.devices = tuple(devices)
        affordable = each * len(devices)
        self.threads = affordable if affordable < threads else None
        self.busy_threads = busy_threads(len(devices))
        batches = min(most, -(-self.busy_threads // len(devices)))  # at once on a device
        self._on_devices = [_OnDevice(Runner(device, batches, sharers)) for device in devices]
        self._turn = itertools.cycle(self._on_devices)
        self._taking_turns = threading.Lock()
        self._of_thread = threading.local()
        self.batch = max(1, min(MOST_INSTANCES, free // (2 * batches * _STRESS_BYTES)))
        self.device = "; ".join(device.description for device in devices)

    @contextmanager
    def working(self) -> Iterator[None]:
        """See `Engine.working`: on the device that would be done with one more batch first."""
        with self._taking_turns:
            here = min(self._on_devices, key=self._seconds_until_done)
            here.walk.runner.at_work += 1
        before = getattr(self._of_thread, "here", None)
        self._of_thread.here = here
        begun = time.monotonic()
        try:
            with here.walk.runner.device.working():
                yield
        finally:
            self._of_thread.here = before
            with self._taking_turns:
                here.walk.runner.at_work -= 1
                here.batches += 1
                here.seconds += time.monotonic() - begun

    @override
    def expect(self, techniques: Iterable[Technique], geometry: SliceGeometry, cycles: int) -> None:
        """See `Engine.expect`: programs are compiled, side by side."""
        programs = list(programs_of(techniques, geometry, is_wide(cycles)))
        in_background(
            partial(here.walk.runner.module, program)
            for here in self._on_devices  # another device finds them in CuPy's cache
            for program in programs
        )

    @override
    def make_ready(self, replays: Sequence[PreparedReplay], duties: FaultFreeDuties) -> None:
        schedules = [replay.scheduled.get for replay in dict.fromkeys((*replays, *duties.replays))]
        selectors = [
            partial(here.walk.placement.make_ready, replay)
            for here in self._on_devices
            for replay in replays
            if isinstance(replay, RedirectedReplay)
        ]
        residencies = [partial(here.tables.of, duties) for here in self._on_devices]
        in_background([*schedules, *selectors, *residencies])  # all tables begin with schedules

    def _seconds_until_done(self, here: "_OnDevice") -> float:
        """How long a device would take for one more batch, those at work included.

        A device of which nothing is known yet is as fast as the fastest.
        """
        known = [each.seconds / each.batches for each in self._on_devices if each.batches]
        seconds = here.seconds / here.batches if here.batches else min(known, default=1.0)
        return (here.walk.runner.at_work + 1) * seconds

    def _here(self) -> "_OnDevice":
        """State of the device of the calling thread."""
        here: _OnDevice | None = getattr(self._of_thread, "here", None)
        if here is None:
            with self._taking_turns:
                here = next(self._turn)
            self._of_thread.here = here
        return here

    @override
    def _count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        events = self._here().walk.placement.count(replays, kernel, fault_maps)
        to_reliable, to_faulty, lds, lds_reads, _, row_cycles, *others = events.sum(axis=1).T
        writes = np.array([replay.passes * replay.schedule.writes for replay in replays])
        return np.stack(
            [
                writes[kernel] - to_reliable - to_faulty - lds,
                to_reliable,
                to_faulty,
                lds,
                lds_reads,
                events[:, :, 4].max(axis=1),
                row_cycles,
                *others,
            ],
            axis=1,
        )

    @override
    def fixed_times(self, replay: FixedReplay) -> CellTimes:
        return CellTimes(*self._here().walk.fixed_times(replay), replay.period)

    @override
    def redirected_times(self, replay: RedirectedReplay, fault_maps: Bytes) -> CellTimes:
        kernel = np.zeros(len(fault_maps), dtype=np.int64)
        shape = (len(kernel), replay.geometry.entries, replay.geometry.entry_bits)
        ones, powered = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        first = 0
        for times in self._here().walk.redirected_times((replay,), kernel, fault_maps):
            chunk = slice(first, first + len(times[0]))
            ones[chunk], powered[chunk] = times
            first = chunk.stop
        return CellTimes(ones, powered, replay.period)

    def cell_times_each(
        self, replays: Sequence[PreparedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Iterator[CellTimes]:
        """See `Engine.cell_times_each`: some slices at a time, where the technique redirects."""
        redirected = [replay for replay in replays if isinstance(replay, RedirectedReplay)]
        if len(redirected) < len(replays):
            yield from super().cell_times_each(replays, kernel, fault_maps)
            return
        self.check(replays[0].technique)
        numbers = iter(kernel.tolist())
        for times in self._here().walk.redirected_times(redirected, kernel, fault_maps):
            for ones, powered in zip(*times, strict=True):
                yield CellTimes(ones[None], powered[None], replays[next(numbers)].period)

    @override
    def unpacked_stress(
        self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> StressAccumulator:
        here = self._here()
        return CudaStress(here.walk, here.duties, here.tables, duties, tracked, instances)


def busy_threads(devices: int) -> int:
    """See `Engine.busy_threads`: on each device two batches are at work, and the host has another.

    On a card 10,000 instances in three such batches took 0.85 times what they took in two threads
    (results/performance.md).
    """
    return 2 * devices + 1


class _OnDevice:
    """State of a device that all threads of the host share."""

    def __init__(self, runner: Runner) -> None:
        self.walk = Walk(runner)
        self.batches, self.seconds = 0, 0.0  # that are done, and how long they were at work
        self.duties = duties_on(runner)
        self.tables = tables_on(self.walk, self.duties)
