"""Is a sweep a study like any other: do shards travel, and do files follow the variables?"""

import threading
import tomllib
from unittest import mock

import numpy as np
import pytest
from fault_cases import becomes_faulty_at
from life_cases import YEAR, cell, lived, random_values, steady_trace, tail_of
from sweep_cases import small_sweep
from tables import each

from mcage.aging.environment import environment
from mcage.campaign.run import run_campaign
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.stress import Turns
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.protection.policy import protection
from mcage.report.cases import names_in
from mcage.results.reader import open_results, read_header
from mcage.soft_errors.ace import ace_under
from mcage.soft_errors.rates import soft_errors, upsets
from mcage.spec import SweepSpec
from mcage.studies.sweep import plan as plan_module
from mcage.studies.sweep import study as study_module
from mcage.studies.sweep.batch import compute_batch
from mcage.studies.sweep.soft_errors import SoftErrorMeter, over_life
from mcage.techniques import TECHNIQUES

SMALL = {
    "techniques": ["baseline"],
    "environments": ["turbo"],
    "instances": 3,
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"epochs": 2},
}


@pytest.fixture(scope="module")
def sweep():
    return small_sweep("numpy", **SMALL)


def test_a_sweep_says_that_its_energies_do_not_lie_on_one_curve():
    low = {"techniques": ["baseline"], "environments": ["dvfs"]}
    rows = low | {"costs": {"vdd_scaling": "rows"}}
    (mixed,) = small_sweep(**rows, vdd_volts=[0.419, 0.44]).header.caveats
    assert mixed.startswith("energy at 0.419 V is that of printed constants, and at 0.44 V")
    assert small_sweep(**low, vdd_volts=[0.419, 0.44]).header.caveats == (), "they do lie on one"


def test_a_file_knows_what_techniques_of_a_user_call_themselves(tmp_path, monkeypatch):
    (tmp_path / "names_of_users.py").write_text(
        "from dataclasses import replace\n"
        "from mcage.techniques import TECHNIQUES\n"
        'ROTATES, ARGO, SAME, ALSO = (replace(TECHNIQUES["rar"], name=name)\n'
        '    for name in ("turns", "argo", "same", "same"))\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"names_of_users:{name}" for name in ("ROTATES", "ARGO", "SAME", "ALSO")]
    sweep = small_sweep("numpy", **SMALL | {"techniques": ["baseline", *names]})
    # What might be taken for another technique is called as in the spec.
    assert sweep.header.technique_names == ((names[0], "turns"),)
    path = run_campaign(sweep.study, tmp_path / "r.h5")
    assert read_header(path).technique_names == sweep.header.technique_names
    with open_results(path) as results:
        assert names_in(results) == {names[0]: "turns"}
        assert results["technique"].values.tolist() == ["baseline", *names]


# Are all threads busy, whatever the size of shards and batches, and are results the same?


def sweep_on(monkeypatch, cores, largest=NumpyEngine.batch, **keys):
    """A sweep on a machine with so many cores, by an engine with batches of at most a size."""
    monkeypatch.setattr(plan_module, "usable_cores", lambda: cores)
    monkeypatch.setattr(NumpyEngine, "batch", largest)
    return small_sweep("numpy", **SMALL | {"instances": 60} | keys)


@each(
    ("cores", "largest", "instances", "size"),
    [
        (2, 48, 10_000, 48),
        (16, 48, 10_000, 45),
        (16, 1024, 10_000, 209),
        (16, 1024, 1_000_000, 1009),
        (64, 1024, 10_000, 53),
        (16, 48, 100, 16),
    ],
)
def test_batches_are_chosen_by_work(monkeypatch, cores, largest, instances, size):
    sweep = sweep_on(monkeypatch, cores, largest, instances=instances)
    assert (sweep.study.batch, sweep.study.threads) == (size, cores)
    shard = min(256, instances)
    sizes = []
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "compute_batch", lambda _, part: sizes.append(len(part)))
        patch.setattr(study_module, "joined", lambda variables, parts: list(parts))
        sweep.compute(0, shard)
    assert max(sizes) <= size
    assert len(sizes) == -(-shard // size)


@each(
    "host_computes",
    [
        {"aging": {"model": "bhardwaj"}},
        {"aging": {"pbti": 0.5}},
        {"aging": {"vmin_model": "margins"}},
        {"aging": {"nbti_spread_mv": 1.0}},
        {"life": {"epochs": 2, "temperature_swing_kelvin": "uniform(0, 10)"}},
        {"techniques": ["disable"]},
    ],
)
def test_all_cores_get_batches_where_the_host_computes_for_long(monkeypatch, host_computes):
    """Its loops over all transistors do not hold Python's lock."""
    monkeypatch.setattr(NumpyEngine, "busy_threads", 2)
    assert sweep_on(monkeypatch, 16, **host_computes).study.threads == 16


@pytest.mark.parametrize("shard_size", [pytest.param(2, marks=pytest.mark.slow), 16])
def test_all_threads_are_busy_whatever_the_size_of_shards(monkeypatch, tmp_path, shard_size):
    """Batches of different shards are computed at the same time: each waits for three others."""
    threads = 4
    monkeypatch.setattr(study_module, "batch_by_work", lambda plan: 15)
    sweep = sweep_on(monkeypatch, threads)
    met = threading.Event()
    together = threading.Barrier(threads, action=met.set)  # before any of them goes on

    def meeting(plan, instances):
        if not met.is_set():  # of the last batches there may be fewer
            together.wait(timeout=20)
        return compute_batch(plan, instances)

    monkeypatch.setattr(study_module, "compute_batch", meeting)
    run_campaign(sweep.study, tmp_path / "by_work.h5", shard_size)
    alone = sweep_on(monkeypatch, 1)
    monkeypatch.setattr(study_module, "compute_batch", compute_batch)
    run_campaign(alone.study, tmp_path / "alone.h5")
    with (
        open_results(tmp_path / "by_work.h5") as left,
        open_results(tmp_path / "alone.h5") as right,
    ):
        assert left.equals(right)


def test_an_engine_with_memory_for_fewer_threads_is_used_by_fewer(monkeypatch):
    monkeypatch.setattr(NumpyEngine, "threads", 3)
    assert sweep_on(monkeypatch, 16).plan.threads == 3


# The Vdd at which a fault model must know the faults of a case: the lowest of its points.

POINTS = {"low": [{"vdd_volts": 0.8, "share": 0.5}, {"vdd_volts": 0.3}]}
HIGH_MU = {"mu_volts": 0.5}
"""Faults of scenario common: at its own 0.419 V all entries are faulty, at 1.0 V none."""


def refusal_of(**fields):
    with pytest.raises(UserError) as refused:
        small_sweep(techniques=["rrcd"], **fields)
    return str(refused.value)


def test_a_user_defined_point_lies_too_low_for_the_fault_model():
    error = refusal_of(environments=["low"], operating_points=POINTS)
    assert error.startswith("operating_points.low: vdd = 0.3 V: every entry of a slice would be")
    drawn = {"columns": {"faults.mu_volts": [0.14, 0.146]}}
    error = refusal_of(environments=["low"], operating_points=POINTS, draws=drawn)
    assert error.startswith("draws.columns: row 1: operating_points.low: vdd = 0.3 V")


@pytest.mark.parametrize(
    "fields", [{"faults": HIGH_MU}, {"draws": {"columns": {"faults.mu_volts": [0.5]}}}]
)
def test_a_voltage_that_no_point_has_refuses_nothing(fields):
    sweep = small_sweep(techniques=["rrcd"], environments=["turbo"], instances=2, **fields)
    assert np.nanmax(sweep.compute(0, 2)["epoch_faulty_entries"]) == 0
    assert "vdd = 0.419 V: every entry" in refusal_of(environments=["dvfs"], **fields)


# Sweeps that tell apart by which margin cells fail.

MARGINS = {"vmin_model": "margins", "pbti": 0.5}
CASE = {
    "environments": ["dvfs"],
    "techniques": ["rrcd"],
    "instances": 3,
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
}


@pytest.mark.parametrize(
    ("fields", "margin", "least"),
    [
        ({"aging": MARGINS | {"nbti_spread_mv": 0.5}}, "read", 26),
        pytest.param(
            # 8T cells with a clock that leaves as many of them too slow as 6T cells are faulty.
            {
                "faults": {"cell": "8t"},
                "aging": {"vmin_model": "margins-high", "pbti": 1.0, "nbti_spread_mv": 0.5},
            },
            "access",
            16,
            marks=pytest.mark.slow,
        ),
        # Without PBTI no transistor of a read port ages.
        ({"faults": {"cell": "8t"}, "aging": {"vmin_model": "margins-high"}}, "access", 0),
    ],
    ids=["6t", "8t", "8t without PBTI"],
)
def test_new_faults_are_counted_by_margin_whatever_the_engine(fields, margin, least):
    """No cell ages by its write margin, and none is limited by holding."""
    one, other = (small_sweep(engine, **CASE, **fields) for engine in ("numpy", "numba"))
    assert one.header.margins == (margin, "write", "hold")
    arrays, reference = other.compute(0, 3), one.compute(0, 3)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, reference[name], err_msg=name)
    by_margin = arrays["new_faults"].sum(axis=(0, 1))
    assert by_margin[0] >= least
    assert by_margin.any() == (least > 0)
    assert not by_margin[1:].any()
    assert any("8T cells" in caveat for caveat in one.header.caveats) == (margin == "access")


def test_results_name_the_margins(tmp_path):
    sweep = small_sweep(**CASE, aging=MARGINS)
    out = run_campaign(sweep.study, tmp_path / "r.h5", 3)
    assert read_header(out) == sweep.header
    with open_results(out) as results:
        assert results["margin"].values.tolist() == ["read", "write", "hold"]
        assert results["new_faults"].dims == ("case", "instance", "margin")
    assert small_sweep(**CASE).header.margins == ()


def test_the_cell_is_part_of_a_spec_where_it_is_given():
    usual, eight = small_sweep(**CASE), small_sweep(**CASE, faults={"cell": "8t"})
    assert "cell" not in usual.spec.to_toml()
    assert eight.spec.aging.vmin_model == "margins"
    assert eight.spec == SweepSpec.from_mapping(tomllib.loads(eight.spec.to_toml()))
    six = small_sweep(**CASE, faults={"cell": "6t"})
    for name, array in usual.compute(0, 3).items():
        np.testing.assert_array_equal(array, six.compute(0, 3)[name], err_msg=name)
    # Keys of the law of Vmin hold for both cells; of rows of constants, too.
    given = {"mu_volts": 0.2, "sigma_systematic_volts": 0.01, "sigma_random_volts": 0.05}
    for case in small_sweep(**CASE, faults={"cell": "8t"} | given).plan.cases:
        assert {key: getattr(case.faults.scenario, key) for key in given} == given
    drawn = {"columns": {"faults.mu_volts": [0.21, 0.22]}}
    (case,) = small_sweep(**CASE, faults={"cell": "8t"}, draws=drawn).plan.cases
    assert [model.scenario.mu_volts for model in case.faults_of_rows] == [0.21, 0.22]
    assert {model.scenario.sigma_random_volts for model in case.faults_of_rows} == {
        eight.plan.cases[0].faults.scenario.sigma_random_volts
    }


@each(
    ("fields", "message"),
    [
        ({"aging": {"vmin_model": "larger"}}, "aging.vmin_model = 'larger' is a rule for 6T cells"),
        ({"faults": {"cell": "8t", "mode": "table"}}, "follows a published table, which is of 6T"),
        (
            {"environments": ["dvfs"], "faults": {"mode": "table"}, "aging": MARGINS},
            r"aging\.pbti = 0\.5: faults of mode 'table' do not grow",
        ),
    ],
)
def test_what_8t_cells_and_tables_of_faults_do_not_have(fields, message):
    fields = CASE | {"environments": ["undervolted"], "faults": {"cell": "8t"}} | fields

    def asked():
        SweepSpec(**fields).refuse_unused()
        small_sweep(**fields)

    with pytest.raises(UserError, match=message):
        asked()


# Soft errors of lives: by hand from words at risk, kernels, voltages and idle time.

ROWS = random_values(3)
WORDS = 256 * 64


def meter(name, avf, **fields):
    given = {"geometry": GCN, "environment": environment("turbo", 0.419)} | fields
    return SoftErrorMeter(np.array(avf), protection=protection(name), **given)


def single(lives):
    """The only kernel, in ten epochs."""
    return Turns(np.zeros((lives, 10, 1), dtype=np.int64), np.ones((lives, 10, 1)))


def test_rates_by_hand():
    """One word at risk when new, two from the fourth year on; two kernels, a quarter idle."""
    tail = tail_of({cell(0, 3): np.inf, cell(1, 40): becomes_faulty_at(3.5 * YEAR)})
    life = lived([steady_trace(ROWS)], "baseline", tail, protection="secded32")
    turns = Turns(np.tile([0, 1], (1, 10, 1)), np.tile([0.25, 0.75], (1, 10, 1)))
    avf = 0.25 * 0.4 + 0.75 * 0.2
    rates = meter("secded32", [0.4, 0.2]).read(life, turns, np.array(0.75))
    assert rates.shape == (3, 1, 10)
    given = protection("secded32")
    for epoch, spent in ((0, 1), (2, 1), (4, 2), (9, 2)):
        counts = [WORDS - spent, spent, 0]
        of = soft_errors(counts, 0.75 * avf, upsets("28nm", 1.0), given.code, 1)
        np.testing.assert_allclose(rates[:, 0, epoch], [of.corrected, of.due, of.sdc])
    assert (rates[1, 0, 4] - rates[1, 0, 0]) > 0
    mean = over_life(rates, life)
    np.testing.assert_allclose(mean, rates.mean(axis=2))


def test_without_a_code_every_error_is_silent_and_follows_the_rate():
    life = lived([steady_trace(ROWS)], "baseline", tail_of({}), protection="ecp1")
    high, low = (
        meter("ecp1", [0.5], fit_per_mbit=100.0, environment=environment(name, 0.419)).read(
            life, single(lives=1), np.array(1.0)
        )
        for name in ("turbo", "undervolted")
    )
    assert not high[:2].any()
    # 0.5 Mbit, half of it needed, 100 FIT/Mbit; upsets of several cells count once a word.
    assert 0.5 * 0.5 * 100 * 0.6 < high[2, 0, 0] < 0.5 * 0.5 * 100
    assert low[2, 0, 0] > 2 * high[2, 0, 0]


def test_nothing_is_said_of_the_dead_and_of_programs():
    tail = tail_of(dict.fromkeys([cell(0, 3), cell(0, 4)], np.inf), {})
    life = lived([steady_trace(ROWS)], "baseline", tail, protection="secded32")
    turns = single(lives=2)
    rates = meter("secded32", [0.5]).read(life, turns, np.array(1.0))
    assert np.isnan(rates[:, 0]).all()
    assert not np.isnan(rates[:, 1]).any()
    assert np.isnan(over_life(rates, life)[:, 0]).all()
    unknown = meter("secded32", [np.nan]).read(life, turns, np.array(1.0))
    assert np.isnan(unknown).all()
    assert np.isnan(over_life(unknown, life)).all()


def test_a_sweep_takes_the_avf_of_its_kernels():
    sweep = small_sweep(techniques=["baseline", "rrcd"], environments=["turbo"], instances=4)
    arrays, plan = sweep.compute(0, 4), sweep.plan
    for place, name in enumerate(("baseline", "rrcd")):
        avf = [ace_under(trace.whole, TECHNIQUES[name]).avf for trace in plan.traces]
        np.testing.assert_allclose(plan._avf[name], avf)
        sdc = arrays["epoch_sdc_fit"][place]
        assert np.nanmax(sdc) == pytest.approx(np.nanmax(arrays["sdc_fit"][place]), rel=0.5)
    alive = ~np.isnan(arrays["sdc_fit"]).any(axis=0)
    assert (
        arrays["sdc_fit"][1, alive] < arrays["sdc_fit"][0, alive]
    ).all()  # fewer bits are needed
    assert not np.nan_to_num(arrays["due_fit"]).any()


@each(
    ("name", "points"),
    [("ecp1", "dvfs"), ("secded32", "turbo"), ("secded64x4+ecp1+spare8", "dvfs")],
)
def test_the_loop_is_the_array_formula(name, points):
    """`soft_errors`, point by point and added up: equal to the last bit."""
    rng, (lives, epochs, kernels) = np.random.default_rng(0), (9, 12, 3)
    faulty = np.floor(rng.random((lives, epochs)) * 257)
    faulty[0, 4:] = np.nan
    spent = np.floor(rng.random((lives, epochs)) ** 4 * 40_000)
    record = {"faulty_entries.epoch": faulty, "uncovered.epoch_words_at_risk": spent}
    outcomes = mock.Mock(**record)
    kernel = rng.integers(0, kernels, (lives, epochs, 9))
    weight = rng.random(kernel.shape) / 2  # so that slices need more than all in places
    activity, avf = rng.random(lives), [0.9, 0.3, 0.7]
    given = meter(name, avf, environment=environment(points, 0.419))
    among = given.environment.points
    fractions = rng.random((len(among), lives)) if len(among) > 1 else None
    computed = given.read(outcomes, Turns(kernel, weight), activity, fractions)

    known, words = ~np.isnan(faulty), GCN.cells // (given.protection.word_bits or 32)
    usable = 1 - np.where(known, faulty, 0) / GCN.entries
    at_risk = np.minimum(spent / np.maximum(usable, 1e-9), words)
    counts = np.stack([words - at_risk, at_risk, 0 * at_risk], axis=-1)
    needed = (weight * np.array(avf)[kernel]).sum(axis=2) * activity[:, None]
    assert (needed > 1).any()
    total = np.zeros((3, lives, epochs))
    for number, point in enumerate(among):
        cells, code = upsets("28nm", point.vdd_volts), given.protection.code
        of = soft_errors(counts, np.minimum(needed, 1), cells, code, given.protection.interleave)
        share = point.time_fraction if fractions is None else fractions[number, :, None]
        total += share * np.stack([of.corrected, of.due, of.sdc])
    np.testing.assert_array_equal(computed, np.where(known, total, np.nan))
