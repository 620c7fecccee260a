"""Do the sentences of a page say what the lives say?"""

import re
import tomllib

import fake_campaign
import numpy as np
import pytest
import xarray as xr
from places import ROOT
from sweep_cases import small_spec
from tables import each

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report.cases import in_a_row
from mcage.report.figures.canvas import Panel, Series, Sheet
from mcage.report.figures.curves import CurveFigure
from mcage.report.page import GRID, drawing_of
from mcage.spec import SweepSpec
from mcage.spec.sections import faults_of
from mcage.stats.estimates import Estimate, plus_minus
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives
from mcage.studies.sweep.presentation import _energy, _killers, _longest, assumptions_of
from mcage.studies.vmin.presentation import VminPresentation
from mcage.studies.vmin.study import VminHeader

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
