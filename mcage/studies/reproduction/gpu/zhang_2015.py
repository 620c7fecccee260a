"""Figures of Zhang et al., "NBTI alleviation on FinFET-made GPUs".

INTEGRATION 2015: a two-stage warp scheduler, and an L2 that is read after its planar tags.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mcage.gpu.heterogeneity.aging import Conditions
from mcage.gpu.heterogeneity.benchmarks import (
    MEAN_BASELINE_DELAY,
    MEAN_L2_BASELINE_DELAY,
    benchmarks,
)
from mcage.gpu.heterogeneity.designs import DUPLICATION, HeterogeneousGpu
from mcage.gpu.heterogeneity.l2 import SequentialL2
from mcage.gpu.heterogeneity.parts import parts
from mcage.gpu.heterogeneity.scheduler import BASE_DUTY, READINGS, TwoStage
from mcage.gpu.nominal.benchmarks import MEAN as MEAN_ROW
from mcage.gpu.nominal.benchmarks import benchmark_rows
from mcage.studies.reproduction.measured import Measured
from mcage.studies.reproduction.published import MEAN, Published

PAPER = "004"

HeterogeneityMetric = Callable[[Published, str], Measured]
"""Computes a printed value under a reading of what a filtered read changes."""

__all__ = ["METRICS", "PAPER", "READINGS", "duplicated_l2_delay", "rows_by_name"]


@cache
def rows_by_name() -> dict[str, dict[str, Any]]:
    """Rows of `benchmark_rows` with the shipped constants, by benchmark."""
    return {row["benchmark"]: row for row in benchmark_rows(parts())}


def duplicated_l2_delay() -> float:
    """Delay increase of an L2 that takes turns with a copy; the baseline has the printed mean."""
    gpu = HeterogeneousGpu(
        parts(),
        Conditions(),
        TwoStage(),
        SequentialL2(),
        scheduler_delay=MEAN_BASELINE_DELAY,
        l2_delay=MEAN_L2_BASELINE_DELAY,
    )
    return float(gpu.delays(DUPLICATION, filter_rate=0.0, miss_rate=0.0).l2)


def _of_benchmarks(column: str, figure: Published) -> Measured:
    """A column of the table of the benchmarks: of one of them, or the mean."""
    rows = rows_by_name()
    if figure.kernel != MEAN:
        return Measured(rows[figure.kernel][column])
    by_benchmark = {name: row[column] for name, row in rows.items() if name != MEAN_ROW}
    return Measured(rows[MEAN_ROW][column], by_kernel=by_benchmark)


def _delay_increase(figure: Published, reading: str) -> Measured:
    finfet, conditions = parts().finfet, Conditions()
    if figure.technique == "baseline":
        if figure.scenario == "L2":
            return Measured(100 * float(SequentialL2().parallel_delay(finfet, conditions)))
        return Measured(100 * float(conditions.delay(finfet, BASE_DUTY)))
    return _of_benchmarks("l2_pct" if figure.scenario == "L2" else f"{reading}_pct", figure)


def _temperature_drop(figure: Published, reading: str) -> Measured:
    return _of_benchmarks("drop_K", figure)


def _filter_rate(figure: Published, reading: str) -> Measured:
    rates = {name: 100 * benchmark.filter_rate for name, benchmark in benchmarks().items()}
    return Measured(float(np.mean(list(rates.values()))), by_kernel=rates)


def _ready_warps(figure: Published, reading: str) -> Measured:
    """Largest share of the warps that the first stage lets through."""
    return Measured(100 * max(1 - benchmark.filter_rate for benchmark in benchmarks().values()))


METRICS: dict[str, HeterogeneityMetric] = {
    "delay_increase": _delay_increase,
    "temperature_drop": _temperature_drop,
    "filter_rate": _filter_rate,
    "ready_warps": _ready_warps,
}
