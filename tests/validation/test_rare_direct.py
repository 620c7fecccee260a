"""Techniques that cannot move data: rare events against the exact chance and plain samples."""

import numpy as np
import pytest
from rare_cases import case_of, distribution_of, fields

from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.diagnostics import dead_at_start
from mcage.studies.rare_events.estimate import estimate
from mcage.studies.rare_events.estimator import sample
from mcage.studies.rare_events.sampler import sampler_for
from mcage.variation.vmin_tail import sample_tail

SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""


def estimated(case, count):
    sampler = sampler_for(case)
    lives = sample(sampler, np.arange(count))
    return estimate(lives.weights, lives.dead, sampler.proposal.plain_share)


@pytest.mark.parametrize(
    ("vdd_volts", "low", "high"), [(0.59, 3e-7, 3e-6), (0.655, 3e-10, 3e-9), (0.45, 0.1, 0.6)]
)
def test_independent_cells_fail_as_often_as_they_exactly_do(vdd_volts, low, high):
    case = case_of("baseline", "dispersed", vdd_volts)
    distribution = case.distribution
    (exact,) = dead_at_start(
        distribution, fields(distribution, 1), vdd_volts, case.fault_free.needed
    )
    result = estimated(case, 1200)
    assert low < exact < high
    assert abs(result.probability / exact - 1) < SIGMAS * result.relative_error
    assert result.relative_error < 0.05


@pytest.mark.parametrize(
    ("vdd_volts", "low", "high"), [(0.5, 0.01, 0.1), (0.594, 3e-7, 3e-6), (0.644, 3e-10, 3e-9)]
)
def test_common_slices_fail_as_often_as_their_fields_say(vdd_volts, low, high):
    case = case_of("baseline", "common", vdd_volts)
    given = dead_at_start(
        case.distribution,
        fields(distribution_of("common"), 4000),
        vdd_volts,
        case.fault_free.needed,
    )
    error = given.std() / len(given) ** 0.5 / given.mean()
    result = estimated(case, 1200)
    assert low < given.mean() < high
    assert abs(result.probability / given.mean() - 1) < SIGMAS * np.hypot(
        result.relative_error, error
    )
    assert np.hypot(result.relative_error, error) < 0.07


def test_slices_of_arrays_fail_as_often_as_their_arrays_say():
    case = case_of("baseline", "measured", 0.56)
    given = dead_at_start(
        case.distribution,
        fields(distribution_of("measured"), 4000),
        0.56,
        case.fault_free.needed,
    )
    error = given.std() / len(given) ** 0.5 / given.mean()
    result = estimated(case, 1200)
    spread = np.hypot(result.relative_error, error)
    assert 0.01 < given.mean() < 0.05
    assert abs(result.probability / given.mean() - 1) < SIGMAS * spread
    assert spread < 0.08


@pytest.mark.parametrize(
    ("scenario_name", "vdd_volts", "age_years"),
    [("common", 0.53, 0.0), ("clustered", 0.57, 4.0)],
)
def test_plain_slices_of_a_sweep_agree(scenario_name, vdd_volts, age_years):
    case = case_of("baseline", scenario_name, vdd_volts, age_years)
    result = estimated(case, 1200)
    count = 6000
    ids = np.arange(count)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    dead = (case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids)) != EndCause.CENSORED).sum()
    expected = count * result.probability
    assert 1e-3 < result.probability < 1e-2
    assert abs(dead - expected) < SIGMAS * np.sqrt(
        expected + (expected * result.relative_error) ** 2
    )


def test_ageing_kills():
    at_start, later = (
        estimated(case_of("baseline", "common", 0.6, age), 800) for age in (0.0, 4.0)
    )
    assert later.lower > at_start.upper


def test_what_becomes_of_a_slice_does_not_depend_on_the_others():
    case = case_of("baseline", "clustered", 0.6, 2.0)
    sampler = sampler_for(case)
    together = sample(sampler, np.arange(300))
    parts = [sample(sampler, ids) for ids in (np.arange(299, 300), np.arange(5, 40))]
    for selected, few in zip((slice(299, None), slice(5, 40)), parts, strict=True):
        assert np.array_equal(together.weights[selected], few.weights)
        assert np.array_equal(together.cause[selected], few.cause)
