"""Do results say at which voltages, of which slices and against what they are?"""

import re

import numpy as np
import pytest
from environment_cases import points
from places import run_python
from sweep_cases import small_spec, small_sweep
from tables import each

from mcage import run_sweep
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.report.cases import named_cases
from mcage.report.comparison import compare
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import mean
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.presentation import SweepPresentation

SHOWN = SweepPresentation(SweepHeader)

MIXED = {
    "techniques": ["rrcd"],
    "environments": ["turbo", "dvfs", "custom"],
    "vdd_volts": [0.45, 0.6],
    "operating_points": {"custom": points((0.5, 0.3), (0.9, 0.5), (0.7,))},
}


# ---- voltages ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    return small_sweep(**MIXED)


def test_what_else_is_swept_changes_no_number(mixed):
    """Each case to the last bit as in a sweep without the others."""
    arrays = mixed.compute(0, 5)
    for place, case in enumerate(mixed.header.cases):
        volts = [case["vdd_volts"]] if case["environment"] == "dvfs" else []
        single = {"environments": [case["environment"]], "vdd_volts": volts}
        alone = small_sweep(**(MIXED | single)).compute(0, 5)
        for name, array in arrays.items():
            if len(array) == 4:
                width = alone[name].shape[-1] if name == "operating_point_share" else None
                assert np.array_equal(array[place][..., :width], alone[name][0], equal_nan=True)


@each(
    ("asked", "voltages"),
    [
        (
            {"vdd_volts": [0.419, 0.4190000001]},
            ["turbo common 1 V", "dvfs common 0.8/0.419 V", "dvfs common 0.8/0.4190000001 V"],
        ),
        # The lowest and highest voltage are the same, the shares of the time are not.
        (
            {
                "environments": ["custom"],
                "operating_points": {
                    "custom": points((0.9, 0.3), ("scenario", 0.5), (0.5, 0.2)),
                },
                "vdd_volts": [0.9, 0.5],
            },
            ["custom common 0.9/0.9/0.5 V", "custom common 0.9/0.5/0.5 V"],
        ),
    ],
)
def test_voltages_that_differ_little_or_in_their_order_are_different_cases(asked, voltages):
    sweep = small_sweep(techniques=["rrcd"], **asked)
    assert [case["case"] for case in sweep.header.cases] == [f"rrcd {of}" for of in voltages]


def test_file_table_and_figure_say_the_voltages(mixed, tmp_path, command):
    path = run_campaign(Study(mixed.header, mixed.compute), tmp_path / "r.h5", 20)
    with open_results(path) as results:
        assert results["vdd_volts"].values.tolist() == [1.0, 0.45, 0.5, 0.6]
        assert results["highest_vdd_volts"].values.tolist() == [1.0, 0.8, 0.9, 0.8]
        conditions = [case.conditions for case in named_cases(results)]
    assert conditions == [
        "turbo common 1 V",
        "dvfs common 0.8/0.45 V",
        "custom common 0.5/0.9/0.7 V",
        "dvfs common 0.8/0.6 V",
    ]
    assert [case["case"] for case in mixed.header.cases] == [f"rrcd {of}" for of in conditions]
    code, shown, _ = command("show", path)
    assert code == 0
    rows = [re.split("  +", line)[1:3] for line in shown.splitlines() if line.startswith("rrcd ")]
    assert [" common ".join(row) for row in rows] == conditions
    assert "0.419" not in shown


# ---- slices ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Some slices are dead on arrival under RRCD, all under the baseline."""
    spec = small_spec(
        instances=40,
        environments=["turbo", "dvfs"],
        workload={"kernels": ["MatrixTranspose", "BlackScholes"], "periods": 3, "generations": 2},
        registers={"overflow": "end"},
    )
    return run_sweep(spec, tmp_path_factory.mktemp("results") / "results.h5")


@pytest.fixture(scope="module")
def results(path):
    with open_results(path) as opened:
        yield opened.load()


def test_a_row_is_of_the_slices_that_worked(path, results):
    summaries = SHOWN.summarize_file(path)
    for summary in summaries:
        case = results.sel(case=summary.label)
        worked = case["life_years"].values > 0
        assert (summary.worked, summary.instances) == (worked.sum(), 40)
        assert summary.dead_on_arrival.value == (~worked).mean()
        shifts = case["max_dvth_mv"].values
        assert np.isnan(shifts[~worked]).all()
        assert summary.max_dvth_t0_mv == mean(shifts[worked, 0])
        for name in ("spill_rate", "slowdown", "energy_saving", "energy_saving_nominal"):
            estimate = getattr(summary, name)
            assert repr(estimate) == repr(mean(case[name].values[worked])), name
    of_rrcd = next(row for row in summaries if row.label == "rrcd dvfs common 0.8/0.419 V")
    assert 0 < of_rrcd.worked < 40
    of_baseline = next(row for row in summaries if row.label.startswith("baseline dvfs"))
    assert of_baseline.worked == 0
    assert np.isnan(of_baseline.max_dvth_t0_mv.value), "no shift, not one of 0 mV"


def test_the_same_slices_decide_when_a_sweep_stops(path, results):
    quantity = read_header(path).quantities["max_dvth"]
    sample = {name: results[name].values for name in quantity.variables}
    precision = quantity.precisions(sample)
    for summary in SHOWN.summarize_file(path):
        for transistor in ("T0", "T1"):
            estimate = summary[f"max_dvth_{transistor.lower()}_mv"]
            assert repr(precision[f"{summary.label} {transistor}"].estimate) == repr(estimate)


def test_two_cases_are_compared_on_dies_that_worked_in_both(results):
    comparison = compare(results, "rrcd dvfs", "rrcd+rc+rar dvfs")
    pair = [results.sel(case=f"{name} dvfs common 0.8/0.419 V") for name in ("rrcd", "rrcd+rc+rar")]
    dies = int(np.all([case["life_years"] > 0 for case in pair], axis=0).sum())
    assert 0 < dies < 40
    means = comparison.means
    assert means["rmst_years"].dies == 40
    for key in ("max_dvth_t0_mv", "spill_rate", "energy_saving_nominal"):
        assert means[key].dies == dies
    first, second = (case["energy_saving_nominal"] for case in pair)
    difference = means["energy_saving_nominal"].difference.value
    assert difference == pytest.approx(float((first - second).mean()))


def test_the_example_of_the_page_says_what_the_table_says(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    names = run_python("docs/results-format.md")
    summaries = {summary.label: summary for summary in SHOWN.summarize_file(path)}
    of_dvfs = [row for row in summaries.values() if row.environment == "dvfs"]
    nominal = summaries["rrcd turbo common 1 V"]
    assert float(names["median_life"]) == pytest.approx(nominal.median_life_years.value)
    assert names["shift"].values == pytest.approx(
        [row.max_dvth_t0_mv.value for row in of_dvfs], nan_ok=True
    )
    assert names["dead_on_arrival"].values == pytest.approx(
        [row.dead_on_arrival.value for row in of_dvfs]
    )


# ---- energy ------------------------------------------------------------------------------------


def test_energy_saved_over_a_slice_that_stays_at_nominal_vdd(path, results):
    worked = results["life_years"].values > 0
    spent = results["power_mw"] * (1 + results["slowdown"])
    expected = 1 - spent / results["conventional_power_mw"]
    saved = results["energy_saving_nominal"].values
    assert saved[worked] == pytest.approx(expected.values[worked], rel=1e-12)
    assert np.isnan(saved[~worked]).all()
    for summary in SHOWN.summarize_file(path):
        assert summary.nominal_vdd_volts == 0.8
        if not summary.worked:
            continue
        more = summary.energy_saving_nominal.value - summary.energy_saving.value
        assert (more > 0) == (summary.environment == "dvfs"), "0.8 V is below 1.0 V of nominal"


def test_the_table_names_the_nominal_vdd_of_its_technology(tmp_path):
    spec = small_spec(
        instances=1,
        techniques=["mcage.costs:CONVENTIONAL"],
        environments=["turbo"],
        costs={"technology": "32nm"},
    )
    (summary,) = SHOWN.summarize_file(run_sweep(spec, tmp_path / "r.h5"))
    assert summary.nominal_vdd_volts == 1.0
    assert summary.energy_saving_nominal.value == pytest.approx(0, abs=1e-12)
