"""Results of a replay: event counts, cycles of cells, and events per cycle of steady replay."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.prepare import PreparedReplay
from mcage.replays.schedule import ACQUIRE, ACQUIRE_BLOCK, FREE, KINDS
from mcage.techniques import Technique


@dataclass(frozen=True)
class Counters:
    """Event counts of a steady-state replay, summed over its passes; arrays int64[instances].

    Attributes
    ----------
    passes : int or int64[instances]
        Passes summed over: starting offsets of rotating selectors; those of each instance that
        stand for the long run of a placement program; otherwise 1.
    regular, to_reliable, to_faulty, lds : int64[instances]
        Writes that stay in their home, that are redirected to a reliable or to a faulty entry,
        that find no home and are spilled, to the LDS or to memory.
    lds_reads : int64[instances]
        Reads of spilled rows.
    peak_spilled_rows : int64[instances]
        Largest number of rows spilled at once in any pass (not a sum).
    spilled_row_cycles : int64[instances]
        Sum over cycles of the rows spilled.
    wakeups : int64[instances]
        Writes after which an entry that was off because its value was compressed holds a value.
    memory, memory_reads : int64[instances]
        Those of the writes and reads of spilled rows that go to memory, since the LDS is full.
    """

    passes: int | Integers
    regular: Integers
    to_reliable: Integers
    to_faulty: Integers
    lds: Integers
    lds_reads: Integers
    peak_spilled_rows: Integers
    spilled_row_cycles: Integers
    wakeups: Integers
    memory: Integers
    memory_reads: Integers

    def one_by_one(self) -> list["Counters"]:
        """The same, each instance by itself."""
        passes, *columns = (getattr(self, field.name) for field in fields(self))
        of_each = np.broadcast_to(passes, len(self.regular)).tolist()
        each = zip(of_each, *(np.split(column, len(column)) for column in columns), strict=True)
        return [Counters(*counts) for counts in each]


@dataclass(frozen=True)
class CellTimes:
    """Cycles that each cell holds '1' and is powered, summed over the passes of a replay.

    Attributes
    ----------
    ones, powered : int64[instances, entries, cells of an entry]
        Cells that are never written are off throughout: both are 0.
    period : int or int64[instances]
        Cycles of all passes together; of each instance where windows may have to wait.
    """

    ones: Integers
    powered: Integers
    period: int | Integers

    @property
    def zeros(self) -> Integers:
        """Cycles at '0': int64[instances, entries, cells of an entry]."""
        return self.powered - self.ones

    @property
    def longest_zero_duty(self) -> Floats:
        """Longest '0' duty cycle among the cells of the slice: float64[instances]."""
        longest: Floats = self.zeros.max(axis=(1, 2)) / self.period
        return longest

    @property
    def longest_one_duty(self) -> Floats:
        """Longest '1' duty cycle among the cells of the slice: float64[instances]."""
        longest: Floats = self.ones.max(axis=(1, 2)) / self.period
        return longest


class Event(IntEnum):
    """Events per cycle of a steady replay: columns of the arrays called ``events``."""

    REGULAR = 0
    TO_RELIABLE = 1
    TO_FAULTY = 2
    LDS = 3
    WAKEUP = 4
    LDS_READ = 5
    SPILLED_ROW = 6
    """A cycle of a spilled row; per cycle, the rows spilled on the mean."""
    MEMORY = 7
    """A spilled write that goes to memory: one of those that `LDS` counts."""
    MEMORY_READ = 8
    """A read from memory: one of those that `LDS_READ` counts."""
    WAIT = 9
    """A cycle that wavefronts lose to waiting for one another."""
    MOV = 10
    MISPREDICTION = 11


EVENTS = len(Event)
COUNTED = Event.MEMORY_READ + 1
"""The first so many are those that an engine counts for each fault map."""


def events_per_cycle(replay: PreparedReplay, counters: Counters) -> Floats:
    """Events per cycle of steady replay, without waits: float64[instances, EVENTS]."""
    schedule = replay.schedule
    counts = counted(counters)
    events = np.zeros((len(counts), EVENTS))
    cycles = np.broadcast_to(counters.passes * schedule.cycles, len(counts))
    events[:, :COUNTED] = counts / cycles[:, None]
    events[:, Event.MOV] = schedule.mov_writes / schedule.cycles
    events[:, Event.MISPREDICTION] = schedule.mispredicted_writes / schedule.cycles
    return events


def counted(counters: Counters) -> Integers:
    """Events that a fault map may change: int64[instances, COUNTED]."""
    return np.stack(
        [
            counters.regular,
            counters.to_reliable,
            counters.to_faulty,
            counters.lds,
            counters.wakeups,
            counters.lds_reads,
            counters.spilled_row_cycles,
            counters.memory,
            counters.memory_reads,
        ],
        axis=1,
    )


# Placements that slices share: without a spill RRCD places alike on every fault map.
#
# Selectors that always begin with the first entry take the first free place. A value that takes a
# block prefers faulty entries. As long as these have a sound block for each value of a block, and
# reliable entries are left for all others, a kernel takes the same sound blocks, counted through
# the slice, and the same reliable entries, counted likewise, on every map: two slices differ only
# in where the places lie. So each kernel is replayed once, on a map of its own, and the cell times
# of a slice are looked up.


def may_share(technique: Technique, geometry: SliceGeometry) -> bool:
    """Whether slices share placements, and the contents of an entry depend on more than one."""
    each_by_itself = technique.gates_released and not technique.stores_in_blocks
    alike = technique.redirects and not (technique.rotating_selectors or technique.borrows)
    return alike and not each_by_itself and geometry.blocks > 1


def free_places(fault_maps: Bytes, geometry: SliceGeometry) -> tuple[Integers, Integers]:
    """Sound blocks of faulty entries, and reliable entries: of uint8[n, entries] int64[n] each."""
    sound = np.bitwise_count(~fault_maps & geometry.all_blocks)
    reliable = sound == geometry.blocks
    return np.where(reliable, 0, sound).sum(axis=1, dtype=np.int64), reliable.sum(axis=1)


@dataclass(frozen=True)
class SharedPlaces:
    """Places that a kernel takes on every fault map that has so many of them.

    Parameters
    ----------
    geometry : SliceGeometry
        The slice.
    in_blocks, whole : int
        Most blocks, and most entries, that values take at a time.
    """

    geometry: SliceGeometry
    in_blocks: int
    whole: int

    @classmethod
    def of(cls, code: NDArray[np.uint32], geometry: SliceGeometry) -> "SharedPlaces":
        """Places that a kernel takes, by its operations (`mcage.replays.schedule.Operations`)."""
        residency, kind = np.divmod(code.astype(np.int64), KINDS)
        takes = np.full(int(residency.max(initial=0)) + 1, ACQUIRE)
        takes[residency[kind == ACQUIRE_BLOCK]] = ACQUIRE_BLOCK
        change = np.where(kind == FREE, -1, 1)
        of_kind = [np.where(takes[residency] == of, change, 0) for of in (ACQUIRE_BLOCK, ACQUIRE)]
        return cls(geometry, *(int(each.cumsum().max(initial=0)) for each in of_kind))

    @property
    def faulty(self) -> int:
        """Faulty entries of the kernel's own map: the first ones, without their last blocks."""
        return -(-self.in_blocks // (self.geometry.blocks - 1))

    @property
    def fault_map(self) -> Bytes | None:
        """The kernel's own map, uint8[entries]; None if a slice has not enough places."""
        if self.faulty + self.whole > self.geometry.entries:
            return None
        fault_map = np.zeros(self.geometry.entries, dtype=np.uint8)
        fault_map[: self.faulty] = 1 << (self.geometry.blocks - 1)
        return fault_map

    def are_among(self, sound: Integers, reliable: Integers) -> Booleans:
        """Which of n fault maps have so many, by their `free_places`: bool[n]."""
        enough: Booleans = (sound >= self.in_blocks) & (reliable >= self.whole)
        return enough

    def by_place(self, cycles: Integers) -> Integers:
        """Cycles of the cells of a slice as int64[places, 32, components of a block].

        A place is entry x blocks + block.
        """
        geometry = self.geometry
        shape = geometry.entries * geometry.blocks, geometry.block_components, COMPONENT_BITS
        return cycles.reshape(shape).transpose(0, 2, 1)
