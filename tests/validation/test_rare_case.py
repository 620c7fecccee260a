"""Lives of rare events: those of a sweep, die by die, whatever differs between dies."""

from functools import cache

import numpy as np
import pytest
from environment_cases import points
from one_case import KERNELS, engine, spec_of, sweep_of
from rare_cases import case_of, dead_at_start, distribution_of, fields, ready_case
from scipy.stats import truncnorm
from tables import slow

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.rare_events.case import estimate, rare_case
from mcage.methods.rare_events.estimator import failure_probability, sample, sampler_for
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
OWN_POINTS = {
    "environments": ["own"],
    "operating_points": {"own": points((0.9, "uniform(0.2, 0.6)", 10.0), ("scenario",))},
}
PBTI = {"aging": DIFFERENT["aging"] | {"pbti": 1.5}}
COUNT = 80
SIGMAS = 4.0
"""Standard errors that an estimate may be off: one false alarm in 16,000 for each."""


def drawn(spec, rare, count):
    """What slices die of that are drawn as a sweep draws them."""
    ids = np.arange(count)
    tail = sample_tail(rare.distribution.scenario, spec.seed, ids, rare.floor_volts)
    return rare.cause(rare.lives.draw(spec.seed, ids), tail, rare.luck(spec.seed, ids))


@pytest.mark.parametrize(
    ("case", "fields", "cause"),
    [
        (("baseline", "common", 0.45), DIFFERENT | DIES, EndCause.FAULTY_ENTRY),
        (("rrcd", "common", 0.419), DIFFERENT | DIES, EndCause.NO_HOME),
        (("baseline", "common", 0.45), DIFFERENT | MARGINS, EndCause.FAULTY_ENTRY),
        (("rrcd", "common", 0.419), DIFFERENT | DIES | MARGINS, EndCause.NO_HOME),
        (("rrcd", "common", 0.419), DIFFERENT | PBTI, EndCause.NO_HOME),
        (("baseline", "common", 0.5), DIFFERENT | TURNS, EndCause.FAULTY_ENTRY),
        (("rrcd", "common", 0.419), DIFFERENT | DIES | TURNS, EndCause.NO_HOME),
        (("baseline", "common", None), DIFFERENT | {"environments": ["turbo"]}, EndCause.DELAY),
        (("rrcd", "common", 0.419), OWN_POINTS, EndCause.NO_HOME),
    ],
)
def test_dies_of_a_sweep_die_alike(case, fields, cause):
    spec = spec_of(*case, **fields)
    (technique,) = spec.techniques
    arrays = Sweep(spec, engine(), like=sweep_of(technique)).compute(0, COUNT)
    for age_years in (0.0, BORDER_YEARS, 7.3, 10.0):
        by_then = arrays["life_years"][0] <= age_years
        expected = np.where(by_then, arrays["end_cause"][0], EndCause.CENSORED)
        result = drawn(spec, ready_case(spec, age_years), COUNT)
        np.testing.assert_array_equal(result, expected, err_msg=f"{age_years} years")
        if age_years > 0:
            assert set(result) == {EndCause.CENSORED, cause}, age_years


def test_who_dies_when_the_next_kernel_begins_is_dead_by_then():
    spec = spec_of("baseline", "common", 0.45)
    dead_at, dead_before = (
        drawn(spec, ready_case(spec, age), COUNT) != EndCause.CENSORED
        for age in (BORDER_YEARS, np.nextafter(BORDER_YEARS, 0))
    )
    assert (dead_at & ~dead_before).any()
    assert not (dead_before & ~dead_at).any()


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


sampler_of = cache(sampler_for)


@cache
def estimated(case, count):
    sampler = sampler_of(case)
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


def test_more_mixes_than_proposals_can_favour_are_refused():
    kernels = [f"kernel-{number}" for number in range(20)]
    workload = {"schedule": "interleaved", "mix_size": 3, "kernels": kernels}
    with pytest.raises(UserError, match=r"workload.mix_size = 3: 20 kernels make 1140 mixes"):
        rare_case(spec_of(workload=workload), 1.0, engine())


# Techniques that cannot move data, against the exact chance: of given fields, entries are
# independent.


@pytest.mark.parametrize(
    ("scenario_name", "vdd_volts", "slices", "low", "high"),
    [
        ("dispersed", 0.59, 1, 3e-7, 3e-6),
        slow("dispersed", 0.655, 1, 3e-10, 3e-9),
        slow("dispersed", 0.45, 1, 0.1, 0.6),
        slow("common", 0.5, 4000, 0.01, 0.1),
        ("common", 0.594, 4000, 3e-7, 3e-6),
        slow("common", 0.644, 4000, 3e-10, 3e-9),
        slow("measured", 0.56, 4000, 0.01, 0.05),
    ],
)
def test_slices_fail_as_often_as_their_fields_say(scenario_name, vdd_volts, slices, low, high):
    case, distribution = (
        case_of("baseline", scenario_name, vdd_volts),
        distribution_of(scenario_name),
    )
    given = dead_at_start(
        distribution, fields(distribution, slices), vdd_volts, case.fault_free.needed
    )
    result, _ = estimated(case, 1200)
    spread = np.hypot(result.relative_error, given.std() / slices**0.5 / given.mean())
    assert low < given.mean() < high
    assert abs(result.probability / given.mean() - 1) < SIGMAS * spread
    assert spread < 0.08


# All kinds of slices, against those that are drawn as sweeps draw them.


def both_causes():
    """A high voltage, at which delay kills, and a low one, at which faults do."""
    spec = spec_of(
        environments=["both"],
        vdd_volts=None,
        operating_points={"both": [{"vdd_volts": 1.0, "share": 0.5}, {"vdd_volts": 0.56}]},
        life={"epochs": 3, "horizon_years": YEARS, "temperature_kelvin": 333.15},
        aging={"shift_factor": "discrete(1: 0.99, 1.7: 0.01)"},
    )
    return ready_case(spec, YEARS)


def of_mixes():
    kernels = ["DCT", "MatrixTranspose", "Reduction"]
    workload = {"kernels": kernels, "schedule": "interleaved", "mix_size": 2, "generations": 2}
    return rare_case(spec_of("rrcd", vdd_volts=0.415, workload=workload), 4.0, engine())


def case_with(*case, age_years, **fields):
    return ready_case(spec_of(*case, **fields), age_years)


CASES = {
    "entries": lambda: case_of("baseline", "common", 0.53),
    "old entries": lambda: case_of("baseline", "clustered", 0.57, 4.0),
    "entries of dies": lambda: case_with("baseline", "dispersed", 0.52, age_years=0.0, **DIES),
    "different entries": lambda: case_with(
        "baseline", "common", 0.545, age_years=8.0, **DIFFERENT | DIES
    ),
    "margins": lambda: case_with("baseline", "common", 0.53, age_years=8.0, **DIFFERENT | MARGINS),
    "moved data": lambda: case_of("rrcd", "dispersed", 0.394),
    "moved data in clusters": lambda: case_of("rrcd", "clustered", 0.535),
    "different slices": lambda: case_with(
        "rrcd", "dispersed", 0.435, age_years=4.0, **DIFFERENT | DIES
    ),
    "mixes": of_mixes,
    "delay": lambda: late_case("baseline", "normal(1, 0.11, 0, 3)"),
    "delay with rotation": lambda: late_case("rc+rar", "normal(1, 0.32, 0, 3)"),
    "both": both_causes,
}
ENTRY, HOME, DELAY = EndCause.FAULTY_ENTRY, EndCause.NO_HOME, EndCause.DELAY


@pytest.mark.parametrize(
    ("name", "lives_count", "plain_count", "causes"),
    [
        slow("entries", 1200, 6000, [ENTRY]),
        slow("old entries", 1200, 6000, [ENTRY]),
        slow("entries of dies", 400, 3000, [ENTRY]),
        slow("different entries", 400, 3000, [ENTRY]),
        ("margins", 400, 3000, [ENTRY]),
        ("moved data", 400, 3000, [HOME]),
        slow("moved data in clusters", 400, 3000, [HOME]),
        slow("different slices", 400, 3000, [HOME]),
        slow("mixes", 1500, 1500, [HOME]),
        ("delay", 800, 4000, [DELAY]),
        slow("delay with rotation", 800, 4000, [DELAY]),
        slow("both", 1500, 6000, [DELAY, ENTRY]),
    ],
)
def test_plain_slices_agree(name, lives_count, plain_count, causes):
    case = CASES[name]()
    result, lives = estimated(case, lives_count)
    ids = np.arange(plain_count)
    tail = sample_tail(case.distribution.scenario, 3, ids, case.floor_volts)
    plain = case.cause(case.lives.draw(3, ids), tail, case.luck(3, ids))
    assert {*lives.cause, *plain} - {EndCause.CENSORED} == {*causes}
    for cause in causes:
        of_cause = estimate(lives.weights, lives.cause == cause, 0.1)
        expected = plain_count * of_cause.probability
        error = np.hypot(np.sqrt(expected), expected * of_cause.relative_error)
        assert expected > 5
        assert abs((plain == cause).sum() - expected) < SIGMAS * error, cause
    assert 1e-3 < result.probability < 0.2
    assert result.relative_error < 0.2
    assert result.mean_weight == pytest.approx(1.0, abs=SIGMAS * result.mean_weight_error)


@pytest.mark.parametrize("name", ["old entries", "moved data", "delay"])
def test_what_becomes_of_a_slice_does_not_depend_on_the_others(name):
    sampler = sampler_of(CASES[name]())
    together = sample(sampler, np.arange(200))
    parts = [sample(sampler, ids) for ids in (np.arange(199, 200), np.arange(5, 40))]
    for selected, few in zip((slice(199, None), slice(5, 40)), parts, strict=True):
        assert np.array_equal(together.weights[selected], few.weights)
        assert np.array_equal(together.cause[selected], few.cause)
