"""Do the sentences of a page say what the lives say?"""

import numpy as np
import pytest

from mcage.lifetime.end_cause import EndCause
from mcage.report.page.words import _killers, _longest, in_a_row
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives
from mcage.stats.wording import plus_minus

HORIZON = 10.0


def lives(years, cause=EndCause.DELAY):
    years = np.minimum(np.asarray(years, float), HORIZON)
    died = years < HORIZON
    causes = np.where(died, cause, EndCause.CENSORED)
    return CaseLives("case", years, died, causes, HORIZON)


@pytest.fixture
def dies():
    return np.random.default_rng(3).uniform(2, 8, 200)


def test_names():
    assert in_a_row(["a"]) == "a"
    assert in_a_row(["a", "b", "c"]) == "a, b and c"


def test_the_longest_is_ahead_on_the_same_dies(dies):
    """The gain is a year on each die, though dies differ by more."""
    said = _longest({"worse": lives(dies), "better": lives(dies + 1)})
    mean = plus_minus(compare_means(dies + 1, dies).first)
    assert said == (
        f"better lives {mean} years on average up to the horizon of 10 years (restricted mean), "
        "the longest of all, 1 ±0 years longer than worse on the same dies."
    )


def test_techniques_that_dies_do_not_tell_apart_are_named(dies):
    jitter = np.random.default_rng(4).normal(0, 1, dies.size)
    jitter -= jitter.mean() + 1e-6
    cases = {
        "best": lives(dies),
        "same": lives(dies.copy()),
        "near": lives(dies + jitter),
        "far": lives(dies - 1),
    }
    said = _longest(cases)
    assert "as does same, die by die, and which these dies do not tell apart from near; " in said
    assert said.endswith("1 ±0 years longer than far on the same dies.")


def test_all_or_none_reach_the_horizon(dies):
    forever = lives(np.full(5, 12.0))
    never = lives(np.zeros(5), EndCause.FAULTY_ENTRY)
    assert _longest({"a": never, "b": never}) == "no slice works under any technique."
    said = _longest({"a": forever, "b": never, "c": forever})
    assert said == "all slices of a and c reach the horizon of 10 years."
    assert _longest({"a": forever}) == "all slices of a reach the horizon of 10 years."


def test_what_becomes_of_most_slices():
    two_of_three = lives([1, 2, 12], EndCause.NO_HOME)
    all_dead = lives([0, 0, 0], EndCause.NO_HOME)
    said = _killers({"a": two_of_three, "b": all_dead, "c": lives([11, 12, 3])})
    assert said == (
        "Most slices die because a register finds no home with a and b (66.7 % to 100 %); reach "
        "the horizon with c (66.7 %)."
    )
