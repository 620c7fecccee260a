"""A small probability estimated from weighted failures, its interval and its warnings."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mcage.stats.estimates import Estimate
from mcage.stats.rates import fit_of_share, in_ppm

CONFIDENCE = 0.95
FEW_EFFECTIVE = 100.0
"""Effective samples below which the interval is not to be relied upon."""

LARGE_SHARE = 0.1
"""Share of the estimate that a single failure makes up, above which others may be missing."""

WEIGHT_ERRORS = 4.0
"""Standard errors by which the mean weight may differ from 1."""


@dataclass(frozen=True)
class RareEstimate:
    """A probability estimated from weighted samples.

    Attributes
    ----------
    probability : float
        The estimate.
    lower, upper : float
        Bounds of its confidence interval.
    confidence : float
        Probability that the interval covers, 0 ... 1.
    instances : int
        Number of samples.
    failures : int
        How many of them failed.
    effective_samples : float
        Kish's effective number of the failures: (sum of weights)**2 / sum of squared weights.
    relative_error : float
        Standard error over estimate; infinite without failures.
    largest_share : float
        Share of the estimate that the failure with the largest weight makes up; 0 without
        failures.
    mean_weight, mean_weight_error : float
        Mean of all weights, whose expectation is 1, and its standard error.
    warnings : tuple of str
        Reasons not to rely on the estimate; empty if there are none.
    """

    probability: float
    lower: float
    upper: float
    confidence: float
    instances: int
    failures: int
    effective_samples: float
    relative_error: float
    largest_share: float
    mean_weight: float
    mean_weight_error: float
    warnings: tuple[str, ...]

    @property
    def failed_ppm(self) -> Estimate:
        """The probability and its bounds in parts per million."""
        return in_ppm(self._share)

    def mean_rate_fit(self, age_years: float) -> Estimate:
        """Mean failure rate until the age that was asked for, in failures in 1e9 hours.

        Parameters
        ----------
        age_years : float
            That age, above 0; deaths on arrival are among the failures.
        """
        return fit_of_share(self._share, age_years)

    @property
    def _share(self) -> Estimate:
        return Estimate(self.probability, self.lower, self.upper)


def estimate(
    weights: NDArray[np.float64],
    failed: NDArray[np.bool_],
    plain_share: float,
    confidence: float = CONFIDENCE,
) -> RareEstimate:
    """Estimate a probability from weighted samples.

    Parameters
    ----------
    weights : float64[n]
        Plain density of each sample over the density that it was drawn with.
    failed : bool[n]
        Which samples failed.
    plain_share : float
        Share of the plain distribution in the mixture that samples are drawn from, above 0.
    confidence : float
        Probability that the interval covers, 0 ... 1.

    Notes
    -----
    The logarithm of the estimate is taken to be normal, with the standard deviation that the
    weighted failures show (delta method). Without failures the upper bound is what the samples
    from the plain distribution alone would allow, and the lower bound is 0.
    """
    count = len(weights)
    weighted = np.where(failed, weights, 0.0)
    total, squares = float(weighted.sum()), float((weighted**2).sum())
    mean_weight_error = float(weights.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    probability = total / count
    if total == 0:
        most = -math.expm1(math.log((1 - confidence) / 2) / count)
        lower, upper, relative_error = 0.0, min(1.0, most / plain_share), math.inf
    else:
        # Rounding must not let a sum of squares fall below its least possible value.
        relative_error = math.sqrt(max(squares / total**2 - 1 / count, 0.0) * count / (count - 1))
        spread = math.exp(float(ndtri((1 + confidence) / 2)) * relative_error)
        lower, upper = probability / spread, min(1.0, probability * spread)
    effective = effective_number(weighted)
    largest = float(weighted.max()) / total if total else 0.0
    mean_weight = float(weights.mean())
    return RareEstimate(
        probability=probability,
        lower=lower,
        upper=upper,
        confidence=confidence,
        instances=count,
        failures=int(failed.sum()),
        effective_samples=effective,
        relative_error=relative_error,
        largest_share=largest,
        mean_weight=mean_weight,
        mean_weight_error=mean_weight_error,
        warnings=_warnings(effective, largest, mean_weight, mean_weight_error),
    )


def effective_number(weights: NDArray[np.float64]) -> float:
    """Kish's number of equal weights whose mean is as precise; 0 if all weights are 0."""
    total, squares = float(weights.sum()), float((weights**2).sum())
    return total**2 / squares if total else 0.0


def _warnings(
    effective: float, largest: float, mean_weight: float, mean_weight_error: float
) -> tuple[str, ...]:
    warnings = []
    if effective == 0:
        warnings.append("no sample failed: the upper bound is all there is; ask for more instances")
    elif effective < FEW_EFFECTIVE:
        warnings.append(
            f"only {effective:.3g} effective samples failed, fewer than {FEW_EFFECTIVE:g}: the "
            "interval may be too narrow; ask for more instances"
        )
    if largest > LARGE_SHARE:
        warnings.append(
            f"one sample makes up {largest:.0%} of the estimate: others like it may be missing; "
            "ask for more instances"
        )
    if abs(mean_weight - 1) > WEIGHT_ERRORS * mean_weight_error + 1e-9:
        warnings.append(
            f"the mean weight is {mean_weight:.4g} +- {mean_weight_error:.1g}, not 1: some kind of "
            "slice is missing from the sample"
        )
    return tuple(warnings)
