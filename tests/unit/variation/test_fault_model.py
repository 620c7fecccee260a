"""Table modes, error-correcting pointers, and the fault model that joins them."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from tables import each

from mcage.errors import UserError
from mcage.geometry import NVIDIA, SliceGeometry
from mcage.protection.policy import ECP, Protection
from mcage.variation.fault_models import (
    EntryFaults,
    FaultModel,
    NewSlices,
    class_shares,
    exact_counts,
    fault_map,
    fault_model,
    faulty_bits,
    sample_table,
)
from mcage.variation.scenarios import (
    MODES,
    PUBLISHED,
    SCENARIOS,
    ArraySize,
    Manufactured,
    constants,
    on_cell,
    scenario,
)
from mcage.variation.vmin_tail import TailCells, expected_classes, sample_tail


def all_of(cells: TailCells) -> np.ndarray:
    return np.ones(len(cells.cell), bool)


@each(
    ("name", "counts"),
    [  # by hand: 256 * 0.34 = 87.04, 84.48, 51.20, 25.60, 7.68; the two left go to .68 and .60
        ("common", [87, 84, 51, 26, 8]),
        ("clustered", [110, 51, 31, 26, 38]),  # 110.08, 51.20, 30.72, 25.60, 38.40
        ("dispersed", [66, 90, 59, 31, 10]),  # 66.56, 89.60, 58.88, 30.72, 10.24
    ],
)
def test_exact_table(name: str, counts: list[int]) -> None:
    cells = sample_table(scenario(name), 1, np.arange(20), exact=True)
    bits = faulty_bits(cells, all_of(cells))
    assert exact_counts(scenario(name).table_shares, 256).tolist() == counts
    for one in bits:
        assert np.bincount(one).tolist() == counts
    assert not np.array_equal(bits[0], bits[1])
    # No entry is preferred: mean bits of each entry, 4.4 standard errors of 256 entries.
    assert abs(np.diff(bits.mean(axis=0)[:2])) < 4.4 * bits.std() * np.sqrt(2 / 20)


@each("name", PUBLISHED)
def test_drawn_table(name: str) -> None:
    """Classes, blocks and bits against their distributions; four tests a scenario at p > 1e-5."""
    cells = sample_table(scenario(name), 3, np.arange(300), exact=False)
    bits = faulty_bits(cells, all_of(cells))
    expected = np.array(scenario(name).table_shares) * bits.size
    assert stats.chisquare(np.bincount(bits.ravel()), expected).pvalue > 1e-5
    assert len(np.unique(class_shares(bits), axis=0)) > 200
    assert stats.chisquare(np.bincount(cells.block, minlength=4)).pvalue > 1e-5
    assert stats.chisquare(np.bincount(cells.cell % 512, minlength=512)).pvalue > 1e-5
    assert np.all(np.isinf(cells.vmin_volts))


@each("exact", [True, False])
def test_table_puts_every_bit_in_a_block_of_its_own(exact: bool) -> None:
    cells = sample_table(scenario("clustered"), 4, np.arange(30), exact)
    assert np.all(np.diff(cells.cell)[np.diff(cells.instance) == 0] > 0)
    bits = faulty_bits(cells, all_of(cells))
    unusable = np.bitwise_count(fault_map(cells, all_of(cells)))
    np.testing.assert_array_equal(unusable, np.where(bits >= 2, bits, 0))
    pairs = fault_map(cells, all_of(cells))[bits == 2]
    found = np.unique(pairs, return_counts=True)[1]
    assert len(found) == 6
    assert stats.chisquare(found).pvalue > 1e-5


@each("mode", MODES)
def test_instance_does_not_depend_on_its_batch(mode: str) -> None:
    model = FaultModel(scenario("common"), mode)
    whole = model.sample(1, np.arange(5), 0.419)
    alone = model.sample(1, np.array([3]), 0.419)
    np.testing.assert_array_equal(alone.cell, whole.cell[slice(*whole.offsets[3:5])])


# Two instances by hand: entry 0 one bit; entry 2 two bits in block 1; entry 255 bits in blocks
# 0 and 3, and a third that is not faulty; in the second instance entry 2 five bits in blocks 2, 3.
BIT = np.array([7, 512, 1023, 0, 1000, 2047, 1024, 1025, 1026, 1536, 1537])
ENTRY = np.array([0, 2, 2, 255, 255, 255, 2, 2, 2, 2, 2])
SPREAD = ECP.spread(True)
HAND = TailCells(np.array([0, 6, 11]), (ENTRY * 2048 + BIT).astype(np.int32), np.full(11, np.inf))
HAND_FAULTY = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1], bool)


def test_faulty_bits_by_hand() -> None:
    assert HAND.instances == 2
    assert HAND.instance.tolist() == [0] * 6 + [1] * 5
    assert HAND.entry.tolist() == ENTRY.tolist()
    assert HAND.slice_entry.tolist() == (256 * HAND.instance + ENTRY).tolist()
    assert HAND.block.tolist() == [0, 1, 1, 0, 1, 3, 2, 2, 2, 3, 3]
    bits = faulty_bits(HAND, HAND_FAULTY)
    assert bits.dtype == np.int16
    assert bits.shape == (2, 256)
    assert bits[0, [0, 1, 2, 255]].tolist() == [1, 0, 2, 2]
    assert bits[1, [0, 2]].tolist() == [0, 5]
    np.testing.assert_allclose(class_shares(bits) * 256, [[253, 1, 2, 0, 0], [255, 0, 0, 0, 1]])


@each(("given", "in_entry_2"), [(ECP, (0b0010, 0b1100)), (SPREAD, (0b0011, 0b1111))])
def test_fault_map_by_hand(given: Protection, in_entry_2: tuple[int, int]) -> None:
    """Blocks with faulty bits; spread, the lowest others besides: Min(i, 4) blocks of i bits."""
    expected = np.zeros((2, 256), np.uint8)
    expected[:, 2] = in_entry_2
    expected[0, 255] = 0b1001
    blocks = fault_map(HAND, HAND_FAULTY, given)
    assert blocks.dtype == np.uint8
    np.testing.assert_array_equal(blocks, expected)


@each("given", [ECP, SPREAD])
def test_faults_that_come_later_are_added(given: Protection) -> None:
    """In any number of steps, for all instances or for some."""
    cells = sample_tail(scenario("common"), 1, np.arange(6), 0.40)
    step = np.random.default_rng(2).integers(3, size=len(cells.cell))
    faults = EntryFaults.none(6, given)
    for one in range(3):
        earlier, faults = faults, faults.more(cells, step == one)
        expected = fault_map(cells, step <= one, given)
        np.testing.assert_array_equal(faults.maps, expected)
        np.testing.assert_array_equal(faults.bits, faulty_bits(cells, step <= one))
    some = np.array([1, 4])
    places = np.flatnonzero(np.isin(cells.instance, some) & (step == 2))
    before = earlier.of(np.arange(6))
    of_some = earlier.of(some).more(cells.at(places, some), np.ones(len(places), bool))
    np.testing.assert_array_equal(of_some.maps, expected[some])
    np.testing.assert_array_equal(earlier.maps_with(cells, step == 2), expected)
    for name in ("bits", "blocks", "maps"):  # what was before stays as it was
        np.testing.assert_array_equal(getattr(earlier, name), getattr(before, name))
    earlier.keep(some, of_some)
    np.testing.assert_array_equal(earlier.maps[some], expected[some])
    np.testing.assert_array_equal(earlier.maps[0], before.maps[0])


@each("given", [ECP, SPREAD])
def test_new_slices_have_their_faults_apart(given: Protection) -> None:
    cells = sample_tail(scenario("common"), 1, np.arange(6), 0.40)
    faulty = cells.vmin_volts > 0.419
    new = NewSlices.at(0.419, cells, given)
    assert len(new) == 6
    np.testing.assert_array_equal(new.faults.maps, fault_map(cells, faulty, given))
    np.testing.assert_array_equal(new.faults.bits, faulty_bits(cells, faulty))
    assert 0 < len(new.tail.cell) == (~faulty).sum()
    np.testing.assert_array_equal(new.tail.vmin_volts, cells.vmin_volts[~faulty])
    np.testing.assert_array_equal(new.tail.slice_entry, cells.slice_entry[~faulty])


@each("mode", ["table", "table-exact"])
def test_table_speaks_about_its_own_vdd_only(mode: str) -> None:
    model = FaultModel(scenario("common"), mode)
    assert FaultModel(scenario("common")).grows
    assert not model.grows
    model.check_vdd(0.419)
    for ask in (lambda: model.check_vdd(0.418), lambda: model.sample(1, np.arange(1), 0.45)):
        with pytest.raises(UserError, match=rf"mode {mode} knows scenario common at 0.419 V only"):
            ask()
    assert len(model.sample(1, np.arange(1), 0.35).cell) > 100


EIGHT = on_cell(scenario("common"), "8t")


@each(
    ("made", "message"),
    [
        (lambda: scenario("Common"), "'Common'.*common, clustered, dispersed, measured"),
        (lambda: dataclasses.replace(EIGHT, vdd_volts=2.1), "= 2.1, expected 0 < volts <= 2"),
        (lambda: FaultModel(scenario("common"), "Table"), "'Table'.*varius, table, table-exact"),
        (lambda: FaultModel(scenario("common")).check_vdd(0.3), "every entry"),
        *(
            (lambda of=of, mode=mode: fault_model(of, mode), f"{mode}: no table .*{word}")
            for mode in ("table", "table-exact")
            for of, word in (("measured", "measured"), (EIGHT, "of 8T cells"))
        ),
        (lambda: on_cell(scenario("common"), "8t", "larger"), "'larger': no table of 8T cells"),
        (lambda: fault_model("measured", phi=0.2), r"= 0.2: arrays \(128x128 in scenario meas"),
        (lambda: fault_model("common", "table", arrays="64x64"), "= 64x64: mode table takes"),
        (lambda: fault_model("common", arrays="96x128"), "= 96x128, expected arrays that divide"),
        *(
            (lambda text=text: ArraySize.of(text), "arrays = .*, expected ENTRIESxBITS")
            for text in ("128", "128x", "x128", "0x128", "128 x 128", "-1x4", "many")
        ),
    ],
)
def test_models_that_cannot_be_meant(made, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made()


@each("name", SCENARIOS)
def test_an_8t_cell_keeps_the_rank_of_the_6t_cell(name: str) -> None:
    """The same cells are weak, and the one that just works as a 6T cell lies by the shift off."""
    six = scenario(name)
    vdd, moved = six.vdd_volts, Manufactured(-0.04, 0.5).of(six)
    # At floors that belong together: 20 mV below the Vdd, and 40 + 20 / 2 mV.
    before = sample_tail(six, 3, np.arange(2), vdd - 0.02)
    after = sample_tail(moved, 3, np.arange(2), vdd - 0.05)
    assert np.array_equal(before.cell, after.cell)
    assert len(after.cell) > 500
    expected = vdd - 0.04 + 0.5 * (before.vmin_volts - vdd)
    np.testing.assert_allclose(after.vmin_volts, expected, atol=1e-9)
    assert Manufactured(0.0, 1.0).of(six).mu_volts == pytest.approx(six.mu_volts)


def test_scenarios_of_8t_cells() -> None:
    six, eight = scenario("common"), EIGHT
    assert on_cell(six, None) is on_cell(six, "6t") is six
    assert (eight.vdd_volts, eight.working_vdd_volts) == (six.vdd_volts, six.working_vdd_volts)
    # What is given holds as it is; the rest is that of the cell.
    given = fault_model(eight, mu_volts=0.2, sigma_random_volts=0.05).scenario
    assert (given.mu_volts, given.sigma_random_volts) == (0.2, 0.05)
    assert given.sigma_systematic_volts == eight.sigma_systematic_volts
    assert 0 < eight.sigma_systematic_volts < six.sigma_systematic_volts
    # A slower clock never makes a cell worse.
    names = ("margins-low", "margins", "margins-high")
    at_vdd = [expected_classes(on_cell(six, "8t", name), 0.419)[0] for name in names]
    assert at_vdd == sorted(at_vdd, reverse=True)
    assert at_vdd[2] == pytest.approx(expected_classes(six, 0.419)[0], abs=0.02)


# The shipped constants, and scenarios that cannot be meant.


@each(
    ("name", "values"),
    [
        ("common", (0.419, 0.1463, 0.0138, 0.0828, (0.34, 0.33, 0.20, 0.10, 0.03))),
        ("clustered", (0.497, 0.3583, 0.0233, 0.0382, (0.43, 0.20, 0.12, 0.10, 0.15))),
        ("dispersed", (0.371, 0.0363, 0.0, 0.1044, (0.26, 0.35, 0.23, 0.12, 0.04))),
    ],
)
def test_constants(name: str, values: tuple[object, ...]) -> None:
    this = scenario(name)
    sigmas = this.sigma_systematic_volts, this.sigma_random_volts
    assert (this.vdd_volts, this.mu_volts, *sigmas, this.table_shares) == values
    assert (this.phi, this.node_rows, this.node_columns, this.arrays) == (0.5, 32, 16, None)
    assert (this.segments, this.segment_bits) == (4096, 128)
    assert this.sigma_die_volts == 0.0  # no source gives a number


def test_every_constant_says_where_it_comes_from() -> None:
    assert tuple(constants()["scenario"]) == SCENARIOS
    groups = [constants()["grid"], *constants()["scenario"].values()]
    entries = [entry for group in groups for entry in group.values()]
    assert len(entries) == 3 + 4 * 7  # measured has arrays in place of a table
    for entry in entries:
        assert set(entry) == {"value", "status", "source"}
        assert entry["status"] in {"printed", "reconstructed", "assumed"}
        assert len(entry["source"]) > 10


@each(
    ("key", "values"),
    [
        ("vdd_volts", (419.0, float("nan"))),
        ("mu_volts", (float("inf"),)),
        ("sigma_die_volts", (-0.001, float("nan"))),
        ("sigma_systematic_volts", (-0.001,)),
        ("sigma_random_volts", (0.0,)),
        ("phi", (0.0, float("inf"))),
        ("table_shares", ((0.5, 0.5), (34.0, 33.0, 20.0, 10.0, 3.0), (1.2, -0.2, 0.0, 0.0, 0.0))),
        ("node_rows", (0, 33)),
        ("node_columns", (4,)),
        ("arrays", (ArraySize(100, 128), ArraySize(128, 64))),  # half a node
    ],
)
def test_impossible_values(key: str, values: tuple[object, ...]) -> None:
    for value in values:
        with pytest.raises(UserError, match=f"scenario 'common': {key} = .*expected"):
            dataclasses.replace(scenario("common"), **{key: value})


@each(
    ("size", "rows", "columns"),
    [("256x64", 32, 32), ("4x2048", 64, 16), ("64x256", 32, 16), ("128x128", 32, 16)],
)
def test_arrays_are_whole_nodes(size: str, rows: int, columns: int) -> None:
    this = scenario("common").in_arrays(ArraySize.of(size))
    assert (str(this.arrays), this.node_rows, this.node_columns) == (size, rows, columns)


def test_arrays_of_other_slices() -> None:
    """Of the size of a block RAM, or of whole slices that are smaller."""
    measured = scenario("measured")
    assert (str(measured.arrays), measured.table_shares) == ("128x128", ())
    assert str(fault_model("measured", geometry=NVIDIA).scenario.arrays) == "128x128"
    low = fault_model("measured", geometry=SliceGeometry(64, 24, 24)).scenario
    assert str(low.arrays) == "64x256"
    assert np.isclose(expected_classes(low, 0.515).sum(), 1)
    assert len(fault_model("measured", geometry=NVIDIA).sample(1, np.arange(2), 0.515).cell)
