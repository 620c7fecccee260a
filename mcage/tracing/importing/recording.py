"""What an importer has read: windows, and what was written to and read from their registers."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.inputs import MIB
from mcage.geometry import SliceGeometry, usual_slice
from mcage.traces.model import MOST_REGISTERS, READ, WRITE
from mcage.traces.storage import MOST_BYTES
from mcage.tracing.importing.sources import Enough, Limits, Options, Source

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Values = Buffer | npt.NDArray[Any]

_packed_event = struct.Struct("<qIBHQi").pack
_EVENT = np.dtype(
    [
        *(("time", "<i8"), ("window", "<u4"), ("kind", "u1")),
        *(("reg", "<u2"), ("exec_mask", "<u8"), ("value", "<i4")),
    ]
)
_NEVER = -(1 << 62)
_MOST_LATE = 1 << 14
_BYTES_OF_WINDOW = 2048
_WINDOWS_BETWEEN_CHECKS = 1024

MOST_WINDOWS = 1 << 18
"""Windows of an import, each of which takes two kilobytes of memory."""


# What an import knows of a window, and what is counted of it.

_MOST_NARROW = 255
"""Registers up to this one are a byte in digests, all others two."""


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

    def names(self) -> frozenset[str]:
        """What the slice is called with 64 and with 32 lanes; nothing if it is not known."""
        return frozenset(() if self.unit is None else (self.name(64), self.name(32)))

    def name(self, lanes: int) -> str:
        """What the slice is called: ``cu0.simd1`` or ``sm0.part1``."""
        unit, part = ("cu", "simd") if lanes == 64 else ("sm", "part")
        return f"{unit}{self.unit}.{part}{self.part}"


class Counted:
    """Numbers and digests of the writes and reads of a window."""

    def __init__(self) -> None:
        self.writes = self.exact_writes = self.lane_writes = self.partial_writes = self.reads = 0
        self.most_register = -1
        self._all: Any = blake2b(digest_size=12)
        self._states: Any = blake2b(digest_size=12)
        self._registers = bytearray()
        self._exact: Any = None  # that of all writes, until one is not exact
        self._digests: dict[str, str] = {}

    def write(self, register: int, lanes: int, packed: bytes, content: bytes, exact: bool) -> None:
        """Count a write: the values of its lanes, and what the whole register holds after it."""
        number = register.to_bytes(1 if register <= _MOST_NARROW else 2, "little")
        written = number + lanes.to_bytes(8, "little") + packed
        self.writes += 1
        self.exact_writes += exact
        self.lane_writes += len(packed) // 4
        self.partial_writes += len(packed) < len(content)
        if self._exact is not None and exact:
            self._exact.update(written)
        elif self._exact is None and not exact:
            self._exact = self._all.copy()
        self._all.update(written)
        self._states.update(number + content)
        self._registers += number

    def facts(self) -> dict[str, Any]:
        """Numbers and digests by name."""
        numbers = ("writes", "exact_writes", "lane_writes", "partial_writes", "reads")
        self.close()
        return {name: getattr(self, name) for name in numbers} | self._digests

    def close(self) -> None:
        """Keep the digests only as text, which is smaller."""
        if self._digests:
            return
        registers = blake2b(self._registers, digest_size=12)
        digests = (self._all, self._exact or self._all, self._states, registers)
        names = ("digest", "digest_of_exact", "state_digest", "registers_written")
        texts = (digest.hexdigest() for digest in digests)
        self._digests = dict(zip(names, texts, strict=True))
        self._all = self._exact = self._states = None
        self._registers = bytearray()


@dataclass(eq=False, slots=True)
class Window:
    """A register window; what it holds is known to the recording alone.

    Attributes
    ----------
    number : int
        From 0, in the order in which windows open; -1 for one that the user has not asked for.
    size : int or None
        Registers; None until they are known, which `Recording.close_window` may say.
    begin, last, end : int
        Time of the allocation, of the last access so far, and of the release (None: not yet).
    lanes : int
        Lanes that have a work-item.
    facts : dict
        What `--json` says of this window besides what the recording counts.
    """

    number: int
    size: int | None
    begin: int
    origin: Origin
    place: Place
    first_entry: int | None
    lanes: int
    facts: dict[str, Any]
    last: int = 0
    end: int | None = None
    contents: dict[int, bytes] = field(default_factory=dict)
    counted: Counted = field(default_factory=Counted)


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


class Recording:
    """Takes what an importer reads, event by event, and keeps it in 27 bytes and its contents.

    Times are integers of any unit and origin, such as ticks; `period` of them are a cycle. An event
    earlier than what its window has seen already is counted and taken to happen at that moment.

    Parameters
    ----------
    limits : Limits, optional
        Which windows the user asks for.

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
    windows : list of Window
        Those that were kept.
    in_file, inferred, approximate : dict of str to str
        What the file said and what was concluded, each with how: "time": "ticks". What stands in
        `approximate` (lanes, time, contents) makes the trace an approximate one.
    tools : dict of str to str
        Versions of tools, drivers and devices that the file names.
    skipped : dict of str to list
        Reasons why records were left out: their number, the first file and line.
    gaps : Gaps
        Whether reads see the last write.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.lanes = self._every_lane = 0
        self.geometry: SliceGeometry | None = None
        self.period = 1
        self.granularity = 1
        self.windows: list[Window] = []
        self.in_file: dict[str, str] = {}
        self.inferred: dict[str, str] = {}
        self.approximate: dict[str, str] = {}
        self.tools: dict[str, str] = {}
        self.skipped: dict[str, list[Any]] = {}
        self.gaps = Gaps()
        self.last = _NEVER
        self._first = 0
        self._until: int | None = None
        self._late = 0
        self._windows_open = 0
        self._events = bytearray()
        self._next_check = MIB
        self._rows: dict[bytes, int] = {}

    def has_lanes(self, lanes: int) -> None:
        """Say how many lanes a register has, before the first window."""
        if lanes not in (32, 64) or self.lanes not in (0, lanes):
            raise ValueError(f"{lanes} lanes after {self.lanes}")
        self.lanes, self._every_lane = lanes, (1 << lanes) - 1

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
        facts: Mapping[str, Any] | None = None,
    ) -> Window:
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
        if self.last == _NEVER:
            self._begin_at(time)
        if self._is_late(time):
            raise Enough
        cycle = (time - self._first) // self.period
        kept = self.limits.keep(len(self.windows), cycle, place.names())
        window = Window(
            number=len(self.windows) if kept else -1,
            size=size,
            begin=time,
            origin=origin,
            place=place,
            first_entry=first_entry,
            lanes=lanes or self.lanes,
            facts=dict(facts or {}),
            last=time,
        )
        if kept:
            if len(self.windows) >= MOST_WINDOWS:
                raise UserError(
                    f"there are more than {MOST_WINDOWS:,} windows; ask for fewer: --windows, "
                    "--cycles or --slice"
                )
            self.windows.append(window)
            self._windows_open += 1
            if not len(self.windows) % _WINDOWS_BETWEEN_CHECKS:
                self._require_size()
        elif not self._windows_open and self.limits.complete(len(self.windows)):
            raise Enough
        return window

    def write(
        self,
        window: Window,
        time: int,
        register: int,
        lanes: int,
        values: "Values",
        exact: bool = True,
    ) -> None:
        """Record a write.

        Parameters
        ----------
        window : Window
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
        if when is None:
            return
        packed, content = self._store(window, when, register, lanes, values)
        window.counted.write(register, lanes, packed, content[: 4 * window.lanes], exact)

    def preload(self, window: Window, register: int, lanes: int, values: "Values") -> None:
        """Record what a register holds when its window is opened; not counted as a write."""
        if lanes and self._admit(window, window.last, register) is not None:
            self._store(window, window.begin, register, lanes, values)

    def read(
        self,
        window: Window,
        time: int,
        register: int,
        lanes: int = 0,
        values: "Values" = b"",
    ) -> bool:
        """Record a read, and compare what the file shows of it with the last write.

        Parameters
        ----------
        window, time, register
            As in `write`.
        lanes : int
            Lanes whose contents the file shows.
        values : buffer
            These contents, as in `write`.

        Returns
        -------
        bool
            Whether the register holds these contents in these lanes.
        """
        when = self._admit(window, time, register)
        if when is None:
            return True
        self._keep(window, register, _packed_event(when, window.number, READ, register, 0, -1))
        window.counted.reads += 1
        self.gaps.reads += 1
        content = window.contents.get(register)
        if content is None:
            self.gaps.before_any_write += 1
            return not lanes
        if lanes and not _holds(content, lanes, bytes(values)):
            self.gaps.other_contents += 1
            return False
        return True

    def close_window(self, window: Window, time: int, size: int | None = None) -> None:
        """Release a window; its size may be said here at the latest.

        A window that is never closed is released when the last event of all has happened.
        """
        if window.end is not None:
            return
        if self._is_late(time):
            time = self.last
        window.end = max(time, window.last)
        window.size = size or window.size
        window.contents.clear()
        window.counted.close()
        if window.number >= 0:
            self._windows_open -= 1

    def skip(self, reason: str, source: "Source", line: int, count: int = 1) -> None:
        """Count records that are left out.

        Parameters
        ----------
        reason : str
            What they are and why they are left out: "writes outside of any window".
        source, line
            Where the first of them is.
        count : int
            How many there are.
        """
        if count:
            known = self.skipped.setdefault(reason, [0, source.path.name, line])
            known[0] += count

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Accesses in the order in which they were recorded: one array for each column.

        ``time`` int64, ``window`` uint32, ``kind`` uint8, ``reg`` uint16, ``exec_mask`` uint64 and
        ``value`` int32, the row of `values`.
        """
        events = np.frombuffer(self._events, _EVENT)
        return {name: events[name] for name in _EVENT.names or ()}

    def values(self) -> npt.NDArray[np.uint32]:
        """Distinct contents of registers, uint32[rows, lanes]."""
        return np.frombuffer(b"".join(self._rows), "<u4").reshape(-1, self.lanes)

    def _begin_at(self, time: int) -> None:
        if not self.lanes:
            raise ValueError("has_lanes comes before the first window")
        self._first = self.last = time
        latest = self.limits.latest
        self._until = None if latest is None else time + (latest + 1) * self.period - 1

    def _is_late(self, time: int) -> bool:
        """Whether this moment is after what is asked for; everything is when nothing else comes."""
        if self._until is None or time <= self._until:
            self.last = max(self.last, time)
            return False
        self.last = self._until
        self._late += 1
        if self._late > _MOST_LATE:
            raise Enough
        return True

    def _admit(self, window: Window, time: int, register: int) -> int | None:
        """When an access happens; None if it is not kept."""
        if self._until is not None and self._is_late(time):
            return None
        if time > self.last:
            self.last = time
        if window.number < 0:
            return None
        if window.end is not None or register >= (window.size or MOST_REGISTERS):
            why = "after its release"
            if window.end is None:
                why = f"of registers that it does not have; a window has {MOST_REGISTERS} at most"
            self._count(f"accesses to a window {why}")
            return None
        if time < window.last:
            self._count("times that go back, taken as the latest")
            return window.last
        window.last = time
        return time

    def _count(self, reason: str) -> None:
        self.skipped.setdefault(reason, [0, "", 0])[0] += 1

    def _store(
        self, window: Window, time: int, register: int, lanes: int, values: "Values"
    ) -> tuple[bytes, bytes]:
        whole = packed = bytes(values)
        if lanes != self._every_lane or len(packed) != 4 * self.lanes:
            if len(packed) != 4 * lanes.bit_count() or lanes >> self.lanes:
                raise ValueError(f"{len(packed)} bytes for the lanes {lanes:#x}")
            before = window.contents.get(register) or bytes(4 * self.lanes)
            whole = _overwritten(before, lanes, packed)
        window.contents[register] = whole
        row = self._rows.setdefault(whole, len(self._rows))
        self._keep(
            window, register, _packed_event(time, window.number, WRITE, register, lanes, row)
        )
        return packed, whole

    def _keep(self, window: Window, register: int, event: bytes) -> None:
        if register > window.counted.most_register:
            window.counted.most_register = register
        self._events += event
        if len(self._events) >= self._next_check:
            self._require_size()

    def _require_size(self) -> None:
        size = len(self._events) + len(self._rows) * 4 * self.lanes
        size += len(self.windows) * _BYTES_OF_WINDOW
        self._next_check = len(self._events) + MIB
        if size > MOST_BYTES:
            raise UserError(
                f"the traces would have more than {MOST_BYTES // MIB} MiB uncompressed, of "
                f"{len(self.windows):,} windows; ask for fewer: --windows, --cycles or --slice"
            )


def _holds(content: bytes, lanes: int, packed: bytes) -> bool:
    return lanes_of(content, lanes) == packed


def lanes_of(content: bytes, lanes: int) -> bytes:
    """Numbers of the lanes in a mask, of a content with a number for each lane."""
    if lanes.bit_count() * 4 == len(content):
        return content
    return np.frombuffer(content, "<u4")[_numbers(lanes)].tobytes()


def _overwritten(content: bytes, lanes: int, packed: bytes) -> bytes:
    """Content of a register after a write of some lanes."""
    first, end = _span(lanes)
    if len(packed) == end - first:
        return content[:first] + packed + content[end:]
    whole = bytearray(content)
    np.frombuffer(whole, "<u4")[_numbers(lanes)] = np.frombuffer(packed, "<u4")
    return bytes(whole)


@lru_cache(4096)
def _span(lanes: int) -> tuple[int, int]:
    """Bytes from the first lane of a mask to the end of the last."""
    return 4 * ((lanes & -lanes).bit_length() - 1), 4 * lanes.bit_length()


@lru_cache(4096)
def _numbers(lanes: int) -> npt.NDArray[np.int64]:
    """Numbers of the lanes in a mask, ascending."""
    return np.array([lane for lane in range(64) if lanes >> lane & 1])


# What a format is made of.


class Reader:
    """Reads the files of a run into a recording; each format has one of its own.

    Parameters
    ----------
    recording : Recording
        What is read goes there.
    sources : sequence of Source
        The files.
    options : Options
        What they do not say.

    Attributes
    ----------
    source, line : Source, int
        The file at hand, and the number of its line.
    unfinished : bool
        Whether a last line without a line break counts; see `Source.blocks`.
    """

    unfinished = False

    def __init__(self, recording: Recording, sources: Sequence[Source], options: Options) -> None:
        self.recording, self.sources, self.options = recording, sources, options
        self.source, self.line = sources[0], 0

    def prepare(self) -> None:
        """Make ready for the first file."""

    def read_all(self) -> None:
        """Read all files; what is known is said also where no more of them is wanted."""
        self.prepare()
        try:
            for source in self.sources:
                self.source = source
                self.read()
        except Enough:
            self.finish()
            raise
        self.finish()

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

    def read(self, sources: Sequence[Source], recording: Recording, options: Options) -> None:
        """Read the files of one run into the recording."""
        self.reader(recording, sources, options).read_all()
