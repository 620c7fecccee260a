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

import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from mcage.errors import UserError
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.emulation.emulate import Emulation
from mcage.tracing.emulation.interpreter import LOGS
from mcage.tracing.emulation.machine import Machine
from mcage.tracing.emulation.memory import ALIGNMENT
from mcage.tracing.emulation.waves import Budget, Instructions, NotThereError, Reached, Run
from mcage.tracing.importing.contents import Contents

LIMIT_FACTOR = 3
"""Instructions of a wave, relative to those that it executes without faults, that end a run."""

LIMIT_MORE = 100
"""Further instructions of a wave, so that a short one does not end at once."""

_SPARE_BYTES = 64
_PAGE_BITS = ALIGNMENT.bit_length() - 1
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


class FaultyRegisters(Protocol):
    """Registers of some waves, which change the values that are written to them; see `Cells`."""

    def begin(self, machine: "FaultyMachine") -> None:
        """Change what registers hold before the first instruction."""

    def before(self, machine: "FaultyMachine", code: Reached, waves: Array) -> Array | None:
        """Return those of the waves whose read of registers a code reports, or None."""

    def wrote(self, machine: "FaultyMachine", register: int, lanes: Array) -> None:
        """Change what a register holds after a write."""


@dataclass(frozen=True, eq=False)
class RunFaults:
    """Wrong registers of a run.

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
    """Result of a run.

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
    def access(self) -> tuple[Any, ...]:
        if self.memory is None:
            return super().access()
        return self.copies.access(self.run_of_wave)

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
    """Memories of R runs, one after the other; a run has the pages that it uses, and no others.

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
    writer : int32[words], optional
        For each word of 4 bytes: the owner whose run changes it, as `_mark` notes it.

    Attributes
    ----------
    bytes : uint8[R x stride]
        All memories; each is followed by a page for accesses of runs that have ended.
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
        self.runs, self.size = len(group_of_run), len(initial)
        self.stride = self.size + ALIGNMENT
        self.bytes = _zeros(self.runs * self.stride)
        self._pages = self.bytes.reshape(self.runs, -1, ALIGNMENT)
        self._initial = initial.reshape(-1, ALIGNMENT)
        self._here = np.zeros((self.runs, len(self._initial)), np.bool_)
        self.base, self.valid = base, valid
        self.group_of_run, self.writer = group_of_run, writer
        self.foreign = np.zeros(self.runs, np.bool_)
        words = self.size // 4
        self.used = _zeros(self.runs * words).view(np.bool_).reshape(-1, words) if counts else None

    def access(self, run_of_wave: Array) -> tuple[Any, ...]:
        """Arrays by which the interpreter finds its way, as `Machine.access` gives them."""
        used = np.zeros((1, 0), np.bool_) if self.used is None else self.used
        writer = np.zeros(0, np.int32) if self.writer is None else self.writer
        owners = used, writer, np.array(self.group_of_run, np.int64), self.foreign
        pages = self.valid, self._here, np.array(run_of_wave, np.int64)
        return self.bytes, pages, owners, (self.base, self.size, self.stride, _PAGE_BITS)

    def offsets(self, machine: FaultyMachine, addresses: Array, size: int, waves: Array) -> Array:
        """Offsets of addresses of some waves; runs end that use a page without a buffer."""
        offset = addresses.astype(np.int64) - self.base
        if not len(offset):
            return offset
        inside = (offset >= 0) & (offset <= self.size - size)
        safe = np.where(inside, offset, 0)
        run, first, last = machine.run_of_wave[waves], safe // ALIGNMENT, safe + (size - 1)
        last //= ALIGNMENT
        inside &= self.valid[first] & self.valid[last]
        for page in (first, last):
            self._bring(run, page)
        if not inside.all():
            machine.end(waves[~inside], End.ADDRESS)
            offset = np.where(inside, offset, self.size)
        if self.writer is not None or self.used is not None:
            self._note(run[inside], offset[inside], size)
        return offset + run * self.stride

    def _bring(self, run: Array, page: Array) -> None:
        """Make sure that runs have pages."""
        new = ~self._here[run, page]
        if new.any():
            places = _distinct(run[new] * len(self._initial) + page[new])
            run, page = np.divmod(places, len(self._initial))
            self._pages[run, page] = self._initial[page]
            self._here[run, page] = True

    def put(self, place: Array, content: Array) -> None:
        """Write bytes of the memory of the first run."""
        self._bring(np.zeros(len(place), np.int64), place // ALIGNMENT)
        self.bytes[place] = content

    def changed(self, run: int) -> "Words":
        """Buffers that a run has changed."""
        here = np.flatnonzero(self._here[run])
        parts = [_NO_WORDS]
        for first in range(0, len(here), _PAGES_TOGETHER):
            pages = here[first : first + _PAGES_TOGETHER]
            after, before = (of[pages].view(np.uint32) for of in (self._pages[run], self._initial))
            page, word = np.nonzero(after != before)
            parts.append(((pages[page] * _WORDS + word).astype(np.int32), after[page, word]))
        number, content = (np.concatenate(column) for column in zip(*parts, strict=True))
        return number, content

    def words_used(self, run: int) -> Array:
        """Words that a run has used, if somebody has asked."""
        assert self.used is not None
        pages = np.flatnonzero(self._here[run])
        page, word = np.nonzero(self.used[run].reshape(-1, _WORDS)[pages])
        return np.asarray(pages[page] * _WORDS + word)

    def _note(self, run: Array, offset: Array, size: int) -> None:
        for first in range(0, size, 4):
            word = (offset + first) >> 2
            last = (offset + min(first + 3, size - 1)) >> 2
            for place in (word,) if np.array_equal(word, last) else (word, last):
                if self.used is not None:
                    self.used[run, place] = True
                if self.writer is not None:
                    other = _of_others(self.writer[place], self.group_of_run[run])
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
    flips : mapping of int to sequence of Flip
        Flips by the number of their wave in the machine.
    registers : FaultyRegisters or None
        What the registers make of what is written to them.
    """

    machine: FaultyMachine

    def __init__(
        self,
        machine: FaultyMachine,
        program: Instructions,
        group_of_wave: Array,
        limit: Array,
        flips: Mapping[int, Sequence[Flip]],
        registers: FaultyRegisters | None = None,
    ) -> None:
        self._limit = limit
        self._flips = {  # the next one is the last
            wave: sorted(of_wave, key=lambda flip: -flip.step) for wave, of_wave in flips.items()
        }
        self._next = np.array(limit)
        for wave in self._flips:
            self._plan(wave)
        self._steps_left = 0
        self._registers = registers
        # Work-groups of whole runs may race, and who comes first is up to the closures.
        self.interprets = registers is None and bool((machine.copies.group_of_run >= 0).all())
        nothing = np.zeros(machine.waves, np.bool_)
        super().__init__(
            machine, program, group_of_wave, nothing, Contents(machine.lanes), Budget(0)
        )

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
    def _stops(self) -> Array:
        return self._next if self.interprets else super()._stops()

    @override
    def _most_steps(self) -> int:
        return _NEVER

    @override
    def _used(self, count: int) -> None:
        pass

    @override
    def _prepare(self) -> None:
        super()._prepare()
        self.log.control[LOGS] = 0
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
    def _turn(self, place: int) -> None:
        self._steps_left = 0
        numbers = np.flatnonzero(self._chosen)
        due = numbers[self._next[numbers] <= self.steps[numbers]]
        if self.interprets and len(due):
            self._happen(due)
        else:
            with suppress(_RegroupError):
                super()._turn(place)
        if self.machine.has_ended:
            self._give_up()

    @override
    def _straight(self, place: int, numbers: Array, meeting: int) -> None:
        try:
            super()._straight(place, numbers, meeting)
        except NotThereError:
            self.machine.end(numbers, End.ADDRESS)
        except UserError:
            self.machine.end(numbers, End.NOT_EMULATED)

    @override
    def _begin(self, code: Reached, numbers: Array) -> None:
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
            m.pc[numbers] = code.place
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
        Makes the `FaultyRegisters` of a machine, from the cells under each wave.

    Attributes
    ----------
    independent : bool
        Whether each work-group changes the same bytes if it runs alone.
    """

    def __init__(self, emulation: Emulation, registers: Any = None) -> None:
        self.emulation, self._make_registers = emulation, registers
        self._valid = emulation.memory.valid.reshape(-1, _WORDS).any(axis=1)
        self._program: Instructions | None = None
        groups, each = emulation.groups, emulation.waves_of_group
        self._steps = np.full((groups, each), _NEVER)
        copies = self._copies(np.array([-1]))
        self._run(copies, self._parts(1), [RunFaults()], self._steps)
        self._changed_by_all = copies.changed(0)
        del copies
        self._run_alone()

    @property
    def final(self) -> Array:
        """Content of the memory after a run without faults, uint8[bytes]."""
        return self._content(0, len(self.emulation.initial))

    def _content(self, first: int, size: int) -> Array:
        """Content of a part of the memory, from a word on, after a run without faults."""
        begin, end = first // 4, -(-(first + size) // 4)
        content = self.emulation.initial[4 * begin : 4 * end].copy()
        words, held = self._changed_by_all
        inside = slice(*np.searchsorted(words, (begin, end)))
        content.view(np.uint32)[words[inside] - begin] = held[inside]
        return content[:size]

    def _run_alone(self) -> None:
        """Run each work-group alone: what it changes, and which words it uses."""
        initial, groups = self.emulation.initial, self.emulation.groups
        words = len(initial) // 4
        merged = self._copies(np.array([-1]), counts=True)
        self._changed: list[Words] = []
        self._writer = _zeros(4 * words).view(np.int32)
        self._user = _zeros(4 * words).view(np.int32)
        steps = np.array(self._steps)
        size = self._runs_together(len(initial) + words)
        for first in range(0, groups, size):
            these = np.arange(first, min(first + size, groups))
            copies = self._copies(these, counts=True)
            self._run(copies, [these], [RunFaults()] * len(these), steps)
            for run, group in enumerate(these.tolist()):
                changed = copies.changed(run)
                merged.put(*_differing(initial, changed, _NO_WORDS))
                self._changed.append(changed)
                _mark(self._writer, changed[0], group)
                _mark(self._user, copies.words_used(run), group)
        alike = map(np.array_equal, merged.changed(0), self._changed_by_all)
        self.independent = all(alike) and np.array_equal(steps, self._steps)

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
        faults: Sequence[RunFaults],
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
        faults : sequence of RunFaults
            Of each run.
        steps : int64[groups, waves], optional
            Receives the number of instructions that each wave has executed.

        Returns
        -------
        int8[R]
            `End` of each run.
        """
        emulation, each = self.emulation, self.emulation.waves_of_group
        runs = copies.runs
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
                self._program = Instructions(emulation.code, emulation.image, m)
            here = np.repeat(np.arange(len(groups)), each)
            in_group = np.tile(np.arange(each), len(groups))
            expected = self._steps[groups[here], in_group]
            limit = np.where(expected < _NEVER, LIMIT_FACTOR * expected + LIMIT_MORE, _NEVER)
            flips: dict[int, Sequence[Flip]] = {}
            cells: dict[int, Any] = {}
            for n, run in enumerate(m.run_of_wave.tolist()):
                wave = int(groups[here[n]]), int(in_group[n])
                for known, wrong in ((flips, faults[run].flips), (cells, faults[run].cells)):
                    if wave in wrong:
                        known[n] = wrong[wave]
            registers = self._make_registers(m, cells) if cells else None
            run_of_group = FaultyRun(m, self._program, here, limit, flips, registers)
            run_of_group.finish()
            if steps is not None:
                steps[groups[here], in_group] = run_of_group.steps
        return ends

    def run(self, asked: Sequence[RunFaults]) -> list[Ran]:
        """Run the kernel with each of these faults.

        Parameters
        ----------
        asked : sequence of RunFaults
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
        ran = [_joined(of_parts) for of_parts in results]
        again = [number for number, joined in enumerate(ran) if joined is None]
        wholes = self._run_whole([asked[number] for number in again])
        for number, whole in zip(again, wholes, strict=True):
            ran[number] = whole
        return [each for each in ran if each is not None]

    def _alone(self, copies: Copies, run: int, group: int, end: End) -> Ran | None:
        """Result of a work-group that ran alone; None if it depends on other work-groups."""
        if copies.foreign[run]:
            return None
        if end != End.COMPLETE:
            return _ended(end)
        place, content = _differing(
            self.emulation.initial, copies.changed(run), self._changed[group]
        )
        if _of_others(self._user[place >> 2], np.int64(group)).any():
            return None
        return Ran(end, place, content)

    def _run_whole(self, asked: Sequence[RunFaults]) -> list[Ran]:
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
                differing = _differing(
                    self.emulation.initial, copies.changed(run), self._changed_by_all
                )
                ran.append(Ran(End.COMPLETE, *differing, whole=True))
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
        """Content of each buffer after a run without faults."""
        return self.outputs_of(_ended(End.COMPLETE))

    def outputs_of(self, ran: Ran) -> dict[str, Array]:
        """Content of each buffer after a run that has come to its end."""
        emulation, outputs = self.emulation, {}
        for name, value in emulation.launch.arguments.items():
            if name in emulation.buffers:
                first = emulation.buffers[name] - emulation.memory.base
                content = self._content(first, value.nbytes)
                inside = (ran.place >= first) & (ran.place < first + value.nbytes)
                content[ran.place[inside] - first] = ran.content[inside]
                outputs[name] = np.asarray(content.view(value.dtype).reshape(value.shape))
        return outputs


def _zeros(size: int) -> Array:
    """Bytes that take memory once they are used, uint8[size]; pages of 4 KiB, not of 2 MiB."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8) if size else np.zeros(0, np.uint8)


Words = tuple[Array, Array]
"""Words of 4 bytes by their numbers in the memory, int32[n], rising, and what they hold, uint32[n].
"""

_WORDS = ALIGNMENT // 4
_PAGES_TOGETHER = 4096
_NO_WORDS: Words = (np.zeros(0, np.int32), np.zeros(0, np.uint32))


def _distinct(numbers: Array) -> Array:
    """Different numbers, rising; of two rising sequences in linear time, unlike NumPy's."""
    rising = np.sort(numbers, kind="stable")
    return np.asarray(rising[np.append(True, rising[1:] != rising[:-1])[: len(rising)]])


def _differing(initial: Array, changed: Words, expected: Words) -> tuple[Array, Array]:
    """Bytes in which two changes of a memory differ: where they lie, and what the first left."""
    words, sides = changed[0], [changed[1], expected[1]]
    if not np.array_equal(words, expected[0]):
        words = _distinct(np.concatenate([words, expected[0]]))
        sides = [initial.view(np.uint32)[words] for _ in sides]
        for side, (number, content) in zip(sides, (changed, expected), strict=True):
            side[np.searchsorted(words, number)] = content
    differ = np.flatnonzero(sides[0] != sides[1])
    left, right = (side[differ].view(np.uint8).reshape(-1, 4) for side in sides)
    word, byte = np.nonzero(left != right)
    return words[differ[word]].astype(np.int64) * 4 + byte, left[word, byte]


_SEVERAL = -1


def _mark(owner: Array, words: Array, group: int) -> None:
    """Note that a work-group has these words: its number and 1, or several; 0 is nobody."""
    owner[words] = np.where(owner[words] == 0, group + 1, _SEVERAL)


def _of_others(owner: Array, group: Array) -> Array:
    """Which words another work-group has, too."""
    return np.asarray((owner != 0) & (owner != group + 1))


def _ended(end: End) -> Ran:
    """A run that has changed no byte, or of which nobody asks which."""
    return Ran(end, np.zeros(0, np.int64), np.zeros(0, np.uint8))


def _joined(parts: Sequence[Ran | None]) -> Ran | None:
    """Result of a run whose work-groups ran alone; None if they depend on each other."""
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
