"""Lives drawn from other distributions: their densities, and that weights bring back the plain."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from one_case import engine, spec_of
from scipy.stats import norm
from tables import each

import mcage
from mcage.aging.sampling import InstanceDistributions, TimeFractionDistributions
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.rare_events import estimator
from mcage.methods.rare_events.case import estimate, rare_case
from mcage.methods.rare_events.proposals import (
    LEAST_DEVIATION,
    PLAIN_KERNELS,
    LifeDistribution,
    LifeTilt,
    ranks_of,
)
from mcage.spec.workload_mix import draw_mixes
from mcage.variation.fault_models import fault_model

SIGMAS = 4.5
"""Standard errors that a mean may be off: one false alarm in 150,000 for each."""

COUNT = 4000
CONSTANTS = InstanceDistributions(
    temperature_kelvin=Distribution.of("normal(350, 5)"),
    vt0_volts=Distribution.of(0.2),
    shift_factor=Distribution.of("discrete(1: 0.9, 2: 0.1)"),
    activity=Distribution.of("uniform(0.5, 1)"),
    time_fractions=TimeFractionDistributions(
        "bursts", (Distribution.of("uniform(0.1, 0.3)"), None)
    ),
    temperature_swing_kelvin=Distribution.of("normal(0, 3)"),
)
MIXES = ("uniform", "one", "dirichlet(0.5)", {"a": 1.0, "b": 2.0, "c": 5.0})


def distribution_of(mix="uniform", turns=0):
    return LifeDistribution(CONSTANTS, mix, ("a", "b", "c"), (0, 0, 1), 4, turns)


def tilt_of(distribution):
    """Hot, aged and busy slices, of which most run the first kernel in the first period."""
    direction = np.arange(1.0, 1.0 + sum(distribution.constants.values()))
    log_odds = np.zeros((distribution.draws, 3))
    log_odds[0] = 1.0, 0.0, -0.5
    return LifeTilt(direction / np.sqrt((direction**2).sum()), 0.8, 0.9, log_odds)


def test_weights_bring_back_the_plain_mixes_of_kernels_that_take_turns():
    distribution, ids = distribution_of("dirichlet(1.0)", turns=2), np.arange(COUNT)
    assert distribution.mixes.tolist() == [[0, 1], [0, 2], [1, 2]]
    tilt, plain = LifeTilt.favouring(distribution, 1, 0.95), distribution.draw(1, ids)
    lives = tilt.draw(distribution, plain, 1, "test", ids)
    weights = np.exp(-tilt.log_ratio(lives))
    runs, runs_plain = (
        np.concatenate([turns.kernel for turns in distribution.workload(drawn)], axis=1) == 1
        for drawn in (lives, plain)
    )
    assert_mean(runs.any(axis=1).astype(float), 0.95)
    assert_mean(runs_plain.any(axis=1).astype(float), 1 - (1 / 3) ** 2)
    assert_mean(weights, 1.0)
    for period in range(2):
        runs = lives.mix_of_period[:, period, None] == np.arange(3)
        assert_mean(weights[:, None] * (runs - 1 / 3), 0.0)
    assert np.array_equal(lives.shares, plain.shares), "as in a sweep, whichever the mix"
    assert_mean(weights[:, None] * (lives.shares[:, 0] - 0.5), 0.0)


def test_plain_mixes_are_those_of_a_sweep():
    ids = np.array([7, 3, 900])
    for mix in MIXES:
        distribution = distribution_of(mix, turns=2)
        kernel, share = draw_mixes(mix, 5, ids, ("a", "b", "c"), 4, 2)
        for turns, period in zip(
            distribution.workload(distribution.draw(5, ids)), (0, 0, 1), strict=True
        ):
            assert np.array_equal(turns.kernel, kernel[:, period])
            assert np.array_equal(turns.weight, share[:, period])


def assert_mean(values, expected):
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - expected) <= SIGMAS * error).all()


def test_constants_of_plain_lives_are_those_of_a_sweep():
    ids, distribution = np.array([7, 3, 900]), distribution_of()
    constants = distribution.constants_of(distribution.draw(5, ids))
    swept = CONSTANTS.draw(5, ids, distribution.epochs)
    for name in ("temperature_kelvin", "vt0_volts", "shift_factor", "activity"):
        assert np.array_equal(getattr(constants, name), getattr(swept, name))
    assert np.array_equal(constants.time_fractions, swept.time_fractions)
    assert np.array_equal(constants.temperature_swing_kelvin, swept.temperature_swing_kelvin)
    assert constants.temperature_swing_kelvin.shape == (3, 3)
    assert sum(distribution.constants.values()) == 4 + 3


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_weights_bring_back_the_plain_lives(mix):
    distribution, ids = distribution_of(mix), np.arange(COUNT)
    tilt, plain = tilt_of(distribution), distribution.draw(1, ids)
    lives = tilt.draw(distribution, plain, 1, "test", ids)
    weights = np.exp(-tilt.log_ratio(lives))
    assert_mean(weights, 1.0)
    assert_mean(weights[:, None] * (lives.ranks - 0.5), 0.0)
    assert lives.ranks[:, -1].mean() > 0.6, "tilted indeed"
    runs, runs_plain = ((drawn.mix_of_period[:, 0] == 0).mean() for drawn in (lives, plain))
    assert runs > runs_plain + 0.1
    for period in range(2):
        runs = lives.mix_of_period[:, period, None] == np.arange(3)
        assert_mean(weights[:, None] * (runs - lives.chances), 0.0)
    if mix == "one":
        assert (lives.mix_of_period == lives.mix_of_period[:, :1]).all()
    else:
        both = (lives.mix_of_period[:, 0] == 2) & (lives.mix_of_period[:, 1] == 2)
        assert_mean(weights * (both - lives.chances[:, 2] ** 2), 0.0)
        assert np.array_equal(lives.mix_of_period[:, 2:], plain.mix_of_period[:, 2:])


def test_the_density_of_constants_is_a_ratio_of_two_normal_ones():
    distribution = distribution_of()
    direction = np.eye(7)[2]
    tilt = LifeTilt(direction, 3.0, 0.75, np.zeros((2, 3)))
    lives = tilt.draw(distribution, distribution.draw(2, np.arange(50)), 2, "test", np.arange(50))
    along = lives.normals[:, 2]
    expected = norm.logpdf(along, 3.0, 0.75) - norm.logpdf(along)
    assert tilt.log_ratio(lives) == pytest.approx(expected, rel=1e-12)


def test_a_fit_finds_where_lives_come_from():
    distribution, ids = distribution_of({"a": 1.0, "b": 2.0, "c": 5.0}), np.arange(2000)
    given = LifeTilt(np.eye(7)[1], 3.0, 0.9, np.log([[4.0, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    lives = given.draw(distribution, distribution.draw(3, ids), 3, "test", ids)
    fitted = LifeTilt.like(distribution, lives, np.ones(len(ids)))
    assert fitted.direction[1] > 0.995
    assert fitted.height == pytest.approx(3.0, abs=0.1)
    assert LEAST_DEVIATION < fitted.deviation < 1.0
    chances = distribution.mean_chances * np.exp(fitted.log_odds)
    seen = np.array([4, 2, 5]) / 11
    mixed = (1 - PLAIN_KERNELS) * seen + PLAIN_KERNELS * distribution.mean_chances
    assert chances[0] == pytest.approx(mixed, abs=0.05)
    assert chances[1] == pytest.approx(distribution.mean_chances, abs=0.05)


def test_a_favoured_kernel_runs_as_often_as_asked_for():
    distribution = distribution_of({"a": 1e-3, "b": 1.0, "c": 1.0})
    tilt = LifeTilt.favouring(distribution, 0, 0.75)
    ids = np.arange(COUNT)
    lives = tilt.draw(distribution, distribution.draw(4, ids), 4, "test", ids)
    runs = (lives.mix_of_period[:, :2] == 0).any(axis=1)
    assert_mean(runs.astype(float), 0.75)
    often = replace(distribution, mix={"a": 8.0, "b": 1.0, "c": 1.0})
    assert not LifeTilt.favouring(often, 0, 0.75).log_odds.any(), "never less than in a sweep"


def test_ranks_stay_below_one():
    assert ranks_of(np.array([40.0]))[0] < 1.0


# Estimates from weighted failures: what they say, and when they warn.


def test_equal_weights_give_a_share():
    failed = np.arange(1000) < 250
    result = estimate(np.ones(1000), failed, 1.0)
    assert result.probability == 0.25
    assert result.failures == result.effective_samples == 250
    assert result.relative_error == pytest.approx(np.sqrt(0.25 * 0.75 / 999) / 0.25)
    assert result.lower < 0.25 < result.upper
    assert result.lower * result.upper == pytest.approx(0.25**2)
    assert result.warnings == ()


def test_no_probability_exceeds_one():
    """Where nearly all fail, samples whose weights are 1 only on the mean could add up to more."""
    weights = np.tile([0.9, 1.12], 500)
    result = estimate(weights, np.ones(1000, bool), 0.1)
    assert 0.9 < result.lower < result.probability == result.upper == 1.0


def test_weights_count():
    weights = np.array([0.5, 2.0, 1.0, 0.5] * 100)
    failed = np.array([True, False, False, True] * 100)
    result = estimate(weights, failed, 0.5)
    assert result.probability == 0.25
    assert result.effective_samples == pytest.approx(200)
    assert result.mean_weight == 1.0


def test_weights_whose_squares_are_too_small_for_a_number():
    """Files that practically never fail: the same as with weights 10^170 times as large."""
    weights, failed = np.array([0.5, 2.0, 1.0, 0.5] * 100), np.arange(400) % 4 == 3
    large, small = (estimate(factor * weights, failed, 0.5) for factor in (1.0, 1e-170))
    assert small.probability == pytest.approx(1e-170 * large.probability)
    assert small.relative_error == pytest.approx(large.relative_error)
    assert small.effective_samples == pytest.approx(large.effective_samples) == 100


def test_no_failure_leaves_an_upper_bound():
    result = estimate(np.ones(400), np.zeros(400, bool), 0.1)
    assert (result.probability, result.lower) == (0.0, 0.0)
    # The largest rate that shows no failure in 400 samples with a chance of 2.5 %, over 0.1.
    assert (1 - 0.1 * result.upper) ** 400 == pytest.approx(0.025)
    assert "no sample failed" in result.warnings[0]


@each(
    ("weights", "failures", "share", "warnings"),
    [
        (np.ones(400), 5, 0.1, ["5 effective samples", "20%"]),
        (np.append(400.0, np.ones(3999)), 2000, 0.001, ["one sample makes up 17%"]),
        (np.tile([0.4, 0.6], 500), 500, 0.1, ["mean weight is 0.5"]),
    ],
)
def test_estimates_that_say_little_warn(weights, failures, share, warnings):
    said = estimate(weights, np.arange(len(weights)) < failures, share).warnings
    assert all(any(words in warning for warning in said) for words in warnings), said


# The Vdd of a probability: the root of estimates, and what is refused.

SLICES = 600
SPEC = spec_of(scenario_name="dispersed", vdd_volts=None)


@cache
def found(probability):
    """The Vdd of a probability of being dead on arrival."""
    return mcage.vdd_for_probability(SPEC, probability, 0.0, SLICES, engine=engine())


def at(volts, seed=7):
    spec = spec_of(scenario_name="dispersed", vdd_volts=volts, seed=seed)
    return mcage.failure_probability(spec, 0.0, SLICES, engine=engine())


@pytest.mark.parametrize("probability", [1e-3, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_an_estimate_at_the_vdd_holds_the_probability(probability):
    vdd = found(probability).vdd_volts
    assert vdd.lower < vdd.value < vdd.upper < vdd.lower + 0.006
    near = at(vdd.value, seed=8)
    assert near.probability == pytest.approx(probability, rel=6 * near.relative_error)
    assert at(vdd.value - 0.01, seed=8).lower > probability > at(vdd.value + 0.01, seed=8).upper


def test_the_last_estimate_is_the_one_at_that_vdd():
    volts, last = found(1e-3).tried[-1]
    assert last == at(volts)
    assert {by.instances for _, by in found(1e-3).tried[:-1]} == {SLICES // 4}
    assert found(1e-3).score_per_volt < 0


@pytest.mark.slow
def test_a_rarer_death_takes_a_higher_vdd():
    assert found(1e-6).vdd_volts.lower > found(1e-3).vdd_volts.upper


@pytest.mark.parametrize(
    ("spec", "probability", "slices", "message"),
    [
        (SPEC, 0.0, SLICES, "probability = 0, expected"),
        (SPEC, 0.5, SLICES, "probability = 0.5, expected"),
        (SPEC, float("nan"), SLICES, "probability = nan"),
        (spec_of(vdd_volts=0.5), 1e-3, SLICES, r"vdd_volts = 0.5: .* give one of both"),
        (spec_of(environments=["turbo"], vdd_volts=None), 1e-3, 8, "'turbo' has fixed voltages"),
        (SPEC, 1e-3, 7, "instances = 7, expected 8 or more"),
    ],
)
def test_refusals(spec, probability, slices, message):
    with pytest.raises(UserError, match=message):
        mcage.vdd_for_probability(spec, probability, 0.0, slices, engine=engine())


def test_a_probability_that_no_vdd_brings_about_is_refused(monkeypatch):
    never = mcage.failure_probability(spec_of(vdd_volts=0.5), 0.0, 8, engine=engine())
    late = replace(never, probability=0.01, lower=0.009, upper=0.011)
    monkeypatch.setattr(estimator, "estimate_case", lambda *_: late)
    with pytest.raises(UserError, match=r"no Vdd found at which 0.001 .* 0.01 at "):
        mcage.vdd_for_probability(SPEC, 1e-3, 0.0, 8, engine=engine())


def test_rare_deaths_include_those_beyond_the_limit():
    """The same slices: those that die without a limit, and those that spill too much."""
    instances, causes = np.arange(24), []
    for limit in ({}, {"spill_limit": 0.1}):
        life = {"epochs": 3, "slowdown_limit": "none"} | limit
        spec = spec_of(
            "rrcd", vdd_volts=0.419, life=life, registers={"lds_rows": 64, "overflow": "end"}
        )
        case = rare_case(spec, 0.0, engine())
        cells = fault_model("common", "varius").sample(3, instances, case.floor_volts)
        causes.append(case.cause(case.lives.draw(3, instances), cells, case.luck(3, instances)))
    free, limited = causes
    assert set(free) == {EndCause.CENSORED, EndCause.NO_HOME}
    assert (limited[free == EndCause.NO_HOME] == EndCause.NO_HOME).all(), "dead on arrival"
    assert (limited[free == EndCause.CENSORED] == EndCause.SPILL_LIMIT).any()
