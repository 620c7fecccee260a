"""`mcage.open_results`: a results file as a dataset that knows its cases by their parts."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import xarray as xr

from mcage.analysis.accessor import Analysis
from mcage.analysis.parts_index import PartsIndex
from mcage.results import reader

if TYPE_CHECKING:

    class Results(xr.Dataset):  # type: ignore[no-untyped-call]
        """A dataset whose accessor editors and type checkers know; no class of its own."""

        @property
        def mcage(self) -> Analysis:
            """Statistics, tables and figures of these results."""

else:
    Results = xr.Dataset


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a results file lazily, by name of variable and dimension.

    What is in a file says docs/results-format.md. The cases of a sweep are found by their parts,
    too: ``results.sel(technique="rrcd", environment="dvfs")`` gives all cases of these, and keeps
    the dimension ``case``; ``results.mcage.cube()`` has technique, environment, scenario and Vdd
    as dimensions. ``results.mcage`` computes what `mcage show` prints.

    Parameters
    ----------
    path : str or path
        File that a campaign wrote.

    Returns
    -------
    xarray.Dataset
        Values are read when they are needed. Close it, or use it in a ``with`` block.

    Raises
    ------
    UserError
        The file is missing, not readable, not a results file, damaged, or of a newer mcage.
    """
    results = reader.open_results(Path(path))
    parts = [
        str(name)
        for name, coordinate in results.coords.items()
        if coordinate.dims == ("case",) and name != "case"
    ]
    if parts:
        results = results.set_xindex(parts, PartsIndex)
    return cast(Results, results)
