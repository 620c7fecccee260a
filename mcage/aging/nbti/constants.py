"""Constants of the NBTI models, from `data/nbti.toml`, each with its unit, status and source."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from mcage.errors import UserError

BOLTZMANN_EV_PER_KELVIN = 8.617333e-5
SECONDS_PER_YEAR = 365 * 86_400

MODEL_NAMES = (
    "facelift",
    "bhardwaj",
    "finfet",
    "planar",
    "bhardwaj-unscaled",
    "finfet-thermal",
    "finfet-common",
    "planar-common",
)
"""Models that ship with mcage: four, then variants of them with other constants."""

RANGES = {
    "amplitude": (1e-30, 1e30),
    "scale": (1e-9, 1e9),
    "oxide_thickness_nm": (0.1, 10.0),
    "oxide_capacitance_farads_per_nm2": (1e-22, 1e-17),
    "relative_permittivity": (1.0, 100.0),
    "field_volts_per_nm": (0.05, 10.0),
    "activation_energy_ev": (0.0, 2.0),
    "effective_activation_energy_ev": (0.0, 2.0),
    "diffusion_seconds_per_nm2": (1e-15, 1.0),
    "eta": (0.0, 1.0),
    "xi1": (0.0, 10.0),
    "xi2": (0.0, 10.0),
    "delta": (0.0, 10.0),
    "time_exponent": (0.0, 1.0),
    "period_seconds": (1e-9, 1e6),
    "vt0_volts": (0.0, 1.0),
    "alpha": (0.5, 3.0),
}
"""Range of each constant: wide, but without values for which its equation makes no sense."""


@dataclass(frozen=True)
class Constant:
    """A constant of a model.

    Attributes
    ----------
    value : float
        Its value.
    unit : str
        Its unit; "1" for a plain number.
    status : str
        ``printed``, ``public``, ``reconstructed`` or ``assumed``; docs/aging.md says what each is.
    source : str
        Where it comes from.
    """

    value: float
    unit: str
    status: str
    source: str


def constants(model: str) -> Mapping[str, Constant]:
    """Return the constants of a model that ships with mcage, by name.

    Parameters
    ----------
    model : str
        One of `MODEL_NAMES`. A variant has the constants of the model that it is ``like``, except
        for those that it redefines.
    """
    return _all_constants()[model]


@cache
def _all_constants() -> Mapping[str, Mapping[str, Constant]]:
    text = files("mcage").joinpath("data", "nbti.toml").read_text(encoding="utf-8")
    models: dict[str, Mapping[str, Constant]] = {}
    for model, table in tomllib.loads(text).items():
        inherited = models[table.pop("like")] if "like" in table else {}
        given = {name: Constant(**constant) for name, constant in table.items()}
        models[model] = MappingProxyType({**inherited, **given})
    return models


def values(model: str) -> dict[str, float]:
    """Return the bare values of :func:`constants`."""
    return {name: constant.value for name, constant in constants(model).items()}


def check_constants(model: str, given: Mapping[str, object]) -> None:
    """Refuse constants that a model does not have, or values that make no sense for it.

    Parameters
    ----------
    model : str
        One of `MODEL_NAMES`.
    given : mapping
        Values by name.

    Raises
    ------
    UserError
        One line that names the constant, its value and what is right.
    """
    known = constants(model)
    for name, value in given.items():
        if name not in known:
            raise UserError(
                f"aging.constants.{name}: NBTI model {model!r} has no such constant; "
                f"it has {', '.join(known)}"
            )
        lowest, highest = RANGES[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and lowest <= float(value) <= highest):  # type: ignore[arg-type]
            unit = known[name].unit.removeprefix("1")
            raise UserError(
                f"aging.constants.{name} = {value!r}: must be {lowest:g} ... {highest:g} "
                f"{unit}".rstrip()
            )
