"""Where shards are computed, and how they are handed out."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.errors import UserError
from mcage.results.header import Header
from mcage.results.variable import dimension_sizes
from mcage.results.writer import Arrays

# Where shards are computed: what every place has in common.

Answer = TypeVar("Answer")
Say = Callable[[str], None]

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
    deaths : int
        How many workers have died over it.
    """

    task: ShardTask
    seconds: float
    deaths: int = 0


class WorkerDiedError(Exception):
    """A worker has died before it has answered.

    Parameters
    ----------
    worker : str
        Its name.
    how : str
        How it has died, in words.
    deaths : int
        How many workers the call may have ended: none where this one was not at work yet.
    """

    def __init__(self, worker: str, how: str, deaths: int) -> None:
        super().__init__(f"{worker} has died ({how})")
        self.how, self.deaths = how, deaths


class Executor(ABC):
    """Carries out tasks, in this process or in others.

    Parameters
    ----------
    say : callable, optional
        Receives messages about workers that die, or are missing.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say or (lambda _: None)

    @property
    @abstractmethod
    def workers(self) -> int:
        """Processes that compute."""

    @abstractmethod
    def submit(self, function: Callable[[], Answer]) -> "Future[Answer]":
        """Have a function called by the worker that has least to do.

        Parameters
        ----------
        function : callable
            A value that travels, where other processes compute; so is its result.

        Returns
        -------
        Future
            Its result, its error, or a `WorkerDiedError`.
        """

    def ask(self, function: Callable[[], Answer]) -> Answer:
        """Call a function in a worker, and return what it returns.

        Raises
        ------
        Exception
            As the function does.
        UserError
            The function has ended `TRIES` workers, or workers cannot be reached.
        """
        deaths = 0
        while True:
            future = self.submit(function)
            self._finished([future])
            try:
                return self._result(future)
            except WorkerDiedError as death:
                deaths += death.deaths
                if deaths >= TRIES:
                    raise given_up(None, deaths, death.how) from death
                self._say(f"warning: {death}, and is replaced")

    def study(self, make: Callable[[], Study]) -> Study:
        """Make the study where it will be computed.

        Parameters
        ----------
        make : callable
            Makes it; a value that travels, where other processes compute.

        Raises
        ------
        UserError
            As `ask`.
        """
        return self.ask(partial(described, make))

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """Carry out each task, and yield it when its file is written, in any order.

        A task is taken only when it can begin. A shard whose worker dies is computed again, and
        nothing beside it, so that it becomes clear which shard has ended the worker. A caller that
        is interrupted does not wait for the shards in flight.

        Raises
        ------
        UserError
            A worker refuses the study; workers cannot be reached; or a shard has ended `TRIES`
            workers.
        """
        yield from self._handed_out(study, tasks, timed)

    def _handed_out(
        self, study: Study, tasks: Iterable[ShardTask], make: Callable[[ShardTask], float]
    ) -> Generator[MadeShard, None, None]:
        to_do, suspects = iter(tasks), deque[tuple[ShardTask, int]]()
        begun: dict[Future[float], tuple[ShardTask, int]] = {}
        failure: BaseException | None = None

        def begin(task: ShardTask, deaths: int) -> None:
            begun[self.submit(partial(make, task))] = task, deaths

        try:
            while True:
                while not (suspects or failure) and self._may_begin(
                    [task for task, _ in begun.values()], study
                ):
                    task = next(to_do, None)
                    if task is None:
                        break
                    begin(task, 0)
                alone = bool(suspects) and not begun and not failure
                if alone:
                    begin(*suspects.popleft())
                if not begun:
                    break
                for future in self._finished(begun):
                    task, deaths = begun.pop(future)
                    try:
                        seconds = self._result(future)
                    except WorkerDiedError as death:
                        deaths += death.deaths
                        if alone and deaths >= TRIES:
                            raise given_up(task, deaths, death.how) from death
                        self._say(
                            f"warning: {death} with instances {in_words(task.instances)}, which "
                            "are computed again"
                        )
                        suspects.append((task, deaths))
                    except BaseException as error:
                        if future.cancelled() or error is not future.exception():
                            raise
                        failure = failure or error  # a defect of one shard loses no other
                    else:
                        yield MadeShard(task, seconds, deaths)
        finally:
            for future in begun:
                future.cancel()
        if failure:
            raise failure

    def _may_begin(self, begun: Sequence[ShardTask], study: Study) -> bool:
        """Whether there is a worker for another shard, if all of them have equally many.

        All of its threads have a batch while the last of its oldest shard are computed.
        """
        workers = max(1, self.workers)
        batches = [-(-len(task.instances) // study.batch) for task in begun[workers - 1 :: workers]]
        return len(batches) < IN_FLIGHT or sum(batches[1:]) < study.threads

    def _finished(self, begun: "Collection[Future[Any]]") -> "set[Future[Any]]":
        """Wait for the next of what was begun."""
        return wait(begun, return_when=FIRST_COMPLETED).done

    def _result(self, future: "Future[Answer]") -> Answer:
        """Result of a function."""
        return future.result()


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


class Threads(Executor):
    """Computes in this process, several shards at a time.

    Compiled code cannot be stopped: shards that are being computed when a caller is interrupted are
    dropped as soon as they are ready. A shard that is being written is waited for.
    """

    workers = 1

    def submit(self, function: Callable[[], Answer]) -> "Future[Answer]":
        """As `Executor.submit`."""
        return self._pool.submit(function)

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        return make()

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`."""
        self._pool = ThreadPoolExecutor(IN_FLIGHT + study.threads)
        writing, is_open = Lock(), True

        def make(task: ShardTask) -> float:
            begin = time.monotonic()
            arrays = study.compute(task.instances.start, task.instances.stop)
            with writing:
                if is_open:
                    task.write(arrays)
            return time.monotonic() - begin

        try:
            yield from self._handed_out(study, tasks, make)
        finally:
            with writing:
                is_open = False
            self._pool.shutdown(wait=False, cancel_futures=True)
