"""The study of SM gating: its spec, from TOML and to TOML."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from mcage.files.csv_table import read_table
from mcage.files.inputs import MIB
from mcage.spec.keys import PLUG_IN, Option, Section, StudySpec, with_table
from mcage.spec.sections import PAPER_GUARDBAND, Name, Stopping, distinct, distribution_within

DAYS_PER_YEAR = 365.0

POLICIES_COMPARED = ("default", "round-robin", "least-shift", "coolest-first", "most-slack")

Years = Annotated[float, Field(gt=0, le=100)]
Millivolts = Annotated[float, Field(ge=0, le=500)]


MOST_LAUNCHES = 50_000
"""Most launches of a recorded sequence; every file of the study keeps them."""

SHORTEST_SECONDS, LONGEST_SECONDS = 1e-9, 1e12
"""Range of the time of a launch."""


class Launches(Section):
    """A recorded sequence of launches."""

    kernels: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_LAUNCHES)]
    """Kernel of each launch."""
    seconds: tuple[Annotated[float, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)], ...]
    """How long each takes."""
    sources: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """Where the launches come from, file and line, for error messages; decides nothing."""

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        if len(self.kernels) != len(self.seconds):
            raise ValueError(f"{len(self.kernels)} kernels and {len(self.seconds)} times")
        return self

    def place(self, launch: int) -> str:
        """How messages call a launch: by the line of the CSV file, if it comes from there."""
        return (*self.sources[launch : launch + 1], f"workload.recorded: launch {launch}")[0]


def read_launches(path: Path) -> dict[str, Any]:
    """Read a recorded sequence from a CSV file with the columns ``kernel`` and ``seconds``.

    Raises
    ------
    UserError
        File, line, column and value of what is wrong.
    """
    table = read_table(path, ("kernel", "seconds"), MOST_LAUNCHES, 8 * MIB)
    rows = [
        (row.text("kernel"), row.number("seconds", SHORTEST_SECONDS, LONGEST_SECONDS), row.source)
        for row in table
    ]
    return dict(zip(("kernels", "seconds", "sources"), zip(*rows, strict=True), strict=True))


class GpuWorkload(Section):
    """Which kernels a GPU launches, in which order, and how busy it is."""

    panel: ClassVar = "Workload"

    kernels: Annotated[Name, Option("--kernels NAME")] = "chen-2014"
    """Set of kernels: chen-2014, chen-2014-sizes, or a TOML file."""
    names: Annotated[tuple[Name, ...], Option("--kernel NAME", default="all of them")] = ()
    """Kernel of the set."""
    weights: dict[Name, Annotated[float, Field(ge=0, le=1e12)]] | None = None
    """Time of each kernel, in any unit, on a GPU whose SMs all work; None: equal times."""
    recorded: Annotated[
        Launches | None, Option("--recorded FILE", default="kernels by their weights")
    ] = None
    """CSV file of a recorded sequence of launches (columns kernel, seconds)."""
    job_days: Annotated[float, Field(ge=0, le=36_500), Option("--job-days DAYS")] = 0.0
    """Time for which a GPU launches the same kernel; 0: each reading interval holds all."""
    utilisation: Annotated[float, Field(gt=0, le=1), Option("--utilisation FRACTION")] = 1.0
    """Fraction of the time in which a GPU whose SMs all work is busy."""
    idle: Annotated[Literal["gated", "on"], Option("--idle STATE")] = "gated"
    """State of the SMs while the GPU is idle: gated or on."""

    @model_validator(mode="after")
    def _one_sequence(self) -> Self:
        if self.weights and self.recorded:
            raise ValueError("workload.weights and workload.recorded: give one of them")
        if self.recorded and self.job_days:
            raise ValueError("workload.job_days: a recorded sequence has times of its own")
        if self.weights is not None and not sum(self.weights.values()) > 0:
            raise ValueError("workload.weights: no kernel has a weight above 0")
        return self


class TimeModelTable(Section):
    """Time model and Algorithm 1 of Chen et al., DAC 2014; see `TimeModel`."""

    reading: Literal["literal", "bounded"] = "literal"
    whole_warps: bool = False
    delta: Annotated[float, Field(ge=0, le=10)] = 0.08
    min_sms: Annotated[int, Field(ge=1, le=127)] = 4


class Sensors(Section):
    """Knowledge of policies about the SMs."""

    panel: ClassVar = "Sensors"

    interval_days: Annotated[float, Field(ge=0.01, le=36_500), Option("--interval DAYS")] = 7.0
    """Days between two readings."""
    noise_mv: Annotated[Millivolts, Option("--noise MV")] = 0.0
    """Standard deviation of a reading in mV."""
    noise_kelvin: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Standard deviation of a reading of a temperature."""
    reassign: Annotated[Literal["launch", "reading"], Option("--reassign WHEN")] = "launch"
    """When policies that rotate choose other SMs: launch or reading."""


class GpuLife(Section):
    """How long a GPU is simulated, and what ends its life."""

    panel: ClassVar = "Life"

    horizon_years: Annotated[float, Field(ge=0.001, le=100), Option("--horizon YEARS")] = 10.0
    """Simulated time in years."""
    report_years: tuple[Years, ...] = ()
    """Ages at which results are reported; empty: ten equal steps to the horizon."""
    delay_guardband: Annotated[float, Field(gt=0, le=100), Option("--guardband FRACTION")] = (
        PAPER_GUARDBAND
    )
    """Delay increase over the slowest new SM at which an SM is too slow."""
    spare_sms: Annotated[int, Field(ge=0, le=126), Option("--spare-sms N")] = 0
    """Number of SMs that may be given up before the life of the GPU ends."""


class GpuAging(Section):
    """How the transistors of an SM shift."""

    model: Annotated[Name, Option("--nbti NAME"), PLUG_IN] = "facelift"
    """NBTI model, as `mcage nbti --list` lists them, or a user-defined one as module:NAME."""
    constants: dict[str, float] | None = None
    """Constants in place of the model's own."""
    vdd_volts: Annotated[float, Field(gt=0, le=2)] = 1.0
    """Supply voltage."""


class SmVariation(Section):
    """Spread of the unaged threshold voltage of SMs, in mV."""

    panel: ClassVar = "Process variation"

    sigma_die_mv: Annotated[Millivolts, Option("--sigma-die MV")] = 0.0
    """Standard deviation of unaged thresholds from die to die."""
    sigma_systematic_mv: Annotated[Millivolts, Option("--sigma MV")] = 19.2  # 6.4 % of 0.3 V
    """Standard deviation of unaged thresholds, the part that is correlated over a die."""
    sigma_random_mv: Annotated[Millivolts, Option("--sigma-random MV")] = 0.0
    """Standard deviation of unaged thresholds from SM to SM, without correlation."""
    phi: Annotated[float, Field(gt=0, le=10), Option("--phi SIDES")] = 0.5
    """Range of the spatial correlation in sides of the die."""


class Temperature(Section):
    """Temperatures of SMs."""

    panel: ClassVar = "Life"

    model: Annotated[Literal["network", "fixed"], Option("--temperature MODEL")] = "network"
    """Temperatures of SMs: network, from the powers of all blocks, or fixed."""
    fixed_kelvin: Annotated[float | str, distribution_within(200, 450, "K")] = 353.15
    """Temperature of all SMs of a GPU under `fixed`."""
    ambient_kelvin: Annotated[float | str, distribution_within(200, 450, "K")] | None = None
    """Temperature of the air around a GPU; None: that of its package."""


class GatingStopping(Stopping):
    """When a campaign may end before its last instance."""

    of: Annotated[Name, Option("--of VARIABLE")] = "margin_needed"
    """The variable whose mean --rel-ci looks at."""


class GatingSpec(StudySpec):
    """Everything that decides the results of a study of SM gating."""

    command: ClassVar[str] = "gpu gating"

    compared: ClassVar = [
        *("policies", "aging.model", "life.horizon_years", "gpu", "instances", "seed"),
    ]

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 2000
    """Number of sampled GPUs."""
    seed: Annotated[int, Field(ge=0, lt=2**63), Option("--seed N")] = 1
    """Seed of all random streams."""
    policies: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--policy NAME", is_axis=True), PLUG_IN
    ] = POLICIES_COMPARED
    """Policy that assigns SMs: default, least-shift, round-robin, random, fixed, coolest-first,
    most-slack, or a user-defined policy as module:NAME."""
    gpu: Annotated[Name, Option("--gpu NAME")] = "gtx580"
    """GPU: gtx580, or a TOML file."""
    workload: GpuWorkload = GpuWorkload()
    time_model: TimeModelTable = TimeModelTable()
    sensors: Sensors = Sensors()
    life: GpuLife = GpuLife()
    aging: GpuAging = GpuAging()
    variation: SmVariation = SmVariation()
    temperature: Temperature = Temperature()
    stopping: GatingStopping | None = None

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the recorded launches read."""
        return with_table(fields, "workload.recorded", read_launches)

    @field_validator("policies")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return distinct(values)

    @model_validator(mode="after")
    def _ages_within_horizon(self) -> Self:
        ages = self.life.report_years
        if list(ages) != sorted(set(ages)):
            raise ValueError("life.report_years must rise")
        if ages and ages[-1] > self.life.horizon_years:
            raise ValueError(
                f"life.report_years = {ages[-1]:g} lies beyond life.horizon_years = "
                f"{self.life.horizon_years:g}"
            )
        return self

    @property
    def report_years(self) -> tuple[float, ...]:
        """Ages at which results are reported; the last of them is the horizon."""
        horizon, stated = self.life.horizon_years, self.life.report_years
        ages = stated or tuple(horizon * step / 10 for step in range(1, 11))
        return ages if ages[-1] == horizon else (*ages, horizon)
