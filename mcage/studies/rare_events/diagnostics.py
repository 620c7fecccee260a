"""What an estimate is checked against: deaths that its sample may have missed, and an exact result.

Slices and lives are drawn such that faults or delay kill them, as far as a search has come upon
such lives. A death that is rare for another reason is as hard to see as in a sweep.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.aging.delay import dvth_at_delay
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.case import RareCase, WeightedLives
from mcage.studies.rare_events.estimate import FEW_EFFECTIVE, effective_number
from mcage.studies.rare_events.proposals.entries import EntryProposal
from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian

SURELY = 1.0 - 2.0**-53
"""Largest probability below 1, so that its logarithm remains a number."""

FEW_RUNS = 10
"""Slices that must have run a kernel for deaths under it to be seen."""


def unseen(
    case: RareCase, lives: WeightedLives, plain_share: float, favours_delay: bool
) -> tuple[str, ...]:
    """Warnings about kinds of death that are too rare in a sample.

    Parameters
    ----------
    case : RareCase
        The case.
    lives : WeightedLives
        The sample.
    plain_share : float
        Share of the slices that are drawn as in a sweep.
    favours_delay : bool
        Whether lives that end by delay are favoured.
    """
    warnings = []
    by_delay = effective_number(lives.weights[lives.cause == EndCause.DELAY])
    if by_delay < FEW_EFFECTIVE and not favours_delay and may_be_late(case):
        warnings.append(
            f"by this age a slice may also die of delay, and {by_delay:.3g} effective samples did: "
            f"a chance of that below {3 / (plain_share * len(lives.weights)):.1g} stays unseen"
        )
    kernel_of_epoch = case.lives.kernel_of_epoch(lives.lives)
    for kernel, name in enumerate(case.lives.kernels):
        runs = int((kernel_of_epoch == kernel).any(axis=1).sum())
        if runs < FEW_RUNS:
            warnings.append(
                f"{runs} of the slices drawn run {name}: what kills under it stays unseen; "
                "estimate it alone"
            )
    return tuple(warnings)


def may_be_late(case: RareCase) -> bool:
    """Whether any transistor could use up the delay guardband by the age of a case.

    No transistor degrades further than one that is stressed all the time, within the bounds of the
    distributions; so the bound warns too often rather than too seldom.
    """
    conditions = case.conditions
    largest = conditions.nbti.largest_dvth(
        conditions.environment, case.age_years * SECONDS_PER_YEAR, conditions.distributions.extremes
    )
    limits_volts = dvth_at_delay(
        conditions.delay_guardband,
        conditions.environment.highest_vdd_volts,
        np.array(conditions.distributions.vt0_volts.bounds),
        conditions.nbti.alpha,
    )
    return largest >= float(limits_volts.min())


def dead_at_start(
    distribution: VminGaussian,
    node_volts: NDArray[np.float64],
    vdd_volts: float,
    needed: NDArray[np.bool_],
) -> NDArray[np.float64]:
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
    needed : bool[kernels, 256]
        Entries that must be reliable under each kernel; all kernels are equally likely.

    Returns
    -------
    float64[I]
        Probabilities.
    """
    faulty = EntryProposal.of(distribution, node_volts, vdd_volts).faulty
    entries_of_row = needed.reshape(len(needed), distribution.scenario.node_rows, -1).sum(axis=2)
    log_alive = np.einsum("kr,ir->ik", entries_of_row, np.log1p(-np.minimum(faulty, SURELY)))
    dead: NDArray[np.float64] = -np.expm1(log_alive).mean(axis=1)
    return dead
