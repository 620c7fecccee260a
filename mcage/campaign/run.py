"""Run a campaign: compute what is missing, merge, leave one file."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mcage.campaign.executors.threads import Executor, overlapping
from mcage.campaign.merge import finished_header, finished_or_ready, write_merged
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.shard_folder import (
    BESIDE,
    finished_shards,
    holds_shards,
    locked,
    remove_shards,
    shard_folder,
)
from mcage.campaign.shards import shards, unfinished
from mcage.campaign.stopping import Watch
from mcage.campaign.study import ShardTask, Study
from mcage.files.checksum import DamagedFileError
from mcage.files.destination import place_of
from mcage.results.header import Header, code_in_words


def run_campaign(
    study: Study,
    out_path: Path,
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
    study : Study
        What is computed.
    out_path : Path
        Results file.
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
    finished = finished_header(place, study.header, accept_other_code)
    if finished and not folder.exists():
        progress.say(_nothing_to_compute(out_path, study.header, finished))
        return out_path
    with locked(folder):
        try:
            _Run(study, place, shard_size, progress, executor, accept_other_code).complete()
        except KeyboardInterrupt:
            progress.say(_what_stays(folder))
            raise
    return out_path


def _nothing_to_compute(out_path: Path, header: Header, finished: Header) -> str:
    others = header.other_codes(finished)
    by_whom = f", computed by other code ({code_in_words(others)})" if others else ""
    return f"{out_path} already holds this campaign{by_whom}: nothing to compute"


def _what_stays(folder: Path) -> str:
    """Words about an interrupted campaign, whose folder is removed if nothing is in it."""
    if holds_shards(folder):
        return f"interrupted: finished instances are in {folder}; the same command continues"
    remove_shards(folder, {})
    return "interrupted: no instance was finished"


@dataclass(frozen=True)
class _Run:
    """A campaign whose shard folder this process has locked; fields as of `run_campaign`."""

    study: Study
    out_path: Path
    shard_size: int
    progress: Progress
    executor: Executor
    accept_other_code: bool

    @property
    def _header(self) -> Header:
        return self.study.header

    @property
    def _folder(self) -> Path:
        return shard_folder(self.out_path)

    def complete(self) -> None:
        """Leave the finished file, and no shards."""
        owner, in_shards = self._finished_shards()
        finished = finished_or_ready(self.out_path, self._header, self.accept_other_code)
        if finished:
            self.progress.say(_nothing_to_compute(self.out_path, self._header, finished))
        else:
            self._say_what_is_there(owner, sum(map(len, in_shards)))
            self.progress.start(self._header.instances, sum(map(len, in_shards)))
            try:
                self._compute_until_the_end(in_shards)
            finally:
                self.progress.finish()
            owner, in_shards = self._finished_shards()
            write_merged(self.out_path, owner, in_shards)
        remove_shards(self._folder, in_shards)

    def _finished_shards(self) -> tuple[Header, dict[range, Path]]:
        def discard(path: Path, damage: DamagedFileError) -> None:
            self.progress.say(f"warning: {damage}; computing it again")
            path.unlink()

        owner, in_shards = finished_shards(
            self._folder, self._header, discard, self.accept_other_code
        )
        return owner or self._header, in_shards

    def _say_what_is_there(self, owner: Header, done: int) -> None:
        if done:
            total = self._header.instances
            self.progress.say(f"continuing: {done} of {total} instances are in {self._folder}")
        if others := self._header.other_codes(owner):
            self.progress.say(f"accepted: shards of other code ({code_in_words(others)})")

    def _compute_until_the_end(self, finished: dict[range, Path]) -> None:
        watch = Watch(self._header)
        whole = None
        while not whole:
            missing = unfinished(watch.checkpoint, finished)
            tasks = [
                self._task(part)
                for instances in missing
                for part in shards(instances, self.shard_size)
            ]
            with closing(self.executor(self.study, tasks)) as done:
                for task in done:
                    finished[task.instances] = task.path
                    self.progress.advance(len(task.instances))
            finished = dict(sorted(finished.items(), key=lambda item: item[0].start))
            whole, words = watch.look(finished)
            if words:
                self.progress.say(words)

    def _task(self, instances: range) -> ShardTask:
        return ShardTask(
            self._header, self.study.maker, self._folder, instances.start, instances.stop
        )
