"""State of a campaign, in a file beside its shards that any terminal can read."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, ValidationError

from mcage.campaign.finished import campaign_of_folder
from mcage.campaign.progress import Clock, Progress, duration
from mcage.campaign.shards import NAME, STATUS, SUFFIX, shard_folder, shard_range
from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import visible
from mcage.results.reader import read_header

# The status file of a run: what it says, and under which name it lies in the shard folder.

COMPUTING, MERGING, INTERRUPTED, FAILED, COMPUTED = (
    "computing",
    "merging",
    "interrupted",
    "failed",
    "computed",
)
"""State of a run, or how it has ended; a part that is computed waits for the others."""

SILENT_SECONDS = 600.0
"""A run on another machine that has written nothing for so long is taken to have ended."""

FINISHED, KILLED, SILENT, WAITING = "finished", "killed", "silent", "stopped"
"""States besides those that a run writes itself: a results file is there; the process has ended
without a word; nothing was heard of it; shards lie there and no run says that it computes more."""

MESSAGES = 5
"""Last messages that are kept."""


class RunRecord(BaseModel):
    """Content of the status file of a run.

    Parameters
    ----------
    study : str
        Name of the study.
    of_campaign : int
        Number of instances of the campaign.
    first, last : int
        The instances of this run are first ... last - 1: all, or those of a part.
    processes : int
        Processes that compute.
    done : int
        How many of the instances are finished.
    instances_per_second, seconds_left : float, optional
        The rate, and the time until the last instance at this rate; None until some are finished.
    state : str
        What it is doing, or how it has ended.
    deaths : int
        How many workers have died over shards that are finished.
    messages : list of str
        What it said last.
    host, process, process_began : str, int, int
        The process that runs the campaign, and when it began, as its system counts.
    updated : float
        When the run last wrote this, in seconds since 1970.
    """

    study: str
    of_campaign: int
    first: int
    last: int
    processes: int = 1
    done: int = 0
    instances_per_second: float | None = None
    seconds_left: float | None = None
    state: str = COMPUTING
    deaths: int = 0
    messages: list[str] = []
    host: str = Field(default_factory=socket.gethostname)
    process: int = Field(default_factory=os.getpid)
    process_began: int = Field(default_factory=lambda: began_at(os.getpid()) or 0)
    updated: float = 0.0

    @property
    def instances(self) -> range:
        """Ids of the instances of this run."""
        return range(self.first, self.last)

    @property
    def is_whole(self) -> bool:
        """Whether this run computes the whole campaign."""
        return len(self.instances) == self.of_campaign

    @property
    def name(self) -> str:
        """Name of the status file."""
        return "status.json" if self.is_whole else f"status-{self.first}-{self.last - 1}.json"

    @property
    def state_now(self) -> str:
        """State of the run, as far as this process can see."""
        if self.state not in (COMPUTING, MERGING):
            return self.state
        if self.host == socket.gethostname():
            return self.state if began_at(self.process) == self.process_began else KILLED
        return self.state if self.seconds_ago <= SILENT_SECONDS else SILENT

    @property
    def seconds_ago(self) -> float:
        """Time since the run has last written this; a clock that was set back counts as no time."""
        return max(0.0, time.time() - self.updated)

    @property
    def heard(self) -> str:
        """Where the run is, and when it was last heard of, in words."""
        return f"{self.host}, process {self.process}, {duration(self.seconds_ago)} ago"

    @staticmethod
    def read(path: Path) -> "RunRecord":
        """Read a status file.

        Raises
        ------
        UserError
            It cannot be read, or is no status file.
        """
        try:
            return RunRecord.model_validate_json(read_regular(path, MIB), strict=True)
        except UnreadableFileError as error:
            raise UserError(f"{path}: cannot read the status ({error.reason})") from error
        except ValidationError as error:
            raise UserError(f"{path}: is not the status of a campaign") from error


def began_at(process: int) -> int | None:
    """When a process of this machine began, in ticks since the machine did; None if it has ended.

    A number of a process may be given again; with this it names a single process.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *numbers = fields.rpartition(")")[2].split()
    return None if state == "Z" else int(numbers[18])


# Progress that is also written into the status file of a run.


class StatusWriter(Progress):
    """Progress that others may watch: shown as before, and in a file, at most every second.

    The file is replaced as a whole, so that readers see the old record or the new record. It is
    not needed to go on after a kill: a status that cannot be written is said once, and the
    campaign goes on.

    Parameters
    ----------
    folder : Path
        Shard folder.
    record : RunRecord
        What the run is.
    progress : Progress
        Where progress is shown.
    clock, wall_clock : callable
        Seconds that never jump, and seconds since 1970.
    """

    seconds_between: ClassVar = 1.0

    def __init__(
        self,
        folder: Path,
        record: RunRecord,
        progress: Progress,
        clock: Clock = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock)
        self._path = folder / record.name
        self._record = record
        self._progress = progress
        self._wall_clock = wall_clock
        self._writable = True

    def start(self, total: int, done: int) -> None:
        """Begin to compute."""
        self._progress.start(total, done)
        super().start(total, done)

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""
        self._progress.advance(instances)
        super().advance(instances)

    def died(self, workers: int) -> None:
        """Count workers that have died over a shard."""
        self._record.deaths += workers

    def say(self, message: str) -> None:
        """Show a message, and keep it."""
        self._progress.say(message)
        self._keep(message)

    def finish(self) -> None:
        """End the display; what follows is entered."""
        self._progress.finish()

    def enter(self, state: str, words: str = "") -> None:
        """Write that the run does something else now, or has ended; nothing if it never began.

        Parameters
        ----------
        state : str
            What it does now.
        words : str
            Why it has ended.
        """
        self._record.state = state
        if words:
            self._keep(words)
        if self.pace.total:
            self.show()

    def _keep(self, message: str) -> None:
        self._record.messages = [*self._record.messages, visible(message)][-MESSAGES:]

    def show(self) -> None:
        """Write the file."""
        record, pace = self._record, self.pace
        record.done = pace.done
        record.instances_per_second, record.seconds_left = pace.per_second, pace.seconds_left
        record.updated = self._wall_clock()
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.write_text(record.model_dump_json(indent=1), encoding="utf-8")
            os.replace(new, self._path)
        except OSError as error:
            if self._writable:
                self._progress.say(f"warning: cannot write {self._path} ({error.strerror})")
            self._writable = False


# State of campaigns, seen from outside: from their status files and their shards.


@dataclass(frozen=True)
class CampaignStatus:
    """A campaign seen from outside.

    Parameters
    ----------
    out : Path
        Its results file, finished or to be.
    study : str
        Name of the study.
    instances : int
        How many it has.
    done : int
        How many are in finished shards, or in the results file.
    state : str
        What it is doing.
    runs : tuple of RunRecord
        What its runs say: the whole campaign, or a run for each part.
    """

    out: Path
    study: str
    instances: int
    done: int
    state: str
    runs: tuple[RunRecord, ...] = ()

    @property
    def computing(self) -> tuple[RunRecord, ...]:
        """Runs that are at work."""
        return tuple(run for run in self.runs if run.state_now in (COMPUTING, MERGING))

    @property
    def instances_per_second(self) -> float | None:
        """Rate of all runs at work; None until there is a rate."""
        rates = [run.instances_per_second for run in self.computing if run.instances_per_second]
        return sum(rates) if rates else None

    @property
    def seconds_left(self) -> float | None:
        """Time until the last run ends; None while that cannot be told."""
        left = [run.seconds_left for run in self.computing]
        known = [seconds for seconds in left if seconds is not None]
        return max(known) if known and len(known) == len(left) else None

    def plain(self) -> dict[str, Any]:
        """State as plain values, for programs."""
        return {
            "file": str(self.out),
            "study": self.study,
            "state": self.state,
            "done": self.done,
            "instances": self.instances,
            "instances_per_second": self.instances_per_second,
            "seconds_left": self.seconds_left,
            "runs": [run.model_dump() | {"state": run.state_now} for run in self.runs],
        }


def statuses(path: Path) -> list[CampaignStatus]:
    """Campaigns at a place, by the names of their files.

    Parameters
    ----------
    path : Path
        A results file, finished or to be; a shard folder; or a folder that holds such.

    Raises
    ------
    UserError
        There is no campaign, or what is there cannot be read.
    """
    if path.name.endswith(SUFFIX):
        path = path.with_name(path.name.removesuffix(SUFFIX))
    if os.path.isdir(path):
        campaigns = [_status(out) for out in sorted(_campaigns_in(path))]
        if not campaigns:
            raise UserError(f"{path} holds no campaign that is being computed")
        return campaigns
    if not os.path.exists(path) and not os.path.isdir(shard_folder(path)):
        raise UserError(f"there is no campaign {path}: neither the file nor {shard_folder(path)}")
    return [_status(path)]


def _campaigns_in(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.endswith(SUFFIX) and path.is_dir():
            yield path.with_name(path.name.removesuffix(SUFFIX))


def _status(out: Path) -> CampaignStatus:
    folder = shard_folder(out)
    results = read_header(out) if os.path.exists(out) else None
    if results and not os.path.isdir(folder):
        return CampaignStatus(out, results.study, results.instances, results.holds, FINISHED)
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error
    written = (RunRecord.read(p) for p in paths if STATUS.fullmatch(p.name) and p.suffix != ".new")
    runs = tuple(sorted(written, key=lambda run: run.first))
    shards = [path for path in paths if NAME.fullmatch(path.name)]
    held = results.present if results else ()
    done = _instances((*held, *(shard_range(path) for path in shards)))
    if runs:
        study, instances = runs[0].study, runs[0].of_campaign
    elif shards:
        header = campaign_of_folder(folder)
        study, instances = header.study, header.instances
    else:
        raise UserError(f"{folder} says nothing yet about its campaign")
    return CampaignStatus(out, study, instances, done, _state(runs, done < instances), runs)


def _instances(ranges: Iterable[range]) -> int:
    """Number of instances in ranges that may overlap."""
    count = last = 0
    for instances in sorted(ranges, key=lambda r: (r.start, r.stop)):
        count += max(0, instances.stop - max(last, instances.start))
        last = max(last, instances.stop)
    return count


def _state(runs: tuple[RunRecord, ...], is_partial: bool) -> str:
    """State of a campaign: that of the run that is most alive; computed with all instances only."""
    states = [run.state_now for run in runs]
    for state in (MERGING, COMPUTING):
        if state in states:
            return state
    others = [state for state in states if state != COMPUTED]
    return others[0] if others else WAITING if is_partial or not states else COMPUTED
