"""Constants of instances: what each draws, and lives that follow from it in closed form."""

import json
import tomllib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from life_cases import (
    MODEL,
    YEAR,
    alternating_trace,
    cell,
    lived,
    rules,
    seconds_to_delay,
    steady_trace,
    tail_of,
)
from nbti_cases import ADDITIVE, MODELS, prefactor_of
from sweep_cases import small_sweep
from tables import each

from mcage import run_sweep
from mcage.aging.environment import environment
from mcage.aging.nbti import Transistors, facelift
from mcage.aging.nbti.models import Facelift
from mcage.aging.sampling import OF_SLICES, ConstantDraws, InstanceConstants, InstanceDistributions
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.random import stream
from mcage.results.reader import open_results, read_header
from mcage.spec import SweepSpec

ZERO = np.zeros(64, dtype=np.uint32)
NOMINAL = environment("turbo", 0.419)
WIDE = InstanceDistributions(
    Distribution.of("uniform(300, 420)"),
    Distribution.of("uniform(0.1, 0.5)"),
    Distribution.of("uniform(0.5, 2)"),
    Distribution.of("uniform(0.01, 1)"),
)


def constants(temperature=353.15, vt0=0.3, factor=1.0, activity=1.0, swing=0.0):
    given = (temperature, vt0, factor, activity)
    return InstanceConstants(
        *(np.asarray(one, dtype=float) for one in given),
        temperature_swing_kelvin=np.asarray(swing, dtype=float),
    )


def lives(count, distributions=WIDE, guardband=0.05, **of_instances):
    """Lives of healthy instances of which some constants differ."""
    return lived(
        [steady_trace([ZERO])],
        "baseline",
        tail_of(*[{}] * count),
        distributions=distributions,
        constants=constants(**of_instances),
        delay_guardband=guardband,
    )


# ---- closed form -------------------------------------------------------------------------------


@each(
    ("constant", "values", "expected"),
    [
        (
            "temperature",
            [340, 353.15, 366],
            lambda kelvin: seconds_to_delay(0.1, prefactor=prefactor_of(MODEL, 1.0, kelvin)),
        ),
        ("factor", [1.0, 1.1], lambda factor: seconds_to_delay(0.1) / factor**4),
        ("activity", [1.0, 0.999, 0.9], lambda duty: seconds_to_delay(0.1, duty)),
    ],
)
def test_each_constant_has_its_life(constant, values, expected):
    life = lives(len(values), guardband=0.1, **{constant: values})
    seconds = np.minimum([*map(expected, values)], 10 * YEAR)
    assert life.end.seconds == pytest.approx(seconds, rel=1e-9)


def test_each_threshold_has_its_stress_and_its_delay():
    life = lives(3, vt0=[0.27, 0.3, 0.33])
    assert (life.end.cause == EndCause.DELAY).all()
    for vt0, seconds, increase in zip(
        (0.27, 0.3, 0.33), life.end.seconds, life.degradation.delay_increase, strict=True
    ):
        shift = MODEL.largest_dvth(NOMINAL, seconds, Transistors(vt0_volts=vt0))
        assert shift == pytest.approx((1 - vt0) * (1 - 1.05 ** (-1 / 1.3)), rel=1e-9)
        assert increase == pytest.approx(0.05, rel=1e-6)


@each("name", ADDITIVE)
def test_idle_cells_recover(name):
    """A cell at '0' for half of the time that a slice is busy for 60 %: duties 0.3 and 0.3."""
    trace = alternating_trace(ZERO, 50, ~ZERO)
    life = lived(
        [trace],
        "baseline",
        distributions=WIDE,
        nbti=MODELS[name],
        constants=constants(vt0=MODELS[name].vt0_volts, activity=[0.6]),
        sample=[cell(0)],
    )
    shift = MODELS[name].dvth_at(NOMINAL, 0.3, 10 * YEAR)
    assert life.degradation.max_dvth_volts[0] == pytest.approx([shift, shift], rel=1e-9)
    assert life.degradation.sampled.dvth_volts()[0, 0] == pytest.approx([shift, shift], rel=1e-9)
    assert life.degradation.longest_duty[0] == pytest.approx([0.3, 0.3])


# ---- temperatures that change from epoch to epoch ----------------------------------------------

SWINGING = replace(WIDE, temperature_swing_kelvin=Distribution.of("uniform(-40, 30)"))


def test_each_epoch_has_its_temperature():
    """A cell under full stress adds up what each of ten years does to it, up to the guardband."""
    swing = np.random.default_rng(1).uniform(-40, 30, (3, 10))
    kelvin = np.array([340.0, 353.15, 366.0])
    life = lives(3, distributions=SWINGING, temperature=kelvin, swing=swing, guardband=50)
    stress = np.array(
        [prefactor_of(MODEL, 1.0, one) ** 4 for one in (kelvin[:, None] + swing).flat]
    )
    every = np.cumsum(stress.reshape(3, 10), axis=1) * YEAR
    assert life.degradation.epoch_max_dvth_volts[..., 0] == pytest.approx(every**0.25, rel=1e-12)

    life = lives(3, distributions=SWINGING, temperature=kelvin, swing=swing, guardband=0.139)
    assert (life.end.cause == EndCause.DELAY).all()
    limit = 0.7 * (1 - 1.139 ** (-1 / 1.3))
    for one, seconds in enumerate(life.end.seconds):
        years = np.clip(seconds / YEAR - np.arange(10), 0, 1)
        assert stress.reshape(3, 10)[one] @ years * YEAR == pytest.approx(limit**4, rel=1e-10)


def test_a_cell_that_was_stressed_less_may_have_shifted_further():
    """Half of a slice is at '0' in a cool year, the other one in a hot one that is shorter."""
    life = lived(
        [steady_trace([ZERO]), steady_trace([~ZERO])],
        "baseline",
        kernels=[[0, 1]],
        epoch_edges_years=(0.0, 1.1, 2.0),
        distributions=SWINGING,
        constants=constants(swing=[[-40.0, 30.0]]),
    )
    stressed = YEAR * np.array([1.1, 0.9])
    heat = np.array([prefactor_of(MODEL, 1.0, 353.15 + swing) ** 4 for swing in (-40.0, 30.0)])
    recovered = 1 - np.sqrt(MODEL.eta * stressed[::-1] / stressed.sum())
    expected = (heat * stressed) ** 0.25 * recovered
    assert expected[1] > expected[0]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(expected, rel=1e-12)


# ---- bounds ------------------------------------------------------------------------------------


@each("name", ADDITIVE)
def test_no_instance_drifts_beyond_the_floor(name):
    given = rules(nbti=MODELS[name], distributions=WIDE)
    own = WIDE.draw(1, np.arange(200))
    drift = given.additive_shift(own)
    ages = np.full(200, 10 * YEAR)
    shift = drift.dvth(np.stack([ages, ages]), ages).max()
    assert given.floor_volts <= 1.0 - shift


def test_no_swing_drifts_beyond_the_floor():
    given = rules(distributions=SWINGING)
    own = SWINGING.draw(1, np.arange(100), 10)
    hottest = own.temperature_kelvin + own.temperature_swing_kelvin.max(axis=1)
    most = MODEL.dvth_at(
        NOMINAL, 1.0, 10 * YEAR, Transistors(own.vt0_volts, hottest, own.shift_factor)
    )
    assert given.floor_volts <= 1.0 - most.max()
    assert given.floor_volts < rules(distributions=WIDE).floor_volts
    given.history(own)
    narrow = replace(WIDE, temperature_swing_kelvin=Distribution.of("uniform(-40, 20)"))
    beyond = constants(factor=2.0, vt0=0.1, temperature=420.0, swing=[[0.0, 25.0]])
    with pytest.raises(UserError, match="rises or falls with each of them"):
        rules(distributions=narrow, epoch_edges_years=(0.0, 1.0, 10.0)).history(beyond)


def test_a_model_that_peaks_between_the_bounds_is_refused():
    class Peak(Facelift):
        def stress_per_second(self, vdd_volts, temperature_kelvin, vt0_volts):
            stress = super().stress_per_second(vdd_volts, temperature_kelvin, vt0_volts)
            return stress * np.exp(-(((np.asarray(temperature_kelvin) - 360) / 5) ** 2))

    given = rules(nbti=Peak(**vars(facelift())), distributions=WIDE)
    with pytest.raises(UserError, match="rises or falls with each of them"):
        given.additive_shift(constants(temperature=[359.0]))


def test_lives_without_draws_are_refused_where_instances_differ():
    with pytest.raises(UserError, match=r"temperature_kelvin = uniform\(300.0, 420.0\) differs"):
        lived([steady_trace([ZERO])], "baseline", distributions=WIDE)


# ---- sweeps ------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "life": {"epochs": 4, "temperature_kelvin": "normal(353, 5)", "activity": "uniform(0.5, 1)"},
    "aging": {"vt0_volts": "uniform(0.29, 0.31)", "shift_factor": "discrete(0.9: 0.5, 1.1: 0.5)"},
}


@pytest.fixture(scope="module")
def arrays():
    return small_sweep(**DISTRIBUTIONS).compute(0, 20)


def test_an_instance_draws_the_first_numbers_of_its_own_streams(arrays):
    """As it always has: other numbers would be another sweep of the same spec and seed."""
    distributions = small_sweep(**DISTRIBUTIONS).plan.distributions
    assert tuple(distributions.of_slices) == OF_SLICES
    for name, distribution in distributions.of_slices.items():
        expected = [
            distribution.at(stream(5, f"instance.{name}", number).random()) for number in (12, 3)
        ]
        assert arrays[name][[12, 3]].tolist() == expected, name


OF_ONE_CASE = {"techniques": ["rrcd"], "environments": ["dvfs"]}
SWING = OF_ONE_CASE | {"life": {"epochs": 4, "temperature_swing_kelvin": "normal(0, 10)"}}


def test_swings_are_drawn_for_each_epoch_and_recorded(arrays):
    assert np.array_equal(arrays["temperature_swing_kelvin"], np.zeros((20, 4)))
    sweep = small_sweep(**SWING)
    swung = sweep.compute(0, 20)
    every = sweep.plan.distributions.draw(5, np.arange(4000), 4).temperature_swing_kelvin
    assert np.array_equal(swung["temperature_swing_kelvin"], every[:20])
    assert np.array_equal(
        sweep.plan.distributions.draw(5, np.arange(9), 2).temperature_swing_kelvin, every[:9, :2]
    )
    assert every.std() == pytest.approx(10, rel=0.03)
    assert np.abs(np.corrcoef(every.T) - np.eye(4)).max() < 0.06, "epochs that go together"
    plain = small_sweep(**OF_ONE_CASE).compute(0, 20)
    for name in ("temperature_kelvin", "workload", "faulty_entries_start"):
        assert np.array_equal(plain[name], swung[name]), name
    assert not np.array_equal(plain["max_dvth_mv"], swung["max_dvth_mv"])


def test_other_laws_leave_the_dies_as_they_are(arrays):
    plain = small_sweep().compute(0, 20)
    assert np.array_equal(plain["workload"], arrays["workload"])
    assert np.array_equal(plain["faulty_entries_start"], arrays["faulty_entries_start"])
    assert not np.array_equal(plain["max_dvth_mv"], arrays["max_dvth_mv"])
    for name, value in (("temperature_kelvin", 353.15), ("vt0_volts", 0.3), ("activity", 1.0)):
        assert (plain[name] == value).all()


def test_numbers_replace_those_of_model_and_environment():
    aging = {"vt0_volts": 0.25, "shift_factor": 0.5}
    life = {"epochs": 4, "temperature_kelvin": 330, "activity": 1.0}
    options = {"techniques": ["baseline"], "environments": ["turbo"]}
    arrays = small_sweep(**options, aging=aging, life=life).compute(0, 2)
    shift = MODEL.largest_dvth(NOMINAL, 10 * YEAR, Transistors(0.25, 330, 0.5))
    assert arrays["max_dvth_mv"][0, :, 0] == pytest.approx(1e3 * shift, rel=1e-6)
    assert (arrays["end_cause"] == EndCause.CENSORED).all()


# Joint draws of constants: each instance lives as in a sweep with the constants of its row.

INSTANCES = 9

FACELIFT = {
    "aging.constants.amplitude": (190_000, 200_000, 180_000),
    "aging.constants.eta": (0.35, 0.3, 0.4),
    "aging.constants.activation_energy_ev": (0.13, 0.131, 0.128),
    "aging.constants.vt0_volts": (0.3, 0.28, 0.31),
    "aging.constants.alpha": (1.3, 1.4, 1.2),
    "life.vmin_coefficient": (1.0, 0.7, 0.9),
    "life.delay_guardband": (0.139, 0.12, 0.15),
    "life.temperature_kelvin": (353.15, 343.15, 363.15),
    "life.activity": (1.0, 0.8, 0.9),
    "aging.shift_factor": (1.0, 1.1, 0.9),
}
BHARDWAJ = {
    "aging.constants.scale": (0.0185, 0.02, 0.015),
    "aging.constants.xi1": (0.9, 0.8, 0.95),
    "aging.constants.period_seconds": (0.01, 0.02, 0.005),
    "aging.constants.oxide_thickness_nm": (1.75, 1.7, 1.8),
    "life.vmin_coefficient": (1.0, 0.7, 0.9),
}
FINFET = {
    "aging.constants.xi2": (0.5, 0.4, 0.6),
    "aging.constants.delta": (0.5, 0.4, 0.6),
    "aging.constants.diffusion_seconds_per_nm2": (1e-8, 2e-8, 5e-9),
}
CASES = {
    "facelift": (FACELIFT, {"environments": ["dvfs", "turbo"]}),
    "bhardwaj": (
        BHARDWAJ,
        {
            "techniques": ["rrcd"],
            "environments": ["dvfs"],
            "aging": {"model": "bhardwaj"},
            "life": {"epochs": 3},
        },
    ),
    "finfet": (FINFET, {"environments": ["turbo"], "aging": {"model": "finfet"}}),
    "facelift, whose temperature swings": (
        {"aging.constants.eta": (0.35, 0.3, 0.4), "life.temperature_kelvin": (350, 340, 360)},
        {
            "environments": ["turbo"],
            "life": {"epochs": 3, "temperature_swing_kelvin": "uniform(-5, 5)"},
        },
    ),
    "facelift, whose transistors differ by their luck": (
        {
            "aging.constants.eta": (0.35, 0.3, 0.4),
            "life.vmin_coefficient": (1.0, 0.7, 0.9),
            "life.delay_guardband": (0.139, 0.12, 0.15),
        },
        {
            "techniques": ["rrcd"],
            "environments": ["dvfs", "turbo"],
            "aging": {"nbti_spread_mv": 1.5},
        },
    ),
    "faults of each row": (
        {
            "faults.mu_volts": (0.14, 0.15, 0.13),
            "faults.sigma_random_volts": (0.06, 0.055, 0.062),
            "faults.sigma_systematic_volts": (0.02, 0.03, 0.025),
            "life.vmin_coefficient": (1.0, 0.7, 0.9),
        },
        {"techniques": ["rrcd"], "environments": ["dvfs"]},
    ),
    "facelift, fitted again for each row": (
        {"aging.constants.field_volts_per_nm": (0.2, 0.25, 0.18)},
        {
            "environments": ["dvfs"],
            "aging": {"constants": {"amplitude": "calibrated"}},
            "faults": {"slices_per_chip": 2},
        },
    ),
}


def with_row(fields, columns, row):
    """The fields of a spec with the constants of a row."""
    changed = deepcopy({"life": {"epochs": 4}} | fields)
    for key, values in columns.items():
        *tables, name = key.split(".")
        holder = changed
        for table in tables:
            holder = holder.setdefault(table, {})
        holder[name] = values[row]
    return changed


@pytest.mark.parametrize("name", CASES)
def test_an_instance_lives_with_the_constants_of_its_row(name):
    """To the last bit, whatever floor the other rows ask of the tail of Vmin."""
    columns, fields = CASES[name]
    fields = {"techniques": ["rrcd", "rrcd+rc+rar"]} | fields
    together = small_sweep(**fields, draws={"columns": columns}).compute(0, INSTANCES)
    for row in range(3):
        alone = small_sweep(**with_row(fields, columns, row))
        expected, here = alone.compute(0, INSTANCES), together["draw"] == row
        assert here.any()
        assert np.nanmax(together["max_dvth_mv"][:, here]) > 0
        for variable in alone.header.variables:
            if variable.per_instance:
                arrays = (
                    np.compress(here, each[variable.name], variable.instance_axis)
                    for each in (together, expected)
                )
                np.testing.assert_array_equal(*arrays, err_msg=variable.name)


def test_rows_are_dealt_evenly_and_whatever_the_batch():
    draws = ConstantDraws(7, {}, {}, group_size=3)
    rows = draws.row_of(5, np.arange(3 * 7 * 4))
    assert (np.bincount(rows) == 12).all()
    assert rows[:21:3].tolist() == [6, 1, 0, 5, 3, 2, 4]  # a seed has the same for ever
    assert (rows.reshape(-1, 3) == rows[::3, None]).all()
    assert np.array_equal(draws.row_of(5, np.arange(40, 50)), rows[40:50])
    assert len({tuple(draws.row_of(seed, np.arange(0, 21, 3))) for seed in range(20)}) > 15


def test_a_file_of_draws_goes_on_and_holds_the_table(tmp_path, command):
    """Continued with more instances, it does not need the CSV."""
    table = tmp_path / "draws.csv"
    table.write_text("life.vmin_coefficient,aging.constants.eta\n1,0.3\n0.5,0.40\n0.7,0.35\n\n")
    fields = {
        "techniques": ["rrcd"],
        "environments": ["dvfs"],
        "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
        "life": {"epochs": 1},
    }
    spec = SweepSpec.from_mapping(fields | {"instances": 4, "draws": str(table)})
    path = tmp_path / "results.h5"
    run_sweep(spec, path, "numba")
    table.unlink()
    again = SweepSpec.from_mapping(tomllib.loads(read_header(path).spec_toml) | {"instances": 7})
    run_sweep(again, path, "numba")
    with open_results(path) as results:
        assert sorted(results["draw"].values[:3]) == [0, 1, 2]
        assert list(results["aging.constants.eta"].values) == [0.3, 0.4, 0.35]
        assert results["aging.constants.eta"].dims == ("row",)
    code, out, _ = command("show", path, "--json")
    assert code == 0
    (case,) = json.loads(out)
    assert (case["instances"], case["by_draw"]["draws"]) == (7, 3)
    shift = case["by_draw"]["max_dvth_mv"]
    assert shift["lot"]["value"] > 10
    assert shift["band"] == {"value": None, "lower": None, "upper": None}
