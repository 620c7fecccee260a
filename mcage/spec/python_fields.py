"""What may be typed in Python where a spec is made: plain values, and what stands for them.

A tuple or an array stands for a list, a single text or number for a list of one where a list is
needed, and a table is a dict or a section.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_args, get_origin

from pydantic import BaseModel

from mcage.spec.draws import Draws
from mcage.spec.environments import Point
from mcage.spec.sections import Aging, Costs, Faults, Life, Registers, Section, Stopping, Workload

Table = Mapping[str, Any]


class SweepFields(TypedDict, total=False):
    """Keys of `mcage.SweepSpec`, as editors and type checkers know them; each may be left out."""

    instances: int
    seed: int
    techniques: str | Sequence[str]
    environments: str | Sequence[str]
    scenarios: str | Sequence[str]
    vdd_volts: float | Sequence[float]
    workload: Workload | Table
    life: Life | Table
    aging: Aging | Table
    faults: Faults | Table
    registers: Registers | Table
    costs: Costs | Table
    stopping: Stopping | Table | None
    operating_points: Mapping[str, Sequence[Point | Table]] | None
    draws: Draws | Table | str | None


def plain_fields(given: Mapping[str, Any], model: type[Section]) -> dict[str, Any]:
    """Plain values, as TOML would give them, for what somebody has typed in Python.

    Parameters
    ----------
    given : mapping of str to object
        Keys of a table of a spec, with whatever they were given. Unknown keys stay.
    model : type
        The section whose keys these are.
    """
    known = model.model_fields
    return {
        name: _plain(value, known[name].annotation if name in known else None)
        for name, value in given.items()
    }


def _plain(value: Any, annotation: Any = None) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        value = value.tolist()
    kinds = (annotation, *get_args(annotation))
    if isinstance(value, Mapping):
        sections = (k for k in kinds if isinstance(k, type) and issubclass(k, Section))
        return plain_fields(value, next(sections, Section))
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    wants_list = any(get_origin(kind) is tuple for kind in kinds)
    return [value] if wants_list and isinstance(value, str | int | float) else value
