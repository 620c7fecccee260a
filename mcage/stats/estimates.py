"""Estimates with confidence intervals from samples of independent instances."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from typing import Any

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


Range = tuple[float, float]
"""The least and the largest value that a quantity can have, such as 0 and the horizon of a life."""


def mean(values: Floats, confidence: float = CONFIDENCE, within: Range | None = None) -> Estimate:
    """Mean over instances with its interval; a single instance has none.

    Sums are formed in double precision whatever the type of ``values``. Missing values (NaN) do
    not count; without any value the mean is NaN.

    Parameters
    ----------
    values : ndarray of float [instance]
        A quantity.
    confidence : float
        Probability that the interval covers, 0 ... 1.
    within : (float, float), optional
        Range of the quantity. With it, the interval is that of `bounds_within`; without, Student's.
    """
    from scipy.special import stdtrit

    values = values[~np.isnan(values)].astype(np.float64)
    centre = float(values.mean()) if values.size else math.nan
    if values.size < 2:
        return Estimate(centre, math.nan, math.nan)
    if within:
        spread, count = np.array(variance(values, 0)), np.array(values.size)
        bounds = bounds_within(within, np.array(centre), spread, count, confidence)
        return Estimate(centre, *map(float, bounds))
    error = math.sqrt(variance(values) / values.size)
    half = float(stdtrit(values.size - 1, (1.0 + confidence) / 2.0)) * error
    return Estimate(centre, centre - half, centre + half)


def mean_of_all(values: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Mean as of `mean`, of instances all of which have a value; NaN where one of them has none."""
    return mean(values if not np.isnan(values).any() else values[:0], confidence)


def bounds_within(
    within: Range,
    centre: Floats,
    spread: Floats,
    count: npt.NDArray[Any],
    confidence: float = CONFIDENCE,
) -> tuple[Floats, Floats]:
    """Bounds of means of a quantity that has a range: Wilson's, with an effective count.

    Most values may lie at an end of the range, as do lives that reach the horizon. Student's
    interval of such a mean is too narrow on the side of the few others, and has no width before
    there is one.

    Parameters
    ----------
    within : (float, float)
        Range of the quantity.
    centre, spread : ndarray of float [...]
        Means of values, and mean squares of the distances from them.
    count : ndarray [...]
        Numbers of independent values.
    confidence : float
        Probability that each interval covers, 0 ... 1.

    Notes
    -----
    In units of the range, a mean is a share, and each bound is Wilson's for as many trials as
    would give a share the variance that the mean has. For this variance the sample has one more
    value, at the end of the range on the side of the bound: so it does not vanish where all values
    are equal, and what the sample happens not to have is not ruled out. Of values at the ends alone
    the bounds are Wilson's of their share. ``docs/statistics.md`` says how often they cover.
    """
    low, width = within[0], within[1] - within[0]
    share = np.clip((centre - low) / width, 0.0, 1.0)

    def bound(end: int) -> Floats:
        more = (share * count + end) / (count + 1)
        squares = (spread / width**2 + (share - more) ** 2) * count + (end - more) ** 2
        of_share = (count + 1) * more * (1.0 - more)
        nothing = of_share <= 0.0  # varies: all values lie at this end
        less = np.where(nothing, 1.0, squares) / np.where(nothing, 1.0, of_share)
        return low + width * wilson(share, count / less, confidence)[end]

    return bound(0), bound(1)


def variance(values: Floats, ddof: int = 1) -> float:
    """Unbiased variance of two values or more; exactly zero where all are equal."""
    return float(values.var(ddof=ddof)) if np.ptp(values) > 0.0 else 0.0


def normal_quantile(confidence: float) -> float:
    """Standard deviations of a normal number from the centre to a bound of its interval."""
    from scipy.special import ndtri

    return float(ndtri((1.0 + confidence) / 2.0))


# How estimates are written: for people in cells of tables, for scripts in JSON.

DASH = "–"

ROUNDING = 1e-9
"""Half of an interval over the value that rounding of equal numbers can leave."""


SAME = (
    ("rmst", "mean_life", "life_to_horizon", "life_to_horizon_years", "rmst_years"),
    ("censored_share", "survival"),
)
"""Names that a quantity has had: users may type any of them for the first."""


def known_name(name: str, known: Iterable[str]) -> str:
    """Name of a quantity among those that are known; the name itself where there is none."""
    same = next((names for names in SAME if name in names), ())
    there = [other for other in (name, *same) if other in set(known)]
    return there[0] if there else name


def plus_minus(estimate: Estimate, scale: float = 1.0) -> str:
    """Write a value and half of its interval, with two digits of the latter.

    An interval of which a side is half as long again as the other is written with its bounds.
    """
    if math.isnan(estimate.value):
        return DASH
    half = _half(estimate) * scale
    if math.isnan(half):
        return f"{estimate.value * scale:.3g} ±{DASH}"
    if half == 0:
        return f"{estimate.value * scale:.3g} ±0"
    digits = _digits(half)
    if abs((estimate.upper - estimate.value) * scale - half) > 0.2 * half:
        return with_bounds(estimate, scale)
    return f"{estimate.value * scale:.{digits}f} ±{half:.{digits}f}"


def with_bounds(estimate: Estimate, scale: float = 1.0) -> str:
    """Write a value and its bounds, to two digits of half the interval."""
    if math.isnan(estimate.value):
        return DASH
    half = _half(estimate) * scale
    if math.isnan(half) or half == 0:
        numbers = [_short(bound * scale) for bound in vars(estimate).values()]
    else:
        numbers = [f"{bound * scale:.{_digits(half)}f}" for bound in vars(estimate).values()]
    return "{} [{}, {}]".format(*numbers)


def life(estimate: Estimate, horizon_years: float) -> str:
    """Write an age in years with its bounds, each of which may lie beyond the horizon."""

    def years(value: float) -> str:
        if math.isnan(value):
            return DASH
        return f"> {horizon_years:g}" if math.isinf(value) else f"{value:.2f}"

    if math.isinf(estimate.value) and not math.isfinite(estimate.lower):
        return years(estimate.value)
    return f"{years(estimate.value)} [{years(estimate.lower)}, {years(estimate.upper)}]"


def percent(share: float) -> str:
    """Write a share, 0 ... 1, in percent."""
    return f"{share * 100:.3g} %"


def plain(value: Any) -> Any:
    """Convert a value made of dataclasses, mappings and sequences into what JSON can hold.

    An unknown bound becomes null. An infinite bound becomes null, too, and the list
    ``beyond_horizon`` of its estimate names it: only ages are ever infinite.
    """
    if isinstance(value, Estimate):
        bounds = vars(value)
        finite: dict[str, Any] = {name: plain(bound) for name, bound in bounds.items()}
        beyond = [name for name, bound in bounds.items() if math.isinf(bound)]
        return {**finite, "beyond_horizon": beyond} if beyond else finite
    if is_dataclass(value):
        return plain(vars(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _short(value: float) -> str:
    return DASH if math.isnan(value) else f"{value:.3g}"


def _half(estimate: Estimate) -> float:
    half = (estimate.upper - estimate.lower) / 2
    return 0.0 if half <= ROUNDING * abs(estimate.value) else half


def _digits(half: float) -> int:
    return min(6, max(0, 1 - math.floor(math.log10(half))))
