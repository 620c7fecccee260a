"""What a placement program costs on the Numba engine: RRCD as a program against the built-in one.

Processor time of all that a replay takes, which is counting events and the times of all cells, on
random fault maps of each bundled kernel, in turns; compiling is left out:

    python scripts/benchmarks/bench_programs.py [--instances 8]
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from mcage.engines import select_engine
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS, bundled_trace
from mcage.traces.transforms import released

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from rrcd_program import programmed


def main():
    """Print a line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=8, help="fault maps of each kernel")
    instances = parser.parse_args().instances
    engine, _ = select_engine("numba")
    techniques = TECHNIQUES["rrcd"], programmed("rrcd")
    print(f"{'kernel':20} {'rrcd':>8} {'program':>8}  ratio   (ms of processor time a fault map)")
    for kernel in KERNELS:
        trace = released(bundled_trace(kernel), "wavefront")
        replays = [prepare(trace, technique) for technique in techniques]
        spent = np.zeros(2)
        for number, fault_map in enumerate(random_maps(instances + 1)):
            for which, replay in enumerate(replays):
                begun = time.process_time()
                engine.count(replay, fault_map[None])
                engine.cell_times(replay, fault_map[None])
                if number:  # the first compiles, and makes tables
                    spent[which] += time.process_time() - begun
        built_in, program = 1e3 * spent / instances
        print(f"{kernel:20} {built_in:8.1f} {program:8.1f}  {program / built_in:5.2f}")


def random_maps(count):
    """Fault maps uint8[count, 256], each with another number of faulty entries."""
    draw = np.random.default_rng(3)
    faulty = draw.random((count, 256)) < np.linspace(0.02, 0.6, count)[:, None]
    return (draw.integers(1, 16, (count, 256)) * faulty).astype(np.uint8)


if __name__ == "__main__":
    main()
