"""Plain tables of events, as CSV or as NumPy arrays."""

import csv
import math
import re
import zipfile
from array import array
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.files.inputs import MIB, open_regular
from mcage.plain_text import said_by, shown
from mcage.traces.model import ALLOC, MOST_REGISTERS, READ, RELEASE
from mcage.traces.storage import MOST_BYTES, MOST_FILE_BYTES
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, Window, lanes_of
from mcage.tracing.importing.sources import Source

# Events that a user has written down: every rule that they break is an error.

Property = Callable[[str], int | None]
"""Gives a property of an allocation by its name: size, launch, work_group, wavefront, unit, part or
entry; None if the file does not say it."""


class PlainEvents(Reader):
    """Takes events by the names that a user gives to windows.

    A name may be used again when its window is released. A window that is never allocated lasts
    from its first to its last access.
    """

    def read(self) -> None:
        """Read the file at hand, and close the windows that nothing has allocated."""
        self._open: dict[Any, Window] = {}
        self._implied: set[Any] = set()
        self._allocated: set[Any] = set()
        self.events()
        for name in self._implied & self._open.keys():
            self.recording.close_window(self._open[name], self._open[name].last)

    def finish(self) -> None:
        """Say what was in the files."""
        self.recording.in_file |= {
            "values": "after the write",
            "lanes": "masks",
            "time": "cycles",
            "registers": "numbers in the window",
        }

    def events(self) -> None:
        """Read the events of the file at hand."""
        raise NotImplementedError

    def alloc(self, name: Any, time: int, kernel: str, given: Property) -> None:
        """Allocate a window."""
        origin = Origin(kernel, given("launch") or 0, given("work_group"), given("wavefront"))
        size = given("size")
        place, entry = Place(given("unit"), given("part") or 0), given("entry")
        if name in self._open:
            self.fail(f"window {_in_words(name)} is allocated, but still open")
        if size is None or not 1 <= size <= MOST_REGISTERS:
            self.fail(
                f"window {_in_words(name)} has {size} registers, must be 1 ... {MOST_REGISTERS}"
            )
        self._allocated.add(name)
        self._keep(name, time, size, origin, place, entry)

    def access(self, name: Any, time: int, register: int) -> Window:
        """Window of an access, which has been checked."""
        window = self._open.get(name)
        if window is None:
            if name in self._allocated:
                self.fail(f"window {_in_words(name)} has been released, and not allocated again")
            self._implied.add(name)
            self.recording.inferred["windows"] = "from the first to the last access"
            window = self._keep(name, time, None, Origin(), Place(), None)
        if time < window.last:
            self.fail(
                f"cycle {time} is before {window.last}, that of an earlier event of window "
                f"{_in_words(name)}"
            )
        if not 0 <= register < (window.size or MOST_REGISTERS):
            self.fail(f"register {register} is outside of window {_in_words(name)}")
        return window

    def release(self, name: Any, time: int) -> None:
        """Release a window."""
        window = self._open.pop(name, None)
        if window is None:
            self.fail(f"window {_in_words(name)} is released, but not open")
        if time < window.last:
            self.fail(f"window {_in_words(name)} is released before its last access: {window.last}")
        self.recording.close_window(window, time)

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


class _Table(PlainEvents):
    """Reads CSV."""

    def events(self) -> None:
        self.columns: dict[str, int] = {}
        for number, text in self.source.lines(unfinished=True):
            self.line = number
            if text[:1] == b"#":
                self.comment(text)
            elif not text or text.isspace():
                continue
            elif self.columns:
                self.row(self.fields(text))
            else:
                self.header(text)
        if not self.columns:
            self.source.refuse(f"has no line with the names of the columns: {', '.join(REQUIRED)}")

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
        self.cycle, self.event, self.window, self.register, self.lanes, self.values = (
            self.columns.get(name, -1) for name in (*REQUIRED, *OPTIONAL[:3])
        )
        self.unused = {event: self.columns_without(used) for event, used in _EVENTS.items()}
        self.masks = {b"": ((1 << self.recording.lanes) - 1, self.recording.lanes)}

    def columns_without(self, used: tuple[str, ...]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
        """Fields of a row that must be empty; the one behind the last column is."""
        unused = (n for name, n in self.columns.items() if name not in REQUIRED + used)
        return itemgetter(*unused, -1, -1)

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
        if fields[self.event] not in _EVENTS:
            fields = [content.strip() for content in fields]
        return fields

    def row(self, fields: list[bytes]) -> None:
        event, name = fields[self.event], fields[self.window]
        if event not in _EVENTS:
            self.fail(f"event {shown(_text(event))!r}: must be one of {_text(b', '.join(_EVENTS))}")
        if not name:
            self.fail("window has no name")
        if b"".join(self.unused[event](fields)):
            self.require_empty(event, fields)
        time = self.number(fields[self.cycle], _CYCLE)
        if event in (b"write", b"read"):
            register = self.number(fields[self.register], _OTHER, "register")
            window = self.access(name, time, register)
            if event == b"write":
                values = fields[self.values].decode("latin-1")
                self.write(fields[self.lanes], values, window, time, register)
            else:
                self.recording.read(window, time, register)
        elif event == b"alloc":
            kernel = _text(fields[self.columns.get("kernel", -1)]) or "kernel"

            def given(column: str) -> int | None:
                text = fields[self.columns.get(column, -1)]
                largest = _ID if column in ("launch", "work_group", "wavefront") else _OTHER
                asked = text or column == "size"
                return self.number(text, largest, column) if asked else None

            self.alloc(name, time, kernel, given)
        else:
            self.release(name, time)

    def require_empty(self, event: bytes, fields: list[bytes]) -> None:
        for column, content in zip(self.columns, fields, strict=False):
            if column not in REQUIRED + _EVENTS[event] and content.strip():
                self.fail(
                    f"{column} is {shown(_text(content))!r}; the event {_text(event)} has none"
                )

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


FORMAT = Format("csv", "plain CSV", _recognises, _Table)


# Arrays that users write themselves: an NPZ file with a column for each property of an event.

ARRAYS_REQUIRED = ("cycle", "kind", "window", "reg", "value", "values")
ARRAYS_OPTIONAL = (
    *("exec", "kernel", "kernels", "launch", "work_group", "wavefront", "unit", "part", "entry"),
)
_LARGEST = {"cycle": 1 << 62, "window": 1 << 62, "exec": 1 << 64, "values": 1 << 32}
_OTHERS_LARGEST = 1 << 32


def _recognises_arrays(source: Source) -> bool:
    return source.head.startswith(b"PK\x03\x04")


class _Arrays(PlainEvents):
    """Reads NPZ; the line at hand is the row of an event."""

    def fail(self, why: str) -> NoReturn:
        self.source.refuse(f"event {self.line}: {why}")

    def events(self) -> None:
        arrays = self.arrays()
        values = np.ascontiguousarray(arrays["values"], "<u4")
        lanes = values.shape[1]
        if lanes not in (32, 64) or self.recording.lanes not in (0, lanes):
            self.source.refuse(f"values has {lanes} columns; must be 32 or 64, in all files")
        self.recording.has_lanes(lanes)
        every_lane = (1 << lanes) - 1
        masks = arrays.get("exec")
        for row, (kind, time, name, register, number) in enumerate(self.rows(arrays)):
            self.line = row
            if kind == ALLOC:
                self.allocate(arrays, name, time)
            elif kind == RELEASE:
                self.release(name, time)
            elif kind == READ:
                self.recording.read(self.access(name, time, register), time, register)
            else:
                window = self.access(name, time, register)
                mask = every_lane if masks is None else int(masks[row])
                if not 0 < mask <= every_lane:
                    self.fail(f"a write of the lanes {mask:#x}; must be 1 ... {every_lane:#x}")
                if not 0 <= number < len(values):
                    self.fail(f"row {number} of values does not exist; there are {len(values)}")
                self.recording.write(
                    window, time, register, mask, lanes_of(values[number].tobytes(), mask)
                )

    def rows(self, arrays: dict[str, npt.NDArray[Any]]) -> Iterator[tuple[int, ...]]:
        """Events as tuples of integers, some thousand at once."""
        columns = [arrays[name] for name in ("kind", "cycle", "window", "reg", "value")]
        for first in range(0, len(columns[0]), 4096):
            yield from zip(*(c[first : first + 4096].tolist() for c in columns), strict=True)

    def allocate(self, arrays: dict[str, npt.NDArray[Any]], name: int, time: int) -> None:
        def given(column: str) -> int | None:
            column = "reg" if column == "size" else column
            return int(arrays[column][self.line]) if column in arrays else None

        kernel, number, names = "kernel", given("kernel"), arrays.get("kernels")
        if number is not None and names is not None:
            if number >= len(names):
                self.fail(f"kernel {number} is not in kernels, which has {len(names)}")
            kernel = str(names[number])
        self.alloc(name, time, kernel, given)

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
            self.line = int(bad[0])
            self.fail(f"kind {arrays['kind'][self.line]}: must be {ALLOC} ... {READ}")
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
                self.line = bad[0]
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


ARRAYS_FORMAT = Format("npz", "plain NPZ", _recognises_arrays, _Arrays)
