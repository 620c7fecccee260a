"""The papers on whole GPUs: committed figures, and what mcage computes for the printed values."""

import csv
import json

import pytest
from reproduce_gpus import LINES, RESULTS, TABLE, with_tables

from mcage.gpu.gating.policies import policy
from mcage.gpu.heterogeneity.benchmarks import benchmarks, printed_means
from mcage.studies.reproduction.gpu.by_age import (
    LAUNCHES,
    LONG_TERM,
    launch_by_launch,
)
from mcage.studies.reproduction.gpu.chen_2014 import history, kernels, mitigation_percent
from mcage.studies.reproduction.gpu.plots import PLOTS, ages
from mcage.studies.reproduction.published import GPU_PAPERS, MEAN, published_figures
from mcage.studies.reproduction.table import (
    GPU_METRICS,
    as_json,
    in_counts,
    reproduce_gpus,
    verdict,
)

CHECK = (
    ("PATH 1000", 4, 53.58),
    ("VAD 5000", 5, 53.58),
    ("PATH 2000", 7, 53.58),
    ("VAD 10000", 7, 53.58),
    ("VAD 30000", 9, 47.90),
    ("VAD 50000", 9, 47.90),
    ("PATH 3000", 10, 47.90),
    ("PATH 4000", 12, 44.26),
    ("PATH 5000", 15, 27.11),
)
"""Active SMs, and the mitigation in % that an independent program computes."""


@pytest.fixture(scope="module")
def rows():
    return reproduce_gpus()


def value(rows, metric, kernel, way=None, **others):
    (row,) = (
        row
        for row in rows
        if (row.figure.metric, row.figure.kernel) == (metric, kernel)
        and all(getattr(row.figure, key) == others[key] for key in others)
    )
    return next(iter(row.measured.values())).value if way is None else row.measured[way].value


def same(now, then):
    if isinstance(then, dict):
        assert list(now) == list(then)
        for key in then:
            same(now[key], then[key])
    elif isinstance(then, list):
        for pair in zip(now, then, strict=True):
            same(*pair)
    elif isinstance(then, float):
        assert now == pytest.approx(then, rel=1e-9, abs=1e-9)
    else:
        assert now == then


def test_the_table_is_what_mcage_computes(rows):
    same(as_json(rows), json.loads((RESULTS / TABLE).read_text(encoding="utf-8")))


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_a_figure_shows_what_mcage_computes(plot):
    with (RESULTS / f"{plot.name}.csv").open(encoding="utf-8", newline="") as file:
        then = list(csv.DictReader(file))
    for now, old in zip(plot.table(), then, strict=True):
        assert list(now) == list(old)
        for key, number in now.items():
            if isinstance(number, float):
                assert number == pytest.approx(float(old[key]), rel=1e-5, abs=1e-9)
            else:
                assert ("" if number is None else str(number)) == old[key]
    assert (RESULTS / f"{plot.name}.png").is_file()


def test_the_page_has_the_tables(rows):
    page = LINES.read_text(encoding="utf-8")
    assert page == with_tables(page, rows, ages())


def test_what_is_asked_for_is_computed_or_explained(rows):
    for paper in GPU_PAPERS:
        assert {f.metric for f in published_figures(paper)} >= set(GPU_METRICS[paper])
    assert [row.figure for row in rows if not row.agrees_always and not row.why] == []
    assert {row.figure.metric for row in rows if verdict(row) == "no answer"} == {
        *("optimal_sms", "analysis_time", "slowdown", "fastest_sms", "ipc_loss"),
        "nbti_efficiency",
    }
    counted = "57 lines: 36 agree, 2 agree under some readings or times only, 9 do not agree, "
    assert in_counts(rows) == f"{counted}10 cannot be answered."


def test_lu(rows):
    assert value(rows, "largest_dvth", "LU", technique="default") == pytest.approx(6.780, abs=1e-3)
    assert value(rows, "largest_dvth", "LU", technique="least-shift") == pytest.approx(
        3.779, abs=1e-3
    )


def test_mean_and_range_of_fourteen_kernels(rows):
    assert value(rows, "mitigation", MEAN) == pytest.approx(36.3, abs=0.05)
    assert value(rows, "mitigation", "smallest") == pytest.approx(27.1, abs=0.05)
    assert value(rows, "mitigation", "largest") == pytest.approx(53.6, abs=0.05)
    assert value(rows, "sm_power_saving", MEAN) == pytest.approx(20.1, abs=0.05)


@pytest.mark.parametrize(("name", "active", "mitigation"), CHECK)
def test_mitigation_by_problem_size(rows, name, active, mitigation):
    assert kernels("chen-2014-sizes")[name].sms == active
    assert value(rows, "mitigation", name, "equal times") == pytest.approx(mitigation, abs=0.01)


def test_printed_times_matter_in_print(rows):
    """A shorter launch ages SMs less: by the sixth root of the time."""
    left = 1 - mitigation_percent(4) / 100
    assert value(rows, "mitigation", "PATH 1000", "printed times") == pytest.approx(
        100 * (1 - left * 0.804 ** (1 / 6)), abs=0.05
    )


@pytest.mark.parametrize(
    ("active", "by_rounds"),
    [(15, (27.1, 50.3, 65.7)), (12, (44.3, 62.0, 73.7)), (8, (53.6, 68.4, 78.1))],
)
def test_the_same_rule_saves_more_after_more_rounds(active, by_rounds):
    computed = 100 * launch_by_launch([active], (100, 1_000, 10_000))[:, 0]
    assert computed == pytest.approx(by_rounds, abs=0.05)


def test_a_counter_does_what_the_rule_of_the_paper_does():
    for active in (15, 11, 7):
        sequence = history(active, 150)
        gated = sequence.dvth_volts(policy("least-shift")).max()
        always = sequence.dvth_volts(policy("default")).max()
        (turns,) = launch_by_launch([active], (150,))[0]
        assert turns == pytest.approx(1 - gated / always, rel=1e-9)


def test_ages_and_models():
    by_place = {(row["model"], row["age"]): row for row in ages()}
    launches = by_place[LAUNCHES, "36 s"]
    assert [launches[f"{n} SMs"] for n in (15, 12, 8)] == pytest.approx(
        [74.9, 80.8, 84.0], abs=0.05
    )
    for age in ("36 ms", "10 years"):
        numbers = [by_place["facelift", age][f"{n} SMs"] for n in (15, 12, 8)]
        assert numbers == pytest.approx([16.2, 34.5, 51.1], abs=0.05)
    # The long-term form: shifts that are 0.4 % too large after 100 rounds, 28 % after 100,000.
    for age, excess in (("36 ms", 0.004), ("36 s", 0.28)):
        shifts = [100 - by_place[model, age]["15 SMs"] for model in (LONG_TERM, LAUNCHES)]
        assert shifts[0] / shifts[1] - 1 == pytest.approx(excess, abs=0.01)


def test_what_ships_of_the_benchmarks_is_what_is_compared():
    """Printed results stand in two files: with the benchmarks, and with all printed values."""
    printed = {
        (figure.metric, figure.scenario, figure.kernel): figure.low
        for figure in published_figures("004")
        if figure.technique == "two-stage+planar-tags"
    }
    shipped = {name: benchmark.printed for name, benchmark in benchmarks().items()}
    shipped[MEAN] = printed_means()
    for name, results in shipped.items():
        for quantity, number in results.items():
            metric, scenario, factor = {
                "two_stage_delay": ("delay_increase", "scheduler", 100),
                "l2_delay": ("delay_increase", "L2", 100),
                "temperature_drop": ("temperature_drop", "scheduler", 1),
            }[quantity]
            assert printed[metric, scenario, name] == pytest.approx(factor * number)
