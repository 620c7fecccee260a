"""The worst cell of a slice under any NBTI model, by branch and bound.

A transistor whose duty is longer in each epoch never shifts less (`NbtiModel`). So the shift of a
transistor that has the largest duty of a group in each epoch bounds the whole group, and only
groups whose bound exceeds the worst shift so far are opened, down to cells. The result is the
maximum over all cells, and what is opened of a slice depends on that slice only.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.lifetime.degradation.duty_tree import Slices
from mcage.lifetime.degradation.history import DutyIn

ROUNDING = 1e-9
"""Relative amount by which a bound may fall short for no other reason than rounding."""

ShiftOf = Callable[[NDArray[np.int64], DutyIn], NDArray[np.float64]]
"""From the slice of each of m transistors, int64[m], and their duties to their shifts."""


def worst_cells(
    slices: Slices, shift_of: ShiftOf, known: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Worst cells of n slices.

    Parameters
    ----------
    slices : Slices
        Duty cycles of n slices.
    shift_of : callable
        Shifts of transistors.
    known : int64[n, k]
        Cells of each slice, at least one, that may be among the worst.

    Returns
    -------
    float64[n], int64[n]
        Largest shift of each slice in volts, and a cell with this shift.

    Raises
    ------
    UserError
        If a cell shifts further than its group can: a longer duty does not mean more shift.
    """

    def bounds(
        level: int, index: NDArray[np.int64], group: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return shift_of(index, lambda e, part: slices.largest(level, e, index[part], group[part]))

    def shifts(index: NDArray[np.int64], cell: NDArray[np.int64]) -> NDArray[np.float64]:
        return shift_of(index, lambda e, part: slices.duty(e, index[part], cell[part]))

    def opened(
        level: int, index: NDArray[np.int64], group: NDArray[np.int64], bound: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Members of groups of a level: slice; group, or in the end cell; bound, or shift."""
        branches = slices.branches[level]
        index, parent = np.repeat(index, branches), np.repeat(bound, branches)
        group = (group[:, None] * branches + np.arange(branches)).ravel()
        if level < len(slices.branches) - 1:
            bound = bounds(level + 1, index, group)
        else:
            group = slices.cell(group)
            bound = shifts(index, group)
        _check(bound, parent)
        return index, group, bound

    count, tried = known.shape
    all_slices = np.arange(count)
    shift = shifts(np.repeat(all_slices, tried), known.ravel()).reshape(known.shape)
    best = shift.argmax(axis=1)
    worst, worst_cell = shift[all_slices, best], known[all_slices, best]

    index, group = (axis.ravel() for axis in np.indices((count, slices.roots)))
    bound = bounds(0, index, group)
    _check(bound, np.inf)

    # Depth first: straight down to a cell, along the groups with the largest bounds.
    below, promise = _best(group, bound, count)
    for level in range(len(slices.branches)):
        _, members, bounds_of_members = opened(level, all_slices, below, promise)
        below, promise = _best(members, bounds_of_members, count)
    _raise(worst, worst_cell, all_slices, below, promise)

    for level in range(len(slices.branches)):
        promising = bound > worst[index]
        index, group, bound = opened(level, index[promising], group[promising], bound[promising])
    _raise(worst, worst_cell, index, group, bound)
    return worst, worst_cell


def _best(
    group: NDArray[np.int64], promise: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of equally many groups of each slice the group with the largest bound, and the bound."""
    by_slice = promise.reshape(count, -1)
    place = by_slice.argmax(axis=1) + np.arange(count) * by_slice.shape[1]
    return group[place], promise[place]


def _raise(
    worst: NDArray[np.float64],
    worst_cell: NDArray[np.int64],
    index: NDArray[np.int64],
    cell: NDArray[np.int64],
    shift: NDArray[np.float64],
) -> None:
    """Replace the worst cells so far by cells that have shifted further."""
    order = np.lexsort((shift, index))
    last = order[np.diff(index[order], append=-1) != 0]
    last = last[shift[last] > worst[index[last]]]
    worst[index[last]], worst_cell[index[last]] = shift[last], cell[last]


def _check(shift: NDArray[np.float64], bound: NDArray[np.float64] | float) -> None:
    if not (shift >= 0).all():
        raise UserError("the NBTI model gives shifts that are negative or no numbers")
    if (shift > bound * (1 + ROUNDING)).any():
        raise UserError(
            "the NBTI model gives a transistor that was stressed less in every epoch the larger "
            "shift; sweeps need one in which a longer duty never shifts less"
        )
