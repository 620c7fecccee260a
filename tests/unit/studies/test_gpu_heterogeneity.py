"""The study of heterogeneous structures as a campaign, and the parts that it is made of."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from gpu_cases import vectors
from tables import each

from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.studies.gpu_gating.workload import GpuTiming, KernelTiming, TimeModel
from mcage.studies.gpu_heterogeneity.presentation import HeterogeneityPresentation
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.structures import (
    READINGS,
    THETA_KELVIN,
    Conditions,
    SequentialL2,
    TwoStage,
    benchmarks,
    nbti_efficiency,
    parts,
)
from mcage.studies.gpu_heterogeneity.study import Heterogeneity, HeterogeneityHeader

BASELINE, PROPOSAL, DUPLICATION = range(3)

POINT = {
    "fields": "swapped",
    "fills": "ignored",
    "service": {"temperature_kelvin": 353.15},
    "scheduler": {"filter_rate": 0.9059, "base_duty": 0.4, "baseline_delay": 0.077},
    "l2": {"miss_rate": 0.36, "base_duty": 0.7774},
    "proposal": {"delay": 1.0, "power": 1.0},
    "duplication": {"delay": 1.0, "power": 1.2},
}
"""LPS, as the paper has it."""


def study(**fields):
    fields.setdefault("instances", 60)
    return Heterogeneity(HeterogeneitySpec.from_mapping(fields))


def at_point(**changes):
    """First instance of each array at the point, with keys of tables changed."""
    fields = POINT | {
        key: POINT[key] | value if isinstance(value, dict) else value
        for key, value in changes.items()
    }
    return {name: array[..., 0] for name, array in study(**fields).compute(0, 1).items()}


def test_other_ranges_leave_the_draws_of_other_inputs_as_they_are():
    arrays, changed = study().compute(0, 20), study(l2={"miss_rate": 0.3}).compute(0, 20)
    assert (changed["miss_rate"] == 0.3).all()
    for name in ("base_duty", "power", "filter_rate", "common_field"):
        np.testing.assert_array_equal(arrays[name], changed[name])


def test_draws_stay_in_their_ranges_and_fill_them():
    arrays = study(instances=2000).compute(0, 2000)
    for name, low, high in (("base_duty", 0.2, 0.6), ("miss_rate", 0, 1), ("l2_base_duty", 0.5, 1)):
        assert low <= arrays[name].min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < arrays[name].max() <= high
    rates, counts = np.unique(arrays["filter_rate"], return_counts=True)
    assert rates.tolist() == sorted(benchmark.filter_rate for benchmark in benchmarks().values())
    assert counts.min() > 140
    assert arrays["common_field"].mean() == pytest.approx(0.5, abs=0.05)
    delays = arrays["delay"][PROPOSAL]
    assert 1 + 1 / 41.7 < delays.min() < delays.max() < (1 + 1 / 8.53) / 0.985


@each("row", vectors("heterogeneity"))
def test_inputs_without_spread(row):
    """A study of numbers, of a single draw: the vectors of a program of its own."""
    row = {name: float(text) for name, text in row.items()}
    arrays = at_point(
        readings=["activity", "thermal", "combined"],
        scheduler={
            "base_duty": row["base_duty"],
            "filter_rate": row["filter_rate"],
            "baseline_delay": row["baseline_delay_pct"] / 100,
            "theta_kelvin": THETA_KELVIN,
            "activation_ev": 0.972,
        },
        l2={
            "base_duty": row["base_duty"],
            "miss_rate": row["l2_miss_rate"],
            "baseline_delay": "model",
        },
    )
    computed = {
        "activity_pct": arrays["second_stage_delay"][0],
        "thermal_0972_pct": arrays["second_stage_delay"][1],
        "combined_pct": arrays["second_stage_delay"][2],
        "l2_sequential_delay_pct": arrays["data_array_delay"][0],
        "finfet_delay_at_base_duty_pct": arrays["l2_delay"][0, BASELINE],
        "planar_delay_at_base_duty_pct": arrays["tags_delay"][0],
    }
    assert {name: 100 * value for name, value in computed.items()} == pytest.approx(
        {name: row[name] for name in computed}, rel=1e-5
    )


def test_a_given_baseline_delay_holds_after_seven_years():
    for duty in (0.2, 0.6):
        arrays = at_point(scheduler={"base_duty": duty}, service={"temperature_kelvin": 365.0})
        assert arrays["scheduler_delay"][0, BASELINE] == pytest.approx(0.077, rel=1e-12)
    later = at_point(service={"years": 14.0})["scheduler_delay"][0]
    # Shifts go about as the fourth root of time, delays a little more.
    assert later[BASELINE] == pytest.approx(0.077 * 2**0.25, rel=0.05)


def test_a_printed_baseline_is_that_of_the_benchmark():
    of_nn = at_point(scheduler={"filter_rate": "benchmark", "benchmarks": ["NN"]})
    printed = {"base_duty": 0.4, "baseline_delay": "printed"}
    for scheduler, delay in (
        ({"benchmarks": ["NN"]}, 0.084),
        ({"benchmarks": ["WP"]}, 0.077),
        ({"filter_rate": 0.9741}, 0.077),
    ):
        arrays = study(scheduler=printed | scheduler).compute(0, 3)
        assert arrays["scheduler_delay"][0, BASELINE] == pytest.approx([delay] * 3, rel=1e-12)
    assert of_nn["filter_rate"] == 0.9741


def test_the_model_alone_meets_the_printed_means():
    arrays = at_point(scheduler={"baseline_delay": "model"}, l2={"baseline_delay": "model"})
    assert arrays["scheduler_delay"][0, BASELINE] == pytest.approx(0.077, abs=1e-5)
    assert arrays["l2_delay"][0, BASELINE] == pytest.approx(0.141, abs=1e-5)


def test_each_design_is_that_of_its_parts():
    finfet, conditions = parts().finfet, Conditions()
    arrays = at_point()
    two_stage = TwoStage().delay(finfet, conditions, 0.077, 0.9059)
    assert arrays["second_stage_delay"][0] == pytest.approx(float(two_stage), rel=1e-9)
    sequential = SequentialL2().delay(finfet, conditions, 0.36)
    assert arrays["data_array_delay"][0] == pytest.approx(float(sequential), rel=1e-4)
    assert arrays["l2_delay"][0, DUPLICATION] == pytest.approx(0.0755, abs=1e-4)
    assert arrays["scheduler_delay"][0, DUPLICATION] == pytest.approx(0.0515, abs=1e-4)


def test_planar_parts_limit_the_proposal_only_under_a_common_field():
    swapped, common = at_point(), at_point(fields="common")
    for arrays in (swapped, common):
        parts_of_l2 = arrays["data_array_delay"][0], arrays["tags_delay"][0]
        assert arrays["l2_delay"][0, PROPOSAL] == max(parts_of_l2)
    assert swapped["tags_delay"] < swapped["data_array_delay"]
    assert common["tags_delay"] > 4 * common["data_array_delay"]


def test_efficiency_and_the_order():
    assert nbti_efficiency(1.1, 0.05, 0.9) == pytest.approx((1.1 * 1.05) ** 3 * 0.9)
    arrays = at_point()
    larger = np.maximum(arrays["scheduler_delay"][0], arrays["l2_delay"][0])
    aging = (1.141 / (1 + larger)) ** 3
    np.testing.assert_allclose(arrays["break_even"][0], aging, rtol=1e-12)
    np.testing.assert_allclose(arrays["efficiency"][0], arrays["power"] / aging, rtol=1e-12)
    assert arrays["order_holds"][0] == 1
    # Duplication is worse than the baseline from P = 1.194 on; the proposal is better up to 1.37.
    assert at_point(duplication={"power": 1.193})["order_holds"][0] == 0
    assert at_point(duplication={"power": 1.195})["order_holds"][0] == 1
    assert at_point(proposal={"power": 1.36})["order_holds"][0] == 1
    assert at_point(proposal={"power": 1.38})["order_holds"][0] == 0


def test_the_table_says_what_the_file_holds(tmp_path):
    path = run_campaign(study().study, tmp_path / "r.h5", 100)
    designs = HeterogeneityPresentation(HeterogeneityHeader).summarize_file(path)
    with xr.open_dataset(path, engine="h5netcdf") as results:
        efficiency = results["efficiency"].values[0]
        holds = results["order_holds"].values[0]
        common = results["common_field"].values != 0
    assert designs[PROPOSAL].efficiency.value == pytest.approx(efficiency[PROPOSAL].mean())
    assert designs[PROPOSAL].better.value == (efficiency[PROPOSAL] < 1).mean()
    *kinds, all_draws = designs[0].orders
    assert all_draws.holds.value == holds.mean()
    assert sum(order.instances for order in kinds) == all_draws.instances == 60
    of_common = [order.instances for order in kinds if order.fields == "common"]
    assert sum(of_common) == common.sum()


def test_every_key_may_be_at_its_ends():
    """No transistor ages until it cannot switch, so that all numbers are finite."""
    for duty, delay, years in ((0.001, 1.0, 100), (1.0, "model", 100), (1, 1, 0.01)):
        fields = {
            "readings": list(READINGS),
            "service": {"years": years, "temperature_kelvin": "discrete(300: 0.5, 420: 0.5)"},
            "scheduler": {
                "base_duty": duty,
                "baseline_delay": delay,
                "theta_kelvin": 100,
                "filter_rate": "discrete(0: 0.5, 1: 0.5)",
                "activation_ev": 1.5,
            },
            "l2": {"base_duty": duty, "baseline_delay": delay},
        }
        for array in study(**fields).compute(0, 20).values():
            assert np.isfinite(array).all()


# Equations 3 to 7 and Algorithm 1.

GTX580 = GpuTiming(16, 192.4e9, 1544e6)
KERNEL = KernelTiming(500.0, 60.0, 0.1, 8.0, 100.0, 64.0, 1280.0)


@each("row", vectors("optimum"))
def test_vectors(row):
    number = {name: float(text) for name, text in row.items() if name != "reading"}
    machine = GpuTiming(int(row["SMs"]), number["bandwidth_B_per_s"], number["f_Hz"])
    kernel = KernelTiming(
        number["global_latency_cycles"],
        number["cache_latency_cycles"],
        number["miss_rate"],
        number["load_bytes_per_thread"],
        number["comp_cycles"],
        number["total_warps"],
        number["total_workload_warps"],
    )
    model = TimeModel(
        row["reading"], row["whole_warps"] == "1", number["delta"], int(row["min_SMs"])
    )
    cycles, best = model.cycles(kernel, machine), model.optimum(kernel, machine)
    assert best == int(row["optimum_SMs"])
    assert cycles[-1] == pytest.approx(number["cycles_all_SMs"], rel=1e-5)
    assert cycles[best - 1] == pytest.approx(number["cycles_optimum"], rel=1e-5)


def test_a_miss_rate_for_each_number_of_sms_can_make_fewer_sms_faster():
    misses = tuple(np.linspace(0.05, 0.6, 16))
    model = TimeModel()
    cycles = model.cycles(replace(KERNEL, miss=misses, comp_cycles=10.0), GTX580)
    assert cycles.argmin() < 15
    with pytest.raises(UserError, match="miss gives 16 rates, but the GPU has 15 SMs"):
        model.cycles(replace(KERNEL, miss=misses), replace(GTX580, sms=15))


@each("least", [0, 17])
def test_fewest_sms_are_sms_of_the_gpu(least):
    with pytest.raises(UserError, match=rf"min_sms = {least} must be 1 \.\.\. 16"):
        TimeModel(min_sms=least).optimum(KERNEL, GTX580)
