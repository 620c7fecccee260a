"""Processor time of a sweep beside its kernels: what no engine, however fast, takes away.

    python scripts/benchmarks/host_share.py [--instances 10000] [--batch 1024] [--cores N]
        [--busy-threads N] [--device-us 0] [--json]

The default sweep is computed and written with an engine whose kernels take no time: the time of
what stands in for them is taken out. Their answers are plausible: fault-free slices are stressed as
under each technique, redirected slices live on, and half of them end by faults before the horizon.

Prints milliseconds of processor time and of wall-clock time for each instance, all eight cases and
files included, and the processor time of a start of the Numba engine until its first batch.

With `--cores 16` the sweep is cut into batches, and threads are started, as on a machine of 16
cores: this shows what more of them cost. With `--device-us 5` every epoch of an instance keeps a
device busy for 5 microseconds, while its thread waits and takes no processor time: this shows how
well so many threads (`--busy-threads 4`) keep a device busy that is as fast as that.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from mcage.campaign.run import run_campaign
from mcage.costs.activity import KernelActivity
from mcage.engines.compiled_cells import CompiledSeconds
from mcage.engines.cuda_engine.engine import busy_threads
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.stress import CellSeconds, FaultFreeDuties, StressAccumulator, TrackedSeconds
from mcage.lifetime import EndCause
from mcage.lifetime.feasibility import FaultFreeEvents, FaultFreeReplays
from mcage.replays.outcome import Counters
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.sweep import plan
from mcage.sweep.study import Sweep

ENOUGH_ENTRIES = 70
"""Faulty entries from which on a redirected slice spills: half of the slices get so many."""

LONGEST_DUTY = {
    "baseline": (1.0, 0.98),
    "rc+rar": (0.37, 0.21),
    "rrcd": (1.0, 0.99),
    "rrcd+rc+rar": (0.26, 0.15),
}
"""By technique: duty cycles of the cells that are longest at '0' and at '1'."""

WARM_UP = 32
"""Instances of a first sweep, which compiles what is compiled."""

CELL_DUTY = 0.2
"""Duty cycle of tracked cells."""

START = """
from mcage.engines.select import select_engine
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
Sweep(SweepSpec(), select_engine("numba")[0]).prepare()
"""


class Kernels:
    """Adds up the processor time of what stands in for kernels, in all threads."""

    def __init__(self):
        self.seconds = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def stand_in(self):
        begun = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - begun
            with self._lock:
                self.seconds += took


class StubEngine(Engine):
    """An engine whose answers stand in for those of kernels.

    Parameters
    ----------
    batch : int
        Instances of a batch.
    tracked_on_host : bool
        Whether the times of tracked cells are looked at on the host, as under the CPU engines.
    device_us : float
        For how long an epoch of an instance keeps the device busy, in microseconds.
    """

    name = "stub"
    policies = NumbaEngine.policies

    def __init__(self, batch, tracked_on_host, device_us=0.0):
        super().__init__()
        self.batch, self.tracked_on_host, self.kernels = batch, tracked_on_host, Kernels()
        self._device, self._device_us, self.device_seconds = threading.Lock(), device_us, 0.0
        self.busy_threads = busy_threads(devices=1)

    def occupy(self, instances):
        """Let the device be busy with an epoch of so many instances; other threads go on."""
        if self._device_us:
            seconds = 1e-6 * self._device_us * instances
            with self._device:
                time.sleep(seconds)
                self.device_seconds += seconds

    def redirect(self, replay, fault_maps):
        with self.kernels.stand_in():
            return counters(replay, (fault_maps != 0).sum(axis=1))

    def unpacked_stress(self, duties, tracked, instances):
        return StubStress(self, duties, tracked, instances)

    def fixed_times(self, replay):
        raise NotImplementedError

    def redirected_times(self, replay, fault_maps):
        raise NotImplementedError


def counters(replay, faulty):
    """Counters of a replay on maps with so many faulty entries each."""
    writes = np.full(len(faulty), replay.passes * replay.schedule.writes)
    to_reliable, none = writes * faulty // 256, np.zeros(len(faulty), dtype=np.int64)
    return Counters(
        passes=replay.passes,
        regular=writes - to_reliable,
        to_reliable=to_reliable,
        to_faulty=none,
        lds=none,
        lds_reads=none,
        peak_spilled_rows=np.maximum(faulty - ENOUGH_ENTRIES, 0),
        spilled_row_cycles=none,
        wakeups=none,
        memory=none,
        memory_reads=none,
    )


class StubStress(StressAccumulator):
    """Times of cells whose duty cycles are always the same."""

    def __init__(self, engine, duties, tracked, instances):
        self._engine = engine
        super().__init__(duties, tracked, instances)
        self._duty = np.array(LONGEST_DUTY[duties.replays[0].technique.name])[:, None]

    def add(self, instances, turns, fault_maps, seconds):
        if self._engine.tracked_on_host:
            self.tracked_seconds.begin_epoch(instances)
        with self._engine.kernels.stand_in():
            self.longest[:, instances] += self._duty * seconds
            if self._engine.tracked_on_host:
                runs = np.zeros(self.longest.shape[1])
                runs[instances] = CELL_DUTY * seconds
                seconds = self.tracked_seconds.now
                seconds += runs[self._tracked.instance]
        self._engine.occupy(len(instances))

    def longest_earlier(self, instances, turns, fault_maps, seconds):
        with self._engine.kernels.stand_in():
            return self.longest[:, instances] - self._duty * seconds

    def _new_tracked_seconds(self):
        if self._engine.tracked_on_host:
            return CompiledSeconds(self._tracked, len(self._has_separate_times))
        return StubSeconds(self._engine.kernels, self._tracked, len(self._has_separate_times))

    def _begin(self, instances):
        raise NotImplementedError


class StubSeconds(TrackedSeconds):
    """Tracked cells on a device: cells all of which have the same duty cycle."""

    def __init__(self, kernels, tracked, instances):
        self._kernels, self._tracked, self._instances = kernels, tracked, instances
        with kernels.stand_in():
            self._sound = np.ones(tracked.tail, dtype=bool)

    def failing(self, instances, age, shift, failure):
        with self._kernels.stand_in():
            dvth = np.full(self._instances, -np.inf)
            busy = np.broadcast_to(CELL_DUTY * age, (2, len(age)))
            dvth[instances] = shift.of(instances).dvth(busy, age)[0]
            limit = failure.lowest_vdd_volts - failure.vmin_coefficient * dvth
            owner = self._tracked.instance[: len(self._sound)]
            fails = (self._tracked.vmin_volts > limit[owner]).any(axis=0)
            places = np.flatnonzero(self._sound & fails)
            after = np.zeros(self._instances)
            after[instances] = CELL_DUTY * age
            seconds = np.broadcast_to(after[owner[places]], (2, len(places)))
            return places, CellSeconds(0.9 * seconds, seconds)

    def mark_faulty(self, places):
        with self._kernels.stand_in():
            self._sound[places] = False

    def histogram(self, instances, moments, shift, bins):
        with self._kernels.stand_in():
            counts = np.zeros((2, bins), dtype=np.int64)
            counts[:, 1] = len(instances) * self._tracked.sampled
            return counts


def fault_free(engine, plan, technique):
    """A technique on every kernel of a sweep, as the stand-ins have it."""
    offsets = plan.spec.registers.selector_offsets
    replays = tuple(
        prepare(trace, technique, plan.spec.delta_limit, offsets) for trace in plan.traces
    )
    counted = [engine.count(replay, fault_free_maps()) for replay in replays]
    return FaultFreeReplays(
        replays=replays,
        duties=FaultFreeDuties(replays, None, None),
        happens=FaultFreeEvents.of(replays, replays, counted),
        activities=tuple(KernelActivity.of(replay) for replay in replays),
    )


def stub_sweep(engine, **keys):
    """A sweep whose slices without faults are stand-ins, too."""
    sweep = Sweep(SweepSpec.from_mapping(keys), engine)
    techniques = {case.case.technique: case.technique for case in sweep.plan.cases}
    sweep.plan.fault_free = {
        name: fault_free(engine, sweep.plan, technique) for name, technique in techniques.items()
    }
    sweep.prepare()
    return sweep


def host_seconds(engine, instances, **keys):
    """Processor time of a sweep without its kernels, once all is warm: seconds.

    Returns
    -------
    float, float, dict of str to float
        Seconds; seconds by the clock on the wall; by case, the fraction of lives that end by faults
        within the horizon.
    """
    with tempfile.TemporaryDirectory() as folder:
        stub_sweep(engine, instances=WARM_UP, **keys).compute(0, WARM_UP)
        sweep, out = stub_sweep(engine, instances=instances, **keys), Path(folder) / "sweep.h5"
        assert sweep.study  # digests of traces belong to a start
        before = engine.kernels.seconds
        begun, wall = time.process_time(), time.perf_counter()
        run_campaign(sweep.study, out)
        wall = time.perf_counter() - wall
        seconds = time.process_time() - begun - (engine.kernels.seconds - before)
        with h5py.File(out) as file:
            by_faults = [EndCause.NO_HOME, EndCause.TOO_SLOW]
            ended = np.isin(file["end_cause"][()], by_faults).mean(axis=1)
        names = (f"{case.technique} {case.environment}" for case in sweep.header.cases)
        return seconds, wall, dict(zip(names, ended.tolist(), strict=True))


def startup_seconds():
    """Processor time of a process that prepares the default sweep, with a warm cache."""
    took = []
    for _ in range(2):  # the first fills the cache
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", START], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return took[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument(
        "--batch", type=int, default=1024, help="instances of a batch at most (1024)"
    )
    parser.add_argument("--cores", type=int, help="number of cores to count on (those there are)")
    parser.add_argument("--busy-threads", type=int, help="threads beside the device")
    parser.add_argument(
        "--device-us", type=float, default=0, help="time of an epoch of an instance on the device"
    )
    parser.add_argument(
        "--tracked-on-host",
        action="store_true",
        help="look at the times of tracked cells as the CPU engines do",
    )
    parser.add_argument("--no-start", action="store_true", help="do not measure a start")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.cores:
        plan.usable_cores = lambda: given.cores
    engine = StubEngine(given.batch, given.tracked_on_host, given.device_us)
    engine.busy_threads = given.busy_threads or engine.busy_threads
    seconds, wall, ended = host_seconds(engine, given.instances)
    figures = {
        "ms_per_instance": 1e3 * seconds / given.instances,
        "wall_ms_per_instance": 1e3 * wall / given.instances,
        "device_ms_per_instance": 1e3 * engine.device_seconds / given.instances,
    }
    if not given.no_start:
        figures["startup_core_s"] = startup_seconds()
    if given.json:
        print(json.dumps(figures | {"ended_by_faults": ended}))
    else:
        for name, value in figures.items():
            print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
