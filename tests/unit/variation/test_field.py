"""The systematic field: its distribution, and what it may not depend on."""

import os
import subprocess
import sys

import numpy as np
import pytest

from mcage.variation.fault_models import fault_model
from mcage.variation.field import node_factor, node_loads, sample_field, spherical_correlation
from mcage.variation.field_sum import triangular_product
from mcage.variation.scenarios import scenario

CLUSTERED = scenario("clustered")


def test_spherical_correlation_by_hand() -> None:
    rho = spherical_correlation(np.array([0.0, 0.1, 0.25, 0.5, 0.7]), 0.5)
    np.testing.assert_allclose(rho, [1.0, 1 - 0.3 + 0.004, 0.3125, 0.0, 0.0], atol=1e-15)


def test_factor_is_a_root_of_the_correlation() -> None:
    factor = node_factor(0.5, 32, 16)
    correlation = factor @ factor.T
    assert np.all(np.triu(factor, 1) == 0)
    np.testing.assert_allclose(np.diag(correlation), 1 + 1e-9, rtol=1e-13)
    # Node 17 = (row 1, column 1), node 36 = (row 2, column 4): 3/16 along x, 1/32 along y.
    r = np.hypot(3 / 16, 1 / 32) / 0.5
    assert correlation[17, 36] == pytest.approx(1 - 1.5 * r + 0.5 * r**3, abs=1e-12)
    np.testing.assert_allclose(factor, np.linalg.cholesky(correlation), atol=1e-9)


def test_sampled_correlation() -> None:
    """60 correlations, 512 means and 512 variances within 5 standard errors.

    False alarm: 1084 two-sided tests at 5.7e-7 each, below 1e-3 for a fresh seed.
    """
    maps = 2000
    field = sample_field(CLUSTERED, 7, np.arange(maps)) / CLUSTERED.sigma_systematic_volts
    assert np.abs(field.mean(axis=0)).max() < 5 / np.sqrt(maps)
    assert np.abs((field**2).mean(axis=0) - 1).max() < 5 * np.sqrt(2 / maps)
    steps = [(0, 1), (0, 3), (0, 5), (0, 7), (0, 8), (-4, 0), (-2, 1), (4, 0), (8, 4), (12, 6)]
    for row, column in [(4, 0), (9, 3), (15, 7), (19, 1), (12, 2), (6, 6)]:
        for down, right in steps:
            rho = spherical_correlation(np.hypot(down / 32, right / 16), 0.5)
            measured = (field[:, row, column] * field[:, row + down, column + right]).mean()
            assert abs(measured - rho) < 5 * np.sqrt((1 + rho**2) / maps), (row, column, down)


def test_the_order_of_the_sum() -> None:
    """Even and odd terms apart, the last pair of each eight first; 33 rows go beyond 32."""
    rng = np.random.default_rng(3)
    factor, numbers = np.tril(rng.normal(size=(24, 24))), rng.normal(size=(33, 24))
    terms = factor * numbers[:, None]
    sums = np.zeros((2, 33, 24))
    for block in range(0, 24, 8):
        for pair in (6, 4, 2, 0):
            for parity in range(2):
                sums[parity] += terms[..., block + pair + parity]
    product = triangular_product(factor, numbers)
    np.testing.assert_array_equal(product, sums[0] + sums[1])
    np.testing.assert_allclose(product, numbers @ factor.T, rtol=1e-12, atol=1e-14)


def test_same_draw_in_every_scenario() -> None:
    common = sample_field(scenario("common"), 3, np.array([5])) / 0.0138
    clustered = sample_field(CLUSTERED, 3, np.array([5])) / 0.0233
    np.testing.assert_allclose(common, clustered, rtol=1e-12)
    assert np.all(sample_field(scenario("dispersed"), 3, np.array([5])) == 0)


def test_instance_does_not_depend_on_its_batch() -> None:
    whole = sample_field(CLUSTERED, 1, np.arange(9))
    parts = [sample_field(CLUSTERED, 1, np.array(ids)) for ids in ([8, 7], [3], [0, 1, 2])]
    np.testing.assert_array_equal(np.concatenate(parts), whole[[8, 7, 3, 0, 1, 2]])
    assert not np.array_equal(whole[0], whole[1])
    assert not np.array_equal(whole, sample_field(CLUSTERED, 2, np.arange(9)))


def test_field_does_not_depend_on_threads() -> None:
    code = (
        "import sys, numpy as np; from mcage.variation.field import sample_field;"
        "from mcage.variation.scenarios import scenario;"
        "sys.stdout.write(sample_field(scenario('clustered'), 1, np.arange(4)).tobytes().hex())"
    )
    together = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
        capture_output=True,
        check=True,
        text=True,
    )
    here = sample_field(CLUSTERED, 1, np.arange(4))  # with a single thread, as all tests
    assert len(here.tobytes()) == 4 * 512 * 8
    assert together.stdout == here.tobytes().hex()


def test_arrays_are_independent_and_constant_inside() -> None:
    """32 means and variances, 496 correlations within 5 standard errors."""
    this, maps = fault_model("measured", arrays="64x256").scenario, 1000
    field = sample_field(this, 7, np.arange(maps)) / this.sigma_systematic_volts
    blocks = field.reshape(maps, 4, 8, 8, 2)
    shifts = blocks[:, :, 0, :, 0].reshape(maps, 32)
    np.testing.assert_array_equal(blocks, np.broadcast_to(blocks[:, :, :1, :, :1], blocks.shape))
    covariance = shifts.T @ shifts / maps
    assert np.abs(shifts.mean(axis=0)).max() < 5 / np.sqrt(maps)
    assert np.abs(np.diag(covariance) - 1).max() < 5 * np.sqrt(2 / maps)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 5 / np.sqrt(maps)


def test_arrays_are_a_linear_map_of_their_numbers() -> None:
    this = fault_model("measured", arrays="128x1024").scenario
    loads = node_loads(this)
    assert loads.shape == (512, 4)
    field = sample_field(this, 3, np.arange(2))
    shifts = field[:, [0, 0, 16, 16], [0, 8, 0, 8]]
    np.testing.assert_array_equal(shifts @ loads.T, field.reshape(2, -1))


def test_an_instance_has_the_same_arrays_in_any_batch() -> None:
    this = scenario("measured")
    together = sample_field(this, 1, np.arange(5))
    np.testing.assert_array_equal(sample_field(this, 1, np.array([3])), together[3:4])
