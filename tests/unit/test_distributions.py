"""Distributions: what each text stands for, what it draws, and texts that stand for none."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tables import each

from mcage.distributions import Distribution

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))
widths = st.floats(1e-3, 1e3).map(lambda value: round(value, 6))
uniforms = st.floats(0, 1, exclude_max=True)


@st.composite
def distributions(draw):
    """Texts of all forms."""
    low, width = draw(numbers), draw(widths)
    match draw(st.sampled_from(("number", "constant", "uniform", "normal", "bounded", "discrete"))):
        case "number":
            return low
        case "constant":
            return f"constant({low})"
        case "uniform":
            return f"uniform({low}, {low + width})"
        case "normal":
            return f" normal( {low},{width} ) "
        case "bounded":
            below, above = draw(widths), draw(widths)
            return f"normal({low}, {width}, {low - below}, {low + above})"
        case _:
            values = draw(st.lists(numbers, min_size=1, max_size=5, unique=True))
            weights = draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
            pairs = zip(values, weights, strict=True)
            return f"discrete({', '.join(f'{v}: {w / sum(weights)}' for v, w in pairs)})"


@given(distributions(), uniforms, uniforms)
def test_draws_rise_within_the_bounds(text, first, other):
    distribution = Distribution.of(text)
    low, high = distribution.bounds
    least, most = distribution.at(min(first, other)), distribution.at(max(first, other))
    assert low <= least <= most <= high
    assert distribution.at(0.0) >= low


@given(distributions(), uniforms)
def test_its_text_stands_for_it(text, uniform):
    distribution = Distribution.of(text)
    again = Distribution.of(str(distribution))
    assert again.at(uniform) == distribution.at(uniform)
    assert (again.bounds, str(again)) == (distribution.bounds, str(distribution))


RANKS = (np.arange(20_000) + 0.5) / 20_000


def drawn(text):
    return np.array([Distribution.of(text).at(rank) for rank in RANKS])


def test_constants():
    for text in (353, 353.0, "constant(353)", "discrete(353: 1)"):
        assert set(drawn(text)) == {353.0}
    assert Distribution.of(353).is_constant


def test_uniform():
    assert drawn("uniform(340, 360)") == pytest.approx(340 + 20 * RANKS)


def test_normal_laws_are_truncated_at_four_deviations():
    distribution, values = stats.truncnorm(-4, 4, 353, 5), drawn("normal(353, 5)")
    assert values == pytest.approx(distribution.ppf(RANKS), abs=1e-9)
    assert Distribution.of("normal(353, 5)").bounds == (333, 373)
    assert values.std() == pytest.approx(5, rel=2e-3)


def test_normal_laws_within_bounds_of_their_own():
    distribution = stats.truncnorm(-1, 0.2, 353, 5)
    assert drawn("normal(353, 5, 348, 354)") == pytest.approx(distribution.ppf(RANKS), abs=1e-9)


def test_discrete_laws_have_their_shares():
    values = drawn("discrete(360: 0.7, 340: 0.1, 350: 0.2)")
    shares = {value: np.mean(values == value) for value in set(values)}
    assert shares == pytest.approx({340: 0.1, 350: 0.2, 360: 0.7})


def test_shares_that_round_below_one_miss_no_draw():
    distribution = Distribution.of(f"discrete({', '.join(f'{n}: 0.1' for n in range(10))})")
    assert distribution.at(math.nextafter(1, 0)) == 9


@each(
    ("text", "words"),
    [
        ("", "must be a number"),
        ("353", "must be a number"),
        ("353 K", "must be a number"),
        ("normal", "must be a number"),
        ("normal(353, 5", "must be a number"),
        ("Normal(353, 5)", "must be a number"),
        ("weibull(1, 2)", "'weibull' is no distribution"),
        ("normal()", "2 or 4 numbers, not 1"),
        ("normal(353)", "2 or 4 numbers, not 1"),
        ("normal(353, 5, 340)", "2 or 4 numbers, not 3"),
        ("normal(353, 0)", "sigma > 0"),
        ("normal(353, -5)", "sigma > 0"),
        ("normal(353, 5, 360, 370)", "the mean between them"),
        ("normal(353, 5, 353, 353)", "lowest < highest"),
        ("normal(353, five)", "'five' is no number"),
        ("normal(353, inf)", "inf is no finite number"),
        ("uniform(340, 340)", "a < b"),
        ("uniform(340; 350)", "takes 2 numbers, not 1"),
        ("uniform(nan, 340)", "nan is no finite number"),
        ("constant(1, 2)", "takes 1 number, not 2"),
        ("discrete(340)", "a share for every value"),
        ("discrete(340: 0.5, 340: 0.5)", "one value twice"),
        ("discrete(340: 0.5, 350: 0.6)", "sum to 1, not to 1.1"),
        ("discrete(340: -0.5, 350: 1.5)", "shares above 0"),
        (math.nan, "no finite number"),
        (math.inf, "no finite number"),
    ],
)
def test_texts_that_stand_for_no_law(text, words):
    with pytest.raises(ValueError, match=words):
        Distribution.of(text)
