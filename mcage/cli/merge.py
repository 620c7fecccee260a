"""``mcage merge``: finished shards into one results file."""

from pathlib import Path
from typing import Annotated

import typer


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
    from mcage.campaign.merge import merge as merge_instances
    from mcage.plain_text import visible
    from mcage.report.notes import note_on_absent
    from mcage.results.reader import read_header

    path = merge_instances(out, elsewhere or (), partial, accept_other_code)
    typer.echo(visible(str(path)))
    header = read_header(path)
    if header.absent:
        typer.echo(note_on_absent(header), err=True)
        typer.echo(visible(filling_command(header, path, path)), err=True)
