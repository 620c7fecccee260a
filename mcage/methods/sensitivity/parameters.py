"""What a sensitivity study varies."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from mcage.aging.nbti import MODEL_NAMES, constants
from mcage.aging.nbti.catalogue import CALIBRATED, can_be_calibrated
from mcage.aging.vmin import LARGER
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.spec import SweepSpec
from mcage.variation.scenarios import CELL_6T, CELL_8T, NO_ARRAYS, on_cell, scenario

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
    name, equals, given = (part.strip() for part in text.partition("="))
    if not (name and equals and given):
        raise UserError(f"--range {text}: NAME=LOW..HIGH is needed, or NAME=ONE,OTHER")
    before = known.get(name, Entry(name, name))
    if ".." not in given:
        settings = tuple(_number_or_word(part.strip()) for part in given.split(","))
        if len(set(settings)) < len(settings):
            raise UserError(f"--range {text}: {settings} must be different numbers or texts")
        return replace(before, range=None, factors=None, alternatives=settings)
    low, high = (_number_or_word(part.strip()) for part in given.split("..", 1))
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
    given = spec.model_dump(mode="json")
    return {
        key: after[key]
        for key in IMPLIED
        if _at(given, key) == before[key] and after[key] != before[key]
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


# What is fitted to published figures, fitted again when another constant varies.
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
