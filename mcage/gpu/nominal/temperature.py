"""Temperatures of the blocks of a GPU under the powers of a CSV file."""

from pathlib import Path
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.gpu.chip import Gpu
from mcage.gpu.thermal.network import HIGHEST_KELVIN
from mcage.plain_text import shortened

_MOST_WATTS = 1e4


def temperatures(path: Path, gpu: Gpu, seconds: float | None = None) -> list[dict[str, Any]]:
    """Temperature of each block of each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``block`` and ``power_W``, and ``case`` where there are several
        cases. Blocks that a case does not name have no power.
    gpu : Gpu
        Floorplan and package.
    seconds : float, optional
        Time for which the powers have lasted, on a GPU that was as cold as the air; by default they
        have lasted for ever.

    Returns
    -------
    list of dict
        The columns of the file, and ``temperature_K``.

    Raises
    ------
    UserError
        The file cannot be read; a block is unknown or stands twice in a case; a power makes no
        sense, or heats a block beyond 450 K, where the constants of the package mean nothing.
    """
    names = gpu.network.floorplan.names
    cases: dict[str, list[Row]] = {}
    for row in read_table(path, ("block", "power_W")):
        cases.setdefault(row.values.get("case", ""), []).append(row)
    results = []
    for rows in cases.values():
        power = np.zeros(len(names))
        given: set[int] = set()
        for row in rows:
            block = names.index(row.text("block", names))
            if block in given:
                raise UserError(f"{row.source}: block {shortened(names[block])} stands twice")
            given.add(block)
            power[block] = row.number("power_W", 0, _MOST_WATTS)
        kelvin = gpu.network.steady(power)
        if seconds is not None:
            rise = gpu.network.transient(np.zeros(gpu.network.nodes), power, seconds)
            kelvin = gpu.network.package.ambient_kelvin + rise[: len(names)]
        if kelvin.max() > HIGHEST_KELVIN:
            hottest = names[int(kelvin.argmax())]
            raise UserError(
                f"{rows[0].source} and what follows: {power.sum():.4g} W heat block {hottest} to "
                f"{kelvin.max():.0f} K; the model is meant for at most {HIGHEST_KELVIN:g} K"
            )
        results += [
            row.plain() | {"temperature_K": float(kelvin[names.index(row.values["block"])])}
            for row in rows
        ]
    return results
