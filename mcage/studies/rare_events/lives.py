"""Lives of slices that were drawn from a proposal, each with its weight."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.lifetime.end_cause import EndCause


@dataclass(frozen=True, eq=False)
class WeightedLives:
    """What became of I slices by an age.

    Attributes
    ----------
    weights : float64[I]
        Plain density of each, cells and workload, over that of what it was drawn from.
    cause : int8[I]
        What it has died of, `EndCause`; censored, if it is alive.
    kernel_of_epoch : int64[I, epochs]
        Kernels that it runs.
    """

    weights: NDArray[np.float64]
    cause: NDArray[np.int8]
    kernel_of_epoch: NDArray[np.int64]

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Which of them are dead: bool[I]."""
        dead: NDArray[np.bool_] = self.cause != EndCause.CENSORED
        return dead

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Lives of several batches, one after the other."""
        columns = zip(
            *((one.weights, one.cause, one.kernel_of_epoch) for one in parts), strict=True
        )
        return cls(*map(np.concatenate, columns))
