"""Lives of chips: a chip of several slices works while no more of them are dead than it can spare.

Slices with successive ids make a chip: slice i belongs to chip ``i // slices_per_chip``, which is
also the number of its die. Slices of a chip share the die part of Vmin, if the scenario has any.
Their fields, cells and workloads are independent: each slice draws its kernels as if work were
spread over the chip without regard to what other slices run. If a chip ran the same kernel on all
of its slices at a time, the mean life of its slices would be the same, but they would die closer
together: the first death would come later, and chips would differ more.
"""

from dataclasses import replace

import numpy as np

from mcage.errors import UserError
from mcage.stats.survival import CaseLives


def chip_lives(lives: CaseLives, slices_per_chip: int, spare_slices: int = 0) -> CaseLives:
    """Lives of chips from those of their slices; all statistics of slices apply to them.

    Parameters
    ----------
    lives : CaseLives
        Lives of slices, in the order of their ids from 0 on.
    slices_per_chip : int
        Number of slices of a chip, 1 or more. Slices of an incomplete last chip are left out.
    spare_slices : int
        Number of dead slices that a chip can spare, 0 ... ``slices_per_chip - 1``.

    Returns
    -------
    CaseLives
        A chip dies with its (``spare_slices`` + 1)-th slice, of the same cause; of slices that die
        at the same age, the slice with the lower id counts first. A chip is censored if fewer
        slices die before the horizon.

    Raises
    ------
    UserError
        The numbers make no chip, or there are too few slices for a chip.
    ValueError
        A life is censored before another one ends: then the order of deaths is not known.
    """
    _check(lives.years.size, slices_per_chip, spare_slices)
    died = lives.died
    if not died.all() and died.any() and lives.years[~died].min() < lives.years[died].max():
        raise ValueError("order of deaths needs every censored life to outlast every death")
    chips = lives.years.size // slices_per_chip
    shape, whole = (chips, slices_per_chip), chips * slices_per_chip
    death_years = np.where(died, lives.years, np.inf)[:whole].reshape(shape)
    in_chip = np.argsort(death_years, axis=1, kind="stable")[:, spare_slices]
    last = np.arange(chips) * slices_per_chip + in_chip
    return replace(lives, years=lives.years[last], died=died[last], cause=lives.cause[last])


def _check(slices: int, slices_per_chip: int, spare_slices: int) -> None:
    if slices_per_chip < 1:
        raise UserError(f"slices_per_chip = {slices_per_chip}, expected 1 or more")
    if not 0 <= spare_slices < slices_per_chip:
        raise UserError(
            f"spare_slices = {spare_slices}, expected 0 ... {slices_per_chip - 1} of the "
            f"{slices_per_chip} slices of a chip"
        )
    if slices < slices_per_chip:
        raise UserError(
            f"{slices} slices make no chip of {slices_per_chip}: run a sweep of more instances"
        )
