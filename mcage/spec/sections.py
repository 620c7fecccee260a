"""Sections of a spec: one table of the TOML file each, with every key, its default and its range.

Unknown keys are refused, and every value is checked where it enters: past this border all values
are trusted.
"""

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mcage.distributions import FORMS, Distribution
from mcage.errors import UserError
from mcage.geometry import PRESETS, PresetName, SliceGeometry
from mcage.plain_text import one_line, shortened
from mcage.spec.cost_constants import (
    Penalties,
    Technology,
    VddScaling,
    load_costs,
    statuses_in,
    technologies_in,
)
from mcage.spec.keys import PLUG_IN, Option, Section, UsedIf
from mcage.spec.workload_mix import canonical_mix
from mcage.variation.scenarios import CELL_8T, NO_ARRAYS, ArraySize, scenario

if TYPE_CHECKING:
    from mcage.techniques import Technique

PAPER_GUARDBAND = 0.139
"""Delay increase that the baseline's worst cell reaches in its three years (Valero et al., IEEE TC
2019, section 6.4): the timing margin that such a design must have had. No paper states one."""

LEAST_SPREAD_MV = 0.05
"""Least shift of a charged trap: below it, transistors shift alike for all that can be measured."""

MOST_PBTI = 10.0
"""Largest ratio of the shifts of pull-down transistors to those of a PMOS."""

DEFAULT_EPOCHS = 4
"""Epochs of a life whose workload has few periods; results/convergence.md has their error."""

MOST_PERIODS = 1000
"""Largest number of periods of a life."""

Name = Annotated[str, Field(min_length=1)]


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


OF_SCENARIO = "the scenario's"
"""Default, in words, of the constants of Vmin."""


def used_by(uses: "Callable[[Technique], bool]", use: str) -> UsedIf:
    """Say that only certain techniques have a use for a key, and what for."""
    return UsedIf(
        lambda _, techniques: any(map(uses, techniques)),
        lambda spec: (
            f"no technique of this sweep ({', '.join(spec.techniques)}) {use}; leave it out"
        ),
    )


def _faults_grow(spec: Any, _: Any) -> bool:
    return bool(spec.faults.mode == "varius")


_OF_GROWING_FAULTS = UsedIf(
    _faults_grow,
    "faults of mode {spec.faults.mode!r} do not grow; leave it out, or choose mode varius",
)


def _slices_vary(spec: Any, _: Any) -> bool:
    return _largest(spec, "sigma_systematic_volts") > 0


def _largest(spec: Any, name: str) -> float:
    """Largest value of a parameter of the fault model in any scenario of the sweep."""
    drawn = None if spec.draws is None else spec.draws.bounds(f"faults.{name}")
    if drawn is not None:
        return float(drawn[1])
    value = getattr(spec.faults, name)
    if value is None:
        value = max(getattr(scenario(label), name) for label in spec.scenarios)
    return float(value)


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

    def canonical(value: Any) -> float | str:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"must be {FORMS}")
        distribution = Distribution.of(value)
        low, high = distribution.bounds
        if not lowest <= low <= high <= highest:
            is_constant = distribution.is_constant
            draws = "" if is_constant else f", but it draws from {low:g} ... {high:g}"
            raise ValueError(f"must stay within {lowest:g} ... {highest:g} {unit}{draws}")
        return distribution.numbers[0] if distribution.is_constant else str(distribution)

    return BeforeValidator(canonical)


class Workload(Section):
    """Which kernels a slice runs, and for how long."""

    panel: ClassVar = "Workload"

    kernels: Annotated[tuple[Name, ...], Option("--kernel NAME", default="those of --suite")] = ()
    """Bundled kernel, as `mcage trace list` lists them, or a trace file.

    Each kernel is drawn with the same probability, unless ``workload.mix`` says otherwise
    (assumed). None: those of ``workload.suite``.
    """
    suite: Annotated[
        Literal["sdk-2011", "modern", "all"],
        Option("--suite SUITE"),
        UsedIf(
            lambda spec, _: not spec.workload.kernels,
            "workload.kernels names the kernels itself; leave it out",
        ),
    ] = "sdk-2011"
    """Bundled kernels: sdk-2011 (of the papers), modern (today's) or all of the slice.

    ``sdk-2011``: the ten of the papers, recorded in a cycle-level model of the papers' GPU, the
    only ones whose times are not assumed and with constants of energy that two papers print.
    ``modern``: today's, recorded by mcage's emulator with assumed latencies; on ``gcn`` those in
    OpenCL C, on ``cdna2`` and ``rdna3`` also those for matrix cores. On NVIDIA's slices they are
    AMD's code, and approximate. ``all``: every kernel that was recorded on the slice. How much the
    choice matters: docs/kernels-today.md.
    """
    schedule: Annotated[
        Literal["interleaved", "sequential"], Option("--schedule SCHEDULE", seldom=True)
    ] = "interleaved"
    """How kernels follow each other: interleaved, in turns that are short against an epoch, or
    sequential, one kernel for each whole period.

    Assumed. Interleaved: an instance runs a mix of kernels (docs/model.md#mixes).
    """
    mix_size: Annotated[
        int,
        Field(ge=1, le=100),
        Option("--mix-size N", seldom=True),
        UsedIf(
            lambda spec, _: spec.workload.schedule == "interleaved",
            "a sequential workload runs one kernel in each period; leave it out",
        ),
        UsedIf(
            lambda spec, _: spec.workload.mix != "one" and isinstance(spec.workload.mix, str),
            "the mix names its kernels itself; leave it out",
        ),
    ] = 3
    """Number of kernels that a mix is made of; all of them, if there are fewer.

    Assumed. Kernels are drawn without replacement.
    """
    periods: Annotated[
        int,
        Field(ge=1, le=MOST_PERIODS),
        Option("--periods N", default="1; sequential: 5", seldom=True),
    ] = 1
    """Number of equal periods of a life, each with its own kernels.

    Assumed. Each has a kernel, or a mix, of its own; 1: a mix for life. 5 where the schedule is
    sequential, unless the spec says otherwise.
    """
    mix: Annotated[
        str | dict[str, float],
        BeforeValidator(canonical_mix),
        Option("--mix MIX"),
        UsedIf(
            lambda spec, _: len(spec.workload.kernels) != 1,
            "a sweep of one kernel ({spec.workload.kernels[0]}) has nothing to draw; leave it out",
        ),
    ] = "dirichlet(1.0)"
    """Shares of a mix, or draws of kernels: uniform, one, dirichlet(alpha), weights(kernel: weight,
    ...).

    Assumed. ``dirichlet(alpha)``: drawn for each instance, all shares equally likely where alpha is
    1; ``uniform``: all the same; ``one``: a single kernel. Where the schedule is sequential, it
    says how an instance draws its kernels. ``uniform`` (its default): with equal probabilities,
    period by period; ``one``: one kernel for life; ``dirichlet(0.5)``: each instance first draws
    its own probabilities of the kernels, which differ more the smaller the number is. Under both
    schedules: a table with a weight for each kernel, or ``weights(DCT: 2, Reduction: 1)``.
    """
    generations: Annotated[
        int, Field(ge=0, le=1_000_000), Option("--generations N", seldom=True)
    ] = 0
    """Number of windows of each slot after which traces are cut; 0: whole traces.

    Numerical. Excerpts change spill rates by some percent (results/convergence.md).
    """
    release: Annotated[
        Literal["wavefront", "work-group"], Option("--release WHEN", seldom=True)
    ] = "wavefront"
    """When a register window is freed: at the end of its wavefront or of its work-group.

    Printed. ``wavefront``: as both papers describe and AMD's GCN units do; the end is estimated
    from the last register access (reconstructed). ``work-group``: all windows of a work-group
    together, as the bundled traces record it and as NVIDIA's GPUs do. It decides how much
    BlackScholes spills under RRCD (results/open-differences.md), but hardly how long slices live
    (docs/low-voltage.md).
    """


class Life(Section):
    """How long an instance is simulated, what ends its life, and its conditions meanwhile."""

    panel: ClassVar = "Life"

    horizon_years: Annotated[float, Field(ge=0.001, le=100), Option("--horizon YEARS")] = 10.0
    """Simulated time in years."""
    epochs: Annotated[int, Field(ge=1, le=1000), Option("--epochs N", seldom=True)] = DEFAULT_EPOCHS
    """Number of epochs, in each of which the fault map is fixed.

    Numerical. At least one for each period, the others where faults grow fastest. Unless the spec
    says otherwise, one more than the periods where these are more than 3: 6 where the schedule is
    sequential. The error: docs/model.md#how-many-epochs-are-enough.
    """
    delay_guardband: Annotated[float, Field(gt=0, le=100), Option("--guardband FRACTION")] = (
        PAPER_GUARDBAND
    )
    """Relative delay increase that ends a life.

    Assumed. With the default, half of the conventional slices at 1.0 V live for three years, as do
    all of them with ``spread = false`` and then 0.139: what the worst cell of Valero's conventional
    design, always busy, loses in three years. The life of three years of this design is therefore
    an assumption.
    """
    temperature_kelvin: Annotated[
        float | str, distribution_within(200, 450, "K"), Option("--temperature KELVIN")
    ] = 353.15
    """Temperature in K: a number, or a distribution such as "normal(353, 5)".

    Assumed. For the whole life, at every operating point that has no temperature offset;
    docs/model.md#distributions.
    """
    temperature_swing_kelvin: Annotated[
        float | str,
        distribution_within(-250, 250, "K"),
        Option("--temperature-swing KELVIN", seldom=True),
    ] = 0.0
    """Temperature offset drawn for each epoch, in K: a distribution such as "normal(0, 5)".

    Assumed. -250 to 250: a number, or a distribution of which each epoch has a draw of its own.
    """
    activity: Annotated[
        float | str,
        distribution_within(0.001, 1, "of the time"),
        Option("--activity FRACTION", seldom=True),
    ] = 1.0
    """Fraction of the time in which slices are busy: a number or a distribution.

    Assumed. 0.001 to 1.
    """
    idle: Annotated[
        Literal["gated", "held"],
        Option("--idle STATE", seldom=True),
        UsedIf(
            lambda spec, _: spec.life.activity != 1.0,
            "slices are never idle, since life.activity = 1; leave it out, or lower that",
        ),
    ] = "gated"
    """State of the cells while the slice is idle: gated (off) or held (on).

    Assumed. ``gated``: both transistors recover; ``held``: cells hold what the kernel has left
    (docs/model.md#idle-time).
    """
    spill_limit: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None,
        Option("--spill-limit FRACTION", default="no limit", seldom=True),
        used_by(lambda technique: technique.redirects, "spills to the LDS"),
    ] = None
    """Fraction of a kernel's register writes to the LDS and to memory above which a life ends.

    None: no limit as long as there is room.
    """
    slowdown_limit: Annotated[float | str, Option("--slowdown-limit FRACTION")] = 0.10
    """Slowdown that ends a life, or none.

    Assumed. Of a mix, against a conventional slice.
    """
    uncorrectable_blocks: Annotated[
        int,
        Field(ge=0, le=1000),
        Option("--uncorrectable-blocks N", seldom=True),
        used_by(lambda technique: not technique.heeds_faults, "uses entries with faults"),
    ] = 0
    """Number of blocks with errors that cannot be corrected, among the entries in use, which a
    slice may have before its life ends.

    Under techniques that cannot move data: docs/protection.md#uncorrectable-words.
    """
    vmin_coefficient: Annotated[
        float,
        Field(ge=0, le=10),
        Option("--vmin-coefficient FACTOR", seldom=True, panel="Aging"),
        _OF_GROWING_FAULTS,
    ] = 1.0
    """Growth of a cell's Vmin per threshold shift, in V/V.

    Assumed.
    """
    delay_path: Annotated[
        Name,
        Option("--delay-path PATH", seldom=True, panel="Aging"),
        UsedIf(
            lambda spec, _: spec.aging.nbti_spread_mv > 0,
            "transistors that are stressed alike shift alike, so that all paths do; leave it out, "
            "or give aging.nbti_spread_mv",
        ),
    ] = "word"
    """Paths that the delay is judged by, with --nbti-spread: word, worst, or "paths(N, K)".

    docs/aging.md#transistors-that-are-stressed-alike.
    """

    @field_validator("slowdown_limit", mode="before")
    @classmethod
    def _fraction(cls, limit: Any) -> Any:
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit != "none" and not (is_number and 0 <= limit <= 100):
            raise ValueError('must be a fraction, 0 ... 100, or "none"')
        return limit

    @field_validator("idle", mode="before")
    @classmethod
    def _has_a_model(cls, idle: Any) -> Any:
        if idle == "retained":
            raise ValueError(
                "is not supported, since no source gives a retention voltage; use gated or held"
            )
        return idle


def _numbers_or_calibrated(constants: Any) -> dict[str, float | str]:
    """Check the form of constants; which names there are, and their ranges, the model knows."""
    if not isinstance(constants, dict):
        raise ValueError("must be a table of numbers by name, such as { eta = 0.3 }")
    for name, value in constants.items():
        if name == "amplitude" and value == "calibrated":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            word = ', or "calibrated"' if name == "amplitude" else ""
            raise ValueError(f"{shortened(name)} = {shortened(value)} must be a number{word}")
    return {
        name: value if value == "calibrated" else float(value) for name, value in constants.items()
    }


def _ratio_or_model(pbti: Any) -> float | str:
    """Check a ratio; which models there are, their catalogue knows."""
    if isinstance(pbti, str) and pbti:
        return pbti
    if isinstance(pbti, bool) or not isinstance(pbti, int | float) or not 0 <= pbti <= MOST_PBTI:
        raise ValueError(f"must be a ratio, 0 ... {MOST_PBTI:g}, or the name of an NBTI model")
    return float(pbti)


class Aging(Section):
    """How the threshold voltages of transistors shift."""

    panel: ClassVar = "Aging"

    model: Annotated[Name, Option("--nbti NAME"), PLUG_IN] = "facelift"
    """NBTI model, as `mcage nbti --list` lists them, or a user-defined one as module:NAME.

    Reconstructed. docs/aging.md.
    """
    vt0_volts: Annotated[
        Annotated[float | str, distribution_within(0, 1, "V")] | None,
        Option("--vt0 VOLTS", default="the model's own", seldom=True),
    ] = None
    """Unaged threshold voltage in V: a number or a distribution.

    Assumed. 0 to 1 V, of all transistors of a slice; by default with a deviation of 2 % of that of
    the model from die to die. None: that of the model.
    """
    shift_factor: Annotated[
        float | str,
        distribution_within(0, 10, "(a factor)"),
        Option("--shift-factor FACTOR", seldom=True),
    ] = 1.0
    """Factor on threshold shifts: a number or a distribution.

    Assumed. 0 to 10.
    """
    nbti_spread_mv: Annotated[float, Field(ge=0, le=50), Option("--nbti-spread ETA")] = 0.0
    """Mean shift by a charged trap in mV: equally stressed transistors shift differently.

    0 (transistors that are stressed alike shift alike), or 0.05 to 50:
    docs/aging.md#transistors-that-are-stressed-alike.
    """
    pbti: Annotated[
        float | str,
        BeforeValidator(_ratio_or_model),
        Option("--pbti RATIO"),
        PLUG_IN,
        _OF_GROWING_FAULTS,
    ] = 0.0
    """Shifts of pull-down transistors (PBTI), as a ratio to those of a PMOS under the same stress,
    or an NBTI model by its name.

    Assumed. 0 to 10: docs/aging.md#pbti-agingtransistorspy.
    """
    vmin_model: Annotated[Name, Option("--vmin-model NAME"), _OF_GROWING_FAULTS] = "larger"
    """How Vmin grows: with the larger shift of a cell, or by margins for reading, writing and
    holding (margins, margins-low, margins-high).

    Assumed. docs/aging.md#read-write-and-hold.
    """
    constants: Annotated[
        Annotated[dict[str, float | str], BeforeValidator(_numbers_or_calibrated)] | None,
        Option("--constant NAME=VALUE", default="the model's own", seldom=True),
    ] = None
    """Constant of the NBTI model, such as eta=0.3.

    Constants that replace those of the model, by their names in ``mcage nbti --list``; ``amplitude
    = "calibrated"`` fits the amplitude again (docs/aging.md#other-constants). None: those of the
    model.
    """

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

    panel: ClassVar = "Faults"

    mode: Annotated[
        Literal["varius", "table", "table-exact"],
        Option("--fault-mode MODE", seldom=True),
    ] = "varius"
    """Fault model: varius, table or table-exact.

    Reconstructed. ``table``, ``table-exact``: drawn from the published table, without growth
    (docs/variation.md).
    """
    cell: Annotated[
        Literal["6t", "8t"] | None,
        Option("--cell CELL", default="6t", seldom=True),
        UsedIf(
            lambda spec, _: spec.faults.cell != CELL_8T or spec.faults.mode == "varius",
            "mode {spec.faults.mode!r} follows a published table, which is of 6T cells; leave it "
            "out, or choose mode varius",
        ),
    ] = None
    """SRAM cell of the slice: 6t, or 8t, which has a port of its own for reading and fails by
    margins alone.

    Assumed. None: 6t. The 8T cell has margins of its own, a moved distribution of Vmin, and
    ``margins`` as the default of ``aging.vmin_model`` (docs/aging.md#cells-of-eight-transistors).
    """
    spread_blocks: Annotated[
        bool,
        Option("--spread-blocks/--keep-blocks", seldom=True),
        used_by(
            lambda technique: technique.stores_in_blocks, "uses single blocks of a faulty entry"
        ),
        UsedIf(
            _faults_grow,
            "mode {spec.faults.mode!r} puts each faulty bit into a block of its own anyway; leave "
            "it out, or choose mode varius",
        ),
    ] = False
    """Whether the faulty bits of an entry are spread over as many of its blocks.

    Printed if true. Whether an entry with n faulty bits loses n different blocks (four at most),
    instead of the blocks in which the bits are.
    """
    fit_per_mbit: Annotated[
        Annotated[float, Field(ge=0, le=1e6)] | None,
        Option("--fit-per-mbit FIT", default="74, of 28 nm", seldom=True),
    ] = None
    """Rate at which particles change cells at 1.0 V, in FIT per Mbit.

    Reconstructed. None: 74, of 28 nm (docs/soft-errors.md).
    """
    slices_per_chip: Annotated[
        int,
        Field(ge=1, le=10_000),
        Option("--slices-per-chip N"),
        UsedIf(
            lambda spec, _: _largest(spec, "sigma_die_volts") > 0 or spec.stopping is not None,
            "dies do not differ, so that it does not matter which slices share one; leave it out, "
            "or give faults.sigma_die_volts",
        ),
    ] = 1
    """Number of successive instances that share a die."""
    mu_volts: Annotated[float | None, Option("--mu VOLTS", OF_SCENARIO, seldom=True)] = None
    """Middle of the distribution of Vmin in V.

    Reconstructed. An extrapolation of the tail; none: the scenario's.
    """
    sigma_die_volts: Annotated[
        float | None, Option("--sigma-die VOLTS", OF_SCENARIO, seldom=True)
    ] = None
    """Standard deviation of Vmin from die to die, in V.

    None: the scenario's, which is 0, since no source gives one (docs/variation.md).
    """
    sigma_systematic_volts: Annotated[
        float | None, Option("--sigma-systematic VOLTS", OF_SCENARIO, seldom=True)
    ] = None
    """Standard deviation of the part of Vmin that is correlated within a slice, in V.

    Reconstructed. None: the scenario's.
    """
    sigma_random_volts: Annotated[
        float | None, Option("--sigma-random VOLTS", OF_SCENARIO, seldom=True)
    ] = None
    """Standard deviation of Vmin from cell to cell, in V.

    Reconstructed. None: the scenario's.
    """
    phi: Annotated[
        float | None,
        Option("--phi SIDES", OF_SCENARIO, seldom=True),
        UsedIf(
            _slices_vary,
            "no deviation is correlated over a slice, since sigma_systematic_volts = 0; leave it "
            "out, or give faults.sigma_systematic_volts",
        ),
    ] = None
    """Range of the spatial correlation of a smooth field, in sides of the slice.

    Assumed. None: the scenario's.
    """
    arrays: Annotated[
        Name | None,
        Option("--arrays SIZE", OF_SCENARIO, seldom=True),
        UsedIf(
            _slices_vary,
            "arrays do not differ, since sigma_systematic_volts = 0; leave it out, or give "
            "faults.sigma_systematic_volts",
        ),
    ] = None
    """Size of the arrays that deviate as wholes, ENTRIESxBITS, or none: a smooth field.

    Assumed. Such as ``"128x128"`` (entries x bits); none, as a value that is left out: the
    scenario's.
    """

    @field_validator("arrays")
    @classmethod
    def _has_a_size(cls, arrays: str | None) -> str | None:
        try:
            ArraySize.of(arrays or NO_ARRAYS)
        except UserError as error:
            raise ValueError(f'must be a size such as "128x128", or "{NO_ARRAYS}"') from error
        return arrays

    def dies_differ(self, scenarios: Iterable[str]) -> bool:
        """Whether dies differ in the mean of Vmin, in any of the scenarios that are named."""
        if self.sigma_die_volts is not None:
            return self.sigma_die_volts > 0
        return any(scenario(name).sigma_die_volts > 0 for name in scenarios)


class Geometry(Section):
    """The slice, where it is not as the traces say; what is left out is as in the preset."""

    preset: PresetName | None = None
    """Slice that the other keys change, by a name as for registers.geometry; None: that of the
    traces."""
    entries: int | None = None
    """Number of registers of the slice: a multiple of 64 up to 1536."""
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

    panel: ClassVar = "Registers"

    geometry: Annotated[
        Geometry | None, Option("--geometry NAME", default="that of the traces")
    ] = None
    """Slice: gcn, nvidia or another of mcage docs geometry.

    Printed. A slice, or the name of its preset; none: that of the traces (docs/geometry.md).
    """
    delta_limit: Annotated[
        int | str,
        Option("--delta-limit N"),
        used_by(lambda technique: technique.compresses, "compresses"),
    ] = 64
    """Largest delta of a compressible value, a power of two, or none.

    Printed. With ``none``, some shares come nearer to the published ones.
    """
    lds_rows: Annotated[
        Annotated[int, Field(ge=0, le=1024)] | None,
        Option("--lds-rows N", default="8 KiB, 32 registers of 64 lanes", seldom=True),
        used_by(lambda technique: technique.redirects, "spills to the LDS"),
    ] = None
    """Number of registers that the spill partition of the LDS holds for one slice.

    Assumed. None: half of the 64 KB LDS of a compute unit (printed), in equal parts for its four
    slices (assumed): 8 KiB, which are 32 rows of 256 bytes.
    """
    overflow: Annotated[
        Literal["memory", "end"],
        Option("--overflow TO", seldom=True),
    ] = "memory"
    """Where spilled registers live that the LDS has no room for: in memory; or they end a life.

    Assumed. Memory has its own latency and energy; ``end``: they end the life.
    """
    selector_offsets: Annotated[
        int,
        Field(ge=1, le=256),
        Option("--selector-offsets N", seldom=True),
        used_by(lambda technique: technique.rotating_selectors, "rotates its selectors"),
    ] = 8
    """Number of starting entries over which rotating selectors are averaged.

    Numerical.
    """

    @field_validator("geometry", mode="before")
    @classmethod
    def _preset(cls, geometry: Any) -> Any:
        return {"preset": geometry} if isinstance(geometry, str) else geometry

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

    panel: ClassVar = "Registers"

    tables: Annotated[
        Annotated[dict[str, Any], AfterValidator(_sound_tables)] | None,
        Option("--costs FILE", default="those of the papers", seldom=True),
    ] = None
    """TOML file of constants of energy and slowdown.

    None: those of the papers (docs/costs.md#constants-of-your-own).
    """
    technology: Annotated[
        Name, Field(validate_default=True), Option("--technology NAME", seldom=True)
    ] = "28nm"
    """Technology whose constants of energy and slowdown are taken: 28nm, 32nm, or one of
    --costs.

    Those of ``32nm`` are Valero's, printed for the technology's nominal Vdd only: docs/costs.md.
    """
    vdd_scaling: Annotated[VddScaling, Option("--vdd-scaling RULE", seldom=True)] = "curve"
    """How energy follows Vdd: curve, or rows: as printed at the printed voltages, and quadratic in
    Vdd between.

    Reconstructed. ``curve``: one curve through the nominal constants
    (docs/costs.md#energy-and-vdd).
    """

    @model_validator(mode="before")
    @classmethod
    def _single_technology(cls, costs: Any) -> Any:
        tables = costs.get("tables") if isinstance(costs, dict) else None
        names = technologies_in(tables) if isinstance(tables, dict) else ()
        return {"technology": names[0]} | costs if len(names) == 1 else costs

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
        return load_costs(self.tables).technology(self.technology, self.vdd_scaling)

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
        """Caveats that belong wherever energies are shown; empty with the constants of mcage."""
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
    """When a campaign may end before its last instance."""

    panel: ClassVar = "Run"

    rel_ci: Annotated[
        float | None,
        Field(gt=0, lt=1),
        Option("--rel-ci FRACTION", default="compute all instances"),
    ] = None
    """Half-width of the interval, relative to the value (0.01 for 1 %), at which a study ends
    before --instances."""
    margin: Annotated[
        float | None, Field(gt=0, le=1e6), Option("--margin WIDTH", default="--rel-ci", seldom=True)
    ] = None
    """The same in the unit of the quantity, of shares as a fraction (0.01 for one point)."""
    level: Annotated[float, Field(gt=0.5, lt=1), Option("--level SHARE", seldom=True)] = 0.95
    """Level of the interval that --rel-ci or --margin looks at."""
    of: Annotated[Name, Option("--of QUANTITY")] = "median_life"
    """Quantity that --rel-ci looks at: median_life, b10_life, rmst (mean life up to the horizon),
    max_dvth or spill_rate."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_precision(cls, stopping: Any) -> Any:
        if isinstance(stopping, dict):
            given = [key for key in ("rel_ci", "margin") if stopping.get(key) is not None]
            if not given:
                raise ValueError("the precision to reach is missing: give rel_ci or margin, too")
            if len(given) > 1:
                raise ValueError("rel_ci and margin are two precisions: leave one of both out")
        return stopping


# The spec that a results file holds as text: parts of it.

Part = TypeVar("Part", bound=BaseModel)


def faults_of(spec_toml: str) -> Faults:
    """Where the faults of a sweep come from.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "faults", Faults)


def costs_of(spec_toml: str) -> Costs:
    """Which constants the energy and the slowdown of a sweep are counted with.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "costs", Costs)


def aging_of(spec_toml: str) -> Aging:
    """How the transistors of a sweep age.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "aging", Aging)


def tables_of(spec_toml: str) -> dict[str, Any]:
    """Tables of the spec of a file, to read its results.

    The mode varius-selected, which sweeps no longer take, drew slices of varius until a map lay
    close enough to the published table; readers ask nothing that would differ between both.
    """
    tables = tomllib.loads(spec_toml)
    faults = tables.get("faults")
    if isinstance(faults, dict) and faults.get("mode") == "varius-selected":
        faults["mode"] = "varius"
        faults.pop("tolerance", None)
    return tables


def _part(spec_toml: str, name: str, model: type[Part]) -> Part:
    try:
        return model.model_validate(tables_of(spec_toml).get(name, {}))
    except (ValueError, RecursionError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
