"""What a sweep computes: every option of it, validated, from TOML or from the command line.

Unknown keys are refused, and every value is checked where it enters: past this border all is
trusted.
"""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from mcage.distributions import FORMS, Distribution
from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import one_line, shortened
from mcage.spec.environments import (
    PRESETS,
    PRESETS_AT_SCENARIO_VDD,
    check_name,
    check_offset,
    check_shares,
)
from mcage.spec.epochs import epoch_edges
from mcage.spec.workload_mix import canonical_mix

PAPER_GUARDBAND = 0.139
"""Delay increase that the baseline's worst cell reaches in its three years (Valero et al., IEEE TC
2019, section 6.4): the timing margin that such a design must have had. No paper states one."""

_MOST_PERIODS = 1000

_DEEPEST = 6
"""Tables and lists in one another; a spec needs four."""

_LARGEST_INTEGER = 2**64


_DEEP_KEY = re.compile(r"""(?:\.\s*[\w"'-]{1,80}\s*){100}""")
"""Part of a dotted key; TOML readers take a time for it that grows with the square of its parts."""

Name = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _law_within(lowest: float, highest: float, unit: str) -> BeforeValidator:
    """A number, or the text of a law; its canonical form, all of whose draws lie in the range."""

    def canonical(given: Any) -> float | str:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError(f"must be {FORMS}")
        law = Distribution.of(given)
        low, high = law.bounds
        if not lowest <= low <= high <= highest:
            draws = "" if law.is_constant else f", but it draws from {low:g} ... {high:g}"
            raise ValueError(f"must stay within {lowest:g} ... {highest:g} {unit}{draws}")
        return law.numbers[0] if law.is_constant else str(law)

    return BeforeValidator(canonical)


def _numbers_or_calibrated(given: Any) -> dict[str, float | str]:
    """Constants of an NBTI model; which names there are, and what they may be, the model says."""
    if not isinstance(given, dict):
        raise ValueError("must be a table of numbers by name, such as { eta = 0.3 }")
    for name, value in given.items():
        if name == "amplitude" and value == "calibrated":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            word = ', or "calibrated"' if name == "amplitude" else ""
            raise ValueError(f"{shortened(name)} = {shortened(value)} must be a number{word}")
    return {name: one if one == "calibrated" else float(one) for name, one in given.items()}


class Workload(_Part):
    """Kernels that run, and for how long each."""

    kernels: tuple[Name, ...] = ()
    """Bundled kernels or trace files; empty: all bundled ones."""
    periods: Annotated[int, Field(ge=1, le=_MOST_PERIODS)] = 5
    """Stretches of life, of equal length, for each of which every instance draws one kernel. In
    their place, `period_years` may be given, of which they are made."""
    mix: Annotated[str | dict[str, float], BeforeValidator(canonical_mix)] = "uniform"
    """How kernels are drawn: ``uniform``, ``one`` for life, ``dirichlet(alpha)``, or weights."""
    generations: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Windows of each slot that a trace is cut to; 0: the whole trace."""
    release: Literal["wavefront", "work-group"] = "wavefront"
    """With what a window is released: with its own wavefront, or with its work-group, as the
    bundled traces record it."""


class Life(_Part):
    """How long an instance is watched and what ends its life."""

    horizon_years: Annotated[float, Field(ge=0.001, le=100)] = 10.0
    epochs: Annotated[int, Field(ge=1, le=1000)] = 6
    """Stretches of life during which the fault map stays fixed; at least one for each period."""
    delay_guardband: Annotated[float, Field(gt=0, le=100)] = PAPER_GUARDBAND
    """Delay increase of the worst transistor that ends a life."""
    temperature_kelvin: Annotated[float | str, _law_within(200, 450, "K")] = 353.15
    temperature_swing_kelvin: Annotated[float | str, _law_within(-250, 250, "K")] = 0.0
    """What an instance is hotter than that in each epoch, drawn anew for each."""
    activity: Annotated[float | str, _law_within(0.001, 1, "of the time")] = 1.0
    """Share of the time that a slice is busy."""
    idle: Literal["gated", "held"] = "gated"
    """What becomes of cells the rest of the time: off, so that both transistors recover, or on,
    so that they hold what the kernel has left."""
    spill_limit: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of a kernel's register writes that may go to the LDS; None: any."""
    vmin_coefficient: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Growth of a cell's Vmin per threshold shift, V/V (assumed; docs/aging.md)."""

    @field_validator("idle", mode="before")
    @classmethod
    def _has_a_model(cls, idle: Any) -> Any:
        if idle == "retained":
            raise ValueError(
                "is not supported, since no source gives a retention voltage; use gated or held"
            )
        return idle


def _vdd_or_scenario(given: Any) -> float | str:
    """A supply voltage, or the word for that of the scenario."""
    if given == "scenario":
        return "scenario"
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 2:
        raise ValueError('must be a voltage above 0 and at most 2 V, or "scenario"')
    return float(given)


class Point(_Part):
    """One operating point of an environment of one's own."""

    vdd_volts: Annotated[float | str, BeforeValidator(_vdd_or_scenario)]
    """Supply voltage, or ``scenario`` for the low Vdd of the case."""
    share: Annotated[float | str | None, _law_within(0, 1, "of the time")] = None
    """Share of the time; None for one point: what the others leave."""
    temperature_offset_kelvin: float = 0.0
    """What the slice is hotter here than `Life.temperature_kelvin`."""

    def vdd_in(self, case: "Case") -> float:
        """Supply voltage in a case, in volts."""
        return case.scenario_vdd_volts if isinstance(self.vdd_volts, str) else self.vdd_volts

    @property
    def share_law(self) -> Distribution | None:
        """Law of the share."""
        return None if self.share is None else Distribution.of(self.share)


class Aging(_Part):
    """How transistors drift."""

    model: Name = "facelift"
    """NBTI model that ships with mcage, or one's own as module:NAME; see `mcage nbti --list`."""
    vt0_volts: Annotated[float | str, _law_within(0, 1, "V")] | None = None
    """Unaged threshold voltage (its magnitude); None: the model's own."""
    shift_factor: Annotated[float | str, _law_within(0, 10, "(a factor)")] = 1.0
    """Factor on every threshold shift."""
    constants: Annotated[dict[str, float | str], BeforeValidator(_numbers_or_calibrated)] | None = (
        None
    )
    """Constants in place of the model's own, by their names in `mcage nbti --list`."""

    @field_validator("constants")
    @classmethod
    def _none_are_the_models_own(cls, constants: Any) -> Any:
        return constants or None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.vt0_volts is not None and "vt0_volts" in (self.constants or {}):
            raise ValueError("vt0_volts and constants.vt0_volts: give one of them")
        return self


class Faults(_Part):
    """Where faults come from."""

    mode: Literal["varius", "varius-selected", "table", "table-exact"] = "varius"
    spread_blocks: bool = False
    """Spread an entry's faulty bits over as many blocks (RRCD's conservative rule)."""
    slices_per_chip: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Instances with successive ids that share a die."""
    mu_volts: float | None = None
    """Middle of the law of Vmin; this one and the next four: None as in the scenario."""
    sigma_die_volts: float | None = None
    """Deviation of Vmin from die to die."""
    sigma_systematic_volts: float | None = None
    sigma_random_volts: float | None = None
    phi: float | None = None
    """Range of the spatial correlation, in sides of the slice."""
    tolerance: float | None = None
    """Largest deviation of a selected map from the table; None: 0.05."""


class Registers(_Part):
    """Options of the register file and its techniques."""

    delta_limit: int | str = 64
    """Largest delta of a compressible value, a power of two: 64 as published, or "none"."""
    lds_rows: Annotated[int, Field(ge=0, le=256)] = 32
    """Registers that the spill partition of the LDS holds for one slice."""
    selector_offsets: Annotated[int, Field(ge=1, le=256)] = 8
    """Starting entries over which rotating selectors are averaged, a divisor of 256."""

    @field_validator("delta_limit", mode="before")
    @classmethod
    def _power_of_two(cls, limit: Any) -> Any:
        is_number = isinstance(limit, int) and not isinstance(limit, bool)
        if limit != "none" and not (is_number and 1 <= limit <= 2**31 and limit.bit_count() == 1):
            raise ValueError('must be a power of two, at most 2**31, or "none"')
        return limit

    @field_validator("selector_offsets")
    @classmethod
    def _divisor(cls, offsets: int) -> int:
        if 256 % offsets:
            raise ValueError(f"must divide 256, which {offsets} does not")
        return offsets


class Stopping(_Part):
    """When a sweep may end before its last instance."""

    rel_ci: Annotated[float, Field(gt=0, lt=1)]
    """Largest half-width of the 95 % interval relative to the value, in every case."""
    of: Literal["median_life", "b10_life", "life_to_horizon", "max_dvth", "spill_rate"] = (
        "median_life"
    )
    """What must be known so well."""

    @model_validator(mode="before")
    @classmethod
    def _says_how_well(cls, given: Any) -> Any:
        if isinstance(given, dict) and "rel_ci" not in given:
            raise ValueError("says nothing of how well it must be known: give rel_ci, too")
        return given


class Costs(_Part):
    """Constants of energy and slowdown."""

    technology: Literal["32nm", "28nm"] = "28nm"
    """Whose components there are: 28nm is printed down to low voltages."""


@dataclass(frozen=True)
class Case:
    """One point of the sweep grid."""

    technique: str
    environment: str
    scenario: str
    scenario_vdd_volts: float
    """Low Vdd that a sweep gives the scenario, or the scenario's own: this one also wherever the
    environment has no operating point at it, so that such a case stands in the grid once."""


class SweepSpec(_Part):
    """Everything that decides the results of a sweep.

    Raises
    ------
    UserError
        From `from_mapping`, `from_toml`: one line that names the key, the value and what is right.
    """

    instances: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    techniques: Annotated[tuple[Name, ...], Field(min_length=1)] = (
        "baseline",
        "rc+rar",
        "rrcd",
        "rrcd+rc+rar",
    )
    environments: Annotated[tuple[Name, ...], Field(min_length=1)] = ("nominal", "dvfs")
    """Presets, or names of one's own in `environment`."""
    scenarios: Annotated[
        tuple[Literal["common", "clustered", "dispersed"], ...], Field(min_length=1)
    ] = ("common",)
    vdd_volts: tuple[Annotated[float, Field(gt=0, le=2)], ...] = ()
    """Low supply voltages; empty: each scenario's own."""
    workload: Workload = Workload()
    life: Life = Life()
    aging: Aging = Aging()
    faults: Faults = Faults()
    registers: Registers = Registers()
    costs: Costs = Costs()
    stopping: Stopping | None = None
    """If given, `instances` is the most that are computed."""
    environment: dict[Name, Annotated[tuple[Point, ...], Field(min_length=1)]] | None = None
    """Operating points of environments of one's own, by name; None: there are presets only."""

    @field_validator("techniques", "environments", "scenarios", "vdd_volts")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise ValueError(f"names {shortened(twice)} twice")
        return values

    @model_validator(mode="after")
    def _epochs_fill_periods(self) -> Self:
        if self.life.epochs < self.workload.periods:
            raise ValueError(
                f"life.epochs = {self.life.epochs} must be at least workload.periods = "
                f"{self.workload.periods}, since the kernel of an epoch does not change"
            )
        return self

    @model_validator(mode="after")
    def _held_for_one_share_of_the_time(self) -> Self:
        if self.life.idle == "held" and isinstance(self.life.activity, str):
            raise ValueError(
                f"life.activity = {shortened(self.life.activity)} must be one number where "
                "life.idle = 'held', since all instances replay the same passes, idle time included"
            )
        return self

    @model_validator(mode="after")
    def _environments_make_sense(self) -> Self:
        temperature = Distribution.of(self.life.temperature_kelvin)
        swing = Distribution.of(self.life.temperature_swing_kelvin)
        own = self.environment or {}
        for name, points in own.items():
            check_name(name)
            check_shares(name, [point.share_law for point in points])
            for number, point in enumerate(points):
                check_offset(name, number, point.temperature_offset_kelvin, temperature, swing)
        known = (*PRESETS, *own)
        for name in self.environments:
            if name not in known:
                raise ValueError(
                    f"environments: unknown {shortened(name)}; choose from {', '.join(known)}, or "
                    "give its operating points as [[environment.NAME]]"
                )
        return self

    @model_validator(mode="after")
    def _swings_stay_in_range(self) -> Self:
        kelvin, swing = self.life.temperature_kelvin, self.life.temperature_swing_kelvin
        (low, high), (down, up) = (Distribution.of(one).bounds for one in (kelvin, swing))
        coldest, hottest = low + down, high + up
        if not 200 <= coldest <= hottest <= 450:
            raise ValueError(
                f"life.temperature_swing_kelvin = {shortened(swing)} with "
                f"life.temperature_kelvin = {shortened(kelvin)} must stay within 200 ... 450 K, "
                f"but they add up to {coldest:g} ... {hottest:g} K"
            )
        return self

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], source: str = "sweep") -> "SweepSpec":
        """Spec from nested plain values, such as TOML gives.

        Parameters
        ----------
        fields : dict
            Keys of `SweepSpec`; missing ones keep their defaults.
        source : str
            Where they come from, for error messages.
        """
        try:
            _check_plain("", fields)
            return cls.model_validate_json(json.dumps(_with_periods(fields), default=str))
        except ValidationError as error:
            raise UserError(f"{source}: {_first_problem(error)}") from error
        except (TypeError, ValueError) as error:
            raise UserError(f"{source}: {error}") from error

    @classmethod
    def from_toml(cls, path: Path) -> "SweepSpec":
        """Spec from a TOML file."""
        return cls.from_mapping(read_toml(path), str(path))

    def to_toml(self) -> str:
        """TOML text from which the same spec is read again; it says nothing of what is None."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def uses_scenario_vdd(self, environment: str) -> bool:
        """Whether an environment has an operating point at the low Vdd of the scenario."""
        points = self.own_points(environment)
        return environment in PRESETS_AT_SCENARIO_VDD or any(
            isinstance(point.vdd_volts, str) for point in points
        )

    def own_points(self, environment: str) -> tuple[Point, ...]:
        """Operating points of an environment of one's own; none of a preset."""
        return (self.environment or {}).get(environment, ())

    @property
    def delta_limit(self) -> int | None:
        """Largest delta of a compressible value, or None."""
        limit = self.registers.delta_limit
        return limit if isinstance(limit, int) else None

    @property
    def epoch_edges_years(self) -> tuple[float, ...]:
        """Borders of the epochs, from 0 to the horizon."""
        return epoch_edges(self.life.horizon_years, self.workload.periods, self.life.epochs)

    @property
    def period_of_epoch(self) -> tuple[int, ...]:
        """Workload period that each epoch lies in."""
        periods, edges = self.workload.periods, self.epoch_edges_years
        ends = [self.life.horizon_years * period / periods for period in range(1, periods + 1)]
        return tuple(sum(end <= start for end in ends) for start in edges[:-1])

    def cases(self, scenario_vdd_volts: dict[str, float]) -> tuple[Case, ...]:
        """Points of the sweep grid, each once.

        Parameters
        ----------
        scenario_vdd_volts : dict
            Each scenario's own Vdd, for a sweep that names none and for environments without an
            operating point at it.
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

    def digest(self, *further: str) -> str:
        """Hexadecimal digest of the spec and of further texts that decide the results."""
        fields = json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True)
        return hashlib.blake2b("\0".join([fields, *further]).encode(), digest_size=32).hexdigest()


def _with_periods(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields with the number of periods in place of their length."""
    workload, life = fields.get("workload"), fields.get("life", {})
    if not isinstance(workload, dict) or "period_years" not in workload:
        return fields
    others = {key: value for key, value in workload.items() if key != "period_years"}
    if "periods" in others:
        raise ValueError("workload.periods and workload.period_years: give one of them")
    years = workload["period_years"]
    if not _is_positive(years):
        raise ValueError(f"workload.period_years = {shortened(years)} must be a number above 0")
    default = Life().horizon_years
    horizon = life.get("horizon_years", default) if isinstance(life, dict) else default
    if not _is_positive(horizon):
        return fields | {"workload": others}  # the horizon is refused for itself
    if years < horizon / _MOST_PERIODS:
        raise ValueError(
            f"workload.period_years = {years!r} cuts life.horizon_years = {horizon!r} into more "
            f"than {_MOST_PERIODS} periods"
        )
    periods = round(horizon / years)
    if periods < 1 or abs(periods * years - horizon) > 1e-9 * horizon:
        raise ValueError(
            f"workload.period_years = {years!r} must divide life.horizon_years = {horizon!r}"
        )
    return fields | {"workload": others | {"periods": periods}}


def _is_positive(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


MOST_TOML_BYTES = MIB
"""Largest TOML file."""


def read_toml(path: Path) -> dict[str, Any]:
    """Plain values of a TOML file.

    Raises
    ------
    UserError
        If it cannot be read or is no TOML, or if a value is no finite number of moderate size.
    """
    try:
        text = read_regular(path, MOST_TOML_BYTES).decode()
        if _DEEP_KEY.search(text):
            raise _NotPlainError("a key of more than a hundred parts; a spec needs four")
        fields = tomllib.loads(text)
        _check_plain("", fields)
    except UnreadableFileError as error:
        raise UserError(f"{path}: cannot read the spec ({error.reason})") from error
    except RecursionError as error:
        raise UserError(f"{path}: not TOML that can be read (nested too deep)") from error
    except _NotPlainError as error:
        raise UserError(f"{path}: {error}") from error
    except ValueError as error:  # also bytes that are no text, and numbers beyond Python's limit
        raise UserError(f"{path}: not TOML ({error})") from error
    return fields


class _NotPlainError(ValueError):
    """A value that no key of a spec can have."""


def _check_plain(key: str, value: Any, depth: int = 0) -> None:
    """Refuse what no key of a spec can have, and what could not be written as JSON."""
    if depth > _DEEPEST:
        raise _NotPlainError(f"{one_line(key)}: tables and lists are nested too deep")
    names: Iterable[Any] = value if isinstance(value, dict) else ()
    if isinstance(value, list | tuple):
        names = range(len(value))
    for name in names:
        _check_text(f"{key}: a key", name)
        _check_plain(f"{key}.{name}" if key else str(name), value[name], depth + 1)
    _check_text(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _NotPlainError(f"{one_line(key)} = {value} must be a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise _NotPlainError(f"{one_line(key)} = {shortened(value)} must be at most 2**64")


def _check_text(key: str, value: Any) -> None:
    try:
        _ = isinstance(value, str) and value.encode()
    except UnicodeEncodeError:
        raise _NotPlainError(f"{one_line(key)} = {shortened(value)}: must be UTF-8 text") from None


def _first_problem(error: ValidationError) -> str:
    """What is wrong first; a key that is misspelt before one that is therefore missing."""
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    problem = next(unknown, problems[0])
    location = [part for part in problem["loc"] if not str(part).startswith("literal[")]
    key = one_line(".".join(map(str, location)))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}; there are {', '.join(_keys_beside(location))}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    if not key:
        return message
    return f"{key} = {shortened(problem['input'])}: {message[:1].lower()}{message[1:]}"


def _keys_beside(location: list[int | str]) -> list[str]:
    """Keys of the table that the last part of a location was looked for in."""
    part: type[_Part] = SweepSpec
    if len(location) > 1:
        kind = SweepSpec.model_fields[str(location[0])].annotation
        kinds = (kind, *get_args(kind))
        parts = (one for one in kinds if isinstance(one, type) and issubclass(one, _Part))
        part = next(parts, Point)
    return [*part.model_fields, *(["period_years"] if part is Workload else [])]
