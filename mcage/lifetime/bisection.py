"""Crossing: when growing quantities reach their limits."""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def crossing(
    function: Function, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where increasing functions reach zero, each to a relative 1e-12.

    Parameters
    ----------
    function : callable
        Of n numbers, one for each of n functions; each not above zero at its ``lower``, not below
        zero at its ``upper``, and in between negative up to one place only.
    lower, upper : float64[n]
        Ends of the intervals, 0 <= ``lower`` <= ``upper``.

    Returns
    -------
    float64[n]
        Places at which the functions are already at or above zero.

    Raises
    ------
    ValueError
        If a function does not reach zero between the ends.

    Notes
    -----
    Plain bisection, each function by itself: the same answer on every machine that evaluates it
    alike, and whatever other functions are solved with it.
    """
    at_lower, at_upper = function(lower), function(upper)
    reached = (at_lower <= 0) & (at_upper >= 0)
    if not reached.all():
        one = np.argmin(reached)
        raise ValueError(
            f"no crossing between {lower[one]} and {upper[one]}: "
            f"the function goes from {at_lower[one]} to {at_upper[one]}"
        )
    upper = np.where(at_lower == 0, lower, upper)
    while (wide := upper - lower > np.maximum(1e-12 * upper, sys.float_info.min)).any():
        middle = 0.5 * (lower + upper)
        below = function(middle) < 0
        lower, upper = np.where(wide & below, middle, lower), np.where(wide & ~below, middle, upper)
    return upper
