"""The file that Multi2Sim's ``--trace`` writes: cycles and places of instructions.

Lines are ``c clk=N``, ``si.map_wg``, ``si.new_inst``, ``si.inst`` for each stage that is entered,
``si.end_inst`` and ``si.unmap_wg``; the line after the end of a branch begins with a space. The
simulator writes ``si.new_inst`` each time that it has printed a block of the ISA text, so that the
instructions are the blocks of the text, one for one and in the same order.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcage.traces.importing.sources import Source

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
class Instruction:
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


class Timing:
    """Instructions in the order of their fetch, once their stages are known.

    Parameters
    ----------
    source : Source
        The file.

    Attributes
    ----------
    source : Source
        The file.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lines = self._matches()
        self._clock = 0
        self._queue: deque[Instruction | Mapped] = deque()
        self._running: dict[tuple[int, int], Instruction] = {}
        self._arriving: dict[int, Mapped] = {}
        self._groups: dict[tuple[int, int], Mapped] = {}

    def mapped(self) -> Iterator[Mapped]:
        """Take what comes and goes before the next instruction."""
        while self._fill() and isinstance(self._queue[0], Mapped):
            taken = self._queue.popleft()
            assert isinstance(taken, Mapped)
            yield taken

    def next(self) -> Instruction | None:
        """The next instruction, not taken yet; `mapped` has been called before."""
        if not self._fill():
            return None
        head = self._queue[0]
        assert isinstance(head, Instruction)
        return head

    def take(self) -> None:
        """Take the next instruction."""
        self._queue.popleft()

    def _fill(self) -> bool:
        """Read on until the first of the queue is complete; false at the end of the file."""
        while not self._queue or not self._complete(self._queue[0]):
            line = next(self._lines, None)
            if line is None:
                return bool(self._queue)
            self._line(line)
        return True

    def _matches(self) -> Iterator[re.Match[bytes]]:
        for _, block in self.source.blocks():
            yield from _LINE.finditer(block)

    def _complete(self, first: Instruction | Mapped) -> bool:
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
        instruction = Instruction(mnemonic, wavefront, clock, clock)
        self._running[int(match["new_cu"]), int(match["new"])] = instruction
        self._queue.append(instruction)
        self._bound()

    def _stage(self, running: Instruction, stage: bytes) -> None:
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
