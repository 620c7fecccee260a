"""Environments of one's own: what may be written, what is refused, and lives under them."""

import re
import tomllib
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from command_line import invoke
from environment_cases import points
from life_cases import MODEL, YEAR, lived, steady_trace
from nbti_cases import prefactor_of
from places import ROOT
from sweep_cases import SMALL_KERNELS, kernels_of_periods, small_spec, small_sweep
from tables import each

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import Transistors
from mcage.aging.sampling import InstanceDistributions, TimeFractionDistributions
from mcage.distributions import Distribution
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.random import stream
from mcage.spec import SweepSpec
from mcage.spec.workload_mix import canonical_mix, draw_kernels
from mcage.studies.sweep.study import Sweep
from mcage.variation.scenarios import scenario

PAGE = ROOT / "docs" / "aging.md"
(PHONE,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
"""The example of the page."""


def swept(given_points, first=0, last=6, **fields):
    """Arrays of a sweep of two techniques in one environment of one's own."""
    given = {"techniques": ["baseline", "rrcd"], "environments": ["own"]} | fields
    return small_sweep(**given, operating_points={"own": given_points}).compute(first, last)


# ---- the spec ----------------------------------------------------------------------------------


def test_points_there_and_back(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(PHONE)
    spec = SweepSpec.from_toml(path)
    high, low = spec.operating_points["phone"]
    assert (high.vdd_volts, high.share) == (0.9, "uniform(0.2, 0.4)")
    assert high.temperature_offset_kelvin == 15
    assert (low.vdd_volts, low.share, low.temperature_offset_kelvin) == ("scenario", None, 0)
    again = tomllib.loads(spec.to_toml())
    assert again["operating_points"]["phone"][1] == {
        "vdd_volts": "scenario",
        "temperature_offset_kelvin": 0.0,
    }
    path.write_text(spec.to_toml())
    assert SweepSpec.from_toml(path) == spec
    assert {
        (case.environment, case.scenario_vdd_volts)
        for case in spec.cases({"common": scenario("common")})
    } == {("phone", 0.421), ("phone", 0.524), ("turbo", 0.419)}


def own(*given):
    """Keys of a spec with an environment of these points."""
    return {"operating_points": {"own": points(*given)}}


HOT = own((0.9, None, 60.0))
ONE = points((0.9,))
REFUSED = {
    "unknown key 'operating_points.own.0.temperature'": {
        "operating_points": {"own": [{"vdd_volts": 0.9, "temperature": 300}]}
    },
    "operating_points.own.0.vdd_volts": {"operating_points": {"own": [{"share": 1.0}]}},
    "operating_points.own.1.vdd_volts = 2.01: must be a voltage": own((0.9, 0.5), (2.01,)),
    "operating_points.own.0.vdd_volts = 'low': must be a voltage": own(("low",)),
    "operating_points.own.0.share = 1.5: must stay within 0 ... 1": own((0.9, 1.5)),
    "share = 'uniform(0.0, 0.4)': must be above 0": own((0.9, "uniform(0, 0.4)"), (0.5,)),
    "operating_points.own: shares sum to 0.9, not to 1": own((0.9, 0.4), (0.5, 0.5)),
    "operating_points.own: 2 points leave out their share": own((0.9,), (0.5,)),
    "shares given may sum to 1.1, and leave nothing": own(
        (0.9, "uniform(0.2, 0.6)"), (0.7, 0.5), (0.5,)
    ),
    "operating_points.own: where a share is a distribution, one point must leave": own(
        (0.9, "uniform(0.2, 0.4)"), (0.5, 0.7)
    ),
    "operating_points.own.0.temperature_offset_kelvin = 100: with life.temperature_kelvin and its "
    "swing, the point is at 433.15 ... 473.15 K": own((0.9, None, 100)),
    "the point is at 400 ... 460 K": HOT | {"life": {"temperature_kelvin": "uniform(340, 400)"}},
    "the point is at 435 ... 455 K": HOT
    | {"life": {"temperature_kelvin": 380, "temperature_swing_kelvin": "uniform(-5, 15)"}},
    "operating_points.dvfs: this is the name of a pre": {"operating_points": {"dvfs": ONE}},
    "operating_points.my phone: a name is of": {"operating_points": {"my phone": ONE}},
    "unknown 'phon'; choose from turbo, undervolted, dvfs, phone": {
        "environments": ["phon"],
        "operating_points": {"phone": ONE},
    },
}


@each("message", REFUSED)
def test_environments_that_make_no_sense(message):
    with pytest.raises(UserError) as caught:
        SweepSpec.from_mapping(REFUSED[message], "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_key_of_old_is_refused_and_the_new_one_named():
    words = r"^my.toml: unknown key 'environment'; give the .* \[\[operating_points.NAME\]\]"
    with pytest.raises(UserError, match=words):
        SweepSpec.from_mapping({"environment": {"phone": ONE}}, "my.toml")


def test_no_point_above_the_threshold_voltage():
    with pytest.raises(
        UserError, match=r"operating_points\.own: its highest Vdd, 0\.29 V, must exceed"
    ):
        swept(points((0.29, 0.5), (0.25,)))
    with pytest.raises(UserError, match=r"the threshold voltage, 0\.95 V"):
        swept(points((0.9,)), aging={"vt0_volts": "uniform(0.3, 0.95)"})


def test_fault_tables_know_one_voltage():
    table = {"faults": {"mode": "table"}, "techniques": ["rrcd"]}
    with pytest.raises(UserError, match="points of which that is the lowest"):
        swept(points((0.9, 0.5), (0.6,)), **table)
    swept(points((0.9, 0.5), ("scenario",)), **table)


def test_an_environment_that_no_case_names_is_pointed_out(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(PHONE)
    small = {"--instances": 1, "--technique": "baseline", "--kernel": "MatrixTranspose"}
    for name, notes in (("turbo", 1), ("phone", 0)):
        given = small | {"--environment": name, "--out": tmp_path / f"{name}.h5"}
        run = invoke("sweep", path, *chain(*given.items()), catch_exceptions=False)
        assert run.exit_code == 0
        assert run.stderr.count("note: operating_points.phone is given, but") == notes


# ---- distributions of shares --------------------------------------------------------------------

SHARES = TimeFractionDistributions(
    "phone", (Distribution.of("uniform(0.2, 0.4)"), None, Distribution.of("normal(0.3, 0.02)"))
)


def test_shares_follow_their_laws_and_sum_to_one():
    shares = SHARES.draw(3, np.arange(2000))
    assert shares.sum(axis=0) == pytest.approx(1, abs=1e-12)
    for number in (0, 2):
        expected = [SHARES.distributions[number].at((rank + 0.5) / 2000) for rank in range(2000)]
        low, high = SHARES.distributions[number].bounds
        off = np.abs(np.sort(shares[number]) - expected).mean() / (high - low)
        assert off < 0.02  # 0.009 on the mean; one false alarm in 10,000
    assert abs(np.corrcoef(shares[[0, 2]])[0, 1]) < 0.09  # four deviations
    assert np.array_equal(SHARES.draw(3, np.array([1500, 7])), shares[:, [1500, 7]])
    other = replace(SHARES, environment="tablet").draw(3, np.arange(2000))
    assert not np.array_equal(other, shares)
    assert SHARES.middle == pytest.approx((0.3, 0.4, 0.3))


def test_extremes_are_at_all_bounds():
    result = {tuple(corner) for corner in SHARES.extremes.T.round(9).tolist()}
    assert result == {(0.2, 0.58, 0.22), (0.2, 0.42, 0.38), (0.4, 0.38, 0.22), (0.4, 0.22, 0.38)}


def test_extremes_of_instances_are_at_all_bounds_together():
    kelvin, volts = (330.0, 380.0), (0.28, 0.32)
    laws = (Distribution.of("uniform(330, 380)"), Distribution.of("uniform(0.28, 0.32)"))
    extremes = InstanceDistributions(*laws, time_fractions=SHARES).extremes
    columns = extremes.vt0_volts, extremes.temperature_kelvin, *extremes.time_fractions.round(9)
    shares = SHARES.extremes.T.round(9).tolist()
    expected = {(vt0, hot, *of) for vt0 in volts for hot in kelvin for of in shares}
    assert set(zip(*columns, strict=True)) == expected
    constant = (Distribution.of(350.0), Distribution.of(0.3))
    with pytest.raises(UserError, match="shares of environment 'phone' differ"):
        _ = InstanceDistributions(*constant, time_fractions=SHARES).constants


# ---- lives -------------------------------------------------------------------------------------


def test_a_point_hotter_than_another():
    """One point at 1.0 V, 20 K above the slice: the shift of a slice that is so hot throughout."""
    conditions = Environment(
        "own", (OperatingPoint(1.0, 0.25, 340.0, 20.0), OperatingPoint(0.6, 0.75, 340.0))
    )
    distributions = InstanceDistributions.nominal(MODEL, 340.0)
    life = lived(
        [steady_trace([np.zeros(64, dtype=np.uint32)])],
        "baseline",
        environment=conditions,
        distributions=distributions,
    )
    hot, cool = (
        prefactor_of(MODEL, vdd, kelvin) ** 4 for vdd, kelvin in [(1.0, 360.0), (0.6, 340.0)]
    )
    shift = ((0.25 * hot + 0.75 * cool) * 10 * YEAR) ** 0.25
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(shift, rel=1e-9)


def test_the_offset_is_added_to_the_temperature_of_each_instance():
    conditions = Environment("own", (OperatingPoint(1.0, 1.0, 353.15, -10.0),))
    plain = Environment("own", (OperatingPoint(1.0, 1.0, 353.15),))
    kelvin = np.array([340.0, 360.0])
    assert MODEL.rates(conditions, Transistors(temperature_kelvin=kelvin)).stress == pytest.approx(
        MODEL.rates(plain, Transistors(temperature_kelvin=kelvin - 10)).stress, rel=1e-14
    )


# Workload mixes: how often each kernel runs, and for whom.

KERNELS = ("a", "b", "c")
MANY = np.arange(3000)


def drawn(mix, periods=4, instances=MANY, seed=1):
    return draw_kernels(canonical_mix(mix), seed, instances, KERNELS, periods)


def shares(kernels):
    return np.bincount(kernels.ravel(), minlength=3) / kernels.size


def test_uniform_is_what_sweeps_have_always_drawn():
    workload = {"kernels": list(SMALL_KERNELS), "schedule": "sequential", "periods": 3}
    plain = small_spec(workload=workload)
    assert plain.workload.mix == "uniform"
    drawn_before = [
        stream(5, "workload", instance).integers(3, size=3).tolist() for instance in range(9)
    ]
    assert kernels_of_periods(plain, np.arange(9)).tolist() == drawn_before
    assert shares(drawn("uniform")) == pytest.approx(1 / 3, abs=0.02)


def test_kernels_by_chance_are_those_of_the_streams():
    """To the last bit, whether chances are given or of the instance."""
    weights, tastes = drawn({"b": 1, "c": 7, "a": 2}), drawn("dirichlet(0.5)")
    for instance in range(0, 3000, 100):
        numbers = stream(1, "workload", instance).random(4)
        assert weights[instance].tolist() == np.searchsorted([0.2, 0.3], numbers).tolist()
        taste = stream(1, "workload.taste", instance).dirichlet(np.full(3, 0.5))
        expected = np.searchsorted(np.cumsum(taste)[:-1], numbers, side="right")
        assert tastes[instance].tolist() == expected.tolist()


def test_one_kernel_for_life():
    kernels = drawn("one")
    assert (kernels == kernels[:, :1]).all()
    assert shares(kernels) == pytest.approx(1 / 3, abs=0.04)
    assert np.array_equal(kernels[:, :1], drawn("uniform", periods=1))


@pytest.mark.parametrize("mix", ["uniform", "one", "dirichlet(0.5)", {"a": 1, "b": 2, "c": 3}])
def test_an_instance_does_not_depend_on_the_others(mix):
    several = np.array([17, 4, 2999])
    assert np.array_equal(drawn(mix, instances=several), drawn(mix)[several])
    assert not np.array_equal(drawn(mix, seed=2), drawn(mix))


@each(
    ("mix", "words"),
    [
        (3, "must be uniform, one"),
        ("uniform(1)", "must be uniform, one"),
        ("dirichlet(0)", "alpha = 0 must be 0.01 ... 1000"),
        ("dirichlet(a)", "'a' is no number"),
        ("weights(a)", "each kernel once, with its weight"),
        ("weights(a: 0)", "weight 0.0 of a must be a number above 0"),
        ("weights(a: 1, a: 2)", "each kernel once"),
        ({"a": -1}, "weight -1 of a"),
        ({"a": "1"}, "weight '1' of a"),
        ({}, "needs a weight"),
    ],
)
def test_what_is_no_mix(mix, words):
    with pytest.raises(UserError, match=r"^my.toml: workload.mix = ") as refused:
        SweepSpec.from_mapping({"workload": {"mix": mix}}, "my.toml")
    assert words in str(refused.value)


def test_weights_and_kernels_name_each_other():
    first, second, third = SMALL_KERNELS
    kernels = {"kernels": [first, second], "schedule": "sequential", "periods": 1}
    for mix, words in [
        ({first: 1, second: 1, third: 1}, f"'{third}' is no kernel of this sweep"),
        ({first: 1}, f"no weight for '{second}'"),
    ]:
        with pytest.raises(UserError, match=words):
            small_sweep(workload={**kernels, "mix": mix})
    twice = {"kernels": [second, first, second]}
    for mix in ("uniform", {first: 1, second: 1}):
        with pytest.raises(UserError, match=f"workload.kernels: names '{second}' twice"):
            small_sweep(workload={**kernels, **twice, "mix": mix})
    weighted = small_spec(workload={**kernels, "mix": {first: 9, second: 1}})
    assert shares(kernels_of_periods(weighted, MANY))[0] == pytest.approx(0.9, abs=0.02)
    assert SweepSpec.from_mapping({}).workload.mix == "dirichlet(1.0)"


# Joint draws of constants: what a table of them says, and how a bad one is refused.

GOOD = "life.temperature_kelvin, aging.constants.eta\n340,0.3\n350.0,3.5e-1\n"

BAD_FILES = {
    "aging.eta\n1\n": "draws.csv: 'aging.eta' is no constant that can be drawn",
    "aging.constants.\n1\n": "draws.csv: 'aging.constants.' is no constant",
    "aging.model\n1\n": "draws.csv: aging.model cannot be drawn: instances",
    "aging.constants.time_exponent\n1\n": "time_exponent cannot be drawn: the exponent",
    "life.activity\n1\nmuch\n": "draws.csv: line 3: life.activity = 'much' must be a finite number",
    "life.activity\n1\n1.5\n": "line 3: life.activity = 1.5: must stay within 0.001 ... 1 of",
    "life.vmin_coefficient\n-1\n": "line 2: life.vmin_coefficient = -1.0: input should be greater",
    "aging.vt0_volts,aging.constants.vt0_volts\n0.3,0.3\n": "give one of them",
    "life.activity\n" + "1\n" * 10_001: "line 10002: more than 10,000 rows",
}

BAD_MODELS = {
    "aging.constants.eta\n0.3\n1.5\n": "line 3: aging.constants.eta = 1.5: must be 0 ... 1",
    "aging.constants.xi1\n0.3\n": "line 2: aging.constants.xi1: NBTI model 'facelift' has no such",
    "faults.mu_volts\n0.14\n0.5\n": r"draws.csv: line 3: vdd = 0.\d+ V: every entry of a slice",
    "faults.sigma_random_volts\n-1\n": "line 2: scenario 'common': sigma_random_volts = -1",
    "aging.constants.vt0_volts\n1.0\n": "must exceed|must stay below|threshold",
}

BAD_SPECS = (
    (
        {"life": {"temperature_kelvin": 340.0}},
        "life.temperature_kelvin is drawn, and the spec",
    ),
    ({"aging": {"constants": {"eta": 0.3}}}, "aging.constants.eta is drawn, and the spec gives it"),
    ({"life": {"temperature_swing_kelvin": 120.0}}, "they add up to 460 ... 470 K"),
)


@pytest.fixture
def file_of(tmp_path):
    """Makes the file draws.csv of a text."""

    def write(text):
        path = tmp_path / "draws.csv"
        path.write_text(text)
        return str(path)

    return write


def test_values_count_and_not_the_file(file_of, tmp_path):
    first = SweepSpec.from_mapping({"draws": file_of(GOOD)})
    assert first.draws.columns == {
        "life.temperature_kelvin": (340, 350),
        "aging.constants.eta": (0.3, 0.35),
    }
    other = tmp_path / "other.csv"
    other.write_bytes(
        b"\xef\xbb\xbfaging.constants.eta,life.temperature_kelvin\r\n.3,340\r\n.35,350"
    )
    assert SweepSpec.from_mapping({"draws": str(other)}).digest() == first.digest()
    assert "draws.csv" not in first.to_toml()
    assert first.digest() != SweepSpec().digest()
    changed = SweepSpec.from_mapping({"draws": file_of(GOOD.replace("0.3", "0.31"))})
    assert changed.digest() != first.digest()


@each("text", BAD_FILES)
def test_bad_files_are_refused(file_of, text):
    with pytest.raises(UserError, match=re.escape(BAD_FILES[text])) as refused:
        SweepSpec.from_mapping({"draws": file_of(text)})
    assert "\n" not in str(refused.value)


@each("text", BAD_MODELS)
def test_constants_that_the_model_refuses(file_of, text):
    spec = SweepSpec.from_mapping({"draws": file_of(text), "techniques": ["baseline"]})
    with pytest.raises(UserError, match=BAD_MODELS[text]):
        Sweep(spec, *select_engine("numpy"))


@each(("fields", "message"), BAD_SPECS)
def test_a_spec_that_contradicts_its_draws(file_of, fields, message):
    with pytest.raises(UserError, match=re.escape(message)):
        SweepSpec.from_mapping(fields | {"draws": file_of(GOOD)})


def test_a_spec_without_a_file():
    ragged = {"columns": {"life.activity": [1.0], "aging.shift_factor": [1.0, 2.0]}}
    for columns, message in (
        (ragged, "columns of 1 and of 2 values"),
        ({"columns": {"faults": [1.0]}}, "'faults' is no constant"),
        ("nowhere.csv", "nowhere.csv: cannot read the table"),
        ({"columns": {"life.activity": [0.5, 2.0]}}, "draws.columns: row 1: life.activity = 2.0"),
    ):
        with pytest.raises(UserError, match=message):
            SweepSpec.from_mapping({"draws": columns})


def test_a_constant_that_nothing_uses(file_of):
    fields = {"draws": file_of("life.vmin_coefficient\n0.5\n"), "faults": {"mode": "table"}}
    with pytest.raises(UserError, match=r"life\.vmin_coefficient = 'drawn': faults of mode"):
        SweepSpec.from_mapping(fields).refuse_unused()
