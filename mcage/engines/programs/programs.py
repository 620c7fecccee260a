"""Techniques with a placement program on any engine, which lends it a runner.

What an instance has learnt is a row of int64[n, words]: the state of its program at the start of
the epoch that it lives in.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import usable_cores
from mcage.engines.programs.long_run import CountedEvents, LongRun, counted_events, long_run
from mcage.engines.programs.runner import COUNTERS, Integers, ProgramRunner
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay, ProgrammedReplay

PROGRAM_BATCH = 16
"""Instances in a batch: the long runs of their latest epoch are kept, 4 MB each."""

_RUNNERS = 32
"""Kernels whose runners are kept."""

Value = TypeVar("Value")


class Programs:
    """Long runs of placement programs, the latest of which are kept; for any number of threads.

    Parameters
    ----------
    runner_of : callable
        The engine's runner of a replay.
    """

    def __init__(self, runner_of: Callable[[ProgrammedReplay], ProgramRunner]) -> None:
        self._runner_of = runner_of
        self._runners: _Recent[ProgramRunner] = _Recent(_RUNNERS)
        self._runs: _Recent[LongRun] = _Recent(PROGRAM_BATCH * usable_cores())

    def long_run(
        self, replay: PreparedReplay, fault_map: NDArray[np.uint8], state: Integers | None = None
    ) -> LongRun:
        """Long run of a slice.

        Parameters
        ----------
        replay : ProgrammedReplay
            A technique with a program on a trace.
        fault_map : uint8[entries]
            Fault map.
        state : int64[words], optional
            What the program knows at the beginning; by default nothing.

        Raises
        ------
        UserError
            See `mcage.engines.programs.long_run.long_run`.
        """
        runner, known = self._begun(replay, state)
        key = replay, fault_map.tobytes(), known.tobytes()
        return self._runs.of(key, lambda: long_run(runner, fault_map, known))

    def _events(
        self, replay: PreparedReplay, fault_map: NDArray[np.uint8], state: Integers | None
    ) -> CountedEvents:
        """Events of a slice."""
        runner, known = self._begun(replay, state)
        run = self._runs.known((replay, fault_map.tobytes(), known.tobytes()))
        return run.events if run else counted_events(runner, fault_map, known)

    def _begun(
        self, replay: PreparedReplay, state: Integers | None
    ) -> tuple[ProgramRunner, Integers]:
        """Runner of a replay, and the state that it begins with."""
        assert isinstance(replay, ProgrammedReplay)
        runner = self._runners.of(replay, lambda: self._runner_of(replay))
        return runner, np.zeros(sum(replay.lengths), np.int64) if state is None else state

    def count(
        self,
        replays: Sequence[PreparedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        states: Integers | None = None,
    ) -> Counters:
        """Events of instances that run the kernels ``kernel`` int64[n]; see `counted_events`.

        Those of a long run that is kept are known.
        """
        counted, passes = np.zeros((len(kernel), COUNTERS), np.int64), np.ones_like(kernel)
        for place, number in enumerate(kernel.tolist()):
            state = None if states is None else states[place]
            counted[place], passes[place] = self._events(replays[number], fault_maps[place], state)
        return Counters(passes, *counted.T)

    def cell_times(
        self,
        replay: PreparedReplay,
        fault_maps: NDArray[np.uint8],
        states: Integers | None = None,
    ) -> CellTimes:
        """Cell times of instances; the period of each is that of the passes of its long run."""
        known = [None] * len(fault_maps) if states is None else list(states)
        runs = [
            self.long_run(replay, fault_map, state)
            for fault_map, state in zip(fault_maps, known, strict=True)
        ]
        return CellTimes(
            np.stack([run.ones for run in runs]).astype(np.int64),
            np.stack([run.powered for run in runs]).astype(np.int64),
            np.array([run.passes * replay.cycles for run in runs], dtype=np.int64),
        )


class _Recent(Generic[Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def known(self, key: Hashable) -> Value | None:
        """Return the value of a key; None if it is not kept any more."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made anew if it is not kept any more."""
        value = self.known(key)
        if value is not None:
            return value
        value = make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
