"""The shipped constants, and scenarios that cannot be meant."""

import dataclasses

import pytest
from tables import each

from mcage.errors import UserError
from mcage.variation.scenarios import SCENARIOS, ArraySize, Scenario, constants, scenario


def test_shipped_scenarios_are_the_listed_ones() -> None:
    assert tuple(constants()["scenario"]) == SCENARIOS


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("common", (0.419, 0.1463, 0.0138, 0.0828, (0.34, 0.33, 0.20, 0.10, 0.03))),
        ("clustered", (0.497, 0.3583, 0.0233, 0.0382, (0.43, 0.20, 0.12, 0.10, 0.15))),
        ("dispersed", (0.371, 0.0363, 0.0, 0.1044, (0.26, 0.35, 0.23, 0.12, 0.04))),
    ],
)
def test_constants(name: str, values: tuple[object, ...]) -> None:
    this = scenario(name)
    assert (
        this.vdd_volts,
        this.mu_volts,
        this.sigma_systematic_volts,
        this.sigma_random_volts,
        this.table_shares,
    ) == values
    assert (this.phi, this.node_rows, this.node_columns) == (0.5, 32, 16)
    assert (this.segments, this.segment_bits) == (4096, 128)
    assert this.sigma_die_volts == 0.0  # no source gives a number


def test_every_constant_says_where_it_comes_from() -> None:
    groups = [constants()["grid"], *constants()["scenario"].values()]
    entries = [entry for group in groups for entry in group.values()]
    assert len(entries) == 3 + 4 * 6  # measured has arrays in place of a table
    for entry in entries:
        assert set(entry) == {"value", "status", "source"}
        assert entry["status"] in {"printed", "reconstructed", "assumed"}
        assert len(entry["source"]) > 10


def test_unknown_scenario() -> None:
    with pytest.raises(UserError, match=r"'Common'.*common, clustered, dispersed, measured"):
        scenario("Common")


@each(
    ("key", "value"),
    [
        ("vdd_volts", 419.0),
        ("vdd_volts", float("nan")),
        ("mu_volts", float("inf")),
        ("sigma_die_volts", -0.001),
        ("sigma_die_volts", float("nan")),
        ("sigma_systematic_volts", -0.001),
        ("sigma_random_volts", 0.0),
        ("phi", 0.0),
        ("phi", float("inf")),
        ("table_shares", (0.5, 0.5)),
        ("table_shares", (34.0, 33.0, 20.0, 10.0, 3.0)),
        ("table_shares", (1.2, -0.2, 0.0, 0.0, 0.0)),
        ("node_rows", 0),
        ("node_rows", 33),
        ("node_columns", 4),
        ("arrays", ArraySize(100, 128)),
        ("arrays", ArraySize(128, 64)),  # half a node
    ],
)
def test_impossible_values(key: str, value: object) -> None:
    changes: dict[str, object] = {key: value}
    with pytest.raises(UserError, match=f"scenario 'common': {key} = .*expected"):
        dataclasses.replace(scenario("common"), **changes)  # type: ignore[arg-type]


def test_measured_has_arrays_of_the_size_of_a_block_ram() -> None:
    this = scenario("measured")
    assert this.arrays == ArraySize.of("128x128")
    assert this.arrays.entries * this.arrays.bits == 16384
    assert this.table_shares == ()
    assert (this.node_rows, this.node_columns) == (32, 16)
    assert scenario("common").arrays is None


@pytest.mark.parametrize(
    ("size", "rows", "columns"), [("256x64", 32, 32), ("4x2048", 64, 16), ("64x256", 32, 16)]
)
def test_arrays_are_whole_nodes(size: str, rows: int, columns: int) -> None:
    this = scenario("common").in_arrays(ArraySize.of(size))
    assert (str(this.arrays), this.node_rows, this.node_columns) == (size, rows, columns)


@pytest.mark.parametrize("text", ["128", "128x", "x128", "0x128", "128 x 128", "-1x4", "many"])
def test_sizes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match=r"arrays = .*, expected ENTRIESxBITS"):
        ArraySize.of(text)


def test_own_scenario() -> None:
    own = dataclasses.replace(scenario("common"), name="mine", mu_volts=0.2)
    assert isinstance(own, Scenario)
    assert scenario("common").mu_volts == 0.1463
