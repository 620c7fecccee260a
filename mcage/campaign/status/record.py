"""The status file of a run: what it says, and under which name it lies in the shard folder."""

import os
import re
import socket
from dataclasses import asdict, dataclass, field
from functools import cache
from json import dumps
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular

STATUS = re.compile(r"status(-\d+-\d+)?\.json(\.new)?")
"""Names of status files, those that are being written among them."""

COMPUTING, MERGING, INTERRUPTED, FAILED, COMPUTED = STATES = (
    "computing",
    "merging",
    "interrupted",
    "failed",
    "computed",
)
"""What a run is doing, or how it has ended; a part that is computed waits for the others."""

MESSAGES = 5
"""Last messages that are kept."""


@dataclass
class WorkerRecord:
    """What a worker has done.

    Parameters
    ----------
    shards, instances : int
        What it has finished.
    deaths : int
        How many workers have died over these shards before they were finished.
    last_seen : float
        When it last finished a shard, in seconds since 1970.
    """

    shards: int = 0
    instances: int = 0
    deaths: int = 0
    last_seen: float = 0.0


@dataclass
class RunRecord:
    """What the status file of a run says.

    Parameters
    ----------
    study, spec_digest : str
        The campaign.
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
        One of `STATES`.
    workers : dict of str to WorkerRecord
        Workers by name.
    messages : list of str
        What it said last.
    host, process, process_began : str, int, int
        The process that runs the campaign, and when it began, as its system counts.
    began, updated : float
        When the run began and when it last wrote this, in seconds since 1970.
    """

    study: str
    spec_digest: str
    of_campaign: int
    first: int
    last: int
    processes: int = 1
    done: int = 0
    instances_per_second: float | None = None
    seconds_left: float | None = None
    state: str = COMPUTING
    workers: dict[str, WorkerRecord] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)
    process_began: int = field(default_factory=lambda: began_at(os.getpid()) or 0)
    began: float = 0.0
    updated: float = 0.0

    @property
    def name(self) -> str:
        """Name of the status file."""
        if self.last - self.first == self.of_campaign:
            return "status.json"
        return f"status-{self.first}-{self.last - 1}.json"

    @property
    def deaths(self) -> int:
        """How many workers have died."""
        return sum(worker.deaths for worker in self.workers.values())

    def to_json(self) -> str:
        """Text of the file."""
        return dumps(asdict(self), indent=1)

    @staticmethod
    def read(path: Path) -> "RunRecord":
        """Read a status file.

        Raises
        ------
        UserError
            It cannot be read, or is no status file.
        """
        try:
            return _type().validate_json(read_regular(path, MIB), strict=True)
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


@cache
def _type() -> TypeAdapter[RunRecord]:
    return TypeAdapter(RunRecord)
