"""Are the default sweep's epochs and traces long enough?

Runs cases of the default grid on the same dies with more epochs, and with excerpts of fewer
windows, and compares median life and spill rate. The kernels that an instance runs stay the
same, so that only the discretisation differs.

    python scripts/validation/check_convergence.py [instances [vdd_volts [technique ...]]]
At the end stands by how much medians move from 6 to 40 epochs; exit code 1: by more than 1 %.
"""

import sys
import time
from typing import Any

import numpy as np

from mcage.engines import select_engine
from mcage.lifetime import EndCause
from mcage.spec import SweepSpec
from mcage.stats.survival import life_quantile
from mcage.studies.sweep.study import Sweep

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


FINE, FINEST = "6 epochs", "40 epochs"
MOST = 0.01
"""Part by which a median may move between these two."""


def main() -> int:
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    cases = dict(CASES)
    if len(sys.argv) > 2:
        cases["vdd_volts"] = [float(sys.argv[2])]
    if len(sys.argv) > 3:
        cases["techniques"] = sys.argv[3:]
    reference: dict[str, tuple[float, float]] = {}
    medians: dict[tuple[str, str], float] = {}
    print(f"{instances} instances; median life in years, mean spill rate in percent of the writes")
    for name, changes in VARIANTS.items():
        spec = SweepSpec.from_mapping({"instances": instances, **cases, **changes})
        start = time.perf_counter()
        sweep = Sweep(spec, *select_engine("numba"))
        results = sweep.compute(0, instances)
        print(f"\n{name} ({time.perf_counter() - start:.0f} s)")
        for number, label in enumerate(sweep.header.labels):
            years = results["life_years"][number]
            died = results["end_cause"][number] != EndCause.CENSORED
            life = life_quantile(years, died).value
            medians[label, name] = life
            rates = np.asarray(results["spill_rate"][number], dtype=float)
            lived = np.isfinite(rates)
            spills = 100 * float(rates[lived].mean()) if lived.any() else float("nan")
            mean_life = float(np.mean(years))
            line = f"  {label:35} median {life:8.4f}  mean {mean_life:8.4f}  spill {spills:8.4f}"
            if label in reference:
                life_0, spills_0 = reference[label]
                line += f"   {_change(life, life_0)}  {_change(spills, spills_0)}"
            else:
                reference[label] = (life, spills)
            print(line, flush=True)
    print()
    wrong = 0
    for label in reference:
        fine, finest = medians[label, FINE], medians[label, FINEST]
        wrong += moved(fine, finest) > MOST
        print(f"{label:37} median from {FINE} to {FINEST} {_change(finest, fine)}")
    return 1 if wrong else 0


def moved(one: float, other: float) -> float:
    """Part by which a median moves; none where both lie beyond the horizon, or at zero."""
    return 0.0 if one == other else abs(other / one - 1) if one else np.inf


def _change(new: float, old: float) -> str:
    return "    same" if new == old or old != old else f"{100 * (new / old - 1):+7.2f}%"


if __name__ == "__main__":
    sys.exit(main())
