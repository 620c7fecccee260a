"""``mcage rare|sensitivity``: how probable an early death is, and which assumption matters."""

import json as json_module
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mcage.campaign.progress import progress_on_stderr
from mcage.cli.commands import RUN, Engine, Json, ProgressKind
from mcage.cli.spec_options import CASE, ONE_CASE, SpecArguments, SpecOptions
from mcage.engines import select_engine
from mcage.plain_text import visible
from mcage.report.tables import console, print_table
from mcage.stats.estimates import Estimate, plain

if TYPE_CHECKING:
    from mcage.methods.rare_events import RareEstimate, RareVdd

RARE_DEFAULTS: dict[str, Any] = ONE_CASE | {"instances": 20_000}
"""Defaults in which an estimate differs from a sweep."""


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
    probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="In place of --vdd: find the Vdd at which slices are dead with this probability.",
            rich_help_panel=CASE,
        ),
    ] = None,
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "rare",
            RARE_DEFAULTS,
            single_case=True,
            help={
                "--technique": "Protection technique, as `mcage techniques` lists them, or a "
                "user-defined one as module:NAME; needed, unless SPEC names one.",
                "--instances": "Number of slices to draw. Default: 20000.",
            },
            without=("protections", "draws", "aging.nbti_spread_mv", "faults.mode"),
        ),
    ],
    engine: Engine = "auto",
    json: Json = False,
    progress: ProgressKind = None,
) -> None:
    """Estimate the probability that a slice is dead by an age, however small, with its interval.

    With --probability, find the lowest Vdd at which that probability is not exceeded.
    """
    from mcage.methods.rare_events import failure_probability, vdd_for_probability

    spec = arguments.spec()
    selected, _ = select_engine(engine)
    shown = progress_on_stderr(progress)
    if probability is not None:
        answer = vdd_for_probability(
            spec, probability, age, spec.instances, engine=selected, progress=shown
        )
        if json:
            _print_json(spec, age, _vdd_as_plain(answer, probability, age))
        else:
            _print_vdd(answer, probability, age)
        return
    estimate = failure_probability(spec, age, spec.instances, engine=selected, progress=shown)
    if json:
        _print_json(spec, age, _as_plain(estimate, age))
        return
    _print_words(estimate, age)


def _print_json(spec: Any, age_years: float, values: dict[str, Any]) -> None:
    from mcage.studies.sweep.plan import with_programs

    named = with_programs(spec)
    case = named.model_dump(mode="json", exclude_none=True, exclude={"instances"})
    typer.echo(json_module.dumps({"case": case, "age_years": age_years} | values, indent=2))


def _as_plain(estimate: "RareEstimate", age_years: float) -> dict[str, Any]:
    rate = plain(estimate.mean_rate_fit(age_years)) if age_years > 0 else None
    of_million = {"failed_ppm": plain(estimate.failed_ppm), "mean_rate_fit": rate}
    return {**plain(estimate), **of_million}


def _vdd_as_plain(answer: "RareVdd", probability: float, age_years: float) -> dict[str, Any]:
    tried = [{"vdd_volts": volts} | _as_plain(by, age_years) for volts, by in answer.tried]
    return {
        "probability": probability,
        "vdd_volts": plain(answer.vdd_volts),
        "score_per_volt": answer.score_per_volt,
        "tried": tried,
        "warnings": answer.warnings,
    }


def _print_vdd(answer: "RareVdd", probability: float, age_years: float) -> None:
    vdd = answer.vdd_volts
    for volts, by in answer.tried:
        typer.echo(
            f"at {volts:.4f} V dead {_when(age_years)}: {by.probability:.3g} "
            f"({by.lower:.3g} ... {by.upper:.3g}), from {by.instances} slices"
        )
    typer.echo(
        f"Vdd at which {probability:g} are dead {_when(age_years)}: {vdd.value:.4f} V "
        f"({answer.tried[-1][1].confidence:.0%} interval {vdd.lower:.4f} ... {vdd.upper:.4f})"
    )
    _warn(answer.warnings)


def _when(age_years: float) -> str:
    return "on arrival" if age_years == 0 else f"by {age_years:g} years"


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        typer.echo(visible(f"warning: {warning}"), err=True)


def _print_words(estimate: "RareEstimate", age_years: float) -> None:
    typer.echo(
        f"dead {_when(age_years)}: {estimate.probability:.3g} "
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
    _warn(estimate.warnings)


def _with_bounds(estimate: Estimate, unit: str) -> str:
    return f"{estimate.value:.3g} {unit} ({estimate.lower:.3g} ... {estimate.upper:.3g})"


# ``mcage sensitivity``: which assumption matters.

SENSITIVITY_DEFAULTS: dict[str, Any] = ONE_CASE | {
    "instances": 200,
    "techniques": ["rrcd"],
}
"""Defaults in which a study differs from a sweep: one case, and fewer dies."""

STUDY = "What to vary"


@dataclass(frozen=True)
class StudyOptions:
    """Parameters of a study, its method, and the quantity whose change it asks for."""

    panel: ClassVar = STUDY

    method: Annotated[str, typer.Option(metavar="NAME")] = "one-at-a-time"
    """Method: one-at-a-time or sobol."""
    of: Annotated[str, typer.Option(metavar="QUANTITY")] = "median_life"
    """Output quantity: median_life, rmst (mean life up to the horizon), censored_share, another
    measure of a sweep, or at the horizon max_dvth or delay."""
    parameter: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None
    """Parameter to vary. May be repeated. Default: all that can matter."""
    range_: Annotated[list[str] | None, typer.Option("--range", metavar="NAME=RANGE")] = None
    """Range of a parameter or of a key of the spec: NAME=LOW..HIGH or NAME=ONE,OTHER. May be
    repeated."""
    refit: Annotated[bool, typer.Option("--refit/--no-refit")] = True
    """Whether amplitude and mu are fitted again, so that published figures stay as they are."""
    samples: Annotated[int, typer.Option(metavar="N")] = 64
    """Number of points of the Sobol' design, a power of two."""


@dataclass(frozen=True)
class OutputOptions:
    """Where a study is computed and written."""

    engine: Engine = "auto"
    json: Json = False
    panel: ClassVar = RUN

    out: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """File to write the study to, as well: .json, .csv, .png, .pdf or .svg."""
    progress: ProgressKind = None


def sensitivity(
    study: StudyOptions,
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "sensitivity",
            SENSITIVITY_DEFAULTS,
            single_case=True,
            help={"--instances": "Number of instances. Default: 200."},
        ),
    ],
    output: OutputOptions,
    list_: Annotated[
        bool,
        typer.Option(
            "--list",
            help="List the shipped ranges with status and source.",
            rich_help_panel=STUDY,
        ),
    ] = False,
) -> None:
    """Show how much a life depends on each constant that is assumed, not known."""
    if list_:
        _list()
        return
    from mcage.methods.sensitivity import SensitivityQuestion
    from mcage.methods.sensitivity_output import as_json, check_path, table_of, write

    question = SensitivityQuestion(**vars(study))
    if output.out:
        check_path(output.out)
    base = arguments.spec()
    engine, reason = select_engine(output.engine)
    progress = progress_on_stderr(output.progress)
    progress.say(f"engine {engine.name} ({reason})")
    result = question.answer(base, engine, progress)
    if output.out:
        write(result, base, output.out)
    if output.json:
        print(as_json(result, base))
    else:
        print_table(table_of(result), console(), remedy="--json")


def _list() -> None:
    from mcage.methods.sensitivity import shipped
    from mcage.methods.sensitivity_output import setting

    for name, entry in shipped().items():
        ends = entry.range or entry.factors
        values = (
            " ... ".join(map(setting, ends))
            if ends
            else ", ".join(map(setting, entry.alternatives))
        )
        times = " times its value" if entry.factors else ""
        unit = "" if entry.unit == "1" or entry.factors else f" {entry.unit}"
        print(f"{name:<18}{entry.key:<40}{values + times + unit:<34}{entry.status}")
        if entry.distributions:
            print(f"    where slices differ: {', '.join(map(setting, entry.distributions))}")
        print(fill(entry.source, 96, initial_indent="    ", subsequent_indent="    "))
