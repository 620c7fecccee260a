"""Do figures of whole GPUs and of a study of a user show what their files hold?"""

from itertools import pairwise
from types import SimpleNamespace

import darts
import numpy as np
import pytest
import xarray as xr
from gpu_cases import gating

from mcage.campaign.run import run_campaign
from mcage.gpu.both.variables import VARIABLES as BOTH
from mcage.gpu.heterogeneity.spec import HeterogeneitySpec
from mcage.gpu.heterogeneity.study import Heterogeneity
from mcage.report.figures.catalogue import figures_of
from mcage.report.figures.figure import AbsentFigure
from mcage.report.figures.other_studies import any_study, both
from mcage.report.figures.sheet import Sheet
from mcage.results.reader import open_results, read_header

SHEET = Sheet(180.0, "8 GPUs")
POLICIES, TECHNIQUES, AGES = ("default", "round-robin"), ("baseline", "rrcd"), (1.0, 5.0, 10.0)


def drawn_of(path):
    with open_results(path) as results:
        figures = list(figures_of(read_header(path), results, 180.0))
        return {figure.name: figure for figure in figures}, results.load()


def series_of(panel):
    return {series.label: series for series in panel.series}


def test_gating(tmp_path):
    study = gating(policies=["default", "round-robin"]).study
    figures, results = drawn_of(run_campaign(study, tmp_path / "r.h5", 100))
    assert list(figures) == ["margin-age", "dvth-age", "retired-age", "survival", "costs"]
    assert isinstance(figures["retired-age"], AbsentFigure)
    margins = results["margin_needed"].sel(policy="round-robin").transpose("instance", "age").values
    series = series_of(figures["margin-age"].panels[0])["round-robin"]
    assert np.allclose(series.y, 100 * np.median(margins, axis=0))
    assert np.allclose(series.lower, 100 * np.quantile(margins, 0.05, axis=0))
    assert series.case == "round-robin"
    assert "smallest for round-robin" in figures["margin-age"].alt
    assert "12 GPUs" in figures["margin-age"].caption
    alive = series_of(figures["survival"].panels[0])["default"]
    lives = results["life_years"].sel(policy="default").values
    assert alive.y[np.searchsorted(alive.x, 6.0, side="right") - 1] == pytest.approx(
        100 * np.mean(lives > 6.0)
    )
    power = series_of(figures["costs"].panels[1])["default"]
    assert power.x == pytest.approx(np.median(results["sm_power_w"].sel(policy="default")))


def test_a_study_without_figures_of_its_own_has_a_curve_for_each_label():
    results = results_of_both()
    variables = {variable.name: variable for variable in BOTH}
    header = SimpleNamespace(variables=(variables["life_years"], variables["end_cause"]))
    lives, causes = any_study.draw(header, results, SHEET)
    (panel,) = lives.panels
    assert panel.x_label == "life (year)"
    assert list(series_of(panel)) == [
        f"{policy} {technique}" for policy in POLICIES for technique in TECHNIQUES
    ]
    curve = series_of(panel)["default baseline"]
    ages = results["life_years"].values[0, 0]
    assert np.allclose(curve.y[1:], [100 * np.mean(ages <= x) for x in curve.x[1:]])
    assert [panel.title for panel in causes.panels] == list(series_of(lives.panels[0]))
    shares = series_of(causes.panels[0])
    assert (shares["cell_delay"].x, shares["censored"].x) == (100.0, 0.0)


def test_heterogeneity(tmp_path):
    study = Heterogeneity(HeterogeneitySpec.from_mapping({"instances": 40})).study
    figures, results = drawn_of(run_campaign(study, tmp_path / "r.h5", 100))
    assert list(figures) == ["efficiency", "delays", "break-even", "order"]
    (panel,) = figures["efficiency"].panels
    proposal = results["efficiency"].isel(reading=0, design=1)
    series = series_of(panel)[str(proposal["design"].item())]
    for x, y in zip(series.x[1:], series.y[1:], strict=True):
        assert y == pytest.approx(100 * np.mean(proposal.values <= x))
    rows = series_of(figures["order"].panels[0])
    assert rows["all draws"].x == pytest.approx(100 * results["order_holds"].values.mean())


def results_of_both():
    """Numbers that no GPU has: the second policy and the second technique each halve shifts."""
    dims, sizes = ("policy", "technique", "instance", "age"), (2, 2, 8, 3)
    factor = np.array([[1.0, 0.5], [0.5, 0.25]])[:, :, None, None]
    gpus = np.arange(1.0, 9.0)[:, None] + np.array(AGES)
    shifts = np.broadcast_to(factor * gpus, sizes)
    lives = np.minimum(10.0, 4.0 / factor[..., 0] * (1 + np.arange(8) / 100))
    return xr.Dataset(
        {
            "max_dvth_mv": (dims, shifts),
            "cell_margin": (dims, shifts / 100),
            "logic_margin": (("policy", "instance", "age"), shifts[:, 0] / 50),
            "logic_dvth_mv": (("policy", "instance", "age"), shifts[:, 0]),
            "mean_share": (("policy", "instance"), np.full((2, 8), 0.5)),
            "longest_duty": (dims[:3], np.full(sizes[:3], 0.25)),
            "life_years": (dims[:3], lives),
            "cell_life_years": (dims[:3], lives),
            "fault_life_years": (dims[:3], np.full(sizes[:3], 10.0)),
            "logic_life_years": (("policy", "instance"), lives[:, 0]),
            "end_cause": (
                dims[:3],
                np.where(lives < 10, 2, 0).astype(np.int8),
                {"flag_values": [0, 1, 2], "flag_meanings": "censored logic_delay cell_delay"},
            ),
        },
        {"policy": list(POLICIES), "technique": list(TECHNIQUES), "age": list(AGES)},
    )


def test_both_levels():
    figures = {figure.name: figure for figure in both.draw(results_of_both(), SHEET)}
    assert list(figures) == ["margin-age", "dvth-age", "survival", "causes", "saved", "stress"]
    cells, logic = figures["margin-age"].panels
    assert series_of(cells)["default, baseline"].y.tolist() == pytest.approx([5.5, 9.5, 14.5])
    assert series_of(cells)["round-robin, rrcd"].case == "round-robin rrcd"
    same = "same curve: default, baseline = default, rrcd"
    assert same in logic.axes.texts[0].get_text().replace("\n", " ")
    saved = series_of(figures["saved"].panels[0])
    assert {name: float(series.x[0]) for name, series in saved.items()} == pytest.approx(
        {"default, rrcd": 50.0, "round-robin, baseline": 50.0, "round-robin, rrcd": 75.0}
    )
    looks = {
        (series.label, artist.get_color(), artist.get_marker())
        for figure in (figures["saved"], figures["margin-age"])
        for panel in figure.panels
        for series in panel.series
        for artist in panel.axes.get_lines()
        if artist.get_gid() in (f"{series.gid}-marks", series.gid) and artist.get_marker() != "None"
    }
    assert len(looks) == 4, "a pair looks the same in all figures"
    assert [panel.title for panel in figures["causes"].panels] == ["cell delay"]
    assert figures["survival"].panels[0].title == "GPU, any cause"
    dead = series_of(figures["causes"].panels[0])
    assert dead["default, baseline"].y[-1] == 100
    assert "round-robin, rrcd" not in dead


def test_a_study_of_a_user(tmp_path):
    figures, results = drawn_of(run_campaign(darts.pi_by_darts(30), tmp_path / "r.h5", 100))
    assert list(figures) == ["variable-1-pi", "variable-2-hits"]
    (panel,) = figures["variable-1-pi"].panels
    (series,) = panel.series
    assert panel.x_label == "estimate of pi"
    values = results["pi"].values
    assert all(after >= before for before, after in pairwise(series.y))
    for x, y in zip(series.x[1:], series.y[1:], strict=True):
        assert y == pytest.approx(100 * np.mean(values <= x))
    assert (
        f"median {np.quantile(values, 0.5, method='inverted_cdf'):.4g}"
        in figures["variable-1-pi"].alt
    )
    hits = series_of(figures["variable-2-hits"].panels[0])
    assert {name: float(row.x[0]) for name, row in hits.items()} == dict(
        zip(("I", "II", "III", "IV"), map(float, results["hits"].values), strict=True)
    )
