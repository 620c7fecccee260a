"""Periods and epochs of a life: their number, their edges, and averages over an epoch.

Threshold shifts, and with them faults, grow about as the fourth root of time: half of the growth of
ten years lies in the first seven months. Epochs are therefore short at first. In the fourth root of
time a rate of events is smooth, and a parabola through three moments of an epoch stands for it
well, also in the first epoch, at the start of which growth is fastest.
"""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.spec.sections import DEFAULT_EPOCHS, MOST_PERIODS

OF_SEQUENTIAL = {"periods": 5, "mix": "uniform"}
"""Defaults of a sequential workload: one kernel after the other."""


def with_schedule(fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a sequential workload has by default: nested plain values of a spec."""
    workload = fields.get("workload")
    if not isinstance(workload, dict) or workload.get("schedule") != "sequential":
        return fields
    return fields | {"workload": OF_SEQUENTIAL | workload}


def with_epochs(fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in an epoch more than there are periods, where those would outnumber the default."""
    workload, life = fields.get("workload"), fields.get("life", {})
    periods = workload.get("periods") if isinstance(workload, dict) else None
    if not isinstance(periods, int) or not isinstance(life, dict) or "epochs" in life:
        return fields
    return fields | {"life": life | {"epochs": min(MOST_PERIODS, max(DEFAULT_EPOCHS, periods + 1))}}


@cache
def epoch_edges(horizon: float, periods: int, epochs: int) -> tuple[float, ...]:
    """Edges of the epochs of a life, from 0 to the horizon.

    Parameters
    ----------
    horizon : float
        End of the simulated time, in any unit.
    periods : int
        Number of periods, of equal length, at whose edges the workload changes.
    epochs : int
        Number of epochs, at least `periods`. Beyond the edges of the periods, the epoch in which
        faults grow most is split at the middle of its growth, again and again.
    """
    edges = [horizon * period / periods for period in range(periods + 1)]
    while len(edges) <= epochs:
        growth = [end**0.25 - start**0.25 for start, end in pairwise(edges)]
        widest = growth.index(max(growth))
        edges.insert(widest + 1, middle_of_growth(edges[widest], edges[widest + 1]))
    return tuple(edges)


def middle_of_growth(start: float, end: float) -> float:
    """Moment at which the fourth root of time is half-way between two moments."""
    return float((0.5 * (start**0.25 + end**0.25)) ** 4)


def middles_of_growth(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moments at which the fourth root of time is half-way: float64[n]; the same on any machine."""
    return np.square(np.square(0.5 * (_fourth_root(start) + _fourth_root(end))))


def growth_weights(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the rates at the start, the middle of growth, and the end of epochs.

    Parameters
    ----------
    start : float64[n]
        Starts of the epochs, at least 0.
    end : float64[n]
        Ends of the epochs, at least ``start``.

    Returns
    -------
    float64[3, n]
        The integral over time of a parabola in the fourth root of time, as weights of its values.
    """
    # With x from -1 to 1 over the epoch, time is (c + h x)^4 and dt = 4 h (c + h x)^3 dx.
    first, last = _fourth_root(start), _fourth_root(end)
    centre, half = 0.5 * (last + first), 0.5 * (last - first)
    even = 4 * half * centre * (centre**2 / 3 + 3 * half**2 / 5)
    odd = 4 * half**2 * (centre**2 + half**2 / 5)
    middle = 16 * half * centre * (centre**2 / 3 + half**2 / 5)
    return np.stack([even - odd, middle, even + odd])


def _fourth_root(time: NDArray[np.float64]) -> NDArray[np.float64]:
    # Two square roots are the same on every machine, a power of an array is not.
    return np.sqrt(np.sqrt(time))
