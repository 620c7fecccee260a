"""The printed figures, and what counts as agreeing with them."""

import io
import math
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import paper_drawings as drawings
import pytest
from paper_drawings import from_csv, marks_of
from paper_tables import PLOTS
from rich.console import Console
from tables import each

from mcage.engines.numba_engine import NumbaEngine
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.papers.kernel_replays import (
    ALL,
    MEAN,
    NUMBERS,
    ONE,
    PAPERS,
    ZERO,
    KernelReplays,
    Published,
    Reasons,
    cell_duties,
    published_figures,
)
from mcage.papers.register_files import Measured, of_kernels
from mcage.papers.table import METRICS, TableRow, as_json, cells, in_counts, print_rows, ways_of
from mcage.replays.outcome import CellTimes
from mcage.report.figures.canvas import WIDTHS_MM, inches
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS
from mcage.variation.scenarios import PUBLISHED

FIGURES = published_figures()


def figure(low: float = 50, high: float = 50, tolerance: float = 5, **others) -> Published:
    fields = {"paper": "000", "place": "Fig. 1", "metric": "m", "technique": "", "kernel": ""}
    fields |= {"scenario": "", "text": "50", "unit": "%", **others}
    return Published(**fields, low=low, high=high, tolerance=tolerance)


def test_every_figure_of_both_papers_is_asked_for_once():
    keys = [(f.paper, f.metric, f.technique, f.kernel, f.scenario) for f in FIGURES]
    assert len(set(keys)) == len(keys)
    assert {paper for paper, *_ in keys} == set(PAPERS)
    assert published_figures("002") == [figure for figure in FIGURES if figure.paper == "002"]


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
    assert {figure.metric for figure in FIGURES} >= set(METRICS), "every metric is of use"


@each(
    ("value", "difference", "agrees"),
    [(50, 0, True), (55, 5, True), (55.1, 5.1, False), (45, -5, True), (44, -6, False)],
)
def test_agreement_with_a_value(value, difference, agrees):
    assert figure().difference(value) == pytest.approx(difference)
    assert figure().agrees(value) is agrees


@each(("value", "agrees"), [(69, False), (70, True), (75, True), (80.5, False)])
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

    same = {"a": np.array([2.0, 2.0 + 1e-15])}
    assert of_kernels(figure(kernel="a"), same).half_width == 0, "dies make no difference"


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


def row_of(values: dict[int | None, float]) -> TableRow:
    return TableRow(figure(), {limit: Measured(value) for limit, value in values.items()}, "", "")


def test_verdicts_are_counted():
    rows = [row_of({64: first, None: second}) for first in (50, 0) for second in (51, 1)]
    rows += [row_of({64: 52, None: 53}), row_of({})]
    assert in_counts(rows) == (
        "6 lines: 2 agree, 1 agree only with the published delta limit, 1 agree only without a "
        "limit, 1 do not agree, 1 cannot be answered."
    )
    assert in_counts(rows[:1]) == "1 lines: 1 agree."
    # A limit that only rounds otherwise does not matter.
    assert not row_of({64: 34.8, None: 34.8 + 1e-13}).way_matters
    assert row_of({64: 34.8, None: 34.81}).way_matters


# Do the papers' values stand where they belong, and can the figures be read?

RESULTS = Path(__file__).parents[3] / "results" / "reproduce"
BY_NAME = {plot.name: plot for plot in PLOTS}


@cache
def table_of(name):
    return from_csv(RESULTS / f"{name}.csv")


@each(
    ("name", "bar", "kernel", "expected"),
    [
        ("000-fig13", "argo", "BlackScholes", [("zero", 100, 100, "value")]),
        ("000-fig13", "argo", "DCT", []),
        ("000-fig13", "rc+rar, no limit", "mean", [("zero", 42, 42, "reduction")]),
        ("000-fig20", "rc+rar, limit 64", "mean", [("", 0.48, 0.48, "value")]),
        ("002-fig02", "no limit", "SimpleConvolution", [("", 93, 93, "value")]),
        ("002-fig04", "dispersed, no limit", "BlackScholes", [("lds", 1, 2, "range")]),
        ("002-fig05", "common, limit 64", "BlackScholes", [("", 0, 4.5, "at most")]),
    ],
)
def test_marks_have_the_printed_heights(name, bar, kernel, expected):
    found = [m for m in marks_of(BY_NAME[name], table_of(name)) if m.is_of(bar, kernel)]
    rounded = [(m.part, round(m.low, 2), round(m.high, 2), m.kind) for m in found]
    assert rounded == expected


def test_figures_can_be_read():
    figure = drawings.draw(BY_NAME["002-fig04"], table_of("002-fig04"))
    assert figure.get_figwidth() == pytest.approx(inches(WIDTHS_MM[1]))
    figure.canvas.draw()
    labels = [of for of in figure.axes[-1].get_xticklabels() if of.get_text()]
    # Slanted names: what would collide is their ends, at the ticks.
    ends = [label.get_window_extent().x1 for label in labels]
    size = labels[0].get_fontsize() * figure.dpi / 72
    assert all(b - a > size for a, b in pairwise(ends))
    assert not [of.get_text() for of in labels if of.get_text().isdigit()]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("paper" in word for word in words)
    whole = figure.bbox
    for text in (*figure.legends[0].get_texts(), figure.axes[0].yaxis.label, *labels):
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, text.get_text()
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, text.get_text()
    quantity = figure.get_supylabel() or figure.axes[0].get_ylabel()
    assert "%" in quantity
    assert len(quantity) > len("percent")
    plt.close(figure)


# What figures show of cells, on cell times made by hand.

PERIOD = 100


@pytest.fixture
def times() -> CellTimes:
    ones = np.zeros((1, GCN.entries, GCN.entry_bits), dtype=np.int64)
    powered = np.zeros_like(ones)
    powered[0, :2] = 50
    powered[0, 1, 7], ones[0, 1, 7] = 90, 10  # longest '0': 80
    powered[0, 0, 3], ones[0, 0, 3] = 70, 60  # longest '1': 60
    return CellTimes(ones, powered, PERIOD)


def test_cells_with_the_longest_duties(times):
    used = np.arange(GCN.entries) < 2
    duties = cell_duties(times, used)
    assert duties.longest == pytest.approx([0.8, 0.6])
    assert duties.most_stressed[ZERO] == pytest.approx([0.8, 0.1])
    assert duties.most_stressed[ONE] == pytest.approx([0.1, 0.6])
    assert duties.of_entries[0, ZERO] == pytest.approx([0.5, 0.0])
    assert duties.of_entries[0, ONE] == pytest.approx([0.1, 0.6])
    assert duties.of_entries[2].max() == 0

    # Means by bit are over the entries in use.
    of_bits = cell_duties(times, np.arange(GCN.entries) < 4).of_bits
    assert of_bits[7] == pytest.approx([(0.5 + 0.8) / 4, 0.1 / 4])
    assert of_bits[0] == pytest.approx([2 * 0.5 / 4, 0])


# Tables of papers in terminals: which printed value a line is about, and what agrees.


def rows_of(paper):
    """Rows of a paper whose printed values are measured to the last digit."""
    return [
        TableRow(figure, dict.fromkeys(ways_of(paper), Measured(figure.high)), "", "")
        for figure in published_figures(paper)
        if figure.high == figure.high
    ]


def printed(rows, width):
    text = io.StringIO()
    print_rows(rows, Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 159, 300])
@pytest.mark.parametrize("paper", NUMBERS.values(), ids=NUMBERS)
def test_lines_of_any_width_say_what_they_are_about(paper, width):
    rows = rows_of(paper)
    text = printed(rows, width)
    words = set(text.replace(",", " ").replace(":", " ").split())
    for row in rows:
        subjects = [*cells(row)[1:5]]
        assert set(" ".join(subjects).replace(",", " ").split()) <= words
    left_out = text.partition("Too wide for this terminal: ")[2].partition(".")[0]
    names = {"policy", "design", "technique", "kernel", "benchmark", "scenario", "structure"}
    assert not names & {name.strip() for name in left_out.split(",")}
    assert max(map(len, text.splitlines())) <= width


def test_what_agrees_with_about_is_said():
    (row,) = (row for row in rows_of("000") if row.figure.text == "about 0.01")
    assert cells(row)[-2:] == ["0.0032 to 0.032", "yes"]
    (line,) = as_json([row])
    assert (line["name"], line["low"], line["high"]) == ("valero-2019", 0.0032, 0.032)
    (other,) = (row for row in rows_of("000") if row.figure.text == "about 100")
    assert cells(other)[-2] == "±10"


def test_an_engine_refuses_a_technique_before_it_is_replayed(monkeypatch):
    def refuse(self, technique):
        raise UserError(f"engine 'numba' does not implement {technique.name}")

    monkeypatch.setattr(NumbaEngine, "check", refuse)
    with pytest.raises(UserError, match="does not implement rrcd"):
        KernelReplays(NumbaEngine(), dies=1).runs("rrcd")
