"""What the placement programs of a batch of instances have learnt, from epoch to epoch.

In an epoch each instance begins with the state that the long run of its epoch before has left, and
all that is asked of the epoch begins with it: events on any fault map, times of cells. A state is
therefore that of the passes that were run, not of all passes of a life.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from mcage.engines.programs.programs import Programs
from mcage.engines.programs.runner import Integers
from mcage.engines.stress import DenseStress, FaultFreeDuties, SliceTimes
from mcage.engines.tracked_cells import TrackedCells
from mcage.errors import UserError
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay, ProgrammedReplay


class Learnt:
    """States of the programs of a batch of instances; those of new slices know nothing.

    Parameters
    ----------
    programs : Programs
        Long runs on an engine.
    replays : tuple of ProgrammedReplay
        The technique on each kernel.
    instances : int
        Size of the batch.
    """

    def __init__(
        self, programs: Programs, replays: Sequence[ProgrammedReplay], instances: int
    ) -> None:
        self._programs, self._replays = programs, replays
        self._states = np.zeros((instances, sum(replays[0].lengths)), dtype=np.int64)

    @property
    def differs(self) -> bool:
        """Whether instances differ although they have no faults: each has its own history."""
        return self._states.shape[1] > 0

    def states_of(self, instances: NDArray[np.int64]) -> Integers:
        """What programs of instances know at the start of their epochs: int64[n, words]."""
        states: Integers = self._states[instances]
        return states

    def count(
        self,
        replays: Sequence[PreparedReplay],
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Counters:
        """Events of instances, each on a kernel of `replays` and a fault map."""
        return self._programs.count(replays, kernel, fault_maps, self.states_of(instances))

    def begin(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> None:
        """Let instances begin an epoch: their long runs are worked out, whose events are counted.

        What is wrong with a long run is said when its times are asked for.
        """
        each = zip(instances.tolist(), kernel.tolist(), fault_maps, strict=True)
        with suppress(UserError):
            for instance, number, fault_map in each:
                state = self._states[instance]
                self._programs.long_run(self._replays[number], fault_map, state)

    def cell_times(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Iterator[CellTimes]:
        """Cell times of instances, each alone, on a kernel and a fault map."""
        each = zip(instances.tolist(), kernel.tolist(), fault_maps, strict=True)
        for instance, number, fault_map in each:
            state = self._states[instance]
            yield self._programs.cell_times(self._replays[number], fault_map[None], state[None])

    def slice_times(
        self, instance: int, replay: PreparedReplay, fault_map: NDArray[np.uint8]
    ) -> SliceTimes:
        """Times of an instance on a replay and a fault map."""
        run = self._programs.long_run(replay, fault_map, self._states[instance])
        return run.ones, run.powered, run.passes * replay.cycles

    def advance(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> None:
        """Let instances go on to the next epoch, after one of a kernel on a fault map."""
        if not self.differs:
            return
        each = zip(instances.tolist(), kernel.tolist(), fault_maps, strict=True)
        for instance, number, fault_map in each:
            state = self._states[instance]
            run = self._programs.long_run(self._replays[number], fault_map, state)
            self._states[instance] = run.state


class ProgramStress(DenseStress):
    """Stress times of instances whose placement a program decides.

    Parameters
    ----------
    learnt : Learnt
        What the instances have learnt.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self, learnt: Learnt, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._learnt = learnt

    def _are_alone(
        self, instances: NDArray[np.int64], fault_maps: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        if self._learnt.differs:
            return np.ones(len(instances), dtype=bool)
        return super()._are_alone(instances, fault_maps)

    def _times(
        self, replay: PreparedReplay, fault_map: NDArray[np.uint8], instance: int
    ) -> SliceTimes:
        return self._learnt.slice_times(instance, replay, fault_map)
