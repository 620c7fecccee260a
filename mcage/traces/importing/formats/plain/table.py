"""A table that users write themselves: CSV with a row for each event."""

import csv
import re
from array import array
from collections.abc import Sequence
from typing import NoReturn

from mcage.plain_text import shown
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.formats.plain.events import PlainEvents
from mcage.traces.importing.formats.plain.rows import READ, Columns, rows_of
from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source
from mcage.traces.importing.windows import Origin, Place, Window

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
            if event == READ:
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
