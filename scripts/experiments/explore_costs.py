"""Which assumption brings the energies and slowdowns of the papers?

Prints, for the figures of energy and slowdown on which `mcage reproduce` disagrees, what comes out
under other assumptions, one at a time. docs/reproduction.md quotes it.

    python scripts/experiments/explore_costs.py
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import numpy as np
from activity_cases import with_idle_entries_on

from mcage.costs.activity import CONVENTIONAL, Activity
from mcage.costs.energy import energy, slowdown, suav
from mcage.engines import select_engine
from mcage.papers.kernel_replays import LIMITS, KernelReplays
from mcage.spec.cost_constants import load_costs
from mcage.techniques import technique
from mcage.variation.scenarios import PUBLISHED, scenario


def saving(study: KernelReplays, name: str, limit: int | None, idle_on: bool) -> float:
    """Energy saved in Fig. 21 of Valero et al., mean of the kernels, percent.

    Either as replayed, or with idle entries on, as section 6.6 can be read.
    """
    technology = load_costs().technology("32nm")
    shares = []
    for kernel, run in study.runs(name, limit).items():
        policies = technique(name)
        slower = slowdown(run.activity, policies, technology, load_costs().penalties).total
        activity = run.activity
        if idle_on:
            activity = with_idle_entries_on(activity, study.traces[kernel], name, limit)
        used = energy(activity, policies, technology, slowdown=slower).total
        base = energy(study.conventional[kernel], CONVENTIONAL, technology).total
        shares.append(float((1 - used / base).mean()))
    return 100 * float(np.mean(shares))


def rrcd(
    study: KernelReplays, name: str, limit: int | None, spilling: bool
) -> tuple[float, float, float]:
    """Slowdown, energy saved, and saved over smoothing: RRCD, means of the kernels, percent.

    Either as replayed, or as if spilled registers had found a home in the slice.
    """
    costs, policies = load_costs(), technique("rrcd")
    technology, vdd_volts = costs.technology("28nm", "rows"), scenario(name).vdd_volts
    values = []
    for kernel, run in study.runs("rrcd", limit, name).items():
        activity = run.activity if spilling else _at_home(run.activity)
        lost = slowdown(activity, policies, technology, costs.penalties).total
        total = energy(activity, policies, technology, vdd_volts, lost).total
        base = study.conventional[kernel]
        smoothed = suav(base, technology, costs).total
        saved = 1 - total / energy(base, CONVENTIONAL, technology).total
        values.append([lost.mean(), saved.mean(), (1 - total / smoothed).mean()])
    slow, saved, over_smoothing = 100 * np.mean(values, axis=0)
    return float(slow), float(saved), float(over_smoothing)


def _at_home(activity: Activity) -> Activity:
    reads, writes = (
        replace(accesses, uncompressed=accesses.uncompressed + accesses.lds, lds=0 * accesses.lds)
        for accesses in (activity.reads, activity.writes)
    )
    return replace(activity, reads=reads, writes=writes)


def main() -> None:
    study = KernelReplays(select_engine()[0])
    print("Energy saved, percent (Valero et al., Fig. 21: WC 20.2, ARGO 13.1, RC+RAR 19.9)")
    for idle_on in (False, True):
        line = [f"wc {saving(study, 'wc', 64, idle_on):.1f}"]
        line += [f"argo {saving(study, 'argo', 64, idle_on):.1f}"]
        for limit in LIMITS:
            line.append(f"rc+rar (limit {limit}) {saving(study, 'rc+rar', limit, idle_on):.1f}")
        print("  idle entries on" if idle_on else "  as replayed    ", "   ".join(line))
    print("RRCD: slowdown, energy saved, saved over smoothing, percent")
    print("  (Figs. 5, 6: common 1.53 39 10; clustered 1.60 43 14; dispersed 1.76 47 21)")
    for limit in LIMITS:
        for spilling in (True, False):
            for name in PUBLISHED:
                figures = "  ".join(f"{x:5.2f}" for x in rrcd(study, name, limit, spilling))
                note = "" if spilling else ", nothing spilled"
                print(f"  limit {limit}, {name}{note}: {figures}")


if __name__ == "__main__":
    main()
