"""Does the figure of a results file show the lives in it, and is a bad file name refused?"""

import fake_campaign
import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli.main import app
from mcage.errors import UserError
from mcage.lifetime.end_cause import EndCause
from mcage.report.cases import Setting
from mcage.report.figures import (
    COLOURS,
    colours_of,
    draw_survival,
    draw_survival_of_file,
    in_words,
    name_curves,
    settings_of,
)
from mcage.results.reader import open_results
from mcage.stats.survival import CaseLives


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "r.h5"
    return run_campaign(Study(fake_campaign.CAMPAIGN, fake_campaign.compute), out, 50)


def lives(*years, horizon=10.0):
    died = np.array(years) < horizon
    cause = np.where(died, EndCause.DELAY, EndCause.CENSORED)
    return CaseLives("case", np.array(years, dtype=float), died, cause, horizon)


def drawn(cases):
    axes = Figure().subplots()
    draw_survival(axes, cases, colours_of(list(cases)))
    return axes


def test_a_curve_by_hand():
    (line,) = drawn({"rrcd": lives(0, 2, 2, 10)}).get_lines()
    assert line.get_drawstyle() == "steps-post"
    years, alive = line.get_data()
    assert years.tolist() == [0, 0, 2, 10]
    assert alive.tolist() == [100, 75, 25, 25]
    assert line.get_color() == COLOURS["rrcd"]


def test_who_never_dies_stays_at_all_slices():
    (line,) = drawn({"rrcd": lives(10, 10)}).get_lines()
    assert line.get_data()[0].tolist() == [0, 10]
    assert line.get_data()[1].tolist() == [100, 100]


def test_who_never_works_is_named_and_not_drawn():
    axes = drawn({"baseline": lives(*[0] * 100), "rrcd": lives(1, 10)})
    assert [line.get_label() for line in axes.get_lines()] == ["rrcd"]
    assert [text.get_text() for text in axes.texts] == ["baseline:\n100 % dead on arrival"]


def test_techniques_of_ones_own_get_colours_of_their_own():
    colours = colours_of(["rrcd", "mine:T", "mine:U"])
    assert len({colours[name] for name in ("rrcd", "mine:T", "mine:U")}) == 3


def test_one_legend_names_every_curve_once():
    figure = Figure()
    for axes in figure.subplots(1, 2):
        draw_survival(axes, {"rrcd": lives(1, 10), "wc": lives(2, 10)}, colours_of(["rrcd", "wc"]))
    name_curves(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rrcd", "wc"]


def test_panels_are_the_settings_of_the_file(results):
    with open_results(results) as opened:
        panels = settings_of(opened)
        assert {key: list(cases) for key, cases in panels.items()} == {
            Setting("nominal", "common", "1 V"): ["baseline", "rrcd"],
            Setting("dvfs", "common", "0.8/0.419 V"): ["rrcd"],
        }
        assert [in_words(setting) for setting in panels] == [
            "nominal 1 V, common",
            "dvfs 0.8/0.419 V, common",
        ]
        shown = panels[Setting("dvfs", "common", "0.8/0.419 V")]["rrcd"]
        assert np.array_equal(shown.years, opened["life_years"].values[2])


@pytest.mark.parametrize(
    ("suffix", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_suffix_chooses_the_format(results, tmp_path, suffix, begins):
    path = tmp_path / f"lives.{suffix}"
    draw_survival_of_file(results, path)
    once = path.read_bytes()
    assert once.startswith(begins)
    draw_survival_of_file(results, path)
    assert path.read_bytes() == once, "the same file from the same results"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lives.gif", "its name must end in .png, .pdf or .svg"),
        ("lives", "its name must end in .png, .pdf or .svg"),
        ("nowhere/lives.png", "there is no folder"),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused(results, tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        draw_survival_of_file(results, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_command_draws_and_prints(results, tmp_path):
    path = tmp_path / "lives.png"
    shown = CliRunner().invoke(app, ["show", str(results), "--figure", str(path)])
    assert shown.exit_code == 0
    assert "median life" in shown.stdout
    assert path.read_bytes().startswith(b"\x89PNG")


def test_chips_have_no_figure(results, tmp_path):
    options = ["--figure", str(tmp_path / "lives.png"), "--slices-per-chip", "2"]
    with pytest.raises(UserError, match="not of chips"):
        CliRunner().invoke(app, ["show", str(results), *options], catch_exceptions=False)
