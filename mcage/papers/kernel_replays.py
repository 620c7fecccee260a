"""Replays of the ten kernels that the papers' figures are computed from.

Traces, techniques, fault maps and engines are those of a sweep. A replay is a steady pass of each
kernel, and no option is chosen kernel by kernel.
"""

import csv
import math
import tomllib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import Activity, activity_of, conventional
from mcage.engines.interface import Engine, fault_free_maps
from mcage.geometry import GCN
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.replays.schedule import Schedule, Windows, make_schedule
from mcage.techniques import Technique, technique
from mcage.traces import KERNELS, Trace, open_trace
from mcage.traces.transforms import WAVEFRONT, checked_release, released
from mcage.variation.fault_models import FaultModel, fault_map
from mcage.variation.scenarios import PUBLISHED, scenario

# Duty cycles of the cells of a slice, reduced to what the papers plot.

ZERO, ONE = 0, 1
"""Indices of the two duty cycles."""


@dataclass(frozen=True)
class CellDuties:
    """Duty cycles of the cells of one slice; the last axis is '0', '1'.

    Attributes
    ----------
    longest : float64[2]
        Longest duty cycle among all cells.
    most_stressed : float64[2, 2]
        Both duty cycles of the cell with the longest '0', and of the cell with the longest '1'.
    of_entries : float64[256, 2, 2]
        The same within each entry.
    of_bits : float64[2048, 2]
        By position in the entry, mean over the entries in use.
    used : bool[256]
        Entries that belong to a window at any time.
    """

    longest: NDArray[np.float64]
    most_stressed: NDArray[np.float64]
    of_entries: NDArray[np.float64]
    of_bits: NDArray[np.float64]
    used: NDArray[np.bool_]


def cell_duties(times: CellTimes, used: NDArray[np.bool_]) -> CellDuties:
    """Reduce the cell times of a slice to its duty cycles.

    Parameters
    ----------
    times : CellTimes
        Cell times of a single instance.
    used : bool[256]
        Entries in use.
    """
    duties = np.stack([times.zeros[0], times.ones[0]], axis=-1) / times.period
    of_entries = np.empty((GCN.entries, 2, 2))
    for which in (ZERO, ONE):
        cell = duties[..., which].argmax(axis=1)
        of_entries[:, which] = duties[np.arange(GCN.entries), cell]
    worst = [of_entries[:, which, which].argmax() for which in (ZERO, ONE)]
    most_stressed = np.stack([of_entries[entry, which] for which, entry in enumerate(worst)])
    return CellDuties(
        longest=np.diagonal(most_stressed).copy(),
        most_stressed=most_stressed,
        of_entries=of_entries,
        of_bits=duties[used].mean(axis=0),
        used=used,
    )


PUBLISHED_LIMIT = 64
LIMITS: tuple[int | None, ...] = (PUBLISHED_LIMIT, None)
"""Largest delta of a compressible value: as published, and none."""

DIES = 100
"""Fault maps for each scenario, each with exactly the shares of Table I of RRCD."""

SEED = 2019


Made = TypeVar("Made")


@dataclass(frozen=True)
class SteadyPass:
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

    @property
    def cells(self) -> CellDuties:
        """Duty cycles of its cells; of techniques that redirect, there are none."""
        if self.duties is None:
            raise ValueError("cells are studied of techniques that do not redirect")
        return self.duties

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
    ) -> dict[str, SteadyPass]:
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
    ) -> dict[str, dict[str, SteadyPass]]:
        """Runs by scenario and kernel: each kernel is prepared once for all scenarios."""
        self._engine.check(technique(name))
        maps = {
            faults: self.fault_maps(faults) if faults else fault_free_maps() for faults in together
        }
        runs: dict[str, dict[str, SteadyPass]] = {faults: {} for faults in together}
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
    ) -> SteadyPass:
        schedule = replay.schedule
        counters = self._engine.count(replay, maps)
        return SteadyPass(
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


# Values that the papers print, and how close mcage must come to agree: ``data/published.csv``.
#
# Where mcage disagrees, ``data/differences.toml`` says why.

PAPERS = {
    "000": "Valero et al., An Aging-Aware GPU Register File Design, IEEE TC 2019",
    "002": "Toca-Diaz et al., RRCD: Redireccion de Registros Basada en Compresion de Datos",
}
"""Papers on register files."""

GPU_PAPERS = {
    "003": "Chen et al., Simultaneous Aging and Power Optimization in GPGPUs, DAC 2014",
    "004": "Zhang et al., NBTI Alleviation on FinFET-Made GPUs, INTEGRATION 2015",
}
"""Papers on whole GPUs."""

NUMBERS = {
    "valero-2019": "000",
    "toca-diaz-rrcd": "002",
    "chen-2014": "003",
    "zhang-2015": "004",
}
"""Numbers of the papers, keys of `PAPERS` and `GPU_PAPERS`, by what people call them."""

MEAN, ALL = "mean", "all"
"""In place of a kernel: the mean over the ten kernels, or the kernel that is furthest off."""


@dataclass(frozen=True)
class Published:
    """A printed value of a paper.

    Attributes
    ----------
    paper, place : str
        Key of `PAPERS` or `GPU_PAPERS`, and table, figure or section.
    metric, technique, kernel, scenario : str
        What is measured, and on what; empty where it does not apply. ``kernel`` may be `MEAN` or
        `ALL`. Of papers on whole GPUs, ``technique`` is a policy or a design, and ``scenario`` age
        and NBTI model, or the structure.
    text, unit : str
        As printed.
    low, high : float
        The printed range; equal for a single value. NaN where a list is printed.
    tolerance : float
        How far outside the range a value still agrees, in the same unit.
    kind : str
        ``table``, ``text``, ``text bound``, ``text range`` or ``text approx``.
    """

    paper: str
    place: str
    metric: str
    technique: str
    kernel: str
    scenario: str
    text: str
    unit: str
    low: float
    high: float
    tolerance: float
    kind: str = "text"

    def difference(self, value: float) -> float:
        """How far a value lies above (or, negative, below) the printed range."""
        return max(value - self.high, 0.0) + min(value - self.low, 0.0)

    @property
    def tolerance_text(self) -> str:
        """Tolerance in words: around the printed value, or the meaning of "about"."""
        if math.isnan(self.tolerance):
            return ""
        if self.kind == "text approx" and self.low < self.high:
            return f"{self.low:g} to {self.high:g}"
        return f"±{self.tolerance:g}"

    def agrees(self, value: float) -> bool:
        """Whether a value lies within the tolerance."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return abs(self.difference(value)) <= self.tolerance + slack


def published_figures(paper: str | None = None) -> list[Published]:
    """Printed values of a paper; without its key, those of all `PAPERS` on register files."""
    text = files("mcage").joinpath("data", "published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    figures = []
    for row in csv.DictReader(lines):
        low, high, tolerance = (float(row[n] or "nan") for n in ("low", "high", "tolerance"))
        figures.append(
            Published(
                row["paper"],
                row["place"],
                row["metric"],
                row["technique"],
                row["kernel"],
                row["scenario"],
                row["published"],
                row["unit"],
                low,
                high,
                tolerance,
                row["kind"],
            )
        )
    papers = PAPERS if paper is None else (paper,)
    return [figure for figure in figures if figure.paper in papers]


@dataclass(frozen=True)
class Reasons:
    """Why mcage disagrees, in words."""

    entries: tuple[dict[str, str], ...]

    @classmethod
    def read(cls) -> "Reasons":
        """Read ``data/differences.toml``."""
        text = files("mcage").joinpath("data", "differences.toml").read_text(encoding="utf-8")
        return cls(tuple(tomllib.loads(text)["difference"]))

    def why(self, figure: Published, release: str) -> str:
        """The reason for a difference; empty if there is none.

        It is that of the first entry whose keys, except ``why``, all equal those of the printed
        value; the key ``release`` is compared with how windows are released.
        """
        columns = vars(figure) | {"release": release}
        for entry in self.entries:
            if all(columns[key] == entry[key] for key in entry if key != "why"):
                return entry["why"]
        return ""
