"""``mcage gpu``: studies of whole GPUs."""

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import mcage
from mcage.cli.commands import Engine, Json, ShowSpec
from mcage.cli.show import FormOptions, check_form, print_in_form, print_json, print_notes
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.cli.studies import RunOptions, run_study
from mcage.report.tables import console, print_table, table_of_texts
from mcage.stats.estimates import plain
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec


def gating(
    arguments: Annotated[
        SpecArguments, SpecOptions("gpu gating", kind=GatingSpec, example="workload.weights.LU=2")
    ],
    run: RunOptions,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs whose SMs are gated: delay margin, lives and power under each policy.

    The same command again continues a study that was stopped.
    """
    run_study(arguments.spec(show_spec), run, json, show_spec)


def heterogeneity(
    arguments: Annotated[
        SpecArguments,
        SpecOptions("gpu heterogeneity", kind=HeterogeneitySpec, example="l2.baseline_delay=0.12"),
    ],
    run: RunOptions,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Map how well a two-stage scheduler and an L2 that is read after its tags do.

    Inputs are numbers or distributions, such as "uniform(0.2, 0.6)"; by default they are ranges
    that hold what the paper leaves open.
    """
    run_study(arguments.spec(show_spec), run, json, show_spec)


def both(
    arguments: Annotated[
        SpecArguments,
        SpecOptions("gpu both", kind=BothSpec, example="sweep.faults.mu_volts=0.14"),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs that gate SMs and protect register files: each level alone, both, none.

    The same command again continues a study that was stopped.
    """
    run_study(arguments.spec(show_spec), run, json, show_spec, engine)


OF_KERNELS = ("gpu", "workload.kernels", "workload.names")
"""Keys of SM gating that decide on how many SMs kernels run, beside those of the time model."""


def optimum(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu optimum",
            kind=GatingSpec,
            example="time_model.reading=bounded",
            without=tuple(key.name for key in GatingSpec.options() if key.name not in OF_KERNELS),
        ),
    ],
    json: Json = False,
) -> None:
    """Show the optimal number of SMs of kernels (Chen et al., DAC 2014, Algorithm 1)."""
    _print_rows(mcage.optimum(arguments.spec()), json)


def temperature(
    powers: Annotated[
        Path,
        typer.Argument(
            metavar="POWERS.csv",
            help="CSV file with the columns block and power_W, and case if there are several.",
        ),
    ],
    gpu: Annotated[
        str, typer.Option(metavar="NAME", help="GPU: gtx580, or a TOML file.")
    ] = "gtx580",
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
    _print_rows(mcage.temperature(powers, gpu, seconds), json)


@dataclass(frozen=True)
class ExchangeOptions:
    """When a GPU is exchanged, and what it is made of."""

    panel: ClassVar = "Rule and GPU"

    rule: Annotated[str, typer.Option(metavar="RULE")] = "secded"
    """Uncorrectable words that a bank may have: NVIDIA's for SRAM with secded (2) or parity (4), or
    a number."""
    sms: Annotated[int | None, typer.Option(metavar="N", show_default=False)] = None
    """SMs of a GPU. Default: 132, those of an H100."""
    slices_per_sm: Annotated[int | None, typer.Option(metavar="N", show_default=False)] = None
    """Register-file slices of an SM. Default: 4, those of an H100."""
    banks_per_sm: Annotated[int | None, typer.Option(metavar="N", show_default=False)] = None
    """Address banks of the register files of an SM, a divisor or a multiple of the slices. Default:
    each slice is a bank."""
    spare_sms: Annotated[int, typer.Option(metavar="N")] = 0
    """SMs that may be given up before the GPU is exchanged."""
    due_fit: Annotated[float, typer.Option(metavar="FIT")] = 0.0
    """Soft errors that are detected and not corrected, in FIT a slice; they count as well, each
    address once."""
    at: Annotated[list[float] | None, typer.Option(metavar="YEARS")] = None
    """Age to report; may be given several times. Default: 0, each whole year, and the horizon."""


def exchange(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results files of sweeps."),
    ],
    which: ExchangeOptions,
    form: FormOptions,
) -> None:
    """Show by age the share of GPUs that are exchanged by the vendor's rule.

    A GPU is exchanged when a bank of its register files has more uncorrectable words than it may,
    on more SMs than the GPU can spare. Beside it: the GPUs with dead slices.
    """
    from mcage.gpu.exchange_shares import table_of_exchange

    check_form(form)
    lines = mcage.exchange(files, form.where or (), **vars(which))
    several = len(files) > 1
    if form.json:
        print_json([({"file": str(p)} if several else {}) | plain(of) for p, of in lines])
    else:
        paths, summaries = zip(*lines, strict=True)
        print_in_form(table_of_exchange(summaries, paths if several else ()), form)
    print_notes(files, to_stderr=bool(form.forms))


def _print_rows(rows: Sequence[dict[str, Any]], json: bool) -> None:
    """Print rows that have the same keys."""
    if json:
        typer.echo(json_module.dumps(list(rows), indent=2, allow_nan=False))
        return

    words = [name for name, value in rows[0].items() if isinstance(value, str)]
    numbers = [name for name in rows[0] if name not in words]
    lines = [[_text(value) for value in row.values()] for row in rows]
    table = table_of_texts("", list(rows[0]), lines, numbers, [*words, *numbers[:1]])
    print_table(table, console(), remedy="--json")


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
