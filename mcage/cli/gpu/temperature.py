"""``mcage gpu temperature``: how hot the blocks of a GPU become."""

from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.gpu.optimum import GpuName
from mcage.cli.gpu.tables import print_rows
from mcage.cli.shared_options import Json
from mcage.errors import UserError

MOST_SECONDS = 1e9


def temperature(
    powers: Annotated[
        Path,
        typer.Argument(
            metavar="POWERS.csv",
            help="CSV file with the columns block and power_W, and case if there are several.",
        ),
    ],
    gpu: GpuName = "gtx580",
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Time in seconds for which the powers have lasted, from a cold GPU on. Default: "
            "for ever.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the temperature of each block under given powers."""
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.nominal.temperature import temperatures

    if seconds is not None and not 0 <= seconds <= MOST_SECONDS:
        raise UserError(f"--seconds {seconds:g}: a time of 0 ... {MOST_SECONDS:g} s is needed")
    print_rows(temperatures(powers, gpu_called(gpu), seconds), json)
