"""What a sweep computes is a function of its spec and the instance: of nothing else."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from environment_cases import points
from life_cases import (
    NUMBA,
    YEAR,
    alternating_trace,
    cell,
    dvth,
    in_sequence,
    rules,
    tail_of,
    whole_entries,
)
from power_cases import COSTS, NODE, conventional_power, map_of, power
from sweep_cases import SMALL_KERNELS, assert_same_arrays, joined, small_sweep
from tables import each

import mcage.studies.sweep.batch as module
from mcage.aging.environment import environment
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.costs.activity import conventional, of_all
from mcage.engines.stress import dvth_histogram
from mcage.lifetime import DVTH_BIN_EDGES_MV, EndCause
from mcage.lifetime.feasibility import fault_free_replays
from mcage.lifetime.outcomes import Meter
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.replays.prepare import prepare
from mcage.results.writer import conforming
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations, open_trace
from mcage.traces.transforms import held_while_idle
from mcage.variation.fault_models import FaultModel, NewSlices, fault_map
from mcage.variation.scenarios import scenario

INSTANCES = 20
CASES = [
    (technique, environment)
    for environment in ("turbo", "dvfs")
    for technique in ("baseline", "rrcd", "rrcd+rc+rar")
]


@pytest.fixture(scope="module")
def sweep():
    return small_sweep()


@pytest.fixture(scope="module")
def arrays(sweep):
    return sweep.compute(0, INSTANCES)


def record_lives(monkeypatch):
    """Arguments of each call of `simulate_lifetimes`: conditions, kernels, tails, cells."""
    calls = []
    original = module.simulate_lifetimes

    def recording(conditions, engine, fault_free, batch):
        kernels = np.stack([turns.kernel[:, 0] for turns in batch.workload], axis=1)
        calls.append((conditions, kernels, batch.new.tail, batch.sampled_cells))
        return original(conditions, engine, fault_free, batch)

    monkeypatch.setattr(module, "simulate_lifetimes", recording)
    return calls


def vmin_of_cells(tail):
    """Vmin of each cell of a tail, by instance and cell."""
    cells = zip(tail.instance, tail.cell, tail.vmin_volts, strict=True)
    return {(instance, cell): vmin for instance, cell, vmin in cells}


def test_the_arrays_follow_the_schema(sweep, arrays):
    assert [(case["technique"], case["environment"]) for case in sweep.header.cases] == CASES
    conforming(sweep.header, arrays, INSTANCES)
    shares = arrays["write_share"]
    lived = arrays["life_years"] > 0
    assert np.isnan(shares[~lived]).all()
    assert (shares[lived] >= 0).all()
    assert shares[lived].sum(axis=-1) == pytest.approx(1)
    assert np.array_equal(arrays["spill_rate"], shares[..., 3], equal_nan=True)
    worked = lived.sum(axis=1)
    assert 0 < worked.sum() < lived.size
    assert (arrays["dvth_histogram"].sum(axis=-1) == 128 * worked[:, None]).all()
    duty = arrays["longest_duty"]
    assert ((duty[lived] >= 0) & (duty[lived] <= 1 + 1e-9)).all()
    for name in ("max_dvth_mv", "longest_duty", "delay_increase", "energy_saving_nominal"):
        assert np.isnan(arrays[name][~lived]).all(), name
        assert np.isfinite(arrays[name][lived]).all(), name


def test_shards_batches_and_threads_do_not_matter(sweep, arrays, monkeypatch):
    monkeypatch.setattr(sweep.plan.engine, "batch", 6)
    monkeypatch.setattr(sweep.plan, "_batch_pool", ThreadPoolExecutor(3))
    assert_same_arrays(joined(sweep.compute(*part) for part in ((0, 1), (1, 19), (19, 20))), arrays)


def test_another_seed_is_another_sample_and_a_longer_sweep_begins_with_the_shorter_one(arrays):
    other = small_sweep(seed=6).compute(0, INSTANCES)
    for name in ("workload", "faulty_entries_start", "max_dvth_mv", "dvth_histogram"):
        assert not np.array_equal(other[name], arrays[name]), name
    assert_same_arrays(small_sweep(instances=500).compute(0, INSTANCES), arrays)


def test_every_case_runs_the_same_workloads_and_samples_the_same_cells(sweep, monkeypatch):
    calls = record_lives(monkeypatch)
    arrays = sweep.compute(3, 13)
    workload = arrays["workload"]
    assert workload.shape == (10, 3)
    assert set(workload.ravel().tolist()) == set(range(len(SMALL_KERNELS)))
    assert len({tuple(kernels) for kernels in workload.tolist()}) > 5
    assert len(calls) == len(CASES)
    # The fourth epoch splits the first period, in which faults grow most.
    expected = workload[:, [0, 0, 1, 2]]
    for _, kernel_of_epoch, _, sample in calls:
        assert np.array_equal(kernel_of_epoch, expected)
        assert np.array_equal(sample, calls[0][3])
    assert len({tuple(cells) for cells in calls[0][3].tolist()}) == 10
    assert (np.diff(np.sort(calls[0][3], axis=1)) > 0).all(), "a cell sampled twice"


def test_lives_agree_with_what_is_known(arrays):
    """Full stress at 1.0 V: three years. Faults at 0.419 V: nothing that cannot move data."""
    turbo, undervolted = CASES.index(("baseline", "turbo")), CASES.index(("baseline", "dvfs"))
    assert arrays["life_years"][turbo] == pytest.approx(3.0, abs=1e-4)
    assert (arrays["end_cause"][turbo] == EndCause.DELAY).all()
    assert arrays["delay_increase"][turbo] == pytest.approx(0.139, rel=1e-6)
    assert arrays["longest_duty"][turbo, :, 0] == pytest.approx(1.0)
    assert not arrays["faulty_entries_start"][turbo].any()
    assert not arrays["life_years"][undervolted].any()
    assert (arrays["end_cause"][undervolted] == EndCause.FAULTY_ENTRY).all()
    composed = CASES.index(("rrcd+rc+rar", "turbo"))
    assert (arrays["life_years"][composed] == 10).all()
    histogram = arrays["dvth_histogram"][turbo]
    mean = (histogram * (np.arange(200) + 0.5)).sum(axis=-1) / histogram.sum(axis=-1)
    assert (mean < arrays["max_dvth_mv"][turbo].max()).all()
    assert not histogram[:, 67:].any(), "beyond the shift of full stress for three years"


def test_bins_are_those_of_the_schema():
    """A shift on a border counts above it, one beyond the last border in the last bin."""
    edges = DVTH_BIN_EDGES_MV
    rng = np.random.default_rng(0)
    dvth = np.concatenate([edges, np.nextafter(edges[1:], 0), rng.uniform(0, 250, 599)])
    volts = dvth.reshape(2, -1, 10) / 1e3
    counts = dvth_histogram(volts, len(edges) - 1)
    for transistor in range(2):
        shifts = np.minimum(1e3 * volts[transistor], edges[-1])
        assert counts[transistor].tolist() == np.histogram(shifts, edges)[0].tolist()


def test_faults_are_those_of_the_die(arrays):
    """Faulty entries at 0.419 V, from the variation model alone; none at 1.0 V."""
    cells = FaultModel(scenario("common")).sample(5, np.arange(INSTANCES), 0.419)
    maps = fault_map(cells, np.ones(len(cells.cell), dtype=bool))
    faulty = (maps != 0).sum(axis=1)
    assert faulty.min() > 0
    for case, (_, conditions) in enumerate(CASES):
        expected = 0 if conditions == "turbo" else faulty
        assert (arrays["faulty_entries_start"][case] == expected).all()


def test_another_voltage_is_the_same_die(monkeypatch):
    """Faults are nested in Vdd, and an instance is the same whatever else is swept."""
    options = {"techniques": ["rrcd"], "environments": ["undervolted"], "instances": 6}
    calls = record_lives(monkeypatch)
    sweep = small_sweep(**options, vdd_volts=[0.40, 0.42, 0.45])
    swept = sweep.compute(0, 6)
    dies = [
        vmin_of_cells(
            case.faults.sample(sweep.spec.seed, np.arange(6), case.conditions.floor_volts)
        )
        for case in sweep.plan.cases
    ]
    low, middle, high = dies
    assert len(low) > len(middle) > len(high) > 0
    assert high.items() <= middle.items() <= low.items()
    for (conditions, _, tail, _), die in zip(calls, dies, strict=True):
        vdd = conditions.environment.lowest_vdd_volts
        assert vmin_of_cells(tail) == {cell: vmin for cell, vmin in die.items() if vmin <= vdd}
    start = swept["faulty_entries_start"]
    assert (start[0] > start[1]).all()
    assert (start[1] > start[2]).all()
    alone = small_sweep(**options, vdd_volts=[0.42]).compute(0, 6)
    for name in ("life_years", "faulty_entries_start", "max_dvth_mv", "write_share"):
        assert np.array_equal(alone[name][0], swept[name][1], equal_nan=True), name


def test_the_table_fixes_the_number_of_faulty_entries():
    """Table I of RRCD, common: 20 + 10 + 3 % of 256 entries, rounded to whole ones."""
    options = {"techniques": ["rrcd"], "environments": ["dvfs"], "faults": {"mode": "table-exact"}}
    arrays = small_sweep(**options).compute(0, 4)
    assert (arrays["faulty_entries_start"] == 51 + 26 + 8).all()
    assert (arrays["faulty_entries_end"] == 51 + 26 + 8).all(), "faults of a table do not grow"


def test_the_variation_is_that_of_the_spec():
    """Each option reaches the fault model, and slices of one die share what dies differ by."""
    faults = {
        "slices_per_chip": 5,
        "sigma_die_volts": 0.02,
        "sigma_systematic_volts": 0.001,
        "sigma_random_volts": 0.08,
        "phi": 0.25,
    }
    sweep = small_sweep(techniques=["rrcd"], environments=["dvfs"], faults=faults)
    model = sweep.plan.cases[0].faults
    assert model.slices_per_chip == 5
    assert model.scenario == replace(
        scenario("common"),
        **{name: value for name, value in faults.items() if name != "slices_per_chip"},
    )
    start = sweep.compute(0, INSTANCES)["faulty_entries_start"][0].reshape(-1, 5)
    assert start.std(axis=1).max() < start.mean(axis=1).std()


def test_epochs_end_at_the_borders_of_the_file(sweep, arrays):
    """The history of the baseline at 1.0 V is that of full stress, up to its end."""
    nominal = CASES.index(("baseline", "turbo"))
    history = arrays["epoch_max_dvth_mv"][nominal, 0, :, 0]
    edges = np.array(sweep.header.epoch_edges_years[1:])
    rules = sweep.plan.cases[nominal].conditions
    seconds = np.minimum(edges, 3.0) * SECONDS_PER_YEAR
    expected = 1e3 * rules.additive_shift().dvth(seconds, seconds)
    lived = edges - np.diff([0, *edges]) < 3
    assert history[lived] == pytest.approx(expected[lived], rel=1e-5)
    assert np.isnan(history[~lived]).all()


def test_the_end_of_a_life_is_that_of_its_last_epoch(arrays):
    history = arrays["epoch_max_dvth_mv"]
    epochs = (~np.isnan(history[..., 0])).sum(axis=-1)
    lived = epochs > 0
    last = np.take_along_axis(history, np.maximum(epochs - 1, 0)[..., None, None], axis=2)[:, :, 0]
    assert np.array_equal(arrays["max_dvth_mv"][lived], last[lived])
    assert np.isnan(arrays["max_dvth_mv"][~lived]).all()
    assert (last[lived][:, 0] != last[lived][:, 1]).any()


# Sweeps in environments that a user defines: the same lives in other words, and die by die.


def swept(given_points, first=0, last=6, **fields):
    """Arrays of a sweep of two techniques in one environment of one's own."""
    given = {"techniques": ["baseline", "rrcd"], "environments": ["own"]} | fields
    return small_sweep(**given, operating_points={"own": given_points}).compute(first, last)


VARYING = points((0.9, "uniform(0.2, 0.6)", 10.0), ("scenario",))


def test_dvfs_in_other_words_is_dvfs():
    preset = small_sweep(techniques=["baseline", "rrcd"], environments=["dvfs"]).compute(0, 6)
    assert_same_arrays(swept(points((0.8, 0.5), ("scenario",))), preset)


@pytest.mark.parametrize("model", ["facelift", pytest.param("bhardwaj", marks=pytest.mark.slow)])
def test_each_instance_lives_as_if_all_had_its_share(model):
    given = {"aging": {"model": model}}
    arrays = swept(VARYING, **given)
    shares = arrays["operating_point_share"][0, :, 0]
    assert np.array_equal(arrays["operating_point_share"][1, :, 0], shares), "the same die"
    assert len(set(shares)) == 6
    for instance in (0, 3):
        alone = swept(points((0.9, float(shares[instance]), 10.0), ("scenario",)), **given)
        for name, array in arrays.items():
            axis = 1 if name not in ("workload", "dvth_histogram") else 0
            if name == "dvth_histogram" or array.ndim < 2:
                continue
            actual, expected = array.take(instance, axis), alone[name].take(instance, axis)
            assert actual == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), name
    assert np.isfinite(arrays["power_mw"][1]).all()


# Lives of slices that hold while they are idle: ages, and what holding takes.

ZERO = np.zeros(64, dtype=np.uint32)


def held_life(trace, technique, activity, tail=None, sample=(), **changes):
    """A life of ten years on one trace, and what it takes at 1.0 V."""
    tail = tail or tail_of({})
    busy = prepare(trace, TECHNIQUES[technique])
    whole = prepare(held_while_idle(trace, activity), TECHNIQUES[technique])
    shared = fault_free_replays(NUMBA, (busy,), (whole,))
    given = rules(holds_while_idle=True, **changes)
    kernels = np.zeros((tail.instances, len(given.epoch_edges_years) - 1), dtype=np.int64)
    sampled = np.tile(np.array(sample, dtype=np.int64), (tail.instances, 1))
    new = NewSlices.at(given.environment.lowest_vdd_volts, tail)
    life = simulate_lifetimes(given, NUMBA, shared, SliceBatch(in_sequence(kernels), new, sampled))
    meter = Meter(
        shared, of_all([conventional(trace)]), environment("turbo", 0.419), NODE, COSTS.penalties
    )
    return life, meter.read(life.moments)


# ---- ages --------------------------------------------------------------------------------------


def test_what_a_pass_leaves_is_held():
    """At '0' for 50 of 100 cycles, then '1'; busy for 40 % of the time: duties 0.2 and 0.8."""
    trace = alternating_trace(ZERO, 50, ~ZERO)
    life, _ = held_life(trace, "baseline", 0.4, sample=[cell(0)])
    expected = [dvth(10 * YEAR, 0.2), dvth(10 * YEAR, 0.8)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(expected, rel=1e-9)
    assert life.degradation.sampled.dvth_volts()[0, 0] == pytest.approx(expected, rel=1e-9)
    assert life.degradation.longest_duty[0] == pytest.approx([0.2, 0.8])


# ---- what holding takes ------------------------------------------------------------------------


@each(("name", "entries"), [("baseline", None), ("rrcd", 256), ("rc+rar", 0), ("argo", 0)])
def test_power_by_hand(name, entries):
    """Busy a quarter of the time: three times as long the entries that hold leak."""
    trace = first_generations(open_trace(SMALL_KERNELS[0]), 2)
    if entries is None:
        entries = int(prepare(trace, TECHNIQUES[name]).needed.sum())
    life, consumed = held_life(trace, name, 0.25)
    assert life.end.cause == [EndCause.CENSORED]
    busy_mw, slower = power(trace, TECHNIQUES[name], np.zeros((1, 256), np.uint8), vdd_volts=1.0)
    leakage_mw = NODE.slice_at(1.0).leakage_mw
    rest = held_while_idle(trace, 0.25).cycles / trace.cycles - 1
    assert rest == pytest.approx(3, rel=1e-4)
    expected = busy_mw + rest * leakage_mw * entries / 256
    assert consumed.power_mw == pytest.approx(expected)
    assert consumed.slowdown == pytest.approx(slower, abs=1e-12)
    other = conventional_power(trace, vdd_volts=1.0) + rest * leakage_mw
    assert consumed.energy_saving == pytest.approx(1 - expected * (1 + slower) / other)
    nominal = conventional_power(trace) + rest * NODE.slice.leakage_mw
    assert consumed.conventional_power_mw == pytest.approx(nominal)


def test_waits_lengthen_the_work_and_not_the_rest():
    """Two rows in two slots, and a slice on which one window fits: twice the time, less idle."""
    trace = first_generations(open_trace(SMALL_KERNELS[0]), 2)
    size = trace.kernels[0].window_size
    tail = tail_of(whole_entries(range(size, 256)))
    packing = prepare(trace, TECHNIQUES["disable"]).packing
    waits = packing.slowdown(map_of(tail))[0]
    assert waits > 0.2
    life, consumed = held_life(trace, "disable", 0.5, tail)
    assert consumed.slowdown == pytest.approx(waits)
    idle = prepare(held_while_idle(trace, 0.5), TECHNIQUES["disable"]).packing
    cycles = trace.cycles * (1 + waits)
    assert idle.timing(packing.places(map_of(tail)[0])).cycles == round(cycles + trace.cycles)
    assert life.end.seconds == [10 * YEAR]
