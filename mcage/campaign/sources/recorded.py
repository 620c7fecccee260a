"""The spec that files of a campaign have recorded, from which it can be continued."""

import os
from pathlib import Path

from mcage.campaign.shards import NAME, read_owner, shard_range
from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.files.inputs import UnreadableFileError, open_regular
from mcage.results.header import Header
from mcage.results.reader import read_header

_HDF5 = b"\x89HDF\r\n\x1a\n"


def recorded_campaign(path: Path) -> Header | None:
    """Header of the campaign of a results file or a shard folder; None for any other file.

    Parameters
    ----------
    path : Path
        A file, or a folder. Of shards that ask for different numbers of instances, the last whole
        one tells.

    Raises
    ------
    UserError
        The results file is damaged, or the folder holds no shard that is whole.
    """
    if os.path.isdir(path):
        return _of_folder(path)
    if not os.path.isfile(path):
        return None
    try:
        with open_regular(path) as stream:
            is_hdf5 = stream.read(len(_HDF5)) == _HDF5
    except (OSError, UnreadableFileError):
        return None
    return read_header(path) if is_hdf5 else None


def _of_folder(folder: Path) -> Header:
    shards = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
    for path in sorted(shards, key=lambda shard: shard_range(shard).stop, reverse=True):
        try:
            return read_owner(path)
        except DamagedFileError:
            continue
    raise UserError(f"{folder}: cannot read the spec (a folder without a finished shard)")
