"""Matrix instructions: MFMA of CDNA, WMMA of RDNA3.

Sources: CDNA2 and CDNA3 ISA, chapter 7 ("Matrix Arithmetic Instructions"), RDNA3 ISA, 7.9
("Wave Matrix Multiply Accumulate"), RDNA4 ISA, 7.12. Every element is C plus products in the order
of k, each added with one rounding; hardware may add in another order. Denormals are kept.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from . import floats
from .floats import BF16, F16, F32, F64, Format
from .machine import Instruction, Operand, Wave, read_lane, read_scalar, signed, write_lane

Grid = dict[tuple[int, int, int], int]  # (block, row or column, k or column) to bits


class Shape(NamedTuple):
    m: int
    n: int
    k: int
    blocks: int
    kind: str  # of A and B: f16, bf16, f32, xf32, f64, i8
    per_lane: int  # elements of A in a lane

    @property
    def bits(self) -> int:
        return {"f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64}.get(self.kind, 8)


def shape(base: str) -> Shape | None:
    """From a name such as v_mfma_f32_32x32x8f16 or v_mfma_f32_16x16x4_4b_f16.

    The older bf16 instructions (without _1k) have two elements in a lane, all later ones of
    16 bits four; i8 has four, from gfx942 on with eight times 16 or 32 rows eight.
    """
    match = re.fullmatch(
        r"v_mfma_(f32|i32|f64)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?(f16|bf16|xf32|f32|f64|i8|[fb][pf]8_[fb][pf]8)(_1k)?",
        base,
    )
    if not match:
        return None
    m, n, k = (int(match[i]) for i in (2, 3, 4))
    kind = match[6]
    # Rows times groups of k times blocks fill the 64 lanes.
    blocks = int(match[5] or 0)
    old_bf16 = kind == "bf16" and not match[7] and "_bf16" not in base
    sizes = {"f16": 4, "bf16": 2 if old_bf16 else 4, "f32": 1, "xf32": 2, "f64": 1, "i8": 4}
    per_lane = sizes.get(kind, 8)
    if kind == "i8" and (m, k) in ((32, 16), (16, 32)):
        per_lane = 8
    groups = 64 // m
    if not blocks:
        blocks = max(1, groups * per_lane // k)
    return Shape(m, n, k, blocks, kind, per_lane)


def a_lane(s: Shape, i: int, group: int, block: int) -> int:
    """Lane of row i (column of B): blocks and groups of k follow each other.

    4x4x4 of f64 has the four blocks innermost, and k above them.
    """
    if s.m == 4 and s.kind == "f64":
        return i + 4 * block + 16 * group
    return i + s.m * (block + s.blocks * group)


def read_factor(wave: Wave, s: Shape, operand: Operand, lane_map: Callable[[int], int]) -> Grid:
    out: Grid = {}
    width = max(32, s.bits * s.per_lane)
    for block in range(s.blocks):
        for i in range(s.m):
            for k in range(s.k):
                lane = lane_map(a_lane(s, i, k // s.per_lane, block))
                bits = read_lane(wave, operand, width, lane)
                element = bits >> s.bits * (k % s.per_lane) & (1 << s.bits) - 1
                out[block, i, k] = element
    return out


def c_places(s: Shape) -> list[tuple[int, int, int, int, int]]:
    """(block, row, column, element, lane) of C and D."""
    out = []
    for lane in range(64):
        for block in range(s.blocks):
            if s.m == 32:
                for e in range(16):
                    row = 8 * (e // 4) + 4 * (lane // 32) + e % 4
                    out.append((block, row, lane % 32, 16 * block + e, lane))
            elif s.m == 16:
                for e in range(4):
                    row = 4 * (lane // 16) + e if s.kind != "f64" else 4 * e + lane // 16
                    out.append((block, row, lane % 16, 4 * block + e, lane))
            elif s.kind == "f64":
                if block == lane // 4 % 4:
                    out.append((block, lane // 16, lane % 4, 0, lane))
            elif block == lane // 4:
                out.extend((block, e, lane % 4, e, lane) for e in range(4))
    return out


def lane_pattern(blgp: int) -> Callable[[int], int]:
    """BLGP: which lanes of B are read (CDNA3 ISA, 7.1.3)."""
    return {
        0: lambda lane: lane,
        1: lambda lane: lane % 32,
        2: lambda lane: lane % 32 + 32,
        3: lambda lane: (lane + 16) % 64,
        4: lambda lane: lane % 16,
        5: lambda lane: lane % 16 + 16,
        6: lambda lane: lane % 16 + 32,
        7: lambda lane: lane % 16 + 48,
    }[blgp]


def widen(kind: str) -> Callable[[int], int]:
    """An element as what it is multiplied as."""
    if kind in ("f16", "bf16"):
        f = F16 if kind == "f16" else BF16
        return lambda bits: floats.convert(bits, f, F32)
    if kind == "xf32":  # TF32: ten bits of mantissa, the rest is cut
        return lambda bits: bits & ~0x1FFF
    if kind == "i8":
        return lambda bits: signed(bits, 8)
    if kind in ("fp8", "bf8"):  # gfx942 only, with its formats
        return lambda bits: floats.from_small(bits, kind, True)
    return lambda bits: bits


def mfma(wave: Wave, ins: Instruction) -> bool:
    """D = A B + C in blocks, whatever EXEC says."""
    s = shape(ins.base)
    if s is None or wave.lanes != 64:
        return False
    output, a_operand, b_operand, c_operand = ins.operands
    blgp = ins.modifiers.get("blgp", 0)
    assert isinstance(blgp, int)
    a = read_factor(wave, s, a_operand, lambda lane: lane)
    b = read_factor(wave, s, b_operand, lane_pattern(blgp))
    cbsz, abid = (int(str(ins.modifiers.get(key, 0))) for key in ("cbsz", "abid"))
    element_bits = 64 if s.kind == "f64" else 32
    wide_a, wide_b = (widen(kind) for kind in (s.kind.split("_") * 2)[:2])
    negate = ins.bits("neg", 3)
    results = []
    for block, row, column, element, lane in c_places(s):
        place = c_operand
        if c_operand.kind in "va":
            place = c_operand._replace(index=c_operand.index + element * element_bits // 32)
            total = read_lane(wave, place, element_bits, lane)
        else:
            total = read_scalar(wave, c_operand, element_bits, "i" if s.kind == "i8" else "f")
        a_block = block
        if cbsz:
            size = 1 << cbsz
            a_block = block // size * size + abid
        if s.kind == "i8":
            total = signed(total, 32)
        if negate[2]:
            total ^= F64.sign
        for k in range(s.k):
            x, y = wide_a(a[a_block, row, k]), wide_b(b[block, column, k])
            x, y = (z ^ F64.sign if n else z for z, n in zip((x, y), negate[:2], strict=True))
            if s.kind == "i8":
                total += x * y
            else:
                total = floats.fma(x, y, total, F64 if s.kind == "f64" else F32)
        place = output._replace(index=output.index + element * element_bits // 32)
        results.append((place, lane, total & (1 << element_bits) - 1))
    for place, lane, bits in results:
        write_lane(wave, place, element_bits, lane, bits)
    return True


WMMA = {  # kind of A and B, kind of C and D
    "v_wmma_f32_16x16x16_f16": ("f16", "f32"),
    "v_wmma_f32_16x16x16_bf16": ("bf16", "f32"),
    "v_wmma_f16_16x16x16_f16": ("f16", "f16"),
    "v_wmma_bf16_16x16x16_bf16": ("bf16", "bf16"),
    "v_wmma_i32_16x16x16_iu8": ("iu8", "i32"),
    "v_wmma_i32_16x16x16_iu4": ("iu4", "i32"),
}
FLOATS: dict[str, Format] = {"f16": F16, "bf16": BF16, "f32": F32}


def wmma(wave: Wave, ins: Instruction) -> bool:
    """16 x 16 x 16. RDNA3: row i of A in lane i, all k; lanes 16 to 31 hold copies, not read here.

    RDNA3 result: row 2e + lane // 16 with 32 lanes, 4e + lane // 16 with 64, column lane % 16;
    16-bit results take a half of each register, by op_sel[2].
    """
    if ins.base not in WMMA:
        return False
    kind, result = WMMA[ins.base]
    output, a_operand, b_operand, c_operand = ins.operands
    bits = {"f16": 16, "bf16": 16, "iu8": 8, "iu4": 4}[kind]
    neg_lo, neg_hi = ins.bits("neg_lo", 3), ins.bits("neg_hi", 3)

    def factor(operand: Operand, which: int) -> list[list[int]]:
        rows = []
        for i in range(16):
            row = []
            for k in range(16):
                place = operand._replace(index=operand.index + k * bits // 32)
                element = read_lane(wave, place, 32, i) >> k * bits % 32 & (1 << bits) - 1
                if kind in FLOATS:
                    f = FLOATS[kind]
                    if (neg_hi if k % 2 else neg_lo)[which]:
                        element ^= f.sign
                    if result == "f32":
                        element = floats.convert(element, f, F32)
                elif neg_lo[which]:
                    element = signed(element, bits)
                row.append(element)
            rows.append(row)
        return rows

    a, b = factor(a_operand, 0), factor(b_operand, 1)
    high = ins.bits("op_sel", 3)[2]
    halves = result in ("f16", "bf16")
    writes: list[tuple[Operand, int, int, int]] = []
    for lane in range(wave.lanes):
        for e in range(256 // wave.lanes):
            row = wave.lanes // 16 * e + lane // 16
            index, shift = e, 16 * high if halves else 0
            total = start_value(wave, c_operand, index, shift, lane, result)
            if halves or result == "f32":
                f = FLOATS[result]
                if neg_hi[2]:
                    total &= ~f.sign
                if neg_lo[2]:
                    total ^= f.sign
                for x, y in zip(a[row], b[lane % 16], strict=True):
                    total = floats.fma(x, y, total, f)
            else:
                total = signed(total, 32)
                total += sum(x * y for x, y in zip(a[row], b[lane % 16], strict=True))
                if "clamp" in ins.modifiers:
                    total = max(-(1 << 31), min((1 << 31) - 1, total))
            writes.append((output._replace(index=output.index + index), lane, shift, total))
    for place, lane, shift, total in writes:
        if halves:
            old = read_lane(wave, place, 32, lane)
            total = old & ~(0xFFFF << shift) | total << shift
        write_lane(wave, place, 32, lane, total & 0xFFFFFFFF)
    return True


def start_value(
    wave: Wave, operand: Operand, index: int, shift: int, lane: int, result: str
) -> int:
    if operand.kind not in "va":
        width = 16 if result in ("f16", "bf16") else 32
        return read_scalar(wave, operand, width, "i" if result == "i32" else "f")
    place = operand._replace(index=operand.index + index)
    word = read_lane(wave, place, 32, lane)
    return word >> shift & 0xFFFF if result in ("f16", "bf16") else word


def execute(wave: Wave, ins: Instruction) -> bool:
    if ins.base.startswith("v_mfma"):
        return mfma(wave, ins)
    return ins.base.startswith("v_wmma") and wmma(wave, ins)
