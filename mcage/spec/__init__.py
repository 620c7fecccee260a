"""What a sweep computes: its spec, from TOML and to TOML, its digest and its cases.

The keys stand in `mcage.spec.sections` and `mcage.spec.environments`; every value is checked where
it enters, and past this border all values are trusted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

from pydantic import Field, field_validator, model_validator

from mcage.aging.environment import PRESETS, PRESETS_AT_SCENARIO_VDD
from mcage.distributions import Distribution
from mcage.plain_text import shortened
from mcage.spec.cost_constants import read_costs
from mcage.spec.draws import Draws, check_draws, read_draws
from mcage.spec.environments import Point, check_environments
from mcage.spec.epochs import epoch_edges, with_periods
from mcage.spec.sections import (
    Aging,
    Costs,
    Faults,
    Life,
    Name,
    Registers,
    Stopping,
    Workload,
    distinct,
)
from mcage.spec.study_spec import StudySpec, with_table

if TYPE_CHECKING:
    from mcage.spec.study_spec import SweepFields


@dataclass(frozen=True)
class Case:
    """One point of the sweep grid."""

    technique: str
    environment: str
    scenario: str
    scenario_vdd_volts: float
    """Low Vdd that the spec gives the scenario, or the scenario's own. The scenario's own, too,
    where the environment has no operating point at it: such a case stands in the grid once."""


class SweepSpec(StudySpec):
    """Everything that decides the results of a sweep.

    Keys that are left out keep their defaults. Where a list is needed, a single name or number
    stands for a list of one: ``SweepSpec(techniques="rrcd", vdd_volts=[0.42, 0.45])``.

    Raises
    ------
    UserError
        One line that names the key, the value and what is right.
    """

    command: ClassVar[str] = "sweep"

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[SweepFields]) -> None: ...

    instances: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    """Sampled lives of a slice, in every case."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of all random streams."""
    techniques: Annotated[tuple[Name, ...], Field(min_length=1)] = (
        "baseline",
        "rc+rar",
        "rrcd",
        "rrcd+rc+rar",
    )
    environments: Annotated[tuple[Name, ...], Field(min_length=1)] = ("nominal", "dvfs")
    """Environments to compare: presets, or names that `operating_points` defines."""
    scenarios: Annotated[
        tuple[Literal["common", "clustered", "dispersed", "measured"], ...], Field(min_length=1)
    ] = ("common",)
    vdd_volts: tuple[Annotated[float, Field(gt=0, le=2)], ...] = ()
    """Low supply voltages to compare; empty: each scenario's own."""
    workload: Workload = Workload()
    life: Life = Life()
    aging: Aging = Aging()
    faults: Faults = Faults()
    registers: Registers = Registers()
    costs: Costs = Costs()
    stopping: Stopping | None = None
    """Rule by which the sweep may end before it has computed all ``instances``."""
    operating_points: dict[Name, Annotated[tuple[Point, ...], Field(min_length=1)]] | None = None
    """Operating points of user-defined environments, by name; None: there are presets only."""
    draws: Draws | None = None
    """Joint draws of constants, of which each instance has a row, or the CSV file that holds them;
    None: constants are those of the other keys."""

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with `workload.periods` for `period_years`, and with tables read."""
        fields = with_table(fields, "costs.tables", read_costs)
        return with_periods(with_table(fields, "draws", read_draws))

    @field_validator("techniques", "environments", "scenarios", "vdd_volts")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return distinct(values)

    @model_validator(mode="after")
    def _epochs_fill_periods(self) -> Self:
        if self.life.epochs < self.workload.periods:
            raise ValueError(
                f"life.epochs = {self.life.epochs} must be at least workload.periods = "
                f"{self.workload.periods}, since the kernel of an epoch does not change"
            )
        return self

    @model_validator(mode="after")
    def _held_for_one_activity(self) -> Self:
        drawn = self.draws is not None and "life.activity" in self.draws.columns
        if self.life.idle == "held" and (drawn or isinstance(self.life.activity, str)):
            given = "drawn" if drawn else shortened(self.life.activity)
            raise ValueError(
                f"life.activity = {given} must be one number where "
                "life.idle = 'held', since all instances replay the same passes, idle time included"
            )
        return self

    @model_validator(mode="after")
    def _draws_make_sense(self) -> Self:
        if self.draws is not None:
            check_draws(self.draws, self.life, self.aging, self.faults)
        return self

    @property
    def _temperature(self) -> Distribution:
        """Temperature of a slice; of draws, a distribution with their bounds."""
        drawn = None if self.draws is None else self.draws.bounds("life.temperature_kelvin")
        if drawn is None:
            return Distribution.of(self.life.temperature_kelvin)
        return Distribution("uniform", drawn)

    @model_validator(mode="after")
    def _environments_make_sense(self) -> Self:
        temperature = self._temperature
        swing = Distribution.of(self.life.temperature_swing_kelvin)
        defined = self.operating_points or {}
        check_environments(defined, temperature, swing)
        known = (*PRESETS, *defined)
        for name in self.environments:
            if name not in known:
                raise ValueError(
                    f"environments: unknown {shortened(name)}; choose from {', '.join(known)}, or "
                    "give its operating points as [[operating_points.NAME]]"
                )
        return self

    @model_validator(mode="after")
    def _swings_stay_in_range(self) -> Self:
        kelvin, swing = self.life.temperature_kelvin, self.life.temperature_swing_kelvin
        (low, high), (down, up) = self._temperature.bounds, Distribution.of(swing).bounds
        coldest, hottest = low + down, high + up
        if not 200 <= coldest <= hottest <= 450:
            raise ValueError(
                f"life.temperature_swing_kelvin = {shortened(swing)} with "
                f"life.temperature_kelvin = {shortened(kelvin)} must stay within 200 ... 450 K, "
                f"but they add up to {coldest:g} ... {hottest:g} K"
            )
        return self

    def uses_scenario_vdd(self, environment: str) -> bool:
        """Whether an environment has an operating point at the low Vdd of the scenario."""
        points = self.points_of(environment)
        return environment in PRESETS_AT_SCENARIO_VDD or any(
            isinstance(point.vdd_volts, str) for point in points
        )

    def points_of(self, environment: str) -> tuple[Point, ...]:
        """Operating points of a user-defined environment; empty for a preset."""
        return (self.operating_points or {}).get(environment, ())

    @property
    def delta_limit(self) -> int | None:
        """Largest delta of a compressible value, or None."""
        limit = self.registers.delta_limit
        return limit if isinstance(limit, int) else None

    @property
    def epoch_edges_years(self) -> tuple[float, ...]:
        """Edges of the epochs, from 0 to the horizon."""
        return epoch_edges(self.life.horizon_years, self.workload.periods, self.life.epochs)

    @property
    def period_of_epoch(self) -> tuple[int, ...]:
        """Number of the period in which each epoch lies."""
        periods, edges = self.workload.periods, self.epoch_edges_years
        ends = [self.life.horizon_years * period / periods for period in range(1, periods + 1)]
        return tuple(sum(end <= start for end in ends) for start in edges[:-1])

    def cases(self, scenario_vdd_volts: dict[str, float]) -> tuple[Case, ...]:
        """Points of the sweep grid, each once.

        Parameters
        ----------
        scenario_vdd_volts : dict
            Vdd that belongs to each scenario: for a spec that names no low Vdd, and for
            environments without an operating point at the low Vdd.
        """

        def low_vdd(environment: str, scenario: str, vdd_volts: float) -> float:
            used = self.uses_scenario_vdd(environment)
            return vdd_volts if used else scenario_vdd_volts[scenario]

        grid = (
            Case(technique, environment, scenario, low_vdd(environment, scenario, vdd_volts))
            for scenario in self.scenarios
            for vdd_volts in (self.vdd_volts or (scenario_vdd_volts[scenario],))
            for environment in self.environments
            for technique in self.techniques
        )
        return tuple(dict.fromkeys(grid))
