"""``mcage sweep``: the main job."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.commands import RUN
from mcage.cli.run_options import (
    Devices,
    Engine,
    RunOptions,
    ShowSpec,
    check_run,
    chosen_executor,
    computed,
    print_spec,
)
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError
from mcage.plain_text import visible

if TYPE_CHECKING:
    from mcage.spec import SweepSpec

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
    if show_spec:
        check_run(run)
        print_spec(spec, partial(_check, spec, run))
        return
    _run(spec, run)


def _check(spec: "SweepSpec", run: SweepRunOptions) -> None:
    """Refuse what the sweep itself would refuse, traces, techniques and cases included."""
    from mcage.engines.select import parse_devices, select_engine
    from mcage.studies.sweep.study import Sweep

    spec.refuse_unused()
    _ = Sweep(spec, *select_engine(run.engine, parse_devices(run.devices))).header


def _run(spec: "SweepSpec", run: SweepRunOptions) -> None:
    if run.out == DEFAULT_OUT:
        _make_folder(run.out.parent)
    try:
        path = _computed(spec, run)
    except (UserError, KeyboardInterrupt):
        if run.out == DEFAULT_OUT:
            _remove_if_empty(run.out.parent)
        raise
    if path is None:
        return
    # Imported when all is computed: what reads results takes half a second to import.
    from mcage.report.cases import names_for
    from mcage.report.notes import note_on_caveats, note_on_shared_dies
    from mcage.report.tables import console, print_table, renamed_in
    from mcage.report.tables.lives import summarize_draws_of_file
    from mcage.report.tables.lives import table_of_draws as draws_table_of
    from mcage.results.reader import read_header
    from mcage.studies.sweep.presentation.summary import summarize_file, table_of

    header = read_header(path)
    tables = [table_of(summarize_file(path))]
    if getattr(header, "draws", ()):
        tables.append(draws_table_of(summarize_draws_of_file(path)))
    for table in tables:
        print_table(renamed_in(table, names_for([header], {})), console())
    for note in (note_on_caveats(header), note_on_shared_dies(path, header)):
        if note:
            print(visible(note))
    print(visible(str(path)))


def _computed(spec: "SweepSpec", run: SweepRunOptions) -> Path | None:
    """Compute the sweep, or a part of it, and return its results file if there is one."""
    from mcage.campaign.progress import progress_on_stderr
    from mcage.campaign.shards import BESIDE
    from mcage.engines.select import parse_devices
    from mcage.files.atomic import place_of

    spec.refuse_unused()
    place_of(run.out, BESIDE)
    devices, progress = parse_devices(run.devices), progress_on_stderr(run.progress)
    with chosen_executor(run, progress, run.engine in ("auto", "cuda"), devices) as executor:
        # Imported when nothing is left to refuse: what computes takes most of a second to import.
        from mcage.studies.sweep.run import sweep_study

        numbers = None if run.processes else devices  # its processes see one device each
        with sweep_study(spec, run.engine, numbers, progress, executor) as study:
            return computed(study, run, progress, executor)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
