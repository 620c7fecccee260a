"""Figures of the papers on whole GPUs: Chen et al. (DAC 2014), Zhang et al. (INTEGRATION 2015)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from mcage.gpu.chip import gpu
from mcage.papers.kernel_replays import MEAN, Published, published_figures
from mcage.papers.register_files import Measured
from mcage.studies.gpu_gating.life import ROUND_SECONDS, ROUNDS, shifts_of_rounds
from mcage.studies.gpu_gating.policies import policy
from mcage.studies.gpu_gating.workload import GatedKernel, TimeModel, gated_kernels
from mcage.studies.gpu_heterogeneity import structures

# Figures of Chen et al., "Run-time technique for simultaneous aging and power optimization".
#
# DAC 2014: gating of SMs. A kernel runs 100 rounds, 36 ms, on SMs that start new; the least
# shifted work. Numbers of SMs are the printed ones, since what they were computed from is not
# printed.

PAPER = "003"

VDD_VOLTS = 1.0
"""Section 6.1."""

SMALLEST, LARGEST = "smallest", "largest"
"""In place of a kernel: the extreme over the fourteen kernels."""

SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    MEAN: fmean,
    SMALLEST: min,
    LARGEST: max,
}
"""Printed values of the fourteen kernels together."""

EQUAL, PRINTED = "equal times", "printed times"
TIMES = (EQUAL, PRINTED)
"""Execution time on the chosen SMs: that on all SMs, or as Tables 3 and 4 print it."""

GatingMetric = Callable[[Published, str], Measured]
"""Computes a printed value with execution times of a kind."""


@cache
def kernels(name: str = "chen-2014") -> dict[str, GatedKernel]:
    """Kernels of a set by name, with the printed numbers of SMs."""
    listed = gated_kernels(name, (), gpu("gtx580").machine, TimeModel())
    return {kernel.name: kernel for kernel in listed}


@cache
def sms() -> int:
    """SMs of the GPU of the paper."""
    return gpu("gtx580").sms


@cache
def largest_dvth_mv(name: str, active: int, time_ratio: float = 1.0) -> float:
    """Largest shift of an SM after the last round under a policy, mV.

    Parameters
    ----------
    name : str
        The policy.
    active : int
        SMs that work.
    time_ratio : float
        Length of a round relative to that on all SMs.
    """
    counts, seconds = np.full(ROUNDS, active), ROUND_SECONDS * time_ratio
    return float(1e3 * shifts_of_rounds(policy(name), counts, sms(), seconds).max())


def mitigation_percent(active: int, time_ratio: float = 1.0) -> float:
    """How far gating lowers the largest shift, %."""
    gated = largest_dvth_mv("least-shift", active, time_ratio)
    return 100 * (1 - gated / largest_dvth_mv("default", sms()))


def gated_percent(active: int) -> float:
    """Share of the SMs that are gated, %: what their power falls by if all SMs draw the same."""
    return 100 * (1 - active / sms())


def time_ratio(kernel: GatedKernel, times: str) -> float:
    """Execution time relative to all SMs."""
    return kernel.time_ratio if times == PRINTED else 1.0


def of_kernels(figure: Published, by_kernel: dict[str, float]) -> Measured:
    """Reduce values of the fourteen kernels to what is printed of them."""
    values = list(by_kernel.values())
    return Measured(SUMMARIES[figure.kernel](values), by_kernel=by_kernel)


def _of_counts(value: Callable[[int, float], float]) -> GatingMetric:
    """Metric that follows from the number of SMs and the execution time of a kernel."""

    def measure(figure: Published, times: str) -> Measured:
        if figure.kernel in (MEAN, SMALLEST, LARGEST):
            values = {k.name: value(k.sms, 1.0) for k in kernels().values()}
            return of_kernels(figure, values)
        known = kernels() | kernels("chen-2014-sizes")
        kernel = known[figure.kernel]
        return Measured(value(kernel.sms, time_ratio(kernel, times)))

    return measure


def _largest_dvth(figure: Published, times: str) -> Measured:
    return Measured(largest_dvth_mv(figure.technique, kernels()[figure.kernel].sms))


def _sm_energy_saving(figure: Published, times: str) -> Measured:
    """Energy saving that follows from the printed power saving and the printed time, %."""
    (power,) = (
        other
        for other in published_figures(PAPER)
        if (other.metric, other.kernel) == ("sm_power_saving", figure.kernel)
    )
    ratio = kernels("chen-2014-sizes")[figure.kernel].time_ratio
    return Measured(100 * (1 - (1 - power.low / 100) * ratio))


METRICS: dict[str, GatingMetric] = {
    "largest_dvth": _largest_dvth,
    "mitigation": _of_counts(mitigation_percent),
    "sm_power_saving": _of_counts(lambda active, _: gated_percent(active)),
    "sm_energy_saving": _sm_energy_saving,
}


# Figures of Zhang et al., "NBTI alleviation on FinFET-made GPUs".
#
# INTEGRATION 2015: a two-stage warp scheduler, and an L2 that is read after its planar tags.

ZHANG_2015_PAPER = "004"

HeterogeneityMetric = Callable[[Published, str], Measured]
"""Computes a printed value under a reading of what a filtered read changes."""


@cache
def rows_by_name() -> dict[str, dict[str, Any]]:
    """Rows of the ten benchmarks and of their mean, by name; delays in %, temperatures in K.

    What is printed has ``printed`` in its name, and is None where the paper prints nothing.
    Benchmarks without a printed baseline have the printed mean of 7.7 %; those without a printed
    miss rate have `USUAL_MISS_RATE` (assumed), and those without a printed latency no projected
    IPC. The mean is taken with the printed mean as the baseline of each.
    """
    benchmarks = structures.benchmarks()
    at_mean = [
        _of_benchmark(replace(benchmark, baseline_delay=structures.MEAN_BASELINE_DELAY))
        for benchmark in benchmarks.values()
    ]
    printed = structures.printed_means()
    computed = ("baseline_pct", "activity_pct", "combined_pct", "thermal_pct", "drop_K", "l2_pct")
    means = {name: float(np.mean([row[name] for row in at_mean])) for name in computed}
    means |= {
        "printed_pct": 100 * printed["two_stage_delay"],
        "printed_l2_pct": 100 * printed["l2_delay"],
    }
    return {name: _of_benchmark(each) for name, each in benchmarks.items()} | {
        MEAN: dict.fromkeys(at_mean[0]) | means
    }


def _of_benchmark(benchmark: structures.Benchmark) -> dict[str, float | None]:
    finfet, conditions = structures.parts().finfet, structures.Conditions()
    latency = benchmark.latency_cycles
    delays = (
        {"baseline_pct": benchmark.scheduler_delay}
        | {
            f"{reading}_pct": structures.TwoStage(reading).delay(
                finfet, conditions, benchmark.scheduler_delay, benchmark.filter_rate
            )
            for reading in structures.READINGS
        }
        | {"l2_pct": structures.SequentialL2().delay(finfet, conditions, benchmark.miss_rate)}
    )
    return {
        **{name: 100 * float(delay) for name, delay in delays.items()},
        "printed_pct": _scaled(benchmark.printed, "two_stage_delay", 100),
        "drop_K": float(structures.TwoStage().drop_kelvin(benchmark.filter_rate)),
        "printed_drop_K": _scaled(benchmark.printed, "temperature_drop", 1),
        "projected_IPC": latency and float(1 / (1 + structures.ipc_overhead(latency))),
        "printed_l2_pct": _scaled(benchmark.printed, "l2_delay", 100),
    }


def _scaled(printed: dict[str, float], name: str, factor: float) -> float | None:
    return factor * printed[name] if name in printed else None


def _of_benchmarks(column: str, figure: Published) -> Measured:
    """A column of the table of the benchmarks: of one of them, or the mean."""
    rows = rows_by_name()
    if figure.kernel != MEAN:
        return Measured(rows[figure.kernel][column])
    by_benchmark = {name: row[column] for name, row in rows.items() if name != MEAN}
    return Measured(rows[MEAN][column], by_kernel=by_benchmark)


def _delay_increase(figure: Published, reading: str) -> Measured:
    finfet, conditions = structures.parts().finfet, structures.Conditions()
    if figure.technique == "baseline":
        if figure.scenario == "L2":
            return Measured(100 * float(conditions.delay(finfet, structures.L2_BASE_DUTY)))
        return Measured(100 * float(conditions.delay(finfet, structures.BASE_DUTY)))
    return _of_benchmarks("l2_pct" if figure.scenario == "L2" else f"{reading}_pct", figure)


def _temperature_drop(figure: Published, reading: str) -> Measured:
    return _of_benchmarks("drop_K", figure)


def _filter_rate(figure: Published, reading: str) -> Measured:
    rates = {
        name: 100 * benchmark.filter_rate for name, benchmark in structures.benchmarks().items()
    }
    return Measured(float(np.mean(list(rates.values()))), by_kernel=rates)


def _ready_warps(figure: Published, reading: str) -> Measured:
    """Largest share of the warps that the first stage lets through."""
    return Measured(
        100 * max(1 - benchmark.filter_rate for benchmark in structures.benchmarks().values())
    )


ZHANG_2015_METRICS: dict[str, HeterogeneityMetric] = {
    "delay_increase": _delay_increase,
    "temperature_drop": _temperature_drop,
    "filter_rate": _filter_rate,
    "ready_warps": _ready_warps,
}
