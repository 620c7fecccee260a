"""What each vector instruction computes in one lane, as a table.

An `Op` has the types of its destinations and sources and a function of them. Floats come as bit
patterns, "i" types as signed, "u" and "b" types as unsigned integers; integer results are exact
and wrapped (or saturated with `clamp`) where they are written. Type "mask" is one lane's bit of a
lane mask. Sources: AMD's ISA documents "MI300" (CDNA3) and "RDNA3", chapters "Vector ALU
Instructions".
"""

import math
from collections.abc import Callable
from fractions import Fraction
from operator import ge, lt
from typing import NamedTuple

from . import floats
from .floats import BF16, F16, F32, F64, FORMATS, Format
from .machine import MASK32, signed


class Op(NamedTuple):
    dst: tuple[str, ...]
    src: tuple[str, ...]
    compute: Callable[..., object]
    accumulate: bool = False  # the destination is the last source too


OPS: dict[str, Op] = {}


def op(name: str, dst: str, src: str, compute: Callable[..., object], **more: bool) -> None:
    OPS[name] = Op(tuple(dst.split()), tuple(src.split()), compute, **more)


def alias(name: str, old: str) -> None:
    OPS[name] = OPS[old]


def median(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


def float_median(a: int, b: int, c: int, f: Format) -> int:
    """V_MED3: the minimum of all with a NaN among them, else the one in the middle."""
    if any(floats.is_nan(x, f) for x in (a, b, c)):
        return floats.minimum(floats.minimum(a, b, f), c, f)
    return sorted((a, b, c), key=lambda x: floats.total_key(x, f))[1]


def unfused(a: int, b: int, c: int, f: Format) -> int:
    return floats.add(floats.multiply(a, b, f), c, f)


def reversed_difference(a: int, b: int, f: Format) -> int:
    """b - a, with the first NaN of a and b."""
    nan = floats.first_nan(f, a, b)
    return floats.subtract(b, a, f) if nan is None else nan


def _float_arithmetic(t: str, f: Format) -> None:
    def two(name: str, function: Callable[[int, int, Format], int]) -> None:
        op(f"v_{name}_{t}", t, f"{t} {t}", lambda a, b: function(a, b, f))

    def three(name: str, function: Callable[[int, int, int, Format], int]) -> None:
        op(f"v_{name}_{t}", t, f"{t} {t} {t}", lambda a, b, c: function(a, b, c, f))

    def one(name: str, function: Callable[..., int], *more: object) -> None:
        op(f"v_{name}_{t}", t, t, lambda a: function(a, f, *more))

    low, high = floats.minimum, floats.maximum
    two("add", floats.add)
    two("mul", floats.multiply)
    two("min", low)
    two("max", high)
    three("fma", floats.fma)
    three("div_fixup", floats.divide_fixup)
    one("floor", floats.round_to_integral, math.floor)
    one("ceil", floats.round_to_integral, math.ceil)
    one("trunc", floats.round_to_integral, math.trunc)
    one("rndne", floats.round_to_integral, round)
    one("fract", floats.fraction)
    one("rcp", floats.reciprocal)
    one("rsq", floats.reciprocal_root)
    one("sqrt", floats.square_root)
    one("frexp_mant", floats.mantissa_part)
    exponent = "i16" if t == "f16" else "i32"
    op(f"v_frexp_exp_{exponent}_{t}", exponent, t, lambda a: floats.exponent_part(a, f))
    op(f"v_ldexp_{t}", t, f"{t} {exponent}", lambda a, b: floats.scale(a, b, f))
    op(f"v_fmac_{t}", t, f"{t} {t}", lambda a, b, c: floats.fma(a, b, c, f), accumulate=True)
    if t != "f16":
        scale, fmas = floats.divide_scale, floats.divide_fmas
        op(f"v_div_scale_{t}", f"{t} mask", f"{t} {t} {t}", lambda a, b, c: scale(a, b, c, f))
        op(f"v_div_fmas_{t}", t, f"{t} {t} {t} vcc", lambda a, b, c, m: fmas(a, b, c, m, f))
    if t == "f64":
        return
    two("sub", floats.subtract)
    two("subrev", reversed_difference)
    three("mad", unfused)
    op(f"v_mac_{t}", t, f"{t} {t}", lambda a, b, c: unfused(a, b, c, f), accumulate=True)
    for mnemonic, function in (("fma", floats.fma), ("mad", unfused)):
        three(f"{mnemonic}ak", function)
        three(f"{mnemonic}mk", lambda a, k, b, f, function=function: function(a, k, b, f))
    three("min3", lambda a, b, c, f: low(low(a, b, f), c, f))
    three("max3", lambda a, b, c, f: high(high(a, b, f), c, f))
    three("med3", float_median)
    three("minmax", lambda a, b, c, f: high(low(a, b, f), c, f))
    three("maxmin", lambda a, b, c, f: low(high(a, b, f), c, f))
    one("exp", floats.exp2)
    one("log", floats.log2)
    one("sin", floats.turn, math.sin)
    one("cos", floats.turn, math.cos)


def _float_compares(t: str, f: Format) -> None:
    order, is_nan = floats.order, floats.is_nan
    relations: dict[str, Callable[[object, object], bool]] = {
        "lt": lambda a, b: a < b,
        "eq": lambda a, b: a == b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "lg": lambda a, b: a != b,
        "ge": lambda a, b: a >= b,
    }

    def ordered(test: Callable[[object, object], bool]) -> Callable[[int, int], bool]:
        return lambda a, b: not is_nan(a, f) and not is_nan(b, f) and test(order(a, f), order(b, f))

    tests = {name: ordered(test) for name, test in relations.items()}
    for name, holds in list(tests.items()):
        tests[f"n{name}"] = lambda a, b, holds=holds: not holds(a, b)
    tests["o"] = ordered(lambda a, b: True)
    tests["u"] = lambda a, b: not tests["o"](a, b)
    tests["f"] = lambda a, b: False
    tests["t"] = tests["tru"] = lambda a, b: True
    for name, test in tests.items():
        for x in ("cmp", "cmpx"):
            op(f"v_{x}_{name}_{t}", "mask", f"{t} {t}", lambda a, b, test=test: int(test(a, b)))
    for x in ("cmp", "cmpx"):
        mask = "b16" if t == "f16" else "b32"
        op(
            f"v_{x}_class_{t}",
            "mask",
            f"{t} {mask}",
            lambda a, b: b >> floats.classify(a, f) & 1,
        )


def _integer_compares(t: str) -> None:
    for name, test in {
        "f": lambda a, b: False,
        "lt": lambda a, b: a < b,
        "eq": lambda a, b: a == b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ne": lambda a, b: a != b,
        "ge": lambda a, b: a >= b,
        "t": lambda a, b: True,
    }.items():
        for x in ("cmp", "cmpx"):
            op(f"v_{x}_{name}_{t}", "mask", f"{t} {t}", lambda a, b, test=test: int(test(a, b)))


for _t in ("f16", "f32", "f64"):
    _float_arithmetic(_t, FORMATS[_t])
    _float_compares(_t, FORMATS[_t])
for _t in ("i16", "u16", "i32", "u32", "i64", "u64"):
    _integer_compares(_t)

alias("v_rcp_iflag_f32", "v_rcp_f32")
alias("v_div_fixup_legacy_f16", "v_div_fixup_f16")
alias("v_mad_legacy_f16", "v_mad_f16")
alias("v_fma_legacy_f16", "v_fma_f16")


def legacy(function: Callable[..., int]) -> Callable[..., int]:
    """DX9 rules: 0 times anything is +0."""

    def compute(a: int, b: int, *c: int) -> int:
        if floats.is_zero(a, F32) or floats.is_zero(b, F32):
            return c[0] if c else 0
        return function(a, b, *c, F32)

    return compute


for _name in ("v_mul_legacy_f32", "v_mul_dx9_zero_f32"):
    op(_name, "f32", "f32 f32", legacy(floats.multiply))
for _name in ("v_fma_legacy_f32", "v_fma_dx9_zero_f32"):
    op(_name, "f32", "f32 f32 f32", legacy(floats.fma))
for _name in ("v_fmac_legacy_f32", "v_fmac_dx9_zero_f32"):
    op(_name, "f32", "f32 f32", legacy(floats.fma), accumulate=True)


# Integers.
def _integers() -> None:
    add, sub = (lambda a, b: a + b), (lambda a, b: a - b)
    reverse = lambda a, b: b - a  # noqa: E731
    for name in ("v_add_u32", "v_add_nc_u32"):
        op(name, "u32", "u32 u32", add)
    for name in ("v_sub_u32", "v_sub_nc_u32"):
        op(name, "u32", "u32 u32", sub)
    for name in ("v_subrev_u32", "v_subrev_nc_u32"):
        op(name, "u32", "u32 u32", reverse)
    for t in ("i32", "i16", "u16"):
        for nc in ("", "nc_"):
            op(f"v_add_{nc}{t}", t, f"{t} {t}", add)
            op(f"v_sub_{nc}{t}", t, f"{t} {t}", sub)
    op("v_subrev_u16", "u16", "u16 u16", reverse)

    op("v_add_co_u32", "u32 mask", "u32 u32", lambda a, b: (a + b, a + b >> 32))
    op("v_sub_co_u32", "u32 mask", "u32 u32", lambda a, b: (a - b, int(b > a)))
    op("v_subrev_co_u32", "u32 mask", "u32 u32", lambda a, b: (b - a, int(a > b)))
    for old, new, function in (
        ("v_addc_co_u32", "v_add_co_ci_u32", lambda a, b, c: (a + b + c, a + b + c >> 32)),
        ("v_subb_co_u32", "v_sub_co_ci_u32", lambda a, b, c: (a - b - c, int(b + c > a))),
        ("v_subbrev_co_u32", "v_subrev_co_ci_u32", lambda a, b, c: (b - a - c, int(a + c > b))),
    ):
        op(old, "u32 mask", "u32 u32 mask", function)
        alias(new, old)

    for t in ("i32", "u32", "i16", "u16"):
        op(f"v_min_{t}", t, f"{t} {t}", min)
        op(f"v_max_{t}", t, f"{t} {t}", max)
        op(f"v_min3_{t}", t, f"{t} {t} {t}", min)
        op(f"v_max3_{t}", t, f"{t} {t} {t}", max)
        op(f"v_med3_{t}", t, f"{t} {t} {t}", median)
        op(f"v_minmax_{t}", t, f"{t} {t} {t}", lambda a, b, c: max(min(a, b), c))
        op(f"v_maxmin_{t}", t, f"{t} {t} {t}", lambda a, b, c: min(max(a, b), c))

    for t, bits in (("b32", 32), ("b16", 16)):
        ones = (1 << bits) - 1
        op(f"v_and_{t}", t, f"{t} {t}", lambda a, b: a & b)
        op(f"v_or_{t}", t, f"{t} {t}", lambda a, b: a | b)
        op(f"v_xor_{t}", t, f"{t} {t}", lambda a, b: a ^ b)
        op(f"v_not_{t}", t, t, lambda a, ones=ones: a ^ ones)
        op(f"v_mov_{t}", t, t, lambda a: a)
        op(f"v_cndmask_{t}", t, f"{t} {t} mask", lambda a, b, m: b if m else a)
    op("v_xnor_b32", "b32", "b32 b32", lambda a, b: ~(a ^ b))
    op("v_mov_b64", "b64", "b64", lambda a: a)
    op("v_and_or_b32", "b32", "b32 b32 b32", lambda a, b, c: a & b | c)
    op("v_or3_b32", "b32", "b32 b32 b32", lambda a, b, c: a | b | c)
    op("v_xor3_b32", "b32", "b32 b32 b32", lambda a, b, c: a ^ b ^ c)
    op("v_xad_u32", "u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c)
    op("v_add3_u32", "u32", "u32 u32 u32", lambda a, b, c: a + b + c)
    op("v_lshl_add_u32", "u32", "u32 u32 u32", lambda a, b, c: (a << (b & 31) & MASK32) + c)
    op("v_add_lshl_u32", "u32", "u32 u32 u32", lambda a, b, c: a + b << (c & 31))
    op("v_lshl_or_b32", "b32", "b32 b32 b32", lambda a, b, c: a << (b & 31) | c)
    op("v_lshl_add_u64", "u64", "u64 u32 u64", lambda a, b, c: (a << (b & 7)) + c)
    for t in ("b32", "b16", "b64"):
        mask = int(t[1:]) - 1
        count = "b16" if t == "b16" else "b32"
        shape = f"{count} {t}"
        op(f"v_lshlrev_{t}", t, shape, lambda n, a, mask=mask: a << (n & mask))
        op(f"v_lshrrev_{t}", t, shape, lambda n, a, mask=mask: a >> (n & mask))
        i = f"i{t[1:]}"
        op(f"v_ashrrev_{i}", i, f"{count} {i}", lambda n, a, mask=mask: a >> (n & mask))

    op("v_mul_lo_u32", "u32", "u32 u32", lambda a, b: a * b)
    op("v_mul_lo_u16", "u16", "u16 u16", lambda a, b: a * b)
    op("v_mul_hi_u32", "u32", "u32 u32", lambda a, b: a * b >> 32)
    op("v_mul_hi_i32", "i32", "i32 i32", lambda a, b: a * b >> 32)
    u24, i24 = (lambda a: a & 0xFFFFFF), (lambda a: signed(a, 24))
    op("v_mul_u32_u24", "u32", "u32 u32", lambda a, b: u24(a) * u24(b))
    op("v_mul_i32_i24", "i32", "i32 i32", lambda a, b: i24(a) * i24(b))
    op("v_mul_hi_u32_u24", "u32", "u32 u32", lambda a, b: u24(a) * u24(b) >> 32)
    op("v_mul_hi_i32_i24", "i32", "i32 i32", lambda a, b: i24(a) * i24(b) >> 32)
    op("v_mad_u32_u24", "u32", "u32 u32 u32", lambda a, b, c: u24(a) * u24(b) + c)
    op("v_mad_i32_i24", "i32", "i32 i32 i32", lambda a, b, c: i24(a) * i24(b) + c)
    mad = lambda a, b, c: a * b + c  # noqa: E731
    for legacy_name in ("", "legacy_"):
        op(f"v_mad_{legacy_name}u16", "u16", "u16 u16 u16", mad)
        op(f"v_mad_{legacy_name}i16", "i16", "i16 i16 i16", mad)
    op("v_mad_u32_u16", "u32", "u16 u16 u32", mad)
    op("v_mad_i32_i16", "i32", "i16 i16 i32", mad)
    wide = lambda a, b, c: (a * b + c, a * b + c >> 64 & 1)  # noqa: E731
    op("v_mad_u64_u32", "u64 mask", "u32 u32 u64", wide)
    op("v_mad_i64_i32", "i64 mask", "i32 i32 i64", wide)

    op("v_bfe_u32", "u32", "u32 b32 b32", lambda a, n, w: a >> (n & 31) & (1 << (w & 31)) - 1)

    def extract(a: int, n: int, w: int) -> int:
        return signed(a >> (n & 31), w & 31) if w & 31 else 0

    op("v_bfe_i32", "i32", "i32 b32 b32", extract)
    op("v_bfi_b32", "b32", "b32 b32 b32", lambda a, b, c: a & b | ~a & c)
    op("v_bfm_b32", "b32", "b32 b32", lambda a, b: (1 << (a & 31)) - 1 << (b & 31))
    op("v_bfrev_b32", "b32", "b32", lambda a: int(f"{a:032b}"[::-1], 2))
    op("v_bcnt_u32_b32", "u32", "b32 u32", lambda a, b: a.bit_count() + b)

    clz = lambda a: 32 - a.bit_length() if a else -1  # noqa: E731
    ctz = lambda a: (a & -a).bit_length() - 1 if a else -1  # noqa: E731
    for name in ("v_ffbh_u32", "v_clz_i32_u32"):
        op(name, "i32", "u32", clz)
    for name in ("v_ffbl_b32", "v_ctz_i32_b32"):
        op(name, "i32", "b32", ctz)
    for name in ("v_ffbh_i32", "v_cls_i32"):  # the leading bits that equal the sign
        op(name, "i32", "i32", lambda a: clz(a ^ -1 if a < 0 else a))

    op("v_alignbit_b32", "b32", "b32 b32 b32", lambda a, b, c: (a << 32 | b) >> (c & 31))
    op("v_alignbyte_b32", "b32", "b32 b32 b32", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3))
    op("v_perm_b32", "b32", "b32 b32 b32", permute_bytes)


def permute_bytes(high: int, low: int, select: int) -> int:
    """V_PERM: each byte of the selector picks one of eight, a sign, 0x00 or 0xff."""
    data = (high << 32 | low).to_bytes(8, "little")

    def byte(s: int) -> int:
        if s >= 13:
            return 0xFF
        if s == 12:
            return 0
        if s >= 8:
            return 0xFF * (data[2 * (s - 8) + 1] >> 7)
        return data[s]

    return int.from_bytes(bytes(byte(s) for s in select.to_bytes(4, "little")), "little")


def bytes_of(a: int) -> bytes:
    return a.to_bytes(4, "little")


def sad(a: int, b: int, c: int) -> int:
    return c + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True))


def masked_sad(a: int, b: int, c: int) -> int:
    """V_MSAD_U8: bytes of 0 in the reference, the second source, do not count."""
    return c + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y)


def mean_of_bytes(a: int, b: int, up: int) -> int:
    """V_LERP_U8: the lowest bit of a byte of the third source rounds up."""
    means = [x + y + (z & 1) >> 1 for x, y, z in zip(*map(bytes_of, (a, b, up)), strict=True)]
    return int.from_bytes(bytes(means), "little")


def cube(what: str) -> Callable[[int, int, int], int]:
    """V_CUBE: face, coordinates and axis of a direction, by the largest of its parts."""

    def holds(test: Callable[[object, object], bool], a: int, b: int) -> bool:
        """A comparison, which a NaN fails."""
        ordered = not floats.is_nan(a, F32) and not floats.is_nan(b, F32)
        return ordered and test(floats.order(a, F32), floats.order(b, F32))

    def compute(*direction: int) -> int:
        x, _, z = direction
        sizes = [part & ~F32.sign for part in direction]
        axis = 1 if holds(ge, sizes[1], sizes[0]) else 0
        if holds(ge, sizes[2], sizes[0]) and holds(ge, sizes[2], sizes[1]):
            axis = 2
        below = holds(lt, direction[axis], 0)
        opposite = [part ^ F32.sign for part in direction]
        if what == "id":
            return floats.encode(Fraction(2 * axis + below), F32)
        if what == "ma":
            return floats.multiply(direction[axis], floats.encode(Fraction(2), F32), F32)
        if what == "sc":
            return ((opposite[2], z)[below], x, (x, opposite[0])[below])[axis]
        return (opposite[1], (z, opposite[2])[below], opposite[1])[axis]

    return compute


_integers()
for _what in ("id", "sc", "tc", "ma"):
    op(f"v_cube{_what}_f32", "f32", "f32 f32 f32", cube(_what))
op("v_trig_preop_f64", "f64", "f64 u32", floats.segment)
for _name in ("exp", "log"):
    alias(f"v_{_name}_legacy_f32", f"v_{_name}_f32")
op("v_lerp_u8", "u32", "b32 b32 b32", mean_of_bytes)
op("v_msad_u8", "u32", "b32 b32 u32", masked_sad)
op("v_sad_hi_u8", "u32", "b32 b32 u32", lambda a, b, c: (sad(a, b, 0) << 16) + c)
op("v_sad_u8", "u32", "b32 b32 u32", sad)
op("v_sad_u32", "u32", "u32 u32 u32", lambda a, b, c: abs(a - b) + c)
op(
    "v_sad_u16",
    "u32",
    "b32 b32 u32",
    lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c,
)


# Conversions.
def integer(low: int, high: int, f: Format) -> Callable[[int], int]:
    return lambda a: floats.to_integer(a, f, low, high)


def from_integer(f: Format) -> Callable[[int], int]:
    return lambda a: floats.encode(Fraction(a), f)


def between(source: Format, target: Format, mode: str = "even") -> Callable[[int], int]:
    return lambda a: floats.convert(a, source, target, mode)


def pair(low: int, high: int) -> int:
    return low & 0xFFFF | (high & 0xFFFF) << 16


def normalized(f: Format, high: int, low: int) -> Callable[[int], int]:
    """To a fraction of `high`, to nearest even, saturating, 0 of NaN."""

    def compute(a: int) -> int:
        if floats.is_nan(a, f):
            return 0
        if floats.is_inf(a, f):
            return low if floats.negative(a, f) else high
        return max(low, min(high, round(floats.value(a, f) * high)))

    return compute


LIMITS = {
    "i8": (-(1 << 7), (1 << 7) - 1),
    "u8": (0, (1 << 8) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, (1 << 16) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1),
    "u64": (0, (1 << 64) - 1),
}


def saturate(x: int, t: str) -> int:
    low, high = LIMITS[t]
    return max(low, min(high, x))


def _conversions() -> None:
    for t, f in (("f32", F32), ("f64", F64)):
        for i in ("i32", "u32"):
            op(f"v_cvt_{i}_{t}", i, t, integer(*LIMITS[i], f))
            op(f"v_cvt_{t}_{i}", t, i, from_integer(f))
    for i in ("i16", "u16"):
        op(f"v_cvt_{i}_f16", i, "f16", integer(*LIMITS[i], F16))
        op(f"v_cvt_f16_{i}", "f16", i, from_integer(F16))
    op("v_cvt_i32_i16", "i32", "i16", lambda a: a)
    op("v_cvt_u32_u16", "u32", "u16", lambda a: a)
    for source, target in (("f16", "f32"), ("f32", "f16"), ("f32", "f64"), ("f64", "f32")):
        op(f"v_cvt_{target}_{source}", target, source, between(FORMATS[source], FORMATS[target]))

    def near(a: int) -> int:
        """Floor of a + 0.5, where the sum is rounded to f32 as the document writes it."""
        if floats.is_nan(a, F32):
            return 0
        return floats.to_integer(
            floats.round_to_integral(floats.add(a, 0x3F000000, F32), F32, math.floor),
            F32,
            *LIMITS["i32"],
        )

    def down(a: int) -> int:
        whole = floats.round_to_integral(a, F32, math.floor)
        return floats.to_integer(whole, F32, *LIMITS["i32"])

    for name in ("v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"):
        op(name, "i32", "f32", near)
    for name in ("v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"):
        op(name, "i32", "f32", down)
    op(
        "v_cvt_off_f32_i4",
        "f32",
        "b32",
        lambda a: floats.encode(Fraction(signed(a, 4), 16), F32),
    )
    for i in range(4):
        op(
            f"v_cvt_f32_ubyte{i}",
            "f32",
            "b32",
            lambda a, i=i: floats.encode(Fraction(a >> 8 * i & 0xFF), F32),
        )
    half = between(F32, F16, "zero")
    for name in ("v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32"):
        op(name, "b32", "f32 f32", lambda a, b: pair(half(a), half(b)))
    for t, f in (("f32", F32), ("f16", F16)):
        snorm, unorm = normalized(f, 32767, -32767), normalized(f, 65535, 0)
        for kind, function in (("i16", snorm), ("u16", unorm)):
            for name in (f"v_cvt_pknorm_{kind}_{t}", f"v_cvt_pk_norm_{kind}_{t}"):
                op(name, "b32", f"{t} {t}", lambda a, b, g=function: pair(g(a), g(b)))
            if t == "f16":
                op(f"v_cvt_norm_{kind}_f16", kind, "f16", function)
    for kind in ("i16", "u16"):
        wide = kind[0] + "32"
        to_half = integer(*LIMITS[kind], F32)
        op(
            f"v_cvt_pk_{kind}_{wide}",
            "b32",
            f"{wide} {wide}",
            lambda a, b, kind=kind: pair(saturate(a, kind), saturate(b, kind)),
        )
        op(
            f"v_cvt_pk_{kind}_f32",
            "b32",
            "f32 f32",
            lambda a, b, g=to_half: pair(g(a), g(b)),
        )
    byte = integer(0, 255, F32)
    op(
        "v_cvt_pk_u8_f32",
        "b32",
        "f32 b32 b32",
        lambda a, n, c: c & ~(0xFF << 8 * (n & 3)) | byte(a) << 8 * (n & 3),
    )
    op(
        "v_sat_pk_u8_i16",
        "b16",
        "b32",
        lambda a: saturate(signed(a, 16), "u8") | saturate(signed(a >> 16, 16), "u8") << 8,
    )
    op("v_pack_b32_f16", "b32", "f16 f16", pair)


_conversions()


# Dot products: in the order of the documents' sums, each step rounded once.
def parts(a: int, bits: int, sign: bool) -> list[int]:
    fields = [a >> i & (1 << bits) - 1 for i in range(0, 32, bits)]
    return [signed(x, bits) for x in fields] if sign else fields


def dot(bits: int, sign: bool) -> Callable[[int, int, int], int]:
    return lambda a, b, c: (
        c + sum(x * y for x, y in zip(parts(a, bits, sign), parts(b, bits, sign), strict=True))
    )


def float_dot(source: Format, target: Format) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, c: int) -> int:
        for x, y in zip(parts(a, 16, False), parts(b, 16, False), strict=True):
            factors = (floats.convert(z, source, target) for z in (x, y))
            c = floats.fma(*factors, c, target)
        return c

    return compute


for _bits in (16, 8, 4):
    _n = 32 // _bits
    op(f"v_dot{_n}_i32_i{_bits}", "i32", "b32 b32 i32", dot(_bits, True))
    op(f"v_dot{_n}_u32_u{_bits}", "u32", "b32 b32 u32", dot(_bits, False))
    op(f"v_dot{_n}c_i32_i{_bits}", "i32", "b32 b32", dot(_bits, True), accumulate=True)
op("v_dot2_f32_f16", "f32", "b32 b32 f32", float_dot(F16, F32))
op("v_dot2_f32_bf16", "f32", "b32 b32 f32", float_dot(BF16, F32))
op("v_dot2c_f32_f16", "f32", "b32 b32", float_dot(F16, F32), accumulate=True)
alias("v_dot2acc_f32_f16", "v_dot2c_f32_f16")
op("v_dot2_f16_f16", "f16", "b32 b32 f16", float_dot(F16, F16))


# Packed 16-bit halves and pairs of f32 (VOP3P): functions of one half.
class Packed(NamedTuple):
    type: str
    sources: int
    compute: Callable[..., int]
    accumulate: bool = False


PACKED: dict[str, Packed] = {}


def _packed() -> None:
    for t in ("i16", "u16"):
        PACKED[f"v_pk_add_{t}"] = Packed(t, 2, lambda a, b: a + b)
        PACKED[f"v_pk_sub_{t}"] = Packed(t, 2, lambda a, b: a - b)
        PACKED[f"v_pk_mad_{t}"] = Packed(t, 3, lambda a, b, c: a * b + c)
        PACKED[f"v_pk_min_{t}"] = Packed(t, 2, min)
        PACKED[f"v_pk_max_{t}"] = Packed(t, 2, max)
    PACKED["v_pk_mul_lo_u16"] = Packed("u16", 2, lambda a, b: a * b)
    PACKED["v_pk_lshlrev_b16"] = Packed("b16", 2, lambda n, a: a << (n & 15))
    PACKED["v_pk_lshrrev_b16"] = Packed("b16", 2, lambda n, a: a >> (n & 15))
    PACKED["v_pk_ashrrev_i16"] = Packed("i16", 2, lambda n, a: a >> (n & 15))
    for t in ("f16", "f32"):
        for name, sources in (("add", 2), ("mul", 2), ("fma", 3), ("min", 2), ("max", 2)):
            PACKED[f"v_pk_{name}_{t}"] = Packed(t, sources, OPS[f"v_{name}_{t}"].compute)
    fmac = OPS["v_fmac_f16"].compute
    PACKED["v_pk_fmac_f16"] = Packed("f16", 2, fmac, accumulate=True)


_packed()

# Results of 16 bits on gfx9: most instructions clear the upper half, these keep it (LLVM,
# GCNSubtarget::zeroesHigh16BitsOfDest, and CDNA3 ISA, "op_sel"). From gfx10 on, all keep it.
KEEPS_UPPER_HALF = (
    *("v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16", "v_fmac_f16"),
    *("v_mac_f16", "v_madak_f16", "v_madmk_f16"),
    *(f"v_{name}_{t}" for name in ("min3", "max3", "med3") for t in ("f16", "i16", "u16")),
    *("v_add_i16", "v_sub_i16"),
)
