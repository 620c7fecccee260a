"""``mcage rare``: the probability of an early failure."""

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcage.rare import RareEstimate


def rare(
    technique: Annotated[str, typer.Option(help="Technique; see `mcage techniques`.")],
    age: Annotated[float, typer.Option(help="Age in years; 0: dead as manufactured.")] = 0.0,
    instances: Annotated[int, typer.Option(help="Slices to draw.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 1,
    environment: Annotated[str, typer.Option(help="nominal, undervolted or dvfs.")] = "undervolted",
    scenario: Annotated[str, typer.Option(help="common, clustered or dispersed.")] = "common",
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
    temperature: Annotated[float | None, typer.Option(help="Temperature in K.")] = None,
    vmin_coefficient: Annotated[
        float | None, typer.Option(help="Growth of Vmin per threshold shift, V/V.")
    ] = None,
    lds_rows: Annotated[
        int | None, typer.Option(help="Registers that the LDS holds for one slice.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, numpy, numba or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Probability that a slice is dead by an age, however small, with its interval."""
    from mcage.engines.select import select_engine
    from mcage.rare import failure_probability
    from mcage.spec import SweepSpec

    fields = {
        "seed": seed,
        "techniques": [technique],
        "environments": [environment],
        "scenarios": [scenario],
        "vdd_volts": [] if vdd is None else [vdd],
        "workload": _given(kernels=kernel, periods=periods, generations=generations),
        "life": _given(
            horizon_years=horizon,
            epochs=epochs,
            delay_guardband=guardband,
            temperature_kelvin=temperature,
            vmin_coefficient=vmin_coefficient,
        ),
        "registers": _given(lds_rows=lds_rows),
    }
    spec = SweepSpec.from_mapping(fields, "rare")
    chosen, _ = select_engine(engine)
    found = failure_probability(spec, age, instances, engine=chosen)
    if json:
        _print_json(fields | {"age_years": age}, found)
        return
    _print_words(found, age)


def _given(**options: Any) -> dict[str, Any]:
    """Those options that were given."""
    return {key: value for key, value in options.items() if value not in (None, [])}


def _print_json(case: dict[str, Any], found: "RareEstimate") -> None:
    from dataclasses import asdict
    from math import isfinite

    values = asdict(found)
    finite = {
        key: None if isinstance(value, float) and not isfinite(value) else value
        for key, value in values.items()
    }
    typer.echo(json_module.dumps({"case": case} | finite, indent=2))


def _print_words(found: "RareEstimate", age_years: float) -> None:
    when = "as manufactured" if age_years == 0 else f"by {age_years:g} years"
    typer.echo(
        f"dead {when}: {found.probability:.3g} "
        f"({found.confidence:.0%}: {found.lower:.3g} ... {found.upper:.3g})"
    )
    typer.echo(
        f"{found.failures} of {found.instances} slices drawn were dead, worth "
        f"{found.effective_samples:.4g} independent ones"
    )
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
