"""Constants of the NBTI models, from `data/nbti.toml`, each with its unit, status and source."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

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
        One of `MODEL_NAMES`. A variant has those of the model that it is ``like``, but for its own.
    """
    return _all_constants()[model]


@cache
def _all_constants() -> Mapping[str, Mapping[str, Constant]]:
    text = files("mcage").joinpath("data", "nbti.toml").read_text(encoding="utf-8")
    found: dict[str, Mapping[str, Constant]] = {}
    for model, table in tomllib.loads(text).items():
        inherited = found[table.pop("like")] if "like" in table else {}
        own = {name: Constant(**constant) for name, constant in table.items()}
        found[model] = MappingProxyType({**inherited, **own})
    return found


def values(model: str) -> dict[str, float]:
    """Return the bare values of :func:`constants`."""
    return {name: constant.value for name, constant in constants(model).items()}
