"""Finished instances into one results file."""

from collections.abc import Iterator
from pathlib import Path

from mcage.campaign.finished import Finished, finished_instances, results_at
from mcage.campaign.shard_folder import BESIDE, locked, refuse, remove_shards, shard_folder
from mcage.campaign.shards import in_words
from mcage.campaign.stopping import ended
from mcage.errors import UserError
from mcage.files.atomic import make_ready, remove_abandoned_beside
from mcage.files.checksum import DamagedFileError
from mcage.files.destination import OccupiedError, place_of
from mcage.files.kinds import Kind
from mcage.results.conform import Arrays
from mcage.results.header import Header
from mcage.results.writer import write_results


def merge(out_path: Path, accept_other_code: bool = False) -> Path:
    """Merge the shards that lie beside ``out_path``, wherever they were computed.

    All of them must have been computed by the same code, which need not be that of this process.

    Parameters
    ----------
    out_path : Path
        Results file to be; its shards are in the folder of the same name with ``.shards`` added.
        A file of the same campaign with fewer instances is replaced.
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
        are missing; ``out_path`` is something else.
    """
    place = place_of(out_path, BESIDE)
    folder = shard_folder(place)
    if not folder.is_dir():
        raise UserError(f"there is nothing to merge for {out_path}: no folder {folder}")
    with locked(folder):
        finished = finished_instances(results_at(place), folder, None, _refuse, accept_other_code)
        if finished is None or not finished.sources:
            raise UserError(f"{folder} holds no finished shard")
        if not is_there(place, finished):
            make_ready(place, over(finished))
            write_merged(place, finished)
        remove_shards(folder, finished.shards)
    return out_path


def is_there(place: Path, finished: Finished) -> bool:
    """Whether the results file is what the campaign ends in.

    Parameters
    ----------
    place : Path
        The results file. What killed processes were writing there is removed if it is whole.
    finished : Finished
        What is finished.

    Raises
    ------
    UserError
        It holds more instances than the campaign ends with; or a file is damaged.
    """
    finished.refuse_more_than(finished.header.instances)
    if finished.results is None:
        return False
    whole = ended(finished)
    if whole is None:
        return False
    finished.refuse_more_than(whole.instances)
    if whole != finished.results.header:
        return False
    remove_abandoned_beside(place)
    return True


def write_merged(place: Path, finished: Finished) -> None:
    """Write the results file from what is finished, one shard or chunk in memory at a time.

    Parameters
    ----------
    place : Path
        The results file; that of fewer instances of the same campaign is replaced.
    finished : Finished
        All instances of the campaign. Its stopping rule, if it has one, says with which it ends.

    Raises
    ------
    UserError
        Instances are missing, or are more than the campaign ends with; or the file cannot be
        written, or another one has appeared there.
    """
    whole = ended(finished)
    if whole is None:
        raise UserError(_what_is_missing(place, finished))
    finished.refuse_more_than(whole.instances)
    try:
        write_results(place, whole, _pieces(finished), over(finished))
    except OccupiedError as error:
        raise UserError(
            f"{error}; {'the other' if finished.results else 'all'} instances are in "
            f"{shard_folder(place)}: move that file away, and the same command makes its own"
        ) from error


def over(finished: Finished) -> Kind | None:
    """Kind of file that the new results file may replace: the one that it adds instances to."""
    return finished.results.itself if finished.results else None


def _refuse(_: Path, damage: DamagedFileError) -> None:
    refuse(damage)


def _pieces(finished: Finished) -> Iterator[Arrays]:
    try:
        yield from finished.pieces()
    except DamagedFileError as damage:
        refuse(damage)


def _what_is_missing(place: Path, finished: Finished) -> str:
    header: Header = finished.header
    missing = finished.missing(header.instances)
    count = sum(map(len, missing))
    most = "at most " if header.stopping else ""
    return (
        f"{count} of {most}{header.instances} instances are missing in {shard_folder(place)} "
        f"(the first: {in_words(missing[0])}): run the same campaign again to compute them"
    )
