"""Open a results file, after making sure that it is one, whole and of a known schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.results.header import Campaign, CaseName
from mcage.results.schema import (
    COORDINATES,
    SCHEMA_VERSION,
    VARIABLES,
    Variable,
    dimension_sizes,
)
from mcage.results.store import FILETYPE

if TYPE_CHECKING:
    import xarray

DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
"""What h5py and our own decoding raise on bytes that are not as they were written."""


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
    read_header(path)
    with damage_reported(path):
        return xarray.open_dataset(path, engine="h5netcdf")


def read_header(path: Path) -> Campaign:
    """Validate a results file and return the campaign that it holds.

    Everything is checked but the numbers themselves, whose checksums HDF5 checks when they are
    read.

    Raises
    ------
    UserError
        As `open_results`.
    """
    try:
        with path.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not h5py.is_hdf5(path):
        raise UserError(f"{path} is not a results file of mcage: it is not HDF5")
    with damage_reported(path), h5py.File(path, "r") as file:
        _check_filetype(path, file)
        campaign = _read_campaign(file)
        if campaign.checksum() != file.attrs["header_checksum"]:
            raise ValueError("its header differs from what was written")
        sizes = dimension_sizes(campaign)
        for variable in (*(c.variable for c in COORDINATES), *VARIABLES):
            _check_variable(file, variable, sizes)
        return campaign


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn what is raised on a damaged file inside the block into one clear line.

    Raises
    ------
    UserError
        The file is truncated or damaged.
    """
    try:
        yield
    except DAMAGE as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} is truncated or damaged: {first_line}") from error


def _check_filetype(path: Path, file: h5py.File) -> None:
    if file.attrs.get("filetype") != FILETYPE:
        raise UserError(
            f"{path} is not a results file of mcage: its attribute filetype is "
            f"{file.attrs.get('filetype', 'missing')}, not {FILETYPE}"
        )
    version = int(file.attrs["schema_version"])
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path} was written by a newer mcage ({file.attrs['mcage_version']}, schema "
            f"{version}); this one reads schema {SCHEMA_VERSION}: upgrade mcage"
        )
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema_version {version} does not exist")


def _read_campaign(file: h5py.File) -> Campaign:
    attributes = file.attrs
    columns = zip(
        _texts(file, "case"),
        _texts(file, "technique"),
        _texts(file, "environment"),
        _texts(file, "scenario"),
        file["vdd_volts"][:].tolist(),
        strict=True,
    )
    return Campaign(
        spec_toml=str(attributes["spec"]),
        spec_digest=str(attributes["spec_digest"]),
        seed=int(attributes["seed"]),
        instances=file["instance"].shape[0],
        cases=tuple(CaseName(*column) for column in columns),
        kernels=tuple(_texts(file, "kernel")),
        workload_periods=file["period"].shape[0],
        epoch_edges_years=(0.0, *file["epoch_end_years"][:].tolist()),
        engine=str(attributes["engine"]),
        engine_reason=str(attributes["engine_reason"]),
        device=str(attributes["device"]),
        mcage_version=str(attributes["mcage_version"]),
    )


def _texts(file: h5py.File, name: str) -> list[str]:
    texts: npt.NDArray[Any] = file[name].asstr()[:]
    return [str(text) for text in texts]


def _check_variable(file: h5py.File, variable: Variable, sizes: dict[str, int]) -> None:
    dataset = file[variable.name]
    if dataset.shape != variable.shape(sizes):
        raise ValueError(f"{variable.name} has shape {dataset.shape}, not {variable.shape(sizes)}")
    if variable.dtype != "text" and dataset.dtype != np.dtype(variable.dtype):
        raise ValueError(f"{variable.name} has type {dataset.dtype}, not {variable.dtype}")
    for axis, dim in enumerate(variable.dims):
        if dim != variable.name and dataset.dims[axis].keys() != [dim]:
            raise ValueError(f"axis {axis} of {variable.name} is not {dim}")
