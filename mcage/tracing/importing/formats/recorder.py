"""Recordings of ``scripts/nvbit``: lanes, cycles, SM and partition, contents after each write.

A file is the line ``mcage recording 1``, then JSON objects and packets, one a line; a packet is a
``P`` and its bytes in hexadecimal (``scripts/nvbit/packets.h``). A second file of the same program,
recorded with ``RECORD=marks``, says when warps began and ended where nothing slowed them down.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from mcage.tracing.importing import nvidia
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, Window, lanes_of
from mcage.tracing.importing.sources import Source

BETWEEN_LAUNCHES = 1000
"""Cycles between two launches, instead of those that the program waited."""


@dataclass(slots=True)
class _Life:
    """When a warp began and ended, on which SM and in which slot; `exited` are its lanes."""

    sm: int
    slot: int
    begin: int
    end: int
    exited: int = 0


_Lives = dict[int, dict[tuple[int, int], _Life]]
"""Lives of warps, by launch, CTA and warp in the CTA."""


def _recognises(source: Source) -> bool:
    return source.head.startswith(nvidia.MAGIC)


@dataclass
class _Clock:
    """Cycles of each SM, launch after launch."""

    free: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    offset: dict[tuple[int, int], int] = field(default_factory=dict)

    def time(self, packet: nvidia.Packet) -> int:
        key = packet.launch, packet.sm
        offset = self.offset.get(key)
        if offset is None:
            offset = self.free[packet.sm] + BETWEEN_LAUNCHES - packet.cycle
            self.offset[key] = offset
        time = packet.cycle + offset
        if time > self.free[packet.sm]:
            self.free[packet.sm] = time
        return time


def _lives(file: nvidia.RecordingFile) -> _Lives:
    """When every warp began and ended."""
    lives: _Lives = defaultdict(dict)
    clock = _Clock()
    for packet, _ in file.packets(marks_alone=True):
        if packet.kind in (nvidia.BEGINS, nvidia.EXITS):
            launch = file.launch_of(packet)
            time = clock.time(packet)
            of_launch = lives[launch.number]
            life = of_launch.get((packet.cta, packet.warp))
            if life is None:
                life = _Life(packet.sm, packet.slot, time, time)
                of_launch[packet.cta, packet.warp] = life
            life.end = max(life.end, time)
    return lives


_Plan = dict[tuple[int, int, int], tuple[_Life, _Life]]
"""Where accesses of a warp go: from its life among values to its life among marks."""


@dataclass
class _Warp:
    window: Window
    launch: nvidia.Launch
    exists: int
    exited: int = 0
    from_life: _Life | None = None
    to_life: _Life | None = None

    def time(self, cycle: int) -> int:
        """Moment in the life among the marks."""
        if self.from_life is None or self.to_life is None:
            return cycle
        lasted = max(self.from_life.end - self.from_life.begin, 1)
        wanted = self.to_life.end - self.to_life.begin
        done = min(max(cycle - self.from_life.begin, 0), lasted)
        return self.to_life.begin + done * wanted // lasted


class _Recorder(Reader):
    """Reads a recording of values, and one of marks if there is one."""

    def prepare(self) -> None:
        recording = self.recording
        recording.has_lanes(nvidia.LANES)
        recording.granularity = nvidia.GRANULARITY
        files = [nvidia.RecordingFile(source) for source in self.sources]
        marks = [file for file in files if not file.has_values]
        values = [file for file in files if file.has_values]
        if len(marks) > 1 or len(values) != 1:
            self.source.refuse(
                "one recording of values is imported, with one of marks of the same program if you "
                f"like; here are {len(values)} and {len(marks)}"
            )
        recording.in_file |= {
            **{"values": "after the write", "lanes": "active lanes", "registers": "numbers"},
            **{"place": "SM and slot (%warpid); partition = slot mod 4"},
        }
        recording.inferred |= {
            "reads": "source registers, by SASS",
            "entries": "windows are placed first-fit",
            "idle time": f"{BETWEEN_LAUNCHES:,} cycles between launches",
        }
        if marks:
            recording.in_file["time"] = "cycles of begin and end of each warp (RECORD=marks)"
            recording.approximate["time"] = (
                "accesses lie between begin and end of their warp as they did, in proportion, "
                "while every instruction was recorded"
            )
        else:
            recording.approximate["time"] = "cycles while every instruction was recorded"
        self.plan = self.plan_of(marks[0], values[0]) if marks else None
        self.file, self.source = values[0], values[0].source
        self.clock = _Clock()
        self.running: dict[tuple[int, int, int], _Warp | None] = {}
        self.writes_without_guard = 0
        self.otherwise_by_nvbit: dict[str, int] = {}
        self.sources = [self.source]

    def plan_of(self, marks: nvidia.RecordingFile, values: nvidia.RecordingFile) -> _Plan:
        """Find for each warp whose values are known a warp among the marks."""
        wanted, given = _lives(marks), _lives(values)
        lives: _Plan = {}
        others = 0
        for number, of_launch in given.items():
            of_marks = wanted.get(number, {})
            kernels = [file.launches[number] for file in (marks, values) if number in file.launches]
            if len(kernels) == 2 and (kernels[0].kernel, kernels[0].grid) != (
                kernels[1].kernel,
                kernels[1].grid,
            ):
                marks.source.refuse(
                    f"launch {number} is another kernel than in {values.source.path.name}; both "
                    "must be recordings of the same program"
                )
            known = {cta for cta, _ in of_marks}
            here = {cta for cta, _ in of_launch}
            moved = dict(zip(sorted(here - known), sorted(known - here), strict=False))
            others += len(moved)
            for (cta, warp), life in of_launch.items():
                target = of_marks.get((moved.get(cta, cta), warp))
                if target is not None:
                    lives[number, cta, warp] = (life, target)
        if others:
            self.recording.approximate["contents"] = (
                f"{others:,} CTAs hold those of other CTAs of their launch, which ran on the "
                "recorded SM while values were recorded"
            )
        return lives

    def read(self) -> None:
        for packet, contents in self.file.packets():
            self.line = self.file.line
            key = packet.launch, packet.cta, packet.warp
            time = self.clock.time(packet)
            if key in self.running:
                warp = self.running[key]
            else:
                warp = self.running[key] = self.begin(packet, time)
            if warp is None:
                continue
            time = warp.time(time)
            if packet.kind == nvidia.WRITES:
                self.write(warp, packet, time, contents)
            elif packet.kind == nvidia.READS:
                self.reads(warp, packet, time)
            elif packet.kind == nvidia.EXITS:
                warp.exited |= packet.mask
                if warp.exited & warp.exists == warp.exists:
                    self.recording.close_window(warp.window, time)
                    self.running[key] = None
        for warp in self.running.values():
            if warp is not None:
                end = self.clock.free[warp.window.place.unit or 0]
                self.recording.close_window(warp.window, warp.time(end))
        self.line = self.file.line
        lost = "bytes that did not fit into the recorder's buffer"
        self.recording.skip(lost, self.source, self.line, self.file.lost)
        if not self.file.complete:
            self.skip("the end: the recording is not complete")

    def finish(self) -> None:
        """Say what was in the file, and what was concluded."""
        self.recording.tools |= {f"recorder: {key}": text for key, text in self.file.tools.items()}
        if self.writes_without_guard:
            self.recording.approximate["lanes"] = (
                f"{self.writes_without_guard:,} writes of instructions that overwrite their guard "
                "have all active lanes"
            )
        if self.otherwise_by_nvbit:
            named = sorted(self.otherwise_by_nvbit.items())[:20]
            others = [self.recording.approximate.get("contents", "")]
            others.append(
                "NVBit gives destinations other numbers of registers than the recorder's table, "
                "which was followed: "
                + ", ".join(f"{what} ({count:,} times)" for what, count in named)
            )
            self.recording.approximate["contents"] = "; ".join(filter(None, others))

    def begin(self, packet: nvidia.Packet, time: int) -> _Warp | None:
        """Open a window, or not, if nothing says when its warp ran."""
        launch = self.file.launch_of(packet)
        lives: tuple[_Life | None, _Life | None] = (None, None)
        if self.plan is not None:
            known = self.plan.get((packet.launch, packet.cta, packet.warp))
            if known is None:
                self.skip("warps that the marks do not have")
                return None
            lives = known
        to_life = lives[1]
        sm, slot = (packet.sm, packet.slot) if to_life is None else (to_life.sm, to_life.slot)
        exists = launch.lanes_mask(packet.warp)
        grid = launch.grid or (1, 1, 1)
        cta = [packet.cta % grid[0], packet.cta // grid[0] % grid[1]]
        facts = {
            **{"launch": launch.number, "cta": [*cta, packet.cta // (grid[0] * grid[1])]},
            **{"warp_in_cta": packet.warp, "hardware_warp": slot, "sm": sm},
            **{"registers": launch.registers, "allocated": launch.allocated},
            **{"lanes": exists.bit_count()},
        }
        window = self.recording.open_window(
            time if to_life is None else to_life.begin,
            launch.allocated,
            Origin(launch.kernel, launch.number, packet.cta),
            Place(sm, slot % nvidia.PARTITIONS),
            lanes=exists.bit_count(),
            facts=facts,
        )
        return _Warp(window, launch, exists, 0, *lives)

    def write(self, warp: _Warp, packet: nvidia.Packet, time: int, contents: bytes) -> None:
        register = packet.where & 0xFF
        row = self.row(packet)
        if register not in row.written:
            self.file.fail(f"instruction {packet.where >> 8} does not write register {register}")
        if register == row.written[0]:
            self.reads(warp, packet, time)
            if row.by_nvbit and row.by_nvbit != len(row.written):
                name = row.name[:20] if row.name.isidentifier() else "another"
                what = f"{name} {row.by_nvbit} instead of {len(row.written)}"
                self.otherwise_by_nvbit[what] = self.otherwise_by_nvbit.get(what, 0) + 1
        if register in row.doubtful:
            self.skip(
                "writes to registers that the instruction does not write, by an older recorder"
            )
            return
        if packet.where >> 8 in self.file.guards_lost:
            self.writes_without_guard += 1
        mask = packet.mask & warp.exists
        self.recording.write(warp.window, time, register, mask, lanes_of(contents, mask))

    def reads(self, warp: _Warp, packet: nvidia.Packet, time: int) -> None:
        row = self.row(packet)
        if not row.known:
            nvidia.leave_out(self, row.name)
        for register in row.read:
            self.recording.read(warp.window, time, register)

    def row(self, packet: nvidia.Packet) -> nvidia.Row:
        known = self.file.instructions.get(packet.where >> 8)
        if known is None:
            self.file.fail(f"instruction {packet.where >> 8} has no line")
        return known


FORMAT = Format("recorder", "a recording of scripts/nvbit", _recognises, _Recorder)
