"""Deaths that a sample may have missed without showing it.

Slices are drawn such that faults kill them. What else decides a life (its kernels, its own
temperature and threshold voltage) is drawn as in a sweep, but for the one kernel that is favoured.
A death that is rare for such a reason is as hard to see as in a sweep.
"""

import numpy as np

from mcage.aging.delay import dvth_at_delay
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.case import RareCase
from mcage.studies.rare_events.estimate import FEW_EFFECTIVE, effective_number
from mcage.studies.rare_events.lives import WeightedLives

FEW_RUNS = 10
"""Slices that must have run a kernel, for what kills under it to be seen."""


def unseen(case: RareCase, lives: WeightedLives, plain_share: float) -> tuple[str, ...]:
    """Warnings about kinds of death that are too rare in a sample.

    Parameters
    ----------
    case : RareCase
        The case.
    lives : WeightedLives
        The sample.
    plain_share : float
        Share of slices drawn as in a sweep.
    """
    found = []
    by_delay = effective_number(lives.weights[lives.cause == EndCause.DELAY])
    if by_delay < FEW_EFFECTIVE and may_be_late(case):
        found.append(
            f"by this age a slice may also die of delay, and {by_delay:.3g} effective samples did: "
            f"a chance of that below {3 / (plain_share * len(lives.weights)):.1g} stays unseen"
        )
    for kernel, name in enumerate(case.kernel_names):
        runs = int((lives.kernel_of_epoch == kernel).any(axis=1).sum())
        if runs < FEW_RUNS:
            found.append(
                f"{runs} of the slices drawn run {name}: what kills under it stays unseen; "
                "estimate it alone"
            )
    return tuple(found)


def may_be_late(case: RareCase) -> bool:
    """Whether some transistor could use up the delay guardband by the age of a case.

    No transistor drifts further than one that has nothing but stress, within the bounds of the
    laws; the bound errs on the side of warning.
    """
    rules = case.rules
    largest = rules.nbti.largest_dvth(
        rules.environment, case.age_years * SECONDS_PER_YEAR, rules.laws.extremes
    )
    limits = dvth_at_delay(
        rules.delay_guardband,
        rules.environment.highest_vdd_volts,
        np.array(rules.laws.vt0_volts.bounds),
        rules.nbti.alpha,
    )
    return largest >= float(limits.min())
