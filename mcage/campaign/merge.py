"""Finished instances, from wherever they were computed, into one results file."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mcage.campaign import shards
from mcage.campaign.finished import Finished, Source, finished_instances, results_at, shards_in
from mcage.campaign.stopping import ended
from mcage.errors import UserError
from mcage.files.atomic import (
    FileKind,
    OccupiedError,
    make_ready,
    place_of,
    remove_abandoned_beside,
)
from mcage.results.header import Header
from mcage.results.writer import write_results


def merge(
    out_path: Path,
    elsewhere: Sequence[Path] = (),
    partial: bool = False,
    accept_other_code: bool = False,
) -> Path:
    """Merge what is finished of a campaign, wherever it was computed.

    All of it must have been computed by the same code, which need not be that of this process.
    Merging again changes nothing, and the order of the files does not matter.

    Parameters
    ----------
    out_path : Path
        Results file to be. Its shards are in the folder of the same name with ``.shards`` added,
        which is removed. A file of the same campaign with fewer instances is replaced.
    elsewhere : sequence of Path
        Shard folders, and results files with or without theirs, such as copies from other
        machines; they are only read.
    partial : bool
        Whether instances may be missing; the file then says which.
    accept_other_code : bool
        Whether different codes may have computed them.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        There is nothing to merge; a file is damaged, foreign, of other code, or overlaps another;
        instances are missing; ``out_path`` is something else.
    """
    place = place_of(out_path, shards.BESIDE)
    folder = shards.shard_folder(place)
    is_new = not folder.is_dir()
    if is_new and not elsewhere and not place.exists():
        raise UserError(f"there is nothing to merge for {out_path}: no folder {folder}")
    with ExitStack() as locks:
        locks.enter_context(shards.locked(folder))
        try:
            shards.clear_abandoned(folder)
            others = [source for path in elsewhere for source in _sources(path, place, locks)]
            # A file that is named twice, or with its shard folder beside it, counts once.
            others = list({os.path.realpath(source.path): source for source in others}.values())
            finished = finished_instances(
                results_at(place), shards_in(folder), None, accept_other_code, others
            )
            if finished is None:
                raise UserError(f"{folder} holds no finished shard")
            if not is_there(place, finished, partial):
                make_ready(place, over(finished))
                write_merged(place, finished, partial, elsewhere)
        except BaseException:
            if is_new:
                shards.remove_shards(folder, ())
            raise
        shards.remove_shards(folder, finished.shards)
    return out_path


def _sources(path: Path, place: Path, locks: ExitStack) -> Iterator[Source]:
    """Finished parts in another place than that of the results file to be."""
    folder = path if os.path.isdir(path) else shards.shard_folder(path)
    results = None if os.path.isdir(path) else results_at(path)
    if results is None and not os.path.isdir(folder):
        raise UserError(f"cannot merge {path}: there is no results file and no shard folder")
    if results and not (place.exists() and place.samefile(path)):
        yield results
    if os.path.isdir(folder) and not folder.samefile(shards.shard_folder(place)):
        locks.enter_context(shards.read_locked(folder))
        yield from shards_in(folder, only_read=True)


def is_there(place: Path, finished: Finished, partial: bool = False) -> bool:
    """Whether the results file is what the campaign ends in.

    Parameters
    ----------
    place : Path
        The results file. What killed processes were writing there is removed if it is whole.
    finished : Finished
        What is finished.
    partial : bool
        Whether instances may be missing.

    Raises
    ------
    UserError
        It holds more instances than the campaign ends with; or a file is damaged.
    """
    finished.refuse_more_than(finished.header.instances)
    if finished.results is None:
        return False
    whole = _ended(finished, partial)
    if whole is None:
        return False
    finished.refuse_more_than(whole.instances)
    if whole != finished.results.header:
        return False
    remove_abandoned_beside(place)
    return True


def write_merged(
    place: Path, finished: Finished, partial: bool = False, elsewhere: Sequence[Path] = ()
) -> None:
    """Write the results file from what is finished, one shard or chunk in memory at a time.

    Parameters
    ----------
    place : Path
        The results file; that of fewer instances of the same campaign is replaced.
    finished : Finished
        All instances of the campaign. Its stopping rule, if it has one, says with which it ends.
    partial : bool
        Whether instances may be missing.
    elsewhere : sequence of Path
        Where instances are besides the folder of the campaign, for the message.

    Raises
    ------
    UserError
        Instances are missing, or are more than the campaign ends with; or the file cannot be
        written, or another one has appeared there.
    """
    whole = _ended(finished, partial)
    if whole is None:
        raise _incomplete(place, finished, elsewhere)
    finished.refuse_more_than(whole.instances)
    try:
        write_results(place, whole, finished.pieces(), over(finished))
    except OccupiedError as error:
        raise UserError(
            f"{error}; {'the other' if finished.results else 'all'} instances are in "
            f"{shards.shard_folder(place)}: move that file away, and the same command makes its own"
        ) from error


def over(finished: Finished) -> FileKind | None:
    """Kind of file that the new results file may replace: the one that it adds instances to."""
    return finished.results.itself if finished.results else None


def _ended(finished: Finished, partial: bool) -> Header | None:
    """The campaign as it ends, or as far as it is finished if instances may be missing."""
    whole = ended(finished)
    if whole is None and partial:
        missing = finished.missing(finished.header.instances)
        absent = tuple((instances.start, instances.stop - 1) for instances in missing)
        return replace(finished.header, absent=absent)
    return whole


# ---- what is missing ------------------------------------------------------------------------


def _incomplete(place: Path, finished: Finished, elsewhere: Sequence[Path]) -> UserError:
    """Error that says how many instances are missing, with the command that computes them."""
    header, folder = finished.header, shards.shard_folder(place)
    missing = finished.missing(header.instances)
    most = "at most " if header.stopping else ""
    places = ", ".join(map(str, (folder, *elsewhere)))
    command = filling_command(header, place, folder if finished.shards else place)
    if command and elsewhere:  # instances that are elsewhere are not computed again
        partial = _line("mcage merge --partial", place, *elsewhere)
        command = f"{partial} && {filling_command(header, place, place)}"
    return UserError(
        f"{sum(map(len, missing))} of {most}{header.instances} instances are missing in {places} "
        f"(the first: {shards.in_words(missing[0])}): run the same campaign again to compute them, "
        "or "
        "merge the others with --partial",
        command,
    )


def filling_command(header: Header, place: Path, spec: Path) -> str:
    """Command line that computes what is missing of a campaign; empty where there is none.

    Parameters
    ----------
    header : Header
        The campaign.
    place : Path
        Its results file.
    spec : Path
        Results file or shard folder that holds its spec.
    """
    if not header.command:
        return ""
    return f"{_line(header.command.format(engine=header.engine), spec)} {_line('--out', place)}"


def _line(command: str, *paths: Path) -> str:
    return " ".join([command, *(shlex.quote(str(path)) for path in paths)])
