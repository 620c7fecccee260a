"""Open a results file, after making sure that it is one, whole and of a known schema."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.files.sealed import SealedFile
from mcage.plain_text import shown
from mcage.results.attributes import description, root_attributes, variable_attributes
from mcage.results.header import CaseName, SweepHeader
from mcage.results.schema import COORDINATES, FILETYPE, SCHEMA_VERSION, VARIABLES

if TYPE_CHECKING:
    import xarray


def open_results(path: Path | str) -> "xarray.Dataset":
    """Open a results file lazily, by name of variable and dimension.

    Parameters
    ----------
    path : path
        File that a sweep wrote. `mcage.results.schema` lists what is in it.

    Raises
    ------
    UserError
        The file is missing, not readable, not a results file, damaged, or of a newer mcage.
    """
    import xarray

    path = Path(path)
    read_campaign(path)
    return xarray.open_dataset(path, engine="h5netcdf")


def read_campaign(path: Path) -> SweepHeader:
    """Validate a results file and return the campaign whose results it holds.

    Raises
    ------
    UserError
        As `open_results`.
    """
    try:
        sealed = SealedFile(path)
    except DamagedFileError as damage:
        raise UserError(f"{damage}: not a results file to rely on") from damage
    filetype, schema = sealed.attribute("filetype", str), sealed.attribute("schema_version", int)
    if filetype != FILETYPE:
        raise UserError(f"{path} holds {shown(filetype)}, not {FILETYPE}")
    if schema != SCHEMA_VERSION:
        version = shown(sealed.attribute("mcage_version", str))
        raise UserError(
            f"{path} was written by mcage {version} with schema {schema}; this one reads "
            f"{SCHEMA_VERSION}: use that mcage"
        )
    _require_declared(sealed)
    with h5py.File(path, "r") as file:
        campaign = _campaign(sealed, file)
        _require_coordinates(sealed, file, campaign)
    for name in set(sealed.attributes) - set(root_attributes(campaign)):
        sealed.refuse(f"attribute {name}", "does not belong into it")
    sealed.require_values_of(campaign)
    return campaign


def _require_declared(sealed: SealedFile) -> None:
    """Every array is there, as the schema declares it, and nothing else is."""
    coordinates = [coordinate.variable for coordinate in COORDINATES]
    variables = [*coordinates, *VARIABLES]
    sealed.require_datasets(variable.name for variable in variables)
    dims = dict.fromkeys(dim for variable in variables for dim in variable.dims)
    sizes = {dim: sealed.size(dim) for dim in dims}
    for variable in variables:
        attributes = description if variable in coordinates else variable_attributes
        sealed.require_array(variable, sizes)
        sealed.require_attributes(variable, attributes(variable))
        sealed.require_dims(variable)


def _campaign(sealed: SealedFile, file: h5py.File) -> SweepHeader:
    names = [field.name for field in fields(CaseName)]
    columns = (_content(file, "case" if name == "label" else name) for name in names)
    cases = [dict(zip(names, case, strict=True)) for case in zip(*columns, strict=True)]
    stopping = sealed.attribute("stopping", str) if "stopping" in sealed.attributes else None
    header = {
        "spec_toml": sealed.attribute("spec", str),
        "spec_digest": sealed.attribute("spec_digest", str),
        "seed": sealed.attribute("seed", int),
        "instances": file["instance"].size,
        "cases": cases,
        "kernels": _content(file, "kernel"),
        "workload_periods": file["period"].size,
        "epoch_edges_years": [0.0, *_content(file, "epoch_end_years")],
        "operating_points": file["operating_point"].size,
        "engine": sealed.attribute("engine", str),
        "engine_reason": sealed.attribute("engine_reason", str),
        "device": sealed.attribute("device", str),
        "stopped": sealed.attribute("stopped", str) if stopping else "",
    }
    try:
        header["stopping"] = json.loads(stopping) if stopping else None
        header["codes"] = json.loads(sealed.attribute("codes", str))
        return SweepHeader.from_json(json.dumps(header))
    except (ValueError, RecursionError) as error:
        sealed.refuse("header", str(error))


def _content(file: h5py.File, name: str) -> list[Any]:
    dataset = file[name]
    is_text = h5py.check_string_dtype(dataset.dtype)
    content: list[Any] = (dataset.asstr() if is_text else dataset)[:].tolist()
    return content


def _require_coordinates(sealed: SealedFile, file: h5py.File, campaign: SweepHeader) -> None:
    """Every coordinate says what follows from the campaign."""
    for coordinate in COORDINATES:
        name, values = coordinate.variable.name, coordinate.values(campaign)
        if isinstance(values, range):
            values = np.arange(values.start, values.stop)
        is_text = coordinate.variable.dtype == "text"
        content = _content(file, name) if is_text else file[name][:]
        if not np.array_equal(content, values):
            sealed.refuse(name, "is not what belongs to the other coordinates")
