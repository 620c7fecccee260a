"""A table that users write themselves: a row for each event, as docs/importing.md describes it."""

import csv
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from mcage.plain_text import shown
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source
from mcage.traces.importing.windows import MOST_REGISTERS, Origin, Place, Window

REQUIRED = ("cycle", "event", "window")
OPTIONAL = (
    *("register", "lanes", "values", "size", "kernel", "launch", "work_group"),
    *("wavefront", "unit", "part", "entry"),
)

_EVENTS = (b"write", b"read", b"alloc", b"release")
_LARGEST = {"cycle": 1 << 62, "launch": 1 << 32, "work_group": 1 << 32, "wavefront": 1 << 32}
_OTHERS_LARGEST = 1 << 16


def _recognises(source: Source) -> bool:
    for line in source.head.removeprefix(b"\xef\xbb\xbf").splitlines():
        if line and not line.startswith(b"#"):
            return set(REQUIRED) <= set(_names(line))
    return False


def _names(line: bytes) -> list[str]:
    return [name.strip().decode("utf-8", "replace") for name in line.split(b",")]


def _read(sources: Sequence[Source], recording: Recording, options: Options) -> None:
    for source in sources:
        _Table(source, recording).read()
    recording.in_file |= {
        **{"values": "after the write", "lanes": "masks", "time": "cycles"},
        **{"registers": "numbers in the window"},
    }


@dataclass
class _Table:
    """One file, while it is read."""

    source: Source
    recording: Recording
    line: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    windows: dict[bytes, Window] = field(default_factory=dict)
    implied: bool = False

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
        for window in self.windows.values():
            if self.implied:
                self.recording.close_window(window, window.last)
        if not self.columns:
            self.source.refuse(f"has no line with the names of the columns: {', '.join(REQUIRED)}")

    def fail(self, why: str) -> NoReturn:
        self.source.fail(self.line, why)

    def comment(self, text: bytes) -> None:
        """``# lanes: 32`` says how wide registers are; any other pair is kept as a version."""
        key, colon, value = text[1:].decode("utf-8", "replace").partition(":")
        key, value = key.strip(), value.strip()
        if key == "lanes" and colon:
            if value not in ("32", "64") or self.recording.lanes not in (0, int(value)):
                self.fail(f"{shown(value)} lanes; must be 32 or 64, once")
            self.recording.has_lanes(int(value))
        elif colon and len(self.recording.tools) < 100:
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
                row = next(csv.reader([text.decode("utf-8", "replace")], strict=True))
            except csv.Error as error:
                self.fail(str(error))
            fields = [content.encode() for content in row]
        if len(fields) != len(self.columns):
            self.fail(f"has {len(fields)} columns, the names above are {len(self.columns)}")
        return fields

    def row(self, fields: list[bytes]) -> None:
        event = fields[self.columns["event"]].strip()
        time = self.number(fields, "cycle")
        name = fields[self.columns["window"]].strip()
        if event == b"alloc":
            self.alloc(fields, time, name)
            return
        if event not in _EVENTS:
            self.fail(f"event {shown(event.decode('utf-8', 'replace'))!r} is unknown")
        window = self.windows.get(name)
        if window is None:
            if event == b"release":
                self.fail(f"{_shown(name)} is released, but not open")
            self.implied = True
            self.recording.inferred["windows"] = "from the first to the last access"
            window = self.open(fields, time, name, None)
        if time < window.last:
            self.fail(f"cycle {time} is before an earlier event of {_shown(name)}: {window.last}")
        if event == b"release":
            self.recording.close_window(self.windows.pop(name), time)
            return
        register = self.number(fields, "register")
        if register >= (window.size or MOST_REGISTERS):
            self.fail(f"register {register} is outside of {_shown(name)}")
        if event == b"read":
            self.recording.read(window, time, register)
        else:
            self.write(fields, window, time, register)

    def alloc(self, fields: list[bytes], time: int, name: bytes) -> None:
        if name in self.windows:
            self.fail(f"{_shown(name)} is allocated, but still open")
        size = self.number(fields, "size")
        if not 1 <= size <= MOST_REGISTERS:
            self.fail(f"{_shown(name)} has {size} registers, must be 1 ... {MOST_REGISTERS}")
        self.open(fields, time, name, size)

    def open(self, fields: list[bytes], time: int, name: bytes, size: int | None) -> Window:
        kernel = self.text(fields, "kernel").decode("utf-8", "replace") or "kernel"
        origin = Origin(
            kernel,
            self.number(fields, "launch", 0),
            self.number(fields, "work_group", -1) if self.text(fields, "work_group") else None,
            self.number(fields, "wavefront", -1) if self.text(fields, "wavefront") else None,
        )
        unit = self.number(fields, "unit") if self.text(fields, "unit") else None
        place = Place(unit, self.number(fields, "part", 0))
        entry = self.number(fields, "entry") if self.text(fields, "entry") else None
        facts = {"window": name.decode("utf-8", "replace"), "launch": origin.launch}
        window = self.recording.open_window(time, size, origin, place, entry, facts=facts)
        self.windows[name] = window
        return window

    def write(self, fields: list[bytes], window: Window, time: int, register: int) -> None:
        lanes = self.recording.lanes
        mask = (1 << lanes) - 1
        if text := self.text(fields, "lanes"):
            mask = self.hexadecimal(text, "lanes")
            if not 0 < mask < 1 << lanes:
                self.fail(f"lanes {_shown(text)}: must be 1 ... {(1 << lanes) - 1:x}")
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
        numbers = [self.hexadecimal(number, "values") for number in text.split()]
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count:
            self.fail(f"has {len(numbers)} values for {count} lanes")
        self.recording.write(window, time, register, mask, array("I", numbers))

    def text(self, fields: list[bytes], column: str) -> bytes:
        number = self.columns.get(column)
        return b"" if number is None else fields[number].strip()

    def number(self, fields: list[bytes], column: str, default: int | None = None) -> int:
        text = self.text(fields, column)
        if not text and default is not None:
            return default
        if (
            not text.isdigit()
            or len(text) > 20
            or int(text) >= _LARGEST.get(column, _OTHERS_LARGEST)
        ):
            self.fail(f"{column} is {_shown(text)}, must be a number")
        return int(text)

    def hexadecimal(self, text: bytes, column: str) -> int:
        try:
            number = int(text, 16)
        except ValueError:
            number = -1
        if not 0 <= number < (1 << 64 if column == "lanes" else 1 << 32):
            self.fail(f"{column}: {_shown(text)} is no hexadecimal number of 32 bits")
        return number


def _shown(text: bytes) -> str:
    return repr(shown(text.decode("utf-8", "replace")))


FORMAT = Format("csv", "plain CSV", _recognises, _read)
