"""``mcage merge``: finished shards into one results file."""

from pathlib import Path
from typing import Annotated

import typer


def merge(
    out: Annotated[Path, typer.Argument(help="Results file; its shards are in OUT.shards.")],
    accept_other_code: Annotated[
        bool,
        typer.Option("--accept-other-code", help="Merge shards that different codes computed."),
    ] = False,
) -> None:
    """Merge the shards in OUT.shards, computed here or elsewhere, into the results file OUT."""
    from mcage.campaign.merge import merge as merge_shards
    from mcage.plain_text import visible

    typer.echo(visible(str(merge_shards(out, accept_other_code))))
