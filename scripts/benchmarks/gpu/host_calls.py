"""How often a sweep asks something of CUDA's driver: launches, copies, waits.

    python scripts/benchmarks/gpu/host_calls.py [--instances 16] [--batches 2] [--batch-size 1667]
        [--generations 1]

Each of these calls gives Python's lock away, and costs a thread of the host more than the card.
Engine and device are the real ones, over a CuPy that is imitated (`tests/support`); kernels run on
fibers of the host, so that a few instances, on the beginnings of their traces, take minutes. Counts
of events are those of the `numba` engine: a launch, a copy up, a copy down and a wait each.

Prints all calls of each batch, in the cases of the default sweep, and the launches by kernel. In
the end, it prints the calls of the latest batch for each 1,000 instances if a batch has
`--batch-size` of them: larger batches make hardly more calls, as long as an epoch of theirs fits
into the workspace.
"""

import argparse
import collections
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))

from simulated_cupy import Card, SimulatedCupy

from mcage.engines.interface import Counts
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.select import select_engine
from mcage.spec import SweepSpec
from mcage.sweep.batch import compute_batch
from mcage.sweep.study import Sweep

MEMORY_BYTES = 8 << 30


def counting_engine(cupy, numba):
    """The CUDA engine on an imitated card, with the events that `numba` counts."""
    engine, _ = select_engine("cuda", threads=2)

    def count(replays, kernel, fault_maps):
        for call in ("launch", "launch of place", "upload", "download", "wait"):
            cupy.count_call(call)
        return numba._count(replays, kernel, fault_maps)

    engine._counts = Counts(count, ahead=True)
    return engine


def calls_of_batches(instances, batches, generations):
    """Calls of each batch, by their names."""
    cupy = SimulatedCupy([Card(memory_bytes=MEMORY_BYTES, free_bytes=MEMORY_BYTES)])
    sys.modules["cupy"] = cupy
    numba = NumbaEngine()
    spec = SweepSpec(instances=instances, workload={"generations": generations})
    prepared = Sweep(spec, numba)
    prepared.prepare()
    sweep = Sweep(spec, counting_engine(cupy, numba), like=prepared)
    sweep.prepare()
    for batch in range(batches):
        cupy.calls = collections.Counter()
        compute_batch(sweep.plan, np.arange(batch * instances, (batch + 1) * instances))
        yield dict(sorted(cupy.calls.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("instances", 16), ("batches", 2), ("batch-size", 1667)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--generations", type=int, default=1)
    options = parser.parse_args()
    calls = {}
    for calls in calls_of_batches(options.instances, options.batches, options.generations):
        print(json.dumps(calls), flush=True)
    scale = 1000 / options.batch_size
    print(f"for each 1,000 instances in batches of {options.batch_size}:")
    print(json.dumps({name: round(count * scale, 1) for name, count in calls.items()}))


if __name__ == "__main__":
    main()
