"""``mcage rare``: the probability of an early death."""

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.spec_options import (
    Engine,
    Epochs,
    Generations,
    Guardband,
    Horizon,
    Json,
    Kernel,
    LdsRows,
    Nbti,
    Periods,
    Release,
    Scenario,
    Seed,
    SigmaDie,
    Spec,
    Vdd,
    VminCoefficient,
    one,
    spec_of,
)
from mcage.plain_text import visible

if TYPE_CHECKING:
    from mcage.studies.rare_events import RareEstimate

DEFAULTS: dict[str, Any] = {
    "instances": 20_000,
    "environments": ["undervolted"],
    "scenarios": ["common"],
}
"""Where an estimate differs from a sweep unless told otherwise."""


def rare(
    spec: Spec = None,
    age: Annotated[float, typer.Option(help="Age in years; 0: dead as manufactured.")] = 0.0,
    instances: Annotated[int | None, typer.Option(help="Slices to draw; default: 20000.")] = None,
    seed: Seed = None,
    technique: Annotated[
        str | None, typer.Option(help="Technique; see `mcage techniques`.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            help="nominal, undervolted, dvfs, or one of SPEC's own; default: undervolted."
        ),
    ] = None,
    scenario: Scenario = None,
    vdd: Vdd = None,
    kernel: Kernel = None,
    periods: Periods = None,
    generations: Generations = None,
    release: Release = None,
    horizon: Horizon = None,
    epochs: Epochs = None,
    guardband: Guardband = None,
    nbti: Nbti = None,
    vmin_coefficient: VminCoefficient = None,
    sigma_die: SigmaDie = None,
    lds_rows: LdsRows = None,
    engine: Engine = "auto",
    json: Json = False,
) -> None:
    """Probability that a slice is dead by an age, however small, with its interval.

    Whatever else a sweep can be told is told by SPEC.
    """
    from mcage.campaign.progress import on_stderr
    from mcage.engines.select import select_engine
    from mcage.studies.rare_events import failure_probability

    options: dict[str, Any] = {
        "instances": instances,
        "seed": seed,
        "techniques": one(technique),
        "environments": one(environment),
        "scenarios": one(scenario),
        "vdd_volts": one(vdd),
        "workload.kernels": kernel,
        "workload.periods": periods,
        "workload.generations": generations,
        "workload.release": release,
        "life.horizon_years": horizon,
        "life.epochs": epochs,
        "life.delay_guardband": guardband,
        "life.vmin_coefficient": vmin_coefficient,
        "aging.model": nbti,
        "faults.sigma_die_volts": sigma_die,
        "registers.lds_rows": lds_rows,
    }
    chosen = spec_of(spec, options, "rare", DEFAULTS)
    selected, _ = select_engine(engine)
    found = failure_probability(
        chosen, age, chosen.instances, engine=selected, progress=on_stderr()
    )
    if json:
        _print_json(chosen, age, found)
        return
    _print_words(found, age)


def _print_json(spec: Any, age_years: float, found: "RareEstimate") -> None:
    from dataclasses import asdict
    from math import isfinite

    # JSON knows no infinity.
    values = {
        key: None if isinstance(value, float) and not isfinite(value) else value
        for key, value in asdict(found).items()
    }
    case = spec.model_dump(mode="json", exclude_none=True, exclude={"instances"})
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
        typer.echo(visible(f"warning: {warning}"), err=True)
