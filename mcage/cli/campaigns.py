"""``mcage merge|status|verify``: what campaigns have left on disk."""

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import mcage
from mcage.campaign.progress import duration
from mcage.plain_text import visible
from mcage.report.tables import console, print_table, table_of_texts

if TYPE_CHECKING:
    from rich.console import Console

    from mcage.campaign.status import CampaignStatus


def merge(
    out: Annotated[Path, typer.Argument(help="Results file; its shards are in OUT.shards.")],
    elsewhere: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FROM]...",
            help="Shard folders and results files of the same campaign, such as copies from other "
            "machines; they are only read.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Write the file even if instances are missing."),
    ] = False,
    accept_other_code: Annotated[
        bool,
        typer.Option("--accept-other-code", help="Merge shards that different codes computed."),
    ] = False,
) -> None:
    """Merge finished instances, computed here or elsewhere, into the results file OUT.

    OUT.shards is merged and removed. Merging again changes nothing. If instances are missing,
    nothing is written, and the command that computes them is printed.
    """
    from mcage.campaign.merge import filling_command
    from mcage.report.notes import note_on_absent
    from mcage.results.reader import read_header

    path = mcage.merge(out, elsewhere or (), partial, accept_other_code)
    typer.echo(visible(str(path)))
    header = read_header(path)
    if header.absent:
        typer.echo(note_on_absent(header), err=True)
        typer.echo(visible(filling_command(header, path, path)), err=True)


# ``mcage status``: what campaigns are doing, from another terminal.


def status(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PLACE...",
            help="Results file, finished or to be, or a folder with such. Default: results.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far campaigns are: finished instances, rate, time left, workers, failures."""
    campaigns = mcage.status(paths or "results")
    if json:
        print(dumps([campaign.plain() for campaign in campaigns], indent=2))
    else:
        _print_statuses(campaigns, console())


def _print_statuses(campaigns: "Sequence[CampaignStatus]", console: "Console") -> None:
    """Print a line for each campaign, and below the table what its runs say."""
    from mcage.campaign.shards import in_words

    lines = []
    for campaign in campaigns:
        rate, left = campaign.instances_per_second, campaign.seconds_left
        lines.append(
            [
                str(campaign.out),
                campaign.study,
                campaign.state,
                f"{campaign.done}/{campaign.instances}",
                f"{rate:.3g}/s" if rate else "",
                duration(left) if left is not None else "",
                str(sum(run.processes for run in campaign.computing) or ""),
            ]
        )
    headings = ("results file", "study", "state", "done", "rate", "time left", "workers")
    primary = ("results file", "state", "done", "time left")
    table = table_of_texts("", headings, lines, ("done", "rate"), primary)
    print_table(table, console, remedy="--json")
    for campaign in campaigns:
        for run in campaign.runs:
            part = "" if run.is_whole else f", instances {in_words(run.instances)}"
            words = [f"{campaign.out.name}{part}: {run.state_now}, last heard of: {run.heard}"]
            if run.deaths:
                plural = "s" if run.deaths > 1 else ""
                again = "what they had begun was computed again"
                words.append(f"  {run.deaths} worker{plural} died; {again}")
            for line in (*words, *(f"  {message}" for message in run.messages)):
                console.print(line, soft_wrap=True)


# ``mcage verify``: whether a results file is whole.


def verify(
    file: Annotated[Path, typer.Argument(help="Results file, shard, or shard folder.")],
) -> None:
    """Say whether results are whole, to the last bit.

    The exit code is 0 if they are whole, and 2 otherwise.
    """
    mcage.verify(file, lambda line: typer.echo(visible(line)))
