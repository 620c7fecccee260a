"""Does the table say what the file holds, for people and for scripts?"""

import csv
import io
import json
import math
from functools import partial

import command_line
import fake_campaign
import numpy as np
import pytest
from command_line import invoke

from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.study import Study
from mcage.report.presentation import Summary
from mcage.report.tables import WIDTH_WITHOUT_TERMINAL, PlainConsole, print_table
from mcage.spec.cost_constants import load_costs
from mcage.stats.estimates import Estimate, plain
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.measures import last_slowdown
from mcage.studies.sweep.presentation import SweepPresentation
from mcage.studies.sweep.tables import table_of, table_of_causes


def summary(**fields):
    known = {
        "technique": "rrcd",
        "environment": "turbo",
        "scenario": "common",
        "vdd_volts": 1.0,
        "voltages": "1 V",
        "protection": "ecp1",
        "instances": 1000,
        "worked": 800,
        "horizon_years": 10.0,
        "b10_life_years": Estimate(2.5, 2.0, 2.75),
        "median_life_years": Estimate(6.4321, 6.3, 6.55),
        "censored_share": Estimate(0.025, 0.02, 0.03),
        "dead_on_arrival": Estimate(0.2, 0.18, 0.22),
        "rmst_years": Estimate(6.1, 6.0, 6.2),
        "max_dvth_t0_mv": Estimate(66.687, 66.4, 66.974),
        "max_dvth_t1_mv": Estimate(40.0, 39.0, 41.0),
        "spill_rate": Estimate(0.01234, 0.0120, 0.01268),
        "slowdown": Estimate(0.0037, 0.0036, 0.0038),
        "slowdown_new": Estimate(0.001, 0.0009, 0.0011),
        "slowdown_last": Estimate(0.0045, 0.004, 0.005),
        "due_fit": Estimate(0.5, 0.4, 0.6),
        "sdc_fit": Estimate(8.0, 7.5, 8.5),
        "energy_saving": Estimate(-0.1234, -0.13, -0.1168),
        "energy_saving_nominal": Estimate(0.2712, 0.2700, 0.2724),
        "energy_saving_of_all": Estimate(0.2170, 0.2100, 0.2240),
        "nominal_vdd_volts": 0.8,
        "end_cause_share": {
            "delay": Estimate(0.9, 0.8, 1.0),
            "faulty entry": Estimate(0.0, 0.0, 0.01),
            "no home": Estimate(0.075, 0.07, 0.08),
            "spill limit": Estimate(0.0, 0.0, 0.01),
            "too slow": Estimate(0.0, 0.0, 0.01),
        },
    }
    return Summary(**{**known, **fields})


def printed(*summaries, width=WIDTH_WITHOUT_TERMINAL):
    stream = io.StringIO()
    print_table(table_of(summaries), PlainConsole(file=stream, width=width))
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def row(**fields):
    other = summary(environment="dvfs", voltages="0.8/0.419 V")  # environments have a column
    lines = [line for line in printed(summary(**fields), other).splitlines() if "rrcd" in line]
    return [cell.strip() for cell in lines[0].split("  ") if cell.strip()]


def test_a_row_by_hand():
    assert row() == [
        "rrcd",
        "turbo",
        "1 V",
        "2.50 [2.00, 2.75]",
        "6.43 [6.30, 6.55]",
        "2.5 %",
        "20 %",
        "66.69 ±0.29",
        "40.0 ±1.0",
        "1.234 ±0.034",
        "0.370 ±0.010",
        "-12.34 ±0.66",
        "27.12 ±0.12",
        "21.70 ±0.70",
        "delay 90 %, no home 7.5 %",
    ]


def test_unknown_intervals_and_values_are_dashes():
    nan = math.nan
    assert row(spill_rate=Estimate(0.0123, nan, nan))[9] == "1.23 ±–"
    assert row(spill_rate=Estimate(nan, nan, nan))[9] == "–"
    assert row(spill_rate=Estimate(0.0, 0.0, 0.0))[9] == "0 ±0"


def test_rounding_is_no_uncertainty():
    """Equal values, whose mean and deviation are off by last bits; a small interval stays one."""
    assert row(slowdown=Estimate(0.0022508700, 0.0022508699999999, 0.0022508700000001))[10] == (
        "0.225 ±0"
    )
    assert row(spill_rate=Estimate(0.01, 0.01 - 1e-8, 0.01 + 1e-8))[9] == "1.000000 ±0.000001"


def test_scenarios_that_differ_get_a_column_and_one_the_title():
    title = printed(summary()).splitlines()[0]
    assert title.endswith(
        "horizon 10 years, protection ecp1, environment turbo, scenario common, Vdd 1 V"
    )
    low = summary(scenario="clustered", environment="dvfs", voltages="0.8/0.497 V")
    first, second = [line for line in printed(summary(), low).splitlines() if "rrcd " in line]
    assert first.split()[1:5] == ["turbo", "common", "1", "V"]
    assert second.split()[1:5] == ["dvfs", "clustered", "0.8/0.497", "V"]


def test_headings_say_against_which_slice_energy_is_saved():
    words = " ".join(printed(summary(nominal_vdd_volts=1.0)).splitlines())
    assert "same Vdd [%]" in words
    assert "vs. 1 V [%]" in words
    assert "at the same voltages, and at the technology's nominal 1 V; of all slices:" in words
    whole = printed(summary(worked=1000, dead_on_arrival=Estimate(0.0, 0.0, 0.01)))
    assert "of all slices" not in whole, "nobody is dead on arrival"


def test_means_of_few_stand_in_brackets():
    assert row(worked=500)[7:13] == row()[7:13]
    assert row(worked=499)[7:13] == [f"({cell})" for cell in row()[7:13]]
    assert row(worked=499)[13] == "21.70 ±0.70", "a mean over all slices"
    assert "in brackets, where less than half" in " ".join(printed(summary(worked=4)).split())
    assert "in brackets" not in printed(summary())


def test_files_whose_energies_do_not_lie_on_one_curve():
    node = load_costs().technology("28nm", "rows")
    cases = [summary(vdd_volts=volts, technology=node) for volts in (0.419, 0.44, 1.0)]
    of_files = [Summary(case, file=f"{place}.h5") for place, case in enumerate(cases)]
    assert "; energy at 0.419 V is that of printed constants" in table_of(of_files).caption
    assert "printed" not in table_of(cases).caption, "the caveat of the file says it"
    assert "printed" not in table_of(of_files[1:]).caption


def test_a_table_without_constants_of_energy_has_no_column_of_it():
    unknown = dict.fromkeys(
        ("energy_saving", "energy_saving_nominal", "energy_saving_of_all"),
        Estimate(math.nan, math.nan, math.nan),
    )
    assert "energy" not in printed(summary(**unknown))
    assert "dVth to slowdown: means over" in printed(summary(**unknown))
    dead = summary(worked=0, **unknown)
    assert "energy" in printed(summary(), dead)


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
    out = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "r.h5", 20)
    arrays = fake_campaign.compute(0, instances)
    summaries = SweepPresentation(SweepHeader).summarize_file(out)
    assert [s.label for s in summaries] == [case["case"] for case in campaign.cases]
    for index, case in enumerate(summaries):
        assert case.instances == instances
        dvth = arrays["max_dvth_mv"][index].mean(axis=0)
        assert case.max_dvth_t0_mv.value == pytest.approx(dvth[0])
        assert case.max_dvth_t1_mv.value == pytest.approx(dvth[1])
        for name in ("spill_rate", "slowdown", "energy_saving", "energy_saving_nominal"):
            assert getattr(case, name).value == pytest.approx(arrays[name][index].mean())
        alive = arrays["end_cause"][index] == 0
        assert case.censored_share.value == alive.mean()
        assert case.end_cause_share["delay"].value == pytest.approx(1 - alive.mean())
        life = np.sort(arrays["life_years"][index])[(instances - 1) // 2]
        assert case.median_life_years.value == (life if life < 10 else math.inf)
        life = np.sort(arrays["life_years"][index])[(instances - 1) // 10]
        assert case.b10_life_years.value == (life if life < 10 else math.inf)
    assert str(instances) in printed(*summaries)


def test_the_command_on_a_sweep_that_is_not_finished(tmp_path, command):
    """A folder of shards says what the file would: how far it is, and how it goes on."""
    folder = shard_folder(tmp_path / "r.h5")
    folder.mkdir()
    code, out, said = command("show", "r.h5")
    assert (code, out) == (2, "")
    assert said.startswith("error: r.h5 is not there yet, but its shards are in r.h5.shards: ")
    assert "mcage status" in said
    assert len(said.splitlines()) == 1
    fake_campaign.write_shards(folder, fake_campaign.CAMPAIGN, range(5))
    _, _, said = command("show", "r.h5")
    assert said.splitlines()[1:] == ["mcage sweep --engine numba r.h5.shards --out r.h5"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "r.h5"
    return run_campaign(Study(fake_campaign.CAMPAIGN, fake_campaign.compute), out, 50)


@pytest.fixture(scope="module")
def arrays():
    return fake_campaign.compute(0, fake_campaign.CAMPAIGN.instances)


def shown(*arguments):
    return invoke("show", *arguments)


from_json = partial(command_line.from_json, "show")


def test_shifts_at_equal_age_are_those_of_the_last_epoch_that_both_end(path, arrays):
    result = from_json(path, "--compare", "rrcd turbo", "rrcd dvfs")
    line = result["lines"]["max_dvth_t0_mv_at_equal_age"]
    differences = []
    for die in range(100):
        whole = int(arrays["life_years"][1:, die].min() // 2)  # epochs of two years
        if whole:
            first, second = arrays["epoch_max_dvth_mv"][1:, die, whole - 1, 0]
            differences.append(first - second)
    assert line["dies"] == len(differences) < 100
    assert line["difference"]["value"] == pytest.approx(np.mean(differences))


def test_the_comparison_is_printed(path):
    text = shown(path, "--compare", "rrcd turbo", "rrcd dvfs common 0.8/0.419 V").stdout
    head = ("A: rrcd turbo", "B: rrcd dvfs", "100 instances", "RMST up to the horizon [years]")
    for words in head:
        assert words in text
    for words in ("dVth T1 at equal age [mV]", "A lives", "longer [%]", "sign test"):
        assert words in text
    assert "NaN" not in text
    assert "nan" not in text


def test_causes_add_up_and_end_where_the_table_says(path, arrays):
    cases = from_json(path, "--causes")
    for index, case in enumerate(cases):
        assert case["years"] == [0, 2, 4, 6, 8, 10]
        lives = arrays["life_years"][index]
        for place, age in enumerate(case["years"]):
            dead = ((lives <= age) & (lives < 10)).mean()
            assert case["dead_by"]["delay"][place]["value"] == pytest.approx(dead)
            assert case["alive"][place]["value"] == pytest.approx(1 - dead)
            assert case["alive"][place]["lower"] <= 1 - dead <= case["alive"][place]["upper"]
            assert case["dead_by"]["no home"][place]["value"] == 0


def test_a_cause_that_ends_no_life_of_a_case_is_a_dash():
    def case(label, dead):
        share = [Estimate(0.0, 0.0, 0.1), Estimate(dead, 0.0, 1.0)]
        nobody = [Estimate(0.0, 0.0, 0.1)] * 2
        never = dict.fromkeys(("faulty entry", "no home", "spill limit", "too slow"), nobody)
        causes = {"delay": share} | never
        said = {"years": (0.0, 10.0), "dead_by": causes, "alive": nobody}
        return Summary(said, technique=label, instances=10)

    stream = io.StringIO()
    table = table_of_causes([case("first", 0.5), case("other", 0.0)])
    print_table(table, PlainConsole(file=stream, width=120))
    first, second = stream.getvalue().split("other", 1)
    assert "faulty" not in first
    assert "50 [0, 100]" in first
    assert "–" in second.splitlines()[1]


def test_fits_say_their_verdict(path):
    cases = from_json(path, "--fit")
    assert len(cases) == 3
    for case in cases:
        weibull, lognormal = case["fits"]
        assert (weibull["distribution"], lognormal["distribution"]) == ("weibull", "lognormal")
        assert weibull["verdict"] == "not rejected", "the lives are exponential"
        shape = weibull["parameters"]["shape"]
        assert shape["lower"] < 1 < shape["upper"]
    text = shown(path, "--fit").stdout
    assert "shape" in text
    assert "not rejected at 5 %" in text


def test_failures_are_counted_by_age(path, arrays):
    cases = from_json(path, "--rate-at", 3, "--rate-at", 10, "--where", "technique=rrcd")
    assert [case["label"].split()[0] for case in cases] == ["rrcd", "rrcd"]
    for place, case in enumerate(cases, 1):
        lives = arrays["life_years"][place]
        for rate, age in zip(case["rates"], (3, 10), strict=True):
            dead = ((lives <= age) & (lives < 10)).mean()
            assert rate["failed_ppm"]["value"] == pytest.approx(1e6 * dead)
    text = shown(path, "--rate-at", 3).stdout
    assert "[FIT]" in text
    assert "of a single slice, not of a GPU" in " ".join(text.split())
    for age in (0, 11, -1):
        result = shown(path, "--rate-at", age)
        assert "above 0 and within the horizon of 10 years" in str(result.exception)


def test_lines_are_selected_and_sorted(path):
    def cases(*arguments):
        lines = csv.DictReader(io.StringIO(shown(path, "--csv", *arguments).stdout))
        return [[line["technique"], line["environment"]] for line in lines]

    baseline, turbo, dvfs = ["baseline", "turbo"], ["rrcd", "turbo"], ["rrcd", "dvfs"]
    assert cases() == [baseline, turbo, dvfs]
    assert cases("--where", "technique=rrcd", "--where", "vdd<0.5") == [dvfs]
    assert cases("--sort", "environment") == [dvfs, baseline, turbo]
    assert cases("--sort", "mean_life") == cases("--sort", "rmst_years") != []
    assert cases("--sort=-vdd_volts", "--where", "technique=rrcd") == [turbo, dvfs]
    assert [case["environment"] for case in from_json(path, "--where", "vdd=0.419")] == ["dvfs"]
    refusals = {
        ("--where", "scenario=x"): "values of scenario: common",
        ("--sort", "vdd_volts", "--json"): "leave out --json",
        ("--csv", "--json"): "give one of them",
        ("--causes", "--fit"): "give one of them",
        ("--where", "vdd=1", "--compare", "a", "b"): "--compare names its cases",
        ("--compare", "baseline", "baseline tur"): "two are needed",
    }
    for arguments, words in refusals.items():
        assert words in str(shown(path, *arguments).exception), arguments


def test_pipes_get_all_columns_unless_told_how_wide_they_are(path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "lives end by" in shown(path).stdout.split("─")[0]
    monkeypatch.setenv("COLUMNS", "80")
    narrow = shown(path).stdout
    assert "--wide shows all columns" in " ".join(narrow.split())
    assert max(len(line) for line in narrow.splitlines() if "digest" not in line) <= 80
    assert "lives end by" in shown(path, "--wide").stdout.split("─")[0]


def test_columns_that_no_terminal_has_are_no_width(path, command, monkeypatch):
    def printed(columns, *arguments):
        monkeypatch.setenv("COLUMNS", columns)
        return command(*arguments)

    whole, helped = printed("", "show", path), printed("", "--help")
    assert min(len(whole[1]), len(helped[1])) > 500
    for columns in ("0", "-5", "19", "9" * 5000, "x", "²"):
        assert printed(columns, "show", path) == whole, columns
    assert printed("60", "show", path) != whole
    assert printed("0", "--help") == helped


def test_one_die_is_compared_without_intervals(tmp_path):
    out = run_campaign(fake_campaign.study(instances=1), tmp_path / "r.h5", 5)
    for option in (["--compare", "rrcd t", "base"], ["--causes"], ["--fit"]):
        assert shown(out, *option).exit_code == 0
        from_json(out, *option)


def test_a_case_says_by_what_slices_became_too_slow():
    """Of those that worked: how slow they were when new, and what faults have added since."""
    nan = math.nan
    case = {
        "slowdown_new": np.array([0.01, 0.02, nan, 0.03]),
        "epoch_slowdown": np.array([[0.02, 0.05], [0.04, nan], [nan, nan], [0.03, 0.03]]),
    }
    np.testing.assert_array_equal(last_slowdown(case), [0.05, 0.04, nan, 0.03])
    causes = summary()["end_cause_share"] | {"too slow": Estimate(0.4, 0.3, 0.5)}
    slow = {"when_new": Estimate(0.008, 0, 1), "when_last_in_use": Estimate(0.0512, 0, 1)}
    shown = printed(summary(end_cause_share=causes, too_slow=slow))
    assert "too slow 40 % (0.8 % slower when new, 5.12 % when last in use)" in shown
    assert "when last in use" not in printed(summary(end_cause_share=causes))
