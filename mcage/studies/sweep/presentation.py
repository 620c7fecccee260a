"""How a sweep is shown: its table, its figures, and what it says in sentences."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.costs.energy import savings_of_all
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.protection.policy import DEFAULT
from mcage.report.cases import CAUSES, cases_in, in_a_row, lives_of, named_cases, names_in
from mcage.report.presentation import INTERVALS, LEFT_OUT, Assumptions, Presentation, Summary, Words
from mcage.report.tables import ResultTable
from mcage.results.header import Header
from mcage.results.measures import Case
from mcage.spec import SweepSpec
from mcage.spec.sections import Workload, tables_of
from mcage.stats import estimates
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.tables import added_to, table_of
from mcage.variation.scenarios import CELL_6T, CELL_8T

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


# Sentences about a sweep, and the models that its results rest on.


def energy_is_known(results: xr.Dataset) -> bool:
    """Whether a slice has an energy: none has where constants are of another slice."""
    return bool(np.isfinite(results["energy_saving_nominal"].values).any())


def assumptions_of(header: SweepHeader, results: xr.Dataset) -> Assumptions:
    """Models, limits and choices of the spec of a sweep, and what is left out."""
    try:
        mode = tomllib.loads(header.spec_toml).get("faults", {}).get("mode", "varius")
        spec = SweepSpec.from_mapping(tables_of(header.spec_toml))
    except (UserError, tomllib.TOMLDecodeError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
    life, aging, faults = spec.life, spec.aging, spec.faults
    kernels = ", ".join(header.kernels)
    if not spec.workload.kernels:
        kernels = f"of suite {spec.workload.suite}: {kernels}"
    limit = _limits(spec)
    pbti = (
        "PBTI is left out"
        if aging.pbti == 0
        else f"PBTI of the pull-down transistors: {aging.pbti}"
    )
    spread = (
        "transistors that are stressed alike shift alike"
        if aging.nbti_spread_mv == 0
        else f"transistors that are stressed alike differ (eta {aging.nbti_spread_mv:g} mV, delay "
        f"path {life.delay_path})"
    )
    scenarios = list(dict.fromkeys(str(case["scenario"]) for case in header.cases))
    has_energy = energy_is_known(results)
    protected = f"entries are protected by {', '.join(spec.protections)}"
    if spec.protections == (DEFAULT,):
        protected = "error-correcting pointers (ECP) repair one faulty bit of each entry"
    costs = "Energy and slowdown" if has_energy else "Slowdown"
    energy = [
        (
            "Energy and Vdd",
            "The slice's leakage is linear in Vdd, and an access takes energy by its power of "
            f"{spec.costs.of_technology.access_exponent:.3g}"
            + ("; at printed voltages, as printed." if spec.costs.vdd_scaling == "rows" else "."),
        )
    ]
    return [
        (
            "Aging",
            f"NBTI by the model {aging.model}"
            f"{' with other constants' if aging.constants else ''}; {spread}; {pbti}.",
        ),
        (
            "End of life",
            f"The worst transistor delays the slice by more than {_percent(life.delay_guardband)} "
            "(an assumed guardband), an entry that is needed is faulty, or no window or row finds "
            f"a home. {limit[0].upper()}{limit[1:]}. Lives that reach {life.horizon_years:g} years "
            "are censored: they are longer, nobody knows how much.",
        ),
        (
            "Faults",
            f"Process variation of scenario {', '.join(scenarios)} (mode {mode})"
            f"{_of_cell(faults.cell)}; {protected}; Vmin grows with the "
            f"{_vmin(aging.vmin_model, life.vmin_coefficient, faults.cell)}."
            + (
                ""
                if faults.dies_differ(scenarios)
                else " Dies do not differ in their mean, since no source gives how much."
            ),
        ),
        (
            "Workload",
            f"{_schedule(spec.workload)} of the kernels {kernels} (mix "
            f"{_mix(spec.workload.mix)}); windows are released with their "
            f"{spec.workload.release}; "
            + (
                "whole traces."
                if not spec.workload.generations
                else f"traces cut to {spec.workload.generations} windows of each slot."
            ),
        ),
        (
            "Conditions",
            f"Temperature {_drawn(life.temperature_kelvin)} K; "
            + (
                "busy all of the time."
                if life.activity == 1
                else f"busy for {_drawn(life.activity)} of the time, idle cells {life.idle}."
            ),
        ),
        (
            "Costs",
            f"{costs} with {spec.costs.user_defined}."
            if spec.costs.tables
            else f"{costs} with the constants of {spec.costs.technology}. Those that "
            "its paper prints are published; those of the LDS, of the destination buffer and of "
            "units of the other technology are assumed; which part of a delay other wavefronts "
            "hide is fitted to published means or assumed.",
        ),
        *(energy if has_energy else []),
        ("Left out", f"{LEFT_OUT.capitalize()}; they would shorten lives further."),
        INTERVALS,
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _of_cell(cell: str | None) -> str:
    """Effect of 8T cells on the faults of new slices."""
    return ", moved as simulated for 8T cells" if cell == CELL_8T else ""


def _vmin(model: str, coefficient: float, cell: str | None) -> str:
    from mcage.aging.vmin import KINDS_OF, LARGER

    if model == LARGER:
        return f"larger shift of its two transistors, times {coefficient:g}"
    *others, last = KINDS_OF[cell or CELL_6T]
    return f"margins for {', '.join(others)} and {last} ({model})"


def _schedule(workload: Workload) -> str:
    """How many kernels run in a period, and how they follow each other."""
    periods = f"{workload.periods} period{'s' if workload.periods > 1 else ''}, each with"
    if workload.schedule == "sequential":
        return f"{periods} one"
    number = "" if isinstance(workload.mix, dict) else f"up to {workload.mix_size} "
    return f"{periods} a mix (in turns that are short against an epoch) of {number}"


def _mix(mix: str | Mapping[str, float]) -> str:
    return mix if isinstance(mix, str) else ", ".join(f"{k} {v:g}" for k, v in mix.items())


def _limits(spec: SweepSpec) -> str:
    """Limits that end a life before its cells do."""
    life = spec.life
    room = (
        "Registers for which the LDS has no room live in memory"
        if spec.registers.overflow == "memory"
        else "A register for which the LDS has no room ends a life"
    )
    slow = (
        "no slowdown ends a life"
        if isinstance(life.slowdown_limit, str)
        else f"a mix that is more than {_percent(life.slowdown_limit)} slower ends a life"
    )
    if life.spill_limit is None:
        return f"{room}; {slow}"
    spilled = f"spilling more than {_percent(life.spill_limit)} of the writes of a kernel ends it"
    return f"{room}; {slow}, and {spilled}"


def _drawn(value: float | str) -> str:
    return str(Distribution.of(value)) if isinstance(value, str) else f"{value:g}"


FATES = {
    "delay": "die of delay",
    "faulty entry": "die of a faulty entry",
    "no home": "die because a register finds no home",
    "too slow": "die because the mix has become too slow",
    "spill limit": "die of the spill limit",
}
"""Causes of death in sentences."""


def simulated(header: SweepHeader, names: Mapping[str, str]) -> str:
    """Content of the sweep."""
    parts = {
        axis.name: list(dict.fromkeys(axis.written(case[axis.name]) for case in header.cases))
        for axis in header.axes
        if axis.named != "never" and not axis.derived and not axis.of_spec
    }
    grid = "; ".join(
        f"{what}{'s' if len(values) > 1 else ''} {in_a_row([names.get(v, v) for v in values])}"
        for what, values in parts.items()
    )
    cases = f"{len(header.cases)} cases" if len(header.cases) > 1 else "one case"
    return (
        f"The lives of {header.holds:,} register-file slices in {cases} ({grid}), up to a horizon "
        f"of {header.horizon_years:g} years, with seed {header.seed}. Instance i is the same die "
        "with the same workload in all cases, so that cases are compared die by die."
    )


def outcomes(results: xr.Dataset) -> list[tuple[str, str]]:
    """A point for each environment, scenario and voltage."""
    lives: dict[str, dict[str, CaseLives]] = {}
    saved: dict[str, dict[str, estimates.Estimate]] = {}
    for named, case in zip(named_cases(results), cases_in(results), strict=True):
        savings = savings_of_all({name: case[name].values for name in SAVED})
        lives.setdefault(named.conditions, {})[named.name] = lives_of(case)
        saved.setdefault(named.conditions, {})[named.name] = estimates.mean(100 * savings)
    return [
        (conditions, f"{_longest(of)} {_killers(of)} {_energy(saved[conditions])}")
        for conditions, of in lives.items()
    ]


SAVED = ("life_years", "energy_saving_nominal")


def _energy(saved: Mapping[str, estimates.Estimate]) -> str:
    """Which technique saves most energy, over all slices, and of which nobody knows."""
    known = {name: of for name, of in saved.items() if not math.isnan(of.value)}
    if not known:
        return "How much energy is saved is not known."
    best = max(known, key=lambda name: known[name].value)
    text = (
        f"Most energy is saved by {best}, {estimates.plus_minus(known[best])} % of what "
        "conventional slices at the technology's nominal Vdd take, mean of all slices."
    )
    unknown = [name for name in saved if name not in known]
    return f"{text} It is not known of {in_a_row(unknown)}." if unknown else text


def _longest(lives: Mapping[str, CaseLives]) -> str:
    """Which technique lives longest, and by how much, on the same dies."""
    ordered = sorted(lives, key=lambda name: -float(np.mean(lives[name].years)))
    first = lives[ordered[0]]
    horizon = f"{first.horizon_years:g} years"
    if not first.years.any():
        return "no slice works under any technique."
    of_all = [name for name in ordered if not lives[name].died.any()]
    if len(of_all) > 1 or of_all == ordered:
        return f"all slices of {in_a_row(of_all)} reach the horizon of {horizon}."
    mean = estimates.mean(first.years, within=first.within)
    years = estimates.plus_minus(mean)
    said = f"{ordered[0]} lives {years} years on average up to the horizon"
    if len(ordered) == 1:
        return f"{said} of {horizon}."
    return f"{said} of {horizon} (restricted mean), {_gain(lives, ordered)}."


def _gain(lives: Mapping[str, CaseLives], ordered: Sequence[str]) -> str:
    """How far the best technique is from the others on the same dies."""
    first = lives[ordered[0]].years
    alike: list[str] = []
    for name in ordered[1:]:
        of = lives[name]
        gain = compare_means(first, of.years, within=of.within).difference
        if not math.isnan(gain.lower) and gain.lower > 0:
            longer = f"{estimates.plus_minus(gain)} years longer than {name} on the same dies"
            if alike:
                return f"{_not_told_apart(alike, first, lives)}; {longer}"
            return f"the longest of all, {longer}"
        alike.append(name)
    return _not_told_apart(alike, first, lives)


def _not_told_apart(
    alike: Sequence[str], first: estimates.Floats, lives: Mapping[str, CaseLives]
) -> str:
    same = [name for name in alike if np.array_equal(lives[name].years, first)]
    near = [name for name in alike if name not in same]
    said = []
    if same:
        said.append(f"as does {in_a_row(same)}, die by die")
    if near:
        said.append(f"which these dies do not tell apart from {in_a_row(near)}")
    return ", and ".join(said)


def _killers(lives: Mapping[str, CaseLives]) -> str:
    """Fate of most slices of each technique; techniques with the same fate stand together."""
    together: dict[str, dict[str, float]] = {}
    for name, of_case in lives.items():
        shares = {
            FATES[words]: float(np.mean(of_case.cause == cause)) for cause, words in CAUSES.items()
        }
        shares["reach the horizon"] = float(np.mean(~of_case.died))
        most = max(shares, key=lambda words: shares[words])
        together.setdefault(most, {})[name] = shares[most]
    parts = []
    for fate, shares in together.items():
        low, high = estimates.percent(min(shares.values())), estimates.percent(max(shares.values()))
        share = low if low == high else f"{low} to {high}"
        parts.append(f"{fate} with {in_a_row(list(shares))} ({share})")
    return f"Most slices {'; '.join(parts)}."


class SweepPresentation(Presentation):
    """How a sweep is shown."""

    instances = "instances per case"
    further = ("draw",)

    def added(self, case: Case) -> dict[str, Any]:
        """Voltages, horizon, constants of the energy, and what ends lives."""
        return added_to(case)

    def table_of(self, summaries: Sequence[Summary]) -> ResultTable:
        """Table of the cases, with what draws of constants make uncertain below it."""
        return table_of(summaries)

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """The figures of a results file, one by one."""
        from mcage.studies.sweep.figures import draw

        assert isinstance(header, SweepHeader)
        return draw(header, results)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Content of the sweep, and the technique that lives longest on the same dies."""
        assert isinstance(header, SweepHeader)
        return Words(simulated(header, names_in(results)), tuple(outcomes(results)))

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out."""
        assert isinstance(header, SweepHeader)
        return assumptions_of(header, results)
