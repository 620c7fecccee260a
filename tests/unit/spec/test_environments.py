"""Environments of one's own: what may be written, what is refused, and lives under them."""

import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from environment_cases import points
from life_cases import MODEL, YEAR, lived, steady_trace
from places import ROOT
from sweep_cases import small_sweep
from tables import each
from typer.testing import CliRunner

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import Transistors
from mcage.aging.sampling import InstanceDistributions, TimeFractionDistributions
from mcage.cli.app import app
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.spec import SweepSpec

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
        (case.environment, case.scenario_vdd_volts) for case in spec.cases({"common": 0.41})
    } == {
        ("phone", 0.41),
        ("nominal", 0.41),
    }


def test_every_number_of_a_point_is_part_of_the_digest():
    tables = [
        points((0.9, 0.3), (0.5,)),
        points((0.91, 0.3), (0.5,)),
        points((0.9, 0.31), (0.5,)),
        points((0.9, 0.3, 5.0), (0.5,)),
        points((0.5, 0.7), (0.9,)),
    ]
    specs = [SweepSpec.from_mapping({"operating_points": {"own": table}}) for table in tables]
    assert len({spec.digest() for spec in (SweepSpec(), *specs)}) == len(tables) + 1


REFUSED = {
    "unknown key 'operating_points.own.0.temperature'": [{"vdd_volts": 0.9, "temperature": 300}],
    "operating_points.own.0.vdd_volts": [{"share": 1.0}],
    "operating_points.own.0.vdd_volts = 0.0: must be a voltage": points((0.0,)),
    "operating_points.own.1.vdd_volts = 2.5: must be a voltage": points((0.9, 0.5), (2.5,)),
    "operating_points.own.0.vdd_volts = 'low': must be a voltage": points(("low",)),
    "operating_points.own.0.vdd_volts = True": points((True,)),
    "operating_points.own.0.share = 1.5: must stay within 0 ... 1": points((0.9, 1.5)),
    "operating_points.own.0.share = 0.0: must be above 0": points((0.9, 0.0), (0.5,)),
    "operating_points.own.0.share = 'uniform(0.0, 0.4)': must be above 0": points(
        (0.9, "uniform(0, 0.4)"), (0.5,)
    ),
    "operating_points.own.0.share = 'often': must be a number": points((0.9, "often")),
    "operating_points.own: shares sum to 0.9, not to 1": points((0.9, 0.4), (0.5, 0.5)),
    "operating_points.own: 2 points leave out their share": points((0.9,), (0.5,)),
    "shares given may sum to 1.1, and leave nothing": points(
        (0.9, "uniform(0.2, 0.6)"), (0.7, 0.5), (0.5,)
    ),
    "operating_points.own: where a share is a distribution, one point must leave": points(
        (0.9, "uniform(0.2, 0.4)"), (0.5, 0.7)
    ),
    "operating_points.own.0.temperature_offset_kelvin = 100: with life.temperature_kelvin and its "
    "swing, the point is at 453.15": points((0.9, None, 100)),
    "operating_points.own.0.temperature_offset_kelvin = 'hot'": points((0.9, None, "hot")),
}


@each("message", REFUSED)
def test_points_that_make_no_sense(message):
    with pytest.raises(UserError) as caught:
        SweepSpec.from_mapping({"operating_points": {"own": REFUSED[message]}}, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@each(
    ("fields", "message"),
    [
        (
            {"operating_points": {"dvfs": points((0.9,))}},
            "operating_points.dvfs: this is the name of a pre",
        ),
        (
            {"operating_points": {"my phone": points((0.9,))}},
            "operating_points.my phone: a name is of",
        ),
        ({"environments": ["phone"]}, "unknown 'phone'; choose from nominal, undervolted, dvfs,"),
        (
            {"environments": ["phon"], "operating_points": {"phone": points((0.9,))}},
            "unknown 'phon'; choose from nominal, undervolted, dvfs, phone",
        ),
        (
            {
                "operating_points": {"own": points((0.9, None, 60.0))},
                "life": {"temperature_kelvin": "uniform(340, 400)"},
            },
            "the point is at 400 ... 460 K",
        ),
        (
            {
                "operating_points": {"own": points((0.9, None, 60.0))},
                "life": {"temperature_kelvin": 380, "temperature_swing_kelvin": "uniform(-5, 15)"},
            },
            "the point is at 435 ... 455 K",
        ),
    ],
)
def test_names_and_temperatures_that_make_no_sense(fields, message):
    with pytest.raises(UserError) as caught:
        SweepSpec.from_mapping(fields)
    assert message in str(caught.value)


@pytest.mark.parametrize("table", [{"phone": points((0.9,))}, {}, "phone"])
def test_the_key_of_old_is_refused_and_the_new_one_named(table):
    with pytest.raises(UserError) as caught:
        SweepSpec.from_mapping({"environments": ["phone"], "environment": table}, "my.toml")
    assert str(caught.value).startswith("my.toml: unknown key 'environment'; give the operating")
    assert "[[operating_points.NAME]]" in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_command_line(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(PHONE)
    run = CliRunner().invoke(
        app, ["sweep", str(path), "--environment", "phone", "--show-spec"], catch_exceptions=False
    )
    shown = tomllib.loads(run.stdout)
    assert shown["environments"] == ["phone"]
    assert shown["operating_points"]["phone"][0]["share"] == "uniform(0.2, 0.4)"


def test_an_environment_that_no_case_names_is_pointed_out(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(PHONE)
    small = [
        "--instances",
        "1",
        "--technique",
        "baseline",
        "--kernel",
        "MatrixTranspose",
        "--generations",
        "1",
    ]
    for name, notes in (("nominal", 1), ("phone", 0)):
        out = ["--environment", name, "--out", str(tmp_path / f"{name}.h5")]
        run = CliRunner().invoke(app, ["sweep", str(path), *small, *out], catch_exceptions=False)
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


def test_no_instance_drifts_beyond_the_extremes():
    distributions = InstanceDistributions(
        Distribution.of("uniform(330, 380)"),
        Distribution.of("uniform(0.28, 0.32)"),
        time_fractions=SHARES,
    )
    conditions = Environment(
        "phone",
        tuple(
            OperatingPoint(vdd, share, 355.0, hotter)
            for vdd, share, hotter in zip(
                (1.0, 0.5, 0.8), SHARES.middle, (30.0, 0.0, 5.0), strict=True
            )
        ),
    )
    bound = MODEL.largest_dvth(conditions, 10 * YEAR, distributions.extremes)
    drawn = distributions.draw(1, np.arange(500))
    shifts = MODEL.dvth_at(conditions, 1.0, 10 * YEAR, drawn.transistors)
    assert shifts.shape == (500,)
    assert shifts.max() <= bound
    assert shifts.max() > 0.85 * bound
    with pytest.raises(UserError, match="shares of environment 'phone' differ"):
        _ = replace(
            distributions, temperature_kelvin=Distribution.of(350.0), vt0_volts=Distribution.of(0.3)
        ).constants


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
    hot, cool = (MODEL.prefactor(vdd, kelvin) ** 4 for vdd, kelvin in [(1.0, 360.0), (0.6, 340.0)])
    shift = ((0.25 * hot + 0.75 * cool) * 10 * YEAR) ** 0.25
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(shift, rel=1e-9)


def test_the_offset_is_added_to_the_temperature_of_each_instance():
    conditions = Environment("own", (OperatingPoint(1.0, 1.0, 353.15, -10.0),))
    plain = Environment("own", (OperatingPoint(1.0, 1.0, 353.15),))
    kelvin = np.array([340.0, 360.0])
    assert MODEL.rates(conditions, Transistors(temperature_kelvin=kelvin)).stress == pytest.approx(
        MODEL.rates(plain, Transistors(temperature_kelvin=kelvin - 10)).stress, rel=1e-14
    )
