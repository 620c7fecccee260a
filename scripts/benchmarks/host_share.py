"""What the host does beside a GPU: processor time, Python's lock, calls; and how two threads share.

    python scripts/benchmarks/host_share.py [--instances 10000] [--batch N] [--threads 2]
        [--device-us 0] [--memory-gib 80] [--json]

The default sweep is computed and written by the CUDA engine itself, on a card that there is not
(`imitated_cupy.py`): the time of what stands in for kernels is taken out. Prints, for each
instance with all cases and files:

- milliseconds of processor time;
- milliseconds in which Python's lock is held, looked at in a run of one thread (`python_lock.py`):
  no second thread can work in that time, on however many cores;
- launches, uploads, downloads and waits for 1,000 instances;
- slices that are placed, a turn of an epoch each, and slices whose most stressed cell is searched;

and instances a second by the clock on the wall, with one thread and with `--threads`. With
`--device-us 5` an epoch of an instance keeps the card busy for 5 microseconds. The last lines are
figures of a start, and of the Numba engine's own lives: the time in which these hold the lock.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from imitated_cupy import CLOCK, imitated_cupy
from python_lock import LockSampler

from mcage.campaign.run import run_campaign
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.cuda_engine.devices import CupyDevice
from mcage.engines.numba_engine import NumbaEngine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep

WARM_UP = 64
"""Instances of a first sweep, which compiles what is compiled."""

NUMBA_INSTANCES = 192
"""Instances whose lives the Numba engine computes: four of its batches."""

CALLS = "launch", "upload", "download", "wait", "get_function"
WORK = "placed in 1 passes", "placed in 8 passes", "in shared places", "searched"

START = """
from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
Sweep(SweepSpec(), select_engine("numba")[0]).prepare()
"""


class Host:
    """The CUDA engine on a card that there is not.

    Parameters
    ----------
    memory_gib : float
        Memory of the card.
    batch : int, optional
        Instances of a batch at most; by default as the engine decides.
    **keys
        Of the spec, where it is not the default one.
    """

    def __init__(self, memory_gib=80, batch=None, **keys):
        self._keys = keys
        self._fault_free = Sweep(SweepSpec.from_mapping(keys), NumbaEngine()).plan.fault_free
        device = CupyDevice(imitated_cupy(int(memory_gib * 2**30)), 0)
        self.engine = CudaEngine([device], threads=2)
        self.engine.batch = batch or self.engine.batch

    def sweep(self, instances, threads):
        """The sweep, prepared, whose batches so many threads compute."""
        self.engine.busy_threads = threads
        sweep = Sweep(SweepSpec.from_mapping(self._keys | {"instances": instances}), self.engine)
        sweep.plan.fault_free = self._fault_free
        sweep.prepare()
        assert sweep.study  # digests of traces belong to a start
        return sweep

    def run(self, instances, threads, sampler=None):
        """Compute and write a sweep.

        Returns
        -------
        float, float, float
            Seconds of processor time beside stand-ins; by the clock on the wall; share of the looks
            at which the lock was held.
        """
        sweep = self.sweep(instances, threads)
        stand_ins, begun, wall = CLOCK.seconds, time.process_time(), time.perf_counter()
        CLOCK.calls.clear()
        with tempfile.TemporaryDirectory() as folder:
            if sampler is None:
                run_campaign(sweep.study, Path(folder) / "sweep.h5")
            else:
                with sampler:
                    CLOCK.sampler = sampler
                    run_campaign(sweep.study, Path(folder) / "sweep.h5")
                    CLOCK.sampler = None
        wall = time.perf_counter() - wall
        seconds = time.process_time() - begun - (CLOCK.seconds - stand_ins)
        return seconds, wall, sampler.held if sampler else float("nan")


def numba_lock_ms(sampler):
    """Milliseconds of an instance in which the Numba engine's lives hold the lock, one thread."""
    engine = NumbaEngine()
    engine.busy_threads = 1
    for instances in (48, NUMBA_INSTANCES):
        sweep = Sweep(SweepSpec.from_mapping({"instances": instances}), engine)
        sweep.prepare()
        begun = time.perf_counter()
        with sampler:
            sweep.compute(0, instances)
        wall = time.perf_counter() - begun
    return 1e3 * wall * sampler.held / NUMBA_INSTANCES


def startup_seconds():
    """Processor time of a process that prepares the default sweep, with a warm cache."""
    took = []
    for _ in range(2):  # the first fills the cache
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", START], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return took[-1]


def figures(given):
    """All figures by name."""
    host, sampler = Host(given.memory_gib, given.batch), LockSampler()
    host.run(WARM_UP, 1)
    CLOCK.device_us = given.device_us
    count = given.instances
    _, _, held = host.run(count, 1, sampler)
    seconds, _, _ = host.run(count, 1)
    calls = {f"{name}_per_1000": 1e3 * CLOCK.calls[name] / count for name in CALLS}
    calls |= {f"{name} for each": CLOCK.calls[name] / count for name in WORK}
    _, wall, _ = host.run(count, given.threads)
    _, wall_one, _ = host.run(count, 1)
    result = {
        "batch": host.sweep(count, 1).study.batch,
        "ms_per_instance": 1e3 * seconds / count,
        "lock_ms_per_instance": 1e3 * seconds * held / count,
        **calls,
        "instances_per_second_one_thread": count / wall_one,
        f"instances_per_second_{given.threads}_threads": count / wall,
        "ratio": wall_one / wall,
    }
    if not given.device_only:
        result["numba_lock_ms_per_instance"] = numba_lock_ms(sampler)
        result["startup_core_s"] = startup_seconds()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--batch", type=int, help="instances of a batch at most (as the engine)")
    parser.add_argument("--threads", type=int, default=2, help="threads beside one (2)")
    parser.add_argument(
        "--device-us", type=float, default=0, help="time of an epoch of an instance on the card"
    )
    parser.add_argument("--memory-gib", type=float, default=80, help="memory of the card (80)")
    parser.add_argument(
        "--device-only", action="store_true", help="no figures of a start and of the Numba engine"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = figures(given)
    if given.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
