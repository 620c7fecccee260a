"""Limits of weak cells: which margin and which value decide when each of them fails.

A limit belongs to a cell for life, under all techniques and voltages: it is a function of seed,
instance and cell alone.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.sampling import InstanceConstants
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.luck import BatchLuck, SliceLuck
from mcage.variation.fault_maps import NewSlices


@dataclass(frozen=True, eq=False)
class CellLimits:
    """What decides when the cells of the tail of a batch fail.

    Attributes
    ----------
    limit : int8[n]
        Limit of each cell, a row of `Margins.rows`.
    vmin_volts : float64[6, n]
        Vmin as manufactured by limit; minus infinity for those that do not limit the cell.
    scores : float64[k, n] or None
        Scores of the transistors of each cell, where these differ by their luck.
    """

    limit: NDArray[np.int8]
    vmin_volts: NDArray[np.float64]
    scores: NDArray[np.float64] | None


def luck_and_limits(
    luck: SliceLuck,
    conditions: LifeConditions,
    constants: InstanceConstants | None,
    new: NewSlices,
    sampled_cells: NDArray[np.int64],
) -> tuple[NewSlices, BatchLuck | None, CellLimits | None]:
    """What is drawn for the cells of slices; arguments as of `SliceLuck.of_batch`.

    Returns
    -------
    NewSlices, BatchLuck or None, CellLimits or None
        The slices without the cells that can never fail, and what was drawn.
    """
    new, of_batch = luck.of_batch(conditions, constants, new, sampled_cells)
    new, limits = limits_of_batch(conditions, new, luck)
    return new, of_batch, limits


def limits_of_batch(
    conditions: LifeConditions, new: NewSlices, luck: SliceLuck
) -> tuple[NewSlices, CellLimits | None]:
    """Limits of the cells of slices, where conditions know margins.

    Parameters
    ----------
    conditions : LifeConditions
        What holds for the lives of the slices.
    new : NewSlices
        The slices, with all cells above the floor of the conditions.
    luck : SliceLuck
        Their seed, their ids, and the scores of their transistors.

    Returns
    -------
    NewSlices, CellLimits or None
        The slices without the cells that can never fail by their limits, and the limits.
    """
    margins, tail = conditions.margins, new.tail
    if margins is None:
        return new, None
    owner, cell = tail.instance, tail.cell.astype(np.int64)
    limit = margins.limits_at(luck.numbers("margins", owner, cell))
    scores = None
    if conditions.spread is not None:
        scores = luck.scores_of_cells(owner, cell, conditions.pbti is not None)
    growth = conditions.largest_growth(scores)
    largest = np.take_along_axis(growth, limit[None, :].astype(np.int64), axis=0)[0]
    lowest_vdd = conditions.environment.lowest_vdd_volts
    kept = np.flatnonzero(tail.vmin_volts + largest * (1 + 1e-9) > lowest_vdd)
    vmin = np.full((len(margins.rows), len(kept)), -np.inf)
    vmin[limit[kept], np.arange(len(kept))] = tail.vmin_volts[kept]
    limits = CellLimits(limit[kept], vmin, None if scores is None else scores[:, kept])
    return replace(new, tail=tail.at(kept, np.arange(len(new)))), limits
