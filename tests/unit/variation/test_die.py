"""The part of Vmin that slices of one die share: its distribution, and what it leaves as it was."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.random import stream
from mcage.variation.fault_models import FaultModel, fault_model
from mcage.variation.field import (
    die_of,
    node_factor,
    node_loads,
    sample_die,
    sample_field,
    spherical_correlation,
    triangular_product,
)
from mcage.variation.scenarios import scenario
from mcage.variation.vmin_tail import (
    check_vdd,
    expected_classes,
    expected_reliable_entries,
    sample_tail,
)

CLUSTERED = scenario("clustered")
SPREAD = replace(CLUSTERED, sigma_die_volts=0.02)


def test_die_of_by_hand() -> None:
    assert die_of(np.arange(7), 3).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert die_of(np.array([41, 2, 40]), 1).tolist() == [41, 2, 40]
    assert die_of(np.array([2**63 - 1]), 40).tolist() == [(2**63 - 1) // 40]
    with pytest.raises(UserError, match="slices_per_chip = 0, expected 1 or more"):
        die_of(np.arange(3), 0)


@each(
    ("name", "floor", "cells", "digest", "vmin_sum"),
    [  # recorded before there was a die part; four instances, up to id 2**62
        ("common", 0.40, 2569, "41dde9970f0cd0c2", 1087.5656474797113),
        ("clustered", 0.48, 5065, "1da716d18f9eae1f", 2493.4769240543033),
        ("dispersed", 0.35, 2864, "c1b6271c062105ec", 1085.669723195264),
    ],
)
@each("slices_per_chip", (1, 40))
def test_without_a_die_part_slices_are_what_they_were(
    name: str, floor: float, cells: int, digest: str, vmin_sum: float, slices_per_chip: int
) -> None:
    instances = np.array([0, 1, 12345, 2**62])
    tail = sample_tail(scenario(name), 7, instances, floor, slices_per_chip)
    assert len(tail.cell) == cells
    numbers = tail.cell.astype("<i4").tobytes()
    assert hashlib.blake2b(numbers, digest_size=8).hexdigest() == digest
    assert tail.vmin_volts.sum() == pytest.approx(vmin_sum, rel=1e-13)


def test_slices_of_a_die_share_its_shift_and_nothing_else() -> None:
    """Each slice is the one without a die part, on a mu moved by the shift of its die."""
    instances = np.array([5, 6, 7, 8, 9, 10])  # the last slice of die 1, die 2, a slice of die 3
    tail = sample_tail(SPREAD, 3, instances, 0.47, slices_per_chip=3)
    dies = die_of(instances, 3)
    assert dies.tolist() == [1, 2, 2, 2, 3, 3]
    shifts = sample_die(SPREAD, 3, dies)
    assert shifts[1] == shifts[2] == shifts[3]
    assert len(set(shifts.tolist())) == 3
    for i, (instance, shift) in enumerate(zip(instances.tolist(), shifts.tolist(), strict=True)):
        moved = replace(CLUSTERED, mu_volts=CLUSTERED.mu_volts + shift)
        alone = sample_tail(moved, 3, np.array([instance]), 0.47)
        mine = slice(*tail.offsets[i : i + 2])
        np.testing.assert_array_equal(tail.cell[mine], alone.cell)
        np.testing.assert_allclose(tail.vmin_volts[mine], alone.vmin_volts, rtol=1e-14)


def test_model_hands_its_dies_on() -> None:
    changes = {"slices_per_chip": 3, "sigma_die_volts": 0.02, "phi": None}
    model = fault_model("clustered", **changes)
    assert model == FaultModel(SPREAD, slices_per_chip=3)
    assert model.dies(np.array([2, 3])).tolist() == [0, 1]
    found = model.sample(3, np.arange(4), 0.48)
    expected = sample_tail(SPREAD, 3, np.arange(4), 0.48, slices_per_chip=3)
    np.testing.assert_array_equal(found.vmin_volts, expected.vmin_volts)


def test_die_part_depends_on_seed_and_die_only() -> None:
    whole = sample_die(SPREAD, 1, np.arange(6))
    np.testing.assert_array_equal(
        sample_die(SPREAD, 1, np.array([5, 0, 0, 3])), whole[[5, 0, 0, 3]]
    )
    wider = sample_die(replace(scenario("common"), sigma_die_volts=0.04), 1, np.arange(6))
    np.testing.assert_allclose(wider, 2 * whole, rtol=1e-14)
    assert not np.any(sample_die(SPREAD, 2, np.arange(6)) == whole)


def test_law_of_the_die_part() -> None:
    """A normal number of each die: its stream's first."""
    dies = [0, 7, 2**40]
    normal = [stream(5, "variation.die", die).standard_normal() for die in dies]
    shifts = sample_die(SPREAD, 5, np.array(dies))
    np.testing.assert_allclose(shifts, 0.02 * np.array(normal), rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "sigma_die", "points"),
    [
        pytest.param("common", 0.05, 25, marks=pytest.mark.slow),
        ("clustered", 0.03, 15),
        ("dispersed", 0.004, 7),
    ],
)
def test_theory_against_a_sum_over_dies(name: str, sigma_die: float, points: int) -> None:
    """Gauss-Hermite quadrature of what is expected of dies with a known shift."""
    this = scenario(name)
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    by_die = [
        expected_classes(replace(this, mu_volts=this.mu_volts + sigma_die * x), this.vdd_volts)
        for x in nodes
    ]
    expected = np.array(weights) @ np.array(by_die) / weights.sum()
    found = expected_classes(replace(this, sigma_die_volts=sigma_die), this.vdd_volts)
    np.testing.assert_allclose(found, expected, atol=8e-4)  # each lattice sum: 6e-4
    assert found.sum() == pytest.approx(1)


def test_vdd_is_judged_with_the_die_part() -> None:
    """Good dies keep reliable entries where the typical die has none left."""
    with pytest.raises(UserError, match="every entry"):
        check_vdd(CLUSTERED, 0.43)
    check_vdd(SPREAD, 0.43)
    assert expected_reliable_entries(SPREAD, 0.43) > 1


@each(
    ("options", "message"),
    [
        ({"mode": "table", "phi": 0.2}, "phi = 0.2: mode table .* would not use it"),
        ({"mode": "table-exact", "sigma_random_volts": 0.1}, "sigma_random_volts = 0.1"),
        *(
            ({"mode": mode, "sigma_die_volts": 0.02}, f"= 0.02: mode {mode} .* mode varius")
            for mode in ("table", "table-exact")
        ),
        ({"slices_per_chip": 0}, "slices_per_chip = 0, expected 1 or more"),
        ({"sigma_die_volts": -0.1}, "sigma_die_volts = -0.1, expected 0 ... 1 volts"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fault_model("common", **options)  # type: ignore[arg-type]


# The systematic field: its distribution, and what it may not depend on.


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


@pytest.mark.parametrize("name", ["clustered", "common", "dispersed"])
def test_a_field_is_the_root_of_the_correlation_times_normal_numbers(name: str) -> None:
    """The same numbers in each scenario."""
    this, instances = scenario(name), [5, 2**40]
    normal = [stream(7, "variation.field", one).standard_normal(512) for one in instances]
    expected = this.sigma_systematic_volts * (np.array(normal) @ node_factor(0.5, 32, 16).T)
    field = sample_field(this, 7, np.array(instances))
    np.testing.assert_allclose(field, expected.reshape(2, 32, 16), rtol=1e-10, atol=1e-15)


def test_the_order_of_the_sum() -> None:
    """Even and odd terms apart, the last pair of each eight first; 33 rows go beyond 32."""
    rng = np.random.default_rng(3)
    factor, numbers = np.tril(rng.normal(size=(24, 24))), rng.normal(size=(33, 24))
    terms = factor * numbers[:, None]
    sums = np.zeros((2, 33, 24))
    for pair in (6, 4, 2, 0, 14, 12, 10, 8, 22, 20, 18, 16):
        sums += [terms[..., pair], terms[..., pair + 1]]
    product = triangular_product(factor, numbers)
    np.testing.assert_array_equal(product, sums[0] + sums[1])
    np.testing.assert_allclose(product, numbers @ factor.T, rtol=1e-12, atol=1e-14)


def test_instance_does_not_depend_on_its_batch() -> None:
    whole = sample_field(CLUSTERED, 1, np.arange(9))
    parts = [sample_field(CLUSTERED, 1, np.array(ids)) for ids in ([8, 7], [3], [0, 1, 2])]
    np.testing.assert_array_equal(np.concatenate(parts), whole[[8, 7, 3, 0, 1, 2]])
    assert not np.array_equal(whole[0], whole[1])
    assert not np.array_equal(whole, sample_field(CLUSTERED, 2, np.arange(9)))


@pytest.mark.slow
def test_field_does_not_depend_on_threads() -> None:
    code = (
        "import sys, numpy as np; from mcage.variation.field import sample_field;"
        "from mcage.variation.scenarios import scenario;"
        "sys.stdout.write(sample_field(scenario('clustered'), 1, np.arange(4)).tobytes().hex())"
    )
    two = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    together = subprocess.check_output([sys.executable, "-c", code], env=two, text=True)
    here = sample_field(CLUSTERED, 1, np.arange(4))  # with a single thread, as all tests
    assert together == here.tobytes().hex()


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
