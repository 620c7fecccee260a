"""The NBTI models that ship with mcage, and how a user-defined model is loaded."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from mcage.aging.nbti.bhardwaj import Bhardwaj
from mcage.aging.nbti.calibration import CALIBRATED, POINTS, calibrated
from mcage.aging.nbti.constants import MODEL_NAMES, check_constants, values
from mcage.aging.nbti.facelift import Facelift
from mcage.aging.nbti.finfet_planar import FinFetPlanar
from mcage.aging.nbti.model import NbtiModel
from mcage.aging.nbti.user_defined import checked_model
from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import is_plugin, load_plugin, plugin_label

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


def _with_constants(name: str, given: Mapping[str, float | str]) -> NbtiModel:
    kind = _KINDS[name.partition("-")[0]]
    numbers = {key: value for key, value in given.items() if value != CALIBRATED}
    check_constants(name, numbers)
    shipped: Any = kind(**values(name))
    changed: Any = kind(**values(name) | numbers)
    if given.get("amplitude") == CALIBRATED:
        if not can_be_calibrated(name):
            raise UserError(
                f"aging.constants.amplitude = {CALIBRATED!r}: NBTI model {name!r} is fitted by its "
                "scale; give that a number"
            )
        changed = calibrated(changed, shipped)
    _check_finite(changed, given)
    return cast(NbtiModel, changed)


def _check_finite(model: NbtiModel, given: Mapping[str, float | str]) -> None:
    """Refuse constants that are each possible, but overflow together."""
    with np.errstate(over="ignore", invalid="ignore"):
        rate = model.stress_per_second(HARSHEST_VOLTS, HARSHEST_KELVIN, model.vt0_volts)
    if not np.isfinite(rate).all():
        raise UserError(
            f"aging.constants = {shortened(dict(given))}: together they shift transistors by more "
            f"than can be computed at {HARSHEST_VOLTS:g} V, {HARSHEST_KELVIN:g} K"
        )
