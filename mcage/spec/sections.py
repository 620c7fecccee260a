"""Sections of a spec: one table of the TOML file each, with every key, its default and its range.

Unknown keys are refused, and every value is checked where it enters: past this border all values
are trusted.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mcage.distributions import FORMS, Distribution
from mcage.errors import UserError
from mcage.geometry import PRESETS, SliceGeometry
from mcage.plain_text import one_line, shortened
from mcage.spec.cost_constants import (
    Penalties,
    Technology,
    load_costs,
    statuses_in,
    technologies_in,
)
from mcage.spec.workload_mix import canonical_mix
from mcage.stats.wording import known_name
from mcage.variation.scenarios import NO_ARRAYS, ArraySize

PAPER_GUARDBAND = 0.139
"""Delay increase that the baseline's worst cell reaches in its three years (Valero et al., IEEE TC
2019, section 6.4): the timing margin that such a design must have had. No paper states one."""

LEAST_SPREAD_MV = 0.05
"""Least shift of a charged trap: below it, transistors shift alike for all that can be measured."""

MOST_PBTI = 10.0
"""Largest ratio of the shifts of pull-down transistors to those of a PMOS."""

MOST_PERIODS = 1000
"""Largest number of periods of a life."""

Name = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A table of a spec; it cannot be changed, and takes no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values, unless one of them stands twice.

    Raises
    ------
    ValueError
        The message names the value.
    """
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"names {shortened(twice)} twice")
    return values


def distribution_within(lowest: float, highest: float, unit: str) -> BeforeValidator:
    """Make a validator of a number, or of the text of a distribution, for a key of a spec.

    Parameters
    ----------
    lowest, highest : float
        Range in which every draw must lie.
    unit : str
        Unit of the range, for the error message.

    Returns
    -------
    BeforeValidator
        Gives a number for a constant, the canonical text of any other distribution.
    """

    def canonical(given: Any) -> float | str:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError(f"must be {FORMS}")
        distribution = Distribution.of(given)
        low, high = distribution.bounds
        if not lowest <= low <= high <= highest:
            is_constant = distribution.is_constant
            draws = "" if is_constant else f", but it draws from {low:g} ... {high:g}"
            raise ValueError(f"must stay within {lowest:g} ... {highest:g} {unit}{draws}")
        return distribution.numbers[0] if distribution.is_constant else str(distribution)

    return BeforeValidator(canonical)


class Workload(Section):
    """Which kernels a slice runs, and for how long."""

    kernels: tuple[Name, ...] = ()
    """Bundled kernels or trace files; empty: all bundled kernels."""
    periods: Annotated[int, Field(ge=1, le=MOST_PERIODS)] = 5
    """Number of periods, of equal length, into which a life is cut; every instance draws a kernel
    for each. `period_years`, the length of a period, may be given in its place."""
    mix: Annotated[str | dict[str, float], BeforeValidator(canonical_mix)] = "uniform"
    """How kernels are drawn: ``uniform``, ``one`` for life, ``dirichlet(alpha)``, or weights."""
    generations: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Number of windows of each slot after which a trace is cut; 0: the whole trace."""
    release: Literal["wavefront", "work-group"] = "wavefront"
    """When a register window is freed: when its wavefront ends, or when its work-group ends, as
    the bundled traces record it."""


class Life(Section):
    """How long an instance is simulated, what ends its life, and its conditions meanwhile."""

    horizon_years: Annotated[float, Field(ge=0.001, le=100)] = 10.0
    """Simulated time."""
    epochs: Annotated[int, Field(ge=1, le=1000)] = 6
    """Number of epochs, in each of which the fault map is fixed; at least one for each period."""
    delay_guardband: Annotated[float, Field(gt=0, le=100)] = PAPER_GUARDBAND
    """Relative delay increase of the worst transistor that ends a life."""
    temperature_kelvin: Annotated[float | str, distribution_within(200, 450, "K")] = 353.15
    """Temperature of a slice."""
    temperature_swing_kelvin: Annotated[float | str, distribution_within(-250, 250, "K")] = 0.0
    """Temperature offset that is drawn for each epoch of each instance."""
    activity: Annotated[float | str, distribution_within(0.001, 1, "of the time")] = 1.0
    """Fraction of the time in which a slice is busy."""
    idle: Literal["gated", "held"] = "gated"
    """State of the cells while the slice is idle: ``gated``, switched off, so that both
    transistors recover, or ``held``, on, so that they hold what the kernel has left."""
    spill_limit: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fraction of a kernel's register writes to the LDS above which a life ends; None: any."""
    vmin_coefficient: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Growth of a cell's Vmin per threshold shift, V/V (assumed; docs/aging.md)."""
    delay_path: Name = "word"
    """What decides the delay where `aging.nbti_spread_mv` is not 0: ``word``, ``worst``, or
    ``paths(COUNT, CELLS)``; docs/aging.md."""

    @field_validator("idle", mode="before")
    @classmethod
    def _has_a_model(cls, idle: Any) -> Any:
        if idle == "retained":
            raise ValueError(
                "is not supported, since no source gives a retention voltage; use gated or held"
            )
        return idle


def _numbers_or_calibrated(given: Any) -> dict[str, float | str]:
    """Check the form of constants; which names there are, and their ranges, the model knows."""
    if not isinstance(given, dict):
        raise ValueError("must be a table of numbers by name, such as { eta = 0.3 }")
    for name, value in given.items():
        if name == "amplitude" and value == "calibrated":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            word = ', or "calibrated"' if name == "amplitude" else ""
            raise ValueError(f"{shortened(name)} = {shortened(value)} must be a number{word}")
    return {name: value if value == "calibrated" else float(value) for name, value in given.items()}


def _ratio_or_model(given: Any) -> float | str:
    """Check a ratio; which models there are, their catalogue knows."""
    if isinstance(given, str) and given:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MOST_PBTI:
        raise ValueError(f"must be a ratio, 0 ... {MOST_PBTI:g}, or the name of an NBTI model")
    return float(given)


class Aging(Section):
    """How the threshold voltages of transistors shift."""

    model: Name = "facelift"
    """NBTI model that ships with mcage, or a user-defined one as module:NAME; see
    `mcage nbti --list`."""
    vt0_volts: Annotated[float | str, distribution_within(0, 1, "V")] | None = None
    """Unaged threshold voltage (its magnitude); None: the model's own."""
    shift_factor: Annotated[float | str, distribution_within(0, 10, "(a factor)")] = 1.0
    """Factor on every threshold shift."""
    nbti_spread_mv: Annotated[float, Field(ge=0, le=50)] = 0.0
    """Mean shift by a charged trap, eta, in mV: transistors that are stressed alike shift
    differently; 0: they shift alike."""
    pbti: Annotated[float | str, BeforeValidator(_ratio_or_model)] = 0.0
    """PBTI of the pull-down transistors: the ratio of their shifts to those of a PMOS under the
    same stress, or an NBTI model whose equations they follow; 0: they do not age."""
    vmin_model: Name = "larger"
    """How Vmin grows: with the ``larger`` shift of a cell, or by the margins for reading, writing
    and holding: ``margins``, ``margins-low`` or ``margins-high``; docs/aging.md."""
    constants: Annotated[dict[str, float | str], BeforeValidator(_numbers_or_calibrated)] | None = (
        None
    )
    """Constants in place of the model's own, by their names in `mcage nbti --list`."""

    @field_validator("constants")
    @classmethod
    def _none_for_an_empty_table(cls, constants: Any) -> Any:
        return constants or None

    @field_validator("nbti_spread_mv")
    @classmethod
    def _large_enough(cls, spread: float) -> float:
        if 0 < spread < LEAST_SPREAD_MV:
            raise ValueError(f"must be 0, or {LEAST_SPREAD_MV:g} ... 50 mV")
        return spread

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.vt0_volts is not None and "vt0_volts" in (self.constants or {}):
            raise ValueError("vt0_volts and constants.vt0_volts: give one of them")
        return self


class Faults(Section):
    """Where faults come from."""

    mode: Literal["varius", "varius-selected", "table", "table-exact"] = "varius"
    """Fault model: VARIUS, VARIUS maps selected to match a published table, or the table."""
    spread_blocks: bool = False
    """Whether the faulty bits of an entry lie in as many blocks as there are (RRCD's conservative
    rule)."""
    slices_per_chip: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of instances with successive ids that share a die."""
    mu_volts: float | None = None
    """Middle of the distribution of Vmin; None, here and in the next five: the scenario's."""
    sigma_die_volts: float | None = None
    """Standard deviation of Vmin from die to die."""
    sigma_systematic_volts: float | None = None
    """Standard deviation of the part of Vmin that is correlated over a slice."""
    sigma_random_volts: float | None = None
    """Standard deviation of Vmin from cell to cell."""
    phi: float | None = None
    """Range of the spatial correlation of a smooth field, in sides of the slice."""
    arrays: Name | None = None
    """Size of the arrays that deviate as wholes, ``"ENTRIESxBITS"``, or ``"none"`` for a smooth
    field."""
    tolerance: float | None = None
    """Largest deviation of a selected map from the table; None: 0.05."""

    @field_validator("arrays")
    @classmethod
    def _has_a_size(cls, arrays: str | None) -> str | None:
        try:
            ArraySize.of(arrays or NO_ARRAYS)
        except UserError as error:
            raise ValueError(f'must be a size such as "128x128", or "{NO_ARRAYS}"') from error
        return arrays


class Geometry(Section):
    """The slice, where it is not as the traces say; what is left out is as in the preset."""

    preset: Literal["gcn", "nvidia"] | None = None
    """Slice that the other keys change: gcn 256 x 64, nvidia 512 x 32; None: that of the traces."""
    entries: int | None = None
    """Number of registers of the slice: 64, 128, 256, 512 or 1024."""
    components: int | None = None
    """Number of components of 32 bit of a register, a lane each: a multiple of 8 from 16 to 64."""
    block_components: int | None = None
    """Number of components of a block; 1, 2 or 4 blocks make a register."""

    def of(self, recorded: SliceGeometry) -> SliceGeometry:
        """The slice for a trace that was recorded on another, or on the same.

        Raises
        ------
        UserError
            There is no such slice.
        """
        base = PRESETS[self.preset] if self.preset else recorded
        try:
            return replace(base, **self.model_dump(exclude={"preset"}, exclude_none=True))
        except UserError as error:
            raise UserError(f"registers.{error}") from error


class Registers(Section):
    """Sizes and rules of the register file and its techniques."""

    geometry: Geometry | None = None
    """The slice, or the name of its preset; None: that of the traces."""

    delta_limit: int | str = 64
    """Largest delta of a compressible value, a power of two: 64 as published, or "none"."""
    lds_rows: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Number of registers that the spill partition of the LDS holds for one slice; None: 8 KiB,
    which is 32 registers of 256 bytes."""
    selector_offsets: Annotated[int, Field(ge=1, le=256)] = 8
    """Number of starting entries over which rotating selectors are averaged, a divisor of 256."""

    @field_validator("geometry", mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        return {"preset": given} if isinstance(given, str) else given

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


def _sound_tables(tables: dict[str, Any]) -> dict[str, Any]:
    try:
        load_costs(tables)
    except UserError as error:
        raise ValueError(str(error)) from error
    return tables


class Costs(Section):
    """Constants of energy and slowdown."""

    tables: Annotated[dict[str, Any], AfterValidator(_sound_tables)] | None = None
    """Tables of constants, or the file that holds them; None: those that ship with mcage."""
    technology: Annotated[Name, Field(validate_default=True)] = "28nm"
    """Technology of the components; the figures of 28nm are printed down to low voltages. Tables
    of a single technology are of that."""

    @model_validator(mode="before")
    @classmethod
    def _single_technology(cls, given: Any) -> Any:
        tables = given.get("tables") if isinstance(given, dict) else None
        names = technologies_in(tables) if isinstance(tables, dict) else ()
        return {"technology": names[0]} | given if len(names) == 1 else given

    @field_validator("technology")
    @classmethod
    def _is_there(cls, name: str, before: ValidationInfo) -> str:
        tables = before.data.get("tables")
        names = technologies_in(tables) if tables else ["32nm", "28nm"]
        if name not in names and "tables" in before.data:
            raise ValueError(f"must be one of {', '.join(names)}")
        return name

    @property
    def of_technology(self) -> Technology:
        """Constants of the components."""
        return load_costs(self.tables).technology(self.technology)

    @property
    def penalties(self) -> Penalties:
        """Constants of the slowdown."""
        return load_costs(self.tables).penalties

    @property
    def user_defined(self) -> str:
        """In words, a user's constants and their statuses; empty with those of mcage."""
        if self.tables is None:
            return ""
        statuses = statuses_in(self.tables, self.technology)
        return f"user-defined constants of {one_line(self.technology)} ({statuses})"

    def caveat_on(self, geometry: SliceGeometry) -> str:
        """What must be said wherever energies are shown; empty with the constants of mcage."""
        if self.tables is None:
            return ""
        known = self.of_technology.geometry.shape
        if geometry.shape == known:
            return f"energy and slowdown rest on {self.user_defined}"
        return (
            f"the slowdown rests on {self.user_defined}; energy is unknown, since they are those "
            "of slices of {} x {} with blocks of {}".format(*known)
        )


class Stopping(Section):
    """When a sweep may end before its last instance."""

    rel_ci: Annotated[float, Field(gt=0, lt=1)]
    """Largest half-width of the 95 % interval relative to the value, in every case."""
    of: Literal["median_life", "b10_life", "life_to_horizon", "max_dvth", "spill_rate"] = (
        "median_life"
    )
    """Quantity whose interval is looked at."""

    @field_validator("of", mode="before")
    @classmethod
    def _as_called_here(cls, name: Any) -> Any:
        known = get_args(cls.model_fields["of"].annotation)
        return known_name(name, known) if isinstance(name, str) else name

    @model_validator(mode="before")
    @classmethod
    def _has_a_precision(cls, given: Any) -> Any:
        if isinstance(given, dict) and "rel_ci" not in given:
            raise ValueError("the precision to reach is missing: give rel_ci, too")
        return given
