"""The thermal network and its floorplan."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_cases import vectors

from mcage.errors import UserError
from mcage.gpu.chip import gpu
from mcage.gpu.thermal.floorplan import Floorplan
from mcage.gpu.thermal.network import ThermalNetwork

NETWORK = gpu("gtx580").network
SQUARE = {"a": (0.0, 0.0, 0.01, 0.01), "b": (0.01, 0.0, 0.01, 0.01)}


@pytest.mark.parametrize("case", ["all-on", "four-on", "10W-in-SM3"])
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


def test_time_constants_are_those_of_sink_spreader_and_die():
    constants = NETWORK.time_constants_s
    assert constants[0] == pytest.approx(8.1, abs=0.1)
    assert (np.diff(constants) <= 0).all()
    assert 0.5e-3 < np.median(constants) < 30e-3


@pytest.mark.parametrize(
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
    small = replace(NETWORK.package, sink_side_m=0.02)
    with pytest.raises(UserError, match="a sink of 20 mm"):
        ThermalNetwork(Floorplan(SQUARE), small)


def test_symmetric_floorplans_have_symmetric_temperatures():
    network = ThermalNetwork(Floorplan(SQUARE), NETWORK.package)
    first, second = network.steady([5.0, 1.0]), network.steady([1.0, 5.0])
    np.testing.assert_allclose(first, second[::-1])
    assert first[0] > first[1]
