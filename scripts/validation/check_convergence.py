"""Are the default sweep's epochs and traces long enough?

Runs cases of the default grid on the same dies with more epochs, and with excerpts of fewer
windows, and compares median life and spill rate. The kernels that an instance runs stay the
same, so that only the discretisation differs.

    python scripts/validation/check_convergence.py [instances [vdd_volts [technique ...]]]
"""

import sys
import time
from typing import Any

import numpy as np

from mcage.engines.select import select_engine
from mcage.lifetime import EndCause
from mcage.spec import SweepSpec
from mcage.stats.survival import life_quantile
from mcage.sweep.study import Sweep

CASES: dict[str, Any] = {"techniques": ["rrcd", "rrcd+rc+rar"], "environments": ["dvfs"]}
"""Only where a technique heeds faults do fault maps and spills matter; elsewhere a life follows
from shared duty cycles."""

VARIANTS = {
    "default": {},
    **{f"{epochs} epochs": {"life": {"epochs": epochs}} for epochs in (2, 3, 6, 12, 40)},
    "excerpts of 12 windows a slot": {"workload": {"generations": 12}},
    "excerpts of 8 windows a slot": {"workload": {"generations": 8}},
    "excerpts of 4 windows a slot": {"workload": {"generations": 4}},
}


def main() -> None:
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    cases = dict(CASES)
    if len(sys.argv) > 2:
        cases["vdd_volts"] = [float(sys.argv[2])]
    if len(sys.argv) > 3:
        cases["techniques"] = sys.argv[3:]
    reference: dict[str, tuple[float, float]] = {}
    print(f"{instances} instances; median life in years, mean spill rate in percent of the writes")
    for name, changes in VARIANTS.items():
        spec = SweepSpec.from_mapping({"instances": instances, **cases, **changes})
        start = time.perf_counter()
        sweep = Sweep(spec, *select_engine("numba"))
        results = sweep.compute(0, instances)
        print(f"\n{name} ({time.perf_counter() - start:.0f} s)")
        for number, case in enumerate(sweep.header.cases):
            years = results["life_years"][number]
            died = results["end_cause"][number] != EndCause.CENSORED
            life = life_quantile(years, died).value
            rates = np.asarray(results["spill_rate"][number], dtype=float)
            lived = np.isfinite(rates)
            spills = 100 * float(rates[lived].mean()) if lived.any() else float("nan")
            mean_life = float(np.mean(years))
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
