"""Gating and a protection technique together: less than the product of their savings."""

import numpy as np
import pytest

from mcage.aging.nbti import SECONDS_PER_YEAR, Transistors, nbti_model
from mcage.engines.select import select_engine
from mcage.gpu.both.combination import BothEnd
from mcage.gpu.both.register_files import with_slower_period
from mcage.gpu.both.spec import BothSpec
from mcage.gpu.both.study import Both
from mcage.gpu.gating.demand import row_sum
from mcage.gpu.gating.spec import GatingSpec
from mcage.gpu.gating.study import Gating
from mcage.gpu.nominal.both import combined_cases
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.sweep.kernels import kernels_of_periods
from mcage.variation.fault_maps import NewSlices

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


def test_both_levels_of_nominal_sms(tmp_path):
    """Facelift, a duty of 0.42 under RC+RAR: 30.5 % and 55.8 %, both 60.6 %, not 69.3 %."""
    path = tmp_path / "cases.csv"
    path.write_text("active_share,duty\n0.799,0.42\n")
    (row,) = combined_cases(path, nbti_model("facelift"))
    saved = [row[f"saved_pct_{level}"] for level in ("gating", "registers", "both")]
    assert saved == pytest.approx([30.5, 55.8, 60.6], abs=0.05)
    assert row["independent_pct"] == pytest.approx(69.3, abs=0.05)


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


def test_a_slice_lives_as_in_a_sweep():
    """Delay lives and fault lives are those of the simulator of slices, with the same clock."""
    sweep = {
        "techniques": ["baseline", "rrcd"],
        "environments": ["dvfs"],
        "workload": {
            "kernels": ["MatrixTranspose", "ScanLargeArrays"],
            "periods": 3,
            "generations": 2,
        },
        "life": {"epochs": 5},
    }
    gating = {"policies": ["default"], "life": {"delay_guardband": 0.03}}
    both = study(instances=1, sweep=sweep, gating=gating)
    plan = both.plan
    population = both.gating.population(np.arange(1))
    lives = both.gating.lives.run(both.gating.policies["default"], population)
    arrays = both.compute(0, 1)
    ids = np.arange(16)
    kernels = np.repeat(plan_kernels(plan), 16, axis=0)
    constants = both.register_files.constants(
        plan.cases[0], ids, population.vt0_volts, lives.of_sms
    )
    for place, case in enumerate(plan.cases):
        tail = case.faults.sample(plan.spec.seed, ids, case.conditions.floor_volts)
        new = NewSlices.at(case.conditions.environment.lowest_vdd_volts, tail)
        batch = SliceBatch(kernels, new, np.zeros((16, 1), np.int64), constants)
        fault_free = plan.fault_free[case.case.technique]
        end = simulate_lifetimes(case.conditions, plan.engine, fault_free, batch).end
        first = end.seconds.argmin()
        years = end.seconds[first] / SECONDS_PER_YEAR
        life = min(arrays[name][0, place, 0] for name in ("cell_life_years", "fault_life_years"))
        assert life == pytest.approx(years, rel=0.02), case.case.technique


def plan_kernels(plan):
    return kernels_of_periods(plan.spec, np.arange(1))[:, list(plan.spec.period_of_epoch)]


def test_a_gpu_does_not_depend_on_its_batch():
    """Any range of GPUs gives the same GPUs, under faults, sensors and variation."""
    fields = {
        "instances": 4,
        "gating": {
            "policies": ["default", "most-slack"],
            "sensors": {"noise_mv": 2.0, "interval_days": 90.0},
            "variation": {},
            "temperature": {},
            "life": {"spare_sms": 1},
        },
        "sweep": {
            "techniques": ["rrcd"],
            "environments": ["dvfs"],
            "workload": {"kernels": ["MatrixTranspose"], "generations": 2},
        },
    }
    both = study(**fields)
    whole, part = both.compute(0, 4), both.compute(3, 4)
    for variable in both.header.variables:
        last = np.take(whole[variable.name], [3], axis=variable.instance_axis)
        assert np.array_equal(last, part[variable.name], equal_nan=last.dtype.kind == "f")


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


def test_engines_agree():
    """The reference engine gives the same GPU to the last bit."""
    fields = {"instances": 1, "gating": {"variation": {}, "temperature": {}}}
    kernels = {"kernels": ["MatrixTranspose", "ScanLargeArrays"], "periods": 2, "generations": 1}
    fields["sweep"] = {"workload": kernels, "life": {"epochs": 3}}
    ours, reference = (study(engine, **fields).compute(0, 1) for engine in ("numba", "numpy"))
    for name, array in ours.items():
        assert np.array_equal(array, reference[name], equal_nan=array.dtype.kind == "f"), name


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
