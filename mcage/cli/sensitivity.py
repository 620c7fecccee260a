"""``mcage sensitivity``: which assumption matters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mcage.cli.spec_options import (
    Engine,
    Epochs,
    Generations,
    Horizon,
    Json,
    Kernel,
    Mix,
    Periods,
    Release,
    Scenario,
    Seed,
    Spec,
    Vdd,
    one,
    spec_of,
)

_Several = list[str] | None

ONE_AT_A_TIME, SOBOL = METHODS = ("one-at-a-time", "sobol")

DEFAULTS: dict[str, Any] = {
    "instances": 200,
    "techniques": ["rrcd"],
    "environments": ["dvfs"],
    "scenarios": ["common"],
}
"""Where a study differs from a sweep unless told otherwise: one case, and fewer dies."""


def sensitivity(
    spec: Spec = None,
    method: Annotated[str, typer.Option(help="one-at-a-time or sobol.")] = ONE_AT_A_TIME,
    of: Annotated[
        str,
        typer.Option(help="median_life, mean_life, survival, max_dvth, delay or spill_rate."),
    ] = "median_life",
    parameter: Annotated[
        _Several, typer.Option(help="What to vary (repeat); default: all that can matter.")
    ] = None,
    range_: Annotated[
        _Several,
        typer.Option(
            "--range",
            help="NAME=LOW..HIGH, or NAME=ONE,OTHER (repeat); NAME may be a key of the spec.",
        ),
    ] = None,
    ranges: Annotated[
        Path | None, typer.Option(help="TOML file of ranges, in the form of the shipped ones.")
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Fit amplitude and mu again, so that published figures stay as they are.",
        ),
    ] = True,
    samples: Annotated[int, typer.Option(help="Points of the Sobol' design, a power of two.")] = 64,
    instances: Annotated[int | None, typer.Option(help="Dies; default: 200.")] = None,
    seed: Seed = None,
    technique: Annotated[
        str | None, typer.Option(help="Technique; see `mcage techniques`. Default: rrcd.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="nominal, undervolted, dvfs, or one of SPEC's own; default: dvfs."),
    ] = None,
    scenario: Scenario = None,
    vdd: Vdd = None,
    kernel: Kernel = None,
    periods: Periods = None,
    mix: Mix = None,
    generations: Generations = None,
    release: Release = None,
    horizon: Horizon = None,
    epochs: Epochs = None,
    nbti: Annotated[str | None, typer.Option(help="NBTI model; see `mcage nbti --list`.")] = None,
    engine: Engine = "auto",
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write a file: .json, .csv, .png, .pdf or .svg.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the shipped ranges with status and source.")
    ] = False,
) -> None:
    """How much a life depends on each constant that is assumed, not known.

    Whatever else a sweep can be told is told by SPEC.
    """
    if list_:
        _list()
        return
    from mcage.errors import UserError
    from mcage.studies.sensitivity import QUANTITIES
    from mcage.studies.sensitivity.output import check_path
    from mcage.studies.sensitivity.sobol import check_samples

    if method not in METHODS:
        raise UserError(f"--method {method}: choose from {', '.join(METHODS)}")
    if of not in QUANTITIES:
        raise UserError(f"--of {of}: choose from {', '.join(QUANTITIES)}")
    check_samples(samples)
    if out:
        check_path(out)
    options: dict[str, Any] = {
        "instances": instances,
        "seed": seed,
        "techniques": one(technique),
        "environments": one(environment),
        "scenarios": one(scenario),
        "vdd_volts": one(vdd),
        "workload.kernels": kernel,
        "workload.periods": periods,
        "workload.mix": mix,
        "workload.generations": generations,
        "workload.release": release,
        "life.horizon_years": horizon,
        "life.epochs": epochs,
        "aging.model": nbti,
    }
    base = spec_of(spec, options, "sensitivity", DEFAULTS)
    varied = _varied(base, method, of, parameter or [], range_ or [], ranges)
    _run(base, varied, method, of, samples, refit, engine, json, out)


def _varied(
    base: Any, method: str, of: str, names: list[str], own: list[str], file: Path | None
) -> list[Any]:
    """Parameters and choices; unless named, those that quantity and method have a use for.

    A range on the command line is asked for by giving it, and never left out in silence.
    """
    from mcage.errors import UserError
    from mcage.studies.sensitivity import (
        QUANTITIES,
        check_keys,
        chosen,
        from_file,
        own_range,
        shipped,
    )

    entries = shipped()
    if file:
        of_file = from_file(file)
        check_keys(of_file, base, str(file))
        entries |= of_file
    given = [own_range(text, entries) for text in own]
    asked = [entry.name for entry in given]
    entries |= dict(zip(asked, given, strict=True))
    if names:
        for name in asked:
            if name not in names:
                raise UserError(f"--range {name}: it is not among what --parameter names")
        return chosen(base, entries, names)
    entries = {
        name: entry
        for name, entry in entries.items()
        if name in asked
        or (
            entry.applies(base)
            and entry.key not in QUANTITIES[of].changes
            and not (entry.alternatives and method == SOBOL)
        )
    }
    return chosen(base, entries, list(entries))


def _run(
    base: Any,
    varied: list[Any],
    method: str,
    of: str,
    samples: int,
    refit: bool,
    engine: str,
    json: bool,
    out: Path | None,
) -> None:
    from mcage.campaign.progress import on_stderr
    from mcage.engines.select import select_engine
    from mcage.report.console import console
    from mcage.studies.sensitivity import QUANTITIES, Sobol, Study, one_at_a_time, sobol
    from mcage.studies.sensitivity.output import as_json, write
    from mcage.studies.sensitivity.tables import print_one_at_a_time, print_sobol

    selected, reason = select_engine(engine)
    progress = on_stderr()
    study = Study(base, QUANTITIES[of], selected, refit, progress)
    progress.say(f"engine {selected.name} ({reason}); {study.label}")
    found = sobol(study, varied, samples) if method == SOBOL else one_at_a_time(study, varied)
    if out:
        write(found, base, out)
    if json:
        print(as_json(found, base))
    elif isinstance(found, Sobol):
        print_sobol(found, console())
    else:
        print_one_at_a_time(found, console())


def _list() -> None:
    from textwrap import fill

    from mcage.studies.sensitivity import shipped
    from mcage.studies.sensitivity.tables import setting

    for name, entry in shipped().items():
        ends = entry.range or entry.factors
        values = (
            " ... ".join(map(setting, ends))
            if ends
            else ", ".join(map(setting, entry.alternatives))
        )
        times = " times its value" if entry.factors else ""
        unit = "" if entry.unit == "1" or entry.factors else f" {entry.unit}"
        print(f"{name:<18}{entry.key:<40}{values + times + unit:<34}{entry.status}")
        print(fill(entry.source, 96, initial_indent="    ", subsequent_indent="    "))
