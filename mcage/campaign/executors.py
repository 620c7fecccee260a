"""Where shards are computed."""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np

from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.errors import UserError
from mcage.results.header import Header
from mcage.results.variable import dimension_sizes
from mcage.results.writer import Arrays

# Where shards are computed: what every place has in common.

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


# How many instances a shard holds, chosen from the time that earlier shards have taken.
#
# Results do not depend on it. A shard should take some seconds: few enough that a kill costs
# little, so many that writing, moving and reading it do not count. At first nothing is known,
# least of all what compiling and preparing will take; so the first shards are small, and the size
# follows the fastest of the last few.

SECONDS = 4.0
"""Time that a shard should take."""

GROWTH = 8
"""A shard is at most so many times as large as the largest before it."""

REMEMBERED = 4
"""Shards whose times are looked at."""

MOST_BYTES = 8 << 20
"""Largest shard, in memory and on disk."""


class Cutting:
    """Cuts instances into shards.

    Parameters
    ----------
    study : Study
        What is computed.
    workers : int
        Processes that compute: the last shards are so small that all end together.
    fixed : int, optional
        Instances of a shard, if the user wants that size.
    """

    def __init__(self, study: Study, workers: int, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._workers = max(1, workers)
        self._batch = study.batch
        self._most = max(study.batch, MOST_BYTES // bytes_of_instance(study.header))
        self._largest = 0
        self._seconds_each: deque[float] = deque(maxlen=REMEMBERED)

    def learn(self, made: MadeShard) -> None:
        """Take note of the time of a shard."""
        instances = len(made.task.instances)
        self._largest = max(self._largest, instances)
        self._seconds_each.append(made.seconds / instances)

    def cut(self, missing: Iterable[range]) -> Iterator[range]:
        """Cut ranges of instances into shards; the size of each is chosen when it is asked for."""
        ranges = list(missing)
        remaining = sum(map(len, ranges))
        for instances in ranges:
            first = instances.start
            while first < instances.stop:
                last = min(first + self._size(remaining), instances.stop)
                yield range(first, last)
                remaining -= last - first
                first = last

    def _size(self, remaining: int) -> int:
        if self._fixed:
            return self._fixed
        if not self._seconds_each:
            return self._batch
        by_time = SECONDS / max(min(self._seconds_each), 1e-9)
        size = min(by_time, GROWTH * self._largest, remaining / self._workers, self._most)
        return max(1, int(size) // self._batch) * self._batch


def bytes_of_instance(header: Header) -> int:
    """Bytes that an instance adds to the arrays of a shard, at least 1."""
    sizes = dimension_sizes(header.coordinates) | {"instance": 1}
    return max(
        1,
        sum(
            int(np.prod(variable.shape(sizes))) * np.dtype(variable.dtype).itemsize
            for variable in header.variables
            if variable.per_instance
        ),
    )


# Shards in threads of this process, which share the study, with all that it has prepared.


class Threads:
    """Computes in this process, several shards at a time."""

    workers = 1

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        return make()

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`.

        A caller that is interrupted does not wait for the shards in flight: these are dropped as
        soon as they are computed.
        """
        to_do = iter(tasks)
        begun: dict[Future[float], ShardTask] = {}
        shards = _Shards(study)
        pool = ThreadPoolExecutor(IN_FLIGHT + study.threads)
        try:
            while True:
                while may_begin(begun.values(), study) and (task := next(to_do, None)):
                    begun[pool.submit(shards.make, task)] = task
                if not begun:
                    return
                for future in wait(begun, return_when=FIRST_COMPLETED).done:
                    if future.exception():
                        pool.shutdown()  # a defect of one shard loses no other
                    yield MadeShard(begun.pop(future), future.result())
        finally:
            shards.close()
            pool.shutdown(wait=False, cancel_futures=True)


class _Shards:
    """Computes shards and writes them, from any thread, until it is closed.

    Compiled code cannot be stopped: a shard that is being computed when this is closed is dropped
    as soon as it is ready. Closing waits for a shard that is being written.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._writing = Lock()
        self._open = True

    def make(self, task: ShardTask) -> float:
        """Compute and write a shard; return the seconds that it took."""
        begin = time.monotonic()
        arrays = self._study.compute(task.first, task.last)
        with self._writing:
            if self._open:
                task.write(arrays)
        return time.monotonic() - begin

    def close(self) -> None:
        with self._writing:
            self._open = False
