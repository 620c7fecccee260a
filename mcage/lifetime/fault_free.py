"""Replays of each kernel on a fault-free slice, made once for all instances.

Where a slice holds its values while it is idle, cells live through longer passes than those in
which events are counted: through the passes of the trace and the idle time after each.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.costs import entries_that_hold
from mcage.costs.kernel_activity import KernelActivity
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.stress import FaultFreeDuties
from mcage.files.disk_cache import arrays_of_record, kept_on_disk, record_of_arrays
from mcage.geometry import SliceGeometry
from mcage.replays.most_stressed import DutyCycles, skyline_cells
from mcage.replays.outcome import Counters, events_per_cycle
from mcage.replays.prepare import PreparedReplay, RedirectedReplay

Replays = tuple[PreparedReplay, ...]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class FaultFreeEvents:
    """What happens on a fault-free slice while each kernel runs, cells apart.

    Attributes
    ----------
    events : float64[kernels, EVENTS]
        Events per busy cycle.
    peak_spilled_rows : int64[kernels]
        Largest number of spilled rows.
    needed : bool[kernels, entries]
        Entries that must be reliable.
    idle : float64[kernels]
        Idle time after a pass in which the slice holds, over its busy time.
    holding : int64[kernels]
        Entries that stay on meanwhile.
    """

    events: NDArray[np.float64]
    peak_spilled_rows: NDArray[np.int64]
    needed: NDArray[np.bool_]
    idle: NDArray[np.float64]
    holding: NDArray[np.int64]

    @classmethod
    def of(cls, replays: Replays, aging: Replays, counters: list[Counters]) -> "FaultFreeEvents":
        """Events of replays, as an engine has counted them; `aging` has the idle time, too."""
        pairs = zip(aging, replays, strict=True)
        return cls(
            events=np.concatenate(
                [events_per_cycle(*both) for both in zip(replays, counters, strict=True)]
            ),
            peak_spilled_rows=np.concatenate([counts.peak_spilled_rows for counts in counters]),
            needed=np.stack([replay.needed for replay in replays]),
            idle=np.array([whole.cycles / busy.cycles - 1 for whole, busy in pairs]),
            holding=np.array([entries_that_hold(replay) for replay in replays]),
        )


@dataclass(frozen=True, eq=False)
class FaultFreeReplays:
    """A technique on each kernel of a sweep, and its results on a fault-free slice.

    Attributes
    ----------
    replays : tuple of PreparedReplay
        Busy passes, a replay for each kernel.
    duties : FaultFreeDuties
        Whole passes, a replay for each kernel, and the duty cycles of all cells.
    happens : FaultFreeEvents
        What happens in busy passes.
    activities : tuple of KernelActivity
        What the slice does meanwhile.
    """

    replays: Replays
    duties: FaultFreeDuties
    happens: FaultFreeEvents
    activities: tuple[KernelActivity, ...]

    @property
    def geometry(self) -> SliceGeometry:
        """The slice."""
        return self.replays[0].geometry

    @property
    def redirects(self) -> bool:
        """Whether the technique moves registers away from faults."""
        return self.replays[0].technique.redirects

    @property
    def packs(self) -> bool:
        """Whether the technique moves whole windows away from faults."""
        return self.replays[0].technique.packs

    @cached_property
    def redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays of a technique that redirects."""
        return tuple(replay for replay in self.replays if isinstance(replay, RedirectedReplay))

    @cached_property
    def cycles(self) -> NDArray[np.int64]:
        """Cycles of a busy pass of each kernel: int64[kernels]."""
        return np.array([replay.cycles for replay in self.replays], dtype=np.int64)

    @property
    def events(self) -> NDArray[np.float64]:
        """Events per busy cycle: float64[kernels, EVENTS]."""
        return self.happens.events

    @property
    def peak_spilled_rows(self) -> NDArray[np.int64]:
        """Largest number of spilled rows under each kernel: int64[kernels]."""
        return self.happens.peak_spilled_rows

    @property
    def idle(self) -> NDArray[np.float64]:
        """Idle time after a pass of each kernel, over its busy time: float64[kernels]."""
        return self.happens.idle

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Entries that must be reliable under each kernel: bool[kernels, entries]."""
        return self.happens.needed


def fault_free_replays(
    engine: Engine, replays: Replays, with_idle: Replays | None = None, key: str = ""
) -> FaultFreeReplays:
    """Replay each kernel once without faults, or take what is kept on disk of an earlier time.

    Parameters
    ----------
    engine : Engine
        Engine that replays.
    replays : tuple of PreparedReplay
        A technique on each kernel.
    with_idle : tuple of PreparedReplay, optional
        The same with the idle time in which the slice holds its values; by default there is none.
    key : str
        All that decides the results; nothing is kept if it is empty.
    """
    aging = replays if with_idle is None else with_idle

    def computed() -> Arrays:
        counters = _counted(engine, replays)
        arrays = arrays_of_record(FaultFreeEvents.of(replays, aging, counters), "happens")
        for kernel, replay in enumerate(replays):
            arrays |= arrays_of_record(KernelActivity.of(replay), f"activity {kernel}")
        return arrays | _times_of_cells(engine, aging)

    arrays = kept_on_disk(key, computed) if key else computed()
    at_zero, at_one = (
        DutyCycles.of(
            arrays[_cycles_at(which)],
            arrays["period"],
            arrays[_skyline_at(which)],
            replays[0].geometry.components,
        )
        for which in _STATES
    )
    return FaultFreeReplays(
        replays=replays,
        duties=FaultFreeDuties(aging, at_zero, at_one),
        happens=record_of_arrays(FaultFreeEvents, arrays, "happens"),
        activities=tuple(
            record_of_arrays(KernelActivity, arrays, f"activity {kernel}")
            for kernel in range(len(replays))
        ),
    )


def _counted(engine: Engine, replays: Replays) -> list[Counters]:
    """What happens without faults under each kernel."""
    redirected = [replay for replay in replays if isinstance(replay, RedirectedReplay)]
    maps = fault_free_maps(len(replays), replays[0].geometry)
    if not redirected:
        return [engine.count(replay, maps[:1]) for replay in replays]
    kernels = np.arange(len(replays))
    return engine.redirect_each(redirected, kernels, maps).one_by_one()


def _times_of_cells(engine: Engine, replays: Replays) -> Arrays:
    """Cycles of all cells at '0' and at '1', those of whole replays, and the skylines."""
    cycles: dict[str, list[NDArray[np.integer]]] = {which: [] for which in _STATES}
    period = np.zeros(len(replays), dtype=np.int64)
    kernels = np.arange(len(replays))
    maps = fault_free_maps(len(replays), replays[0].geometry)
    each = engine.cell_times_each(replays, kernels, maps)
    for kernel, times in enumerate(each):
        period[kernel] = np.max(times.period)
        narrow = np.uint32 if period[kernel] < 1 << 32 else np.int64
        for of_kernels, of_kernel in zip(cycles.values(), (times.zeros, times.ones), strict=True):
            of_kernels.append(of_kernel.ravel().astype(narrow))
    arrays: Arrays = {"period": period}
    for which, of_kernels in cycles.items():
        arrays[_cycles_at(which)] = of_cells = np.stack(of_kernels)
        arrays[_skyline_at(which)] = skyline_cells(of_cells, period)
    return arrays


_STATES = ("zero", "one")


def _cycles_at(which: str) -> str:
    return f"cycles at {which}"


def _skyline_at(which: str) -> str:
    return f"skyline at {which}"
