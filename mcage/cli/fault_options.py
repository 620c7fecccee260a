"""Options of ``mcage faults``: the fault model, and which maps of it are looked at."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.spec_options import spec_option

if TYPE_CHECKING:
    from mcage.variation.fault_models import FaultModel

MAX_ID = 2**63 - 1
"""Largest seed and largest instance id."""

MOST_MAPS = 10_000_000
"""Maps behind the shares at most: the classes of so many find room in memory."""

MODEL, SAMPLE, FIT = "Fault model", "Fault maps", "Fit to counts"
"""Panels of the help."""


def _help_of(flag: str) -> str:
    """Help of an option that sweeps have, too."""
    row = spec_option(flag)
    return f"{row.help} Default: {row.default}."


@dataclass(frozen=True)
class ModelOptions:
    """Where the faults come from."""

    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Process variation: common, clustered, dispersed or measured.",
            rich_help_panel=MODEL,
        ),
    ] = "common"
    vdd: Annotated[
        float | None,
        typer.Option(
            metavar="VOLTS",
            help="Supply voltage in V. Default: the scenario's own.",
            rich_help_panel=MODEL,
        ),
    ] = None
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="Fault model. varius: the spatial model, at any Vdd; varius-selected: only its "
            "maps that are close to the published table; table: classes of entries drawn from that "
            "table; table-exact: exactly its fractions in every map.",
            rich_help_panel=MODEL,
        ),
    ] = "varius"
    spread_blocks: Annotated[
        bool,
        typer.Option(
            "--spread-blocks",
            help="Let n >= 2 faulty bits cost n blocks, or all that there are.",
            rich_help_panel=MODEL,
        ),
    ] = False
    mu: Annotated[
        float | None,
        typer.Option(metavar="VOLTS", help=_help_of("--mu"), rich_help_panel=MODEL),
    ] = None
    sigma_die: Annotated[
        float | None,
        typer.Option(metavar="VOLTS", help=_help_of("--sigma-die"), rich_help_panel=MODEL),
    ] = None
    sigma_systematic: Annotated[
        float | None,
        typer.Option(metavar="VOLTS", help=_help_of("--sigma-systematic"), rich_help_panel=MODEL),
    ] = None
    sigma_random: Annotated[
        float | None,
        typer.Option(metavar="VOLTS", help=_help_of("--sigma-random"), rich_help_panel=MODEL),
    ] = None
    phi: Annotated[
        float | None,
        typer.Option(metavar="SIDES", help=_help_of("--phi"), rich_help_panel=MODEL),
    ] = None
    arrays: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help=_help_of("--arrays"), rich_help_panel=MODEL),
    ] = None
    slices_per_chip: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            metavar="N",
            help="Number of slices with successive ids that share a die.",
            rich_help_panel=MODEL,
        ),
    ] = 1
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Largest deviation of a class of entries from the published table, for "
            "varius-selected. Default: 0.05.",
            rich_help_panel=MODEL,
        ),
    ] = None

    geometry: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Slice: gcn, 256 registers of 64 lanes, or nvidia, 512 of 32.",
            rich_help_panel=MODEL,
        ),
    ] = "gcn"

    def model(self) -> "FaultModel":
        """Fault model that the options describe."""
        from mcage.geometry import preset
        from mcage.variation.fault_models import fault_model

        return fault_model(
            self.scenario,
            self.mode,
            spread_blocks=self.spread_blocks,
            slices_per_chip=self.slices_per_chip,
            tolerance=self.tolerance,
            geometry=preset(self.geometry),
            arrays=self.arrays,
            mu_volts=self.mu,
            sigma_die_volts=self.sigma_die,
            sigma_systematic_volts=self.sigma_systematic,
            sigma_random_volts=self.sigma_random,
            phi=self.phi,
        )


@dataclass(frozen=True)
class MapOptions:
    """Which maps are looked at."""

    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_ID,
            metavar="N",
            help="Seed of all random streams.",
            rich_help_panel=SAMPLE,
        ),
    ] = 1
    instance: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_ID,
            metavar="N",
            help="Instance whose map is shown.",
            rich_help_panel=SAMPLE,
        ),
    ] = 0
    maps: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_MAPS,
            metavar="N",
            help="Number of maps behind the table.",
            rich_help_panel=SAMPLE,
        ),
    ] = 200
