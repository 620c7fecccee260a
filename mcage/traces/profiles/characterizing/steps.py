"""Steps of a register: which of its writes in a window are alike, in turn or in loops."""

import numpy as np
from numpy.typing import NDArray

from mcage.traces.profiles.profile import LAST

MOST_STEPS = 64
"""Steps of a register that are told apart; where there would be more, less is told apart."""
LONGEST_LOOP = 12
"""Most writes of a register in one iteration of a loop that is recognised."""

_TOLERANCE, _WIDER = 0.12, 1.5
_FEW = 16
"""Writes that are compared at once at first: most are not of a loop."""


def steps_of(
    number: NDArray[np.int64], features: NDArray[np.float64]
) -> tuple[tuple[int, int], ...]:
    """Fold the writes of a register into steps that follow one another or repeat in loops.

    Windows of a kernel run one program: a write of a number is the same instruction in most of
    them, and writes that are alike at equal distances are a loop.

    Parameters
    ----------
    number : int64[n]
        Number of each write in its window, from 1, but for the last one of the window.
    features : float64[n, features]
        What writes are compared by: of alike ones, the means differ by at most 0.12.

    Returns
    -------
    tuple of (int, int)
        Writes in a row, and steps that they belong to in turn.
    """
    if not len(number):
        return ()
    most = int(number.max())
    sums = np.zeros((most, features.shape[1]))
    np.add.at(sums, number - 1, features)
    means = sums / np.maximum(np.bincount(number - 1, minlength=most), 1)[:, None]
    tolerance = _TOLERANCE
    steps = _folded(means, tolerance)
    while sum(period for _, period in steps) > MOST_STEPS:
        tolerance *= _WIDER
        steps = _folded(means, tolerance)
    return steps


def _folded(means: NDArray[np.float64], tolerance: float) -> tuple[tuple[int, int], ...]:
    steps: list[tuple[int, int]] = []
    at = 0
    while at < len(means):
        best = (1, 1)
        for period in range(1, min(LONGEST_LOOP, (len(means) - at) // 2) + 1):
            alike = _alike(means[at:], period, tolerance)
            # A loop saves the steps of all iterations but the first.
            if alike // period * period > best[0] - best[1]:
                best = (period + alike // period * period, period)
        steps.append(best)
        at += best[0]
    return tuple(steps)


def _alike(means: NDArray[np.float64], period: int, tolerance: float) -> int:
    """Writes after a first iteration of a loop that are like those of that iteration."""
    start, length = period, _FEW
    while start < len(means):
        following = np.arange(start, min(start + length, len(means)))
        unlike = np.abs(means[following] - means[following % period]).max(axis=1) > tolerance
        if unlike.any():
            return start + int(unlike.argmax()) - period
        start, length = start + length, 2 * length
    return len(means) - period


def step_of_writes(steps: tuple[tuple[int, int], ...], most: int) -> NDArray[np.int64]:
    """Step of the write of each number that is not the last of its window: int64[most + 1].

    Writes beyond those that were seen repeat the last steps; number 0 is the time before.
    """
    of_writes, first = [np.zeros(1, np.int64)], 1
    for index, (writes, period) in enumerate(steps):
        if index == len(steps) - 1:
            writes = max(writes, most)
        of_writes.append(first + np.arange(writes) % period)
        first += period
    numbers = np.concatenate([*of_writes, np.full(most, LAST)])
    return numbers[: most + 1]
