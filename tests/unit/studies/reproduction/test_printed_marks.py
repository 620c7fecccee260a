"""Do the papers' values stand where they belong, and can the figures be read?"""

from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from tables import each

from mcage.report.figures.style import WIDTHS_MM, inches
from mcage.studies.reproduction.figure_data import PLOTS
from mcage.studies.reproduction.figures import LOOKS, draw, from_csv
from mcage.studies.reproduction.gpu import drawings, plots
from mcage.studies.reproduction.printed_marks import (
    RULES,
    marks_of,
    printed_bands,
    printed_entries,
    printed_parts,
)

RESULTS = Path(__file__).parents[4] / "results" / "reproduce"
BY_NAME = {plot.name: plot for plot in PLOTS}


def table_of(name):
    return from_csv(RESULTS / f"{name}.csv")


def heights(name, bar, kernel):
    marks = marks_of(BY_NAME[name], table_of(name))
    return [(m.part, m.low, m.high, m.kind) for m in marks if m.is_of(bar, kernel)]


@each(
    ("name", "bar", "kernel", "expected"),
    [
        ("000-fig13", "argo", "BlackScholes", [("zero", 100, 100, "value")]),
        ("000-fig13", "argo", "DCT", []),
        ("000-fig13", "wc", "DCT", [("zero", 100, 100, "value")]),
        ("000-fig13", "wc", "mean", []),
        ("000-fig13", "rc+rar, no limit", "mean", [("zero", 42, 42, "reduction")]),
        ("000-fig13", "rc, limit 64", "mean", [("zero", 76, 76, "reduction")]),
        ("000-fig20", "rc+rar, limit 64", "mean", [("", 0.48, 0.48, "value")]),
        ("000-fig21", "argo", "mean", [("", 86.9, 86.9, "value")]),
        ("000-fig21", "conventional", "mean", []),
        ("002-fig02", "no limit", "SimpleConvolution", [("", 93, 93, "value")]),
        ("002-fig04", "dispersed, no limit", "BlackScholes", [("lds", 1, 2, "range")]),
        ("002-fig05", "common, limit 64", "BlackScholes", [("", 0, 4.5, "at most")]),
        ("002-fig05", "clustered, limit 64", "mean", [("", 1.6, 1.6, "value")]),
        ("002-fig06", "dispersed, no limit", "mean", [("", 53, 53, "value")]),
    ],
)
def test_marks_have_the_printed_heights(name, bar, kernel, expected):
    found = heights(name, bar, kernel)
    assert [(m[0], m[3]) for m in found] == [(m[0], m[3]) for m in expected]
    for mark, (_, low, high, _) in zip(found, expected, strict=True):
        assert mark[1:3] == pytest.approx((low, high), abs=0.01)


def test_all_rules_find_values_and_all_parts_have_a_look():
    for name in RULES:
        assert marks_of(BY_NAME[name], table_of(name)), name
    for plot in PLOTS:
        parts = [key for key, value in table_of(plot.name)[0].items() if isinstance(value, float)]
        assert set(parts) <= set(LOOKS)


def test_what_is_printed_besides_heights():
    assert printed_bands(BY_NAME["000-fig12"], "baseline")[0][:2] == (70, 80)
    assert printed_bands(BY_NAME["000-fig12"], "wc") == []
    assert printed_entries(BY_NAME["000-fig14"], "rc, limit 64") == [37, 99, 161, 223]
    assert printed_entries(BY_NAME["000-fig15"], "rc, limit 64") == []
    parts = ["reliable_compressed", "reliable_uncompressed"]
    assert printed_parts(BY_NAME["002-fig02"], parts) == [30, 22]
    assert printed_parts(BY_NAME["002-fig04"], ["regular", "lds"]) == []


def drawn(name):
    if name in BY_NAME:
        return draw(BY_NAME[name], table_of(name))
    (plot,) = (plot for plot in plots.PLOTS if plot.name == name)
    return drawings.draw(plot, plot.table())


@pytest.mark.parametrize("name", ["002-fig04", "004-fig07"])
def test_figures_can_be_read(name):
    figure = drawn(name)
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
