"""Do the figures of sweeps show what the file holds, and say what they cannot show?"""

import re
from dataclasses import replace
from types import SimpleNamespace

import darts
import fake_campaign
import numpy as np
import pytest
import xarray as xr
from gpu_cases import gating
from sweep_cases import small_spec

from mcage import run_sweep
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.costs.energy import savings_of_all
from mcage.engines.interface import fault_free_maps
from mcage.lifetime import EndCause
from mcage.report.cases import years_until_slower
from mcage.report.figures import distributions
from mcage.report.figures.canvas import WIDTHS_MM, AbsentFigure, ReportFigure, Sheet
from mcage.report.folder import figures_of
from mcage.report.presentation import sheet_of
from mcage.results.header import Code
from mcage.results.reader import open_results, read_header
from mcage.studies.gpu_both.figures import draw as draw_both
from mcage.studies.gpu_both.presentation import BothPresentation
from mcage.studies.gpu_both.study import VARIABLES as BOTH
from mcage.studies.gpu_both.study import BothHeader
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.study import Heterogeneity
from mcage.studies.sweep.figures import of_lives, plan_of, replayed_figures
from mcage.version import running_code

CASES = (
    fake_campaign.case("baseline"),
    fake_campaign.case("a:T"),
    fake_campaign.case("b:T"),
)
"""Three techniques in a setting, two of them of a user."""

CAVEAT = "lanes are approximate"


def with_dead_slices(first, last):
    """Lives of the fake campaign, of which the first technique never works."""
    arrays = fake_campaign.compute(first, last)
    for variable in fake_campaign.CAMPAIGN.variables:
        if variable.missing and variable.dims[:2] == ("case", "instance"):
            arrays[variable.name][0] = np.nan
    arrays["life_years"][0], arrays["end_cause"][0] = 0.0, EndCause.FAULTY_ENTRY
    arrays["dvth_histogram"][0] = arrays["peak_spilled_rows"][0] = 0
    arrays["spill_rate"][2] = 0.0
    arrays["energy_saving_nominal"][1:] = np.array([0.2, 0.1])[:, None]
    return arrays


HEADER = fake_campaign.campaign(cases=CASES, caveats=(CAVEAT,))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "r.h5"
    with open_results(run_campaign(Study(HEADER, with_dead_slices), out, 50)) as opened:
        yield opened


def pages_of(figures, sheet):
    """Pages as a report draws them, by name, and the figures that are absent."""
    return {
        page.name: page
        for figure in figures
        for page in ([figure] if isinstance(figure, AbsentFigure) else figure.pages(sheet))
    }


def drawn_of(header, results, width_mm=WIDTHS_MM[1]):
    return pages_of(figures_of(header, results), sheet_of(header, results, width_mm))


@pytest.fixture(scope="module")
def drawn(results):
    return drawn_of(HEADER, results)


def series_of(figure, label, panel=0):
    (series,) = (series for series in figure.panels[panel].series if series.label == label)
    return series


def assert_cumulates(series, values):
    """Is this the share of values up to each place?"""
    assert np.allclose(series.y[1:], [100 * np.mean(values <= x) for x in series.x[1:]])


def test_figures_of_a_sweep(drawn):
    figures = {name for name, figure in drawn.items() if isinstance(figure, ReportFigure)}
    assert figures == {
        *("survival", "causes", "dvth-cells", "dvth-worst", "dvth-age"),
        *("slowdown", "slowdown-at-death", "spills", "writes", "pareto"),
    }
    absent = {name: figure for name, figure in drawn.items() if isinstance(figure, AbsentFigure)}
    assert set(absent) == {"duty-bits", "duty-registers"}
    assert all(figure.reason.endswith(".") for figure in absent.values())


def test_each_figure_says_population_and_caveats_and_can_be_filtered(drawn):
    gids = []
    for figure in drawn.values():
        if isinstance(figure, AbsentFigure):
            continue
        assert figure.caption.startswith("100 instances per case. ")
        assert CAVEAT in figure.caption
        title = figure.figure.get_suptitle()
        assert title.endswith(f"100 instances per case\nCAVEAT: {CAVEAT}")
        assert "nan" not in figure.alt
        assert len(figure.alt) > 40
        width_mm = figure.figure.get_figwidth() * 25.4
        assert width_mm == pytest.approx(180.0)
        for panel in figure.panels:
            assert panel.x_label
            artists = {artist.get_gid() for artist in panel.axes.get_children()}
            for series in panel.series:
                assert series.gid in artists
                assert {*series.cases} <= {0, 1, 2}
                assert series.cases
                assert re.fullmatch("[a-z0-9-]+", series.gid)
                gids.append(series.gid)
    assert len(set(gids)) == len(gids)


def title_of(figure, panel=0):
    """What stands above a panel, in a line."""
    return figure.panels[panel].axes.get_title("left").replace("\n", " ")


def test_causes_are_shares_of_all_slices(drawn, results):
    figure = drawn["causes"]
    assert [panel.title for panel in figure.panels] == [
        "turbo common 1 V: faulty entry",
        "turbo common 1 V: delay",
    ]
    dead = series_of(figure, "a:T", panel=1)
    lives = results["life_years"].values[1]
    assert_cumulates(replace(dead, x=dead.x[:-1], y=dead.y[:-1]), lives)
    assert (dead.lower <= dead.y).all()
    assert (dead.y <= dead.upper).all()
    assert series_of(figure, "baseline").y.tolist() == [100.0] * 121
    assert "ends none of: a:T and b:T" in title_of(figure)


def test_shifts_of_cells_and_slices(drawn, results):
    histogram = results["dvth_histogram"].values[1]
    cells = drawn["dvth-cells"]
    assert [panel.title.split(": ")[1] for panel in cells.panels] == ["T0", "T1"]
    for number in (0, 1):
        shares = series_of(cells, "a:T", number)
        counts = [histogram[number][: int(edge)].sum() for edge in shares.x]
        assert np.allclose(shares.y, 100 * np.array(counts) / histogram[number].sum())
        assert shares.y[-1] == pytest.approx(100)
    worst = results["max_dvth_mv"].values[1].max(axis=1)
    assert_cumulates(series_of(drawn["dvth-worst"], "a:T"), worst)
    assert "no slice works: baseline" in title_of(drawn["dvth-worst"])


def test_shifts_against_age_are_quantiles_of_those_that_live(drawn, results):
    worst = results["epoch_max_dvth_mv"].values[1].max(axis=-1)
    lives = results["life_years"].values[1]
    series = series_of(drawn["dvth-age"], "a:T")
    alive = [lives >= end for end in (2, 4, 6, 8, 10)]
    of_living = [
        np.quantile(mv[lived], [0.05, 0.5, 0.95]) for mv, lived in zip(worst.T, alive, strict=True)
    ]
    at = np.searchsorted(series.x, [0, 2, 4, 6, 8, 10])
    for part, of_ends in zip(
        (series.lower, series.y, series.upper), np.transpose(of_living), strict=True
    ):
        assert part[at].tolist() == pytest.approx([0, *of_ends])
    texts = [text.get_text() for text in drawn["dvth-age"].panels[0].axes.texts]
    row = texts.index("a:T")
    assert texts[row + 1 : row + 6] == [str(np.count_nonzero(lived)) for lived in alive]


def test_slowdown_at_death_is_that_of_the_epoch_of_death(drawn, results):
    figure = drawn["slowdown-at-death"]
    place = [panel.title for panel in figure.panels].index("turbo common 1 V: delay")
    series = series_of(figure, "a:T", place)
    of_case = results.isel(case=1)
    died = of_case["end_cause"].values == EndCause.DELAY
    slower = of_case["epoch_slowdown"].transpose("instance", "epoch").values
    new = of_case["slowdown_new"].values
    last = [
        row[~np.isnan(row)][-1] if (~np.isnan(row)).any() else start
        for row, start in zip(slower, new, strict=True)
    ]
    expected = 100 * np.quantile(np.array(last)[died], [0.05, 0.5, 0.95])
    assert [series.x_lower[0], series.x[0], series.x_upper[0]] == pytest.approx(expected)


def test_years_until_slices_are_slower():
    """By hand: one that is slow when new, one that becomes so, one that dies before, one never."""
    nan = np.nan
    case = xr.Dataset(
        {
            "life_years": ("instance", [10.0, 10.0, 1.0, 10.0, 0.0]),
            "slowdown_new": ("instance", [0.03, 0.01, 0.0, 0.0, nan]),
            "epoch_slowdown": (
                ("epoch", "instance"),
                [[0.04, 0.03, 0.01, 0.0, nan], [0.05, 0.05, nan, 0.02, nan]],
            ),
        },
        coords={"epoch_end_years": ("epoch", [2.0, 10.0])},
    )
    # The fourth root of time goes on evenly: half-way to 2 years after 2 / 16.
    assert years_until_slower(case, 0.02) == pytest.approx([0, 2 / 16, 1, 10, 0])
    halfway = ((2**0.25 + 10**0.25) / 2) ** 4
    assert years_until_slower(case, 0.04)[:2] == pytest.approx([2.0, halfway])


def all_dead_at_three(first, last):
    """Lives whose shifts grow with the fourth root of time, to 60 mV at three years."""
    arrays = fake_campaign.compute(first, last)
    arrays["life_years"][...], arrays["end_cause"][...] = 3.0, EndCause.DELAY
    mv = np.array([60 * (2 / 3) ** 0.25, 60.0, np.nan, np.nan, np.nan])
    arrays["epoch_max_dvth_mv"][...] = mv[:, None]
    return arrays


def test_shifts_follow_their_law_between_epochs_and_end_with_the_lives(tmp_path):
    study = Study(fake_campaign.campaign(cases=CASES, instances=5), all_dead_at_three)
    with open_results(run_campaign(study, tmp_path / "r.h5", 50)) as results:
        other = results.assign_attrs(spec='[aging]\nmodel = "my:MODEL"\n')
        known, unknown = (
            next(figure for figure in of_lives(of) if figure.name == "dvth-age")
            for of in (results, other)
        )
    (panel,) = known.panels
    curve = panel.series[0]
    assert curve.x[-1] == 3.0
    assert curve.x[curve.marks].tolist() == [0, 2, 3]
    assert panel.rows[0][2] == (5, 0, 0, 0, 0)
    assert curve.y == pytest.approx(60 * (curve.x / 3) ** 0.25)
    assert "power 4" in known.caption
    assert "facelift" in known.caption
    # Nothing is known of a user's model: straight lines, and words that say so.
    curve = unknown.panels[0].series[0]
    straight = np.interp(curve.x, [0, 2, 3], [0, 60 * (2 / 3) ** 0.25, 60])
    assert curve.y == pytest.approx(straight)
    assert "straight" in unknown.caption
    assert "my:MODEL" in unknown.caption


def test_spills_and_kinds_of_writes(drawn, results):
    figure = drawn["spills"]
    rates = 100 * results["spill_rate"].values[1]
    series = series_of(figure, "a:T")
    assert series.x[0] == rates[rates > 0].min()
    assert_cumulates(series, rates)
    assert "no slice works: baseline no slice spills: b:T" in title_of(figure)
    shares = results["write_share"].values[1]
    assert drawn["writes"].panels[3].title.endswith("spilled to LDS or memory")
    spilled = series_of(drawn["writes"], "a:T", 3)
    assert spilled.x == pytest.approx(100 * shares[:, 3].mean())
    assert spilled.x_lower < spilled.x < spilled.x_upper


def test_cases_by_their_objectives(drawn, results):
    energy, area = drawn["pareto"].panels
    assert "energy saving of all slices (%), more is better" in energy.x_label
    assert "area added" in area.x_label
    points = series_of(drawn["pareto"], "a:T")
    assert points.x == pytest.approx(20.0)
    assert points.y == pytest.approx(results["life_years"].values[1].mean())
    assert "RMST" in energy.y_label
    baseline = series_of(drawn["pareto"], "baseline")
    assert (baseline.x.tolist(), baseline.y.tolist()) == ([0.0], [0.0])


VOLTAGES = (0.44, 0.39, 0.42, 0.40, 0.45, 0.43)
"""Low voltages of cases, in no order."""

SAVES = (0.30, 0.42, 0.32, 0.40, 0.25, 0.31)
"""What slices that work save at each of them: more at 0.39 V, where few work, than at 0.44 V."""


def at_voltages(first, last):
    """Lives of which the more are dead on arrival the lower the voltage is."""
    arrays = fake_campaign.of_cases([0] * len(VOLTAGES), first, last)
    ids = np.arange(first, last)
    for place, (volts, saving) in enumerate(zip(VOLTAGES, SAVES, strict=True)):
        dead = ids < round(1000 * (0.44 - volts))  # 50 of 100 at 0.39 V
        arrays["life_years"][place] = np.where(dead, 0.0, fake_campaign.HORIZON_YEARS)
        arrays["end_cause"][place] = np.where(dead, EndCause.NO_HOME, EndCause.CENSORED)
        arrays["energy_saving_nominal"][place] = np.where(dead, np.nan, saving)
    return arrays


@pytest.fixture(scope="module")
def of_voltages(tmp_path_factory):
    out = tmp_path_factory.mktemp("voltages") / "r.h5"
    cases = (fake_campaign.case("rrcd", "dvfs", volts=(0.8, volts)) for volts in VOLTAGES)
    header = fake_campaign.campaign(cases=tuple(cases))
    run_campaign(Study(header, at_voltages), out, 50)
    with open_results(out) as opened:
        yield drawn_of(header, opened, WIDTHS_MM[0])


@pytest.mark.parametrize(
    ("of_works", "of_all"),
    [([0.2, 0.4], [0, 0.2, 0.4]), ([0.2, np.nan], [np.nan] * 3), ([np.nan] * 2, [np.nan] * 3)],
)
def test_savings_of_all_slices_are_known_or_none_is(of_works, of_all):
    variables = {"life_years": [0.0, 5.0, 9.0], "energy_saving_nominal": [np.nan, *of_works]}
    case = xr.Dataset({name: ("instance", values) for name, values in variables.items()})
    np.testing.assert_array_equal(savings_of_all(case), of_all)


def test_measures_against_the_voltage(of_voltages, drawn):
    """Slices dead on arrival save nothing: else a voltage at which few work would look best."""
    pages = [figure for name, figure in of_voltages.items() if name.startswith("vdd")]
    panels = {panel.y_label: panel for page in pages for panel in page.panels}
    (saved,) = panels["energy saving of all slices (%)"].series
    (dead,) = panels["dead on arrival (%)"].series
    (works,) = panels["reach the horizon (%)"].series
    for series in (works, dead, saved):
        assert series.x.tolist() == sorted(VOLTAGES)
    assert works.y == pytest.approx([50, 60, 80, 90, 100, 100])
    assert dead.y == pytest.approx(100 - works.y)
    assert (works.lower < works.y).all()
    assert saved.y == pytest.approx([21, 24, 25.6, 27.9, 30, 25])
    said = "energy saving of all slices [%]: largest of rrcd at 0.44 V (30)."
    assert said in " ".join(page.alt for page in pages)
    assert "vdd" not in drawn, "one voltage is no axis"
    (cloud,) = of_voltages["pareto"].panels[0].series
    assert (cloud.x[cloud.marks], cloud.sizes[0]) == (pytest.approx([30.0]), 1.0)


def test_what_is_not_known_of_a_curve_is_said(tmp_path):
    """Two scenarios at two voltages: dead on arrival, and of an energy that nobody knows.

    Of slices that are all dead on arrival, the saving of 0 is known nevertheless.
    """
    cases = tuple(
        fake_campaign.case("rrcd", "dvfs", scenario, (volts,))
        for scenario in ("clustered", "common")
        for volts in (0.40, 0.44)
    )

    def compute(first, last):
        arrays = fake_campaign.of_cases([0] * len(cases), first, last)
        arrays["energy_saving_nominal"][...] = arrays["energy_saving"][...] = np.nan
        arrays["life_years"][:2], arrays["end_cause"][:2] = 0.0, EndCause.NO_HOME
        return arrays

    header = fake_campaign.campaign(cases=cases)
    with open_results(run_campaign(Study(header, compute), tmp_path / "r.h5", 50)) as opened:
        figures = figures_of(header, opened, x="vdd_volts")
        pages = [figure for figure in figures if figure.name.startswith("vdd")]
    panels = {panel.y_label: panel for page in pages for panel in page.panels}
    clustered, common = panels["energy saving of all slices (%)"].series
    assert (clustered.label, common.label) == ("clustered", "common")
    assert clustered.y.tolist() == [0, 0]
    assert np.isnan(common.y).all()
    assert panels["energy saving of all slices (%)"].notes == ("not known everywhere: common",)
    assert "energy saving vs. a slice at the same Vdd (%)" not in panels
    assert "no case has a value: energy saving vs. a slice at the same Vdd" in pages[0].caption
    assert "common" not in panels["energy saving of all slices (%)"].alt


def nobody_works(first, last):
    arrays = with_dead_slices(first, last)
    for name in arrays.keys() - fake_campaign.OF_INSTANCES:
        arrays[name][1:] = arrays[name][0]
    return arrays


def all_live_on(first, last):
    arrays = fake_campaign.compute(first, last)
    arrays["life_years"][...], arrays["end_cause"][...] = fake_campaign.HORIZON_YEARS, 0
    arrays["spill_rate"][...] = 0.0
    return arrays


@pytest.mark.parametrize(
    ("compute", "absent"),
    [
        (
            nobody_works,
            {
                *("survival", "dvth-cells", "dvth-worst", "dvth-age"),
                *("slowdown", "slowdown-at-death", "spills", "writes"),
            },
        ),
        (all_live_on, {"causes", "slowdown-at-death", "spills"}),
    ],
)
def test_what_cannot_be_drawn_is_said(compute, absent, tmp_path):
    campaign = fake_campaign.campaign(cases=CASES, instances=1)
    path = run_campaign(Study(campaign, compute), tmp_path / "r.h5", 50)
    with open_results(path) as results:
        figures = list(figures_of(read_header(path), results))
    reasons = {f.name: f.reason for f in figures if isinstance(f, AbsentFigure)}
    assert set(reasons) == absent | {"duty-bits", "duty-registers"}


# ---- what is replayed and drawn again ------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    spec = small_spec(instances=2, techniques=["baseline", "rrcd"])
    out = tmp_path_factory.mktemp("swept") / "r.h5"
    return run_sweep(spec, out, "numba")


def replayed(header, path):
    with open_results(path) as results:
        return pages_of(replayed_figures(header, results), Sheet.of(header, WIDTHS_MM[0]))


def test_duty_cycles_are_those_of_the_kernels(swept):
    header = read_header(swept)
    figures = replayed(header, swept)
    plan = plan_of(header)
    of_bits, of_entries = [], []
    for replay in plan.fault_free["rrcd"].replays:
        times = plan.engine.cell_times(replay, fault_free_maps())
        zeros, ones = (part[0].reshape(256, 64, 32) for part in (times.zeros, times.ones))
        duty, used = zeros / np.max(times.period), (zeros > 0) | (ones > 0)
        of_bits.append([duty[:, :, bit][used[:, :, bit]].mean() for bit in range(32)])
        of_entries.append(duty.max(axis=(1, 2)))
    bits = series_of(figures["duty-bits"], "rrcd")
    assert np.allclose(bits.y[:-1], 100 * np.mean(of_bits, axis=0))
    entries = series_of(figures["duty-registers"], "rrcd")
    mean = 100 * np.mean(of_entries, axis=0)
    assert np.allclose(entries.y[:-1][mean > 0], mean[mean > 0])
    assert np.isnan(entries.y[-1]), "no kernel of these uses the last register"
    assert figures["duty-bits"].panels[0].title == "'0' (stresses T0)"
    assert figures["duty-bits"].caption.startswith("3 kernels, replayed without faults. ")


def test_what_other_code_has_computed_is_replayed_with_a_warning(swept):
    header = read_header(swept)
    here = running_code()
    other = replace(header, codes=(Code(here.version, "0" * len(here.digest), ""),))
    theirs, ours = replayed(other, swept), replayed(header, swept)
    assert theirs.keys() == ours.keys()
    for name, figure in theirs.items():
        assert "WARNING: replayed by other code" in figure.caption
        assert "digest 0000" in figure.caption
        assert "WARNING" not in ours[name].caption


def test_user_defined_code_and_other_traces_are_not_replayed(swept):
    header = read_header(swept)
    foreign = replace(header, spec_toml=header.spec_toml.replace('"rrcd"', '"os:path"'))
    traces = replace(header, spec_digest="0" * 64)
    for changed, reason in (
        (foreign, "user-defined code, os:path"),
        (traces, "its traces, techniques or model are others"),
    ):
        for figure in replayed(changed, swept).values():
            assert isinstance(figure, AbsentFigure)
            assert reason in figure.reason


# Do figures of whole GPUs and of a study of a user show what their files hold?

SHEET = Sheet(180.0, "8 GPUs")
POLICIES, TECHNIQUES, AGES = ("default", "round-robin"), ("baseline", "rrcd"), (1.0, 5.0, 10.0)


def drawn_from(path):
    with open_results(path) as results:
        return drawn_of(read_header(path), results), results.load()


def series_by_label(panel):
    return {series.label: series for series in panel.series}


def test_gating(tmp_path):
    study = gating(policies=["default", "round-robin"]).study
    figures, results = drawn_from(run_campaign(study, tmp_path / "r.h5", 100))
    assert list(figures) == [
        *("margin-age", "dvth-age", "retired-age", "survival", "costs", "pareto")
    ]
    assert isinstance(figures["retired-age"], AbsentFigure)
    margins = results["margin_needed"].sel(policy="round-robin").transpose("instance", "age").values
    series = series_by_label(figures["margin-age"].panels[0])["round-robin"]
    assert np.allclose(series.y, 100 * np.median(margins, axis=0))
    assert np.allclose(series.lower, 100 * np.quantile(margins, 0.05, axis=0))
    assert series.cases == (1,)
    assert "smallest for round-robin" in figures["margin-age"].alt
    assert "12 GPUs" in figures["margin-age"].caption
    alive = series_by_label(figures["survival"].panels[0])["default"]
    lives = results["life_years"].sel(policy="default").values
    assert alive.y[np.searchsorted(alive.x, 6.0, side="right") - 1] == pytest.approx(
        100 * np.mean(lives > 6.0)
    )
    power = series_by_label(figures["costs"].panels[1])["default"]
    assert power.x == pytest.approx(np.median(results["sm_power_w"].sel(policy="default")))


def test_a_study_without_figures_of_its_own_has_a_curve_for_each_label():
    results = results_of_both()
    variables = {variable.name: variable for variable in BOTH}
    header = SimpleNamespace(variables=(variables["life_years"], variables["end_cause"]))
    lives, causes = distributions.draw(header, results)
    (panel,) = lives.panels
    assert lives.x_label == "life (year)"
    assert list(series_by_label(panel)) == [
        f"{policy} {technique}" for policy in POLICIES for technique in TECHNIQUES
    ]
    curve = series_by_label(panel)["default baseline"]
    assert_cumulates(curve, results["life_years"].values[0, 0])
    assert [panel.title for panel in causes.panels] == list(series_by_label(lives.panels[0]))
    shares = series_by_label(causes.panels[0])
    assert (shares["cell_delay"].x, shares["censored"].x) == (100.0, 0.0)


def test_heterogeneity(tmp_path):
    study = Heterogeneity(HeterogeneitySpec.from_mapping({"instances": 40})).study
    figures, results = drawn_from(run_campaign(study, tmp_path / "r.h5", 100))
    assert list(figures) == ["efficiency", "delays", "break-even", "order", "pareto"]
    (panel,) = figures["efficiency"].panels
    proposal = results["efficiency"].isel(reading=0, design=1)
    series = series_by_label(panel)[str(proposal["design"].item())]
    assert_cumulates(series, proposal.values)
    rows = series_by_label(figures["order"].panels[0])
    assert rows["all draws"].x == pytest.approx(100 * results["order_holds"].values.mean())


def results_of_both():
    """Numbers that no GPU has: the second policy and the second technique each halve shifts."""
    dims, sizes = ("policy", "technique", "instance", "age"), (2, 2, 8, 3)
    factor = np.array([[1.0, 0.5], [0.5, 0.25]])[:, :, None, None]
    gpus = np.arange(1.0, 9.0)[:, None] + np.array(AGES)
    shifts = factor * gpus
    assert shifts.shape == sizes
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
        {"study": "gpu-both"},
    )


def test_the_table_of_both_levels_speaks_of_gpus_whose_register_files_last():
    results = results_of_both()
    shifts = results["max_dvth_mv"].values
    shifts[...] = np.random.default_rng(1).uniform(30, 90, shifts.shape)
    presentation = BothPresentation(BothHeader)

    def columns():
        table = presentation.table_of(presentation.summarize(results))
        return table.caption, {column.key: column for column in table.columns}

    caption, all_last = columns()
    assert [cell.value for cell in all_last["lasting"].cells] == [8] * 4
    assert not all_last["lasting"].heading
    assert "last" not in caption
    shifts[0, 0, 7] = shifts[1, 1, 0] = np.nan
    caption, some_last = columns()
    assert "of the GPUs whose register files last" in caption
    assert some_last["lasting"].heading == "files last\n[GPUs]"
    in_the_end = shifts[..., -1].reshape(4, 8)
    for key, values in {
        "lasting": np.isfinite(in_the_end).sum(axis=1),
        "max_dvth_mv": np.nanmean(in_the_end, axis=1),
        "saved": 1 - np.nanmean(in_the_end / in_the_end[0], axis=1),
    }.items():
        found = [cell.value for cell in some_last[key].cells]
        first = 1 if key == "saved" else 0  # nothing is saved over itself
        assert found[first:] == pytest.approx(values[first:].tolist()), key


def test_both_levels():
    figures = pages_of(draw_both(results_of_both()), SHEET)
    assert list(figures) == ["margin-age", "dvth-age", "survival", "causes", "saved", "stress"]
    cells, _ = figures["margin-age"].panels
    assert series_by_label(cells)["default baseline"].y.tolist() == pytest.approx([5.5, 9.5, 14.5])
    assert series_by_label(cells)["round-robin rrcd"].cases == (3,)
    assert "same curve: default baseline = default rrcd" in title_of(figures["margin-age"], 1)
    saved = series_by_label(figures["saved"].panels[0])
    assert {name: float(series.x[0]) for name, series in saved.items()} == pytest.approx(
        {"default rrcd": 50.0, "round-robin baseline": 50.0, "round-robin rrcd": 75.0}
    )
    assert [panel.title for panel in figures["causes"].panels] == ["cell delay"]
    assert figures["survival"].panels[0].title == "GPU, any cause"
    dead = series_by_label(figures["causes"].panels[0])
    assert dead["default baseline"].y[-1] == 100
    assert "round-robin rrcd" not in dead


def test_a_study_of_a_user(tmp_path):
    figures, results = drawn_from(run_campaign(darts.pi_by_darts(30), tmp_path / "r.h5", 100))
    assert list(figures) == ["variable-1-pi", "variable-2-hits"]
    (panel,) = figures["variable-1-pi"].panels
    (series,) = panel.series
    assert panel.x_label == "estimate of pi"
    values = results["pi"].values
    assert_cumulates(series, values)
    median = np.quantile(values, 0.5, method="inverted_cdf")
    assert f"median {median:.4g}" in figures["variable-1-pi"].alt
    hits = series_by_label(figures["variable-2-hits"].panels[0])
    assert {name: float(row.x[0]) for name, row in hits.items()} == dict(
        zip(("I", "II", "III", "IV"), map(float, results["hits"].values), strict=True)
    )
