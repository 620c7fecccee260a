"""Environments: the presets, and what is refused."""

import math

import pytest

from mcage.aging.environment import PRESETS, Environment, OperatingPoint, environment
from mcage.errors import UserError


def points(name: str, vdd_volts: float) -> list[tuple[float, float, float]]:
    return [
        (point.vdd_volts, point.time_fraction, point.temperature_kelvin)
        for point in environment(name, vdd_volts).points
    ]


def test_presets():
    assert points("nominal", 0.419) == [(1.0, 1.0, 353.15)]
    assert points("undervolted", 0.419) == [(0.419, 1.0, 353.15)]
    assert points("dvfs", 0.419) == [(0.8, 0.5, 353.15), (0.419, 0.5, 353.15)]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_take_the_temperature_everywhere(name):
    chosen = environment(name, 0.419, temperature_kelvin=333.15)
    assert {point.temperature_kelvin for point in chosen.points} == {333.15}


def test_faults_are_judged_at_the_lowest_and_delay_at_the_highest_vdd():
    dvfs = environment("dvfs", 0.419)
    assert (dvfs.lowest_vdd_volts, dvfs.highest_vdd_volts) == (0.419, 0.8)
    nominal = environment("nominal", 0.419)
    assert (nominal.lowest_vdd_volts, nominal.highest_vdd_volts) == (1.0, 1.0)


def test_environments_are_values():
    assert environment("dvfs", 0.45) == environment("dvfs", 0.45)
    assert len({environment("dvfs", 0.45), environment("dvfs", 0.45)}) == 1


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match=r"'turbo'.*nominal, undervolted, dvfs"):
        environment("turbo", 0.419)


@pytest.mark.parametrize("vdd_volts", [0.0, -0.4, 419.0, math.nan])
def test_impossible_voltages(vdd_volts):
    for name in PRESETS:
        with pytest.raises(UserError, match="vdd_volts"):
            environment(name, vdd_volts)


@pytest.mark.parametrize("temperature_kelvin", [80.0, 0.0, 1000.0, math.nan])
def test_impossible_temperatures(temperature_kelvin):
    with pytest.raises(UserError, match="kelvin"):
        environment("nominal", 0.419, temperature_kelvin)


def test_dvfs_does_not_turn_its_low_point_into_the_high_one():
    assert environment("dvfs", 0.8).highest_vdd_volts == 0.8
    with pytest.raises(UserError, match=r"0\.9 V.*0\.8 V"):
        environment("dvfs", 0.9)


@pytest.mark.parametrize("shares", [(0.5, 0.4), (0.5, 0.6), (1.0, 1.0)])
def test_shares_must_sum_to_one(shares):
    with pytest.raises(UserError, match=r"'mine'.*not to 1"):
        Environment("mine", tuple(OperatingPoint(0.8, share, 353.15) for share in shares))


def test_shares_may_carry_rounding():
    Environment("mine", tuple(OperatingPoint(0.5 + 0.01 * i, 0.1, 353.15) for i in range(10)))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, math.nan])
def test_impossible_shares(share):
    with pytest.raises(UserError, match="time_fraction"):
        OperatingPoint(0.8, share, 353.15)


def test_an_environment_needs_a_point():
    with pytest.raises(UserError, match="at least one"):
        Environment("mine", ())
