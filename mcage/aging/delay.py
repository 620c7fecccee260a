"""Delay: how much slower a transistor switches for its threshold shift (alpha-power law).

The switching delay is proportional to ``V / (V - Vt)^alpha`` (Zhang et al., INTEGRATION 2015,
equation 1), so that a shift dVth raises it by ``(1 - dVth / (V - Vt0))^-alpha - 1``.

The power is the one thing here that machines may round differently. What ends a life is therefore
decided by comparing shifts with :func:`dvth_at_delay`, whose power is taken once, of one number.
"""

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray


def delay_increase(
    dvth_volts: ArrayLike, vdd_volts: float, vt0_volts: ArrayLike, alpha: ArrayLike
) -> NDArray[np.float64]:
    """Return the relative increase of the delay, 0.139 for 13.9 %.

    Parameters
    ----------
    dvth_volts : array, any shape
        Threshold shifts in volts, at least 0.
    vdd_volts : float
        Supply voltage in volts: the highest one of the environment.
    vt0_volts : array, same shape or broadcast to it
        Unaged threshold voltage in volts.
    alpha : array, same shape or broadcast to it
        Exponent of the alpha-power law, above 0.

    Returns
    -------
    array, same shape
        Increase; infinite where the shift has used up the overdrive ``vdd_volts - vt0_volts``, for
        such a transistor no longer switches.
    """
    overdrive = vdd_volts - np.asarray(vt0_volts, dtype=np.float64)
    left = overdrive - np.asarray(dvth_volts, dtype=np.float64)
    slowdown = np.full_like(left, np.inf)
    np.divide(overdrive, left, out=slowdown, where=left > 0)
    increase: NDArray[np.float64] = slowdown ** np.asarray(alpha) - 1
    return increase


@overload
def dvth_at_delay(increase: float, vdd_volts: float, vt0_volts: float, alpha: float) -> float: ...


@overload
def dvth_at_delay(
    increase: float, vdd_volts: float, vt0_volts: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]: ...


def dvth_at_delay(
    increase: float, vdd_volts: float, vt0_volts: float | NDArray[np.float64], alpha: float
) -> float | NDArray[np.float64]:
    """Return the smallest shift in volts at which the delay has grown by ``increase``.

    Inverse of :func:`delay_increase` with the same arguments; ``increase`` is at least 0 and may be
    infinite. At or below threshold any shift will do, and the answer is 0.
    """
    used = 1 - math.pow(1 + increase, -1 / alpha)
    if isinstance(vt0_volts, np.ndarray):
        limits: NDArray[np.float64] = np.maximum(vdd_volts - vt0_volts, 0.0) * used
        return limits
    return max(vdd_volts - vt0_volts, 0.0) * used
