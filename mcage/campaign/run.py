"""Run a campaign: compute what is missing, merge, leave one file."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Lock

from mcage.campaign.executors.threads import Executor, overlapping
from mcage.campaign.merge import finished_campaign, write_merged
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.ranges import shards, unfinished
from mcage.campaign.shard import shard_name, write_shard
from mcage.campaign.shard_folder import (
    BESIDE,
    finished_shards,
    holds_shards,
    locked,
    remove_shards,
    shard_folder,
)
from mcage.campaign.stopping import Watch
from mcage.files.atomic import make_ready, remove_abandoned_beside
from mcage.files.checksum import DamagedFileError
from mcage.files.destination import place_of
from mcage.results.conform import Arrays
from mcage.results.header import SweepHeader, code_in_words

Compute = Callable[[int, int], Arrays]
"""Results of instances first ... last - 1 of every case, as `mcage.results.schema` declares."""


def run_campaign(
    campaign: SweepHeader,
    out_path: Path,
    compute: Compute,
    shard_size: int,
    progress: Progress | None = None,
    executor: Executor = overlapping,
    accept_other_code: bool = False,
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
    accept_other_code : bool
        Whether finished shards, or a finished file, may have been computed by other code; the file
        then says so.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        ``out_path`` cannot be written or holds something else; its shard folder holds something
        else, or is in use; other code computed what is there. All of this is found before anything
        is computed.
    """
    progress = progress or Silent()
    place = place_of(out_path, BESIDE)
    folder = shard_folder(place)
    before = finished_campaign(place, campaign, accept_other_code)
    if before and not folder.exists():
        progress.say(_nothing_to_compute(out_path, campaign, before))
        return out_path
    with locked(folder):
        try:
            _complete(campaign, place, compute, shard_size, progress, executor, accept_other_code)
        except KeyboardInterrupt:
            progress.say(_what_stays(folder))
            raise
    return out_path


def _nothing_to_compute(out_path: Path, campaign: SweepHeader, header: SweepHeader) -> str:
    others = campaign.other_codes(header)
    by_whom = f", computed by other code ({code_in_words(others)})" if others else ""
    return f"{out_path} already holds this sweep{by_whom}: nothing to compute"


def _what_stays(folder: Path) -> str:
    """Words about an interrupted campaign, whose folder is removed if nothing is in it."""
    if holds_shards(folder):
        return f"interrupted: finished instances are in {folder}; the same command continues"
    remove_shards(folder, {})
    return "interrupted: no instance was finished"


def _complete(
    campaign: SweepHeader,
    out_path: Path,
    compute: Compute,
    shard_size: int,
    progress: Progress,
    executor: Executor,
    accept_other_code: bool,
) -> None:
    folder = shard_folder(out_path)

    def discard(path: Path, damage: DamagedFileError) -> None:
        progress.say(f"warning: {damage}; computing it again")
        path.unlink()

    remove_abandoned_beside(out_path)
    owner, in_shards = finished_shards(folder, campaign, discard, accept_other_code)
    before = finished_campaign(out_path, campaign, accept_other_code)
    if before:
        progress.say(_nothing_to_compute(out_path, campaign, before))
    else:
        make_ready(out_path)
        done = sum(map(len, in_shards))
        if done:
            progress.say(f"continuing: {done} of {campaign.instances} instances are in {folder}")
        if owner and (others := campaign.other_codes(owner)):
            progress.say(f"accepted: shards of other code ({code_in_words(others)})")
        progress.start(campaign.instances, done)
        try:
            with closing(_ShardWriter(folder, campaign, compute)) as task:
                _compute_until_the_end(
                    campaign, folder, task, shard_size, in_shards, progress, executor
                )
        finally:
            progress.finish()
        owner, in_shards = finished_shards(folder, campaign, discard, accept_other_code)
        write_merged(out_path, owner or campaign, in_shards)
    remove_shards(folder, in_shards)


class _ShardWriter:
    """Computes shards and writes them, from any thread, until it is closed.

    Compiled code cannot be stopped: a shard that is computed when the writer is closed is dropped
    as soon as it is ready. Closing waits for one that is being written.
    """

    def __init__(self, folder: Path, campaign: SweepHeader, compute: Compute) -> None:
        self._folder, self._campaign, self._compute = folder, campaign, compute
        self._writing = Lock()
        self._open = True

    def __call__(self, instances: range) -> None:
        arrays = self._compute(instances.start, instances.stop)
        with self._writing:
            if self._open:
                write_shard(self._folder, self._campaign, instances, arrays)

    def close(self) -> None:
        with self._writing:
            self._open = False


def _compute_until_the_end(
    campaign: SweepHeader,
    folder: Path,
    task: Callable[[range], None],
    shard_size: int,
    finished: dict[range, Path],
    progress: Progress,
    executor: Executor,
) -> None:
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
