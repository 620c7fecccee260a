"""Stretches of life in which cells age evenly: one kernel, one fault map, one environment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EpochSpan:
    """A stretch of life of each of n instances, in which cells age evenly: float64[n] each."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def part(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Part of each stretch that has passed at a moment of each: float64[n]."""
        return (moment - self.start) / (self.end - self.start)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "EpochSpan":
        """Those of some instances."""
        return EpochSpan(self.start[which], self.end[which])


def between(
    before: NDArray[np.float64], after: NDArray[np.float64], part: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Times of cells when a part of the stretch between has passed."""
    return before + (after - before) * part
