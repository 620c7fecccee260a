"""A recording by an importer: windows, and the writes and reads of their registers."""

import json
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.inputs import MIB
from mcage.geometry import SliceGeometry, usual_slice
from mcage.traces.model import MOST_REGISTERS, READ, WRITE
from mcage.traces.storage import MOST_BYTES
from mcage.tracing.importing.contents import NOTHING, Contents, first_uses
from mcage.tracing.importing.sources import Enough, ImportOptions, Source

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Values = Buffer | npt.NDArray[Any]

_packed_event = struct.Struct("<qIBHQi").pack
EVENT = np.dtype(
    [
        *(("time", "<i8"), ("window", "<u4"), ("kind", "u1")),
        *(("reg", "<u2"), ("exec_mask", "<u8"), ("value", "<i4")),
    ]
)
PRELOAD, INEXACT = 4, 5
"""Kinds of events beside those of traces: first contents, and writes of which not all bits are
known."""

_NEVER, _NOT_YET = -(1 << 62), 1 << 62
_BYTES_OF_WINDOW = 2048
_WINDOWS_BETWEEN_CHECKS = 1024
_BLOCK = 4096 * EVENT.itemsize
_ROWS_AT_ONCE = 1 << 18

MOST_WINDOWS = 1 << 18
"""Windows of an import, each of which takes two kilobytes of memory."""


# Windows of an import, and their counters.


@dataclass(frozen=True)
class Origin:
    """Where a window comes from.

    Attributes
    ----------
    kernel : str
        Name of its kernel.
    launch : int
        Number of the kernel launch.
    work_group, wavefront : int or None
        Global numbers. Without a work-group, the window is alone in its own.
    """

    kernel: str = "kernel"
    launch: int = 0
    work_group: int | None = None
    wavefront: int | None = None


@dataclass(frozen=True)
class Place:
    """The part of a GPU whose registers hold a window.

    Attributes
    ----------
    unit : int or None
        Compute unit (64 lanes) or SM (32 lanes). If the file does not say, work-groups fill one
        unit after the other.
    part : int
        SIMD unit of a compute unit, or partition of an SM.
    """

    unit: int | None = None
    part: int = 0

    def name(self, lanes: int) -> str:
        """Name of the slice: ``cu0.simd1`` or ``sm0.part1``."""
        unit, part = ("cu", "simd") if lanes == 64 else ("sm", "part")
        return f"{unit}{self.unit}.{part}{self.part}"


@dataclass(eq=False, slots=True)
class WindowLog:
    """A register window; what it holds is known to the recording alone.

    Attributes
    ----------
    number : int
        From 0, in the order in which windows open; -1 for one that the user has not asked for.
    size : int
        Registers; 0 until they are known, at the latest when all has been read.
    begin, last, end : int
        Time of the allocation, of the last access so far, and of the release, which is later than
        all others until it happens; when all has been read, in cycles from the first allocation.
    lanes : int
        Lanes that have a work-item.
    slot : int or None
        Slot in its unit, which no other window has there at the time.
    facts : dict
        What `--json` says of this window besides what the recording counts.
    counted : dict of str to int
        Writes and reads, when all has been read.
    known : int
        Bit r is set if something is known of what register r holds.
    """

    number: int
    size: int
    begin: int
    origin: Origin
    place: Place
    first_entry: int | None
    lanes: int
    slot: int | None
    facts: dict[str, Any]
    last: int
    end: int = _NOT_YET
    counted: dict[str, int] = field(default_factory=dict)
    known: int = 0


@dataclass
class Gaps:
    """Reads that do not see what the last recorded write has left.

    Attributes
    ----------
    reads : int
        All reads of the windows that were kept.
    before_any_write : int
        Reads of a register that nothing has written since its window was opened.
    other_contents : int
        Reads for which the file shows other contents than the last write.
    """

    reads: int = 0
    before_any_write: int = 0
    other_contents: int = 0

    @property
    def share(self) -> float:
        """Share of the reads."""
        return (self.before_any_write + self.other_contents) / max(self.reads, 1)


# Accesses, event by event.


class _Registers:
    """Numbers of what the registers of open windows hold.

    Attributes
    ----------
    state : int32[places]
        Number of each register's content, or `NOTHING`.
    first_of : int64[windows]
        Place of the first register of each window.
    """

    def __init__(self) -> None:
        self.state = np.full(MOST_REGISTERS, NOTHING, np.int32)
        self._first_of, self._size_of, self._used = array("q"), array("H"), 0
        self._free: dict[int, list[int]] = {}
        self._closed: list[int] = []

    @property
    def first_of(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self._first_of, np.int64)

    def open(self, size: int) -> None:
        """Find a place for the next window of so many registers, which hold nothing."""
        if free := self._free.get(size):
            first = free.pop()
        else:
            first, self._used = self._used, self._used + size
            if self._used > len(self.state):
                more = np.full(max(len(self.state), size), NOTHING, np.int32)
                self.state = np.concatenate([self.state, more])
        self.state[first : first + size] = NOTHING
        self._first_of.append(first)
        self._size_of.append(size)

    def close(self, window: int) -> None:
        """Give up a window once the accesses that wait have been followed."""
        self._closed.append(window)

    def free_closed(self) -> None:
        """Let later windows have the places of those that are closed."""
        for window in self._closed:
            self._free.setdefault(self._size_of[window], []).append(self._first_of[window])
        self._closed.clear()


class Recording:
    """Takes accesses, one by one or in blocks, and keeps each in 27 bytes beside its contents.

    Times are integers of any unit and origin, such as ticks; `period` of them are a cycle. An event
    earlier than what its window has seen already is counted and taken to happen at that moment.

    Parameters
    ----------
    most_windows : int or None
        Only the first so many windows are kept.
    slices : frozenset of str
        Only windows in slices of these names are kept, as far as their slice is known; all if it is
        empty.

    Attributes
    ----------
    lanes : int
        64 or 32; set by `has_lanes`.
    geometry : SliceGeometry or None
        The slices, of as many components as there are lanes; None: `usual_slice` of so many.
    period : int
        Time that a cycle takes.
    granularity : int
        Windows of unknown size have a multiple of so many registers.
    windows : list of WindowLog
        Those that were kept.
    in_file, inferred, approximate : dict of str to str
        What the file said and what was concluded, each with how: "time": "ticks". What stands in
        `approximate` (lanes, time, contents) makes the trace an approximate one.
    tools : dict of str to str
        Versions of tools, drivers and devices that the file names.
    skipped : dict of str to list
        Reasons why records were left out: their number, the first file and line.
    """

    def __init__(
        self, most_windows: int | None = None, slices: frozenset[str] = frozenset()
    ) -> None:
        self.most_windows, self.slices = most_windows, slices
        self.lanes = 0
        self.geometry: SliceGeometry | None = None
        self.period = 1
        self.granularity = 1
        self.windows: list[WindowLog] = []
        self.in_file: dict[str, str] = {}
        self.inferred: dict[str, str] = {}
        self.approximate: dict[str, str] = {}
        self.tools: dict[str, str] = {}
        self.skipped: dict[str, list[Any]] = {}
        self.last = _NEVER
        self._windows_open = 0
        self._events = bytearray()
        self._next_check = MIB
        self._contents = Contents(0)
        self._block, self._shown = bytearray(), bytearray()  # accesses that wait, and their numbers
        self._registers = _Registers()
        self._counted = np.zeros(3, np.int64)

    def has_lanes(self, lanes: int, contents: Contents | None = None) -> None:
        """Say how many lanes a register has, before the first window.

        Parameters
        ----------
        lanes : int
            32 or 64.
        contents : Contents, optional
            What registers may hold, numbered in any order; the recording takes it over.
        """
        if lanes not in (32, 64) or self.lanes not in (0, lanes):
            raise ValueError(f"{lanes} lanes after {self.lanes}")
        if not self.lanes:
            self._contents = contents or Contents(lanes)
        self.lanes = lanes

    @property
    def slice(self) -> SliceGeometry:
        """The slices: `geometry`, or the usual one of so many lanes."""
        if self.geometry is None:
            return usual_slice(self.lanes)
        if self.geometry.components != self.lanes:
            raise ValueError(f"a slice of {self.geometry.components} lanes for {self.lanes}")
        return self.geometry

    def open_window(
        self,
        time: int,
        size: int | None,
        origin: Origin,
        place: Place,
        first_entry: int | None = None,
        lanes: int | None = None,
        slot: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> WindowLog:
        """Open a register window.

        Parameters
        ----------
        time : int
            When it is allocated.
        size : int or None
            Registers, 1 ... `MOST_REGISTERS`; None if not known yet.
        origin : Origin
            Kernel, launch, work-group and wavefront.
        place : Place
            Where it is, as far as that is known.
        first_entry : int, optional
            Its first physical register, if that is known.
        lanes : int, optional
            Lanes that have a work-item; all by default.
        slot : int, optional
            Its slot in the unit, which tells units apart where the file does not name them.
        facts : mapping, optional
            What `--json` says of it.

        Returns
        -------
        Window
            To be handed to `write`, `read` and `close_window`.

        Raises
        ------
        Enough
            All windows that the user asks for have been read.
        """
        if size is not None and not 1 <= size <= MOST_REGISTERS:
            raise ValueError(f"a window of {size} registers")
        self.last = max(self.last, time)
        complete = self.most_windows is not None and len(self.windows) >= self.most_windows
        if complete and not self._windows_open:
            raise Enough
        elsewhere = place.unit is not None and place.name(self.lanes) not in self.slices
        kept = not complete and not (self.slices and elsewhere)
        window = WindowLog(
            number=len(self.windows) if kept else -1,
            size=size or 0,
            begin=time,
            origin=origin,
            place=place,
            first_entry=first_entry,
            lanes=lanes or self.lanes,
            slot=slot,
            facts=dict(facts or {}),
            last=time,
        )
        if kept:
            if len(self.windows) >= MOST_WINDOWS:
                raise UserError(
                    f"there are more than {MOST_WINDOWS:,} windows; ask for fewer: --windows or "
                    "--slice"
                )
            self.windows.append(window)
            self._registers.open(size or MOST_REGISTERS)
            self._windows_open += 1
            if not len(self.windows) % _WINDOWS_BETWEEN_CHECKS:
                self._require_size()
        return window

    def write(
        self,
        window: WindowLog,
        time: int,
        register: int,
        lanes: int,
        values: "Values",
        exact: bool = True,
    ) -> None:
        """Record a write.

        Parameters
        ----------
        window : WindowLog
            An open window.
        time : int
            When.
        register : int
            Register of the window, from 0.
        lanes : int
            Bit i is set if lane i was written. A write without lanes is none.
        values : buffer
            Little-endian 32-bit numbers, one for each lane that was written, the lowest first:
            bytes, an array of uint32 or ``array("I", ...)``.
        exact : bool
            Whether every bit of the values is known.
        """
        when = self._admit(window, time, register) if lanes else None
        if when is not None:
            self._put(window, when, WRITE if exact else INEXACT, register, lanes, values)

    def preload(self, window: WindowLog, register: int, lanes: int, values: "Values") -> None:
        """Record what a register holds when its window is opened; not counted as a write."""
        if lanes and self._admit(window, window.last, register) is not None:
            self._put(window, window.begin, PRELOAD, register, lanes, values)

    def read(
        self,
        window: WindowLog,
        time: int,
        register: int,
        lanes: int = 0,
        values: "Values" = b"",
    ) -> None:
        """Record a read; what the file shows of it is compared with the last write.

        Parameters
        ----------
        window, time, register
            As in `write`.
        lanes : int
            Lanes whose contents the file shows.
        values : buffer
            These contents, as in `write`.
        """
        when = self._admit(window, time, register)
        if when is not None:
            self._put(window, when, READ, register, lanes, values)

    def record(self, events: npt.NDArray[Any]) -> None:
        """Record accesses of open windows, which have the registers and happen in this order.

        Parameters
        ----------
        events : array of `EVENT`
            ``value`` is the number of what a write leaves in its lanes, among the contents that
            `has_lanes` was handed.
        """
        self._follow()
        self._take(events, None)
        window, first = np.unique(events["window"][::-1], return_index=True)
        latest = events["time"][::-1][first].tolist()
        for number, time in zip(window.tolist(), latest, strict=True):
            log = self.windows[number]
            log.last = max(log.last, time)
            self.last = max(self.last, time)

    def close_window(self, window: WindowLog, time: int) -> None:
        """Release a window; one that is never closed is released when the last event happens."""
        if window.end != _NOT_YET:
            return
        self.last = max(self.last, time)
        window.end = max(time, window.last)
        if window.number >= 0:
            self._registers.close(window.number)
            self._windows_open -= 1

    def skip(
        self, reason: str, source: "Source | None" = None, line: int = 0, count: int = 1
    ) -> None:
        """Count records that are left out.

        Parameters
        ----------
        reason : str
            What they are and why they are left out: "writes outside of any window".
        source, line
            Where the first of them is, if that is known.
        count : int
            How many there are.
        """
        if count:
            known = self.skipped.setdefault(reason, [0, source.path.name if source else "", line])
            known[0] += count

    def finish(self) -> None:
        """Count what windows have, and give them sizes, ends and times in cycles."""
        self._follow()
        counted = self._count()
        origin = min((window.begin for window in self.windows), default=0)
        for number, (window, used) in enumerate(
            zip(self.windows, self.registers_used(), strict=True)
        ):
            window.counted = {name: int(counts[number]) for name, counts in counted.items()}
            if not window.size:
                size = -(-max(used, 1) // self.granularity) * self.granularity
                window.size = min(size, MOST_REGISTERS)
            end = max(self.last, window.last) if window.end == _NOT_YET else window.end
            window.begin, window.last, window.end = (
                (time - origin) // self.period for time in (window.begin, window.last, end)
            )
        new_of = np.full(self._contents.count, -1, np.int32)
        order, count = np.empty_like(new_of), 0
        for events in self._parts():
            events["time"] = (events["time"] - origin) // self.period
            numbers = np.ascontiguousarray(events["value"])
            count = first_uses(numbers, new_of, order, count)
            events["value"] = numbers
        self._contents.keep(order[:count])

    def _count(self) -> dict[str, npt.NDArray[np.int64]]:
        """Accesses of each window."""
        windows = len(self.windows)
        existing = np.array([window.lanes for window in self.windows], np.int64)
        names = ("writes", "exact_writes", "lane_writes", "partial_writes", "reads")
        totals = {name: np.zeros(windows, np.int64) for name in names}
        for events in self._parts():
            kind, window = events["kind"], events["window"]
            lanes = np.bitwise_count(events["exec_mask"])
            writes = (kind == WRITE) | (kind == INEXACT)
            partial = writes & (lanes < existing[window])
            each = (writes, kind == WRITE, writes * lanes, partial, kind == READ)
            for name, weights in zip(names, each, strict=True):
                totals[name] += np.bincount(window, weights, windows).astype(np.int64)
        return totals

    def registers_used(self) -> list[int]:
        """One above the highest register that each window uses, so far."""
        self._follow()
        used = np.zeros(len(self.windows), np.int64)
        for events in self._parts():
            np.maximum.at(used, events["window"], events["reg"].astype(np.int64) + 1)
        return used.tolist()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Accesses in the order in which they were recorded: one array for each column.

        ``time`` int64, ``window`` uint32, ``kind`` uint8, ``reg`` uint16, ``exec_mask`` uint64 and
        ``value`` int32, the row of `values`.
        """
        events = np.frombuffer(self._events, EVENT)
        return {name: events[name] for name in EVENT.names or ()}

    def _parts(self) -> Iterator[npt.NDArray[Any]]:
        events = np.frombuffer(self._events, EVENT)
        for first in range(0, len(events), _ROWS_AT_ONCE):
            yield events[first : first + _ROWS_AT_ONCE]

    def values(self) -> npt.NDArray[np.uint32]:
        """Distinct contents of registers, uint32[rows, lanes], in the order of their first use."""
        return self._contents.rows

    @property
    def gaps(self) -> Gaps:
        """Whether reads see the last write."""
        self._follow()
        return Gaps(*self._counted.tolist())

    def _admit(self, window: WindowLog, time: int, register: int) -> int | None:
        """When an access happens; None if it is not kept."""
        self.last = max(self.last, time)
        if window.number < 0:
            return None
        if window.end != _NOT_YET or register >= (window.size or MOST_REGISTERS):
            why = "after its release"
            if window.end == _NOT_YET:
                why = f"of registers that it does not have; a window has {MOST_REGISTERS} at most"
            self.skip(f"accesses to a window {why}")
            return None
        if time < window.last:
            self.skip("times that go back, taken as the latest")
        window.last = max(time, window.last)
        return window.last

    def _put(
        self, window: WindowLog, time: int, kind: int, register: int, lanes: int, values: "Values"
    ) -> None:
        """Have an access wait for those that follow it."""
        shown = bytes(values)
        if len(shown) != 4 * lanes.bit_count() or lanes >> self.lanes:
            raise ValueError(f"{len(shown)} bytes for the lanes {lanes:#x}")
        if kind != READ:
            window.known |= 1 << register
        self._block += _packed_event(time, window.number, kind, register, lanes, -1)
        self._shown += shown
        if len(self._block) >= _BLOCK:
            self._follow()

    def _follow(self) -> None:
        """Take the accesses that wait."""
        if not self._block:
            return
        events = np.frombuffer(self._block, EVENT)
        masks = events["exec_mask"]
        shows = np.flatnonzero(masks)
        on = np.unpackbits(
            np.ascontiguousarray(masks[shows]).view(np.uint8).reshape(-1, 8),
            axis=1,
            count=self.lanes,
            bitorder="little",
        ).view(np.bool_)
        shown = np.zeros((len(shows), self.lanes), np.uint32)
        shown[on] = np.frombuffer(self._shown, "<u4")
        events["value"][shows] = np.arange(len(shows))
        self._block, self._shown = bytearray(), bytearray()
        self._take(events, shown)

    def _take(self, events: npt.NDArray[Any], shown: npt.NDArray[np.uint32] | None) -> None:
        """Find out what registers hold after accesses, and keep these; see `Contents.follow`."""
        place = self._registers.first_of[events["window"]] + events["reg"]
        columns = (np.ascontiguousarray(events[name]) for name in ("kind", "exec_mask", "value"))
        events["value"] = self._contents.follow(
            (place, *columns), shown, self._registers.state, self._counted
        )
        events["exec_mask"][events["kind"] == READ] = 0
        self._events += events.view(np.uint8).data
        self._registers.free_closed()
        if len(self._events) >= self._next_check:
            self._require_size()

    def _require_size(self) -> None:
        size = len(self._events) + self._contents.nbytes
        size += len(self.windows) * _BYTES_OF_WINDOW
        self._next_check = len(self._events) + MIB
        if size > MOST_BYTES:
            raise UserError(
                f"the traces would have more than {MOST_BYTES // MIB} MiB uncompressed, of "
                f"{len(self.windows):,} windows; ask for fewer: --windows or --slice"
            )


def lanes_of(content: bytes, lanes: int) -> bytes:
    """Numbers of the lanes in a mask, of a content with a number for each lane."""
    if lanes.bit_count() * 4 == len(content):
        return content
    return np.frombuffer(content, "<u4")[_numbers(lanes)].tobytes()


def contents_of(row: object, lanes: int) -> bytes | None:
    """Content of a register that JSON shows as a list of so many numbers; None if it is none."""
    with suppress(TypeError, OverflowError):
        if isinstance(row, list) and len(row) == lanes:
            return array("I", row).tobytes()
    return None


@lru_cache(4096)
def _numbers(lanes: int) -> npt.NDArray[np.int64]:
    """Numbers of the lanes in a mask, ascending."""
    return np.array([lane for lane in range(64) if lanes >> lane & 1])


# Parts of a format.


class Reader:
    """Reads the files of a run into a recording; each format has one of its own.

    Parameters
    ----------
    sources : sequence of Source
        The files.
    options : ImportOptions
        What the user asks for, and what they do not say.

    Attributes
    ----------
    recording : Recording
        What is read goes there.
    source, line : Source, int
        The file at hand, and the number of its line.
    unfinished : bool
        Whether a last line without a line break counts; see `Source.blocks`.
    """

    unfinished = False

    def __init__(self, sources: Sequence[Source], options: ImportOptions) -> None:
        self.recording = Recording(options.windows, options.slices)
        self.sources, self.options = sources, options
        self.source, self.line = sources[0], 0

    def prepare(self) -> None:
        """Make ready for the first file."""

    def read_all(self) -> Recording:
        """Read all files; what is known is said also where no more of them is wanted."""
        self.prepare()
        try:
            for source in self.sources:
                self.source = source
                self.read()
        except Enough:
            end = "of the part that was asked for; the rest was not read"
            self.recording.inferred["end"] = end
        self.finish()
        self.recording.finish()
        return self.recording

    def read(self) -> None:
        """Read the file at hand."""
        for number, line in self.source.lines(self.unfinished):
            self.line = number
            self.take(line)

    def take(self, line: bytes) -> None:
        """Take a line of the file."""
        raise NotImplementedError

    def finish(self) -> None:
        """Say what was in the files, and what was concluded."""

    @staticmethod
    def object_of(line: bytes) -> dict[str, Any] | None:
        """JSON object that a line holds; None if it holds none."""
        content = None
        with suppress(ValueError, RecursionError):
            content = json.loads(line)
        return content if isinstance(content, dict) else None

    def skip(self, reason: str) -> None:
        """Count a record that is left out; see `Recording.skip`."""
        self.recording.skip(reason, self.source, self.line)

    def fail(self, why: str) -> NoReturn:
        """Refuse the file because of the line at hand."""
        self.source.fail(self.line, why)


@dataclass(frozen=True)
class Format:
    """A format of another tool.

    Attributes
    ----------
    name : str
        As ``--format`` takes it.
    title : str
        The tool and what of it is read.
    recognises : callable
        ``recognises(source)``: whether a file is of this format, by `Source.head` and its name.
    reader : type of Reader
        Reads it.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    reader: type[Reader]
