"""Techniques that move data: rare events against plain slices, and how they are drawn."""

import numpy as np
import pytest
from rare_cases import case_of

from mcage.rare.estimate import estimate
from mcage.rare.failure import sample, sampler_for
from mcage.variation import sample_tail

SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""


def plain_deaths(case, count, seed=3):
    """Deaths among slices drawn as sweeps draw them."""
    ids = np.arange(count)
    tail = sample_tail(case.law.scenario, seed, ids, case.floor_volts)
    return case.dead(seed, ids, case.kernels(ids), tail).sum()


@pytest.mark.parametrize(
    ("scenario_name", "vdd_volts"), [("common", 0.442), ("clustered", 0.54), ("dispersed", 0.394)]
)
def test_plain_slices_of_a_sweep_agree(scenario_name, vdd_volts):
    case = case_of("rrcd", scenario_name, vdd_volts)
    sampler = sampler_for(case)
    weights, dead = sample(sampler, np.arange(1500))
    found = estimate(weights, dead, sampler.proposal.plain_share)
    count = 6000
    expected = count * found.probability
    error = np.hypot(np.sqrt(expected), expected * found.relative_error)
    print(found, plain_deaths(case, count), expected)
    assert 3e-4 < found.probability < 2e-2
    assert abs(plain_deaths(case, count) - expected) < SIGMAS * error
    assert found.relative_error < 0.2
    assert weights.mean() == pytest.approx(1.0, abs=SIGMAS * found.mean_weight_error)
