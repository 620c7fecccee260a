"""Which assumption brings the energies and slowdowns of the papers?

Prints, for the figures of energy and slowdown on which `mcage reproduce` disagrees, what comes out
under other assumptions, one at a time. docs/reproduction.md quotes it.

    python scripts/explore_costs.py
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mcage.costs import CONVENTIONAL, Activity, energy, load_costs, slowdown, suav
from mcage.costs.activity import powered_shares
from mcage.engines.schedule import make_schedule
from mcage.engines.select import select_engine
from mcage.reproduce.study import LIMITS, Study
from mcage.techniques import technique
from mcage.traces import KERNELS
from mcage.variation import SCENARIOS, scenario

Change = Callable[[Study, str, str, int | None, Activity], Activity]


def as_counted(
    study: Study, kernel: str, name: str, limit: int | None, activity: Activity
) -> Activity:
    """What a slice does, unchanged."""
    return activity


def on_until_compressed(
    study: Study, kernel: str, name: str, limit: int | None, activity: Activity
) -> Activity:
    """Entries of open windows are on from the allocation, unless they hold a compressed value."""
    windows = make_schedule(study.traces[kernel], technique(name), limit).windows
    open_cycles = windows.size @ (windows.release_cycle - windows.alloc_cycle)
    on = open_cycles - _off_cycles(study, kernel, name, limit)
    return replace(activity, powered_entry_cycles=np.array([float(on)]))


def resident_throughout(
    study: Study, kernel: str, name: str, limit: int | None, activity: Activity
) -> Activity:
    """The same, and all concurrent windows of Table 5 are open from the first cycle to the last."""
    trace = study.traces[kernel]
    entries = max(trace.window_sizes) * trace.concurrent_windows
    on = entries * activity.cycles - _off_cycles(study, kernel, name, limit)
    return replace(activity, powered_entry_cycles=np.array([float(on)]))


def _off_cycles(study: Study, kernel: str, name: str, limit: int | None) -> float:
    """Entry-cycles that compressed values keep off."""
    schedule = make_schedule(study.traces[kernel], technique(name), limit)
    if name == "argo":
        return 0.0
    return float((schedule.end_cycle - schedule.cycle) @ (1 - powered_shares(schedule)))


def saving(study: Study, name: str, limit: int | None, change: Change) -> float:
    """Energy saved in Fig. 21 of Valero et al., mean of the kernels, percent."""
    technology = load_costs().technology("32nm")
    shares = []
    for kernel, run in study.runs(name, limit).items():
        changed = change(study, kernel, name, limit, run.activity)
        own = energy(changed, technique(name), technology).total
        base = energy(study.conventional[kernel], CONVENTIONAL, technology).total
        shares.append(float((1 - own / base).mean()))
    return 100 * float(np.mean(shares))


def rrcd(
    study: Study, name: str, limit: int | None, spilling: bool, kernels: tuple[str, ...] = KERNELS
) -> tuple[float, float, float]:
    """Slowdown, energy saved, and saved over smoothing: RRCD, means of kernels, percent."""
    costs, policies = load_costs(), technique("rrcd")
    technology, vdd_volts = costs.technology("28nm"), scenario(name).vdd_volts
    values = []
    for kernel in kernels:
        activity = study.runs("rrcd", limit, name)[kernel].activity
        slower = slowdown(activity, policies, technology, costs.penalties)
        lost = slower.total if spilling else slower.total - slower.lds
        own = energy(activity, policies, technology, vdd_volts, lost)
        total = own.total if spilling else own.total - own.lds
        base = study.conventional[kernel]
        smoothed = suav(base, technology, costs).total
        saved = 1 - total / energy(base, CONVENTIONAL, technology).total
        values.append([lost.mean(), saved.mean(), (1 - total / smoothed).mean()])
    slow, saved, over_smoothing = 100 * np.mean(values, axis=0)
    return float(slow), float(saved), float(over_smoothing)


def main() -> None:
    study = Study(select_engine()[0])
    print("Energy saved, percent (Valero et al., Fig. 21: WC 20.2, ARGO 13.1, RC+RAR 19.9)")
    for change in (as_counted, on_until_compressed, resident_throughout):
        line = [f"wc {saving(study, 'wc', 64, change):.1f}"]
        line += [f"argo {saving(study, 'argo', 64, change):.1f}"]
        for limit in LIMITS:
            line.append(f"rc+rar (limit {limit}) {saving(study, 'rc+rar', limit, change):.1f}")
        print(f"  {change.__name__:22}", "   ".join(line))
    print("RRCD: slowdown, energy saved, saved over smoothing, percent")
    print("  (Figs. 5, 6: common 1.53 39 10; clustered 1.60 43 14; dispersed 1.76 47 21)")
    for limit in LIMITS:
        for spilling in (True, False):
            for name in SCENARIOS:
                figures = "  ".join(f"{x:5.2f}" for x in rrcd(study, name, limit, spilling))
                note = "" if spilling else ", nothing spilled"
                print(f"  limit {limit}, {name}{note}: {figures}")


if __name__ == "__main__":
    main()
