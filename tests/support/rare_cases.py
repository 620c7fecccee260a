"""What the tests of rare events have in common: cases that are ready in a second."""

from functools import cache

import numpy as np
from one_case import engine, spec_of, sweep_of

from mcage.methods.rare_events.case import rare_case
from mcage.methods.rare_events.proposals import EntryProposal, VminGaussian
from mcage.variation.scenarios import scenario


def ready_case(spec, age_years):
    """The case of a spec, whose technique has been replayed once for all cases."""
    (technique,) = spec.techniques
    return rare_case(spec, age_years, engine(), sweep_of(technique))


@cache
def case_of(technique="baseline", scenario_name="common", vdd_volts=0.5, age_years=0.0):
    return ready_case(spec_of(technique, scenario_name, vdd_volts), age_years)


@cache
def distribution_of(scenario_name="common"):
    return VminGaussian(scenario(scenario_name))


@cache
def fields(distribution, count, seed=1):
    """Mean Vmin at the nodes of slices."""
    return distribution.node_volts(
        np.random.default_rng(seed).standard_normal((count, distribution.normals))
    )


SURELY = 1.0 - 2.0**-53
"""Largest probability below 1, so that its logarithm remains a number."""


def dead_at_start(distribution, node_volts, vdd_volts, needed):
    """Probability that slices with given fields are dead on arrival.

    Under a technique that cannot move data, a slice is dead if any needed entry holds two faulty
    cells, and entries are independent given the field. The mean of this probability over fields is
    an estimate that shares nothing with the drawing of cells.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice.
    node_volts : float64[I, node_rows, node_columns]
        Mean Vmin at the nodes of each slice, in volts.
    vdd_volts : float
        Lowest supply voltage, in volts.
    needed : bool[mixes, 256]
        Entries that must be reliable under each mix, or kernel; all of them are equally likely.

    Returns
    -------
    float64[I]
        Probabilities.
    """
    faulty = EntryProposal.of(distribution, node_volts, vdd_volts).faulty
    entries_of_row = needed.reshape(len(needed), distribution.scenario.node_rows, -1).sum(axis=2)
    log_alive = np.einsum("kr,ir->ik", entries_of_row, np.log1p(-np.minimum(faulty, SURELY)))
    return -np.expm1(log_alive).mean(axis=1)
