"""A printed value as mcage computes it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcage.stats.estimates import mean
from mcage.studies.reproduction.kernel_replays import KernelReplays
from mcage.studies.reproduction.published import ALL, MEAN, Published

_ROUNDING = 1e-9
"""Largest difference of values of dies that rounding alone can make."""

Samples = NDArray[np.float64]
"""A value for each die, or a single value where dies make no difference."""


@dataclass(frozen=True)
class Measured:
    """What mcage computes for a printed value.

    Attributes
    ----------
    value : float
        NaN where a list is printed.
    half_width : float
        Half of the 95 % interval of the mean over dies; 0 where dies make no difference.
    by_kernel : dict of str to float
        Value of each kernel; empty where the metric is not one of kernels.
    text : str
        A list, written as in the paper.
    """

    value: float
    half_width: float = 0.0
    by_kernel: dict[str, float] = field(default_factory=dict)
    text: str = ""

    def agrees(self, figure: Published) -> bool:
        """Whether the value lies within the tolerance of the printed one."""
        return self.text == figure.text if self.text else figure.agrees(self.value)


def of_kernels(figure: Published, values: dict[str, Samples]) -> Measured:
    """Reduce the values of the kernels to what is printed.

    That is their mean, the value of a kernel, or the value that is furthest from the printed one.
    """
    by_kernel = {kernel: float(samples.mean()) for kernel, samples in values.items()}
    if figure.kernel == MEAN:
        asked: Samples = np.mean(np.broadcast_arrays(*values.values()), axis=0)
    elif figure.kernel == ALL:
        asked = values[max(by_kernel, key=lambda kernel: abs(figure.difference(by_kernel[kernel])))]
    else:
        asked = values[figure.kernel]
    estimate = mean(asked)
    half_width = (estimate.upper - estimate.lower) / 2 if np.ptp(asked) > _ROUNDING else 0.0
    return Measured(estimate.value, half_width, by_kernel)


Metric = Callable[[KernelReplays, Published, int | None], Measured]
"""Computes a printed value under a delta limit."""
