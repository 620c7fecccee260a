"""The tail sampler against the distribution of drawing every cell, and its nested fault sets.

Statistical tests accept p > 1e-5 (or 4.4 standard errors); about a dozen of them, so that a
fresh seed would raise a false alarm once in some ten thousand runs. The seeds are fixed.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_ndtr, ndtri_exp
from tables import each

from mcage.errors import UserError
from mcage.random import stream
from mcage.variation.fault_models import class_shares, fault_model, faulty_bits
from mcage.variation.field import sample_field
from mcage.variation.scenarios import scenario
from mcage.variation.vmin_tail import (
    TailCells,
    check_vdd,
    expected_classes,
    expected_reliable_entries,
    expected_tail_cells,
    sample_tail,
)

CLUSTERED = scenario("clustered")
LOW = {"common": 0.37, "clustered": 0.46, "dispersed": 0.33}


def test_against_drawing_all_cells() -> None:
    floor, seed, instances = 0.47, 11, np.arange(20)
    tail = sample_tail(CLUSTERED, seed, instances, floor)
    field = CLUSTERED.mu_volts + sample_field(CLUSTERED, seed, instances)
    vmin = np.repeat(np.repeat(field, 8, axis=1), 128, axis=2)
    for i in instances:
        normal = stream(99, "every cell", int(i)).standard_normal(vmin[i].shape)
        vmin[i] += CLUSTERED.sigma_random_volts * normal
    drawn = vmin[vmin > floor]
    assert abs(len(tail.cell) - len(drawn)) < 4.4 * np.sqrt(len(tail.cell) + len(drawn))
    assert stats.ks_2samp(tail.vmin_volts, drawn).pvalue > 1e-5
    bits = np.bincount(tail.instance * 256 + tail.entry, minlength=20 * 256)
    counts = bits, (vmin > floor).sum(axis=2).ravel()
    histograms = [np.bincount(np.minimum(of, 12)) for of in counts]
    assert stats.chi2_contingency(histograms).pvalue > 1e-5


def slice_by_slice(this, nodes, generator, floor):
    """Cells and Vmin of a slice whose segments are drawn in full, round by round."""
    bits, segments, sigma = this.segment_bits, this.segments, this.sigma_random_volts
    limit = -log_ndtr((floor - nodes) / sigma) * (1 + 1e-9)
    mean, limit = (
        np.repeat(values, 256 // this.node_rows, axis=0).ravel() for values in (nodes, limit)
    )
    active, depth = np.arange(segments), np.zeros(segments)
    places = np.tile(np.arange(bits), (segments, 1))
    cells = {}
    for taken in range(bits):
        depth -= np.log1p(-generator.random(segments)) / (bits - taken)
        active = active[depth[active] <= limit[active]]
        if not len(active):
            break
        chosen = taken + (generator.random(segments)[active] * (bits - taken)).astype(int)
        place = places[active, chosen]
        places[active, chosen] = places[active, taken]
        vmin = mean[active] + sigma * ndtri_exp(-depth[active])
        cells |= dict(zip((active * bits + place).tolist(), vmin.tolist(), strict=True))
    return {number: vmin for number, vmin in sorted(cells.items()) if vmin > floor}


@pytest.mark.parametrize("grid", [(32, 16), (16, 8)])
def test_slices_together_are_those_drawn_one_by_one(grid) -> None:
    """To the last bit, with several cells in a segment."""
    this = dataclasses.replace(CLUSTERED, node_rows=grid[0], node_columns=grid[1])
    instances = np.append(np.arange(5, 144), 2**62)
    tail = sample_tail(this, 4, instances, 0.47, slices_per_chip=40)
    fields = sample_field(this, 4, instances)
    several = 0
    for i in (0, 1, 2, 127, 128, 139):
        generator = stream(4, "variation.cells", int(instances[i]))
        expected = slice_by_slice(this, this.mu_volts + fields[i], generator, 0.47)
        place = slice(*tail.offsets[i : i + 2])
        assert tail.cell[place].tolist() == list(expected)
        assert tail.vmin_volts[place].tolist() == list(expected.values())
        several += np.bincount(tail.cell[place] // this.segment_bits).max()
    assert several > 20


@given(st.lists(st.lists(st.booleans(), max_size=4), max_size=5))
def test_chosen_cells(chosen):
    """Of slices, and of slices without cells; all of them, and none."""
    counts, flat = [len(of_slice) for of_slice in chosen], [c for each in chosen for c in each]
    cell = np.arange(len(flat), dtype=np.int32)
    tail = TailCells(np.cumsum([0, *counts]), cell, cell / 7).where(np.array(flat, dtype=bool))
    assert tail.cell.tolist() == [number for number, is_it in enumerate(flat) if is_it]
    assert tail.vmin_volts.tolist() == (tail.cell / 7).tolist()
    assert np.diff(tail.offsets).tolist() == [sum(of_slice) for of_slice in chosen]
    assert tail.offsets[0] == 0


def test_exact_law_given_the_field() -> None:
    """Number, values and places of the cells in a segment, each against theory."""
    floor, seed, instances = 0.45, 12, np.arange(40)
    tail = sample_tail(CLUSTERED, seed, instances, floor)
    field = sample_field(CLUSTERED, seed, instances)
    sigma = CLUSTERED.sigma_random_volts

    p = stats.norm.sf((floor - CLUSTERED.mu_volts - field) / sigma).repeat(8, axis=1)
    segment = (tail.instance * 256 + tail.entry) * 16 + tail.cell % 2048 // 128
    count = np.bincount(segment, minlength=p.size).reshape(p.shape)
    variance = 128 * p * (1 - p)
    assert abs((count - 128 * p).sum()) < 4.4 * np.sqrt(variance.sum())
    dispersion = (count - 128 * p) ** 2 - variance
    fourth = variance * (1 + (3 * 128 - 6) * p * (1 - p))
    assert abs(dispersion.sum()) < 4.4 * np.sqrt((fourth - variance**2).sum())

    mean = CLUSTERED.mu_volts + field[tail.instance, tail.entry // 8, tail.cell % 2048 // 128]
    upper = stats.norm.sf((tail.vmin_volts - mean) / sigma)
    assert stats.kstest(upper / p.ravel()[segment], "uniform").pvalue > 1e-5

    place = tail.cell % 128
    assert stats.chisquare(np.bincount(place, minlength=128)).pvalue > 1e-5
    # Values and places are independent: also the worst half of the cells is anywhere.
    worst = upper < np.median(upper)
    assert stats.chisquare(np.bincount(place[worst], minlength=128)).pvalue > 1e-5


def test_crowded_segments() -> None:
    """A third of all cells: the later order statistics and the last free places count too."""
    even = dataclasses.replace(CLUSTERED, sigma_systematic_volts=0.0)
    floor = even.mu_volts + even.sigma_random_volts * stats.norm.isf(0.35)
    tail = sample_tail(even, 5, np.array([0]), floor)
    histogram = np.bincount(np.bincount(tail.cell // 128, minlength=4096), minlength=129)
    expected = 4096 * stats.binom.pmf(np.arange(129), 128, 0.35)
    used = expected > 5
    expected *= histogram[used].sum() / expected[used].sum()
    assert stats.chisquare(histogram[used], expected[used]).pvalue > 1e-5
    assert stats.chisquare(np.bincount(tail.cell % 128, minlength=128)).pvalue > 1e-5
    upper = stats.norm.sf((tail.vmin_volts - even.mu_volts) / even.sigma_random_volts)
    assert stats.kstest(upper / 0.35, "uniform").pvalue > 1e-5


@each("name", LOW)
def test_cells_are_ordered_distinct_and_above_the_floor(name: str) -> None:
    """And those of an instance do not depend on its batch, but on its number and the seed."""
    tail = sample_tail(scenario(name), 1, np.arange(5), LOW[name])
    assert tail.offsets[0] == 0
    assert tail.offsets[-1] == len(tail.cell) == len(tail.vmin_volts)
    assert (tail.offsets.dtype, tail.cell.dtype) == (np.int64, np.int32)
    cells = [tail.cell[slice(*tail.offsets[i : i + 2])] for i in range(5)]
    assert all((np.diff(of_instance) > 0).all() for of_instance in cells)
    assert 0 <= tail.cell.min() < tail.cell.max() < 256 * 2048
    assert tail.vmin_volts.min() > LOW[name]
    for i in (4, 0, 3):
        alone = sample_tail(scenario(name), 1, np.array([i]), LOW[name])
        np.testing.assert_array_equal(alone.cell, cells[i])
        vmin = tail.vmin_volts[slice(*tail.offsets[i : i + 2])]
        np.testing.assert_array_equal(alone.vmin_volts, vmin)
    other = sample_tail(scenario(name), 2, np.array([0]), LOW[name])
    assert not np.array_equal(other.cell, cells[0])
    assert len(sample_tail(scenario(name), 1, np.arange(0), LOW[name]).offsets) == 1


@pytest.mark.parametrize(
    "this", [*map(scenario, LOW), dataclasses.replace(CLUSTERED, sigma_die_volts=0.02)]
)
def test_a_higher_floor_only_truncates(this) -> None:
    """Bit for bit, at any floor, also one that is exactly the Vmin of a cell."""
    instances, lowest = np.arange(4), LOW[this.name]
    low = sample_tail(this, 2, instances, lowest)
    at_a_cell = float(np.sort(low.vmin_volts)[len(low.cell) // 2])
    for floor in (lowest + 0.013, lowest + 0.05, at_a_cell, np.nextafter(at_a_cell, 0), 0.7):
        high, kept = sample_tail(this, 2, instances, floor), low.vmin_volts > floor
        np.testing.assert_array_equal(high.cell, low.cell[kept])
        np.testing.assert_array_equal(high.vmin_volts, low.vmin_volts[kept])
        counts = np.bincount(low.instance[kept], minlength=4)
        np.testing.assert_array_equal(np.diff(high.offsets), counts)


def test_expected_number_of_cells() -> None:
    """Safe limit: ln 2 cells above 600 mV in the 40 slices of a register file."""
    for name in LOW:
        assert 40 * expected_tail_cells(scenario(name), 0.6) == pytest.approx(np.log(2), rel=0.04)


@each("floor", [0.37, -1.0, float("nan")])
def test_floor_too_low(floor: float) -> None:
    with pytest.raises(UserError, match=r"clustered: .* cells .*above .* V .* V and more"):
        sample_tail(CLUSTERED, 1, np.arange(1), floor)


# Expected classes against closed forms, recorded numbers and sampled maps.


EVEN = fault_model("measured", sigma_systematic_volts=0.0, sigma_die_volts=0.0).scenario


@each(
    ("this", "vdd"),
    [*((scenario("dispersed"), vdd) for vdd in (0.33, 0.371, 0.45, 2.0)), (EVEN, 0.5)],
)
def test_without_systematic_part_it_is_one_binomial(this, vdd: float) -> None:
    p = stats.norm.sf((vdd - this.mu_volts) / this.sigma_random_volts)
    shares = stats.binom.pmf(range(4), 2048, p)
    expected = [*shares, 1 - shares.sum()]
    np.testing.assert_allclose(expected_classes(this, vdd), expected, atol=1e-12)


@each(
    ("name", "millivolts", "percent"),
    [  # an independent quadrature over 24,000 drawn rows
        ("common", 375, [0.4916, 2.1732, 5.1217, 8.5661, 83.6475]),
        ("common", 419, [32.8924, 34.3909, 19.9236, 8.5045, 4.2886]),
        ("clustered", 475, [7.6003, 9.5492, 9.3442, 8.4782, 65.0281]),
        ("clustered", 497, [40.3828, 22.5557, 12.5855, 7.4988, 16.9772]),
    ],
)
def test_recorded_curve(name: str, millivolts: int, percent: list[float]) -> None:
    found = 100 * expected_classes(scenario(name), millivolts / 1000)
    assert found.sum() == pytest.approx(100)
    np.testing.assert_allclose(found, percent, atol=0.3 if name == "clustered" else 0.1)


@each(("name", "points"), [("common", 1.5), ("clustered", 2.9), ("dispersed", 1.2)])
def test_close_to_the_published_table(name: str, points: float) -> None:
    """The fit's largest deviations: 1.42, 2.84 and 1.14 points, and 1.1 in all faulty entries."""
    this = scenario(name)
    deviation = 100 * (expected_classes(this, this.vdd_volts) - this.table_shares)
    assert np.abs(deviation).max() < points
    assert abs(deviation[2:].sum()) < 1.2


@each(("name", "lowest"), [("common", 0.364), ("clustered", 0.448), ("dispersed", 0.316)])
def test_lowest_vdd(name: str, lowest: float) -> None:
    this = scenario(name)
    check_vdd(this, lowest)
    check_vdd(this, 2.0)
    assert expected_reliable_entries(this, lowest) >= 1
    assert expected_reliable_entries(this, lowest - 0.001) < 1
    for vdd in (lowest - 0.001, 1e-6):
        with pytest.raises(UserError, match=rf"every entry.*use {lowest} V or more"):
            check_vdd(this, vdd)


@each("vdd", [float("nan"), float("inf"), 0.0, 2.1])
def test_vdd_that_cannot_be_meant(vdd: float) -> None:
    with pytest.raises(UserError, match=r"vdd = .* V, expected a voltage above 0 and up to 2 V"):
        check_vdd(scenario("common"), vdd)


@each(
    ("name", "changes"),
    [
        *((name, {}) for name in LOW),
        *(("measured", {"arrays": size}) for size in ("128x128", "8x2048")),
        ("measured", {"arrays": "64x256", "sigma_die_volts": 0.01}),
    ],
)
def test_sampled_classes(name: str, changes: dict[str, object]) -> None:
    """Within 4.5 standard errors of maps, which are independent."""
    this = fault_model(name, **changes).scenario
    cells = sample_tail(this, 1, np.arange(200), this.vdd_volts)
    shares = class_shares(faulty_bits(cells, cells.vmin_volts > this.vdd_volts))
    error = shares.std(axis=0) / np.sqrt(len(shares))
    assert np.all(abs(shares.mean(axis=0) - expected_classes(this, this.vdd_volts)) < 4.5 * error)


def test_a_field_of_tiny_range_is_like_arrays_of_nodes() -> None:
    arrays = fault_model("measured", arrays="8x128").scenario
    field = fault_model("measured", arrays="none", phi=1e-3).scenario
    for vdd in (0.5, 0.515, 0.53):
        np.testing.assert_allclose(
            expected_classes(arrays, vdd), expected_classes(field, vdd), atol=3e-3
        )


def test_a_third_of_the_entries_is_faulty_where_measured_runs() -> None:
    this = scenario("measured")
    assert expected_classes(this, this.vdd_volts)[2:].sum() == pytest.approx(1 / 3, abs=0.01)
