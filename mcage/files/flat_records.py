"""Records of numbers and arrays as arrays by name, and back: what a file of arrays can hold."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record")

_NUMBERS = (bool, int, float)


def arrays_of_record(record: Any, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of a record: a dataclass or named tuple of arrays, numbers, and such records.

    Parameters
    ----------
    record : dataclass or named tuple
        The record.
    name : str
        What the names of its arrays begin with.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for field, kind in _fields(type(record)):
        value = getattr(record, field)
        if _is_record(kind):
            arrays |= arrays_of_record(value, f"{name}.{field}")
        else:
            arrays[f"{name}.{field}"] = np.asarray(value)
    return arrays


def record_of_arrays(kind: type[Record], arrays: dict[str, NDArray[Any]], name: str) -> Record:
    """The record that `arrays_of_record` has made arrays of; it has these arrays, not copies.

    Parameters
    ----------
    kind : type
        Type of the record.
    arrays : dict of str to array
        Its arrays, and any others.
    name : str
        What the names of its arrays begin with.
    """
    values: dict[str, Any] = {}
    for field, of_field in _fields(kind):
        if _is_record(of_field):
            values[field] = record_of_arrays(of_field, arrays, f"{name}.{field}")
        else:
            array = arrays[f"{name}.{field}"]
            values[field] = array.item() if of_field in _NUMBERS else array
    return kind(**values)


def _fields(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    for name in names:
        yield name, hints[name]


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")
