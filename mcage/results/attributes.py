"""The attributes of a results file: what the netCDF and CF conventions want, and who wrote it."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from mcage.results.header import SCHEMA_VERSION, Header
from mcage.results.variable import Coordinate, Variable

FILETYPE = "mcage-results"


def root_attributes(header: Header) -> dict[str, Any]:
    """Attributes of the file: all of the header that is not in coordinates.

    ``campaign`` repeats the whole header, in a place whose damage HDF5 notices: texts of variable
    length and coordinates have no checksum but that of the file.
    """
    extent: dict[str, Any] = {}
    if header.stopping:
        rule = json.dumps(asdict(header.stopping), sort_keys=True)
        extent |= {"stopping": rule, "stopped": header.stopped}
    if header.absent:
        extent["absent_instances"] = json.dumps(header.absent)
    return {
        "Conventions": "CF-1.8",
        "filetype": FILETYPE,
        "schema_version": SCHEMA_VERSION,
        "study": header.study,
        "mcage_version": header.codes[0].version,
        "code_digest": header.codes[0].digest,
        "codes": json.dumps([asdict(code) for code in header.codes], sort_keys=True),
        "accepted_other_code": int(header.accepted_other_code),
        "spec": header.spec_toml,
        "spec_digest": header.spec_digest,
        "seed": header.seed,
        "engine": header.engine,
        "engine_reason": header.engine_reason,
        "device": header.device,
        "campaign": np.bytes_(header.to_json().encode()),
        **header.declaration(),
        **extent,
    }


def description(variable: Variable) -> dict[str, Any]:
    """Attributes that say what an array means; all that a coordinate has."""
    attributes: dict[str, Any] = {"units": variable.units, "long_name": variable.long_name}
    comments = [variable.comment] if variable.comment else []
    if variable.missing:
        comments.append(f"NaN {variable.missing}.")
    if comments:
        attributes["comment"] = " ".join(comments)
    if variable.flags:
        attributes["flag_values"] = np.array(variable.flag_values, variable.dtype)
        attributes["flag_meanings"] = " ".join(name for name, _ in variable.flags)
    return attributes


def variable_attributes(variable: Variable, coordinates: tuple[Variable, ...]) -> dict[str, Any]:
    """Attributes of a computed array: its description, its fill value, its further labels.

    Parameters
    ----------
    variable : Variable
        The array.
    coordinates : tuple of Variable
        All coordinates of the file.
    """
    attributes = description(variable)
    if np.dtype(variable.dtype).kind == "f":
        # Without the attribute, readers do not mask what HDF5 itself knows to be fill.
        attributes["_FillValue"] = np.array([np.nan], variable.dtype)
    dims = set(variable.dims)
    labels = [
        label.name
        for label in coordinates
        if label.dims != (label.name,) and set(label.dims) <= dims
    ]
    if labels:
        attributes["coordinates"] = " ".join(labels)
    return attributes


def content_of(coordinate: Coordinate) -> Any:
    """Content of a coordinate as NumPy takes it; ids of instances not by way of a list."""
    values = coordinate.values
    return np.arange(values.start, values.stop) if isinstance(values, range) else values
