"""Lives of chips: a chip of several slices lives while no more of them are dead than it can spare.

Slices with successive ids make a chip: instance i belongs to chip ``i // slices_per_chip``, and so
to the die of that number. What slices of a chip share is the die part of Vmin, if the scenario has
one. Their fields and cells are their own, and so are their workloads: each slice draws its kernels
for itself, as if work were spread over the chip without regard to what the others run. A chip that
runs one kernel on all of its slices at a time would live as long on the average over slices, but
its slices would die closer together: its first death would come later, and chips would differ more.
"""

from dataclasses import replace

import numpy as np

from mcage.errors import UserError
from mcage.stats.survival import CaseLives


def chip_lives(lives: CaseLives, slices_per_chip: int, spare_slices: int = 0) -> CaseLives:
    """Lives of chips out of those of their slices, for all statistics that slices have.

    Parameters
    ----------
    lives : CaseLives
        Of slices, in the order of their ids from 0 on.
    slices_per_chip : int
        Slices of a chip, 1 or more. Slices of a last chip that is not whole are left out.
    spare_slices : int
        Dead slices that a chip can do without, 0 ... ``slices_per_chip - 1``.

    Returns
    -------
    CaseLives
        A chip ends with the death of its (``spare_slices`` + 1)-th slice, and of the same cause;
        of slices that die at one age, the one of lower id comes first. It is censored where fewer
        slices die before the horizon.

    Raises
    ------
    UserError
        The numbers make no chip, or there are too few slices for one.
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
