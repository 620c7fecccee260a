"""gem5's register files: the debug flag ``GPUVRF``, alone or with GPUExec, GPURename and GPUDisp.

A line is ``TICK: PATH: text``; an access is a line ``global: Write v[P]`` and, at once after it, a
line for each lane; `P` is a physical register, which belongs to the region of a pool that holds it.
Read in gem5 v24.0.0.1: vector_register_file.hh, operand.hh, dyn_pool_manager.cc, compute_unit.cc.
"""

import re
from array import array
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

from mcage.geometry import GCN
from mcage.tracing.importing.recording import Format, Origin, Place, Reader, WindowLog
from mcage.tracing.importing.sources import Source

_LANES = 64
_ALLOCATED = 4
"""Registers are allocated in multiples of so many (``--vreg-min-alloc``)."""

_HEAD = rb"^(?: *(\d{1,18}): )?(?:\w{1,40}: )?"
_PATH = rb"(\S{0,300}?CUs?(\d{0,6}))\."
_ACCESS = re.compile(_HEAD + rb"global: (Read|Write) v\[(\d{1,5})(?::(\d{1,5}))?\]$")
_LANE = re.compile(
    _HEAD
    + _PATH
    + rb"vector_register_file\d*: WF\[(\d{1,4})\]\[(\d{1,4})\]: WV\[(\d{1,18})\] v\[(\d{1,5})\]\["
)
_POOL = re.compile(
    _HEAD + _PATH + rb"\S{0,300}?vrf_pool_managers?(\d{0,4}): "
    rb"(?:totRegSpace \d+ allocating Register at (\d{1,6}) and size (\d{1,6})"
    rb"|freeing Region at (\d{1,6}) \d{1,6}, size \d{1,6})$"
)
_GROUP = re.compile(
    _HEAD + _PATH[:-2] + rb": CU\d+: increase ref ctr wg\[(\d{1,9})\] to \[(\d+)\]$"
)
_START = re.compile(
    _HEAD + _PATH[:-2] + rb": Scheduling wfDynId/barrier_id (\d{1,18})/-?\d+ "
    rb"on CU\d+: WF\[(\d{1,4})\]\[(\d{1,4})\]\."
)
_KNOWN = (b"global: ", b"vector_register_file", b"vrf_pool_manager")
_NOTHING = b"\0"
_MOST_REGIONS = 1 << 12


def _recognises(source: Source) -> bool:
    return any(
        _ACCESS.match(line) or _LANE.match(line) or _POOL.match(line)
        for line in source.head.replace(b"\r\n", b"\n").split(b"\n")
        if any(word in line for word in _KNOWN)
    )


@dataclass
class _Group:
    """An access and the lines of its lanes."""

    write: bool
    time: int
    registers: range
    prefix: bytes = _NOTHING
    shown: bool = False
    match: re.Match[bytes] | None = None
    lanes: list[bytes] = field(default_factory=list)


@dataclass
class _Simd:
    """Regions of the register file of a SIMD unit that are in use, by their first register."""

    regions: dict[int, WindowLog] = field(default_factory=dict)
    by_wave: dict[int, WindowLog] = field(default_factory=dict)
    has_pool: bool = False


class _Log(Reader):
    """Reads the log of a simulation."""

    def prepare(self) -> None:
        self.recording.has_lanes(_LANES)
        self.recording.granularity = _ALLOCATED
        self.recording.period = self.options.period or 1
        self.units: dict[bytes, int] = {}
        self.simds: dict[tuple[int, int], _Simd] = defaultdict(_Simd)
        self.work_groups = 0
        self.waiting: dict[int, deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=8))
        self.ticks: bool | None = None
        self.order = 0
        self.latest = 0
        self.divisor = 0

    def read(self) -> None:
        group: _Group | None = None
        prefix = _NOTHING
        lanes: list[bytes] = []
        keep = lanes.append
        for number, line in self.source.lines():
            if line.startswith(prefix):
                keep(line)
                continue
            if group is not None and (match := _LANE.match(line)):
                if group.match is not None:
                    self.lanes_of(group)
                group.match, group.prefix, group.lanes = match, match[0], [line]
                prefix, keep = group.prefix, group.lanes.append
                continue
            if group is not None:
                self.lanes_of(group)
                prefix = _NOTHING
            self.line = number
            group = self.group(line)
        if group is not None:
            self.lanes_of(group)

    def group(self, line: bytes) -> _Group | None:
        """Take a line that is not of a lane; an access begins a group of those."""
        if match := _ACCESS.match(line):
            first = int(match[3])
            last = int(match[4] or first)
            if not first <= last < first + 16:
                self.skip("accesses to no range of registers")
                return None
            self.order += 1
            return _Group(match[2] == b"Write", self.time(match[1]), range(first, last + 1))
        if b"vrf_pool_manager" in line and (match := _POOL.match(line)):
            self.pool(match)
        elif b"increase ref ctr" in line and (match := _GROUP.match(line)):
            self.work_group(match)
        elif b"Scheduling wf" in line and (match := _START.match(line)):
            self.start(match)
        elif b"]: WV[" in line:
            self.skip("lines of lanes without their access")
        return None

    def time(self, tick: bytes | None) -> int:
        """Tick of a line; the order of the accesses in a log without ticks."""
        if tick is None:
            self.ticks = bool(self.ticks)
            return self.order
        self.ticks = True
        time = int(tick)
        if time != self.latest:
            self.divisor = gcd(self.divisor, time - self.latest) if self.latest else 0
            self.latest = time
        return time

    def unit(self, path: bytes, digits: bytes) -> int:
        """Number of a compute unit: that in its path, unless another path has it already."""
        number = self.units.get(path)
        if number is None:
            number = int(digits or 0)
            while number in self.units.values():
                number += 1
            self.units[path] = number
        return number

    def pool(self, match: re.Match[bytes]) -> None:
        """Open or close the window of a region."""
        time = self.time(match[1])
        unit, part = self.unit(match[2], match[3]), int(match[4] or 0)
        simd = self.simds[unit, part]
        simd.has_pool = True
        if match[5] is None:
            window = simd.regions.pop(int(match[7]), None)
            if window is None:
                self.skip("regions freed that were not taken")
            else:
                self.close(window, time)
            return
        first, size = int(match[5]), int(match[6])
        if not 1 <= size <= GCN.entries or len(simd.regions) >= _MOST_REGIONS:
            self.fail(f"a region of {size} registers; a window has 1 ... {GCN.entries}")
        for other, window in list(simd.regions.items()):
            if other < first + size and first < other + (window.size or 0):
                self.skip("regions taken again without being freed")
                self.close(simd.regions.pop(other), time)
        window = self.open(time, size, unit, part, first)
        simd.regions[first] = window
        self.waiting[unit].append((part, first))

    def open(
        self, time: int, size: int | None, unit: int, part: int, first: int | None
    ) -> WindowLog:
        facts = {"wave_dyn_id": None, "slot": None, "first_register": first}
        facts |= {"begin_tick": time, "end_tick": None}
        return self.recording.open_window(
            time, size, Origin(), Place(unit, part), first, facts=facts
        )

    def close(self, window: WindowLog, time: int) -> None:
        self.recording.close_window(window, time)
        window.facts["end_tick"] = window.end

    def work_group(self, match: re.Match[bytes]) -> None:
        """The region that was taken last is for a wave of this work-group."""
        window = self.last_region(self.unit(match[2], match[3]))
        if match[5] == b"1":
            self.work_groups += 1
        if window is not None:
            window.facts["work_group"] = int(match[4])
            window.origin = Origin(work_group=max(self.work_groups - 1, 0))

    def start(self, match: re.Match[bytes]) -> None:
        """The region that was taken last is for this wave."""
        window = self.last_region(self.unit(match[2], match[3]), int(match[5]))
        if window is not None:
            self.name(window, int(match[4]), int(match[6]))

    def last_region(self, unit: int, part: int | None = None) -> WindowLog | None:
        for simd, first in reversed(self.waiting[unit]):
            if part in (None, simd):
                return self.simds[unit, simd].regions.get(first)
        return None

    def name(self, window: WindowLog, wave: int, slot: int) -> None:
        window.facts |= {"wave_dyn_id": wave, "slot": slot}
        window.origin = Origin(work_group=window.origin.work_group, wavefront=wave & 0xFFFF_FFFF)

    def lanes_of(self, group: _Group) -> None:
        """Record an access whose lines have all been read."""
        match, lines = group.match, group.lanes
        group.match, group.lanes = None, []
        if match is None:
            if not group.shown:
                self.skip(f"{'writes' if group.write else 'reads'} without active lanes")
            return
        group.shown = True
        physical = int(match[7])
        numbers = _numbers(lines, len(group.prefix))
        if physical not in group.registers or numbers is None:
            self.skip("accesses whose lanes are of another register, or damaged")
            return
        lanes, values = numbers
        window, first = self.window(group.time, match, physical)
        if window is None:
            self.skip("accesses outside of any region")
            return
        register = physical - first
        if group.write:
            self.recording.write(window, group.time, register, lanes, values)
            return
        known = bool(window.known >> register & 1)
        self.recording.read(window, group.time, register, lanes, values)
        if not known:
            self.recording.preload(window, register, lanes, values)
            self.recording.inferred["first contents"] = (
                "registers that are read before any write: from the allocation on, as read"
            )

    def window(
        self, time: int, match: re.Match[bytes], physical: int
    ) -> tuple[WindowLog | None, int]:
        """Window that holds a physical register, and its first one."""
        unit, part, wave = self.unit(match[2], match[3]), int(match[4]), int(match[6])
        simd = self.simds[unit, part]
        for first, region in simd.regions.items():
            if first <= physical < first + (region.size or 0):
                if region.facts["wave_dyn_id"] is None:
                    self.name(region, wave, int(match[5]))
                return region, first
        if (window := simd.by_wave.get(wave)) is None:
            if simd.has_pool or len(simd.by_wave) >= 1 << 16:
                return None, 0
            window = self.open(time, None, unit, part, None)
            self.name(window, wave, int(match[5]))
            window.facts["first_register"] = self.bases[match[2], match[4], match[6]]
            simd.by_wave[wave] = window
            self.recording.inferred |= {
                "windows": "from the first to the last access of a wave",
                "first registers": "the lowest that a wave accesses, down to a multiple of four",
            }
        first = window.facts["first_register"]
        return (window, first) if physical < first + GCN.entries else (None, 0)

    @cached_property
    def bases(self) -> dict[tuple[bytes, ...], int]:
        """First register of each wave, by its path, SIMD and number, where no pool says it.

        The whole log is read once more for it, as a wave may access its lowest register last.
        """
        bases: dict[tuple[bytes, ...], int] = {}
        for source in self.sources:
            prefix = _NOTHING
            for _, line in source.lines():
                if not line.startswith(prefix) and (match := _LANE.match(line)):
                    prefix, wave = match[0], (match[2], match[4], match[6])
                    first = int(match[7]) // _ALLOCATED * _ALLOCATED
                    bases[wave] = min(first, bases.get(wave, first))
        return bases

    def finish(self) -> None:
        """Close what only accesses have opened, and say what a cycle is."""
        recording = self.recording
        for simd in self.simds.values():
            for window in simd.by_wave.values():
                self.close(window, window.last)
        pools = any(simd.has_pool for simd in self.simds.values())
        recording.in_file |= {
            "values": "after the write",
            "lanes": "those that were active when the line was printed",
            "registers": "physical; logical by the region that holds them" if pools else "physical",
            "place": "compute unit in the path, SIMD unit",
        }
        if pools:
            recording.in_file["windows"] = "regions that the pool has taken and freed"
        if not self.ticks:
            recording.inferred["time"] = "a cycle for each access, in the order of the log"
            recording.approximate["time"] = "only the order is known"
            return
        recording.in_file["time"] = "ticks"
        if self.options.period is None:
            recording.period = max(self.divisor, 1)
            recording.inferred["cycle"] = (
                f"{recording.period} ticks, the greatest common divisor of all differences"
            )


_ALL = list(range(_LANES))


def _numbers(lines: list[bytes], length: int) -> tuple[int, "array[int]"] | None:
    """Mask and values of the lanes, or None if they are not as the tool prints them."""
    try:
        pairs = [line[length:].split(b"] = ") for line in lines]
        lanes = [int(lane) for lane, _ in pairs]
        values = array("I", [int(value, 16) for _, value in pairs])
    except (ValueError, OverflowError):
        return None
    if len(lanes) == _LANES and lanes == _ALL:
        return (1 << _LANES) - 1, values
    if min(lanes) < 0 or max(lanes) >= _LANES or lanes != sorted(set(lanes)):
        return None
    return sum(1 << lane for lane in lanes), values


FORMAT = Format("gem5", "gem5, debug flag GPUVRF", _recognises, _Log)
