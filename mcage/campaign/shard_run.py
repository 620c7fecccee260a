"""Compute what is missing in a shard folder: all instances, or those of a part."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mcage.campaign.executors.bench import bench, clear_abandoned, take
from mcage.campaign.executors.cutting import Cutting
from mcage.campaign.executors.executor import Executor
from mcage.campaign.finished import Finished, finished_instances
from mcage.campaign.merge import is_there
from mcage.campaign.progress import Progress
from mcage.campaign.shard_folder import holds_shards, locked, remove_shards, shard_folder
from mcage.campaign.shards import split, unfinished
from mcage.campaign.sources.files import ResultsFile, ShardFile, Source, shards_in
from mcage.campaign.status.record import FAILED, INTERRUPTED, RunRecord
from mcage.campaign.status.writer import StatusWriter
from mcage.campaign.stopping import Watch
from mcage.campaign.study import ShardTask, Study
from mcage.files.checksum import DamagedFileError
from mcage.plain_text import said_by
from mcage.results.header import Header, code_in_words


@dataclass(frozen=True)
class ShardRun:
    """A run that computes shards in a folder that this process has locked.

    Parameters
    ----------
    study : Study
        What is computed.
    place : Path
        Results file of the campaign.
    shard_size : int or None
        Instances of a shard; None: so many that it takes some seconds.
    progress : Progress
        Where to report.
    executor : Executor
        Where shards are computed.
    accept_other_code : bool
        Whether what is finished may have been computed by other code.
    part : range, optional
        Instances that this process computes, while others may compute others; by default all.
    status : StatusWriter, optional
        What writes the status file, while the run is at work.
    """

    study: Study
    place: Path
    shard_size: int | None
    progress: Progress
    executor: Executor
    accept_other_code: bool
    part: range | None = None
    status: StatusWriter | None = None

    @property
    def folder(self) -> Path:
        """The shard folder."""
        return shard_folder(self.place)

    @property
    def _header(self) -> Header:
        return self.study.header

    @contextmanager
    def at_work(self) -> Iterator["ShardRun"]:
        """Lock the folder, and keep there what the run is doing; say what stays if it is stopped.

        Yields
        ------
        ShardRun
            The run, whose progress also goes to the status file.

        Raises
        ------
        UserError
            As `mcage.campaign.shard_folder.locked`.
        """
        with locked(self.folder, self.part):
            status = StatusWriter(self.folder, self._record(), self.progress)
            try:
                yield replace(self, progress=status, status=status)
            except KeyboardInterrupt:
                self._interrupted(status)
                raise
            except BaseException as error:
                status.enter(FAILED, said_by(error))
                raise

    def _record(self) -> RunRecord:
        instances, header = self.part or range(self._header.instances), self._header
        return RunRecord(
            header.study,
            header.spec_digest,
            header.instances,
            instances.start,
            instances.stop,
            self.executor.workers,
        )

    def _interrupted(self, status: StatusWriter) -> None:
        if holds_shards(self.folder):
            words = f"finished instances are in {self.folder}; the same command continues"
            status.enter(INTERRUPTED)
        else:
            words = "no instance was finished"
            if self.part is None:
                remove_shards(self.folder, ())
        self.progress.say(f"interrupted: {words}")

    def finished(self, results: ResultsFile | None, folder: Path | None) -> Finished:
        """What is there of the campaign: in a results file, and in the folder if there is one."""

        def discard(path: Path, damage: DamagedFileError) -> None:
            self.progress.say(f"warning: {damage}; computing it again")
            path.unlink()

        if folder:
            clear_abandoned(folder, self.part)
        shards = shards_in(folder, discard, part=self.part) if folder else []
        finished = finished_instances(results, shards, self._header, self.accept_other_code)
        assert finished is not None  # since the campaign is known
        return finished

    def is_complete(self, finished: Finished) -> bool:
        """Whether nothing is left to do, which is said."""
        if not is_there(self.place, finished):
            return False
        others = self._header.other_codes(finished.header)
        by_whom = f", computed by other code ({code_in_words(others)})" if others else ""
        self.progress.say(f"{self.place} already holds this campaign{by_whom}: nothing to compute")
        return True

    def compute(self, finished: Finished) -> None:
        """Compute what is missing, until the stopping rule ends it, if there is one.

        Parameters
        ----------
        finished : Finished
            What is there already.
        """
        instances = self.part or range(self._header.instances)
        done = sum(len(_common(instances, held)) for held in finished.sources)
        self._say_what_is_there(finished, done, len(instances))
        self.progress.start(len(instances), done)
        cutting = Cutting(self.study, self.executor.workers, self.shard_size)
        sources = dict(finished.sources)
        try:
            with bench(self.folder, instances) as place:
                if self.part:
                    gaps = finished.missing(self.part.stop)
                    missing = [_common(self.part, gap) for gap in gaps]
                    missing = split(filter(len, missing), finished.sums_of)
                    self._shards(missing, sources, cutting, place)
                else:
                    self._until_the_end(finished.sums_of, sources, cutting, place)
        finally:
            self.progress.finish()

    def _say_what_is_there(self, finished: Finished, done: int, total: int) -> None:
        if done:
            where = self.place if finished.results else self.folder
            if finished.results and finished.shards:
                where = Path(f"{where} and {self.folder}")
            self.progress.say(f"continuing: {done} of {total} instances are in {where}")
        if others := self._header.other_codes(finished.header):
            self.progress.say(f"accepted: results of other code ({code_in_words(others)})")

    def _until_the_end(
        self,
        borders: Sequence[range],
        sources: dict[range, Source],
        cutting: Cutting,
        place: Path,
    ) -> None:
        watch = Watch(self._header)
        whole = None
        while not whole:
            missing = split(unfinished(watch.checkpoint, sources), borders)
            self._shards(missing, sources, cutting, place)
            sources = dict(sorted(sources.items(), key=lambda item: item[0].start))
            whole, words = watch.look(sources)
            if words:
                self.progress.say(words)

    def _shards(
        self, missing: Iterable[range], sources: dict[range, Source], cutting: Cutting, place: Path
    ) -> None:
        """Compute shards on the bench, and take each into the folder."""
        tasks = (
            ShardTask(self._header, self.study.maker, place, shard.start, shard.stop)
            for shard in cutting.cut(missing)
        )
        with closing(self.executor.run(self.study, tasks)) as made:
            for shard in made:
                cutting.learn(shard)
                path, instances = take(self.folder, shard.task.path), shard.task.instances
                sources[instances] = ShardFile(path, self._header, instances)
                if self.status:
                    self.status.finished(shard.worker, len(instances), shard.tries - 1)
                self.progress.advance(len(instances))


def _common(instances: range, others: range) -> range:
    """Instances that two ranges have in common."""
    return range(max(instances.start, others.start), min(instances.stop, others.stop))
