"""Scalar ALU, compares, branches and program flow.

Sources: CDNA3 ISA, chapters 4 and 5 and "SOP2 Instructions" to "SOPP Instructions"; RDNA3 ISA,
the same chapters. A function gives a result, or a result and SCC. Types as in the vector
table, and the pseudo sources "scc" (SCC) and "dst" (the destination before the write).
"""

from collections.abc import Callable
from typing import NamedTuple

from .machine import (
    EXEC,
    MASK32,
    VCC,
    Instruction,
    Operand,
    Wave,
    read_scalar,
    signed,
    write_scalar,
)

Result = object


class ScalarOp(NamedTuple):
    dst: str  # "" where only SCC is written
    src: tuple[str, ...]
    compute: Callable[..., Result]


SCALAR: dict[str, ScalarOp] = {}


def op(name: str, dst: str, src: str, compute: Callable[..., Result]) -> None:
    SCALAR[name] = ScalarOp(dst, tuple(src.split()), compute)


def nonzero(function: Callable[..., int], bits: int) -> Callable[..., tuple[int, int]]:
    """SCC says whether the result is not 0."""

    def compute(*sources: int) -> tuple[int, int]:
        result = function(*sources) & (1 << bits) - 1
        return result, int(result != 0)

    return compute


def overflow(exact: int) -> tuple[int, int]:
    return exact, int(not -(1 << 31) <= exact < 1 << 31)


def field(a: int, control: int, bits: int, sign: bool) -> int:
    """S_BFE: offset in the low bits of the control, width in bits 16 to 22."""
    start, width = control & bits - 1, control >> 16 & 0x7F
    if width == 0:
        return 0
    if sign:
        return signed(signed(a, bits) >> start, min(width, bits))
    return a >> start & (1 << width) - 1


def any_of_four(a: int, bits: int, whole: bool) -> int:
    """S_QUADMASK (a bit for each four) and S_WQM (four bits for each four)."""
    quads = [a >> i & 15 for i in range(0, bits, 4)]
    if whole:
        return sum(15 << 4 * i for i, quad in enumerate(quads) if quad)
    return sum(1 << i for i, quad in enumerate(quads) if quad)


def leading(a: int, bits: int) -> int:
    return bits - a.bit_length() if a else -1


def trailing(a: int) -> int:
    return (a & -a).bit_length() - 1 if a else -1


LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "andn1": lambda a, b: ~a & b,
    "orn1": lambda a, b: ~a | b,
}
NEW_LOGIC = {"and_not1": "andn2", "or_not1": "orn2", "and_not0": "andn1", "or_not0": "orn1"}
LOGIC |= {new: LOGIC[old] for new, old in NEW_LOGIC.items()}


def _arithmetic() -> None:
    carry = lambda a, b: (a + b, a + b >> 32)  # noqa: E731
    borrow = lambda a, b: (a - b, int(b > a))  # noqa: E731
    op("s_add_u32", "u32", "u32 u32", carry)
    op("s_sub_u32", "u32", "u32 u32", borrow)
    op("s_add_i32", "i32", "i32 i32", lambda a, b: overflow(a + b))
    op("s_sub_i32", "i32", "i32 i32", lambda a, b: overflow(a - b))
    op("s_addc_u32", "u32", "u32 u32 scc", lambda a, b, c: (a + b + c, a + b + c >> 32))
    op("s_subb_u32", "u32", "u32 u32 scc", lambda a, b, c: (a - b - c, int(b + c > a)))
    op("s_mul_i32", "i32", "i32 i32", lambda a, b: a * b)
    op("s_mul_hi_u32", "u32", "u32 u32", lambda a, b: a * b >> 32)
    op("s_mul_hi_i32", "i32", "i32 i32", lambda a, b: a * b >> 32)
    for t in ("i32", "u32"):
        op(f"s_min_{t}", t, f"{t} {t}", lambda a, b: (min(a, b), int(a < b)))
        op(f"s_max_{t}", t, f"{t} {t}", lambda a, b: (max(a, b), int(a >= b)))
    op("s_abs_i32", "i32", "i32", nonzero(abs, 32))
    op("s_absdiff_i32", "i32", "i32 i32", nonzero(_wrapped_difference, 32))
    for n in range(1, 5):
        op(
            f"s_lshl{n}_add_u32",
            "u32",
            "u32 u32",
            lambda a, b, n=n: ((a << n) + b, int((a << n) + b > MASK32)),
        )
    op("s_addk_i32", "i32", "dst k_i16", lambda a, k: overflow(a + k))
    op("s_mulk_i32", "i32", "dst k_i16", lambda a, k: a * k)
    op("s_movk_i32", "i32", "k_i16", lambda k: k)
    op("s_cmovk_i32", "i32", "dst k_i16 scc", lambda old, k, scc: k if scc else old)


def _wrapped_difference(a: int, b: int) -> int:
    return abs(signed(a - b, 32))


def _bits() -> None:
    for bits in (32, 64):
        b, u, i = f"b{bits}", f"u{bits}", f"i{bits}"
        for name, function in LOGIC.items():
            if not name.endswith(("n1", "not0")):
                op(f"s_{name}_{b}", b, f"{b} {b}", nonzero(function, bits))
        ones = (1 << bits) - 1
        op(f"s_not_{b}", b, b, nonzero(lambda a, ones=ones: a ^ ones, bits))
        op(f"s_lshl_{b}", b, f"{b} u32", nonzero(lambda a, n, m=bits - 1: a << (n & m), bits))
        op(f"s_lshr_{b}", b, f"{b} u32", nonzero(lambda a, n, m=bits - 1: a >> (n & m), bits))
        op(f"s_ashr_{i}", i, f"{i} u32", nonzero(lambda a, n, m=bits - 1: a >> (n & m), bits))
        op(f"s_bfe_{u}", u, f"{u} u32", nonzero(lambda a, c, n=bits: field(a, c, n, False), bits))
        op(f"s_bfe_{i}", i, f"{i} u32", nonzero(lambda a, c, n=bits: field(a, c, n, True), bits))
        op(f"s_bfm_{b}", b, "u32 u32", lambda a, c, m=bits - 1: (1 << (a & m)) - 1 << (c & m))
        op(f"s_mov_{b}", b, b, lambda a: a)
        op(f"s_cmov_{b}", b, f"dst {b} scc", lambda old, a, scc: a if scc else old)
        op(f"s_cselect_{b}", b, f"{b} {b} scc", lambda a, c, scc: a if scc else c)
        op(f"s_brev_{b}", b, b, lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        op(f"s_bcnt1_i32_{b}", "i32", b, nonzero(int.bit_count, 32))
        op(f"s_bcnt0_i32_{b}", "i32", b, nonzero(lambda a, n=bits: n - a.bit_count(), 32))
        if bits == 32:
            doubled = lambda a: int("".join(2 * bit for bit in f"{a:032b}"), 2)  # noqa: E731
            op("s_bitreplicate_b64_b32", "b64", "b32", doubled)
        op(f"s_quadmask_{b}", b, b, nonzero(lambda a, n=bits: any_of_four(a, n, False), bits))
        op(f"s_wqm_{b}", b, b, nonzero(lambda a, n=bits: any_of_four(a, n, True), bits))
        op(f"s_bitset0_{b}", b, "dst u32", lambda d, n, m=bits - 1: d & ~(1 << (n & m)))
        op(f"s_bitset1_{b}", b, "dst u32", lambda d, n, m=bits - 1: d | 1 << (n & m))
        op(f"s_bitcmp0_{b}", "", f"{b} u32", lambda a, n, m=bits - 1: 1 - (a >> (n & m) & 1))
        op(f"s_bitcmp1_{b}", "", f"{b} u32", lambda a, n, m=bits - 1: a >> (n & m) & 1)
        for name in (f"s_ff1_i32_{b}", f"s_ctz_i32_{b}"):
            op(name, "i32", b, trailing)
        op(f"s_ff0_i32_{b}", "i32", b, lambda a, ones=ones: trailing(a ^ ones))
        for name in (f"s_flbit_i32_{b}", f"s_clz_i32_{u}"):
            op(name, "i32", b, lambda a, n=bits: leading(a, n))
        names = ("s_flbit_i32", "s_cls_i32") if bits == 32 else ("s_flbit_i32_i64", "s_cls_i32_i64")
        for name in names:
            op(name, "i32", i, lambda a, n=bits: leading(a ^ -1 if a < 0 else a, n))
    op("s_sext_i32_i8", "i32", "b32", lambda a: signed(a, 8))
    op("s_sext_i32_i16", "i32", "b32", lambda a: signed(a, 16))
    op("s_pack_ll_b32_b16", "b32", "b32 b32", lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16)
    op("s_pack_lh_b32_b16", "b32", "b32 b32", lambda a, b: a & 0xFFFF | b >> 16 << 16)
    op("s_pack_hh_b32_b16", "b32", "b32 b32", lambda a, b: a >> 16 | b >> 16 << 16)
    op("s_pack_hl_b32_b16", "b32", "b32 b32", lambda a, b: a >> 16 | (b & 0xFFFF) << 16)


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def _compares() -> None:
    for name, test in RELATIONS.items():
        for t in ("i32", "u32", "u64"):
            op(f"s_cmp_{name}_{t}", "", f"{t} {t}", lambda a, b, test=test: int(test(a, b)))
        for t in ("i32", "u32"):
            k = f"k_{t[0]}16"
            op(f"s_cmpk_{name}_{t}", "", f"{t} {k}", lambda a, b, test=test: int(test(a, b)))


_arithmetic()
_bits()
_compares()


def source(wave: Wave, operand: Operand, t: str) -> int:
    if t.startswith("k_"):
        k = int(operand.name, 0) & 0xFFFF
        return signed(k, 16) if t == "k_i16" else k
    width = int(t[1:])
    bits = read_scalar(wave, operand, width, t[0])
    return signed(bits, width) if t[0] == "i" else bits


def execute(wave: Wave, ins: Instruction) -> bool:
    """Carry out an instruction that only touches SGPRs, EXEC and SCC; False if it is not one."""
    if ins.base in EXEC_LOGIC:
        return mask_exec(wave, ins)
    if ins.base.startswith("s_set_gpr_idx_"):
        return set_index(wave, ins)
    if ins.base.startswith("s_movrel"):
        return move_relative(wave, ins)
    if ins.base not in SCALAR:
        return False
    s = SCALAR[ins.base]
    operands = list(ins.operands)
    output = operands.pop(0) if s.dst else None
    values = []
    for t in s.src:
        if t == "scc":
            values.append(wave.scc)
        elif t == "dst":
            assert output is not None
            values.append(source(wave, output, s.dst))
        else:
            values.append(source(wave, operands.pop(0), t))
    result = s.compute(*values)
    if output is None:
        wave.scc = int(result)
        return True
    if isinstance(result, tuple):
        result, wave.scc = result
    width = int(s.dst[1:])
    write_scalar(wave, output, max(32, width), result & (1 << width) - 1)
    return True


def move_relative(wave: Wave, ins: Instruction) -> bool:
    """S_MOVRELS, S_MOVRELD: M0 is added to the number of an SGPR (CDNA3 and RDNA2 ISA, SOP1)."""
    output, operand = ins.operands
    by_source = wave.m0 & 0x3FF if ins.base == "s_movrelsd_2_b32" else wave.m0
    if "movreld" not in ins.base:
        operand = operand._replace(index=operand.index + by_source)
    if "movrels_" not in ins.base:
        by_target = wave.m0 >> 16 & 0x3FF if ins.base == "s_movrelsd_2_b32" else wave.m0
        output = output._replace(index=output.index + by_target)
    width = int(ins.base[-2:])
    write_scalar(wave, output, width, read_scalar(wave, operand, width))
    return True


MOVES = ("s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64", "s_movrelsd_2_b32")


def set_index(wave: Wave, ins: Instruction) -> bool:
    """S_SET_GPR_IDX_ON, OFF, MODE, IDX: the mode, M0[7:0] and M0[15:12] (Vega ISA, SOPC, SOPP)."""
    what = ins.base.rpartition("_")[2]
    if what in ("on", "off"):
        wave.indexing = what == "on"
    if what in ("on", "idx"):
        wave.m0 = wave.m0 & ~0xFF | read_scalar(wave, ins.operands[0], 32) & 0xFF
    if what in ("on", "mode"):
        named = ins.operands[-1].name
        bits = [bit for bit, name in enumerate(("SRC0", "SRC1", "SRC2", "DST")) if name in named]
        wave.m0 = wave.m0 & ~0xF000 | sum(1 << 12 + bit for bit in bits)
    return True


EXEC_LOGIC = {
    f"s_{name}_{what}_b{bits}": (name, bits, what == "wrexec")
    for name in LOGIC
    for what in ("saveexec", "wrexec")
    for bits in (32, 64)
    if what == "saveexec" or (name.startswith("and") and name != "and")
}
"""Logic, bits and whether the result is the new EXEC, which else is the old one."""


def mask_exec(wave: Wave, ins: Instruction) -> bool:
    """Logic of the source and EXEC, in this order; SCC says whether a lane is left."""
    name, bits, new = EXEC_LOGIC[ins.base]
    output, operand = ins.operands
    old = read_scalar(wave, EXEC[wave.lanes if bits == 64 else 32], bits)
    result = LOGIC[name](read_scalar(wave, operand, bits), old) & (1 << bits) - 1
    write_scalar(wave, EXEC[wave.lanes], wave.lanes, result)
    write_scalar(wave, output, bits, result if new else old)
    wave.scc = int(result != 0)
    return True


def branch(wave: Wave, ins: Instruction, following: int) -> int | None:
    """Address that comes next after an instruction of program flow, None if it is not one."""
    conditions: dict[str, Callable[[], bool]] = {
        "s_cbranch_scc0": lambda: wave.scc == 0,
        "s_cbranch_scc1": lambda: wave.scc == 1,
        "s_cbranch_vccz": lambda: read_scalar(wave, VCC[wave.lanes], wave.lanes) == 0,
        "s_cbranch_vccnz": lambda: read_scalar(wave, VCC[wave.lanes], wave.lanes) != 0,
        "s_cbranch_execz": lambda: wave.exec == 0,
        "s_cbranch_execnz": lambda: wave.exec != 0,
    }
    if ins.base not in conditions:
        return None
    return following + 4 * words(ins.operands[0]) if conditions[ins.base]() else following


def words(operand: Operand) -> int:
    return signed(int(operand.name, 0), 16)
