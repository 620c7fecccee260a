"""Run a campaign: compute what is missing, merge, leave one file."""

from collections.abc import Callable
from pathlib import Path

from mcage.campaign.executors import Executor, overlapping
from mcage.campaign.folder import finished_shards, locked, remove_shards, shard_folder
from mcage.campaign.merge import holds, write_merged
from mcage.campaign.plan import shards, unfinished
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.shard import shard_name, write_shard
from mcage.campaign.stopping import Watch
from mcage.errors import UserError
from mcage.results.contract import Arrays
from mcage.results.header import Campaign
from mcage.results.seal import DamagedFileError

Compute = Callable[[int, int], Arrays]
"""Results of instances first ... last - 1 of every case, as `mcage.results.schema` declares."""


def run_campaign(
    campaign: Campaign,
    out_path: Path,
    compute: Compute,
    shard_size: int,
    progress: Progress | None = None,
    executor: Executor = overlapping,
) -> Path:
    """Compute all instances and write the results file; continue where a killed run stopped.

    Finished shards are files beside ``out_path``: a kill costs at most the shards in flight. The
    file is the same to the last bit however often the campaign was interrupted and however it
    was cut into shards. For a finished campaign nothing is computed. With a stopping rule, the
    campaign ends with the first checkpoint at which it is precise enough.

    Parameters
    ----------
    campaign : Campaign
        What is computed.
    out_path : Path
        Results file.
    compute : callable
        ``compute(first, last)`` returns the arrays of instances first ... last - 1.
    shard_size : int
        Instances per shard, at least 1; the ranges of earlier shards are kept.
    progress : Progress, optional
        Where to report; silent by default.
    executor : Executor
        Where shards are computed.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        ``out_path`` cannot be written or holds something else; its shard folder holds something
        else, or is in use. All of this is found before anything is computed.
    """
    progress = progress or Silent()
    _check_destination(out_path)
    folder = shard_folder(out_path)
    if holds(out_path, campaign) and not folder.exists():
        progress.say(f"{out_path} already holds this sweep: nothing to compute")
        return out_path
    try:
        with locked(folder):
            _complete(campaign, out_path, compute, shard_size, progress, executor)
    except KeyboardInterrupt:
        progress.say(f"interrupted: finished instances are in {folder}; the same command continues")
        raise
    return out_path


def _check_destination(out_path: Path) -> None:
    if out_path.is_dir():
        raise UserError(f"{out_path} is a folder: give --out the name of a file in it")
    if not out_path.parent.is_dir():
        raise UserError(f"cannot write {out_path}: there is no folder {out_path.parent}")


def _complete(
    campaign: Campaign,
    out_path: Path,
    compute: Compute,
    shard_size: int,
    progress: Progress,
    executor: Executor,
) -> None:
    folder = shard_folder(out_path)

    def discard(path: Path, damage: DamagedFileError) -> None:
        progress.say(f"warning: {damage}; computing it again")
        path.unlink()

    _, finished = finished_shards(folder, campaign, discard)
    if holds(out_path, campaign):
        progress.say(f"{out_path} already holds this sweep: nothing to compute")
    else:
        done = sum(map(len, finished))
        if done:
            progress.say(f"continuing: {done} of {campaign.instances} instances are in {folder}")
        progress.start(campaign.instances, done)
        try:
            _compute_until_the_end(
                campaign, folder, compute, shard_size, finished, progress, executor
            )
        finally:
            progress.finish()
        owner, finished = finished_shards(folder, campaign, discard)
        write_merged(out_path, owner or campaign, finished)
    remove_shards(folder, finished)


def _compute_until_the_end(
    campaign: Campaign,
    folder: Path,
    compute: Compute,
    shard_size: int,
    finished: dict[range, Path],
    progress: Progress,
    executor: Executor,
) -> None:
    def task(instances: range) -> None:
        arrays = compute(instances.start, instances.stop)
        write_shard(folder, campaign, instances, arrays)

    watch = Watch(campaign)
    whole = None
    while not whole:
        missing = unfinished(watch.checkpoint, finished)
        to_do = [part for instances in missing for part in shards(instances, shard_size)]
        for instances in executor(task, to_do):
            finished[instances] = folder / shard_name(campaign.spec_digest, instances)
            progress.advance(len(instances))
        finished = dict(sorted(finished.items(), key=lambda item: item[0].start))
        whole, words = watch.look(finished)
        if words:
            progress.say(words)
