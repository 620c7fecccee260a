"""What a study of heterogeneous structures computes: its spec, from TOML and to TOML.

Each uncertain input is a number or a distribution; the defaults are ranges that hold what the paper
leaves open, so that results are a map and no point.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from mcage.gpu.heterogeneity.aging import YEARS
from mcage.gpu.heterogeneity.benchmarks import MEAN_L2_BASELINE_DELAY
from mcage.gpu.heterogeneity.scheduler import Reading
from mcage.gpu.stopping import MeanStopping
from mcage.spec.sections import Name, Section, distinct, distribution_within
from mcage.spec.study_spec import StudySpec

BENCHMARK, PRINTED, MODEL = "benchmark", "printed", "model"
"""Words in place of numbers: of the drawn benchmark; as printed of it; of the model alone."""


def _or_word(lowest: float, highest: float, unit: str, *words: str) -> BeforeValidator:
    """Make a validator of a number, a distribution, or certain words."""
    judge: Any = distribution_within(lowest, highest, unit).func

    def canonical(given: Any) -> float | str:
        if isinstance(given, str) and given in words:
            return given
        try:
            number: float | str = judge(given)
        except ValueError as error:
            raise ValueError(f"{error}; or the word {' or '.join(words)}") from error
        return number

    return BeforeValidator(canonical)


Duty = Annotated[float | str, distribution_within(0.001, 1, "of the time")]
Delay = Annotated[float | str, distribution_within(0.5, 10, "(times the baseline's)")]
Power = Annotated[float | str, distribution_within(0.01, 100, "(times the baseline's)")]


class Service(Section):
    """How long a GPU serves, and how warm its structures are."""

    years: Annotated[float | str, distribution_within(0.01, 100, "years")] = YEARS
    """Age (printed: 7)."""
    temperature_kelvin: Annotated[float | str, distribution_within(300, 420, "K")] = (
        "uniform(340.0, 370.0)"
    )
    """Temperature of the baseline's structures (assumed; the paper plots it)."""


class SchedulerInputs(Section):
    """The warp scheduler."""

    benchmarks: tuple[Name, ...] = ()
    """Benchmarks, each drawn as often as any other; empty: all ten."""
    filter_rate: Annotated[float | str, _or_word(0, 1, "of the reads", BENCHMARK)] = BENCHMARK
    """Share of the reads that the first stage spares; ``benchmark``: that of the benchmark."""
    baseline_delay: Annotated[float | str, _or_word(0.001, 1, "of the delay", PRINTED, MODEL)] = (
        PRINTED
    )
    """Delay increase of the baseline after 7 years; ``printed``: of the benchmark, where the paper
    prints none, or a filter rate is given, the mean of 7.7 %; ``model``: what the model has at the
    base duty."""
    base_duty: Duty = "uniform(0.2, 0.6)"
    """Share of the time for which an entry of the baseline is under stress (assumed; 0.4 and 0.2306
    meet the printed mean of the proposal under two of the readings)."""
    theta_kelvin: Annotated[float | str, distribution_within(0, 100, "K")] = "uniform(14.3, 15.4)"
    """Temperature drop at a filter rate of 1 (reconstructed: what either printed drop asks for)."""
    activation_ev: Annotated[float | str, distribution_within(0, 1.5, "eV")] = (
        "uniform(0.863, 0.972)"
    )
    """Activation energy under the reading ``thermal`` (reconstructed, two ways)."""

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

    miss_rate: Annotated[float | str, distribution_within(0, 1, "of the requests")] = (
        "uniform(0.0, 1.0)"
    )
    """Miss rate (printed: 0.047, 0.36, close to 1; seven are not)."""
    baseline_delay: Annotated[float | str, _or_word(0.001, 1, "of the delay", MODEL)] = (
        MEAN_L2_BASELINE_DELAY
    )
    """Delay increase of the baseline after 7 years (printed mean); ``model``: what the model has at
    the base duty."""
    base_duty: Duty = "uniform(0.5, 1.0)"
    """Share of the time for which the baseline's data array is under stress (assumed)."""


class ProposalCosts(Section):
    """Time and power of the proposal, relative to the baseline."""

    latency_cycles: Annotated[float | str, distribution_within(1, 1e6, "cycles")] = (
        "uniform(8.53, 41.7)"
    )
    """Mean latency of the longest-warp chain, of which the second stage takes one cycle more
    (printed: these two)."""
    l2_ipc_loss: Annotated[float | str, distribution_within(0, 0.9, "of the IPC")] = (
        "uniform(0.0, 0.015)"
    )
    """IPC that is lost since the L2 is read after its tags (printed bound: 1.5 %)."""
    delay: Delay | None = None
    """Execution time; None: by the two keys above."""
    power: Power = "uniform(0.8, 1.2)"
    """Power (assumed; the paper only plots that of the structures)."""

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

    delay: Delay = 1.0
    """Execution time (assumed)."""
    power: Power = "uniform(1.0, 1.4)"
    """Power (assumed; the paper says that it is larger)."""


class EfficiencyStopping(MeanStopping):
    """When a campaign may end before its last instance."""

    of: Name = "efficiency"
    """Variable whose mean is looked at."""


class HeterogeneitySpec(StudySpec):
    """Everything that decides the results of a study of heterogeneous structures."""

    command: ClassVar[str] = "gpu heterogeneity"

    instances: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    """Draws of the uncertain inputs, the same under every reading."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    readings: Annotated[tuple[Reading, ...], Field(min_length=1)] = ("activity",)
    """What a filtered read changes; several are compared."""
    fields: Literal["swapped", "common", "either"] = "either"
    """Field constants of the two kinds of transistor; either: each drawn as often."""
    fills: Literal["ignored", "counted", "either"] = "either"
    """Whether a miss uses the data array, too, when its line is filled."""
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
