"""What each engine offers: fault maps in, compact outcomes out, cell arrays only on request."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from mcage.engines.packed import Packed, PackedStress
from mcage.engines.policies import Policies
from mcage.engines.programs.learnt import Learnt, ProgramStress
from mcage.engines.programs.programs import Programs
from mcage.engines.programs.runner import ProgramRunner
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, by_kernel
from mcage.engines.tracked_cells import TrackedCells
from mcage.geometry import GCN, SliceGeometry
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import (
    FixedReplay,
    PackedReplay,
    PreparedReplay,
    ProgrammedReplay,
    RedirectedReplay,
)
from mcage.techniques import Technique


class Engine(ABC):
    """Replays traces for batches of instances.

    Fault maps are uint8[instances, entries]: bit b set = block b of that entry is unusable, 0 = the
    entry is reliable. A technique that does not heed them has the same cell times for all
    instances, which are given once (instances = 1).

    Every method refuses a technique that asks for a policy which the engine does not implement.
    """

    name: str
    policies: Policies
    """Policies that the engine implements."""
    batch: int
    """Instances that are worth computing together."""
    threads: int | None = None
    """Threads of the host for which its memory is enough at once; None if there is no limit."""
    busy_threads: int | None = None
    """Threads of the host that can be busy at once with batches whose lives run in kernels: most of
    what remains are short calls that hold Python's lock. None if all can."""

    def __init__(self) -> None:
        self._packed = Packed(self.fixed_times)
        self.programs = Programs(self.program_runner)
        """Long runs of techniques with a placement program."""

    def working(self) -> AbstractContextManager[None]:
        """While the calling thread computes a batch: the engine's memory for it is used again."""
        return nullcontext()

    def check(self, technique: Technique) -> None:
        """Refuse a technique that asks for a policy which this engine does not implement.

        Raises
        ------
        UserError
            One line that names technique, policy and engine.
        """
        self.policies.check(technique, self.name)

    @abstractmethod
    def redirect(self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """Event counts of a technique that redirects."""

    def redirect_each(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Counters:
        """Event counts of a technique that redirects, on one of its kernels for each instance.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            The technique on each kernel.
        kernel, fault_maps : int64[n], uint8[n, entries]
            What each instance runs, and on which map.
        """
        columns = {field.name: np.empty(len(kernel), dtype=np.int64) for field in fields(Counters)}
        columns.pop("passes")
        for number, runs_it in by_kernel(kernel):
            counters = self.redirect(replays[number], fault_maps[runs_it])
            for name, column in columns.items():
                column[runs_it] = getattr(counters, name)
        return Counters(replays[0].passes, **columns)

    @abstractmethod
    def fixed_times(self, replay: FixedReplay) -> CellTimes:
        """Integer cell times where no fault moves a window: those of one slice, for all."""

    @abstractmethod
    def redirected_times(
        self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]
    ) -> CellTimes:
        """Integer cell times of every instance of a technique that redirects."""

    def program_runner(self, replay: ProgrammedReplay) -> ProgramRunner:
        """What runs the placement program of a replay; an engine without one refuses the policy."""
        raise NotImplementedError

    @abstractmethod
    def unpacked_stress(
        self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> StressAccumulator:
        """As `stress`, for replays that are not packed."""

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """Integer cell times of a small batch, for inspection and for fault-free replays."""
        self.check(replay.technique)
        match replay:
            case FixedReplay():
                return self.fixed_times(replay)
            case RedirectedReplay():
                return self.redirected_times(replay, fault_maps)
            case PackedReplay():
                return self._packed.cell_times(replay, fault_maps)
            case ProgrammedReplay():
                return self.programs.cell_times(replay, fault_maps)
        raise TypeError(f"no kind of replay: {type(replay).__name__}")

    def cell_times_each(
        self,
        replays: Sequence[PreparedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Iterator[CellTimes]:
        """Cell times of instances of a technique, each alone and on its kernel: 8 MB at a time.

        Parameters
        ----------
        replays : sequence of PreparedReplay
            The technique on each kernel.
        kernel, fault_maps : int64[n], uint8[n, entries]
            What each instance runs, and on which map.
        """
        for number, fault_map in zip(kernel.tolist(), fault_maps, strict=True):
            yield self.cell_times(replays[number], fault_map[None])

    def learnt(self, replays: Sequence[PreparedReplay], instances: int) -> Learnt | None:
        """What the programs of new instances know; None where no program places values."""
        programmed = [replay for replay in replays if isinstance(replay, ProgrammedReplay)]
        return Learnt(self.programs, programmed, instances) if programmed else None

    def stress(
        self,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> StressAccumulator:
        """Stress times of the cells of a batch of new instances, all zero so far.

        Parameters
        ----------
        duties : FaultFreeDuties
            The technique on each kernel.
        tracked : TrackedCells
            Cells whose times are kept for each cell.
        instances : int
            Size of the batch.
        learnt : Learnt, optional
            What their programs know in each epoch; by default what new slices know.
        """
        self.check(duties.replays[0].technique)
        learnt = learnt or self.learnt(duties.replays, instances)
        if learnt:
            return ProgramStress(learnt, duties, tracked, instances)
        if isinstance(duties.replays[0], PackedReplay):
            return PackedStress(self._packed, duties, tracked, instances)
        return self.unpacked_stress(duties, tracked, instances)

    def count(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """Event counts of any technique for every instance.

        Where a technique redirects nothing, every write stays in its home. The counts of an
        instance are 0 if packed windows find no place on it.
        """
        self.check(replay.technique)
        runs = np.ones(len(fault_maps), dtype=bool)
        match replay:
            case RedirectedReplay():
                return self.redirect(replay, fault_maps)
            case ProgrammedReplay():
                kernel = np.zeros(len(fault_maps), dtype=np.int64)
                return self.programs.count((replay,), kernel, fault_maps)
            case PackedReplay():
                runs = replay.packing.fits(fault_maps)
        schedule = replay.schedule
        waking = schedule.was_compressed & ~schedule.compressed
        wakes = int(waking.sum()) if replay.technique.gates_empty else 0

        def of_all(count: int) -> NDArray[np.int64]:
            return np.where(runs, count, 0).astype(np.int64)

        return Counters(
            passes=1,
            regular=of_all(schedule.writes),
            to_reliable=of_all(0),
            to_faulty=of_all(0),
            lds=of_all(0),
            lds_reads=of_all(0),
            peak_spilled_rows=of_all(0),
            spilled_row_cycles=of_all(0),
            wakeups=of_all(wakes),
        )


def fault_free_maps(instances: int = 1, geometry: SliceGeometry = GCN) -> NDArray[np.uint8]:
    """Fault maps without a fault of slices of a geometry: uint8[instances, entries]."""
    return np.zeros((instances, geometry.entries), dtype=np.uint8)
