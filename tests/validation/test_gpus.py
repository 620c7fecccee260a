"""The papers on whole GPUs: committed figures, and what mcage computes for the printed values."""

import numpy as np
import pytest
from gpu_cases import gating
from tables import each

from mcage.aging.nbti import SECONDS_PER_YEAR, Transistors
from mcage.engines import select_engine
from mcage.papers.kernel_replays import GPU_PAPERS, MEAN, published_figures
from mcage.papers.table import GPU_METRICS, in_counts, reproduce_gpus, verdict
from mcage.papers.whole_gpus import kernels, mitigation_percent
from mcage.studies.gpu_both.register_files import BothEnd, with_slower_period
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_both.study import Both
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating
from mcage.studies.gpu_gating.workload import row_sum
from mcage.studies.gpu_heterogeneity.structures import benchmarks, nbti_efficiency, printed_means

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


def value(rows, metric, kernel, way=None):
    (row,) = (row for row in rows if (row.figure.metric, row.figure.kernel) == (metric, kernel))
    return next(iter(row.measured.values())).value if way is None else row.measured[way].value


def test_what_is_asked_for_is_computed_or_explained(rows):
    for paper in GPU_PAPERS:
        assert {f.metric for f in published_figures(paper)} >= set(GPU_METRICS[paper])
    assert {row.figure.metric for row in rows if verdict(row) == "no answer"} == {
        *("optimal_sms", "analysis_time", "slowdown", "fastest_sms", "ipc_loss"),
        "nbti_efficiency",
    }
    counted = "57 lines: 36 agree, 2 agree under some readings or times only, 9 do not agree, "
    assert in_counts(rows) == f"{counted}10 cannot be answered."


@each(("name", "active", "mitigation"), CHECK)
def test_mitigation_by_problem_size(rows, name, active, mitigation):
    assert kernels("chen-2014-sizes")[name].sms == active
    assert value(rows, "mitigation", name, "equal times") == pytest.approx(mitigation, abs=0.01)


def test_printed_times_matter_in_print(rows):
    """A shorter launch ages SMs less: by the sixth root of the time."""
    left = 1 - mitigation_percent(4) / 100
    assert value(rows, "mitigation", "PATH 1000", "printed times") == pytest.approx(
        100 * (1 - left * 0.804 ** (1 / 6)), abs=0.05
    )


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


# SM gating beside what Chen et al. print, and beside an independent prototype.

MEDIANS = {
    "default": {"facelift": 17.7, "bhardwaj": 16.1},
    "round-robin": {"facelift": 11.2, "bhardwaj": 4.0},
    "least-shift": {"facelift": 11.5, "bhardwaj": 14.1},
    "most-slack": {"facelift": 6.1, "bhardwaj": 6.8},
    "coolest-first": {"facelift": 12.3, "bhardwaj": 13.7},
}
"""Delay margin needed after ten years, %: 2,000 dies of a prototype that shares no code."""


def margins_of(gpus, **fields):
    """Delay margin needed after ten years, %, by policy."""
    fields.setdefault("policies", list(MEDIANS))
    fields.setdefault("sensors", {}).setdefault("interval_days", 7.0)
    study = gating(**fields)
    population = study.population(np.arange(gpus))
    return {
        name: 100 * study.lives.run(chosen, population).margin_needed[:, -1]
        for name, chosen in study.policies.items()
    }


@pytest.fixture(scope="module")
def margins():
    return margins_of(500)


@each("name", MEDIANS)
def test_the_median_margin_is_that_of_the_prototype(margins, name):
    assert np.median(margins[name]) == pytest.approx(MEDIANS[name]["facelift"], abs=0.3)


@pytest.mark.slow
def test_medians_under_bhardwaj_are_those_of_the_prototype():
    for name, values in margins_of(150, aging={"model": "bhardwaj"}).items():
        assert np.median(values) == pytest.approx(MEDIANS[name]["bhardwaj"], abs=0.3), name


def test_least_shift_loses_to_a_counter_on_dies_that_differ(margins):
    lost = margins["least-shift"] - margins["round-robin"]
    assert lost.mean() == pytest.approx(0.31, abs=0.05)


@pytest.mark.slow
def test_noise_costs_most_slack_and_helps_least_shift(margins):
    noisy = margins_of(500, policies=["most-slack", "least-shift"], sensors={"noise_mv": 5.0})
    assert np.median(noisy["most-slack"]) - np.median(margins["most-slack"]) == pytest.approx(
        0.9, abs=0.3
    )
    assert (noisy["least-shift"] - margins["least-shift"]).mean() < 0


# Heterogeneous structures beside what Zhang et al. print.


def test_filter_rates_are_those_of_table_4():
    rates = np.array([benchmark.filter_rate for benchmark in benchmarks().values()])
    assert (len(rates), rates.mean()) == (10, pytest.approx(0.9138, abs=1e-4))
    assert np.median(rates) == pytest.approx(0.9400, abs=1e-4)


def test_what_the_printed_efficiencies_ask_for():
    """Aging part by the printed means, and the D^3 P, or P, that is left to be explained."""
    baseline = nbti_efficiency(1, 0.141, 1)
    proposal, copies = (nbti_efficiency(1, delay, 1) / baseline for delay in (0.028, 0.0755))
    assert proposal == pytest.approx(0.731, abs=5e-4)
    assert 0.891 / proposal == pytest.approx(1.218, abs=1e-3)
    assert copies == pytest.approx(0.8375, abs=5e-4)
    assert 1.011 / copies == pytest.approx(1.207, abs=1e-3)


# Gating and a protection technique together: less than the product of their savings.

NOMINAL = {
    "slices_per_sm": 1,
    "gating": {
        "variation": {"sigma_systematic_mv": 0.0},
        "temperature": {"model": "fixed"},
    },
    "sweep": {"workload": {"kernels": ["MatrixTranspose"], "periods": 1}},
}
TABLE_2 = 0.7991
"""Mean of the SMs that Table 2 of Chen et al. gives to its kernels, over 16."""


def study(engine="numba", **fields):
    given = {key: fields.pop(key, {}) for key in ("gating", "sweep")}
    merged = {key: NOMINAL[key] | given[key] for key in given}
    return Both(BothSpec.from_mapping(NOMINAL | merged | fields), *select_engine(engine))


def test_both_levels_by_replay():
    """The same GPU by simulation: each level, and their product as the duty of the worst cell."""
    both = study(instances=1)
    arrays = both.compute(0, 1)
    share = arrays["mean_share"][:, 0]
    assert share == pytest.approx([1.0, TABLE_2], abs=1e-4)
    duty = arrays["longest_duty"][..., 0]
    assert duty[1] == pytest.approx(share[1] * duty[0], rel=1e-12)
    model = both.plan.nbti
    rates = model.rates(both.gating.lives.environment)
    seconds = 10 * SECONDS_PER_YEAR
    shift = model.dvth_of(model.advance(model.initial_state(duty.shape), rates, duty, seconds))
    assert arrays["max_dvth_mv"][..., 0, -1] == pytest.approx(1e3 * shift, rel=1e-7)
    left = shift / shift[0, 0]
    assert left[1, 1] > left[1, 0] * left[0, 1] * 1.1  # sub-multiplicative
    assert left[1, 1] < min(left[1, 0], left[0, 1])
    # Logic is under stress as long as its SM is on.
    always = model.dvth_of(model.advance(model.initial_state((2,)), rates, share, seconds))
    assert arrays["logic_dvth_mv"][:, 0, -1] == pytest.approx(1e3 * always, rel=1e-7)


def test_a_gpu_whose_registers_cannot_be_used_is_dead_on_arrival():
    """At a low voltage, all slices have faulty cells, and the baseline cannot move a register."""
    both = study(instances=1, sweep={"techniques": ["baseline"], "environments": ["dvfs"]})
    arrays = both.compute(0, 1)
    assert (arrays["life_years"] == 0).all()
    assert (arrays["end_cause"] == BothEnd.FAULTY_ENTRY).all()
    assert np.isnan(arrays["cell_margin"]).all()
    assert (arrays["logic_life_years"] > 0).all()


@pytest.mark.parametrize("name", ["round-robin", "least-shift", "most-slack", "fixed"])
def test_mean_shares_tell_the_stress_of_a_life(name):
    """What register files are given of an SM, its mean share and temperature, ages it as far."""
    spec = GatingSpec.from_mapping({"policies": [name], "sensors": {"interval_days": 30.0}})
    gating = Gating(spec)
    population = gating.population(np.arange(8))
    lives = gating.lives.run(gating.policies[name], population)
    history = lives.of_sms
    model, environment = gating.nbti, gating.lives.environment
    rates = model.rates(environment, Transistors(population.vt0_volts, history.kelvin))
    seconds = 10 * SECONDS_PER_YEAR
    new = model.initial_state(history.kelvin.shape)
    shift = model.dvth_of(model.advance(new, rates, history.on_share, seconds))
    assert shift.max(axis=0) == pytest.approx(lives.max_dvth_volts[:, -1], rel=2e-3)
    assert row_sum(history.on_share) / 16 == pytest.approx(TABLE_2, abs=1e-4)


def test_a_slow_period_reaches_the_cells():
    """Under `bhardwaj`, a policy that changes SMs weekly gives cells a period of a week."""
    sensors = {"interval_days": 7.0, "reassign": "reading"}
    gating = {"policies": ["round-robin"], "aging": {"model": "bhardwaj"}, "sensors": sensors}
    kernels = {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}
    sweep = {"techniques": ["baseline"], "workload": kernels, "life": {"epochs": 2}}
    both = study(instances=1, gating=gating, sweep=sweep)
    arrays = both.compute(0, 1)
    model = with_slower_period(both.plan.nbti, 7 * 86_400.0)
    rates = model.rates(both.gating.lives.environment)
    duty = arrays["longest_duty"][0, 0]
    new = model.initial_state(duty.shape)
    shift = model.dvth_of(model.advance(new, rates, duty, 10 * SECONDS_PER_YEAR))
    assert arrays["max_dvth_mv"][0, 0, :, -1] == pytest.approx(1e3 * shift, rel=1e-6)
