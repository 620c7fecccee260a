"""How estimates are written: for people in cells of tables, for scripts in JSON."""

import math
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

from mcage.stats.estimates import Estimate

DASH = "–"

ROUNDING = 1e-9
"""Half of an interval over the value that rounding of equal numbers can leave."""


SAME = (("rmst", "mean_life", "life_to_horizon", "life_to_horizon_years", "rmst_years"),)
"""Names of a quantity in several places, which all mean the same: users may type any of them."""


def known_name(name: str, known: Iterable[str]) -> str:
    """Name of a quantity among those that are known; the name itself where there is none."""
    same = next((names for names in SAME if name in names), ())
    there = [other for other in (name, *same) if other in set(known)]
    return there[0] if there else name


def plus_minus(estimate: Estimate, scale: float = 1.0) -> str:
    """Write a value and half of its symmetric interval, with two digits of the latter."""
    if math.isnan(estimate.value):
        return DASH
    half = _half(estimate) * scale
    if math.isnan(half):
        return f"{estimate.value * scale:.3g} ±{DASH}"
    if half == 0:
        return f"{estimate.value * scale:.3g} ±0"
    digits = _digits(half)
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
