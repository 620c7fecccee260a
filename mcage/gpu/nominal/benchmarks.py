"""Benchmarks of Zhang et al. under each reading, beside what the paper prints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcage.gpu.heterogeneity.aging import Conditions
from mcage.gpu.heterogeneity.benchmarks import (
    MEAN_BASELINE_DELAY,
    Benchmark,
    benchmarks,
    printed_means,
)
from mcage.gpu.heterogeneity.l2 import SequentialL2
from mcage.gpu.heterogeneity.parts import Parts
from mcage.gpu.heterogeneity.scheduler import READINGS, TwoStage, ipc_overhead

MEAN = "mean"


def benchmark_rows(parts: Parts, count_fills: bool = False) -> list[dict[str, Any]]:
    """Rows of the ten benchmarks and of their mean; delays in %, temperatures in K.

    Parameters
    ----------
    parts : Parts
        FinFET and planar transistors.
    count_fills : bool
        As of `SequentialL2`.

    Returns
    -------
    list of dict
        What is printed has ``printed`` in its name, and is None where the paper prints nothing.
        Benchmarks without a printed baseline have the printed mean of 7.7 %; those without a
        printed miss rate have `USUAL_MISS_RATE` (assumed), and those without a printed latency no
        projected IPC. The mean is taken with the printed mean as the baseline of each.
    """
    selected = tuple(benchmarks().values())
    rows = [_row(benchmark, parts, count_fills) for benchmark in selected]
    at_mean = [
        _row(replace(benchmark, baseline_delay=MEAN_BASELINE_DELAY), parts, count_fills)
        for benchmark in selected
    ]
    return [*rows, _mean(at_mean)]


def _row(benchmark: Benchmark, parts: Parts, count_fills: bool) -> dict[str, Any]:
    conditions = Conditions()
    l2 = SequentialL2(count_fills=count_fills)
    delays = {
        f"{reading}_pct": TwoStage(reading).delay(
            parts.finfet, conditions, benchmark.scheduler_delay, benchmark.filter_rate
        )
        for reading in READINGS
    }
    latency = benchmark.latency_cycles
    return {
        "benchmark": benchmark.name,
        "filter_rate": benchmark.filter_rate,
        "baseline_pct": 100 * benchmark.scheduler_delay,
        **{name: 100 * float(delay) for name, delay in delays.items()},
        "printed_pct": _scaled(benchmark.printed, "two_stage_delay", 100),
        "drop_K": float(TwoStage().drop_kelvin(benchmark.filter_rate)),
        "printed_drop_K": _scaled(benchmark.printed, "temperature_drop", 1),
        "projected_IPC": None if latency is None else float(1 / (1 + ipc_overhead(latency))),
        "l2_miss_rate": benchmark.miss_rate,
        "l2_pct": 100 * float(l2.delay(parts.finfet, conditions, benchmark.miss_rate)),
        "printed_l2_pct": _scaled(benchmark.printed, "l2_delay", 100),
    }


def _mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what each benchmark has, and the printed means."""
    means: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        is_number = all(isinstance(value, float) for value in values)
        means[name] = float(np.mean(values)) if is_number else None
    printed = printed_means()
    return means | {
        "benchmark": MEAN,
        "printed_pct": _scaled(printed, "two_stage_delay", 100),
        "printed_l2_pct": _scaled(printed, "l2_delay", 100),
    }


def _scaled(printed: dict[str, float], name: str, factor: float) -> float | None:
    return factor * printed[name] if name in printed else None
