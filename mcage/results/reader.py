"""Open a results file, after making sure that it is one, whole and of a known schema."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.files.plain_hdf5 import opened
from mcage.plain_text import shown
from mcage.results.attributes import (
    FILETYPE,
    content_of,
    description,
    root_attributes,
    variable_attributes,
)
from mcage.results.header import (
    OLDEST_STUDY,
    SCHEMA_VERSION,
    Header,
    header_class,
)
from mcage.results.variable import Variable
from mcage.results.verified_file import VerifiedFile
from mcage.results.writer import SUMS_CHECKSUM

if TYPE_CHECKING:
    import xarray

READ_SCHEMAS = (6, SCHEMA_VERSION)
"""Versions of results files that are read; shards, and files that go on, are of this one only."""

LAST_OF_SCHEMA = {1: "488bd87", 2: "2f91099", 3: "c8f8a59", 4: "2e104eb", 5: "f8cad0c"}
"""Last commit that reads files of a version that is read no more."""


def open_results(path: Path | str) -> "xarray.Dataset":
    """Open a results file lazily, by name of variable and dimension.

    Parameters
    ----------
    path : path
        File that a campaign wrote. `mcage.sweep.variables` lists what is in that of a sweep.

    Raises
    ------
    UserError
        The file is missing, not readable, not a results file, damaged, or of a newer mcage.
    """
    import xarray

    from mcage.results.lazy_store import LazyStore

    path = Path(path)
    return xarray.open_dataset(LazyStore(path, read_header(path)))


def read_header(path: Path, schemas: Sequence[int] = READ_SCHEMAS) -> Header:
    """Validate a results file and return the header of the campaign whose results it holds.

    Parameters
    ----------
    path : Path
        The file.
    schemas : sequence of int
        Schema versions that it may have.

    Raises
    ------
    UserError
        As `open_results`.
    """
    try:
        verified = VerifiedFile(path)
    except DamagedFileError as damage:
        raise UserError(f"{damage}: not a results file to rely on") from damage
    filetype = verified.attribute("filetype", str)
    schema = verified.attribute("schema_version", int)
    if filetype != FILETYPE:
        raise UserError(f"{path} holds {shown(filetype)}, not {FILETYPE}")
    if schema == SCHEMA_VERSION:
        header = _header(verified)
        _require_campaign(verified, header)
    else:
        header = _older(verified, schema, schemas)
    for name in set(verified.attributes) - {*root_attributes(header), SUMS_CHECKSUM}:
        verified.refuse(f"attribute {name}", "does not belong into it")
    for variable in header.variables:
        verified.require_within(variable, header.coordinates)
    return header


def _require_campaign(verified: VerifiedFile, header: Header) -> None:
    """The whole header in one text says what the other attributes and the coordinates say."""
    _ = verified.attribute(SUMS_CHECKSUM, str)
    try:
        if type(header).from_json(verified.attribute("campaign", str)) == header:
            return
    except ValueError:
        pass
    verified.refuse("attribute campaign", "does not say what the others say")


def _older(verified: VerifiedFile, schema: int, schemas: Sequence[int]) -> Header:
    """Header of a file of another schema version, if it is one of those that it may have."""
    version = shown(verified.attribute("mcage_version", str))
    written = f"was written by mcage {version} with schema {schema}"
    if schema not in schemas:
        reader = f"commit {LAST_OF_SCHEMA[schema]}" if schema in LAST_OF_SCHEMA else "that mcage"
        raise UserError(
            f"{verified.path} {written}; this one takes {' and '.join(map(str, schemas))}: "
            f"use {reader}"
        )
    try:
        return _header(verified)
    except UserError as error:
        raise UserError(f"{error}; it {written}: use that mcage") from error


def study_of(verified: VerifiedFile) -> str:
    """Study that a file names; files from before studies had names are those of sweeps."""
    if "study" not in verified.attributes:
        return OLDEST_STUDY
    study: str = verified.attribute("study", str)
    return study


def _header(verified: VerifiedFile) -> Header:
    study = study_of(verified)
    kind = header_class(study)
    try:
        variables, coordinates = kind.declared(study, verified.attributes)
    except ValueError as error:
        verified.refuse("header", str(error))
    _require_declared(verified, variables, coordinates)
    with opened(verified.path) as file:
        labels = (c.name for c in coordinates if c.name != "instance")
        contents: dict[str, Any] = {name: _content(file, name) for name in labels}
        grid = kind.grid_fields(study, verified.attributes, contents)
        header = _from_fields(verified, kind, grid, file["instance"].size)
        contents["instance"] = file["instance"][:]
    _require_coordinates(verified, contents, header)
    return header


def _require_declared(
    verified: VerifiedFile, variables: tuple[Variable, ...], coordinates: tuple[Variable, ...]
) -> None:
    """Every array is there, as it is declared, and nothing else is."""
    arrays = [*coordinates, *variables]
    verified.require_datasets(array.name for array in arrays)
    dims = dict.fromkeys(dim for array in arrays for dim in array.dims)
    sizes = {dim: verified.size(dim) for dim in dims}
    for array in arrays:
        is_coordinate = array in coordinates
        attributes = (
            description(array) if is_coordinate else variable_attributes(array, coordinates)
        )
        verified.require_array(array, sizes)
        verified.require_attributes(array, attributes)
        verified.require_dims(array)


def _from_fields(
    verified: VerifiedFile, kind: type[Header], grid: dict[str, Any], instances: int
) -> Header:
    rule = _optional(verified, "stopping")
    fields = {
        "spec_toml": verified.attribute("spec", str),
        "spec_digest": verified.attribute("spec_digest", str),
        "seed": verified.attribute("seed", int),
        "engine": verified.attribute("engine", str),
        "engine_reason": verified.attribute("engine_reason", str),
        "device": verified.attribute("device", str),
        "stopped": verified.attribute("stopped", str) if rule else "",
        **grid,
    }
    try:
        fields["stopping"] = _rule(rule) if rule else None
        absent = json.loads(_optional(verified, "absent_instances") or "[]")
        fields["absent"] = absent
        fields["instances"] = instances + sum(last - first + 1 for first, last in absent)
        fields["codes"] = json.loads(verified.attribute("codes", str))
        return kind.from_json(json.dumps(fields))
    except (ValueError, TypeError, RecursionError) as error:
        verified.refuse("header", str(error))


def _optional(verified: VerifiedFile, name: str) -> str:
    return str(verified.attribute(name, str)) if name in verified.attributes else ""


def _rule(text: str) -> Any:
    """Fields of a stopping rule; files from before studies had names call a group a chip."""
    rule = json.loads(text)
    if isinstance(rule, dict) and "slices_per_chip" in rule:
        rule["group_size"] = rule.pop("slices_per_chip")
    return rule


def _content(file: h5py.File, name: str) -> list[Any]:
    dataset = file[name]
    is_text = h5py.check_string_dtype(dataset.dtype)
    content: list[Any] = (dataset.asstr() if is_text else dataset)[:].tolist()
    return content


def _require_coordinates(
    verified: VerifiedFile, contents: Mapping[str, Any], header: Header
) -> None:
    """Every coordinate says what follows from the header."""
    for coordinate in header.coordinates:
        name = coordinate.variable.name
        if not np.array_equal(contents[name], content_of(coordinate)):
            verified.refuse(name, "is not what belongs to the other coordinates")
