"""Run a campaign: compute what is missing, merge, leave one file."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mcage.campaign.executors.threads import Executor, overlapping
from mcage.campaign.finished import (
    Finished,
    ResultsFile,
    ShardFile,
    Source,
    finished_instances,
    results_at,
    shards_in,
)
from mcage.campaign.merge import is_there, over, write_merged
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.shard_folder import (
    BESIDE,
    holds_shards,
    locked,
    remove_shards,
    shard_folder,
)
from mcage.campaign.shards import shards, unfinished
from mcage.campaign.stopping import Watch
from mcage.campaign.study import ShardTask, Study
from mcage.files.atomic import make_ready
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
    was cut into shards. For a finished campaign nothing is computed; to a finished file of fewer
    instances the others are added, and it stays as it is until the new one replaces it. With a
    stopping rule, the campaign ends with the first checkpoint at which it is precise enough.

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
        ``out_path`` cannot be written, or holds something else or more instances; its shard folder
        holds something else, or is in use; other code computed what is there. All of this is found
        before anything is computed, but for more instances than a stopping rule needs.
    """
    progress = progress or Silent()
    place = place_of(out_path, BESIDE)
    folder = shard_folder(place)
    run = _Run(study, place, shard_size, progress, executor, accept_other_code)
    if not folder.exists() and run.is_complete(run.finished(results_at(place), None)):
        return out_path
    with locked(folder):
        try:
            run.complete()
        except KeyboardInterrupt:
            progress.say(_what_stays(folder))
            raise
    return out_path


def _what_stays(folder: Path) -> str:
    """Words about an interrupted campaign, whose folder is removed if nothing is in it."""
    if holds_shards(folder):
        return f"interrupted: finished instances are in {folder}; the same command continues"
    remove_shards(folder, ())
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
        results = results_at(self.out_path)
        finished = self.finished(results, self._folder)
        if not self.is_complete(finished):
            make_ready(self.out_path, over(finished))
            self._say_what_is_there(finished)
            self.progress.start(self._header.instances, finished.count)
            try:
                self._compute_until_the_end(finished)
            finally:
                self.progress.finish()
            finished = self.finished(results, self._folder)
            write_merged(self.out_path, finished)
        remove_shards(self._folder, finished.shards)

    def finished(self, results: ResultsFile | None, folder: Path | None) -> Finished:
        """What is there of the campaign: in a results file, and in the folder if there is one."""

        def discard(path: Path, damage: DamagedFileError) -> None:
            self.progress.say(f"warning: {damage}; computing it again")
            path.unlink()

        shards = shards_in(folder, discard) if folder else []
        finished = finished_instances(results, shards, self._header, self.accept_other_code)
        assert finished is not None  # since the campaign is known
        return finished

    def is_complete(self, finished: Finished) -> bool:
        """Whether nothing is left to do, which is said."""
        if not is_there(self.out_path, finished):
            return False
        others = self._header.other_codes(finished.header)
        by_whom = f", computed by other code ({code_in_words(others)})" if others else ""
        self.progress.say(
            f"{self.out_path} already holds this campaign{by_whom}: nothing to compute"
        )
        return True

    def _say_what_is_there(self, finished: Finished) -> None:
        if finished.count:
            where = self.out_path if finished.results else self._folder
            if finished.results and finished.shards:
                where = Path(f"{where} and {self._folder}")
            total = self._header.instances
            self.progress.say(f"continuing: {finished.count} of {total} instances are in {where}")
        if others := self._header.other_codes(finished.header):
            self.progress.say(f"accepted: results of other code ({code_in_words(others)})")

    def _compute_until_the_end(self, finished: Finished) -> None:
        watch = Watch(self._header)
        sources: dict[range, Source] = dict(finished.sources)
        whole = None
        while not whole:
            tasks = [
                self._task(part)
                for instances in unfinished(watch.checkpoint, sources)
                for part in shards(instances, self.shard_size)
            ]
            with closing(self.executor(self.study, tasks)) as done:
                for task in done:
                    sources[task.instances] = ShardFile(task.path, task.header, task.instances)
                    self.progress.advance(len(task.instances))
            sources = dict(sorted(sources.items(), key=lambda item: item[0].start))
            whole, words = watch.look(sources)
            if words:
                self.progress.say(words)

    def _task(self, instances: range) -> ShardTask:
        return ShardTask(
            self._header, self.study.maker, self._folder, instances.start, instances.stop
        )
