"""Lines of a recording of ``scripts/nvbit``: JSON objects, and packets in hexadecimal."""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from mcage.traces.importing.nvidia.sass import ZERO, instruction_of
from mcage.traces.importing.nvidia.warps import LANES, Launch
from mcage.traces.importing.sources import Source

MAGIC = b"mcage recording 1"
BEGINS, EXITS, WRITES, READS = range(4)
_PACKET = struct.Struct("<QIIIIHHHH")


class Packet(NamedTuple):
    """What the recorder writes when an instruction runs; ``scripts/nvbit/packets.h``."""

    cycle: int
    launch: int
    where: int
    mask: int
    cta: int
    sm: int
    slot: int
    warp: int
    kind: int


class Row(NamedTuple):
    """What a recording says of an instruction.

    ``doubtful`` are registers that an older table of the recorder wrongly took for written;
    ``by_nvbit`` is how many NVBit gives to the first operand, 0 if the file does not say.
    """

    name: str
    written: tuple[int, ...]
    read: tuple[int, ...]
    known: bool
    doubtful: frozenset[int]
    by_nvbit: int


class RecordingFile:
    """A recording: its lines, checked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = 0
        self.launches: dict[int, Launch] = {}
        self.names: dict[int, str] = {}
        self.instructions: dict[int, Row] = {}
        self.tools: dict[str, str] = {}
        self.guards_lost: set[int] = set()
        self.lost = 0
        self.complete = False
        head = source.head.split(b"\n", 2)
        self.has_values = len(head) < 2 or b'"recorded":"marks"' not in head[1]

    def fail(self, why: str) -> NoReturn:
        """Refuse the recording because of the line at hand."""
        self.source.fail(self.line, why)

    def packets(self, marks_alone: bool = False) -> Iterator[tuple[Packet, bytes]]:
        """Packets and the contents that follow them."""
        shortest = 1 + 2 * _PACKET.size
        for number, line in self.source.lines():
            self.line = number
            if line.startswith(b"P"):
                if marks_alone and len(line) > shortest:
                    continue
                try:
                    raw = bytes.fromhex(line[1:].decode("ascii"))
                    packet = Packet._make(_PACKET.unpack_from(raw))
                except (ValueError, struct.error):
                    self.fail("no packet: 32 bytes in hexadecimal, and 128 more for a write")
                contents = raw[_PACKET.size :]
                if packet.kind > READS or len(contents) != 4 * LANES * (packet.kind == WRITES):
                    self.fail(f"a packet of kind {packet.kind} with {len(contents)} more bytes")
                yield packet, contents
            elif self.line == 1:
                if line != MAGIC:
                    self.fail(f"must be {MAGIC.decode()!r}")
            elif line:
                self.object(line)

    def object(self, line: bytes) -> None:
        """Take a line that is a JSON object."""
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            self.fail("neither a packet nor a JSON object")
        if not isinstance(content, dict):
            self.fail("neither a packet nor a JSON object")
        kind = content.get("type")
        if kind == "launch":
            self.launch(content)
        elif kind == "function":
            name = content.get("name")
            self.names[self.number(content, "function")] = name if isinstance(name, str) else ""
        elif kind == "instruction":
            self.instruction(content)
        elif kind == "packets":
            self.lost += self.number(content, "lost_bytes", 1 << 63)
        elif kind == "recorder":
            for key in ("nvbit", "driver", "gpu"):
                self.tools[key] = str(content.get(key, ""))[:200]
        elif kind == "end":
            self.complete = True

    def number(self, content: Mapping[str, Any], key: str, most: int = 1 << 32) -> int:
        """Return a number of an object, which must be below ``most``."""
        number = content.get(key)
        if type(number) is not int or not 0 <= number < most:
            self.fail(f"{key!r} must be a number")
        return number

    def numbers(self, content: Mapping[str, Any], key: str, most: int) -> tuple[int, ...]:
        """Return a list of such numbers."""
        numbers = content.get(key)
        if not isinstance(numbers, list) or len(numbers) > 2 * LANES:
            self.fail(f"{key!r} must be a list of numbers")
        return tuple(self.number({key: number}, key, most) for number in numbers)

    def launch(self, content: Mapping[str, Any]) -> None:
        """Take a launch."""
        number = self.number(content, "launch")
        grid, block = (self.numbers(content, key, 1 << 31) for key in ("grid", "block"))
        registers = self.number(content, "registers", ZERO + 1)
        if len(grid) != 3 or len(block) != 3 or not (all(grid) and all(block) and registers):
            self.fail("a launch needs three sizes of its grid and its blocks, and its registers")
        name = self.names.get(self.number(content, "function"), "") or "kernel"
        self.launches[number] = Launch(
            number,
            name,
            (grid[0], grid[1], grid[2]),
            (block[0], block[1], block[2]),
            registers,
        )

    def instruction(self, content: Mapping[str, Any]) -> None:
        """Take an instruction: the registers that it writes and reads."""
        sass = content.get("sass")
        text = instruction_of(sass if isinstance(sass, str) else "")
        written = self.numbers(content, "writes", ZERO)
        by_nvbit = 0
        if "writes_known" in content:
            known = bool(self.number(content, "writes_known"))
            by_nvbit = self.number(content, "registers_by_nvbit")
            doubtful = frozenset[int]()
        else:
            known, doubtful = not text.unknown, frozenset(written).difference(text.written)
        number = self.number(content, "number", 1 << 24)
        self.instructions[number] = Row(text.name, written, text.read, known, doubtful, by_nvbit)
        if content.get("guard_overwritten"):
            self.guards_lost.add(number)

    def launch_of(self, packet: Packet) -> Launch:
        """Launch of a packet."""
        launch = self.launches.get(packet.launch)
        if launch is None:
            self.fail(f"a packet of launch {packet.launch}, which has no line")
        return launch
