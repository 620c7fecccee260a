"""Sobol' indices of functions whose indices are known, through the code that studies use."""

import math

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.studies.sensitivity.parameters import Parameter
from mcage.studies.sensitivity.sobol import check_samples, evaluated, indices


def ranges(count, low=-math.pi, high=math.pi):
    return [Parameter(f"x{i}", f"x{i}", low, 0.0, high) for i in range(count)]


def indices_of(function, count, samples, seed=1, **bounds):
    return indices(samples, evaluated(function, ranges(count, **bounds), samples, seed), seed)


def values(estimates):
    return [estimate.value for estimate in estimates]


def ishigami(x):
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def test_indices_of_ishigami():
    """Closed form: Ishigami and Homma (1990). The third matters only together with the first."""
    variance = 49 / 8 + 0.1 * math.pi**4 / 5 + 0.01 * math.pi**8 / 18 + 1 / 2
    alone = [(1 + 0.1 * math.pi**4 / 5) ** 2 / 2 / variance, 49 / 8 / variance, 0.0]
    together = 0.01 * math.pi**8 * (1 / 18 - 1 / 50) / variance
    first, total = indices_of(ishigami, 3, 4096)
    assert values(first) == pytest.approx(alone, abs=0.02)
    assert values(total) == pytest.approx([alone[0] + together, alone[1], together], abs=0.02)


def test_a_sum_has_no_interactions():
    """Indices of a weighted sum are the squared weights, alone and in total."""
    weights = np.array([3.0, 2.0, 1.0, 0.0])
    first, total = indices_of(lambda x: x @ weights, 4, 1024, low=0.0, high=2.0)
    assert values(first) == pytest.approx(weights**2 / 14, abs=0.02)
    assert values(total) == pytest.approx(weights**2 / 14, abs=0.02)
    assert (total[3].value, total[3].upper) == (0, 0)


def test_estimators_are_those_of_scipy():
    from scipy.stats import sobol_indices

    values_of = np.random.default_rng(5).normal(3.0, 1.0, 5 * 64)
    of_a, of_b, *of_mixed = values_of.reshape(-1, 64)
    theirs = sobol_indices(
        func={"f_A": of_a[None], "f_B": of_b[None], "f_AB": np.array(of_mixed)[:, None]}, n=64
    )
    first, total = indices(64, values_of, 1)
    assert values(first) == pytest.approx(np.ravel(theirs.first_order), rel=1e-12)
    assert values(total) == pytest.approx(np.ravel(theirs.total_order), rel=1e-12)


def test_the_design_stays_in_its_ranges_and_mixes_columns():
    seen = []

    def keep(points):
        seen.append(points)
        return points[:, 0]

    ranges = [Parameter("a", "a", 2.0, 3.0, 4.0), Parameter("b", "b", -1.0, 0.0, 0.0)]
    evaluated(keep, ranges, 8, 3)
    (points,) = seen
    a, b, first, second = points.reshape(4, 8, 2)
    assert (points >= [2, -1]).all()
    assert (points <= [4, 0]).all()
    assert np.array_equal(first, np.stack([b[:, 0], a[:, 1]], axis=1))
    assert np.array_equal(second, np.stack([a[:, 0], b[:, 1]], axis=1))
    assert len(np.unique(points[:16], axis=0)) == 16


def test_the_seed_decides():
    once, again, other = (indices_of(ishigami, 3, 64, seed) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_what_does_not_vary_has_no_indices():
    with pytest.raises(UserError, match="the quantity is 4 whatever the parameters"):
        indices_of(lambda x: np.full(len(x), 4.0), 2, 8)


@each("samples", [0, 1, 3, 100, -2, 2**17])
def test_samples_must_be_a_power_of_two(samples):
    with pytest.raises(UserError, match=f"samples = {samples}: a power of two is needed"):
        check_samples(samples)
