"""Do survival figures show the lives in a file, and say what they do not show?"""

from itertools import combinations

import fake_campaign
import numpy as np
import pytest
from command_line import run_mcage
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from tables import each

from mcage.analysis.drawing import draw_survival_of_file
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report.cases import NamedCase
from mcage.report.figures.canvas import FINENESS, LOOKS, Panel, Series, Sheet, looks_of
from mcage.report.figures.curves import CurveFigure
from mcage.report.figures.lives import alive, survival
from mcage.stats.survival import CaseLives
from mcage.techniques import TECHNIQUES

NOMINAL = "turbo common 1 V"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "r.h5"
    return run_campaign(Study(fake_campaign.CAMPAIGN, fake_campaign.compute), out, 50)


def case(technique, *years, horizon=10.0, conditions=NOMINAL):
    died = np.array(years) < horizon
    cause = np.where(died, EndCause.DELAY, EndCause.CENSORED)
    lives = CaseLives("case", np.array(years, dtype=float), died, cause, horizon)
    return NamedCase((7,), technique, conditions, technique), [alive(lives)]


def pages_of(*cases, width_mm=180.0):
    sheet = Sheet.of(fake_campaign.CAMPAIGN, width_mm)
    return survival(10.0, "slices").of_cases(cases).pages(sheet)


def figure_of(*cases):
    (page,) = pages_of(*cases)
    return page


def drawn(*cases):
    (panel,) = figure_of(*cases).panels
    return panel.axes, panel.series


def test_a_curve_by_hand():
    axes, (series,) = drawn(case("rrcd", 0, 2, 2, 10))
    line, _ = axes.get_lines()
    assert line.get_drawstyle() == "steps-post"
    assert to_hex(line.get_color()).upper() == LOOKS["rrcd"].colour
    for years, share in (line.get_data(), (series.x, series.y)):
        assert years.tolist() == [0, 0, 2, 10]
        assert share.tolist() == [100, 75, 25, 25]
    assert (series.cases, series.label, series.kind) == ((7,), "rrcd", "step")

    _, (series,) = drawn(case("rrcd", 10, 10))
    assert (series.x.tolist(), series.y.tolist()) == ([0, 10], [100, 100]), "who never dies"


def test_many_deaths_leave_the_curve_as_it_is_and_take_no_more_memory():
    years = np.sort(np.random.default_rng(1).exponential(5.0, 200_000)).clip(max=10.0)
    _, (part,) = case("rrcd", *years)
    curve = part.series
    assert 5_000 < curve.x.size < 30_000
    ages = np.linspace(0, 10, 999)[1:-1]
    share = curve.y[np.searchsorted(curve.x, ages, side="right") - 1]
    exact = 1 - np.searchsorted(years, ages, side="right") / years.size
    assert np.abs(share - 100 * exact).max() < 2e-2


def test_numbers_at_risk_stand_below():
    page = figure_of(case("rrcd", 0, 1, 2, 3, 10, 10))
    texts = [text.get_text() for text in page.panels[0].axes.texts]
    row = texts.index("rrcd")
    assert texts[row + 1 : row + 7] == ["6", "4", "2", "2", "2", "2"], "at 0, 2, ... 10 years"


def test_who_never_works_is_named_and_not_drawn():
    page = figure_of(case("baseline", *[0] * 100), case("rrcd", 1, 10))
    (panel,) = page.panels
    assert [series.label for series in panel.series] == ["rrcd"]
    title = f"{NOMINAL}\nnot drawn, 100 % dead on arrival: baseline"
    assert panel.axes.get_title("left") == title
    assert "smallest for baseline (0 years)" in page.alt


def test_curves_that_coincide_are_named_and_share_their_line():
    cases = case("rrcd", 1, 4), case("wc", 2, 4), case("baseline", 4, 1)
    page = figure_of(*cases)
    (panel,) = page.panels
    assert "same curve: rrcd = baseline" in panel.axes.get_title("left").split("\n")
    first, second = (
        next(line for line in panel.axes.get_lines() if line.get_gid() == series.gid)
        for series in panel.series
        if series.label != "wc"
    )
    assert first._unscaled_dash_pattern == (0.0, (4.0, 4.0))
    assert second._unscaled_dash_pattern == (4.0, (4.0, 4.0)), "in the gaps of the first"


def test_the_alternative_text_says_who_lives_longest():
    page = figure_of(case("rrcd", 1, 10), case("wc", 2, 4), case("rc", 3, 3))
    assert page.alt == (
        "turbo common 1 V: the mean life up to 10 years is smallest for wc and rc (3 years) and "
        "largest for rrcd (5.5 years)."
    )


def test_many_conditions_take_several_pages():
    conditions = [f"dvfs common 0.8/0.{number} V" for number in range(40, 47)]
    cases = [case("rrcd", 1, 10, conditions=of) for of in conditions]
    pages = pages_of(*cases, width_mm=85.0)
    assert [page.name for page in pages] == [f"survival-{n}" for n in range(1, len(pages) + 1)]
    assert [panel.title for page in pages for panel in page.panels] == conditions
    assert all(page.figure.get_figheight() * 25.4 < 250 for page in pages)
    gids = [series.gid for page in pages for panel in page.panels for series in panel.series]
    assert len(set(gids)) == len(gids)


@pytest.mark.parametrize(
    ("suffix", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_suffix_chooses_the_format(results, tmp_path, suffix, begins):
    path = tmp_path / f"lives.{suffix}"
    draw_survival_of_file(results, path, (), {})
    once = path.read_bytes()
    assert once.startswith(begins)
    assert b"/Type3" not in once, "fonts that journals refuse"
    if suffix == "svg":
        draw_survival_of_file(results, path, (), {})
        assert path.read_bytes() == once, "the same file from the same results"


@each(
    ("name", "message"),
    [
        ("lives.gif", "its name must end in .png, .pdf or .svg"),
        ("nowhere/lives.png", "there is no folder"),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused(results, tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        draw_survival_of_file(results, tmp_path / name, (), {})
    assert not list(tmp_path.iterdir())


def test_the_command_draws_and_prints(results, tmp_path):
    path = tmp_path / "lives.png"
    assert "median life" in run_mcage("show", results, "--figure", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="not of chips"):
        run_mcage("show", results, "--figure", path, "--slices-per-chip", 2)


# Are techniques told apart in grey, and do curves keep their shape when points are left out?


def test_techniques_differ_in_line_or_marker_whatever_the_user_adds():
    assert set(LOOKS) == set(TECHNIQUES)
    looks = looks_of([*TECHNIQUES, *(f"module:T{number}" for number in range(150))])
    assert all(a.in_grey != b.in_grey for a, b in combinations(looks.values(), 2))
    few = looks_of(["module:A", "rrcd", "module:B"])
    assert few["rrcd"] == LOOKS["rrcd"]
    for name in ("module:A", "module:B"):
        assert few[name].in_grey not in {look.in_grey for look in LOOKS.values()}
    assert few["module:A"].marker != few["module:B"].marker
    assert few["module:A"].dashes != few["module:B"].dashes


def test_a_label_leaves_the_look_of_a_technique():
    looks = looks_of({"RRCD (theirs)": "rrcd", "rrcd": "module:MINE"})
    assert looks["RRCD (theirs)"] == LOOKS["rrcd"]
    assert looks["rrcd"] not in LOOKS.values()


def test_thinning_leaves_out_what_nobody_sees():
    x = np.linspace(0, 10, 20_001)
    y = 100 * np.exp(-x)
    lower = np.where(x < 9, 0.9 * y, np.nan)
    whole = Series("a", x, y, lower, 1.1 * y, kind="step")
    seen = whole.thinned()
    assert 200 < seen.x.size < 800
    assert {0.0, 10.0} <= set(seen.x)
    held = seen.y[np.searchsorted(seen.x, x, side="right") - 1]
    assert np.abs(held - y).max() <= 100 * FINENESS
    assert np.isnan(seen.lower).sum() == np.isnan(seen.lower[seen.x >= 9]).sum() >= 1
    assert whole.x.size == 20_001


@each("count", range(1, 7))
def test_few_points_are_not_joined(count):
    """Between two voltages, a line would say how many slices work where nobody has looked."""
    x = np.arange(float(count))
    panel = Panel("", (Series("rrcd", x, x, x - 1, x + 1),))
    figure = CurveFigure("points", "Points", "", panels=(panel,), shape="line")
    (page,) = figure.pages(Sheet(85.0, ""))
    (drawn,) = page.panels
    joined = [line for line in drawn.axes.lines if line.get_linestyle() != "None"]
    assert len(joined) == (count >= 4)
    assert drawn.series[0].kind == ("line" if count >= 4 else "points")
    (bounds,) = drawn.axes.collections
    assert isinstance(bounds, LineCollection if count < 4 else PolyCollection)
