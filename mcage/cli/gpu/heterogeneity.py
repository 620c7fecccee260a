"""``mcage gpu heterogeneity``: structures of planar and of FinFET transistors."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.gpu.heterogeneity_options import HETEROGENEITY_OPTIONS
from mcage.cli.gpu.tables import Nominal, print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.shared_options import Json, ShowSpec
from mcage.cli.spec_arguments import SpecArguments, SpecOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.gpu.heterogeneity.spec import HeterogeneitySpec


def heterogeneity_spec() -> "type[HeterogeneitySpec]":
    """Return the class of the spec."""
    from mcage.gpu.heterogeneity.spec import HeterogeneitySpec

    return HeterogeneitySpec


def heterogeneity(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu heterogeneity",
            rows=HETEROGENEITY_OPTIONS,
            kind=heterogeneity_spec,
            example="l2.baseline_delay=0.12",
        ),
    ],
    run: RunOptions,
    nominal: Nominal = None,
    benchmarks: Annotated[
        bool,
        typer.Option(
            "--benchmarks",
            help="Print each benchmark under every reading, beside what the paper prints.",
        ),
    ] = False,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Map how well a two-stage scheduler and an L2 that is read after its tags do.

    Inputs are numbers or distributions, such as "uniform(0.2, 0.6)"; by default they are ranges
    that hold what the paper leaves open. With --nominal, the cases of a CSV file instead; with
    --benchmarks, the benchmarks of the paper.
    """
    from mcage.gpu.heterogeneity.study import study_of_spec
    from mcage.plain_text import visible_lines

    spec: HeterogeneitySpec = arguments.spec()
    if nominal is not None or benchmarks:
        _print_points(nominal, benchmarks, spec, json)
        return
    if show_spec:
        typer.echo(visible_lines(study_of_spec(spec).header.spec_toml), nl=False)
        return
    run_study(partial(study_of_spec, spec), run, json)


def _print_points(
    nominal: Path | None, benchmarks: bool, spec: "HeterogeneitySpec", json: bool
) -> None:
    """Print cases without variation; of the spec only fields and fills are for them."""
    from mcage.gpu.heterogeneity.parts import parts
    from mcage.gpu.heterogeneity.spec import HeterogeneitySpec
    from mcage.gpu.nominal.benchmarks import benchmark_rows
    from mcage.gpu.nominal.heterogeneity import heterogeneous_cases

    option = "--benchmarks" if nominal is None else "--nominal"
    if nominal is not None and benchmarks:
        raise UserError("--nominal and --benchmarks print different tables: give one of them")
    if spec != HeterogeneitySpec(fields=spec.fields, fills=spec.fills):
        raise UserError(
            f"{option}: nothing is drawn; of the options, only --fields and --count-fills go "
            "with it"
        )
    for key in ("fields", "fills"):
        if key in spec.model_fields_set and getattr(spec, key) == "either":
            raise UserError(f"{option}: nothing is drawn; {key} = 'either' does not go with it")
    kinds = parts("common" if spec.fields == "common" else "swapped")
    count_fills = spec.fills == "counted"
    if nominal is not None:
        print_rows(heterogeneous_cases(nominal, kinds, count_fills), json)
        return
    print_rows(benchmark_rows(kinds, count_fills), json)
