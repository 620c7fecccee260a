"""Estimates with confidence intervals from samples of independent instances."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Bools = npt.NDArray[np.bool_]

CONFIDENCE = 0.95

SAME_AGE_YEARS = 1e-6
"""Half a minute: ages that are closer are equal but for rounding."""


@dataclass(frozen=True)
class Estimate:
    """A value and its confidence interval; a bound that the sample cannot give is NaN."""

    value: float
    lower: float
    upper: float


def proportion(successes: int, count: int, confidence: float = CONFIDENCE) -> Estimate:
    """Share of ``successes`` in ``count`` trials with Wilson's interval.

    References
    ----------
    Wilson, J. Am. Stat. Assoc. 22 (1927).
    """
    share = successes / count
    lower, upper = wilson(np.array(share), np.array(float(count)), confidence)
    return Estimate(share, float(lower), float(upper))


def wilson(share: Floats, count: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Wilson's bounds of shares of ``count`` trials; counts may be fractions and zero.

    References
    ----------
    Wilson, J. Am. Stat. Assoc. 22 (1927).
    """
    z = normal_quantile(confidence)
    centre = (share * count + z * z / 2) / (count + z * z)
    half = z * np.sqrt(share * (1 - share) * count + z * z / 4) / (count + z * z)
    # Rounding must not turn "none" and "all" into bounds a hair away from them.
    lower = np.where(share == 0.0, 0.0, np.maximum(0.0, centre - half))
    return lower, np.where(share == 1.0, 1.0, np.minimum(1.0, centre + half))


def mean(values: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Mean over instances with Student's interval; a single instance has no interval.

    Sums are formed in double precision whatever the type of ``values``. Missing values (NaN) do
    not count; without any value the mean is NaN.
    """
    from scipy.special import stdtrit

    values = values[~np.isnan(values)].astype(np.float64)
    centre = float(values.mean()) if values.size else math.nan
    if values.size < 2:
        return Estimate(centre, math.nan, math.nan)
    error = math.sqrt(variance(values) / values.size)
    half = float(stdtrit(values.size - 1, (1.0 + confidence) / 2.0)) * error
    return Estimate(centre, centre - half, centre + half)


def variance(values: Floats) -> float:
    """Unbiased variance of two values or more; exactly zero where all are equal."""
    return float(values.var(ddof=1)) if np.ptp(values) > 0.0 else 0.0


def normal_quantile(confidence: float) -> float:
    """Standard deviations of a normal number from the centre to a bound of its interval."""
    from scipy.special import ndtri

    return float(ndtri((1.0 + confidence) / 2.0))
