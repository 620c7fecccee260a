"""Does a study that knows no register run as a campaign, by what sweeps run by?"""

import json
import math
from dataclasses import replace

import darts
import pytest
from campaign_cases import Listener
from command_line import invoke
from tables import each

from mcage.campaign.run import run_campaign
from mcage.campaign.study import ShardTask
from mcage.errors import UserError
from mcage.results.reader import open_results, read_header

INSTANCES = 60


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "pi.h5"
    return run_campaign(darts.pi_by_darts(INSTANCES), out, 25)


def tasks(study, folder, *ranges):
    return [ShardTask(study.header, study.maker, folder, part) for part in ranges]


def show(*arguments):
    return invoke("show", *arguments)


def test_it_estimates_pi(finished):
    with open_results(finished) as results:
        assert results["pi"].dims == ("instance",)
        assert results["pi"].mean().item() == pytest.approx(math.pi, abs=0.03)
        hits = results["hits"]
        assert list(hits["quadrant"].values) == ["I", "II", "III", "IV"]
        assert hits.sum() == (results["pi"] * 250).sum()
        assert results.attrs["study"] == "pi by darts"
    assert read_header(finished) == darts.pi_by_darts(INSTANCES).header


def test_it_stops_when_pi_is_known(tmp_path):
    study = darts.pi_by_darts(5000, darts=100, rel_ci=0.0037)
    listener = Listener()
    out = run_campaign(study, tmp_path / "pi.h5", 400, listener)
    values = study.compute(0, 5000)["pi"]
    expected = next(
        n
        for n in (500, 630, 800, 1000, 1250, 1600, 2000)
        if 1.9623 * values[:n].std(ddof=1) / math.sqrt(n) / values[:n].mean() <= 0.0037
    )
    assert 500 < expected < 2000
    assert read_header(out).instances == expected
    stopped = read_header(out).stopped
    assert stopped.startswith(
        f"pi to ±0.37 % with {expected} of at most 5000 instances; worst: 3.1"
    )
    assert listener.said[-1] == stopped
    assert stopped in show(out).output


def test_mcage_shows_its_file(finished):
    table = show(finished)
    assert table.exit_code == 0
    assert "pi by darts" in table.output
    with open_results(finished) as results:
        values = results["pi"].values
    (summary,) = json.loads(show(finished, "--json").stdout)
    assert summary["variable"] == "pi"
    assert summary["instances"] == INSTANCES
    assert summary["mean"]["value"] == pytest.approx(values.mean())
    half = 2.001 * values.std(ddof=1) / math.sqrt(INSTANCES)
    assert summary["mean"]["upper"] == pytest.approx(values.mean() + half, rel=1e-4)


@pytest.mark.parametrize("option", [["--causes"], ["--compare", "a", "b"], ["--fit"]])
def test_tables_of_sweeps_are_refused(finished, option):
    with pytest.raises(UserError, match=rf"{option[0]} is for sweeps; .* holds .*pi by darts"):
        invoke("show", finished, *option, catch_exceptions=False)


def test_a_task_that_would_compute_something_else_is_refused(tmp_path):
    study = darts.pi_by_darts(INSTANCES)
    homeless = ShardTask(study.header, "", tmp_path, range(5))
    with pytest.raises(UserError, match="names no maker"):
        homeless.run()
    stranger = ShardTask(study.header, f"{__name__}:something_else", tmp_path, range(5))
    with pytest.raises(UserError, match="is another one in this process"):
        stranger.run()


def something_else(_):
    return darts.pi_by_darts(INSTANCES, darts=3)


@each(
    ("fields", "message"),
    [
        ({"name": "sweep"}, "is not the name of this study"),
        ({"computes": ()}, "needs variables"),
        ({"computes": darts.VARIABLES * 2}, "a name of its own"),
        ({"labels": ()}, "hits: no coordinate for quadrant"),
        ({"computes": darts.VARIABLES[1:]}, "needs a variable with the dimension instance"),
        ({"instances": 0}, "needs an instance"),
    ],
)
def test_a_study_that_no_file_can_hold_is_refused(fields, message):
    header = darts.pi_by_darts(INSTANCES).header
    with pytest.raises(ValueError, match=message):
        replace(header, **fields)
