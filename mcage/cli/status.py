"""``mcage status``: what campaigns are doing, from another terminal."""

from pathlib import Path
from typing import Annotated

import typer


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
    from json import dumps

    from mcage.campaign.status.reader import statuses
    from mcage.report.console import console
    from mcage.report.tables.status import print_statuses, rows

    campaigns = [campaign for path in paths or [Path("results")] for campaign in statuses(path)]
    if json:
        print(dumps(rows(campaigns), indent=2))
    else:
        print_statuses(campaigns, console())
