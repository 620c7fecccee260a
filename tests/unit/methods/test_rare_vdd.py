"""The Vdd of a probability: the root of estimates, and what is refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from one_case import engine, spec_of

import mcage
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.rare_events import estimator
from mcage.methods.rare_events.case import rare_case
from mcage.variation.fault_models import fault_model

COUNT = 600
SPEC = spec_of(scenario_name="dispersed", vdd_volts=None)


@cache
def found(probability):
    """The Vdd of a probability of being dead on arrival."""
    return mcage.vdd_for_probability(SPEC, probability, 0.0, COUNT, engine=engine())


def at(volts, seed=7):
    spec = spec_of(scenario_name="dispersed", vdd_volts=volts, seed=seed)
    return mcage.failure_probability(spec, 0.0, COUNT, engine=engine())


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
    assert {by.instances for _, by in found(1e-3).tried[:-1]} == {COUNT // 4}
    assert found(1e-3).score_per_volt < 0


@pytest.mark.slow
def test_a_rarer_death_takes_a_higher_vdd():
    assert found(1e-6).vdd_volts.lower > found(1e-3).vdd_volts.upper


@pytest.mark.parametrize(
    ("spec", "probability", "message"),
    [
        (SPEC, 0.0, "probability = 0, expected"),
        (SPEC, 0.5, "probability = 0.5, expected"),
        (SPEC, float("nan"), "probability = nan"),
        (spec_of(vdd_volts=0.5), 1e-3, r"vdd_volts = 0.5: .* give one of both"),
        (spec_of(environments=["turbo"], vdd_volts=None), 1e-3, "'turbo' has fixed voltages"),
    ],
)
def test_refusals(spec, probability, message):
    with pytest.raises(UserError, match=message):
        mcage.vdd_for_probability(spec, probability, 0.0, engine=engine())


def test_too_few_slices_are_refused():
    with pytest.raises(UserError, match="instances = 7, expected 8 or more"):
        mcage.vdd_for_probability(SPEC, 1e-3, 0.0, 7, engine=engine())


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
