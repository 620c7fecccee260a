"""The printed figures, and what counts as agreeing with them."""

import math

import numpy as np
import pytest
from tables import each

from mcage.studies.reproduction.measured import Measured, of_kernels
from mcage.studies.reproduction.published import (
    ALL,
    MEAN,
    PAPERS,
    Published,
    Reasons,
    published_figures,
)
from mcage.studies.reproduction.table import METRICS, Row, in_counts
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS
from mcage.variation.scenarios import PUBLISHED

FIGURES = published_figures()


def figure(low: float = 50, high: float = 50, tolerance: float = 5, **others) -> Published:
    fields = {"paper": "000", "place": "Fig. 1", "metric": "m", "technique": "", "kernel": ""}
    fields |= {"scenario": "", "text": "50", "unit": "%", **others}
    return Published(**fields, low=low, high=high, tolerance=tolerance)


def test_both_papers_are_there():
    assert {figure.paper for figure in FIGURES} == set(PAPERS)
    assert published_figures("002") == [figure for figure in FIGURES if figure.paper == "002"]


def test_every_figure_is_asked_for_once():
    keys = [(f.paper, f.metric, f.technique, f.kernel, f.scenario) for f in FIGURES]
    assert len(set(keys)) == len(keys)


@each("figure", FIGURES)
def test_a_figure_speaks_of_what_there_is(figure):
    assert figure.technique in ("", *TECHNIQUES)
    assert figure.kernel in ("", MEAN, ALL, *KERNELS)
    assert figure.scenario in ("", *PUBLISHED)
    assert math.isnan(figure.low) or figure.low <= figure.high
    assert math.isnan(figure.tolerance) or figure.tolerance >= 0
    # The first number of the text is the range's lower or upper end.
    first = figure.text.removeprefix("about ").strip("> <≤").split(" ")[0].strip(",")
    assert (
        math.isnan(figure.low)
        or float(first) in (figure.low, figure.high)
        or figure.low < float(first)
    )


def test_what_mcage_cannot_answer_is_said():
    unanswered = [figure for figure in FIGURES if figure.metric not in METRICS]
    assert [figure.metric for figure in unanswered] == ["slowdown_of_slower_slice"]
    assert "cycle-level" in Reasons.read().why(unanswered[0], "wavefront")


def test_every_metric_is_of_use():
    assert {figure.metric for figure in FIGURES} >= set(METRICS)


@each(
    ("value", "difference", "agrees"),
    [(50, 0, True), (55, 5, True), (55.1, 5.1, False), (45, -5, True), (44, -6, False)],
)
def test_agreement_with_a_value(value, difference, agrees):
    assert figure().difference(value) == pytest.approx(difference)
    assert figure().agrees(value) is agrees


@pytest.mark.parametrize(("value", "agrees"), [(69, False), (70, True), (75, True), (80.5, False)])
def test_agreement_with_a_range(value, agrees):
    assert figure(70, 80, tolerance=0).agrees(value) is agrees


def test_agreement_with_a_list():
    listed = figure(math.nan, math.nan, math.nan, text="1, 2")
    assert Measured(math.nan, text="1, 2").agrees(listed)
    assert not Measured(math.nan, text="1, 3").agrees(listed)


def test_mean_over_kernels_and_its_interval_over_dies():
    values = {"a": np.array([1.0, 3.0]), "b": np.array([5.0])}
    measured = of_kernels(figure(kernel=MEAN), values)
    assert measured.value == pytest.approx(3.5)
    assert measured.by_kernel == {"a": 2.0, "b": 5.0}
    # Means of the dies are 3 and 4: t(0.975, 1) / sqrt(2) times their deviation of 1 / sqrt(2).
    assert measured.half_width == pytest.approx(12.706 / 2, rel=1e-3)


def test_dies_that_make_no_difference_have_no_interval():
    same = np.array([2.0, 2.0 + 1e-15])
    assert of_kernels(figure(kernel="a"), {"a": same}).half_width == 0


def test_of_all_kernels_the_furthest():
    values = {name: np.array([value]) for name, value in {"a": 49.0, "b": 44.0, "c": 55.0}.items()}
    assert of_kernels(figure(kernel=ALL), values).value == 44.0
    assert of_kernels(figure(kernel="c"), values).value == 55.0


def test_the_first_reason_that_fits_counts():
    reasons = Reasons(
        (
            {"metric": "m", "kernel": "DCT", "why": "one"},
            {"metric": "m", "release": "work-group", "why": "two"},
            {"metric": "m", "why": "three"},
        )
    )
    assert reasons.why(figure(kernel="DCT"), "work-group") == "one"
    assert reasons.why(figure(), "work-group") == "two"
    assert reasons.why(figure(), "wavefront") == "three"
    assert reasons.why(figure(metric="n"), "wavefront") == ""


def row_of(values: dict[int | None, float]) -> Row:
    return Row(figure(), {limit: Measured(value) for limit, value in values.items()}, "", "")


def test_verdicts_are_counted():
    rows = [row_of({64: first, None: second}) for first in (50, 0) for second in (51, 1)]
    rows += [row_of({64: 52, None: 53}), row_of({})]
    assert in_counts(rows) == (
        "6 lines: 2 agree, 1 agree only with the published delta limit, 1 agree only without a "
        "limit, 1 do not agree, 1 cannot be answered."
    )
    assert in_counts(rows[:1]) == "1 lines: 1 agree."


def test_a_limit_that_only_rounds_otherwise_does_not_matter():
    assert not row_of({64: 34.8, None: 34.8 + 1e-13}).way_matters
    assert row_of({64: 34.8, None: 34.81}).way_matters
