"""Expected classes against closed forms, recorded numbers and sampled maps."""

import numpy as np
import pytest
from scipy import stats
from tables import each

from mcage.errors import UserError
from mcage.variation.expected import check_vdd, expected_classes, expected_reliable_entries
from mcage.variation.fault_maps import class_shares, faulty_bits
from mcage.variation.fault_models import fault_model
from mcage.variation.scenarios import PUBLISHED, scenario
from mcage.variation.vmin_tail import sample_tail


def test_without_systematic_part_it_is_one_binomial() -> None:
    this = scenario("dispersed")
    for vdd in (0.33, 0.371, 0.45):
        p = stats.norm.sf((vdd - this.mu_volts) / this.sigma_random_volts)
        distribution = stats.binom.pmf(range(4), 2048, p)
        np.testing.assert_allclose(
            expected_classes(this, vdd), [*distribution, 1 - distribution.sum()], atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "millivolts", "percent"),
    [  # an independent quadrature over 24,000 drawn rows
        ("common", 375, [0.4916, 2.1732, 5.1217, 8.5661, 83.6475]),
        ("common", 419, [32.8924, 34.3909, 19.9236, 8.5045, 4.2886]),
        ("common", 450, [74.2819, 21.6162, 3.5941, 0.4538, 0.0540]),
        ("clustered", 450, [0.1759, 0.4355, 0.7139, 0.9698, 97.7048]),
        ("clustered", 475, [7.6003, 9.5492, 9.3442, 8.4782, 65.0281]),
        ("clustered", 497, [40.3828, 22.5557, 12.5855, 7.4988, 16.9772]),
        ("clustered", 525, [86.3304, 10.1780, 2.1966, 0.7042, 0.5908]),
        ("dispersed", 371, [25.1947, 34.7318, 23.9395, 11.0005, 5.1334]),
        ("dispersed", 600, [99.9932, 0.0068, 0.0000, 0.0000, 0.0000]),
    ],
)
def test_recorded_curve(name: str, millivolts: int, percent: list[float]) -> None:
    found = 100 * expected_classes(scenario(name), millivolts / 1000)
    assert found.sum() == pytest.approx(100)
    np.testing.assert_allclose(found, percent, atol=0.3 if name == "clustered" else 0.1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_close_to_the_published_table(name: str) -> None:
    """The fit's largest deviations: 1.42, 2.84 and 1.14 points, and 1.1 in all faulty entries."""
    this = scenario(name)
    deviation = 100 * (expected_classes(this, this.vdd_volts) - this.table_shares)
    assert np.abs(deviation).max() < {"common": 1.5, "clustered": 2.9, "dispersed": 1.2}[name]
    assert abs(deviation[2:].sum()) < 1.2


@pytest.mark.parametrize(
    ("name", "percent", "error_1000"),
    [  # classes of 1000 maps drawn cell by cell when the parameters were fitted
        ("common", [32.88, 34.31, 19.92, 8.58, 4.31], [0.23, 0.11, 0.12, 0.10, 0.09]),
        ("clustered", [40.16, 22.71, 12.56, 7.40, 17.16], [0.55, 0.20, 0.15, 0.13, 0.49]),
        ("dispersed", [25.29, 34.69, 23.88, 11.00, 5.14], [0.09, 0.10, 0.08, 0.06, 0.04]),
    ],
)
def test_sampled_classes(name: str, percent: list[float], error_1000: list[float]) -> None:
    """Within 4 standard errors of fit and theory; false alarm below 1 in 500 for a fresh seed."""
    maps, this = 400, scenario(name)
    cells = sample_tail(this, 1, np.arange(maps), this.vdd_volts)
    shares = 100 * class_shares(faulty_bits(cells, cells.vmin_volts > this.vdd_volts)).mean(axis=0)
    error = np.array(error_1000) * np.sqrt(1000 / maps)
    assert np.all(np.abs(shares - percent) < 4 * np.hypot(error, error_1000))
    assert np.all(np.abs(shares - 100 * expected_classes(this, this.vdd_volts)) < 4 * error)


@pytest.mark.parametrize(
    ("name", "lowest"), [("common", 0.364), ("clustered", 0.448), ("dispersed", 0.316)]
)
def test_lowest_vdd(name: str, lowest: float) -> None:
    this = scenario(name)
    check_vdd(this, lowest)
    assert expected_reliable_entries(this, lowest) >= 1
    assert expected_reliable_entries(this, lowest - 0.001) < 1
    for vdd in (lowest - 0.001, 0.2, 1e-6):
        with pytest.raises(UserError, match=rf"every entry.*use {lowest} V or more"):
            check_vdd(this, vdd)


@each("vdd", [float("nan"), float("inf"), 0.0, -0.4, 2.1, 419.0])
def test_vdd_that_cannot_be_meant(vdd: float) -> None:
    with pytest.raises(UserError, match=r"vdd = .* V, expected a voltage above 0 and up to 2 V"):
        check_vdd(scenario("common"), vdd)


def test_vdd_of_no_faults() -> None:
    check_vdd(scenario("common"), 2.0)
    np.testing.assert_allclose(
        expected_classes(scenario("common"), 2.0), [1, 0, 0, 0, 0], atol=1e-15
    )


def test_arrays_without_deviation_are_one_binomial() -> None:
    this = fault_model("measured", sigma_systematic_volts=0.0, sigma_die_volts=0.0).scenario
    p = stats.norm.sf((0.5 - this.mu_volts) / this.sigma_random_volts)
    shares = stats.binom.pmf(range(4), 2048, p)
    np.testing.assert_allclose(expected_classes(this, 0.5)[:4], shares, atol=1e-12)


@pytest.mark.parametrize(
    ("arrays", "sigma_die"), [("128x128", None), ("8x2048", None), ("64x256", 0.01)]
)
def test_sampled_classes_of_arrays(arrays: str, sigma_die: float | None) -> None:
    """Within 4.5 standard errors of maps, which are independent."""
    this = fault_model("measured", arrays=arrays, sigma_die_volts=sigma_die).scenario
    cells = sample_tail(this, 1, np.arange(150), this.vdd_volts)
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
