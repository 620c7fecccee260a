"""``mcage sensitivity``: which assumption matters."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mcage.cli.commands import RUN
from mcage.cli.run_options import Engine, Json, ProgressKind
from mcage.cli.spec_options import ONE_CASE, SpecArguments, SpecOptions

if TYPE_CHECKING:
    from mcage.spec import SweepSpec
    from mcage.studies.sensitivity import Question

DEFAULTS: dict[str, Any] = ONE_CASE | {"instances": 200, "techniques": ["rrcd"]}
"""Where a study differs from a sweep unless told otherwise: one case, and fewer dies."""

STUDY = "What to vary"


@dataclass(frozen=True)
class StudyOptions:
    """What a study varies, how, and of what it asks for the change."""

    panel: ClassVar = STUDY

    method: Annotated[str, typer.Option(metavar="NAME")] = "one-at-a-time"
    """Method: one-at-a-time or sobol."""
    of: Annotated[str, typer.Option(metavar="QUANTITY")] = "median_life"
    """Output quantity: median_life, rmst (mean life up to the horizon), survival, max_dvth, delay
    or spill_rate."""
    parameter: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None
    """Parameter to vary. May be repeated. Default: all that can matter."""
    range_: Annotated[list[str] | None, typer.Option("--range", metavar="NAME=RANGE")] = None
    """Range of a parameter or of a key of the spec: NAME=LOW..HIGH or NAME=ONE,OTHER. May be
    repeated."""
    ranges: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """TOML file of ranges, in the form of the shipped ones."""
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
            DEFAULTS,
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
    from mcage.studies.sensitivity import Question
    from mcage.studies.sensitivity.output import check_path

    question = Question(**vars(study))
    question.check()
    if output.out:
        check_path(output.out)
    _run(arguments.spec(), question, output)


def _run(base: "SweepSpec", question: "Question", output: OutputOptions) -> None:
    from mcage.campaign.progress import progress_on_stderr
    from mcage.engines.select import select_engine
    from mcage.report.tables import console
    from mcage.studies.sensitivity import Sobol
    from mcage.studies.sensitivity.output import as_json, print_one_at_a_time, print_sobol, write

    varied = question.varied(base)
    engine, reason = select_engine(output.engine)
    progress = progress_on_stderr(output.progress)
    study = question.study(base, engine, progress)
    progress.say(f"engine {engine.name} ({reason}); {study.label}")
    result = question.answer(study, varied)
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
    from mcage.studies.sensitivity.output import setting

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
