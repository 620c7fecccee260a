"""Maps that look like the published table: slices are drawn until one does."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.variation.fault_map import class_shares, faulty_bits
from mcage.variation.scenarios import Scenario
from mcage.variation.vmin_tail import sample_tail

MAX_ATTEMPTS = 20_000
"""Slices drawn for an instance before giving up: if one in 1,000 would do, 2e-9 of the instances
get this far."""


def worst_class_deviation(shares: NDArray[np.float64], scenario: Scenario) -> NDArray[np.float64]:
    """Largest distance of a class from the scenario's table.

    Parameters
    ----------
    shares : float64[I, 5]
        Shares of entries by class, as `mcage.variation.class_shares` counts them.
    scenario : Scenario
        Only its table is used.

    Returns
    -------
    float64[I]
        Share of the entries: 0.05 for five percentage points.
    """
    deviation: NDArray[np.float64] = np.abs(shares - scenario.table_shares).max(axis=1)
    return deviation


def select_attempts(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], tolerance: float
) -> NDArray[np.int64]:
    """For each instance, the first attempt whose map is close to the table.

    Attempt 0 is the slice that the instance has without selection; each further one has a field
    and cells from streams of its own. So the choice is a function of scenario, seed, instance and
    tolerance alone.

    Parameters
    ----------
    scenario : Scenario
        The law of Vmin, and the table, which holds at the scenario's own Vdd.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    tolerance : float
        Largest allowed deviation of a class, as a share of the entries: 0.05 for five points.

    Returns
    -------
    int64[I]
        Slices drawn and rejected before; for `mcage.variation.sample_tail`.

    Raises
    ------
    UserError
        If 20,000 attempts for an instance all fail.
    """
    attempts = np.zeros(len(instances), np.int64)
    closest = np.full(len(instances), np.inf)
    searching = np.arange(len(instances))
    for attempt in range(MAX_ATTEMPTS):
        attempts[searching] = attempt
        deviation = _deviations(scenario, seed, instances[searching], attempt)
        closest[searching] = np.minimum(closest[searching], deviation)
        searching = searching[deviation > tolerance]
        if not searching.size:
            return attempts
    hopeless = searching[0]
    raise UserError(
        f"scenario {scenario.name}, tolerance = {tolerance:g}: of {MAX_ATTEMPTS:,} maps drawn for "
        f"instance {instances[hopeless]}, the closest is {closest[hopeless]:.4f} off the table in "
        "its worst class; use a larger tolerance"
    )


def _deviations(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], attempt: int
) -> NDArray[np.float64]:
    attempts = np.full(len(instances), attempt)
    cells = sample_tail(scenario, seed, instances, scenario.vdd_volts, attempts=attempts)
    bits = faulty_bits(cells, cells.vmin_volts > scenario.vdd_volts)
    return worst_class_deviation(class_shares(bits), scenario)
