"""``mcage gpu``: studies of whole GPUs."""

import typer

from mcage.cli.gpu.both import both
from mcage.cli.gpu.gating import gating
from mcage.cli.gpu.heterogeneity import heterogeneity
from mcage.cli.gpu.optimum import optimum
from mcage.cli.gpu.temperature import temperature
from mcage.cli.grouped_command import GroupedCommand
from mcage.cli.records import with_options

app = typer.Typer(
    help="Whole GPUs: which SMs work, what they are made of, how hot they become.",
    no_args_is_help=True,
)

for command in (both, gating, heterogeneity, optimum, temperature):
    app.command(cls=GroupedCommand)(with_options(command))
