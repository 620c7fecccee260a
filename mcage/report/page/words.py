"""What a results file says, in sentences: what was simulated, what lives longest, what kills."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from mcage.report.cases import CAUSES, Setting, lives_of, names_in
from mcage.report.page.gpu_words import Said, said_of_both, said_of_gating, said_of_heterogeneity
from mcage.results.header import Header
from mcage.stats.estimates import Floats
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives
from mcage.stats.wording import percent, plus_minus
from mcage.sweep.header import SweepHeader

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
