"""The distribution of Vmin over a slice, in the form that importance sampling needs.

The part that cells share is a linear map of independent standard normal numbers: the Vmin of a cell
is mu + (factor @ normals) at its node + a normal number that is independent from cell to cell.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.variation.field import node_loads
from mcage.variation.scenarios import Scenario


@dataclass(frozen=True)
class VminGaussian:
    """How Vmin varies over a slice.

    Parameters
    ----------
    scenario : Scenario
        Constants of process variation.
    """

    scenario: Scenario

    @cached_property
    def factor(self) -> NDArray[np.float64]:
        """Volts that each standard normal number adds at each node: float64[nodes, normals]."""
        die = np.full((len(self._systematic), 1), self.scenario.sigma_die_volts)
        return np.hstack([self._systematic, die])

    @cached_property
    def _systematic(self) -> NDArray[np.float64]:
        """`factor` without the die part: lower triangular where the systematic part is a field."""
        return self.scenario.sigma_systematic_volts * node_loads(self.scenario)

    @property
    def normals(self) -> int:
        """Number of standard normal numbers behind one slice."""
        return len(self.mean_direction)

    @property
    def random_volts(self) -> float:
        """Standard deviation, in volts, of the part that is independent from cell to cell."""
        return self.scenario.sigma_random_volts

    @cached_property
    def mean_direction(self) -> NDArray[np.float64]:
        """Unit vector of the normals that raises the mean of the slice most: float64[normals].

        Zero where cells share nothing.
        """
        gradient: NDArray[np.float64] = self.factor.sum(axis=0)
        length = float(np.sqrt((gradient**2).sum()))
        return gradient / length if length else gradient

    def node_volts(self, normals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean Vmin at the nodes of I slices.

        Parameters
        ----------
        normals : float64[I, normals]
            Standard normal numbers.

        Returns
        -------
        float64[I, node_rows, node_columns]
            In volts.
        """
        from mcage.variation.field_sum import triangular_product  # Numba takes long to import

        scenario = self.scenario
        # Not ``@``: BLAS sums in an order that depends on batch and threads.
        shared: NDArray[np.float64]
        if scenario.arrays is None and not scenario.sigma_die_volts:
            # The same sums, without the half of the terms that are 0.
            shared = triangular_product(self._systematic, normals[:, :-1])
        else:
            shared = np.einsum("ij,nj->ni", self.factor, normals)
        shared += scenario.mu_volts
        return shared.reshape(-1, scenario.node_rows, scenario.node_columns)

    def per_entry(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Repeat values of rows of nodes, [node_rows, ...], for each entry: [entries, ...]."""
        scenario = self.scenario
        return np.repeat(rows, scenario.geometry.entries // scenario.node_rows, axis=0)
