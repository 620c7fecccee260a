"""Finished shards into one results file."""

from collections.abc import Iterator
from pathlib import Path

from mcage.campaign.shard_folder import (
    BESIDE,
    finished_shards,
    locked,
    refuse,
    refuse_other_code,
    remove_shards,
    shard_folder,
)
from mcage.campaign.shards import in_words, read_shard, unfinished
from mcage.campaign.stopping import ended
from mcage.errors import UserError
from mcage.files.atomic import make_ready, remove_abandoned_beside
from mcage.files.checksum import DamagedFileError
from mcage.files.destination import OccupiedError, place_of
from mcage.results.conform import Arrays
from mcage.results.header import Header
from mcage.results.reader import read_header
from mcage.results.writer import write_results


def merge(out_path: Path, accept_other_code: bool = False) -> Path:
    """Merge the shards that lie beside ``out_path``, wherever they were computed.

    All of them must have been computed by the same code, which need not be that of this process.

    Parameters
    ----------
    out_path : Path
        Results file to be; its shards are in the folder of the same name with ``.shards`` added.
    accept_other_code : bool
        Whether they may have been computed by different codes.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        There are no shards; one is damaged, foreign, of other code, or overlaps another; instances
        are missing; ``out_path`` exists already.
    """
    place = place_of(out_path, BESIDE)
    folder = shard_folder(place)
    if not folder.is_dir():
        raise UserError(f"there is nothing to merge for {out_path}: no folder {folder}")
    with locked(folder):
        header, shards = finished_shards(folder, None, refuse, accept_other_code)
        if header is None:
            raise UserError(f"{folder} holds no finished shard")
        if not finished_or_ready(place, header, accept_other_code):
            write_merged(place, header, shards)
        remove_shards(folder, shards)
    return out_path


def finished_or_ready(out_path: Path, header: Header, accept_other_code: bool) -> Header | None:
    """Header of the finished results file, or None once the place is ready for one.

    What killed processes were writing there is removed.

    Parameters
    ----------
    out_path : Path
        Results file; this process has locked its shard folder.
    header, accept_other_code
        As of `finished_header`.

    Raises
    ------
    UserError
        As `finished_header`; or the file cannot be written.
    """
    finished = finished_header(out_path, header, accept_other_code)
    if finished:
        remove_abandoned_beside(out_path)
    else:
        make_ready(out_path)
    return finished


def write_merged(out_path: Path, header: Header, shards: dict[range, Path]) -> None:
    """Write the results file from verified shards, one shard in memory at a time.

    Parameters
    ----------
    out_path : Path
        Results file; nothing is replaced.
    header : Header
        The campaign as it began, with the codes of all shards; its stopping rule, if it has one,
        says with which instance it ends.
    shards : dict of range to Path
        Files by instances, in rising order, as `finished_shards` returns them.

    Raises
    ------
    UserError
        Instances are missing, or the file cannot be written, or another one has appeared there.
    """
    whole = ended(header, shards)
    if whole is None:
        raise UserError(_what_is_missing(out_path, header, shards))
    try:
        write_results(out_path, whole, _arrays_of(shards))
    except OccupiedError as error:
        raise UserError(
            f"{error}; all instances are in {shard_folder(out_path)}: move that file away, and "
            "the same command makes its own"
        ) from error


def _arrays_of(shards: dict[range, Path]) -> Iterator[Arrays]:
    for path in shards.values():
        try:
            yield read_shard(path)
        except DamagedFileError as damage:
            refuse(path, damage)


def _what_is_missing(out_path: Path, header: Header, shards: dict[range, Path]) -> str:
    missing = unfinished(header.instances, shards)
    count = sum(len(instances) for instances in missing)
    most = "at most " if header.stopping else ""
    return (
        f"{count} of {most}{header.instances} instances are missing in {shard_folder(out_path)} "
        f"(the first: {in_words(missing[0])}): run the same campaign again to compute them"
    )


def finished_header(
    out_path: Path, header: Header, accept_other_code: bool = False
) -> Header | None:
    """Header of the finished results file at ``out_path``, if there is a file.

    Parameters
    ----------
    out_path : Path
        Results file.
    header : Header
        The campaign that it must hold.
    accept_other_code : bool
        Whether other code may have computed it.

    Raises
    ------
    UserError
        The file is something else, which must not be overwritten.
    """
    if not out_path.exists():
        return None
    finished = read_header(out_path)
    difference = header.difference(finished)
    if difference:
        raise UserError(
            f"{out_path} already holds another campaign ({difference}): "
            "choose another --out, or remove it"
        )
    refuse_other_code(out_path, header, finished, accept_other_code)
    return finished
