"""Techniques that move data: rare events against plain slices, and how they are drawn."""

from functools import cache

import numpy as np
import pytest
from rare_cases import case_of

from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.estimate import estimate
from mcage.studies.rare_events.estimator import sample
from mcage.studies.rare_events.proposals.lives import LifeTilt
from mcage.studies.rare_events.sampler import sampler_for
from mcage.variation.vmin_tail import sample_tail

SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""

LIVES = 400
"""Of an estimate: enough for a tenth of its value, less than the plain deaths are uncertain by."""


@cache
def sampler_of(technique, scenario_name, vdd_volts):
    return sampler_for(case_of(technique, scenario_name, vdd_volts))


def plain_deaths(case, count, seed=3):
    """Deaths among slices drawn as sweeps draw them."""
    ids = np.arange(count)
    tail = sample_tail(case.distribution.scenario, seed, ids, case.floor_volts)
    return (
        case.cause(case.lives.draw(seed, ids), tail, case.luck(seed, ids)) != EndCause.CENSORED
    ).sum()


@pytest.mark.parametrize(
    ("scenario_name", "vdd_volts"), [("clustered", 0.535), ("dispersed", 0.394)]
)
def test_plain_slices_of_a_sweep_agree(scenario_name, vdd_volts):
    """Some 6 and 44 of 3,000 are to die: 2.6 or 1.7 times as many would be seen."""
    sampler = sampler_of("rrcd", scenario_name, vdd_volts)
    case = sampler.case
    lives = sample(sampler, np.arange(LIVES))
    result = estimate(lives.weights, lives.dead, sampler.proposal.plain_share)
    count = 3000
    expected = count * result.probability
    error = np.hypot(np.sqrt(expected), expected * result.relative_error)
    assert 1e-3 < result.probability < 2e-2
    assert abs(plain_deaths(case, count) - expected) < SIGMAS * error
    assert result.relative_error < 0.2
    assert result.mean_weight == pytest.approx(1.0, abs=SIGMAS * result.mean_weight_error)


def test_what_becomes_of_a_slice_does_not_depend_on_the_others():
    sampler = sampler_of("rrcd", "clustered", 0.535)
    together = sample(sampler, np.arange(200))
    parts = [sample(sampler, ids) for ids in (np.arange(199, 200), np.arange(5, 40))]
    for selected, few in zip((slice(199, None), slice(5, 40)), parts, strict=True):
        assert np.array_equal(together.weights[selected], few.weights)
        assert np.array_equal(together.cause[selected], few.cause)


def test_a_kernel_may_be_favoured_at_no_price():
    case = case_of("rrcd", "clustered", 0.55, 6.0)
    ids = np.arange(4000)
    tilt = LifeTilt.favouring(case.lives, 0, 0.95)
    plain = case.lives.draw(1, ids)
    lives = tilt.draw(case.lives, plain, 1, "test", ids)
    kernels, weights = case.lives.kernel_of_epoch(lives), np.exp(-tilt.log_ratio(lives))
    runs, runs_plain = (
        (drawn == 0).any(axis=1).mean() for drawn in (kernels, case.lives.kernel_of_epoch(plain))
    )
    assert abs(runs - 0.95) < SIGMAS * (0.95 * 0.05 / 4000) ** 0.5
    assert runs > 1.2 * runs_plain
    for epoch in range(case.epochs):
        weighted = weights * (kernels[:, epoch] == 0)
        assert abs(weighted.mean() - 0.5) < SIGMAS * np.hypot(weighted.std(), 0.5) / 4000**0.5
    assert abs(weights.mean() - 1) < SIGMAS * weights.std() / 4000**0.5
