"""``mcage gpu``: studies of whole GPUs."""

import json as json_module
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.commands import GroupedCommand, with_options
from mcage.cli.run_options import Engine, Json, RunOptions, ShowSpec, run_study
from mcage.cli.spec_arguments import SpecArguments, SpecOptions
from mcage.cli.spec_option import SpecOption, grouped, number_or_distribution
from mcage.cli.spec_options import COMPARED, LIFE, REGISTERS, WORKLOAD, spec_option
from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.gpu.both.spec import BothSpec
    from mcage.gpu.gating.spec import GatingSpec
    from mcage.gpu.heterogeneity.spec import HeterogeneitySpec


# Table of the options of `mcage gpu heterogeneity` that set a key of its spec.

SCHEDULER = "Scheduler"
L2 = "L2 cache"
COSTS = "Time and power over the baseline's"
SERVICE = "Service"


def _counted(count: Any) -> str:
    return "counted" if count else "ignored"


def _input(usage: str, key: str, help: str, default: str) -> SpecOption:
    """Option of an uncertain input: a number, or the text of a distribution."""
    return SpecOption(usage, key, str, help, default, read=number_or_distribution)


HETEROGENEITY_OPTIONS: tuple[SpecOption, ...] = (
    *grouped(
        COMPARED,
        SpecOption(
            "--reading NAME",
            "readings",
            str,
            "What a filtered read changes: activity (the duty), combined (duty and temperature), "
            "or thermal (the temperature).",
            "activity",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--fields NAME",
            "fields",
            str,
            "Field constants of the two kinds: swapped, common, or either, drawn as often.",
            "either; where nothing is drawn, swapped",
        ),
        SpecOption(
            "--count-fills/--ignore-fills",
            "fills",
            bool,
            "Whether what a miss writes to the L2 counts, too.",
            "either, drawn as often; where nothing is drawn, ignored",
            read=_counted,
        ),
        SpecOption("--instances N", "instances", int, "Number of draws.", "10000"),
        SpecOption("--seed N", "seed", int, "Seed of all random streams.", "1"),
        SpecOption(
            "--rel-ci R",
            "stopping.rel_ci",
            float,
            "Stop as soon as a mean is known to this relative half-width (95 %).",
            "all instances are computed",
        ),
        SpecOption(
            "--of VARIABLE",
            "stopping.of",
            str,
            "The variable whose mean is looked at.",
            "efficiency",
        ),
    ),
    *grouped(
        SERVICE,
        _input("--years YEARS", "service.years", "Age.", "7"),
        _input(
            "--temperature KELVIN",
            "service.temperature_kelvin",
            "Temperature of the baseline's structures.",
            "uniform(340, 370)",
        ),
    ),
    *grouped(
        SCHEDULER,
        SpecOption(
            "--benchmark NAME",
            "scheduler.benchmarks",
            str,
            "Benchmark of Table 4 of Zhang et al., drawn as often as any other.",
            "all ten",
            repeats=True,
        ),
        _input(
            "--filter-rate SHARE",
            "scheduler.filter_rate",
            "Share of the reads that the first stage spares.",
            "benchmark, that of the benchmark",
        ),
        _input(
            "--base-duty SHARE",
            "scheduler.base_duty",
            "Share of the time for which the baseline's scheduler is under stress.",
            "uniform(0.2, 0.6)",
        ),
        _input(
            "--theta KELVIN",
            "scheduler.theta_kelvin",
            "Temperature drop at a filter rate of 1.",
            "uniform(14.3, 15.4)",
        ),
        _input(
            "--activation EV",
            "scheduler.activation_ev",
            "Activation energy under the reading thermal.",
            "uniform(0.863, 0.972)",
        ),
    ),
    *grouped(
        L2,
        _input("--miss-rate SHARE", "l2.miss_rate", "Miss rate of the L2.", "uniform(0, 1)"),
        _input(
            "--l2-base-duty SHARE",
            "l2.base_duty",
            "Share of the time for which the baseline's L2 is under stress.",
            "uniform(0.5, 1)",
        ),
    ),
    *grouped(
        COSTS,
        _input(
            "--proposal-delay FACTOR",
            "proposal.delay",
            "Execution time of the proposal.",
            "by the latency of the longest-warp chain and the IPC that the L2 loses",
        ),
        _input(
            "--proposal-power FACTOR",
            "proposal.power",
            "Power of the proposal.",
            "uniform(0.8, 1.2)",
        ),
        _input(
            "--duplication-delay FACTOR",
            "duplication.delay",
            "Execution time of duplication.",
            "1",
        ),
        _input(
            "--duplication-power FACTOR",
            "duplication.power",
            "Power of duplication.",
            "uniform(1, 1.4)",
        ),
    ),
)


# Table of the options of `mcage gpu gating` that set a key of its spec.

SENSORS = "Sensors"
VARIATION = "Process variation"

GATING_OPTIONS: tuple[SpecOption, ...] = (
    *grouped(
        COMPARED,
        SpecOption(
            "--policy NAME",
            "policies",
            str,
            "Policy that assigns SMs: default, least-shift, round-robin, random, fixed, "
            "coolest-first, most-slack, or a user-defined policy as module:NAME.",
            "default, round-robin, least-shift, coolest-first, most-slack",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--nbti NAME",
            "aging.model",
            str,
            "NBTI model, as `mcage nbti --list` lists them, or a user-defined one as module:NAME.",
            "facelift",
        ),
        SpecOption(
            "--horizon YEARS", "life.horizon_years", float, "Simulated time in years.", "10"
        ),
        SpecOption("--gpu NAME", "gpu", str, "GPU: gtx580, or a TOML file.", "gtx580"),
        SpecOption("--instances N", "instances", int, "Number of sampled GPUs.", "2000"),
        SpecOption("--seed N", "seed", int, "Seed of all random streams.", "1"),
    ),
    *grouped(
        WORKLOAD,
        SpecOption(
            "--kernels NAME",
            "workload.kernels",
            str,
            "Set of kernels: chen-2014, chen-2014-sizes, or a TOML file.",
            "chen-2014",
        ),
        SpecOption(
            "--kernel NAME",
            "workload.names",
            str,
            "Kernel of the set.",
            "all of them",
            repeats=True,
        ),
        SpecOption(
            "--job-days DAYS",
            "workload.job_days",
            float,
            "Time for which a GPU launches the same kernel; 0: each reading interval holds all.",
            "0",
        ),
        SpecOption(
            "--recorded FILE",
            "workload.recorded",
            str,
            "CSV file of a recorded sequence of launches (columns kernel, seconds).",
            "kernels by their weights",
        ),
        SpecOption(
            "--utilisation FRACTION",
            "workload.utilisation",
            float,
            "Fraction of the time in which a GPU whose SMs all work is busy.",
            "1",
        ),
        SpecOption(
            "--idle STATE",
            "workload.idle",
            str,
            "State of the SMs while the GPU is idle: gated or on.",
            "gated",
        ),
    ),
    *grouped(
        SENSORS,
        SpecOption(
            "--interval DAYS", "sensors.interval_days", float, "Days between two readings.", "7"
        ),
        SpecOption(
            "--noise MV",
            "sensors.noise_mv",
            float,
            "Standard deviation of a reading in mV.",
            "0",
        ),
        SpecOption(
            "--reassign WHEN",
            "sensors.reassign",
            str,
            "When policies that rotate choose other SMs: launch or reading.",
            "launch",
        ),
    ),
    *grouped(
        LIFE,
        SpecOption(
            "--guardband FRACTION",
            "life.delay_guardband",
            float,
            "Delay increase over the slowest new SM at which an SM is too slow.",
            "0.139",
        ),
        SpecOption(
            "--spare-sms N",
            "life.spare_sms",
            int,
            "Number of SMs that may be given up before the life of the GPU ends.",
            "0",
        ),
        SpecOption(
            "--temperature MODEL",
            "temperature.model",
            str,
            "Temperatures of SMs: network, from the powers of all blocks, or fixed.",
            "network",
        ),
        SpecOption(
            "--rel-ci R",
            "stopping.rel_ci",
            float,
            "Stop as soon as a mean is known to this relative half-width (95 %).",
            "all instances are computed",
        ),
        SpecOption(
            "--of VARIABLE",
            "stopping.of",
            str,
            "The variable whose mean is looked at.",
            "margin_needed",
        ),
    ),
    *grouped(
        VARIATION,
        SpecOption(
            "--sigma MV",
            "variation.sigma_systematic_mv",
            float,
            "Standard deviation of unaged thresholds, the part that is correlated over a die.",
            "19.2",
        ),
        SpecOption(
            "--sigma-die MV",
            "variation.sigma_die_mv",
            float,
            "Standard deviation of unaged thresholds from die to die.",
            "0",
        ),
        SpecOption(
            "--sigma-random MV",
            "variation.sigma_random_mv",
            float,
            "Standard deviation of unaged thresholds from SM to SM, without correlation.",
            "0",
        ),
        SpecOption(
            "--phi SIDES",
            "variation.phi",
            float,
            "Range of the spatial correlation in sides of the die.",
            "0.5",
        ),
    ),
)


# Rows of numbers: a table for people, a list for scripts.

Nominal = Annotated[
    Path | None,
    typer.Option(
        metavar="CASES.csv",
        help="Print the cases of a CSV file, without variation, instead of running a study.",
    ),
]


def print_rows(rows: Sequence[dict[str, Any]], json: bool, title: str = "") -> None:
    """Print rows that have the same keys; None where there is no value."""
    if json:
        typer.echo(json_module.dumps(list(rows), indent=2, allow_nan=False))
        return
    from mcage.report.console import console
    from mcage.report.tables.table import table_of_texts
    from mcage.report.tables.terminal import print_table
    from mcage.stats.wording import DASH

    words = [name for name, value in rows[0].items() if isinstance(value, str)]
    numbers = [name for name in rows[0] if name not in words]
    lines = [[DASH if value is None else _text(value) for value in row.values()] for row in rows]
    table = table_of_texts(title, list(rows[0]), lines, numbers, [*words, *numbers[:1]])
    print_table(table, console(), remedy="--json")


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


# Table of the options of `mcage gpu both` that set a key of its spec.

_OF_STUDY = ("seed", "stopping.rel_ci", "stopping.of")
"""Keys of `mcage gpu gating` that are keys of this study, too."""

_OTHERS = {"instances": "500", "policies": "default, round-robin", "stopping.of": "cell_margin"}
"""Defaults in which the study differs from one of SM gating."""


_LEFT_OUT = "workload.idle"
"""Key of `mcage gpu gating` of which this study takes the default only."""


def _listed(value: Any) -> list[Any]:
    return [value]


def _both_of_gating(row: SpecOption) -> SpecOption:
    is_study = row.key in ("instances", *_OF_STUDY)
    key = row.key if is_study else f"gating.{row.key}"
    return replace(row, key=key, default=_OTHERS.get(row.key, row.default))


def _of_sweep(flag: str, **changes: Any) -> SpecOption:
    row = spec_option(flag)
    return replace(row, **{"key": f"sweep.{row.key}", "group": REGISTERS} | changes)


BOTH_OPTIONS: tuple[SpecOption, ...] = (
    _of_sweep("--technique", group=COMPARED, default="baseline, rc+rar"),
    *(_both_of_gating(row) for row in GATING_OPTIONS if row.key != _LEFT_OUT),
    *grouped(
        REGISTERS,
        SpecOption(
            "--slices-per-sm N",
            "slices_per_sm",
            int,
            "Number of register-file slices of an SM.",
            "2, the 128 KB of a GTX580's SM",
        ),
        SpecOption(
            "--cell-vt0 WHICH",
            "cell_vt0",
            str,
            "Unaged threshold of cells: that of their SM (sm), or of the NBTI model (nominal).",
            "sm",
        ),
    ),
    _of_sweep("--environment", repeats=False, read=_listed, default="nominal"),
    _of_sweep("--scenario", repeats=False, read=_listed),
    _of_sweep("--vdd", repeats=False, read=_listed),
    _of_sweep(
        "--kernel",
        usage="--replay NAME",
        help="Bundled kernel that register files replay, or a trace file.",
    ),
    _of_sweep("--periods"),
    _of_sweep("--epochs"),
)


# ``mcage gpu gating``: which SMs work, and how long GPUs last.


def gating_spec() -> "type[GatingSpec]":
    """Return the class of the spec."""
    from mcage.gpu.gating.spec import GatingSpec

    return GatingSpec


def gating(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu gating",
            rows=GATING_OPTIONS,
            kind=gating_spec,
            example="workload.weights.LU=2",
        ),
    ],
    run: RunOptions,
    nominal: Nominal = None,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs whose SMs are gated: delay margin, lives and power under each policy.

    The same command again continues a study that was stopped. With --nominal, the cases of a CSV
    file without variation instead, launch by launch.
    """
    from mcage.gpu.gating.study import Gating, study_of_spec
    from mcage.plain_text import visible_lines

    spec: GatingSpec = arguments.spec()
    if nominal is not None:
        _print_nominal(nominal, spec, json)
        return
    if show_spec:
        typer.echo(visible_lines(Gating(spec).header.spec_toml), nl=False)
        return
    run_study(partial(study_of_spec, spec), run, json)


def _print_nominal(path: Path, spec: "GatingSpec", json: bool) -> None:
    """Print cases without variation; under the model of Chen et al. unless another is named."""
    from mcage.aging.nbti import nbti_model
    from mcage.gpu.gating.spec import GatingSpec
    from mcage.gpu.nominal.gating import gated_cases

    plain = GatingSpec(aging=spec.aging)
    if spec != plain:
        raise UserError(
            "--nominal: the cases of the file say all but the aging of an SM; of the options, only "
            "--nbti and --set aging... go with it"
        )
    given = "model" in spec.aging.model_fields_set
    name = spec.aging.model if given else "bhardwaj-unscaled"
    rows = gated_cases(path, nbti_model(name, spec.aging.constants), spec.aging.vdd_volts)
    print_rows(rows, json, f"NBTI model {name}")


# ``mcage gpu heterogeneity``: structures of planar and of FinFET transistors.


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


# ``mcage gpu optimum``: on how many SMs a kernel should run.

GpuName = Annotated[str, typer.Option("--gpu", metavar="NAME", help="GPU: gtx580, or a TOML file.")]


def optimum(
    kernels: Annotated[
        Path,
        typer.Argument(
            metavar="KERNELS.csv", help="CSV file with the characteristics of each kernel."
        ),
    ],
    gpu: GpuName = "gtx580",
    json: Json = False,
) -> None:
    """Show cycles and the optimal number of SMs of kernels (Chen et al., DAC 2014, Algorithm 1)."""
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.nominal.optimum import optima

    print_rows(optima(kernels, gpu_called(gpu).machine), json)


# ``mcage gpu both``: gated SMs whose register files run a protection technique.


def both_spec() -> "type[BothSpec]":
    """Return the class of the spec."""
    from mcage.gpu.both.spec import BothSpec

    return BothSpec


def both(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu both",
            rows=BOTH_OPTIONS,
            kind=both_spec,
            example="sweep.faults.mu_volts=0.14",
        ),
    ],
    run: RunOptions,
    nominal: Nominal = None,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs that gate SMs and protect register files: each level alone, both, none.

    The same command again continues a study that was stopped. With --nominal, the cases of a CSV
    file without variation instead, from shares of the time and duties.
    """
    from mcage.gpu.both.study import study_of_spec
    from mcage.plain_text import visible_lines

    spec: BothSpec = arguments.spec()
    if nominal is not None:
        _print_nominal_levels(nominal, spec, json)
        return
    if show_spec:
        typer.echo(visible_lines(study_of_spec(spec, engine).header.spec_toml), nl=False)
        return
    run_study(partial(study_of_spec, spec, engine), run, json, uses_devices=True)


def _print_nominal_levels(path: Path, spec: "BothSpec", json: bool) -> None:
    """Print cases without variation."""
    from mcage.aging.nbti import nbti_model
    from mcage.gpu.both.spec import BothSpec
    from mcage.gpu.nominal.both import combined_cases

    aging = spec.gating.aging
    levels = {"gating": BothSpec().gating.model_copy(update={"aging": aging})}
    if spec != BothSpec().model_copy(update=levels):
        raise UserError(
            "--nominal: the cases of the file say all but the aging; of the options, only --nbti "
            "and --set gating.aging... go with it"
        )
    rows = combined_cases(path, nbti_model(aging.model, aging.constants), aging.vdd_volts)
    print_rows(rows, json, f"NBTI model {aging.model}")


# ``mcage gpu temperature``: how hot the blocks of a GPU become.

MOST_SECONDS = 1e9


def temperature(
    powers: Annotated[
        Path,
        typer.Argument(
            metavar="POWERS.csv",
            help="CSV file with the columns block and power_W, and case if there are several.",
        ),
    ],
    gpu: GpuName = "gtx580",
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
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.nominal.temperature import temperatures

    if seconds is not None and not 0 <= seconds <= MOST_SECONDS:
        raise UserError(f"--seconds {seconds:g}: a time of 0 ... {MOST_SECONDS:g} s is needed")
    print_rows(temperatures(powers, gpu_called(gpu), seconds), json)


app = typer.Typer(
    help="Whole GPUs: which SMs work, what they are made of, how hot they become.",
    no_args_is_help=True,
)

for command in (both, gating, heterogeneity, optimum, temperature):
    app.command(cls=GroupedCommand)(with_options(command))
