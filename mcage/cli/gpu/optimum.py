"""``mcage gpu optimum``: on how many SMs a kernel should run."""

from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.gpu.tables import print_rows
from mcage.cli.shared_options import Json

GpuName = Annotated[str, typer.Option("--gpu", metavar="NAME", help="GPU: gtx580, or a TOML file.")]


def optimum(
    kernels: Annotated[
        Path,
        typer.Argument(
            metavar="KERNELS.csv", help="CSV file with the characteristics of each kernel."
        ),
    ],
    gpu: GpuName = "gtx580",
    json: Json = False,
) -> None:
    """Show cycles and the optimal number of SMs of kernels (Chen et al., DAC 2014, Algorithm 1)."""
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.nominal.optimum import optima

    print_rows(optima(kernels, gpu_called(gpu).machine), json)
