"""What figures show of cells, on cell times made by hand."""

import numpy as np
import pytest

from mcage.geometry import GCN
from mcage.replays.outcome import CellTimes
from mcage.studies.reproduction.duty_summary import ONE, ZERO, cell_duties

PERIOD = 100


@pytest.fixture
def times() -> CellTimes:
    ones = np.zeros((1, GCN.entries, GCN.entry_bits), dtype=np.int64)
    powered = np.zeros_like(ones)
    powered[0, :2] = 50
    powered[0, 1, 7], ones[0, 1, 7] = 90, 10  # longest '0': 80
    powered[0, 0, 3], ones[0, 0, 3] = 70, 60  # longest '1': 60
    return CellTimes(ones, powered, PERIOD)


def test_cells_with_the_longest_duties(times):
    used = np.arange(GCN.entries) < 2
    duties = cell_duties(times, used)
    assert duties.longest == pytest.approx([0.8, 0.6])
    assert duties.most_stressed[ZERO] == pytest.approx([0.8, 0.1])
    assert duties.most_stressed[ONE] == pytest.approx([0.1, 0.6])
    assert duties.of_entries[0, ZERO] == pytest.approx([0.5, 0.0])
    assert duties.of_entries[0, ONE] == pytest.approx([0.1, 0.6])
    assert duties.of_entries[2].max() == 0


def test_means_by_bit_are_over_the_entries_in_use(times):
    used = np.arange(GCN.entries) < 4
    of_bits = cell_duties(times, used).of_bits
    assert of_bits[7] == pytest.approx([(0.5 + 0.8) / 4, 0.1 / 4])
    assert of_bits[0] == pytest.approx([2 * 0.5 / 4, 0])
