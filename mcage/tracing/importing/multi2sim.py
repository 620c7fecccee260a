"""Multi2Sim's Southern Islands: its ISA text, and the file of cycles beside it."""

import re
import struct
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from mcage.geometry import GCN
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, WindowLog
from mcage.tracing.importing.sources import Source

# The file that Multi2Sim's ``--trace`` writes: cycles and places of instructions.
#
# Lines are ``c clk=N``, ``si.map_wg``, ``si.new_inst``, ``si.inst`` for each stage that is
# entered, ``si.end_inst`` and ``si.unmap_wg``; the line after the end of a branch begins with a
# space. The simulator writes ``si.new_inst`` each time that it has printed a block of the ISA
# text, so that the instructions are the blocks of the text, one for one and in the same order.

_LINE = re.compile(
    rb"^ *(?:c clk=(?P<clock>\d{1,15})$"
    rb"|si\.new_inst id=(?P<new>\d{1,15}) cu=(?P<new_cu>\d{1,5}) ib=(?P<pool>\d{1,3}) "
    rb'wf=(?P<wavefront>\d{1,9}) .{0,60}?asm="(?P<asm>\w{1,60})'
    rb"|si\.inst id=(?P<inst>\d{1,15}) cu=(?P<inst_cu>\d{1,5}) .{0,60}?"
    rb'stg="(?P<stage>simd-e|mem-[rw]|lds-[rw])"'
    rb"|si\.end_inst id=(?P<end>\d{1,15}) cu=(?P<end_cu>\d{1,5})$"
    rb"|si\.map_wg cu=(?P<map_cu>\d{1,5}) wg=(?P<map>\d{1,9}) "
    rb"wi_first=(?P<item>\d{1,10}) .{0,60}?wf_first=(?P<first>\d{1,9}) wf_count=(?P<count>\d{1,3})$"
    rb"|si\.unmap_wg cu=(?P<unmap_cu>\d{1,5}) wg=(?P<unmap>\d{1,9})$)",
    re.MULTILINE,
)

LANES = 64

_READ_STAGES = (b"simd-e", b"mem-r", b"lds-r")
_WRITE_STAGES = {b"simd-e": 4, b"mem-w": 0, b"lds-w": 0}
"""Stages in which a result is written, and how many cycles after their beginning."""

_MOST_IN_FLIGHT = 1 << 14
_SUFFIX = re.compile(rb"_(?:vop3[ab]|e64|e32)$")


def is_timing(head: bytes) -> bool:
    """Whether a file is one of ``--trace``, by its beginning."""
    return any(
        line.lstrip(b" ").startswith((b"si.init ", b"si.map_wg ", b"si.new_inst ", b"c clk="))
        for line in head.split(b"\n", 50)[:50]
    )


def plain_name(mnemonic: bytes) -> bytes:
    """A mnemonic without the name of its encoding."""
    return _SUFFIX.sub(b"", mnemonic)


@dataclass(slots=True)
class Fetched:
    """An instruction that has been fetched: cycles of its reads and of its write."""

    mnemonic: bytes
    wavefront: int
    read: int
    written: int
    ended: bool = False


@dataclass(slots=True)
class Mapped:
    """Wavefronts of a work-group that come to a compute unit; ``end`` when they leave it.

    `first_item` is the first work-item of the group, which is lane 0 of its first wavefront.
    """

    unit: int
    part: int
    work_group: int
    first_item: int
    wavefronts: Sequence[int]
    begin: int
    end: int | None = None


class PipelineTiming:
    """Instructions in the order of their fetch, once their stages are known, and work-groups."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._clock = 0
        self._queue: deque[Fetched | Mapped] = deque()
        self._running: dict[tuple[int, int], Fetched] = {}
        self._arriving: dict[int, Mapped] = {}
        self._groups: dict[tuple[int, int], Mapped] = {}

    def __iter__(self) -> Iterator[Fetched | Mapped]:
        for _, block in self.source.blocks():
            for match in _LINE.finditer(block):
                self._line(match)
                while self._queue and self._is_complete(self._queue[0]):
                    yield self._queue.popleft()
        yield from self._queue

    def _is_complete(self, first: Fetched | Mapped) -> bool:
        return isinstance(first, Mapped) or first.ended or len(self._queue) >= _MOST_IN_FLIGHT

    def _line(self, match: re.Match[bytes]) -> None:
        kind = match.lastgroup
        if kind == "clock":
            self._clock = max(self._clock, int(match[1]))
        elif kind == "stage":
            running = self._running.get((int(match["inst_cu"]), int(match["inst"])))
            if running is not None:
                self._stage(running, match["stage"])
        elif kind == "asm":
            self._new(match)
        elif kind == "end_cu":
            running = self._running.pop((int(match["end_cu"]), int(match["end"])), None)
            if running is not None:
                running.ended = True
        elif kind == "count":
            self._map(match)
        else:
            left = self._groups.pop((int(match["unmap_cu"]), int(match["unmap"])), None)
            if left is not None:
                left.end = self._clock
                for wavefront in left.wavefronts:
                    self._arriving.pop(wavefront, None)
                self._queue.append(left)

    def _map(self, match: re.Match[bytes]) -> None:
        unit, work_group = int(match["map_cu"]), int(match["map"])
        first, count = int(match["first"]), min(int(match["count"]), 64)
        wavefronts = range(first, first + count)
        first_item = int(match["item"])
        group = Mapped(unit, 0, work_group, first_item, wavefronts, self._clock)
        for wavefront in wavefronts:
            self._arriving[wavefront] = group
        self._groups[unit, work_group] = group
        self._bound()

    def _new(self, match: re.Match[bytes]) -> None:
        wavefront = int(match["wavefront"])
        group = self._arriving.get(wavefront)
        if group is not None:
            group.part = int(match["pool"])
            for other in group.wavefronts:
                self._arriving.pop(other, None)
            self._queue.append(replace(group))
        mnemonic = plain_name(match["asm"].lower())
        clock = self._clock
        instruction = Fetched(mnemonic, wavefront, clock, clock)
        self._running[int(match["new_cu"]), int(match["new"])] = instruction
        self._queue.append(instruction)
        self._bound()

    def _stage(self, running: Fetched, stage: bytes) -> None:
        if stage in _READ_STAGES:
            running.read = self._clock
        if stage in _WRITE_STAGES:
            running.written = self._clock + _WRITE_STAGES[stage]

    def _bound(self) -> None:
        """Forget the oldest of what has never ended."""
        everything: tuple[dict[Any, Any], ...] = (self._running, self._arriving, self._groups)
        for kept in everything:
            if len(kept) > 4 * _MOST_IN_FLIGHT:
                del kept[next(iter(kept))]


# Multi2Sim's Southern Islands: the ISA text of the emulator, and the trace of the timing model.
#
# A block of the text is a line with the instruction and one with its effects: ``t65: V3<=(4) ...``
# for each active work-item. Which parenthesis holds the value depends on the instruction; floats
# are printed with six digits, so that their bits are not known. `_PRINT_LANES` print the lane
# where the others print the work-item. The text has no cycles, no places and no windows; the file
# of ``--trace`` has them, and the wavefront of each block. Read in Multi2Sim 77b16e0b:
# WorkItemIsa.cc, Wavefront.cc, Emulator.cc, timing/ComputeUnit.cc.

_ALL_LANES = (1 << LANES) - 1
_LARGEST = (1 << 32) - 1
_MOST_LOST_IN_A_ROW, _MOST_LOST = 256, 0.03

_OFFSET = re.compile(rb"[0-9A-Fa-f]{8}:")
_MNEMONIC = re.compile(rb"[a-z]\w{0,40}")
_LONGEST_INSTRUCTION = 400
_ITEM_BEGINS, _BLOCK_BEGINS = b"t "
_LAUNCH = b"Initialization Summary"
_ITEM = re.compile(rb"t(\d{1,9}): ?V(\d{1,3})<=\(([^(),]{0,40})[^()]{0,60}\)(?:\(([^(),]{0,40}))?")
_TOKEN = re.compile(
    rb"t(\d{1,9}):|V(?:(\d{1,3})|\[(\d{1,3})(?::?\+(\d{1,3}))?\])<=\(([^(),]{0,40})[^()]{0,60}\)"
    rb"(?: ?\(([^(),]{0,40}))?"
)
_FIRST = re.compile(rb"^t(\d{1,9}):")
_OPERAND = re.compile(rb"^-?(?:abs\()?v(?:(\d{1,3})|\[(\d{1,3}):(\d{1,3})\])\)?$")
_INTEGER = re.compile(rb"^ *(-?)(?:0x([0-9a-fA-F]{1,16})|(\d{1,20}))(~?)$")
_FLOAT = re.compile(rb"^ *(-?(?:\d{0,40}\.?\d{1,40}(?:e[+-]?\d{1,4})?|inf|nan))f?$")

_VECTOR = (b"v_", b"ds_", b"buffer_", b"tbuffer_")
_LOADS = (b"ds_read", b"buffer_load", b"tbuffer_load")
_WITHOUT_DESTINATION = (
    *(b"v_cmp", b"v_readfirstlane", b"v_readlane", b"ds_write", b"buffer_store", b"tbuffer_store"),
    *(b"buffer_atomic", b"ds_add", b"ds_sub", b"ds_inc", b"ds_dec", b"ds_min", b"ds_max"),
    *(b"ds_and", b"ds_or", b"ds_xor"),
)
_PRINT_LANES = (
    *(b"v_cmp", b"v_max3_i32", b"v_med3_i32"),
    *(b"v_lshr_b64", b"v_ashr_i64", b"v_add_f64", b"v_mul_f64"),
)
"""Instructions whose effects have the lane for the work-item; the last four have S for V as well.

These are the 39 of WorkItemIsa.cc that print ``id_in_wavefront``; other compares end the program.
"""

_PRINTS_NO_EFFECTS = b"v_lshl_b64"
_PRINT_NO_OPERANDS = (b"v_max3_i32", b"v_ashr_i64")
_READS_ITS_DESTINATION = (b"v_mac_", b"v_writelane")


def _recognises(source: Source) -> bool:
    if is_timing(source.head):
        return True
    return _LAUNCH in source.head or any(
        _block(line[:_LONGEST_INSTRUCTION]) for line in source.head.split(b"\n", 2000)
    )


class _Block(NamedTuple):
    """An instruction of the text; whether it writes registers, and those that it reads."""

    mnemonic: bytes
    is_vector: bool
    is_load: bool
    prints_lanes: bool
    writes: bool
    read: tuple[int, ...]


@lru_cache(1 << 12)
def _block(line: bytes) -> _Block | None:
    """Block that begins with a line; `line` is cut to `_LONGEST_INSTRUCTION`."""
    end = line.find(b"// ")
    if end < 0 or line[:1] != b" " or not _OFFSET.match(line, end + 3):
        return None
    mnemonic, _, operands = line[1:end].partition(b" ")
    if not _MNEMONIC.fullmatch(mnemonic):
        return None
    writes, read = _operands(mnemonic, operands.strip())
    vector, load = mnemonic.startswith(_VECTOR), mnemonic.startswith(_LOADS)
    return _Block(mnemonic, vector, load, mnemonic.startswith(_PRINT_LANES), writes, read)


class _IsaText(Reader):
    """Reads the ISA text, beside the timing trace."""

    def prepare(self) -> None:
        timings = [source for source in self.sources if is_timing(source.head)]
        texts = [source for source in self.sources if source not in timings]
        if len(texts) != 1 or len(timings) != 1:
            wrong = (timings or texts)[-1]
            wrong.refuse(
                "an import takes one ISA text and the file of --trace of the same run; "
                "m2s --si-sim detailed writes both"
            )
        self.sources, self.timing = texts, timings[0]
        self.recording.has_lanes(LANES)
        self.items = iter(PipelineTiming(self.timing))
        self.head = next(self.items, None)
        self.launch = 0
        self.begun = False
        self.blocks = self.lost = self.lost_in_a_row = 0
        self.inexact = 0
        self.open: dict[int, tuple[WindowLog, int]] = {}
        """Open windows, each with the work-item of its lane 0, by wavefronts."""

    def read(self) -> None:
        header: _Block | None = None
        self.line = 1
        for number, line in self.source.lines():
            self.line = number
            if header is not None and (not line or line[0] == _ITEM_BEGINS):
                self.block(header, line)
                header = None
            elif not line:
                continue
            elif line[0] == _BLOCK_BEGINS and (block := _block(line[:_LONGEST_INSTRUCTION])):
                if header is not None:
                    self.block(header, b"")
                header = block
            elif _LAUNCH in line:
                self.launch += self.blocks > 0
                self.begun = True
        if header is not None:
            self.block(header, b"")
        while self.next_timed():
            self.head = next(self.items, None)
            self.lost += 1
            self.skip("instructions of the timing trace that the text lacks at its end")

    def block(self, header: _Block, effects: bytes) -> None:
        """Take an instruction and the line of its effects, which is empty if there are none."""
        self.blocks += 1
        first = _FIRST.match(effects) if effects else None
        item = int(first[1]) if first and not header.prints_lanes else None
        timed = self.timed(header.mnemonic, item)
        if first is None:
            if header.mnemonic == _PRINTS_NO_EFFECTS:
                self.skip("instructions that print no effects")
            return
        if not header.is_vector:
            return
        if timed:
            opened = self.open.get(timed.wavefront)
        elif item is None:
            self.skip("instructions that print lanes: the text does not name their wavefront")
            return
        else:
            everything = self.open.values()
            opened = next((each for each in everything if 0 <= item - each[1] < LANES), None)
        if opened is None:
            self.skip("instructions of wavefronts that are on no compute unit")
            return
        window, first_item = opened
        if header.prints_lanes:
            first_item, effects = 0, effects.replace(b"S[", b"V[")
        writes = self.writes(header.is_load, effects, first_item) if header.writes else []
        if writes is None:
            self.skip("effects that are damaged")
            return
        read, written = (timed.read, timed.written) if timed else (window.last, window.last)
        if header.writes and not writes:
            self.skip("register writes whose text does not name the register")
        if header.mnemonic in _PRINT_NO_OPERANDS:
            self.skip("reads by instructions that print no operands")
        for register in header.read:
            if register < GCN.entries:
                self.recording.read(window, read, register)
        for register, lanes, values, exact in writes:
            self.recording.write(window, written, register, lanes, values, exact)
            self.inexact += not exact

    def timed(self, mnemonic: bytes, item: int | None) -> Fetched | None:
        """The instruction of the timing trace that a block is; None if the next is another."""
        if not self.begun:
            self.fail("the text begins within a launch; --trace needs the whole")
        head = self.next_timed()
        if head and head.mnemonic == plain_name(mnemonic):
            _, first_item = self.open.get(head.wavefront, (None, LANES * head.wavefront))
            if item is None or 0 <= item - first_item < LANES:
                self.head = next(self.items, None)
                self.lost_in_a_row = 0
                return head
        self.skip("instructions that the timing trace lacks: at the time of the one before")
        self.lost += 1
        self.lost_in_a_row += head is not None
        if self.lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            self.fail(self.not_of_one_run("in a row", self.lost_in_a_row))
        return None

    def not_of_one_run(self, of: str, lost: int) -> str:
        return (
            f"{lost:,} instructions {of} are not both here and in {self.timing.path.name}: "
            "the files are of two runs, or one of them is not whole"
        )

    def next_timed(self) -> Fetched | None:
        """The next instruction of the timing trace; windows before it have opened and closed."""
        while isinstance(self.head, Mapped):
            self.map(self.head)
            self.head = next(self.items, None)
        return self.head

    def map(self, group: Mapped) -> None:
        """Open or close the windows of a work-group."""
        for number, wavefront in enumerate(group.wavefronts):
            if opened := self.open.pop(wavefront, None):
                self.close(opened[0], opened[0].last if group.end is None else group.end)
            if group.end is None:
                origin = Origin("kernel", self.launch, group.work_group, wavefront)
                place = Place(group.unit, group.part)
                window = self.recording.open_window(group.begin, None, origin, place)
                self.open[wavefront] = window, group.first_item + LANES * number

    def close(self, window: WindowLog, time: int) -> None:
        window.facts["registers_seen"] = window.known.bit_length()
        self.recording.close_window(window, time)
        window.facts |= {"begin_cycle": window.begin, "end_cycle": window.end}

    def writes(
        self, load: bool, effects: bytes, first_item: int
    ) -> list[tuple[int, int, "array[int]", bool]] | None:
        """Register, lanes, values and whether they are exact, of each write; None if damaged."""
        items = _ITEM.findall(effects)
        if len(items) != effects.count(b"V"):
            items = list(_tokens(effects))
        registers = sorted({item[1] for item in items}, key=int)
        writes = []
        for register in registers:
            of_register = items
            if len(registers) > 1:
                of_register = [item for item in items if item[1] == register]
            lanes, _, first, second = zip(*of_register, strict=True)
            values, exact = _numbers(second if load else first)
            mask = _mask(list(map(int, lanes)), first_item)
            if values is None or not mask or int(register) >= GCN.entries:
                return None
            writes.append((int(register), mask, values, exact))
        return writes

    def finish(self) -> None:
        """Close what is open, and say what is known and what is not."""
        if self.lost > _MOST_LOST * self.blocks:
            self.source.refuse(self.not_of_one_run(f"of {self.blocks:,}", self.lost))
        for window, _ in self.open.values():
            self.close(window, window.last)
        recording = self.recording
        sizes: dict[int, int] = {}
        for window, used in zip(recording.windows, recording.registers_used(), strict=True):
            launch = window.origin.launch
            sizes[launch] = max(sizes.get(launch, 1), used)
        for window in recording.windows:
            window.size = sizes[window.origin.launch]
        recording.in_file |= {
            **{"lanes": "active work-items", "registers": "numbers in the window"},
            **{"values": "after the write", "reads": "operands of the instructions"},
            **{"time": "cycles of --trace", "place": "compute unit and pool"},
            "windows": "work-groups mapped and unmapped",
        }
        recording.inferred["window sizes"] = "the highest register that a launch uses"
        if self.inexact:
            recording.approximate["contents"] = (
                f"{self.inexact:,} writes were printed as floats of six digits"
            )
        recording.inferred["time of vector ALU results"] = "4 cycles after execution begins"


def _tokens(effects: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """As `_ITEM` finds them, for texts that name the work-item once for several registers."""
    item = b""
    for thread, plain, first, offset, value, second in _TOKEN.findall(effects):
        if thread:
            item = thread
        elif plain:
            yield item, plain, value, second
        elif offset and b"[" + first + b":+" in effects:
            low, high = _halves(value)
            yield item, first, low, low
            yield item, b"%d" % (int(first) + 1), high, high
        else:
            yield item, b"%d" % (int(first) + int(offset or 0)), value, second


def _halves(value: bytes) -> tuple[bytes, bytes]:
    """The two registers of a 64-bit value."""
    match = _INTEGER.match(value)
    if match:
        number = int(match[2], 16) if match[2] else int(match[3])
        number = (-number if match[1] else number) & ((1 << 64) - 1)
        return b"%d" % (number & _LARGEST), b"%d" % (number >> 32)
    match = _FLOAT.match(value)
    if match is None:
        return value, value
    low, high = struct.unpack("<II", struct.pack("<d", float(match[1])))
    return b"%d~" % low, b"%d~" % high


@lru_cache(1 << 14)
def _bits(text: bytes) -> tuple[int, bool] | None:
    """Bits of a number as the simulator prints it, and whether they are known exactly."""
    match = _INTEGER.match(text)
    if match:
        number = int(match[2], 16) if match[2] else int(match[3])
        number = -number if match[1] else number
        exact = not match[4]
        return (number & _LARGEST, exact) if -(1 << 31) <= number <= _LARGEST else None
    match = _FLOAT.match(text)
    if not match:
        return None
    try:
        (number,) = struct.unpack("<I", struct.pack("<f", float(match[1])))
    except OverflowError:
        number = 0xFF80_0000 if b"-" in match[1] else 0x7F80_0000
    return number, False


def _numbers(texts: Sequence[bytes]) -> tuple["array[int]", bool] | tuple[None, bool]:
    with suppress(ValueError, OverflowError):
        return array("I", list(map(int, texts))), True
    with suppress(ValueError, OverflowError):
        return array("I", [int(text, 0) for text in texts]), True
    values, all_exact = array("I"), True
    for number in map(_bits, texts):
        if number is None:
            return None, False
        values.append(number[0])
        all_exact &= number[1]
    return values, all_exact


def _mask(items: list[int], first: int) -> int:
    """Lanes of work-items; 0 if they are not ascending ones of the wavefront that begins there."""
    if len(items) == LANES and items[0] == first and items[-1] == first + LANES - 1:
        return _ALL_LANES if items == list(range(first, first + LANES)) else 0
    mask, before = 0, first - 1
    for item in items:
        if not before < item < first + LANES:
            return 0
        mask |= 1 << (item - first)
        before = item
    return mask


def _operands(mnemonic: bytes, text: bytes) -> tuple[bool, tuple[int, ...]]:
    """Whether an instruction writes a vector register, and those that it reads, as they stand."""
    operands = []
    for operand in re.split(rb", *| +", text):
        match = _OPERAND.match(operand)
        if match is None:
            operands.append(range(0))
        elif match[1]:
            operands.append(range(int(match[1]), int(match[1]) + 1))
        else:
            operands.append(range(int(match[2]), min(int(match[3]) + 1, int(match[2]) + 16)))
    atomic = b"atomic" in mnemonic
    writes = not mnemonic.startswith(_WITHOUT_DESTINATION) or (atomic and b"glc" in text)
    if writes and not atomic and not mnemonic.startswith(_READS_ITS_DESTINATION):
        operands = operands[1:]
    return writes, tuple(register for operand in operands for register in operand)


FORMAT = Format("multi2sim", "Multi2Sim, ISA text of Southern Islands", _recognises, _IsaText)
