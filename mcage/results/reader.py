"""Open a results file, after making sure that it is one, whole and of a known schema."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import h5py

from mcage.errors import UserError
from mcage.results.header import Campaign, CaseName, StoppingRule
from mcage.results.schema import FILETYPE, SCHEMA_VERSION
from mcage.results.seal import DamagedFileError, check_seal

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


def read_campaign(path: Path) -> Campaign:
    """Validate a results file and return the campaign whose results it holds.

    Raises
    ------
    UserError
        As `open_results`.
    """
    try:
        check_seal(path)
    except DamagedFileError as damage:
        raise UserError(f"{damage}: not a results file to rely on") from damage
    with h5py.File(path, "r") as file:
        if file.attrs["filetype"] != FILETYPE:
            raise UserError(f"{path} holds {file.attrs['filetype']}, not {FILETYPE}")
        if file.attrs["schema_version"] != SCHEMA_VERSION:
            raise UserError(
                f"{path} was written by mcage {file.attrs['mcage_version']} with schema "
                f"{file.attrs['schema_version']}; this one reads {SCHEMA_VERSION}: use that mcage"
            )
        return _campaign(file)


def _campaign(file: h5py.File) -> Campaign:
    texts = (file[name].asstr()[:] for name in ("case", "technique", "environment", "scenario"))
    cases = zip(*texts, map(float, file["vdd_volts"][:]), strict=True)
    attributes = file.attrs
    stopping = attributes.get("stopping")
    return Campaign(
        spec_toml=attributes["spec"],
        spec_digest=attributes["spec_digest"],
        seed=int(attributes["seed"]),
        instances=file["instance"].size,
        cases=tuple(CaseName(*case) for case in cases),
        kernels=tuple(file["kernel"].asstr()[:]),
        workload_periods=file["period"].size,
        epoch_edges_years=(0.0, *map(float, file["epoch_end_years"][:])),
        operating_points=file["operating_point"].size,
        engine=attributes["engine"],
        engine_reason=attributes["engine_reason"],
        device=attributes["device"],
        mcage_version=attributes["mcage_version"],
        stopping=StoppingRule(**json.loads(stopping)) if stopping else None,
        stopped=attributes.get("stopped", ""),
    )
