"""Figures from a dataset: whole, as in a report, and in axes of a user."""

import re
import sys
from itertools import product

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from fake_campaign import case, opened, write
from gpu_cases import gating
from matplotlib.collections import PolyCollection
from places import ROOT
from tables import each

import mcage
from mcage.campaign.run import run_campaign
from mcage.report.cases import with_names
from mcage.report.figures.lives import alive
from mcage.report.folder import figures_of
from mcage.report.presentation import sheet_of
from mcage.results.reader import read_header
from mcage.stats.survival import CaseLives

results = opened(60)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def axes():
    return plt.subplots()[1]


def words(figure):
    return " ".join(" ".join(text.get_text() for text in figure.findobj(plt.Text)).split())


def test_a_whole_figure_says_its_population(results):
    figure = results.isel(instance=slice(0, 40)).mcage.plot_survival(width_mm=85.0)
    assert figure.get_size_inches()[0] == pytest.approx(85 / 25.4)
    said = words(figure)
    for word in ("40 instances per case", "at risk", "turbo common 1 V", "dvfs common 0.8/0.419 V"):
        assert word in said


def test_axes_of_a_user_show_the_curves_of_the_report(results, axes):
    nominal = results.sel(environment="turbo")
    assert nominal.mcage.plot_survival(axes) is axes
    names = [text.get_text() for text in axes.legend().get_texts()]
    assert names == ["baseline", "rrcd"]
    years = results["life_years"].values[0]
    curve = alive(CaseLives("", years, years < 10, np.ones(60, int), 10.0)).series
    (line,) = (line for line in axes.lines if line.get_gid() == "survival-1")
    assert np.array_equal(line.get_ydata(), curve.y)
    assert axes.get_ylabel() == "slices that still work (% of all)"


@pytest.mark.parametrize(
    ("what", "label"), [("worst", "the slice's worst cell (mV)"), ("age", "the worst cell (mV)")]
)
def test_shifts_can_be_drawn_both_ways(results, axes, what, label):
    assert results.sel(environment="turbo").mcage.plot_dvth(what, axes) is axes
    assert len(axes.legend().get_texts()) == 2
    assert label in words(results.mcage.plot_dvth(what))


def test_figures_are_of_pyplot_where_it_is_in_use(results, monkeypatch):
    figure = results.mcage.plot_survival()
    assert plt.gcf() is figure
    plt.close(figure)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    results.mcage.plot_survival()
    assert not plt.get_fignums()


def test_a_notebook_shows_a_figure_once(results, monkeypatch):
    """IPython shows what a cell returns; at its end, the inline backend what pyplot still has."""
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "inline")
    figure = results.mcage.plot_survival()
    assert plt.get_fignums()
    with pytest.raises(NotImplementedError):
        figure._ipython_display_()
    assert not plt.get_fignums()


def test_parts_of_a_figure_can_be_left_out(results, axes):
    whole = results.mcage.plot_survival(width_mm=85)
    bare = results.mcage.plot_survival(width_mm=85, title=False, at_risk=False, bands=False)
    assert "95 % bands: 60 instances" in words(whole)
    assert "at risk" in words(whole)
    assert whole.findobj(PolyCollection)
    for part in ("instances", "at risk", "bands"):
        assert part not in words(bare)
    assert not bare.findobj(PolyCollection)
    assert bare.get_figheight() < whole.get_figheight()
    assert "60 instances" in words(results.mcage.plot_survival(bands=False))
    assert "bands" not in words(results.mcage.plot_survival(bands=False))
    results.sel(environment="turbo").mcage.plot_survival(axes, bands=False)
    assert not axes.findobj(PolyCollection)
    assert "instances" not in words(results.mcage.plot_pareto(title=False))
    of_age = results.mcage.plot_dvth("age", at_risk=False).findobj(plt.Text)
    assert "slices:" not in [text.get_text() for text in of_age]


def test_labels_are_what_people_read(results):
    said = words(results.mcage.plot_survival(labels={"rrcd": "redirection (ours)"}))
    assert "redirection (ours)" in said
    assert "rrcd" not in said
    for labels, message in (
        ({"rcd": "R"}, "label of rcd: there is none; there are baseline, rrcd"),
        ({"rrcd": "baseline"}, "baseline and rrcd would both be called baseline"),
        ({"rrcd": " "}, "label of rrcd: it is empty"),
    ):
        with pytest.raises(mcage.UserError, match=message):
            results.mcage.plot_pareto(labels=labels)


VOLTAGES = [("rrcd", 0.9), ("baseline", 1.0), ("rrcd", 1.0)]
of_voltages = opened(60, cases=tuple(case(of, volts=(volts,)) for of, volts in VOLTAGES))


def test_measures_against_an_axis_have_a_curve_for_each_point_on_the_others(of_voltages, axes):
    chosen = of_voltages.isel(instance=slice(0, 50))
    figure = chosen.mcage.plot_against("vdd", ["rmst_years", "dead_on_arrival"])
    titles = [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]
    assert titles == ["RMST up to the horizon (years)", "dead on arrival (%)"]
    assert "50 instances per case" in words(figure)
    assert chosen.mcage.plot_against("vdd", "rmst_years", axes) is axes
    assert [text.get_text() for text in axes.legend().get_texts()] == ["rrcd"]
    (points,) = (line for line in axes.lines if line.get_gid() == "vdd-1")
    years = chosen.mcage.rmst()["rmst_years"].to_numpy()
    assert points.get_xdata().tolist() == [0.9, 1.0]
    assert points.get_ydata() == pytest.approx(years[[0, 2]])
    with pytest.raises(mcage.UserError, match=r"panels \(RMST up to the horizon"):
        chosen.mcage.plot_against("vdd", axes=axes)


@each(
    "draw, message",
    [
        (lambda r, a: r.mcage.plot_survival(a), "this figure has 2 panels .turbo common 1 V; dvfs"),
        (lambda r, a: r.mcage.plot_against("vdd"), "No two cases differ in it alone"),
        (lambda r, a: r.mcage.plot_against("age"), "axis age: there is none"),
        (lambda r, a: r.mcage.plot_against("scenario"), "axis scenario: is one of names"),
        (lambda r, a: r.mcage.plot_against("vdd", "life"), "of = 'life': there is no such measure"),
        (lambda r, a: r.mcage.plot_dvth("all"), "what = 'all': must be one of worst, cells, age"),
        (lambda r, a: r.mcage.plot_pareto(width_mm=4), "width_mm = 4: must be 40 ... 1000 mm"),
        (
            lambda r, a: r[["life_years"]].mcage.plot_survival(),
            "It needs end_cause, epoch_end_years, which these results lack",
        ),
        (lambda r, a: r.isel(instance=[3]).mcage.plot_dvth("cells"), "all 60 instances, and 1"),
    ],
)
def test_what_cannot_be_drawn_is_said(results, axes, draw, message):
    with pytest.raises(mcage.UserError, match=message):
        draw(results, axes)


def test_lives_of_gpus_are_drawn_by_policy(tmp_path, axes):
    study = gating(instances=3, policies=["default", "round-robin"]).study
    with mcage.open_results(run_campaign(study, tmp_path / "g.h5")) as results:
        said = words(results.mcage.plot_survival())
        assert "GPUs that still work, 95 % bands: 3 instances" in said
        assert results.mcage.plot_survival(axes) is axes
        assert axes.get_ylabel() == "GPUs that still work (% of all)"
        assert [text.get_text() for text in axes.legend().get_texts()] == ["default", "round-robin"]
        with pytest.raises(mcage.UserError, match="'gpu-gating' has no figure dvth-worst"):
            results.mcage.plot_dvth()
        assert "cases on the front: 3 instances" in words(results.mcage.plot_pareto())


def named(figure):
    """Title, names in the legend, titles and labels of panels, in a figure as it is drawn."""
    figure.draw_without_rendering()
    of_panels = [
        text
        for axes in figure.axes
        for text in (axes.xaxis.label, axes.yaxis.label, *axes.findobj(plt.Text))
        if text in (axes.xaxis.label, axes.yaxis.label, axes._left_title)
    ]
    return [*figure.texts, *figure.legends[0].get_texts(), *of_panels]


def outside(figure):
    """Texts that lie beyond the edges of a figure."""
    texts = [text for text in named(figure) if text.get_text().strip()]
    width, height = figure.get_size_inches() * figure.dpi
    boxes = {text.get_text(): text.get_window_extent() for text in texts}
    return [
        said
        for said, box in boxes.items()
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]


@pytest.mark.parametrize("size", [(4, 3), (9, 9)])
def test_a_figure_of_another_size_keeps_its_words(results, size):
    figure = results.mcage.plot_survival()
    before = [text.get_text().split() for text in named(figure)]
    figure.set_size_inches(*size)
    assert [text.get_text().split() for text in named(figure)] == before
    assert len(figure.legends) == 1
    assert not outside(figure)


def test_a_figure_has_the_height_that_is_asked_for(results):
    figure = results.mcage.plot_survival(width_mm=85.0, height_mm=120.0)
    assert figure.get_size_inches() == pytest.approx([85 / 25.4, 120 / 25.4])
    assert not outside(figure)
    with pytest.raises(mcage.UserError, match="height_mm = 12: must be 40"):
        results.mcage.plot_survival(height_mm=12.0)


BASE = r"RRCD$_{\mathrm{base}}$"


def mathematical(figure):
    return {text.get_text() for text in figure.findobj(plt.Text) if text.get_parse_math()}


def test_labels_may_have_mathematics_and_nothing_else_has_it(results):
    figure = results.mcage.plot_survival(labels={"rrcd": BASE})
    assert BASE in mathematical(figure)
    assert all(BASE in text for text in mathematical(figure))
    header = read_header(results.encoding["source"])
    named = with_names(results, {"rrcd": BASE, "baseline": "baseline"})
    figures = figures_of(header, named)
    (page,) = next(figures).pages(sheet_of(header, named, 180.0))
    assert BASE in mathematical(page.figure)  # as of --label
    with pytest.raises(mcage.UserError, match="label of rrcd"):
        results.mcage.plot_survival(labels={"rrcd": r"$\nothing{$"})


def test_sizes_of_text_follow_the_font_size_of_the_user(results):
    """In a slide all text is larger: labels, numbers below the axes, the legend, the title."""

    def sizes(figure):
        texts = [text for text in figure.findobj(plt.Text) if text.get_text().strip()]
        return {text.get_text(): text.get_size() for text in texts}

    usual = sizes(results.mcage.plot_survival())
    with matplotlib.rc_context({"font.size": 14}):
        large = sizes(results.mcage.plot_survival())
    for words in ("age (years)", "at risk:", "rrcd", "turbo common 1 V"):
        assert large[words] == pytest.approx(2 * usual[words])
    assert usual["age (years)"] == 7


# The examples of the page on results in Python run, one after the other, as they stand.

FEW = 40
CASES = tuple(product(("baseline", "rrcd", "rrcd+rc+rar"), ("turbo", "dvfs")))


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    text = (ROOT / "docs/analysis.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    volts = {"turbo": (1.0,), "dvfs": (0.8, 0.419)}
    cases = tuple(case(technique, of, volts=volts[of]) for technique, of in CASES)
    for name in ("results.h5", "other.h5"):
        write(tmp_path / name, (FEW,), [1, 2] * 3, cases=cases)
    names = {}
    for code in blocks:
        exec(compile(code, "analysis.md", "exec"), names)
    assert names["low"].sizes["case"] == 1
    assert names["several"].sizes["case"] == 2
    assert names["life"].dims == ("technique", "instance")
    assert names["changed"]["difference"].tolist() == pytest.approx([0] * 7)
    assert b"/Type3" not in (tmp_path / "survival.pdf").read_bytes(), "fonts that journals refuse"
    assert names["lives"].shape[0] == len(CASES) * FEW
    names["results"].close()
