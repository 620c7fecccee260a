"""Random instructions for tests, in the words of llvm-objdump, and values worth testing.

Which mnemonic exists with which encoding on which architecture is in `forms`.
"""

import random
from functools import cache
from typing import NamedTuple

from .forms import FORMS_OF, forms_of
from .machine import GFX9
from .scalar import SCALAR
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


class Budget:
    """Scalar sources that one vector instruction may have: the constant bus.

    One SGPR and no literal in VOP3 on gfx9; two of both from gfx10 on (RDNA2 ISA, 6.2.1).
    """

    def __init__(self, arch: str, literal: bool) -> None:
        self.left = 1 if arch in GFX9 else 2
        self.literal = literal
        self.taken: set[str] = set()

    def take(self, name: str) -> bool:
        if name in self.taken:
            return True
        if name.startswith("0x") and (not self.literal or any(x[:2] == "0x" for x in self.taken)):
            return False
        if len(self.taken) >= self.left:
            return False
        self.taken.add(name)
        return True


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
        step = 2 if words == 2 else 4
        first = self.rng.randrange(0, 33 - words, step)
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

    def scalar(self, t: str, literal: bool = True) -> str:
        pick = self.rng.random()
        if pick < 0.6:
            return self.sgpr(width_of(t))
        if pick < 0.85 or not literal or t == "b64":
            return self.inline("f32" if t == "f32" else "i32")  # f16 is printed as a literal
        return self.literal(t)

    def source(self, t: str, budget: Budget | None) -> str:
        """Any source of VOP3, or of the first place of VOP1 and VOP2."""
        pick = self.rng.random()
        if budget is None or pick < 0.55:
            return self.vgpr(width_of(t))
        if pick < 0.75:
            name = self.sgpr(width_of(t))
            return name if budget.take(name) else self.vgpr(width_of(t))
        if pick < 0.9 or width_of(t) > 32:
            return self.inline(t)
        name = self.literal(t)
        return name if budget.take(name) else self.inline(t)

    def signs(self, text: str, t: str, chance: float = 0.25) -> str:
        """Source modifiers of floats, of registers only."""
        if t[0] != "f" or text[0] not in "vs":
            return text
        if self.rng.random() < chance:
            text = f"|{text}|"
        return f"-{text}" if self.rng.random() < chance else text

    def output(self, t: str, e32: bool) -> str:
        if t == "mask":
            return self.vcc if e32 else self.mask()
        return self.vgpr(width_of(t))

    def dpp(self, wide: bool = False) -> str:
        """Control of DPP; sources of 64 bits only have row_newbcast, on gfx9."""
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
        if wide:
            kinds = kinds[-1:]
        masks = (rng.choice((15, 15, rng.randrange(16))) for _ in range(2))
        text = rng.choice(kinds) + " row_mask:{:#x} bank_mask:{:#x}".format(*masks)
        text += " bound_ctrl:1" if rng.random() < 0.5 else ""
        return text + (" fi:1" if not self.gfx9 and rng.random() < 0.3 else "")


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
    "class",
    "frexp",
    "cvt_norm",
    "cvt_pk",
    "div_scale",
    "div_fixup",
    "cmp",
    "cndmask",
    "mov",
    "dot2_",
)
NO_SIGNS = ("v_cvt_norm", "v_cndmask", "v_dot2")


ONE_SCALAR = ("v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64")  # one scalar source at most
PLACES = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def vector_instruction(m: Maker, base: str, form: str) -> str:
    """Text of an instruction of the vector table with an encoding ("" where none is named)."""
    op, rng = OPS[base], m.rng
    if "mk_" in base or "ak_" in base:
        return literal_instruction(m, base)
    e32, dpp, sdwa = form == "_e32", "dpp" in form, form == "_sdwa"
    wide, short = form in ("", "_e64"), form in ("_e32", "_dpp", "_sdwa")
    if op.accumulate and not form:  # V_DOT2C and the like, only in VOP2
        wide, short = False, True
    budget = None if dpp or sdwa else Budget(m.arch, literal=e32 or not m.gfx9)
    if budget is not None and base.startswith("v_dot"):
        budget.literal = False
    if budget is not None and base in ONE_SCALAR:
        budget.left = 1
    outputs = [m.output(t, short) for t in op.dst]
    if base.startswith("v_cmpx") and not m.gfx9:
        outputs = []
    if base.startswith("v_div_scale"):
        outputs[1] = rng.choice((m.vcc, m.mask()))
    mask = m.vcc if short else m.mask()
    if budget is not None and ("mask" in op.src or "vcc" in op.src):
        budget.take(mask if "mask" in op.src else "vcc")
    control = m.dpp(wide=any(width_of(t) == 64 for t in op.src + op.dst if t[0] in "bfiu"))
    signs = form != "_e32" and not base.startswith(NO_SIGNS)
    signs = signs and not (form == "_dpp" and control.startswith("dpp8"))
    sources: list[str] = []
    for i, t in enumerate(x for x in op.src if x != "vcc"):
        if t == "mask":
            sources.append(mask)
            continue
        vector_only = (short and i) or (dpp and i < 2) or sdwa
        text = m.vgpr(width_of(t)) if vector_only else m.source(t, budget)
        text = m.signs(text, t) if signs else text
        if sdwa and t[0] in "iu" and rng.random() < 0.3:
            text = f"sext({text})"
        sources.append(text)
    if base.startswith("v_div_scale"):
        sources = [
            s if s[-1] != "|" and s[:2] != "-v" and s[:2] != "-s" else s.strip("-|")
            for s in sources
        ]
        sources[0] = sources[rng.choice((1, 2))]
    text = f"{base}{form} " + ", ".join(outputs + sources)
    if wide:
        text += half_selection(m, base, len(sources))
        floating = op.dst[0] in ("f16", "f32", "f64")
        allowed = floating and not any(x in base for x in NO_CLAMP)
        if (allowed or base in CLAMPED_INTEGERS) and rng.random() < 0.2:
            text += " clamp"
    if dpp:
        text += " " + control
    if sdwa:
        if not base.startswith("v_cmp"):
            text += f" dst_sel:{rng.choice(PLACES)} dst_unused:{rng.choice(UNUSED)}"
        for i in range(sum(t != "mask" for t in op.src)):
            text += f" src{i}_sel:{rng.choice(PLACES)}"
    return text


def literal_instruction(m: Maker, base: str) -> str:
    """V_FMAAK, V_FMAMK and the like: a literal, which leaves room for an SGPR from gfx10 on."""
    t = OPS[base].dst[0]
    scalars = ("v", "k") if m.gfx9 else ("v", "k", "s")
    kind = m.rng.choice(scalars)
    first = {"v": m.vgpr(32), "k": m.inline(t), "s": m.sgpr(32)}[kind]
    sources = [first, m.vgpr(32)]
    sources.insert(2 if "ak_" in base else 1, m.literal(t))
    return f"{base} {m.vgpr(32)}, " + ", ".join(sources)


HALVES_GFX9 = (
    *("v_mad_u16", "v_mad_i16", "v_fma_f16", "v_mad_f16", "v_add_i16", "v_sub_i16"),
    *(f"v_{name}_{t}" for name in ("min3", "max3", "med3") for t in ("f16", "i16", "u16")),
    *("v_div_fixup_f16", "v_pack_b32_f16", "v_mad_u32_u16", "v_mad_i32_i16"),
)


def half_selection(m: Maker, base: str, count: int) -> str:
    """op_sel of 16-bit instructions of VOP3, on gfx9 and gfx10 for the few that have it."""
    if m.arch not in ("gfx90a", "gfx942", "gfx1030") or base not in HALVES_GFX9:
        return ""
    if m.rng.random() < 0.5:
        return ""
    bits = [m.rng.randrange(2) for _ in range(count)]
    bits.append(m.rng.randrange(2) if OPS[base].dst[0] in ("f16", "i16", "u16") else 0)
    return " op_sel:[{}]".format(",".join(map(str, bits))) if any(bits) else ""


def packed_instruction(m: Maker, base: str, form: str) -> str:
    p, rng = PACKED[base], m.rng
    width = 2 * width_of(p.type)
    budget = Budget(m.arch, literal=False)
    sources = []
    for _ in range(p.sources):
        text = m.vgpr(width)
        if rng.random() < 0.2 and not p.accumulate and not form:
            name = m.sgpr(width)
            text = name if budget.take(name) else text
        sources.append(text)
    text = f"{base}{form} " + ", ".join([m.vgpr(width), *sources])
    if p.accumulate or form:
        return text
    constant = rng.randrange(p.sources) if rng.random() < 0.15 else None
    low = [rng.randrange(2) for _ in sources]
    high = [rng.randrange(2) for _ in sources]
    if constant is not None:
        # Constants are taken from the lower half, where documents agree on what they are.
        sources[constant] = m.inline("f16" if p.type[0] == "f" else "i16")
        low[constant] = high[constant] = 0
    elif rng.random() < 0.5:
        low, high = [0] * p.sources, [1] * p.sources
    text = f"{base}{form} " + ", ".join([m.vgpr(width), *sources])
    if any(low):
        text += " op_sel:[{}]".format(",".join(map(str, low)))
    if not all(high):
        text += " op_sel_hi:[{}]".format(",".join(map(str, high)))
    if p.type[0] == "f":
        for key in ("neg_lo", "neg_hi"):
            bits = [int(rng.random() < 0.2) for _ in sources]
            if any(bits):
                text += " {}:[{}]".format(key, ",".join(map(str, bits)))
    if (p.type in ("f16",) or base in CLAMPED_INTEGERS) and rng.random() < 0.15:
        text += " clamp"
    return text


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
        form = forms_of(base, m.arch)[0]
        return f"{base}{form} {v(32)}, {rng.choice((v(32), '-1', s(32)))}, {v(32)}"
    if base == "v_readfirstlane_b32":
        return f"{base} {s(32)}, {v(32)}"
    if base == "v_readlane_b32":
        lane = rng.choice((s(32), str(rng.randrange(32))))
        return f"{base} {s(32)}, {v(32)}, {lane}"
    if base == "v_writelane_b32":
        lane = str(rng.randrange(32))
        return f"{base} {v(32)}, {s(32)}, {lane}"
    if base == "v_swap_b32":
        a, b = rng.sample(range(16), 2)
        return f"{base} v{a}, v{b}"
    if base in ("v_permlane16_b32", "v_permlanex16_b32"):
        options = rng.choice(("", " op_sel:[1,0]", " op_sel:[0,1]", " op_sel:[1,1]"))
        return f"{base} {v(32)}, {v(32)}, {s(32)}, {s(32)}{options}"
    if base == "v_permlane64_b32":
        return f"{base} {v(32)}, {v(32)}"
    if base.startswith("v_cvt_pk_f32"):
        return f"{base}_e32 {v(64)}, {v(32)}"
    if base.startswith("v_cvt_f32"):
        return f"{base}_e32 {v(32)}, {v(32)}"
    if "_mix" in base:
        sources = [m.signs(v(32), "f32") for _ in range(3)]
        text = f"{base} {v(32)}, " + ", ".join(sources)
        high = [rng.randrange(2) for _ in range(3)]
        low = [rng.randrange(2) & x for x in high]
        text += " op_sel:[{},{},{}]".format(*low) if any(low) else ""
        text += " op_sel_hi:[{},{},{}]".format(*high) if any(high) else ""
        return text + (" clamp" if rng.random() < 0.15 else "")
    raise KeyError(base)


def scalar_instruction(m: Maker, base: str) -> str:
    """SOP1, SOP2, SOPC, SOPK; with one literal at most."""
    if base.endswith(("_saveexec_b64", "_saveexec_b32", "_wrexec_b64", "_wrexec_b32")):
        width = int(base[-2:])
        return f"{base} {m.sgpr(width)}, {m.sgpr(width)}"
    op = SCALAR[base]
    parts = [m.sgpr(width_of(op.dst))] if op.dst else []
    literal = True
    for t in op.src:
        if t in ("scc", "dst"):
            continue
        if t.startswith("k_"):
            k = m.rng.choice((0, 1, 0x7F, 0x7FFF, 0x8000, 0xFF80, 0xFFFF, m.rng.randrange(1 << 16)))
            parts.append(f"{k:#x}")
            continue
        text = m.sgpr(32) if "cmpk" in base else m.scalar(t, literal)
        literal = literal and not text.startswith("0x")
        parts.append(text)
    return f"{base} " + ", ".join(parts)


DUAL_X = (
    *("mul_f32", "add_f32", "sub_f32", "subrev_f32", "max_f32", "min_f32", "mul_dx9_zero_f32"),
    *("fmac_f32", "mov_b32", "cndmask_b32"),
)
DUAL_Y = (*DUAL_X, "add_nc_u32", "lshlrev_b32", "and_b32")


def dual_instruction(m: Maker) -> str:
    """A dual issue: one even and one odd destination, sources in different banks."""
    rng = m.rng
    halves = []
    banks = [rng.sample(range(4), 2) for _ in range(2)]
    for place, names in enumerate((DUAL_X, DUAL_Y)):
        name = rng.choice(names)
        first = f"v{4 * rng.randrange(4) + banks[0][place]}"
        second = f"v{4 * rng.randrange(4) + banks[1][place]}"
        if rng.random() < 0.2 and place == 0:
            first = f"s{rng.randrange(32)}"
        output = f"v{2 * rng.randrange(8) + place}"
        sources = [first] if name == "mov_b32" else [first, second]
        halves.append(f"v_dual_{name} {output}, " + ", ".join(sources))
    return " :: ".join(halves)


def random_instruction(rng: random.Random, arch: str) -> str:
    """An instruction valid for the architecture: no memory, no branch, no matrix.

    64 lanes are meant on gfx9, 32 elsewhere. Registers are v0 to v15, s0 to s31, VCC and EXEC.
    """
    m = Maker(rng, arch)
    if arch == "gfx1100" and rng.random() < 0.04:
        return dual_instruction(m)
    kind = rng.choices(("vector", "compare", "packed", "special", "scalar"), (55, 12, 8, 7, 18))[0]
    return text_of(m, rng.choice(available(arch, kind)))


def text_of(m: Maker, choice: tuple[str, str]) -> str:
    base, form = choice
    if base in PACKED:
        return packed_instruction(m, base, form)
    if base in OPS:
        return vector_instruction(m, base, form)
    if base.startswith("v_"):
        return special_instruction(m, base)
    return scalar_instruction(m, base)


def kind_of(base: str) -> str:
    if base.startswith("s_"):
        return "scalar"
    if base.startswith("v_cmp"):
        return "compare"
    if base in PACKED:
        return "packed"
    if base.startswith(("v_mfma", "v_wmma")):
        return "matrix"
    return "vector" if base in OPS else "special"


@cache
def available(arch: str, kind: str) -> list[tuple[str, str]]:
    """Mnemonics of an architecture without their encodings, and these."""
    compares = [base for base in OPS if base.startswith("v_cmp")]
    return [
        (base, form)
        for base in (*FORMS_OF, *compares)
        if kind_of(base) == kind
        for form in forms_of(base, arch)
        if not base.endswith(f"exec_b{32 if arch in GFX9 else 64}")
    ]
