"""Do slices whose kernels take turns live as the mix of them says?"""

import numpy as np
import pytest
from check_default_sweep import FEWEST_DEATHS, failures
from life_cases import (
    NUMBA,
    arrays_of,
    cell,
    lived,
    random_values,
    steady_trace,
    tail_of,
    whole_entries,
)
from short_kernels import short_kernels
from sweep_cases import SMALL_KERNELS, small_spec
from tables import each

from mcage.engines.stress import Turns
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.spec import SweepSpec
from mcage.studies.sweep.plan import workloads_of
from mcage.studies.sweep.study import Sweep

MANY = np.arange(4000)
TRACES = tuple(steady_trace(random_values(rows, seed=rows)) for rows in (3, 5, 9))
"""Kernels that keep their values all the time, in more and more registers."""


def interleaved(**workload):
    """A small sweep of mixes, at a voltage at which most slices have faults and many live on."""
    given = {"kernels": list(SMALL_KERNELS), "generations": 2, "schedule": "interleaved"}
    return small_spec(
        techniques=["baseline", "rrcd", "gr-guard", "rrcd+rc+rar"],
        environments=["dvfs"],
        vdd_volts=[0.43],
        life={"epochs": 4, "slowdown_limit": "none"},
        workload=given | workload,
    )


def computed(spec, instances=3):
    return Sweep(spec, NUMBA).compute(0, instances)


# ---- what is drawn -----------------------------------------------------------------------------


def test_a_mix_has_its_kernels_once_and_shares_that_sum_to_1():
    kernels = [f"k{number}" for number in range(7)]
    spec = SweepSpec(workload={"schedule": "interleaved", "kernels": kernels})
    (turns,) = workloads_of(spec, MANY).periods
    assert turns.kernel.shape == (4000, 3)
    assert (np.diff(turns.kernel) > 0).all()
    drawn = np.bincount(turns.kernel.ravel(), minlength=7) / len(MANY)
    assert drawn == pytest.approx(np.full(7, 3 / 7), abs=0.03)
    assert turns.weight.sum(axis=1) == pytest.approx(1)
    # Of a Dirichlet distribution with three ones: mean 1/3, standard deviation 1/sqrt(18).
    assert turns.weight.mean(axis=0) == pytest.approx(1 / 3, abs=0.015)
    assert turns.weight.std(axis=0) == pytest.approx(18**-0.5, abs=0.01)
    (again,) = workloads_of(spec, MANY[100:110]).periods
    assert np.array_equal(again.kernel, turns.kernel[100:110])
    assert np.array_equal(again.weight, turns.weight[100:110])


@each(
    ("mix", "kernel", "share"),
    [
        ("uniform", [0, 1, 2], [1 / 3] * 3),
        ("weights(c: 6, a: 1, b: 1)", [0, 1, 2], [0.125, 0.125, 0.75]),
    ],
)
def test_shares_that_are_not_drawn(mix, kernel, share):
    workload = {"schedule": "interleaved", "kernels": ["a", "b", "c"], "mix": mix, "periods": 2}
    for turns in workloads_of(SweepSpec(workload=workload), MANY[:3]).periods:
        assert (turns.kernel == kernel).all()
        assert turns.weight == pytest.approx(np.tile(share, (3, 1)))


def test_mixes_change_with_periods():
    workload = {"schedule": "interleaved", "periods": 4, "mix_size": 2}
    periods = workloads_of(SweepSpec(workload=workload), MANY[:50]).periods
    assert len({turns.kernel.tobytes() for turns in periods}) == 4


def test_a_size_of_mixes_needs_mixes():
    with pytest.raises(UserError, match=r"workload\.mix_size .*one kernel in each period"):
        small_spec(workload={"schedule": "sequential", "periods": 2, "mix_size": 2}).refuse_unused()


# ---- lives -------------------------------------------------------------------------------------


def test_one_kernel_is_the_same_under_both_schedules():
    of_mix = computed(interleaved(mix="one"))
    sequential = computed(interleaved(mix="one", schedule="sequential", periods=1))
    assert np.array_equal(of_mix["mix_kernel"][..., 0], sequential["workload"])
    for name in set(of_mix) - {"mix_kernel", "mix_share"}:
        assert np.array_equal(of_mix[name], sequential[name], equal_nan=True), name


@each("technique", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "disable"])
def test_a_mix_of_copies_is_their_kernel(technique):
    tail = tail_of(whole_entries(range(248)) | {cell(250, bit): 0.95 for bit in range(64)})
    share = np.array([[0.2, 0.5, 0.3]])
    mix = [Turns(np.array([[0, 1, 2]]), share)] * 10
    copies = lived([TRACES[0]] * 3, technique, tail, (cell(250, 1),), mix, NUMBA)
    single = lived(TRACES[:1], technique, tail, (cell(250, 1),), engine=NUMBA)
    one, other = arrays_of(single), arrays_of(copies)
    assert one["degradation.max_dvth_volts"].all()
    for name in one.keys() - {"moments.events", "moments.kernel", "moments.weight"}:
        assert other[name] == pytest.approx(one[name], rel=1e-12, nan_ok=True), name


def test_all_kernels_of_a_mix_must_have_room():
    """Where eight entries are left, kernels of 3 and 5 registers can run, and that of 9 cannot."""
    tail = tail_of(*[whole_entries(range(248))] * 2)
    turns = Turns(np.array([[0, 1], [0, 2]]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    lives = lived(TRACES, "rrcd", tail, kernels=[turns] * 10, engine=NUMBA, lds_rows=0)
    assert lives.end.cause.tolist() == [EndCause.CENSORED, EndCause.NO_HOME]
    assert lives.end.seconds[1] == 0


def test_models_with_a_memory_see_the_mean_duty():
    """Epoch by epoch, an additive model gives what its total stress time does."""
    spec = interleaved()
    life = spec.life.model_copy(update={"temperature_swing_kelvin": "normal(0, 1e-9)"})
    swings = spec.model_copy(update={"life": life})
    sums, steps = computed(spec), computed(swings)
    for name in ("life_years", "max_dvth_mv", "longest_duty", "epoch_max_dvth_mv"):
        assert steps[name] == pytest.approx(sums[name], rel=1e-6, nan_ok=True), name


def test_cells_that_never_change_are_stressed_no_more_than_all_the_time():
    """The shares of a mix may sum to a little more than 1 by rounding; a duty must not."""
    spec = small_spec(
        techniques=["baseline"],
        environments=["turbo"],
        workload={"kernels": list(SMALL_KERNELS), "periods": 3, "generations": 2},
        life={"epochs": 4, "temperature_swing_kelvin": "normal(0, 10)"},
    )
    shift = computed(spec, instances=20)["max_dvth_mv"]
    assert np.isfinite(shift).all()


# ---- deaths --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Kernels that nearly fill the slice, so that many slices die of their faults."""
    shapes = ((8, 31), (12, 21), (16, 15), (31, 8))
    return short_kernels(tmp_path_factory.mktemp("kernels"), shapes)


def deaths(kernels, **workload):
    """What a sweep fails in, at a voltage at which half of its slices die."""
    spec = SweepSpec.from_mapping(
        {
            "instances": 300,
            "techniques": ["rrcd"],
            "environments": ["dvfs"],
            "vdd_volts": [0.41],
            "registers": {"lds_rows": 16},
            "workload": {"kernels": kernels} | workload,
        }
    )
    lives = Sweep(spec, NUMBA).compute(0, 300)
    years, died = lives["life_years"], lives["end_cause"] != EndCause.CENSORED
    assert (died & (years > 0)).sum(axis=1).min() >= FEWEST_DEATHS
    shifts = lives["max_dvth_mv"].max(axis=-1)
    return [failures(*case) for case in zip(years, died, shifts, strict=True)]


@pytest.mark.slow
def test_there_is_no_calendar_in_the_deaths(crowded):
    assert not any(deaths(crowded))


@pytest.mark.slow
def test_kernels_that_change_every_two_years_are_a_calendar(crowded):
    for said in deaths(crowded, schedule="sequential"):
        assert "deaths fall on the age of" in said[0]
