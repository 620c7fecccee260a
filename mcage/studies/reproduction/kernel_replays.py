"""Replays of the ten kernels that the papers' figures are computed from.

Traces, techniques, fault maps and engines are those of a sweep. A replay is a steady pass of each
kernel, and no option is chosen kernel by kernel.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.costs import Activity, activity_of, conventional
from mcage.engines.interface import Engine, fault_free_maps
from mcage.geometry import GCN
from mcage.replays.outcome import Counters
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.replays.schedule import Schedule, Windows, make_schedule
from mcage.studies.reproduction.duty_summary import CellDuties, cell_duties
from mcage.techniques import Technique, technique
from mcage.traces import KERNELS, Trace, open_trace
from mcage.traces.transforms import WAVEFRONT, checked_release, released
from mcage.variation.fault_maps import fault_map
from mcage.variation.fault_models import FaultModel
from mcage.variation.scenarios import PUBLISHED, scenario

PUBLISHED_LIMIT = 64
LIMITS: tuple[int | None, ...] = (PUBLISHED_LIMIT, None)
"""Largest delta of a compressible value: as published, and none."""

DIES = 100
"""Fault maps for each scenario, each with exactly the shares of Table I of RRCD."""

SEED = 2019


Made = TypeVar("Made")


@dataclass(frozen=True)
class Run:
    """A steady pass of a kernel under a technique.

    Attributes
    ----------
    compressible, mispredicted, movs : float
        Shares of all writes: those of compressible values (under the published limit if the
        technique knows none), those whose compression was speculated
        wrongly, and those that a MOV must precede.
    reads, writes : int
        Number of reads and of writes of registers.
    counters : Counters
        Event counts of each die, or of a slice without faults.
    activity : Activity
        Activity from which energy and slowdown are computed.
    duties : CellDuties or None
        Duty cycles on a slice without faults; None for techniques that redirect.
    """

    compressible: float
    mispredicted: float
    movs: float
    reads: int
    writes: int
    counters: Counters
    activity: Activity
    duties: CellDuties | None

    def share(self, events: NDArray[np.int64]) -> NDArray[np.float64]:
        """Events of `counters` per write: float64[instances]."""
        return events / (self.counters.passes * self.writes)


class KernelReplays:
    """Runs of techniques on the ten kernels, each computed when it is first asked for.

    Parameters
    ----------
    engine : Engine
        Engine that replays the kernels.
    dies : int
        Number of fault maps of each scenario.
    release : str
        When windows are released, as in `mcage.traces.transforms.released`.
    like : KernelReplays, optional
        Replays with the same engine and as many dies: runs of kernels whose windows are released
        at the same time are taken over from there.

    Raises
    ------
    UserError
        There is no such release.
    """

    def __init__(
        self,
        engine: Engine,
        dies: int = DIES,
        release: str = WAVEFRONT,
        like: "KernelReplays | None" = None,
    ) -> None:
        self._engine = engine
        self._dies = dies
        self.release = checked_release(release)
        self._like = like
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Result of ``make``, which is called only the first time that a key is asked for."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    @cached_property
    def traces(self) -> dict[str, Trace]:
        """The bundled traces by name, with their windows released as ``release`` says."""
        return {name: released(open_trace(name), self.release) for name in KERNELS}

    @cached_property
    def conventional(self) -> dict[str, Activity]:
        """Activity of the conventional slice, by kernel."""
        return {name: conventional(trace) for name, trace in self.traces.items()}

    def runs(
        self, name: str, limit: int | None = PUBLISHED_LIMIT, faults: str = ""
    ) -> dict[str, Run]:
        """Runs of a technique on all kernels, by kernel.

        Parameters
        ----------
        name : str
            Name of the technique.
        limit : int or None
            Largest delta of a compressible value.
        faults : str
            Scenario; empty: no faults.
        """
        if not _heeds_limit(technique(name)):
            limit = PUBLISHED_LIMIT
        together = PUBLISHED if faults in PUBLISHED else (faults,)
        runs = self.once(("runs", name, limit, together), lambda: self._all(name, limit, together))
        return runs[faults]

    def _all(
        self, name: str, limit: int | None, together: tuple[str, ...]
    ) -> dict[str, dict[str, Run]]:
        """Runs by scenario and kernel: each kernel is prepared once for all scenarios."""
        self._engine.check(technique(name))
        maps = {
            faults: self.fault_maps(faults) if faults else fault_free_maps() for faults in together
        }
        runs: dict[str, dict[str, Run]] = {faults: {} for faults in together}
        for kernel, trace in self.traces.items():
            if kernel in self._alike:
                for faults in together:
                    runs[faults][kernel] = self._alike[kernel].runs(name, limit, faults)[kernel]
                continue
            replay = prepare(trace, technique(name), limit)
            duties = self._duties(replay)
            for faults in together:
                runs[faults][kernel] = self._run(replay, maps[faults], duties)
        return runs

    @cached_property
    def _alike(self) -> dict[str, "KernelReplays"]:
        """Where the runs of kernels are taken over from."""
        like = self._like
        if like is None:
            return {}
        return {
            kernel: like
            for kernel, trace in self.traces.items()
            if trace.digest() == like.traces[kernel].digest()
        }

    def _duties(self, replay: PreparedReplay) -> CellDuties | None:
        if replay.technique.redirects:
            return None
        times = self._engine.cell_times(replay, fault_free_maps())
        return cell_duties(times, used_entries(replay.schedule.windows))

    def _run(
        self, replay: PreparedReplay, maps: NDArray[np.uint8], duties: CellDuties | None
    ) -> Run:
        schedule = replay.schedule
        counters = self._engine.count(replay, maps)
        return Run(
            compressible=schedule.compressible_writes / schedule.writes,
            mispredicted=schedule.mispredicted_writes / schedule.writes,
            movs=schedule.mov_writes / schedule.writes,
            reads=schedule.reads,
            writes=schedule.writes,
            counters=counters,
            activity=activity_of(replay, counters),
            duties=duties,
        )

    def held(self, limit: int | None) -> dict[str, NDArray[np.float64]]:
        """Fraction of the time for which each entry holds a register, if windows keep their slots.

        Returns
        -------
        dict of str to float64[2, 256]
            By kernel: for uncompressed registers, and for compressible ones (RC's rule).
        """
        rc = technique("rc")
        return self.once(
            ("held", limit),
            lambda: {
                kernel: _held(make_schedule(trace, rc, limit))
                for kernel, trace in self.traces.items()
            },
        )

    def fault_maps(self, name: str) -> NDArray[np.uint8]:
        """Fault maps of the dies of a scenario: uint8[dies, 256]."""
        return self.once(("fault maps", name), lambda: _fault_maps(name, self._dies))


def _heeds_limit(policies: Technique) -> bool:
    """Whether the delta limit changes what a technique does."""
    return policies.compresses and not policies.stores_inline


def used_entries(windows: Windows) -> NDArray[np.bool_]:
    """Entries that belong to a window at any time, if windows keep their slots: bool[256]."""
    used = np.zeros(GCN.entries, dtype=bool)
    for base, size in zip(windows.base, windows.size, strict=True):
        used[base : base + size] = True
    return used


def _held(schedule: Schedule) -> NDArray[np.float64]:
    cycles = np.zeros((2, GCN.entries))
    lasting = schedule.end_cycle - schedule.cycle
    np.add.at(cycles, (schedule.compressed.astype(int), schedule.row), lasting)
    return cycles / schedule.cycles


def _fault_maps(name: str, dies: int) -> NDArray[np.uint8]:
    constants = scenario(name)
    cells = FaultModel(constants, "table-exact").sample(SEED, np.arange(dies), constants.vdd_volts)
    return fault_map(cells, cells.vmin_volts > constants.vdd_volts)
