"""Averages over an epoch of what follows the growth of faults.

Threshold shifts, and with them faults, grow about as the fourth root of time. In that variable a
rate of events is smooth, and a parabola through three moments of an epoch stands for it well, also
in the first epoch, at the start of which growth is fastest.
"""

import numpy as np
from numpy.typing import NDArray


def growth_weights(start: float, end: float, until: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the rates at the start, the middle of growth, and the end of an epoch.

    Parameters
    ----------
    start, end : float
        Borders of the epoch.
    until : float64[n]
        Ends of the integrals, from ``start`` to ``end``.

    Returns
    -------
    float64[3, n]
        The integral over time of a parabola in the fourth root of time, as weights of its values.
    """
    # With x from -1 to 1 over the epoch, time is (c + h x)^4 and dt = 4 h (c + h x)^3 dx.
    centre, half = 0.5 * (start**0.25 + end**0.25), 0.5 * (end**0.25 - start**0.25)
    x = (until**0.25 - centre) / half
    density = 4 * half * np.array([centre**3, 3 * centre**2 * half, 3 * centre * half**2, half**3])
    bases = ([0.0, -0.5, 0.5], [1.0, 0.0, -1.0], [0.0, 0.5, 0.5])
    weights = np.empty((3, len(until)))
    for basis, weight in zip(bases, weights, strict=True):
        integral = np.polynomial.polynomial.polyint(np.convolve(basis, density))
        weight[:] = np.polynomial.polynomial.polyval(
            x, integral
        ) - np.polynomial.polynomial.polyval(-1.0, integral)
    return weights
