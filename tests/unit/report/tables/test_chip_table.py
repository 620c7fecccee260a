"""The table of chips, and what a table of slices says of shared dies."""

import functools
import io
import json

import fake_campaign
import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.report.console import WIDTH_WITHOUT_TERMINAL, PlainConsole
from mcage.report.tables.chips import (
    ChipSummary,
    summarize_chips,
    summarize_chips_of_file,
    table_of,
)
from mcage.report.tables.terminal import print_table
from mcage.results.reader import open_results
from mcage.stats.wording import plain


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    """The results file of 50 instances under some faults, which is written once."""

    @functools.cache
    def written(**faults):
        campaign = fake_campaign.campaign(instances=50, spec_toml=tomli_w.dumps({"faults": faults}))
        out = tmp_path_factory.mktemp("chips") / "r.h5"
        return run_campaign(Study(campaign, fake_campaign.compute), out, 20)

    return written


def test_summaries_follow_the_arrays(file_of) -> None:
    summaries = summarize_chips_of_file(file_of(), 8, 2)
    arrays = fake_campaign.compute(0, 50)
    assert [s.label for s in summaries] == [case.label for case in fake_campaign.CAMPAIGN.cases]
    for index, case in enumerate(summaries):
        assert (case.chips, case.slices_left_out, case.horizon_years) == (6, 2, 10.0)
        third = np.sort(arrays["life_years"][index][:48].reshape(6, 8), axis=1)[:, 2]
        assert case.median_life_years.value == np.sort(third)[2]
        alive = (third == 10.0).mean()
        assert case.censored_share.value == alive
        assert case.end_cause_share["delay"].value == pytest.approx(1 - alive)
        assert plain(case)["slices_left_out"] == 2


def test_by_default_chips_are_those_of_the_sweep(file_of) -> None:
    with open_results(file_of(slices_per_chip=10, sigma_die_volts=0.01)) as results:
        for given in (None, 10):
            assert summarize_chips(results, given)[0].chips == 5
        with pytest.raises(UserError, match=r"= 5, but dies differ and 10 slices shared each"):
            summarize_chips(results, 5)


@pytest.mark.parametrize("faults", [{}, {"slices_per_chip": 10}, {"sigma_die_volts": 0.0}])
def test_where_dies_are_alike_any_slices_make_a_chip(file_of, faults) -> None:
    path = file_of(**faults)
    assert summarize_chips_of_file(path, 25)[0].chips == 2
    assert summarize_chips_of_file(path)[0].chips == 50 // faults.get("slices_per_chip", 1)


def test_errors_name_the_file(file_of) -> None:
    path = file_of()
    with pytest.raises(UserError, match=rf"^{path}: 50 slices make no chip of 60"):
        summarize_chips_of_file(path, 60)


def test_table(file_of) -> None:
    summaries: list[ChipSummary] = summarize_chips_of_file(file_of(), 8, 1)
    stream = io.StringIO()
    print_table(table_of(summaries), PlainConsole(file=stream, width=WIDTH_WITHOUT_TERMINAL))
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert " ".join(lines[:2]) == (
        "6 chips of 8 slices, 1 to spare; 2 slices of an incomplete chip left out; horizon 10 years"
    )
    assert stream.getvalue().count("[years]") == 2
    row = next(line for line in lines if line.startswith("rrcd dvfs"))
    assert f"{summaries[2].median_life_years.value:.2f} [" in row
    assert "delay" in row
    assert "left out" not in table_of(summarize_chips_of_file(file_of(), 10)).title


# ---- command line ------------------------------------------------------------------------------


def shown(*arguments):
    return CliRunner().invoke(app, ["show", *map(str, arguments)])


def test_the_command_shows_chips(file_of) -> None:
    path = file_of()
    chips = json.loads(shown(path, "--slices-per-chip", 8, "--spare-slices", 2, "--json").stdout)
    assert chips == json.loads(json.dumps(plain(summarize_chips_of_file(path, 8, 2))))
    assert "6 chips of 8 slices, 0 to spare" in shown(path, "--slices-per-chip", 8).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spare-slices", 2], "only chips have spare slices"),
        (["--slices-per-chip", 8, "--fit"], "give one of them"),
        (["--slices-per-chip", 8, "--spare-slices", 8], "spare_slices = 8"),
        (["--slices-per-chip", 0], "slices_per_chip = 0"),
    ],
)
def test_options_that_make_no_table_of_chips(file_of, options, message) -> None:
    assert message in str(shown(file_of(), *options).exception)


@pytest.mark.parametrize("option", [[], ["--causes"], ["--fit"], ["--compare", "base", "rrcd n"]])
def test_tables_of_slices_say_that_they_share_dies(file_of, option) -> None:
    dependent = shown(file_of(slices_per_chip=10, sigma_die_volts=0.01), *option)
    last = dependent.stdout.splitlines()[-1]
    assert last.startswith("WARNING: 10 slices share each die")
    assert last.endswith("--slices-per-chip 10")


@pytest.mark.parametrize(
    "faults", [{}, {"slices_per_chip": 10}, {"sigma_die_volts": 0.01}, {"slices_per_chip": 1}]
)
def test_independent_slices_need_no_warning(file_of, faults) -> None:
    assert "WARNING" not in shown(file_of(**faults)).output


def test_a_warning_is_no_part_of_json_nor_of_the_table_of_chips(file_of) -> None:
    path = file_of(slices_per_chip=10, sigma_die_volts=0.01)
    result = shown(path, "--json")
    assert len(json.loads(result.stdout)) == 3
    assert "WARNING" in result.stderr
    assert "WARNING" not in shown(path, "--slices-per-chip", 10).output
