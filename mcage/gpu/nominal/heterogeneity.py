"""Scheduler and L2 of planar and FinFET parts, for the cases of a CSV file."""

from pathlib import Path
from typing import Any

from mcage.files.csv_table import Row, read_table
from mcage.gpu.heterogeneity.aging import Conditions
from mcage.gpu.heterogeneity.l2 import SequentialL2
from mcage.gpu.heterogeneity.parts import Parts
from mcage.gpu.heterogeneity.scheduler import READINGS, TwoStage

NEEDED = ("base_duty", "filter_rate", "baseline_delay_pct", "l2_miss_rate")


def heterogeneous_cases(path: Path, parts: Parts, count_fills: bool) -> list[dict[str, Any]]:
    """Delay increases of each case of a file, in %.

    Parameters
    ----------
    path : Path
        CSV file with the columns `NEEDED`.
    parts : Parts
        FinFET and planar transistors.
    count_fills : bool
        As of `SequentialL2`.

    Returns
    -------
    list of dict
        The columns of the file; the two-stage scheduler under each reading (``activity_pct``,
        ``combined_pct``, ``thermal_0972_pct``), the L2 data array read after its tags
        (``l2_sequential_delay_pct``), and a transistor of each kind at the base duty.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.
    """
    return [_of_row(row, parts, count_fills) for row in read_table(path, NEEDED)]


def _of_row(row: Row, parts: Parts, count_fills: bool) -> dict[str, Any]:
    conditions = Conditions()
    duty = row.number("base_duty", 1e-6, 1)
    rate = row.number("filter_rate", 0, 1)
    baseline = row.number("baseline_delay_pct", 0, 1e4) / 100
    l2 = SequentialL2(base_duty=duty, count_fills=count_fills)
    delays = {
        ("thermal_0972_pct" if reading == "thermal" else f"{reading}_pct"): TwoStage(
            reading, duty
        ).delay(parts.finfet, conditions, baseline, rate)
        for reading in READINGS
    }
    delays["l2_sequential_delay_pct"] = l2.delay(
        parts.finfet, conditions, row.number("l2_miss_rate", 0, 1)
    )
    delays["finfet_delay_at_base_duty_pct"] = conditions.delay(parts.finfet, duty)
    delays["planar_delay_at_base_duty_pct"] = conditions.delay(parts.planar, duty)
    return row.plain() | {name: 100 * float(delay) for name, delay in delays.items()}
