"""Averages over a stretch of life of what follows the growth of faults.

Threshold shifts, and with them faults, grow about as the fourth root of time. In that variable a
rate of events is smooth, and a parabola through three moments of an epoch stands for it well, also
in the first epoch, at the start of which growth is fastest.
"""

import numpy as np
from numpy.typing import NDArray


def growth_weights(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the rates at the start, the middle of growth, and the end of some stretches.

    Parameters
    ----------
    start : float64[n]
        Their starts, at least 0.
    end : float64[n]
        Their ends, at least ``start``.

    Returns
    -------
    float64[3, n]
        The integral over time of a parabola in the fourth root of time, as weights of its values.
    """
    # With x from -1 to 1 over the stretch, time is (c + h x)^4 and dt = 4 h (c + h x)^3 dx.
    centre, half = 0.5 * (_root(end) + _root(start)), 0.5 * (_root(end) - _root(start))
    even = 4 * half * centre * (centre**2 / 3 + 3 * half**2 / 5)
    odd = 4 * half**2 * (centre**2 + half**2 / 5)
    middle = 16 * half * centre * (centre**2 / 3 + half**2 / 5)
    return np.stack([even - odd, middle, even + odd])


def middles_of_growth(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moments at which the fourth root of time is half-way: float64[n]."""
    return np.square(np.square(0.5 * (_root(start) + _root(end))))


def _root(time: NDArray[np.float64]) -> NDArray[np.float64]:
    # Two square roots are the same on every machine, a power of an array is not.
    return np.sqrt(np.sqrt(time))
