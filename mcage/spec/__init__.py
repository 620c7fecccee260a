"""The sweep: its spec, from TOML and to TOML, its digest and its cases.

The keys stand in `mcage.spec.sections`; every value is checked where
it enters, and past this border all values are trusted.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypedDict, Unpack

from pydantic import BeforeValidator, Field, field_validator, model_validator

from mcage.aging.environment import PRESETS, PRESETS_AT_SCENARIO_VDD
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.plain_text import one_line, shortened
from mcage.protection.policy import DEFAULT, Protection
from mcage.spec.cost_constants import read_costs
from mcage.spec.draws import Draws, check_draws, read_draws
from mcage.spec.epochs import epoch_edges, with_epochs, with_schedule
from mcage.spec.keys import PLUG_IN, Option, Section, StudySpec, UsedIf, unused_key, with_table
from mcage.spec.presets import with_cell, with_preset, with_spread
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
    distribution_within,
)
from mcage.techniques import technique
from mcage.variation.scenarios import Scenario

Table = Mapping[str, Any]


# Environments that a user defines: their operating points, and what is refused of them.

NAME = re.compile(r"[A-Za-z0-9_.+-]+")

KEY = "operating_points"
"""Key of a spec that defines environments; ``environments`` lists those that a sweep compares."""


def _vdd_or_scenario(vdd: Any) -> float | str:
    """Check a supply voltage; the word ``scenario`` stands for the low Vdd of the case."""
    if vdd == "scenario":
        return "scenario"
    if isinstance(vdd, bool) or not isinstance(vdd, int | float) or not 0 < vdd <= 2:
        raise ValueError('must be a voltage above 0 and at most 2 V, or "scenario"')
    return float(vdd)


class Point(Section):
    """One operating point of an environment that a user defines."""

    vdd_volts: Annotated[float | str, BeforeValidator(_vdd_or_scenario)]
    """Supply voltage, or ``scenario`` for the low Vdd of the case."""
    share: Annotated[float | str | None, distribution_within(0, 1, "of the time")] = None
    """Fraction of the time spent at this point; None, for one point: the rest of the time."""
    temperature_offset_kelvin: float = 0.0
    """Temperature at this point minus `Life.temperature_kelvin`."""

    def vdd_in(self, scenario_vdd_volts: float) -> float:
        """Supply voltage of this point in a case, in volts.

        Parameters
        ----------
        scenario_vdd_volts : float
            Low Vdd of the case.
        """
        return scenario_vdd_volts if isinstance(self.vdd_volts, str) else self.vdd_volts

    @property
    def share_distribution(self) -> Distribution | None:
        """Distribution of `share` over instances; None: the rest of the time."""
        return None if self.share is None else Distribution.of(self.share)


def check_environments(
    environments: Mapping[str, Sequence[Point]], temperature: Distribution, swing: Distribution
) -> None:
    """Refuse environments whose names, time fractions or temperatures make no sense.

    Parameters
    ----------
    environments : mapping
        Operating points by name of the environment.
    temperature, swing : Distribution
        Temperature of a slice in kelvin, and the offset that is drawn for each epoch.

    Raises
    ------
    ValueError
        The message names the key and says what is wrong.
    """
    for name, points in environments.items():
        _check_name(name)
        _check_shares(f"{KEY}.{name}", [point.share_distribution for point in points])
        for number, point in enumerate(points):
            key = f"{KEY}.{name}.{number}.temperature_offset_kelvin"
            _check_offset(key, point.temperature_offset_kelvin, temperature, swing)


def _check_name(name: str) -> None:
    """Refuse the name of a preset, and a name that would make a label hard to read."""
    if name in PRESETS:
        raise ValueError(f"{KEY}.{name}: this is the name of a preset; choose another")
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{KEY}.{one_line(name)}: a name is of letters, digits, and any of _ . + -, "
            "without spaces"
        )


def _check_shares(key: str, shares: Sequence[Distribution | None]) -> None:
    """Refuse time fractions that cannot sum to 1; None takes the rest of the time."""
    stated = [share for share in shares if share is not None]
    for number, share in enumerate(shares):
        if share is not None and share.bounds[0] <= 0:
            text = share.numbers[0] if share.is_constant else shortened(str(share))
            raise ValueError(f"{key}.{number}.share = {text}: must be above 0 in every instance")
    without = len(shares) - len(stated)
    largest_sum = math.fsum(share.bounds[1] for share in stated)
    if without > 1:
        raise ValueError(f"{key}: {without} points leave out their share; one may")
    if without and largest_sum >= 1:
        raise ValueError(
            f"{key}: the shares given may sum to {largest_sum:.10g}, and leave nothing to the "
            "point without one; they must stay below 1"
        )
    if without:
        return
    if not all(share.is_constant for share in stated):
        raise ValueError(
            f"{key}: where a share is a distribution, one point must leave its share out, and "
            "gets the rest"
        )
    if abs(largest_sum - 1) > 1e-9:
        raise ValueError(
            f"{key}: shares sum to {largest_sum:.10g}, not to 1; one point may leave its share "
            "out, and gets the rest"
        )


def _check_offset(
    key: str, offset_kelvin: float, temperature: Distribution, swing: Distribution
) -> None:
    """Refuse a point that may be colder than 200 K or hotter than 450 K."""
    low, high = (
        kelvin + change + offset_kelvin
        for kelvin, change in zip(temperature.bounds, swing.bounds, strict=True)
    )
    if not 200 <= low <= high <= 450:
        raise ValueError(
            f"{key} = {offset_kelvin:g}: with life.temperature_kelvin and its swing, the point is "
            f"at {low:g} ... {high:g} K; it must stay within 200 ... 450 K"
        )


# The spec of a sweep.


class SweepFields(TypedDict, total=False):
    """Keys of `mcage.SweepSpec`, as editors and type checkers know them; each may be left out."""

    instances: int
    seed: int
    techniques: str | Sequence[str]
    protections: str | Sequence[str]
    environments: str | Sequence[str]
    scenarios: str | Sequence[str]
    vdd_volts: float | Sequence[float]
    low_vdd: Literal["working", "printed"]
    workload: Workload | Table
    life: Life | Table
    aging: Aging | Table
    faults: Faults | Table
    registers: Registers | Table
    costs: Costs | Table
    stopping: Stopping | Table | None
    operating_points: Mapping[str, Sequence[Point | Table]] | None
    draws: Draws | Table | str | None
    spread: bool
    preset: Literal["papers", "valero-2019", "toca-diaz"] | None
    programs: Mapping[str, str] | None


@dataclass(frozen=True)
class Case:
    """One point of the sweep grid."""

    technique: str
    protection: str
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
    decided_by: ClassVar = {"workload.kernels": ("workload", "registers.geometry")}

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[SweepFields]) -> None: ...

    compared: ClassVar = [
        *("techniques", "protections", "environments", "scenarios", "vdd_volts"),
        "workload.kernels",
        *("aging.model", "life.horizon_years", "instances", "seed"),
    ]

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 10_000
    """Number of sampled lives of a slice in every case."""
    seed: Annotated[int, Field(ge=0, lt=2**63), Option("--seed N")] = 1
    """Seed of all random streams."""
    techniques: Annotated[
        tuple[Name, ...],
        Field(min_length=1),
        Option("--technique NAME", is_axis=True),
        PLUG_IN,
    ] = ("baseline", "rc+rar", "rrcd", "rrcd+rc+rar")
    """Protection technique, as `mcage techniques` lists them, or a user-defined one as
    module:NAME."""
    protections: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--protection NAME", is_axis=True)
    ] = (DEFAULT,)
    """Protection of entries: none, ecp1, secded32, secded64x4+ecp1+spare8, ...

    Printed. Pointers, codes and spare entries against faulty cells: docs/protection.md.
    """
    environments: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--environment NAME", is_axis=True)
    ] = ("turbo", "dvfs")
    """Operating points of a life: turbo, undervolted, dvfs, or a name that SPEC defines.

    ``turbo``: 1.0 V. ``dvfs``: 0.8 V and the scenario's Vdd, half of the time each (0.8 V
    reconstructed, the rest assumed). ``undervolted``: the scenario's Vdd throughout. Others have
    the names that ``operating_points`` gives them.
    """
    scenarios: Annotated[
        tuple[Literal["common", "clustered", "dispersed", "measured"], ...],
        Field(min_length=1),
        Option("--scenario NAME", is_axis=True),
    ] = ("common",)
    """Process variation: common, clustered, dispersed or measured.

    Reconstructed. Fitted to a printed table: docs/variation.md.
    """
    vdd_volts: Annotated[
        tuple[Annotated[float, Field(gt=0, le=2)], ...],
        Option("--vdd VOLTS", default="by technique", is_axis=True),
        UsedIf(
            lambda spec, _: any(map(spec.uses_scenario_vdd, spec.environments)),
            lambda spec: spec.fixed_voltages,
        ),
    ] = ()
    """Low Vdd in V.

    For environments that have an operating point at the scenario's Vdd. Each value makes a case;
    none: those of ``low_vdd``.
    """
    low_vdd: Annotated[
        Literal["working", "printed"], Option("--low-vdd WHICH", seldom=True, panel="Workload")
    ] = "working"
    """Low Vdd where none is given: at which 99 % of new slices work (working), or that of the
    scenario's paper (printed).

    Reconstructed. ``working``: by ``mcage vmin`` with its defaults (common: 0.421 V where a
    technique redirects, 0.524 V otherwise; clustered 0.511 and 0.574, dispersed 0.373 and 0.501,
    measured 0.521 and 0.566). A technique that redirects has a case at each of the two voltages if
    others are compared with it. ``printed``: 0.419, 0.497 and 0.371 V; measured: 0.515 V, at which
    a third of the entries is faulty. Faults of the table modes always have the printed one.
    """
    workload: Workload = Workload()
    life: Life = Life()
    aging: Aging = Aging()
    faults: Faults = Faults()
    registers: Registers = Registers()
    costs: Costs = Costs()
    stopping: Stopping | None = None
    """Rule by which the sweep may end before it has computed all ``instances``.

    ``rel_ci`` or ``margin``, ``level`` and ``of``: the sweep ends as soon as every case is known
    this precisely, and at the latest with ``instances`` instances:
    docs/statistics.md#stopping-when-enough-is-known.
    """
    operating_points: dict[Name, Annotated[tuple[Point, ...], Field(min_length=1)]] | None = None
    """Operating points of user-defined environments, by name; None: there are presets only.

    docs/aging.md#user-defined-operating-points.
    """
    draws: Annotated[
        Draws | None, Option("--constants FILE", default="no draws", seldom=True, panel="Aging")
    ] = None
    """CSV file of joint draws of constants, such as a column aging.constants.eta: each instance
    has a row of it.

    A CSV file, or ``columns``: docs/aging.md#constants-as-samples.
    """
    spread: Annotated[bool, Option("--spread/--no-spread", panel="Life")] = True
    """Slices differ in temperature and so on.

    Assumed. By the distributions that are the defaults of temperature, activity, threshold voltage
    and shift factor. False: all slices have 353.15 K, 1, the threshold of the model and 1, and the
    guardband is 0.139. With ``life.idle = "held"`` the activity is 1.
    """
    preset: Annotated[
        Literal["papers", "valero-2019", "toca-diaz"] | None,
        Field(exclude=True, repr=False),
        Option("--preset NAME", default="none", panel="Workload"),
    ] = None
    """Keys of a paper: papers, valero-2019, toca-diaz.

    A word that sets several keys together; a spec that gives one of them another value is refused,
    and a results file records the keys. ``papers``: no spread, and kernels that do not take turns
    (``workload.schedule = "sequential"``, 5 periods, ``mix = "uniform"``). ``valero-2019``:
    likewise, at 1.0 V and 32 nm, as Valero et al., IEEE TC 2019. ``toca-diaz``: likewise, at the
    scenario's Vdd throughout and 28 nm, as Toca-Díaz et al. (RRCD).
    """
    programs: dict[Name, Name] | None = None
    """Digests of the kernels that are meant, as results files record them; others are refused.

    By the key that names the kernels; none: whatever lies under a name:
    docs/continuing.md#the-same-programs.
    """

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with a preset resolved, and tables read.

        With 8T cells, `aging.vmin_model` is margins by default.
        """
        fields = with_table(with_table(fields, "costs.tables", read_costs), "draws", read_draws)
        return with_spread(with_epochs(with_schedule(with_cell(with_preset(fields)))))

    @field_validator("protections")
    @classmethod
    def _canonical(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(Protection.of(name).name for name in names)
        except UserError as error:
            raise ValueError(str(error)) from error

    @field_validator("techniques", "protections", "environments", "scenarios", "vdd_volts")
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
            stated = "drawn" if drawn else shortened(self.life.activity)
            raise ValueError(
                f"life.activity = {stated} must be one number where "
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

    @property
    def fixed_voltages(self) -> str:
        """Why no case has a use for a low Vdd."""
        names = ", ".join(map(repr, self.environments))
        alone = len(self.environments) == 1
        return (
            f"{'environment' if alone else 'environments'} {names} {'has' if alone else 'have'} "
            "fixed voltages and would not use it; leave it out, or choose undervolted or dvfs"
        )

    def refuse_unused(self) -> None:
        """Refuse a value, other than the default, that no case has a use for.

        It can change nothing, and the results would be taken for those of that value. The spec
        alone decides, and not what its traces or dies turn out to need.

        Raises
        ------
        UserError
            If there is such a value: one line with key, value and reason; or if a technique is
            unknown.
        """
        techniques = [technique(name) for name in self.techniques]
        drawn = () if self.draws is None else tuple(self.draws.columns)
        if problem := unused_key(self, techniques, drawn):
            raise UserError(problem)

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

    def low_vdds(self, of: Scenario) -> dict[float, list[str]]:
        """Low Vdds of the cases of a scenario, in V, and the techniques that have each.

        Where the spec gives none, a technique that redirects has the Vdd at which such slices work
        when new, and any other that of conventional slices, at which the former are looked at, too,
        if they are compared.
        """
        chosen = of.working_vdd_volts if self.low_vdd == "working" else ()
        if self.vdd_volts or not chosen or self.faults.mode != "varius":
            return {volts: list(self.techniques) for volts in self.vdd_volts or (of.vdd_volts,)}
        redirecting_volts, conventional_volts = chosen
        redirecting = [name for name in self.techniques if technique(name).redirects]
        together = [] if redirecting == list(self.techniques) else list(self.techniques)
        return {
            volts: names
            for volts, names in ((conventional_volts, together), (redirecting_volts, redirecting))
            if names
        }

    def cases(self, scenarios: Mapping[str, Scenario]) -> tuple[Case, ...]:
        """Points of the sweep grid, each once.

        Parameters
        ----------
        scenarios : mapping
            Each scenario of the spec by its name. Environments without an operating point at the
            low Vdd have the printed Vdd of the scenario.
        """

        def low_vdd(environment: str, scenario: str, vdd_volts: float) -> float:
            used = self.uses_scenario_vdd(environment)
            return vdd_volts if used else scenarios[scenario].vdd_volts

        grid = (
            Case(name, guard, environment, scenario, low_vdd(environment, scenario, volts))
            for scenario in self.scenarios
            for volts, techniques in self.low_vdds(scenarios[scenario]).items()
            for environment in self.environments
            for guard in self.protections
            for name in techniques
        )
        return tuple(dict.fromkeys(grid))
