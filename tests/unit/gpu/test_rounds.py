"""SM gating launch by launch."""

import numpy as np
import pytest
from gpu_cases import vectors
from tables import each

from mcage.aging.nbti import Transistors, nbti_model
from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, Rounds, closed_form_mitigation
from mcage.gpu.nominal.gating import OTHER_NAMES

UNSCALED = nbti_model("bhardwaj-unscaled")


def rounds_of(counts, rounds, sms=16, model=UNSCALED, gpus=1, seed=1, seconds=ROUND_SECONDS):
    return Rounds(
        model,
        np.resize(counts, rounds),
        seconds,
        1.0,
        Transistors(temperature_kelvin=353.15),
        sms,
        gpus,
        seed,
    )


@each("row", vectors("gating"))
def test_vectors(row):
    counts = [int(text) for text in row["active_SMs_per_round_cyclic"].split()]
    history = rounds_of(counts, int(row["rounds"]), int(row["SMs"]))
    name = row["policy"].replace("_", "-")
    shifts = 1e3 * history.dvth_volts(policy(OTHER_NAMES.get(name, name)))
    assert shifts.max() == pytest.approx(float(row["max_dVth_mV"]), rel=1e-5)
    assert shifts.min() == pytest.approx(float(row["min_dVth_mV"]), rel=1e-5)
    assert shifts.mean() == pytest.approx(float(row["mean_dVth_mV"]), rel=1e-5)


def mitigation(active, rounds, name="least-shift"):
    history = rounds_of([active], rounds)
    always = history.dvth_volts(policy("default")).max()
    return 1 - history.dvth_volts(policy(name)).max() / always


@pytest.mark.parametrize("active", [4, 8, 9, 12, 13, 14, 15, 16])
def test_the_closed_form_holds_within_its_stated_error(active):
    assert 100 * closed_form_mitigation(active, 16, 100) == pytest.approx(
        100 * mitigation(active, 100), abs=0.01
    )


@pytest.mark.parametrize("active", [8, 15])
def test_the_closed_form_holds_for_a_thousand_rounds(active):
    assert 100 * closed_form_mitigation(active, 16, 1000) == pytest.approx(
        100 * mitigation(active, 1000), abs=0.04
    )


@pytest.mark.parametrize("active", [3, 7, 11, 15])
def test_least_shift_does_what_a_counter_does_where_sms_are_equal(active):
    history = rounds_of([active], 200)
    by_shift, by_turn = (
        np.sort(history.dvth_volts(policy(name)), axis=0) for name in ("least-shift", "round-robin")
    )
    np.testing.assert_allclose(by_shift, by_turn, rtol=1e-3)
    assert by_shift.max() == pytest.approx(by_turn.max(), rel=1e-9)


def test_lots_help_less_than_turns():
    history = rounds_of([12], 100, gpus=40)
    always = history.dvth_volts(policy("default")).max()
    by_lot = 1 - history.dvth_volts(policy("random")).max(axis=0) / always
    assert 100 * by_lot.mean() == pytest.approx(31, abs=2)
    assert by_lot.std() > 0.005


def test_lu_is_that_of_the_paper():
    history = rounds_of([12], 100)
    assert 1e3 * history.dvth_volts(policy("default")).max() == pytest.approx(6.78, abs=0.005)
    assert 1e3 * history.dvth_volts(policy("least-shift")).max() == pytest.approx(3.78, abs=0.005)


def test_an_additive_model_takes_rounds_too():
    facelift = nbti_model("facelift")
    history = rounds_of([15], 160, model=facelift, seconds=1e5)
    always = history.dvth_volts(policy("default")).max()
    turns = history.dvth_volts(policy("round-robin")).max()
    # Duty 15/16 at any age: docs/gpu-level.md.
    assert 100 * (1 - turns / always) == pytest.approx(16.2, abs=0.1)
