"""Parts of the spec that a results file holds as text."""

import tomllib
from typing import TypeVar

from pydantic import BaseModel

from mcage.errors import UserError
from mcage.spec.sections import Costs, Faults

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


def _part(spec_toml: str, name: str, model: type[Part]) -> Part:
    try:
        return model.model_validate(tomllib.loads(spec_toml).get(name, {}))
    except (ValueError, RecursionError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
