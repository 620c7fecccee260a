"""Lives of GPUs, reading by reading."""

from importlib.resources import files

import numpy as np
import pytest
from gpu_cases import gating, lives, vectors
from tables import each

from mcage.aging.environment import Environment, OperatingPoint, delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR, Transistors
from mcage.errors import UserError
from mcage.gpu.chip import Floorplan, ThermalNetwork, gpu
from mcage.studies.gpu_gating.policies import Policy

FIXED = {"model": "fixed", "fixed_kelvin": 353.15}
EQUAL = {"sigma_systematic_mv": 0.0}


def shift(study, duty, years):
    point = OperatingPoint(1.0, 1.0, 353.15)
    seconds = years * SECONDS_PER_YEAR
    return float(study.nbti.dvth_at(Environment("x", (point,)), duty, seconds, Transistors()))


@pytest.mark.parametrize("model", ["facelift", "bhardwaj", "finfet"])
def test_an_sm_that_always_works_shifts_as_its_model_says(model):
    study = gating(policies=["default"], aging={"model": model}, temperature=FIXED, variation=EQUAL)
    life = lives(study, "default", 1)
    for age, dvth in zip(study.spec.report_years, life.max_dvth_volts[0], strict=True):
        assert dvth == pytest.approx(shift(study, 1.0, age), rel=1e-9)


def test_in_turns_all_sms_work_for_the_mean_share():
    study = gating(policies=["round-robin"], temperature=FIXED, variation=EQUAL)
    dvth = lives(study, "round-robin", 1).max_dvth_volts[0, -1]
    counts = [kernel.sms for kernel in study.kernels]
    assert np.mean(counts) / 16 == pytest.approx(0.799, abs=0.001)
    assert dvth == pytest.approx(shift(study, np.mean(counts) / 16, 10), rel=1e-9)


def test_the_margin_is_that_of_the_slowest_sm_over_the_slowest_new_sm():
    study = gating(policies=["default"], temperature=FIXED)
    population = study.population(np.arange(5))
    margin = study.lives.run(study.policies["default"], population).margin_needed[:, -1]
    point = OperatingPoint(1.0, 1.0, 353.15)
    dvth = study.nbti.dvth_at(
        Environment("x", (point,)),
        1.0,
        10 * SECONDS_PER_YEAR,
        Transistors(vt0_volts=population.vt0_volts),
    )
    slower = 1 + delay_increase(dvth, 1.0, population.vt0_volts, study.nbti.alpha)
    new = (1.0 - population.vt0_volts) ** -study.nbti.alpha
    np.testing.assert_allclose(1 + margin, (slower * new).max(axis=0) / new.max(axis=0))


def test_a_life_ends_when_the_margin_reaches_the_guardband():
    years = {"report_years": [2.0, 2.5, 3.0, 3.5, 4.0], "horizon_years": 10.0}
    study = gating(policies=["default"], temperature=FIXED, variation=EQUAL, life=years)
    life = lives(study, "default", 1)
    # The amplitude of facelift is fitted to 13.9 % after three years of full stress.
    assert life.life_years[0] == pytest.approx(3.0, rel=1e-4)
    assert life.ended[0]
    at_three = study.spec.report_years.index(3.0)
    assert life.margin_needed[0, at_three] == pytest.approx(0.139, rel=1e-5)


class InTurns(Policy):
    """The SMs of each half work for a year, and rest for a year."""

    def workers(self, readings, count):
        first_half = (np.arange(len(readings.dvth_volts)) < 8)[:, None]
        return first_half == ((readings.turn // 8) % 2 == 0)


@pytest.mark.parametrize(
    ("model", "guardband"),
    [("facelift", 0.04), ("facelift", 0.08), ("finfet", 0.18)],
)
def test_an_sm_becomes_too_slow_within_a_long_interval(tmp_path, model, guardband):
    """Against the shift of SMs in turns every half hour, by the model's formula."""
    (tmp_path / "kernels.toml").write_text("[kernels.half]\nsms = 8\n")
    study = gating(
        workload={"kernels": str(tmp_path / "kernels.toml")},
        life={"delay_guardband": guardband},
        sensors={"interval_days": 365.0},
        aging={"model": model},
        temperature=FIXED,
        variation=EQUAL,
    )
    life = study.lives.run(InTurns(), study.population(np.arange(1)))
    years = np.arange(0, 10, 1 / 20_000)
    nbti = study.nbti
    rates = nbti.rates(Environment("x", (OperatingPoint(1.0, 1.0, 353.15),)), Transistors())
    limit = (1 - (1 + guardband) ** (-1 / nbti.alpha)) * (1 - nbti.vt0_volts)
    first_half = np.floor(years) // 2 + np.where(np.floor(years) % 2 == 0, years % 1, 1.0)
    for worked, sms in ((first_half, slice(8)), (years - first_half, slice(8, 16))):
        seconds = worked * SECONDS_PER_YEAR, (years - worked) * SECONDS_PER_YEAR
        too_slow = nbti.dvth_after(rates, *seconds) > limit
        (ages,) = {*life.of_sms.too_slow_years[sms, 0].tolist()}
        assert ages == pytest.approx(years[too_slow.argmax()], abs=1e-4)
    assert ages > 1  # of the second half, which rests first


def test_a_guardband_retires_the_slowest_sms_while_spares_last():
    life = {"spare_sms": 2, "delay_guardband": 0.05}
    study = gating(policies=["fixed"], life=life, sensors={"interval_days": 30.0})
    result = lives(study, "fixed")
    assert (result.retired_sms[:, -1] == 2).all()
    assert (np.diff(result.retired_sms, axis=1) >= 0).all()
    without = lives(gating(policies=["fixed"], life={"delay_guardband": 0.05}), "fixed")
    assert (result.life_years > without.life_years).all()
    assert (without.retired_sms == 0).all()


def test_a_retired_sm_does_not_work_and_the_others_take_longer():
    life = {"spare_sms": 5, "delay_guardband": 0.05}
    study = gating(policies=["default", "round-robin"], life=life)
    before, after = (
        lives(gating(policies=["default"]), "default"),
        lives(study, "default"),
    )
    assert (before.slowdown == 0).all()
    assert (after.slowdown > 0.1).all()
    assert (after.sm_power_w < before.sm_power_w).all()


def test_idle_sms_that_stay_on_age():
    gated, on = (
        lives(
            gating(policies=["default"], workload={"utilisation": 0.4, "idle": idle}), "default"
        ).max_dvth_volts[:, -1]
        for idle in ("gated", "on")
    )
    assert (gated < 0.8 * on).all()


def test_static_power_that_grows_with_temperature_converges(tmp_path):
    path = tmp_path / "hot.toml"
    shipped = (files("mcage") / "data" / "gpus" / "gtx580.toml").read_text()
    path.write_text(shipped.replace("growth_per_kelvin = 0.0", "growth_per_kelvin = 0.01"))
    warmer = gating(policies=["default"], gpu=str(path))
    cold, hot = (lives(study, "default", 3).hottest_kelvin for study in (gating(), warmer))
    assert (hot > cold + 1).all()
    temperatures = warmer.lives.temperatures(np.array([318.15]))
    kelvin, watts = temperatures.of(np.ones((16, 1)), np.ones((16, 1)))
    expected = 6.0 + 1.59 * np.exp(0.01 * (kelvin - 318.15))
    np.testing.assert_allclose(watts, expected, rtol=1e-9)


def test_an_sm_that_all_kernels_need_works_for_exactly_all_of_the_time():
    study = gating()
    shares = study.population(np.arange(1)).shares.between(0, 7)
    demand = study.lives.demands.of(shares, np.array([16]), gates=True)
    working = demand.by_rank[:, 0]
    assert (working[:7] == 1).all()
    assert 0 < working[14] < working[7] < 1
    assert working[15] == 0
    assert working.sum() == pytest.approx(np.mean([kernel.sms for kernel in study.kernels]))


def test_gpus_in_warmer_air_shift_more():
    study = gating(
        policies=["default"],
        temperature={"ambient_kelvin": "uniform(300, 330)"},
        variation=EQUAL,
    )
    air = study.population(np.arange(12)).surroundings_kelvin
    life = lives(study, "default")
    assert 300 < air.min() < air.max() < 330
    order = air.argsort()
    assert (np.diff(life.max_dvth_volts[order, -1]) > 0).all()
    nominal = lives(gating(), "default", 1).hottest_kelvin[0]
    np.testing.assert_allclose(life.hottest_kelvin - air, nominal - 318.15)


# The thermal network and its floorplan.

NETWORK = gpu("gtx580").network
SQUARE = {"a": (0.0, 0.0, 0.01, 0.01), "b": (0.01, 0.0, 0.01, 0.01)}


@each("case", ["all-on", "four-on", "10W-in-SM3"])
def test_temperatures_are_those_of_hotspot(case):
    rows = {row["block"]: row for row in vectors("temperature") if row["case"] == case}
    names = NETWORK.floorplan.names
    kelvin = NETWORK.steady([float(rows[name]["power_W"]) for name in names])
    expected = [float(rows[name]["temperature_K"]) for name in names]
    np.testing.assert_allclose(kelvin, expected, atol=0.01, rtol=0)


def test_all_heat_leaves_through_the_sink():
    matrix = NETWORK.conductances
    assert matrix.shape == (88, 88)
    np.testing.assert_array_equal(matrix, matrix.T)
    to_air = matrix.sum(axis=1)
    power = np.zeros(88)
    power[:19] = np.arange(19)
    rise = np.linalg.solve(matrix, power)
    assert to_air @ rise == pytest.approx(power.sum())
    assert (np.abs(to_air[: 3 * 19]) < 1e-9).all()  # die, interface and spreader meet no air


def test_a_transient_starts_where_it_is_told_and_ends_in_the_steady_state():
    power = np.linspace(0, 9, 19)
    start = np.linspace(0, 20, 88)
    np.testing.assert_allclose(NETWORK.transient(start, power, 0.0), start, atol=1e-9)
    end = NETWORK.transient(start, power, 1e4)[:19] + NETWORK.package.ambient_kelvin
    np.testing.assert_allclose(end, NETWORK.steady(power), atol=1e-8)


def test_a_transient_follows_the_differential_equation():
    power, before = np.linspace(1, 9, 19), np.zeros(88)
    step = 1e-7
    after = NETWORK.transient(before, power, step)
    watts = np.concatenate([power, np.zeros(69)])
    np.testing.assert_allclose((after / step)[:19], (watts / NETWORK.capacities)[:19], rtol=0.01)
    slowest = 1 / NETWORK._modes[0]
    assert slowest[0] == pytest.approx(8.1, abs=0.1)  # seconds: of the sink


@each(
    ("changed", "message"),
    [
        ({"b": (0.009, 0.0, 0.01, 0.01)}, "blocks 'a' and 'b' overlap"),
        ({"b": (0.011, 0.0, 0.01, 0.01)}, r"leave a gap of 10 mm\^2 in a die of 21 x 10 mm"),
        ({"b": (0.01, 0.0, 0.01, 0.0)}, "a width and a height above 0"),
        ({"b": (0.01, np.nan, 0.01, 0.01)}, "must be finite"),
    ],
)
def test_floorplans_that_are_none(changed, message):
    with pytest.raises(UserError, match=f"plan.toml.*{message}"):
        Floorplan(SQUARE | changed, "plan.toml")


def test_a_die_must_fit_on_its_spreader():
    wide = {name: tuple(2 * number for number in where) for name, where in SQUARE.items()}
    with pytest.raises(UserError, match="a die of 40 x 20 mm must fit on a spreader of 30 mm"):
        ThermalNetwork(Floorplan(wide), NETWORK.package)
    small = NETWORK.package.model_copy(update={"sink_side_m": 0.02})
    with pytest.raises(UserError, match="a sink of 20 mm"):
        ThermalNetwork(Floorplan(SQUARE), small)
