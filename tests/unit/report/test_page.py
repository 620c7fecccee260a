"""Do the sentences of a page say what the lives say?"""

import re
import tomllib
from itertools import combinations

import fake_campaign
import numpy as np
import pytest
import xarray as xr
from command_line import run_mcage
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from places import ROOT
from sweep_cases import small_spec
from tables import each

from mcage.analysis.drawing import draw_survival_of_file
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report.cases import NamedCase, in_a_row
from mcage.report.figures.canvas import FINENESS, LOOKS, Panel, Series, Sheet, looks_of
from mcage.report.figures.curves import CurveFigure
from mcage.report.figures.lives import alive, survival
from mcage.report.page import GRID, drawing_of
from mcage.spec import SweepSpec
from mcage.spec.sections import faults_of
from mcage.stats.estimates import Estimate, plus_minus
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives
from mcage.studies.sweep.presentation import _energy, _killers, _longest, assumptions_of
from mcage.studies.vmin.presentation import VminPresentation
from mcage.studies.vmin.study import VminHeader
from mcage.techniques import TECHNIQUES

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
    means = compare_means(dies + 1, dies, within=(0.0, HORIZON))
    mean = plus_minus(means.first)
    assert said == (
        f"better lives {mean} years on average up to the horizon of 10 years (restricted mean), "
        f"the longest of all, {plus_minus(means.difference)} years longer than worse on the same "
        "dies."
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
    assert "1.0000 ±0.0037 years longer than far on the same dies." in said


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


def test_a_summary_says_which_technique_saves_most():
    known, unknown = Estimate(30.0, 29.0, 31.0), Estimate(np.nan, np.nan, np.nan)
    said = _energy({"a": Estimate(20.0, 19.0, 21.0), "b": known, "c": unknown})
    assert said.startswith("Most energy is saved by b, 30.0 ±1.0 % of what conventional slices")
    assert said.endswith("It is not known of c.")
    assert _energy({"c": unknown}) == "How much energy is saved is not known."


# Does a page call only that published which is?

KNOWN = xr.Dataset({"energy_saving_nominal": ("instance", [0.25, np.nan])})


def header_of(spec):
    return fake_campaign.campaign(instances=2, spec_toml=spec)


def assumed(results=KNOWN, **spec):
    """What the page of a small sweep says that it rests on, by heading."""
    return dict(assumptions_of(header_of(small_spec(**spec).to_toml()), results))


def test_constants_of_costs_are_said_to_be_what_their_status_says():
    """Some constants of each technology are printed nowhere, and the page has to say so."""
    costs = tomllib.loads((ROOT / "mcage" / "data" / "costs.toml").read_text())
    statuses = {constant["status"] for constant in costs["28nm"]["lds"].values()}
    assert statuses == {"assumed"}
    assert costs["unhidden_fraction"]["wakeup"]["status"] == "reconstructed"
    said = assumed()["Costs"]
    assert "constants of 28nm. " in said
    assert "of the LDS, of the destination buffer and of units of the other technology are" in said
    assert said.endswith("is fitted to published means or assumed.")
    assert assumed(costs={"tables": costs, "technology": "32nm"})["Costs"] == (
        "Energy and slowdown with user-defined constants of 32nm (34 printed, 2 reconstructed, "
        "28 assumed)."
    )


@each("costs", [{}, {"tables": tomllib.loads((ROOT / "mcage/data/costs.toml").read_text())}])
def test_a_page_says_nothing_of_an_energy_that_nobody_knows(costs):
    """As of slices of which no constants of energy are published; their slowdown is known."""
    costs = {"technology": "28nm"} | costs
    assert "Energy and Vdd" in assumed(costs=costs)
    said = assumed(KNOWN * np.nan, costs=costs)
    assert said["Costs"].startswith("Slowdown with ")
    assert "energy" not in str(said).lower()
    header, of_vmin = header_of(small_spec(costs=costs).to_toml()), VminPresentation(VminHeader)
    of_vmin = [of_vmin.assumptions(header, KNOWN * known) for known in (1, np.nan)]
    assert ["energy" in str(said).lower() for said in of_vmin] == [True, False]


@each(
    "protections, wanted",
    [(["ecp1"], "(ECP) repair one"), (["secded32", "none"], "secded32, none")],
)
def test_a_page_names_the_protections(protections, wanted):
    assert wanted in assumed(protections=protections)["Faults"]


def test_a_page_names_a_mode_that_sweeps_no_longer_take():
    """Results of slices that were drawn until their map resembled the published table."""
    spec = small_spec(faults={"slices_per_chip": 3, "sigma_die_volts": 0.0}).to_toml()
    selected = spec.replace('mode = "varius"', 'mode = "varius-selected"\ntolerance = 0.1')
    said = dict(assumptions_of(header_of(selected), KNOWN))["Faults"]
    assert "(mode varius-selected)" in said
    assert faults_of(selected).slices_per_chip == 3
    with pytest.raises(UserError, match=r"unknown key 'faults\.tolerance'"):
        SweepSpec.from_mapping(tomllib.loads(selected))


# Is the markup of a page's figures short and still the same drawing, and are its numbers those?

pytestmark = pytest.mark.filterwarnings("ignore:Glyph 27")

LABEL = "<b>&'\"\x1b"


def figure_of(x, y, scale="linear", name="lives"):
    series = Series(LABEL, x, y, y - 1, cases=(3,))
    figure = CurveFigure(
        *(name, LABEL, "", "age (years)", "alive (%)"),
        panels=(Panel(LABEL, (series,), alt=f"what {LABEL} shows"),),
        x_limits=(x[0], x[-1]),
        y_limits=(0, 100),
        x_scale=scale,
    )
    (page,) = figure.pages(Sheet(85.0, ""))
    return page


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_numbers_are_those_of_the_curve(scale):
    x = np.geomspace(0.01, 10, 900)
    y = np.linspace(100, 5, 900)
    figure = drawing_of(figure_of(x, y, scale), "f7")
    (panel,) = figure.panels
    (series,) = panel["series"]
    ages = np.array(panel["grid"])
    assert ages.size == GRID + 1
    known = [y[np.searchsorted(x, age * (1 + 1e-3), side="right") - 1] for age in ages]
    np.testing.assert_allclose(series["y"], known, atol=1.0 if scale == "linear" else 0.3)
    np.testing.assert_allclose(np.array(series["y"]) - series["lower"], 1, atol=0.06)
    assert "upper" not in series
    assert panel["x"]["log"] == (scale == "log")
    left, top, right, bottom = panel["box"]
    assert 0 < left < right < 85 / 25.4 * 72
    assert 0 < top < bottom


def test_markup_is_safe_and_its_names_are_of_one_figure():
    x = np.linspace(0, 10, 30)
    figure = drawing_of(figure_of(x, 100 - 3 * x), "f7")
    assert "<b>" not in figure.svg
    assert "&lt;b&gt;" in figure.svg
    assert 'id="f7-lives-1-1"' in figure.svg
    assert not re.search(r"<metadata|<script", figure.svg)
    assert figure.svg.startswith("<svg")
    names = re.findall(r'\bid="([^"]*)"', figure.svg)
    assert len(set(names)) == len(names)
    meant = {
        *re.findall(r"url\(#([^)]*)\)", figure.svg),
        *re.findall(r'href="#([^"]*)', figure.svg),
    }
    assert meant <= set(names)
    others = (("f8", "lives"), ("f7", "other"))
    for prefix, name in others:
        of_other = drawing_of(figure_of(x, 100 - 3 * x, name=name), prefix)
        assert not set(names) & set(re.findall(r'\bid="([^"]*)"', of_other.svg))


def test_a_curve_in_markup_lies_where_its_numbers_say():
    """Points of the path, against the numbers of the page that lie at the same places."""
    x = np.linspace(0, 10, 9)
    figure = drawing_of(figure_of(x, 100 - 3 * x), "f7")
    (path,) = re.findall(r'id="f7-lives-1-1">\s*<path d="([^"]*)"', figure.svg)
    points = np.array([[float(a), float(b)] for a, b in re.findall(r"[ML] (\S+) (\S+)", path)])
    (panel,) = figure.panels
    (series,) = panel["series"]
    assert (series["cases"], series["y"]) == ((3,), (100 - 3 * x).round(2).tolist())
    left, top, right, bottom = panel["box"]
    at = left + (right - left) * x / 10
    height = bottom - (bottom - top) * (100 - 3 * x) / 100
    for across, down in zip(at, height, strict=True):
        assert np.hypot(*(points - [across, down]).T).min() < 0.2


# Do survival figures show the lives in a file, and say what they do not show?

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


def page_of(*cases):
    (page,) = pages_of(*cases)
    return page


def drawn(*cases):
    (panel,) = page_of(*cases).panels
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
    page = page_of(case("rrcd", 0, 1, 2, 3, 10, 10))
    texts = [text.get_text() for text in page.panels[0].axes.texts]
    row = texts.index("rrcd")
    assert texts[row + 1 : row + 7] == ["6", "4", "2", "2", "2", "2"], "at 0, 2, ... 10 years"


def test_who_never_works_is_named_and_not_drawn():
    page = page_of(case("baseline", *[0] * 100), case("rrcd", 1, 10))
    (panel,) = page.panels
    assert [series.label for series in panel.series] == ["rrcd"]
    title = f"{NOMINAL}\nnot drawn, 100 % dead on arrival: baseline"
    assert panel.axes.get_title("left") == title
    assert "smallest for baseline (0 years)" in page.alt


def test_curves_that_coincide_are_named_and_share_their_line():
    cases = case("rrcd", 1, 4), case("wc", 2, 4), case("baseline", 4, 1)
    page = page_of(*cases)
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
    page = page_of(case("rrcd", 1, 10), case("wc", 2, 4), case("rc", 3, 3))
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
