"""Lives of rare events: those of a sweep, die by die, whatever differs between dies."""

from functools import cache

import numpy as np
import pytest
from one_case import KERNELS, engine, spec_of, sweep_of
from rare_cases import case_of, dead_at_start, distribution_of, fields, ready_case
from scipy.stats import truncnorm

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.rare_events.case import estimate, rare_case
from mcage.methods.rare_events.estimator import failure_probability, sample, sampler_for
from mcage.methods.rare_events.proposals import LifeTilt
from mcage.methods.rare_events.search import find_late_lives, used_guardband
from mcage.studies.sweep.study import Sweep
from mcage.variation.vmin_tail import sample_tail

BORDER_YEARS = 5.0
"""Age at which the second kernel of a life of ten years begins."""

DIFFERENT = {
    "life": {"epochs": 3, "temperature_kelvin": "normal(353, 10)", "activity": "uniform(0.2, 1)"},
    "aging": {"vt0_volts": "uniform(0.17, 0.23)", "shift_factor": "discrete(0.5: 0.8, 3: 0.2)"},
}
DIES = {"faults": {"sigma_die_volts": 0.02}}
MARGINS = {"aging": DIFFERENT["aging"] | {"vmin_model": "margins", "pbti": "planar"}}
TURNS = {
    "workload": {
        "kernels": list(KERNELS),
        "schedule": "interleaved",
        "mix_size": 2,
        "periods": 2,
        "generations": 2,
        "release": "work-group",
    }
}
PBTI = {"aging": DIFFERENT["aging"] | {"pbti": 1.5}}
COUNT = 80
LIVES = 400
"""Of an estimate: enough for a tenth of its value, less than the plain deaths are uncertain by."""

SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""


def swept(spec, age_years):
    """What the dies of a sweep have died of by an age."""
    (technique,) = spec.techniques
    arrays = Sweep(spec, engine(), like=sweep_of(technique)).compute(0, COUNT)
    in_time = arrays["life_years"][0] <= age_years
    return np.where(in_time, arrays["end_cause"][0], EndCause.CENSORED)


@pytest.mark.parametrize("age_years", [0.0, BORDER_YEARS, 7.3, 10.0])
@pytest.mark.parametrize(
    ("case", "fields", "causes"),
    [
        (("baseline", "common", 0.45), DIFFERENT | DIES, {EndCause.FAULTY_ENTRY}),
        (("rrcd", "common", 0.419), DIFFERENT | DIES, {EndCause.NO_HOME}),
        (("baseline", "common", 0.45), DIFFERENT | MARGINS, {EndCause.FAULTY_ENTRY}),
        (("rrcd", "common", 0.419), DIFFERENT | DIES | MARGINS, {EndCause.NO_HOME}),
        (("rrcd", "common", 0.419), DIFFERENT | PBTI, {EndCause.NO_HOME}),
        (("baseline", "common", 0.5), DIFFERENT | TURNS, {EndCause.FAULTY_ENTRY}),
        (("rrcd", "common", 0.419), DIFFERENT | DIES | TURNS, {EndCause.NO_HOME}),
        (
            ("baseline", "common", None),
            DIFFERENT | {"environments": ["turbo"]},
            {EndCause.DELAY},
        ),
    ],
)
def test_dies_of_a_sweep_die_alike(case, fields, causes, age_years):
    spec = spec_of(*case, **fields)
    rare = ready_case(spec, age_years)
    ids = np.arange(COUNT)
    tail = sample_tail(rare.distribution.scenario, spec.seed, ids, rare.floor_volts)
    result = rare.cause(rare.lives.draw(spec.seed, ids), tail, rare.luck(spec.seed, ids))
    assert np.array_equal(result, swept(spec, age_years))
    if age_years > 0:
        assert set(result) == {EndCause.CENSORED} | causes


def test_who_dies_when_the_next_kernel_begins_is_dead_by_then():
    spec = spec_of("baseline", "common", 0.45)
    ids = np.arange(COUNT)
    at, before = (ready_case(spec, age) for age in (BORDER_YEARS, np.nextafter(BORDER_YEARS, 0)))
    tail = sample_tail(at.distribution.scenario, spec.seed, ids, at.floor_volts)
    dead_at, dead_before = (
        case.cause(case.lives.draw(spec.seed, ids), tail, case.luck(spec.seed, ids))
        != EndCause.CENSORED
        for case in (at, before)
    )
    assert (dead_at & ~dead_before).any()
    assert not (dead_before & ~dead_at).any()


@pytest.mark.parametrize(
    ("case", "fields", "age_years"),
    [
        (("baseline", "common", 0.545), DIFFERENT | DIES, 8.0),
        (("baseline", "dispersed", 0.52), DIES, 0.0),
        (("rrcd", "dispersed", 0.435), DIFFERENT | DIES, 4.0),
        (("baseline", "common", 0.53), DIFFERENT | MARGINS, 8.0),
    ],
)
def test_plain_slices_that_differ_agree(case, fields, age_years):
    rare = ready_case(spec_of(*case, **fields), age_years)
    sampler = sampler_for(rare)
    lives = sample(sampler, np.arange(LIVES))
    result = estimate(lives.weights, lives.dead, sampler.proposal.plain_share)
    ids = np.arange(3000)
    tail = sample_tail(rare.distribution.scenario, 3, ids, rare.floor_volts)
    dead = (rare.cause(rare.lives.draw(3, ids), tail, rare.luck(3, ids)) != EndCause.CENSORED).sum()
    expected = len(ids) * result.probability
    error = np.hypot(np.sqrt(expected), expected * result.relative_error)
    assert 1e-3 < result.probability < 3e-2
    assert abs(dead - expected) < SIGMAS * error
    assert result.relative_error < 0.2


@pytest.mark.parametrize(
    ("environment", "vdd_volts", "warned"), [("undervolted", 0.55, False), ("turbo", None, True)]
)
def test_possible_deaths_of_delay_are_warned_of(environment, vdd_volts, warned):
    """Rotation and compression keep all cells from the stress that would use up the guardband."""
    life = {"epochs": 3, "horizon_years": 8.0}
    spec = spec_of("rc+rar", vdd_volts=vdd_volts, environments=[environment], life=life)
    result = failure_probability(spec, 8.0, 50, engine=engine())
    about_delay = [warning for warning in result.warnings if "die of delay" in warning]
    assert len(about_delay) == warned
    # Of 50 slices 5 are plain: by the rule of three, a chance of 3/5 shows itself.
    assert all(
        "0 effective samples did: a chance of that below 0.6 " in warning for warning in about_delay
    )


def test_kernels_that_hardly_run_are_warned_of():
    mix = {"BlackScholes": 1e-6, "MatrixTranspose": 1}
    workload = {"kernels": list(mix), "mix": mix, "periods": 2, "generations": 2}
    workload["schedule"] = "sequential"
    result = failure_probability(spec_of(workload=workload), 0.0, 50, engine=engine())
    (about_kernels,) = (warning for warning in result.warnings if "slices drawn run" in warning)
    assert "0 of the slices drawn run BlackScholes" in about_kernels


# Early deaths by delay: against quadrature, plain lives and sweeps.

YEARS = 3.0


@cache
def late_case(technique="baseline", shift_factor="normal(1, 0.1)", temperature=333.15, turns=False):
    """Slices at 1.0 V, cold enough that few are late."""
    spec = spec_of(
        technique,
        vdd_volts=None,
        environments=["turbo"],
        life={"epochs": 3, "horizon_years": YEARS, "temperature_kelvin": temperature},
        aging={"shift_factor": shift_factor},
        **(TURNS if turns else {}),
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


@pytest.mark.parametrize("turns", [False, True], ids=["sequential", "interleaved"])
def test_used_guardbands_are_those_of_a_sweep(turns):
    case = late_case("rc+rar", "uniform(0.5, 1)", turns=turns)
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
    kernels = case.lives.draw(9, np.arange(4000)).mix_of_period
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
        environments=["turbo"],
        life={"epochs": 2, "horizon_years": 0.01},
    )
    with pytest.raises(UserError, match=r"no slice dies by 0\.01 years: faults kill") as refusal:
        failure_probability(spec, 0.01, 50, engine=engine())
    assert "\n" not in str(refusal.value)


# Techniques that cannot move data: rare events against the exact chance and plain samples.


def estimate_of(case, count):
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
    result = estimate_of(case, 1200)
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
    result = estimate_of(case, 1200)
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
    result = estimate_of(case, 1200)
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
    result = estimate_of(case, 1200)
    count = 6000
    ids = np.arange(count)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    dead = (case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids)) != EndCause.CENSORED).sum()
    expected = count * result.probability
    assert 1e-3 < result.probability < 1e-2
    assert abs(dead - expected) < SIGMAS * np.sqrt(
        expected + (expected * result.relative_error) ** 2
    )


def mixes_case(mix_size):
    kernels = ["DCT", "MatrixTranspose", "Reduction"]
    workload = {"kernels": kernels, "schedule": "interleaved", "mix_size": mix_size}
    spec = spec_of("rrcd", vdd_volts=0.415, workload=workload | {"generations": 2})
    return rare_case(spec, 4.0, engine())


def test_plain_slices_of_mixes_agree():
    case, count = mixes_case(2), 1500
    result, lives = estimated(case, 1500)
    ids = np.arange(count)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    dead = (case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids)) != EndCause.CENSORED).sum()
    expected = count * result.probability
    assert dead > 20
    assert abs(dead - expected) < SIGMAS * np.sqrt(
        expected + (expected * result.relative_error) ** 2
    )
    assert lives.weights.mean() == pytest.approx(1.0, abs=SIGMAS * result.mean_weight_error)


def test_more_mixes_than_proposals_can_favour_are_refused():
    kernels = [f"kernel-{number}" for number in range(20)]
    workload = {"schedule": "interleaved", "mix_size": 3, "kernels": kernels}
    with pytest.raises(UserError, match=r"workload.mix_size = 3: 20 kernels make 1140 mixes"):
        rare_case(spec_of(workload=workload), 1.0, engine())


def test_ageing_kills():
    at_start, later = (
        estimate_of(case_of("baseline", "common", 0.6, age), 800) for age in (0.0, 4.0)
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


# Techniques that move data: rare events against plain slices, and how they are drawn.


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
def test_plain_slices_agree_where_data_move(scenario_name, vdd_volts):
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


def test_slices_whose_data_move_do_not_depend_on_others():
    sampler = sampler_of("rrcd", "clustered", 0.535)
    together = sample(sampler, np.arange(200))
    parts = [sample(sampler, ids) for ids in (np.arange(199, 200), np.arange(5, 40))]
    for selected, few in zip((slice(199, None), slice(5, 40)), parts, strict=True):
        assert np.array_equal(together.weights[selected], few.weights)
        assert np.array_equal(together.cause[selected], few.cause)


def kernels_of(case, lives):
    """Kernel that each slice runs in each epoch: int64[I, epochs]."""
    return np.concatenate([turns.kernel for turns in case.lives.workload(lives)], axis=1)


def test_a_kernel_may_be_favoured_at_no_price():
    case = case_of("rrcd", "clustered", 0.55, 6.0)
    ids = np.arange(4000)
    tilt = LifeTilt.favouring(case.lives, 0, 0.95)
    plain = case.lives.draw(1, ids)
    lives = tilt.draw(case.lives, plain, 1, "test", ids)
    kernels, weights = kernels_of(case, lives), np.exp(-tilt.log_ratio(lives))
    runs, runs_plain = (
        (drawn == 0).any(axis=1).mean() for drawn in (kernels, kernels_of(case, plain))
    )
    assert abs(runs - 0.95) < SIGMAS * (0.95 * 0.05 / 4000) ** 0.5
    assert runs > 1.2 * runs_plain
    for epoch in range(case.epochs):
        weighted = weights * (kernels[:, epoch] == 0)
        assert abs(weighted.mean() - 0.5) < SIGMAS * np.hypot(weighted.std(), 0.5) / 4000**0.5
    assert abs(weights.mean() - 1) < SIGMAS * weights.std() / 4000**0.5
