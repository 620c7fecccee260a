"""The facelift model against closed forms and the numbers of the papers."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nbti_cases import constant_environment
from tables import each

from mcage.aging.delay import delay_increase
from mcage.aging.environment import PRESETS, Environment, OperatingPoint, environment
from mcage.aging.nbti import SECONDS_PER_YEAR, facelift

MODEL = facelift()
NOMINAL = environment("nominal", 0.419)
LIFETIME_SECONDS = 3 * SECONDS_PER_YEAR

fractions = st.just(0.0) | st.floats(1e-12, 1)
seconds = st.floats(1, 1e9)
epochs = st.lists(st.tuples(seconds, fractions, st.floats(0.3, 1.1)), min_size=1, max_size=5)


def dvth_at_duty(duty_cycle: float, total_seconds: float = LIFETIME_SECONDS) -> float:
    return float(MODEL.dvth_at(NOMINAL, duty_cycle, total_seconds))


def life(history: list[tuple[float, float, float]]) -> float:
    state = MODEL.initial_state(())
    for duration, duty_cycle, vdd_volts in history:
        state = MODEL.advance(
            state, MODEL.rates(constant_environment(vdd_volts)), duty_cycle, duration
        )
    return float(MODEL.dvth_of(state))


# --- closed forms ---


def test_prefactor_is_the_shift_after_one_second():
    k = MODEL.prefactor(1.0, 353.15)
    charge = 4.6e-20 * 0.7
    assert k == pytest.approx(
        189545.4 * 0.65 * charge**0.5 * math.exp(1 / 0.13 - 0.13 / (8.617333e-5 * 353.15)),
        rel=1e-12,
        abs=0,
    )
    assert MODEL.largest_dvth(NOMINAL, 1.0) == pytest.approx(k, rel=1e-12, abs=0)


@pytest.mark.parametrize("vdd_volts", [0.3, 0.2, 1e-6])
def test_no_stress_at_or_below_threshold(vdd_volts):
    assert MODEL.prefactor(vdd_volts, 353.15) == 0
    assert MODEL.largest_dvth(constant_environment(vdd_volts), LIFETIME_SECONDS) == 0


def test_transistors_never_stressed_have_not_drifted():
    rates = MODEL.rates(NOMINAL)
    assert not MODEL.dvth_of(MODEL.advance(MODEL.initial_state((2, 3)), rates, 0.0, 1e8)).any()


def test_full_stress_grows_with_the_fourth_root_of_time():
    assert dvth_at_duty(1, 16e6) == pytest.approx(2 * dvth_at_duty(1, 1e6), rel=1e-12, abs=0)


def test_endless_recovery_leaves_what_cannot_recover():
    rates = MODEL.rates(NOMINAL)
    stressed = MODEL.advance(MODEL.initial_state(()), rates, 1.0, 1e6)
    recovered = MODEL.advance(stressed, rates, 0.0, 1e18)
    left = (1 - math.sqrt(0.35)) * MODEL.dvth_of(stressed)
    assert MODEL.dvth_of(recovered) == pytest.approx(left, rel=1e-9, abs=0)


def test_stress_rate_weighs_the_operating_points_by_their_time():
    high, low = MODEL.prefactor(0.8, 350.0), MODEL.prefactor(0.45, 320.0)
    mixed = Environment(
        "mixed", (OperatingPoint(0.8, 0.25, 350.0), OperatingPoint(0.45, 0.75, 320))
    )
    expected = 0.25 * high**4 + 0.75 * low**4
    assert MODEL.stress_rate(mixed) == pytest.approx(expected, rel=1e-12, abs=0)


# --- the papers ---


def test_three_years_of_full_stress_shift_by_67_millivolts():
    assert 1e3 * dvth_at_duty(1) == pytest.approx(66.6872, rel=1e-5)


def saving(duties: list[float]) -> float:
    return 1 - np.mean([dvth_at_duty(duty_cycle) for duty_cycle in duties]) / dvth_at_duty(1)


def saving_with_the_ratio_outside_the_root(duties: list[float]) -> float:
    return 1 - np.mean([d**0.25 * (1 - math.sqrt(MODEL.eta) * (1 - d)) for d in duties])


RC_RAR_0 = [1 - 0.58]
RC_RAR_1 = [1 - 0.68]
ARGO_USED_AND_UNUSED_WINDOWS = [
    *[(8, 0), (16, 7), (8, 1), (3, 0), (16, 48)],
    *[(4, 2), (8, 5), (16, 3), (16, 69), (16, 1)],
]
ARGO = [used / (used + unused) for used, unused in ARGO_USED_AND_UNUSED_WINDOWS]


@pytest.mark.parametrize(
    ("duties", "inside", "outside"),
    [(RC_RAR_0, 0.558, 0.471), (RC_RAR_1, 0.615, 0.550), (ARGO, 0.322, 0.238)],
)
def test_documented_savings_of_both_readings(duties, inside, outside):
    assert saving(duties) == pytest.approx(inside, abs=6e-4)
    assert saving_with_the_ratio_outside_the_root(duties) == pytest.approx(outside, abs=6e-4)


def test_the_ratio_inside_the_root_meets_the_published_savings():
    assert saving(RC_RAR_0) == pytest.approx(0.54, abs=0.02)
    assert saving(RC_RAR_1) == pytest.approx(0.62, abs=0.02)
    assert saving(ARGO) == pytest.approx(0.35, abs=0.03)
    assert 1 - np.mean(ARGO) == pytest.approx(0.291, abs=5e-4)


@each(
    ("vdd_volts", "millivolts", "percent_slower"),
    [
        (0.371, 0.168, 0.309),
        (0.419, 0.315, 0.345),
        (0.497, 0.738, 0.489),
        (0.8, 12.1, 3.24),
        (1.0, 66.7, 13.9),
    ],
)
def test_documented_shift_and_delay_at_each_voltage(vdd_volts, millivolts, percent_slower):
    shift = MODEL.largest_dvth(constant_environment(vdd_volts), LIFETIME_SECONDS)
    slower = delay_increase(shift, vdd_volts, MODEL.vt0_volts, MODEL.alpha)
    assert 1e3 * shift == pytest.approx(millivolts, rel=2e-3)
    assert 100 * slower == pytest.approx(percent_slower, rel=2e-3)


def test_shift_is_steep_near_full_stress():
    assert 1 - dvth_at_duty(0.99) / dvth_at_duty(1) == pytest.approx(0.06, abs=5e-3)


# --- composition over epochs ---


@given(history=epochs, duration=seconds, duty_cycle=fractions, vdd_volts=st.floats(0.3, 1.1))
@example(history=[(1.0, 1.0, 1.0)], duration=1.0, duty_cycle=1 - 2**-53, vdd_volts=0.5)
def test_within_an_epoch_the_shift_falls_then_rises(history, duration, duty_cycle, vdd_volts):
    so_far = np.linspace(0, 1, 60) ** 4 * duration
    shifts = np.array([life([*history, (t, duty_cycle, vdd_volts)]) for t in so_far])
    lowest = int(shifts.argmin())
    slack = 1e-12 * shifts.max()
    assert (np.diff(shifts[: lowest + 1]) <= slack).all()
    assert (np.diff(shifts[lowest:]) >= -slack).all()


# --- monotone and bounded ---


@given(duties=st.tuples(fractions, fractions).map(sorted), total_seconds=seconds)
def test_more_stress_means_more_shift(duties, total_seconds):
    lower, higher = (dvth_at_duty(duty_cycle, total_seconds) for duty_cycle in duties)
    assert lower <= higher * (1 + 1e-12)


@given(voltages=st.tuples(st.floats(0.1, 2), st.floats(0.1, 2)).map(sorted))
def test_a_higher_vdd_stresses_more(voltages):
    lower, higher = (MODEL.prefactor(vdd_volts, 353.15) for vdd_volts in voltages)
    assert lower <= higher


def test_heat_stresses_more():
    prefactors = [MODEL.prefactor(1.0, temperature) for temperature in range(200, 451, 10)]
    assert all(cooler < hotter for cooler, hotter in pairwise(prefactors))


@pytest.mark.parametrize("name", PRESETS)
def test_the_bound_is_full_stress_in_every_preset(name):
    surroundings = environment(name, 0.45)
    stressed = MODEL.stress_rate(surroundings) * LIFETIME_SECONDS
    bound = MODEL.largest_dvth(surroundings, LIFETIME_SECONDS)
    assert bound == MODEL.dvth(stressed, LIFETIME_SECONDS, 0.0)


# --- the same bits everywhere ---


@given(stress=st.floats(0, 1e-4), stress_seconds=seconds, recovery_seconds=st.floats(0, 1e9))
def test_scalar_arithmetic_gives_the_same_bits(stress, stress_seconds, recovery_seconds):
    ratio = MODEL.eta * recovery_seconds / (stress_seconds + recovery_seconds)
    expected = math.sqrt(math.sqrt(stress)) * (1.0 - math.sqrt(ratio))
    many = MODEL.dvth(*(np.full(7, x) for x in (stress, stress_seconds, recovery_seconds)))
    assert (many == expected).all()
