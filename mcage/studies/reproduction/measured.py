"""A figure as mcage computes it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcage.stats.estimates import mean
from mcage.studies.reproduction.kernel_replays import KernelReplays
from mcage.studies.reproduction.published import ALL, MEAN, Published

_ROUNDING = 1e-9
"""Values of dies that differ by no more are the same."""

Samples = NDArray[np.float64]
"""One value for each die, or a single one where dies make no difference."""


@dataclass(frozen=True)
class Measured:
    """What mcage has for a printed figure.

    Attributes
    ----------
    value : float
        NaN where a list is printed.
    half_width : float
        Of the 95 % interval of the mean over dies; 0 where dies make no difference.
    by_kernel : dict of str to float
        The same for each kernel, where there is such a thing.
    text : str
        A list, written as in the paper.
    """

    value: float
    half_width: float = 0.0
    by_kernel: dict[str, float] = field(default_factory=dict)
    text: str = ""

    def agrees(self, figure: Published) -> bool:
        """Whether it lies within the tolerance of what is printed."""
        return self.text == figure.text if self.text else figure.agrees(self.value)


def of_kernels(figure: Published, values: dict[str, Samples]) -> Measured:
    """What a figure asks for out of the values of the kernels.

    Their mean, one of them, or of all of them the one that is furthest from what is printed.
    """
    by_kernel = {kernel: float(samples.mean()) for kernel, samples in values.items()}
    if figure.kernel == MEAN:
        asked: Samples = np.mean(np.broadcast_arrays(*values.values()), axis=0)
    elif figure.kernel == ALL:
        asked = values[max(by_kernel, key=lambda one: abs(figure.difference(by_kernel[one])))]
    else:
        asked = values[figure.kernel]
    estimate = mean(asked)
    half_width = (estimate.upper - estimate.lower) / 2 if np.ptp(asked) > _ROUNDING else 0.0
    return Measured(estimate.value, half_width, by_kernel)


Metric = Callable[[KernelReplays, Published, int | None], Measured]
"""What computes a figure with a delta limit."""
