"""The shards of a campaign: ranges of instances, and finished shards as files.

The checksum is verified whenever a shard is read, so that a damaged shard cannot enter a result.
What the checksum cannot tell is compared with what the study declares.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.hdf5 import write_hdf5
from mcage.files.plain_hdf5 import opened
from mcage.plain_text import shown
from mcage.results.header import SCHEMA_VERSION, Header, header_class
from mcage.results.reader import VerifiedFile, study_of
from mcage.results.variable import dimension_sizes
from mcage.results.writer import Arrays, conforming

FILETYPE = "mcage-shard"
DIGEST_LENGTH = 16
NAME = re.compile(rf"(?P<digest>[0-9a-f]{{1,{DIGEST_LENGTH}}})-(?P<first>\d+)-(?P<last>\d+)\.h5")

LONGEST_NAME = 64
"""More bytes than a shard's name has, finished or not."""


def unfinished(instances: int, finished: Iterable[range]) -> list[range]:
    """Ranges of 0 ... ``instances`` - 1 that no finished shard holds, in rising order.

    Parameters
    ----------
    instances : int
        Number of instances of the campaign.
    finished : iterable of range
        Ranges that do not overlap, in rising order; ranges behind the last instance do not count.
    """
    within = [done for done in finished if done.start < instances]
    borders = [range(0, 0), *within, range(instances, instances)]
    return [range(a.stop, b.start) for a, b in pairwise(borders) if a.stop < b.start]


def in_words(instances: range) -> str:
    """Range of instance ids as a reader writes it, both ends included."""
    return f"{instances.start}-{instances.stop - 1}" if len(instances) > 1 else f"{instances.start}"


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
        raise UserError(f"{path} is not a shard: move it out of that folder")
    return range(int(match["first"]), int(match["last"]) + 1)


def write_shard(folder: Path, header: Header, instances: range, arrays: Arrays) -> Path:
    """Write the results of ``instances``, all or nothing.

    Parameters
    ----------
    folder : Path
        Shard folder of the campaign.
    header : Header
        The campaign.
    instances : range
        Instance ids.
    arrays : mapping of str to ndarray
        As the header declares them, ``instance`` of that length.

    Raises
    ------
    UserError
        The file cannot be written.
    ValueError
        The arrays are not as declared.
    """
    arrays = conforming(header, arrays, len(instances))
    path = folder / shard_name(header.spec_digest, instances)

    def fill(file: h5py.File) -> None:
        file.attrs["filetype"] = FILETYPE
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["study"] = header.study
        file.attrs["campaign"] = np.bytes_(header.to_json().encode())
        file.attrs["first"], file.attrs["last"] = instances.start, instances.stop - 1
        for name, array in arrays.items():
            # Not compressed: a shard is read once and removed, and packing takes longer than both.
            file.create_dataset(name, data=array)

    write_hdf5(path, fill)
    return path


def read_owner(path: Path) -> Header:
    """Header of the campaign that a shard belongs to, after verifying the whole shard.

    Raises
    ------
    DamagedFileError
        It is not as it was written: truncated, overwritten, or not a shard at all.
    UserError
        It cannot be read, has been renamed, or its schema is not that of this mcage.
    """
    with _verified(path) as (_, header):
        return header


def read_shard(
    path: Path, names: Collection[str] | None = None, instances: range | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a shard, as they were given to `write_shard`.

    Parameters
    ----------
    path : Path
        The shard.
    names : collection of str, optional
        Variables to read; all by default.
    instances : range, optional
        Ids of successive instances of the shard; all by default. Of others than all, only variables
        with the dimension ``instance`` can be read.

    Raises
    ------
    DamagedFileError, UserError
        As `read_owner`.
    """
    with _verified(path) as (file, header):
        variables = [v for v in header.variables if names is None or v.name in names]
        if instances is None:
            return {variable.name: file[variable.name][...] for variable in variables}
        first = shard_range(path).start
        part = slice(instances.start - first, instances.stop - first)
        return {v.name: file[v.name][(slice(None),) * v.instance_axis + (part,)] for v in variables}


@contextmanager
def _verified(path: Path) -> Iterator[tuple[h5py.File, Header]]:
    """The open file and the header of a shard that is in every point as mcage writes it."""
    promised = shard_range(path)
    verified = VerifiedFile(path)
    filetype = verified.attribute("filetype", str)
    schema = verified.attribute("schema_version", int)
    if filetype != FILETYPE:
        raise UserError(
            f"{path} holds {shown(filetype)}, not {FILETYPE}: move it out of that folder"
        )
    if schema != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema {schema}, this mcage writes {SCHEMA_VERSION}: "
            "finish the campaign with the mcage that began it"
        )
    if "sums_of" in verified.attributes:
        raise UserError(f"{path} holds what mcage verify --salvage made of a file: remove it")
    first, last = verified.attribute("first", int), verified.attribute("last", int)
    header = _header(verified)
    name = shard_name(header.spec_digest, range(first, last + 1))
    if range(first, last + 1) != promised or path.name != name:
        raise UserError(f"{path} holds {shown(name)}: a renamed copy, remove it")
    verified.require_datasets(variable.name for variable in header.variables)
    sizes = {**dimension_sizes(header.coordinates), "instance": len(promised)}
    for variable in header.variables:
        verified.require_array(variable, sizes)
        verified.require_within(variable, header.coordinates)
    with opened(path) as file:
        yield file, header


def _header(verified: VerifiedFile) -> Header:
    kind = header_class(study_of(verified))
    try:
        return kind.from_json(verified.attribute("campaign", str))
    except ValueError as error:
        verified.refuse("attribute campaign", str(error))
