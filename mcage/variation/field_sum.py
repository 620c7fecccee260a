"""The product that makes a field of independent numbers, in an order of its own; compiled.

What a product of matrices adds up first is left to libraries, and differs with the number of rows,
with threads and processors. Here it is written down, so that an instance has the same field in any
batch and on any machine.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled

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
