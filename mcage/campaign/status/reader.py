"""What campaigns are doing, seen from outside: from their status files and their shards."""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcage.campaign.progress.pace import duration
from mcage.campaign.shard_folder import SUFFIX, shard_folder
from mcage.campaign.shards import NAME, read_owner, shard_range
from mcage.campaign.status.record import (
    COMPUTED,
    COMPUTING,
    MERGING,
    STATUS,
    RunRecord,
    began_at,
)
from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.results.reader import read_header

SILENT_SECONDS = 600.0
"""A run on another machine that has written nothing for so long is taken to have ended."""

FINISHED, KILLED, SILENT, WAITING = "finished", "killed", "silent", "stopped"
"""States besides those that a run writes itself: a results file is there; the process has ended
without a word; nothing was heard of it; shards lie there and no run says that it computes more."""


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
        return tuple(run for run in self.runs if state_of(run) in (COMPUTING, MERGING))

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
        study, instances = _of_shard(shards[0])
    else:
        raise UserError(f"{folder} says nothing yet about its campaign")
    return CampaignStatus(out, study, instances, done, _state(runs), runs)


def _of_shard(path: Path) -> tuple[str, int]:
    try:
        header = read_owner(path)
    except DamagedFileError as damage:
        raise UserError(str(damage)) from damage
    return header.study, header.instances


def _instances(ranges: Iterable[range]) -> int:
    """Number of instances in ranges that may overlap."""
    count = last = 0
    for instances in sorted(ranges, key=lambda r: (r.start, r.stop)):
        count += max(0, instances.stop - max(last, instances.start))
        last = max(last, instances.stop)
    return count


def _state(runs: tuple[RunRecord, ...]) -> str:
    """State of a campaign: that of the run that is most alive."""
    states = [state_of(run) for run in runs]
    for state in (MERGING, COMPUTING):
        if state in states:
            return state
    others = [state for state in states if state != COMPUTED]
    return others[0] if others else COMPUTED if states else WAITING


def state_of(run: RunRecord) -> str:
    """What a run is doing, as far as can be told from here."""
    if run.state not in (COMPUTING, MERGING):
        return run.state
    if run.host == socket.gethostname():
        return run.state if began_at(run.process) == run.process_began else KILLED
    return run.state if seconds_since(run) <= SILENT_SECONDS else SILENT


def seconds_since(run: RunRecord) -> float:
    """Time since a run has last written its status; a clock that was set back counts as no time."""
    return max(0.0, time.time() - run.updated)


def heard(run: RunRecord) -> str:
    """Where a run is, and when it was last heard of, in words."""
    return f"{run.host}, process {run.process}, {duration(seconds_since(run))} ago"
