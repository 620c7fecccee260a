"""Work-groups run to their end: which waves execute which instruction next, and what they wrote.

Waves at one place execute together; of several addresses the lowest goes first, so that waves
that took different ways meet again. This decides nothing but speed, unless waves race for memory.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.plain_text import shown
from mcage.tracing.emulation import indexing, interpreter
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
from mcage.tracing.emulation.predecoded import Rows, branch_number, is_coherent
from mcage.tracing.emulation.scalar import NOTHING, branch_condition, build_scalar
from mcage.tracing.emulation.trail import Log
from mcage.tracing.emulation.vector import build_dual, build_vector
from mcage.tracing.importing.contents import Contents

PLAIN, BRANCH, JUMP, BARRIER, END, INDEXED = range(6)
"""Effect of an instruction on the control flow of a wave; `INDEXED` leads to the places where the
registers of that instruction are known, and is not executed."""

VECTOR, SLOW, MATRIX, SCALAR, LOAD, STORE, LDS, SCALAR_LOAD, WAIT, MEET, LAST = range(11)
"""Unit that an instruction occupies: the vector ALU, its slow part, matrix cores, and so on."""

_STEPS_AT_ONCE = 1 << 22
"""Instructions between looks at the clock."""

_WITHOUT_LANES = (SCALAR, WAIT, SCALAR_LOAD, MEET, LAST)
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
        What it does; None if nothing, or if nobody has asked (`Instructions.closure`).
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
    asks : bool
        Whether it is an access that other waves may answer, or a sleep.
    has_row : bool
        Whether the interpreter executes it.
    parts : tuple of Instruction
        Of what its closure is made, if it computes something.
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
    asks: bool = False
    has_row: bool = False
    parts: tuple[Instruction, ...] = ()


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
        listed = sorted((place, size) for place, (_, size) in code.listing.items() if place >= 0)
        self.rows = Rows(listed, base, machine)

    def at(self, place: int) -> Reached:
        """Return the instruction at a place.

        Raises
        ------
        UserError
            There is none, or it is not emulated: name and address are in the message.
        """
        if (known := self._at.get(place)) is None:
            code = known = self._at[place] = self._decoded(place)
            with suppress(UserError):  # what lies straight behind it will be reached, too
                while code.has_row and code.way == PLAIN and code.after not in self._at:
                    after = code.after
                    code = self._at[after] = self._decoded(after)
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
        code.asks = inst.name == "s_sleep" or is_coherent(inst)
        known = {"asks": int(code.asks)}
        if len(parts) > 1:
            code.kind, code.parts = VECTOR, tuple(parts)
        elif self._steers(code):
            known |= self._control(code)
        elif inst is not parts[0]:
            code.inst, code.execute = indexing.within(inst, self.machine, build_vector)
            code.kind, parts = _kind(inst), [code.inst]
        else:
            code.kind, code.parts = _kind(inst), (inst,)
        if code.execute is None and not place & ~indexing.ADDRESS:
            known["idles"] = code.kind not in _WITHOUT_LANES
            code.has_row = self.rows.enter(place - self.base, code.number, parts, known)
        if not code.has_row:
            self.closure(code)
        code.reads = _reads(parts, self.machine)
        code.approximate = inst.name in APPROXIMATE or code.kind == MATRIX
        return code

    def closure(self, code: Reached) -> Execute | None:
        """What an instruction does, which is made when it is first asked for; None if nothing."""
        if code.execute is None and code.parts:
            inst = code.inst
            if len(code.parts) > 1:
                code.execute = build_dual(list(code.parts), self.machine)
                return code.execute
            build = build_vector if inst.name.startswith("v_") else build_scalar
            code.execute = build(inst, self.machine) or build_memory(inst, self.machine)
            code.execute = code.execute or indexing.build_mode(inst)
            if code.execute is None:
                raise UnsupportedError("")
        return code.execute

    @staticmethod
    def _control(code: Reached) -> dict[str, int]:
        """Columns of the row of an instruction that steers."""
        kinds = {PLAIN: interpreter.NOTHING, BARRIER: interpreter.WAITS, END: interpreter.ENDS}
        if code.way == BRANCH:
            of_branch = {"op": branch_number(code.inst.name), "target": code.target}
            return {"kind": interpreter.JUMP, **of_branch}
        return {"kind": kinds.get(code.way, interpreter.CLOSED)}

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
    step, register, content : int32[writes]
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
        self._say = say
        self._last_line: float | None = None
        """The clock begins with the first use: what comes before may be compiled code."""

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
        now = time.monotonic()
        if self._say and now - (self._last_line or now) >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._say(line)
        self._last_line = self._last_line or now


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
        self.recorded, self.budget = recorded, budget
        self.group_of_wave = np.array(group_of_wave, np.int64)
        waves = machine.waves
        self.log = Log(waves, contents)
        self.steps = np.zeros(waves, np.int64)
        (self.done, self.waiting, self.stuck, self._rests, self._asks, self._chosen) = (
            np.zeros(waves, np.bool_) for _ in range(6)
        )
        members = np.bincount(self.group_of_wave)
        self._state = (
            *(machine.pc, self.done, self.waiting, self.stuck, self._rests, self._asks),
            *(np.zeros(waves, np.int64), self.steps, self._stops(), self.group_of_wave),
            *(members, np.zeros(len(members), np.int64), self._chosen),
        )
        self._kept: Array = np.zeros(0, np.int64)
        self._kept_places: Array = self._kept

    def _stops(self) -> Array:
        """Step before which the interpreter stops, int64[waves]."""
        return np.full(self.machine.waves, interpreter.NEVER if self.interprets else 0)

    interprets = True
    """Whether the interpreter executes what it can; else closures execute everything."""

    @property
    def interpreted(self) -> int:
        """Instructions that the interpreter has executed."""
        return int(self.log.control[interpreter.EXECUTED])

    def finish(self) -> None:
        """Run until every wave has ended.

        Raises
        ------
        UserError
            An instruction is not supported, an access lies outside of every buffer, waves wait for
            each other for ever, or more instructions are executed than the budget has.
        """
        self._prepare()
        with np.errstate(all="ignore"):
            while not self.done.all():
                place = self._advance()
                if place >= 0:
                    self._turn(place)
                elif not self.done.all():
                    self._wait_for_ever()
        self.machine.wrote = None

    def _prepare(self) -> None:
        """Have the machine say what it writes, if anybody asks; put together what goes on."""
        m, control = self.machine, self.log.control
        m.wrote = self._wrote if self.recorded.any() else None
        control[interpreter.LOGS] = 1
        control[interpreter.BASE] = self.program.base
        (content, *rest, lay), spare = m.access(), m.lds_spare
        flat = (content, m.lds.reshape(-1), m.scratch.reshape(-1))
        of_lds = m.lds.shape[1], m.lds.shape[1] - spare, np.array(m.lds_of_wave, np.int64)
        self._memory = flat, *rest, (*lay, *of_lds, m.scratch.shape[2])
        self._of_lanes = (
            *(m.words, m.scalar_words, m.scc, m.active.reshape(-1), self.recorded),
            *(np.zeros(4 * interpreter.LANES, np.uint32), np.zeros(interpreter.LANES, np.bool_)),
            *(np.zeros(interpreter.LANES, np.bool_), np.zeros((2, interpreter.LANES), np.int64)),
            np.uint64(m.lanes),
        )

    def _advance(self) -> int:
        """Let waves go on; return the place of those that need a closure, -1 if none can go on."""
        log, rows = self.log, self.program.rows
        control = log.control
        while True:
            most = self._most_steps()
            control[interpreter.LEFT] = most
            code = rows.rows, rows.row_of, rows.patterns
            interpreter.advance(
                code, self._state, self._of_lanes, self._memory, log.arrays, control
            )
            place = int(control[interpreter.ADDRESS])
            if most > control[interpreter.LEFT]:
                self._used(most - int(control[interpreter.LEFT]))
            if place != interpreter.HELD:
                return place
            if not most:
                self._used(1)
            log.keep()

    def _most_steps(self) -> int:
        """Instructions that the interpreter may execute without coming back."""
        return min(self.budget.left, _STEPS_AT_ONCE)

    def _used(self, count: int) -> None:
        """Note that so many have been executed."""
        self.budget.use(count)

    def _wait_for_ever(self) -> None:
        """Deal with waves that all wait at barriers."""
        raise UserError("waves wait at a barrier that others of their group never reach")

    def _turn(self, place: int) -> None:
        """Let closures execute the waves at one place until the interpreter can go on."""
        m = self.machine
        addresses = m.pc & indexing.ADDRESS
        others = addresses[~(self.done | self.waiting | self._rests | self._chosen)]
        meeting = int(
            others[others >= place & indexing.ADDRESS].min(initial=np.iinfo(np.int64).max)
        )
        numbers = np.flatnonzero(self._chosen)
        m.run_group(slice(None) if len(numbers) == m.waves else numbers)
        self._kept_places = np.flatnonzero(self.recorded[numbers])
        self._kept = numbers[self._kept_places]
        try:
            self._straight(place, numbers, meeting)
        except (OutsideError, UnsupportedError) as error:
            inst = self._code.inst
            what = " is not supported" if isinstance(error, UnsupportedError) else ""
            raise UserError(
                f"instruction {inst.text} at {inst.address - self.program.base:#x}{what}: {error}"
            ) from error

    def _straight(self, place: int, numbers: Array, meeting: int) -> None:
        m, program = self.machine, self.program
        must = not self.interprets or bool(
            (self.stuck | (self._state[8] <= self.steps))[numbers].any()
        )
        self.stuck[numbers] = False
        while True:
            code = self._code = program.at(place)
            if code.has_row and not must:
                break
            must = not self.interprets
            if code.way == INDEXED:
                assert code.condition
                places = code.condition(m)
                if (places != places[0]).any():
                    m.pc[numbers] = places
                    return
                place = int(places[0])
                code = self._code = program.at(place)
            self._begin(code, numbers)
            self.steps[numbers] += 1
            if code.asks:
                self._asks[numbers] = True
            place = code.after
            if code.way == PLAIN:
                execute = program.closure(code)
                if execute is not None:
                    execute(m)
            elif code.way == BRANCH:
                assert code.condition
                taken = code.condition(m)
                m.pc[numbers] = np.where(taken, code.target, place)
                if code.target < place:
                    interpreter.jump_back(numbers[taken], self._state)
                return
            elif code.way == JUMP:
                assert code.execute
                m.pc[numbers] = indexing.places_of(code.execute(m), place)
                return
            else:
                m.pc[numbers] = place
                interpreter.pause(numbers, code.way == END, self._state)
                return
            if place & indexing.ADDRESS >= meeting:
                break
        m.pc[numbers] = place

    def _begin(self, code: Reached, numbers: Array) -> None:
        """Note that waves are about to execute an instruction by its closure."""
        self.budget.use(len(numbers))
        codes = np.full(len(numbers), 2 * code.number)
        if not self.machine.all_on and code.kind not in _WITHOUT_LANES:
            codes += ~self.machine.lanes_on.any(axis=1)
        self.log.step(numbers, codes)

    def _wrote(self, register: int, lanes: Array) -> None:
        m = self.machine
        masks = np.zeros((len(self._kept), 8), np.uint8)
        masks[:, : m.lanes // 8] = np.packbits(lanes[self._kept_places], axis=1, bitorder="little")
        mask = masks.view("<u8")[:, 0]
        waves = self._kept[mask != 0]
        if not len(waves):
            return
        writes = np.zeros((len(waves), 3), np.int32)
        writes[:, 0], writes[:, 1], writes[:, 2] = waves, self.steps[waves] - 1, register
        self.log.wrote(writes, mask[mask != 0], m.vector[register, waves])

    def waves(self, first_group: int, wave_in_group: Array, lanes: Array) -> list[Wave]:
        """Records of all waves, in their order."""
        ran = [
            Wave(first_group + int(group), int(number), codes, int(mask))
            for group, number, codes, mask in zip(
                self.group_of_wave, wave_in_group, self.log.codes(), lanes, strict=True
            )
        ]
        for wave, (writes, masks) in zip(ran, self.log.written(), strict=False):
            wave.step, wave.register, wave.content = writes.T
            wave.mask = masks
        return ran
