"""What depends on the NBTI model: lives of the default cases under each, and what they cost.

    python scripts/experiments/compare_nbti.py [instances]

Prints two tables: of each case, median life, share of the slices that reach the horizon and mean
shift of the worst transistor; and the processor time of an instance, all in one run.
"""

import sys
import time

import numpy as np

from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.stats.estimates import DASH, mean
from mcage.studies.sweep.study import Sweep

MODELS = ("facelift", "bhardwaj", "finfet", "planar")


def main() -> None:
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    lives, seconds = {}, {}
    for model in MODELS:
        spec = SweepSpec.from_mapping(
            {"preset": "papers", "instances": instances, "aging": {"model": model}}
        )
        sweep = Sweep(spec, *select_engine("numba"))
        sweep.prepare()
        sweep.compute(0, 8)  # compiles, where nothing has been compiled yet
        start = time.process_time()
        lives[model] = sweep.compute(0, instances)
        seconds[model] = time.process_time() - start
    print(
        f"{instances} instances\n\n| case | {' | '.join(MODELS)} |\n|{'---|' * (len(MODELS) + 1)}"
    )
    for number, case in enumerate(sweep.header.cases):
        cells = (_cell(lives[model], number, spec.life.horizon_years) for model in MODELS)
        print(f"| `{case['technique']}`, `{case['environment']}` | {' | '.join(cells)} |")
    print("\n| model | ms of processor time an instance | of `facelift`'s |\n|---|---|---|")
    for model in MODELS:
        cost = 1e3 * seconds[model] / instances
        print(f"| `{model}` | {cost:.0f} | {seconds[model] / seconds['facelift']:.1f} |")


def _cell(arrays: dict[str, np.ndarray], case: int, horizon_years: float) -> str:
    life = arrays["life_years"][case]
    median = np.median(life)
    years = f"> {horizon_years:g}" if median >= horizon_years else f"{median:.2f}"
    reach = 100 * np.mean(life >= horizon_years)
    worst = mean(arrays["max_dvth_mv"][case].max(axis=1)).value  # of the slices that worked
    shift = DASH if np.isnan(worst) else f"{worst:.3g} mV"
    return f"{years}, {reach:.0f} %, {shift}"


if __name__ == "__main__":
    main()
