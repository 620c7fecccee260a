"""Plain tables of events, as CSV or as NumPy arrays."""

import csv
import math
import re
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from mcage.files.inputs import MIB, open_regular
from mcage.plain_text import said_by, shown
from mcage.traces.model import ALLOC, MOST_REGISTERS, READ, RELEASE
from mcage.traces.storage import MOST_BYTES, MOST_FILE_BYTES
from mcage.tracing.importing.recording import Format, Recording
from mcage.tracing.importing.sources import Options, Source
from mcage.tracing.importing.windows import Origin, Place, Window

# Events that a user has written down: every rule that they break is an error.

Fail = Callable[[str], NoReturn]


class PlainEvents:
    """Takes events by the names that a user gives to windows.

    A name may be used again when its window is released. A window that is never allocated lasts
    from its first to its last access.

    Parameters
    ----------
    recording : Recording
        Where the events go.
    fail : callable
        Refuses the file because of the event at hand.
    """

    def __init__(self, recording: Recording, fail: Fail) -> None:
        self.recording = recording
        self._fail = fail
        self._open: dict[Any, Window] = {}
        self._implied: set[Any] = set()
        self._allocated: set[Any] = set()

    def alloc(
        self, name: Any, time: int, size: int, origin: Origin, place: Place, entry: int | None
    ) -> None:
        """Allocate a window."""
        if name in self._open:
            self._fail(f"window {_in_words(name)} is allocated, but still open")
        if not 1 <= size <= MOST_REGISTERS:
            self._fail(
                f"window {_in_words(name)} has {size} registers, must be 1 ... {MOST_REGISTERS}"
            )
        self._allocated.add(name)
        self._keep(name, time, size, origin, place, entry)

    def access(self, name: Any, time: int, register: int) -> Window:
        """Window of an access, which has been checked."""
        window = self._open.get(name)
        if window is None:
            if name in self._allocated:
                self._fail(f"window {_in_words(name)} has been released, and not allocated again")
            self._implied.add(name)
            self.recording.inferred["windows"] = "from the first to the last access"
            window = self._keep(name, time, None, Origin(), Place(), None)
        if time < window.last:
            self._fail(
                f"cycle {time} is before {window.last}, that of an earlier event of window "
                f"{_in_words(name)}"
            )
        if not 0 <= register < (window.size or MOST_REGISTERS):
            self._fail(f"register {register} is outside of window {_in_words(name)}")
        return window

    def release(self, name: Any, time: int) -> None:
        """Release a window."""
        window = self._open.pop(name, None)
        if window is None:
            self._fail(f"window {_in_words(name)} is released, but not open")
        if time < window.last:
            self._fail(
                f"window {_in_words(name)} is released before its last access: {window.last}"
            )
        self.recording.close_window(window, time)

    def end(self) -> None:
        """Close the windows that nothing has allocated."""
        for name in self._implied & self._open.keys():
            self.recording.close_window(self._open[name], self._open[name].last)
        self.recording.in_file |= {
            **{"values": "after the write", "lanes": "masks", "time": "cycles"},
            "registers": "numbers in the window",
        }

    def _keep(
        self,
        name: Any,
        time: int,
        size: int | None,
        origin: Origin,
        place: Place,
        entry: int | None,
    ) -> Window:
        facts: dict[str, Any] = {
            "window": name if isinstance(name, int) else _in_words(name),
            "launch": origin.launch,
            "kernel": origin.kernel,
        }
        facts |= {"work_group": origin.work_group, "wavefront": origin.wavefront}
        window = self.recording.open_window(time, size, origin, place, entry, facts=facts)
        self._open[name] = window
        return window


def _in_words(name: Any) -> str:
    return shown(name.decode("utf-8", "replace") if isinstance(name, bytes) else name)


# Rows of a table of events, many at once, as far as nothing about them is strange.
#
# Python takes a microsecond for each field that it cuts out and looks at. Where fields begin, what
# event a row has, its cycle and its register are therefore found for all lines of a block
# together.

_LINE_BREAK, _COMMA, _QUOTE, _ZERO = b'\n,"0'
_MOST_DIGITS, _MOST_DIGITS_OF_REGISTER = 18, 3
"""So many digits make no number that is too large."""

ROWS_READ, WRITE = 1, 2

Places = NDArray[np.int64]


class Columns(NamedTuple):
    """Numbers of the columns that reads and writes have; -1 for one that the file lacks."""

    cycle: int
    event: int
    window: int
    register: int
    lanes: int
    values: int


class Rows(NamedTuple):
    """Lines of a block, from the first to the last.

    Places are two numbers, where they begin and where they end, and no objects that the collector
    of garbage would have to look through.

    Attributes
    ----------
    line : iterator of (int, int, int)
        Place of each line without its line break, and its event: `READ` or `WRITE`, or 0 if it is
        to be looked at by itself.
    access : iterator of (int, int, int, int)
        Cycle, register and place of the window's name, of each read and write in turn.
    content : iterator of (int, int, int, int)
        Places of lanes and values, of each write in turn.
    """

    line: Iterator[tuple[int, int, int]]
    access: Iterator[tuple[int, int, int, int]]
    content: Iterator[tuple[int, int, int, int]]


def rows_of(block: bytes, columns: Columns, names: int) -> Rows:
    """Find the rows of a block of whole lines, of a table with so many columns."""
    text = np.frombuffer(block, np.uint8)
    end = np.flatnonzero(text == _LINE_BREAK)
    begin = np.append(0, end[:-1] + 1)
    comma = np.flatnonzero(text == _COMMA)
    first = np.searchsorted(comma, begin)
    plain = np.diff(first, append=len(comma)) == names - 1
    plain[np.searchsorted(end, np.flatnonzero((text == _QUOTE) | (text == 0)))] = False

    def field(column: int, row: Places) -> tuple[Places, Places]:
        """Where a field of rows begins and ends; it is empty if there is no such column."""
        if column < 0:
            return np.zeros_like(row), np.zeros_like(row)
        left = comma[first[row] + column - 1] + 1 if column else begin[row]
        return left, comma[first[row] + column] if column < names - 1 else end[row]

    row = np.flatnonzero(plain)
    event = _events(block, *field(columns.event, row))
    cycle = _numbers(text, *field(columns.cycle, row), _MOST_DIGITS)
    register = _numbers(text, *field(columns.register, row), _MOST_DIGITS_OF_REGISTER)
    length = {
        name: np.subtract(*field(column, row)[::-1]) for name, column in columns._asdict().items()
    }
    good = (event > 0) & (cycle >= 0) & (register >= 0) & (length["window"] > 0)
    content = (length["lanes"] + length["values"]) * (event == WRITE)
    used = content + sum(length[name] for name in ("cycle", "event", "window", "register"))
    good &= used + names - 1 == end[row] - begin[row]  # all other fields are empty
    row, event, cycle, register = (column[good] for column in (row, event, cycle, register))
    of_line = np.zeros(len(end), np.int64)
    of_line[row] = event
    write = row[event == WRITE]
    return Rows(
        _each(begin, end, of_line),
        _each(cycle, register, *field(columns.window, row)),
        _each(*field(columns.lanes, write), *field(columns.values, write)),
    )


def _each(*columns: Places) -> Iterator[Any]:
    """The rows of columns, one after another."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _events(block: bytes, begin: Places, end: Places) -> Places:
    """Which event is named in each of n places; 0 if it is another."""
    if len(block) < len(b"read"):
        return np.zeros_like(begin)
    fours = np.ndarray(len(block) - 3, "<u4", block, strides=(1,))  # of bytes, from each on
    length, last = end - begin, len(fours) - 1
    head, tail = (fours[np.minimum(begin + shift, last)] for shift in (0, 1))
    read = (length == len(b"read")) & (head == _number(b"read"))
    write = (length == len(b"write")) & (head == _number(b"writ")) & (tail == _number(b"rite"))
    named: Places = ROWS_READ * read + WRITE * write
    return named


def _number(four: bytes) -> int:
    return int.from_bytes(four, "little")


def _numbers(text: NDArray[np.uint8], begin: Places, end: Places, most_digits: int) -> Places:
    """Number in each of n places; -1 if there is none, or it is longer than so many digits."""
    length, number = end - begin, np.zeros_like(begin)
    good = (length > 0) & (length <= most_digits)
    for place in range(int(length[good].max(initial=0))):
        digit = text[np.minimum(begin + place, len(text) - 1)].astype(np.int64) - _ZERO
        within = place < length
        good &= ~within | ((digit >= 0) & (digit <= 9))
        number = np.where(within & good, 10 * number + digit, number)
    return np.where(good, number, -1)


# A table that users write themselves: CSV with a row for each event.

REQUIRED = ("cycle", "event", "window")
OPTIONAL = (
    *("register", "lanes", "values"),
    *("size", "kernel", "launch", "work_group", "wavefront", "unit", "part", "entry"),
)

_EVENTS = {
    b"alloc": OPTIONAL[3:],
    b"write": ("register", "lanes", "values"),
    b"read": ("register",),
    b"release": (),
}
"""Which columns each event has besides those that all have."""

_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]+")
_CYCLE, _ID, _OTHER = 1 << 62, 1 << 32, 1 << 16
"""Numbers are below these: cycles; launches, work-groups and wavefronts; all others."""

_SPACES = [" " * (count - 1) for count in range(65)]
"""What stands between the values of so many lanes."""

_MOST_COMMENTS = 100
_MOST_MASKS = 1 << 12
_APPROXIMATE = {f"approximate {what}": what for what in ("lanes", "time", "contents")}


def _recognises(source: Source) -> bool:
    for line in source.head.removeprefix(b"\xef\xbb\xbf").splitlines():
        if line and not line.startswith(b"#"):
            return set(REQUIRED) <= set(_names(line))
    return False


def _names(line: bytes) -> list[str]:
    return [_text(name.strip()) for name in line.split(b",")]


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _read(sources: Sequence[Source], recording: Recording, options: Options) -> None:
    for source in sources:
        _Table(source, recording).read()


class _Table:
    """One file, while it is read."""

    def __init__(self, source: Source, recording: Recording) -> None:
        self.source, self.recording = source, recording
        self.line = 0
        self.columns: dict[str, int] = {}
        self.masks: dict[bytes, tuple[int, int]] = {}
        self.events = PlainEvents(recording, self.fail)

    def read(self) -> None:
        for first, block in self.source.blocks(unfinished=True):
            self.line, begin = first, 0
            while not self.columns and begin < len(block):
                end = block.index(b"\n", begin)
                self.alone(block[begin:end])
                self.line, begin = self.line + 1, end + 1
            if begin < len(block):
                self.rows(block[begin:] if begin else block)
        if not self.columns:
            self.source.refuse(f"has no line with the names of the columns: {', '.join(REQUIRED)}")
        self.events.end()

    def fail(self, why: str) -> NoReturn:
        self.source.fail(self.line, why)

    def alone(self, text: bytes) -> None:
        """Read a line by itself."""
        if text[:1] == b"#":
            self.comment(text)
        elif not text or text.isspace():
            return
        elif not self.columns:
            self.header(text)
        else:
            self.row(self.fields(text))

    def rows(self, block: bytes) -> None:
        """Read whole lines, of which the line at hand is the first."""
        rows = rows_of(block, self.plain, len(self.columns))
        text, access, recording = block.decode("latin-1"), self.events.access, self.recording
        for self.line, (begin, end, event) in enumerate(rows.line, self.line):  # noqa: B020
            if not event:
                self.alone(block[begin:end])
                continue
            time, register, begin, end = next(rows.access)
            window = access(block[begin:end], time, register)
            if event == ROWS_READ:
                recording.read(window, time, register)
            else:
                begin, end, first, last = next(rows.content)
                self.write(block[begin:end], text[first:last], window, time, register)

    def comment(self, text: bytes) -> None:
        """``# lanes: 32`` says how wide registers are; any other pair is kept as a version.

        ``# approximate time: why`` makes the trace an approximate one; so with lanes and contents.
        """
        key, colon, value = (part.strip() for part in _text(text[1:]).partition(":"))
        if key == "lanes" and colon:
            if value not in ("32", "64") or self.recording.lanes not in (0, int(value)):
                self.fail(f"{shown(value)} lanes; must be 32 or 64, once")
            self.recording.has_lanes(int(value))
        elif colon and key in _APPROXIMATE:
            self.recording.approximate[_APPROXIMATE[key]] = shown(value, 200)
        elif colon and len(self.recording.tools) < _MOST_COMMENTS:
            self.recording.tools[shown(key)] = shown(value, 200)

    def header(self, text: bytes) -> None:
        names = _names(text)
        for name in names:
            if name not in REQUIRED + OPTIONAL or names.count(name) > 1:
                known = ", ".join(REQUIRED + OPTIONAL)
                self.fail(f"column {shown(name)!r} is unknown or there twice; there are {known}")
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            self.fail(f"has no column {missing[0]!r}")
        if not self.recording.lanes:
            self.fail("no line '# lanes: 32' or '# lanes: 64' before the names of the columns")
        self.columns = {name: number for number, name in enumerate(names)}
        self.plain = Columns(*(self.columns.get(name, -1) for name in Columns._fields))
        self.masks = {b"": ((1 << self.recording.lanes) - 1, self.recording.lanes)}

    def fields(self, text: bytes) -> list[bytes]:
        """Fields of a row, and an empty one at the end for the columns that the file lacks."""
        if b"\0" in text:
            self.fail("holds a zero byte")
        if b'"' not in text:
            fields = text.split(b",")
        else:
            try:
                row = next(csv.reader([_text(text)], strict=True))
            except csv.Error as error:
                self.fail(str(error))
            fields = [content.encode() for content in row]
        if len(fields) != len(self.columns):
            self.fail(f"has {len(fields)} columns, the names above are {len(self.columns)}")
        fields.append(b"")
        if fields[self.plain.event] not in _EVENTS:
            fields = [content.strip() for content in fields]
        return fields

    def row(self, fields: list[bytes]) -> None:
        plain = self.plain
        event, name = fields[plain.event], fields[plain.window]
        if event not in _EVENTS:
            self.fail(f"event {shown(_text(event))!r}: must be one of {_text(b', '.join(_EVENTS))}")
        if not name:
            self.fail("window has no name")
        for column, content in zip(self.columns, fields, strict=False):
            if column not in REQUIRED + _EVENTS[event] and content.strip():
                self.fail(
                    f"{column} is {shown(_text(content))!r}; the event {_text(event)} has none"
                )
        time = self.number(fields[plain.cycle], _CYCLE)
        if event in (b"write", b"read"):
            register = self.number(fields[plain.register], _OTHER, "register")
            window = self.events.access(name, time, register)
            if event == b"write":
                values = fields[plain.values].decode("latin-1")
                self.write(fields[plain.lanes], values, window, time, register)
            else:
                self.recording.read(window, time, register)
        elif event == b"alloc":
            self.alloc(fields, name, time)
        else:
            self.events.release(name, time)

    def alloc(self, fields: list[bytes], name: bytes, time: int) -> None:
        def given(column: str) -> int | None:
            text = fields[self.columns.get(column, -1)]
            largest = _ID if column in ("launch", "work_group", "wavefront") else _OTHER
            return self.number(text, largest, column) if text else None

        kernel = _text(fields[self.columns.get("kernel", -1)]) or "kernel"
        origin = Origin(kernel, given("launch") or 0, given("work_group"), given("wavefront"))
        size = self.number(fields[self.columns.get("size", -1)], _OTHER, "size")
        place = Place(given("unit"), given("part") or 0)
        self.events.alloc(name, time, size, origin, place, given("entry"))

    def write(self, lanes: bytes, text: str, window: Window, time: int, register: int) -> None:
        mask, count = self.masks.get(lanes) or self.mask(lanes)
        if len(text) == 9 * count - 1 and text[8::9] == _SPACES[count]:
            try:
                packed = bytes.fromhex(text)
            except ValueError:
                packed = b""
            if len(packed) == 4 * count:
                values = array("I", packed)
                values.byteswap()
                self.recording.write(window, time, register, mask, values)
                return
        numbers = [
            self.hexadecimal(number, "values", 32) for number in text.encode("latin-1").split()
        ]
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count:
            self.fail(f"has {len(numbers)} values for {count} lanes")
        self.recording.write(window, time, register, mask, array("I", numbers))

    def mask(self, lanes: bytes) -> tuple[int, int]:
        """A set of lanes, and how many they are."""
        mask = self.hexadecimal(lanes, "lanes", self.recording.lanes)
        if not mask:
            self.fail("a write without lanes; leave it out")
        if len(self.masks) < _MOST_MASKS:
            self.masks[lanes] = mask, mask.bit_count()
        return mask, mask.bit_count()

    def number(self, text: bytes, largest: int, column: str = "cycle") -> int:
        if text.isdigit() and len(text) < 20:
            number = int(text)
            if number < largest:
                return number
        self.fail(f"{column} is {shown(_text(text))!r}, must be a number below {largest:,}")

    def hexadecimal(self, text: bytes, column: str, bits: int) -> int:
        if not _HEXADECIMAL.fullmatch(text) or int(text, 16) >> bits:
            self.fail(
                f"{column}: {shown(_text(text))!r} is no hexadecimal number of {bits} bits, "
                "written without 0x"
            )
        return int(text, 16)


FORMAT = Format("csv", "plain CSV", _recognises, _read)


# Arrays that users write themselves: an NPZ file with a column for each property of an event.

ARRAYS_REQUIRED = ("cycle", "kind", "window", "reg", "value", "values")
ARRAYS_OPTIONAL = (
    *("exec", "kernel", "kernels", "launch", "work_group", "wavefront", "unit", "part", "entry"),
)
_LARGEST = {"cycle": 1 << 62, "window": 1 << 62, "exec": 1 << 64, "values": 1 << 32}
_OTHERS_LARGEST = 1 << 32


def _recognises_arrays(source: Source) -> bool:
    return source.head.startswith(b"PK\x03\x04")


def _read_arrays(sources: Sequence[Source], recording: Recording, options: Options) -> None:
    for source in sources:
        _Arrays(source, recording).read()


class _Arrays:
    """One file, while it is read."""

    def __init__(self, source: Source, recording: Recording) -> None:
        self.source, self.recording = source, recording
        self.row = 0
        self.events = PlainEvents(recording, self.fail)

    def fail(self, why: str) -> NoReturn:
        self.source.refuse(f"event {self.row}: {why}")

    def read(self) -> None:
        arrays = self.arrays()
        values = np.ascontiguousarray(arrays["values"], "<u4")
        lanes = values.shape[1]
        if lanes not in (32, 64) or self.recording.lanes not in (0, lanes):
            self.source.refuse(f"values has {lanes} columns; must be 32 or 64, in all files")
        self.recording.has_lanes(lanes)
        every_lane = (1 << lanes) - 1
        masks = arrays.get("exec")
        for row, (kind, time, name, register, number) in enumerate(self.rows(arrays)):
            self.row = row
            if kind == ALLOC:
                self.alloc(arrays, name, time, register)
            elif kind == RELEASE:
                self.events.release(name, time)
            elif kind == READ:
                self.recording.read(self.events.access(name, time, register), time, register)
            else:
                window = self.events.access(name, time, register)
                mask = every_lane if masks is None else int(masks[row])
                if not 0 < mask <= every_lane:
                    self.fail(f"a write of the lanes {mask:#x}; must be 1 ... {every_lane:#x}")
                if not 0 <= number < len(values):
                    self.fail(f"row {number} of values does not exist; there are {len(values)}")
                content = values[number]
                if mask != every_lane:
                    content = content[_bits(mask, lanes)]
                self.recording.write(window, time, register, mask, content)
        self.events.end()

    def rows(self, arrays: dict[str, npt.NDArray[Any]]) -> Any:
        """Events as tuples of integers, some thousand at once."""
        columns = [arrays[name] for name in ("kind", "cycle", "window", "reg", "value")]
        for first in range(0, len(columns[0]), 4096):
            yield from zip(*(c[first : first + 4096].tolist() for c in columns), strict=True)

    def alloc(self, arrays: dict[str, npt.NDArray[Any]], name: int, time: int, size: int) -> None:
        def given(column: str) -> int | None:
            return int(arrays[column][self.row]) if column in arrays else None

        kernel, number, names = "kernel", given("kernel"), arrays.get("kernels")
        if number is not None and names is not None:
            if number >= len(names):
                self.fail(f"kernel {number} is not in kernels, which has {len(names)}")
            kernel = str(names[number])
        origin = Origin(kernel, given("launch") or 0, given("work_group"), given("wavefront"))
        place = Place(given("unit"), given("part") or 0)
        self.events.alloc(name, time, size, origin, place, given("entry"))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays of the file, with the types, shapes and ranges that they may have."""
        try:
            with (
                open_regular(self.source.path, MOST_FILE_BYTES) as stream,
                zipfile.ZipFile(stream) as archive,
            ):
                arrays = self.checked(archive)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
            self.source.refuse(f"no NPZ file: {said_by(error)}")
        for name in ARRAYS_REQUIRED:
            if name not in arrays:
                self.source.refuse(f"has no array {name!r}")
        events = arrays["kind"].size
        for name, column in arrays.items():
            per_event = name not in ("values", "kernels")
            if column.ndim != 1 + (name == "values") or (per_event and len(column) != events):
                wanted = f"({events},), as kind has" if per_event else "[rows, lanes]"
                self.source.refuse(f"{name} has shape {column.shape}, must have {wanted}")
            if name != "kernels":
                self.check_range(name, column)
        bad = np.flatnonzero(arrays["kind"] > READ)
        if len(bad):
            self.row = int(bad[0])
            self.fail(f"kind {arrays['kind'][self.row]}: must be {ALLOC} ... {READ}")
        return arrays

    def check_range(self, name: str, column: npt.NDArray[Any]) -> None:
        if column.dtype.kind not in "iu":
            self.source.refuse(f"{name} has type {column.dtype}, must be integers")
        largest = _LARGEST.get(name, _OTHERS_LARGEST) - 1
        low = -1 if name == "value" else 0
        if column.size and not (int(column.min()) >= low and int(column.max()) <= largest):
            bad = tuple(np.argwhere((column < low) | (column > largest))[0].tolist())
            why = f"{name} is {column[bad]}, must be {low} ... {largest:,}"
            if name != "values":
                self.row = bad[0]
                self.fail(why)
            self.source.refuse(f"row {bad[0]}, lane {bad[1]}: {why}")

    def checked(self, archive: zipfile.ZipFile) -> dict[str, npt.NDArray[Any]]:
        """Arrays that are known by name; their size is known before they are read."""
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        strange = [name for name in members if name not in ARRAYS_REQUIRED + ARRAYS_OPTIONAL]
        if strange:
            known = ", ".join(ARRAYS_REQUIRED + ARRAYS_OPTIONAL)
            self.source.refuse(f"array {shown(strange[0])!r} is unknown; there are {known}")
        total = sum(info.file_size for info in members.values())
        if total > 2 * MOST_BYTES:
            self.source.refuse(
                f"its arrays have {total / MIB:,.0f} MiB; at most {2 * MOST_BYTES // MIB} are read"
            )
        return {name: self.array(name, archive, info) for name, info in members.items()}

    def array(self, name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
        try:
            with archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0
                if version != (1, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
                if dtype.hasobject or math.prod(shape) * dtype.itemsize > info.file_size:
                    raise ValueError("its data are not as its header says")
            with archive.open(info) as stream:
                array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except Exception as error:  # of damaged data, zlib and NumPy raise whatever they do
            self.source.refuse(f"array {name!r} cannot be read: {said_by(error)}")
        return array


def _bits(mask: int, lanes: int) -> npt.NDArray[np.bool_]:
    return (np.uint64(mask) >> np.arange(lanes, dtype=np.uint64) & np.uint64(1)).astype(bool)


ARRAYS_FORMAT = Format("npz", "plain NPZ", _recognises_arrays, _read_arrays)
