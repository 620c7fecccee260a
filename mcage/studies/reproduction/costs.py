"""Slowdown and energy as both papers report them: each kernel against a conventional slice."""

from dataclasses import dataclass, fields

import numpy as np

from mcage.costs import CONVENTIONAL, Energy, Slowdown, energy, load_costs, slowdown, suav
from mcage.studies.reproduction.kernel_replays import KernelReplays
from mcage.studies.reproduction.measured import Measured, Metric, Samples, of_kernels
from mcage.studies.reproduction.published import Published
from mcage.techniques import technique
from mcage.variation.scenarios import PUBLISHED, scenario

TECHNOLOGIES = {"000": "32nm", "002": "28nm"}
"""Technology of each paper."""


@dataclass(frozen=True)
class Spent:
    """Slowdown and energy of a technique on a kernel, for each die.

    Attributes
    ----------
    slowdown : Slowdown
        Extra execution time.
    energy, conventional : Energy
        Energy of the technique, and of the conventional slice.
    smoothed : Energy or None
        Energy of the conventional slice at the lower voltage that smoothing allows; only for the
        paper on RRCD.
    """

    slowdown: Slowdown
    energy: Energy
    conventional: Energy
    smoothed: Energy | None

    @property
    def saving(self) -> Samples:
        """Energy saved, as a fraction of the conventional slice's."""
        return 1 - self.energy.total / self.conventional.total

    @property
    def saving_over_smoothing(self) -> Samples:
        """Energy saved, as a fraction of the smoothed slice's."""
        assert self.smoothed is not None
        return 1 - self.energy.total / self.smoothed.total


def spent(
    study: KernelReplays, paper: str, name: str, limit: int | None, scenario_name: str = ""
) -> dict[str, Spent]:
    """Slowdown and energy of a technique on each kernel, in the technology of a paper.

    Parameters
    ----------
    study : KernelReplays
        Replays.
    paper, name : str
        Key of `TECHNOLOGIES`, and technique.
    limit : int or None
        Largest delta of a compressible value.
    scenario_name : str
        Scenario of the faults and of the Vdd; empty: no faults, and the nominal Vdd.
    """
    key = "spent", paper, name, limit, scenario_name
    return study.once(key, lambda: _spent(study, paper, name, limit, scenario_name))


def _spent(
    study: KernelReplays, paper: str, name: str, limit: int | None, scenario_name: str
) -> dict[str, Spent]:
    costs = load_costs()
    technology, policies = costs.technology(TECHNOLOGIES[paper]), technique(name)
    vdd_volts = scenario(scenario_name).vdd_volts if scenario_name else None
    of = {}
    for kernel, run in study.runs(name, limit, scenario_name).items():
        slower = slowdown(run.activity, policies, technology, costs.penalties)
        conventional = study.conventional[kernel]
        of[kernel] = Spent(
            slower,
            energy(run.activity, policies, technology, vdd_volts, slower.total),
            energy(conventional, CONVENTIONAL, technology),
            suav(conventional, technology, costs) if scenario_name else None,
        )
    return of


def _metric(attribute: str) -> Metric:
    """Metric that is a share of each kernel on each die; without a scenario, over all scenarios."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        names = [figure.scenario] if figure.scenario or figure.paper == "000" else list(PUBLISHED)
        values: dict[str, list[Samples]] = {}
        for name in names:
            for kernel, cost in spent(study, figure.paper, figure.technique, limit, name).items():
                value = cost.slowdown.total if attribute == "slowdown" else getattr(cost, attribute)
                values.setdefault(kernel, []).append(100 * value)
        return of_kernels(figure, {kernel: np.concatenate(of) for kernel, of in values.items()})

    return measure


METRICS: dict[str, Metric] = {
    "slowdown": _metric("slowdown"),
    "energy_saving": _metric("saving"),
    "energy_saving_over_smoothing": _metric("saving_over_smoothing"),
}


def parts(of: Energy | Slowdown, whole: Samples) -> dict[str, float]:
    """Means over dies of the parts of an energy or a slowdown, as fractions of a whole."""
    return {field.name: float((getattr(of, field.name) / whole).mean()) for field in fields(of)}
