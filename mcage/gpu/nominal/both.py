"""Gating and a protection technique on equal SMs, from shares of the time and duty cycles."""

from pathlib import Path
from typing import Any

from mcage.aging.environment import Environment, OperatingPoint, delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, Transistors
from mcage.files.csv_table import Row, read_table
from mcage.gpu.both.register_files import with_slower_period

LEVELS = ("none", "gating", "registers", "both")


def combined_cases(path: Path, model: NbtiModel, vdd_volts: float = 1.0) -> list[dict[str, Any]]:
    """Shifts of a nominal cell under no level, each level and both, for each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``active_share`` (a, of the SM) and ``duty`` (d, of the cell
        under the technique) and, where they differ from the defaults, ``case``,
        ``reference_duty`` (of the cell without the technique: 1), ``years``, ``temperature_K``,
        ``gating_period_s`` (time after which other SMs work: 0, at each launch).
    model : NbtiModel
        How cells age.
    vdd_volts : float
        Supply voltage, V.

    Returns
    -------
    list of dict
        The columns of the file, and for each level the duty of the cell, its shift
        ``dVth_mV_...``, delay increase ``delay_pct_...``, and what is saved of the shift,
        ``saved_pct_...``; ``independent_pct`` is what both would save if their savings were
        independent.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.

    Notes
    -----
    A cell of a gated SM is off, so that both of its transistors recover: its duty is the product
    a d. Under `bhardwaj` the slower period of the two levels is Tclk.
    """
    return [_of_row(row, model, vdd_volts) for row in read_table(path, ("active_share", "duty"))]


def _of_row(row: Row, model: NbtiModel, vdd_volts: float) -> dict[str, Any]:
    share, duty = (row.number(name, 0, 1) for name in ("active_share", "duty"))
    reference = row.number("reference_duty", 0, 1, 1.0)
    slower = with_slower_period(model, row.number("gating_period_s", 0, 1e9, 0.0))
    duties = (reference, share * reference, duty, share * duty)
    point = OperatingPoint(vdd_volts, 1.0, row.number("temperature_K", 200, 450, 353.15))
    seconds = row.number("years", 0.001, 100, 10.0) * SECONDS_PER_YEAR
    shifts = {}
    for level, cell_duty in zip(LEVELS, duties, strict=True):
        gated = level in ("gating", "both") and share < 1
        shifts[level] = _shift(slower if gated else model, point, cell_duty, seconds)
    left = {
        name: shift / shifts["none"] if shifts["none"] else 1.0 for name, shift in shifts.items()
    }
    delays = {
        name: float(delay_increase(shift, vdd_volts, model.vt0_volts, model.alpha))
        for name, shift in shifts.items()
    }
    return (
        row.plain()
        | {f"duty_{name}": cell for name, cell in zip(LEVELS, duties, strict=True)}
        | {f"dVth_mV_{name}": 1e3 * shift for name, shift in shifts.items()}
        | {f"delay_pct_{name}": 100 * delay for name, delay in delays.items()}
        | {f"saved_pct_{name}": 100 * (1 - left[name]) for name in LEVELS[1:]}
        | {"independent_pct": 100 * (1 - left["gating"] * left["registers"])}
    )


def _shift(model: NbtiModel, point: OperatingPoint, duty: float, seconds: float) -> float:
    rates = model.rates(Environment("gpu", (point,)), Transistors())
    state = model.advance(model.initial_state(()), rates, duty, seconds)
    return float(model.dvth_of(state))
