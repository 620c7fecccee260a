"""One finished shard as one file: named by sweep and instances, and sealed.

The seal is checked whenever a shard is read, so that a damaged one cannot enter a result, and what
the seal cannot tell is checked against the schema.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.hdf5 import new_hdf5
from mcage.files.sealed import SealedFile
from mcage.plain_text import shown
from mcage.results.conform import Arrays, conforming
from mcage.results.header import SweepHeader
from mcage.results.schema import SCHEMA_VERSION, VARIABLES, dimension_sizes

FILETYPE = "mcage-shard"
DIGEST_LENGTH = 16
NAME = re.compile(rf"(?P<digest>[0-9a-f]{{1,{DIGEST_LENGTH}}})-(?P<first>\d+)-(?P<last>\d+)\.h5")

LONGEST_NAME = 64
"""More bytes than a shard's name has, finished or not."""


def shard_name(digest: str, instances: range) -> str:
    """File name of a shard; both instance ids are part of it."""
    return f"{digest[:DIGEST_LENGTH]}-{instances.start:09d}-{instances.stop - 1:09d}.h5"


def shard_range(path: Path) -> range:
    """Instances that the name of a shard promises.

    Raises
    ------
    UserError
        The name is not that of a shard.
    """
    match = NAME.fullmatch(path.name)
    if match is None:
        raise UserError(f"{path} is not a shard of a sweep: move it out of that folder")
    return range(int(match["first"]), int(match["last"]) + 1)


def write_shard(folder: Path, campaign: SweepHeader, instances: range, arrays: Arrays) -> Path:
    """Write the results of ``instances``, all or nothing.

    Parameters
    ----------
    folder : Path
        Shard folder of the sweep.
    campaign : Campaign
        The sweep.
    instances : range
        Instance ids.
    arrays : mapping of str to ndarray
        As the schema declares them, ``instance`` of that length.

    Raises
    ------
    UserError
        The file cannot be written.
    ValueError
        The arrays break the schema.
    """
    arrays = conforming(campaign, arrays, len(instances))
    path = folder / shard_name(campaign.spec_digest, instances)
    with new_hdf5(path) as file:
        file.attrs["filetype"] = FILETYPE
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["campaign"] = np.bytes_(campaign.to_json().encode())
        file.attrs["first"], file.attrs["last"] = instances.start, instances.stop - 1
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip", shuffle=True)
    return path


def read_owner(path: Path) -> SweepHeader:
    """Sweep that a shard belongs to, after verifying the whole shard.

    Raises
    ------
    DamagedFileError
        It is not as it was written: truncated, overwritten, or not a shard at all.
    UserError
        It cannot be read, has been renamed, or its schema is not the one of this mcage.
    """
    with _verified(path) as (_, campaign):
        return campaign


def read_shard(path: Path, names: Collection[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a shard, as they were given to `write_shard`.

    Parameters
    ----------
    path : Path
        The shard.
    names : collection of str, optional
        Variables to read; all by default.

    Raises
    ------
    DamagedFileError, UserError
        As `read_owner`.
    """
    with _verified(path) as (file, _):
        wanted = [variable.name for variable in VARIABLES] if names is None else names
        return {name: file[name][...] for name in wanted}


@contextmanager
def _verified(path: Path) -> Iterator[tuple[h5py.File, SweepHeader]]:
    """The open file and the header of a shard that is in every point as mcage writes it."""
    promised = shard_range(path)
    sealed = SealedFile(path)
    filetype, schema = sealed.attribute("filetype", str), sealed.attribute("schema_version", int)
    if filetype != FILETYPE:
        raise UserError(
            f"{path} holds {shown(filetype)}, not {FILETYPE}: move it out of that folder"
        )
    if schema != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema {schema}, this mcage writes {SCHEMA_VERSION}: "
            "finish the sweep with the mcage that began it"
        )
    first, last = sealed.attribute("first", int), sealed.attribute("last", int)
    campaign = _campaign(sealed)
    name = shard_name(campaign.spec_digest, range(first, last + 1))
    if range(first, last + 1) != promised or path.name != name:
        raise UserError(f"{path} holds {shown(name)}: a renamed copy, remove it")
    sealed.require_datasets(variable.name for variable in VARIABLES)
    sizes = {**dimension_sizes(campaign), "instance": len(promised)}
    for variable in VARIABLES:
        sealed.require_array(variable, sizes)
    sealed.require_values_of(campaign)
    with h5py.File(path, "r") as file:
        yield file, campaign


def _campaign(sealed: SealedFile) -> SweepHeader:
    try:
        return SweepHeader.from_json(sealed.attribute("campaign", str))
    except ValueError as error:
        sealed.refuse("attribute campaign", str(error))
