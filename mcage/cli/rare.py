"""``mcage rare``: the probability of an early death."""

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.run_options import Engine, Json, ProgressKind
from mcage.cli.spec_options import CASE, ONE_CASE, SpecArguments, SpecOptions
from mcage.plain_text import visible

if TYPE_CHECKING:
    from mcage.stats.estimates import Estimate
    from mcage.studies.rare_events import RareEstimate

DEFAULTS: dict[str, Any] = ONE_CASE | {"instances": 20_000}
"""Where an estimate differs from a sweep unless told otherwise."""


def rare(
    *,
    age: Annotated[
        float,
        typer.Option(
            metavar="YEARS",
            help="Age in years; 0: dead on arrival.",
            rich_help_panel=CASE,
        ),
    ] = 0.0,
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "rare",
            DEFAULTS,
            single_case=True,
            help={
                "--technique": "Protection technique, as `mcage techniques` lists them, or a "
                "user-defined one as module:NAME; needed, unless SPEC names one.",
                "--instances": "Number of slices to draw. Default: 20000.",
            },
        ),
    ],
    engine: Engine = "auto",
    json: Json = False,
    progress: ProgressKind = None,
) -> None:
    """Estimate the probability that a slice is dead by an age, however small, with its interval."""
    from mcage.campaign.progress import progress_on_stderr
    from mcage.engines.select import select_engine
    from mcage.studies.rare_events import failure_probability

    spec = arguments.spec()
    selected, _ = select_engine(engine)
    estimate = failure_probability(
        spec, age, spec.instances, engine=selected, progress=progress_on_stderr(progress)
    )
    if json:
        _print_json(spec, age, estimate)
        return
    _print_words(estimate, age)


def _print_json(spec: Any, age_years: float, estimate: "RareEstimate") -> None:
    from dataclasses import asdict
    from math import isfinite

    from mcage.stats.estimates import plain

    # JSON knows no infinity.
    values = {
        key: None if isinstance(value, float) and not isfinite(value) else value
        for key, value in asdict(estimate).items()
    }
    values["failed_ppm"] = plain(estimate.failed_ppm)
    values["mean_rate_fit"] = plain(estimate.mean_rate_fit(age_years)) if age_years > 0 else None
    case = spec.model_dump(mode="json", exclude_none=True, exclude={"instances"})
    typer.echo(json_module.dumps({"case": case, "age_years": age_years} | values, indent=2))


def _print_words(estimate: "RareEstimate", age_years: float) -> None:
    when = "on arrival" if age_years == 0 else f"by {age_years:g} years"
    typer.echo(
        f"dead {when}: {estimate.probability:.3g} "
        f"({estimate.confidence:.0%} interval {estimate.lower:.3g} ... {estimate.upper:.3g})"
    )
    typer.echo(f"of a million slices: {_with_bounds(estimate.failed_ppm, 'ppm')}")
    if age_years > 0:
        rate = _with_bounds(estimate.mean_rate_fit(age_years), "FIT")
        typer.echo(
            f"mean failure rate until then: {rate}: failures in 1e9 hours of a slice, deaths on "
            "arrival among them"
        )
    typer.echo(
        f"{estimate.failures} of {estimate.instances} slices drawn were dead, worth "
        f"{estimate.effective_samples:.4g} of equal weight"
    )
    for warning in estimate.warnings:
        typer.echo(visible(f"warning: {warning}"), err=True)


def _with_bounds(estimate: "Estimate", unit: str) -> str:
    return f"{estimate.value:.3g} {unit} ({estimate.lower:.3g} ... {estimate.upper:.3g})"
