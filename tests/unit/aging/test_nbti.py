"""All NBTI models: reference values, epochs, bounds, transistors that differ."""

import dataclasses
import math
from decimal import Decimal, localcontext
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from nbti_cases import (
    ADDITIVE,
    MODELS,
    constant_environment,
    durations,
    fractions,
    histories,
    past_of,
    prefactor_of,
    shift_of,
    shift_of_vector,
    temperatures,
    vectors,
    voltages,
)
from tables import each

from mcage.aging.environment import Environment, OperatingPoint, delay_increase, environment
from mcage.aging.nbti import SECONDS_PER_YEAR, Phases, Transistors, facelift
from mcage.errors import UserError

YEAR = 365 * 86_400
OTHERS = ("bhardwaj-phase", "bhardwaj-longterm", "finfet", "planar")


def of(names):
    """A test of models, in which variants, which have other constants, are slow."""
    slow = {name: [pytest.mark.slow] if "-" in name else [] for name in names}
    models = [pytest.param(MODELS[name], id=name, marks=slow[name]) for name in names]
    return pytest.mark.parametrize("model", models)


of_all_models, of_additive_models = of(MODELS), of(ADDITIVE)


@each("row", vectors("facelift", *OTHERS))
def test_reference_values(row):
    assert 1e3 * shift_of_vector(row) == pytest.approx(float(row["value"]), rel=1e-5)


def test_all_reference_values_are_there():
    assert [len(vectors(model)) for model in ("facelift", *OTHERS)] == [9, 6, 7, 4, 4]


# --- composition over epochs ---


@of_all_models
@given(history=histories, more=durations)
def test_splitting_an_epoch_changes_nothing(model, history, more):
    seconds, *conditions = history[-1]
    whole = [*history[:-1], (seconds + more, *conditions)]
    split = [*history, (more, *conditions)]
    assert shift_of(model, split) == pytest.approx(shift_of(model, whole), rel=1e-10, abs=0)


@of_additive_models
@given(history=histories.filter(lambda history: len(history) <= 4))
def test_the_order_of_epochs_does_not_matter_where_sums_decide(model, history):
    shifts = [shift_of(model, list(order)) for order in permutations(history)]
    assert shifts == pytest.approx([shifts[0]] * len(shifts), rel=1e-10, abs=1e-18)


@each("name", ["bhardwaj", "bhardwaj-unscaled"])
def test_the_order_of_epochs_matters_to_bhardwaj(name):
    """By little: on the envelope X^2 is nearly a sum."""
    busy, idle = (YEAR, 0.9, 1.0, 353.15), (YEAR, 0.1, 1.0, 353.15)
    first_busy, first_idle = (shift_of(MODELS[name], it) for it in ([busy, idle], [idle, busy]))
    assert not MODELS[name].additive
    assert 1e-5 < abs(first_idle / first_busy - 1) < 1e-3


def test_equal_times_under_stress_are_not_equal_to_bhardwaj():
    model = MODELS["bhardwaj"]
    at_once = shift_of(model, [(YEAR, 1.0, 1.0, 353.15), (YEAR, 0.0, 1.0, 353.15)])
    spread = shift_of(model, [(2 * YEAR, 0.5, 1.0, 353.15)])
    assert 1e3 * np.array([at_once, spread]) == pytest.approx([55.5, 17.7], abs=0.05)


@of(["bhardwaj", "bhardwaj-unscaled"])
@given(history=histories, rest=durations)
def test_bhardwaj_never_falls(model, history, rest):
    # What never falls is the state: a cube root of a little more may be rounded to a little less.
    states = [past_of(model, history[:end]).item() for end in range(len(history) + 1)]
    assert states == sorted(states)
    without_stress = [(rest, 0.0, 1.0, 353.15), (rest, 1.0, 0.25, 353.15)]
    assert past_of(model, [*history, *without_stress]).item() == states[-1]


@of_additive_models
@given(history=histories, seconds=durations, duty_cycle=fractions, kelvin=temperatures)
def test_under_constant_rates_the_shift_falls_then_rises(
    model, history, seconds, duty_cycle, kelvin
):
    state = past_of(model, [(*epoch[:2], 0.9, kelvin) for epoch in history])
    rates = model.rates(constant_environment(0.9, kelvin))
    so_far = np.linspace(0, 1, 60) ** 4 * seconds
    shifts = model.dvth_of(model.advance(state[:, None], rates, duty_cycle, so_far))
    lowest = int(shifts.argmin())
    slack = 1e-12 * shifts.max()
    assert (np.diff(shifts[: lowest + 1]) <= slack).all()
    assert (np.diff(shifts[lowest:]) >= -slack).all()


@of_additive_models
@given(stressed=st.floats(0, 1e9), recovered=st.floats(0, 1e9), vdd=voltages, kelvin=temperatures)
def test_the_closed_form_is_that_of_one_epoch(model, stressed, recovered, vdd, kelvin):
    # Recovery that a duty cannot express counts as none, and that matters: see the next test.
    assume(stressed > 0 and (recovered == 0 or recovered > 1e-6 * stressed))
    seconds = stressed + recovered
    surroundings = constant_environment(vdd, kelvin)
    closed = model.dvth_after(model.rates(surroundings), stressed, recovered)
    one_epoch = model.dvth_at(surroundings, stressed / seconds, seconds)
    # Near full stress the root magnifies the rounding of the duty; clamped shifts are 0 or nearly.
    assert closed == pytest.approx(one_epoch, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["finfet", "planar"])
def test_the_first_recovery_takes_a_little_at_once(name):
    """The printed term does not vanish with the time of recovery: 2 xi1 t_ox stays."""
    model = MODELS[name]
    rates = model.rates(constant_environment(0.9))
    never, barely = (float(model.dvth_after(rates, YEAR, seconds)) for seconds in (0, 1e-9))
    thickness = model.oxide_thickness_nm
    lost = 1.8 * thickness / (1.5 * thickness + math.sqrt(float(rates.diffusion) * YEAR))
    assert 1 - barely / never == pytest.approx(lost, rel=1e-4)
    assert lost < 2e-4


def test_arrays_of_epochs_are_many_transistors():
    duty, seconds = np.array([[0.1, 0.5], [0.9, 1.0]]), np.array([1e6, 2e8])
    for name, model in MODELS.items():
        state = model.initial_state((2, 2))
        assert state.shape == (model.state_size, 2, 2)
        assert not model.dvth_of(state).any()
        rates = model.rates(constant_environment(1.0))
        shifts = model.dvth_of(model.advance(state, rates, duty, seconds))
        for place in np.ndindex(2, 2):
            alone = shift_of(model, [(seconds[place[1]], duty[place], 1.0, 353.15)])
            assert shifts[place] == alone, (name, place)


# --- bhardwaj, word by word ---


def bhardwaj_as_written(model, history):
    """X after epochs, from the equations of docs/aging.md as they stand.

    In numbers of 50 digits: in such of 16 its differences cancel, to 1e-7 of a shift.
    """
    period, oxide, xi1, xi2 = (
        Decimal(getattr(model, name))
        for name in ("period_seconds", "oxide_thickness_nm", "xi1", "xi2")
    )

    def recovery_of(diffusion, duty):
        return 2 * xi1 * oxide + (xi2 * diffusion * (1 - duty) * period).sqrt()

    def x_after(time, kv, diffusion, duty):
        static = kv * time.sqrt()
        if duty == 1:
            return static
        spread = 2 * oxide + (diffusion * time).sqrt()
        b = max(Decimal(0), 1 - recovery_of(diffusion, duty) / spread)
        return min(static, kv * (duty * period).sqrt() / (1 - b**3))

    def time_of(x, kv, diffusion, duty):
        static = (x / kv) ** 2
        if duty == 1:
            return static
        part = kv * (duty * period).sqrt() / x
        if part >= 1:
            return static
        way = recovery_of(diffusion, duty) / (1 - (1 - part) ** (1 / Decimal(3))) - 2 * oxide
        return max(static, way**2 / diffusion if way > 0 else Decimal(0))

    x = Decimal(0)
    with localcontext(prec=50):
        for seconds, duty, vdd_volts, kelvin in history:
            rates = model.rates(constant_environment(vdd_volts, kelvin))
            conditions = Decimal(float(rates.stress)).sqrt(), Decimal(float(rates.diffusion))
            if duty > 0:
                conditions = *conditions, Decimal(duty)
                start = time_of(x, *conditions) if x else Decimal(0)
                x = max(x, x_after(start + Decimal(seconds), *conditions))
    return float(x)


short_histories = st.lists(
    st.tuples(st.floats(1e-5, 1) | durations, st.floats(1e-3, 1), voltages, temperatures),
    min_size=1,
    max_size=5,
)


@of(["bhardwaj", "bhardwaj-unscaled"])
@given(short_histories)
@example([(1e-3, 0.05, 1.0, 450.0)] * 3)
@example([(0.0050025, 0.5, 1.0, 250.0), (1e-3, 1.0, 1.0, 250.0)])
@example([(1e-4, 0.5, 1.0, 450.0), (5e-3, 0.5, 1.0, 450.0)])
def test_bhardwaj_is_what_is_written(model, history):
    expected = bhardwaj_as_written(model, history) ** (1 / 3)
    assert shift_of(model, history) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("duty_cycle", [0.0, 0.3, 0.999, 1.0])
def test_no_time_takes_nothing_from_bhardwaj(duty_cycle):
    """To the last bit, although the way to the equivalent time and back rounds."""
    model = MODELS["bhardwaj"]
    state = np.geomspace(1e-12, 1e-3, 10_000)[np.newaxis]
    rates = model.rates(constant_environment(0.8))
    after = model.advance(state, rates, duty_cycle, 0.0)
    assert (after >= state).all()
    assert after == pytest.approx(state, rel=1e-9)


# --- monotone and bounded ---


@of_all_models
@given(history=histories, others=st.lists(fractions, min_size=5, max_size=5))
def test_a_longer_duty_in_every_epoch_never_shifts_less(model, history, others):
    """Hence the cell that is stressed longest in every epoch is the slice's worst."""
    pairs = [sorted([epoch[1], other]) for epoch, other in zip(history, others, strict=False)]
    less, more = (
        shift_of(model, [(it[0], duty, *it[2:]) for it, duty in zip(history, duties, strict=True)])
        for duties in zip(*pairs, strict=True)
    )
    assert less <= more * (1 + 1e-12)


@of_all_models
@given(history=histories, vdd_volts=voltages, kelvin=temperatures)
def test_nothing_exceeds_full_stress(model, history, vdd_volts, kelvin):
    state = past_of(model, [(*epoch[:2], vdd_volts, kelvin) for epoch in history])
    seconds = sum(epoch[0] for epoch in history)
    bound = model.largest_dvth(constant_environment(vdd_volts, kelvin), seconds)
    assert 0 <= model.dvth_of(state) <= bound * (1 + 1e-12)


@of_all_models
def test_full_stress_grows_with_the_root_of_time(model):
    after = [model.largest_dvth(constant_environment(1.0), seconds) for seconds in (1e6, 64e6)]
    assert after[1] == pytest.approx(64 ** (1 / model.root) * after[0], rel=1e-12)


@of_all_models
def test_no_stress_at_or_below_threshold(model):
    for vdd_volts in (model.vt0_volts, model.vt0_volts - 0.1, 1e-6):
        assert model.largest_dvth(constant_environment(vdd_volts), YEAR) == 0


@of_all_models
def test_voltage_and_heat_stress_more(model):
    grid = [[(v, t) for t in range(250, 451, 40)] for v in np.linspace(model.vt0_volts, 1.1, 6)]
    shifts = [[model.largest_dvth(constant_environment(*at), YEAR) for at in row] for row in grid]
    assert (np.diff(shifts, axis=0) > 0).all()
    assert (np.diff(shifts[1:], axis=1) > 0).all()


# --- environments of several points ---


@of_all_models
def test_operating_points_count_by_their_time(model):
    points = (OperatingPoint(0.9, 0.25, 350.0), OperatingPoint(0.45, 0.75, 320.0))
    mixed = model.rates(Environment("mixed", points))
    alone = [model.rates(constant_environment(p.vdd_volts, p.temperature_kelvin)) for p in points]
    for of in ("stress", "diffusion"):
        high, low = (float(getattr(rates, of)) for rates in alone)
        assert getattr(mixed, of) == pytest.approx(0.25 * high + 0.75 * low, rel=1e-12)


@of_all_models
def test_points_one_after_the_other_are_full_stress_at_all_of_them(model):
    points = (OperatingPoint(0.9, 0.25, 350.0), OperatingPoint(0.5, 0.75, 320.0))
    bound = model.largest_dvth(Environment("mixed", points), YEAR)
    one_by_one = [(p.time_fraction * YEAR, 1.0, p.vdd_volts, p.temperature_kelvin) for p in points]
    assert shift_of(model, one_by_one) == pytest.approx(bound, rel=1e-12)


# --- transistors that differ ---


@of_all_models
@given(st.floats(0.1, 3), histories)
def test_the_shift_factor_scales_the_shift(model, factor, history):
    state = past_of(model, history, transistors=Transistors(shift_factor=factor))
    expected = factor * shift_of(model, history)
    assert model.dvth_of(state) == pytest.approx(expected, rel=1e-9, abs=0)


@of_all_models
def test_transistors_differ_one_by_one(model):
    vt0 = model.vt0_volts + np.array([[-0.05], [0.0], [0.02]])
    kelvin, factor = np.array([[330.0, 353.15]] * 3), np.array([[1.0, 1.2]])
    differing = Transistors(vt0_volts=vt0, temperature_kelvin=kelvin, shift_factor=factor)
    surroundings = constant_environment(0.9, 400.0)
    shifts = model.dvth_at(surroundings, 0.6, YEAR, differing)
    assert shifts.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        alone = Transistors(vt0[i, 0], kelvin[i, j], factor[0, j])
        expected = float(model.dvth_at(surroundings, 0.6, YEAR, alone))
        assert shifts[i, j] == pytest.approx(expected, rel=1e-14)
    nominal = float(model.dvth_at(constant_environment(0.9), 0.6, YEAR))
    assert shifts[1, 1] == pytest.approx(1.2 * nominal, rel=1e-12)
    worst = float(model.dvth_at(surroundings, 1.0, YEAR, differing).max())
    assert model.largest_dvth(surroundings, YEAR, differing) == pytest.approx(worst)
    # A lower Vt0 leaves more overdrive, hence more stress.
    assert (np.diff(shifts, axis=0) < 0).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vt0_volts": [0.3, math.nan]}, "vt0_volts = nan must be"),
        ({"temperature_kelvin": [353.0, 80.0]}, "temperature_kelvin = 80 must be 200 ... 450 K"),
        ({"shift_factor": -1.0}, "shift_factor = -1 must be 0"),
    ],
)
def test_impossible_transistors_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        Transistors(**values)


# --- phases ---


PHASES = Phases(MODELS["bhardwaj-unscaled"])
phase_lists = st.lists(
    st.tuples(st.booleans(), st.floats(1e-6, 1e4), temperatures), min_size=1, max_size=6
)


def shift_after_phases(history):
    state = PHASES.initial_state(())
    for stressed, seconds, kelvin in history:
        rates = PHASES.model.rates(constant_environment(1.0, kelvin))
        state = PHASES.advance(state, rates, stressed, seconds)
    return float(PHASES.dvth_of(state))


@given(history=phase_lists, share=st.floats(0, 1))
def test_splitting_a_phase_changes_nothing(history, share):
    stressed, seconds, kelvin = history[-1]
    pieces = [(stressed, share * seconds, kelvin), (stressed, (1 - share) * seconds, kelvin)]
    split, whole = shift_after_phases([*history[:-1], *pieces]), shift_after_phases(history)
    assert split == pytest.approx(whole, rel=1e-10, abs=1e-18)


@given(history=phase_lists)
def test_phases_of_nothing_but_stress_are_the_bound(history):
    kelvin = history[0][2]
    surroundings, seconds = constant_environment(1.0, kelvin), sum(of[1] for of in history)
    bound = PHASES.model.largest_dvth(surroundings, seconds)
    full, some = (
        shift_after_phases([(always or stressed, of, kelvin) for stressed, of, _ in history])
        for always in (True, False)
    )
    assert full == pytest.approx(bound, rel=1e-12)
    assert some <= bound * (1 + 1e-12)


def test_recovery_takes_no_more_than_there_is():
    eager = Phases(dataclasses.replace(MODELS["bhardwaj-unscaled"], xi1=1.5))
    rates = eager.model.rates(constant_environment(1.0))
    stressed = eager.advance(eager.initial_state(()), rates, True, 1e-6)
    assert eager.dvth_of(eager.advance(stressed, rates, False, 1e-6)) == 0


# The facelift model against closed forms and the numbers of the papers.

MODEL = facelift()
NOMINAL = environment("turbo", 0.419)
LIFETIME_SECONDS = 3 * SECONDS_PER_YEAR

seconds = st.floats(1, 1e9)


def dvth_at_duty(duty_cycle: float, total_seconds: float = LIFETIME_SECONDS) -> float:
    return float(MODEL.dvth_at(NOMINAL, duty_cycle, total_seconds))


# --- closed forms ---


def test_prefactor_is_the_shift_after_one_second():
    rate = math.exp(1 / 0.13 - 0.13 / (8.617333e-5 * 353.15))
    k = 189545.4 * 0.65 * (4.6e-20 * 0.7) ** 0.5 * rate
    assert prefactor_of(MODEL, 1.0, 353.15) == pytest.approx(k, rel=1e-12, abs=0)
    assert MODEL.largest_dvth(NOMINAL, 1.0) == pytest.approx(k, rel=1e-12, abs=0)


def test_endless_recovery_leaves_what_cannot_recover():
    rates = MODEL.rates(NOMINAL)
    stressed = MODEL.advance(MODEL.initial_state(()), rates, 1.0, 1e6)
    recovered = MODEL.advance(stressed, rates, 0.0, 1e18)
    left = (1 - math.sqrt(0.35)) * MODEL.dvth_of(stressed)
    assert MODEL.dvth_of(recovered) == pytest.approx(left, rel=1e-9, abs=0)


# --- the papers ---


ARGO_USED_AND_UNUSED_WINDOWS = [
    *[(8, 0), (16, 7), (8, 1), (3, 0), (16, 48)],
    *[(4, 2), (8, 5), (16, 3), (16, 69), (16, 1)],
]
ARGO = [used / (used + unused) for used, unused in ARGO_USED_AND_UNUSED_WINDOWS]


@each(
    ("duties", "published", "inside", "outside"),
    [
        ([1 - 0.58], (0.54, 0.02), 0.558, 0.471),
        ([1 - 0.68], (0.62, 0.02), 0.615, 0.550),
        (ARGO, (0.35, 0.03), 0.322, 0.238),
    ],
)
def test_documented_savings_of_both_readings(duties, published, inside, outside):
    """Of RC+RAR for '0' and '1', and ARGO: the ratio inside the root meets those of the papers."""
    saving = 1 - np.mean([dvth_at_duty(duty) for duty in duties]) / dvth_at_duty(1)
    of_outside = 1 - np.mean([d**0.25 * (1 - math.sqrt(MODEL.eta) * (1 - d)) for d in duties])
    assert saving == pytest.approx(inside, abs=6e-4)
    assert of_outside == pytest.approx(outside, abs=6e-4)
    assert saving == pytest.approx(published[0], abs=published[1])


def test_windows_of_argo_are_unused_as_published():
    assert 1 - np.mean(ARGO) == pytest.approx(0.291, abs=5e-4)


@each(
    ("vdd_volts", "millivolts", "percent_slower"),
    [
        (0.371, 0.168, 0.309),
        (0.419, 0.315, 0.345),
        (0.497, 0.738, 0.489),
        (0.8, 12.1, 3.24),
        (1.0, 66.6872, 13.9),
    ],
)
def test_documented_shift_and_delay_at_each_voltage(vdd_volts, millivolts, percent_slower):
    shift = MODEL.largest_dvth(constant_environment(vdd_volts), LIFETIME_SECONDS)
    slower = delay_increase(shift, vdd_volts, MODEL.vt0_volts, MODEL.alpha)
    assert 1e3 * shift == pytest.approx(millivolts, rel=2e-3)
    assert 100 * slower == pytest.approx(percent_slower, rel=2e-3)


# --- the same bits everywhere ---


@given(stress=st.floats(0, 1e-4), stress_seconds=seconds, recovery_seconds=st.floats(0, 1e9))
def test_scalar_arithmetic_gives_the_same_bits(stress, stress_seconds, recovery_seconds):
    ratio = MODEL.eta * recovery_seconds / (stress_seconds + recovery_seconds)
    expected = math.sqrt(math.sqrt(stress)) * (1.0 - math.sqrt(ratio))
    many = MODEL.dvth(*(np.full(7, x) for x in (stress, stress_seconds, recovery_seconds)))
    assert (many == expected).all()
