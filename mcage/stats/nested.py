"""Instances within draws of constants: what the lot makes uncertain, and what the constants do.

Each draw of the constants has a few instances, which differ by chance: in their dies and their
workloads. An interval of the *lot* says how far another seed would move a result with the same
table of draws. A *band* of the constants says where the result of a further draw would lie if there
were any number of instances: it is what draws differ in, less what so few instances of each differ
in by chance. More instances make the interval narrower, and the band only better known.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcage.stats.estimates import (
    CONFIDENCE,
    Bools,
    Estimate,
    Floats,
    Range,
    bounds_within,
    normal_quantile,
    variance,
)
from mcage.stats.survival import quantile_rank

Draws = npt.NDArray[np.integer]

FEWEST_DRAWS = 39
"""With fewer draws no two of them enclose a further one with a probability of 95 %."""

UNKNOWN = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Decomposition:
    """Estimate of a quantity over instances that have their constants from a table of draws.

    Parameters
    ----------
    lot : Estimate
        The quantity over all instances; its interval covers the sampling of instances.
    band : Estimate
        The quantity under the middle draw of the constants, and where a further draw would have
        it; NaN if there are too few draws, or no two instances of a draw.
    """

    lot: Estimate
    band: Estimate


@dataclass(frozen=True)
class _Groups:
    """Values by draw; without values that are missing, and draws that have none.

    Attributes
    ----------
    values : float64[n]
        The values.
    place : int64[n]
        Draw of each, 0 ... draws - 1.
    count, mean : float64[draws]
        Number of values of each draw, and their mean.
    """

    values: npt.NDArray[np.float64]
    place: npt.NDArray[np.int64]
    count: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]

    @classmethod
    def of(cls, values: Floats, draw: Draws) -> "_Groups":
        known = ~np.isnan(values)
        numbers = values[known].astype(np.float64)
        _, place, count = np.unique(draw[known], return_inverse=True, return_counts=True)
        return cls(numbers, place, count.astype(float), np.bincount(place, numbers) / count)

    @property
    def freedom(self) -> int:
        """Degrees of freedom within the draws."""
        return len(self.values) - len(self.count)

    @property
    def within(self) -> float:
        """Mean square within the draws."""
        return float(np.square(self.values - self.mean[self.place]).sum() / self.freedom)

    @property
    def noise(self) -> float:
        """Mean over draws of the variance that their means have by chance."""
        return self.within * float(np.mean(1 / self.count))

    def band(self, confidence: float) -> Estimate:
        """Band of the means of the draws, without noise."""
        if len(self.mean) < FEWEST_DRAWS:
            return UNKNOWN
        centre, spread, noise = self.mean.mean(), variance(self.mean), self.noise
        kept = _kept(spread / noise - 1, len(self.mean), confidence) if noise > 0 else 1.0
        ranks = np.array([0.5, (1 - confidence) / 2, (1 + confidence) / 2])
        quantiles = np.quantile(self.mean, ranks, method="weibull")
        return Estimate(*(centre + kept * (quantiles - centre)).tolist())


def _kept(signal: float, draws: int, confidence: float) -> float:
    """Part of the distances of draws from their mean that is not noise, 0 ... 1.

    Parameters
    ----------
    signal : float
        Estimated variance without noise over that of the noise; below 0 by chance.
    draws : int
        Number of draws.
    confidence : float
        Probability that the band covers.

    Notes
    -----
    Louis keeps the square root of signal / (signal + 1). Order statistics of values without noise
    cover as promised; with noise, that estimate varies more, by (1 + 1/signal)^2, and a band of
    normal values covers less, which the factor makes up for to the second order. A signal of two
    standard errors of the noise is never ruled out: where there is less of it, the band is too wide
    rather than too narrow.
    """
    hidden = 2 * math.sqrt(2 / (draws - 1))
    floor = math.sqrt(hidden / (hidden + 1))
    if signal <= 0:
        return floor
    z = normal_quantile(confidence)
    varies = ((1 + 1 / signal) ** 2 - 1) / (2 * (draws - 1))
    widened = 1 + 0.5 * (z * z + 1) * varies
    return min(1.0, max(floor, math.sqrt(signal / (signal + 1)) * min(widened, 1.5)))


def mean_by_draw(
    values: Floats, draw: Draws, confidence: float = CONFIDENCE, within: Range | None = None
) -> Decomposition:
    """Mean over instances; missing values (NaN) do not count.

    Parameters
    ----------
    values : float64[instances]
        A quantity.
    draw : int64[instances]
        Row of the table that each instance has its constants from.
    confidence : float
        Probability that the interval, and the band, cover, 0 ... 1.
    within : (float, float), optional
        Range of the quantity, as of `mcage.stats.estimates.mean`.

    Notes
    -----
    The interval is that of `mcage.stats.estimates.mean` with the variance within draws, as in a
    stratified sample (Cochran, Sampling Techniques, section 5.4). The band is of the means of the
    draws, moved towards their mean until their variance is that of the analysis of variance (Louis,
    J. Am. Stat. Assoc. 79, 1984; Sun, Apley and Staum, Oper. Res. 59, 2011): order statistics that
    enclose a further draw with the given probability (David and Nagaraja, Order Statistics,
    section 7.3).
    """
    from scipy.special import stdtrit

    groups = _Groups.of(values, draw)
    centre = float(groups.values.mean()) if len(groups.values) else math.nan
    if groups.freedom < 1:
        return Decomposition(Estimate(centre, math.nan, math.nan), UNKNOWN)
    count = len(groups.values)
    if within:
        spread = np.array(groups.within)
        bounds = bounds_within(within, np.array(centre), spread, np.array(count), confidence)
        lot = Estimate(centre, *map(float, bounds))
    else:
        half = float(stdtrit(groups.freedom, (1 + confidence) / 2)) * math.sqrt(
            groups.within / count
        )
        lot = Estimate(centre, centre - half, centre + half)
    return Decomposition(lot, groups.band(confidence))


def quantile_by_draw(
    life_years: Floats,
    died: Bools,
    draw: Draws,
    share: float = 0.5,
    confidence: float = CONFIDENCE,
) -> Decomposition:
    """Age at which a share of the slices are dead, where lives are censored at one age.

    Parameters
    ----------
    life_years, died : float64[instances], bool[instances]
        As of `mcage.stats.survival.life_quantile`.
    draw : int64[instances]
        Row of the table that each instance has its constants from.
    share : float
        Between 0 and 1, both excluded.
    confidence : float
        Probability that the interval, and the band, cover, 0 ... 1.

    Returns
    -------
    Decomposition
        In years; infinity stands for "after the end of observation".

    Notes
    -----
    The interval is Woodruff's (J. Am. Stat. Assoc. 47, 1952): the ages at which the share of the
    dead is the given one plus and minus its error in a stratified sample. The band inverts a band
    of survival curves: at each age, the shares of the draws that are dead are moved towards their
    mean and enclosed as `mean_by_draw` does.
    """
    groups = _Groups.of(life_years, draw)
    ages = np.where(died, life_years, np.inf).astype(np.float64)
    ordered = np.sort(ages)
    count = len(ordered)
    rank = quantile_rank(count, share)
    value = float(ordered[rank - 1])
    if groups.freedom < 1:
        return Decomposition(Estimate(value, math.nan, math.nan), UNKNOWN)
    by_draw = _Shares(ages, groups)
    half = normal_quantile(confidence) * by_draw.error(value)

    def of_rank(rank: int) -> float:
        return float(ordered[rank - 1]) if 1 <= rank <= count else math.nan

    lot = Estimate(
        value,
        of_rank(min(rank, math.floor(count * (share - half) + 1))),
        of_rank(max(rank, math.ceil(count * (share + half)))),
    )
    if len(groups.count) < FEWEST_DRAWS:
        return Decomposition(lot, UNKNOWN)
    deaths = np.unique(ages[np.isfinite(ages)]).tolist()

    def reached(end: str) -> float:
        """First age at which the middle or an end of the band of shares has reached the share."""
        place = bisect_left(
            deaths, share, key=lambda age: getattr(by_draw.at(age).band(confidence), end)
        )
        return float(deaths[place]) if place < len(deaths) else math.inf

    band = Estimate(reached("value"), reached("upper"), reached("lower"))
    return Decomposition(lot, band)


@dataclass(frozen=True)
class _Shares:
    """Shares of the slices of each draw that are dead."""

    ages: npt.NDArray[np.float64]
    groups: _Groups

    def at(self, age: float) -> _Groups:
        dead = (self.ages <= age).astype(np.float64)
        count = self.groups.count
        mean = np.bincount(self.groups.place, dead) / count
        return _Groups(dead, self.groups.place, count, mean)

    def error(self, age: float) -> float:
        """Standard error of the share of all slices that are dead by an age."""
        groups = self.at(age)
        return math.sqrt(groups.within / len(groups.values))


def share_of_constants(values: Floats, draw: Draws, confidence: float = CONFIDENCE) -> Estimate:
    """Share of the variance among instances that the draws of their constants explain.

    It is the first-order Sobol' index of the table as a whole: the share of the variance that would
    vanish if the constants were known.

    Parameters
    ----------
    values : float64[instances]
        A quantity; missing values (NaN) do not count.
    draw : int64[instances]
        Row of the table that each instance has its constants from.
    confidence : float
        Probability that the interval covers, 0 ... 1.

    Notes
    -----
    Analysis of variance (Searle, Casella and McCulloch, Variance Components, chapter 3). The
    interval is that of a jackknife over draws of the logarithm of the ratio of mean squares, which
    asks for no normal distribution (Arvesen and Schmitz, Biometrics 26, 1970).
    """
    from scipy.special import stdtrit

    groups = _Groups.of(values, draw)
    draws = len(groups.count)
    if groups.freedom < 1 or draws < 3:
        return Estimate(math.nan, math.nan, math.nan)
    distances = groups.values - groups.mean[groups.place]
    squares = np.bincount(groups.place, np.square(distances)).astype(np.float64)
    each = _logarithms(groups, squares)
    whole, parts = each[0], each[1:]
    count = len(groups.values)
    size = (count - float(np.square(groups.count).sum()) / count) / (draws - 1)

    def explained(logarithm: float) -> float:
        if math.isnan(logarithm):  # nothing varies
            return math.nan
        excess = math.exp(min(logarithm, 700.0)) - 1
        return max(0.0, excess / (excess + size))

    if not np.isfinite(each).all():
        return Estimate(explained(whole), math.nan, math.nan)
    pseudo = draws * whole - (draws - 1) * parts
    half = float(stdtrit(draws - 1, (1 + confidence) / 2)) * math.sqrt(variance(pseudo) / draws)
    centre = float(pseudo.mean())
    return Estimate(explained(whole), explained(centre - half), explained(centre + half))


def _logarithms(groups: _Groups, squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Logarithm of the ratio of mean squares: of all draws, then without each: float64[1 + draws].

    Parameters
    ----------
    groups : _Groups
        The values.
    squares : float64[draws]
        Sum of the squares within each draw.
    """
    total = groups.count * groups.mean
    sums = np.stack([np.ones(len(total)), groups.count, total, total * groups.mean, squares])
    left = np.column_stack([sums.sum(axis=1), sums.sum(axis=1)[:, None] - sums])
    draws, instances, total, weighted, within = left
    between = (weighted - total * total / instances) / (draws - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(np.maximum(between, 0.0)) - np.log(within / (instances - draws))
    return np.asarray(each)
