"""The interface of engines: fault maps in, compact outcomes out, cell arrays only on request.

What lies above every engine is here too: which policies it implements, packed windows, and the
limit on the writes that an engine can number.
"""

import dataclasses
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.concurrency import Memo
from mcage.engines import stress
from mcage.engines.programs import Learnt, ProgramRunner, Programs, ProgramStress
from mcage.errors import UserError
from mcage.geometry import GCN, MOST_BLOCKS, MOST_ENTRIES, Booleans, Bytes, Integers, SliceGeometry
from mcage.replays.layout import Layout, Packing, Places
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import (
    FixedReplay,
    PackedReplay,
    PreparedReplay,
    ProgrammedReplay,
    RedirectedReplay,
    kept_of_replays,
    prepare,
)
from mcage.replays.schedule import DEATH, Schedule
from mcage.techniques import Gating, Placement, Storage, Technique
from mcage.traces.model import RELEASE, WRITE

# Which policies an engine implements, and the refusal of all others, by name.


@dataclass(frozen=True)
class Policies:
    """Policies that an engine implements, in every combination that makes a `Technique`.

    They are listed one by one: a member that is added to an enumeration is implemented by no
    engine until the engine says so.

    Attributes
    ----------
    placements : set of Placement
        Placements.
    storages : set of Storage
        Storages.
    gatings : set of Gating
        Gatings.
    """

    placements: Set[Placement]
    storages: Set[Storage]
    gatings: Set[Gating]

    def check(self, technique: Technique, engine: str) -> None:
        """Refuse a technique that asks for a policy which is not among these.

        Parameters
        ----------
        technique : Technique
            Any technique.
        engine : str
            Name of the engine that implements these policies.

        Raises
        ------
        UserError
            One line that names technique, policy and engine.
        """
        asked: tuple[tuple[Placement | Storage | Gating, Set[Placement | Storage | Gating]], ...]
        asked = (
            (technique.placement, self.placements),
            (technique.storage, self.storages),
            (technique.gating, self.gatings),
        )
        for policy, implemented in asked:
            if policy not in implemented:
                kind = type(policy).__name__.lower()
                known = ", ".join(member.value for member in type(policy) if member in implemented)
                where = "; programs run on the CPU: --engine numba" if technique.program else ""
                raise UserError(
                    f"technique {technique.name!r}: engine {engine!r} does not implement {kind} "
                    f"{policy.value!r}; it implements {known}{where}"
                )


POLICIES = Policies(
    placements={
        Placement.DIRECT,
        Placement.ROTATE,
        Placement.ROUND_ROBIN,
        Placement.REDIRECT,
        Placement.GUARD,
        Placement.PACK,
    },
    storages={Storage.PLAIN, Storage.TABLE, Storage.INLINE, Storage.BLOCK},
    gatings={Gating.NONE, Gating.UNUSED, Gating.IDLE_WINDOWS, Gating.EMPTY},
)
"""Policies that all engines implement."""

WITH_PROGRAMS = replace(POLICIES, placements={*POLICIES.placements, Placement.PROGRAM})
"""Policies that engines implement on the CPU, where they can call a user's code."""


# Engines that number the writes of all traces through, in codes with room for so many.


def check_writes(writes: int, most: int, engine: str) -> None:
    """Refuse traces with more register writes together than an engine can number.

    Parameters
    ----------
    writes, most : int
        Register writes of the traces, and of how many the codes of the engine can tell the number.
    engine : str
        Its name.

    Raises
    ------
    UserError
        There are more.
    """
    if writes > most:
        raise UserError(
            f"the traces have {writes:,} register writes together; the {engine} engine takes "
            f"{most:,} at most: give it fewer traces, or shorter ones"
        )


# Packed windows above any engine: its replays of re-timed traces, moved to where windows lie.
#
# With one window size, the places are alike: a replay with each number of places is enough, and a
# fault map only says which entries they are. Kernels of different size overlap differently on every
# map, so that each is replayed as it lies there.


class Packed:
    """Packed replays on an engine, for any number of threads.

    Parameters
    ----------
    fixed_times : callable
        Cell times of an engine where windows have fixed places (`Engine.fixed_times`).
    """

    def __init__(self, fixed_times: Callable[[FixedReplay], CellTimes]) -> None:
        self._fixed_times = fixed_times
        self._lock = RLock()
        self._replays: WeakKeyDictionary[Packing, dict[Places, FixedReplay]] = WeakKeyDictionary()
        self._times: WeakKeyDictionary[Packing, dict[Places, stress.SliceTimes]] = (
            WeakKeyDictionary()
        )

    def cell_times(self, replay: PackedReplay, fault_maps: Bytes) -> CellTimes:
        """See `Engine.cell_times`; `period` is that of each instance.

        Where nothing can run, all cells are off for as long as the recorded trace takes.
        """
        slices = [self.slice_times(replay, fault_map) for fault_map in fault_maps]
        ones, powered, period = zip(*slices, strict=True)
        return CellTimes(np.stack(ones), np.stack(powered), np.array(period, dtype=np.int64))

    def slice_times(self, replay: PackedReplay, fault_map: Bytes) -> stress.SliceTimes:
        """Times of one slice, whose fault map is uint8[entries]."""
        packing, geometry = replay.packing, replay.geometry
        ones = np.zeros((geometry.entries, geometry.entry_bits), dtype=np.int64)
        powered = np.zeros_like(ones)
        places = packing.places(fault_map)
        if not all(places):
            return ones, powered, replay.period
        if len(packing.sizes) > 1:
            return self._replayed(self._laid_out(replay, fault_map, places))
        entries = packing.entries(fault_map, places)
        ones[entries], powered[entries], period = self._of_places(replay, places)
        return ones, powered, period

    def _of_places(self, replay: PackedReplay, places: Places) -> stress.SliceTimes:
        """Times of the rows of all places, place after place."""
        packing = replay.packing
        with self._lock:
            known = self._times.setdefault(packing, {})
            if places not in known:
                ones, powered, period = self._replayed(self._retimed(replay, places))
                (size,), (count,) = packing.sizes, places
                narrow = np.min_scalar_type(period)
                rows = slice(size * count)
                known[places] = ones[rows].astype(narrow), powered[rows].astype(narrow), period
            return known[places]

    def _laid_out(self, replay: PackedReplay, fault_map: Bytes, places: Places) -> FixedReplay:
        """Re-timed replay with its windows where they lie on a fault map."""
        base = replay.packing.bases(fault_map, places)[None]
        layout = Layout(base, np.zeros_like(base), np.zeros_like(replay.layout.step))
        return FixedReplay.of(self._retimed(replay, places).schedule, layout)

    def _retimed(self, replay: PackedReplay, places: Places) -> FixedReplay:
        packing = replay.packing
        with self._lock:
            known = self._replays.setdefault(packing, {})
            if places not in known:
                direct = dataclasses.replace(replay.technique, placement=Placement.DIRECT)
                retimed = prepare(packing.retimed(places), direct, code=replay.code)
                assert isinstance(retimed, FixedReplay)
                known[places] = retimed
            return known[places]

    def _replayed(self, replay: FixedReplay) -> stress.SliceTimes:
        times = self._fixed_times(replay)
        return times.ones[0], times.powered[0], replay.period


class PackedStress(stress.DenseStress):
    """Stress times of instances whose windows are packed.

    Parameters
    ----------
    packed : Packed
        Replays.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        packed: Packed,
        duties: stress.FaultFreeDuties,
        tracked: stress.TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._packed = packed

    def _times(
        self, replay: PreparedReplay, fault_map: Bytes, instance: int, turn: int
    ) -> stress.SliceTimes:
        assert isinstance(replay, PackedReplay)
        return self._packed.slice_times(replay, fault_map)


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
    batches_of_thread: int = 3
    """Batches of each thread in a sweep at least, so that none waits long for the last."""

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

    def expect(  # noqa: B027  (most engines have nothing to make ready)
        self, techniques: Iterable[Technique], geometry: SliceGeometry, cycles: int
    ) -> None:
        """Announce coming requests: an engine may begin to prepare them.

        Parameters
        ----------
        techniques : iterable of Technique
            Under which slices will live whose cells shift as `facelift` says.
        geometry : SliceGeometry
            Of the slices.
        cycles : int
            Of a pass of the longest trace.
        """

    def make_ready(  # noqa: B027  (what the others share is kept on disk)
        self, replays: Sequence[PreparedReplay], duties: stress.FaultFreeDuties
    ) -> None:
        """Begin to make what all batches of a technique that redirects share, side by side.

        Whoever needs a part of it before it is made waits for it, and meets its error.

        Parameters
        ----------
        replays : sequence of PreparedReplay
            The technique on each kernel, whose events will be counted.
        duties : FaultFreeDuties
            Of its slices whose stress times will be kept.
        """

    @abstractmethod
    def redirect(self, replay: RedirectedReplay, fault_maps: Bytes) -> Counters:
        """Event counts of a technique that redirects."""

    def redirect_each(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
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
        for number, runs_it in stress.by_kernel(kernel):
            counters = self.redirect(replays[number], fault_maps[runs_it])
            for name, column in columns.items():
                column[runs_it] = getattr(counters, name)
        return Counters(replays[0].passes, **columns)

    @abstractmethod
    def fixed_times(self, replay: FixedReplay) -> CellTimes:
        """Integer cell times where no fault moves a window: those of one slice, for all."""

    @abstractmethod
    def redirected_times(self, replay: RedirectedReplay, fault_maps: Bytes) -> CellTimes:
        """Integer cell times of every instance of a technique that redirects."""

    def program_runner(self, replay: ProgrammedReplay) -> ProgramRunner:
        """Runner of the placement program of a replay; engines without one refuse the policy."""
        raise NotImplementedError

    @abstractmethod
    def unpacked_stress(
        self, duties: stress.FaultFreeDuties, tracked: stress.TrackedCells, instances: int
    ) -> stress.StressAccumulator:
        """As `stress`, for replays that are not packed."""

    def cell_times(self, replay: PreparedReplay, fault_maps: Bytes) -> CellTimes:
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
        self, replays: Sequence[PreparedReplay], kernel: Integers, fault_maps: Bytes
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
        """State of the placement programs of new instances; None where no program places values."""
        programmed = [replay for replay in replays if isinstance(replay, ProgrammedReplay)]
        return Learnt(self.programs, programmed, instances) if programmed else None

    def stress(
        self,
        duties: stress.FaultFreeDuties,
        tracked: stress.TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> stress.StressAccumulator:
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

    def count(self, replay: PreparedReplay, fault_maps: Bytes) -> Counters:
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

        def of_all(count: int) -> Integers:
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
            memory=of_all(0),
            memory_reads=of_all(0),
        )


def fault_free_maps(instances: int = 1, geometry: SliceGeometry = GCN) -> Bytes:
    """Fault maps without a fault of slices of a geometry: uint8[instances, entries]."""
    return np.zeros((instances, geometry.entries), dtype=np.uint8)


# Events of redirected replays from the number of free places alone, remembered by any engine.
#
# Unless the selectors rotate over blocks or rows have entries of their own, entries of a kind are
# interchangeable: they are asked in an order that does not change, and a sound block of a faulty
# entry is as good as any other. So how many reliable entries and how many sound blocks of faulty
# ones there are decides what happens, not where they are, and what is more than enough makes no
# difference.

COUNTERS = 10
"""Columns of counted events: the arrays of `Counters` in their order."""

_MANY = MOST_BLOCKS * MOST_ENTRIES + 1
_NEARBY_ENTRIES, _NEARBY_BLOCKS, _MOST_NEARBY = 2, 6, 4096
"""How far a place that is counted ahead is from one that is asked for; places of a call at most."""

Count = Callable[[Sequence[RedirectedReplay], Integers, Bytes], Integers]
"""Counts events int64[n, 10] of a technique on several kernels: which of them each instance runs,
int64[n], and on which fault map, uint8[n, entries]."""


class Counts:
    """Events of redirected replays, and what is known of them; for any number of threads.

    Parameters
    ----------
    count : callable
        Counts what is not known yet, in a single call for all kernels.
    ahead : bool
        Whether a call counts nearby places as well: worthwhile where it takes as long as its
        longest slice, however many there are.
    """

    def __init__(self, count: Count, ahead: bool = False) -> None:
        self._count, self._ahead = count, ahead
        numbers = itertools.count()
        self._used: Memo[RedirectedReplay, tuple[int, int, int]] = Memo(
            lambda replay: (next(numbers) * _MANY * _MANY, *_kept_most_in_use(replay))
        )
        self._lock = threading.Lock()
        # Places in rising order, and the counters of each; replaced as a whole, never changed.
        self._known = np.empty(0, np.int64), np.empty((0, COUNTERS), np.int64)

    def of(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Counters:
        """Events of instances that run the kernels ``kernel`` int64[n] of a technique.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            The technique on each kernel.
        kernel, fault_maps : int64[n], uint8[n, entries]
            What each instance runs, and on which map.
        """
        if not only_numbers_matter(replays[0].technique):
            counted = self._count(replays, kernel, fault_maps)
        else:
            counted = self._remembered(replays, kernel, fault_maps)
        return Counters(replays[0].passes, *counted.T)

    def _remembered(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        places = self._places(replays, kernel, fault_maps)
        known, counters = self._known
        unknown = ~_among(places, known)
        if unknown.any():
            _, first = np.unique(places[unknown], return_index=True)
            first = np.flatnonzero(unknown)[first]
            asked = places[first], kernel[first], fault_maps[first]
            if self._ahead:
                asked = self._with_nearby(replays, *asked)
            self._add(asked[0], self._count(replays, *asked[1:]))
            known, counters = self._known
        return counters[np.searchsorted(known, places)]

    def _with_nearby(
        self, replays: Sequence[RedirectedReplay], places: Integers, kernel: Integers, maps: Bytes
    ) -> tuple[Integers, Integers, Bytes]:
        """Unknown places, in rising order, and others nearby that are unknown.

        Returns places, kernels and fault maps.
        """
        geometry = replays[0].geometry
        first, most_entries, most_blocks = np.array([self._used.of(each) for each in replays]).T
        entries, blocks = np.divmod(places - first[kernel], _MANY)
        if most_blocks.any():
            steps = np.mgrid[
                -_NEARBY_ENTRIES : _NEARBY_ENTRIES + 1, -_NEARBY_BLOCKS : _NEARBY_BLOCKS + 1
            ]
            more_entries, more_blocks = steps.reshape(2, -1)
            number = kernel.repeat(len(more_entries))
            entries = (entries[:, None] + more_entries).ravel()
            blocks = (blocks[:, None] + more_blocks).ravel()
        else:  # all kernels, from the fewest entries on
            fewest = entries.min() - _NEARBY_ENTRIES
            number, entries = np.mgrid[: len(replays), fewest : most_entries.max() + 1].reshape(
                2, -1
            )
            blocks = np.zeros(len(entries), dtype=np.int64)
        there = (entries >= 0) & (entries <= np.minimum(most_entries[number], geometry.entries))
        there &= (blocks >= 0) & (blocks <= most_blocks[number])
        there &= blocks <= (geometry.blocks - 1) * (geometry.entries - entries)
        number, entries, blocks = number[there], entries[there], blocks[there]
        nearby, at = np.unique(first[number] + entries * _MANY + blocks, return_index=True)
        unknown = ~(_among(nearby, places) | _among(nearby, self._known[0]))
        nearby, at = nearby[unknown][:_MOST_NEARBY], at[unknown][:_MOST_NEARBY]
        return (
            np.concatenate([places, nearby]),
            np.concatenate([kernel, number[at]]),
            np.concatenate([maps, maps_with(entries[at], blocks[at], geometry)]),
        )

    def _places(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Numbers of places, no more than there is use for, as a number of the kernel: int64[n]."""
        of_kernels = np.array([self._used.of(replay) for replay in replays])
        first, most_entries, most_blocks = of_kernels[kernel].T
        reliable, sound = free_places(fault_maps, replays[0].geometry.blocks)
        entries, blocks = np.minimum(reliable, most_entries), np.minimum(sound, most_blocks)
        places: Integers = first + entries * _MANY + blocks
        return places

    def _add(self, places: Integers, counters: Integers) -> None:
        """Remember the counters int64[n, 10] of places."""
        with self._lock:
            known = np.concatenate([self._known[0], places])
            known, first = np.unique(known, return_index=True)
            self._known = known, np.concatenate([self._known[1], counters])[first]


def _among(places: Integers, known: Integers) -> Booleans:
    """Whether each place is among known ones, which are in rising order."""
    if not len(known):
        return np.zeros(len(places), dtype=bool)
    at = np.searchsorted(known, places)
    return np.asarray(known.take(at, mode="clip") == places)


class RememberingEngine(Engine):
    """An engine that counts events of redirected replays where they are not known yet.

    Parameters
    ----------
    counts_ahead : bool
        As `ahead` of `Counts`.
    """

    def __init__(self, counts_ahead: bool = False) -> None:
        super().__init__()
        self._counts = Counts(self._count, counts_ahead)

    @abstractmethod
    def _count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Count events, as `Counts` asks for them: a `Count`."""

    @override
    def redirect(self, replay: RedirectedReplay, fault_maps: Bytes) -> Counters:
        return self.redirect_each((replay,), np.zeros(len(fault_maps), np.int64), fault_maps)

    @override
    def redirect_each(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Counters:
        self.check(replays[0].technique)
        return self._counts.of(replays, kernel, fault_maps)


def maps_with(entries: Integers, blocks: Integers, geometry: SliceGeometry) -> Bytes:
    """Fault maps with so many reliable entries, and sound blocks of the others: uint8[n, entries].

    Parameters
    ----------
    entries, blocks : int64[n]
        What `free_places` counts; a faulty entry has a block that is not sound at least.
    geometry : SliceGeometry
        The slice.
    """
    most = geometry.blocks - 1  # sound blocks of a faulty entry
    place = np.arange(geometry.entries)
    sound = np.clip(blocks[:, None] - most * place, 0, most)
    unusable = geometry.all_blocks & ~((1 << sound) - 1)
    faulty = place < geometry.entries - entries[:, None]
    return np.where(faulty, unusable, 0).astype(np.uint8)


def free_places(fault_maps: Bytes, blocks_of_entry: int) -> tuple[Integers, Integers]:
    """Reliable entries, and sound blocks of the others, on fault maps: int64[n], int64[n]."""
    maps = np.ascontiguousarray(fault_maps)
    faulty, unusable = (  # entries are bytes, and bits of many are counted at once
        np.bitwise_count(entries.view(np.uint64)).sum(axis=1, dtype=np.int64)
        for entries in (maps != 0, maps)
    )
    return fault_maps.shape[1] - faulty, blocks_of_entry * faulty - unusable


def only_numbers_matter(technique: Technique) -> bool:
    """Whether it makes no difference where the free places are."""
    rotates_over_blocks = technique.rotating_selectors and technique.stores_in_blocks
    return not (technique.borrows or rotates_over_blocks)


def _kept_most_in_use(replay: RedirectedReplay) -> tuple[int, int]:
    """`most_in_use` of a replay, from disk if it is kept there."""

    def counted() -> dict[str, NDArray[Any]]:
        return {"most": np.array(most_in_use(replay.schedule), dtype=np.int64)}

    entries, blocks = kept_of_replays("most in use", (replay,), counted)["most"].tolist()
    return entries, blocks


def most_in_use(schedule: Schedule) -> tuple[int, int]:
    """How many registers have a place at the same time, at most; and how many of them a block."""
    step = np.arange(len(schedule.op))
    is_write, is_release = schedule.op_kind == WRITE, schedule.op_kind == RELEASE
    is_death = schedule.op_kind == DEATH
    write = schedule.op[is_write]
    begins = schedule.residency_first[write] == write
    first, since = write[begins], step[is_write][begins]
    window = schedule.op[is_release]
    sizes = schedule.windows.size[window]
    offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # A register gives its place back where its row is written anew, dies or is released.
    row = np.concatenate(
        [
            schedule.row[first],
            schedule.row[schedule.op[is_death]],
            np.repeat(schedule.windows.base[window], sizes) + offset,
        ]
    )
    at = np.concatenate([since, step[is_death], np.repeat(step[is_release], sizes)])
    by_row = np.lexsort((at, row))
    until = np.full(len(at), len(step))
    same_row = row[by_row[:-1]] == row[by_row[1:]]
    until[by_row[:-1][same_row]] = at[by_row[1:][same_row]]
    until = until[: len(first)]

    def most(chosen: Booleans) -> int:
        change = np.zeros(len(step) + 1, dtype=np.int64)
        np.add.at(change, since[chosen], 1)
        np.add.at(change, until[chosen], -1)
        return int(np.cumsum(change).max(initial=0))

    has_place = ~schedule.in_table[first]
    in_block = has_place & schedule.compressed[first] & schedule.technique.stores_in_blocks
    return most(has_place), most(in_block)
