"""Delay, Vmin growth and the crossing of limits."""

import csv
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from mcage.aging.delay import delay_increase, dvth_at_delay
from mcage.aging.vmin import aged_vmin
from mcage.lifetime.bisection import crossing

VECTORS = DATA / "nbti_test_vectors.csv"
TRANSISTOR = {"vdd_volts": 1.0, "vt0_volts": 0.3, "alpha": 1.3}


def delay_vectors() -> list:
    with VECTORS.open() as lines:
        next(lines)
        rows = [row for row in csv.DictReader(lines) if row["model"] == "delay"]
    return [(json.loads(row["inputs_json"]), float(row["value"])) for row in rows]


@pytest.mark.parametrize(("inputs", "expected_percent"), delay_vectors())
def test_vectors(inputs, expected_percent):
    shift, vdd, vt0, alpha = (inputs[key] for key in ("dVth_V", "Vdd", "Vt0", "alpha"))
    assert 100 * delay_increase(shift, vdd, vt0, alpha) == pytest.approx(expected_percent, rel=1e-5)
    assert dvth_at_delay(expected_percent / 100, vdd, vt0, alpha) == pytest.approx(shift, rel=1e-5)


def test_all_delay_vectors_are_there():
    assert len(delay_vectors()) == 3


def test_published_delays_and_published_savings_belong_together():
    """Baseline, ARGO, RC+RAR of Valero et al., section 6.4: slower by 13.9, 8.7 and 6.0 %."""
    baseline, argo, rc_rar = (dvth_at_delay(x, **TRANSISTOR) for x in (0.139, 0.087, 0.060))
    assert 1 - argo / baseline == pytest.approx(0.348, abs=5e-4)
    assert 1 - rc_rar / baseline == pytest.approx(0.540, abs=5e-4)


def test_a_fresh_transistor_is_not_slower():
    assert delay_increase(np.zeros(3), **TRANSISTOR).tolist() == [0, 0, 0]
    assert dvth_at_delay(0.0, **TRANSISTOR) == 0


def test_without_overdrive_a_transistor_does_not_switch():
    shifts = np.array([[0.69, 0.71], [1.0, 0.0]])
    assert np.isinf(delay_increase(shifts, **TRANSISTOR)).tolist() == [[False, True], [True, False]]
    assert delay_increase(0.25, 0.5, 0.25, 1.3) == math.inf
    for vdd_volts in (0.3, 0.2):
        assert delay_increase(0.0, vdd_volts, 0.3, 1.3) == math.inf
        assert dvth_at_delay(0.1, vdd_volts, 0.3, 1.3) == 0
    assert dvth_at_delay(math.inf, **TRANSISTOR) == 0.7


@given(st.floats(1e-6, 0.69))
def test_inverse(shift):
    increase = float(delay_increase(shift, **TRANSISTOR))
    assert dvth_at_delay(increase, **TRANSISTOR) == pytest.approx(shift, rel=1e-8)


@given(st.tuples(st.floats(0, 0.8), st.floats(0, 0.8)).map(sorted))
def test_delay_grows_with_the_shift(shifts):
    less, more = delay_increase(shifts, **TRANSISTOR)
    assert 0 <= less <= more


def test_each_transistor_may_have_a_threshold_of_its_own():
    shifts, vt0 = np.array([[0.01, 0.05]]), np.array([[0.28], [0.3], [0.35]])
    increases = delay_increase(shifts, 1.0, vt0, 1.3)
    limits = dvth_at_delay(0.1, 1.0, vt0, 1.3)
    assert increases.shape == (3, 2)
    assert limits.shape == (3, 1)
    for i, j in np.ndindex(3, 2):
        own = float(vt0[i, 0])
        assert increases[i, j] == pytest.approx(float(delay_increase(shifts[0, j], 1.0, own, 1.3)))
        assert limits[i, 0] == dvth_at_delay(0.1, 1.0, own, 1.3)
    assert dvth_at_delay(0.1, 0.3, np.array([0.3, 0.4]), 1.3).tolist() == [0, 0]


def test_vmin_grows_by_the_shift():
    vmin_volts = np.array([0.40, 0.45])
    assert aged_vmin(vmin_volts, [0.0, 0.02]) == pytest.approx([0.40, 0.47])
    assert aged_vmin(vmin_volts, [0.0, 0.02], coefficient=0.5) == pytest.approx([0.40, 0.46])


def crossing_of(function, lower, upper):
    """Crossing of one function of one number."""

    def of_arrays(x):
        return np.array([function(float(one)) for one in x])

    (found,) = crossing(of_arrays, np.array([lower]), np.array([upper]))
    return found


@given(st.floats(0, 1e9), st.floats(1, 1e9))
def test_crossing_of_a_line(place, width):
    found = crossing_of(lambda x: x - place, max(place - width, 0), place + width)
    assert found == pytest.approx(place, rel=2e-12, abs=1e-300)
    assert found >= place


def test_crossing_of_a_jump_is_where_the_limit_is_already_passed():
    found = crossing_of(lambda x: -1.0 if x < 3.0 else math.inf, 0.0, 10.0)
    assert 3.0 <= found <= 3.0 * (1 + 2e-12)


def test_crossing_at_the_ends():
    assert crossing_of(lambda x: x, 0.0, 1.0) == 0.0
    assert crossing_of(lambda x: x - 1, 0.0, 1.0) == 1.0
    assert crossing_of(lambda x: 1.0 if x > 0 else -1.0, 0.0, 1.0) < 1e-300


def test_crossings_do_not_depend_on_what_is_solved_with_them():
    """Some take many steps, some none; each must be left alone once it is found."""
    lower = np.array([0.0, 0.0, 2.0, 5.0, 1.0])
    upper = np.array([1e9, 1.0, 2.0, 7.0, 1e300])
    place = np.array([1e-5, 0.3, 2.0, 5.0, 1e200])
    together = crossing(lambda x: x - place, lower, upper)
    for one in range(len(place)):
        alone = crossing_of(lambda x, one=one: x - place[one], lower[one], upper[one])
        assert together[one] == alone
    assert len(crossing(lambda x: x, np.empty(0), np.empty(0))) == 0


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: x - 2, lambda x: math.nan])
def test_no_crossing_is_an_error(function):
    with pytest.raises(ValueError, match=r"no crossing between 0\.0 and 1\.0"):
        crossing_of(function, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"no crossing between 0\.0 and 1\.0"):
        crossing(
            lambda x: np.array([x[0] - 0.5, function(float(x[1]))]),
            np.array([0.0, 0.0]),
            np.array([2.0, 1.0]),
        )
