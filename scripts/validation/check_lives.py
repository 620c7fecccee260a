"""Are lives of a sweep those of an oracle that was written from the documentation?

    python scripts/validation/check_lives.py [--instances 200] [--techniques rrcd,rar] [--bundled]

Every life is computed twice, by a sweep and by `tests/support/life_oracle.py`, and compared: life,
cause, shifts, spills, slowdown, power. Sweeps are of the default form (mixes of three kernels that
take turns, slices that differ) at a voltage at which slices of the technique have different lives;
`tests/validation/test_life_oracle.py` does this for a few of them. Kernels have a few hundred
events, so that a life takes a second (`rrcd+rc+rar`: eight); with `--bundled` they are excerpts of
bundled ones, which take five times as long. Exit code 1: something differs.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import numpy as np
from life_oracle import SweepInputs, differences
from short_kernels import short_kernels

from mcage.engines.numba_engine import NumbaEngine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES

CROWDED = ((8, 31), (12, 21), (16, 15), (31, 8), (10, 24))
SPARSE = ((6, 3), (8, 2), (12, 2), (16, 1), (10, 2))
BUNDLED = {
    "crowded": ("MatrixTranspose", "Reduction", "ScanLargeArrays", "BlackScholes"),
    "sparse": ("MatrixTranspose", "Reduction", "ScanLargeArrays"),
}
VDD_VOLTS = {"gr-guard": 0.405, "disable": 0.45, "rrcd": 0.41, "rrcd+pg": 0.41, "rrcd+rc+rar": 0.41}
OF_FIXED = {"argo": 0.5}
"""Low Vdd of techniques that cannot move data: 0.46 V unless said otherwise."""


def sweep_of(technique, instances, bundled, folder):
    """A sweep in which slices of the technique have different lives."""
    shape = "crowded" if technique in VDD_VOLTS else "sparse"
    if bundled:
        workload = {"kernels": list(BUNDLED[shape]), "generations": 1}
    else:
        shapes = CROWDED if shape == "crowded" else SPARSE
        workload = {"kernels": short_kernels(folder, shapes)}
    fields = {
        "instances": instances,
        "techniques": [technique],
        "environments": ["dvfs"],
        "vdd_volts": [VDD_VOLTS.get(technique) or OF_FIXED.get(technique, 0.46)],
        "workload": workload,
    }
    if technique in VDD_VOLTS and technique != "disable":
        fields["registers"] = {"lds_rows": 12}
    return Sweep(SweepSpec.from_mapping(fields), NumbaEngine())


def check(technique, instances, bundled):
    """What differs in lives of a technique, and a line about all of them."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sweep = sweep_of(technique, instances, bundled, Path(folder))
        arrays = sweep.compute(0, instances)
        (case,) = sweep.plan.cases
        edges, said, causes = sweep.plan.spec.epoch_edges_years, [], Counter()
        for place, told in enumerate(SweepInputs(sweep, np.arange(instances)).lives(case)):
            found = differences(told, arrays, 0, place, edges)
            said += [f"{technique}, die {place}: {line}" for line in found]
            causes["dead on arrival" if told.years == 0 else told.cause] += 1
    ends = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    seconds = time.monotonic() - begin
    return said, f"{technique}: {instances} lives ({ends}), {len(said)} differ, {seconds:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=200, help="of every technique")
    parser.add_argument("--techniques", default=",".join(TECHNIQUES), help="names, by commas")
    parser.add_argument("--bundled", action="store_true", help="excerpts of bundled kernels")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    work = partial(check, instances=options.instances, bundled=options.bundled)
    wrong = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for said, line in pool.map(work, options.techniques.split(",")):
            print(*said, line, sep="\n", flush=True)
            wrong += len(said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
