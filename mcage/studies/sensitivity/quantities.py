"""What a study asks of a lot of dies: one number of each, and what stands for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcage.lifetime.end_cause import EndCause
from mcage.results.conform import Arrays
from mcage.stats.estimates import Floats

NEVER = 100.0
"""A guardband that no life uses up: the highest that a spec may have."""


@dataclass(frozen=True)
class Quantity:
    """A quantity of a lot of dies.

    Parameters
    ----------
    name, unit, title : str
        As the command line calls it; its unit; what it is in words.
    of_dies : callable
        From the arrays of a sweep to one number of each die: infinity for "after the horizon",
        NaN where the die has none.
    is_median : bool
        Whether the median of the dies stands for all, or their mean.
    is_share : bool
        Whether a die has either 0 or 100 %, so that their mean is a share of the dies.
    changes : mapping
        Keys of the spec that the quantity needs to be other than they are, and what.
    """

    name: str
    unit: str
    title: str
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
    """Values of the dies that reach the horizon, and so have one age."""
    return np.where(_died(arrays), np.nan, np.asarray(values, dtype=np.float64))


QUANTITIES = {
    one.name: one
    for one in (
        Quantity(
            "median_life",
            "years",
            "median life",
            lambda arrays: np.where(_died(arrays), _lives(arrays), np.inf),
            is_median=True,
        ),
        Quantity("mean_life", "years", "mean life up to the horizon", _lives),
        Quantity(
            "survival",
            "%",
            "share of slices that reach the horizon",
            lambda arrays: np.where(_died(arrays), 0.0, 100.0),
            is_share=True,
        ),
        Quantity(
            "max_dvth",
            "mV",
            "worst threshold shift at the horizon",
            lambda arrays: _at_horizon(arrays, arrays["max_dvth_mv"][0].max(axis=-1)),
            changes={"life.delay_guardband": NEVER},
        ),
        Quantity(
            "delay",
            "%",
            "delay increase at the horizon",
            lambda arrays: _at_horizon(arrays, 100.0 * arrays["delay_increase"][0]),
            changes={"life.delay_guardband": NEVER},
        ),
        Quantity(
            "spill_rate",
            "%",
            "share of register writes that go to the LDS, of slices that worked",
            lambda arrays: np.asarray(100.0 * arrays["spill_rate"][0], dtype=np.float64),
        ),
    )
}
"""By name. Shifts and delays are of one age: no guardband ends a life, and dies that end otherwise
do not count."""
