"""Table of the options of `mcage gpu gating` that set a key of its spec."""

from mcage.cli.spec_option import SpecOption, grouped
from mcage.cli.spec_options import COMPARED, LIFE, WORKLOAD

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
