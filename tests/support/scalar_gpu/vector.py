"""Vector ALU: operands with their modifiers, DPP and SDWA, results of all lanes before writes.

Sources: CDNA3 ISA, sections "VOP", "SDWA", "DPP"; RDNA3 ISA, sections "VOP", "DPP16", "DPP8";
LLVM's "Syntax of AMDGPU Instruction Modifiers".
"""

from collections.abc import Callable

from . import floats
from .floats import BF8, FORMATS, FP8
from .machine import (
    EXEC,
    VCC,
    Instruction,
    Operand,
    Wave,
    read_lane,
    read_scalar,
    signed,
    write_lane,
    write_scalar,
)
from .vector_table import (
    KEEPS_UPPER_HALF,
    LIMITS,
    OPS,
    PACKED,
    Op,
    masked_sad,
    parts,
    sad,
    saturate,
    unfused,
)

Write = Callable[[], None]


def width_of(t: str) -> int:
    return int(t.lstrip("bfius"))


def apply_signs(bits: int, width: int, operand: Operand) -> int:
    """|x| and then -x, on the sign bit."""
    sign = 1 << width - 1
    if operand.abs:
        bits &= ~sign
    if operand.neg:
        bits ^= sign
    return bits


def typed(bits: int, t: str) -> int:
    width = width_of(t)
    return signed(bits, width) if t[0] == "i" else bits & (1 << width) - 1


# DPP: where the first source of a lane comes from.
def dpp_source(wave: Wave, ins: Instruction, lane: int) -> int | None:
    """Lane to read, None where there is none."""
    m = ins.modifiers
    row, place = lane & ~15, lane & 15

    def within(i: int) -> int | None:
        return row + i if 0 <= i < 16 else None

    if "quad_perm" in m:
        return lane & ~3 | m["quad_perm"][lane & 3]
    if "row_shl" in m:
        return within(place + m["row_shl"])
    if "row_shr" in m:
        return within(place - m["row_shr"])
    if "row_ror" in m:
        return row | (place - m["row_ror"]) % 16
    if "row_mirror" in m:
        return row | 15 - place
    if "row_half_mirror" in m:
        return lane & ~7 | 7 - (lane & 7)
    if "row_share" in m or "row_newbcast" in m:
        return row | m.get("row_share", m.get("row_newbcast"))
    if "row_xmask" in m:
        return row | place ^ m["row_xmask"]
    if "row_bcast" in m:
        if m["row_bcast"] == 15:
            return row - 1 if row else None
        return 31 if lane >= 32 else None
    if "wave_shl" in m:
        return lane + 1 if lane + 1 < wave.lanes else None
    if "wave_shr" in m:
        return lane - 1 if lane else None
    if "wave_rol" in m:
        return (lane + 1) % wave.lanes
    if "wave_ror" in m:
        return (lane - 1) % wave.lanes
    return lane & ~7 | m["dpp8"][lane & 7]


def dpp_lane(wave: Wave, ins: Instruction, lane: int) -> int | str:
    """Source lane, or "zero", or "skip" for a lane that is not written."""
    m = ins.modifiers
    if "dpp8" not in m and not (
        m.get("row_mask", 15) >> lane // 16 & 1 and m.get("bank_mask", 15) >> lane % 16 // 4 & 1
    ):
        return "skip"
    source = dpp_source(wave, ins, lane)
    if source is not None and (wave.exec >> source & 1 or m.get("fi")):
        return source
    return "zero" if "bound_ctrl" in m or "dpp8" in m else "skip"


SDWA_FIELDS = {f"BYTE_{i}": (8 * i, 8) for i in range(4)}
SDWA_FIELDS |= {"WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}


class Reader:
    """Sources of one instruction."""

    def __init__(self, wave: Wave, ins: Instruction) -> None:
        self.wave, self.ins = wave, ins
        self.op_sel = ins.bits("op_sel", 4)

    def raw(self, operand: Operand, t: str, lane: int, position: int) -> int:
        """Bits of a source before its signs; sources of 16 bits from the half that is meant."""
        if self.ins.dpp and position == 0 and operand.kind == "v":
            source = dpp_lane(self.wave, self.ins, lane)
            bits = 0 if source == "zero" else self.whole(operand, t, source)
        else:
            bits = self.whole(operand, t, lane)
        select = self.ins.modifiers.get(f"src{position}_sel")
        if select and select != "DWORD":
            first, width = SDWA_FIELDS[select]
            bits = bits >> first & (1 << width) - 1
            if operand.sext:
                bits = signed(bits, width) & (1 << 32) - 1
        elif width_of(t) == 16 and not self.ins.sdwa and self.op_sel[position]:
            bits >>= 16
        return bits

    def whole(self, operand: Operand, t: str, lane: int) -> int:
        width = width_of(t)
        if operand.kind != "k":
            width = max(width, 32)
        return read_lane(self.wave, operand, width, lane, t[0])

    def value(self, operand: Operand, t: str, lane: int, position: int) -> int:
        bits = self.raw(operand, t, lane, position)
        width = width_of(t)
        if t[0] != "i" or not self.ins.sdwa:
            bits = apply_signs(bits & (1 << width) - 1, width, operand)
        return typed(bits, t)


def mask_bit(wave: Wave, operand: Operand, lane: int) -> int:
    return read_scalar(wave, operand, wave.lanes) >> lane & 1


def finish(ins: Instruction, result: int, t: str) -> int:
    """Clamp, and wrap to the width."""
    f, kind = FORMATS.get(t.removeprefix("s")), t[0]
    if f is not None:
        return floats.clamp(result, f) if "clamp" in ins.modifiers else result
    if "clamp" in ins.modifiers and t in LIMITS and kind in "iu":
        result = saturate(result, t)
    return result & (1 << width_of(t)) - 1


def merge(ins: Instruction, old: int, result: int, t: str) -> int:
    """Register after the write of a result: halves, SDWA destinations."""
    width = width_of(t)
    if ins.sdwa and "dst_sel" in ins.modifiers:
        first, bits = SDWA_FIELDS[ins.modifiers["dst_sel"]]
        if bits == 32:
            return result
        field = (1 << bits) - 1 << first
        unused = ins.modifiers.get("dst_unused", "UNUSED_PAD")
        placed = (result << first) & field
        if unused == "UNUSED_PRESERVE":
            return old & ~field | placed
        if unused == "UNUSED_SEXT":
            return signed(placed >> first, bits) << first & (1 << 32) - 1
        return placed
    if width != 16:
        return result
    if ins.bits("op_sel", 4)[dst_position(ins)]:
        return old & 0xFFFF | (result & 0xFFFF) << 16
    keeps = not ins.gfx9 or ins.base in KEEPS_UPPER_HALF
    return (old & ~0xFFFF if keeps else 0) | result & 0xFFFF


def dst_position(ins: Instruction) -> int:
    """Place of the destination in op_sel: behind the sources, of three at most."""
    return max(0, len(ins.modifiers.get("op_sel", (0, 0, 0, 0))) - 1)


def evaluate(wave: Wave, ins: Instruction) -> list[Write]:
    """Results of an instruction of the table, as writes to be done later."""
    op = OPS[ins.base]
    if ins.base.startswith("v_cmp"):
        return compare(wave, ins, op)
    operands = list(ins.operands)
    outputs = [operands.pop(0) for _ in op.dst]
    if ins.base.startswith("v_cndmask") and len(operands) == 2:
        operands.append(VCC[wave.lanes])
    reader = Reader(wave, ins)
    writes: list[Write] = []
    carries = {i: 0 for i, t in enumerate(op.dst) if t == "mask"}
    for lane in wave.active():
        if ins.dpp and dpp_lane(wave, ins, lane) == "skip":
            continue
        values = arguments(reader, op, operands, outputs[0], lane)
        results = op.compute(*values)
        results = results if isinstance(results, tuple) else (results,)
        for i, (t, output, result) in enumerate(zip(op.dst, outputs, results, strict=True)):
            if t == "mask":
                carries[i] |= (result & 1) << lane
                continue
            bits, width = finish(ins, result, t), max(width_of(t), 32)
            old = read_lane(wave, output, width, lane)
            bits = merge(ins, old, bits, t)
            writes.append(lambda o=output, w=width, x=lane, b=bits: write_lane(wave, o, w, x, b))
    for i, bits in carries.items():
        output = outputs[i]
        writes.append(lambda o=output, b=bits: write_scalar(wave, o, wave.lanes, b))
    return writes


def arguments(
    reader: Reader, op: Op, operands: list[Operand], output: Operand, lane: int
) -> list[int]:
    values, position = [], 0
    for t in op.src:
        if t == "vcc":
            values.append(mask_bit(reader.wave, VCC[reader.wave.lanes], lane))
            continue
        if t == "mask":
            values.append(mask_bit(reader.wave, operands[position], lane))
        else:
            values.append(reader.value(operands[position], t, lane, position))
        position += 1
    if op.accumulate:
        t = op.dst[0]
        bits = read_lane(reader.wave, output, max(32, width_of(t)), lane)
        values.append(typed(bits, t))
    return values


def compare(wave: Wave, ins: Instruction, op: Op) -> list[Write]:
    """V_CMP and V_CMPX: a bit for each active lane, 0 for the others.

    V_CMPX writes EXEC; on gfx9 its destination too (CDNA3 ISA, 6.4; RDNA3 ISA, 7.3).
    """
    operands = list(ins.operands)
    outputs = []
    if not ins.base.startswith("v_cmpx") or ins.gfx9:
        outputs.append(operands.pop(0))
    if ins.base.startswith("v_cmpx"):
        outputs.append(EXEC[wave.lanes])
    reader, mask = Reader(wave, ins), 0
    for lane in wave.active():
        if ins.dpp and dpp_lane(wave, ins, lane) == "skip":
            continue
        values = [reader.value(x, t, lane, i) for i, (x, t) in enumerate(zip(operands, op.src))]  # noqa: B905
        mask |= op.compute(*values) << lane
    return [lambda o=output: write_scalar(wave, o, wave.lanes, mask) for output in outputs]


# Packed instructions.
def select_half(bits: int, upper: int, width: int) -> int:
    return bits >> width * upper & (1 << width) - 1


def packed(wave: Wave, ins: Instruction) -> list[Write]:
    """VOP3P: op_sel and neg_lo for the lower half of the result, op_sel_hi and neg_hi above."""
    p = PACKED[ins.base]
    output, *sources = ins.operands
    width = width_of(p.type)
    halves = (
        (ins.bits("op_sel", 3), ins.bits("neg_lo", 3)),
        (ins.bits("op_sel_hi", 3, 1), ins.bits("neg_hi", 3)),
    )
    writes: list[Write] = []
    for lane in wave.active():
        result = 0
        whole = [packed_source(wave, s, p.type, lane) for s in sources]
        for half, (select, negate) in enumerate(halves):
            values = []
            for i, bits in enumerate(whole):
                part = select_half(bits, select[i], width)
                if negate[i] and p.type[0] == "f":
                    part ^= 1 << width - 1
                values.append(typed(part, p.type))
            if p.accumulate:
                values.append(select_half(read_lane(wave, output, 2 * width, lane), half, width))
            result |= finish(ins, p.compute(*values), p.type) << width * half
        writes.append(lambda x=lane, b=result: write_lane(wave, output, 2 * width, x, b))
    return writes


def packed_source(wave: Wave, operand: Operand, t: str, lane: int) -> int:
    """All bits of a packed source.

    Inline constants stand in the lower half, sign-extended if they are integers; a float among
    integers has the bits of f32 (LLVM, getInlineEncodingV2I16); an f32 constant fills the lower
    register only (CDNA3 ISA, 6.2, "packed math").
    """
    if operand.kind != "k":
        return read_lane(wave, operand, 2 * width_of(t), lane)
    if t == "f32":
        return read_scalar(wave, operand, 32, "f")
    half = "." in operand.name and t == "f16"
    return read_scalar(wave, operand, 16 if half else 32, "f" if half else "i")


def mixed(wave: Wave, ins: Instruction) -> list[Write]:
    """V_FMA_MIX, V_MAD_MIX: op_sel_hi makes a source f16, op_sel says which half.

    The latter rounds the product too (LLVM selects it for `fmad`, the former for `fma`).
    """
    output, *sources = ins.operands
    add_product = unfused if ins.base.startswith("v_mad") else floats.fma
    high, select = ins.bits("op_sel_hi", 3), ins.bits("op_sel", 3)
    writes: list[Write] = []
    for lane in wave.active():
        values = []
        for i, s in enumerate(sources):
            bits = read_lane(wave, s, 32, lane)
            if high[i]:
                half = apply_signs(select_half(bits, select[i], 16), 16, s)
                values.append(floats.convert(half, floats.F16, floats.F32))
            else:
                values.append(apply_signs(bits, 32, s))
        result = add_product(*values, floats.F32)
        if ins.base.endswith("_mix_f32"):
            bits = finish(ins, result, "f32")
        else:
            half = finish(ins, floats.convert(result, floats.F32, floats.F16), "f16")
            old = read_lane(wave, output, 32, lane)
            upper = ins.base.endswith("mixhi_f16")
            bits = old & 0xFFFF | half << 16 if upper else old & ~0xFFFF | half
        writes.append(lambda x=lane, b=bits: write_lane(wave, output, 32, x, b))
    return writes


def move_pair(wave: Wave, ins: Instruction) -> list[Write]:
    """V_PK_MOV_B32: one register of each pair, by op_sel (low result) and its second bit."""
    output, a, b = ins.operands
    select = ins.bits("op_sel", 2)
    writes: list[Write] = []
    for lane in wave.active():
        words = [
            read_lane(wave, s, 64, lane) >> 32 * h for s, h in zip((a, b), select, strict=True)
        ]
        bits = words[0] & 0xFFFFFFFF | (words[1] & 0xFFFFFFFF) << 32
        writes.append(lambda x=lane, y=bits: write_lane(wave, output, 64, x, y))
    return writes


def dot_of_either_sign(wave: Wave, ins: Instruction) -> list[Write]:
    """V_DOT4_I32_IU8, V_DOT8_I32_IU4: neg_lo says which factors are signed (RDNA3 ISA)."""
    output, a, b, c = ins.operands
    bits = 8 if "iu8" in ins.base else 4
    sign = ins.bits("neg_lo", 3)
    writes: list[Write] = []
    for lane in wave.active():
        x, y = (parts(read_lane(wave, s, 32, lane), bits, bool(n)) for s, n in zip((a, b), sign))  # noqa: B905
        total = signed(read_lane(wave, c, 32, lane), 32)
        total += sum(p * q for p, q in zip(x, y, strict=True))
        result = finish(ins, total, "i32")
        writes.append(lambda n=lane, r=result: write_lane(wave, output, 32, n, r))
    return writes


def convert_small(wave: Wave, ins: Instruction) -> list[Write]:
    """V_CVT of 8-bit floats to f32: of the lowest byte, or the lowest two."""
    output, source = ins.operands
    f = BF8 if "bf8" in ins.base else FP8
    writes: list[Write] = []
    for lane in wave.active():
        bits = read_lane(wave, source, 32, lane)
        low, high = (floats.from_small(bits >> i & 0xFF, f) for i in (0, 8))
        width = 64 if "_pk_" in ins.base else 32
        word = low | high << 32
        writes.append(lambda x=lane, b=word, w=width: write_lane(wave, output, w, x, b))
    return writes


def convert_to_small(wave: Wave, ins: Instruction) -> list[Write]:
    """V_CVT_PK of two f32 to 8-bit floats: into the half of op_sel[2], the other one stays."""
    output, *sources = ins.operands
    f, upper = BF8 if "bf8" in ins.base else FP8, ins.bits("op_sel", 3)[2]
    writes: list[Write] = []
    for lane in wave.active():
        a, b = (apply_signs(read_lane(wave, s, 32, lane), 32, s) for s in sources)
        word, old = (
            floats.to_small(a, f) | floats.to_small(b, f) << 8,
            read_lane(wave, output, 32, lane),
        )
        bits = old & 0xFFFF | word << 16 if upper else old & ~0xFFFF | word
        writes.append(lambda x=lane, b=bits: write_lane(wave, output, 32, x, b))
    return writes


def quad_sad(wave: Wave, ins: Instruction) -> list[Write]:
    """V_QSAD, V_MQSAD: bytes n to n + 3 of the first source, n from 0 to 3, against the second."""
    output, window, reference, addend = ins.operands
    function, bits = masked_sad if "mqsad" in ins.base else sad, 16 if "_pk_" in ins.base else 32
    writes: list[Write] = []
    for lane in wave.active():
        whole, word = read_lane(wave, window, 64, lane), read_lane(wave, reference, 32, lane)
        before, result = read_lane(wave, addend, 4 * bits, lane), 0
        for n in range(4):
            old = before >> bits * n & (1 << bits) - 1
            total = function(whole >> 8 * n & 0xFFFFFFFF, word, old)
            result |= (total & (1 << bits) - 1) << bits * n
        writes.append(lambda x=lane, b=result: write_lane(wave, output, 4 * bits, x, b))
    return writes


# Across lanes.
def lane_counts(wave: Wave, ins: Instruction) -> list[Write]:
    """V_MBCNT: bits of the mask that belong to lanes below, plus the second source."""
    output, mask, base = ins.operands
    writes: list[Write] = []
    for lane in wave.active():
        below = (1 << lane) - 1
        below = below >> 32 if "_hi_" in ins.base else below & 0xFFFFFFFF
        count = (read_lane(wave, mask, 32, lane) & below).bit_count()
        total = count + read_lane(wave, base, 32, lane)
        writes.append(lambda x=lane, t=total: write_lane(wave, output, 32, x, t))
    return writes


def read_first_lane(wave: Wave, ins: Instruction) -> list[Write]:
    """Lowest active lane, lane 0 with none (CDNA3 ISA, V_READFIRSTLANE_B32)."""
    output, source = ins.operands
    lane = next(iter(wave.active()), 0)
    bits = read_lane(wave, source, 32, lane)
    return [lambda: write_scalar(wave, output, 32, bits)]


def read_one_lane(wave: Wave, ins: Instruction) -> list[Write]:
    """V_READLANE: whatever EXEC says; the lane number is taken modulo the number of lanes."""
    output, source, lane = ins.operands
    number = read_scalar(wave, lane, 32) % wave.lanes
    bits = read_lane(wave, source, 32, number)
    return [lambda: write_scalar(wave, output, 32, bits)]


def write_one_lane(wave: Wave, ins: Instruction) -> list[Write]:
    output, source, lane = ins.operands
    bits, number = read_scalar(wave, source, 32), read_scalar(wave, lane, 32) % wave.lanes
    return [lambda: write_lane(wave, output, 32, number, bits)]


def swap(wave: Wave, ins: Instruction) -> list[Write]:
    a, b = ins.operands
    writes: list[Write] = []
    for lane in wave.active():
        x, y = read_lane(wave, a, 32, lane), read_lane(wave, b, 32, lane)
        writes.append(lambda i=lane, z=x: write_lane(wave, b, 32, i, z))
        writes.append(lambda i=lane, z=y: write_lane(wave, a, 32, i, z))
    return writes


def permute_row(wave: Wave, ins: Instruction) -> list[Write]:
    """V_PERMLANE16 and V_PERMLANEX16: any lane of a row, or of the other one.

    op_sel[0] is fetch-inactive, op_sel[1] bound control: without the former, an inactive source
    lane gives 0 with the latter and else leaves the destination (RDNA2 ISA, V_PERMLANE16_B32).
    """
    output, source, *select = ins.operands
    fetch, bound, *_ = ins.bits("op_sel", 3)
    across = 16 if "permlanex16" in ins.base else 0
    pattern = read_scalar(wave, select[0], 32) | read_scalar(wave, select[1], 32) << 32
    writes: list[Write] = []
    for lane in wave.active():
        place = pattern >> 4 * (lane % 16) & 15
        origin = (lane & ~15 ^ across) | place
        if wave.exec >> origin & 1 or fetch:
            bits = read_lane(wave, source, 32, origin)
        elif bound:
            bits = 0
        else:
            continue
        writes.append(lambda x=lane, b=bits: write_lane(wave, output, 32, x, b))
    return writes


def exchange_halves(wave: Wave, ins: Instruction) -> list[Write]:
    """V_PERMLANE64: lane x gets lane x ^ 32, active or not; nothing with 32 lanes."""
    output, source = ins.operands
    if wave.lanes == 32:
        return []
    found = {x: read_lane(wave, source, 32, x ^ 32) for x in wave.active()}
    return [lambda x=x, b=b: write_lane(wave, output, 32, x, b) for x, b in found.items()]


def move_relative(wave: Wave, ins: Instruction) -> list[Write]:
    """V_MOVRELS, V_MOVRELD, V_MOVRELSD: M0 is added to the number of a register (RDNA2 ISA)."""
    output, source = ins.operands
    if ins.base != "v_movreld_b32":
        source = source._replace(index=source.index + wave.m0)
    if ins.base != "v_movrels_b32":
        output = output._replace(index=output.index + wave.m0)
    found = {x: read_lane(wave, source, 32, x) for x in wave.active()}
    return [lambda x=x, b=b: write_lane(wave, output, 32, x, b) for x, b in found.items()]


def with_index(wave: Wave, ins: Instruction) -> Instruction:
    """M0[15:12] says to which of src0, src1, src2, dst M0[7:0] is added (Vega ISA, gpr_idx_en)."""
    chosen = [wave.m0 >> bit & 1 for bit in (15, 12, 13, 14)]
    operands = [
        operand._replace(index=operand.index + (wave.m0 & 0xFF))
        if here and operand.kind == "v"
        else operand
        for operand, here in zip(ins.operands, chosen, strict=False)
    ]
    return ins._replace(operands=tuple(operands))


SPECIAL: dict[str, Callable[[Wave, Instruction], list[Write]]] = {
    "v_pk_mov_b32": move_pair,
    "v_dot4_i32_iu8": dot_of_either_sign,
    "v_dot8_i32_iu4": dot_of_either_sign,
    **{f"v_cvt_{x}": convert_small for x in ("f32_fp8", "f32_bf8", "pk_f32_fp8", "pk_f32_bf8")},
    **{f"v_cvt_pk_{x}_f32": convert_to_small for x in ("fp8", "bf8")},
    **{f"v_{x}": quad_sad for x in ("qsad_pk_u16_u8", "mqsad_pk_u16_u8", "mqsad_u32_u8")},
    "v_mbcnt_lo_u32_b32": lane_counts,
    "v_mbcnt_hi_u32_b32": lane_counts,
    "v_readfirstlane_b32": read_first_lane,
    "v_readlane_b32": read_one_lane,
    "v_writelane_b32": write_one_lane,
    "v_swap_b32": swap,
    "v_permlane16_b32": permute_row,
    "v_permlanex16_b32": permute_row,
    "v_permlane64_b32": exchange_halves,
    **{f"v_movrel{x}_b32": move_relative for x in ("s", "d", "sd")},
    **{f"v_{kind}_mix{x}": mixed for kind in ("fma", "mad") for x in ("_f32", "lo_f16", "hi_f16")},
}


def results(wave: Wave, ins: Instruction) -> list[Write]:
    """Writes of a vector instruction."""
    if wave.indexing:
        ins = with_index(wave, ins)
    if ins.base in SPECIAL:
        return SPECIAL[ins.base](wave, ins)
    return packed(wave, ins) if ins.base in PACKED else evaluate(wave, ins)
