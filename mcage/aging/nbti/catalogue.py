"""The NBTI models that ship with mcage, and how a user-defined model is loaded."""

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import (
    TEMPERATURE_KELVIN,
    Environment,
    OperatingPoint,
    delay_increase,
    dvth_at_delay,
)
from mcage.aging.nbti.model import (
    MODEL_NAMES,
    NOMINAL_TRANSISTORS,
    SECONDS_PER_YEAR,
    NbtiModel,
    Rates,
    Transistors,
    check_constants,
    values,
    with_constants,
)
from mcage.aging.nbti.models import Bhardwaj, Facelift, FinFetPlanar
from mcage.errors import UserError
from mcage.plain_text import said_by, shortened
from mcage.plugins import blamed_on, is_plugin, load_plugin, plugin_label

# The amplitude of a model for which other constants leave a published delay as it is.
#
# An amplitude is fitted to a delay, after a given stress at a given voltage and temperature.
# Another field constant, say, moves that delay too, unless the amplitude is fitted again: what is
# then left of the change is the dependence on voltage.

CALIBRATED = "calibrated"
"""In place of a number for the amplitude."""

Fitted = TypeVar("Fitted", Facelift, FinFetPlanar)


@dataclass(frozen=True)
class CalibrationPoint:
    """The stress for which a model's amplitude is fitted to a delay.

    Parameters
    ----------
    duty_cycle : float
        Fraction of the time under stress.
    years : float
        Age in years.
    vdd_volts, temperature_kelvin : float
        Operating point at which it is spent.
    """

    duty_cycle: float
    years: float
    vdd_volts: float
    temperature_kelvin: float = TEMPERATURE_KELVIN

    def dvth_volts(self, model: Facelift | FinFetPlanar) -> float:
        """Shift of the nominal transistor there, in volts."""
        conditions = Environment(
            "calibration", (OperatingPoint(self.vdd_volts, 1.0, self.temperature_kelvin),)
        )
        return float(model.dvth_at(conditions, self.duty_cycle, self.years * SECONDS_PER_YEAR))


POINTS: dict[type, CalibrationPoint] = {
    Facelift: CalibrationPoint(duty_cycle=1.0, years=3.0, vdd_volts=1.0),
    FinFetPlanar: CalibrationPoint(duty_cycle=0.4, years=7.0, vdd_volts=0.9),
}
"""Valero et al., IEEE TC 2019, section 6.4; Zhang et al., INTEGRATION 2015, section 6.1."""


def calibrated(changed: Fitted, shipped: Fitted) -> Fitted:
    """Return ``changed`` with the amplitude that leaves the delay of ``shipped`` as it is.

    Parameters
    ----------
    changed : Facelift or FinFetPlanar
        Model with other constants; its amplitude is not used.
    shipped : Facelift or FinFetPlanar
        The same model with the constants that mcage ships.

    Raises
    ------
    UserError
        With the changed constants, no transistor is stressed at the calibration point.
    """
    point = POINTS[type(shipped)]
    slower = float(
        delay_increase(point.dvth_volts(shipped), point.vdd_volts, shipped.vt0_volts, shipped.alpha)
    )
    needed = dvth_at_delay(slower, point.vdd_volts, changed.vt0_volts, changed.alpha)
    unscaled = replace(changed, amplitude=1.0)
    shift = point.dvth_volts(unscaled)
    if not shift > 0:
        raise UserError(
            f"aging.constants.amplitude = {CALIBRATED!r}: with vt0_volts = {changed.vt0_volts:g} "
            f"nothing is stressed at the {point.vdd_volts:g} V of the calibration"
        )
    return replace(unscaled, amplitude=needed / shift)


# User-defined NBTI models: whatever they raise or return that is no shift is their error.


def checked_model(model: NbtiModel, label: str) -> NbtiModel:
    """Return a user-defined model whose attributes are checked, and whose answers will be.

    Parameters
    ----------
    model : NbtiModel
        An instance of a user-defined class, or of a class that ships with mcage.
    label : str
        How errors call it: ``NBTI model 'a:B'``.

    Returns
    -------
    NbtiModel
        A copy that gives the same answers. Its methods raise `UserError` where those of ``model``
        raise anything else, or give other arrays than `NbtiModel` promises, or values that are no
        numbers.

    Raises
    ------
    UserError
        If an attribute that `NbtiModel` asks for is missing or makes no sense.
    """
    _check_attributes(model, label)
    with blamed_on(f"{label}: cannot be used"):
        kind = type(model)
        names = ["__repr__"] if kind.__repr__ is not object.__repr__ else []
        names += [name for name in _EXPECTED_SHAPES if hasattr(kind, name)]
        members: dict[str, Any]
        members = {name: _checked_method(getattr(kind, name), name, label) for name in names}
        members |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        # Without slots, so that an instance of the class may become an instance of this class.
        members |= {"__slots__": (), "_label": label}
        metaclass: Any = type(kind)
        checked_kind = metaclass(kind.__name__, (kind,), members)
        copied = copy.copy(model)
        object.__setattr__(copied, "__class__", checked_kind)
        return copied


def label_of(model: NbtiModel) -> str:
    """How errors call a model: by the name that a user gave it, else by its constants."""
    label: str = getattr(type(model), "_label", "")
    return label or f"NBTI model {shortened(model)}"


def _check_attributes(model: NbtiModel, label: str) -> None:
    for name, (is_right, meant) in _ATTRIBUTES.items():
        with blamed_on(f"{label}: cannot be asked for its {name}"):
            value = getattr(model, name, None)
        if not is_right(value):
            raise UserError(f"{label}: its {name} is {shortened(value)}, where {meant} is needed")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "root": (lambda value: _is_number(value) and 1 <= value <= 100, "a number of 1 ... 100"),
    "state_size": (_is_count, "an integer of 1 ... 100"),
    "additive": (lambda value: isinstance(value, bool), "True or False"),
    "vt0_volts": (lambda value: _is_number(value) and 0 <= value <= 2, "0 ... 2 V"),
    "alpha": (lambda value: _is_number(value) and 0 < value <= 10, "an exponent above 0"),
}


def _checked_method(method: Callable[..., Any], name: str, label: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(model: NbtiModel, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = method(model, *args, **kwargs)
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise UserError(f"{label}: {name} failed ({said_by(error)})") from error
        if name == "__repr__":
            return answer
        try:
            return _checked_answer(name, answer, _EXPECTED_SHAPES[name](model, *args, **kwargs))
        except ValueError as error:
            raise UserError(f"{label}: {name} gives {error}") from error

    return checked


def _checked_answer(name: str, answer: Any, shape: tuple[int, ...] | None) -> Any:
    if name == "rates":
        if not isinstance(answer, Rates):
            raise ValueError(f"{shortened(answer)}, where Rates are needed")
        return Rates(*(_checked_answer("", array, shape) for array in vars(answer).values()))
    array = np.asarray(answer)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{shortened(answer)}, where numbers are needed")
    if np.isnan(array).any():
        raise ValueError("values that are no numbers (NaN)")
    broadcasts = name in _BROADCASTING and np.broadcast_shapes(array.shape, shape or ()) == shape
    if shape is not None and array.shape != shape and not broadcasts:
        raise ValueError(f"an array of shape {array.shape}, where {shape} is needed")
    if isinstance(answer, float):
        return answer
    # Instances are selected along all axes, but of a single number.
    whole = np.broadcast_to(array, shape) if shape and array.ndim and broadcasts else array
    return whole.astype(np.float64, copy=False)


def _broadcast(_: NbtiModel, *arrays: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(np.shape, arrays))


def _any(_: NbtiModel, *args: Any, **kwargs: Any) -> None:
    return None


def _rates_shape(
    model: NbtiModel, environment: Environment, transistors: Transistors = NOMINAL_TRANSISTORS
) -> tuple[int, ...]:
    fractions = transistors.time_fractions
    fraction = 1.0 if fractions is None else fractions[0]
    of_each = (transistors.vt0_volts, transistors.temperature_kelvin, transistors.shift_factor)
    return _broadcast(model, fraction, *(array for array in of_each if array is not None))


def _advanced_shape(
    model: NbtiModel, state: Any, rates: Rates, duty_cycle: Any, seconds: Any
) -> tuple[int, ...]:
    transistors = _broadcast(model, state[0], rates.stress, rates.diffusion, duty_cycle, seconds)
    return (model.state_size, *transistors)


_EXPECTED_SHAPES: dict[str, Callable[..., tuple[int, ...] | None]] = {
    "initial_state": lambda model, shape: (model.state_size, *shape),
    "rates": _rates_shape,
    "advance": _advanced_shape,
    "dvth_of": lambda model, state: np.shape(state)[1:],
    "dvth": _broadcast,
    "dvth_after": lambda model, rates, stress_seconds, recovery_seconds: _broadcast(
        model, rates.stress, rates.diffusion, stress_seconds, recovery_seconds
    ),
    "dvth_at": _any,
    "largest_dvth": _any,
    "stress_per_second": _broadcast,
    "diffusion_per_second": _broadcast,
}
"""Methods whose answers are checked, and the shapes of the answers, from the arguments."""

_BROADCASTING = ("", "stress_per_second", "diffusion_per_second")
"""Answers, and arrays of `Rates`, that may leave out axes along which they do not change."""


_KINDS: dict[str, type[NbtiModel]] = {
    "facelift": Facelift,
    "bhardwaj": Bhardwaj,
    "finfet": FinFetPlanar,
    "planar": FinFetPlanar,
}

HARSHEST_VOLTS, HARSHEST_KELVIN = 2.0, 450.0
"""The most that an operating point may have."""


def nbti_model(name: str, constants: Mapping[str, float | str] | None = None) -> NbtiModel:
    """Model called ``name``: it ships with mcage, or is user-defined as ``module:NAME``.

    Parameters
    ----------
    name : str
        One of `MODEL_NAMES`, or ``module:NAME`` with an `NbtiModel` under that name.
    constants : mapping, optional
        Values in place of the shipped ones, by name. An ``amplitude`` of ``"calibrated"`` is fitted
        to the same delay as the shipped amplitude.

    Raises
    ------
    UserError
        If there is no such model, the module cannot be imported, or ``NAME`` is no `NbtiModel`; if
        the model has no such constant, or its value makes no sense. The methods of a user-defined
        model raise it, too, for whatever is wrong with that model.
    """
    if name in MODEL_NAMES:
        return _with_constants(name, constants or {})
    if not is_plugin(name):
        raise UserError(
            f"NBTI model {shortened(name)} is unknown; choose from {', '.join(MODEL_NAMES)}, "
            "or name a user-defined one as module:NAME"
        )
    if constants:
        raise UserError(
            f"aging.constants.{next(iter(constants))}: NBTI model {shortened(name)} is "
            "user-defined, and so are its constants; change them there (`mcage docs aging`)"
        )
    loaded = load_plugin("NBTI model", name, NbtiModel)  # type: ignore[type-abstract]
    return checked_model(loaded, plugin_label("NBTI model", name))


def can_be_calibrated(name: str) -> bool:
    """Whether the amplitude of a shipped model is fitted to a delay."""
    return _KINDS[name.partition("-")[0]] in POINTS


def _with_constants(name: str, constants: Mapping[str, float | str]) -> NbtiModel:
    kind = _KINDS[name.partition("-")[0]]
    numbers = {key: value for key, value in constants.items() if value != CALIBRATED}
    check_constants(name, numbers)
    shipped: Any = kind(**values(name))
    changed: Any = kind(**values(name) | numbers)
    if constants.get("amplitude") == CALIBRATED:
        if not can_be_calibrated(name):
            raise UserError(
                f"aging.constants.amplitude = {CALIBRATED!r}: NBTI model {name!r} is fitted by its "
                "scale; give that a number"
            )
        changed = calibrated(changed, shipped)
    _check_finite(changed, constants)
    return cast(NbtiModel, changed)


def _check_finite(model: NbtiModel, constants: Mapping[str, float | str]) -> None:
    """Refuse constants that are each possible, but overflow together."""
    with np.errstate(over="ignore", invalid="ignore"):
        rate = model.stress_per_second(HARSHEST_VOLTS, HARSHEST_KELVIN, model.vt0_volts)
    if not np.isfinite(rate).all():
        raise UserError(
            f"aging.constants = {shortened(dict(constants))}: together they shift transistors by "
            f"more than can be computed at {HARSHEST_VOLTS:g} V, {HARSHEST_KELVIN:g} K"
        )


# Checks of an NBTI model with random histories before a sweep: properties that lives need.

HISTORIES = 2000
"""Random histories, each of `EPOCHS`."""

EPOCHS = 5

ROUNDING = 1e-9
"""Relative difference of shifts that may be rounding."""

_NO_ROWS = np.empty(0, np.int64)
_NO_CONSTANTS: Mapping[str, NDArray[np.float64]] = {}


def check_model(
    model: NbtiModel,
    environment: Environment,
    seconds: float,
    transistors: Transistors,
    draws: tuple[NDArray[np.int64], Mapping[str, NDArray[np.float64]]] = (_NO_ROWS, _NO_CONSTANTS),
) -> None:
    """Refuse a model under which random histories show that branch and bound is wrong.

    Parameters
    ----------
    model : NbtiModel
        Model.
    environment : Environment
        Operating points.
    seconds : float
        Age that histories reach.
    transistors : Transistors
        Extreme transistors: float64[k], or a number for all. Each epoch has the rates of one of
        them.
    draws : (int64[k], mapping)
        Where constants of the model differ from row to row of a table: the row of each of the
        extreme transistors, rising and equally many of each, and float64[rows] by name. A history
        keeps to the constants of a row.

    Raises
    ------
    UserError
        A shift is negative or no number; a transistor that was stressed less in part of the epochs,
        and more in none, has shifted further; or an epoch in two pieces gives another shift.
    """
    rng = np.random.default_rng(0)
    row, columns = draws
    of_each = {name: values[row] for name, values in columns.items()}
    rates = with_constants(model, of_each).rates(environment, transistors)
    of_all = np.broadcast_arrays(np.atleast_1d(rates.stress), rates.diffusion)
    rows = int(row[-1]) + 1 if len(row) else 1
    each = len(of_all[0]) // rows
    of_history = np.arange(HISTORIES) % rows
    drawn = of_history * each + rng.integers(each, size=(EPOCHS, HISTORIES))
    model = with_constants(model, {name: values[of_history] for name, values in columns.items()})
    rates_of_epochs = [Rates(*(values[which] for values in of_all)) for which in drawn]
    lengths = rng.dirichlet(np.full(EPOCHS, 0.5), HISTORIES).T * seconds
    # Duties close to none and to all of the time as often as others, and exactly these.
    steep = 10.0 ** rng.uniform(-9, 0, (EPOCHS, HISTORIES))
    duty = np.where(rng.random(steep.shape) < 0.5, steep, 1 - steep)
    duty = np.where(rng.random(steep.shape) < 0.2, np.round(duty), duty)
    more = np.where(
        rng.random(steep.shape) < 0.5, duty, duty + rng.random(steep.shape) * (1 - duty)
    )
    more = np.where(rng.random(steep.shape) < 0.2, 1.0, more)

    shift, larger = (_shift(model, rates_of_epochs, each, lengths) for each in (duty, more))
    for shifts in (shift, larger):
        if not (shifts >= 0).all():
            raise UserError(f"{label_of(model)} gives shifts that are negative or no numbers")
    if (falls := shift > larger * (1 + ROUNDING)).any():
        worst = np.argmax(falls)
        raise UserError(
            f"{label_of(model)}: a longer duty in some epochs, shorter in none, shifts by "
            f"{larger[worst]:g} V in place of {shift[worst]:g} V; sweeps need one in which it "
            "never shifts less"
        )
    twice = [rates for rates in rates_of_epochs for _ in range(2)]
    pieces = _shift(model, twice, duty.repeat(2, axis=0), 0.5 * lengths.repeat(2, axis=0))
    if (differs := np.abs(pieces - shift) > 1e-6 * shift).any():
        worst = np.argmax(differs)
        raise UserError(
            f"{label_of(model)}: epochs in two pieces each shift by {pieces[worst]:g} V in place "
            f"of {shift[worst]:g} V; sweeps need one in which that changes nothing"
        )


def _shift(
    model: NbtiModel,
    rates: Sequence[Rates],
    duty: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> NDArray[np.float64]:
    state = model.initial_state((duty.shape[1],))
    for epoch, seconds, part in zip(rates, lengths, duty, strict=True):
        state = model.advance(state, epoch, part, seconds)
    return model.dvth_of(state)
