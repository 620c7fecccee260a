"""``mcage gpu temperature``: how hot the blocks of a GPU become."""

from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.gpu.optimum import GpuName
from mcage.cli.gpu.tables import print_rows
from mcage.cli.shared_options import Json


def temperature(
    powers: Annotated[
        Path,
        typer.Argument(
            metavar="POWERS.csv",
            help="CSV file with the columns block and power_W, and case if there are several.",
        ),
    ],
    gpu: GpuName = "gtx580",
    json: Json = False,
) -> None:
    """Show the steady temperature of each block under given powers."""
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.nominal.temperature import temperatures

    print_rows(temperatures(powers, gpu_called(gpu)), json)
