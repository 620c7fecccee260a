"""Random instructions for tests, in the words of llvm-objdump, and values worth testing.

Each mnemonic is drawn in each encoding that its kind has, for every generation, whether or not a
processor has it: what it computes does not depend on that.
"""

import random
from functools import cache
from typing import NamedTuple

from .machine import GFX9
from .scalar import EXEC_LOGIC, MOVES, SCALAR
from .vector import SPECIAL
from .vector_table import OPS, PACKED

FLOAT_CONSTANTS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494")
LITERALS = (
    *("0x3f800001", "0xbf99999a", "0x7f800000", "0xff7fffff", "0x12345678", "0xdeadbeef"),
    *("0x80000001", "0xffff", "0x7fffffff", "0xffffff9c", "0x65"),
)


def _field(exponent: int, mantissa: int) -> list[int]:
    """Edges of a float format as bits: zeros, denormals, ones, largest, infinities, NaNs."""
    infinity = ((1 << exponent) - 1) << mantissa
    one = ((1 << exponent - 1) - 1) << mantissa
    some = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one - 1, one, one + 1, one + (1 << mantissa)]
    some += [one - (1 << mantissa), one | 1 << mantissa - 1, one + (5 << mantissa), infinity - 1]
    some += [infinity, infinity | 1, infinity | 1 << mantissa - 1, infinity + (1 << mantissa) - 1]
    sign = 1 << exponent + mantissa
    return [x | s for s in (0, sign) for x in some]


def special_values(kind: str) -> list[int]:
    """Bit patterns at the edges of a type: f16, bf16, f32, f64, i16, u16, i32, u32, i64, u64."""
    formats = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
    if kind in formats:
        return _field(*formats[kind])
    bits = int(kind[1:])
    top = 1 << bits - 1
    small = [0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 255]
    edges = [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 16, (2 * top - 1) // 3]
    return [x for x in small if x < 2 * top] + edges


class Maker(NamedTuple):
    rng: random.Random
    arch: str

    @property
    def gfx9(self) -> bool:
        return self.arch in GFX9

    def vgpr(self, width: int) -> str:
        words = max(1, width // 32)
        if words == 1:
            return f"v{self.rng.randrange(16)}"
        first = self.rng.randrange(0, 17 - words, 2)
        return f"v[{first}:{first + words - 1}]"

    def sgpr(self, width: int) -> str:
        words = max(1, width // 32)
        if words == 1:
            return f"s{self.rng.randrange(32)}"
        first = self.rng.randrange(0, 33 - words, 2)
        return f"s[{first}:{first + words - 1}]"

    def mask(self) -> str:
        return self.sgpr(64 if self.gfx9 else 32)

    @property
    def vcc(self) -> str:
        return "vcc" if self.gfx9 else "vcc_lo"

    def inline(self, t: str) -> str:
        if t[0] == "f" and self.rng.random() < 0.6:
            text = self.rng.choice(FLOAT_CONSTANTS)
            if text == "0.15915494" and t == "f64":
                return "0.15915494309189532"
            return text
        return str(self.rng.randint(-16, 64))

    def literal(self, t: str) -> str:
        if width_of(t) == 16:
            return f"0x{self.rng.randrange(0x100, 0xFF00):x}"
        return self.rng.choice(LITERALS)

    def scalar(self, t: str) -> str:
        pick = self.rng.random()
        if pick < 0.6:
            return self.sgpr(width_of(t))
        if pick < 0.85 or t == "b64":
            return self.inline("i32")
        return self.literal(t)

    def source(self, t: str) -> str:
        """Any source of a vector instruction."""
        pick, width = self.rng.random(), width_of(t)
        if pick < 0.55:
            return self.vgpr(width)
        if pick < 0.75:
            return self.sgpr(width)
        return self.inline(t) if pick < 0.9 or width > 32 else self.literal(t)

    def signs(self, text: str, t: str) -> str:
        """Source modifiers of floats, of registers only."""
        if t[0] != "f" or text[0] not in "vs":
            return text
        if self.rng.random() < 0.25:
            text = f"|{text}|"
        return f"-{text}" if self.rng.random() < 0.25 else text

    def dpp(self) -> str:
        """Control of DPP."""
        rng = self.rng
        kinds = [
            "quad_perm:[{},{},{},{}]".format(*(rng.randrange(4) for _ in range(4))),
            f"row_shl:{rng.randint(1, 15)}",
            f"row_shr:{rng.randint(1, 15)}",
            f"row_ror:{rng.randint(1, 15)}",
            "row_mirror",
            "row_half_mirror",
        ]
        if self.gfx9:
            kinds += ["row_bcast:15", "row_bcast:31", "wave_shl:1", "wave_shr:1", "wave_ror:1"]
            kinds += ["wave_rol:1", f"row_newbcast:{rng.randint(0, 15)}"]
        else:
            kinds += [f"row_share:{rng.randint(0, 15)}", f"row_xmask:{rng.randint(0, 15)}"]
            if rng.random() < 0.25:
                lanes = ",".join(str(rng.randrange(8)) for _ in range(8))
                return f"dpp8:[{lanes}]" + (" fi:1" if rng.random() < 0.3 else "")
        masks = (rng.choice((15, 15, rng.randrange(16))) for _ in range(2))
        text = rng.choice(kinds) + " row_mask:{:#x} bank_mask:{:#x}".format(*masks)
        text += " bound_ctrl:1" if rng.random() < 0.5 else ""
        return text + (" fi:1" if not self.gfx9 and rng.random() < 0.3 else "")

    def bits(self, key: str, bits: list[int], default: int = 0) -> str:
        """A modifier such as op_sel, where it is not what holds without it."""
        numbers = ",".join(map(str, bits))
        return "" if bits == [default] * len(bits) else f" {key}:[{numbers}]"


def width_of(t: str) -> int:
    return int(t.lstrip("bfiu"))


CLAMPED_INTEGERS = (
    *("v_add_u32", "v_sub_u32", "v_subrev_u32", "v_add_nc_u32", "v_sub_nc_u32", "v_subrev_nc_u32"),
    *("v_add_i32", "v_sub_i32", "v_add_nc_i32", "v_sub_nc_i32", "v_add_i16", "v_sub_i16"),
    *("v_add_nc_i16", "v_sub_nc_i16", "v_add_nc_u16", "v_sub_nc_u16", "v_mad_u32_u24"),
    *("v_mad_i32_i24", "v_mad_u16", "v_mad_i16"),
    *("v_pk_add_u16", "v_pk_sub_u16", "v_pk_add_i16", "v_pk_sub_i16", "v_pk_mad_u16"),
    *("v_pk_mad_i16", "v_dot4_i32_i8", "v_dot2_i32_i16", "v_dot2_u32_u16", "v_dot4_u32_u8"),
)
NO_CLAMP = (
    *("class", "frexp", "cvt_norm", "cvt_pk", "div_scale", "div_fixup", "cmp", "cndmask", "mov"),
    "dot2_",
)
NO_SIGNS = ("v_cvt_norm", "v_cndmask", "v_dot2", "v_div_scale")
PLACES = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def forms_of(base: str, arch: str) -> list[str]:
    """Suffixes of the encodings of an instruction of the vector table, by its number of sources."""
    op = OPS[base]
    new, types = arch == "gfx1100", [t for t in op.src + op.dst if t[0] in "bfiu"]
    if "mk_" in base or "ak_" in base:
        return [""]
    if len(types) > 3 or base.startswith("v_dot"):
        return ["", "_e64_dpp"] if new else [""]
    if any(width_of(t) == 64 for t in types):
        return ["_e32", "_e64"] if new else ["_e32", "_e64", "_dpp"]
    return ["_e32", "_e64", "_dpp", "_e64_dpp" if new else "_sdwa"]


def vector_instruction(m: Maker, base: str, form: str) -> str:
    """Text of an instruction of the vector table with an encoding ("" where none is named)."""
    op, rng = OPS[base], m.rng
    if "mk_" in base or "ak_" in base:
        return literal_instruction(m, base)
    dpp, sdwa, wide = "dpp" in form, form == "_sdwa", form in ("", "_e64")
    output, mask = (m.mask(), m.mask()) if "64" in form or wide else (m.vcc, m.vcc)
    outputs = [output if t == "mask" else m.vgpr(width_of(t)) for t in op.dst]
    if base.startswith("v_cmpx") and not m.gfx9:
        outputs = []
    sources: list[str] = []
    for t in (x for x in op.src if x != "vcc"):
        if t == "mask":
            sources.append(mask)
            continue
        text = m.vgpr(width_of(t)) if dpp or sdwa else m.source(t)
        if form != "_e32" and not base.startswith(NO_SIGNS):
            text = m.signs(text, t)
        if sdwa and t[0] in "iu" and rng.random() < 0.3:
            text = f"sext({text})"
        sources.append(text)
    if base.startswith("v_div_scale"):
        sources[0] = sources[rng.choice((1, 2))]
    text = f"{base}{form} " + ", ".join(outputs + sources)
    if wide:
        text += half_selection(m, base, len(sources))
        floating = op.dst[0] in ("f16", "f32", "f64")
        allowed = floating and not any(x in base for x in NO_CLAMP)
        if (allowed or base in CLAMPED_INTEGERS) and rng.random() < 0.2:
            text += " clamp"
    if dpp:
        text += " " + m.dpp()
    if sdwa:
        if not base.startswith("v_cmp"):
            text += f" dst_sel:{rng.choice(PLACES)} dst_unused:{rng.choice(UNUSED)}"
        for i in range(sum(t != "mask" for t in op.src)):
            text += f" src{i}_sel:{rng.choice(PLACES)}"
    return text


def literal_instruction(m: Maker, base: str) -> str:
    """V_FMAAK, V_FMAMK and the like."""
    t = OPS[base].dst[0]
    sources = [m.source(t), m.vgpr(32)]
    sources.insert(2 if "ak_" in base else 1, m.literal(t))
    return f"{base} {m.vgpr(32)}, " + ", ".join(sources)


def half_selection(m: Maker, base: str, count: int) -> str:
    """op_sel of 16-bit instructions."""
    op = OPS[base]
    short = any(t in ("f16", "i16", "u16") for t in op.dst + op.src)
    if not short or op.accumulate or "class" in base or m.rng.random() < 0.5:
        return ""
    bits = [m.rng.randrange(2) for _ in range(count)]
    return m.bits("op_sel", [*bits, m.rng.randrange(2) if op.dst[0][1:] == "16" else 0])


def packed_instruction(m: Maker, base: str) -> str:
    p, rng = PACKED[base], m.rng
    width = 2 * width_of(p.type)
    sources = [m.sgpr(width) if rng.random() < 0.2 else m.vgpr(width) for _ in range(p.sources)]
    low, high = ([rng.randrange(2) for _ in sources] for _ in range(2))
    if rng.random() < 0.15:
        # Constants are taken from the lower half, where documents agree on what they are.
        place = rng.randrange(p.sources)
        sources[place] = m.inline("f16" if p.type[0] == "f" else "i16")
        low[place] = high[place] = 0
    text = f"{base} " + ", ".join([m.vgpr(width), *sources])
    text += m.bits("op_sel", low) + m.bits("op_sel_hi", high, 1)
    if p.type[0] == "f":
        for key in ("neg_lo", "neg_hi"):
            text += m.bits(key, [int(rng.random() < 0.2) for _ in sources])
    clamped = p.type == "f16" or base in CLAMPED_INTEGERS
    return text + (" clamp" if clamped and rng.random() < 0.15 else "")


def special_instruction(m: Maker, base: str) -> str:
    """Instructions with texts of their own."""
    rng, v, s = m.rng, m.vgpr, m.sgpr
    if base == "v_pk_mov_b32":
        select = rng.choice(("", " op_sel:[1,0]", " op_sel:[0,1]", " op_sel:[1,1]"))
        return f"{base} {v(64)}, {v(64)}, {v(64)}{select}"
    if "_iu" in base:
        return f"{base} {v(32)}, {v(32)}, {v(32)}, {v(32)}" + rng.choice(
            ("", " neg_lo:[1,0,0]", " neg_lo:[0,1,0]", " neg_lo:[1,1,0]")
        )
    if base.startswith("v_mbcnt"):
        return f"{base} {v(32)}, {rng.choice((v(32), '-1', s(32)))}, {v(32)}"
    if base == "v_readfirstlane_b32":
        return f"{base} {s(32)}, {v(32)}"
    if base == "v_readlane_b32":
        lane = rng.choice((s(32), str(rng.randrange(32))))
        return f"{base} {s(32)}, {v(32)}, {lane}"
    if base == "v_writelane_b32":
        return f"{base} {v(32)}, {s(32)}, {rng.randrange(32)}"
    if base == "v_swap_b32":
        a, b = rng.sample(range(16), 2)
        return f"{base} v{a}, v{b}"
    if base in ("v_permlane16_b32", "v_permlanex16_b32"):
        options = rng.choice(("", " op_sel:[1,0]", " op_sel:[0,1]", " op_sel:[1,1]"))
        return f"{base} {v(32)}, {v(32)}, {s(32)}, {s(32)}{options}"
    if base == "v_permlane64_b32" or base.startswith("v_movrel"):
        return f"{base} {v(32)}, {v(32)}"
    if base in ("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32"):
        sources = [m.signs(v(32), "f32") for _ in range(2)]
        return f"{base} {v(32)}, " + ", ".join(sources) + rng.choice(("", " op_sel:[0,0,1]"))
    if "qsad" in base:
        wide = 64 if "_pk_" in base else 128
        return f"{base} {v(wide)}, {v(64)}, {v(32)}, {v(wide)}"
    if base.startswith("v_cvt"):
        return f"{base}_e32 {v(64 if '_pk_' in base else 32)}, {v(32)}"
    sources = [m.signs(v(32), "f32") for _ in range(3)]
    high = [rng.randrange(2) for _ in range(3)]
    text = f"{base} {v(32)}, " + ", ".join(sources)
    text += m.bits("op_sel", [rng.randrange(2) & x for x in high]) + m.bits("op_sel_hi", high)
    return text + (" clamp" if rng.random() < 0.15 else "")


def scalar_instruction(m: Maker, base: str) -> str:
    """SOP1, SOP2, SOPC, SOPK."""
    if base in EXEC_LOGIC or base in MOVES:
        width = int(base[-2:])
        return f"{base} {m.sgpr(width)}, {m.sgpr(width)}"
    op = SCALAR[base]
    parts = [m.sgpr(width_of(op.dst))] if op.dst else []
    for t in op.src:
        if t.startswith("k_"):
            k = m.rng.choice((0, 1, 0x7F, 0x7FFF, 0x8000, 0xFF80, 0xFFFF, m.rng.randrange(1 << 16)))
            parts.append(f"{k:#x}")
        elif t not in ("scc", "dst"):
            parts.append(m.scalar(t))
    return f"{base} " + ", ".join(parts)


DUAL_X = (
    *("mul_f32", "add_f32", "sub_f32", "subrev_f32", "max_f32", "min_f32", "mul_dx9_zero_f32"),
    *("fmac_f32", "mov_b32", "cndmask_b32"),
)
DUAL_Y = (*DUAL_X, "add_nc_u32", "lshlrev_b32", "and_b32")


def dual_instruction(m: Maker) -> str:
    """A dual issue: one even and one odd destination."""
    halves = []
    for place, names in enumerate((DUAL_X, DUAL_Y)):
        name = m.rng.choice(names)
        sources = [m.vgpr(32) if m.rng.random() < 0.9 else m.sgpr(32), m.vgpr(32)]
        operands = [f"v{2 * m.rng.randrange(8) + place}", *sources[: 1 if "mov" in name else 2]]
        halves.append(f"v_dual_{name} " + ", ".join(operands))
    return " :: ".join(halves)


def random_instruction(rng: random.Random, arch: str) -> str:
    """An instruction of a generation: no memory, no branch, no matrix.

    64 lanes are meant on gfx9, 32 elsewhere. Registers are v0 to v15, s0 to s31, VCC and EXEC.
    """
    m = Maker(rng, arch)
    if arch == "gfx1100" and rng.random() < 0.04:
        return dual_instruction(m)
    kind = rng.choices(("vector", "compare", "packed", "special", "scalar"), (55, 12, 8, 7, 18))[0]
    return text_of(m, rng.choice(available(arch, kind)))


INDEX = "s63"
"""Register with an index of registers, of any wave, which nothing else uses."""


def indexed_instructions(rng: random.Random) -> list[str]:
    """Instructions of gfx9 while registers are indexed; M0 is a small number afterwards."""
    m = Maker(rng, GFX9[0])

    def operands() -> str:
        return ",".join(name for name in ("SRC0", "SRC1", "SRC2", "DST") if rng.random() < 0.5)

    texts = [f"s_set_gpr_idx_on {rng.choice((INDEX, '7'))}, gpr_idx({operands()})"]
    for _ in range(rng.randrange(1, 4)):
        if rng.random() < 0.3:
            other = (f"s_set_gpr_idx_idx {INDEX}", f"s_set_gpr_idx_mode gpr_idx({operands()})")
            texts.append(rng.choice(other))
        texts.append(vector_instruction(m, *rng.choice(_indexable())))
    return [*texts, "s_set_gpr_idx_mode gpr_idx()", "s_set_gpr_idx_off"]


@cache
def _indexable() -> list[tuple[str, str]]:
    """Mnemonics whose operands have in the text the order of their numbers."""
    choices = available(GFX9[0], "vector")
    return [
        (base, form)
        for base, form in choices
        if form in ("_e32", "_e64", "")
        and not OPS[base].accumulate
        and "mask" not in OPS[base].dst
        and "mk_" not in base
        and base.startswith(("v_mov", "v_add", "v_lsh", "v_fma", "v_min", "v_cvt_f", "v_bf"))
    ]


def text_of(m: Maker, choice: tuple[str, str]) -> str:
    base, form = choice
    if base in PACKED:
        return packed_instruction(m, base)
    if base in OPS:
        return vector_instruction(m, base, form)
    if base in SPECIAL:
        return special_instruction(m, base)
    return scalar_instruction(m, base)


@cache
def available(arch: str, kind: str) -> list[tuple[str, str]]:
    """Mnemonics of a kind without their encodings, and these."""
    if kind in ("vector", "compare"):
        names = [base for base in OPS if base.startswith("v_cmp") == (kind == "compare")]
        return [(base, form) for base in names for form in forms_of(base, arch)]
    if kind == "packed":
        return [(base, "") for base in PACKED]
    if kind == "special":  # gfx9 indexes registers by a mode; 8-bit floats differ from gfx12 on
        missing = ("movrel",) if arch in GFX9 else ("fp8", "bf8")
        return [(base, "") for base in SPECIAL if not any(part in base for part in missing)]
    others = f"exec_b{32 if arch in GFX9 else 64}"
    return [(base, "") for base in (*SCALAR, *EXEC_LOGIC, *MOVES) if not base.endswith(others)]
