"""``mcage sweep|vmin|inject``: studies of slices; and how a campaign of any study is computed."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import mcage
from mcage.cli.commands import RUN, AcceptOtherCode, Devices, Engine, Json, ProgressKind, ShowSpec
from mcage.cli.show import FormOptions, TableOptions, show
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.engines import parse_devices
from mcage.errors import UserError
from mcage.files.atomic import ready_folder
from mcage.functions import check_run, study_of
from mcage.plain_text import one_line, shortened, visible, visible_lines
from mcage.spec.keys import StudySpec, code_in
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.vmin.spec import VminSpec


@dataclass(frozen=True)
class RunOptions:
    """Where and how a campaign is computed: none of it changes the results."""

    panel: ClassVar = RUN

    out: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Results file; needed."""
    shard_size: Annotated[int | None, typer.Option(min=1, metavar="N", hidden=True)] = None
    """Number of instances in a shard. Default: what takes some seconds."""
    processes: Annotated[int | None, typer.Option(min=1, metavar="N")] = None
    """Compute in N processes of this machine, which take turns with its GPUs. Default: in threads
    of this process."""
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", hidden=True)] = None
    """Compute with the workers of a Dask scheduler: its address, such as tcp://node1:8786, or its
    scheduler file."""
    part: Annotated[str | None, typer.Option(metavar="K/N", hidden=True)] = None
    """Compute the K-th of N equal parts into OUT.shards, and write no results file; mcage merge OUT
    makes it of all parts."""
    accept_other_code: AcceptOtherCode = False
    progress: ProgressKind = None


def run_study(
    spec: StudySpec,
    run: RunOptions,
    json: bool,
    show_spec: bool,
    engine: str = "auto",
    **further: Any,
) -> None:
    """Compute a study and show its results as ``mcage show`` does; or print its spec alone.

    Parameters
    ----------
    spec : StudySpec
        What to compute.
    run : RunOptions
        Where and how.
    json : bool
        Whether the table is printed as JSON.
    show_spec : bool
        Whether the spec is printed, and nothing runs.
    engine : str
        Name of the engine, for a study that has one.
    **further
        Options that `mcage.run` or the function of the study takes besides.

    Raises
    ------
    UserError
        No file is named; or as `mcage.run`.
    """
    of_run = {field.name: getattr(run, field.name) for field in fields(run)}
    options: Any = {"engine": engine} | of_run | further | {"progress": run.progress or "auto"}
    out: Path | None = options.pop("out")
    if show_spec:
        check_run(options)
        print_spec(
            spec, lambda: study_of(spec, options["engine"], parse_devices(options.get("devices")))
        )
        return
    if out is None:
        raise UserError("--out FILE is needed: where the results go")
    call: Any = mcage.inject if "picture" in further else mcage.run
    path = call(spec, out, **options)
    if run.part is None:
        show([path], TableOptions(), FormOptions(json=json))
        for file in (path, further.get("picture")):
            if file and not json:
                typer.echo(visible(str(file)))


def print_spec(spec: StudySpec, check: Callable[[], object]) -> None:
    """Print a spec as TOML, checked as its study would, as far as that runs no code of a user.

    Parameters
    ----------
    spec : StudySpec
        The spec, whose keys, types and bounds are checked already.
    check : callable
        Makes the study, and is left out if that would run or compile code that the spec names.

    Raises
    ------
    UserError
        As ``check``.
    """
    code = [f"{key} = {shortened(value)}" for key, value, _ in code_in(spec, or_compiled=True)]
    if not code:
        check()
    typer.echo(visible_lines(spec.to_toml()), nl=False)
    if code:
        words = f"note: not run, so that only keys, types and bounds are checked: {', '.join(code)}"
        typer.echo(visible(one_line(words)), err=True)


# ``mcage sweep``: the main job.

DEFAULT_OUT = Path("results/sweep.h5")


@dataclass(frozen=True)
class SweepRunOptions(RunOptions):
    """Where and how a sweep is computed: none of it changes the results."""

    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=f"Results file. Default: {DEFAULT_OUT}.",
            show_default=False,
            rich_help_panel=RUN,
        ),
    ] = DEFAULT_OUT
    engine: Engine = "auto"
    devices: Devices = None


def sweep(
    arguments: Annotated[SpecArguments, SpecOptions("sweep")],
    run: SweepRunOptions,
    show_spec: ShowSpec = False,
) -> None:
    """Compute lifetimes, dVth and spill rates of thousands of instances into one results file.

    The same command again continues a sweep that was stopped.
    """
    spec = arguments.spec(show_spec)
    is_default = run.out == DEFAULT_OUT and not show_spec
    with ready_folder(DEFAULT_OUT.parent) if is_default else nullcontext():
        run_study(spec, run, json=False, show_spec=show_spec)


# ``mcage vmin``: the lowest Vdd at which slices work, when new and aged.


def vmin(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "vmin",
            kind=VminSpec,
            example="vmin.share=0.99",
            without=("aging.nbti_spread_mv", "aging.vmin_model", "faults.cell", "faults.mode"),
        ),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Find the lowest Vdd at which slices run their kernels under each technique, new and aged.

    The same command again continues a study that was stopped.
    """
    run_study(arguments.spec(show_spec), run, json, show_spec, engine)


# ``mcage inject``: from faulty cells to wrong answers of a program.

SPECS = (".toml", ".h5", ".shards")
"""Ends of names of files that record a spec, the kernel included."""


def inject(
    kernel: Annotated[
        str,
        typer.Argument(
            help="OpenCL C (.cl), Triton (.py), or a code object of AMD's compilers; or a file "
            "that records a spec.",
            metavar="KERNEL",
        ),
    ],
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "inject",
            kind=InjectSpec,
            example="inject.tolerance=0.001",
        ),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to draw outputs of some silently wrong runs into: .png, .pdf or .svg.",
        ),
    ] = None,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Inject faults into the registers of a running kernel: masked, silently wrong, or detected.

    The kernel runs on an emulated GPU, as with mcage trace emulate. The same command again
    continues injections that were stopped.
    """
    if kernel.endswith(SPECS) and arguments.file is None:
        arguments = replace(arguments, file=Path(kernel))
    else:
        value = "program.source", kernel, "KERNEL"
        arguments = replace(arguments, values=[value, *arguments.values])
    spec: InjectSpec = arguments.spec(show_spec)
    spec.check_program()
    run_study(spec, run, json, show_spec, engine, picture=picture)
