"""Work-groups run to their end: which waves execute which instruction next, and what they wrote.

Waves at one place execute together; of several addresses the lowest goes first, so that waves
that took different ways meet again. This decides nothing but speed, unless waves race for memory.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.files.inputs import MIB
from mcage.plain_text import shown
from mcage.traces.storage import MOST_BYTES
from mcage.tracing.emulation import indexing
from mcage.tracing.emulation.arithmetic import APPROXIMATE, Array
from mcage.tracing.emulation.code_object import NEEDS_NEWER, CodeObject
from mcage.tracing.emulation.machine import (
    Execute,
    Instruction,
    Machine,
    Operand,
    OutsideError,
    UnsupportedError,
    parse,
    register_number,
    scalar_source,
)
from mcage.tracing.emulation.memory import build_memory, to_lds
from mcage.tracing.emulation.scalar import NOTHING, branch_condition, build_scalar
from mcage.tracing.emulation.vector import build_dual, build_vector
from mcage.tracing.importing.contents import Contents

PLAIN, BRANCH, JUMP, BARRIER, END, INDEXED = range(6)
"""Effect of an instruction on the control flow of a wave; `INDEXED` leads to the places where the
registers of that instruction are known, and is not executed."""

VECTOR, SLOW, MATRIX, SCALAR, LOAD, STORE, LDS, SCALAR_LOAD, WAIT, MEET, LAST = range(11)
"""Unit that an instruction occupies: the vector ALU, its slow part, matrix cores, and so on."""

_TURNS_BEFORE_OTHERS = 512
_STEPS_BETWEEN_COMPACTIONS = 1 << 15
_READS_DESTINATION = ("fmac", "v_mac_", "smfmac", "dot2c", "dot4c", "dot8c")


@dataclass
class Reached:
    """An instruction that has been reached.

    Attributes
    ----------
    number : int
        From 0, in the order in which instructions were first reached.
    place, after : int
        Where it is, and the next one: addresses, with what `indexing` adds.
    execute : callable
        What it does; None if nothing.
    way : int
        `PLAIN`, `BRANCH`, ...
    condition : callable or None
        Which waves take a branch; of `INDEXED`, the places to which it leads.
    target : int
        Place of a branch.
    kind : int
        `VECTOR`, `SCALAR`, ...
    reads : tuple of int
        Vector registers that it reads.
    approximate : bool
        Whether its results differ from hardware in the last bit.
    """

    number: int
    inst: Instruction
    place: int
    after: int
    execute: Execute | None = None
    way: int = PLAIN
    condition: Callable[[Machine], Array] | None = None
    target: int = 0
    kind: int = SCALAR
    reads: tuple[int, ...] = ()
    approximate: bool = False


class NotThereError(UserError):
    """A wave reaches an address where no instruction lies."""


class Instructions:
    """Instructions of a code object, decoded when they are first reached.

    Parameters
    ----------
    code : CodeObject
        Its listing says what lies where.
    base : int
        Address of the code object.
    machine : Machine
        A machine like those that execute it.
    """

    def __init__(self, code: CodeObject, base: int, machine: Machine) -> None:
        self.code, self.base, self.machine = code, base, machine
        self.codes: list[Reached] = []
        self._at: dict[int, Reached] = {}

    def at(self, place: int) -> Reached:
        """Return the instruction at a place.

        Raises
        ------
        UserError
            There is none, or it is not emulated: name and address are in the message.
        """
        if (known := self._at.get(place)) is None:
            known = self._at[place] = self._decoded(place)
        return known

    def _decoded(self, place: int) -> Reached:
        address = place & indexing.ADDRESS
        offset = address - self.base
        listed = self.code.listing.get(offset)
        if listed is None:
            raise NotThereError(f"a wave reaches address {offset:#x}, where no instruction lies")
        text, size = listed
        if _UNREAD.search(text):
            raise UserError(
                f"instruction at {offset:#x} is not known to llvm-objdump, which prints "
                f"{shown(text)}; one of LLVM 22 or later may know it",
                "apt install llvm-22",
            )
        try:
            parts = parse(text, address, size)
            code = self._code(parts, place)
        except (UnsupportedError, ValueError, KeyError, IndexError, AttributeError) as error:
            why = str(error) if isinstance(error, UnsupportedError | ValueError) else ""
            raise UserError(
                f"instruction {text.split(' ')[0]} at {offset:#x} is not supported: {text}"
                + (f" ({why})" if why else "")
            ) from error
        self.codes.append(code)
        return code

    def _code(self, parts: list[Instruction], place: int) -> Reached:
        code = Reached(len(self.codes), parts[0], place, indexing.place_after(parts[0], place))
        code.condition = indexing.index_of(parts[0], place)
        if code.condition is not None:
            code.way = INDEXED
            return code
        inst = code.inst = indexing.indexed(parts[0], place)
        if len(parts) > 1:
            code.execute = build_dual(parts, self.machine)
            code.kind = VECTOR
        elif not self._steers(code):
            if inst is not parts[0]:
                code.inst, code.execute = indexing.within(inst, self.machine, build_vector)
                parts = [code.inst]
            else:
                build = build_vector if inst.name.startswith("v_") else build_scalar
                code.execute = build(inst, self.machine) or build_memory(inst, self.machine)
            code.execute = code.execute or indexing.build_mode(inst)
            if code.execute is None:
                raise UnsupportedError("")
            code.kind = _kind(inst)
        code.reads = _reads(parts, self.machine)
        code.approximate = inst.name in APPROXIMATE or code.kind == MATRIX
        return code

    def _steers(self, code: Reached) -> bool:
        inst = code.inst
        if inst.name in ("s_endpgm", "s_endpgm_saved"):
            code.way, code.kind = END, LAST
        elif inst.name in ("s_barrier", "s_barrier_wait"):
            code.way, code.kind = BARRIER, MEET
        elif inst.name in ("s_barrier_signal", "s_barrier_leave") or NOTHING.match(inst.name):
            code.kind = WAIT if inst.name.startswith("s_wait") else SCALAR
        elif (condition := branch_condition(inst)) is not None:
            code.way, code.condition = BRANCH, condition
            code.target = code.after + _distance(inst.operands[0])
        elif inst.name in ("s_setpc_b64", "s_swappc_b64", "s_call_b64"):
            self._jump(code)
        else:
            return False
        return True

    @staticmethod
    def _jump(code: Reached) -> None:
        inst, after = code.inst, code.after & indexing.ADDRESS
        code.way = JUMP
        if inst.name == "s_call_b64":
            called = np.uint64(after + _distance(inst.operands[1]))
            source: Execute = lambda m: np.full(m.running, called)  # noqa: E731
        else:
            source = scalar_source(inst.operands[-1], "u64")
        if inst.name == "s_setpc_b64":
            code.execute = source
            return
        link = inst.operands[0].number

        def call(m: Machine) -> Array:
            target = source(m).copy()
            m.put_pair(link, np.full(m.running, after, np.uint64))
            return target

        code.execute = call


def _distance(operand: Operand) -> int:
    """Bytes from behind an instruction to where it leads: 16 bits count words, with a sign."""
    return 4 * ((operand.number & 0xFFFF ^ 0x8000) - 0x8000)


_SLOW = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")


def _kind(inst: Instruction) -> int:
    name = inst.name
    if name.startswith(("v_mfma", "v_smfmac", "v_wmma")):
        return MATRIX
    if name.startswith("v_"):
        return SLOW if name.startswith(_SLOW) or name.endswith("_f64") else VECTOR
    if name.startswith("ds_"):
        return LDS
    if name.startswith(("s_load", "s_buffer_load")):
        return SCALAR_LOAD
    if name.startswith("s_"):
        return SCALAR
    returns = "load" in name or (
        "atomic" in name and ("glc" in inst.modifiers or "sc0" in inst.modifiers)
    )
    return LOAD if returns else STORE


def has_result(inst: Instruction) -> bool:
    """Whether the first operand is a destination."""
    name = inst.name
    if to_lds(inst) or ("store" in name and "rtn" not in name) or name.startswith("ds_write"):
        return False
    if "atomic" in name:
        return "glc" in inst.modifiers or "sc0" in inst.modifiers
    if name.startswith("ds_"):
        return any(part in name for part in ("read", "load", "permute", "swizzle", "rtn"))
    return not (name.startswith("v_cmpx") and inst.operands and inst.operands[0].kind in "va")


def _reads(parts: Sequence[Instruction], machine: Machine) -> tuple[int, ...]:
    registers: dict[int, None] = {}
    for inst in parts:
        skipped = has_result(inst) and not any(text in inst.name for text in _READS_DESTINATION)
        if inst.name.startswith("v_swap"):
            skipped = False
        for operand in inst.operands[int(skipped) :]:
            if operand.kind in ("v", "a"):
                first = register_number(operand, machine)
                registers |= dict.fromkeys(range(first, first + operand.count))
    return tuple(registers)


# Execution of waves.


@dataclass(eq=False)
class Wave:
    """Record of a wave that has run.

    Attributes
    ----------
    work_group, number : int
        Global number of its work-group, and of the wave in it.
    codes : int32[steps]
        Twice the number of each instruction that it executed, and one more if no lane was on.
    lanes : int
        Mask of the lanes that have a work-item.
    step, register, content : int64, int32, int32[writes]
        Of each write: the step, the register, and which contents it left.
    mask : uint64[writes]
        Which lanes it wrote.
    begin, end : int
        Cycle of the allocation and of the release of its window.
    slot : int
        Slot of its window on its SIMD unit.
    issued, ready : int64[steps]
        Of each instruction: when it issued, and when its results were there.
    """

    work_group: int
    number: int
    codes: Array
    lanes: int
    step: Any = None
    register: Any = None
    content: Any = None
    mask: Any = None
    begin: int = 0
    end: int = 0
    slot: int = 0
    issued: Any = None
    ready: Any = None

    def forget_writes(self) -> None:
        """Forget what it wrote, and when that was there."""
        self.ready = self.step = self.register = self.content = self.mask = None


def _by_wave(parts: list[tuple[Array, ...]], waves: int) -> list[list[Array]]:
    """Columns of tables that follow one another, wave by wave; the first column says which."""
    wave, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    ends = np.cumsum(np.bincount(wave, minlength=waves))
    rows_of_wave = np.split(np.argsort(wave, kind="stable"), ends[:-1])
    return [[column[rows] for column in columns] for rows in rows_of_wave]


_UNREAD = re.compile(rf"^\.long |Invalid register|{NEEDS_NEWER}$")
"""Texts of instructions of compilers that are newer than the disassembler."""

_SECONDS_BETWEEN_LINES = 10.0

Say = Callable[[str], None]
"""Takes a line that says how far a long run is."""


class Budget:
    """Instructions that may still be executed.

    Parameters
    ----------
    most : int
        How many there are at first.
    say : callable, optional
        Receives every ten seconds the number of them that have been used.
    """

    def __init__(self, most: int, say: Say | None = None) -> None:
        self.left = self.most = most
        self._say, self._last_line = say, time.monotonic()

    def use(self, count: int) -> None:
        """Use some up.

        Raises
        ------
        UserError
            So many are not left.
        """
        self.left -= count
        if self.left < 0:
            raise UserError(
                f"more than {self.most:,} wave instructions; ask for a smaller grid, or "
                "allow more: --most-instructions"
            )
        if self._say:
            used = self.most - self.left
            self.say(f"emulated {used:,} wave instructions, of at most {self.most:,}")

    def say(self, line: str) -> None:
        """Say how far the run is, unless something has just been said."""
        if self._say and time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._say(line)


class Run:
    """Some work-groups that run together, to their end.

    Parameters
    ----------
    machine : Machine
        Their waves, ready to begin.
    program : Instructions
        What they execute.
    group_of_wave : int64[waves]
        Work-group of each wave, from 0.
    recorded : bool[waves]
        Whose writes are kept.
    contents : Contents
        Takes what they write.
    budget : Budget
        Is used up.
    """

    def __init__(
        self,
        machine: Machine,
        program: Instructions,
        group_of_wave: Array,
        recorded: Array,
        contents: Contents,
        budget: Budget,
    ) -> None:
        self.machine, self.program = machine, program
        self.group_of_wave, self.recorded = group_of_wave, recorded
        self.contents, self.budget = contents, budget
        self.done = np.zeros(machine.waves, np.bool_)
        self.waiting = np.zeros(machine.waves, np.bool_)
        self.steps = np.zeros(machine.waves, np.int64)
        self.last_turn = np.zeros(machine.waves, np.int64)
        self.trail: list[tuple[int, Any]] = []
        self.writes: list[tuple[Array, Array, int, Array, Array]] = []
        self._trails: list[tuple[Array, ...]] = []
        self._written: list[tuple[Array, ...]] = []
        self._kept: Array = np.zeros(0, np.int64)
        self._kept_places: Array = self._kept

    def finish(self) -> None:
        """Run until every wave has ended.

        Raises
        ------
        UserError
            An instruction is not supported, an access lies outside of every buffer, waves wait for
            each other for ever, or more instructions are executed than the budget has.
        """
        m = self.machine
        self._prepare()
        turn = 0
        with np.errstate(all="ignore"):
            while not self.done.all():
                turn += 1
                ready = ~(self.done | self.waiting)
                if not ready.any():
                    self._wait_for_ever()
                    continue
                self._turn(ready, turn)
        m.wrote = None

    def _prepare(self) -> None:
        """Have the machine say what it writes, if anybody asks."""
        self.machine.wrote = self._wrote if self.recorded.any() else None

    def _wait_for_ever(self) -> None:
        """Deal with waves that all wait at barriers."""
        raise UserError("waves wait at a barrier that others of their group never reach")

    def _turn(self, ready: Array, turn: int) -> None:
        """Let the waves at one address execute until they part or meet others."""
        m = self.machine
        addresses = np.where(ready, m.pc & indexing.ADDRESS, np.iinfo(np.int64).max)
        place = int(m.pc[addresses.argmin()])
        if not turn % _TURNS_BEFORE_OTHERS:
            longest = np.where(ready, self.last_turn, np.iinfo(np.int64).max).argmin()
            place = int(m.pc[longest])
        together = ready & (m.pc == place)
        others = addresses[~together]
        meeting = int(
            others[others >= place & indexing.ADDRESS].min(initial=np.iinfo(np.int64).max)
        )
        alone = not (ready & ~together).any()
        whole = bool(together.all())
        numbers = np.flatnonzero(together)
        self.last_turn[numbers] = turn
        m.run_group(slice(None) if whole else numbers)
        self._kept_places = np.flatnonzero(self.recorded[numbers])
        self._kept = numbers[self._kept_places]
        try:
            self._straight(place, numbers, meeting, alone)
        except (OutsideError, UnsupportedError) as error:
            inst = self._code.inst
            what = " is not supported" if isinstance(error, UnsupportedError) else ""
            raise UserError(
                f"instruction {inst.text} at {inst.address - self.program.base:#x}{what}: {error}"
            ) from error

    def _straight(self, place: int, numbers: Array, meeting: int, alone: bool) -> None:
        m, program = self.machine, self.program
        group = None if len(numbers) == m.waves else numbers
        while True:
            code = self._code = program.at(place)
            if code.way == INDEXED:
                assert code.condition
                places = code.condition(m)
                if (places != places[0]).any():
                    m.pc[numbers] = places
                    return
                place = int(places[0])
                code = self._code = program.at(place)
            self._begin(code, group, numbers)
            self.steps[numbers] += 1
            place = code.after
            if code.way == PLAIN:
                if code.execute is not None:
                    code.execute(m)
            elif code.way == BRANCH:
                assert code.condition
                taken = code.condition(m)
                if taken.all():
                    backwards = code.target < place
                    place = code.target
                    if backwards and not alone:
                        break
                elif taken.any():
                    m.pc[numbers] = np.where(taken, code.target, place)
                    return
            elif code.way == JUMP:
                assert code.execute
                m.pc[numbers] = indexing.places_of(code.execute(m), place)
                return
            else:
                m.pc[numbers] = place
                self._pause(code, numbers)
                return
            if place & indexing.ADDRESS >= meeting:
                break
        m.pc[numbers] = place

    def _begin(self, code: Reached, group: Any, numbers: Array) -> None:
        """Note that waves are about to execute an instruction."""
        self.budget.use(len(numbers))
        self._log(code, group, numbers)
        if len(self.trail) >= _STEPS_BETWEEN_COMPACTIONS:
            self._compact()

    def _log(self, code: Reached, group: Any, numbers: Array) -> None:
        m, trail = self.machine, self.trail
        if m.all_on or code.kind in (SCALAR, WAIT, SCALAR_LOAD, MEET, LAST):
            trail.append((2 * code.number, group))
            return
        idle = ~m.lanes_on.any(axis=1)
        if not idle.any():
            trail.append((2 * code.number, group))
            return
        for off in (False, True):
            part = numbers[idle == off]
            if len(part):
                trail.append((2 * code.number + off, part))

    def _wrote(self, register: int, lanes: Array) -> None:
        kept = self._kept
        if not len(kept):
            return
        masks = np.packbits(lanes[self._kept_places], axis=1, bitorder="little")
        written = self.contents.numbers(self.machine.vector[register, kept])
        self.writes.append((kept, self.steps[kept] - 1, register, written, masks))

    def _pause(self, code: Reached, numbers: Array) -> None:
        if code.way == END:
            self.done[numbers] = True
        else:
            self.waiting[numbers] = True
        groups = np.unique(self.group_of_wave[numbers])
        for group in groups:
            waves = self.group_of_wave == group
            if (self.waiting | self.done)[waves].all():
                self.waiting[waves] = False

    def waves(self, first_group: int, wave_in_group: Array, lanes: Array) -> list[Wave]:
        """Records of all waves, in their order."""
        self._compact()
        trails = _by_wave(self._trails, self.machine.waves)
        ran = [
            Wave(first_group + int(group), int(number), codes, int(mask))
            for group, number, (codes,), mask in zip(
                self.group_of_wave, wave_in_group, trails, lanes, strict=True
            )
        ]
        if self._written:
            for wave, columns in zip(ran, _by_wave(self._written, len(ran)), strict=True):
                wave.step, wave.register, wave.content, wave.mask = columns
        return ran

    def _compact(self) -> None:
        """Put what waves have done into arrays, which take a tenth of the memory."""
        if self.trail:
            all_waves = np.arange(self.machine.waves)
            of = [all_waves if group is None else group for _, group in self.trail]
            numbers = np.array([code for code, _ in self.trail], np.int32)
            wave = np.concatenate(of).astype(np.int32)
            self._trails.append((wave, np.repeat(numbers, [len(group) for group in of])))
            self.trail.clear()
        if not self.writes:
            return
        kept, steps, registers, contents, packed = zip(*self.writes, strict=True)
        wave, step = np.concatenate(kept).astype(np.int32), np.concatenate(steps)
        register = np.repeat(np.array(registers, np.int32), [len(waves) for waves in kept])
        content = np.concatenate(contents)
        lanes = np.concatenate(packed)
        mask = np.zeros((len(wave), 8), np.uint8)
        mask[:, : lanes.shape[1]] = lanes
        self._written.append((wave, step, register, content, mask.view("<u8")[:, 0]))
        self.writes.clear()
        if self.contents.nbytes > MOST_BYTES:
            raise UserError(
                f"the recorded waves write more than {MOST_BYTES // MIB} MiB of different "
                "contents; ask for a smaller grid, or for more compute units: --compute-units"
            )
