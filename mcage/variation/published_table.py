"""Fault maps of Table I of RRCD: drawn from it, or selected among slices until one matches it."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.random import variation_stream
from mcage.variation.fault_maps import class_shares, faulty_bits
from mcage.variation.scenarios import CLASSES, Scenario
from mcage.variation.vmin_tail import TailCells, sample_tail

MAX_ATTEMPTS = 20_000
"""Slices drawn for an instance before giving up: if one in 1,000 would do, 2e-9 of the instances
get this far."""


def exact_counts(shares: tuple[float, ...], total: int) -> NDArray[np.int64]:
    """Whole numbers that sum to ``total`` and come closest to the fractions (largest remainder)."""
    ideal = np.asarray(shares) * total
    # A fraction such as 0.29 * 100 = 28.999999999999996 is meant to be whole.
    counts = np.floor(ideal + 1e-9).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - ideal, kind="stable")[:missing]] += 1
    return counts


def sample_table(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], exact: bool
) -> TailCells:
    """Faulty cells of each instance at the Vdd of the scenario.

    An entry of class i has i faulty bits in i different blocks; the last class, "4 or more", has
    four. Their Vmin is infinite: the table knows one Vdd only, and its faults do not grow.

    Parameters
    ----------
    scenario : Scenario
        Only its table is used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    exact : bool
        Whether each map has the fractions of the table, rounded to whole entries, in random order.
        If not, the class of each entry is drawn, and the fractions hold on the average.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B and Table I: "entries with i faulty bits, i >= 2, have
    i faulty blocks", conservatively.
    """
    ladder = np.cumsum(scenario.table_shares)[:-1]
    ranked = np.repeat(np.arange(len(CLASSES)), exact_counts(scenario.table_shares, GCN.entries))
    parts = []
    for instance in instances.tolist():
        generator = variation_stream(seed, "table", instance)
        uniform = generator.random(GCN.entries)
        block_order = np.argsort(generator.random((GCN.entries, GCN.blocks)), axis=1)
        place = (generator.random((GCN.entries, GCN.blocks)) * GCN.block_bits).astype(int)
        bits = (
            ranked[np.argsort(np.argsort(uniform))]
            if exact
            else np.searchsorted(ladder, uniform, side="right")
        )
        entry, nth = np.nonzero(np.arange(GCN.blocks) < bits[:, None])
        cell = entry * GCN.entry_bits + block_order[entry, nth] * GCN.block_bits
        cell += place[entry, nth]
        parts.append((cell.astype(np.int32), np.full(len(cell), np.inf)))
    return TailCells.join(parts)


def worst_class_deviation(shares: NDArray[np.float64], scenario: Scenario) -> NDArray[np.float64]:
    """Largest distance of a class from the scenario's table.

    Parameters
    ----------
    shares : float64[I, 5]
        Fractions of entries by class, as `mcage.variation.fault_maps.class_shares` counts them.
    scenario : Scenario
        Only its table is used.

    Returns
    -------
    float64[I]
        Fraction of the entries: 0.05 for five percentage points.
    """
    deviation: NDArray[np.float64] = np.abs(shares - scenario.table_shares).max(axis=1)
    return deviation


def select_attempts(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], tolerance: float
) -> NDArray[np.int64]:
    """For each instance, the first attempt whose map is close to the table.

    Attempt 0 is the slice that the instance has without selection; each further attempt draws its
    field and its cells from other streams. So the choice is a function of scenario, seed, instance
    and tolerance alone.

    Parameters
    ----------
    scenario : Scenario
        The distribution of Vmin, and the table, which holds at the Vdd of the scenario.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    tolerance : float
        Largest allowed deviation of a class, as a fraction of the entries: 0.05 for five points.

    Returns
    -------
    int64[I]
        Slices drawn and rejected before; for `mcage.variation.vmin_tail.sample_tail`.

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
