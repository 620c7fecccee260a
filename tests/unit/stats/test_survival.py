"""Are survival curves and quantiles those of hand calculation, of SciPy, of their promise?"""

import math
import warnings
from dataclasses import replace

import check_coverage as script
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tables import each

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.stats.estimates import Estimate, life, mean, plus_minus, proportion
from mcage.stats.survival import (
    HOURS_PER_YEAR,
    CaseLives,
    chip_lives,
    cumulative_incidence,
    enclosing_ranks,
    failure_rate,
    fit_of_share,
    in_ppm,
    kaplan_meier,
    life_quantile,
    mean_precision,
    quantile_rank,
)
from mcage.variation.field import die_of

LIVES = st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=40)


@given(lives=LIVES)
def test_kaplan_meier_agrees_with_scipy(lives):
    """Without a death, a curve has no step."""
    years = np.array([life for life, _ in lives], dtype=float)
    died = np.array([dead for _, dead in lives])
    curve = kaplan_meier(years, died)
    assert curve.years.tolist() == np.unique(years[died]).tolist()
    scipy_curve = stats.ecdf(stats.CensoredData.right_censored(years, ~died)).sf
    np.testing.assert_allclose(curve.survival, scipy_curve.evaluate(curve.years), atol=1e-12)
    if died.any():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            band = scipy_curve.confidence_interval(method="log-log")
        alive = curve.survival > 0
        for bound, expected in ((curve.lower, band.low), (curve.upper, band.high)):
            np.testing.assert_allclose(
                bound[alive], expected.evaluate(curve.years)[alive], atol=1e-9, rtol=1e-9
            )


@each(
    ("years", "expected"),
    [
        # Ten lives: P(2 <= B < 9) = 97.9 %, so ranks 2 and 9, as in every table.
        (np.arange(10.0, 0.0, -1.0), (5.0, 2.0, 9.0)),
        # Half of them dead at the horizon; less than half, beyond which lives are infinite.
        ([1.0, 2, 3, 4, 10, 10, 10, 10], (4.0, 1.0, math.inf)),
        ([1.0, 2, 3, 4, 5, 6, *[10.0] * 8], (math.inf, 3.0, math.inf)),
        ([10.0] * 14, (math.inf, math.inf, math.inf)),
        # Too few for an interval.
        ([1.0], (1.0, math.nan, math.nan)),
        ([1.0, 2, 3, 4, 5], (3.0, math.nan, math.nan)),
    ],
)
def test_median_and_its_ranks_by_hand(years, expected):
    median = life_quantile(np.asarray(years), np.asarray(years) < 10)
    found = median.value, median.lower, median.upper
    assert found == pytest.approx(expected, nan_ok=True)


@each("share", [0.1, 0.5, 0.9])
@each("count", [60, 100, 150, 1000])
def test_ranks_are_those_of_scipy_moved_inwards(count, share):
    """As long as the promise holds, and not a rank further: ranks are binomial."""
    lower, upper = enclosing_ranks(count, share)
    test = stats.quantile_test(np.arange(1.0, count + 1), p=share)
    interval = test.confidence_interval(0.95)
    assert interval.low <= lower < upper <= interval.high

    def enclosed(first, last):
        return stats.binom.pmf(np.arange(first, last), count, share).sum()

    assert enclosed(lower, upper) >= 0.95
    assert max(enclosed(lower + 1, upper), enclosed(lower, upper - 1)) < 0.95


@each(("share", "first_count"), [(0.5, 60), (0.1, 125)])
def test_ranks_promise_no_more_than_they_should(share, first_count):
    """95 to 96.5 %; equal tails alone give 97.2 % for the 10 % quantile of 150."""
    for count in range(first_count, 800):
        lower, upper = enclosing_ranks(count, share)
        below = stats.binom.cdf((lower - 1, upper - 1), count, share)
        assert 0.95 <= below[1] - below[0] <= 0.965, count


def test_ranks_move_inwards_from_the_outermost_ones_too():
    """Of eight lives, the first and the last enclose the median with 99.2 %, the seventh still."""
    assert enclosing_ranks(8, 0.5) == (1, 7)
    assert enclosing_ranks(17, 0.75) == (10, 17)


def test_rounding_moves_no_rank():
    """7 % of a hundred lives are seven, though 0.07 * 100 is a hair more."""
    for count, share, rank in ((100, 0.07, 7), (100, 0.55, 55), (50, 0.14, 7), (100, 0.071, 8)):
        assert quantile_rank(count, share) == rank
        assert quantile_rank(count, 1e-9) == 1


def test_a_life_may_be_censored_at_the_age_of_the_last_death():
    years, died = np.array([1.0, 2.0, 2.0]), np.array([True, True, False])
    assert life_quantile(years, died).value == 2.0
    with pytest.raises(ValueError, match="outlast every death"):
        life_quantile(np.array([1.0, 2.0, 1.9]), died)


def test_a_precision_is_that_of_the_bound_that_is_farther_away():
    lives = np.repeat([0.0, 10.0], [2, 198])
    known = mean_precision(lives, within=(0.0, 10.0))
    of = known.estimate
    assert of.value - of.lower > 1.5 * (of.upper - of.value)
    assert known.relative == pytest.approx((of.value - of.lower) / of.value)


@given(lives=st.lists(st.floats(0.1, 12.0), min_size=1, max_size=60), share=st.floats(0.05, 0.95))
def test_quantiles_invert_the_kaplan_meier_curve(lives, share):
    years = np.minimum(lives, 10.0)
    died = years < 10.0
    curve = kaplan_meier(years, died)
    reached = curve.years[curve.survival <= 1 - share + 1e-9]
    assert life_quantile(years, died, share).value == (reached[0] if reached.size else math.inf)


# Are competing causes kept apart, and do they add up?

LIVES_WITH_CAUSES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=40
)
AGES = np.arange(-1.0, 8.0)


def arrays(lives):
    years, cause = np.array(lives).T
    return years.astype(float), cause


def test_competing_risks_by_hand():
    # At 1: 5 at risk, one dies of A. At 2: 4 at risk, one of B, one lost. At 3: 2, one of A.
    years, cause = arrays([(1, 1), (2, 2), (2, 0), (3, 1), (9, 0)])
    of_a, of_b = (cumulative_incidence(years, cause > 0, cause == of, AGES) for of in (1, 2))
    after_3 = 1 / 5 + 4 / 5 * 3 / 4 * 1 / 2
    np.testing.assert_allclose(of_a.share, [0, 0, 1 / 5, 1 / 5, *[after_3] * 5])
    np.testing.assert_allclose(of_b.share, [0, 0, 0, *[4 / 5 / 4] * 6])
    # Those that are dead on arrival count at age zero.
    years, cause = arrays([(0, 1), (0, 1), (5, 1)])
    curve = cumulative_incidence(years, cause > 0, cause > 0, AGES)
    np.testing.assert_allclose(curve.share, [0, *[2 / 3] * 5, 1, 1, 1])


@given(lives=LIVES_WITH_CAUSES)
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


@given(lives=LIVES_WITH_CAUSES)
def test_without_losses_the_band_is_that_of_a_plain_share(lives):
    years, cause = arrays(lives)
    years = np.where(cause == 0, 7.0, years)
    curve = cumulative_incidence(years, cause > 0, cause == 1, AGES)
    for place, age in enumerate(AGES):
        dead = proportion(int(np.count_nonzero((cause == 1) & (years <= age))), years.size)
        assert curve.share[place] == pytest.approx(dead.value)
        assert curve.lower[place] == pytest.approx(dead.lower, abs=1e-9)
        assert curve.upper[place] == pytest.approx(dead.upper, abs=1e-9)


@given(lives=LIVES_WITH_CAUSES)
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


# Are estimates and their intervals those of hand calculation, of SciPy, and of their promise?


def test_wilson_by_hand_and_by_scipy():
    assert proportion(0, 10).upper == pytest.approx(0.2775, abs=5e-5)
    cases = [(0, 1), (1, 1), (3, 10), (999, 10_000), *((of, 499) for of in (0, 499))]
    for successes, count in cases:
        interval = stats.binomtest(successes, count).proportion_ci(method="wilson")
        estimate = proportion(successes, count)
        assert estimate.value == successes / count
        assert (estimate.lower, estimate.upper) == pytest.approx(tuple(interval), abs=1e-12)
        assert (estimate.lower == 0) == (successes == 0)
        assert (estimate.upper == 1) == (successes == count)


def test_mean_by_hand():
    # Mean 2, standard deviation 1, t(2 degrees, 97.5 %) = 4.3027.
    estimate = mean(np.array([1.0, 2.0, 3.0]))
    half = 4.302653 / math.sqrt(3)
    expected = [2.0, 2.0 - half, 2.0 + half]
    assert list(vars(estimate).values()) == pytest.approx(expected, rel=1e-6)
    assert mean(np.array([3.0, np.nan])).value == 3.0
    assert math.isnan(mean(np.array([3.0])).lower)
    assert math.isnan(mean(np.array([np.nan])).value)


def test_mean_of_single_precision_does_not_lose_its_interval():
    values = np.full(1_000_000, 60.0, np.float32)
    values[::2] += np.float32(1e-3)
    estimate = mean(values)
    assert estimate.value == pytest.approx(60.0005, abs=1e-6)
    assert estimate.upper - estimate.lower == pytest.approx(2 * 1.96 * 5e-4 / 1e3, rel=1e-2)


@each(
    ("bounds", "text"),
    [
        ((4.0, 3.0, math.inf), "4.00 [3.00, > 10]"),
        ((4.0, math.nan, math.nan), "4.00 [–, –]"),
        ((math.inf, 3.0, math.inf), "> 10 [3.00, > 10]"),
        ((math.inf, math.inf, math.inf), "> 10"),
        ((math.inf, math.nan, math.nan), "> 10"),
    ],
)
def test_ages_with_their_bounds(bounds, text):
    assert life(Estimate(*bounds), 10.0) == text


# Lives of chips out of those of their slices.

ALIVE, DELAY, ENTRY, HOME, *_ = EndCause

# Chips of three: deaths in every order, a censored slice, two deaths at one age, all alive; and
# two slices more.
YEARS = np.array([5, 3, 4, 10, 2, 9, 1, 1, 7, 10, 10, 10, 0, 0], float)
CAUSE = np.array(
    [
        *(DELAY, ENTRY, HOME),
        *(ALIVE, HOME, DELAY),
        *(HOME, DELAY, ENTRY),
        *(ALIVE, ALIVE, ALIVE),
        *(ENTRY, ENTRY),
    ],
    np.int8,
)
SLICES = CaseLives("rrcd", YEARS, CAUSE != ALIVE, CAUSE, horizon_years=10.0)


@each(
    ("spare_slices", "years", "causes"),
    [
        (0, [3, 2, 1, 10], [ENTRY, HOME, HOME, ALIVE]),
        (1, [4, 9, 1, 10], [HOME, DELAY, DELAY, ALIVE]),
        (2, [5, 10, 7, 10], [DELAY, ALIVE, ENTRY, ALIVE]),
    ],
)
def test_chips_by_hand(spare_slices: int, years: list[float], causes: list[EndCause]) -> None:
    chips = chip_lives(SLICES, 3, spare_slices)
    assert chips.years.tolist() == years
    assert chips.cause.tolist() == causes
    assert chips.died.tolist() == [cause != ALIVE for cause in causes]
    assert (chips.label, chips.horizon_years) == ("rrcd", 10.0)
    alone = chip_lives(SLICES, 1)
    np.testing.assert_array_equal((alone.years, alone.cause), (YEARS, CAUSE))
    # A death at the horizon comes before survival.
    years, died = np.array([10.0, 10.0]), np.array([False, True])
    both = CaseLives("", years, died, np.array([ALIVE, DELAY]), 10.0)
    assert [chip_lives(both, 2, spare).cause[0] for spare in (0, 1)] == [DELAY, ALIVE]


def test_chips_are_dies() -> None:
    """Slices that the fault model puts on one die, and no others, decide the life of a chip."""
    dies = die_of(np.arange(120), 40)
    for die in range(3):
        years = np.where(dies == die, 1.0, 10.0)
        died = dies == die
        slices = CaseLives("", years, died, np.where(died, DELAY, ALIVE), 10.0)
        assert (chip_lives(slices, 40).years == 1.0).tolist() == [die == d for d in range(3)]


@each(("slices_per_chip", "spare_slices"), [(1, 0), (8, 0), (8, 3), (8, 7)])
def test_distribution_of_the_order_statistic(slices_per_chip: int, spare_slices: int) -> None:
    """Of independent uniform lives, the k-th of n is beta-distributed; p > 1e-5, fixed seed."""
    years = np.random.default_rng(3).random(8000)
    slices = CaseLives("", years, np.ones(8000, bool), np.full(8000, DELAY), 1.0)
    chips = chip_lives(slices, slices_per_chip, spare_slices)
    expected = stats.beta(spare_slices + 1, slices_per_chip - spare_slices)
    assert stats.kstest(chips.years, expected.cdf).pvalue > 1e-5


@each(
    ("slices_per_chip", "spare_slices", "message"),
    [
        (0, 0, "slices_per_chip = 0, expected 1 or more"),
        (3, 3, r"spare_slices = 3, expected 0 \.\.\. 2 of the 3 slices"),
        (3, -1, "spare_slices = -1, expected"),
        (15, 0, "14 slices make no chip of 15: run a sweep of more instances"),
    ],
)
def test_numbers_that_make_no_chip(slices_per_chip: int, spare_slices: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        chip_lives(SLICES, slices_per_chip, spare_slices)
    lost = replace(SLICES, years=np.where(np.arange(14) == 3, 4.0, YEARS))
    with pytest.raises(ValueError, match="every censored life to outlast every death"):
        chip_lives(lost, 3)


# Failures in a million and failure rates: what they are made of, and what they do not claim.


def lives(years, horizon=10.0):
    years = np.minimum(np.asarray(years, float), horizon)
    died = years < horizon
    return CaseLives("case", years, died, died.astype(np.int8), horizon)


def test_a_case_by_hand():
    assert HOURS_PER_YEAR * 3600 == SECONDS_PER_YEAR
    rate = failure_rate(lives([0.0, 0.0, 1.0, 2.0, 2.5, 9.0, 20, 20, 20, 20]), 2.0)
    assert rate.failed_ppm.value == 400_000
    assert rate.failed_ppm.lower == pytest.approx(1e6 * proportion(4, 10).lower)
    assert rate.dead_on_arrival_ppm.value == 200_000
    for name, share in vars(proportion(2, 8)).items():
        expected = -math.log(1 - share) * 1e9 / (2 * 8760)
        assert getattr(rate.mean_rate_fit, name) == pytest.approx(expected)


def test_the_rate_of_exponential_lives_is_theirs_at_any_age():
    drawn = np.random.default_rng(5).exponential(20.0, 40_000)
    for age in (0.5, 2.0, 10.0):
        rate = failure_rate(lives(drawn, 10.5), age, 0.9999).mean_rate_fit
        assert rate.lower < 1e9 / (20.0 * 8760) < rate.upper


def test_nobody_and_everybody():
    nobody = failure_rate(lives([20.0] * 50), 10.0)
    assert nobody.failed_ppm.value == nobody.mean_rate_fit.value == nobody.mean_rate_fit.lower == 0
    assert nobody.mean_rate_fit.upper > 0
    everybody = failure_rate(lives([1.0] * 50), 5.0).mean_rate_fit
    assert math.isnan(everybody.value)
    assert math.isnan(everybody.upper)
    assert everybody.lower > 0
    never = failure_rate(lives([0.0] * 50), 5.0)
    assert never.failed_ppm.value == 1e6
    assert math.isnan(never.mean_rate_fit.lower)


def test_ages_outside_are_refused():
    for age in (0.0, -1.0, 10.5, math.nan):
        with pytest.raises(ValueError, match="within the simulated time"):
            failure_rate(lives([1.0, 2.0]), age)


def test_small_shares_lose_no_digits():
    share = Estimate(1e-12, 1e-13, 1e-11)
    assert in_ppm(share) == Estimate(*(pytest.approx(v) for v in (1e-6, 1e-7, 1e-5)))
    assert fit_of_share(share, 1.0).value == pytest.approx(1e-3 / 8760, rel=1e-9)


# Mean lives up to a horizon, of which few may end before it.

HORIZON = 10.0


FEW = ((50, 0.03), (50, 0.4), (200, 0.01), (200, 0.04), (200, 0.97), (800, 0.01))


@each("ends", script.ENDS)
@each(("count", "dying"), FEW)
def test_intervals_of_mean_lives_cover_however_few_slices_die(ends, count, dying):
    """Student's covers 14 to 90 % of them where one in a hundred dies, and has no width at none."""
    draw = np.random.default_rng(5)
    assert sum(script.mean_lives_missed(script.ENDS[ends], dying, count, 400, draw)) <= 0.1


@each("count", [2, 20, 300])
def test_intervals_of_mean_lives_are_those_of_a_share_where_lives_are_all_or_nothing(count):
    for dead in {0, 1, count // 3, count}:
        lives = np.repeat([0.0, HORIZON], [dead, count - dead])
        share = proportion(count - dead, count)
        expected = [HORIZON * bound for bound in vars(share).values()]
        assert list(vars(mean(lives, within=(0.0, HORIZON))).values()) == pytest.approx(expected)


def test_a_mean_life_is_not_certain_before_a_slice_has_died():
    lives = mean(np.full(100, HORIZON), within=(0.0, HORIZON))
    assert (lives.value, lives.upper) == (HORIZON, HORIZON)
    assert lives.lower == pytest.approx(HORIZON * (1 - 1.959964**2 / (100 + 1.959964**2)))
    assert plus_minus(lives) == "10.00 [9.63, 10.00]"
    alike = mean(np.full(100, 3.0), within=(0.0, HORIZON))
    assert alike.lower < 2.95 < 3.05 < alike.upper
    assert math.isnan(mean(np.array([3.0]), within=(0.0, HORIZON)).lower)
