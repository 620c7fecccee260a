"""Finished shards into one results file."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcage.campaign.ranges import in_words, unfinished
from mcage.campaign.shard import read_shard
from mcage.campaign.shard_folder import (
    BESIDE,
    finished_shards,
    locked,
    refuse,
    refuse_other_code,
    remove_shards,
    shard_folder,
)
from mcage.campaign.stopping import ended
from mcage.errors import UserError
from mcage.files.atomic import make_ready, remove_abandoned_beside
from mcage.files.checksum import DamagedFileError
from mcage.files.destination import OccupiedError, place_of
from mcage.results.header import SweepHeader
from mcage.results.reader import read_campaign
from mcage.results.writer import new_results


def merge(out_path: Path, accept_other_code: bool = False) -> Path:
    """Merge the shards that lie beside ``out_path``, wherever they were computed.

    All of them must have been computed by the same code, which need not be this one.

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
        remove_abandoned_beside(place)
        campaign, shards = finished_shards(folder, None, refuse, accept_other_code)
        if campaign is None:
            raise UserError(f"{folder} holds no finished shard")
        if not finished_campaign(place, campaign, accept_other_code):
            make_ready(place)
            write_merged(place, campaign, shards)
        remove_shards(folder, shards)
    return out_path


def write_merged(out_path: Path, campaign: SweepHeader, shards: dict[range, Path]) -> None:
    """Write the results file from verified shards, one shard in memory at a time.

    Parameters
    ----------
    out_path : Path
        Results file; nothing is replaced.
    campaign : Campaign
        The sweep as it began, with the codes of all shards; its stopping rule, if it has one, says
        with which instance it ends.
    shards : dict of range to Path
        Files by instances, in rising order, as `finished_shards` returns them.

    Raises
    ------
    UserError
        Instances are missing, or the file cannot be written, or another one has appeared there.
    """
    whole = ended(campaign, shards)
    if whole is None:
        raise UserError(_what_is_missing(out_path, campaign, shards))
    # Not in this thread: Python raises KeyboardInterrupt in the main one, also while HDF5 has it
    # write, and HDF5 takes that for a write that was made. So the file is finished, or is none.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_write, out_path, whole, shards).result()


def _write(out_path: Path, whole: SweepHeader, shards: dict[range, Path]) -> None:
    try:
        with new_results(out_path, whole) as results:
            for path in shards.values():
                try:
                    results.append(read_shard(path))
                except DamagedFileError as damage:
                    refuse(path, damage)
    except OccupiedError as error:
        raise UserError(
            f"{error}; all instances are in {shard_folder(out_path)}: move that file away, and "
            "the same command makes its own"
        ) from error


def _what_is_missing(out_path: Path, campaign: SweepHeader, shards: dict[range, Path]) -> str:
    missing = unfinished(campaign.instances, shards)
    count = sum(len(instances) for instances in missing)
    most = "at most " if campaign.stopping else ""
    return (
        f"{count} of {most}{campaign.instances} instances are missing in {shard_folder(out_path)} "
        f"(the first: {in_words(missing[0])}): run the same sweep again to compute them"
    )


def finished_campaign(
    out_path: Path, campaign: SweepHeader, accept_other_code: bool = False
) -> SweepHeader | None:
    """Campaign of which ``out_path`` is the finished results file, if it exists.

    Parameters
    ----------
    out_path : Path
        Results file.
    campaign : Campaign
        What it must hold.
    accept_other_code : bool
        Whether other code may have computed it.

    Raises
    ------
    UserError
        It is something else, which must not be overwritten.
    """
    if not out_path.exists():
        return None
    header = read_campaign(out_path)
    difference = campaign.difference(header)
    if difference:
        raise UserError(
            f"{out_path} already holds another sweep ({difference}): "
            "choose another --out, or remove it"
        )
    refuse_other_code(out_path, campaign, header, accept_other_code)
    return header
