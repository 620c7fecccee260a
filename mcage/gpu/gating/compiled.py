"""The two steps of a reading that compare or join all pairs of SMs, compiled for the CPU.

Both are loops over rows of GPUs, without fast-math: NumPy's operations, in the same order, give the
same bits, whatever other GPUs stand in the rows.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled


def ranked(keys: NDArray[np.float64]) -> NDArray[np.int8]:
    """Place of each key of a column in rising order; of equal keys, the lower row comes first.

    Parameters
    ----------
    keys : float64[n, I]
        At most 127 rows.

    Returns
    -------
    int8[n, I]
        Places, from 0 on. All pairs of rows are compared: with 16 rows that is many times faster
        than sorting columns.
    """
    ranks = np.zeros(keys.shape, np.int8)
    _rank(keys, ranks)
    return ranks


@compiled
def _rank(keys: NDArray[np.float64], ranks: NDArray[np.int8]) -> None:
    rows, columns = keys.shape
    for first in range(rows):
        for second in range(first + 1, rows):
            for column in range(columns):
                comes_later = np.int8(keys[first, column] <= keys[second, column])
                ranks[second, column] += comes_later
                ranks[first, column] += np.int8(1) - comes_later


@compiled
def add_products(
    matrix: NDArray[np.float64], rows: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    """Add a matrix times rows to sums, term by term.

    Parameters
    ----------
    matrix : float64[m, n]
        The matrix.
    rows : float64[n, I]
        What it is multiplied by.
    sums : float64[m, I]
        What the products are added to.
    """
    for row in range(rows.shape[0]):
        for place in range(sums.shape[0]):
            factor = matrix[place, row]
            for column in range(sums.shape[1]):
                sums[place, column] += factor * rows[row, column]
