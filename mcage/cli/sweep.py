"""``mcage sweep``: the main job."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from mcage.cli.named_numbers import named_numbers
from mcage.cli.spec_options import (
    Engine,
    Epochs,
    Generations,
    Guardband,
    Horizon,
    Kernel,
    LdsRows,
    Mix,
    Nbti,
    Periods,
    Release,
    Seed,
    SigmaDie,
    VminCoefficient,
    spec_of,
)
from mcage.errors import UserError
from mcage.plain_text import visible, visible_lines

DEFAULT_OUT = Path("results/sweep.h5")

_Several = list[str] | None


def sweep(
    spec: Annotated[
        Path | None, typer.Argument(help="Spec of the sweep as TOML; options override it.")
    ] = None,
    instances: Annotated[int | None, typer.Option(help="Instances of every case.")] = None,
    seed: Seed = None,
    technique: Annotated[
        _Several, typer.Option(help="Technique (repeat); see `mcage techniques`.")
    ] = None,
    environment: Annotated[
        _Several, typer.Option(help="nominal, undervolted, dvfs, or one of SPEC's own (repeat).")
    ] = None,
    scenario: Annotated[
        _Several, typer.Option(help="common, clustered or dispersed (repeat).")
    ] = None,
    vdd: Annotated[
        list[float] | None,
        typer.Option(help="Low supply voltage in V (repeat); default: the scenario's own."),
    ] = None,
    kernel: Kernel = None,
    periods: Periods = None,
    period_years: Annotated[
        float | None, typer.Option(help="Years that each kernel runs, instead of --periods.")
    ] = None,
    mix: Mix = None,
    generations: Generations = None,
    release: Release = None,
    horizon: Horizon = None,
    epochs: Epochs = None,
    guardband: Guardband = None,
    spill_limit: Annotated[
        float | None,
        typer.Option(
            help="Share of writes to the LDS that ends a life if exceeded; default: none."
        ),
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help='Temperature in K: a number, or a law as "normal(353, 5)".')
    ] = None,
    temperature_swing: Annotated[
        str | None,
        typer.Option(help='What it is hotter in each epoch, in K: a law as "normal(0, 5)".'),
    ] = None,
    activity: Annotated[
        str | None, typer.Option(help="Share of the time that slices are busy: a number or a law.")
    ] = None,
    idle: Annotated[
        str | None, typer.Option(help="What becomes of cells the rest of the time: gated or held.")
    ] = None,
    nbti: Nbti = None,
    vt0: Annotated[
        str | None,
        typer.Option(help="Unaged threshold voltage in V: a number or a law; default: model's."),
    ] = None,
    shift_factor: Annotated[
        str | None, typer.Option(help="Factor on threshold shifts: a number or a law.")
    ] = None,
    constant: Annotated[
        _Several,
        typer.Option(help="NAME=VALUE in place of the NBTI model's own (repeat)."),
    ] = None,
    vmin_coefficient: VminCoefficient = None,
    fault_mode: Annotated[
        str | None, typer.Option(help="varius, varius-selected, table or table-exact.")
    ] = None,
    spread_blocks: Annotated[
        bool | None,
        typer.Option(
            "--spread-blocks/--keep-blocks",
            help="Whether faulty bits of an entry spread over blocks.",
        ),
    ] = None,
    slices_per_chip: Annotated[
        int | None, typer.Option(help="Successive instances that share a die.")
    ] = None,
    mu: Annotated[
        float | None,
        typer.Option(help="Middle of the law of Vmin in V; default: the scenario's."),
    ] = None,
    sigma_die: SigmaDie = None,
    sigma_systematic: Annotated[
        float | None,
        typer.Option(help="Its correlated deviation within a slice in V; default: the scenario's."),
    ] = None,
    sigma_random: Annotated[
        float | None,
        typer.Option(help="Its deviation between cells in V; default: the scenario's."),
    ] = None,
    phi: Annotated[
        float | None,
        typer.Option(help="Range of correlation in slice sides; default: the scenario's."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest deviation of varius-selected maps; default: 0.05."),
    ] = None,
    delta_limit: Annotated[
        str | None, typer.Option(help="Largest delta of a compressible value, or none.")
    ] = None,
    lds_rows: LdsRows = None,
    selector_offsets: Annotated[
        int | None, typer.Option(help="Starting entries that rotating selectors are averaged over.")
    ] = None,
    technology: Annotated[
        str | None, typer.Option(help="Constants of energy and slowdown: 28nm or 32nm.")
    ] = None,
    rel_ci: Annotated[
        float | None,
        typer.Option(
            help="Stop, with at most --instances, once 95 % intervals are this narrow: "
            "half over value, 0.01 for 1 %."
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            help="Intervals of what: median_life (default), b10_life, life_to_horizon, max_dvth "
            "or spill_rate."
        ),
    ] = None,
    engine: Engine = "auto",
    devices: Annotated[
        str | None, typer.Option(help="Devices of the cuda engine, such as 0,1; default: all.")
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option(min=1, help="Instances per shard; does not change results."),
    ] = None,
    accept_other_code: Annotated[
        bool,
        typer.Option(
            "--accept-other-code",
            help="Continue, or keep, what another version of the code has computed.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Results file.")] = DEFAULT_OUT,
    show_spec: Annotated[
        bool, typer.Option("--show-spec", help="Check the spec, print it as TOML and stop.")
    ] = False,
) -> None:
    """Compute lifetimes, dVth and spill rates of thousands of instances into one results file.

    The same command again continues a sweep that was stopped.
    """
    options: dict[str, Any] = {
        "instances": instances,
        "seed": seed,
        "techniques": technique,
        "environments": environment,
        "scenarios": scenario,
        "vdd_volts": vdd,
        "workload.kernels": kernel,
        "workload.periods": periods,
        "workload.period_years": period_years,
        "workload.mix": mix,
        "workload.generations": generations,
        "workload.release": release,
        "life.horizon_years": horizon,
        "life.epochs": epochs,
        "life.delay_guardband": guardband,
        "life.spill_limit": spill_limit,
        "life.temperature_kelvin": _number_or_law(temperature),
        "life.temperature_swing_kelvin": _number_or_law(temperature_swing),
        "life.activity": _number_or_law(activity),
        "life.idle": idle,
        "life.vmin_coefficient": vmin_coefficient,
        "aging.model": nbti,
        "aging.vt0_volts": _number_or_law(vt0),
        "aging.shift_factor": _number_or_law(shift_factor),
        "aging.constants": named_numbers("--constant", constant),
        "faults.mode": fault_mode,
        "faults.spread_blocks": spread_blocks,
        "faults.slices_per_chip": slices_per_chip,
        "faults.mu_volts": mu,
        "faults.sigma_die_volts": sigma_die,
        "faults.sigma_systematic_volts": sigma_systematic,
        "faults.sigma_random_volts": sigma_random,
        "faults.phi": phi,
        "faults.tolerance": tolerance,
        "registers.delta_limit": _number_or_word(delta_limit),
        "registers.lds_rows": lds_rows,
        "registers.selector_offsets": selector_offsets,
        "costs.technology": technology,
        "stopping.rel_ci": rel_ci,
        "stopping.of": of,
    }
    chosen = spec_of(spec, options, "sweep")
    if show_spec:
        _check(chosen, engine, devices)
        typer.echo(visible_lines(chosen.to_toml()), nl=False)
        return
    _run(chosen, engine, devices, shard_size, accept_other_code, out)


def _number_or_word(text: str | None) -> int | str | None:
    is_number = text is not None and text.isdecimal() and len(text) < 20
    return int(text) if text is not None and is_number else text


def _number_or_law(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _check(spec: Any, engine: str, devices: str | None) -> None:
    """Refuse what the sweep itself would refuse, traces, techniques and cases included."""
    from mcage.engines.select import parse_devices, select_engine
    from mcage.sweep.study import Sweep
    from mcage.sweep.unused_keys import refuse_unused

    refuse_unused(spec)
    _ = Sweep(spec, *select_engine(engine, parse_devices(devices))).header


def _run(
    spec: Any,
    engine: str,
    devices: str | None,
    shard_size: int | None,
    accept_other_code: bool,
    out: Path,
) -> None:
    from mcage.campaign.progress import on_stderr
    from mcage.engines.select import parse_devices
    from mcage.report.console import console
    from mcage.report.notes import note_on_shared_dies
    from mcage.report.tables.summary import print_summaries, summarize_file
    from mcage.sweep.run import run_sweep

    numbers = parse_devices(devices)
    if out == DEFAULT_OUT:
        _make_folder(out.parent)
    try:
        path = run_sweep(spec, out, engine, shard_size, on_stderr(), numbers, accept_other_code)
    except (UserError, KeyboardInterrupt):
        if out == DEFAULT_OUT:
            _remove_if_empty(out.parent)
        raise
    print_summaries(summarize_file(path), console())
    if note := note_on_shared_dies(path):
        print(visible(note))
    print(visible(str(path)))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
