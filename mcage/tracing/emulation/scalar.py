"""Scalar instructions, and those that decide what a wave does next, as closures over a machine."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from mcage.tracing.emulation import interpreter
from mcage.tracing.emulation.arithmetic import Array, of_kinds
from mcage.tracing.emulation.machine import (
    EXEC,
    M0,
    VCC,
    Execute,
    Families,
    Instruction,
    Machine,
    Operand,
    Source,
    UnsupportedError,
    built,
    parse,
    put_scalar,
    scalar_source,
)

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64

NOTHING = re.compile(
    r"s_(nop|waitcnt\w*|wait_\w+|delay_alu|clause|sleep|setprio|inst_prefetch|set_inst_prefetch_distance"
    r"|ttracedata\w*|sendmsg|icache_inv|dcache_(inv|wb)(_vol)?|gl1_inv|atc_probe(_buffer)?|code_end"
    r"|sethalt|version|waitcnt_depctr|wakeup|getreg_regrd|incperflevel|decperflevel)$"
    r"|buffer_(gl[01]_inv|wbl2|invl2|wbinvl1\w*|inv)$|global_(inv|wb|wbinv)$"
    r"|v_(nop|clrexcp|pipeflush)$|ds_nop$"
)
"""Instructions without effect on what is computed. Waiting is a matter of time alone."""

_OPERATIONS = {
    f"s_{name}": (number, result, sources)
    for number, (names, types, kinds, _, _) in enumerate(interpreter.SCALAR_OPERATIONS)
    for name, result, sources in of_kinds(names, types, kinds)
}


def scalar_operation(name: str) -> tuple[int, str, tuple[str, ...]]:
    """Number of what a scalar instruction computes, and types of its result and operands.

    Raises
    ------
    UnsupportedError
        It is none that computes.
    """
    if name not in _OPERATIONS:
        raise UnsupportedError("")
    return _OPERATIONS[name]


# Closures.


def _source(inst: Instruction, position: int, kind: str) -> Source:
    """An operand of a type of `_OPERATIONS`, [running]."""
    if kind == "scc":
        return lambda m: m.scc[m.group]
    if kind == "pc":
        after = _U64(inst.address + inst.size)
        return lambda m: np.full(m.running, after)
    operand = inst.operands[position]
    if kind not in ("k", "ku"):
        return scalar_source(operand, kind)
    if operand.kind != "int":
        raise UnsupportedError(f"operand {operand.text}")
    number = operand.number & 0xFFFF
    constant = _U32(number) if kind == "ku" else _I32(number ^ 0x8000) - _I32(0x8000)
    return lambda m: np.full(m.running, constant)


def _computed(inst: Instruction) -> Execute:
    op, kind, types = scalar_operation(inst.name)
    operands = [of for of in types if of not in ("scc", "pc")]
    first = int(len(inst.operands) > len(operands))
    sources = [_source(inst, first + n, of) for n, of in enumerate(types) if of != "scc"]
    bits = 64 if operands and operands[0].endswith("64") else 32

    def execute(m: Machine) -> None:
        scc = m.scc[m.group]
        result = _results(op, m, sources, scc, bits, kind)
        m.scc[m.group] = scc
        if kind != "scc":
            put_scalar(m, inst.operands[0], kind, result)

    return execute


def _results(
    op: int, m: Machine, sources: Sequence[Source], scc: Array, bits: int, kind: str
) -> Array:
    """Results of the running waves, in their type; SCC is changed in its place."""
    operands, results = np.zeros((2, m.running), np.uint64), np.zeros(m.running, np.uint64)
    for number, source in enumerate(sources):
        value = source(m)
        operands[number] = value.view(f"u{value.dtype.itemsize}")
    words = 2 if kind.endswith("64") else 1
    interpreter.compute_scalars(op, operands, scc, bits, words, results)
    return results if words == 2 else results.astype(_U32)


def _save_exec(inst: Instruction, machine: Machine) -> Execute:
    """``s_and_saveexec`` keeps what EXEC was, ``s_andn1_wrexec`` what it becomes."""
    match = re.match(r"s_(\w+?)_(saveexec|wrexec)_b(32|64)$", inst.name)
    if not match:
        raise UnsupportedError("EXEC")
    kind = f"u{match[3]}"
    op = scalar_operation(f"s_{match[1]}_b{match[3]}")[0]
    sources = scalar_source(inst.operands[1], kind), scalar_source(Operand("s", EXEC), kind)
    target, saves = inst.operands[0], match[2] == "saveexec"

    def execute(m: Machine) -> None:
        before, scc = sources[1](m).copy(), m.scc[m.group]
        after = _results(op, m, sources, scc, int(match[3]), kind)
        put_scalar(m, target, kind, before if saves else after)
        (m.put_pair if kind == "u64" else m.put_word)(EXEC, after)
        m.scc[m.group] = scc

    return execute


_MODE = 0xF0
"""Lower bits of MODE: results are rounded to the nearest number, and denormals are kept."""


def _register_of(inst: Instruction) -> tuple[str, int, int, str]:
    """Name of a hardware register, the first bit and the bits of its part, and the operand."""
    match = re.search(r"hwreg\((\w+)(?:, (\d+), (\d+))?\)", inst.modifiers["text"])
    if not match:
        raise UnsupportedError("")
    operand = re.sub(r"hwreg\(.*?\)|[, ]", "", inst.modifiers["text"])
    return match[1], int(match[2] or 0), int(match[3] or 32), operand


def _get_register(inst: Instruction, machine: Machine) -> Execute:
    """Rounding and denormals of MODE alone; others say where and when a wave runs."""
    name, first, bits, operand = _register_of(inst)
    if "CYCLES" in name:
        raise UnsupportedError(_CLOCK)
    (target,) = parse(f"s_mov_b32 {operand}")[0].operands
    if name != "HW_REG_MODE" or first + bits > 8:
        raise UnsupportedError(f"hardware register {name}")
    value = _U32(_MODE >> first & (1 << bits) - 1)
    return lambda m: put_scalar(m, target, "u32", np.full(m.running, value))


def _set_register(inst: Instruction, machine: Machine) -> Execute:
    """FLAT_SCRATCH, which nothing else needs, and parts of MODE, where they stay as they are."""
    name, first, bits, operand = _register_of(inst)
    if "FLAT_SCR" in name:
        return lambda m: None
    if name == "HW_REG_MODE" and first + bits <= 8 and inst.name == "s_setreg_imm32_b32":
        return _kept(int(operand, 0) << first, (1 << bits) - 1 << first)
    raise UnsupportedError(f"hardware register {name}")


def _set_mode(inst: Instruction, machine: Machine) -> Execute:
    """``s_round_mode``, ``s_denorm_mode``: half of what `_MODE` has."""
    shift = 0 if "round" in inst.name else 4
    return _kept(inst.operands[0].number << shift, 15 << shift)


def _kept(value: int, mask: int) -> Execute:
    if (value ^ _MODE) & mask:
        raise UnsupportedError("rounds otherwise than to the nearest, or flushes denormals")
    return lambda m: None


_CLOCK = "reads a clock, and times of a trace are assumed"


def _refused(why: str) -> Callable[[Instruction, Machine], Execute]:
    def refuse(inst: Instruction, machine: Machine) -> Execute:
        raise UnsupportedError(why)

    return refuse


def _move_relative(inst: Instruction, machine: Machine) -> Execute:
    """``s_movrels``, ``s_movreld``: M0 is added to the number of a scalar register."""
    words = int(inst.name.rpartition("b")[2]) // 32
    target, source = (operand.number for operand in inst.operands)
    if any(operand.kind != "s" or operand.number >= VCC for operand in inst.operands):
        raise UnsupportedError("operands")

    def index(m: Machine, number: int, offset: Array) -> tuple[Array, Array]:
        """Register of each wave, and whether there is one: else s0 is read, nothing written."""
        chosen = number + offset.astype(_I64)
        wrong = chosen + words > VCC
        if wrong.any():
            m.refuse(wrong, f"{VCC} scalar registers", chosen, dropped=True)
        return np.where(wrong, 0, chosen), ~wrong

    def execute(m: Machine) -> None:
        moved, waves = m.word(M0), np.arange(m.waves)[m.group]
        offsets = {"s": (moved, 0 * moved), "d": (0 * moved, moved)}
        offsets["sd_2"] = moved & 0x3FF, moved >> 16 & 0x3FF
        of_source, of_target = offsets[inst.name[8:].rpartition("_b")[0]]
        read, _ = index(m, source, of_source)
        number, there = index(m, target, of_target)
        values = [m.scalar[read + word, waves] for word in range(words)]
        for word, value in enumerate(values):
            m.scalar[number[there] + word, waves[there]] = value[there]

    return execute


_FAMILIES: Families = (
    (r"s_mem(real)?time$|s_sendmsg_rtn_", _refused(_CLOCK)),
    (r"s_trap$", _refused("a trap, by which a kernel reports an error")),
    (r"s_getreg_b32$", _get_register),
    (r"s_setreg(_imm32)?_b32$", _set_register),
    (r"s_(round|denorm)_mode$", _set_mode),
    (r"s_movrel(s|d|sd_2)_b(32|64)$", _move_relative),
    (r"s_\w+_(saveexec|wrexec)_b(32|64)$", _save_exec),
)


def build_scalar(inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of a scalar instruction that computes; None if its name is not known here.

    Raises
    ------
    UnsupportedError
        A form of it that is not emulated.
    """
    if inst.name in _OPERATIONS:
        return _computed(inst)
    return built(_FAMILIES, inst, machine)


def branch_condition(inst: Instruction) -> Callable[[Machine], Array] | None:
    """Which waves take a branch, bool[running]; None if the instruction is no branch."""
    conditions: dict[str, Callable[[Machine], Array]] = {
        "s_branch": lambda m: np.ones(m.running, np.bool_),
        "s_cbranch_scc0": lambda m: ~m.scc[m.group],
        "s_cbranch_scc1": lambda m: m.scc[m.group].copy(),
        "s_cbranch_vccz": lambda m: ~m.mask(VCC).any(axis=1),
        "s_cbranch_vccnz": lambda m: m.mask(VCC).any(axis=1),
        "s_cbranch_execz": lambda m: ~m.lanes_on.any(axis=1),
        "s_cbranch_execnz": lambda m: m.lanes_on.any(axis=1),
    }
    return conditions.get(inst.name)
