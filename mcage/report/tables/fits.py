"""The table of fits: Weibull and lognormal distributions, and whether the lives allow them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from mcage.report.cases import lives_of
from mcage.report.selection import Condition, summarized
from mcage.report.tables.table import (
    ResultTable,
    estimates,
    file_column,
    names,
    numbers,
    remarks,
    span,
)
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.fits import Fit, fit_distributions
from mcage.stats.wording import DASH, with_bounds


@dataclass(frozen=True)
class FitSummary:
    """Fits of the lives of one case."""

    label: str
    instances: int
    horizon_years: float
    fits: list[Fit]


def summarize_fits(results: xr.Dataset) -> list[FitSummary]:
    """Fit the lives of each case, in the order of the file."""
    cases = (lives_of(results.isel(case=index)) for index in range(results.sizes["case"]))
    return [
        FitSummary(
            label=lives.label,
            instances=lives.years.size,
            horizon_years=lives.horizon_years,
            fits=fit_distributions(lives.years, lives.died, lives.horizon_years),
        )
        for lives in cases
    ]


def summarize_fits_of_file(path: Path, where: Sequence[Condition] = ()) -> list[FitSummary]:
    """Fit the lives of the cases of a results file that fulfil all conditions.

    Raises
    ------
    UserError
        As `mcage.report.selection.summarized`.
    """
    return summarized(path, summarize_fits, where)


def table_of(summaries: Sequence[FitSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table with a line for each distribution, of several files where their paths are given.

    A case without a fit says why there is none.
    """
    shown = [
        summary.fits if summary.fits[0].parameters else summary.fits[:1] for summary in summaries
    ]
    lines = [(summary, fit) for summary, fits in zip(summaries, shown, strict=True) for fit in fits]
    fits = [fit for _, fit in lines]
    parameters = dict.fromkeys(name for fit in fits for name in fit.parameters)
    pairs = zip(files, shown, strict=True) if files else ()
    return ResultTable(
        title=f"{span([s.instances for s in summaries])} instances per case, horizon "
        f"{span([s.horizon_years for s in summaries])} years",
        caption=f"Distributions of lives of slices that worked at all; {CONFIDENCE:.0%} intervals; "
        "A²: Anderson-Darling up to the horizon",
        columns=(
            *file_column([file for file, of in pairs for _ in of]),
            names("case", "case", [summary.label for summary, _ in lines], groups=True),
            names(
                "distribution",
                "distribution",
                [f.distribution if f.parameters else DASH for f in fits],
            ),
            estimates(
                "dead_on_arrival",
                "dead on\narrival [%]",
                [fit.dead_on_arrival for fit in fits],
                _in_percent,
            ),
            remarks("parameters", [_parameters(fit) for fit in fits], primary=True),
            *(
                estimates(name, "", [fit.parameters.get(name) for fit in fits], with_bounds)
                for name in parameters
            ),
            numbers("anderson_darling", "A²", [f.anderson_darling for f in fits], _short("{:.3g}")),
            numbers("p_value", "p", [fit.p_value for fit in fits], _short("{:.3f}"), primary=True),
            names("verdict", "verdict", [fit.reason for fit in fits]),
        ),
    )


def _in_percent(share: Estimate) -> str:
    return with_bounds(share, 100.0)


def _short(form: str) -> Callable[[float], str]:
    return lambda value: DASH if math.isnan(value) else form.format(value)


def _parameters(fit: Fit) -> str:
    written = (
        f"{name.removesuffix('_years')} {with_bounds(value)}"
        for name, value in fit.parameters.items()
    )
    return "\n".join(written) or DASH
