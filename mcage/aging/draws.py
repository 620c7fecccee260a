"""Constants as samples: joint draws of constants, of which each instance has a row for life.

A constant that nobody has measured has a distribution in place of a value, and constants that were
fitted together are not independent. A table of joint draws, such as the posterior sample of a fit,
says both.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.random import stream

Columns = Mapping[str, NDArray[np.float64]]
"""Constants by name: float64[rows] of a table, float64[n] of n instances."""


@dataclass(frozen=True, eq=False)
class ConstantDraws:
    """A table of joint draws of constants, and which row an instance has.

    Parameters
    ----------
    rows : int
        Number of rows.
    of_slices : mapping
        Constants of `mcage.aging.sampling.InstanceConstants` by name.
    of_model : mapping
        Constants of the NBTI model by name.
    group_size : int
        Instances with successive ids that have the same row: the slices of a chip.
    """

    rows: int
    of_slices: Columns
    of_model: Columns
    group_size: int = 1

    def row_of(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each instance, a function of seed and instance alone: int64[n].

        Rows are dealt in turn, in an order that the seed has shuffled: after any number of
        instances each row has come equally often, but for at most one time, and the rows that
        came once more are a fair sample, also of a table that is sorted.
        """
        order = stream(seed, "instance.draw", 0).permutation(self.rows)
        rows: NDArray[np.int64] = order[instances // self.group_size % self.rows]
        return rows
