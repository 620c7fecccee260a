"""Laws fitted to the lives of one case, and whether the lives allow the law at all."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, SAME_AGE_YEARS, Bools, Estimate, Floats, proportion
from mcage.stats.location_scale import (
    LocationScale,
    LogLives,
    anderson_darling,
    lognormal,
    maximum_likelihood,
    weibull,
)

FEWEST_DEATHS = 10
"""With fewer, hardly a law is ever rejected, and "not rejected" would be read as support."""

ATOM_SHARE = 0.01
"""Share of the deaths, of which at least three, that makes one age an atom. Continuous lives never
end at the same age, but lives solved to a finite step do in odd pairs."""

SIGNIFICANCE = 0.05
REPLICATES = 1999
"""Each tail of a 95 % interval is known to 0.35 %, and so is the significance of the test."""

_VALUES_AT_ONCE = 1 << 20


class Verdict(StrEnum):
    """Whether lives allow a law."""

    NOT_REJECTED = "not rejected"
    """They could well be a sample of it; of which other laws, nobody knows."""
    REJECTED = "rejected"
    """They are too far from it, at a significance of 5 %."""
    ATOMS = "atoms"
    """Many end at the same ages, which no continuous law does: none is fitted."""
    TOO_FEW_DEATHS = "too few deaths"
    """None is fitted."""


@dataclass(frozen=True)
class Fit:
    """One law fitted to the lives of one case.

    Parameters
    ----------
    law : str
        ``weibull`` or ``lognormal``.
    dead_on_arrival : Estimate
        Share of all slices with life zero. They are a mass apart: the law is that of the others,
        and a slice is dead by age t with probability p0 + (1 - p0) F(t).
    deaths, censored : int
        Slices that lived and died, and that lived up to the horizon.
    parameters : dict of str to Estimate
        ``shape`` and ``scale_years``, or ``sigma`` and ``median_years``; empty without a fit.
    anderson_darling, p_value : float
        Distance from the law, and the probability of one as large if the law were true; NaN
        without a fit.
    verdict, reason : Verdict, str
        Whether the lives allow the law, and why not.
    """

    law: str
    dead_on_arrival: Estimate
    deaths: int
    censored: int
    parameters: dict[str, Estimate]
    anderson_darling: float
    p_value: float
    verdict: Verdict
    reason: str


def fit_laws(
    life_years: Floats,
    died: Bools,
    horizon_years: float,
    confidence: float = CONFIDENCE,
    replicates: int = REPLICATES,
) -> list[Fit]:
    """Weibull and lognormal law of lives cut at a horizon, with a verdict on each.

    Parameters
    ----------
    life_years : ndarray of float [instance]
        End of life, years; zero for the dead on arrival.
    died : ndarray of bool [instance]
        False where the life reaches the horizon.
    horizon_years : float
        End of observation.
    confidence : float
        Of the intervals.
    replicates : int
        Samples drawn from the fitted law, for the test and the intervals. They use the same
        random numbers each time, so that the same lives get the same verdict.

    Notes
    -----
    Each sample drawn from the fitted law is fitted in turn. How far the samples lie from their
    fits is what the distance of the lives is held against (Stute et al.); and the intervals come
    from (mu* - mu) / sigma* and sigma* / sigma, whose law without censoring does not depend on mu
    and sigma at all (Lawless).

    References
    ----------
    Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40 (1993); Lawless, Statistical Models
    and Methods for Lifetime Data, section 5.1.
    """
    lived = life_years > 0.0
    count, deaths = int(np.count_nonzero(lived)), int(np.count_nonzero(lived & died))
    arrival = proportion(life_years.size - count, life_years.size, confidence)
    refusal = _refusal(life_years[lived & died])
    fits = []
    for law in (weibull(), lognormal()):
        if refusal:
            verdict, reason = refusal
            parameters, distance, p_value = dict[str, Estimate](), math.nan, math.nan
        else:
            lives = LogLives(
                np.log(life_years[lived].astype(np.float64))[None],
                died[lived][None],
                math.log(horizon_years),
            )
            parameters, distance, p_value = _fit(law, lives, confidence, replicates)
            verdict = Verdict.REJECTED if p_value < SIGNIFICANCE else Verdict.NOT_REJECTED
            reason = f"{verdict} at {SIGNIFICANCE * 100:g} %"
        fits.append(
            Fit(
                law=law.name,
                dead_on_arrival=arrival,
                deaths=deaths,
                censored=count - deaths,
                parameters=parameters,
                anderson_darling=distance,
                p_value=p_value,
                verdict=verdict,
                reason=reason,
            )
        )
    return fits


def _refusal(death_years: Floats) -> tuple[Verdict, str] | None:
    """Why no law is fitted to deaths after age zero."""
    count = death_years.size
    if count < FEWEST_DEATHS:
        return (
            Verdict.TOO_FEW_DEATHS,
            f"no fit: {count} deaths after age 0, {FEWEST_DEATHS} needed",
        )
    ages, deaths = np.unique(np.rint(death_years / SAME_AGE_YEARS), return_counts=True)
    atom = deaths >= max(3.0, ATOM_SHARE * count)
    if not atom.any():
        return None
    named = [f"{age:.4g}" for age in ages[atom][:4] * SAME_AGE_YEARS] + ["..."] * bool(
        atom.sum() > 4
    )
    return (
        Verdict.ATOMS,
        f"no continuous law: {deaths[atom].sum()} of {count} deaths at {', '.join(named)} years",
    )


def _fit(
    law: LocationScale, lives: LogLives, confidence: float, replicates: int
) -> tuple[dict[str, Estimate], float, float]:
    """Parameters, distance and its p-value."""
    mu, sigma = (float(one[0]) for one in maximum_likelihood(law, lives))
    distance = float(anderson_darling(law, lives, np.array([mu]), np.array([sigma]))[0])
    mus, sigmas, distances = _replicated(law, lives, mu, sigma, replicates)
    p_value = (1 + np.count_nonzero(distances >= distance)) / (1 + distances.size)

    tails = ((1.0 + confidence) / 2.0, (1.0 - confidence) / 2.0)
    # The next value falls between ranks k and k + 1 of m others once in m + 1 times.
    mu_bounds = mu - sigma * np.quantile((mus - mu) / sigmas, tails, method="weibull")
    sigma_bounds = sigma / np.quantile(sigmas / sigma, tails, method="weibull")
    every = [
        law.natural(*map(float, pair))
        for pair in ((mu, sigma), *zip(mu_bounds, sigma_bounds, strict=True))
    ]
    parameters = {
        name: Estimate(value, min(bounds), max(bounds))
        for name, (value, *bounds) in zip(law.parameters, zip(*every, strict=True), strict=True)
    }
    return parameters, distance, float(p_value)


def _replicated(
    law: LocationScale, lives: LogLives, mu: float, sigma: float, replicates: int
) -> tuple[Floats, Floats, Floats]:
    """Location, scale and distance of samples of the law: each float [sample]."""
    count = lives.log_life.shape[-1]
    draw = stream(0, "report.fits", 0)
    parts = []
    size = max(1, _VALUES_AT_ONCE // count)
    for start in range(0, replicates, size):
        uniform = draw.random((min(size, replicates - start), count))
        log_life = mu + sigma * law.quantile(1.0 - uniform)  # never of zero
        sample = LogLives(
            np.minimum(log_life, lives.log_horizon),
            log_life < lives.log_horizon,
            lives.log_horizon,
        )
        # Ten deaths were seen where fewer than two come once in two thousand samples.
        enough = sample.died.sum(axis=-1) >= 2
        sample = LogLives(sample.log_life[enough], sample.died[enough], sample.log_horizon)
        located = maximum_likelihood(law, sample)
        parts.append((*located, anderson_darling(law, sample, *located)))
    mus, sigmas, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return mus, sigmas, distances
