"""The table of a study that brings none of its own: the mean of each variable over instances."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.report.cases import Condition, selected
from mcage.report.tables.table import ResultTable, estimates, file_column, names, numbers
from mcage.results.header import OLDEST_STUDY
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, plus_minus

KEYS = ("variable",)
"""What lines are selected by."""


@dataclass(frozen=True)
class VariableSummary:
    """What the table says about a variable.

    Parameters
    ----------
    study : str
        The study that computed it.
    variable, label : str
        The variable, and the place in its other dimensions; empty if it has no others.
    units : str
        Its unit.
    instances : int
        Instances that have a value.
    mean : Estimate
        Mean over these instances.
    """

    study: str
    variable: str
    label: str
    units: str
    instances: int
    mean: Estimate


def summarize(results: xr.Dataset) -> list[VariableSummary]:
    """Summarize all variables of numbers that each instance has, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    """
    study = str(results.attrs.get("study", OLDEST_STUDY))
    return [
        VariableSummary(
            study,
            str(name),
            " ".join(str(array[dim].values[i]) for dim, i in zip(others, place, strict=True)),
            str(array.attrs.get("units", "1")),
            int(np.count_nonzero(~np.isnan(values[place]))),
            mean(values[place]),
        )
        for name, array in results.data_vars.items()
        if "instance" in array.dims and "flag_values" not in array.attrs
        for others in ([dim for dim in array.dims if dim != "instance"],)
        for values in (array.transpose(*others, "instance").values,)
        for place in np.ndindex(values.shape[:-1])
    ]


def summarize_file(path: Path, where: Sequence[Condition] = ()) -> list[VariableSummary]:
    """Summaries of the variables that fulfil all conditions, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
    """
    with open_results(path) as results:
        return selected(summarize(results), where, KEYS, path)


def table_of(summaries: Sequence[VariableSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table of the variables, of several files where their paths are given.

    Parameters
    ----------
    summaries : sequence of VariableSummary
        Of one study, at least one.
    files : sequence of Path
        The file of each of them, where there are several files.
    """
    return ResultTable(
        title=summaries[0].study,
        caption=f"means over instances, {CONFIDENCE:.0%} intervals",
        columns=(
            *file_column(files),
            names("variable", "variable", [row.variable for row in summaries]),
            names("of", "of", [row.label for row in summaries]),
            names("unit", "unit", [row.units for row in summaries]),
            numbers("instances", "instances", [row.instances for row in summaries], primary=True),
            estimates("mean", "mean", [row.mean for row in summaries], plus_minus, primary=True),
        ),
    )
