"""What a results file says in sentences, and what its results rest on."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.report.cases import CAUSES, Setting, lives_of, names_in
from mcage.results.header import Header
from mcage.spec import SweepSpec
from mcage.stats.estimates import (
    CONFIDENCE,
    Estimate,
    Floats,
    life,
    mean,
    percent,
    plus_minus,
    proportion,
    with_bounds,
)
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives, life_quantile
from mcage.sweep.header import SweepHeader
from mcage.variation.scenarios import scenario

# What files of whole GPUs say, in sentences.

Said = tuple[str, list[tuple[str, str]]]
"""What was simulated, and what came out of it."""


def said_of_gating(header: Header, results: xr.Dataset) -> Said:
    """Which policy needs the smallest margin, and how many GPUs live."""
    policies = _names(results, "policy")
    ages = results["age"].values
    horizon = float(ages[-1])
    margins = results["margin_needed"].values[:, :, -1]
    lives = results["life_years"].values
    died = results["end_cause"].values != 0
    outcomes = []
    means = margins.mean(axis=1)
    if len(policies) > 1:
        best = int(np.argmin(means))
        reference = 0 if best else int(np.argsort(means)[1])
        gain = mean(margins[reference] - margins[best])
        outcomes.append(
            (
                f"Margin after {horizon:g} years",
                f"smallest under {policies[best]}, {plus_minus(mean(margins[best]), 100)} % on "
                f"average, {plus_minus(gain, 100)} percentage points less than under "
                f"{policies[reference]} on the same GPUs.",
            )
        )
    for place, name in enumerate(policies):
        median = life_quantile(lives[place], died[place], 0.5)
        alive = proportion(int(np.count_nonzero(~died[place])), died.shape[1])
        outcomes.append(
            (
                name,
                f"half of the GPUs live {_age(median, horizon)} years; "
                f"{with_bounds(alive, 100)} % reach the horizon, and delay ends the lives of the "
                "others.",
            )
        )
    return _gpus(header, results, horizon), outcomes


def said_of_both(header: Header, results: xr.Dataset) -> Said:
    """What each level saves, and what ends lives."""
    policies, techniques = _names(results, "policy"), _names(results, "technique")
    horizon = float(results["age"].values[-1])
    shifts = results["max_dvth_mv"].values[..., -1]
    lives, ends = results["life_years"].values, results["end_cause"].values
    flags = results["end_cause"].attrs
    outcomes = []
    for p, policy in enumerate(policies):
        for t, technique in enumerate(techniques):
            median = life_quantile(lives[p, t], ends[p, t] != 0, 0.5)
            saved = 1 - shifts[p, t] / shifts[0, 0]
            pairs = int(np.isfinite(saved).sum())
            where = (
                ""
                if pairs == saved.size
                else f", on the {pairs} of {saved.size} GPUs whose register files last with both"
            )
            less = (
                ""
                if p == t == 0 or not pairs
                else f"; the largest shift of a cell is {plus_minus(mean(saved), 100)} % less than "
                f"with {policies[0]} and {techniques[0]}{where}"
            )
            outcomes.append(
                (
                    f"{policy} with {technique}",
                    f"half of the GPUs live {_age(median, horizon)} years{less}. "
                    f"{_ends(ends[p, t], flags)}",
                )
            )
    return _gpus(header, results, horizon), outcomes


def said_of_heterogeneity(header: Header, results: xr.Dataset) -> Said:
    """In which share of the draws the order of the paper holds."""
    outcomes = []
    for place, reading in enumerate(_names(results, "reading")):
        holds = results["order_holds"].values[place] != 0
        share = proportion(int(np.count_nonzero(holds)), holds.size)
        outcomes.append(
            (
                f"Reading {reading}",
                "proposal better than baseline, and baseline better than duplication, holds in "
                f"{with_bounds(share, 100)} % of the draws.",
            )
        )
        efficiency = results["efficiency"].values[place]
        for row, design in enumerate(_names(results, "design")):
            if row:
                better = proportion(int(np.count_nonzero(efficiency[row] < 1)), holds.size)
                outcomes.append(
                    (
                        f"Reading {reading}, {design}",
                        f"NBTI efficiency {plus_minus(mean(efficiency[row]))} of the baseline's "
                        "(less is better); better than the baseline in "
                        f"{with_bounds(better, 100)} % of the draws.",
                    )
                )
    simulated = (
        f"{header.holds:,} draws of what the paper leaves open, with seed {header.seed}; each draw "
        "is the same for all designs."
    )
    return simulated, outcomes


def _gpus(header: Header, results: xr.Dataset, horizon: float) -> str:
    kinds = [f"{len(_names(results, 'policy'))} policies that assign SMs"]
    if "technique" in results.dims:
        kinds.append(f"{results.sizes['technique']} techniques of the register files")
    return (
        f"The lives of {header.holds:,} GPUs under {' and '.join(kinds)}, up to a horizon of "
        f"{horizon:g} years, with seed {header.seed}. Instance i is the same GPU everywhere, so "
        "that differences are taken GPU by GPU."
    )


def _names(results: xr.Dataset, dimension: str) -> list[str]:
    names = names_in(results)
    return [names.get(name, name) for name in map(str, results[dimension].values.tolist())]


def _age(age: Estimate, horizon: float) -> str:
    if math.isinf(age.value):
        return f"longer than {horizon:g}"
    return life(age, horizon)


def _ends(ends: np.ndarray, flags: dict[str, object]) -> str:
    """What ends the lives, the most frequent cause first."""
    meanings = str(flags.get("flag_meanings", "")).split()
    values = np.atleast_1d(np.asarray(flags.get("flag_values", ())))
    shares = {
        meaning.lower().replace("_", " "): float(np.mean(ends == value))
        for meaning, value in zip(meanings, values, strict=True)
    }
    ordered = sorted(
        (name for name, share in shares.items() if share), key=lambda name: -shares[name]
    )
    said = (
        f"{percent(shares[name])} {'reach the horizon' if name == 'censored' else f'die of {name}'}"
        for name in ordered
    )
    return f"Of the GPUs, {', '.join(said)}."


# What a result rests on: models, limits and choices of its spec, and what is left out.

Assumptions = list[tuple[str, str]]
"""What each is about, and what is assumed."""

LEFT_OUT = "hot-carrier injection, breakdown of the gate oxide and electromigration"


def assumptions_of(header: Header) -> Assumptions:
    """Assumptions behind a results file, from its spec.

    Raises
    ------
    UserError
        The spec is not that of its study.
    """
    if isinstance(header, SweepHeader):
        return _of_sweep(header)
    try:
        spec = tomllib.loads(header.spec_toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError("attribute spec: is not TOML") from error
    if header.study == "gpu-gating":
        return [*_of_gating(spec), _intervals()]
    if header.study == "gpu-both":
        technique = spec["sweep"]
        return [
            *_of_gating(spec["gating"], technique["aging"]["pbti"]),
            (
                "Register files",
                f"{spec['slices_per_sm']} slices stand for each SM; a slice has the faults of "
                f"scenario {', '.join(technique['scenarios'])}, and windows are released with "
                f"their {technique['workload']['release']}.",
            ),
            _intervals(),
        ]
    if header.study == "gpu-heterogeneity":
        return [
            (
                "Draws",
                "What the paper leaves open is drawn anew for each instance, from the "
                "distributions in the spec below.",
            ),
            ("Left out", f"{LEFT_OUT.capitalize()}."),
            _intervals(),
        ]
    return [_intervals()]


def _intervals() -> tuple[str, str]:
    return (
        "Intervals",
        f"All cover {CONFIDENCE:.0%}: order statistics for B10 and median lives, Wilson's for "
        "shares, Student's t for means, pointwise Kaplan-Meier bands for curves. They say how "
        "far the sample may be off, not how far the model may be, and are not corrected for the "
        "number of comparisons.",
    )


def _of_sweep(header: SweepHeader) -> Assumptions:
    try:
        spec = SweepSpec.from_mapping(tomllib.loads(header.spec_toml))
    except (UserError, tomllib.TOMLDecodeError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
    life, aging, faults = spec.life, spec.aging, spec.faults
    kernels = ", ".join(header.kernels)
    limit = (
        "Spilling ends no life as long as there is room"
        if life.spill_limit is None
        else f"spilling more than {_percent(life.spill_limit)} of the writes of a kernel ends it"
    )
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
    scenarios = list(dict.fromkeys(case.scenario for case in header.cases))
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
            f"Process variation of scenario {', '.join(scenarios)} (mode {faults.mode}); "
            "error-correcting pointers (ECP) repair one faulty bit of each entry; Vmin grows with "
            f"the {_vmin(aging.vmin_model, life.vmin_coefficient)}."
            + (
                ""
                if _dies_differ(scenarios, faults.sigma_die_volts)
                else " Dies do not differ in their mean, since no source gives how much."
            ),
        ),
        (
            "Workload",
            f"{spec.workload.periods} periods, each with one of the kernels {kernels} (mix "
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
            f"Energy and slowdown with {spec.costs.user_defined}."
            if spec.costs.tables
            else f"Energy and slowdown with the constants of {spec.costs.technology}. Those that "
            "its paper prints are published; those of the LDS, of the destination buffer and of "
            "units of the other technology are assumed; which part of a delay other wavefronts "
            "hide is fitted to published means or assumed.",
        ),
        ("Left out", f"{LEFT_OUT.capitalize()}; they would shorten lives further."),
        _intervals(),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _vmin(model: str, coefficient: float) -> str:
    if model == "larger":
        return f"larger shift of its two transistors, times {coefficient:g}"
    return f"margins for reading, writing and holding ({model})"


def _dies_differ(scenarios: list[str], sigma_volts: float | None) -> bool:
    if sigma_volts is not None:
        return sigma_volts > 0
    return any(scenario(name).sigma_die_volts > 0 for name in scenarios)


def _mix(mix: str | Mapping[str, float]) -> str:
    return mix if isinstance(mix, str) else ", ".join(f"{k} {v:g}" for k, v in mix.items())


def _drawn(value: float | str) -> str:
    return str(Distribution.of(value)) if isinstance(value, str) else f"{value:g}"


def _of_gating(spec: Mapping[str, Any], pbti: object = 0) -> Assumptions:
    life, variation, temperature = spec["life"], spec["variation"], spec["temperature"]
    sigmas = ", ".join(
        f"{words} {variation[f'sigma_{name}_mv']:g} mV"
        for name, words in (
            ("die", "from die to die"),
            ("systematic", "correlated over a die"),
            ("random", "from SM to SM"),
        )
    )
    air = (
        f"{temperature['fixed_kelvin']} K for all SMs"
        if temperature["model"] == "fixed"
        else "from a thermal network of the GPU"
    )
    spares = life["spare_sms"]
    spare = f"More than {spares} SMs are" if spares else "An SM is"
    return [
        ("GPU", f"{spec['gpu']}; kernels {spec['workload']['kernels']}."),
        ("Aging", f"NBTI by the model {spec['aging']['model']}; stress while an SM is on."),
        (
            "End of life",
            f"{spare} slower than the slowest new SM by more than the guardband of "
            f"{_percent(life['delay_guardband'])}. Lives that reach the "
            "horizon are censored: they are longer, nobody knows how much.",
        ),
        ("Process variation", f"Standard deviations of the threshold voltage: {sigmas}."),
        ("Temperature", f"{air[0].upper()}{air[1:]}."),
        (
            "Execution time",
            f"The time model of the paper, reading {spec['time_model']['reading']}.",
        ),
        ("Left out", f"{'PBTI, ' * (not pbti)}{LEFT_OUT}."),
    ]


FATES = {
    "delay": "die of delay",
    "faulty entry": "die of a faulty entry",
    "no home": "die because a register finds no home",
    "spill limit": "die of the spill limit",
}
"""Causes of death in sentences."""


@dataclass(frozen=True)
class Words:
    """Summary of a results file.

    Parameters
    ----------
    simulated : str
        What was computed.
    outcomes : tuple of (str, str)
        Of what, and what came out.
    """

    simulated: str
    outcomes: tuple[tuple[str, str], ...]


def words_of(header: Header, results: xr.Dataset) -> Words:
    """Summary of a results file in sentences.

    Parameters
    ----------
    header : Header
        Its header.
    results : xarray.Dataset
        Its content.
    """
    if isinstance(header, SweepHeader):
        simulated = _simulated_sweep(header, names_in(results))
        return Words(simulated, tuple(_outcomes(results)))
    if header.study in _SAID_OF_GPUS:
        simulated, outcomes = _SAID_OF_GPUS[header.study](header, results)
        return Words(simulated, tuple(outcomes))
    simulated = f"The study {header.study} with {header.holds:,} instances and seed {header.seed}."
    return Words(simulated, (("Table", "the mean of each variable over the instances."),))


_SAID_OF_GPUS: Mapping[str, Callable[[Header, xr.Dataset], Said]] = {
    "gpu-gating": said_of_gating,
    "gpu-both": said_of_both,
    "gpu-heterogeneity": said_of_heterogeneity,
}


def _simulated_sweep(header: SweepHeader, names: Mapping[str, str]) -> str:
    parts = {
        what: list(dict.fromkeys(getattr(case, what) for case in header.cases))
        for what in ("technique", "environment", "scenario")
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


def in_a_row(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# ---- sweeps ---------------------------------------------------------------------------------


def _outcomes(results: xr.Dataset) -> list[tuple[str, str]]:
    """A point for each environment, scenario and voltage."""
    by_setting: dict[Setting, dict[str, CaseLives]] = {}
    for place in range(results.sizes["case"]):
        case = results.isel(case=place)
        technique = str(case["technique"].item())
        technique = names_in(case).get(technique, technique)
        by_setting.setdefault(Setting.of(case), {})[technique] = lives_of(case)
    return [
        (setting.title, f"{_longest(lives)} {_killers(lives)}")
        for setting, lives in by_setting.items()
    ]


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
    comparison = compare_means(first.years, first.years)
    said = f"{ordered[0]} lives {plus_minus(comparison.first)} years on average up to the horizon"
    if len(ordered) == 1:
        return f"{said} of {horizon}."
    return f"{said} of {horizon} (restricted mean), {_gain(lives, ordered)}."


def _gain(lives: Mapping[str, CaseLives], ordered: Sequence[str]) -> str:
    """How far the best technique is from the others on the same dies."""
    first = lives[ordered[0]].years
    alike: list[str] = []
    for name in ordered[1:]:
        gain = compare_means(first, lives[name].years).difference
        if not math.isnan(gain.lower) and gain.lower > 0:
            longer = f"{plus_minus(gain)} years longer than {name} on the same dies"
            if alike:
                return f"{_not_told_apart(alike, first, lives)}; {longer}"
            return f"the longest of all, {longer}"
        alike.append(name)
    return _not_told_apart(alike, first, lives)


def _not_told_apart(alike: Sequence[str], first: Floats, lives: Mapping[str, CaseLives]) -> str:
    same = [name for name in alike if np.array_equal(lives[name].years, first)]
    near = [name for name in alike if name not in same]
    said = []
    if same:
        said.append(f"as does {in_a_row(same)}, die by die")
    if near:
        said.append(f"which these dies do not tell apart from {in_a_row(near)}")
    return ", and ".join(said)


def _killers(lives: Mapping[str, CaseLives]) -> str:
    """What becomes of most slices of each technique, with those together that share it."""
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
        low, high = percent(min(shares.values())), percent(max(shares.values()))
        share = low if low == high else f"{low} to {high}"
        parts.append(f"{fate} with {in_a_row(list(shares))} ({share})")
    return f"Most slices {'; '.join(parts)}."
