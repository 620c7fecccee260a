"""Heterogeneous structures beside what Zhang et al. print."""

import numpy as np
import pytest

from mcage.gpu.heterogeneity.designs import nbti_efficiency
from mcage.gpu.heterogeneity.parts import parts
from mcage.gpu.heterogeneity.scheduler import ipc_overhead
from mcage.gpu.nominal.benchmarks import benchmark_rows


@pytest.fixture(scope="module")
def rows():
    return {row["benchmark"]: row for row in benchmark_rows(parts())}


@pytest.mark.parametrize(
    ("benchmark", "activity", "combined", "thermal"),
    [("NN", 2.10, 1.76, 2.01), ("Backprop", 4.14, 3.60, 2.79), ("mean", 2.37, 2.02, 2.04)],
)
def test_schedulers_under_each_reading(rows, benchmark, activity, combined, thermal):
    row = rows[benchmark]
    numbers = [row[f"{reading}_pct"] for reading in ("activity", "combined", "thermal")]
    assert numbers == pytest.approx([activity, combined, thermal], abs=0.005)


def test_the_mean_under_activity_is_the_printed_mean(rows):
    assert rows["mean"]["activity_pct"] == pytest.approx(rows["mean"]["printed_pct"], abs=0.05)


def test_temperature_drops(rows):
    assert rows["NN"]["drop_K"] == pytest.approx(14.6, abs=0.05)
    assert rows["Backprop"]["drop_K"] == pytest.approx(11.5, abs=0.05)


def test_the_cache(rows):
    assert rows["LPS"]["l2_pct"] == pytest.approx(2.62, abs=0.005)
    assert rows["Gaussian"]["l2_pct"] == pytest.approx(2.95, abs=0.005)


def test_filter_rates_are_those_of_table_4(rows):
    rates = np.array([row["filter_rate"] for name, row in rows.items() if name != "mean"])
    assert (len(rates), rates.mean()) == (10, pytest.approx(0.9138, abs=1e-4))
    assert np.median(rates) == pytest.approx(0.9400, abs=1e-4)


def test_projected_ipc():
    assert ipc_overhead([41.7, 8.53]) == pytest.approx([0.0240, 0.1172], abs=5e-5)


def test_what_the_printed_efficiencies_ask_for():
    """Aging part by the printed means, and the D^3 P, or P, that is left to be explained."""
    baseline = nbti_efficiency(1, 0.141, 1)
    proposal, copies = (nbti_efficiency(1, delay, 1) / baseline for delay in (0.028, 0.0755))
    assert proposal == pytest.approx(0.731, abs=5e-4)
    assert 0.891 / proposal == pytest.approx(1.218, abs=1e-3)
    assert copies == pytest.approx(0.8375, abs=5e-4)
    assert 1.011 / copies == pytest.approx(1.207, abs=1e-3)
