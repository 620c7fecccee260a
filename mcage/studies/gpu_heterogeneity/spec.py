"""The study of heterogeneous structures: its spec, from TOML and to TOML.

Each uncertain input is a number or a distribution; the defaults are ranges that hold what the paper
leaves open, so that results are a map and no point.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from mcage.spec.keys import Option, Section, StudySpec
from mcage.spec.sections import Name, Stopping, distinct, distribution_within
from mcage.studies.gpu_heterogeneity.structures import MEAN_L2_BASELINE_DELAY, YEARS, Reading

BENCHMARK, PRINTED, MODEL = "benchmark", "printed", "model"
"""Words in place of numbers: of the drawn benchmark; as printed of it; of the model alone."""


def _or_word(lowest: float, highest: float, unit: str, *words: str) -> BeforeValidator:
    """Make a validator of a number, a distribution, or certain words."""
    judge: Any = distribution_within(lowest, highest, unit).func

    def canonical(value: Any) -> float | str:
        if isinstance(value, str) and value in words:
            return value
        try:
            number: float | str = judge(value)
        except ValueError as error:
            raise ValueError(f"{error}; or the word {' or '.join(words)}") from error
        return number

    return BeforeValidator(canonical)


Duty = Annotated[float | str, distribution_within(0.001, 1, "of the time")]
Delay = Annotated[float | str, distribution_within(0.5, 10, "(times the baseline's)")]
Power = Annotated[float | str, distribution_within(0.01, 100, "(times the baseline's)")]


class Service(Section):
    """How long a GPU serves, and how warm its structures are."""

    panel: ClassVar = "Service"

    years: Annotated[
        float | str, distribution_within(0.01, 100, "years"), Option("--years YEARS")
    ] = YEARS
    """Age."""
    temperature_kelvin: Annotated[  # assumed; the paper plots it
        float | str, distribution_within(300, 420, "K"), Option("--temperature KELVIN")
    ] = "uniform(340.0, 370.0)"
    """Temperature of the baseline's structures."""


class SchedulerInputs(Section):
    """The warp scheduler."""

    panel: ClassVar = "Scheduler"

    benchmarks: Annotated[tuple[Name, ...], Option("--benchmark NAME", default="all ten")] = ()
    """Benchmark of Table 4 of Zhang et al., drawn as often as any other."""
    filter_rate: Annotated[
        float | str,
        _or_word(0, 1, "of the reads", BENCHMARK),
        Option("--filter-rate SHARE", default="benchmark, that of the benchmark"),
    ] = BENCHMARK
    """Share of the reads that the first stage spares."""
    baseline_delay: Annotated[float | str, _or_word(0.001, 1, "of the delay", PRINTED, MODEL)] = (
        PRINTED
    )
    """Delay increase of the baseline after 7 years; ``printed``: of the benchmark, where the paper
    prints none, or a filter rate is given, the mean of 7.7 %; ``model``: what the model has at the
    base duty."""
    # Assumed; 0.4 and 0.2306 meet the printed mean of the proposal under two of the readings.
    base_duty: Annotated[Duty, Option("--base-duty SHARE")] = "uniform(0.2, 0.6)"
    """Share of the time for which the baseline's scheduler is under stress."""
    theta_kelvin: Annotated[  # reconstructed: what either printed drop asks for
        float | str, distribution_within(0, 100, "K"), Option("--theta KELVIN")
    ] = "uniform(14.3, 15.4)"
    """Temperature drop at a filter rate of 1."""
    activation_ev: Annotated[  # reconstructed, two ways
        float | str, distribution_within(0, 1.5, "eV"), Option("--activation EV")
    ] = "uniform(0.863, 0.972)"
    """Activation energy under the reading thermal."""

    @field_validator("benchmarks")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return distinct(values)

    @model_validator(mode="after")
    def _benchmarks_are_of_use(self) -> Self:
        if self.benchmarks and self.filter_rate != BENCHMARK:
            raise ValueError("scheduler.benchmarks and scheduler.filter_rate: give one of them")
        return self


class L2Inputs(Section):
    """The L2 cache."""

    panel: ClassVar = "L2 cache"

    miss_rate: Annotated[  # printed: 0.047, 0.36, close to 1; seven are not
        float | str, distribution_within(0, 1, "of the requests"), Option("--miss-rate SHARE")
    ] = "uniform(0.0, 1.0)"
    """Miss rate of the L2."""
    baseline_delay: Annotated[float | str, _or_word(0.001, 1, "of the delay", MODEL)] = (
        MEAN_L2_BASELINE_DELAY
    )
    """Delay increase of the baseline after 7 years (printed mean); ``model``: what the model has at
    the base duty."""
    base_duty: Annotated[Duty, Option("--l2-base-duty SHARE")] = "uniform(0.5, 1.0)"  # assumed
    """Share of the time for which the baseline's L2 is under stress."""


class ProposalCosts(Section):
    """Time and power of the proposal, relative to the baseline."""

    panel: ClassVar = "Time and power over the baseline's"

    latency_cycles: Annotated[float | str, distribution_within(1, 1e6, "cycles")] = (
        "uniform(8.53, 41.7)"
    )
    """Mean latency of the longest-warp chain, of which the second stage takes one cycle more
    (printed: these two)."""
    l2_ipc_loss: Annotated[float | str, distribution_within(0, 0.9, "of the IPC")] = (
        "uniform(0.0, 0.015)"
    )
    """IPC that is lost since the L2 is read after its tags (printed bound: 1.5 %)."""
    delay: Annotated[
        Delay | None,
        Option(
            "--proposal-delay FACTOR",
            "by the latency of the longest-warp chain and the IPC that the L2 loses",
        ),
    ] = None
    """Execution time of the proposal."""
    # Assumed; the paper only plots that of the structures.
    power: Annotated[Power, Option("--proposal-power FACTOR")] = "uniform(0.8, 1.2)"
    """Power of the proposal."""

    @model_validator(mode="after")
    def _delay_or_its_parts(self) -> Self:
        for key in ("latency_cycles", "l2_ipc_loss"):
            if (
                self.delay is not None
                and getattr(self, key) != type(self).model_fields[key].default
            ):
                raise ValueError(f"proposal.delay and proposal.{key}: give one of them")
        return self


class DuplicationCosts(Section):
    """Time and power of duplication, relative to the baseline."""

    panel: ClassVar = "Time and power over the baseline's"

    delay: Annotated[Delay, Option("--duplication-delay FACTOR")] = 1.0  # assumed
    """Execution time of duplication."""
    # Assumed; the paper says that it is larger.
    power: Annotated[Power, Option("--duplication-power FACTOR")] = "uniform(1.0, 1.4)"
    """Power of duplication."""


class EfficiencyStopping(Stopping):
    """When a campaign may end before its last instance."""

    of: Annotated[Name, Option("--of VARIABLE")] = "efficiency"
    """The variable whose mean --rel-ci looks at."""


class HeterogeneitySpec(StudySpec):
    """Everything that decides the results of a study of heterogeneous structures."""

    command: ClassVar[str] = "gpu heterogeneity"

    compared: ClassVar = [
        *("readings", "fields", "fills", "instances", "seed", "stopping.rel_ci", "stopping.margin"),
        *("stopping.level", "stopping.of"),
    ]

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 10_000
    """Number of draws."""
    seed: Annotated[int, Field(ge=0, lt=2**63), Option("--seed N")] = 1
    """Seed of all random streams."""
    readings: Annotated[
        tuple[Reading, ...], Field(min_length=1), Option("--reading NAME", is_axis=True)
    ] = ("activity",)
    """Effect of a filtered read: activity (the duty), combined (duty and temperature), or
    thermal (the temperature)."""
    fields: Annotated[
        Literal["swapped", "common", "either"],
        Option("--fields NAME"),
    ] = "either"
    """Field constants of the two kinds: swapped, common, or either, drawn as often."""
    fills: Annotated[
        Literal["ignored", "counted", "either"],
        Option("--fills NAME", default="either"),
    ] = "either"
    """Effect of a miss on the L2: ignored, counted, or either, drawn as often."""
    service: Service = Service()
    scheduler: SchedulerInputs = SchedulerInputs()
    l2: L2Inputs = L2Inputs()
    proposal: ProposalCosts = ProposalCosts()
    duplication: DuplicationCosts = DuplicationCosts()
    stopping: EfficiencyStopping | None = None

    @field_validator("readings")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return distinct(values)
