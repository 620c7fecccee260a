"""Warps of NVIDIA's GPUs, as tools of NVBit print their registers, and NVBit's own tool."""

import re
import sys
from array import array
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from operator import lt
from typing import Any, ClassVar

from mcage.traces.model import MOST_REGISTERS
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, WindowLog
from mcage.tracing.importing.sass import ZERO, SassInstruction, instruction_of
from mcage.tracing.importing.sources import Source

# Warps whose records show registers before or after an instruction, without lanes and cycles.
#
# How records are read: a window is a warp, from its first record to its ``EXIT`` without a guard.
# One record takes one cycle. All lanes that exist count as written. Where a record shows what
# registers held *before* its instruction, what a write has left is what the next record of the
# warp shows of that register; a write that is never shown is left out and counted.

LANES = 32
PARTITIONS = 4
"""Partitions of an SM since Volta, each with a register file of its own."""

GRANULARITY = 8
"""The hardware gives a warp a multiple of so many registers."""

NEVER_SHOWN = "writes whose contents the file never shows"
MOST_WAITING = 500_000
"""Accesses that are kept at most until the contents of an earlier write are known."""

MOST_ROWS_OF_OPERAND = 8
"""Rows of 32 bits that an operand has at most in a record."""

MOST_ODD = 8
"""Destinations at most that hold something else than was seen, in a file that is read rightly."""

MOST_REASONS = 50
"""Names of instructions at most that are counted one by one."""

MOST_RUNNING = 1 << 14
"""Warps that run at once at most; the largest GPUs hold 10,000."""

Shown = Mapping[int, bytes]
"""Content of a record: 32 little-endian numbers of 32 bits for each register."""


def leave_out(reader: Reader, name: str) -> None:
    """Count an instruction of which it is not known which registers it writes."""
    why = f"writes of {name[:20]}, whose registers are not known"
    skipped = reader.recording.skipped
    many = why not in skipped and len(skipped) > MOST_REASONS
    if many or not name.isidentifier():
        why = "writes of other instructions, whose registers are not known"
    reader.skip(why)


@dataclass
class RecordedLaunch:
    """A kernel launch.

    Attributes
    ----------
    number : int
        From 0, in the order of the files.
    kernel : str
        Name of its kernel.
    grid, block : tuple of int or None
        CTAs, and threads of each; None if the file does not say.
    registers : int or None
        Registers of a thread; None if the file does not say.
    started : set of tuple
        What tells its warps apart, for all that have begun.
    """

    number: int
    kernel: str = "kernel"
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    started: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def warps_of_cta(self) -> int | None:
        """Warps of a CTA."""
        return -(-prod(self.block) // LANES) if self.block else None

    @property
    def allocated(self) -> int | None:
        """Registers that the hardware gives to each of its warps."""
        if not self.registers:
            return None
        return min(-(-self.registers // GRANULARITY) * GRANULARITY, MOST_REGISTERS)

    @property
    def complete(self) -> bool:
        """Whether all warps have begun."""
        if not (self.grid and self.warps_of_cta):
            return False
        return len(self.started) >= prod(self.grid) * self.warps_of_cta

    def lanes_of(self, warp_in_cta: int | None) -> int:
        """Lanes of a warp that have a thread."""
        if not self.block or warp_in_cta is None:
            return LANES
        return min(max(prod(self.block) - LANES * warp_in_cta, 1), LANES)

    def has(self, cta: tuple[int, int, int]) -> bool:
        """Whether the grid has a CTA."""
        return not self.grid or all(map(lt, cta, self.grid))

    def cta_number(self, cta: tuple[int, int, int]) -> int:
        """Number of a CTA in the grid, as the hardware counts; unique also where it has none."""
        grid = self.grid or (1 << 10, 1 << 10, 1)
        return (cta[0] + grid[0] * (cta[1] + grid[1] * cta[2])) & 0xFFFF_FFFF


@dataclass(slots=True)
class _Access:
    """A read or write that waits for its turn; a write has no contents until they are shown."""

    time: int
    register: int
    is_write: bool
    contents: bytes | None
    line: int
    lost: bool = False


@dataclass
class Warp:
    """A warp that runs."""

    launch: RecordedLaunch
    window: WindowLog
    mask: int
    waiting: deque[_Access] = field(default_factory=deque)
    unknown: dict[int, _Access] = field(default_factory=dict)
    records: int = 0
    seen: int = 0
    known: dict[int, bytes] = field(default_factory=dict)


class Warps(Reader):
    """Reads records of warps, with the contents that later records show.

    A record may be a line, or text: a line with CTA, warp and SASS, and a line for each row of what
    it shows, up to an empty line or the next record.

    Attributes
    ----------
    after : bool
        Whether records show registers as they are after the instruction, instead of before.
    record_begins, row_begins : pattern, bytes
        First line of a record that is text, and how its rows begin where nothing damages them.
    time : int
        Number of the next record; one record takes one cycle.
    running : dict of tuple of int to Warp
        Warps that run, by what tells them apart.
    """

    after = False
    record_begins: ClassVar[re.Pattern[bytes]]
    row_begins: ClassVar[bytes]

    def prepare(self) -> None:
        """Make ready for the first file."""
        self.time = 0
        self.running: dict[tuple[int, ...], Warp] = {}
        self._head: tuple[int, re.Match[bytes]] | None = None
        self._rows: list[bytes | None] = []
        self._accesses_waiting = 0
        self._zero_lanes = self._lanes = 0
        self._alike = self._others = 0
        self.recording.has_lanes(LANES)
        self.recording.granularity = GRANULARITY

    def read(self) -> None:
        """Read the file at hand, at whose end all warps have ended."""
        super().read()
        self.complete()
        for key in list(self.running):
            self.end(key)

    def take_text(self, line: bytes) -> None:
        """Take a line of text: the begin of a record, a row of one, or other output."""
        if line.startswith(self.row_begins):
            self._row(line)
        elif not line:
            self.complete()
        elif record := self.record_begins.search(line):
            self.complete()
            self._head = self.line, record
        elif self._head is not None and b"* Reg" in line:
            self._row(line)

    def _row(self, line: bytes) -> None:
        if self._head is None:
            self.skip("rows without the line that begins a record")
            return
        contents = contents_of_row(line, len(self._rows))
        if contents is None:
            self.skip("rows that other output has damaged")
        self._rows.append(contents)

    def complete(self) -> None:
        """Hand the record of a text on whose last row has been read."""
        if self._head is None:
            return
        (begin, match), rows, line = self._head, self._rows, self.line
        self._head, self._rows = None, []
        self.line = begin
        self.take_record(match, rows)
        self.line = line

    def take_record(self, match: re.Match[bytes], rows: Sequence[bytes | None]) -> None:
        """Take a record: its first line, and its rows; one is None if it cannot be read."""
        raise NotImplementedError

    def begin(
        self,
        key: tuple[int, ...],
        launch: RecordedLaunch,
        place: Place,
        warp_in_cta: int | None,
        facts: Mapping[str, Any],
        work_group: int,
        slot: int | None = None,
    ) -> WindowLog:
        """Open the window of a warp whose first record is at hand."""
        self._end_quiet_warps()
        size = launch.allocated
        lanes = launch.lanes_of(warp_in_cta)
        origin = Origin(launch.kernel, launch.number, work_group)
        kept = dict(facts)
        if launch.registers is not None:
            kept |= {"registers": launch.registers, "allocated": size}
        window = self.recording.open_window(
            self.time, size, origin, place, lanes=lanes, slot=slot, facts=kept
        )
        self.running[key] = Warp(launch, window, (1 << lanes) - 1)
        return window

    def record(self, key: tuple[int, ...], instruction: SassInstruction, shown: Shown) -> None:
        """Take a record of a warp that runs."""
        warp = self.running[key]
        warp.records += 1
        warp.seen = self.time
        self.time += 1
        if warp.window.number >= 0:
            self._record(warp, instruction, shown)
        if instruction.ends:
            self.end(key)

    def _record(self, warp: Warp, instruction: SassInstruction, shown: Shown) -> None:
        time, before, written = warp.seen, len(warp.waiting), instruction.written
        if not self.after:
            self._compare(warp, instruction, shown)
        changed = (instruction.unknown or written) if self.after else ()
        for register, contents in shown.items():
            if register in changed:
                continue
            access = warp.unknown.pop(register, None)
            if access is not None:
                access.contents = contents
        if instruction.unknown:
            leave_out(self, instruction.name)
            for register in warp.unknown.keys() & set(instruction.unknown):
                warp.unknown.pop(register).lost = True
        for register in instruction.read:
            seen = None if register in changed else shown.get(register)
            warp.waiting.append(_Access(time, register, False, seen, self.line))
        for register in written:
            left = shown.get(register) if self.after else None
            access = _Access(time, register, True, left, self.line)
            if overwritten := warp.unknown.pop(register, None):
                overwritten.lost = True
            if left is None:
                warp.unknown[register] = access
            warp.waiting.append(access)
        self._accesses_waiting += len(warp.waiting) - before
        self._give(warp)
        while self._accesses_waiting > MOST_WAITING and warp.waiting:
            access = warp.waiting[0]  # whose contents the others wait for
            access.lost = True
            if warp.unknown.get(access.register) is access:
                del warp.unknown[access.register]
            self._give(warp)

    def contradict(self) -> bool:
        """Whether contents are not those before the instruction, as they were taken for."""
        return self._others > max(self._alike // 4, MOST_ODD)

    def _end_quiet_warps(self) -> None:
        """End those of too many warps that have shown nothing for the longest time.

        A warp whose lanes all leave by exits with a guard is never seen to end.
        """
        if len(self.running) >= MOST_RUNNING:
            by_time = sorted(self.running, key=lambda key: self.running[key].seen)
            for key in by_time[: MOST_RUNNING // 2]:
                self.end(key)

    def end(self, key: tuple[int, ...]) -> None:
        """Close the window of a warp after its last record."""
        warp = self.running.pop(key)
        self._drain(warp)
        self.recording.close_window(warp.window, max(self.time - 1, warp.window.last))

    def finish(self) -> None:
        """Hand on what is known of warps that still run; say what was in the file."""
        for warp in self.running.values():
            self._drain(warp)
        share = f"{self._zero_lanes / self._lanes:.1%}" if self._lanes else "none"
        recording = self.recording
        recording.in_file["values"] = f"{'after' if self.after else 'before'} the instruction"
        recording.in_file["registers"] = "numbers in the window"
        recording.approximate["lanes"] = (
            f"all that exist are taken as written; {share} of them read 0, which may be lanes that "
            "were not active"
        )
        recording.approximate["time"] = "one record, one cycle"
        which = "of loads of less than 32 bits: " if self.after else ""
        recording.inferred["contents"] = f"{which}what the next record of the warp shows"
        recording.inferred["reads"] = "source registers, by SASS"

    def _give(self, warp: Warp) -> None:
        """Hand on accesses up to the first whose contents are not known yet."""
        waiting, window, recording = warp.waiting, warp.window, self.recording
        while waiting:
            time, register, contents = waiting[0].time, waiting[0].register, waiting[0].contents
            if contents is not None:
                contents = contents[: 4 * window.lanes]
            if not waiting[0].is_write:
                lanes = 0 if contents is None else warp.mask
                recording.read(window, time, register, lanes, contents or b"")
            elif contents is not None:
                self._zero_lanes += _zeros_in(contents)
                self._lanes += window.lanes
                recording.write(window, time, register, warp.mask, contents)
            elif waiting[0].lost:
                recording.skip(NEVER_SHOWN, self.source, waiting[0].line)
            else:
                return
            waiting.popleft()
            self._accesses_waiting -= 1

    def _compare(self, warp: Warp, instruction: SassInstruction, shown: Shown) -> None:
        """Compare what a destination holds before it is written with what it was seen to hold.

        Lanes that were not active may read 0, or what the first active lane holds. Since that lane
        is before all others that were active, its contents are 0 or the first that are not.
        """
        known = warp.known
        for register in instruction.unknown:
            known.pop(register, None)
        for register in instruction.written:
            held, contents = known.pop(register, None), shown.get(register)
            if held is None or contents is None:
                continue
            rows = [memoryview(row).cast("I").tolist() for row in (held, contents)]
            first, second = ({0, next(filter(None, row), 0)} for row in rows)
            if held == contents or all(
                before == now or before in first or now in second
                for before, now in zip(*rows, strict=True)
            ):
                self._alike += 1
            else:
                self._others += 1
        for register, contents in shown.items():
            if register not in instruction.written and register not in instruction.unknown:
                known[register] = contents

    def _drain(self, warp: Warp) -> None:
        warp.window.facts["records"] = warp.records
        for access in warp.unknown.values():
            access.lost = True
        warp.unknown.clear()
        self._give(warp)


@lru_cache(1 << 16)
def _zeros_in(contents: bytes) -> int:
    return memoryview(contents).cast("I").tolist().count(0)


def numbers_of(instruction: SassInstruction, rows: int, of_memory: bool) -> list[int] | None:
    """Register that each row of a record shows, by the SASS; `ZERO` and more are parts of RZ.

    Operands that are registers have a row for each 32 bits that the instruction moves, or none if
    it moves less; the address of a memory operand has a single one, if any.

    Returns
    -------
    list of int, or None if so many rows do not fit the instruction.
    """
    operands = [operand for operand in instruction.operands if of_memory or not operand[1]]
    addresses = sum(in_memory for _, in_memory in operands)
    others = len(operands) - addresses
    left = rows - addresses
    width = left // others if others and left > 0 else 0
    if left < 0 or left != width * others or width > MOST_ROWS_OF_OPERAND:
        return None
    return [
        number
        for first, in_memory in operands
        for number in range(first, first + (1 if in_memory else width))
    ]


def rows_of(
    instruction: SassInstruction, rows: Sequence[bytes | None], of_memory: bool
) -> Shown | None:
    """Which register each row of a record shows, where the file does not number them.

    Parameters
    ----------
    instruction, of_memory
        As in `numbers_of`.
    rows : sequence of bytes or None
        None is a row that cannot be read.

    Returns
    -------
    dict of int to bytes, or None if the rows do not fit the instruction.
    """
    numbers = numbers_of(instruction, len(rows), of_memory)
    if numbers is None:
        return None
    pairs = zip(numbers, rows, strict=True)
    return {number: row for number, row in pairs if number < ZERO and row is not None}


# Rows of 32 numbers as NVBit's tools print them.

_MOST_KEPT = 1 << 15


@lru_cache(_MOST_KEPT)
def contents_of_hexadecimal(words: bytes) -> bytes | None:
    """Contents of 32 words ``0x0000abcd`` without spaces between them, or None."""
    digits = words.replace(b"0x", b"")
    if len(words) != 10 * LANES or len(digits) != 8 * LANES:
        return None
    try:
        numbers = array("I", bytes.fromhex(digits.decode("ascii")))
    except ValueError:
        return None
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


@lru_cache(1 << 10)
def _labels(number: int, width: int) -> list[bytes]:
    return [b"Reg%d_T%0*d:" % (number, width, lane) for lane in range(LANES)]


def contents_of_row(line: bytes, number: int) -> bytes | None:
    """Contents that a line ``* Reg0_T0: 0x00000000 Reg0_T1: ...`` shows.

    Parameters
    ----------
    line : bytes
        Without its line break; anything may stand before the star.
    number : int
        Row of the record, from 0, which its labels must name.

    Returns
    -------
    bytes or None
        128 bytes; None if the line is damaged.
    """
    words = line[line.find(b"* Reg") + 1 :].split()
    labels = words[::2]
    if labels != _labels(number, 1) and labels != _labels(number, 2):
        return None
    return contents_of_hexadecimal(b"".join(words[1::2]))


# NVBit's ``record_reg_vals``.

EARLY_RECORDS = 2000
"""Records that two of the tool's buffers of 1 MiB hold, each of 1048 bytes."""

_MOST_WAITING = 4096
"""Launches whose warps have not all begun; records have been printed after each of the latest."""

_KERNEL = re.compile(
    rb"Kernel (.*) - grid size (\d{1,10}),(\d{1,10}),(\d{1,10}) - block size (\d{1,4}),(\d{1,4}),"
    rb"(\d{1,4}) - nregs (\d{1,3}) - shmem (\d+) - cuda stream id (\d+)\s*\Z"
)
_RECORD = re.compile(rb"CTA (\d{1,10}),(\d{1,10}),(\d{1,10}) - warp (\d{1,5}) - ([^\n]*?):\s*\Z")
_VERSION = re.compile(rb"NVidia Binary Instrumentation Tool v([0-9.]{1,20})\)")


def _recognises(source: Source) -> bool:
    return b"NVBit (NVidia Binary" in source.head or any(
        _RECORD.match(line) or _KERNEL.match(line) for line in source.head.split(b"\n", 2000)[:2000]
    )


class _Log(Warps):
    """Reads NVBit's ``record_reg_vals``."""

    record_begins = _RECORD
    row_begins = b"* Reg"

    def prepare(self) -> None:
        super().prepare()
        self.launches = 0
        self.waiting: deque[RecordedLaunch] = deque(maxlen=_MOST_WAITING)
        self.fresh: deque[tuple[int, int]] = deque(maxlen=_MOST_WAITING)
        self.groups: dict[tuple[int, int], list[WindowLog]] = defaultdict(list)

    def read(self) -> None:
        if version := _VERSION.search(self.source.head):
            self.recording.tools["NVBit"] = version[1].decode()
        super().read()

    def take(self, line: bytes) -> None:
        if line.startswith(b"Kernel ") and (kernel := _KERNEL.match(line)):
            self.complete()
            self.kernel(kernel)
        else:
            self.take_text(line)

    def kernel(self, match: re.Match[bytes]) -> None:
        name = match[1].decode("utf-8", "replace")
        numbers = [int(match[group]) for group in range(2, 9)]
        grid, block = tuple(numbers[:3]), tuple(numbers[3:6])
        if all(grid) and all(block) and numbers[6]:
            launch = RecordedLaunch(self.launches, name, grid, block, numbers[6])  # type: ignore[arg-type]
            self.launches += 1
            self.waiting.append(launch)
            self.fresh.append((self.time + EARLY_RECORDS, launch.number))

    def take_record(self, match: re.Match[bytes], rows: Sequence[bytes | None]) -> None:
        while self.fresh and self.time >= self.fresh[0][0]:
            self.end_before(self.fresh.popleft()[1])
        key = (int(match[1]), int(match[2]), int(match[3]), int(match[4]))
        if key not in self.running and not self.has_begun(key):
            return
        instruction = instruction_of(match[5].decode("utf-8", "replace"))
        shown = rows_of(instruction, rows, of_memory=False)
        if shown is None:
            self.skip("records whose rows do not fit the SASS")
        self.record(key, instruction, shown or {})

    def has_begun(self, key: tuple[int, int, int, int]) -> bool:
        """Open the window of a new warp, which belongs to the oldest launch that waits for it."""
        if not self.launches:
            self.skip("records before the line of any kernel")
            return False
        cta, hardware_warp = key[:3], key[3]
        fitting = (launch for launch in self.waiting if launch.has(cta))
        launch = next((launch for launch in fitting if key not in launch.started), None)
        if launch is None:
            self.skip("records of warps that have ended, or of more warps than the grid has")
            return False
        group = launch.cta_number(cta)
        warp_in_cta = self.warp_in_cta(launch, group, hardware_warp)
        launch.started.add(key)
        if launch.complete:
            self.waiting.remove(launch)
        facts = {"cta": list(cta), "warp_in_cta": warp_in_cta, "hardware_warp": hardware_warp}
        place = Place(None, hardware_warp % PARTITIONS)
        window = self.begin(key, launch, place, warp_in_cta, facts, group, hardware_warp)
        if window.number >= 0:
            self.groups[launch.number, group].append(window)
        return True

    def warp_in_cta(self, launch: RecordedLaunch, group: int, hardware_warp: int) -> int:
        """Its slot counted within the CTA, as slots of a CTA follow one another."""
        windows = self.groups.get((launch.number, group), ())
        taken = {window.facts["warp_in_cta"] for window in windows}
        count = launch.warps_of_cta or 1
        wanted = hardware_warp % count
        return wanted if wanted not in taken else min(set(range(len(taken) + 1)) - taken)

    def end_before(self, number: int) -> None:
        """End warps of launches before this one: the tool lets one launch run at a time."""
        while self.waiting and self.waiting[0].number < number:
            self.waiting.popleft()
        for key, warp in list(self.running.items()):
            if warp.launch.number < number:
                self.end(key)

    def finish(self) -> None:
        """Say what was concluded."""
        super().finish()
        self.recording.inferred["place"] = (
            "CTAs with the same %warpid at the same time are on different SMs; partition = "
            "%warpid mod 4"
        )


FORMAT = Format("nvbit", "NVBit's record_reg_vals", _recognises, _Log)


# Accel-Sim's instruction traces: recognised, and refused, since they hold no register values.

_ENDINGS = (".trace", ".traceg", ".tracez")
_SIGNS = (b"-kernel name =", b"#traces format", b"-accelsim tracer version")


def _recognises_accelsim(source: Source) -> bool:
    head = source.head[: 1 << 14]
    if any(sign in head for sign in _SIGNS):
        return True
    name = source.path.name.lower()
    for compressed in (".gz", ".zst", ".xz"):
        name = name.removesuffix(compressed)
    return name.endswith(_ENDINGS[1:]) or (name.endswith(_ENDINGS[0]) and b"#BEGIN_TB" in head)


class _Accelsim(Reader):
    """Refuses what holds no registers."""

    def prepare(self) -> None:
        self.source.refuse(
            "a trace of Accel-Sim holds instructions and addresses, but no register values; record "
            "the program with CUTracer or scripts/nvbit (`mcage docs recording`)"
        )


ACCELSIM_FORMAT = Format(
    "accelsim", "an instruction trace of Accel-Sim", _recognises_accelsim, _Accelsim
)
