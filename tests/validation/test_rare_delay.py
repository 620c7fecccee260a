"""Early deaths by delay: against quadrature, plain lives and sweeps."""

from functools import cache

import numpy as np
import pytest
from rare_cases import engine, ready_case, spec_of, sweep_of
from scipy.stats import truncnorm

from mcage.errors import UserError
from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.estimate import estimate
from mcage.studies.rare_events.estimator import failure_probability, sample
from mcage.studies.rare_events.sampler import sampler_for
from mcage.studies.rare_events.search.delay import find_late_lives, used_guardband
from mcage.sweep.study import Sweep
from mcage.variation.vmin_tail import sample_tail

SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""

YEARS = 3.0


@cache
def late_case(technique="baseline", shift_factor="normal(1, 0.1)", temperature=333.15):
    """Slices at 1.0 V, cold enough that few are late."""
    spec = spec_of(
        technique,
        vdd_volts=None,
        environments=["nominal"],
        life={"epochs": 3, "horizon_years": YEARS, "temperature_kelvin": temperature},
        aging={"shift_factor": shift_factor},
    )
    return ready_case(spec, YEARS)


def limits_of(case, count):
    """Shift factor from which each of some plain lives is late, by its shift without a factor."""
    lives = case.lives.draw(9, np.arange(count))
    factors = case.lives.constants_of(lives).shift_factor
    return factors / used_guardband(case, lives)


def estimated(case, count):
    sampler = sampler_for(case)
    lives = sample(sampler, np.arange(count))
    return estimate(lives.weights, lives.dead, sampler.proposal.plain_share), lives


def test_used_guardbands_are_those_of_a_sweep():
    case = late_case("rc+rar", "uniform(0.5, 1)")
    ids = np.arange(30)
    arrays = Sweep(case.spec, engine(), like=sweep_of("rc+rar")).compute(0, len(ids))
    lives = case.lives.draw(case.spec.seed, ids)
    shift = np.nanmax(arrays["epoch_max_dvth_mv"][0], axis=(1, 2)) / 1e3
    limit = case.conditions.delay_limit(case.lives.constants_of(lives)).dvth_volts
    assert (arrays["end_cause"][0] == EndCause.CENSORED).all()
    assert used_guardband(case, lives) == pytest.approx(shift / limit)


@pytest.mark.parametrize(
    ("technique", "deviation", "low", "high"),
    [("baseline", 0.0615, 5e-7, 2e-6), ("rc+rar", 0.165, 1e-7, 1e-6)],
)
def test_deaths_by_delay_are_as_rare_as_they_exactly_are(technique, deviation, low, high):
    """The factor from which a life is late takes a few values, for it depends on kernels only."""
    case = late_case(technique, f"normal(1, {deviation}, 0, 3)")
    limits = limits_of(case, 4000).round(9)
    kernels = case.lives.draw(9, np.arange(4000)).kernel_of_period
    of_kernels = {tuple(k): limit for k, limit in zip(kernels.tolist(), limits, strict=True)}
    assert len(of_kernels) == 2**case.spec.workload.periods
    cut = truncnorm(-1 / deviation, 2 / deviation, 1.0, deviation)
    exact = np.mean([cut.sf(limit) for limit in of_kernels.values()])
    assert low < exact < high
    result, lives = estimated(case, 1000)
    assert (lives.cause[lives.dead] == EndCause.DELAY).all()
    assert abs(result.probability / exact - 1) < SIGMAS * result.relative_error
    assert result.relative_error < 0.1
    assert result.warnings == ()


@pytest.mark.parametrize(("technique", "deviation"), [("baseline", 0.11), ("rc+rar", 0.32)])
def test_plain_lives_agree(technique, deviation):
    case = late_case(technique, f"normal(1, {deviation}, 0, 3)")
    result, _ = estimated(case, 800)
    count = 4000
    ids = np.arange(count)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    late = (case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids)) == EndCause.DELAY).sum()
    expected = count * result.probability
    error = np.hypot(np.sqrt(expected), expected * result.relative_error)
    assert 1e-3 < result.probability < 2e-2
    assert abs(late - expected) < SIGMAS * error
    assert result.relative_error < 0.1


def test_the_search_knows_roughly_how_rare_they_are():
    case = late_case("rc+rar", "normal(1, 0.16, 0, 3)", "normal(333.15, 4)")
    late, (result, _) = find_late_lives(case), estimated(case, 1000)
    assert sum(late.shares) == pytest.approx(1.0)
    assert late.probability == pytest.approx(result.probability, rel=0.5)


def test_a_rare_value_that_kills_is_come_upon():
    """Lives change by a jump: none lies between those that are late and all others."""
    case = late_case(shift_factor="discrete(1: 0.999999, 3: 0.000001)")
    result, _ = estimated(case, 600)
    assert abs(result.probability / 1e-6 - 1) < SIGMAS * result.relative_error
    assert result.relative_error < 0.1


def test_lives_within_the_guardband_are_not_come_upon():
    assert find_late_lives(late_case(shift_factor="uniform(0.5, 1.2)")) is None


def test_what_becomes_of_a_life_does_not_depend_on_the_others():
    sampler = sampler_for(late_case())
    together = sample(sampler, np.arange(300))
    parts = [sample(sampler, ids) for ids in (np.arange(299, 300), np.arange(5, 40))]
    for selected, few in zip((slice(299, None), slice(5, 40)), parts, strict=True):
        assert np.array_equal(together.weights[selected], few.weights)
        assert np.array_equal(together.cause[selected], few.cause)


def test_both_causes_are_in_an_estimate():
    """A high voltage, at which delay kills, and a low one, at which faults do."""
    spec = spec_of(
        environments=["both"],
        vdd_volts=None,
        operating_points={"both": [{"vdd_volts": 1.0, "share": 0.5}, {"vdd_volts": 0.56}]},
        life={"epochs": 3, "horizon_years": YEARS, "temperature_kelvin": 333.15},
        aging={"shift_factor": "discrete(1: 0.99, 1.7: 0.01)"},
    )
    case = ready_case(spec, YEARS)
    result, lives = estimated(case, 1500)
    ids = np.arange(6000)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    plain = case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids))
    for died, dead in (
        (lives.cause == EndCause.DELAY, plain == EndCause.DELAY),
        (lives.cause == EndCause.FAULTY_ENTRY, plain == EndCause.FAULTY_ENTRY),
    ):
        of_cause = estimate(lives.weights, died, 0.1)
        expected = len(ids) * of_cause.probability
        error = np.hypot(np.sqrt(expected), expected * of_cause.relative_error)
        assert expected > 5
        assert abs(dead.sum() - expected) < SIGMAS * error
    assert result.relative_error < 0.2


def test_where_nothing_can_die_an_estimate_is_refused():
    spec = spec_of(
        "baseline",
        "clustered",
        vdd_volts=None,
        environments=["nominal"],
        life={"epochs": 2, "horizon_years": 0.01},
    )
    with pytest.raises(UserError, match=r"no slice dies by 0\.01 years: faults kill") as refusal:
        failure_probability(spec, 0.01, 50, engine=engine())
    assert "\n" not in str(refusal.value)
