"""A table that users write themselves: CSV with a row for each event."""

import csv
from array import array
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from mcage.plain_text import shown
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.formats.plain.events import PlainEvents
from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source
from mcage.traces.importing.windows import Origin, Place, Window

REQUIRED = ("cycle", "event", "window")
OPTIONAL = (
    *("register", "lanes", "values", "size", "kernel", "launch", "work_group"),
    *("wavefront", "unit", "part", "entry"),
)

_EVENTS = ("alloc", "write", "read", "release")
_LARGEST = {"cycle": 1 << 62, "launch": 1 << 32, "work_group": 1 << 32, "wavefront": 1 << 32}
_OTHERS_LARGEST = 1 << 16
_MOST_COMMENTS = 100
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
        self.events = PlainEvents(recording, self.fail)

    def read(self) -> None:
        for number, text in self.source.lines(unfinished=True):
            self.line = number
            if not text.strip():
                continue
            if text.startswith(b"#"):
                self.comment(text)
            elif not self.columns:
                self.header(text)
            else:
                self.row(self.fields(text))
        if not self.columns:
            self.source.refuse(f"has no line with the names of the columns: {', '.join(REQUIRED)}")
        self.events.end()

    def fail(self, why: str) -> NoReturn:
        self.source.fail(self.line, why)

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

    def fields(self, text: bytes) -> list[bytes]:
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
        return fields

    def row(self, fields: list[bytes]) -> None:
        event = _text(self.text(fields, "event"))
        time = self.number(fields, "cycle")
        name = _text(self.text(fields, "window"))
        if event in ("write", "read"):
            register = self.number(fields, "register")
            window = self.events.access(name, time, register)
            if event == "write":
                self.write(fields, window, time, register)
            else:
                self.recording.read(window, time, register)
        elif event == "alloc":
            origin = Origin(
                _text(self.text(fields, "kernel")) or "kernel",
                self.number(fields, "launch", 0),
                self.optional(fields, "work_group"),
                self.optional(fields, "wavefront"),
            )
            place = Place(self.optional(fields, "unit"), self.number(fields, "part", 0))
            size, entry = self.number(fields, "size"), self.optional(fields, "entry")
            self.events.alloc(name, time, size, origin, place, entry)
        elif event == "release":
            self.events.release(name, time)
        else:
            self.fail(f"event {shown(event)!r}: must be one of {', '.join(_EVENTS)}")

    def write(self, fields: list[bytes], window: Window, time: int, register: int) -> None:
        lanes = self.recording.lanes
        mask = (1 << lanes) - 1
        if text := self.text(fields, "lanes"):
            mask = self.hexadecimal(text, "lanes", lanes)
            if not mask:
                self.fail("a write without lanes; leave it out")
        text, count = self.text(fields, "values"), mask.bit_count()
        if len(text) == 9 * count - 1 and b"x" not in text:
            try:
                packed = bytes.fromhex(text.decode("ascii"))
            except ValueError:
                packed = b""
            if len(packed) == 4 * count:
                values = np.frombuffer(packed, ">u4").astype("<u4")
                self.recording.write(window, time, register, mask, values)
                return
        numbers = [self.hexadecimal(number, "values", 32) for number in text.split()]
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count:
            self.fail(f"has {len(numbers)} values for {count} lanes")
        self.recording.write(window, time, register, mask, array("I", numbers))

    def text(self, fields: list[bytes], column: str) -> bytes:
        number = self.columns.get(column)
        return b"" if number is None else fields[number].strip()

    def optional(self, fields: list[bytes], column: str) -> int | None:
        return self.number(fields, column) if self.text(fields, column) else None

    def number(self, fields: list[bytes], column: str, default: int | None = None) -> int:
        text = self.text(fields, column)
        if not text and default is not None:
            return default
        largest = _LARGEST.get(column, _OTHERS_LARGEST)
        if not text.isdigit() or len(text) > 20 or int(text) >= largest:
            self.fail(f"{column} is {shown(_text(text))!r}, must be a number below {largest:,}")
        return int(text)

    def hexadecimal(self, text: bytes, column: str, bits: int) -> int:
        try:
            number = int(text, 16)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << bits:
            self.fail(f"{column}: {shown(_text(text))!r} is no hexadecimal number of {bits} bits")
        return number


FORMAT = Format("csv", "plain CSV", _recognises, _read)
