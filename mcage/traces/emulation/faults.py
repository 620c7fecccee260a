"""A kernel run again with wrong registers: what its memory holds in the end, or why it ended.

Many runs go side by side, as waves of one machine, each with a memory of its own at the same
addresses. Where work-groups are independent, only those with wrong registers run: what the others
do is known. A run of all work-groups takes its place if a wrong one reads what another has written,
or changes what another uses.

**What ends a run** before it has come to its end: an access to a page in which no buffer lies, a
jump to where no instruction lies, and three times as many instructions of a wave as it has without
faults, as published injection has it; waves that wait for each other for ever count with the last.
Pages are of 4 KiB, and buffers never share one. A wrong access to the LDS is dropped, and reads 0,
as the ISA guides say of the hardware.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from mcage.errors import UserError
from mcage.traces.emulation.arithmetic import Array
from mcage.traces.emulation.emulate import Emulation
from mcage.traces.emulation.machine import Machine
from mcage.traces.emulation.memory import ALIGNMENT
from mcage.traces.emulation.waves import Budget, Code, Contents, NotThereError, Program, Run

LIMIT_FACTOR = 3
"""Instructions of a wave, relative to those that it executes without faults, that end a run."""

LIMIT_MORE = 100
"""So many more, lest a wave of a few instructions ends at once."""

_SPARE_BYTES = 64
_WAVES_TOGETHER = 1024
_BYTES_TOGETHER = 1 << 28
_NEVER = 1 << 62


class End(IntEnum):
    """How a run ends."""

    COMPLETE = 0
    ADDRESS = 1
    """It uses an address at which nothing lies."""
    LIMIT = 2
    """It executes too many instructions, or waits for ever."""
    DETECTED = 3
    """A read finds an error that a code detects and cannot correct."""
    NOT_EMULATED = 4
    """It comes to an instruction that is not emulated."""


@dataclass(frozen=True, eq=False)
class Flip:
    """Bits of a register that change before an instruction.

    Attributes
    ----------
    step : int
        Instructions that the wave has executed before.
    register : int
        Which register.
    bits : uint32[lanes]
        What changes.
    """

    step: int
    register: int
    bits: Array


class Registers(Protocol):
    """What the registers of some waves make of what is written to them; see `Cells`."""

    def begin(self, machine: "FaultyMachine") -> None:
        """Change what registers hold before the first instruction."""

    def before(self, machine: "FaultyMachine", code: Code, waves: Array) -> Array | None:
        """Return those of the waves whose read of registers a code reports, or None."""

    def wrote(self, machine: "FaultyMachine", register: int, lanes: Array) -> None:
        """Change what a register holds after a write."""


@dataclass(frozen=True, eq=False)
class Faults:
    """What is wrong in a run.

    Attributes
    ----------
    flips : mapping of (int, int) to sequence of Flip
        By global number of the work-group and number of the wave in it.
    cells : mapping of (int, int) to object
        Cells under such a wave, as the class of registers takes them.
    """

    flips: Mapping[tuple[int, int], Sequence[Flip]] = field(default_factory=dict)
    cells: Mapping[tuple[int, int], Any] = field(default_factory=dict)

    @property
    def groups(self) -> list[int]:
        """Work-groups with anything wrong, in rising order."""
        return sorted({group for group, _ in [*self.flips, *self.cells]})


@dataclass(frozen=True, eq=False)
class Ran:
    """What became of a run.

    Attributes
    ----------
    end : End
        How it ended.
    place : int64[n]
        Bytes of the memory that differ from those of the run without faults; none if it did not
        come to its end.
    content : uint8[n]
        What they hold.
    whole : bool
        Whether all work-groups ran.
    """

    end: End
    place: Array
    content: Array
    whole: bool = False


class FaultyMachine(Machine):
    """Waves of several runs, each run with a memory of its own.

    Attributes
    ----------
    copies : Copies
        Their memories, once they are set.
    run_of_wave : int64[waves]
        Run of each wave.
    ends : int8[runs]
        `End` of each run so far.
    has_ended : bool
        Whether a run has ended since the waves that execute were chosen.
    """

    copies: "Copies"
    run_of_wave: Array
    ends: Array
    has_ended = False

    @override
    def offsets(self, addresses: Array, size: int, which: Any = slice(None)) -> Array:
        return self.copies.offsets(self, addresses, size, self._active_waves()[which])

    @override
    def offsets_of_waves(self, addresses: Array, size: int, which: Any = slice(None)) -> Array:
        return self.copies.offsets(self, addresses, size, self.numbers[which])

    @override
    def refuse(
        self,
        wrong: Array,
        what: str,
        where: Array,
        which: Any = slice(None),
        *,
        dropped: bool = False,
    ) -> Array:
        if dropped:
            bytes_of_group = self.lds.shape[1] - self.lds_spare
            self.lds[:, bytes_of_group:] = 0
            return np.where(wrong, bytes_of_group, where)
        self.end(self._active_waves()[which][wrong], End.ADDRESS)
        return np.where(wrong, 0, where)

    @property
    def numbers(self) -> Array:
        """Numbers of the running waves."""
        return np.arange(self.waves)[self.group]

    def _active_waves(self) -> Array:
        """Wave of each active lane."""
        return np.repeat(self.numbers, self.lanes_on.sum(axis=1))

    def end(self, waves: Array, how: End) -> None:
        """Let the runs of some waves end."""
        runs = self.run_of_wave[waves]
        runs = runs[self.ends[runs] == End.COMPLETE]
        self.ends[runs] = how
        self.has_ended |= bool(len(runs))


class Copies:
    """Memories of R runs, one after the other.

    Parameters
    ----------
    initial : uint8[bytes]
        What each holds at first.
    base : int
        Address of the first byte.
    valid : bool[pages]
        In which pages a buffer lies.
    runs : int
        R.
    group_of_run : int64[R]
        Work-group of each run, or -1 if all work-groups run.
    writer : int64[words], optional
        For each word of 4 bytes: the work-group whose run changes it, -1 if none does, -2 if
        several do.

    Attributes
    ----------
    bytes : uint8[R x stride]
        All memories; each is followed by some bytes for accesses of runs that have ended.
    foreign : bool[R]
        Whether a run has used a word that another work-group changes.
    used : bool[R, words] or None
        Which words a run has used; None if nobody asks.
    """

    def __init__(
        self,
        initial: Array,
        base: int,
        valid: Array,
        group_of_run: Array,
        writer: Array | None = None,
        *,
        counts: bool = False,
    ) -> None:
        runs, self.size = len(group_of_run), len(initial)
        self.stride = self.size + _SPARE_BYTES
        self.bytes = np.zeros(runs * self.stride, np.uint8)
        self.of_runs = self.bytes.reshape(runs, self.stride)
        self.of_runs[:, : self.size] = initial
        self.base, self.valid = base, valid
        self.group_of_run, self.writer = group_of_run, writer
        self.foreign = np.zeros(runs, np.bool_)
        self.used = np.zeros((runs, self.size // 4), np.bool_) if counts else None

    def offsets(self, machine: FaultyMachine, addresses: Array, size: int, waves: Array) -> Array:
        """Offsets of addresses of some waves; runs end that use a page without a buffer."""
        offset = addresses.astype(np.int64) - self.base
        if not len(offset):
            return offset
        inside = (offset >= 0) & (offset <= self.size - size)
        safe = np.where(inside, offset, 0)
        inside &= self.valid[safe // ALIGNMENT] & self.valid[(safe + size - 1) // ALIGNMENT]
        run = machine.run_of_wave[waves]
        if not inside.all():
            machine.end(waves[~inside], End.ADDRESS)
            offset = np.where(inside, offset, self.size)
        if self.writer is not None or self.used is not None:
            self._note(run[inside], offset[inside], size)
        return offset + run * self.stride

    def _note(self, run: Array, offset: Array, size: int) -> None:
        for first in range(0, size, 4):
            word = (offset + first) >> 2
            last = (offset + min(first + 3, size - 1)) >> 2
            for place in (word,) if np.array_equal(word, last) else (word, last):
                if self.used is not None:
                    self.used[run, place] = True
                if self.writer is not None:
                    writer = self.writer[place]
                    other = (writer != -1) & (writer != self.group_of_run[run])
                    self.foreign[run[other]] = True


class _RegroupError(Exception):
    """The waves that execute must be chosen anew."""


class FaultyRun(Run):
    """Waves that run to their ends, of runs with faults.

    Parameters
    ----------
    machine, program, group_of_wave
        As of `Run`.
    limit : int64[waves]
        Instructions that each wave may execute.
    flips : sequence of (int, Flip)
        Flips, each with the number of its wave in the machine.
    registers : Registers or None
        What the registers make of what is written to them.
    """

    machine: FaultyMachine

    def __init__(
        self,
        machine: FaultyMachine,
        program: Program,
        group_of_wave: Array,
        limit: Array,
        flips: Iterable[tuple[int, Flip]] = (),
        registers: Registers | None = None,
    ) -> None:
        nothing = np.zeros(machine.waves, np.bool_)
        super().__init__(machine, program, group_of_wave, nothing, Contents(), Budget(0))
        self._limit = limit
        self._flips: dict[int, list[Flip]] = {}
        for wave, flip in flips:
            self._flips.setdefault(wave, []).append(flip)
        for of_wave in self._flips.values():
            of_wave.sort(key=lambda flip: -flip.step)  # the next one is the last
        self._next = np.array(limit)
        for wave in self._flips:
            self._plan(wave)
        self._steps_left = 0
        self._registers = registers

    def _plan(self, wave: int) -> None:
        """Find the step before which something happens to a wave: a flip, or its end."""
        flips = self._flips.get(wave)
        self._next[wave] = min(self._limit[wave], flips[-1].step) if flips else self._limit[wave]

    @override
    def finish(self) -> None:
        if self._registers is not None:
            self._registers.begin(self.machine)
        super().finish()

    @override
    def _prepare(self) -> None:
        registers = self._registers
        if registers is not None:
            self.machine.wrote = lambda number, lanes: registers.wrote(self.machine, number, lanes)

    @override
    def _wait_for_ever(self) -> None:
        self.machine.end(np.flatnonzero(self.waiting), End.LIMIT)
        self._give_up()

    def _give_up(self) -> None:
        """Let all waves of runs that have ended stop."""
        m = self.machine
        self.done |= m.ends[m.run_of_wave] != End.COMPLETE
        m.has_ended = False

    @override
    def _turn(self, ready: Array, turn: int) -> None:
        self._steps_left = 0
        with suppress(_RegroupError):
            super()._turn(ready, turn)
        if self.machine.has_ended:
            self._give_up()

    @override
    def _straight(self, address: int, numbers: Array, meeting: int, alone: bool) -> None:
        try:
            super()._straight(address, numbers, meeting, alone)
        except NotThereError:
            self.machine.end(numbers, End.ADDRESS)
        except UserError:
            self.machine.end(numbers, End.NOT_EMULATED)

    @override
    def _begin(self, code: Code, group: Any, numbers: Array) -> None:
        m = self.machine
        if self._steps_left <= 0:
            self._happen(numbers)
            self._steps_left = int((self._next[numbers] - self.steps[numbers]).min())
        self._steps_left -= 1
        if self._registers is not None and not m.has_ended:  # once for each instruction
            detected = self._registers.before(m, code, numbers)
            if detected is not None:
                m.end(detected, End.DETECTED)
        if m.has_ended:
            m.pc[numbers] = code.inst.address
            raise _RegroupError

    def _happen(self, numbers: Array) -> None:
        """Let happen what is planned for this step of the waves."""
        m = self.machine
        for wave in numbers[self._next[numbers] <= self.steps[numbers]].tolist():
            flips = self._flips.get(wave, [])
            while flips and flips[-1].step <= self.steps[wave]:
                flip = flips.pop()
                m.vector[flip.register, wave] ^= flip.bits
            if self.steps[wave] >= self._limit[wave]:
                m.end(np.array([wave]), End.LIMIT)
                self._next[wave] = _NEVER
            else:
                self._plan(wave)


class Reruns:
    """A kernel that runs again and again, with faults.

    Parameters
    ----------
    emulation : Emulation
        The kernel, before or after its run.
    registers : callable, optional
        Makes the `Registers` of a machine, from the cells under each wave.

    Attributes
    ----------
    final : uint8[bytes]
        What the memory holds after a run without faults.
    independent : bool
        Whether each work-group changes the same bytes if it runs alone.
    """

    def __init__(self, emulation: Emulation, registers: Any = None) -> None:
        self.emulation, self._make_registers = emulation, registers
        pages = -(-len(emulation.initial) // ALIGNMENT)
        self._valid = np.zeros(pages, np.bool_)
        words = np.flatnonzero(emulation.memory.valid)
        self._valid[np.unique(words * 4 // ALIGNMENT)] = True
        self._program: Program | None = None
        groups, each = emulation.groups, emulation.waves_of_group
        self._steps = np.full((groups, each), _NEVER)
        copies = self._copies(np.array([-1]))
        self._run(copies, self._parts(1), [Faults()], self._steps)
        self.final: Array = copies.of_runs[0, : copies.size].copy()
        self._run_alone()

    def _run_alone(self) -> None:
        """Run each work-group alone: what it changes, and which words it uses."""
        initial, groups = self.emulation.initial, self.emulation.groups
        words = len(initial) // 4
        merged = initial.copy()
        self._changed: list[tuple[Array, Array]] = []
        self._writer = np.full(words, -1, np.int64)
        self._user = np.full(words, -1, np.int64)
        steps = np.array(self._steps)
        size = self._runs_together(len(initial) + words)
        for first in range(0, groups, size):
            these = np.arange(first, min(first + size, groups))
            copies = self._copies(these, counts=True)
            self._run(copies, [these], [Faults()] * len(these), steps)
            assert copies.used is not None
            for run, group in enumerate(these.tolist()):
                after = copies.of_runs[run, : copies.size]
                place = np.flatnonzero(after != initial)
                merged[place] = after[place]
                self._changed.append((place, after[place].copy()))
                _mark(self._writer, np.unique(place >> 2), group)
                _mark(self._user, np.flatnonzero(copies.used[run]), group)
        self.independent = np.array_equal(merged, self.final) and np.array_equal(steps, self._steps)

    def _runs_together(self, bytes_of_run: int) -> int:
        emulation = self.emulation
        kernel = emulation.kernel
        of_lane = emulation.window * 4 + kernel.scratch_bytes
        most = min(
            _WAVES_TOGETHER // emulation.waves_of_group,
            _BYTES_TOGETHER // (bytes_of_run + emulation.lds_bytes),
            _BYTES_TOGETHER // (of_lane * kernel.lanes * emulation.waves_of_group),
        )
        return max(1, most)

    def _copies(self, group_of_run: Array, *, counts: bool = False) -> Copies:
        memory, writer = self.emulation.memory, None
        if not counts and (group_of_run >= 0).any():
            writer = self._writer
        return Copies(
            self.emulation.initial, memory.base, self._valid, group_of_run, writer, counts=counts
        )

    def _run(
        self,
        copies: Copies,
        parts: Sequence[Array],
        faults: Sequence[Faults],
        steps: Array | None = None,
    ) -> Array:
        """Run work-groups of R runs.

        Parameters
        ----------
        copies : Copies
            Their memories, which change.
        parts : sequence of int64[n]
            Work-groups that run together, one part after the other: as many for each run, those of
            a run one after the other.
        faults : sequence of Faults
            Of each run.
        steps : int64[groups, waves], optional
            Is told how many instructions each wave has executed.

        Returns
        -------
        int8[R]
            `End` of each run.
        """
        emulation, each = self.emulation, self.emulation.waves_of_group
        runs = len(copies.of_runs)
        ends = np.zeros(runs, np.int8)
        for groups in parts:
            m = emulation.machine(groups, FaultyMachine)
            assert isinstance(m, FaultyMachine)
            m.memory = m.copies = copies
            m.ends = ends
            m.run_of_wave = np.repeat(np.arange(runs), len(groups) // runs * each)
            m.lds = np.concatenate([m.lds, np.zeros((len(groups), _SPARE_BYTES), np.uint8)], axis=1)
            m.lds_spare = _SPARE_BYTES
            if not m.scratch.shape[2]:
                m.scratch = np.zeros((m.waves, m.lanes, _SPARE_BYTES), np.uint8)
            if self._program is None:
                self._program = Program(emulation.code, emulation.image, m)
            here = np.repeat(np.arange(len(groups)), each)
            in_group = np.tile(np.arange(each), len(groups))
            expected = self._steps[groups[here], in_group]
            limit = np.where(expected < _NEVER, LIMIT_FACTOR * expected + LIMIT_MORE, _NEVER)
            place_of = {
                (int(m.run_of_wave[n]), int(groups[here[n]]), int(in_group[n])): n
                for n in range(m.waves)
            }
            flips = [
                (place_of[run, *wave], flip)
                for run, of_run in enumerate(faults)
                for wave, of_wave in of_run.flips.items()
                if (run, *wave) in place_of
                for flip in of_wave
            ]
            cells = {
                place_of[run, *wave]: of_wave
                for run, of_run in enumerate(faults)
                for wave, of_wave in of_run.cells.items()
                if (run, *wave) in place_of
            }
            registers = self._make_registers(m, cells) if cells else None
            run_of_group = FaultyRun(m, self._program, here, limit, flips, registers)
            run_of_group.finish()
            if steps is not None:
                steps[groups[here], in_group] = run_of_group.steps
        return ends

    def run(self, asked: Sequence[Faults]) -> list[Ran]:
        """Run the kernel with each of these faults.

        Parameters
        ----------
        asked : sequence of Faults
            What is wrong in each run.
        """
        if not self.independent:
            return self._run_whole(asked)
        parts = [(number, group) for number, of in enumerate(asked) for group in of.groups]
        results: list[list[Ran | None]] = [[] for _ in asked]
        size = self._runs_together(len(self.emulation.initial))
        for first in range(0, len(parts), size):
            these = parts[first : first + size]
            group_of_run = np.array([group for _, group in these], np.int64)
            copies = self._copies(group_of_run)
            ends = self._run(copies, [group_of_run], [asked[number] for number, _ in these])
            for run, (number, group) in enumerate(these):
                results[number].append(self._alone(copies, run, group, End(ends[run])))
        ran, again = [], []
        for number, of_parts in enumerate(results):
            joined = _joined(of_parts)
            ran.append(joined)
            if joined is None:
                again.append(number)
        wholes = self._run_whole([asked[number] for number in again])
        for number, whole in zip(again, wholes, strict=True):
            ran[number] = whole
        return [each for each in ran if each is not None]

    def _alone(self, copies: Copies, run: int, group: int, end: End) -> Ran | None:
        """What became of a work-group alone; None if that hangs on other ones."""
        if copies.foreign[run]:
            return None
        if end != End.COMPLETE:
            return _ended(end)
        expected = self.emulation.initial.copy()
        place, content = self._changed[group]
        expected[place] = content
        after = copies.of_runs[run, : copies.size]
        place = np.flatnonzero(after != expected)
        user = self._user[place >> 2]
        if ((user != -1) & (user != group)).any():
            return None
        return Ran(end, place, after[place].copy())

    def _run_whole(self, asked: Sequence[Faults]) -> list[Ran]:
        """Run all work-groups, in the order and together as the emulator runs them."""
        waves = self.emulation.groups_together * self.emulation.waves_of_group
        size = max(
            1, min(_WAVES_TOGETHER // waves, self._runs_together(len(self.emulation.initial)))
        )
        ran = []
        for first in range(0, len(asked), size):
            these = asked[first : first + size]
            copies = self._copies(np.full(len(these), -1))
            ends = self._run(copies, self._parts(len(these)), these)
            for run, end in enumerate(ends.tolist()):
                if end != End.COMPLETE:
                    ran.append(_ended(End(end)))
                    continue
                after = copies.of_runs[run, : copies.size]
                place = np.flatnonzero(after != self.final)
                ran.append(Ran(End.COMPLETE, place, after[place].copy(), whole=True))
        return ran

    def _parts(self, runs: int) -> list[Array]:
        """Work-groups of so many whole runs that run together, one part after the other."""
        groups, together = self.emulation.groups, self.emulation.groups_together
        return [
            np.tile(np.arange(begin, min(begin + together, groups)), runs)
            for begin in range(0, groups, together)
        ]

    @cached_property
    def outputs(self) -> dict[str, Array]:
        """What each buffer holds after a run without faults."""
        return self.outputs_of(_ended(End.COMPLETE))

    def outputs_of(self, ran: Ran) -> dict[str, Array]:
        """What each buffer holds after a run that has come to its end."""
        emulation = self.emulation
        memory = self.final.copy()
        memory[ran.place] = ran.content
        return {
            name: _buffer(memory, emulation.buffers[name] - emulation.memory.base, value)
            for name, value in emulation.launch.arguments.items()
            if name in emulation.buffers
        }


def _buffer(memory: Array, first: int, like: Array) -> Array:
    content = memory[first : first + like.nbytes]
    return np.asarray(content.view(like.dtype).reshape(like.shape))


def _mark(owner: Array, words: Array, group: int) -> None:
    """Note that a work-group has these words: -2 where another one has them, too."""
    owner[words] = np.where(owner[words] == -1, group, -2)


def _ended(end: End) -> Ran:
    """A run that has changed no byte, or of which nobody asks which."""
    return Ran(end, np.zeros(0, np.int64), np.zeros(0, np.uint8))


def _joined(parts: Sequence[Ran | None]) -> Ran | None:
    """What became of a run whose work-groups ran alone; None if they hang on one another."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    for part in known:
        if part.end != End.COMPLETE:
            return part
    place = np.concatenate([np.zeros(0, np.int64), *(part.place for part in known)])
    words = [np.unique(part.place >> 2) for part in known]
    if known and len(np.unique(np.concatenate(words))) < sum(map(len, words)):
        return None  # two change the same word
    content = np.concatenate([np.zeros(0, np.uint8), *(part.content for part in known)])
    return Ran(End.COMPLETE, place, content)
