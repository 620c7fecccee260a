"""What a sweep may be stopped by: quantities of the table, from the arrays of one case."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mcage.lifetime.end_cause import EndCause
from mcage.results.schema import TRANSISTORS
from mcage.stats.estimates import Estimate
from mcage.stats.precision import Precision, mean_precision, quantile_precision
from mcage.stats.wording import life, with_bounds

Case = Mapping[str, NDArray[Any]]
"""Variables of one case: arrays [instance, ...]."""


@dataclass(frozen=True)
class Quantity:
    """Something that a sweep estimates in every case.

    Parameters
    ----------
    variables : tuple of str
        What it is computed from.
    precisions : callable
        From these variables of one case to the precision of each part, by name; the name is empty
        where there is one only.
    in_words : callable
        From an estimate and the horizon in years to text with a unit.
    """

    variables: tuple[str, ...]
    precisions: Callable[[Case], dict[str, Precision]]
    in_words: Callable[[Estimate, float], str]


def _years(estimate: Estimate, horizon_years: float) -> str:
    return f"{life(estimate, horizon_years)} years"


def _life_quantile(share: float) -> Quantity:
    def precisions(case: Case) -> dict[str, Precision]:
        died = case["end_cause"] != EndCause.CENSORED
        return {"": quantile_precision(case["life_years"], died, share)}

    return Quantity(("life_years", "end_cause"), precisions, _years)


QUANTITIES = {
    "median_life": _life_quantile(0.5),
    "b10_life": _life_quantile(0.1),
    "life_to_horizon": Quantity(
        ("life_years",), lambda case: {"": mean_precision(case["life_years"])}, _years
    ),
    "max_dvth": Quantity(
        ("max_dvth_mv",),
        lambda case: {
            name: mean_precision(case["max_dvth_mv"][:, place])
            for place, name in enumerate(TRANSISTORS)
        },
        lambda estimate, _: f"{with_bounds(estimate)} mV",
    ),
    "spill_rate": Quantity(
        ("spill_rate",),
        lambda case: {"": mean_precision(case["spill_rate"])},
        lambda estimate, _: f"{with_bounds(estimate, 100.0)} %",
    ),
}
"""What a sweep may be stopped by; named as in the JSON of the tables, without the unit."""
