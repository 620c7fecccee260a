"""``mcage sweep``: the main job."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.commands import RUN, Devices, Engine, ShowSpec
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError

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
    with _default_folder() if run.out == DEFAULT_OUT and not show_spec else nullcontext():
        run_study(spec, run, json=False, show_spec=show_spec)


@contextmanager
def _default_folder() -> Iterator[None]:
    """Make the folder of `DEFAULT_OUT`; remove it again if nothing comes into it."""
    folder = DEFAULT_OUT.parent
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error
    try:
        yield
    except (UserError, KeyboardInterrupt):
        with suppress(OSError):
            folder.rmdir()
        raise
