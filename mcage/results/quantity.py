"""What a campaign may be stopped by: a quantity, and how precisely some instances tell it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from numpy.typing import NDArray

from mcage.results.variable import Variable
from mcage.stats.estimates import Estimate
from mcage.stats.precision import Precision, mean_precision
from mcage.stats.wording import with_bounds

Sample = Mapping[str, NDArray[Any]]
"""Variables of some instances, with the dimensions that the study declares."""


@dataclass(frozen=True)
class Quantity:
    """Something that a study estimates from its instances.

    Parameters
    ----------
    variables : tuple of str
        What it is computed from; each has the dimension ``instance``.
    precisions : callable
        From these variables to the precision of each part, by its label. The label is empty where
        there is a single part only.
    in_words : callable
        From an estimate to text with a unit.
    """

    variables: tuple[str, ...]
    precisions: Callable[[Sample], dict[str, Precision]]
    in_words: Callable[[Estimate], str]


def mean_of(variable: Variable, labels: Mapping[str, Sequence[Any]]) -> Quantity:
    """Mean of a variable over the instances, in each place of its other dimensions.

    Parameters
    ----------
    variable : Variable
        A variable of numbers with the dimension ``instance``.
    labels : mapping of str to sequence
        Labels of the places of its other dimensions.
    """
    others = [dim for dim in variable.dims if dim != "instance"]

    def precisions(sample: Sample) -> dict[str, Precision]:
        values = sample[variable.name]
        means = {}
        for place in product(*(range(len(labels[dim])) for dim in others)):
            index: list[Any] = list(place)
            index.insert(variable.instance_axis, slice(None))
            words = [str(labels[dim][i]) for dim, i in zip(others, place, strict=True)]
            means[" ".join(words)] = mean_precision(values[tuple(index)])
        return means

    unit = "" if variable.units == "1" else f" {variable.units}"
    return Quantity((variable.name,), precisions, lambda mean: with_bounds(mean) + unit)
