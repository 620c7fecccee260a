"""Progress that is also written into the status file of a run."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from mcage.campaign.progress import Progress
from mcage.campaign.progress.pace import Clock, Pace
from mcage.campaign.status.record import MESSAGES, RunRecord, WorkerRecord

SECONDS_BETWEEN = 1.0


class StatusWriter:
    """Progress that others may watch: shown as before, and kept in a file.

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

    def __init__(
        self,
        folder: Path,
        record: RunRecord,
        progress: Progress,
        clock: Clock = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = folder / record.name
        self._record = record
        self._progress = progress
        self._clock = clock
        self._wall_clock = wall_clock
        self._pace = Pace(0, 0, clock)
        self._last_written = clock()
        self._begun, self._writable = False, True
        record.began = wall_clock()

    def start(self, total: int, done: int) -> None:
        """Begin to compute."""
        self._progress.start(total, done)
        self._begun = True
        self._pace = Pace(total, done, self._clock)
        self._write()

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""
        self._progress.advance(instances)
        self._pace.advance(instances)
        if self._clock() - self._last_written >= SECONDS_BETWEEN:
            self._write()

    def finished(self, worker: str, instances: int, deaths: int) -> None:
        """Note which worker has finished a shard, before `advance`.

        Parameters
        ----------
        worker : str
            Its name.
        instances : int
            Instances of the shard.
        deaths : int
            Workers that died over this shard.
        """
        of_worker = self._record.workers.setdefault(worker, WorkerRecord())
        of_worker.shards += 1
        of_worker.instances += instances
        of_worker.deaths += deaths
        of_worker.last_seen = self._wall_clock()

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
        if self._begun:
            self._write()

    def _keep(self, message: str) -> None:
        self._record.messages[:] = [*self._record.messages, message][-MESSAGES:]

    def _write(self) -> None:
        record, pace = self._record, self._pace
        record.done = pace.done
        record.instances_per_second, record.seconds_left = pace.per_second, pace.seconds_left
        record.updated = self._wall_clock()
        self._last_written = self._clock()
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.write_text(record.to_json(), encoding="utf-8")
            os.replace(new, self._path)
        except OSError as error:
            if self._writable:
                self._progress.say(f"warning: cannot write {self._path} ({error.strerror})")
            self._writable = False
