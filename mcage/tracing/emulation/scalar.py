"""Scalar instructions, and those that decide what a wave does next, as closures over a machine."""

import re
from collections.abc import Callable

import numpy as np

from mcage.tracing.emulation.arithmetic import (
    COMPARISONS,
    Array,
    as_bits,
    bits_of,
    from_bits,
    high_product,
    leading_zeros,
    of_kinds,
    ones_at,
    reversed_bits,
    shift_by,
    sign_bits,
    trailing_zeros,
)
from mcage.tracing.emulation.machine import (
    EXEC,
    M0,
    VCC,
    Execute,
    Families,
    Instruction,
    Machine,
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

# What instructions compute, and what SCC becomes: a function of the result and the operands.

Scc = Callable[..., Array] | None


def _not_zero(result: Array, *operands: Array) -> Array:
    return result != 0


def _overflows(total: Array, a: Array, b: Array) -> Array:
    """Whether a signed sum has left its type."""
    return ((a ^ total) & (b ^ total)) >> _I32(31) != 0


def _quads(x: Array, *, whole: bool) -> Array:
    quads = bits_of(x).reshape(*x.shape, -1, 4).any(axis=-1)
    return from_bits(np.repeat(quads, 4, axis=-1) if whole else quads, x.dtype)


def _ones(x: Array) -> Array:
    return np.bitwise_count(x).astype(_I32)


def _field(a: Array, s: Array) -> Array:
    """Bits of a number: bits 0 ... 5 of the second operand are the offset, 16 ... 22 the width."""
    bits = a.dtype.itemsize * 8
    width = np.minimum(s >> _U32(16) & _U32(127), bits)
    shifted = as_bits(a >> shift_by(s, a))
    unit = shifted.dtype.type(1)
    full = width >= bits
    mask = np.where(
        full, ~(unit - unit), (unit << np.where(full, 0, width).astype(shifted.dtype)) - unit
    )
    shifted = shifted & mask
    if a.dtype.kind == "u":
        return shifted
    sign = np.where(
        width > 0, unit << (np.maximum(width, 1) - 1).astype(shifted.dtype), unit - unit
    )
    return ((shifted ^ sign) - sign).view(a.dtype)


_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn1": lambda a, b: ~a & b,
    "and_not0": lambda a, b: ~a & b,
    "andn2": lambda a, b: a & ~b,
    "and_not1": lambda a, b: a & ~b,
    "orn1": lambda a, b: ~a | b,
    "or_not0": lambda a, b: ~a | b,
    "orn2": lambda a, b: a | ~b,
    "or_not1": lambda a, b: a | ~b,
}

_OPERATIONS: dict[str, tuple[str, tuple[str, ...], Callable[..., Array], Scc]] = {}
"""Type of the result, types of the operands, the function, and what SCC becomes; None: it stays.

Types are those of `WORD`; or ``scc``, which is no operand; ``pc``, the address behind the
instruction; ``k`` and ``ku``, a constant of 16 bits with and without a sign. Where the text has as
many operands as there are of them, the result has none of its own: SCC, or one that is read too.
"""


def _define(
    names: str, types: str, compute: Callable[..., Array], scc: Scc = None, kinds: str = "-"
) -> None:
    for name, result, sources in of_kinds(names, types, kinds):
        _OPERATIONS[f"s_{name}"] = result, sources, compute, scc


_BOTH, _SIGNS = "32 64", "i32 u32"
for _name, _function in _LOGIC.items():
    _define(f"{_name}_bT", "bT bT bT", _function, _not_zero, _BOTH)
_define("not_bT", "bT bT", lambda a: ~a, _not_zero, _BOTH)
_define("mov_bT", "bT bT", lambda a: a, None, _BOTH)
_define("movk_i32", "i32 k", lambda k: k)
_define("cmov_bT", "bT bT bT scc", lambda d, a, c: np.where(c, a, d), None, _BOTH)
_define("cmovk_i32", "i32 i32 k scc", lambda d, k, c: np.where(c, k, d))
_define("cselect_bT", "bT bT bT scc", lambda a, b, c: np.where(c, a, b), None, _BOTH)
_define("getpc_b64", "b64 pc", lambda pc: pc)
_define("lshl_bT", "bT bT u32", lambda a, s: a << shift_by(s, a), _not_zero, _BOTH)
_define("lshr_bT", "bT bT u32", lambda a, s: a >> shift_by(s, a), _not_zero, _BOTH)
_define("ashr_iT", "iT iT u32", lambda a, s: a >> shift_by(s, a), _not_zero, _BOTH)
_define("brev_bT", "bT bT", reversed_bits, None, _BOTH)
_define(
    "bitset0_bT", "bT bT u32", lambda d, s: d & ~(d.dtype.type(1) << shift_by(s, d)), None, _BOTH
)
_define("bitset1_bT", "bT bT u32", lambda d, s: d | d.dtype.type(1) << shift_by(s, d), None, _BOTH)
_define("bitcmp0_bT", "scc bT u32", lambda a, s: a >> shift_by(s, a) & 1 == 0, None, _BOTH)
_define("bitcmp1_bT", "scc bT u32", lambda a, s: a >> shift_by(s, a) & 1 == 1, None, _BOTH)
_define("bfm_b32", "b32 u32 u32", ones_at(32))
_define("bfm_b64", "b64 u32 u32", ones_at(64))
_define("bfe_T", "T T u32", _field, _not_zero, "u32 i32 u64 i64")
_define("bcnt0_i32_bT", "i32 bT", lambda a: _ones(~a), _not_zero, _BOTH)
_define("bcnt1_i32_bT", "i32 bT", _ones, _not_zero, _BOTH)
_define("ff0_i32_bT", "i32 bT", lambda a: trailing_zeros(~a), None, _BOTH)
_define("ff1_i32_bT ctz_i32_bT", "i32 bT", trailing_zeros, None, _BOTH)
_define("flbit_i32_bT clz_i32_uT", "i32 bT", leading_zeros, None, _BOTH)
_define("flbit_i32 cls_i32", "i32 u32", sign_bits)
_define("flbit_i32_i64 cls_i32_i64", "i32 i64", lambda a: sign_bits(a.view(_U64)))
_define(
    "bitreplicate_b64_b32", "b64 b32", lambda a: from_bits(np.repeat(bits_of(a), 2, axis=-1), _U64)
)
_define("quadmask_bT", "bT bT", lambda a: _quads(a, whole=False), _not_zero, _BOTH)
_define("wqm_bT", "bT bT", lambda a: _quads(a, whole=True), _not_zero, _BOTH)
_define("sext_i32_i8", "i32 u32", lambda a: (a << _U32(24)).view(_I32) >> 24)
_define("sext_i32_i16", "i32 u32", lambda a: (a << _U32(16)).view(_I32) >> 16)
_define("abs_i32", "u32 i32", lambda a: np.abs(a).view(_U32), _not_zero)
_define("absdiff_i32", "u32 i32 i32", lambda a, b: np.abs(a - b).view(_U32), _not_zero)
_define("min_T", "T T T", np.minimum, lambda r, a, b: a < b, _SIGNS)
_define("max_i32", "i32 i32 i32", np.maximum, lambda r, a, b: a >= b)
_define("max_u32", "u32 u32 u32", np.maximum, lambda r, a, b: a >= b)
_define("add_i32 add_co_i32", "i32 i32 i32", lambda a, b: a + b, _overflows)
_define("addk_i32 addk_co_i32", "i32 i32 k", lambda a, k: a + k, _overflows)
_define(
    "sub_i32 sub_co_i32", "i32 i32 i32", lambda a, b: a - b, lambda r, a, b: _overflows(r, a, ~b)
)
_define("add_u32 add_co_u32", "u32 u32 u32", lambda a, b: a + b, lambda r, a, b: r < a)
_define("sub_u32 sub_co_u32", "u32 u32 u32", lambda a, b: a - b, lambda r, a, b: a < b)
_define(
    "addc_u32 add_co_ci_u32",
    "u32 u32 u32 scc",
    lambda a, b, c: a + b + c,
    lambda r, a, b, c: a.astype(_I64) + b + c > 0xFFFFFFFF,
)
_define(
    "subb_u32 sub_co_ci_u32",
    "u32 u32 u32 scc",
    lambda a, b, c: a - b - c,
    lambda r, a, b, c: a.astype(_I64) - b - c < 0,
)
_define("add_nc_u64 add_u64", "u64 u64 u64", lambda a, b: a + b)
_define("sub_nc_u64 sub_u64", "u64 u64 u64", lambda a, b: a - b)
for _shift in range(1, 5):
    _define(
        f"lshl{_shift}_add_u32",
        "u32 u32 u32",
        lambda a, b, n=_shift: (a << n) + b,
        lambda r, a, b, n=_shift: (a.astype(_U64) << n) + b > 0xFFFFFFFF,
    )
_define("mul_i32", "u32 u32 u32", lambda a, b: a * b)
_define("mulk_i32", "i32 i32 k", lambda a, k: a * k)
_define("mul_u64", "u64 u64 u64", lambda a, b: a * b)
_define("mul_hi_T", "T T T", high_product, None, _SIGNS)
_define("pack_ll_b32_b16", "u32 u32 u32", lambda a, b: a & 0xFFFF | b << _U32(16))
_define("pack_lh_b32_b16", "u32 u32 u32", lambda a, b: a & 0xFFFF | b & _U32(0xFFFF0000))
_define("pack_hh_b32_b16", "u32 u32 u32", lambda a, b: a >> _U32(16) | b & _U32(0xFFFF0000))
_define("pack_hl_b32_b16", "u32 u32 u32", lambda a, b: a >> _U32(16) | b << _U32(16))
for _name in ("eq", "lg", "gt", "ge", "lt", "le"):
    _define(f"cmp_{_name}_T", "scc T T", COMPARISONS[_name], None, "i32 u32 u64")
    _define(f"cmpk_{_name}_i32", "scc i32 k", COMPARISONS[_name])
    _define(f"cmpk_{_name}_u32", "scc u32 ku", COMPARISONS[_name])


def types_of(name: str) -> tuple[str, tuple[str, ...]] | None:
    """Types of the result and of the operands of a scalar instruction; None if it is not known."""
    return _OPERATIONS[name][:2] if name in _OPERATIONS else None


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
    kind, types, compute, scc = _OPERATIONS[inst.name]
    written = sum(of not in ("scc", "pc") for of in types)
    first = int(len(inst.operands) > written)
    sources = [_source(inst, first + number, of) for number, of in enumerate(types)]

    def execute(m: Machine) -> None:
        values = [source(m) for source in sources]
        result = compute(*values)
        if scc is not None:
            m.scc[m.group] = scc(result, *values)
        if kind == "scc":
            m.scc[m.group] = result
        else:
            put_scalar(m, inst.operands[0], kind, result)

    return execute


def _save_exec(inst: Instruction, machine: Machine) -> Execute:
    """``s_and_saveexec`` keeps what EXEC was, ``s_andn1_wrexec`` what it becomes."""
    match = re.match(r"s_(\w+?)_(saveexec|wrexec)_b(32|64)$", inst.name)
    if not match or match[1] not in _LOGIC:
        raise UnsupportedError("EXEC")
    function, kind = _LOGIC[match[1]], f"b{match[3]}"
    source = scalar_source(inst.operands[1], kind)
    target, saves = inst.operands[0], match[2] == "saveexec"
    wide = kind == "b64"

    def execute(m: Machine) -> None:
        before = m.pair(EXEC) if wide else m.word(EXEC).copy()
        after = function(source(m), before)
        put_scalar(m, target, kind, before if saves else after)
        (m.put_pair if wide else m.put_word)(EXEC, after)
        m.scc[m.group] = after != 0

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
