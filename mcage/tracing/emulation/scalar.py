"""Scalar instructions, and those that decide what a wave does next, as closures over a machine."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mcage.tracing.emulation.arithmetic import Array, leading_zeros, sign_bits, trailing_zeros
from mcage.tracing.emulation.instruction import EXEC, VCC, Instruction
from mcage.tracing.emulation.machine import (
    WORD,
    Execute,
    Families,
    Machine,
    UnsupportedError,
    built,
    put_scalar,
    scalar_source,
)

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64

NOTHING = re.compile(
    r"s_(nop|waitcnt\w*|wait_\w+|delay_alu|clause|sleep|setprio|inst_prefetch|set_inst_prefetch_distance"
    r"|ttracedata\w*|sendmsg|icache_inv|dcache_inv|dcache_wb|code_end|sethalt|version|waitcnt_depctr"
    r"|getreg_regrd|incperflevel|decperflevel)$"
    r"|buffer_(gl[01]_inv|wbl2|invl2|wbinvl1\w*|inv)$|global_(inv|wb|wbinv)$|v_nop$"
)
"""Instructions without effect on what is computed. Waiting is a matter of time alone."""

_NonZero = True


def _add_overflow(a: Array, b: Array, total: Array) -> Array:
    return ((a ^ total) & (b ^ total)) >> _I32(31) != 0


_BINARY: dict[str, tuple[str, str, Callable[..., Array], Any]] = {}
"""Type of the result, types of the operands, the function, and what SCC becomes.

SCC: None keeps it, True means "the result is not zero", a function has the operands and the result.
"""


def _define(names: str, types: str, function: Callable[..., Array], scc: Any = None) -> None:
    result, _, sources = types.partition(" ")
    for name in names.split():
        _BINARY[f"s_{name}"] = (result, sources, function, scc)


for _bits in (32, 64):
    _b, _n = f"b{_bits}", WORD[f"u{_bits}"]
    _two = f"{_b} {_b} {_b}"
    _define(f"and_b{_bits}", _two, lambda a, b: a & b, _NonZero)
    _define(f"or_b{_bits}", _two, lambda a, b: a | b, _NonZero)
    _define(f"xor_b{_bits}", _two, lambda a, b: a ^ b, _NonZero)
    _define(f"andn2_b{_bits} and_not1_b{_bits}", _two, lambda a, b: a & ~b, _NonZero)
    _define(f"orn2_b{_bits} or_not1_b{_bits}", _two, lambda a, b: a | ~b, _NonZero)
    _define(f"nand_b{_bits}", _two, lambda a, b: ~(a & b), _NonZero)
    _define(f"nor_b{_bits}", _two, lambda a, b: ~(a | b), _NonZero)
    _define(f"xnor_b{_bits}", _two, lambda a, b: ~(a ^ b), _NonZero)
    _define(f"not_b{_bits}", f"{_b} {_b}", lambda a: ~a, _NonZero)
    _define(f"mov_b{_bits}", f"{_b} {_b}", lambda a: a)
    _shift = f"{_b} {_b} u32"

    def _count(s: Array, bits: int = _bits, dtype: Any = _n) -> Array:
        return (s & (bits - 1)).astype(dtype)

    _define(f"lshl_b{_bits}", _shift, lambda a, s, c=_count: a << c(s), _NonZero)
    _define(f"lshr_b{_bits}", _shift, lambda a, s, c=_count: a >> c(s), _NonZero)
    _define(
        f"ashr_i{_bits}",
        f"i{_bits} i{_bits} u32",
        lambda a, s, c=_count, t=WORD[f"i{_bits}"]: a >> c(s).astype(t),
        _NonZero,
    )
    _define(f"brev_b{_bits}", f"{_b} {_b}", lambda a, bits=_bits: _reversed(a, bits))
    _define(
        f"bitset0_b{_bits}", f"{_b} {_b} u32", lambda d, s, c=_count: d & ~(d.dtype.type(1) << c(s))
    )
    _define(
        f"bitset1_b{_bits}", f"{_b} {_b} u32", lambda d, s, c=_count: d | d.dtype.type(1) << c(s)
    )
    _define(
        f"bfm_b{_bits}",
        f"{_b} u32 u32",
        lambda a, b, t=_n, bits=_bits: (
            ((t(1) << (a & (bits - 1)).astype(t)) - t(1)) << (b & (bits - 1)).astype(t)
        ),
    )
    _define(f"bcnt1_i32_b{_bits}", f"i32 {_b}", lambda a: _ones(a), _NonZero)
    _define(f"bcnt0_i32_b{_bits}", f"i32 {_b}", lambda a: _ones(~a), _NonZero)
    _define(f"ff1_i32_b{_bits} ctz_i32_b{_bits}", f"i32 {_b}", lambda a: _first_one(a))
    _define(f"ff0_i32_b{_bits}", f"i32 {_b}", lambda a: _first_one(~a))
    _define(f"flbit_i32_b{_bits} clz_i32_u{_bits}", f"i32 {_b}", lambda a: _leading(a))
    _define(
        f"quadmask_b{_bits}",
        f"{_b} {_b}",
        lambda a, bits=_bits: _quads(a, bits, whole=False),
        _NonZero,
    )
    _define(
        f"wqm_b{_bits}", f"{_b} {_b}", lambda a, bits=_bits: _quads(a, bits, whole=True), _NonZero
    )


def _bit_array(a: Array, bits: int) -> Array:
    return (a[:, None] >> np.arange(bits, dtype=a.dtype) & a.dtype.type(1)).astype(np.bool_)


def _from_bits(bits: Array, dtype: Any) -> Array:
    weights = dtype(1) << np.arange(bits.shape[1], dtype=dtype)
    total: Array = np.where(bits, weights, dtype(0)).sum(axis=1, dtype=dtype)
    return total


def _reversed(a: Array, bits: int) -> Array:
    return _from_bits(_bit_array(a, bits)[:, ::-1], a.dtype.type)


def _quads(a: Array, bits: int, whole: bool) -> Array:
    quads = _bit_array(a, bits).reshape(len(a), -1, 4).any(axis=2)
    return _from_bits(np.repeat(quads, 4, axis=1) if whole else quads, a.dtype.type)


def _ones(a: Array) -> Array:
    return _bit_array(a, a.dtype.itemsize * 8).sum(axis=1).astype(_I32)


def _first_one(a: Array) -> Array:
    if a.dtype == _U32:
        return trailing_zeros(a)
    low, high = trailing_zeros(a.astype(_U32)), trailing_zeros((a >> _U64(32)).astype(_U32))
    return np.where(low >= 0, low, np.where(high >= 0, high + 32, -1)).astype(_I32)


def _leading(a: Array) -> Array:
    if a.dtype == _U32:
        return leading_zeros(a)
    high, low = leading_zeros((a >> _U64(32)).astype(_U32)), leading_zeros(a.astype(_U32))
    return np.where(high >= 0, high, np.where(low >= 0, low + 32, -1)).astype(_I32)


_define("flbit_i32 cls_i32", "i32 u32", lambda a: sign_bits(a))
_define("flbit_i32_i64 cls_i32_i64", "i32 i64", lambda a: _leading((a ^ a >> 63).view(_U64)))
_define("movk_i32", "i32 k", lambda k: k)
_define("sext_i32_i8", "i32 u32", lambda a: (a << _U32(24)).view(_I32) >> 24)
_define("sext_i32_i16", "i32 u32", lambda a: (a << _U32(16)).view(_I32) >> 16)
_define(
    "abs_i32", "u32 i32", lambda a: np.where(a < 0, (-a.astype(_I64)), a).astype(_U32), _NonZero
)
_define("absdiff_i32", "u32 i32 i32", lambda a, b: np.abs(a - b).view(_U32), _NonZero)
_define("min_i32", "i32 i32 i32", np.minimum, lambda a, b, r: a < b)
_define("max_i32", "i32 i32 i32", np.maximum, lambda a, b, r: a >= b)
_define("min_u32", "u32 u32 u32", np.minimum, lambda a, b, r: a < b)
_define("max_u32", "u32 u32 u32", np.maximum, lambda a, b, r: a >= b)
_define(
    "add_i32 add_co_i32", "i32 i32 i32", lambda a, b: a + b, lambda a, b, r: _add_overflow(a, b, r)
)
_define(
    "sub_i32 sub_co_i32", "i32 i32 i32", lambda a, b: a - b, lambda a, b, r: _add_overflow(a, ~b, r)
)
_define("add_u32 add_co_u32", "u32 u32 u32", lambda a, b: a + b, lambda a, b, r: r < a)
_define("sub_u32 sub_co_u32", "u32 u32 u32", lambda a, b: a - b, lambda a, b, r: a < b)
_define("add_nc_u64 add_u64", "u64 u64 u64", lambda a, b: a + b)
_define("sub_nc_u64 sub_u64", "u64 u64 u64", lambda a, b: a - b)
_define("mul_i32", "u32 u32 u32", lambda a, b: a * b)
_define("mul_u64", "u64 u64 u64", lambda a, b: a * b)
_define("mul_hi_u32", "u32 u32 u32", lambda a, b: (a.astype(_U64) * b >> _U64(32)).astype(_U32))
_define("mul_hi_i32", "i32 i32 i32", lambda a, b: (a.astype(_I64) * b >> 32).astype(_I32))
_define("mulk_i32", "i32 i32 k", lambda a, k: a * k)
_define(
    "addk_i32 addk_co_i32", "i32 i32 k", lambda a, k: a + k, lambda a, k, r: _add_overflow(a, k, r)
)
for _n_shift in range(1, 5):

    def _shifted_sum(a: Array, b: Array, n: int = _n_shift) -> Array:
        return (a << _U32(n)) + b

    def _shift_carry(a: Array, b: Array, r: Array, n: int = _n_shift) -> Array:
        return (a.astype(_U64) << _U64(n)) + b > _U64(0xFFFFFFFF)

    _define(f"lshl{_n_shift}_add_u32", "u32 u32 u32", _shifted_sum, _shift_carry)
_define("pack_ll_b32_b16", "u32 u32 u32", lambda a, b: a & 0xFFFF | b << _U32(16))
_define("pack_lh_b32_b16", "u32 u32 u32", lambda a, b: a & 0xFFFF | b & _U32(0xFFFF0000))
_define("pack_hh_b32_b16", "u32 u32 u32", lambda a, b: a >> _U32(16) | b & _U32(0xFFFF0000))
_define("pack_hl_b32_b16", "u32 u32 u32", lambda a, b: a >> _U32(16) | b << _U32(16))


def _field(a: Array, s: Array) -> Array:
    """Bits of a number: bits 0 ... 5 of the second operand are the offset, 16 ... 22 the width."""
    bits = a.dtype.itemsize * 8
    offset = (s & (bits - 1)).astype(a.dtype)
    width = np.minimum(s >> _U32(16) & _U32(127), bits)
    unsigned = a.view(_U32 if bits == 32 else _U64)
    unit = unsigned.dtype.type(1)
    full = width >= bits
    mask = np.where(
        full, ~(unit - unit), (unit << np.where(full, 0, width).astype(unsigned.dtype)) - unit
    )
    shifted = (a >> offset).view(unsigned.dtype) & mask
    if a.dtype.kind == "u":
        return shifted
    sign = np.where(
        width > 0, unit << (np.maximum(width, 1) - 1).astype(unsigned.dtype), unit - unit
    )
    return ((shifted ^ sign) - sign).view(a.dtype)


_define("bfe_u32", "u32 u32 u32", _field, _NonZero)
_define("bfe_i32", "i32 i32 u32", _field, _NonZero)
_define("bfe_u64", "u64 u64 u32", _field, _NonZero)
_define("bfe_i64", "i64 i64 u32", _field, _NonZero)

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def _constant(inst: Instruction, position: int, unsigned: bool = False) -> int:
    operand = inst.operands[position]
    if operand.kind != "int":
        raise UnsupportedError(f"operand {operand.text}")
    number = operand.number & 0xFFFF
    return number if unsigned or number < 0x8000 else number - 0x10000


def _binary(inst: Instruction, machine: Machine) -> Execute:
    kind, types, function, scc = _BINARY[inst.name]
    sources: list[Callable[[Machine], Array]] = []
    # Of SOPK with two operands and of bitset, the destination is a source too.
    kinds = types.split()
    first = 0 if len(inst.operands) == len(kinds) and len(kinds) == 2 else 1
    for number, source_kind in enumerate(kinds):
        if source_kind == "k":
            constant = np.int32(_constant(inst, first + number))
            sources.append(lambda m, k=constant: np.full(m.running, k))  # type: ignore[misc]
        else:
            sources.append(scalar_source(inst.operands[first + number], source_kind))
    target = inst.operands[0]

    def execute(m: Machine) -> None:
        values = [source(m) for source in sources]
        result = function(*values)
        if scc is True:
            m.scc[m.group] = result != 0
        elif scc is not None:
            m.scc[m.group] = scc(*values, result)
        put_scalar(m, target, kind, result)

    return execute


def _with_carry(inst: Instruction, machine: Machine) -> Execute:
    a, b = (scalar_source(operand, "u32") for operand in inst.operands[1:])
    subtract = "subb" in inst.name or "sub_co_ci" in inst.name

    def execute(m: Machine) -> None:
        more = m.scc[m.group].astype(_I64)
        x, y = a(m).astype(_I64), b(m).astype(_I64)
        total = x - y - more if subtract else x + y + more
        m.scc[m.group] = (total < 0) | (total > 0xFFFFFFFF)
        put_scalar(m, inst.operands[0], "u32", (total & 0xFFFFFFFF).astype(_U32))

    return execute


def _compare(inst: Instruction, machine: Machine) -> Execute:
    match = re.match(r"s_cmp(k?)_(\w+)_([iufb]\d+)$", inst.name)
    bit = re.match(r"s_bitcmp([01])_b(\d+)$", inst.name)
    if bit:
        value = scalar_source(inst.operands[0], f"b{bit[2]}")
        place = scalar_source(inst.operands[1], "u32")
        wanted, bits = int(bit[1]), int(bit[2])

        def test(m: Machine) -> None:
            number = value(m)
            unit = number.dtype.type(1)
            m.scc[m.group] = (
                number >> (place(m) & (bits - 1)).astype(number.dtype) & unit
            ) == wanted

        return test
    if not match or match[2] not in _COMPARE or match[3][0] == "f":
        raise UnsupportedError("comparison")
    kind = match[3].replace("b", "u")
    a = scalar_source(inst.operands[0], kind)
    if match[1]:
        constant = WORD[kind](_constant(inst, 1, unsigned=kind[0] == "u"))
        b: Callable[[Machine], Array] = lambda m: np.full(m.running, constant)  # noqa: E731
    else:
        b = scalar_source(inst.operands[1], kind)
    function = _COMPARE[match[2]]

    def execute(m: Machine) -> None:
        m.scc[m.group] = function(a(m), b(m))

    return execute


def _select(inst: Instruction, machine: Machine) -> Execute:
    kind = inst.name[-3:]
    a, b = (scalar_source(operand, kind) for operand in inst.operands[1:])
    target = inst.operands[0]
    return lambda m: put_scalar(m, target, kind, np.where(m.scc[m.group], a(m), b(m)))


def _move_if(inst: Instruction, machine: Machine) -> Execute:
    kind = "b64" if inst.name.endswith("64") else "b32"
    target = inst.operands[0]
    before = scalar_source(target, kind)
    if "movk" in inst.name:
        constant = np.int32(_constant(inst, 1)).view(_U32)
        value: Callable[[Machine], Array] = lambda m: np.full(m.running, constant)  # noqa: E731
    else:
        value = scalar_source(inst.operands[1], kind)
    return lambda m: put_scalar(m, target, kind, np.where(m.scc[m.group], value(m), before(m)))


_EXEC_OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "andn1": lambda s, e: ~s & e,
    "and_not0": lambda s, e: ~s & e,
    "andn2": lambda s, e: s & ~e,
    "and_not1": lambda s, e: s & ~e,
    "orn1": lambda s, e: ~s | e,
    "or_not0": lambda s, e: ~s | e,
    "orn2": lambda s, e: s | ~e,
    "or_not1": lambda s, e: s | ~e,
}


def _save_exec(inst: Instruction, machine: Machine) -> Execute:
    """``s_and_saveexec`` keeps what EXEC was, ``s_andn1_wrexec`` what it becomes."""
    match = re.match(r"s_(\w+?)_(saveexec|wrexec)_b(32|64)$", inst.name)
    if not match or match[1] not in _EXEC_OPERATIONS:
        raise UnsupportedError("EXEC")
    function, kind = _EXEC_OPERATIONS[match[1]], f"b{match[3]}"
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


def _program_counter(inst: Instruction, machine: Machine) -> Execute:
    target, after = inst.operands[0], inst.address + inst.size
    return lambda m: put_scalar(m, target, "b64", np.full(m.running, after, _U64))


def _set_register(inst: Instruction, machine: Machine) -> Execute:
    """FLAT_SCRATCH alone: where private memory lies is known without it."""
    if "FLAT_SCR" not in inst.modifiers["text"]:
        raise UnsupportedError("")
    return lambda m: None


_FAMILIES: Families = (
    (r"s_setreg_b32$", _set_register),
    (r"s_(addc|subb)_u32$|s_(add|sub)_co_ci_u32$", _with_carry),
    (r"s_cmpk?_|s_bitcmp", _compare),
    (r"s_cselect_b(32|64)$", _select),
    (r"s_cmov(k?)_", _move_if),
    (r"s_\w+_(saveexec|wrexec)_b(32|64)$", _save_exec),
    (r"s_getpc_b64$", _program_counter),
)


def build_scalar(inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of a scalar instruction that computes; None if its name is not known here.

    Raises
    ------
    UnsupportedError
        A form of it that is not emulated.
    """
    if inst.name in _BINARY:
        return _binary(inst, machine)
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
