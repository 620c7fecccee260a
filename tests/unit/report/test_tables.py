"""Does a table keep what it is made of, whatever the width, the order and the form?"""

import csv
import functools
import io
import json
import math
import re

import fake_campaign
import numpy as np
import pytest
import tomli_w
import xarray as xr
from command_line import invoke
from fake_campaign import write
from tables import each

import mcage
from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import write_shard
from mcage.errors import UserError
from mcage.report.cases import summarized
from mcage.report.presentation import Summary
from mcage.report.tables import (
    WIDTH_WITHOUT_TERMINAL,
    PlainConsole,
    ResultTable,
    column,
    csv_of,
    measured,
    print_table,
    remarks,
    renamed_in,
    sorted_by,
)
from mcage.results.header import StoppingRule
from mcage.results.measures import Measure, cases_of
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate, plain, plus_minus
from mcage.studies.sweep.header import SweepHeader, stopping_rule
from mcage.studies.sweep.measures import MEASURES
from mcage.studies.sweep.tables import by_draw, summarize_chips, table_of_chips, table_of_draws

NAN, INF = math.nan, math.inf
LIVES = [Estimate(1234.5, 1200.25, 1250.75), Estimate(INF, 9.5, INF), Estimate(NAN, NAN, NAN)]
SHIFTS = [Estimate(0.01234567, 0.01234, 0.01235), None, Estimate(-5.0, -6.0, -4.0)]


LINES = [
    {
        **dict(zip(("technique", "environment", "worked", "horizon_years"), words, strict=True)),
        "life_years": life,
        "shift_mv": shift,
        "rate": shift,
    }
    for life, shift, *words in zip(
        LIVES,
        SHIFTS,
        ["a+very+long+name", "b", "c"],
        ["dvfs 0.8/0.4 V", "turbo 1 V", "turbo 1 V"],
        [3, 2, 1],
        [2000.0, 10.0, 10.0],
        strict=True,
    )
]


def names(key, heading, texts):
    """A column of these texts."""
    return column([{key: text} for text in texts], key, heading)


def table(**fields):
    life = Measure("life_years", "life [years]", heading="life\n[years]", form="age", primary=True)
    columns = (
        column(LINES, "technique", "technique"),
        column(LINES, "environment", "environment", groups=True),
        column(LINES, "worked"),
        measured(life, LINES),
        column(LINES, "shift_mv", "shift\n[mV]", plus_minus, primary=True),
        column(LINES, "rate", "rate of\nspills", plus_minus),
        remarks("lives end by", ["no home 99.9 %", "", "delay 1 %"]),
    )
    return ResultTable("3 cases", "what they mean", columns, **fields)


def printed(shown, width, **options):
    stream = io.StringIO()
    print_table(shown, PlainConsole(file=stream, width=width), **options)
    return stream.getvalue()


NUMBERS = re.compile(r"[-\d.]*\d")


def test_no_width_cuts_a_number_or_hides_a_column_in_silence():
    whole = printed(table(), 200)
    known = set(NUMBERS.findall(whole))
    for width in range(10, 140):
        text = printed(table(), width)
        assert "…" not in text
        cut = set(NUMBERS.findall(text)) - known
        assert not cut, (width, cut)
        assert ("[1200.25," in text) == ("1234.50 [1200.25, 1250.75]" in text), width
        for shown in (of for of in table().shown if not of.groups):
            assert set(shown.heading.split()) <= set(re.split(r"[\s,.:]+", text)), (width, shown)
        if width >= 50:  # below, each line is a list, which the terminal wraps
            assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert printed(table(), 30, wide=True) == whole


def test_narrow_tables_say_environments_once_and_wide_ones_in_a_column():
    narrow, wide = printed(table(), 70), printed(table(), 200)
    assert narrow.count("turbo 1 V") == 1
    assert wide.count("turbo 1 V") == 2
    assert (
        "Too wide for this terminal: rate of spills, lives end by. mcage show --wide"
        in " ".join(narrow.split())
    )
    assert "Too wide" not in wide


def test_what_is_below_is_printed_below():
    other = ResultTable("other title", "other words", (names("x", "x", ["y"]),))
    lines = [line.strip() for line in printed(table(below=(other,)), 200).splitlines()]
    assert lines.index("what they mean") < lines.index("other title") < lines.index("y")


def test_a_table_says_what_options_call_a_technique_of_the_user():
    """Its name is not what `--where` takes; a label that the user gave is no surprise."""
    given = {"skip:SKIP": "skip", "b": "B", "other:O": "o"}
    for key in ("technique", "policy"):
        read = renamed_in(ResultTable("", "words", (names(key, "x", ["skip:SKIP", "b"]),)), given)
        assert [cell.text for cell in read.columns[0].cells] == ["skip", "B"]
        assert [cell.value for cell in read.columns[0].cells] == ["skip:SKIP", "b"]
        assert read.caption == "words\nIn options, skip is skip:SKIP."
    for key in ("case", "scenario", "trace"):  # what begins as a technique is none there
        column_of = names(key, "x", ["b", "b turbo common"])
        read = renamed_in(ResultTable("", "words", (column_of,)), given)
        assert (read.columns[0], read.caption) == (column_of, "words")


def test_csv_is_for_machines():
    lines = list(csv.DictReader(io.StringIO(csv_of(table()))))
    assert [line["technique"] for line in lines] == ["a+very+long+name", "b", "c"]
    first, second, third = lines
    assert (first["life_years"], first["life_years_lower"]) == ("1234.5", "1200.25")
    assert float(second["life_years"]) == INF
    assert float(second["life_years_lower"]) == 9.5
    assert third["life_years"] == third["life_years_upper"] == ""
    assert float(first["shift_mv"]) == 0.01234567, "not rounded as for people"
    assert second["shift_mv"] == second["shift_mv_lower"] == ""
    assert first["worked"] == "3"
    assert "worked_lower" not in first
    assert not [key for key in first if "end" in key and "vironment" not in key]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "＝"])
def test_no_name_in_csv_is_a_formula_of_a_spreadsheet(begin):
    cells = [f"{begin}cmd|' /C calc'!A0", "-0.5", "+1e-3", "-inf", "rc+rar", "a=b"]
    (_, first, *others) = csv.reader(
        io.StringIO(csv_of(ResultTable("", "", (names("x", "x", cells),))))
    )
    assert first[0][0] in "'\\"
    assert first[0].endswith("cmd|' /C calc'!A0")
    assert [line[0] for line in others] == cells[1:]


def test_lines_are_sorted_with_the_unknown_last():
    def order(key):
        return [cell.text for cell in sorted_by(table(), key).columns[0].cells]

    assert order("life_years") == ["a+very+long+name", "b", "c"]
    assert order("-life") == ["b", "a+very+long+name", "c"]
    assert order("shift_mv") == ["c", "a+very+long+name", "b"]
    assert order("-technique") == ["c", "b", "a+very+long+name"]
    for key, words in (("x", "no such columns; they are technique"), ("", "several such columns")):
        with pytest.raises(UserError, match=words):
            sorted_by(table(), key)


def test_tables_that_contradict_themselves_are_refused():
    single = names("x", "x", ["y"])
    with pytest.raises(ValueError, match="keys of their own"):
        ResultTable("", "", (single, single))
    with pytest.raises(ValueError, match="equally many"):
        ResultTable("", "", (single, names("z", "z", [])))


# Do several files of one case each show and compare as one file of all cases?

DVFS = 2
"""Place of a case of the fake campaign."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write(folder / "all.h5")
    for place in range(3):
        write(folder / f"{place}.h5", places=[place])
    return [folder / f"{name}.h5" for name in ("all", 0, 1, 2)]


def show(*arguments):
    return invoke("show", *arguments, catch_exceptions=False)


def test_a_table_of_all_cases(files):
    whole, *parts = files
    expected = json.loads(show(whole, "--json").stdout)
    several = json.loads(show(*parts, "--json").stdout)
    assert [case.pop("file") for case in several] == [str(path) for path in parts]
    assert several == expected


def test_the_table_names_the_files(files, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    monkeypatch.setenv("COLUMNS", "300")
    printed = show("0.h5", "1.h5", "2.h5").stdout
    rows = [line.split()[:3] for line in printed.splitlines() if ".h5 " in line]
    assert rows == [
        ["0.h5", "baseline", "turbo"],
        ["1.h5", "rrcd", "turbo"],
        ["2.h5", "rrcd", "dvfs"],
    ]
    causes = show("0.h5", "1.h5", "--causes").stdout.splitlines()
    for file, label in (("0.h5", "baseline"), ("1.h5", "rrcd")):
        assert any(line.startswith(f"{file}, {label}") for line in causes)
    assert "30 instances per case, horizon 10 years" in printed


def test_a_table_says_what_a_file_lacks(files, tmp_path):
    """More instances in a file, and a partial file."""
    other = fake_campaign.campaign(cases=(fake_campaign.CAMPAIGN.cases[DVFS],), instances=40)
    folder = tmp_path / "shards"
    folder.mkdir()
    for ids in (range(3, 10), range(20, 40)):
        write_shard(folder, other, ids, fake_campaign.of_cases([DVFS], ids.start, ids.stop))
    partial = merge(tmp_path / "partial.h5", [folder], partial=True)
    shown = show(files[1], partial)
    assert f"{partial}: PARTIAL: 13 of 40 instances are missing (0-2, 10-19)" in shown.output
    assert "27 to 30 instances per case" in shown.output


def refused(match, *arguments):
    with pytest.raises(UserError, match=match):
        show(*arguments)


def test_what_cannot_be_put_together_is_refused(files):
    for option in (["--figure", "x.png"], ["--compare", "a", "b"]):
        refused(rf"{option[0]} is for one file: leave out .*1\.h5", *files[1:3], *option)


def test_files_of_other_studies(tmp_path):
    import darts

    pi, more = (
        run_campaign(darts.pi_by_darts(count), tmp_path / f"{count}.h5", 50) for count in (20, 40)
    )
    listed = json.loads(show(pi, more, "--json").stdout)
    assert [(row["file"], row["instances"]) for row in listed] == [(str(pi), 20), (str(more), 40)]
    printed = show(pi, more, "--csv").stdout.splitlines()
    assert [line.split(",")[0] for line in printed] == ["file", str(pi), str(more)]
    sweep = run_campaign(fake_campaign.study(instances=6), tmp_path / "s.h5", 9)
    refused("holds another study than", pi, sweep)


# The table of chips, and what a table of slices says of shared dies.


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    """The results file of 50 instances under some faults, which is written once."""

    @functools.cache
    def written(**faults):
        study = fake_campaign.study(instances=50, spec_toml=tomli_w.dumps({"faults": faults}))
        return run_campaign(study, tmp_path_factory.mktemp("chips") / "r.h5", 20)

    return written


def chips_of(path, *chips):
    """Summaries of the chips of all cases of a file."""
    return summarized(path, lambda results: summarize_chips(results, *chips))


def test_summaries_follow_the_arrays(file_of) -> None:
    summaries = chips_of(file_of(), 8, 2)
    arrays = fake_campaign.compute(0, 50)
    assert [s.label for s in summaries] == [case["case"] for case in fake_campaign.CAMPAIGN.cases]
    for index, case in enumerate(summaries):
        assert (case.chips, case.slices_left_out, case.horizon_years) == (6, 2, 10.0)
        third = np.sort(arrays["life_years"][index][:48].reshape(6, 8), axis=1)[:, 2]
        assert case.median_life_years.value == np.sort(third)[2]
        alive = (third == 10.0).mean()
        assert case.censored_share.value == alive
        assert case.end_cause_share["delay"].value == pytest.approx(1 - alive)
        assert plain(case)["slices_left_out"] == 2


def test_by_default_chips_are_those_of_the_sweep(file_of) -> None:
    path = file_of(slices_per_chip=10, sigma_die_volts=0.01)
    for given in ([], [10]):
        assert chips_of(path, *given)[0].chips == 5
    message = rf"^{path}: .*= 5, but dies differ and 10 slices shared each"
    with pytest.raises(UserError, match=message):
        chips_of(path, 5)


@each("faults", [{}, {"slices_per_chip": 10}, {"sigma_die_volts": 0.0}])
def test_where_dies_are_alike_any_slices_make_a_chip(file_of, faults) -> None:
    path = file_of(**faults)
    assert chips_of(path, 25)[0].chips == 2
    assert chips_of(path)[0].chips == 50 // faults.get("slices_per_chip", 1)
    with pytest.raises(UserError, match=rf"^{path}: 50 slices make no chip of 60"):
        chips_of(path, 60)


def test_table(file_of) -> None:
    summaries = chips_of(file_of(), 8, 1)
    text = printed(table_of_chips(summaries), WIDTH_WITHOUT_TERMINAL)
    lines = [line.strip() for line in text.splitlines()]
    assert " ".join(lines[:2]) == (
        "6 chips of 8 slices, 1 to spare; 2 slices of an incomplete chip left out; horizon 10 "
        "years, protection ecp1, scenario common"
    )
    assert text.count("[years]") == 2
    row = next(line for line in lines if line.split()[:2] == ["rrcd", "dvfs"])
    assert f"{summaries[2].median_life_years.value:.2f} [" in row
    assert "delay" in row
    assert "left out" not in table_of_chips(chips_of(file_of(), 10)).title


def test_the_command_shows_chips(file_of) -> None:
    path = file_of()
    chips = json.loads(show(path, "--slices-per-chip", 8, "--spare-slices", 2, "--json").stdout)
    assert chips == json.loads(json.dumps(plain(chips_of(path, 8, 2))))
    assert "6 chips of 8 slices, 0 to spare" in show(path, "--slices-per-chip", 8).stdout


@each(
    ("options", "message"),
    [
        (["--spare-slices", 2], "only chips have spare slices"),
        (["--slices-per-chip", 8, "--fit"], "give one of them"),
    ],
)
def test_options_that_make_no_table_of_chips(file_of, options, message) -> None:
    assert message in str(invoke("show", file_of(), *options).exception)


@each("option", [[], ["--causes"], ["--fit"], ["--compare", "base", "rrcd t"]])
def test_tables_of_slices_say_that_they_share_dies(file_of, option) -> None:
    dependent = show(file_of(slices_per_chip=10, sigma_die_volts=0.01), *option)
    last = dependent.stdout.splitlines()[-1]
    assert last.startswith("WARNING: 10 slices share each die")
    assert last.endswith("--slices-per-chip 10")


@each("faults", [{}, {"slices_per_chip": 10}, {"sigma_die_volts": 0.01}, {"slices_per_chip": 1}])
def test_independent_slices_need_no_warning(file_of, faults) -> None:
    assert "WARNING" not in show(file_of(**faults)).output


def test_a_warning_is_no_part_of_json_nor_of_the_table_of_chips(file_of) -> None:
    path = file_of(slices_per_chip=10, sigma_die_volts=0.01)
    result = show(path, "--json")
    assert len(json.loads(result.stdout)) == 3
    assert "WARNING" in result.stderr
    assert "WARNING" not in show(path, "--slices-per-chip", 10).output


# The table of what the lot and what the constants make uncertain.

HORIZON = 10.0


def results_of(draws, slices):
    """A case whose lives follow from the constants, but for a tenth; the lives of few end late."""
    row = np.tile(np.arange(draws), slices)
    years = 2.0 + 8.5 * row / draws + 0.1 * np.random.default_rng(1).normal(size=row.size)
    died = years < HORIZON
    return xr.Dataset(
        {
            "draw": ("instance", row),
            "life_years": (("case", "instance"), [np.minimum(years, HORIZON)]),
            "end_cause": (("case", "instance"), [died.astype(np.int8)]),
            "max_dvth_mv": (
                ("case", "instance", "transistor"),
                [np.stack([10.0 * years, 5 * years], axis=1)],
            ),
        },
        {"case": ["rrcd"], "epoch_end_years": ("epoch", [1.0, HORIZON])},
    )


def summary_of_draws(results):
    (case,) = cases_of(results, ("case",), map(str, results.data_vars))
    return by_draw(case)


def printed_draws(results):
    line = Summary(case="rrcd", horizon_years=HORIZON, by_draw=summary_of_draws(results))
    return printed(table_of_draws([line]), 200)


def test_lot_and_constants_stand_side_by_side():
    case = summary_of_draws(results_of(50, 6))
    assert (case.instances, case.draws) == (300, 50)
    median = case.median_life_years
    assert 6 < median.lot.lower < median.lot.value < median.lot.upper < 6.5
    assert 2 < median.band.lower < 2.5
    assert median.band.upper == math.inf
    assert case.share_of_life.lower > 0.9
    assert case.max_dvth_mv.lot.value > 60
    text = printed_draws(results_of(50, 6))
    assert "50 draws of constants, 6 slices of each" in text
    assert "to > 10 " in text
    assert "fewer than" not in text


def test_what_is_missing_is_said():
    few, single = printed_draws(results_of(20, 5)), printed_draws(results_of(50, 1))
    assert "fewer than 39 draws give no band" in few
    assert "cannot be separated without two slices of a draw" in single
    assert " – " in few


# Is a measure declared once? One more, in one place, stands wherever measures do.

SPENT = Measure(
    "delay_spent",
    "delay that aging has added [%]",
    ("delay_increase",),
    lambda case: case["delay_increase"],
    "delay\nadded [%]",
    scale=100.0,
    of_working=True,
    compared=True,
    stops="delay_spent",
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(SweepHeader, "measures", (*MEASURES, SPENT))
    study = fake_campaign.study(instances=30, spec_toml=SweepSpec().to_toml())
    return run_campaign(study, tmp_path / "r.h5", 30)


def test_a_new_measure_stands_in_every_form(path, tmp_path):
    mean = fake_campaign.compute(0, 30)["delay_increase"].mean(axis=1)
    assert "added [%]" in invoke("show", path).output
    summaries = json.loads(invoke("show", path, "--json").output)
    assert [of["delay_spent"]["value"] for of in summaries] == pytest.approx(list(mean))
    lines = list(csv.DictReader(io.StringIO(invoke("show", path, "--csv").output)))
    assert [float(line["delay_spent"]) for line in lines] == pytest.approx(list(mean))
    with mcage.open_results(path) as results:
        assert results.mcage.summary()["delay_spent"].tolist() == pytest.approx(list(mean))
        first, second, *_ = results["case"].values.tolist()
        frame = results.mcage.paired(first, second).set_index("quantity")
    assert frame.loc["delay_spent", "difference"] == pytest.approx(mean[0] - mean[1])
    compared = json.loads(invoke("show", path, "--compare", first, second, "--json").output)
    assert compared["lines"]["delay_spent"]["name"] == "delay that aging has added [%]"
    assert "added [%]" in mcage.write_report(path, tmp_path / "page", figure="causes").read_text()


def test_a_campaign_may_be_stopped_by_it(path):
    spec = SweepSpec(stopping={"rel_ci": 0.5, "of": "delay_spent"})
    assert stopping_rule(spec) == StoppingRule(0.5, "delay_spent")
    arrays = fake_campaign.compute(0, 30)
    quantity = fake_campaign.campaign(instances=30).quantities["delay_spent"]
    known = quantity.precisions({name: arrays[name] for name in quantity.variables})
    means = [precision.estimate.value for precision in known.values()]
    assert np.allclose(means, arrays["delay_increase"].mean(axis=1))
