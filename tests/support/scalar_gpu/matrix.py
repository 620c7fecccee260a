"""Matrix instructions: MFMA and SMFMAC of CDNA, WMMA of RDNA3.

Sources: CDNA2 and CDNA3 ISA, chapter 7 ("Matrix Arithmetic Instructions"), RDNA3 ISA, 7.9
("Wave Matrix Multiply Accumulate"). Every element is C plus products in the order of k, each added
with one rounding; hardware may add in another order. Denormals are kept. Matrices are in registers.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from . import floats
from .floats import BF8, BF16, F16, F32, F64, FP8
from .machine import Instruction, Operand, Wave, read_lane, signed, write_lane
from .vector import finish, typed

Grid = dict[tuple[int, int, int], int]  # (block, row or column, k or column) to bits


class Shape(NamedTuple):
    m: int
    k: int
    blocks: int
    kind: str  # of A and B: f16, bf16, f32, f64, i8, fp8_fp8, fp8_bf8 ...
    per_lane: int  # elements of A in a lane

    @property
    def bits(self) -> int:
        return {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(self.kind, 8)

    def of(self, number: int) -> str:
        """Kind of A or B."""
        return self.kind.split("_")[number] if "_" in self.kind else self.kind


def shape(base: str) -> Shape:
    """From a name such as v_mfma_f32_32x32x8f16 or v_mfma_f32_16x16x4_4b_f16.

    The older bf16 instructions (without _1k) have two elements in a lane, all later ones of
    16 bits four; i8 has four, from gfx942 on with eight times 16 or 32 rows eight.
    """
    match = re.fullmatch(
        r"v_s?mfma?c?_\w\d\d_(\d+)x\1x(\d+)(?:_(\d+)b)?_?([bf]*\d+|i8|[bf]p?f?8_[bf]p?f?8)(_1k)?",
        base,
    )
    assert match is not None
    m, k, kind = int(match[1]), int(match[2]), match[4]
    old_bf16 = kind == "bf16" and not match[5] and "_bf16" not in base
    per_lane = {"f16": 4, "bf16": 2 if old_bf16 else 4, "i8": 4}.get(kind, 8 if "8" in kind else 1)
    if kind == "i8" and ((m, k) in ((32, 16), (16, 32)) or "smfmac" in base):
        per_lane = 8
    if "smfmac" in base:
        return Shape(m, k, 1, kind, per_lane)
    # Rows times groups of k times blocks fill the 64 lanes.
    blocks = int(match[3] or max(1, 64 // m * per_lane // k))
    return Shape(m, k, blocks, kind, per_lane)


def lane_of_b(lane: int, blgp: int) -> int:
    """Lane that a lane of B reads: a half or a quarter of all, or the next 16."""
    if blgp > 3:
        return 16 * (blgp - 4) + lane % 16
    return (lane, lane % 32, lane % 32 + 32, (lane + 16) % 64)[blgp]


def read_factor(wave: Wave, s: Shape, operand: Operand, blgp: int = 0) -> Grid:
    """Blocks and groups of k follow each other in the lanes."""
    out: Grid = {}
    width = max(32, s.bits * s.per_lane)
    for block in range(s.blocks):
        for i in range(s.m):
            for k in range(s.k):
                lane = i + s.m * (block + s.blocks * (k // s.per_lane))
                bits = read_lane(wave, operand, width, lane_of_b(lane, blgp))
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


def widen(kind: str) -> Callable[[int], int]:
    """An element as what it is multiplied as."""
    if kind in ("f16", "bf16"):
        f = F16 if kind == "f16" else BF16
        return lambda bits: floats.convert(bits, f, F32)
    if kind in ("fp8", "bf8"):
        return lambda bits: floats.from_small(bits, FP8 if kind == "fp8" else BF8)
    return (lambda bits: signed(bits, 8)) if kind == "i8" else (lambda bits: bits)


def accumulate(kind: str, total: int, x: int, y: int) -> int:
    """Bits of C and a product of two elements more."""
    if kind.startswith("i"):
        return total + x * y
    return floats.fma(x, y, total, F64 if kind == "f64" else F32)


Pairs = Callable[[int, int, int], list[tuple[int, int]]]
"""Bits of the elements of A and B that are multiplied, of a block, a row and a column."""


def dense_pairs(wave: Wave, s: Shape, ins: Instruction) -> Pairs:
    """2^cbsz blocks have block abid of A among them."""
    cbsz, abid, blgp = (ins.modifiers.get(key, 0) for key in ("cbsz", "abid", "blgp"))
    a, b = read_factor(wave, s, ins.operands[1]), read_factor(wave, s, ins.operands[2], blgp)

    def pairs(block: int, row: int, column: int) -> list[tuple[int, int]]:
        of = (block >> cbsz << cbsz) + abid
        return [(a[of, row, k], b[block, column, k]) for k in range(s.k)]

    return pairs


def sparse_pairs(wave: Wave, s: Shape, ins: Instruction) -> Pairs:
    """Of four elements of A two are there; bits of the last operand, set abid, say which."""
    a = read_factor(wave, s._replace(k=s.k // 2), ins.operands[1])
    b = read_factor(wave, s._replace(per_lane=2 * s.per_lane), ins.operands[2])
    first = 0 if ins.modifiers.get("cbsz", 0) else 2 * s.per_lane * ins.modifiers.get("abid", 0)

    def pairs(block: int, row: int, column: int) -> list[tuple[int, int]]:
        out = []
        for e in range(s.k // 2):
            bits = read_lane(wave, ins.operands[3], 32, row + s.m * (e // s.per_lane))
            place = bits >> first + 2 * (e % s.per_lane) & 3
            out.append((a[block, row, e], b[block, column, 4 * (e // 2) + place]))
        return out

    return pairs


def mfma(wave: Wave, ins: Instruction) -> None:
    """D = A B + C in blocks, whatever EXEC says; the C of SMFMAC is D."""
    s, sparse = shape(ins.base), ins.base.startswith("v_smfmac")
    pairs = (sparse_pairs if sparse else dense_pairs)(wave, s, ins)
    output, c_operand = ins.operands[0], ins.operands[0 if sparse else 3]
    width, wide_a, wide_b = 64 if s.kind == "f64" else 32, widen(s.of(0)), widen(s.of(1))
    results = []
    for block, row, column, element, lane in c_places(s):
        ahead = element * width // 32
        place = c_operand._replace(index=c_operand.index + ahead)
        total = read_lane(wave, place, width, lane)
        for x, y in pairs(block, row, column):
            total = accumulate(s.kind, total, wide_a(x), wide_b(y))
        results.append((output._replace(index=output.index + ahead), lane, total))
    for place, lane, bits in results:
        write_lane(wave, place, width, lane, bits)


def wmma(wave: Wave, ins: Instruction) -> None:
    """16 x 16 x 16: row i of A in lane i, all k; lanes 16 to 31 hold copies, not read here.

    Results are row 2e + lane // 16, column lane % 16; those of 16 bits are in the half that
    op_sel[2] says, where C is too.
    """
    kind, t = ins.base.rpartition("_")[2], ins.base.split("_")[2]
    output, a_operand, b_operand, c_operand = ins.operands
    bits, neg_lo = int(kind[2:]) if "iu" in kind else 16, ins.bits("neg_lo", 3)
    first = 16 * ins.bits("op_sel", 3)[2]

    def factor(operand: Operand, negative: int) -> list[list[int]]:
        rows = []
        for i in range(16):
            row = []
            for k in range(16):
                place = operand._replace(index=operand.index + k * bits // 32)
                element = read_lane(wave, place, 32, i) >> k * bits % 32 & (1 << bits) - 1
                row.append(signed(element, bits) if negative else widen(kind)(element))
            rows.append(row)
        return rows

    a, b = factor(a_operand, neg_lo[0]), factor(b_operand, neg_lo[1])
    writes = []
    for lane in range(32):
        for e in range(8):
            bits_of_c = read_lane(wave, c_operand._replace(index=c_operand.index + e), 32, lane)
            total = (
                typed(bits_of_c, t) if t.endswith("32") else widen(t)(bits_of_c >> first & 0xFFFF)
            )
            for x, y in zip(a[2 * e + lane // 16], b[lane % 16], strict=True):
                total = accumulate(kind, total, x, y)
            place = output._replace(index=output.index + e)
            if t.endswith("32"):
                writes.append((place, lane, finish(ins, total, t)))
                continue
            half = floats.convert(total, F32, BF16 if t == "bf16" else F16)
            others = read_lane(wave, place, 32, lane) & ~(0xFFFF << first)
            writes.append((place, lane, others | half << first))
    for place, lane, total in writes:
        write_lane(wave, place, 32, lane, total)


def execute(wave: Wave, ins: Instruction) -> bool:
    function = {"v_mf": mfma, "v_sm": mfma, "v_wm": wmma}.get(ins.base[:4])
    if function is not None:
        function(wave, ins)
    return function is not None
