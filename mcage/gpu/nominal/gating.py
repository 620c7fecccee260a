"""SM gating of equal SMs, launch by launch, for the cases of a CSV file."""

from pathlib import Path
from typing import Any

import numpy as np

from mcage.aging.nbti import NbtiModel, Transistors
from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, ROUNDS, Rounds
from mcage.plain_text import shortened

COUNTS = "active_SMs_per_round_cyclic"

OTHER_NAMES = {"paper": "least-shift"}
"""Policies by other names; underscores may stand for hyphens, too."""

_MOST_ROUNDS = 1_000_000


def gated_cases(path: Path, model: NbtiModel, vdd_volts: float = 1.0) -> list[dict[str, Any]]:
    """Shifts after the last round, for each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``policy`` and ``active_SMs_per_round_cyclic`` (counts with spaces
        between them, repeated until there are enough) and, where they differ from the defaults,
        ``case``, ``SMs``, ``rounds``, ``round_s``, ``temperature_K``.
    model : NbtiModel
        How SMs age.
    vdd_volts : float
        Supply voltage, V.

    Returns
    -------
    list of dict
        The columns of the file, and ``max_dVth_mV``, ``min_dVth_mV``, ``mean_dVth_mV`` of all SMs,
        and ``mitigation_pct``: how far the largest shift lies below that of an SM that always
        works.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.
    """
    return [_of_row(row, model, vdd_volts) for row in read_table(path, ("policy", COUNTS))]


def _of_row(row: Row, model: NbtiModel, vdd_volts: float) -> dict[str, Any]:
    sms = row.integer("SMs", 1, 127, 16)
    rounds = row.integer("rounds", 1, _MOST_ROUNDS, ROUNDS)
    kelvin = row.number("temperature_K", 200, 450, 353.15)
    history = Rounds(
        model=model,
        counts=np.resize(_counts(row, sms), rounds),
        seconds=row.number("round_s", 1e-12, 1e9, ROUND_SECONDS),
        vdd_volts=vdd_volts,
        transistors=Transistors(temperature_kelvin=kelvin),
        sms=sms,
    )
    name = row.text("policy").replace("_", "-")
    try:
        shifts = 1e3 * history.dvth_volts(policy(OTHER_NAMES.get(name, name)))
    except UserError as error:
        raise UserError(f"{row.source}: {error}") from error
    always = 1e3 * history.dvth_volts(policy("default"))
    return row.plain() | {
        "max_dVth_mV": float(shifts.max()),
        "min_dVth_mV": float(shifts.min()),
        "mean_dVth_mV": float(shifts.mean()),
        "mitigation_pct": float(100 * (1 - shifts.max() / always.max())),
    }


def _counts(row: Row, sms: int) -> list[int]:
    counts = []
    for text in row.text(COUNTS).split():
        if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= sms:
            raise UserError(
                f"{row.source}: {COUNTS} = {shortened(text)} must be 1 ... {sms}, the SMs of "
                "the GPU"
            )
        counts.append(int(text))
    return counts
