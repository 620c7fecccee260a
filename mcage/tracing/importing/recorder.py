"""Recordings of ``scripts/nvbit``: lanes, cycles, SM and partition, contents after each write.

A file is the line ``mcage recording 1``, then JSON objects and packets, one a line; a packet is a
``P`` and its bytes in hexadecimal (``scripts/nvbit/packets.h``).
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcage.tracing.importing import nvbit
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, WindowLog, lanes_of
from mcage.tracing.importing.sass import ZERO, instruction_of
from mcage.tracing.importing.sources import Source

MAGIC = b"mcage recording 1"
BEGINS, EXITS, WRITES, READS = range(4)
_PACKET = struct.Struct("<QIIIIHHHH")

BETWEEN_LAUNCHES = 1000
"""Cycles between two launches, instead of those that the program waited."""


class _Packet(NamedTuple):
    """Packet that the recorder writes when an instruction runs; ``scripts/nvbit/packets.h``."""

    cycle: int
    launch: int
    where: int
    mask: int
    cta: int
    sm: int
    slot: int
    warp: int
    kind: int


class _Row(NamedTuple):
    """An instruction of a recording.

    ``known`` is whether the recorder's table knows what it writes, ``by_nvbit`` how many registers
    NVBit gives to the first operand, ``guard_lost`` whether it overwrites its own guard.
    """

    name: str
    written: tuple[int, ...]
    read: tuple[int, ...]
    known: bool
    by_nvbit: int
    guard_lost: bool


def _recognises(source: Source) -> bool:
    return source.head.startswith(MAGIC)


class _Recorder(Reader):
    """Reads a recording."""

    def prepare(self) -> None:
        recording = self.recording
        recording.has_lanes(nvbit.LANES)
        recording.granularity = nvbit.GRANULARITY
        if len(self.sources) > 1:
            self.source.refuse(f"one recording is imported; here are {len(self.sources)}")
        recording.in_file |= {
            **{"values": "after the write", "lanes": "active lanes", "registers": "numbers"},
            **{"place": "SM and slot (%warpid); partition = slot mod 4"},
        }
        recording.inferred |= {
            "reads": "source registers, by SASS",
            "entries": "windows are placed first-fit",
            "idle time": f"{BETWEEN_LAUNCHES:,} cycles between launches",
        }
        recording.approximate["time"] = "cycles while every instruction was recorded"
        self.launches: dict[int, nvbit.RecordedLaunch] = {}
        self.names: dict[int, str] = {}
        self.instructions: dict[int, _Row] = {}
        self.running: dict[tuple[int, int, int], tuple[WindowLog, int]] = {}
        """Windows of warps, and the lanes that have not left, by launch, CTA and warp in it."""
        self.latest: dict[int, int] = defaultdict(int)
        self.offset: dict[tuple[int, int], int] = {}
        self.otherwise_by_nvbit: Counter[str] = Counter()
        self.writes_without_guard = self.lost = 0
        self.complete = False

    def read(self) -> None:
        super().read()
        for window, left in self.running.values():
            if left:
                self.recording.close_window(window, self.latest[window.place.unit or 0])
        lost = "bytes that did not fit into the recorder's buffer"
        self.recording.skip(lost, self.source, self.line, self.lost)
        if not self.complete:
            self.skip("the end: the recording is not complete")

    def take(self, line: bytes) -> None:
        if line.startswith(b"P"):
            try:
                raw = bytes.fromhex(line[1:].decode("ascii"))
                packet = _Packet._make(_PACKET.unpack_from(raw))
            except (ValueError, struct.error):
                self.fail("no packet: 32 bytes in hexadecimal, and 128 more for a write")
            contents = raw[_PACKET.size :]
            if packet.kind > READS or len(contents) != 4 * nvbit.LANES * (packet.kind == WRITES):
                self.fail(f"a packet of kind {packet.kind} with {len(contents)} more bytes")
            self.packet(packet, contents)
        elif self.line == 1:
            if line != MAGIC:
                self.fail(f"must be {MAGIC.decode()!r}")
        elif line:
            self.object(line)

    def packet(self, packet: _Packet, contents: bytes) -> None:
        key = packet.launch, packet.cta, packet.warp
        time = self.time(packet)
        if key not in self.running:
            self.running[key] = self.begin(packet, time)
        window, left = self.running[key]
        if not left:
            return
        if packet.kind == WRITES:
            self.write(window, packet, time, contents)
        elif packet.kind == READS:
            self.reads(window, self.row(packet), time)
        elif packet.kind == EXITS:
            left &= ~packet.mask
            self.running[key] = window, left
            if not left:
                self.recording.close_window(window, time)

    def time(self, packet: _Packet) -> int:
        """Cycle of the SM; launches follow one another."""
        key = packet.launch, packet.sm
        if key not in self.offset:
            self.offset[key] = self.latest[packet.sm] + BETWEEN_LAUNCHES - packet.cycle
        time = packet.cycle + self.offset[key]
        self.latest[packet.sm] = max(self.latest[packet.sm], time)
        return time

    def begin(self, packet: _Packet, time: int) -> tuple[WindowLog, int]:
        launch = self.launches.get(packet.launch)
        if launch is None:
            self.fail(f"a packet of launch {packet.launch}, which has no line")
        lanes = launch.lanes_of(packet.warp)
        grid = launch.grid or (1, 1, 1)
        cta = [packet.cta % grid[0], packet.cta // grid[0] % grid[1]]
        facts = {
            **{"cta": [*cta, packet.cta // (grid[0] * grid[1])]},
            **{"warp_in_cta": packet.warp, "hardware_warp": packet.slot},
            **{"registers": launch.registers, "allocated": launch.allocated},
        }
        origin = Origin(launch.kernel, launch.number, packet.cta)
        place = Place(packet.sm, packet.slot % nvbit.PARTITIONS)
        window = self.recording.open_window(
            time, launch.allocated, origin, place, lanes=lanes, facts=facts
        )
        return window, (1 << lanes) - 1

    def write(self, window: WindowLog, packet: _Packet, time: int, contents: bytes) -> None:
        register = packet.where & 0xFF
        row = self.row(packet)
        if register not in row.written:
            self.fail(f"instruction {packet.where >> 8} does not write register {register}")
        if register == row.written[0]:
            self.reads(window, row, time)
            if row.by_nvbit and row.by_nvbit != len(row.written):
                name = row.name[:20] if row.name.isidentifier() else "another"
                self.otherwise_by_nvbit[f"{name} {row.by_nvbit} instead of {len(row.written)}"] += 1
        self.writes_without_guard += row.guard_lost
        mask = packet.mask & ((1 << window.lanes) - 1)
        self.recording.write(window, time, register, mask, lanes_of(contents, mask))

    def reads(self, window: WindowLog, row: _Row, time: int) -> None:
        if not row.known:
            nvbit.leave_out(self, row.name)
        for register in row.read:
            self.recording.read(window, time, register)

    def row(self, packet: _Packet) -> _Row:
        known = self.instructions.get(packet.where >> 8)
        if known is None:
            self.fail(f"instruction {packet.where >> 8} has no line")
        return known

    def object(self, line: bytes) -> None:
        """Take a line that is a JSON object."""
        content = self.object_of(line)
        if content is None:
            self.fail("neither a packet nor a JSON object")
        kind = content.get("type")
        if kind == "launch":
            self.launch(content)
        elif kind == "function":
            name = content.get("name")
            self.names[self.number(content, "function")] = name if isinstance(name, str) else ""
        elif kind == "instruction":
            sass = content.get("sass")
            text = instruction_of(sass if isinstance(sass, str) else "")
            self.instructions[self.number(content, "number", 1 << 24)] = _Row(
                text.name,
                self.numbers(content, "writes", ZERO),
                text.read,
                bool(self.number(content, "writes_known")),
                self.number(content, "registers_by_nvbit"),
                bool(content.get("guard_overwritten")),
            )
        elif kind == "packets":
            self.lost += self.number(content, "lost_bytes", 1 << 63)
        elif kind == "recorder":
            for key in ("nvbit", "driver", "gpu"):
                self.recording.tools[f"recorder: {key}"] = str(content.get(key, ""))[:200]
        elif kind == "end":
            self.complete = True

    def launch(self, content: Mapping[str, Any]) -> None:
        number = self.number(content, "launch")
        grid, block = (self.numbers(content, key, 1 << 31) for key in ("grid", "block"))
        registers = self.number(content, "registers", ZERO + 1)
        if len(grid) != 3 or len(block) != 3 or not (all(grid) and all(block) and registers):
            self.fail("a launch needs three sizes of its grid and its blocks, and its registers")
        name = self.names.get(self.number(content, "function"), "") or "kernel"
        self.launches[number] = nvbit.RecordedLaunch(number, name, grid, block, registers)

    def number(self, content: Mapping[str, Any], key: str, most: int = 1 << 32) -> int:
        """Number of an object, which must be below ``most``."""
        number = content.get(key)
        if type(number) is not int or not 0 <= number < most:
            self.fail(f"{key!r} must be a number")
        return number

    def numbers(self, content: Mapping[str, Any], key: str, most: int) -> tuple[int, ...]:
        """List of such numbers."""
        numbers = content.get(key)
        if not isinstance(numbers, list) or len(numbers) > 2 * nvbit.LANES:
            self.fail(f"{key!r} must be a list of numbers")
        return tuple(self.number({key: number}, key, most) for number in numbers)

    def finish(self) -> None:
        """Say what was concluded."""
        if self.writes_without_guard:
            self.recording.approximate["lanes"] = (
                f"{self.writes_without_guard:,} writes of instructions that overwrite their guard "
                "have all active lanes"
            )
        if self.otherwise_by_nvbit:
            named = sorted(self.otherwise_by_nvbit.items())[:20]
            self.recording.approximate["contents"] = (
                "NVBit gives destinations other numbers of registers than the recorder's table, "
                "which was followed: "
                + ", ".join(f"{what} ({count:,} times)" for what, count in named)
            )


FORMAT = Format("recorder", "a recording of scripts/nvbit", _recognises, _Recorder)
