"""User-defined NBTI models: whatever they raise or return that is no shift is their error."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mcage.aging.environment import Environment
from mcage.aging.nbti.model import NOMINAL_TRANSISTORS, NbtiModel, Rates, Transistors
from mcage.errors import UserError
from mcage.plain_text import said_by, shortened
from mcage.plugins import blamed_on


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
    "root": (_is_count, "an integer from 1 on"),
    "state_size": (_is_count, "an integer from 1 on"),
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
    return answer if isinstance(answer, float) else array.astype(np.float64, copy=False)


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
