"""How much a result depends on assumptions: one parameter at a time, or Sobol' indices."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from mcage.aging.nbti import MODEL_NAMES, constants
from mcage.aging.nbti.catalogue import CALIBRATED, can_be_calibrated
from mcage.aging.vmin import LARGER
from mcage.campaign.progress import Progress
from mcage.concurrency import usable_cores
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.lifetime import EndCause
from mcage.plain_text import shown
from mcage.random import stream
from mcage.results.measures import Measure
from mcage.results.writer import Arrays
from mcage.single_runs.replay import SingleCase
from mcage.spec import SweepSpec
from mcage.stats.estimates import CONFIDENCE, Estimate, Floats, Range, known_name, mean
from mcage.stats.paired import compare_means
from mcage.stats.survival import life_quantile, quantile_rank
from mcage.studies.sweep.measures import MEASURES
from mcage.variation.scenarios import CELL_6T, CELL_8T, NO_ARRAYS, on_cell, scenario

# Parameters of a study: constants and choices, as they ship or as the user states them.

Value = float | str
"""Value of a constant or of a choice."""

USER_DEFINED = "user-defined"
"""Status of a parameter whose range a user gives."""

CONSTANT = "aging.constants."
FAULTS = "faults."
PHI, ARRAYS, CELL = "faults.phi", "faults.arrays", "faults.cell"
VMIN_MODEL = "aging.vmin_model"
LDS_ROWS = "registers.lds_rows"
SPREAD, MODEL, SCHEDULE = "spread", "aging.model", "workload.schedule"
IMPLIED = (
    "life.temperature_kelvin",
    "life.activity",
    "life.delay_guardband",
    "life.epochs",
    "aging.shift_factor",
    "aging.vt0_volts",
    "workload.mix",
    "workload.periods",
)
"""Keys whose defaults follow from the spread, the model and the schedule."""


@dataclass(frozen=True)
class Parameter:
    """A constant of a model and the range in which it may lie, or a choice.

    Parameters
    ----------
    name : str
        Name in the study.
    key : str
        Key in the spec of a sweep, such as ``life.temperature_kelvin``.
    nominal : float or str
        The value in the spec of the study.
    settings : tuple
        The other values: ends of the range that are not the nominal value, or settings of a
        choice.
    is_range : bool
        Whether it may have any value in between; a choice has a few settings and nothing else.
    unit, status, source : str
        Unit of a range; origin of the constant, in the words of docs/aging.md; reason for the
        range.
    """

    name: str
    key: str
    nominal: Value
    settings: tuple[Value, ...]
    is_range: bool
    unit: str = ""
    status: str = ""
    source: str = ""

    @property
    def ends(self) -> tuple[Any, Any]:
        """Lowest and highest value of a range."""
        values: list[Any] = [self.nominal, *self.settings]
        return min(values), max(values)


@dataclass(frozen=True)
class Entry:
    """A parameter or choice as it is shipped or asked for, for no spec in particular."""

    name: str
    key: str
    range: tuple[float, float] | None = None
    factors: tuple[float, float] | None = None
    alternatives: tuple[Value, ...] = ()
    distributions: tuple[Value, ...] = ()
    unit: str = ""
    status: str = USER_DEFINED
    source: str = ""
    model: str = ""
    not_in: tuple[str, ...] = ()

    def applies(self, spec: SweepSpec) -> bool:
        """Whether a study of the spec varies it by default.

        A study does not vary what cannot matter, nor what the spec itself varies by a
        distribution.
        """
        if self.model not in ("", spec.aging.model) or spec.environments[0] in self.not_in:
            return False
        if self.key.startswith(FAULTS) and spec.faults.mode != "varius":
            return False
        if self.key == PHI and value_of(spec, ARRAYS) != NO_ARRAYS:
            return False
        try:
            nominal = value_of(spec, self.key)
            if isinstance(nominal, str) and not self._others(spec, nominal):
                return False
            specs = [changed(spec, {self.key: value}) for value in self._others(spec, nominal)]
        except UserError:
            return False
        return not any(map(self._is_unused, specs))

    def _is_unused(self, spec: SweepSpec) -> bool:
        """Whether no case of a spec has a use for the key; others are as the user has them."""
        try:
            spec.refuse_unused()
        except UserError as error:
            return str(error).startswith(f"{self.key} = ")
        return False

    def _others(self, spec: SweepSpec, nominal: Value) -> tuple[Value, ...]:
        """Other settings, where there is nothing in between: words, and distributions."""
        settings = self.alternatives
        if self.key == VMIN_MODEL and spec.faults.cell == CELL_8T:  # for which it is no rule
            settings = tuple(value for value in settings if value != LARGER)
        if self.distributions and isinstance(nominal, str):
            usual = value_of(SweepSpec(), self.key)
            settings = self.distributions if nominal == usual else ()
        return tuple(value for value in settings if value != nominal)

    def of(self, spec: SweepSpec) -> Parameter:
        """Make the parameter or choice around the value in a spec.

        Raises
        ------
        UserError
            The spec has no value that could be varied, or a value outside the range.
        """
        nominal, about = value_of(spec, self.key), (self.status, self.source)
        if others := self._others(spec, nominal):
            return Parameter(self.name, self.key, nominal, others, False, "", *about)
        if isinstance(nominal, str):
            raise UserError(
                f"{self.name}: {self.key} = {nominal!r} is no number, and has no range; "
                "give the spec a number, or leave this parameter out"
            )
        low, high = self.range or tuple(factor * nominal for factor in self.factors or (1, 1))
        if not low <= nominal <= high:
            raise UserError(
                f"{self.name}: {self.key} = {nominal:g} lies outside the range {low:g} ... "
                f"{high:g}; give another with --range {self.name}=LOW..HIGH"
            )
        if not low < high:
            raise UserError(f"{self.name}: the range {low:g} ... {high:g} is empty")
        ends = tuple(end for end in (low, high) if end != nominal)
        return Parameter(self.name, self.key, nominal, ends, True, self.unit, *about)


def shipped() -> dict[str, Entry]:
    """Parameters and choices of ``data/sensitivity.toml``, by name."""
    text = files("mcage").joinpath("data", "sensitivity.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    return {
        name: Entry(name, **{key: _tuple(of) for key, of in table.items()})
        for name, table in tables.items()
    }


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def user_range(text: str, known: Mapping[str, Entry]) -> Entry:
    """Parse a range of the command line.

    Parameters
    ----------
    text : str
        ``NAME=LOW..HIGH`` or ``NAME=ONE,OTHER,...``; NAME is a known one or a key of the spec.
    known : mapping
        Entries by name.

    Raises
    ------
    UserError
        The text has another form.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if not (name and equals and values):
        raise UserError(f"--range {text}: NAME=LOW..HIGH is needed, or NAME=ONE,OTHER")
    before = known.get(name, Entry(name, name))
    if ".." not in values:
        settings = tuple(_number_or_word(part.strip()) for part in values.split(","))
        if len(set(settings)) < len(settings):
            raise UserError(f"--range {text}: {settings} must be different numbers or texts")
        return replace(before, range=None, factors=None, alternatives=settings)
    low, high = (_number_or_word(part.strip()) for part in values.split("..", 1))
    if any(isinstance(end, str | bool) for end in (low, high)) or not low < high:  # type: ignore[operator]
        raise UserError(
            f"--range {text}: {low!r} and {high!r} must be two numbers, the lower one first"
        )
    low, high = float(low), float(high)
    return replace(before, range=(low, high), factors=None, alternatives=())


def _number_or_word(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def value_of(spec: SweepSpec, key: str) -> Value:
    """Value of a dotted key in a spec; where it has none, that of model, scenario or slice.

    Raises
    ------
    UserError
        There is no such key, or it holds no number or word; or its values come from a table.
    """
    if spec.draws is not None and key in spec.draws.columns:
        raise UserError(
            f"{key} is drawn from a table (draws), row by row, and has no value that could be "
            "varied; leave this parameter out"
        )
    if key.startswith(CONSTANT):
        return _constant_of(spec, key.removeprefix(CONSTANT))
    value = _at(spec.model_dump(mode="json"), key) if "." in key else None
    if value is None and key.startswith(FAULTS):
        faults = spec.faults
        of_cell = on_cell(scenario(spec.scenarios[0]), faults.cell, spec.aging.vmin_model)
        value = CELL_6T if key == CELL else getattr(of_cell, key.removeprefix(FAULTS), None)
    if key == ARRAYS:
        value = NO_ARRAYS if value is None else str(value)
    if key == SPREAD:
        return spec.spread
    if value is None and key == LDS_ROWS:
        value = GCN.lds_rows
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UserError(f"{key!r} is no key of a sweep that holds a number or a word")
    return value


def changed(spec: SweepSpec, setting: Mapping[str, Any], study: str | None = None) -> SweepSpec:
    """Spec with changed keys, and with what a spec of these keys would have by default.

    Parameters
    ----------
    spec : SweepSpec
        Spec of a study.
    setting : mapping
        Values by dotted key, such as ``life.temperature_kelvin``.
    study : str, optional
        What asks, for messages.

    Raises
    ------
    UserError
        A key may not have its value.
    """
    fields: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    for key, value in (_implied(spec, setting) | dict(setting)).items():
        target: Any = fields
        *parts, name = key.split(".")
        for part in parts:
            is_list = isinstance(target, list)
            target = target[int(part)] if is_list else target.setdefault(part, {})
        target[name] = value
    return SweepSpec.from_mapping(fields, study)


def _implied(spec: SweepSpec, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults that follow from changed keys, where the spec has those of its own.

    Defaults that a spec has filled in look like given values, and would stay as they are.
    """
    words = {SPREAD: spec.spread, MODEL: spec.aging.model, SCHEDULE: spec.workload.schedule}
    if not words.keys() & setting.keys():
        return {}

    def usual(words: Mapping[str, Any]) -> dict[str, Any]:
        default = SweepSpec.from_mapping(
            {
                "spread": words[SPREAD],
                "aging": {"model": words[MODEL]},
                "workload": {"schedule": words[SCHEDULE]},
                "life": {"idle": spec.life.idle},
            }
        ).model_dump(mode="json")
        return {key: _at(default, key) for key in IMPLIED}

    before, after = usual(words), usual({key: setting.get(key, words[key]) for key in words})
    dumped = spec.model_dump(mode="json")
    return {
        key: after[key]
        for key in IMPLIED
        if _at(dumped, key) == before[key] and after[key] != before[key]
    }


def _at(fields: Any, key: str) -> Any:
    """Value of a dotted key in nested tables and lists; None if there is none."""
    for part in key.split("."):
        if isinstance(fields, list):
            fields = dict(enumerate(fields)).get(int(part)) if part.isdecimal() else None
        else:
            fields = fields.get(part) if isinstance(fields, dict) else None
    return fields


def _constant_of(spec: SweepSpec, name: str) -> Value:
    model = spec.aging.model
    if name == "vt0_volts" and spec.aging.vt0_volts is not None:
        raise UserError(f"{CONSTANT}{name}: the spec gives aging.vt0_volts in its place; vary that")
    known = constants(model) if model in MODEL_NAMES else {}
    if name not in known:
        has = f"it has {', '.join(known)}" if known else "it has constants of its own"
        raise UserError(f"{CONSTANT}{name}: NBTI model {model!r} has no such constant; {has}")
    return (spec.aging.constants or {}).get(name, known[name].value)


def chosen(
    spec: SweepSpec, entries: Mapping[str, Entry], names: Sequence[str] = ()
) -> list[Parameter]:
    """Select the parameters and choices of a study.

    Parameters
    ----------
    spec : SweepSpec
        Spec whose values are varied.
    entries : mapping
        Entries by name.
    names : sequence of str
        Names to select; empty: all that can matter to the spec.

    Raises
    ------
    UserError
        A name is unknown or comes twice; or `Entry.of` refuses an entry.
    """
    for name in names:
        if name not in entries:
            raise UserError(f"parameter {name!r} is unknown; choose from {', '.join(entries)}")
    if len(set(names)) < len(names):
        raise UserError(f"parameters: {', '.join(names)}: one is named twice")
    taken = names or [name for name, entry in entries.items() if entry.applies(spec)]
    return [entries[name].of(spec) for name in taken]


# Constants that are fitted to published figures, fitted again when another constant varies.
#
# The amplitude of an NBTI model is fitted to a delay, and the mean of Vmin to a table of faulty
# entries. If the field constant varied and the amplitude did not, the published delay would
# change, too: the fit rules out this effect, which would hide that of the constant. Fitted again
# are:
#
# - the amplitude, when another constant of the model varies: the delay at the model's point of
#   calibration stays (`mcage.aging.nbti.catalogue`);
# - mu, when a deviation of Vmin varies: the expected share of faulty cells at the scenario's own
#   Vdd
#   stays, Phi((mu - Vdd) / sigma) with sigma all parts together.

PARTS = ("faults.sigma_die_volts", "faults.sigma_systematic_volts", "faults.sigma_random_volts")


def refitted(spec: SweepSpec, base: SweepSpec, setting: Mapping[str, Any]) -> SweepSpec:
    """Fit amplitude and mu of a spec again, unless the spec gives them or they were never fitted.

    Parameters
    ----------
    spec : SweepSpec
        Spec of the setting.
    base : SweepSpec
        Spec without the setting, for which mu is taken to be right.
    setting : mapping
        Keys that are changed.

    Raises
    ------
    UserError
        The spec gives the amplitude as a number, which a fit would overrule; or the model is
        fitted by another constant.
    """
    changes: dict[str, dict[str, Any]] = {}
    constants = dict(spec.aging.constants or {})
    if isinstance(constants.get("amplitude"), float):
        raise UserError(
            f"aging.constants.amplitude = {constants['amplitude']:g} would be fitted again; "
            "leave it out, or fit nothing (--no-refit)"
        )
    model = spec.aging.model
    if constants and model in MODEL_NAMES and not can_be_calibrated(model):
        raise UserError(
            f"NBTI model {model!r} is fitted by its scale, which is not fitted again when "
            "another constant varies; fit nothing (--no-refit)"
        )
    if constants:
        changes["aging"] = {"constants": constants | {"amplitude": CALIBRATED}}
    if any(key in setting for key in PARTS) and "faults.mu_volts" not in setting:
        changes["faults"] = {"mu_volts": _mu_volts(spec, base)}
    if not changes:
        return spec
    fields = spec.model_dump(mode="json", exclude_none=True)
    return SweepSpec.from_mapping(
        fields | {part: fields[part] | values for part, values in changes.items()}
    )


def _mu_volts(spec: SweepSpec, base: SweepSpec) -> float:
    vdd = scenario(spec.scenarios[0]).vdd_volts
    distance = vdd - float(value_of(base, "faults.mu_volts"))
    return vdd - distance * _sigma_volts(spec) / _sigma_volts(base)


def _sigma_volts(spec: SweepSpec) -> float:
    return math.hypot(*(float(value_of(spec, key)) for key in PARTS))


# A quantity of one case, under many settings.

Setting = Mapping[str, Value]
"""Changed keys of a spec, with their values."""


def _of_survivors(case: Mapping[str, Floats], values: Floats) -> Floats:
    """Values of the dies that reach the horizon, which have the same age; NaN for others."""
    return np.where(case["end_cause"] != EndCause.CENSORED, np.nan, values.astype(np.float64))


AT_HORIZON = (
    Measure(
        "max_dvth",
        "largest dVth at the horizon [mV]",
        ("max_dvth_mv", "end_cause"),
        lambda case: _of_survivors(case, case["max_dvth_mv"].max(axis=-1)),
    ),
    Measure(
        "delay",
        "delay increase at the horizon [%]",
        ("delay_increase", "end_cause"),
        lambda case: _of_survivors(case, 100.0 * case["delay_increase"]),
        scale=1.0,
    ),
)
"""Measures of shifts and delays at one age: no guardband ends a life, and dies that die of another
cause do not count."""

WITHOUT_GUARDBAND = {"life.delay_guardband": 100.0}
"""A guardband that no life uses up: the highest that a spec may have."""

QUANTITIES = {
    measure.key if measure.part else measure.stops or measure.key: measure
    for measure in (*MEASURES, *AT_HORIZON)
}
"""Measures that a study may be about, by the names of ``--of``."""


def changes_for(of: str) -> Setting:
    """Keys of the spec that a quantity changes, with their values."""
    return WITHOUT_GUARDBAND if QUANTITIES[of] in AT_HORIZON else {}


@dataclass(frozen=True, eq=False)
class SensitivityStudy:
    """A quantity of one case, which settings of its constants change.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case; its instances are the dies of each evaluation.
    of : str
        The quantity, of `QUANTITIES`.
    engine : Engine
        Engine that computes lives.
    refit : bool
        Whether what is fitted to published figures is fitted again when other constants vary; see
        `refitted`.
    progress : Progress
        Where progress is reported.

    Raises
    ------
    UserError
        The spec has several cases or a stopping rule; or it cannot be refitted, and ``refit``
        asks for that.
    """

    spec: SweepSpec
    of: str
    engine: Engine
    refit: bool = True
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        _ = self.case
        self.at({})

    @cached_property
    def case(self) -> SingleCase:
        """The case as the spec has it."""
        return SingleCase(self.spec, self.engine, "a sensitivity study")

    @property
    def measure(self) -> Measure:
        """The quantity as a measure of a sweep."""
        return QUANTITIES[self.of]

    @property
    def changes(self) -> Setting:
        """Keys of the spec that the quantity changes, with their values."""
        return changes_for(self.of)

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of an `Answer`."""
        return {
            "label": self.case.label,
            "quantity": self.of,
            "unit": self.measure.unit,
            "instances": self.spec.instances,
            "horizon_years": self.spec.life.horizon_years,
            "refit": self.refit,
        }

    def of_dies(self, arrays: Arrays) -> Floats:
        """The quantity of each die, in its unit, of the arrays of a sweep: float64[instances].

        Infinity stands for "after the horizon", NaN where the die has no value.

        Raises
        ------
        UserError
            A sweep of this spec does not compute it.
        """
        if missing := set(self.measure.variables) - arrays.keys():
            raise UserError(f"of {self.of}: a sweep of this spec has no {min(missing)}")
        case = {name: array[0] for name, array in arrays.items()}
        dies = self.measure.scale * self.measure.of(case)
        if self.measure.quantile is None:
            return dies
        return np.where(case["end_cause"] == EndCause.CENSORED, np.inf, dies)

    def estimate(self, dies: Floats) -> Estimate:
        """The quantity over all dies, with its interval."""
        if self.measure.quantile is not None:
            return life_quantile(dies, np.isfinite(dies), self.measure.quantile)
        return mean(dies, within=self.within)

    @property
    def within(self) -> Range | None:
        """Range of the values of dies, where they have one."""
        within = self.measure.within(self.spec.life.horizon_years)
        return within and (within[0] * self.measure.scale, within[1] * self.measure.scale)

    def at(self, setting: Setting) -> SweepSpec:
        """Spec of the case under a setting.

        Raises
        ------
        UserError
            A key may not have its value, or the setting cannot be refitted.
        """
        spec = changed(self.spec, {**self.changes, **setting}, "a sensitivity study")
        return refitted(spec, self.spec, setting) if self.refit else spec

    def check(self, parameters: Sequence[Parameter]) -> None:
        """Refuse parameters that the quantity does not depend on, or whose ends make no sense.

        Raises
        ------
        UserError
            One line that names the parameter.
        """
        for parameter in parameters:
            if parameter.key in self.changes:
                raise UserError(f"{parameter.name}: {self.of} does not depend on it")
            if self.refit and parameter.key == f"{CONSTANT}amplitude":
                raise UserError(
                    f"{parameter.name}: the amplitude is what is fitted again; vary shift_factor, "
                    "or fit nothing (--no-refit)"
                )
            for value in parameter.settings:
                self.at({parameter.key: value})

    def values(self, settings: Sequence[Setting]) -> list[Floats]:
        """Compute the quantity of each die under each setting: float64[settings][instances].

        Raises
        ------
        UserError
            A setting makes no sense; the message says which.
        """
        return self.each(settings, lambda _, dies: dies)

    def each(
        self, settings: Sequence[Setting], function: Callable[[Setting, Floats], Any]
    ) -> list[Any]:
        """Call a function with each setting and its dies, as soon as their lives are computed.

        Parameters
        ----------
        settings : sequence of mapping
            The settings.
        function : callable
            Is called from several threads with a setting and the quantity of each die,
            float64[instances].

        Returns
        -------
        list
            Results of the function, in the order of the settings.

        Raises
        ------
        UserError
            A setting makes no sense; the message says which.
        """
        dies = self.spec.instances

        def evaluate(setting: Setting) -> Any:
            try:
                arrays = self.case.compute(self.at(setting))
                result = function(setting, self.of_dies(arrays))
            except UserError as error:
                raise UserError(f"at {in_words(setting)}: {error}") from error
            self.progress.advance(dies)
            return result

        self.case.plan.prepare()
        self.progress.start(len(settings) * dies, 0)
        pool = ThreadPoolExecutor(usable_cores())
        try:
            return list(pool.map(evaluate, settings))
        finally:
            pool.shutdown(cancel_futures=True)
            self.progress.finish()


def in_words(setting: Setting) -> str:
    """Write a setting for people."""
    if not setting:
        return "the spec"
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in setting.items()
    )


# One at a time: each parameter at the ends of its range, all others as the spec says.

RESAMPLES = 2000
"""Bootstrap samples of a difference of medians."""


ROUNDING = 1e-9
"""Relative difference that rounding alone makes when an amplitude is fitted again."""


@dataclass(frozen=True)
class Effect:
    """Effect of a setting of a parameter.

    Parameters
    ----------
    setting : float or str
        Value of the parameter.
    value : Estimate
        The quantity under this setting; infinity for "after the horizon".
    difference : Estimate
        This value minus that of the nominal setting, on the same dies. Infinite, with its sign,
        where either value lies beyond the horizon; NaN where both do.
    least_difference : float
        The difference with lives counted up to the horizon.
    dies, pairs : int
        Dies that have the quantity under this setting, and those that have it under the nominal
        one, too: of the former is the value, of the latter the difference.
    alike : bool
        Whether all of the former, two or more, have the same value; never of a share.
    """

    setting: Value
    value: Estimate
    difference: Estimate
    least_difference: float
    dies: int
    pairs: int
    alike: bool


@dataclass(frozen=True)
class TornadoBar:
    """A parameter and the effects of its settings: a bar of a tornado.

    Parameters
    ----------
    parameter : Parameter
        The parameter.
    effects : tuple of Effect
        An effect for each setting except the nominal one.
    """

    parameter: Parameter
    effects: tuple[Effect, ...]

    @property
    def size(self) -> float:
        """Span of the quantity over all settings, with lives counted up to the horizon."""
        ends = [0.0, *(effect.least_difference for effect in self.effects)]
        return max(ends) - min(ends)


@dataclass(frozen=True)
class Answer:
    """Subject of a study.

    Parameters
    ----------
    label, quantity, unit : str
        Label of the case; name and unit of the quantity.
    instances : int
        Number of dies.
    horizon_years : float
        End of the simulated time.
    refit : bool
        Whether amplitude and mu were fitted again.
    """

    label: str
    quantity: str
    unit: str
    instances: int
    horizon_years: float
    refit: bool


@dataclass(frozen=True)
class OneAtATime(Answer):
    """Result of varying each parameter alone.

    Parameters
    ----------
    nominal : Estimate
        The quantity under the nominal setting, that of the spec.
    nominal_dies : int
        Dies that have the quantity under this setting.
    nominal_alike : bool
        Whether all of them, two or more, have the same value; never of a share.
    bars : tuple of TornadoBar
        Bars, the largest first.
    """

    nominal: Estimate
    nominal_dies: int
    nominal_alike: bool
    bars: tuple[TornadoBar, ...]

    @property
    def leaves_out(self) -> bool:
        """Whether dies are left out somewhere, since they do not have the quantity."""
        effects = (effect for bar in self.bars for effect in bar.effects)
        return min(self.nominal_dies, *(effect.pairs for effect in effects)) < self.instances


def one_at_a_time(study: SensitivityStudy, parameters: Sequence[Parameter]) -> OneAtATime:
    """Vary each parameter alone.

    Parameters
    ----------
    study : SensitivityStudy
        The case, its dies and the quantity.
    parameters : sequence
        Parameters to vary.

    Raises
    ------
    UserError
        A setting is refused.

    Notes
    -----
    Differences are of the same dies under both settings. The interval of a difference of means is
    that of `mcage.stats.paired.compare_means`; of medians, the percentiles of a bootstrap over
    dies (Efron and Tibshirani, 1993), which is not exact where many lives end at the same age.
    """
    study.check(parameters)
    settings = [(varied, value) for varied in parameters for value in varied.settings]
    nominal, *results = study.values([{}, *({varied.key: value} for varied, value in settings)])
    effects: dict[str, list[Effect]] = {varied.name: [] for varied in parameters}
    for (varied, value), dies in zip(settings, results, strict=True):
        effects[varied.name].append(_effect(study, value, dies, nominal))
    bars = [TornadoBar(varied, tuple(effects[varied.name])) for varied in parameters]
    return OneAtATime(
        **study.facts,
        nominal=study.estimate(nominal),
        nominal_dies=_known(nominal),
        nominal_alike=_alike(study.measure, nominal),
        bars=tuple(sorted(bars, key=lambda bar: -bar.size)),
    )


def _effect(study: SensitivityStudy, setting: Value, dies: Floats, nominal: Floats) -> Effect:
    value, horizon = study.estimate(dies), study.spec.life.horizon_years
    counts = _known(dies), _known(dies + nominal), _alike(study.measure, dies)
    if np.allclose(dies, nominal, rtol=ROUNDING, atol=0.0, equal_nan=True) and value.value < np.inf:
        return Effect(setting, value, Estimate(0.0, 0.0, 0.0), 0.0, *counts)
    if study.measure.quantile is None:
        difference = compare_means(dies, nominal, within=study.within).difference
        least = 0.0 if math.isnan(difference.value) else difference.value
    else:
        difference = _difference_of_quantiles(dies, nominal, study.measure.quantile)
        before = study.estimate(nominal).value
        least = min(value.value, horizon) - min(before, horizon)
    return Effect(setting, value, difference, least, *counts)


def _known(dies: Floats) -> int:
    """Number of dies that have the quantity."""
    return int(np.count_nonzero(~np.isnan(dies)))


def _alike(measure: Measure, dies: Floats) -> bool:
    """Whether all dies that have the quantity have the same, but for rounding.

    Of a share each die says yes or no, and even if all say the same, the share has an interval.
    """
    known = dies[~np.isnan(dies)]
    return (
        known.size > 1
        and measure.kind != "share"
        and np.allclose(known, known[0], rtol=ROUNDING, atol=0.0)
    )


def _difference_of_quantiles(dies: Floats, nominal: Floats, share: float = 0.5) -> Estimate:
    """Difference of a quantile of paired lives; infinite lives end after the horizon."""
    count = dies.size
    drawn = stream(0, "sensitivity.medians", count).integers(count, size=(RESAMPLES, count))
    # Both beyond the horizon: their difference is not known.
    with np.errstate(invalid="ignore"):
        value = _quantile(dies[None], share)[0] - _quantile(nominal[None], share)[0]
        differences = _quantile(dies[drawn], share) - _quantile(nominal[drawn], share)
    tail = (1.0 - CONFIDENCE) / 2.0
    # So few dies may all lie on the same side of the true quantile: there is no interval.
    if not math.isfinite(value) or max(share, 1.0 - share) ** count > tail:
        return Estimate(float(value), math.nan, math.nan)
    ranked = np.sort(np.where(np.isnan(differences), np.inf, differences))
    lower, upper = (ranked[round(of * (RESAMPLES - 1))] for of in (tail, 1.0 - tail))
    if np.isnan(differences).mean() > tail:
        upper = math.nan
    return Estimate(float(value), float(lower), float(upper))


def _quantile(lives: Floats, share: float) -> Floats:
    """Quantile of each row, as that of `life_quantile`."""
    place = quantile_rank(lives.shape[1], share) - 1
    quantiles: Floats = np.partition(lives, place, axis=1)[:, place]
    return quantiles


# Sobol' indices: the share of the variance that each parameter makes, alone and with others.

SOBOL_RESAMPLES = 999
"""Bootstrap samples of the indices."""

VALUES_AT_ONCE = 2**18
"""Values of resampled designs that the bootstrap holds at a time: 2 MiB."""

MOST_SAMPLES = 2**16


@dataclass(frozen=True)
class Index:
    """Indices of one parameter.

    Parameters
    ----------
    parameter : Parameter
        The parameter.
    first_order : Estimate
        Share of the variance by which the variance would shrink, on average, if this parameter were
        known.
    total : Estimate
        Share of the variance that would be left, on average, if all other parameters were known.
    """

    parameter: Parameter
    first_order: Estimate
    total: Estimate


@dataclass(frozen=True)
class Sobol(Answer):
    """Indices of all parameters, the largest total first.

    Parameters
    ----------
    samples, evaluations : int
        Numbers of points of each of the two designs, and of settings that were computed.
    mean, deviation, lowest, highest : float
        Mean and standard deviation of the quantity over the two designs; its least and its largest
        value over all settings.
    indices : tuple of Index
        Indices, the largest total first.
    """

    samples: int
    evaluations: int
    mean: float
    deviation: float
    lowest: float
    highest: float
    indices: tuple[Index, ...]


def check_samples(samples: int) -> None:
    """Refuse a number of points for which the design is not balanced.

    Raises
    ------
    UserError
        It is no power of two, or out of range.
    """
    if not (2 <= samples <= MOST_SAMPLES and samples.bit_count() == 1):
        raise UserError(f"samples = {samples}: a power of two is needed, 2 ... {MOST_SAMPLES}")


def sobol(study: SensitivityStudy, parameters: Sequence[Parameter], samples: int) -> Sobol:
    """Compute indices of parameters that are uniform and independent within their ranges.

    Parameters
    ----------
    study : SensitivityStudy
        The case, its dies and the quantity.
    parameters : sequence of Parameter
        Parameters to vary, two at least.
    samples : int
        A power of two; ``samples * (parameters + 2)`` settings are computed.

    Raises
    ------
    UserError
        A choice is among the parameters; ``samples`` is no power of two; a setting is refused; or
        the quantity lies beyond the horizon, or is missing, or does not vary.
    """
    check_samples(samples)
    for varied in parameters:
        if not varied.is_range:
            raise UserError(f"{varied.name}: a choice has no Sobol' index; leave it out")
    if len(parameters) < 2:
        raise UserError("Sobol' indices compare parameters: two or more are needed")
    study.check(parameters)

    def evaluate(points: Floats) -> Floats:
        settings = [
            {varied.key: float(x) for varied, x in zip(parameters, point, strict=True)}
            for point in points
        ]
        return np.array(study.each(settings, lambda _, dies: _value(study, dies)))

    values = evaluated(evaluate, parameters, samples, study.spec.seed)
    first, total = indices(samples, values, study.spec.seed)
    order = np.argsort([-estimate.value for estimate in total], kind="stable")
    of_design = values[: 2 * samples]
    return Sobol(
        **study.facts,
        samples=samples,
        evaluations=len(values),
        mean=float(of_design.mean()),
        deviation=float(of_design.std()),
        lowest=float(values.min()),
        highest=float(values.max()),
        indices=tuple(Index(parameters[i], first[i], total[i]) for i in order),
    )


def _value(study: SensitivityStudy, dies: Floats) -> float:
    """The quantity over all dies; refused where it is not a number that describes all of them."""
    horizon, value = study.spec.life.horizon_years, study.estimate(dies).value
    if np.isinf(value):
        raise UserError(
            f"{study.of} lies beyond the horizon of {horizon:g} years, and indices of lives "
            "cut there would be of the cut; give a longer --horizon, or ask for rmst, which "
            "is defined up to the horizon"
        )
    if np.isnan(dies).any() and study.changes:
        raise UserError(
            f"{np.count_nonzero(np.isnan(dies))} of {dies.size} dies die before the horizon of "
            f"{horizon:g} years: {study.of} would be of the others only; give a shorter "
            "--horizon, or ask for rmst"
        )
    if np.isnan(value):
        raise UserError(f"no die has a {study.of}")
    return value


def evaluated(
    function: Callable[[Floats], Floats],
    ranges: Sequence[Parameter],
    samples: int,
    seed: int,
) -> Floats:
    """Evaluate a function at the points of Saltelli's design.

    Parameters
    ----------
    function : callable
        From points, float64[n, parameters], to values, float64[n].
    ranges : sequence of Parameter
        Within which the points lie.
    samples : int
        A power of two.
    seed : int
        Seed of the random shift of the design.

    Returns
    -------
    float64[(parameters + 2) * samples]
        Values at A, at B, and at A with each column from B.

    Notes
    -----
    A and B are halves of the columns of a Sobol' sequence, shifted by random numbers modulo 1
    (Cranley and Patterson, 1976), so that no point is at the end of a range by design.
    """
    from scipy.stats import qmc

    count = len(ranges)
    sequence = qmc.Sobol(2 * count, scramble=False).random_base2(samples.bit_length() - 1)
    shift = stream(seed, "sensitivity.design", 0).random(2 * count)
    unit = (sequence + shift) % 1.0
    low, high = np.array([varied.ends for varied in ranges]).T
    a, b = (low + (high - low) * half for half in (unit[:, :count], unit[:, count:]))
    mixed = np.repeat(a[None], count, axis=0)
    for column in range(count):
        mixed[column, :, column] = b[:, column]
    points = np.concatenate([a, b, *mixed])
    return function(points)


def indices(samples: int, values: Floats, seed: int) -> tuple[list[Estimate], list[Estimate]]:
    """Estimate first-order and total indices, with bootstrap intervals.

    Parameters
    ----------
    samples : int
        Points of A.
    values : float64[(parameters + 2) * samples]
        As `evaluated` returns them.
    seed : int
        Seed of the bootstrap.

    Raises
    ------
    UserError
        The values do not vary.

    Notes
    -----
    Estimators of Saltelli et al., Comput. Phys. Commun. 181 (2010), as `scipy.stats.sobol_indices`
    has them. Intervals are percentiles over resampled points: they express the uncertainty of the
    design, not that of the dies.
    """
    if np.ptp(values[: 2 * samples]) == 0.0:
        raise UserError(
            f"the quantity is {values[0]:g} whatever the parameters: nothing to explain"
        )
    designs = values.reshape(-1, 1, samples)
    best = _saltelli(designs)[:, 0]
    drawn = stream(seed, "sensitivity.bootstrap", 0).integers(
        samples, size=(SOBOL_RESAMPLES, samples)
    )
    at_once = max(1, VALUES_AT_ONCE // values.size)
    resampled = np.concatenate(
        [
            _saltelli(designs[:, 0].take(drawn[first : first + at_once], axis=1))
            for first in range(0, SOBOL_RESAMPLES, at_once)
        ],
        axis=1,
    )
    tail = 100 * (1.0 - CONFIDENCE) / 2.0
    lower, upper = np.percentile(resampled, (tail, 100 - tail), axis=1)
    return (
        [Estimate(*map(float, three)) for three in zip(best[0], lower[0], upper[0], strict=True)],
        [Estimate(*map(float, three)) for three in zip(best[1], lower[1], upper[1], strict=True)],
    )


def _saltelli(designs: Floats) -> Floats:
    """First-order and total indices of designs, float64[2, designs, parameters].

    Parameters
    ----------
    designs : float64[parameters + 2, designs, samples]
        Values at A, at B, and at A with each column from B, of each design.
    """
    both = np.concatenate([designs[0], designs[1]], axis=1)
    designs = designs - both.mean(axis=1)[:, None]  # Sobol' and Levitan, 1999
    of_a, of_b, of_mixed = designs[0], designs[1], designs[2:]
    variance = np.concatenate([of_a, of_b], axis=1).var(axis=1)
    shares = np.stack(
        [
            np.mean(of_b * (of_mixed - of_a), axis=-1),
            0.5 * np.mean((of_a - of_mixed) ** 2, axis=-1),
        ]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        of_variance = (shares / variance).swapaxes(1, 2)
    return np.where(np.isfinite(of_variance), of_variance, 0.0)  # nothing varies: no share


# Question of a study: which quantity, by which method, over which ranges of which constants.

METHODS = ("one-at-a-time", "sobol")


@dataclass(frozen=True)
class SensitivityQuestion:
    """Parameters of a study, its method, and the quantity whose change it asks for.

    Parameters
    ----------
    of, method : str
        Names of the quantity and of the method.
    parameter : sequence of str
        Names of the parameters to vary; empty: all that can matter.
    range_ : sequence of str
        Ranges as ``--range`` takes them.
    refit : bool
        Whether amplitude and mu are fitted again.
    samples : int
        Points of the Sobol' design.

    Raises
    ------
    UserError
        There is no such method or quantity, or the number of samples is no power of two.
    """

    of: str
    method: str
    parameter: Sequence[str] | None
    range_: Sequence[str] | None
    refit: bool
    samples: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"method {shown(self.method)}: choose from {', '.join(METHODS)}")
        if known_name(self.of, QUANTITIES) not in QUANTITIES:
            raise UserError(f"of {shown(self.of)}: choose from {', '.join(QUANTITIES)}")
        check_samples(self.samples)

    def _varied(self, base: SweepSpec) -> list[Parameter]:
        """Parameters and choices: those that are named, or all that can matter to the quantity.

        A parameter of which a range is asked for is among them, or is refused.
        """
        entries = shipped()
        ranges = [user_range(text, entries) for text in self.range_ or ()]
        asked = [entry.name for entry in ranges]
        if twice := [name for name in asked if asked.count(name) > 1]:
            raise UserError(f"--range {shown(twice[0])} is given twice")
        entries |= dict(zip(asked, ranges, strict=True))
        if self.parameter:
            for name in asked:
                if name not in self.parameter:
                    raise UserError(f"--range {name}: --parameter does not name it")
            return chosen(base, entries, self.parameter)
        entries = {
            name: entry
            for name, entry in entries.items()
            if name in asked
            or (
                entry.applies(base)
                and entry.key not in changes_for(known_name(self.of, QUANTITIES))
                and not (entry.alternatives and self.method == "sobol")
            )
        }
        return chosen(base, entries, list(entries))

    def answer(self, base: SweepSpec, engine: Engine, progress: Progress) -> OneAtATime | Sobol:
        """Compute a study of a sweep of one case.

        Raises
        ------
        UserError
            As `SensitivityStudy`; or a name, a range or a parameter is refused.
        """
        varied = self._varied(base)
        of = known_name(self.of, QUANTITIES)
        study = SensitivityStudy(base, of, engine, self.refit, progress)
        progress.say(f"engine {engine.name}; {study.case.label}")
        if self.method == "sobol":
            return sobol(study, varied, self.samples)
        return one_at_a_time(study, varied)
