"""Tables of events that users write themselves: CSV, in which every mistake is an error."""

import csv
import re
from functools import lru_cache

import numpy as np

from mcage.plain_text import shown
from mcage.traces.model import MOST_REGISTERS
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, WindowLog
from mcage.tracing.importing.sources import Source

REQUIRED = ("cycle", "event", "window")
OPTIONAL = (
    *("register", "lanes", "values"),
    *("size", "kernel", "launch", "work_group", "wavefront", "unit", "part", "entry"),
)

_EVENTS = {
    "alloc": OPTIONAL[3:],
    "write": ("register", "lanes", "values"),
    "read": ("register",),
    "release": (),
}
"""Which columns each event has besides those that all have."""

_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]+")
_LARGEST = dict.fromkeys(("launch", "work_group", "wavefront"), 1 << 32) | {"cycle": 1 << 62}
_OTHERS_LARGEST = 1 << 16
"""Numbers in a column are below these."""

_MOST_COMMENTS = 100
_MOST_KEPT = 1 << 13
_APPROXIMATE = {f"approximate {what}": what for what in ("lanes", "time", "contents")}


def _recognises(source: Source) -> bool:
    for line in source.head.removeprefix(b"\xef\xbb\xbf").splitlines():
        if line and not line.startswith(b"#"):
            return set(REQUIRED) <= {name.strip() for name in _text(line).split(",")}
    return False


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


class _Table(Reader):
    """Takes events by the names that a user gives to windows.

    A name may be used again when its window is released. A window that is never allocated lasts
    from its first to its last access.
    """

    unfinished = True

    def read(self) -> None:
        """Read the file at hand, and close the windows that nothing has allocated."""
        self.columns: list[str] = []
        self.open: dict[str, WindowLog] = {}
        self.implied: set[str] = set()
        self.allocated: set[str] = set()
        super().read()
        if not self.columns:
            self.source.refuse(f"has no line with the names of the columns: {', '.join(REQUIRED)}")
        for name in self.implied & self.open.keys():
            self.recording.close_window(self.open[name], self.open[name].last)

    def finish(self) -> None:
        """Say what was in the files."""
        self.recording.in_file |= {
            "values": "after the write",
            "lanes": "masks",
            "time": "cycles",
            "registers": "numbers in the window",
        }

    def take(self, line: bytes) -> None:
        text = _text(line)
        if text.startswith("#"):
            self.comment(text[1:])
        elif text and not text.isspace():
            if "\0" in text:
                self.fail("holds a zero byte")
            try:
                fields = [field.strip() for field in next(csv.reader([text], strict=True))]
            except csv.Error as error:
                self.fail(str(error))
            if not self.columns:
                self.header(fields)
            elif len(fields) != len(self.columns):
                self.fail(f"has {len(fields)} columns, the names above are {len(self.columns)}")
            else:
                self.row(dict(zip(self.columns, fields, strict=True)))

    def comment(self, text: str) -> None:
        """``# lanes: 32`` says how wide registers are; any other pair is kept as a version.

        ``# approximate time: why`` makes the trace an approximate one; so with lanes and contents.
        """
        key, colon, value = (part.strip() for part in text.partition(":"))
        if key == "lanes" and colon:
            if value not in ("32", "64") or self.recording.lanes not in (0, int(value)):
                self.fail(f"{shown(value)} lanes; must be 32 or 64, once")
            self.recording.has_lanes(int(value))
        elif colon and key in _APPROXIMATE:
            self.recording.approximate[_APPROXIMATE[key]] = shown(value, 200)
        elif colon and len(self.recording.tools) < _MOST_COMMENTS:
            self.recording.tools[shown(key)] = shown(value, 200)

    def header(self, names: list[str]) -> None:
        for name in names:
            if name not in REQUIRED + OPTIONAL or names.count(name) > 1:
                known = ", ".join(REQUIRED + OPTIONAL)
                self.fail(f"column {shown(name)!r} is unknown or there twice; there are {known}")
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            self.fail(f"has no column {missing[0]!r}")
        if not self.recording.lanes:
            self.fail("no line '# lanes: 32' or '# lanes: 64' before the names of the columns")
        self.columns = names

    def row(self, fields: dict[str, str]) -> None:
        event, name = fields["event"], fields["window"]
        if event not in _EVENTS:
            self.fail(f"event {shown(event)!r}: must be one of {', '.join(_EVENTS)}")
        if not name:
            self.fail("window has no name")
        used = REQUIRED + _EVENTS[event]
        for column, content in fields.items():
            if content and column not in used:
                self.fail(f"{column} is {shown(content)!r}; the event {event} has none")
        time = self.number(fields, "cycle")
        if event == "alloc":
            self.alloc(name, time, fields)
        elif event == "release":
            self.release(name, time)
        else:
            register = self.number(fields, "register")
            window = self.accessed(name, time, register)
            if event == "read":
                self.recording.read(window, time, register)
            else:
                mask, values = self.written(fields.get("lanes", ""), fields.get("values", ""))
                self.recording.write(window, time, register, mask, values)

    def alloc(self, name: str, time: int, fields: dict[str, str]) -> None:
        launch, work_group, wavefront, unit, part, entry = (
            self.number(fields, column) if fields.get(column) else None
            for column in ("launch", "work_group", "wavefront", "unit", "part", "entry")
        )
        size = self.number(fields, "size")
        if name in self.open:
            self.fail(f"window {shown(name)} is allocated, but still open")
        if not 1 <= size <= MOST_REGISTERS:
            self.fail(f"window {shown(name)} has {size} registers, must be 1 ... {MOST_REGISTERS}")
        self.allocated.add(name)
        kernel = fields.get("kernel") or "kernel"
        origin, place = Origin(kernel, launch or 0, work_group, wavefront), Place(unit, part or 0)
        facts = {"window": shown(name)}
        self.open[name] = self.recording.open_window(time, size, origin, place, entry, facts=facts)

    def accessed(self, name: str, time: int, register: int) -> WindowLog:
        """Window of an access, which has been checked."""
        window = self.open.get(name)
        if window is None:
            if name in self.allocated:
                self.fail(f"window {shown(name)} has been released, and not allocated again")
            self.implied.add(name)
            self.recording.inferred["windows"] = "from the first to the last access"
            facts = {"window": shown(name)}
            window = self.recording.open_window(time, None, Origin(), Place(), facts=facts)
            self.open[name] = window
        if time < window.last:
            self.fail(
                f"cycle {time} is before {window.last}, that of an earlier event of window "
                f"{shown(name)}"
            )
        if register >= (window.size or MOST_REGISTERS):
            self.fail(f"register {register} is outside of window {shown(name)}")
        return window

    def release(self, name: str, time: int) -> None:
        window = self.open.pop(name, None)
        if window is None:
            self.fail(f"window {shown(name)} is released, but not open")
        if time < window.last:
            self.fail(f"window {shown(name)} is released before its last access: {window.last}")
        self.recording.close_window(window, time)

    def written(self, lanes: str, text: str) -> tuple[int, bytes]:
        """Mask of the lanes of a write, and their values."""
        width = self.recording.lanes
        mask = self.hexadecimal(lanes, "lanes", width) if lanes else (1 << width) - 1
        if not mask:
            self.fail("a write without lanes; leave it out")
        words = text.split()
        if len(words) not in (1, mask.bit_count()):
            self.fail(f"has {len(words)} values for {mask.bit_count()} lanes")
        values = _values(text, mask.bit_count())
        if values is None:
            for word in words:
                self.hexadecimal(word, "values", 32)
        return mask, values or b""

    def number(self, fields: dict[str, str], column: str) -> int:
        text, largest = fields.get(column, ""), _LARGEST.get(column, _OTHERS_LARGEST)
        if text.isdecimal() and text.isascii() and len(text) < 20 and int(text) < largest:
            return int(text)
        self.fail(f"{column} is {shown(text)!r}, must be a number below {largest:,}")

    def hexadecimal(self, text: str, column: str, bits: int) -> int:
        if _HEXADECIMAL.fullmatch(text) and not int(text, 16) >> bits:
            return int(text, 16)
        self.fail(
            f"{column}: {shown(text)!r} is no hexadecimal number of {bits} bits, written without 0x"
        )


@lru_cache(_MOST_KEPT)
def _values(text: str, count: int) -> bytes | None:
    """Numbers of so many lanes, or of one for all of them; None if one is no such number."""
    digits = text.split()
    if {*map(len, digits)} != {8}:
        digits = [word.lstrip("0").zfill(8) for word in digits]
    try:
        values = np.frombuffer(bytes.fromhex("".join(digits)), ">u4").astype("<u4")
    except ValueError:
        return None
    if len(values) != len(digits):
        return None
    return values.tobytes() if len(values) == count else values.tobytes() * count


FORMAT = Format("csv", "plain CSV", _recognises, _Table)
