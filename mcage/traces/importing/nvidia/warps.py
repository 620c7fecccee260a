"""Warps whose records show registers before or after an instruction, without lanes and cycles.

How records are read: a window is a warp, from its first record to its ``EXIT`` without a guard. One
record takes one cycle. All lanes that exist count as written. Where a record shows what registers
held *before* its instruction, what a write has left is what the next record of the warp shows of
that register; a write that is never shown is left out and counted.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import lt
from typing import Any

from mcage.traces.importing.limits import Enough
from mcage.traces.importing.nvidia.sass import ZERO, Instruction
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source
from mcage.traces.importing.windows import MOST_REGISTERS, Origin, Place, Window

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
"""What a record shows: 32 little-endian numbers of 32 bits for each register."""


def allocated(registers: int) -> int:
    """Registers that the hardware gives to a warp that uses so many."""
    return min(-(-max(registers, 1) // GRANULARITY) * GRANULARITY, MOST_REGISTERS)


def leave_out(recording: Recording, name: str, source: Source, line: int) -> None:
    """Count an instruction of which it is not known which registers it writes."""
    why = f"writes of {name[:20]}, whose registers are not known"
    many = why not in recording.skipped and len(recording.skipped) > MOST_REASONS
    if many or not name.isidentifier():
        why = "writes of other instructions, whose registers are not known"
    recording.skip(why, source, line)


@dataclass
class Launch:
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
        return allocated(self.registers) if self.registers else None

    def lanes_mask(self, warp_in_cta: int) -> int:
        """Lanes of a warp that have a thread, as bits."""
        return (1 << self.lanes_of(warp_in_cta)) - 1

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

    launch: Launch
    window: Window
    mask: int
    waiting: deque[_Access] = field(default_factory=deque)
    unknown: dict[int, _Access] = field(default_factory=dict)
    records: int = 0
    seen: int = 0
    known: dict[int, bytes] = field(default_factory=dict)


class Warps:
    """Takes records and gives them to a recording, with the contents that later records show.

    Parameters
    ----------
    recording : Recording
        Takes what is known.
    after : bool
        Whether records show registers as they are after the instruction, instead of before.

    Attributes
    ----------
    time : int
        Number of the next record; one record takes one cycle.
    """

    def __init__(self, recording: Recording, after: bool) -> None:
        self.recording = recording
        self.time = 0
        self._after = after
        self._accesses_waiting = 0
        self._zeros: dict[bytes, int] = {}
        self._zero_lanes = self._lanes = 0
        self._alike = self._others = 0
        recording.has_lanes(LANES)
        recording.granularity = GRANULARITY

    def begin(
        self,
        launch: Launch,
        place: Place,
        warp_in_cta: int | None,
        facts: Mapping[str, Any],
        work_group: int,
    ) -> Warp:
        """Open the window of a warp whose first record comes next."""
        size = launch.allocated
        lanes = launch.lanes_of(warp_in_cta)
        origin = Origin(launch.kernel, launch.number, work_group)
        kept = {"launch": launch.number, **facts, "lanes": lanes}
        if launch.registers is not None:
            kept |= {"registers": launch.registers, "allocated": size}
        window = self.recording.open_window(self.time, size, origin, place, lanes=lanes, facts=kept)
        return Warp(launch, window, (1 << lanes) - 1)

    def record(
        self, warp: Warp, instruction: Instruction, shown: Shown, source: Source, line: int
    ) -> None:
        """Take a record of a warp that runs."""
        time = self.time
        self.time += 1
        warp.records += 1
        warp.seen = time
        if warp.window.number < 0:
            return
        before = len(warp.waiting)
        written = instruction.written
        if not self._after:
            self._compare(warp, instruction, shown)
        changed = (instruction.unknown or written) if self._after else ()
        for register, contents in shown.items():
            if register in changed:
                continue
            access = warp.unknown.pop(register, None)
            if access is not None:
                access.contents = contents
        if instruction.unknown:
            leave_out(self.recording, instruction.name, source, line)
            for register in warp.unknown.keys() & set(instruction.unknown):
                warp.unknown.pop(register).lost = True
        for register in instruction.read:
            seen = None if register in changed else shown.get(register)
            warp.waiting.append(_Access(time, register, False, seen, line))
        for register in written:
            left = shown.get(register) if self._after else None
            access = _Access(time, register, True, left, line)
            if overwritten := warp.unknown.pop(register, None):
                overwritten.lost = True
            if left is None:
                warp.unknown[register] = access
            warp.waiting.append(access)
        self._accesses_waiting += len(warp.waiting) - before
        self._give(warp, source)
        while self._accesses_waiting > MOST_WAITING and warp.waiting:
            self._forget_first(warp)
            self._give(warp, source)

    def contradict(self) -> bool:
        """Whether contents are not those before the instruction, as they were taken for."""
        return self._others > max(self._alike // 4, MOST_ODD)

    def quiet(self, running: Mapping[tuple[int, ...], Warp]) -> list[tuple[int, ...]]:
        """Which of too many warps have shown nothing for the longest time: they have ended.

        A warp whose lanes all leave by exits with a guard is never seen to end.
        """
        if len(running) < MOST_RUNNING:
            return []
        by_time = sorted(running, key=lambda key: running[key].seen)
        return by_time[: MOST_RUNNING // 2]

    def end(self, warp: Warp, source: Source) -> None:
        """Close the window of a warp after its last record."""
        self._drain(warp, source)
        window = warp.window
        window.facts["records"] = warp.records
        if window.size is None:
            size = allocated(window.counted.most_register + 1)
            self.recording.close_window(window, max(self.time - 1, window.last), size)
        else:
            self.recording.close_window(window, max(self.time - 1, window.last))

    def stop(self, warps: Sequence[Warp], source: Source) -> None:
        """Hand on what is known of warps that run when reading ends early."""
        for warp in warps:
            warp.window.facts["records"] = warp.records
            try:
                self._drain(warp, source)
            except Enough:
                continue

    def say_what_was_concluded(self) -> None:
        """Tell the recording what was in the file, and what was concluded how."""
        share = f"{self._zero_lanes / self._lanes:.1%}" if self._lanes else "none"
        recording = self.recording
        recording.in_file["values"] = f"{'after' if self._after else 'before'} the instruction"
        recording.in_file["registers"] = "numbers in the window"
        recording.approximate["lanes"] = (
            f"all that exist are taken as written; {share} of them read 0, which may be lanes that "
            "were not active"
        )
        recording.approximate["time"] = "one record, one cycle"
        which = "of loads of less than 32 bits: " if self._after else ""
        recording.inferred["contents"] = f"{which}what the next record of the warp shows"
        recording.inferred["reads"] = "source registers, by SASS"

    def _give(self, warp: Warp, source: Source) -> None:
        """Hand on accesses up to the first whose contents are not known yet."""
        waiting, window, recording = warp.waiting, warp.window, self.recording
        while waiting:
            access = waiting[0]
            contents = access.contents
            if not access.is_write:
                if contents is None:
                    recording.read(window, access.time, access.register)
                else:
                    recording.read(
                        window,
                        access.time,
                        access.register,
                        warp.mask,
                        contents[: 4 * window.lanes],
                    )
            elif contents is not None:
                contents = contents[: 4 * window.lanes]
                self._count(contents)
                recording.write(window, access.time, access.register, warp.mask, contents)
            elif access.lost:
                recording.skip(NEVER_SHOWN, source, access.line)
            else:
                return
            waiting.popleft()
            self._accesses_waiting -= 1

    def _compare(self, warp: Warp, instruction: Instruction, shown: Shown) -> None:
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

    def _forget_first(self, warp: Warp) -> None:
        """Give up the contents of the write that others wait for."""
        access = warp.waiting[0]
        access.lost = True
        if warp.unknown.get(access.register) is access:
            del warp.unknown[access.register]

    def _drain(self, warp: Warp, source: Source) -> None:
        for access in warp.unknown.values():
            access.lost = True
        warp.unknown.clear()
        self._give(warp, source)

    def _count(self, contents: bytes) -> None:
        """Count the lanes that read 0."""
        zeros = self._zeros.get(contents)
        if zeros is None:
            if len(self._zeros) >= 1 << 16:
                self._zeros.clear()
            zeros = memoryview(contents).cast("I").tolist().count(0)
            self._zeros[contents] = zeros
        self._zero_lanes += zeros
        self._lanes += len(contents) // 4


def numbers_of(instruction: Instruction, rows: int, of_memory: bool) -> list[int] | None:
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
    instruction: Instruction, rows: Sequence[bytes | None], of_memory: bool
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
