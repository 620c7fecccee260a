"""Crossing: when a growing quantity reaches its limit."""

import sys
from collections.abc import Callable


def crossing(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Return where an increasing ``function`` reaches zero, to a relative 1e-12.

    Parameters
    ----------
    function : callable
        Of one number; not above zero at ``lower``, not below zero at ``upper``, and in between
        negative up to one place only.
    lower, upper : float
        Ends of the interval, 0 <= ``lower`` <= ``upper``.

    Returns
    -------
    float
        A place at which the function is already at or above zero.

    Raises
    ------
    ValueError
        If the function does not reach zero between the ends.

    Notes
    -----
    Plain bisection: the same answer on every machine that evaluates the function alike.
    """
    at_lower, at_upper = function(lower), function(upper)
    if not at_lower <= 0 <= at_upper:
        raise ValueError(
            f"no crossing between {lower} and {upper}: "
            f"the function goes from {at_lower} to {at_upper}"
        )
    if at_lower == 0:
        return lower
    while upper - lower > max(1e-12 * upper, sys.float_info.min):
        middle = 0.5 * (lower + upper)
        if function(middle) < 0:
            lower = middle
        else:
            upper = middle
    return upper
