"""Bisection: where increasing functions reach zero, and so when degradation reaches its limits."""

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
        From n places to the values of n functions there. Each function is at most zero at its
        ``lower``, at least zero at its ``upper``, and negative up to a single place in between.
    lower, upper : float64[n]
        Ends of the intervals, 0 <= ``lower`` <= ``upper``.

    Returns
    -------
    float64[n]
        Places at which the functions are zero or just above.

    Raises
    ------
    ValueError
        If a function does not reach zero between the ends.

    Notes
    -----
    Plain bisection, each function by itself: the answer is the same on all machines that evaluate
    the function alike, and does not depend on the functions that are solved together with it.
    """
    at_lower, at_upper = function(lower), function(upper)
    reached = (at_lower <= 0) & (at_upper >= 0)
    if not reached.all():
        failed = np.argmin(reached)
        raise ValueError(
            f"no crossing between {lower[failed]} and {upper[failed]}: "
            f"the function goes from {at_lower[failed]} to {at_upper[failed]}"
        )
    upper = np.where(at_lower == 0, lower, upper)
    while (wide := upper - lower > np.maximum(1e-12 * upper, sys.float_info.min)).any():
        middle = 0.5 * (lower + upper)
        below = function(middle) < 0
        lower, upper = np.where(wide & below, middle, lower), np.where(wide & ~below, middle, upper)
    return upper
