"""Where the time of a sweep goes: functions and engines that tell how long they take."""

import importlib
import math
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

from mcage.engines.interface import Engine

ENGINE_PHASES = ("counting", "cell times", "stress")
_PHASE_OF = {
    "mcage.studies.sweep.plan.recorded_trace": "preparation",
    "mcage.studies.sweep.plan.prepare": "preparation",
    "mcage.studies.sweep.plan.fault_free_replays": "preparation",
    "mcage.studies.sweep.batch.workloads_of": "sampling",
    "mcage.variation.fault_models.sample_tail": "sampling",
    "mcage.variation.fault_models.sample_table": "sampling",
    "mcage.studies.sweep.batch.simulate_lifetimes": "lives",
    "mcage.studies.sweep.study.compute_batch": "sampled cells and arrays",
    "mcage.campaign.study.write_shard": "files",
    "mcage.campaign.run.finished_instances": "files",
    "mcage.campaign.run.write_merged": "files",
}


class Stopwatch:
    """Seconds of each phase; what a phase inside another takes is not counted in that one.

    Parameters
    ----------
    clock : callable
        Of the calling thread: `time.thread_time` tells its core time.
    """

    def __init__(self, clock=time.thread_time):
        self.seconds = defaultdict(float)
        self._clock = clock
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._spans = []

    @contextmanager
    def phase(self, name):
        """Charge to `name` what happens inside."""
        stack = self._of_thread.__dict__.setdefault("stack", [])
        begun = time.perf_counter()
        self._charge(stack)
        stack.append(name)
        try:
            yield
        finally:
            self._charge(stack)
            stack.pop()
            with self._lock:
                self._spans.append((name, begun, time.perf_counter()))

    def _charge(self, stack):
        now = self._clock()
        if stack:
            with self._lock:
                self.seconds[stack[-1]] += now - self._of_thread.since
        self._of_thread.since = now

    def wall_seconds(self, names):
        """Time during which at least one thread was in one of some phases."""
        return covered((begun, ended) for name, begun, ended in self._spans if name in names)

    def timed(self, function, name):
        """The function, whose time is charged to a phase."""

        def charged(*arguments, **named):
            with self.phase(name):
                return function(*arguments, **named)

        return charged


def covered(spans):
    """Length of the union of intervals, given by beginning and end."""
    length, until = 0.0, -math.inf
    for begun, ended in sorted(spans):
        length += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return length


class TimedEngine(Engine):
    """An engine whose calls are charged to the phases of a stopwatch."""

    def __init__(self, engine, stopwatch):
        self._engine, self._stopwatch = engine, stopwatch
        self.name, self.batch = engine.name, engine.batch
        self.threads, self.busy_threads = engine.threads, engine.busy_threads
        self.batches_of_thread, self.policies = engine.batches_of_thread, engine.policies
        if hasattr(engine, "device"):
            self.device = engine.device

    def redirect(self, replay, fault_maps):
        return self.count(replay, fault_maps)

    def redirect_each(self, replays, kernel, fault_maps):
        with self._stopwatch.phase("counting"):
            return self._engine.redirect_each(replays, kernel, fault_maps)

    def working(self):
        return self._engine.working()

    def expect(self, techniques, geometry, cycles):
        self._engine.expect(techniques, geometry, cycles)

    def make_ready(self, replays, duties):
        self._engine.make_ready(replays, duties)

    def fixed_times(self, replay):
        return self._engine.fixed_times(replay)

    def redirected_times(self, replay, fault_maps):
        return self._engine.redirected_times(replay, fault_maps)

    def unpacked_stress(self, duties, tracked, instances):
        return self._engine.unpacked_stress(duties, tracked, instances)

    def count(self, replay, fault_maps):
        with self._stopwatch.phase("counting"):
            return self._engine.count(replay, fault_maps)

    def cell_times(self, replay, fault_maps):
        with self._stopwatch.phase("cell times"):
            return self._engine.cell_times(replay, fault_maps)

    def cell_times_each(self, replays, kernel, fault_maps):
        each = self._engine.cell_times_each(replays, kernel, fault_maps)
        while True:
            with self._stopwatch.phase("cell times"):
                times = next(each, None)
            if times is None:
                return
            yield times

    def stress(self, duties, tracked, instances, learnt=None):
        with self._stopwatch.phase("stress"):
            stress = self._engine.stress(duties, tracked, instances, learnt)
        stress.add = self._stopwatch.timed(stress.add, "stress")
        return stress


def run_timed_sweep(spec, engine, shard_size=None):
    """Compute a whole sweep, files included.

    Returns
    -------
    dict
        ``core_seconds`` by phase and in total, ``wall_seconds``, of them ``start_seconds`` (what
        all instances share) and ``compute_seconds`` (instances and files), ``engine_wall_seconds``
        (time during which at least one thread was in the engine), ``peak_bytes``.
    """
    from mcage.campaign.run import run_campaign
    from mcage.results.header import register
    from mcage.studies.sweep.header import SweepHeader
    from mcage.studies.sweep.study import Sweep

    register("sweep")(SweepHeader)  # a clone that is not installed has no entry points
    stopwatch = Stopwatch()
    forget_peak()
    wall, core = time.perf_counter(), time.process_time()
    with ExitStack() as patches, tempfile.TemporaryDirectory() as folder:
        for path, phase in _PHASE_OF.items():
            patches.enter_context(_patched(path, stopwatch, phase))
        sweep = Sweep(spec, TimedEngine(engine, stopwatch))
        sweep.prepare()
        started = time.perf_counter() - wall
        run_campaign(sweep.study, Path(folder) / "sweep.h5", shard_size)
    wall = time.perf_counter() - wall
    core = time.process_time() - core
    phases = dict(stopwatch.seconds)
    phases["everything else, other threads"] = core - sum(phases.values())
    return {
        "instances": spec.instances,
        "core_seconds": phases,
        "core_seconds_total": core,
        "wall_seconds": wall,
        "start_seconds": started,
        "compute_seconds": wall - started,
        "engine_wall_seconds": stopwatch.wall_seconds(ENGINE_PHASES),
        "peak_bytes": peak_bytes(),
    }


def _patched(path, stopwatch, phase):
    module, _, attribute = path.rpartition(".")
    owner = _resolved(module)
    return patch.object(owner, attribute, stopwatch.timed(getattr(owner, attribute), phase))


def _resolved(path):
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, attribute = path.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def forget_peak():
    """Begin a new measurement of this process's peak memory, where Linux lets us."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes():
    """Largest resident memory of this process since `forget_peak`; None if nobody tells."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(peaks[0]) if peaks else None
