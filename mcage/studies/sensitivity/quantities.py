"""Quantities of a study: a number of each die, and how dies are summarized."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcage.lifetime.end_cause import EndCause
from mcage.results.writer import Arrays
from mcage.stats.estimates import Floats

NEVER = 100.0
"""A delay guardband that no life uses up: the highest that a spec may have."""


@dataclass(frozen=True)
class Quantity:
    """A quantity of the dies of a study.

    Parameters
    ----------
    name, unit : str
        Name on the command line, and unit.
    of_dies : callable
        From the arrays of a sweep to a number of each die: infinity for "after the horizon", NaN
        where the die has no value.
    is_median : bool
        Whether dies are summarized by their median instead of their mean.
    is_share : bool
        Whether each die has either 0 or 100 %, so that their mean is a share of the dies.
    changes : mapping
        Keys of the spec that the quantity changes, with their values.
    """

    name: str
    unit: str
    of_dies: Callable[[Arrays], Floats]
    is_median: bool = False
    is_share: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)


def _lives(arrays: Arrays) -> Floats:
    years: Floats = np.asarray(arrays["life_years"][0], dtype=np.float64)
    return years


def _died(arrays: Arrays) -> Any:
    return arrays["end_cause"][0] != EndCause.CENSORED


def _at_horizon(arrays: Arrays, values: Any) -> Floats:
    """Values of the dies that reach the horizon, which have the same age; NaN for others."""
    return np.where(_died(arrays), np.nan, np.asarray(values, dtype=np.float64))


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity(
            "median_life",
            "years",
            lambda arrays: np.where(_died(arrays), _lives(arrays), np.inf),
            is_median=True,
        ),
        Quantity("mean_life", "years", _lives),
        Quantity(
            "survival",
            "%",
            lambda arrays: np.where(_died(arrays), 0.0, 100.0),
            is_share=True,
        ),
        Quantity(
            "max_dvth",
            "mV",
            lambda arrays: _at_horizon(arrays, arrays["max_dvth_mv"][0].max(axis=-1)),
            changes={"life.delay_guardband": NEVER},
        ),
        Quantity(
            "delay",
            "%",
            lambda arrays: _at_horizon(arrays, 100.0 * arrays["delay_increase"][0]),
            changes={"life.delay_guardband": NEVER},
        ),
        Quantity(
            "spill_rate",
            "%",
            lambda arrays: np.asarray(100.0 * arrays["spill_rate"][0], dtype=np.float64),
        ),
    )
}
"""Quantities by name.

Shifts and delays are taken at the horizon: no guardband ends a life, and dies that die of another
cause do not count.
"""
