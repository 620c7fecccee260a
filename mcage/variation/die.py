"""The part of Vmin that is the same for all slices of a die."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.random import variation_stream
from mcage.variation.scenarios import Scenario


def die_of(instances: NDArray[np.int64], slices_per_chip: int) -> NDArray[np.int64]:
    """Die that each slice lies on: slices with successive ids lie on the same die.

    Parameters
    ----------
    instances : int64[I]
        Instance ids.
    slices_per_chip : int
        Slices of a die, 1 or more; 1: no two slices lie on the same die.

    Returns
    -------
    int64[I]
        ``instance // slices_per_chip``.

    Raises
    ------
    UserError
        If a die has no slice.
    """
    if slices_per_chip < 1:
        raise UserError(f"slices_per_chip = {slices_per_chip}, expected 1 or more")
    return instances // slices_per_chip


def sample_die(scenario: Scenario, seed: int, dies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Die part of Vmin of each die.

    Parameters
    ----------
    scenario : Scenario
        Only its ``sigma_die_volts`` is used.
    seed : int
        Seed of the whole sweep.
    dies : int64[I]
        Ids of dies, in any order, also repeated.

    Returns
    -------
    float64[I]
        Volts, normal with mean 0. The draw behind it depends on seed and die only.
    """
    if scenario.sigma_die_volts == 0:
        return np.zeros(len(dies))
    ids, place = np.unique(dies, return_inverse=True)
    normal = np.array(
        [variation_stream(seed, "die", die).standard_normal() for die in ids.tolist()]
    )
    shift: NDArray[np.float64] = scenario.sigma_die_volts * normal[place]
    return shift
