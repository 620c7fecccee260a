"""What a table of slices must say where slices share dies that differ."""

import tomllib
from pathlib import Path
from typing import Any

from mcage.results.reader import read_campaign
from mcage.variation import scenario


def note_on_shared_dies(path: Path) -> str | None:
    """One line to stand under a table of slices that are not independent, or None if they are.

    Parameters
    ----------
    path : Path
        Results file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    campaign = read_campaign(path)
    faults: dict[str, Any] = tomllib.loads(campaign.spec_toml).get("faults", {})
    slices = int(faults.get("slices_per_chip", 1))
    differ = any(
        faults.get("sigma_die_volts", scenario(case.scenario).sigma_die_volts) > 0
        for case in campaign.cases
    )
    if slices == 1 or not differ:
        return None
    return (
        f"WARNING: {slices} slices share each die, and dies differ: slices are not independent, so "
        f"these intervals are too narrow. Use mcage show {path} --slices-per-chip {slices}"
    )
