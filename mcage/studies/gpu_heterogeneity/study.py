"""A study of heterogeneous structures: from its spec to the arrays of any range of draws."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.study import Study
from mcage.distributions import Distribution
from mcage.random import stream
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, Header, mean_rule
from mcage.results.variable import Coordinate, Variable
from mcage.results.writer import Arrays
from mcage.studies.gpu_heterogeneity import structures
from mcage.studies.gpu_heterogeneity.spec import BENCHMARK, MODEL, PRINTED, HeterogeneitySpec
from mcage.version import running_code

# Uncertain inputs, drawn for each instance.

PLACES = (
    *("years", "temperature_kelvin", "benchmark", "filter_rate", "baseline_delay", "base_duty"),
    *("theta_kelvin", "activation_ev", "miss_rate", "l2_baseline_delay", "l2_base_duty"),
    *("latency_cycles", "l2_ipc_loss", "proposal_delay", "proposal_power"),
    *("duplication_delay", "duplication_power", "fields", "fills"),
)
"""Which number of a stream each input is drawn by; new inputs come last, so that the draws of the
others stay as they are."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Inputs of I instances, each float64[I].

    Parameters
    ----------
    years, temperature_kelvin
        Age, and temperature of the baseline.
    filter_rate, base_duty, theta_kelvin, activation_ev
        Of the scheduler.
    scheduler_delay, l2_delay
        Delay increase of the baseline after 7 years; NaN: that of the model.
    miss_rate, l2_base_duty
        Of the L2.
    proposal_delay, proposal_power, duplication_delay, duplication_power
        Relative to the baseline.
    common_field, fills : bool[I]
        Whether both kinds have the same field constant; whether fills count.
    """

    years: Floats
    temperature_kelvin: Floats
    filter_rate: Floats
    base_duty: Floats
    theta_kelvin: Floats
    activation_ev: Floats
    scheduler_delay: Floats
    l2_delay: Floats
    miss_rate: Floats
    l2_base_duty: Floats
    proposal_delay: Floats
    proposal_power: Floats
    duplication_delay: Floats
    duplication_power: Floats
    common_field: NDArray[np.bool_]
    fills: NDArray[np.bool_]


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
    scheduler, l2, service = spec.scheduler, spec.l2, spec.service
    chosen = (numbers["benchmark"] * len(benchmarks)).astype(np.int64)

    def of(place: str, given: float | str) -> Floats:
        distribution = Distribution.of(given)
        if distribution.is_constant:
            return np.full(len(instances), distribution.numbers[0])
        return np.array([distribution.at(number) for number in numbers[place].tolist()])

    def of_model_or(place: str, given: float | str) -> Floats:
        return np.full(len(instances), np.nan) if given == MODEL else of(place, given)

    def of_benchmark(values: Sequence[float]) -> Floats:
        return np.array(values)[chosen]

    if scheduler.filter_rate == BENCHMARK:
        filter_rate = of_benchmark([benchmark.filter_rate for benchmark in benchmarks])
    else:
        filter_rate = of("filter_rate", scheduler.filter_rate)
    if scheduler.baseline_delay != PRINTED:
        scheduler_delay = of_model_or("baseline_delay", scheduler.baseline_delay)
    elif scheduler.filter_rate == BENCHMARK:
        scheduler_delay = of_benchmark([benchmark.scheduler_delay for benchmark in benchmarks])
    else:
        scheduler_delay = np.full(len(instances), structures.MEAN_BASELINE_DELAY)
    costs = spec.proposal
    if costs.delay is None:
        overhead = structures.ipc_overhead(of("latency_cycles", costs.latency_cycles))
        proposal_delay = (1 + overhead) / (1 - of("l2_ipc_loss", costs.l2_ipc_loss))
    else:
        proposal_delay = of("proposal_delay", costs.delay)
    return Draws(
        years=of("years", service.years),
        temperature_kelvin=of("temperature_kelvin", service.temperature_kelvin),
        filter_rate=filter_rate,
        base_duty=of("base_duty", scheduler.base_duty),
        theta_kelvin=of("theta_kelvin", scheduler.theta_kelvin),
        activation_ev=of("activation_ev", scheduler.activation_ev),
        scheduler_delay=scheduler_delay,
        l2_delay=of_model_or("l2_baseline_delay", l2.baseline_delay),
        miss_rate=of("miss_rate", l2.miss_rate),
        l2_base_duty=of("l2_base_duty", l2.base_duty),
        proposal_delay=proposal_delay,
        proposal_power=of("proposal_power", costs.power),
        duplication_delay=of("duplication_delay", spec.duplication.delay),
        duplication_power=of("duplication_power", spec.duplication.power),
        common_field=_either(spec.fields, "common", numbers["fields"]),
        fills=_either(spec.fills, "counted", numbers["fills"]),
    )


def _either(given: str, word: str, uniform: Floats) -> NDArray[np.bool_]:
    """Whether each instance has the state that a word names."""
    if given == "either":
        return uniform < 0.5
    return np.full(len(uniform), given == word)


# What a study of heterogeneous structures writes: each variable of its results files.

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
"""What is drawn, and the same under every reading."""

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
"""What is computed, in the order of the files."""

VARIABLES = (*INPUTS, *COSTS, *OUTPUTS)

READING = Variable("reading", ("reading",), "text", "1", "what a filtered read changes")
DESIGN = Variable("design", ("design",), "text", "1", "design of scheduler and L2")


FEWEST_DRAWS = 1024
"""Draws of a shard at least."""

Array = NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class HeterogeneityHeader(DeclaredHeader):
    """A study of heterogeneous structures as its files know it."""

    command: ClassVar[str] = "mcage gpu heterogeneity"
    spec: ClassVar[type] = HeterogeneitySpec
    maker: ClassVar[str] = f"{__name__}:study_of_spec"


class Heterogeneity:
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

    def __init__(self, spec: HeterogeneitySpec) -> None:
        self.spec = spec
        self.benchmarks = structures.benchmarks_called(spec.scheduler.benchmarks)
        self._kinds = {name: structures.parts(name) for name in structures.FIELDS}

    @cached_property
    def header(self) -> HeterogeneityHeader:
        """What files say about the study."""
        spec = self.spec
        return HeterogeneityHeader(
            name="gpu-heterogeneity",
            computes=VARIABLES,
            labels=(Coordinate(READING, spec.readings), Coordinate(DESIGN, structures.DESIGNS)),
            spec_toml=spec.to_toml(),
            spec_digest=spec.digest(str(SCHEMA_VERSION), repr(self.benchmarks), repr(self._kinds)),
            seed=spec.seed,
            instances=spec.instances,
            engine="numpy",
            stopping=mean_rule(spec.stopping, VARIABLES),
            codes=(running_code(),),
        )

    @property
    def study(self) -> Study:
        """The study as campaigns know it."""
        maker = f"{__name__}:{study_of_header.__name__}"
        return Study(self.header, self.compute, maker, FEWEST_DRAWS)

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the draws ``first`` ... ``last`` - 1, as `VARIABLES` declare them.

        They are finite: within the ranges of the spec no transistor ages until it cannot switch.
        """
        draws = draw(self.spec, self.benchmarks, np.arange(first, last))
        of_readings = [self._outputs(reading, draws) for reading in self.spec.readings]
        arrays: dict[str, Array] = {
            variable.name: getattr(draws, variable.name).astype(variable.dtype)
            for variable in INPUTS
        }
        arrays["delay"] = _of_designs(draws.proposal_delay, draws.duplication_delay)
        arrays["power"] = _of_designs(draws.proposal_power, draws.duplication_power)
        for name in of_readings[0]:
            arrays[name] = np.stack([outputs[name] for outputs in of_readings])
        return {variable.name: arrays[variable.name] for variable in VARIABLES}

    def _outputs(self, reading: structures.Reading, draws: Draws) -> dict[str, Array]:
        """What is computed under a reading."""
        aged = {design: self._aged(reading, draws, design) for design in structures.DESIGNS}
        delay = _of_designs(draws.proposal_delay, draws.duplication_delay)
        power = _of_designs(draws.proposal_power, draws.duplication_power)
        largest = np.stack([aged[design].largest for design in structures.DESIGNS])
        efficiency = structures.nbti_efficiency(delay, largest, power)
        aging = structures.nbti_efficiency(1.0, largest, 1.0)
        relative = efficiency / efficiency[0]
        return {
            "scheduler_delay": np.stack([aged[design].scheduler for design in structures.DESIGNS]),
            "l2_delay": np.stack([aged[design].l2 for design in structures.DESIGNS]),
            "second_stage_delay": aged[structures.PROPOSAL].finfet_scheduler,
            "first_stage_delay": aged[structures.PROPOSAL].planar_scheduler,
            "data_array_delay": aged[structures.PROPOSAL].finfet_l2,
            "tags_delay": aged[structures.PROPOSAL].planar_l2,
            "efficiency": relative,
            "break_even": aging[0] / aging,
            "order_holds": (
                (
                    relative[structures.DESIGNS.index(structures.PROPOSAL)]
                    < relative[structures.DESIGNS.index(structures.BASELINE)]
                )
                & (
                    relative[structures.DESIGNS.index(structures.BASELINE)]
                    < relative[structures.DESIGNS.index(structures.DUPLICATION)]
                )
            ).astype(np.int8),
        }

    def _aged(
        self, reading: structures.Reading, draws: Draws, design: structures.Design
    ) -> structures.DesignDelays:
        """Delay increases of a design, each instance with its own field constants."""
        swapped, common = (
            structures.HeterogeneousGpu(
                kinds=self._kinds[name],
                conditions=structures.Conditions(
                    years=draws.years, temperature_kelvin=draws.temperature_kelvin
                ),
                two_stage=structures.TwoStage(
                    reading, draws.base_duty, draws.theta_kelvin, draws.activation_ev
                ),
                sequential=structures.SequentialL2(
                    base_duty=draws.l2_base_duty, count_fills=draws.fills
                ),
                scheduler_delay=draws.scheduler_delay,
                l2_delay=draws.l2_delay,
            ).delays(design, draws.filter_rate, draws.miss_rate)
            for name in structures.FIELDS
        )
        selected = [
            np.where(draws.common_field, getattr(common, part.name), getattr(swapped, part.name))
            for part in fields(structures.DesignDelays)
        ]
        return structures.DesignDelays(*selected)


def study_of_spec(spec: HeterogeneitySpec) -> Study:
    """The study of a spec."""
    return Heterogeneity(spec).study


def study_of_header(header: Header) -> Study:
    """The study of a header, as another process makes it."""
    return study_of_spec(HeterogeneitySpec.from_mapping(tomllib.loads(header.spec_toml)))


def _of_designs(
    proposal: NDArray[np.float64], duplication: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rows in the order of `DESIGNS`; 1 for the baseline."""
    return np.stack([np.ones_like(proposal), proposal, duplication])
