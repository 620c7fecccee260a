"""``mcage rare``: the probability of an early death."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.sweep import overridden

if TYPE_CHECKING:
    from mcage.rare import RareEstimate

DEFAULTS: dict[str, Any] = {
    "instances": 20_000,
    "environments": ["undervolted"],
    "scenarios": ["common"],
}
"""Where an estimate differs from a sweep unless told otherwise."""


def rare(
    spec: Annotated[
        Path | None, typer.Argument(help="Spec of a sweep as TOML; options override it.")
    ] = None,
    age: Annotated[float, typer.Option(help="Age in years; 0: dead as manufactured.")] = 0.0,
    instances: Annotated[int | None, typer.Option(help="Slices to draw; default: 20000.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random streams.")] = None,
    technique: Annotated[
        str | None, typer.Option(help="Technique; see `mcage techniques`.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            help="nominal, undervolted, dvfs, or one of SPEC's own; default: undervolted."
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="common, clustered or dispersed; default: common.")
    ] = None,
    vdd: Annotated[
        float | None, typer.Option(help="Low supply voltage in V; default: the scenario's own.")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="Bundled kernel or trace file (repeat); default: all."),
    ] = None,
    periods: Annotated[
        int | None, typer.Option(help="Kernels that an instance runs in its life.")
    ] = None,
    generations: Annotated[
        int | None, typer.Option(help="Windows per slot that traces are cut to; 0: whole.")
    ] = None,
    horizon: Annotated[float | None, typer.Option(help="Years to watch.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Stretches of life with a fixed fault map.")
    ] = None,
    guardband: Annotated[
        float | None, typer.Option(help="Delay increase that ends a life, 0.139 for 13.9 %.")
    ] = None,
    nbti: Annotated[
        str | None,
        typer.Option(help="NBTI model; see `mcage nbti --list`, or module:NAME."),
    ] = None,
    vmin_coefficient: Annotated[
        float | None, typer.Option(help="Growth of Vmin per threshold shift, V/V.")
    ] = None,
    sigma_die: Annotated[
        float | None,
        typer.Option(help="Deviation of Vmin between dies in V; default: the scenario's."),
    ] = None,
    lds_rows: Annotated[
        int | None, typer.Option(help="Registers that the LDS holds for one slice.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, numpy, numba or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Probability that a slice is dead by an age, however small, with its interval.

    Whatever else a sweep can be told is told by SPEC.
    """
    from mcage.campaign.progress import on_stderr
    from mcage.engines.select import select_engine
    from mcage.rare import failure_probability
    from mcage.spec import SweepSpec, read_toml

    options: dict[str, Any] = {
        "instances": instances,
        "seed": seed,
        "techniques": _one(technique),
        "environments": _one(environment),
        "scenarios": _one(scenario),
        "vdd_volts": _one(vdd),
        "workload.kernels": kernel,
        "workload.periods": periods,
        "workload.generations": generations,
        "life.horizon_years": horizon,
        "life.epochs": epochs,
        "life.delay_guardband": guardband,
        "life.vmin_coefficient": vmin_coefficient,
        "aging.model": nbti,
        "faults.sigma_die_volts": sigma_die,
        "registers.lds_rows": lds_rows,
    }
    fields = overridden(DEFAULTS | (read_toml(spec) if spec else {}), options)
    chosen = SweepSpec.from_mapping(fields, str(spec) if spec else "rare")
    selected, _ = select_engine(engine)
    found = failure_probability(
        chosen, age, chosen.instances, engine=selected, progress=on_stderr()
    )
    if json:
        _print_json(chosen, age, found)
        return
    _print_words(found, age)


def _one(value: Any) -> list[Any] | None:
    return None if value is None else [value]


def _print_json(spec: Any, age_years: float, found: "RareEstimate") -> None:
    from dataclasses import asdict
    from math import isfinite

    # JSON knows no infinity.
    values = {
        key: None if isinstance(value, float) and not isfinite(value) else value
        for key, value in asdict(found).items()
    }
    case = spec.model_dump(mode="json", exclude_none=True, exclude={"instances", "stopping"})
    typer.echo(json_module.dumps({"case": case, "age_years": age_years} | values, indent=2))


def _print_words(found: "RareEstimate", age_years: float) -> None:
    when = "as manufactured" if age_years == 0 else f"by {age_years:g} years"
    typer.echo(
        f"dead {when}: {found.probability:.3g} "
        f"({found.confidence:.0%} interval {found.lower:.3g} ... {found.upper:.3g})"
    )
    typer.echo(
        f"{found.failures} of {found.instances} slices drawn were dead, worth "
        f"{found.effective_samples:.4g} of equal weight"
    )
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
