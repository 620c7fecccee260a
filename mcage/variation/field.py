"""Threshold-voltage variation of a die: die-to-die, systematic and random parts (VARIUS)."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.errors import UserError
from mcage.random import stream_key
from mcage.variation.scenarios import Scenario

DIAGONAL = 1e-9
"""Added to the diagonal of the correlation, so that rounding cannot make a pivot negative."""


def spherical_correlation(distance: NDArray[np.float64], phi: float) -> NDArray[np.float64]:
    """Correlation of the systematic part at two points.

    Parameters
    ----------
    distance : float64, any shape
        Distance between the points, in sides of the slice, >= 0.
    phi : float
        Range: from here on there is no correlation.

    Notes
    -----
    Sarangi et al. (VARIUS), 2008, equation 1: 1 - 3/2 (r/phi) + 1/2 (r/phi)^3 for r < phi.
    """
    r = np.minimum(distance / phi, 1.0)
    return 1.0 - 1.5 * r + 0.5 * r**3


@lru_cache(maxsize=8)
def node_loads(scenario: Scenario) -> NDArray[np.float64]:
    """Weight of each standard normal number in the systematic part, in standard deviations.

    Returns
    -------
    float64[nodes, normals]
        Nodes in row-major order; read-only. A smooth field has a number for each node, and this is
        a Cholesky factor; otherwise there is a number for each array.
    """
    rows, columns = scenario.node_rows, scenario.node_columns
    if scenario.arrays is None:
        return node_factor(scenario.phi, rows, columns)
    each = scenario.arrays.counts(scenario.geometry)
    numbers = np.arange(each[0] * each[1]).reshape(1, *each)
    loads: NDArray[np.float64] = np.eye(numbers.size)[_at_nodes(scenario, numbers).ravel()]
    loads.setflags(write=False)
    return loads


@lru_cache(maxsize=8)
def node_factor(phi: float, node_rows: int, node_columns: int) -> NDArray[np.float64]:
    """Cholesky factor of the correlation between node centres, nodes in row-major order.

    The slice is the unit square: entries lie along y, the bits of an entry along x.

    Returns
    -------
    float64[nodes, nodes]
        Lower triangular, read-only.
    """
    y, x = np.divmod(np.arange(node_rows * node_columns), node_columns)
    centres = np.stack([(x + 0.5) / node_columns, (y + 0.5) / node_rows], axis=1)
    factor = correlation_factor(centres, phi)
    factor.setflags(write=False)
    return factor


def correlation_factor(points: NDArray[np.float64], phi: float) -> NDArray[np.float64]:
    """Cholesky factor of the correlation between points.

    Parameters
    ----------
    points : float64[points, 2]
        x and y, in sides of the square.
    phi : float
        Range of the correlation.

    Returns
    -------
    float64[points, points]
        Lower triangular.
    """
    x, y = points.T
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    factor = np.tril(spherical_correlation(distance, phi) + DIAGONAL * np.eye(len(x)))
    _cholesky(factor)
    return factor


@compiled
def _cholesky(factor: NDArray[np.float64]) -> None:
    """Turn the lower triangle of a matrix into its Cholesky factor, by element-wise steps.

    LAPACK's differs in the last bits with its number of threads, and an instance must not depend
    on the number of workers.
    """
    size = len(factor)
    for k in range(size):
        root = np.sqrt(factor[k, k])
        for row in range(k, size):
            factor[row, k] /= root
        for row in range(k + 1, size):
            for column in range(k + 1, row + 1):
                factor[row, column] -= factor[row, k] * factor[column, k]


def sample_field(
    scenario: Scenario, seed: int, instances: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Systematic part of Vmin of each instance.

    Parameters
    ----------
    scenario : Scenario
        Standard deviation, node grid, and range or arrays are used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.

    Returns
    -------
    float64[I, node_rows, node_columns]
        Volts, mean 0. The draws behind it depend on seed and instance only, so that one instance
        has the same field, scaled, in every scenario with the same grid and range, or with the
        same arrays.
    """
    from mcage.philox import first_normals  # Numba takes long to import

    rows, columns = scenario.node_rows, scenario.node_columns
    each = scenario.arrays.counts(scenario.geometry) if scenario.arrays else (rows, columns)
    keys = np.tile(stream_key(seed, "variation.field"), (len(instances), 1))
    normal = first_normals(keys, instances, each[0] * each[1])
    if scenario.arrays:
        shifts = scenario.sigma_systematic_volts * normal.reshape(-1, *each)
        return _at_nodes(scenario, shifts)

    field = triangular_product(node_factor(scenario.phi, rows, columns), normal)
    field *= scenario.sigma_systematic_volts
    return field.reshape(len(instances), rows, columns)


def _at_nodes(scenario: Scenario, of_arrays: NDArray[Any]) -> NDArray[Any]:
    """Values [I, rows, columns] of arrays at the nodes they consist of: [I, node rows, columns]."""
    rows, columns = of_arrays.shape[1:]
    repeated = np.repeat(of_arrays, scenario.node_rows // rows, axis=1)
    return np.repeat(repeated, scenario.node_columns // columns, axis=2)


# The product that makes a field of independent numbers, in an order of its own; compiled.
#
# Libraries choose the order of the sums of a product of matrices, which differs with the number of
# rows, with threads and processors. Here it is written down, so that an instance has the same
# field in any batch and on any machine.

TOGETHER = 32
"""Rows that are computed together."""

BLOCK = 8
"""Terms that are added up together."""


def triangular_product(
    factor: NDArray[np.float64], numbers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Each row of numbers times the rows of a lower triangular matrix.

    Parameters
    ----------
    factor : float64[m, m]
        Lower triangular; m is a multiple of eight.
    numbers : float64[I, m]
        The numbers.

    Returns
    -------
    float64[I, m]
        Even and odd terms are added up apart, and the two sums at the end. Of each eight terms the
        last pair comes first.
    """
    products = np.empty(numbers.shape)
    columns, sums = np.zeros((numbers.shape[1], TOGETHER)), np.empty((4, TOGETHER))
    _multiply(factor, np.ascontiguousarray(numbers), columns, sums, products)
    return products


@compiled
def _multiply(
    factor: NDArray[np.float64],
    numbers: NDArray[np.float64],
    columns: NDArray[np.float64],
    sums: NDArray[np.float64],
    products: NDArray[np.float64],
) -> None:
    """Fill in the products; columns float64[m, 32] and sums float64[4, 32] are workspaces.

    Two rows of the matrix are taken together: numbers that are loaded serve both.
    """
    count, size = numbers.shape
    for begin in range(0, count, TOGETHER):
        together = min(TOGETHER, count - begin)
        for number in range(together):
            for column in range(size):
                columns[column, number] = numbers[begin + number, column]
        for row in range(0, size, 2):
            sums[:] = 0
            for block in range(0, row + 2, BLOCK):
                terms = factor[row : row + 2, block : block + BLOCK]
                numbers_of = columns[block : block + BLOCK]
                for number in range(TOGETHER):
                    even, odd = sums[0, number], sums[1, number]
                    next_even, next_odd = sums[2, number], sums[3, number]
                    for pair in range(0, BLOCK, 2):
                        term = BLOCK - 2 - pair
                        left, right = numbers_of[term, number], numbers_of[term + 1, number]
                        even += terms[0, term] * left
                        odd += terms[0, term + 1] * right
                        next_even += terms[1, term] * left
                        next_odd += terms[1, term + 1] * right
                    sums[0, number], sums[1, number] = even, odd
                    sums[2, number], sums[3, number] = next_even, next_odd
            for number in range(together):
                products[begin + number, row] = sums[0, number] + sums[1, number]
                products[begin + number, row + 1] = sums[2, number] + sums[3, number]


# The part of Vmin that is the same for all slices of a die.


def die_of(instances: NDArray[np.int64], slices_per_chip: int) -> NDArray[np.int64]:
    """Die that each slice lies on: slices with successive ids lie on the same die.

    Parameters
    ----------
    instances : int64[I]
        Instance ids.
    slices_per_chip : int
        Slices of a die, 1 or more; 1: no two slices lie on the same die.

    Returns
    -------
    int64[I]
        ``instance // slices_per_chip``.

    Raises
    ------
    UserError
        If a die has no slice.
    """
    if slices_per_chip < 1:
        raise UserError(f"slices_per_chip = {slices_per_chip}, expected 1 or more")
    return instances // slices_per_chip


def sample_die(scenario: Scenario, seed: int, dies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Die part of Vmin of each die.

    Parameters
    ----------
    scenario : Scenario
        Only its ``sigma_die_volts`` is used.
    seed : int
        Seed of the whole sweep.
    dies : int64[I]
        Ids of dies, in any order, also repeated.

    Returns
    -------
    float64[I]
        Volts, normal with mean 0. The draw behind it depends on seed and die only.
    """
    from mcage.philox import first_normals

    if scenario.sigma_die_volts == 0:
        return np.zeros(len(dies))
    ids, place = np.unique(dies, return_inverse=True)
    keys = np.tile(stream_key(seed, "variation.die"), (len(ids), 1))
    normal = first_normals(keys, ids, 1)
    shift: NDArray[np.float64] = scenario.sigma_die_volts * normal[place, 0]
    return shift
