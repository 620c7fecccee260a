"""Lives of rare events: those of a sweep, die by die, whatever differs between dies."""

import numpy as np
import pytest
from rare_cases import engine, ready_case, spec_of, sweep_of

from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.estimate import estimate
from mcage.studies.rare_events.estimator import failure_probability, sample
from mcage.studies.rare_events.sampler import sampler_for
from mcage.sweep.study import Sweep
from mcage.variation.vmin_tail import sample_tail

BORDER_YEARS = 5.0
"""Age at which the second kernel of a life of ten years begins."""

DIFFERENT = {
    "life": {"epochs": 3, "temperature_kelvin": "normal(353, 10)", "activity": "uniform(0.2, 1)"},
    "aging": {"vt0_volts": "uniform(0.17, 0.23)", "shift_factor": "discrete(0.5: 0.8, 3: 0.2)"},
}
DIES = {"faults": {"sigma_die_volts": 0.02}}
MARGINS = {"aging": DIFFERENT["aging"] | {"vmin_model": "margins", "pbti": "planar"}}
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
        (
            ("baseline", "common", None),
            DIFFERENT | {"environments": ["nominal"]},
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
    ("environment", "vdd_volts", "warned"), [("undervolted", 0.55, False), ("nominal", None, True)]
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
    result = failure_probability(spec_of(workload=workload), 0.0, 50, engine=engine())
    (about_kernels,) = (warning for warning in result.warnings if "slices drawn run" in warning)
    assert "0 of the slices drawn run BlackScholes" in about_kernels
