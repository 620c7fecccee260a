"""Equations 3 to 7 and Algorithm 1."""

import math
from dataclasses import replace

import numpy as np
import pytest
from gpu_cases import vectors
from tables import each

from mcage.errors import UserError
from mcage.gpu.gating.time_model import KernelTiming, Machine, TimeModel

GTX580 = Machine(16, 192.4e9, 1544e6)
KERNEL = KernelTiming(500.0, 60.0, 0.1, 8.0, 100.0, 64.0, 1280.0)


@each("row", vectors("optimum"))
def test_vectors(row):
    number = {name: float(text) for name, text in row.items() if name != "reading"}
    machine = Machine(int(row["SMs"]), number["bandwidth_B_per_s"], number["f_Hz"])
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


def cycles_by_hand(kernel, machine, sms, bounded, whole):
    """Cycles on a number of SMs, equation by equation."""
    miss = kernel.miss
    mem = kernel.global_latency_cycles * miss + kernel.cache_latency_cycles * (1 - miss)
    loaded = kernel.load_bytes_per_thread * 32 * miss
    warps = kernel.total_warps / sms
    if whole:
        warps = math.ceil(warps)
    mwp = machine.bandwidth_bytes_per_s * mem / (sms * machine.clock_hz * loaded)
    if bounded:
        mwp = min(mwp, warps)
    repeat = kernel.total_workload_warps / kernel.total_warps
    if mwp >= mem / kernel.comp_cycles:
        return mem + repeat * warps * kernel.comp_cycles
    return repeat * warps / mwp * mem


def test_the_optimum_is_that_of_a_search_by_hand():
    random = np.random.default_rng(5)
    several = set()
    for _ in range(10_000):
        machine = Machine(
            int(random.integers(4, 33)), random.uniform(50e9, 2e12), random.uniform(0.5e9, 2e9)
        )
        warps = float(random.integers(machine.sms, 2000))
        kernel = KernelTiming(
            random.uniform(200, 800),
            random.uniform(20, 100),
            random.uniform(0.01, 1),
            random.uniform(1, 64),
            random.uniform(5, 500),
            warps,
            warps * float(random.integers(1, 50)),
        )
        bounded, whole = (bool(choice) for choice in random.integers(0, 2, 2))
        delta = random.uniform(0, 0.3)
        model = TimeModel("bounded" if bounded else "literal", whole, delta, 4)
        cycles = [
            cycles_by_hand(kernel, machine, sms, bounded, whole)
            for sms in range(1, machine.sms + 1)
        ]

        def smallest(limit, cycles=cycles):
            return next(k for k in range(4, len(cycles) + 1) if cycles[k - 1] <= limit)

        expected = smallest(cycles[-1] * (1 + 1e-9))
        if expected == machine.sms:
            expected = smallest(cycles[-1] * (1 + delta) * (1 + 1e-9))
        assert model.optimum(kernel, machine) == expected
        several.add(expected / machine.sms)
    assert len(several) > 50


def test_a_miss_rate_for_each_number_of_sms_can_make_fewer_sms_faster():
    misses = tuple(np.linspace(0.05, 0.6, 16))
    model = TimeModel()
    cycles = model.cycles(replace(KERNEL, miss=misses, comp_cycles=10.0), GTX580)
    assert cycles.argmin() < 15
    with pytest.raises(UserError, match="miss gives 16 rates, but the GPU has 15 SMs"):
        model.cycles(replace(KERNEL, miss=misses), replace(GTX580, sms=15))


def test_a_kernel_without_misses_is_bound_by_computing():
    cycles = TimeModel().cycles(replace(KERNEL, miss=0.0), GTX580)
    np.testing.assert_allclose(cycles, 60 + 20 * 64 / np.arange(1, 17) * 100)


@pytest.mark.parametrize("least", [0, 17])
def test_fewest_sms_are_sms_of_the_gpu(least):
    with pytest.raises(UserError, match=rf"min_sms = {least} must be 1 \.\.\. 16"):
        TimeModel(min_sms=least).optimum(KERNEL, GTX580)
