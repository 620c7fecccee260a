"""Does the table say what the file holds, for people and for scripts?"""

import io
import json
import math
import subprocess
import sys

import fake_campaign
import numpy as np
import pytest
from rich.console import Console

from mcage.campaign.run import run_campaign
from mcage.report.statistics import Estimate
from mcage.report.tables import CaseSummary, print_summaries, summarize_file
from mcage.report.text import WIDTH_WITHOUT_TERMINAL, plain

MCAGE = [sys.executable, "-c", "from mcage.cli.main import main; main()"]


def summary(**fields):
    known = {
        "label": "rrcd nominal common 0.419 V",
        "technique": "rrcd",
        "environment": "nominal",
        "scenario": "common",
        "vdd_volts": 0.419,
        "instances": 1000,
        "horizon_years": 10.0,
        "b10_life_years": Estimate(2.5, 2.0, 2.75),
        "median_life_years": Estimate(6.4321, 6.3, 6.55),
        "censored_share": Estimate(0.025, 0.02, 0.03),
        "max_dvth_mv": {"T0": Estimate(66.687, 66.4, 66.974), "T1": Estimate(40.0, 39.0, 41.0)},
        "spill_rate": Estimate(0.01234, 0.0120, 0.01268),
        "end_cause_share": {
            "delay": Estimate(0.9, 0.8, 1.0),
            "faulty entry": Estimate(0.0, 0.0, 0.01),
            "no home": Estimate(0.075, 0.07, 0.08),
        },
    }
    return CaseSummary(**{**known, **fields})


def printed(*summaries):
    stream = io.StringIO()
    print_summaries(summaries, Console(file=stream, width=WIDTH_WITHOUT_TERMINAL))
    return stream.getvalue()


def row(**fields):
    lines = [line for line in printed(summary(**fields)).splitlines() if "rrcd" in line]
    return [cell.strip() for cell in lines[0].split("  ") if cell.strip()]


def test_a_row_by_hand():
    assert row() == [
        "rrcd",
        "nominal",
        "2.50 [2.00, 2.75]",
        "6.43 [6.30, 6.55]",
        "2.5 %",
        "66.69 ±0.29",
        "40.0 ±1.0",
        "1.234 ±0.034",
        "delay 90 %, no home 7.5 %",
    ]


def test_a_median_beyond_the_horizon():
    inf, nan = math.inf, math.nan
    assert row(median_life_years=Estimate(inf, inf, inf))[3] == "> 10"
    assert row(median_life_years=Estimate(inf, 9.5, inf))[3] == "> 10 [9.50, > 10]"
    assert row(median_life_years=Estimate(9.8, 9.5, inf))[3] == "9.80 [9.50, > 10]"
    assert row(median_life_years=Estimate(inf, nan, nan))[3] == "> 10"
    assert row(median_life_years=Estimate(6.0, nan, nan))[3] == "6.00 [–, –]"


def test_unknown_intervals_and_values_are_dashes():
    nan = math.nan
    assert row(spill_rate=Estimate(0.0123, nan, nan))[7] == "1.23 ±–"
    assert row(spill_rate=Estimate(nan, nan, nan))[7] == "–"
    assert row(spill_rate=Estimate(0.0, 0.0, 0.0))[7] == "0 ±0"


def test_settings_that_differ_get_a_column_and_others_the_title():
    assert "scenario common 0.419 V" in printed(summary())
    both = printed(summary(), summary(scenario="clustered", vdd_volts=0.497))
    assert "clustered 0.497 V" in both
    assert "common 0.419 V" in both


def test_json_says_what_is_unknown_and_what_lies_beyond_the_horizon():
    (shown,) = plain([summary(median_life_years=Estimate(math.inf, 9.5, math.nan))])
    assert shown["median_life_years"] == {
        "value": None,
        "lower": 9.5,
        "upper": None,
        "beyond_horizon": ["value"],
    }
    assert shown["spill_rate"] == {"value": 0.01234, "lower": 0.0120, "upper": 0.01268}
    json.dumps(shown, allow_nan=False)


@pytest.mark.parametrize("instances", [1, 2, 50])
def test_summaries_follow_the_arrays(instances, tmp_path):
    campaign = fake_campaign.campaign(instances=instances)
    out = run_campaign(campaign, tmp_path / "r.h5", fake_campaign.compute, 20)
    arrays = fake_campaign.compute(0, instances)
    summaries = summarize_file(out)
    assert [s.label for s in summaries] == [case.label for case in campaign.cases]
    for index, case in enumerate(summaries):
        assert case.instances == instances
        dvth = arrays["max_dvth_mv"][index].mean(axis=0)
        assert case.max_dvth_mv["T0"].value == pytest.approx(dvth[0])
        assert case.max_dvth_mv["T1"].value == pytest.approx(dvth[1])
        assert case.spill_rate.value == pytest.approx(arrays["spill_rate"][index].mean())
        alive = arrays["end_cause"][index] == 0
        assert case.censored_share.value == alive.mean()
        assert case.end_cause_share["delay"].value == pytest.approx(1 - alive.mean())
        life = np.sort(arrays["life_years"][index])[(instances - 1) // 2]
        assert case.median_life_years.value == (life if life < 10 else math.inf)
        life = np.sort(arrays["life_years"][index])[(instances - 1) // 10]
        assert case.b10_life_years.value == (life if life < 10 else math.inf)
    assert str(instances) in printed(*summaries)


def test_the_command(tmp_path):
    out = run_campaign(fake_campaign.CAMPAIGN, tmp_path / "r.h5", fake_campaign.compute, 50)
    shown = subprocess.run([*MCAGE, "show", out], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "100 instances per case, horizon 10 years" in shown.stdout
    assert "baseline" in shown.stdout
    script = subprocess.run([*MCAGE, "show", out, "--json"], capture_output=True, text=True)
    cases = json.loads(script.stdout)
    assert [case["technique"] for case in cases] == ["baseline", "rrcd", "rrcd"]


def test_the_command_on_something_else(tmp_path):
    shown = subprocess.run(
        [*MCAGE, "show", tmp_path / "none.h5"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: cannot read")
    assert shown.stdout == ""
