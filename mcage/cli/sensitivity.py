"""``mcage sensitivity``: which assumption matters."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.shared_options import Engine, Json, ProgressKind
from mcage.cli.spec_arguments import SpecArguments, SpecOptions
from mcage.cli.spec_options import ONE_CASE, RUN

if TYPE_CHECKING:
    from mcage.spec import SweepSpec

ONE_AT_A_TIME, SOBOL = METHODS = ("one-at-a-time", "sobol")

DEFAULTS: dict[str, Any] = ONE_CASE | {"instances": 200, "techniques": ["rrcd"]}
"""Where a study differs from a sweep unless told otherwise: one case, and fewer dies."""

STUDY = "What to vary"


@dataclass(frozen=True)
class StudyOptions:
    """What a study varies, how, and of what it asks for the change."""

    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="Method: one-at-a-time or sobol.", rich_help_panel=STUDY),
    ] = ONE_AT_A_TIME
    of: Annotated[
        str,
        typer.Option(
            metavar="QUANTITY",
            help="Output quantity: median_life, mean_life, survival, max_dvth, delay or "
            "spill_rate.",
            rich_help_panel=STUDY,
        ),
    ] = "median_life"
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Parameter to vary. May be repeated. Default: all that can matter.",
            rich_help_panel=STUDY,
        ),
    ] = None
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="NAME=RANGE",
            help="Range of a parameter or of a key of the spec: NAME=LOW..HIGH or "
            "NAME=ONE,OTHER. May be repeated.",
            rich_help_panel=STUDY,
        ),
    ] = None
    ranges: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file of ranges, in the form of the shipped ones.",
            rich_help_panel=STUDY,
        ),
    ] = None
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Whether amplitude and mu are fitted again, so that published figures stay as "
            "they are.",
            rich_help_panel=STUDY,
        ),
    ] = True
    samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Number of points of the Sobol' design, a power of two.",
            rich_help_panel=STUDY,
        ),
    ] = 64


@dataclass(frozen=True)
class OutputOptions:
    """Where a study is computed and written."""

    engine: Engine = "auto"
    json: Json = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write the study to, as well: .json, .csv, .png, .pdf or .svg.",
            rich_help_panel=RUN,
        ),
    ] = None
    progress: ProgressKind = None


def sensitivity(
    study: StudyOptions,
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "sensitivity",
            DEFAULTS,
            single_case=True,
            help={"--instances": "Number of dies. Default: 200."},
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
    _check(study, output)
    base = arguments.spec()
    _run(base, _varied(base, study), study, output)


def _check(study: StudyOptions, output: OutputOptions) -> None:
    """Refuse options that no study could take, before anything is read or computed."""
    from mcage.errors import UserError
    from mcage.studies.sensitivity import QUANTITIES
    from mcage.studies.sensitivity.output import check_path
    from mcage.studies.sensitivity.sobol import check_samples

    if study.method not in METHODS:
        raise UserError(f"--method {study.method}: choose from {', '.join(METHODS)}")
    if study.of not in QUANTITIES:
        raise UserError(f"--of {study.of}: choose from {', '.join(QUANTITIES)}")
    check_samples(study.samples)
    if output.out:
        check_path(output.out)


def _varied(base: "SweepSpec", study: StudyOptions) -> list[Any]:
    """Parameters and choices: those that are named, or all that can matter to the quantity.

    A parameter whose range stands on the command line is among them, or is refused.
    """
    from mcage.errors import UserError
    from mcage.studies.sensitivity import (
        QUANTITIES,
        check_keys,
        chosen,
        from_file,
        shipped,
        user_range,
    )

    entries = shipped()
    if study.ranges:
        in_file = from_file(study.ranges)
        check_keys(in_file, base, str(study.ranges))
        entries |= in_file
    given = [user_range(text, entries) for text in study.range_ or ()]
    asked = [entry.name for entry in given]
    entries |= dict(zip(asked, given, strict=True))
    if study.parameter:
        for name in asked:
            if name not in study.parameter:
                raise UserError(f"--range {name}: --parameter does not name it")
        return chosen(base, entries, study.parameter)
    entries = {
        name: entry
        for name, entry in entries.items()
        if name in asked
        or (
            entry.applies(base)
            and entry.key not in QUANTITIES[study.of].changes
            and not (entry.alternatives and study.method == SOBOL)
        )
    }
    return chosen(base, entries, list(entries))


def _run(base: "SweepSpec", varied: list[Any], study: StudyOptions, output: OutputOptions) -> None:
    from mcage.campaign.progress.choice import progress_on_stderr
    from mcage.engines.select import select_engine
    from mcage.report.console import console
    from mcage.studies.sensitivity import QUANTITIES, SensitivityStudy, Sobol, one_at_a_time, sobol
    from mcage.studies.sensitivity.output import as_json, write
    from mcage.studies.sensitivity.tables import print_one_at_a_time, print_sobol

    engine, reason = select_engine(output.engine)
    progress = progress_on_stderr(output.progress)
    of_base = SensitivityStudy(base, QUANTITIES[study.of], engine, study.refit, progress)
    progress.say(f"engine {engine.name} ({reason}); {of_base.label}")
    if study.method == SOBOL:
        result: Any = sobol(of_base, varied, study.samples)
    else:
        result = one_at_a_time(of_base, varied)
    if output.out:
        write(result, base, output.out)
    if output.json:
        print(as_json(result, base))
    elif isinstance(result, Sobol):
        print_sobol(result, console())
    else:
        print_one_at_a_time(result, console())


def _list() -> None:
    from textwrap import fill

    from mcage.studies.sensitivity import shipped
    from mcage.studies.sensitivity.tables import setting

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
        print(fill(entry.source, 96, initial_indent="    ", subsequent_indent="    "))
