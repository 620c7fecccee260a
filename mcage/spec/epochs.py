"""Where the epochs of a life begin and end.

Threshold shifts, and with them faults, grow about as the fourth root of time: half of the growth of
ten years lies in the first seven months. Epochs are therefore short at first.
"""

from functools import cache
from itertools import pairwise


def middle_of_growth(start: float, end: float) -> float:
    """Moment at which the fourth root of time is half-way between two moments."""
    return float((0.5 * (start**0.25 + end**0.25)) ** 4)


@cache
def epoch_edges(horizon: float, periods: int, epochs: int) -> tuple[float, ...]:
    """Borders of the epochs of a life, from 0 to the horizon.

    Parameters
    ----------
    horizon : float
        End of the simulated time, in any unit.
    periods : int
        Stretches of equal length at whose borders the workload changes.
    epochs : int
        Number of epochs, at least `periods`. Beyond the borders of the periods, the epoch in which
        faults grow most is split at the middle of its growth, again and again.
    """
    edges = [horizon * period / periods for period in range(periods + 1)]
    while len(edges) <= epochs:
        growth = [end**0.25 - start**0.25 for start, end in pairwise(edges)]
        widest = growth.index(max(growth))
        edges.insert(widest + 1, middle_of_growth(edges[widest], edges[widest + 1]))
    return tuple(edges)
