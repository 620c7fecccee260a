"""A study of heterogeneous structures: from its spec to the arrays of any range of draws."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from operator import attrgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.distributions import Distribution
from mcage.random import stream
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, rule_of
from mcage.results.measures import Case, Measure
from mcage.results.variable import Coordinate, Variable
from mcage.results.writer import Arrays, stacked
from mcage.stats.estimates import Estimate, proportion
from mcage.studies.common import StudyOfSpec
from mcage.studies.gpu_heterogeneity import structures
from mcage.studies.gpu_heterogeneity.spec import BENCHMARK, MODEL, PRINTED, HeterogeneitySpec

# Uncertain inputs, drawn for each instance.

PLACES = {
    "years": "service.years",
    "temperature_kelvin": "service.temperature_kelvin",
    "benchmark": "",
    "filter_rate": "scheduler.filter_rate",
    "baseline_delay": "scheduler.baseline_delay",
    "base_duty": "scheduler.base_duty",
    "theta_kelvin": "scheduler.theta_kelvin",
    "activation_ev": "scheduler.activation_ev",
    "miss_rate": "l2.miss_rate",
    "l2_baseline_delay": "l2.baseline_delay",
    "l2_base_duty": "l2.base_duty",
    "latency_cycles": "proposal.latency_cycles",
    "l2_ipc_loss": "proposal.l2_ipc_loss",
    "proposal_delay": "proposal.delay",
    "proposal_power": "proposal.power",
    "duplication_delay": "duplication.delay",
    "duplication_power": "duplication.power",
    "common_field": "",
    "fills": "",
}
"""By which number of a stream each input is drawn, and the key of the spec that is a number or a
distribution; new inputs come last, so that the draws of the others stay as they are."""

Floats = NDArray[np.float64]
Draws = dict[str, Floats]
"""Inputs of I instances by the names of `PLACES`, each float64[I]: delay increases of the baseline
are NaN where they are those of the model; ``common_field`` and ``fills`` are 0 or 1."""


def draw(
    spec: HeterogeneitySpec,
    benchmarks: Sequence[structures.Benchmark],
    instances: NDArray[np.int64],
) -> Draws:
    """Draw the inputs of some instances.

    Parameters
    ----------
    spec : HeterogeneitySpec
        Numbers and distributions.
    benchmarks : sequence of Benchmark
        Benchmarks of which each instance runs one.
    instances : int64[I]
        Their ids; the draws depend on these and the seed of the spec alone.
    """
    uniform = np.empty((len(instances), len(PLACES)))
    for row, instance in zip(uniform, instances.tolist(), strict=True):
        stream(spec.seed, "gpu.heterogeneity", instance).random(out=row)
    numbers = dict(zip(PLACES, uniform.T, strict=True))
    chosen = (numbers["benchmark"] * len(benchmarks)).astype(np.int64)

    def of(place: str, value: float | str | None) -> Floats:
        if value in (None, MODEL, PRINTED, BENCHMARK):
            return np.full(len(instances), np.nan)
        distribution = Distribution.of(value)
        if distribution.is_constant:
            return np.full(len(instances), distribution.numbers[0])
        return np.array([distribution.at(number) for number in numbers[place].tolist()])

    drawn = {place: of(place, attrgetter(key)(spec)) for place, key in PLACES.items() if key}
    is_benchmark = spec.scheduler.filter_rate == BENCHMARK
    if is_benchmark:
        drawn["filter_rate"] = np.array([benchmark.filter_rate for benchmark in benchmarks])[chosen]
    if spec.scheduler.baseline_delay == PRINTED:
        printed = np.array([benchmark.scheduler_delay for benchmark in benchmarks])[chosen]
        mean = np.full(len(instances), structures.MEAN_BASELINE_DELAY)
        drawn["baseline_delay"] = printed if is_benchmark else mean
    if spec.proposal.delay is None:
        overhead = structures.ipc_overhead(drawn["latency_cycles"])
        drawn["proposal_delay"] = (1 + overhead) / (1 - drawn["l2_ipc_loss"])
    drawn["common_field"] = _either(spec.fields, "common", numbers["common_field"])
    drawn["fills"] = _either(spec.fills, "counted", numbers["fills"])
    return drawn


def _either(choice: str, word: str, uniform: Floats) -> Floats:
    """1 for each instance that has the state that a word names, otherwise 0."""
    has = uniform < 0.5 if choice == "either" else np.full(len(uniform), choice == word)
    return has.astype(np.float64)


# Variables of the results files of a study of heterogeneous structures.

INPUTS = (
    Variable("years", ("instance",), "float64", "year", "age"),
    Variable("temperature_kelvin", ("instance",), "float64", "K", "temperature of the baseline"),
    Variable("filter_rate", ("instance",), "float64", "1", "share of the reads that are filtered"),
    Variable("base_duty", ("instance",), "float64", "1", "duty of the baseline's scheduler"),
    Variable(
        "theta_kelvin", ("instance",), "float64", "K", "temperature drop at a filter rate of 1"
    ),
    Variable("activation_ev", ("instance",), "float64", "eV", "activation energy, reading thermal"),
    Variable("miss_rate", ("instance",), "float64", "1", "miss rate of the L2"),
    Variable("l2_base_duty", ("instance",), "float64", "1", "duty of the baseline's L2"),
    Variable("common_field", ("instance",), "int8", "1", "whether field constants are common"),
    Variable("fills", ("instance",), "int8", "1", "whether fills of the L2 count"),
)
"""Drawn variables, which are the same under every interpretation."""

_BY_DESIGN = ("reading", "design", "instance")
_BY_READING = ("reading", "instance")

COSTS = (
    Variable("delay", ("design", "instance"), "float64", "1", "execution time over the baseline's"),
    Variable("power", ("design", "instance"), "float64", "1", "power over the baseline's"),
)
"""Performance delay and power; inputs, too."""

OUTPUTS = (
    Variable(
        "scheduler_delay",
        _BY_DESIGN,
        "float64",
        "1",
        "delay increase of the scheduler",
        "Of its stages, the larger.",
    ),
    Variable(
        "l2_delay",
        _BY_DESIGN,
        "float64",
        "1",
        "delay increase of the L2",
        "Of tags and data array, the larger.",
    ),
    Variable(
        "second_stage_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's second stage (FinFET)",
    ),
    Variable(
        "first_stage_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's first stage (planar)",
    ),
    Variable(
        "data_array_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's L2 data array (FinFET)",
    ),
    Variable(
        "tags_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's L2 tags (planar)",
    ),
    Variable(
        "efficiency",
        _BY_DESIGN,
        "float64",
        "1",
        "NBTI efficiency over the baseline's",
        "(D (1 + delay increase))^3 P, with the larger delay increase of scheduler and L2; less is "
        "better.",
    ),
    Variable(
        "break_even",
        _BY_DESIGN,
        "float64",
        "1",
        "D^3 P at which a design is as efficient as the baseline",
        "Needs no power: below it the design is better.",
    ),
    Variable(
        "order_holds",
        _BY_READING,
        "int8",
        "1",
        "whether proposal < baseline < duplication",
        "By efficiency, as printed; 1 where it holds, 0 where not.",
    ),
)
"""Computed variables, in the order of the files."""

VARIABLES = (*INPUTS, *COSTS, *OUTPUTS)

READING = Variable("reading", ("reading",), "text", "1", "what a filtered read changes")
DESIGN = Variable("design", ("design",), "text", "1", "design of scheduler and L2")


# Measures of the cases of a study, declared once.

EFFICIENCY = (
    "efficiency: (D (1 + delay increase))^3 P over the baseline's, less is better; break-even: "
    "D^3 P at which it is 1"
)


def _better(case: Case) -> Estimate | None:
    """Share of the draws in which a design is better than the baseline, which is the first."""
    if not case.place["design"]:
        return None
    efficiency = case["efficiency"]
    return proportion(int(np.count_nonzero(efficiency < 1)), len(efficiency))


MEASURES = (
    Measure(
        "scheduler_delay",
        "delay increase of the scheduler [%]",
        heading="scheduler\n[%]",
        better="less",
    ),
    Measure("l2_delay", "delay increase of the L2 [%]", heading="L2\n[%]", better="less"),
    Measure(
        "break_even",
        "D^3 P at which a design is as efficient as the baseline",
        heading="break-even\nD^3 P",
        better="more",
    ),
    Measure(
        "efficiency",
        "NBTI efficiency over the baseline's",
        heading="efficiency",
        primary=True,
        better="less",
        note=EFFICIENCY,
    ),
    *(
        Measure(
            f"efficiency_{percent}_percent",
            f"{percent} % quantile of the efficiency among the draws",
            ("efficiency",),
            partial(lambda share, case: np.quantile(case["efficiency"], share), percent / 100),
            f"{percent} % of\nthe draws",
            kind="number",
            primary=True,
        )
        for percent in (5, 95)
    ),
    Measure(
        "better",
        "better than the baseline [% of the draws]",
        ("efficiency",),
        lambda case: case["efficiency"] < 1,
        "better than\nbaseline [%]",
        "bounds",
        kind="share",
        estimator=_better,
        primary=True,
        better="more",
    ),
)
"""The measures of a study of heterogeneous structures, in the order of its table."""

ORDERS = tuple(
    Measure(
        key,
        f"{words} [% of the draws]",
        variables,
        values,
        heading,
        "bounds",
        kind="share",
        primary=key != "planar_limits",
    )
    for key, words, heading, variables, values in (
        (
            "holds",
            "the order of the paper holds",
            "holds",
            ("order_holds",),
            lambda case: case["order_holds"] != 0,
        ),
        (
            "proposal_better",
            "proposal better than baseline",
            "proposal\nbetter",
            ("efficiency",),
            lambda case: case["efficiency"][:, 1] < 1,
        ),
        (
            "duplication_worse",
            "duplication worse than baseline",
            "duplication\nworse",
            ("efficiency",),
            lambda case: case["efficiency"][:, 2] > 1,
        ),
        (
            "planar_limits",
            "a planar part sets the delay of the proposal",
            "planar\nlimits",
            ("first_stage_delay", "tags_delay", "second_stage_delay", "data_array_delay"),
            lambda case: (
                np.maximum(case["first_stage_delay"], case["tags_delay"])
                > np.maximum(case["second_stage_delay"], case["data_array_delay"])
            ),
        ),
    )
)
"""How often proposal < baseline < duplication holds, in part and as a whole, under a reading."""


FEWEST_DRAWS = 1024
"""Draws of a shard at least."""

Array = NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class HeterogeneityHeader(DeclaredHeader):
    """A study of heterogeneous structures as its files know it."""

    command: ClassVar[str] = "mcage gpu heterogeneity"
    spec: ClassVar[type] = HeterogeneitySpec
    maker: ClassVar[str] = f"{__name__}:Heterogeneity"
    grid: ClassVar[tuple[str, ...]] = ("reading", "design")
    measures: ClassVar[tuple[Measure, ...]] = MEASURES


class Heterogeneity(StudyOfSpec):
    """A study of heterogeneous structures.

    Parameters
    ----------
    spec : HeterogeneitySpec
        What to compute.

    Raises
    ------
    UserError
        A benchmark is unknown.
    """

    batch = FEWEST_DRAWS

    def __init__(self, spec: HeterogeneitySpec) -> None:
        self.spec: HeterogeneitySpec = spec
        self.benchmarks = structures.benchmarks_called(spec.scheduler.benchmarks)
        self._kinds = {name: structures.parts(name) for name in structures.FIELDS}

    @cached_property
    def header(self) -> HeterogeneityHeader:
        """Attributes of files that describe the study."""
        spec = self.spec
        return HeterogeneityHeader(
            name="gpu-heterogeneity",
            computes=VARIABLES,
            labels=(Coordinate(READING, spec.readings), Coordinate(DESIGN, structures.DESIGNS)),
            stopping=rule_of(spec.stopping, VARIABLES),
            **self.campaign(
                spec, spec.digest(str(SCHEMA_VERSION), repr(self.benchmarks), repr(self._kinds))
            ),
        )

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the draws ``first`` ... ``last`` - 1, as `VARIABLES` declare them.

        They are finite: within the ranges of the spec no transistor ages until it cannot switch.
        """
        draws = draw(self.spec, self.benchmarks, np.arange(first, last))
        costs = {name: _of_designs(draws, name) for name in ("delay", "power")}
        of_readings = [self._outputs(reading, draws, **costs) for reading in self.spec.readings]
        arrays: dict[str, Array] = {
            variable.name: draws[variable.name].astype(variable.dtype) for variable in INPUTS
        }
        arrays |= costs | stacked(of_readings)
        return {variable.name: arrays[variable.name] for variable in VARIABLES}

    def _outputs(
        self, reading: structures.Reading, draws: Draws, delay: Floats, power: Floats
    ) -> dict[str, Array]:
        """Variables that are computed under an interpretation."""
        aged = {design: self._aged(reading, draws, design) for design in structures.DESIGNS}
        scheduler, l2, largest = (
            np.stack([getattr(delays, of) for delays in aged.values()])
            for of in ("scheduler", "l2", "largest")
        )
        efficiency = structures.nbti_efficiency(delay, largest, power)
        aging = structures.nbti_efficiency(1.0, largest, 1.0)
        relative = efficiency / efficiency[0]
        baseline, proposal, duplication = relative
        parts = aged[structures.PROPOSAL]
        return {
            "scheduler_delay": scheduler,
            "l2_delay": l2,
            "second_stage_delay": parts.finfet_scheduler,
            "first_stage_delay": parts.planar_scheduler,
            "data_array_delay": parts.finfet_l2,
            "tags_delay": parts.planar_l2,
            "efficiency": relative,
            "break_even": aging[0] / aging,
            "order_holds": ((proposal < baseline) & (baseline < duplication)).astype(np.int8),
        }

    def _aged(
        self, reading: structures.Reading, draws: Draws, design: structures.Design
    ) -> structures.DesignDelays:
        """Delay increases of a design, each instance with its own field constants."""
        conditions = structures.Conditions(
            years=draws["years"], temperature_kelvin=draws["temperature_kelvin"]
        )
        two_stage = structures.TwoStage(
            reading, draws["base_duty"], draws["theta_kelvin"], draws["activation_ev"]
        )
        sequential = structures.SequentialL2(
            base_duty=draws["l2_base_duty"], count_fills=draws["fills"]
        )
        swapped, common = (
            structures.HeterogeneousGpu(
                kinds=self._kinds[name],
                conditions=conditions,
                two_stage=two_stage,
                sequential=sequential,
                scheduler_delay=draws["baseline_delay"],
                l2_delay=draws["l2_baseline_delay"],
            ).delays(design, draws["filter_rate"], draws["miss_rate"])
            for name in structures.FIELDS
        )
        selected = [
            np.where(draws["common_field"], getattr(common, part.name), getattr(swapped, part.name))
            for part in fields(structures.DesignDelays)
        ]
        return structures.DesignDelays(*selected)


def _of_designs(draws: Draws, cost: str) -> Floats:
    """A cost of each design, in the order of `DESIGNS`; 1 for the baseline."""
    proposal = draws[f"proposal_{cost}"]
    return np.stack([np.ones_like(proposal), proposal, draws[f"duplication_{cost}"]])
