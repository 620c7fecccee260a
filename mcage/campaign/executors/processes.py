"""Shards in processes of this machine, each with its share of the cores and a device of its own.

A worker that dies is replaced, and what it had begun is computed again: by a worker that computes
nothing else meanwhile, so that it becomes clear which shard has ended it.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from multiprocessing.connection import wait
from types import TracebackType
from typing import Self

from mcage.campaign.executors.executor import (
    TRIES,
    Answer,
    MadeShard,
    described,
    given_up,
    may_begin,
)
from mcage.campaign.executors.worker_process import Failed, Say, WorkerProcess
from mcage.campaign.shards import in_words
from mcage.campaign.study import ShardTask, Study
from mcage.concurrency import usable_cores


class Processes:
    """Computes in processes of this machine, until it is left.

    Parameters
    ----------
    number : int
        How many.
    devices : sequence of int
        Numbers of CUDA devices; the processes take turns with them. If there are none, each sees
        all devices.
    say : callable, optional
        Is told of workers that die.
    """

    def __init__(self, number: int, devices: Sequence[int] = (), say: Say | None = None) -> None:
        self._say = say or (lambda _: None)
        cores = max(1, usable_cores() // number)
        self._crew = [
            WorkerProcess(
                f"worker {place + 1}", cores, devices[place % len(devices)] if devices else None
            )
            for place in range(number)
        ]

    @property
    def workers(self) -> int:
        """As `Executor.workers`."""
        return len(self._crew)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._crew:
            worker.end()

    def ask(self, function: Callable[[], Answer]) -> Answer:
        """Call a function in a worker, and return what it returns.

        Parameters
        ----------
        function : callable
            A value that travels; so does its result.

        Raises
        ------
        Exception
            As the function does.
        UserError
            The function has ended `TRIES` workers.
        """
        worker = self._crew[0]
        deaths = 0
        while True:
            worker.start()
            try:
                while not worker.ready:
                    worker.receive()
                worker.send(function)
                _, answer = worker.receive()
            except EOFError as death:
                deaths += worker.ready  # otherwise it was not at work yet
                last = worker.end()
                if deaths == TRIES:
                    raise given_up(None, deaths, last) from death
                self._say(f"{worker.name} has died ({last}) and is replaced")
                continue
            if isinstance(answer, Failed):
                raise answer.error
            result: Answer = answer
            return result

    def study(self, make: Callable[[], Study]) -> Study:
        """As `Executor.study`."""
        return self.ask(partial(described, make))

    def run(self, study: Study, tasks: Iterable[ShardTask]) -> Generator[MadeShard, None, None]:
        """As `Executor.run`.

        A caller that is interrupted does not wait for the shards in flight: their workers end.
        """
        for worker in self._crew:
            worker.start()
        try:
            yield from _Run(self._crew, self._say, study, tasks).finished()
        finally:
            for worker in self._crew:
                if worker.begun:
                    worker.end()


class _Run:
    """Tasks on their way through the workers."""

    def __init__(
        self, crew: Sequence[WorkerProcess], say: Say, study: Study, tasks: Iterable[ShardTask]
    ) -> None:
        self._crew = crew
        self._say = say
        self._study = study
        self._to_do = iter(tasks)
        self._all_taken = False
        self._again: deque[tuple[ShardTask, int]] = deque()
        self._failure: BaseException | None = None

    def finished(self) -> Generator[MadeShard, None, None]:
        while True:
            for worker in self._crew:
                self._hand_out(worker)
            waiting = [w for w in self._crew if w.begun or (self._more and not w.ready)]
            if not waiting:
                break
            ready = wait([worker.connection for worker in waiting])
            for worker in waiting:
                if worker.connection in ready:
                    yield from self._heard(worker)
        if self._failure:  # a defect of one shard loses no other
            raise self._failure

    @property
    def _more(self) -> bool:
        """Whether there is something to hand out."""
        return not self._failure and bool(self._again or not self._all_taken)

    def _hand_out(self, worker: WorkerProcess) -> None:
        while worker.ready and self._more and (task := self._next(worker)):
            try:
                worker.begin(*task)
            except EOFError:
                self._replace(worker)

    def _next(self, worker: WorkerProcess) -> tuple[ShardTask, int] | None:
        """What a worker should begin, and how many workers this task has ended."""
        if self._again:
            return None if worker.begun else self._again.popleft()
        if worker.is_suspicious or not may_begin(worker.tasks, self._study):
            return None
        task = next(self._to_do, None)
        self._all_taken = task is None
        return (task, 0) if task else None

    def _heard(self, worker: WorkerProcess) -> Generator[MadeShard, None, None]:
        try:
            first, answer = worker.receive()
        except EOFError:
            self._replace(worker)
            return
        if first not in worker.begun:  # it has said that it is ready
            return
        task, ended = worker.begun.pop(first)
        if isinstance(answer, Failed):
            self._failure = self._failure or answer.error
        else:
            yield MadeShard(task, answer, worker.name, ended + 1)

    def _replace(self, worker: WorkerProcess) -> None:
        """Start a worker anew, and note which shards it may have died of."""
        begun = tuple(worker.begun.values())
        how = worker.end()
        words = ", ".join(in_words(task.instances) for task, _ in begun)
        and_its = f"; its shards ({words}) are computed again" if begun else ""
        self._say(f"warning: {worker.name} has died ({how}) and is replaced{and_its}")
        for task, ended in begun:
            if ended + 1 == TRIES:
                self._failure = self._failure or given_up(task, TRIES, f"the last by {how}")
            else:
                self._again.append((task, ended + 1))
        worker.start()
