"""Measures: the numbers that a study says of a case, each declared once.

Tables, CSV, JSON, pandas, comparisons and stopping rules read them. A new one takes its
declaration, in `mcage.studies.sweep.measures` for sweeps.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mcage.results.variable import Quantity, Sample
from mcage.stats.estimates import (
    Bools,
    Estimate,
    Floats,
    Range,
    life,
    mean,
    percent,
    plus_minus,
    proportion,
    with_bounds,
)
from mcage.stats.survival import Precision, life_quantile, mean_precision, quantile_precision

Form = Literal["mean", "bounds", "age", "share"]
"""How an estimate is written: with half its interval, with its bounds, as an age that may lie
beyond the horizon, or as a share of the instances in percent."""

Better = Literal["less", "more", ""]


def range_of(form: Form, horizon_years: float) -> Range | None:
    """Range of what is written so: ages are counted up to the horizon, and shares are of one."""
    if form == "age":
        return 0.0, horizon_years
    return (0.0, 1.0) if form == "share" else None


@dataclass(frozen=True)
class Measure:
    """A number of a case, estimated from its instances.

    Parameters
    ----------
    key : str
        Its name in CSV, JSON and pandas, with the unit.
    name : str
        Its name for people, with the unit in brackets.
    variables : tuple of str
        What it is computed from.
    values : callable
        From arrays [instance, ...] of these variables in a single case to the value of each
        instance, NaN where it has none; of a share, whether it counts.
    heading : str
        Heading of its column; empty if it stands in CSV and JSON alone.
    form : str
        How it is written, and for shares also what it is: see `Form`.
    quantile : float, optional
        The age, or the value, that this share of the instances does not exceed; otherwise the mean
        is estimated. Where ``end_cause`` is among the variables, it says who has died at all.
    scale : float
        What makes a value that of the name's unit, such as 100 for percent of a fraction.
    primary : bool
        Whether its column stays in a narrow terminal.
    of_working : bool
        Whether only instances that worked at all have it.
    compared : bool
        Whether it is compared case by case.
    by_epoch : tuple of (str, int), optional
        Variable, and place in its last dimension, that has it at the end of each epoch, so that it
        is compared at equal age, too.
    better : {'less', 'more', ''}
        What is better of two values, where it may be an objective; empty where that depends.
    stops, part : str
        By what name a stopping rule knows it; empty if none may. Measures of the same name are
        known together, each with a label of its own.
    """

    key: str
    name: str
    variables: tuple[str, ...]
    values: Callable[[Sample], Floats]
    heading: str = ""
    form: Form = "mean"
    quantile: float | None = None
    scale: float = 1.0
    primary: bool = False
    of_working: bool = False
    compared: bool = False
    by_epoch: tuple[str, int] | None = None
    better: Better = ""
    stops: str = ""
    part: str = ""

    def estimate(self, sample: Sample, horizon_years: float) -> Estimate:
        """Its estimate from the instances of a case."""
        values = self.values(sample)
        if self.form == "share":
            return proportion(int(np.count_nonzero(values)), values.size)
        if self.quantile is not None:
            return life_quantile(values, self._died(sample, values), self.quantile)
        return mean(values, within=range_of(self.form, horizon_years))

    def precision(self, sample: Sample, horizon_years: float) -> Precision:
        """How precisely the instances of a case tell it."""
        values = self.values(sample)
        if self.quantile is not None:
            return quantile_precision(values, self._died(sample, values), self.quantile)
        known = mean_precision(values, within=range_of(self.form, horizon_years))
        # Where every slice is dead on arrival, no number of slices gives a relative precision.
        return known if values.any() else replace(known, relative=0.0)

    def written(self, estimate: Estimate, horizon_years: float) -> str:
        """Write an estimate of it, without the unit."""
        if self.form == "age":
            return life(estimate, horizon_years)
        if self.form == "share":
            return percent(estimate.value)
        return (plus_minus if self.form == "mean" else with_bounds)(estimate, self.scale)

    def _died(self, sample: Sample, values: Floats) -> Bools:
        if "end_cause" in self.variables:
            return np.asarray(sample["end_cause"] != 0)
        return np.ones(len(values), np.bool_)

    def in_words(self, estimate: Estimate, horizon_years: float) -> str:
        """Write an estimate with its bounds and its unit."""
        if self.form == "age":
            return f"{life(estimate, horizon_years)} years"
        unit = self.name.rpartition("[")[2].rstrip("]")
        return f"{with_bounds(estimate, self.scale)} {unit}"


def quantities_of(
    measures: Iterable[Measure], cases: Sequence[str], horizon_years: float
) -> dict[str, Quantity]:
    """What a study whose variables begin with the dimension of its cases may be stopped by.

    Parameters
    ----------
    measures : iterable of Measure
        Its measures.
    cases : sequence of str
        Labels of the cases.
    horizon_years : float
        Age at which lives are censored, years.
    """
    together: dict[str, list[Measure]] = {}
    for measure in measures:
        if measure.stops:
            together.setdefault(measure.stops, []).append(measure)
    return {name: _known_together(of, cases, horizon_years) for name, of in together.items()}


def _known_together(
    measures: Sequence[Measure], cases: Sequence[str], horizon_years: float
) -> Quantity:
    def precisions(sample: Sample) -> dict[str, Precision]:
        return {
            f"{label} {measure.part}".rstrip(): measure.precision(
                {name: array[place] for name, array in sample.items()}, horizon_years
            )
            for place, label in enumerate(cases)
            for measure in measures
        }

    return Quantity(
        measures[0].variables,
        precisions,
        lambda estimate: measures[0].in_words(estimate, horizon_years),
    )
