"""Table of the options that set a key of a spec: `sweep`, `rare` and `sensitivity` draw from it.

A new option is one row. Keys without an option are set by ``--set KEY=VALUE``.
"""

from mcage.cli.spec_option import (
    SpecOption,
    constants,
    grouped,
    number_or_distribution,
    whole_number_or_word,
)

COMPARED = "What to compare"
CASE = "Case"
"""Panel in place of `COMPARED` where a command looks at one case."""

ONE_CASE = {"environments": ["dvfs"], "scenarios": ["common"]}
"""Defaults of the commands that look at one case."""

WORKLOAD = "Workload"
LIFE = "Life"
AGING = "Aging"
FAULTS = "Faults"
REGISTERS = "Registers"
RUN = "Run"


SPEC_OPTIONS: tuple[SpecOption, ...] = (
    *grouped(
        COMPARED,
        SpecOption(
            "--technique NAME",
            "techniques",
            str,
            "Protection technique, as `mcage techniques` lists them, or a user-defined one as "
            "module:NAME.",
            "baseline, rc+rar, rrcd, rrcd+rc+rar",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--environment NAME",
            "environments",
            str,
            "Operating points of a life: nominal, undervolted, dvfs, or a name that SPEC defines.",
            "nominal, dvfs",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--scenario NAME",
            "scenarios",
            str,
            "Process variation: common, clustered, dispersed or measured.",
            "common",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--vdd VOLTS",
            "vdd_volts",
            float,
            "Low supply voltage in V.",
            "the scenario's own",
            repeats=True,
            is_axis=True,
        ),
        SpecOption(
            "--kernel NAME",
            "workload.kernels",
            str,
            "Bundled kernel, as `mcage trace list` lists them, or a trace file.",
            "all bundled kernels",
            repeats=True,
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
        SpecOption(
            "--instances N",
            "instances",
            int,
            "Number of sampled lives of a slice in every case.",
            "10000",
        ),
        SpecOption("--seed N", "seed", int, "Seed of all random streams.", "1"),
    ),
    *grouped(
        WORKLOAD,
        SpecOption(
            "--periods N",
            "workload.periods",
            int,
            "Number of equal periods of a life; every instance draws a kernel for each.",
            "5",
        ),
        SpecOption(
            "--period-years YEARS",
            "workload.period_years",
            float,
            "Length of a period in years, instead of --periods.",
            "a fifth of the horizon",
            seldom=True,
        ),
        SpecOption(
            "--mix MIX",
            "workload.mix",
            str,
            "How kernels are drawn: uniform, one (for life), dirichlet(alpha), or "
            "weights(kernel: weight, ...).",
            "uniform",
        ),
        SpecOption(
            "--generations N",
            "workload.generations",
            int,
            "Number of windows of each slot after which traces are cut; 0: whole traces.",
            "0",
        ),
        SpecOption(
            "--release WHEN",
            "workload.release",
            str,
            "When a register window is freed: at the end of its wavefront or of its work-group.",
            "wavefront",
            seldom=True,
        ),
    ),
    *grouped(
        LIFE,
        SpecOption(
            "--epochs N",
            "life.epochs",
            int,
            "Number of epochs, in each of which the fault map is fixed.",
            "6",
        ),
        SpecOption(
            "--guardband FRACTION",
            "life.delay_guardband",
            float,
            "Relative delay increase that ends a life.",
            "0.139",
        ),
        SpecOption(
            "--spill-limit FRACTION",
            "life.spill_limit",
            float,
            "Fraction of a kernel's register writes to the LDS above which a life ends.",
            "no limit",
        ),
        SpecOption(
            "--temperature KELVIN",
            "life.temperature_kelvin",
            str,
            'Temperature in K: a number, or a distribution such as "normal(353, 5)".',
            "353.15",
            read=number_or_distribution,
        ),
        SpecOption(
            "--temperature-swing KELVIN",
            "life.temperature_swing_kelvin",
            str,
            'Temperature offset drawn for each epoch, in K: a distribution such as "normal(0, 5)".',
            "0",
            read=number_or_distribution,
            seldom=True,
        ),
        SpecOption(
            "--activity FRACTION",
            "life.activity",
            str,
            "Fraction of the time in which slices are busy: a number or a distribution.",
            "1",
            read=number_or_distribution,
            seldom=True,
        ),
        SpecOption(
            "--idle STATE",
            "life.idle",
            str,
            "State of the cells while the slice is idle: gated (off) or held (on).",
            "gated",
            seldom=True,
        ),
    ),
    *grouped(
        AGING,
        SpecOption(
            "--vt0 VOLTS",
            "aging.vt0_volts",
            str,
            "Unaged threshold voltage in V: a number or a distribution.",
            "the model's own",
            read=number_or_distribution,
            seldom=True,
        ),
        SpecOption(
            "--shift-factor FACTOR",
            "aging.shift_factor",
            str,
            "Factor on threshold shifts: a number or a distribution.",
            "1",
            read=number_or_distribution,
            seldom=True,
        ),
        SpecOption(
            "--nbti-spread ETA",
            "aging.nbti_spread_mv",
            float,
            "Mean shift by a charged trap in mV: equally stressed transistors shift differently.",
            "0",
        ),
        SpecOption(
            "--delay-path PATH",
            "life.delay_path",
            str,
            'Paths that the delay is judged by, with --nbti-spread: word, worst, or "paths(N, K)".',
            "word",
            seldom=True,
        ),
        SpecOption(
            "--constant NAME=VALUE",
            "aging.constants",
            str,
            "Constant of the NBTI model, such as eta=0.3.",
            "the model's own",
            repeats=True,
            read=constants,
        ),
        SpecOption(
            "--constants FILE",
            "draws",
            str,
            "CSV file of joint draws of constants, such as a column aging.constants.eta: each "
            "instance has a row of it.",
            "no draws",
            seldom=True,
        ),
        SpecOption(
            "--pbti RATIO",
            "aging.pbti",
            str,
            "Shifts of pull-down transistors (PBTI), as a ratio to those of a PMOS under the same "
            "stress, or an NBTI model by its name.",
            "0",
            read=number_or_distribution,
        ),
        SpecOption(
            "--vmin-model NAME",
            "aging.vmin_model",
            str,
            "How Vmin grows: with the larger shift of a cell, or by margins for reading, writing "
            "and holding (margins, margins-low, margins-high).",
            "larger",
        ),
        SpecOption(
            "--vmin-coefficient FACTOR",
            "life.vmin_coefficient",
            float,
            "Growth of a cell's Vmin per threshold shift, in V/V.",
            "1",
            seldom=True,
        ),
    ),
    *grouped(
        FAULTS,
        SpecOption(
            "--fault-mode MODE",
            "faults.mode",
            str,
            "Fault model: varius, varius-selected, table or table-exact.",
            "varius",
            seldom=True,
        ),
        SpecOption(
            "--spread-blocks/--keep-blocks",
            "faults.spread_blocks",
            bool,
            "Whether the faulty bits of an entry are spread over as many of its blocks.",
            "--keep-blocks",
            seldom=True,
        ),
        SpecOption(
            "--slices-per-chip N",
            "faults.slices_per_chip",
            int,
            "Number of successive instances that share a die.",
            "1",
        ),
        SpecOption(
            "--mu VOLTS",
            "faults.mu_volts",
            float,
            "Middle of the distribution of Vmin in V.",
            "the scenario's",
        ),
        SpecOption(
            "--sigma-die VOLTS",
            "faults.sigma_die_volts",
            float,
            "Standard deviation of Vmin from die to die, in V.",
            "the scenario's",
            seldom=True,
        ),
        SpecOption(
            "--sigma-systematic VOLTS",
            "faults.sigma_systematic_volts",
            float,
            "Standard deviation of the part of Vmin that is correlated within a slice, in V.",
            "the scenario's",
            seldom=True,
        ),
        SpecOption(
            "--sigma-random VOLTS",
            "faults.sigma_random_volts",
            float,
            "Standard deviation of Vmin from cell to cell, in V.",
            "the scenario's",
            seldom=True,
        ),
        SpecOption(
            "--phi SIDES",
            "faults.phi",
            float,
            "Range of the spatial correlation of a smooth field, in sides of the slice.",
            "the scenario's",
            seldom=True,
        ),
        SpecOption(
            "--arrays SIZE",
            "faults.arrays",
            str,
            "Size of the arrays that deviate as wholes, ENTRIESxBITS, or none: a smooth field.",
            "the scenario's",
            seldom=True,
        ),
        SpecOption(
            "--tolerance FRACTION",
            "faults.tolerance",
            float,
            "Largest deviation of a map of varius-selected from the published table.",
            "0.05",
            seldom=True,
        ),
    ),
    *grouped(
        REGISTERS,
        SpecOption(
            "--geometry NAME",
            "registers.geometry",
            str,
            "Slice: gcn, 256 registers of 64 lanes, or nvidia, 512 of 32.",
            "that of the traces",
        ),
        SpecOption(
            "--delta-limit N",
            "registers.delta_limit",
            str,
            "Largest delta of a compressible value, a power of two, or none.",
            "64",
            read=whole_number_or_word,
        ),
        SpecOption(
            "--lds-rows N",
            "registers.lds_rows",
            int,
            "Number of registers that the spill partition of the LDS holds for one slice.",
            "8 KiB, 32 registers of 64 lanes",
            seldom=True,
        ),
        SpecOption(
            "--selector-offsets N",
            "registers.selector_offsets",
            int,
            "Number of starting entries over which rotating selectors are averaged.",
            "8",
            seldom=True,
        ),
        SpecOption(
            "--technology NAME",
            "costs.technology",
            str,
            "Technology whose constants of energy and slowdown are taken: 28nm, 32nm, or one of "
            "--costs.",
            "28nm",
            seldom=True,
        ),
        SpecOption(
            "--costs FILE",
            "costs.tables",
            str,
            "TOML file of constants of energy and slowdown.",
            "those of the papers",
            seldom=True,
        ),
    ),
    *grouped(
        RUN,
        SpecOption(
            "--rel-ci FRACTION",
            "stopping.rel_ci",
            float,
            "Half-width of the 95 % interval, relative to the value (0.01 for 1 %), at which a "
            "sweep ends before --instances.",
            "compute all instances",
            only_sweeps=True,
        ),
        SpecOption(
            "--of QUANTITY",
            "stopping.of",
            str,
            "Quantity that --rel-ci looks at: median_life, b10_life, rmst (mean life up to the "
            "horizon), max_dvth or spill_rate.",
            "median_life",
            only_sweeps=True,
        ),
    ),
)


def spec_option(flag: str) -> SpecOption:
    """Row of an option, by its flag."""
    return next(row for row in SPEC_OPTIONS if row.flag == flag)
