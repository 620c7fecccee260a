"""Instances of a results file as arrays, as they were given to its writer."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

from mcage.files.checksum import DamagedFileError
from mcage.files.plain_hdf5 import opened
from mcage.results.header import Header


def read_instances(
    path: Path, header: Header, instances: range, names: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Variables of successive instances of a file that has been verified.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Its header.
    instances : range
        Ids of instances that follow one another in the file, too.
    names : collection of str
        Variables with the dimension ``instance``.

    Raises
    ------
    DamagedFileError
        The file cannot be read, although it could be when it was verified.
    """
    earlier = (range(ids.start, min(ids.stop, instances.start)) for ids in header.present)
    first = sum(map(len, earlier))
    place = slice(first, first + len(instances))
    axes = {v.name: v.instance_axis for v in header.variables if v.name in names}
    with _opened(path) as file:
        return {name: file[name][(slice(None),) * axis + (place,)] for name, axis in axes.items()}


def read_sums(path: Path, header: Header) -> dict[str, NDArray[Any]]:
    """Variables that are summed over all instances of the file.

    Parameters
    ----------
    path, header
        As of `read_instances`.

    Raises
    ------
    DamagedFileError
        As `read_instances`.
    """
    with _opened(path) as file:
        return {v.name: file[v.name][...] for v in header.variables if not v.per_instance}


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        with opened(path) as file:
            yield file
    except (OSError, KeyError) as error:
        raise DamagedFileError(f"{path} is damaged, or has changed meanwhile") from error
