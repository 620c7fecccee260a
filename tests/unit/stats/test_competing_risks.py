"""Are competing causes kept apart, and do they add up?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcage.stats.competing_risks import cumulative_incidence
from mcage.stats.estimates import proportion
from mcage.stats.survival import kaplan_meier

LIVES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=40)
AGES = np.arange(-1.0, 8.0)


def arrays(lives):
    years, cause = np.array(lives).T
    return years.astype(float), cause


def test_by_hand():
    # At 1: 5 at risk, one dies of A. At 2: 4 at risk, one of B, one lost. At 3: 2, one of A.
    years, cause = arrays([(1, 1), (2, 2), (2, 0), (3, 1), (9, 0)])
    of_a = cumulative_incidence(years, cause > 0, cause == 1, AGES)
    of_b = cumulative_incidence(years, cause > 0, cause == 2, AGES)
    after_3 = 1 / 5 + 4 / 5 * 3 / 4 * 1 / 2
    np.testing.assert_allclose(of_a.share, [0, 0, 1 / 5, 1 / 5, *[after_3] * 5])
    np.testing.assert_allclose(of_b.share, [0, 0, 0, *[4 / 5 / 4] * 6])


def test_the_dead_on_arrival_count_at_age_zero():
    curve = cumulative_incidence(
        *(np.array(a) for a in ([0.0, 0, 5], [True] * 3, [True] * 3)), AGES
    )
    assert curve.share[AGES == 0] == pytest.approx(2 / 3)
    assert curve.share[AGES < 0] == 0


@given(lives=LIVES)
def test_causes_and_survivors_add_up_to_one(lives):
    years, cause = arrays(lives)
    total = sum(
        cumulative_incidence(years, cause > 0, cause == number, AGES).share for number in (1, 2, 3)
    )
    curve = kaplan_meier(years, cause > 0)
    steps = np.searchsorted(curve.years, AGES, side="right")
    survival = np.concatenate([[1.0], curve.survival])[steps]
    np.testing.assert_allclose(total + survival, 1.0, atol=1e-12)
    all_causes = cumulative_incidence(years, cause > 0, cause > 0, AGES)
    np.testing.assert_allclose(all_causes.share, 1 - survival, atol=1e-12)


@given(lives=LIVES)
def test_without_losses_the_band_is_that_of_a_plain_share(lives):
    years, cause = arrays(lives)
    years = np.where(cause == 0, 7.0, years)
    curve = cumulative_incidence(years, cause > 0, cause == 1, AGES)
    for place, age in enumerate(AGES):
        dead = proportion(int(np.count_nonzero((cause == 1) & (years <= age))), years.size)
        assert curve.share[place] == pytest.approx(dead.value)
        assert curve.lower[place] == pytest.approx(dead.lower, abs=1e-9)
        assert curve.upper[place] == pytest.approx(dead.upper, abs=1e-9)


@given(lives=LIVES)
def test_the_band_encloses_the_share(lives):
    years, cause = arrays(lives)
    curve = cumulative_incidence(years, cause > 0, cause == 1, AGES)
    assert (curve.lower <= curve.share + 1e-12).all()
    assert (curve.share <= curve.upper + 1e-12).all()
    assert (curve.lower >= 0).all()
    assert (curve.upper <= 1).all()


def test_who_is_lost_before_any_death_says_less():
    """Five of ten lost before age 1, then nobody dead: as if five had been watched."""
    years = np.array([0.5] * 5 + [9.0] * 5)
    nobody = np.zeros(10, bool)
    curve = cumulative_incidence(years, nobody, nobody, np.array([0.4, 1.0]))
    assert curve.upper == pytest.approx([proportion(0, 10).upper, proportion(0, 5).upper])


def test_where_a_cause_has_ended_all_lives_nothing_is_uncertain():
    """However the shares of many ages have been rounded on the way."""
    for count in range(2, 60):
        years = np.arange(1.0, count + 1)
        dead = np.ones(count, dtype=bool)
        curve = cumulative_incidence(years, dead, dead, years[-1:] + 1)
        assert (curve.share[0], curve.upper[0]) == (1.0, 1.0)
        assert curve.lower[0] > 1 - 4 / (count + 4)
