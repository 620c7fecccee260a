"""The table of a study that brings none of its own: the mean of each variable over instances."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcage.report.tables.table import ResultTable, estimates, file_column, names, numbers
from mcage.results.quantity import mean_of
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.wording import plus_minus


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


def summarize_file(path: Path) -> list[VariableSummary]:
    """Summaries of all variables of numbers that each instance has, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    header = read_header(path)
    summaries = []
    with open_results(path) as results:
        for variable in header.variables:
            if not variable.per_instance or variable.flags:
                continue
            values = results[variable.name].values
            precisions = mean_of(variable).precisions(header, {variable.name: values})
            counts = np.count_nonzero(~np.isnan(values), axis=variable.instance_axis).ravel()
            for (label, precision), count in zip(precisions.items(), counts, strict=True):
                summaries.append(
                    VariableSummary(
                        header.study,
                        variable.name,
                        label,
                        variable.units,
                        int(count),
                        precision.estimate,
                    )
                )
    return summaries


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
