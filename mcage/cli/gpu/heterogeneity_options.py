"""Table of the options of `mcage gpu heterogeneity` that set a key of its spec."""

from typing import Any

from mcage.cli.spec_option import SpecOption, grouped, number_or_distribution
from mcage.cli.spec_options import COMPARED

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
