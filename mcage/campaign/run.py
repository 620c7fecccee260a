"""Run a campaign: compute what is missing, merge, leave one file."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from mcage.campaign import shards
from mcage.campaign.executors import Cutting, Executor, Threads
from mcage.campaign.finished import Finished, Source, finished_instances, results_at, shards_in
from mcage.campaign.merge import is_there, over, write_merged
from mcage.campaign.progress import Progress
from mcage.campaign.status import COMPUTED, FAILED, INTERRUPTED, MERGING, RunRecord, StatusWriter
from mcage.campaign.stopping import Watch
from mcage.campaign.study import ShardTask, Study
from mcage.errors import UserError
from mcage.files.atomic import make_ready, place_of
from mcage.files.inputs import DamagedFileError
from mcage.plain_text import said_by, shortened
from mcage.results.header import Header, code_in_words

# Compute what is missing in a shard folder: all instances, or those of a part.


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
    """

    study: Study
    place: Path
    shard_size: int | None
    progress: Progress
    executor: Executor
    accept_other_code: bool
    part: range | None = None

    @property
    def folder(self) -> Path:
        """The shard folder."""
        return shards.shard_folder(self.place)

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
            As `mcage.campaign.shards.locked`.
        """
        with shards.locked(self.folder, self.part):
            instances = self.part or range(self._header.instances)
            record = RunRecord(
                study=self._header.study,
                of_campaign=self._header.instances,
                first=instances.start,
                last=instances.stop,
                processes=self.executor.workers,
            )
            status = StatusWriter(self.folder, record, self.progress)
            try:
                yield replace(self, progress=status)
            except KeyboardInterrupt:
                if shards.holds_shards(self.folder):
                    words = f"finished instances are in {self.folder}; the same command continues"
                    status.enter(INTERRUPTED)
                else:
                    words = "no instance was finished"
                    if self.part is None:
                        shards.remove_shards(self.folder, ())
                self.progress.say(f"interrupted: {words}")
                raise
            except BaseException as error:
                status.enter(FAILED, said_by(error))
                raise

    def finished(self, results: Source | None, folder: Path | None) -> Finished:
        """Finished parts of the campaign: in a results file, and in the folder if there is one."""

        def discard(path: Path, damage: DamagedFileError) -> None:
            self.progress.say(f"warning: {damage}; computing it again")
            path.unlink()

        if folder:
            shards.clear_abandoned(folder, self.part)
        in_folder = shards_in(folder, discard, part=self.part) if folder else []
        finished = finished_instances(results, in_folder, self._header, self.accept_other_code)
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
            with shards.bench(self.folder, instances) as place:
                if self.part:
                    gaps = finished.missing(self.part.stop)
                    missing = [_common(self.part, gap) for gap in gaps]
                    self._shards(filter(len, missing), sources, cutting, place)
                else:
                    self._until_the_end(sources, cutting, place)
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

    def _until_the_end(self, sources: dict[range, Source], cutting: Cutting, place: Path) -> None:
        watch = Watch(self._header)
        whole = None
        while not whole:
            self._shards(shards.unfinished(watch.checkpoint, sources), sources, cutting, place)
            sources = dict(sorted(sources.items(), key=lambda item: item[0].start))
            whole, words = watch.look(sources)
            if words:
                self.progress.say(words)

    def _shards(
        self, missing: Iterable[range], sources: dict[range, Source], cutting: Cutting, place: Path
    ) -> None:
        """Compute shards on the bench, and take each into the folder."""
        tasks = (
            ShardTask(self._header, self.study.maker, place, shard)
            for shard in cutting.cut(missing)
        )
        with closing(self.executor.run(self.study, tasks)) as made:
            for shard in made:
                cutting.learn(shard)
                path, instances = shards.take(self.folder, shard.task.path), shard.task.instances
                sources[instances] = Source(path, self._header, (instances,))
                self.progress.died(shard.deaths)
                self.progress.advance(len(instances))


def _common(instances: range, others: range) -> range:
    """Instances that two ranges have in common."""
    return range(max(instances.start, others.start), min(instances.stop, others.stop))


# A part of a campaign: some of its instances, beside processes that compute the others.
#
# Parts are what an array of jobs computes on machines that share a file system. Each leaves its
# shards in the folder of the campaign; `mcage.campaign.merge.merge` makes the file of them.


@dataclass(frozen=True)
class Part:
    """Which part of how many equal ones.

    Parameters
    ----------
    number : int
        Its number, 1 ... ``count``.
    count : int
        How many there are.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Part out of words such as ``3/8``.

        Raises
        ------
        UserError
            They name no part.
        """
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise UserError(
                f"--part {shortened(text)}: must be K/N with K from 1 to N, such as 3/8"
            )
        return cls(int(match[1]), int(match[2]))

    def of(self, instances: int) -> range:
        """Ids of the instances of this part of a campaign.

        Raises
        ------
        UserError
            There are more parts than instances.
        """
        if instances < self.count:
            raise UserError(f"--part {self}: {instances} instances make no {self.count} parts")
        first, last = ((n * instances) // self.count for n in (self.number - 1, self.number))
        return range(first, last)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


# A campaign, or a part of it.


def run_campaign(
    study: Study,
    out_path: Path,
    shard_size: int | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    accept_other_code: bool = False,
    part: Part | None = None,
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
    shard_size : int, optional
        Instances of a shard, at least 1; by default so many that it takes some seconds. Earlier
        shards are kept as they are.
    progress : Progress, optional
        Where to report; silent by default.
    executor : Executor, optional
        Where shards are computed; by default in threads of this process.
    accept_other_code : bool
        Whether finished shards, or a finished file, may have been computed by other code; the file
        then says so.
    part : Part, optional
        Compute the instances of a part alone, into the shard folder: no results file is written,
        which `mcage.campaign.merge.merge` does, once all parts are there.

    Returns
    -------
    Path
        ``out_path``; of a part the shard folder, unless the whole campaign is there already.

    Raises
    ------
    UserError
        ``out_path`` cannot be written, or holds something else or more instances; its shard folder
        holds something else, or is in use, by another part only where that has some of the same
        instances; other code computed what is there; a part is to follow a stopping rule. All of
        this is found before anything is computed, but for more instances than a stopping rule
        needs.
    """
    if part and study.header.stopping:
        raise UserError(
            f"--part {part}: only a campaign with all of its instances can decide when "
            "to stop; leave out the stopping rule"
        )
    instances = part.of(study.header.instances) if part else None
    progress, executor = progress or Progress(), executor or Threads()
    place = place_of(out_path, shards.BESIDE)
    run = ShardRun(study, place, shard_size, progress, executor, accept_other_code, instances)
    nothing_beside = instances or not run.folder.exists()
    if nothing_beside and run.is_complete(run.finished(results_at(place), None)):
        return out_path
    with run.at_work() as working:
        if instances is None:
            _complete(working)
            return out_path
        working.compute(working.finished(results_at(place), run.folder))
        working.progress.enter(COMPUTED)
    progress.say(
        f"part {part} is finished: instances {shards.in_words(instances)} are in {run.folder}; "
        f"once all parts are, mcage merge {out_path} makes the file"
    )
    return run.folder


def _complete(run: ShardRun) -> None:
    """Leave the finished file, and no shards."""
    results = results_at(run.place)
    finished = run.finished(results, run.folder)
    if not run.is_complete(finished):
        make_ready(run.place, over(finished))
        run.compute(finished)
        run.progress.enter(MERGING)
        finished = run.finished(results, run.folder)
        write_merged(run.place, finished)
    shards.remove_shards(run.folder, finished.shards)
