"""Optimal numbers of SMs of kernels in a CSV file: the time model and Algorithm 1."""

from pathlib import Path
from typing import Any

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.gpu.gating.time_model import READINGS, KernelTiming, Machine, TimeModel

NEEDED = (
    "global_latency_cycles",
    "cache_latency_cycles",
    "miss_rate",
    "load_bytes_per_thread",
    "comp_cycles",
    "total_warps",
    "total_workload_warps",
)
"""Columns that a file must have; for the others there are defaults."""

_MOST = 1e15


def optima(path: Path, machine: Machine) -> list[dict[str, Any]]:
    """Cycles and number of SMs of each kernel of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns `NEEDED` and, where they differ from the defaults, ``kernel``,
        ``SMs``, ``min_SMs``, ``delta``, ``reading``, ``whole_warps``, ``bandwidth_B_per_s``,
        ``f_Hz``.
    machine : Machine
        Defaults of SMs, bandwidth and clock.

    Returns
    -------
    list of dict
        The columns of the file, and ``cycles_all_SMs``, ``cycles_optimum``, ``optimum_SMs``.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.
    """
    return [_of_row(row, machine) for row in read_table(path, NEEDED)]


def _of_row(row: Row, default: Machine) -> dict[str, Any]:
    machine = Machine(
        row.integer("SMs", 1, 10_000, default.sms),
        row.number("bandwidth_B_per_s", 1, _MOST, default.bandwidth_bytes_per_s),
        row.number("f_Hz", 1, _MOST, default.clock_hz),
    )
    model = TimeModel(
        reading=row.text("reading", READINGS, "literal"),  # type: ignore[arg-type]
        whole_warps=bool(row.integer("whole_warps", 0, 1, 0)),
        delta=row.number("delta", 0, 10, 0.08),
        min_sms=row.integer("min_SMs", 1, machine.sms, min(4, machine.sms)),
    )
    kernel = KernelTiming(
        row.number("global_latency_cycles", 1e-9, _MOST),
        row.number("cache_latency_cycles", 1e-9, _MOST),
        row.number("miss_rate", 0, 1),
        row.number("load_bytes_per_thread", 0, _MOST),
        row.number("comp_cycles", 1e-9, _MOST),
        row.number("total_warps", 1e-9, _MOST),
        row.number("total_workload_warps", 1e-9, _MOST),
    )
    try:
        cycles, best = model.cycles(kernel, machine), model.optimum(kernel, machine)
    except UserError as error:
        raise UserError(f"{row.source}: {error}") from error
    return row.plain() | {
        "cycles_all_SMs": float(cycles[-1]),
        "cycles_optimum": float(cycles[best - 1]),
        "optimum_SMs": best,
    }
