"""Which part of the cycles that wake-ups and deeper pipelines cost do other wavefronts not hide?

Fits the two unhidden fractions of `mcage/data/costs.toml` that the papers' mean slowdowns
determine, each the same for all ten kernels, on the bundled traces with the published delta limit;
then shows what follows for the other techniques and scenarios, which were not fitted.

    wakeup     Warped-Compression loses 0.43 % (Valero et al., IEEE TC 2019, section 6.5)
    pipeline   RRCD loses 1.53 % in scenario common (Toca-Diaz et al., section V.A); accesses to the
               LDS are left out: they depend on the fault map and on how windows are released, and
               nothing else here does

    python scripts/experiments/fit_unhidden_fractions.py
"""

import dataclasses

import numpy as np

from mcage.costs.activity import activity_of
from mcage.costs.energy import Slowdown, slowdown
from mcage.engines import select_engine
from mcage.engines.interface import fault_free_maps
from mcage.replays.prepare import prepare
from mcage.spec.cost_constants import Penalty, load_costs
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS, open_trace
from mcage.traces.transforms import released
from mcage.variation.fault_models import FaultModel, fault_map
from mcage.variation.scenarios import PUBLISHED, scenario

WC_LOSS, RRCD_LOSS = 0.0043, 0.0153
INSTANCES = 16
CAUSES = [field.name for field in dataclasses.fields(Slowdown)]


def maps_of(name: str) -> np.ndarray:
    """Fault maps with the published shares of faulty entries."""
    this = scenario(name)
    cells = FaultModel(this, "table-exact").sample(1, np.arange(INSTANCES), this.vdd_volts)
    return fault_map(cells, cells.vmin_volts > this.vdd_volts)


def mean_losses(name, technology, penalties, maps, delta_limit=64) -> dict[str, float]:
    """Slowdown by cause, mean over instances and then over the ten kernels."""
    engine, technique = select_engine()[0], TECHNIQUES[name]
    losses = []
    for kernel in KERNELS:
        replay = prepare(released(open_trace(kernel)), technique, delta_limit)
        activity = activity_of(replay, engine.count(replay, maps))
        each = slowdown(activity, technique, technology, penalties)
        losses.append([getattr(each, cause).mean() for cause in CAUSES])
    return dict(zip(CAUSES, np.mean(losses, axis=0), strict=True))


def fitted(losses: dict[str, float], cause: str, target: float, without: str = "") -> float:
    """Unhidden fraction that makes the causes add up to the target; in ``losses`` it is 1."""
    others = sum(loss for name, loss in losses.items() if name not in (cause, without))
    return (target - others) / losses[cause]


def show(label: str, losses: dict[str, float]) -> None:
    parts = "  ".join(f"{cause} {100 * loss:.3f}" for cause, loss in losses.items() if loss)
    print(f"{label:32} {100 * sum(losses.values()):6.3f} %   {parts}")


def main() -> None:
    costs = load_costs()
    old, new = costs.technology("32nm"), costs.technology("28nm")
    full = dataclasses.replace(
        costs.penalties,
        wakeup=Penalty(costs.penalties.wakeup.cycles, 1.0),
        pipeline=Penalty(costs.penalties.pipeline.cycles, 1.0),
    )
    wakeup = fitted(mean_losses("wc", old, full, fault_free_maps()), "wakeup", WC_LOSS)
    rrcd = mean_losses("rrcd", new, full, maps_of("common"))
    pipeline = fitted(rrcd, "pipeline", RRCD_LOSS, without="lds")
    print(f"unhidden fractions: wakeup = {wakeup:.4f}, pipeline = {pipeline:.4f}")
    print(
        f"in costs.toml: wakeup = {costs.penalties.wakeup.unhidden_fraction}, "
        f"pipeline = {costs.penalties.pipeline.unhidden_fraction}\n"
    )
    penalties = dataclasses.replace(
        full,
        wakeup=Penalty(full.wakeup.cycles, wakeup),
        pipeline=Penalty(full.pipeline.cycles, pipeline),
    )
    for limit in (64, None):
        print(f"delta limit {limit}; mean of ten kernels")
        for name in ("wc", "rc+rar", "argo"):
            show(name, mean_losses(name, old, penalties, fault_free_maps(), limit))
        for name in PUBLISHED:
            losses = mean_losses("rrcd", new, penalties, maps_of(name), limit)
            lds = losses.pop("lds")
            show(f"rrcd, {name}, without LDS", losses)
            print(f"{'':32} {100 * lds:6.3f} %   lds")


if __name__ == "__main__":
    main()
