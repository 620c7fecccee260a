"""Where shards are computed: what every place has in common."""

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.errors import UserError
from mcage.results.conform import Arrays

Answer = TypeVar("Answer")

IN_FLIGHT = 2
"""Shards that a worker has begun: while one ends and is written, the next keeps its cores busy."""

TRIES = 3
"""A shard that has ended so many workers is given up."""


@dataclass(frozen=True)
class MadeShard:
    """A shard whose file is written.

    Parameters
    ----------
    task : ShardTask
        What was computed.
    seconds : float
        From the begin of the computation to the whole file.
    worker : str
        Who computed it.
    tries : int
        How many workers have begun it; those before the last have died.
    """

    task: ShardTask
    seconds: float
    worker: str = "this process"
    tries: int = 1


class Executor(Protocol):
    """Carries out tasks, in this process or in others."""

    @property
    def workers(self) -> int:
        """Processes that compute."""

    def study(self, make: Callable[[], Study]) -> Study:
        """Make the study where it will be computed.

        Parameters
        ----------
        make : callable
            Makes it; a value that travels, where other processes compute.
        """

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """Carry out each task, and yield it when its file is written, in any order.

        A task is taken only when it can begin. A shard whose worker dies is computed again by
        another worker.

        Raises
        ------
        UserError
            A worker refuses the study; workers cannot be reached; or a shard has ended `TRIES`
            workers.
        """


def may_begin(begun: Iterable[ShardTask], study: Study) -> bool:
    """Whether a process that computes these shards should begin another one.

    All of its threads have a batch while the last of the oldest shard are computed.
    """
    batches = [-(-len(task.instances) // study.batch) for task in begun]
    return len(batches) < IN_FLIGHT or sum(batches[1:]) < study.threads


def timed(task: ShardTask) -> float:
    """Carry out a task in a worker, and return the seconds that it took.

    What all shards need is made before, and is no part of any.
    """
    study = task.study()
    begin = time.monotonic()
    task.run(study)
    return time.monotonic() - begin


def given_up(task: ShardTask | None, workers: int, last: str) -> UserError:
    """Error that names a shard with which so many workers have died.

    Parameters
    ----------
    task : ShardTask, optional
        The shard; without it, the study that they prepared.
    workers : int
        How many have died.
    last : str
        How the last has died, in words.
    """
    work = f"with instances {in_words(task.instances)}" if task else "while they prepared the study"
    return UserError(
        f"{workers} workers have died {work} ({last}): "
        "finished shards are kept, and the same command tries again"
    )


def described(make: Callable[[], Study]) -> Study:
    """Make a study, and describe it for processes that do not compute it themselves."""
    return replace(make(), compute=_not_here)


def _not_here(first: int, last: int) -> Arrays:
    raise RuntimeError(f"other processes compute instances {first} ... {last - 1}")
