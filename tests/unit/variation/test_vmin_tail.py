"""The tail sampler against the distribution of drawing every cell, and its nested fault sets.

Statistical tests accept p > 1e-5 (or 4.4 standard errors); about a dozen of them, so that a
fresh seed would raise a false alarm once in some ten thousand runs. The seeds are fixed.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtri_exp

from mcage.errors import UserError
from mcage.random import stream, variation_stream
from mcage.variation.field import sample_field
from mcage.variation.scenarios import scenario
from mcage.variation.vmin_tail import TailCells, expected_tail_cells, sample_tail

CLUSTERED = scenario("clustered")
LOW = {"common": 0.37, "clustered": 0.46, "dispersed": 0.33}


def mean_of_cell(cells: TailCells, seed: int, instances: np.ndarray) -> np.ndarray:
    """Mu plus systematic part of every tail cell."""
    field = sample_field(CLUSTERED, seed, instances)
    node = field[cells.instance, cells.entry // 8, cells.cell % 2048 // 128]
    return CLUSTERED.mu_volts + node


def test_against_drawing_all_cells() -> None:
    floor, seed, instances = 0.47, 11, np.arange(20)
    tail = sample_tail(CLUSTERED, seed, instances, floor)
    field = sample_field(CLUSTERED, seed, instances)
    all_vmin, all_bits = [], []
    for i in instances:
        mean = CLUSTERED.mu_volts + np.repeat(np.repeat(field[i], 8, axis=0), 128, axis=1)
        normal = stream(99, "every cell", int(i)).standard_normal(mean.shape)
        vmin = mean + CLUSTERED.sigma_random_volts * normal
        all_vmin.append(vmin[vmin > floor])
        all_bits.append((vmin > floor).sum(axis=1))
    drawn = np.concatenate(all_vmin)
    assert abs(len(tail.cell) - len(drawn)) < 4.4 * np.sqrt(len(tail.cell) + len(drawn))
    assert stats.ks_2samp(tail.vmin_volts, drawn).pvalue > 1e-5
    bits = np.bincount(tail.instance * 256 + tail.entry, minlength=20 * 256)
    histograms = [np.bincount(np.minimum(b, 12)) for b in (bits, np.concatenate(all_bits))]
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
    """To the last bit, with several cells in a segment, for first and later attempts."""
    this = dataclasses.replace(CLUSTERED, node_rows=grid[0], node_columns=grid[1])
    instances, attempts = np.arange(5, 75), np.arange(70) % 3
    tail = sample_tail(this, 4, instances, 0.47, attempts=attempts)
    fields = sample_field(this, 4, instances, attempts)
    several = 0
    for i in (0, 1, 2, 63, 64, 69):
        generator = variation_stream(4, "cells", int(instances[i]), int(attempts[i]))
        expected = slice_by_slice(this, this.mu_volts + fields[i], generator, 0.47)
        place = slice(*tail.offsets[i : i + 2])
        assert tail.cell[place].tolist() == list(expected)
        assert tail.vmin_volts[place].tolist() == list(expected.values())
        several += np.bincount(tail.cell[place] // this.segment_bits).max()
    assert several > 20


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

    upper = stats.norm.sf((tail.vmin_volts - mean_of_cell(tail, seed, instances)) / sigma)
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
    count = np.bincount(tail.cell // 128, minlength=4096)
    histogram = np.bincount(count, minlength=129)
    distribution = 4096 * stats.binom.pmf(np.arange(129), 128, 0.35)
    used = distribution > 5
    assert (
        stats.chisquare(
            histogram[used], distribution[used] * histogram[used].sum() / distribution[used].sum()
        )[1]
        > 1e-5
    )
    assert stats.chisquare(np.bincount(tail.cell % 128, minlength=128)).pvalue > 1e-5
    upper = stats.norm.sf((tail.vmin_volts - even.mu_volts) / even.sigma_random_volts)
    assert stats.kstest(upper / 0.35, "uniform").pvalue > 1e-5


@pytest.mark.parametrize("name", LOW)
def test_cells_are_ordered_distinct_and_above_the_floor(name: str) -> None:
    tail = sample_tail(scenario(name), 1, np.arange(5), LOW[name])
    assert tail.offsets[0] == 0
    assert tail.offsets[-1] == len(tail.cell) == len(tail.vmin_volts)
    assert (tail.offsets.dtype, tail.cell.dtype) == (np.int64, np.int32)
    for first, end in zip(tail.offsets[:-1], tail.offsets[1:], strict=True):
        assert np.all(np.diff(tail.cell[first:end]) > 0)
    assert tail.cell.min() >= 0
    assert tail.cell.max() < 256 * 2048
    assert tail.vmin_volts.min() > LOW[name]


@pytest.mark.parametrize("name", LOW)
def test_a_higher_floor_only_truncates(name: str) -> None:
    """Bit for bit, at any floor, also one that is exactly the Vmin of a cell."""
    instances = np.arange(4)
    low = sample_tail(scenario(name), 2, instances, LOW[name])
    at_a_cell = float(np.sort(low.vmin_volts)[len(low.cell) // 2])
    for floor in (LOW[name] + 0.013, LOW[name] + 0.05, at_a_cell, np.nextafter(at_a_cell, 0), 0.7):
        high = sample_tail(scenario(name), 2, instances, floor)
        kept = low.vmin_volts > floor
        np.testing.assert_array_equal(high.cell, low.cell[kept])
        np.testing.assert_array_equal(high.vmin_volts, low.vmin_volts[kept])
        np.testing.assert_array_equal(
            np.diff(high.offsets), np.bincount(low.instance[kept], minlength=4)
        )


def test_instance_does_not_depend_on_its_batch() -> None:
    whole = sample_tail(CLUSTERED, 1, np.arange(6), 0.48)
    for i in (5, 0, 3):
        alone = sample_tail(CLUSTERED, 1, np.array([i]), 0.48)
        mine = slice(*whole.offsets[i : i + 2])
        np.testing.assert_array_equal(alone.cell, whole.cell[mine])
        np.testing.assert_array_equal(alone.vmin_volts, whole.vmin_volts[mine])
    other = sample_tail(CLUSTERED, 2, np.array([0]), 0.48)
    assert not np.array_equal(other.cell, whole.cell[: whole.offsets[1]])
    assert len(sample_tail(CLUSTERED, 1, np.arange(0), 0.48).offsets) == 1


def test_expected_number_of_cells() -> None:
    """Safe limit: ln 2 cells above 600 mV in the 40 slices of a register file."""
    for name in LOW:
        assert 40 * expected_tail_cells(scenario(name), 0.6) == pytest.approx(np.log(2), rel=0.04)


@pytest.mark.parametrize("floor", [0.37, -1.0, float("nan")])
def test_floor_too_low(floor: float) -> None:
    with pytest.raises(UserError, match=r"clustered: .* cells .*above .* V .* V and more"):
        sample_tail(CLUSTERED, 1, np.arange(1), floor)
