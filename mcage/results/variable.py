"""Arrays of a results file: variables that a study computes, and their coordinates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcage.stats.estimates import CONFIDENCE, Estimate, with_bounds
from mcage.stats.survival import Precision, mean_precision

Better = Literal["less", "more", ""]
"""Better direction of a value; empty where that depends."""


@dataclass(frozen=True)
class Variable:
    """One array of a results file.

    Parameters
    ----------
    name : str
        Its name.
    dims : tuple of str
        Names of its dimensions. Each dimension has a coordinate of its name.
    dtype : str
        A NumPy name, or ``"text"`` for a coordinate of labels.
    units : str
        Unit in the notation of UDUNITS; ``"1"`` for fractions, counts and text.
    long_name : str
        Heading of a figure's axis.
    comment : str
        What a reader must know beyond the heading.
    flags : tuple of (str, int)
        Names and values of an enumeration; empty for numbers.
    missing : str
        When a value may be NaN, as the end of a sentence; the empty text if never.
    within : str
        Coordinate that bounds the values. Where it holds text, the values are indices of its
        labels; where it holds numbers, they are 0 ... its last number.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    units: str
    long_name: str
    comment: str = ""
    flags: tuple[tuple[str, int], ...] = ()
    missing: str = ""
    within: str = ""

    @property
    def per_instance(self) -> bool:
        """Whether shards are put one after the other. The arrays of other variables are added."""
        return "instance" in self.dims

    @property
    def instance_axis(self) -> int:
        """Axis along which shards are put one after the other."""
        return self.dims.index("instance")

    @property
    def flag_values(self) -> list[int]:
        """Values of the enumeration."""
        return [value for _, value in self.flags]

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of the array, given the size of each dimension."""
        return tuple(sizes[dim] for dim in self.dims)


def flags_of(enumeration: type[IntEnum]) -> tuple[tuple[str, int], ...]:
    """Names, in small letters, and values of an enumeration, as a `Variable` declares them."""
    return tuple((flag.name.lower(), int(flag)) for flag in enumeration)


@dataclass(frozen=True)
class Coordinate:
    """An array that labels others.

    A coordinate with the name of its only dimension is the scale of that dimension.

    Parameters
    ----------
    variable : Variable
        What it is; of one dimension.
    values : sequence
        Its content: text, or numbers of the declared type.
    """

    variable: Variable
    values: Sequence[Any]

    def __post_init__(self) -> None:
        values = self.values
        if not isinstance(values, range):  # of a million instances, there is no need for a tuple
            values = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
        object.__setattr__(self, "values", values)

    @property
    def is_scale(self) -> bool:
        """Whether it labels the positions of its dimension."""
        return self.variable.dims == (self.variable.name,)


def dimension_sizes(coordinates: Iterable[Coordinate]) -> dict[str, int]:
    """Size of every dimension that has a scale among the coordinates."""
    return {scale.variable.name: len(scale.values) for scale in coordinates if scale.is_scale}


# Stopping a campaign: a quantity, and how precisely some instances estimate it.

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
        From these variables, and the level of intervals (95 % by default), to the precision of
        each part, by its label. The label is empty where there is a single part only.
    in_words : callable
        From an estimate to text with a unit.
    """

    variables: tuple[str, ...]
    precisions: Callable[..., dict[str, Precision]]
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

    def precisions(sample: Sample, level: float = CONFIDENCE) -> dict[str, Precision]:
        values = sample[variable.name]
        means = {}
        for place in product(*(range(len(labels[dim])) for dim in others)):
            index: list[Any] = list(place)
            index.insert(variable.instance_axis, slice(None))
            words = [str(labels[dim][i]) for dim, i in zip(others, place, strict=True)]
            means[" ".join(words)] = mean_precision(values[tuple(index)], level)
        return means

    unit = "" if variable.units == "1" else f" {variable.units}"
    return Quantity((variable.name,), precisions, lambda mean: with_bounds(mean) + unit)
