"""Options of commands that run a campaign other than a sweep, and how it is run and shown."""

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.shared_options import AcceptOtherCode, ProgressKind
from mcage.cli.spec_options import RUN
from mcage.errors import UserError
from mcage.plain_text import visible

if TYPE_CHECKING:
    from mcage.campaign.study import Study

SHARD_INSTANCES = 4096


@dataclass(frozen=True)
class RunOptions:
    """Where and how a campaign is computed: none of it changes the results."""

    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Results file; needed.", rich_help_panel=RUN),
    ] = None
    shard_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of instances in a shard. Default: as the study.",
            show_default=False,
            rich_help_panel=RUN,
        ),
    ] = None
    accept_other_code: AcceptOtherCode = False
    progress: ProgressKind = None


def run_study(
    study: "Study", run: RunOptions, json: bool, shard_size: int = SHARD_INSTANCES
) -> None:
    """Run a campaign and show its results.

    Parameters
    ----------
    study : Study
        What is computed.
    run : RunOptions
        Where and how.
    json : bool
        Whether the table is printed as JSON.
    shard_size : int
        Instances of a shard, unless the user names a number.

    Raises
    ------
    UserError
        No file is named; or as `mcage.campaign.run.run_campaign`.
    """
    from importlib import import_module

    from mcage.campaign.progress.choice import progress_on_stderr
    from mcage.campaign.run import run_campaign
    from mcage.report.console import console
    from mcage.results.reader import read_header
    from mcage.stats.wording import plain

    if run.out is None:
        raise UserError("--out FILE is needed: where the results go")
    path = run_campaign(
        study,
        run.out,
        run.shard_size or shard_size,
        progress_on_stderr(run.progress),
        accept_other_code=run.accept_other_code,
    )
    header = read_header(path)
    table = import_module(header.table)
    summaries = table.summarize_file(path)
    if json:
        typer.echo(dumps(plain(summaries), indent=2, allow_nan=False))
    else:
        table.print_summaries(summaries, console())
        typer.echo(visible(str(path)))
    if header.stopped:
        typer.echo(visible(header.stopped), err=json)
