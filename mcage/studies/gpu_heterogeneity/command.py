"""``mcage gpu heterogeneity``: what the structures of a GPU are made of."""

from typing import Annotated

import typer

from mcage.cli.commands import Json, ShowSpec
from mcage.cli.gpu import print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.structures import parts


def heterogeneity(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu heterogeneity",
            kind=HeterogeneitySpec,
            example="l2.baseline_delay=0.12",
        ),
    ],
    run: RunOptions,
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
    that hold what the paper leaves open. With --benchmarks, the benchmarks of the paper instead.
    """
    spec: HeterogeneitySpec = arguments.spec(show_spec)
    if benchmarks and not show_spec:
        _print_benchmarks(spec, json)
        return
    run_study(spec, run, json, show_spec)


def _print_benchmarks(spec: HeterogeneitySpec, json: bool) -> None:
    """Print the benchmarks of the paper; of the spec only fields and fills are for them."""
    from mcage.single_runs.nominal_gpu import benchmark_rows

    if spec != HeterogeneitySpec(fields=spec.fields, fills=spec.fills):
        raise UserError(
            "--benchmarks: nothing is drawn; of the options, only --fields and --count-fills go "
            "with it"
        )
    for key in ("fields", "fills"):
        if key in spec.model_fields_set and getattr(spec, key) == "either":
            raise UserError(f"--benchmarks: nothing is drawn; {key} = 'either' does not go with it")
    kinds = parts("common" if spec.fields == "common" else "swapped")
    print_rows(benchmark_rows(kinds, spec.fills == "counted"), json)
