"""Vmin growth: the supply voltage that a cell needs rises with the shift of its transistors."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def aged_vmin(
    vmin_volts: ArrayLike, dvth_volts: ArrayLike, coefficient: float = 1.0
) -> NDArray[np.float64]:
    """Return the minimum supply voltage of aged cells, in volts.

    Parameters
    ----------
    vmin_volts : array, any shape
        Vmin of the cells as manufactured, in volts.
    dvth_volts : array, same shape
        Larger of the shifts of each cell's T0 and T1, in volts, at least 0.
    coefficient : float
        Vmin growth per shift, in V/V.

    Notes
    -----
    The coefficient is assumed: Krishnan et al., IEDM 2006, find a growth of the order of the shift.
    For sensitivity studies take 0.5 ... 1. The larger shift covers lopsided wear (assumed).
    """
    grown: NDArray[np.float64] = np.asarray(vmin_volts) + coefficient * np.asarray(dvth_volts)
    return grown
