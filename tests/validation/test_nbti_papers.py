"""Bhardwaj's and Zhang's models against the numbers that Chen et al. and Zhang et al. print."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from nbti_cases import MODELS, constant_environment, read_csv

from mcage.aging.delay import delay_increase, dvth_at_delay
from mcage.aging.nbti import SECONDS_PER_YEAR, Phases, finfet, planar

# --- gating of Chen et al., DAC 2014 ---

SMS = 16
ROUNDS = 100
ROUND_SECONDS = 3.596e-4  # brings LU to the 6.78 mV of Figure 9
OPTIMAL_SMS = [7, 15, 15, 12, 15, 11, 8, 14, 15, 9, 13, 15, 15, 15]  # Table 2
PHASES = Phases(MODELS["bhardwaj-unscaled"])


@cache
def largest_shift(active):
    """Of all SMs after all rounds, of each of which the least aged ones work; in volts."""
    rates = PHASES.model.rates(constant_environment(1.0))
    state = PHASES.initial_state((SMS,))
    for _ in range(ROUNDS):
        least_aged = np.argsort(PHASES.dvth_of(state), kind="stable")[:active]
        works = np.isin(np.arange(SMS), least_aged)
        state = PHASES.advance(state, rates, works, ROUND_SECONDS)
    return float(PHASES.dvth_of(state).max())


def mitigation_percent(active):
    return 100 * (1 - largest_shift(active) / largest_shift(SMS))


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["case"]) for row in read_csv("gating_chen.csv")]
)
def test_gating(row):
    mitigation = mitigation_percent(int(row["active_sms"]))
    assert mitigation == pytest.approx(float(row["model_percent"]), abs=0.005)
    assert -3.33 < mitigation - float(row["paper_percent"]) < 0.81


def test_gating_of_lu_in_millivolts():
    """Figure 9: 6.78 mV by default, 3.83 mV with 12 SMs."""
    assert 1e3 * largest_shift(SMS) == pytest.approx(6.78, abs=0.005)
    assert 1e3 * largest_shift(12) == pytest.approx(3.83, abs=0.06)


def test_gating_on_average():
    """Section 6.2: 34 % on average over the kernels, 26 to 55 %."""
    found = [mitigation_percent(active) for active in OPTIMAL_SMS]
    assert np.mean(found) == pytest.approx(36.3, abs=0.05)
    assert (min(found), max(found)) == pytest.approx((27.1, 53.6), abs=0.05)


def test_up_to_half_of_the_sms_work_in_rounds_of_their_own():
    assert mitigation_percent(4) == pytest.approx(100 * (1 - 100 ** (-1 / 6)), abs=0.01)


# --- warp scheduler of Zhang et al., INTEGRATION 2015 ---

LIFETIME_SECONDS = 7 * SECONDS_PER_YEAR
BASE_DUTY, BASE_KELVIN = 0.4, 353.15
SCHEDULER = {
    # Delay increases in percent of the baseline and of the two-stage scheduler (section 6.1), its
    # filter rate (Table 4), and how much cooler it is (section 6.1; the mean's is back-computed).
    "NN": (8.4, 1.96, 0.9741, 15.0),
    "Backprop": (8.6, 2.90, 0.7693, 11.0),
    "mean": (7.7, 2.36, 0.91381, 12.1),
}


def shift(model, duty_cycle=BASE_DUTY, kelvin=BASE_KELVIN):
    return float(model.dvth_at(constant_environment(0.9, kelvin), duty_cycle, LIFETIME_SECONDS))


def delay_percent(dvth, model):
    return 100 * float(delay_increase(dvth, 0.9, model.vt0_volts, model.alpha))


def dvth_of_delay(percent):
    return dvth_at_delay(percent / 100, 0.9, finfet().vt0_volts, finfet().alpha)


@pytest.mark.parametrize(("name", "ratio"), [("NN", 0.246), ("Backprop", 0.354), ("mean", 0.321)])
def test_ratio_of_the_published_delays(name, ratio):
    before, after, _, _ = SCHEDULER[name]
    assert dvth_of_delay(after) / dvth_of_delay(before) == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "temperature_only", "activity", "thermal"),
    [
        ("NN", 6.94, 1.75, 1.93),
        ("Backprop", 7.49, 3.62, 2.94),
        ("mean", 6.62, 2.33, 2.37),
    ],
)
def test_two_stage_scheduler(name, temperature_only, activity, thermal):
    before, after, filter_rate, cooler = SCHEDULER[name]

    def two_stage(model, duty_cycle):
        ratio = shift(model, duty_cycle, BASE_KELVIN - cooler) / shift(model)
        return delay_percent(dvth_of_delay(before) * ratio, model)

    filtered = BASE_DUTY * (1 - filter_rate)
    assert two_stage(finfet(), BASE_DUTY) == pytest.approx(temperature_only, abs=0.006)
    assert two_stage(finfet(), filtered) == pytest.approx(activity, abs=0.006)
    assert two_stage(MODELS["finfet-thermal"], BASE_DUTY) == pytest.approx(thermal, abs=0.006)
    # Neither published constant nor temperature alone brings the improvement that is printed.
    assert two_stage(finfet(), BASE_DUTY) > 2 * after


def test_filter_rates_of_table_4():
    rates = [75.82, 76.93, 88.74, 98.82, 88.46, 90.59, 99.85, 97.41, 97.70, 99.49]
    assert np.mean(rates) / 100 == pytest.approx(SCHEDULER["mean"][2], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "percent"), [("finfet", 7.70), ("planar", 0.265), ("planar-common", 6.97)]
)
def test_delay_after_seven_years(name, percent):
    model = MODELS[name]
    assert delay_percent(shift(model), model) == pytest.approx(percent, abs=0.006)


def test_readings_of_the_field_constants():
    """As printed, planar transistors would age faster, against what the paper says."""
    finfet_as_printed = dataclasses.replace(finfet(), field_volts_per_nm=0.335)
    planar_as_printed = dataclasses.replace(planar(), field_volts_per_nm=0.12)
    assert shift(planar_as_printed) / shift(finfet_as_printed) == pytest.approx(18.8, abs=0.05)
    assert shift(planar()) / shift(finfet()) == pytest.approx(0.0305, abs=5e-5)
    common = shift(MODELS["planar-common"]) / shift(MODELS["finfet-common"])
    assert common == pytest.approx(0.758, abs=5e-4)


def test_the_thermal_variant_is_the_same_at_the_base_temperature():
    thermal = MODELS["finfet-thermal"]
    assert shift(thermal) == pytest.approx(shift(finfet()), rel=1e-12)
    assert shift(thermal, kelvin=340.0) < 0.5 * shift(finfet(), kelvin=340.0)
