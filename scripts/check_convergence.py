"""Are the default sweep's epochs and excerpts long enough?

Runs the default grid on the same dies with twice as many epochs and with excerpts of twice as many
windows, and compares median life and spill rate of every case. The kernels that an instance runs
stay the same, so that only the discretisation differs.

    python scripts/check_convergence.py [instances]
"""

import sys
import time

import numpy as np

from mcage.campaign.sweep import Sweep
from mcage.engines.select import select_engine
from mcage.spec import SweepSpec

DEFAULT = SweepSpec()
VARIANTS = {
    "default": {},
    "twice the epochs": {"life": {"epochs": 2 * DEFAULT.life.epochs}},
    "twice the windows": {"workload": {"generations": 2 * DEFAULT.workload.generations}},
    "whole traces": {"workload": {"generations": 0}},
}


def main() -> None:
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    chosen = list(VARIANTS)
    reference: dict[str, tuple[float, float]] = {}
    print(f"{instances} instances; median life in years, mean spill rate in percent of the writes")
    for name in chosen:
        spec = SweepSpec.from_mapping({"instances": instances, **VARIANTS[name]})
        start = time.perf_counter()
        sweep = Sweep(spec, *select_engine("numba"))
        results = sweep.compute(0, instances)
        print(f"\n{name} ({time.perf_counter() - start:.0f} s)")
        for number, case in enumerate(sweep.campaign.cases):
            life = float(np.median(results["life_years"][number]))
            rates = np.asarray(results["spill_rate"][number], dtype=float)
            lived = np.isfinite(rates)
            spills = 100 * float(rates[lived].mean()) if lived.any() else float("nan")
            mean_life = float(np.mean(results["life_years"][number]))
            line = (
                f"  {case.label:35} median {life:8.4f}  mean {mean_life:8.4f}  spill {spills:8.4f}"
            )
            if case.label in reference:
                life_0, spills_0 = reference[case.label]
                line += f"   {_change(life, life_0)}  {_change(spills, spills_0)}"
            else:
                reference[case.label] = (life, spills)
            print(line, flush=True)


def _change(new: float, old: float) -> str:
    return "    same" if new == old or old != old else f"{100 * (new / old - 1):+7.2f}%"


if __name__ == "__main__":
    main()
