"""Exact binary floating point of any format: rationals in, bit patterns out.

Formats and rounding are those of IEEE 754-2019 (sections 3.4, 4.3, 6.2, 6.3). Denormals are kept.
A NaN result is the first NaN operand made quiet, or the default quiet NaN with sign 0; AMD's
documents leave the payload open.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """Widths of the exponent and of the stored significand."""

    exponent: int
    mantissa: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def sign(self) -> int:
        return 1 << self.width - 1

    @property
    def inf(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        return self.inf | 1 << self.mantissa - 1

    @property
    def largest(self) -> int:
        return self.inf - 1

    @property
    def one(self) -> int:
        return self.bias << self.mantissa


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
FP8, BF8 = Format(4, 3), Format(5, 2)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def is_nan(bits: int, f: Format) -> bool:
    return bits & ~f.sign > f.inf


def is_signaling(bits: int, f: Format) -> bool:
    return is_nan(bits, f) and not bits >> f.mantissa - 1 & 1


def is_inf(bits: int, f: Format) -> bool:
    return bits & ~f.sign == f.inf


def is_zero(bits: int, f: Format) -> bool:
    return bits & ~f.sign == 0


def is_denormal(bits: int, f: Format) -> bool:
    return 0 < bits & ~f.sign < 1 << f.mantissa


def negative(bits: int, f: Format) -> int:
    """Sign bit as 0 or 1."""
    return bits >> f.width - 1 & 1


def exponent_field(bits: int, f: Format) -> int:
    return bits >> f.mantissa & (1 << f.exponent) - 1


def quiet(bits: int, f: Format) -> int:
    return bits | 1 << f.mantissa - 1


def first_nan(f: Format, *operands: int) -> int | None:
    """First NaN of the operands, made quiet; None without a NaN."""
    return next((quiet(bits, f) for bits in operands if is_nan(bits, f)), None)


def power(k: int) -> Fraction:
    return Fraction(1 << k) if k >= 0 else Fraction(1, 1 << -k)


def value(bits: int, f: Format) -> Fraction:
    """Value of a finite number."""
    exponent, mantissa = exponent_field(bits, f), bits & (1 << f.mantissa) - 1
    if exponent:
        mantissa |= 1 << f.mantissa
    magnitude = mantissa * power(max(exponent, 1) - f.bias - f.mantissa)
    return -magnitude if negative(bits, f) else magnitude


def log2_floor(x: Fraction) -> int:
    """Largest k with 2^k <= x, for x > 0."""
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if power(k) <= x else k - 1


def encode(x: Fraction, f: Format, zero_sign: int = 0, mode: str = "even") -> int:
    """Bits of x, rounded to nearest even, or toward zero with mode "zero"."""
    if x == 0:
        return f.sign if zero_sign else 0
    sign = f.sign if x < 0 else 0
    lowest = 1 - f.bias
    exponent = max(log2_floor(abs(x)), lowest)
    scaled = abs(x) / power(exponent - f.mantissa)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if mode == "even" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)):
        whole += 1
    bits = (exponent - lowest << f.mantissa) + whole  # a carry goes on into the exponent
    if bits >= f.inf:
        return sign | (f.inf if mode == "even" else f.largest)
    return sign | bits


def convert(bits: int, source: Format, target: Format, mode: str = "even") -> int:
    """The same number in another format."""
    sign = target.sign if negative(bits, source) else 0
    if is_nan(bits, source):
        payload = bits & (1 << source.mantissa) - 1
        shift = target.mantissa - source.mantissa
        payload = payload << shift if shift >= 0 else payload >> -shift
        return sign | target.nan | payload
    if is_inf(bits, source):
        return sign | target.inf
    return encode(value(bits, source), target, negative(bits, source), mode)


def from_float(x: float, f: Format) -> int:
    return encode(Fraction(x), f, int(math.copysign(1, x) < 0))


def fma(a: int, b: int, c: int, f: Format) -> int:
    """a * b + c, rounded once."""
    if (nan := first_nan(f, a, b, c)) is not None:
        return nan
    sign = negative(a, f) ^ negative(b, f)
    if is_inf(a, f) or is_inf(b, f):
        if is_zero(a, f) or is_zero(b, f):
            return f.nan
        if is_inf(c, f) and negative(c, f) != sign:
            return f.nan
        return f.inf | (f.sign if sign else 0)
    if is_inf(c, f):
        return c
    both_negative = sign and negative(c, f)  # decides the sign of an exact zero: IEEE 754, 6.3
    return encode(value(a, f) * value(b, f) + value(c, f), f, both_negative)


def add(a: int, b: int, f: Format) -> int:
    return fma(a, f.one, b, f)


def subtract(a: int, b: int, f: Format) -> int:
    return add(a, b if is_nan(b, f) else b ^ f.sign, f)


def multiply(a: int, b: int, f: Format) -> int:
    if (nan := first_nan(f, a, b)) is not None:
        return nan
    sign = negative(a, f) ^ negative(b, f)
    return fma(a, b, f.sign if sign else 0, f)  # adding a zero of the product's sign


def order(bits: int, f: Format) -> Fraction | float:
    """Number to compare with, for anything but NaN."""
    if is_inf(bits, f):
        return -math.inf if negative(bits, f) else math.inf
    return value(bits, f)


def total_key(bits: int, f: Format) -> int:
    """Integer in the order of the numbers, with -0 below +0."""
    return -(bits & ~f.sign) - 1 if negative(bits, f) else bits


def pick(a: int, b: int, f: Format, choose: Callable[..., int]) -> int:
    """V_MIN, V_MAX in IEEE mode: a signaling NaN comes out quiet, else the number (-0 < +0)."""
    for bits in (a, b):
        if is_signaling(bits, f):
            return quiet(bits, f)
    if is_nan(b, f):
        return a
    if is_nan(a, f):
        return b
    return choose(a, b, key=lambda bits: total_key(bits, f))


def minimum(a: int, b: int, f: Format) -> int:
    return pick(a, b, f, min)


def maximum(a: int, b: int, f: Format) -> int:
    return pick(a, b, f, max)


def round_to_integral(bits: int, f: Format, rounder: Callable[[Fraction], int]) -> int:
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_inf(bits, f):
        return bits
    return encode(Fraction(rounder(value(bits, f))), f, negative(bits, f))


def fraction(bits: int, f: Format) -> int:
    """V_FRACT: x - floor(x), below 1 (LLVM's patterns rely on the cap)."""
    if is_nan(bits, f) or is_inf(bits, f):
        return quiet(bits, f) if is_nan(bits, f) else f.nan
    x = value(bits, f)
    return min(encode(x - math.floor(x), f), f.one - 1)


def scale(bits: int, exponent: int, f: Format) -> int:
    """V_LDEXP: x * 2^exponent, rounded once."""
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_inf(bits, f) or is_zero(bits, f):
        return bits
    exponent = max(-5000, min(5000, exponent))
    return encode(value(bits, f) * power(exponent), f, negative(bits, f))


def to_integer(bits: int, f: Format, low: int, high: int) -> int:
    """V_CVT to an integer: toward zero, saturating, 0 of NaN."""
    if is_nan(bits, f):
        return 0
    if is_inf(bits, f):
        return low if negative(bits, f) else high
    return max(low, min(high, math.trunc(value(bits, f))))


def reciprocal(bits: int, f: Format) -> int:
    if is_nan(bits, f):
        return quiet(bits, f)
    sign = bits & f.sign
    if is_zero(bits, f):
        return sign | f.inf
    if is_inf(bits, f):
        return sign
    return encode(1 / value(bits, f), f)


def root(x: Fraction) -> Fraction:
    """Square root to more than 128 bits."""
    shift = 2 * (160 - log2_floor(x) // 2)
    scaled = x * power(shift)
    return math.isqrt(scaled.numerator // scaled.denominator) * power(-shift // 2)


def square_root(bits: int, f: Format) -> int:
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_zero(bits, f):
        return bits
    if negative(bits, f):
        return f.nan
    return bits if is_inf(bits, f) else encode(root(value(bits, f)), f)


def reciprocal_root(bits: int, f: Format) -> int:
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_zero(bits, f):
        return bits & f.sign | f.inf
    if negative(bits, f):
        return f.nan
    return 0 if is_inf(bits, f) else encode(1 / root(value(bits, f)), f)


def exp2(bits: int, f: Format) -> int:
    """V_EXP: 2^x. Denormal results are kept; hardware of f32 flushes them."""
    if is_nan(bits, f):
        return quiet(bits, f)
    x = float(order(bits, f))
    if x >= 1024:
        return f.inf
    return 0 if x < -1080 else from_float(math.exp2(x), f)


def log2(bits: int, f: Format) -> int:
    """V_LOG: base 2, -inf of zeros, NaN below. Denormal inputs are kept as for `exp2`."""
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_zero(bits, f):
        return f.sign | f.inf
    if negative(bits, f):
        return f.nan
    return bits if is_inf(bits, f) else from_float(math.log2(value(bits, f)), f)


def turn(bits: int, f: Format, function: Callable[[float], float]) -> int:
    """V_SIN, V_COS of x turns: reduced exactly; 0 and 1 beyond 256 turns (GCN3 ISA, V_SIN_F32)."""
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_inf(bits, f):
        return f.nan
    x = value(bits, f)
    if abs(x) > 256:
        return from_float(function(0.0), f)
    if x == 0:
        return bits if function is math.sin else f.one
    x -= round(x)
    quarter = {Fraction(0): 0, Fraction(1, 4): 1, Fraction(1, 2): 2, Fraction(-1, 4): 3}
    quarter[Fraction(-1, 2)] = 2
    if x in quarter:  # exact, where a float of pi is not
        place = quarter[x] if function is math.sin else quarter[x] + 1
        return from_float((0.0, 1.0, 0.0, -1.0)[place % 4], f)
    return from_float(function(2 * math.pi * float(x)), f)


def mantissa_part(bits: int, f: Format) -> int:
    """V_FREXP_MANT: in [0.5, 1) with the sign."""
    if is_nan(bits, f):
        return quiet(bits, f)
    if is_inf(bits, f) or is_zero(bits, f):
        return bits
    x = value(bits, f)
    return encode(x * power(-log2_floor(abs(x)) - 1), f)


def exponent_part(bits: int, f: Format) -> int:
    """V_FREXP_EXP: 0 of zeros, infinities and NaNs."""
    if is_nan(bits, f) or is_inf(bits, f) or is_zero(bits, f):
        return 0
    return log2_floor(abs(value(bits, f))) + 1


def classify(bits: int, f: Format) -> int:
    """Bit of V_CMP_CLASS that says what the number is."""
    sign = negative(bits, f)
    if is_nan(bits, f):
        return 0 if is_signaling(bits, f) else 1
    if is_inf(bits, f):
        return 2 if sign else 9
    if is_zero(bits, f):
        return 5 if sign else 6
    if is_denormal(bits, f):
        return 4 if sign else 7
    return 3 if sign else 8


def clamp(bits: int, f: Format) -> int:
    """CLAMP of a float: to [0, 1]; NaN and -0 to 0, with DX10_CLAMP on as compilers set it."""
    if is_nan(bits, f) or negative(bits, f):
        return 0
    return min(bits, f.one)


def divide_scale(s0: int, s1: int, s2: int, f: Format) -> tuple[int, int]:
    """V_DIV_SCALE: one of denominator (s1) and numerator (s2), scaled, and what FMAS must undo.

    As RDNA3 ISA writes it, but for two places, where LLVM's division would else not be exact: the
    reciprocal is looked at in the format itself, and a huge denominator is scaled down, not up.
    """
    step, near, tiny = (64, 96, 23) if f is F32 else (128, 768, 53)
    if is_zero(s1, f) or is_zero(s2, f):
        return f.nan, 0
    distance = exponent_field(s2, f) - exponent_field(s1, f)
    finite = not any(is_nan(x, f) or is_inf(x, f) for x in (s1, s2))
    tiny_inverse = is_denormal(reciprocal(s1, f), f)
    tiny_quotient = finite and is_denormal(encode(value(s2, f) / value(s1, f), f), f)
    if distance >= near:
        return (scale(s0, step, f) if s0 == s1 else s0), 1
    if is_denormal(s1, f):
        return scale(s0, step, f), 0
    if tiny_inverse and tiny_quotient:
        return (scale(s0, -step, f) if s0 == s1 else s0), 1
    if tiny_inverse:
        return scale(s0, -step, f), 0
    if tiny_quotient:
        return (scale(s0, step, f) if s0 == s2 else s0), 1
    return (scale(s0, step, f) if exponent_field(s2, f) <= tiny else s0), 0


def divide_fixup(s0: int, s1: int, s2: int, f: Format) -> int:
    """V_DIV_FIXUP: quotient s0 of numerator s2 and denominator s1, with special cases mended."""
    sign = f.sign if negative(s1, f) ^ negative(s2, f) else 0
    if (nan := first_nan(f, s2, s1)) is not None:
        return nan
    if (is_zero(s1, f) and is_zero(s2, f)) or (is_inf(s1, f) and is_inf(s2, f)):
        return f.sign | f.nan
    if is_zero(s1, f) or is_inf(s2, f):
        return sign | f.inf
    if is_inf(s1, f) or is_zero(s2, f):
        return sign
    if f is not F16:
        lowest = {F32: -150, F64: -1075}[f]
        if exponent_field(s2, f) - exponent_field(s1, f) < lowest:
            return sign  # underflow, to nearest even
        if is_nan(s0, f):  # the refined quotient of an overflow: infinity minus infinity
            return sign | f.inf
    return sign | s0 & ~f.sign


def divide_fmas(a: int, b: int, c: int, undo: int, f: Format) -> int:
    """V_DIV_FMAS: a fused multiply-add that undoes what V_DIV_SCALE did, rounded once.

    Up by 2^64 (2^128 for f64) if the estimate c is 2 or more, when the denominator was scaled;
    else down, when the numerator was. The documents' pseudocode has one factor of 2^32 for f32,
    with which LLVM's division would be wrong; with these it is the quotient of IEEE 754.
    """
    result = fma(a, b, c, f)
    if not undo or is_nan(result, f) or is_inf(c, f):
        return result
    step = 64 if f is F32 else 128
    shift = step if exponent_field(c, f) > f.bias else -step
    if is_inf(a, f) or is_inf(b, f) or is_zero(result, f):
        return result
    exact = value(a, f) * value(b, f) + value(c, f)
    return encode(exact * power(shift), f, negative(result, f))


def from_small(byte: int, f: Format) -> int:
    """8-bit float of gfx942 to f32: one zero, NaN is 0x80, no infinity, a bias one larger."""
    return F32.nan if byte == f.sign else encode(value(byte, f) / 2, F32)


def to_small(bits: int, f: Format) -> int:
    """f32 to an 8-bit float of gfx942, nearest even; what rounds beyond the largest is the NaN."""
    if is_nan(bits, F32) or is_inf(bits, F32):
        return f.sign
    size = abs(value(bits, F32))
    sizes = [value(from_small(code, f), F32) for code in range(f.sign)]
    sizes.append(2 * sizes[-1] - sizes[-2])
    code = min(range(len(sizes)), key=lambda code: (abs(sizes[code] - size), code & 1))
    return code | f.sign if code and negative(bits, F32) else code


def pi_times(unit: int) -> int:
    """Pi by the arithmetic-geometric mean (Brent and Salamin), as an integer of these units."""
    a, b, t, p = unit, math.isqrt(unit * unit // 2), unit // 4, 1
    for _ in range(12):
        a, b, t, p = (a + b) // 2, math.isqrt(a * b), t - p * ((a - b) // 2) ** 2 // unit, 2 * p
    return (a + b) ** 2 // (4 * t)


def segment(angle: int, number: int) -> int:
    """V_TRIG_PREOP_F64: 53 bits of the 1,201 bits of 2 / pi behind the point (RDNA3 ISA)."""
    exponent = exponent_field(angle, F64)
    shift = 53 * (number & 31) + max(0, exponent - 1077)
    unit = 1 << 1400
    bits = (2 * unit * (1 << 1201) // pi_times(unit) << shift) >> 1201 - 53 & (1 << 53) - 1
    return encode(bits * power(-53 - shift + (128 if exponent >= 1968 else 0)), F64)
