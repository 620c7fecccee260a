"""What files of whole GPUs say, in sentences."""

import math

import numpy as np
import xarray as xr

from mcage.report.cases import names_in
from mcage.results.header import Header
from mcage.stats.estimates import Estimate, mean, proportion
from mcage.stats.survival import life_quantile
from mcage.stats.wording import life, percent, plus_minus, with_bounds

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
