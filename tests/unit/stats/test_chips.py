"""Lives of chips out of those of their slices."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mcage.errors import UserError
from mcage.lifetime.end_cause import EndCause
from mcage.stats.chips import chip_lives
from mcage.stats.survival import CaseLives, kaplan_meier
from mcage.variation.die import die_of

ALIVE, DELAY, ENTRY, HOME, _ = EndCause

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


@pytest.mark.parametrize(
    ("spare_slices", "years", "causes"),
    [
        (0, [3, 2, 1, 10], [ENTRY, HOME, HOME, ALIVE]),
        (1, [4, 9, 1, 10], [HOME, DELAY, DELAY, ALIVE]),
        (2, [5, 10, 7, 10], [DELAY, ALIVE, ENTRY, ALIVE]),
    ],
)
def test_by_hand(spare_slices: int, years: list[float], causes: list[EndCause]) -> None:
    chips = chip_lives(SLICES, 3, spare_slices)
    assert chips.years.tolist() == years
    assert chips.cause.tolist() == causes
    assert (chips.label, chips.horizon_years) == ("rrcd", 10.0)


def test_a_chip_of_one_slice_is_that_slice() -> None:
    chips = chip_lives(SLICES, 1)
    np.testing.assert_array_equal(chips.years, YEARS)
    np.testing.assert_array_equal(chips.cause, CAUSE)


def test_a_death_at_the_horizon_comes_before_survival() -> None:
    slices = CaseLives(
        "", np.array([10.0, 10.0]), np.array([False, True]), np.array([ALIVE, DELAY]), 10.0
    )
    assert chip_lives(slices, 2).cause.tolist() == [DELAY]
    assert chip_lives(slices, 2, 1).cause.tolist() == [ALIVE]


def test_chips_are_dies() -> None:
    """Slices that the fault model puts on one die, and no others, decide the life of a chip."""
    dies = die_of(np.arange(120), 40)
    for die in range(3):
        years = np.where(dies == die, 1.0, 10.0)
        died = dies == die
        slices = CaseLives("", years, died, np.where(died, DELAY, ALIVE), 10.0)
        assert (chip_lives(slices, 40).years == 1.0).tolist() == [die == d for d in range(3)]


@pytest.mark.parametrize(("slices_per_chip", "spare_slices"), [(1, 0), (8, 0), (8, 3), (8, 7)])
def test_distribution_of_the_order_statistic(slices_per_chip: int, spare_slices: int) -> None:
    """Of independent uniform lives, the k-th of n is beta-distributed; p > 1e-5, fixed seed."""
    years = np.random.default_rng(3).random(8000)
    slices = CaseLives("", years, np.ones(8000, bool), np.full(8000, DELAY), 1.0)
    chips = chip_lives(slices, slices_per_chip, spare_slices)
    expected = stats.beta(spare_slices + 1, slices_per_chip - spare_slices)
    assert stats.kstest(chips.years, expected.cdf).pvalue > 1e-5


def test_statistics_of_slices_serve_chips() -> None:
    chips = chip_lives(SLICES, 3, 1)
    curve = kaplan_meier(chips.years, chips.died)
    assert curve.years.tolist() == [1, 4, 9]
    np.testing.assert_allclose(curve.survival, [0.75, 0.5, 0.25])


@pytest.mark.parametrize(
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


def test_unknown_order_of_deaths() -> None:
    lost = replace(SLICES, years=np.where(np.arange(14) == 3, 4.0, YEARS))
    with pytest.raises(ValueError, match="every censored life to outlast every death"):
        chip_lives(lost, 3)
