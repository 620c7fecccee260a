"""What vector instructions compute in a lane: functions over arrays, by the instruction's name.

After AMD's instruction set guides ("AMD Instinct MI200", "RDNA 2" and "RDNA 3 Instruction Set
Architecture Reference Guide", chapters on vector ALU instructions). Sums, products and fused
multiply-adds are rounded once, to the nearest even number, and keep denormals. The instructions
in `APPROXIMATE` are rounded correctly here, and within one unit in the last place on hardware.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Array = Any
"""A NumPy array; its type follows from that of the operands, which stubs cannot say."""

_F32, _F64, _F16 = np.float32, np.float64, np.float16
_U64, _U32, _U16 = np.uint64, np.uint32, np.uint16
_I64, _I32, _I16 = np.int64, np.int32, np.int16

WORD: dict[str, Any] = {
    **{"b32": _U32, "u32": _U32, "i32": _I32, "f32": _F32},
    **{"b64": _U64, "u64": _U64, "i64": _I64, "f64": _F64},
    **{"b16": _U16, "u16": _U16, "i16": _I16, "f16": _F16},
}
"""Types of operands."""

APPROXIMATE = frozenset(
    f"v_{name}_{kind}"
    for name in (
        *(
            "exp",
            "log",
            "exp_legacy",
            "log_legacy",
            "rcp",
            "rcp_iflag",
            "rsq",
            "sqrt",
            "sin",
            "cos",
        ),
    )
    for kind in ("f16", "f32", "f64")
)
"""Instructions whose last bit depends on the hardware."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What an instruction computes.

    Attributes
    ----------
    result : str
        Type of the result.
    sources : tuple of str
        Types of the operands; ``mask`` is a mask of lanes, VCC if the text has none.
    compute : callable
        From arrays of these types to an array of that one.
    saturated : callable or None
        The same with ``clamp``, where that is not the interval from 0 to 1.
    """

    result: str
    sources: tuple[str, ...]
    compute: Callable[..., Array]
    saturated: Callable[..., Array] | None = None


def of_kinds(names: str, types: str, kinds: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Names of instructions, and types of their results and operands, of a row of a table.

    Parameters
    ----------
    names : str
        Mnemonics without their beginning, which compute the same.
    types : str
        Type of the result, then those of the operands.
    kinds : str
        What stands for each ``T`` in names and types, one after the other.
    """
    for kind in kinds.split():
        result, *sources = types.replace("T", kind).split()
        for name in names.replace("T", kind).split():
            yield name, result, tuple(sources)


# Bits.


def as_bits(x: Array) -> Array:
    """The same bits as unsigned numbers."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def bits_of(x: Array) -> Array:
    """Bits of unsigned numbers, the lowest first, uint8[..., bits]."""
    content = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.unpackbits(content, axis=-1, bitorder="little")


def from_bits(bits: Array, dtype: Any) -> Array:
    """Numbers of a type from their lower bits."""
    content = np.packbits(bits, axis=-1, bitorder="little")
    return content.view(f"u{content.shape[-1]}")[..., 0].astype(dtype)


def reversed_bits(x: Array) -> Array:
    """Unsigned numbers with their bits in the other order."""
    return from_bits(bits_of(x)[..., ::-1], x.dtype)


def trailing_zeros(x: Array) -> Array:
    """Zeros behind the last one of an unsigned number, -1 if there is none."""
    below = ~x & (x - x.dtype.type(1))
    return np.where(x == 0, _I32(-1), np.bitwise_count(below).astype(_I32))


def leading_zeros(x: Array) -> Array:
    """Zeros before the first one of an unsigned number, -1 if there is none."""
    return trailing_zeros(reversed_bits(x))


def sign_bits(x: Array) -> Array:
    """Bits before the first that differs from the sign, -1 if there is none."""
    signed = x.view(f"i{x.dtype.itemsize}")
    return leading_zeros(np.where(signed < 0, ~x, x))


def shift_by(count: Array, x: Array) -> Array:
    """Count of a shift of numbers, of their type: its lower bits."""
    return (count & (8 * x.dtype.itemsize - 1)).astype(x.dtype)


def ones_at(bits: int) -> Callable[..., Array]:
    """Ones in a number of so many bits: how many, and from which bit on."""
    dtype = WORD[f"u{bits}"]

    def made(width: Array, offset: Array) -> Array:
        ones = (dtype(1) << (width & (bits - 1)).astype(dtype)) - dtype(1)
        return ones << (offset & (bits - 1)).astype(dtype)

    return made


# Rounding.


def _to_odd(high: Array, low: Array) -> Array:
    """The sum of a float64 and its rounding error, rounded to odd: a later rounding is exact."""
    bits = high.view(_I64)
    even = (low != 0) & (bits & 1 == 0) & np.isfinite(high)
    towards = np.where((low > 0) == (high > 0), 1, -1)
    return (bits + np.where(even, towards, 0)).view(_F64)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """A sum and its rounding error (Knuth, The Art of Computer Programming, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c in float32, rounded once."""
    product = a.astype(_F64) * b
    wide = c.astype(_F64)
    total = product + wide
    narrow = total.astype(_F32)
    bits = total.view(_I64)
    # A second rounding can only err where the first one ended between two float32, or where
    # float32 has fewer digits than usual.
    between = (bits & 0x1FFFFFFF == 0x10000000) | (np.abs(total) < 1.2e-38)
    if between.any():
        total, error = _two_sum(product, wide)
        narrow = np.where(between, _to_odd(total, error).astype(_F32), narrow)
    return narrow


def fma16(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c in float16, rounded once."""
    total, error = _two_sum(a.astype(_F64) * b, c.astype(_F64))
    return _to_odd(total, error).astype(_F16)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c in float64, rounded once (Boldo and Melquiond, IEEE TC 57(4), 2008)."""
    a, b, c = (np.array(x) for x in np.broadcast_arrays(a, b, c))
    product = a * b

    def halves(x: Array) -> tuple[Array, Array]:
        split = 134217729.0 * x
        high = split - (split - x)
        return high, x - high

    (a1, a0), (b1, b0) = halves(a), halves(b)
    rest = ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0
    high, low = _two_sum(c, rest)
    total, error = _two_sum(product, high)
    fused = total + _to_odd(*_two_sum(low, error))
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    inner = [(np.abs(x) > 1e-140) & (np.abs(x) < 1e140) | (x == 0) for x in (a, b, c)]
    far = finite & ~(inner[0] & inner[1] & inner[2])
    for place in zip(*np.nonzero(far), strict=True):
        fused[place] = _exact_fma(a[place], b[place], c[place])
    plain = ~finite | (~far & ((fused == 0) | ~np.isfinite(fused)))
    swallowed = np.isinf(c) & np.isfinite(a) & np.isfinite(b)  # also a product beyond all numbers
    return np.where(plain, np.where(swallowed, c, product + c), fused)


def _exact_fma(a: float, b: float, c: float, power: int = 0) -> float:
    """One fused multiply-add times a power of two, by fractions: of very large or small numbers."""
    exact = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** power
    if not exact:
        return float(a * b + c) if a == 0 or b == 0 or c == 0 else 0.0
    try:
        return float(exact)  # correctly rounded
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of float64, for narrower numbers."""
    return lambda x: function(x.astype(_F64)).astype(x.dtype)


# Minimum and maximum: a number goes before a NaN, and -0 before +0.


def _zeros_in_order(chosen: Array, a: Array, b: Array, least: bool) -> Array:
    both = (a == 0) & (b == 0)
    if not both.any():
        return chosen
    a, b = map(as_bits, np.broadcast_arrays(a, b))
    bits = (a | b) if least else (a & b)
    return np.where(both, bits.view(chosen.dtype), chosen)


def _quieted(chosen: Array, *operands: Array) -> Array:
    """With a signalling NaN among the operands, the result is that NaN, quiet (IEEE mode)."""
    for x in reversed(operands):
        nan = np.isnan(x)
        if nan.any():
            raw, quiet = as_bits(x), _quiet_bit(x.dtype)
            signals = nan & (raw & quiet == 0)
            chosen = np.where(signals, (raw | quiet).view(x.dtype), chosen)
    return chosen


def _quiet_bit(dtype: Any) -> Array:
    """The bit that makes a NaN quiet, as an unsigned number."""
    bits = WORD[f"u{8 * dtype.itemsize}"]
    return bits(1) << bits(np.finfo(dtype).nmant - 1)


def with_nans(result: Array, *operands: Array) -> Array:
    """Give NaNs of a result their bits: those of the first NaN operand, quiet, else positive."""
    nan = np.isnan(result)
    if not nan.any():
        return result
    quiet = _quiet_bit(result.dtype)
    raw = np.full(result.shape, quiet | as_bits(np.array(np.inf, result.dtype)))
    for x in reversed(operands):
        if x.dtype == result.dtype:
            raw = np.where(np.isnan(x), as_bits(x) | quiet, raw)
    return np.where(nan, raw.view(result.dtype), result)


def to_unit(x: Array) -> Array:
    """The modifier ``clamp``: from 0 to 1; a NaN becomes 0 (DX10_CLAMP is on), -0 becomes 0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def least(a: Array, b: Array) -> Array:
    """Smaller of two numbers, as V_MIN has it."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return _quieted(_zeros_in_order(np.fmin(a, b), a, b, least=True), a, b)


def most(a: Array, b: Array) -> Array:
    """Larger of two numbers, as V_MAX has it."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return _quieted(_zeros_in_order(np.fmax(a, b), a, b, least=False), a, b)


def _middle(a: Array, b: Array, c: Array) -> Array:
    middle = most(least(a, b), least(most(a, b), c))
    if a.dtype.kind != "f":
        return middle
    any_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(any_nan, least(least(a, b), c), middle)


def _of_turns(function: Any, x: Array, before: int) -> Array:
    """Sine or cosine of turns: reduced exactly, exact at quarters, that of 0 beyond 256 turns."""
    part = x - np.rint(x)
    part = np.where(np.abs(x) > 256, 0.0, part)
    quarter = part * 4
    exact = np.array([0.0, 1.0, 0.0, -1.0])[(np.nan_to_num(quarter).astype(_I64) + before) % 4]
    value = np.where(quarter == np.rint(quarter), exact, function(2 * np.pi * part))
    if not before:
        value = np.where(x == 0, x, value)
    return np.where(np.isfinite(x), value, np.nan)


def _fraction(x: Array) -> Array:
    below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.minimum(x - np.floor(x), below_one)


def _of_three(first: Any, second: Any) -> Callable[..., Array]:
    return lambda a, b, c: second(first(a, b), c)


def _zero_times(fused: Any) -> Callable[..., Array]:
    """A multiply-add in which zero times anything is zero."""
    return lambda a, b, c: np.where((a == 0) | (b == 0), c, fused(a, b, c))


def _ldexp(x: Array, exponent: Array) -> Array:
    return np.ldexp(x.astype(_F64), np.clip(exponent.astype(_I64), -4200, 4200)).astype(x.dtype)


# Integers.


def _bounded(compute: Callable[..., Array]) -> Callable[..., Array]:
    """A sum or a difference that stays at the limits of its type."""

    def saturated(*operands: Array) -> Array:
        dtype = operands[0].dtype
        wide = compute(*(x.astype(_I64) for x in operands))
        return np.clip(wide, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)

    return saturated


def _field(x: Array, offset: Array, width: Array) -> Array:
    width = width & 31
    return (x >> (offset & 31)) & ((_U32(1) << width) - _U32(1))


def _signed_field(x: Array, offset: Array, width: Array) -> Array:
    width, bits = np.broadcast_arrays(width & 31, x >> (offset & 31).astype(_I32))
    spare = (32 - width.astype(_I32)) & 31
    return np.where(width == 0, _I32(0), ((bits << spare) >> spare).astype(_I32))


def _aligned(unit: int) -> Callable[..., Array]:
    def shifted(high: Array, low: Array, count: Array) -> Array:
        bits = high.astype(_U64) << _U64(32) | low
        return (bits >> ((count & (32 // unit - 1)) * _U32(unit)).astype(_U64)).astype(_U32)

    return shifted


def _permuted(high: Array, low: Array, selector: Array) -> Array:
    high, low, selector = np.broadcast_arrays(high, low, selector)
    bits = high.astype(_U64) << _U64(32) | low
    result = np.zeros(bits.shape, _U32)
    for byte in range(4):
        chosen = selector >> _U32(8 * byte) & _U32(0xFF)
        picked = (bits >> ((chosen & 7) * _U32(8)).astype(_U64)).astype(_U32) & _U32(0xFF)
        sign = (
            np.where(
                chosen == 8,
                low >> 15,
                np.where(chosen == 9, low >> 31, np.where(chosen == 10, high >> 15, high >> 31)),
            )
            & 1
        )
        picked = np.where((chosen >= 8) & (chosen <= 11), sign * _U32(0xFF), picked)
        picked = np.where(chosen == 12, _U32(0), np.where(chosen >= 13, _U32(0xFF), picked))
        result |= picked << _U32(8 * byte)
    return result


def _u24(x: Array) -> Array:
    return x & 0xFFFFFF


def _i24(x: Array) -> Array:
    return (x & 0xFFFFFF ^ 0x800000) - 0x800000


def high_product(a: Array, b: Array) -> Array:
    """Upper half of the product of two 32-bit numbers."""
    wide = WORD[f"{a.dtype.kind}64"]
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


def sad(width: int, *, masked: bool = False) -> Callable[..., Array]:
    """Sum of absolute differences of parts; masked, parts that are 0 in the second do not count."""

    def summed(a: Array, b: Array, c: Array) -> Array:
        a, b, c = np.broadcast_arrays(a, b, c)
        total = c.copy()
        mask = _U32((1 << width) - 1)
        for shift in range(0, 32, width):
            x, y = a >> _U32(shift) & mask, b >> _U32(shift) & mask
            total += np.where((y == 0) & masked, _U32(0), np.where(x > y, x - y, y - x))
        return total

    return summed


def _mean_of_bytes(a: Array, b: Array, up: Array) -> Array:
    """Means of bytes, each rounded up where the lowest bit of a third one is set."""
    bits = (_U32(0xFF << shift) for shift in range(0, 32, 8))
    means = [
        (a & of).astype(_U64) + (b & of) + (up & of & 0x01010101) >> _U64(1) & of for of in bits
    ]
    return sum(means[1:], means[0]).astype(_U32)


# Faces of a cube: of X, Y and Z, the largest in magnitude, Z before Y before X, is the axis.


def _of_axis(x: Array, y: Array, z: Array, of_x: Array, of_y: Array, of_z: Array) -> Array:
    is_z = (np.abs(z) >= np.abs(x)) & (np.abs(z) >= np.abs(y))
    return np.where(is_z, of_z, np.where(np.abs(y) >= np.abs(x), of_y, of_x))


def _cube_face(x: Array, y: Array, z: Array) -> Array:
    faces = (
        np.where(of < 0, _F32(first + 1), _F32(first)) for first, of in ((0, x), (2, y), (4, z))
    )
    return _of_axis(x, y, z, *faces)


def _cube_s(x: Array, y: Array, z: Array) -> Array:
    return _of_axis(x, y, z, np.where(x < 0, z, -z), x, np.where(z < 0, -x, x))


def _cube_t(x: Array, y: Array, z: Array) -> Array:
    return _of_axis(x, y, z, -y, np.where(y < 0, -z, z), -y)


def _cube_axis(x: Array, y: Array, z: Array) -> Array:
    return _of_axis(x, y, z, x * _F32(2), y * _F32(2), z * _F32(2))


# Two by pi, 1,201 bits behind the point (V_TRIG_PREOP_F64), by Machin's formula.


def _two_by_pi() -> int:
    unit = 1 << 1300

    def arctangent(of: int) -> int:
        term, total, number = unit // of, 0, 1
        while term:
            total += term // number * (2 - number % 4)
            term, number = term // of**2, number + 2
        return total

    quarter = 4 * arctangent(5) - arctangent(239)
    return unit * unit // (2 * quarter) >> 99


_TWO_BY_PI = _two_by_pi()


def _segment_of_two_by_pi(x: Array, segment: Array) -> Array:
    """53 bits of 2 / pi that a reduction of a large angle needs (V_TRIG_PREOP_F64)."""
    exponent = _exponent(x)
    shift = (segment & 31).astype(_I64) * 53 + np.maximum(exponent - 1077, 0)
    known, places = np.unique(shift, return_inverse=True)
    bits = [_TWO_BY_PI << int(of) >> 1201 - 53 & (1 << 53) - 1 for of in known]
    scale = -53 - shift + np.where(exponent >= 1968, 128, 0)
    return np.ldexp(np.array(bits, _F64)[places].reshape(shift.shape), scale)


# Conversions.


def _cast(kind: str) -> Callable[[Array], Array]:
    return lambda x: x.astype(WORD[kind])


def to_integer(x: Array, kind: str) -> Array:
    """Convert towards zero; what is too large becomes the largest number, a NaN 0."""
    info = np.iinfo(WORD[kind])
    wide = np.nan_to_num(np.trunc(x.astype(_F64)), nan=0.0, posinf=1e30, neginf=-1e30)
    return np.clip(wide, info.min, info.max).astype(_I64).astype(WORD[kind])


def from_half(x: Array) -> Array:
    """A float16 as float32; a NaN becomes quiet."""
    wide = x.astype(_F32)
    return _quieted(wide, wide)


def to_half(x: Array) -> Array:
    """A float32 as float16; a NaN becomes quiet and keeps its upper digits."""
    narrow = x.astype(_F16)
    nan = np.isnan(x)
    if not nan.any():
        return narrow
    bits = np.ascontiguousarray(x).view(_U32)
    quiet = (
        bits >> _U32(16) & _U32(0x8000) | _U32(0x7E00) | bits >> _U32(13) & _U32(0x1FF)
    ).astype(_U16)
    return np.where(nan, quiet.view(_F16), narrow)


def from_brain(x: Array) -> Array:
    """Numbers of 16 bits, bf16 as uint16, as float32."""
    return (x.astype(_U32) << _U32(16)).view(_F32)


def to_brain(x: Array) -> Array:
    """A float32 as bf16, uint16: to the nearest even number; a NaN becomes quiet."""
    bits = np.ascontiguousarray(x).view(_U32)
    rounded = bits + (bits >> _U32(16) & _U32(1)) + _U32(0x7FFF)
    return (np.where(np.isnan(x), bits | _U32(0x400000), rounded) >> _U32(16)).astype(_U16)


def toward_zero16(x: Array) -> Array:
    """A float32 as float16, rounded towards zero."""
    near = to_half(x)
    bits = near.view(_U16)
    too_far = np.abs(near.astype(_F32)) > np.abs(x)
    return np.where(too_far, bits - _U16(1), bits).astype(_U16)


def _pair(low: Array, high: Array) -> Array:
    """Two 16-bit patterns in a word."""
    return low.astype(_U16).astype(_U32) | high.astype(_U16).astype(_U32) << _U32(16)


def _pair_of(part: Callable[[Array], Array]) -> Callable[..., Array]:
    """Modifiers of each of two operands, in a word."""
    return lambda a, b: _pair(part(a), part(b))


def _normed(low: float, scale: int) -> Callable[[Array], Array]:
    """Numbers from -1 or 0 to 1 as integers."""
    return lambda x: np.rint(
        np.clip(np.nan_to_num(x.astype(_F64), nan=0.0), low, 1.0) * scale
    ).astype(_I64)


def _byte_of(x: Array) -> Array:
    return np.clip(x.astype(_U16).view(_I16), 0, 255).astype(_U16)


def _packed_byte(x: Array, byte: Array, word: Array) -> Array:
    shift = (byte & 3) * _U32(8)
    wide = np.clip(to_integer(x, "i32"), 0, 255).astype(_U32)
    return (word & ~(_U32(0xFF) << shift)) | wide << shift


_SMALL_FLOATS = {"fp8": (4, 3, 8), "bf8": (5, 2, 16)}
"""Bits of the exponent and of the fraction, and the bias."""


def small_float(x: Array, kind: str) -> Array:
    """A float of 8 bits (FNUZ of gfx942: no infinity, and 0x80 is the only NaN) as float32."""
    exponent_bits, mantissa_bits, bias = _SMALL_FLOATS[kind]
    x = x.astype(_U32) & _U32(0xFF)
    sign = np.where(x >> 7, -1.0, 1.0)
    exponent = (x >> mantissa_bits & _U32((1 << exponent_bits) - 1)).astype(_I32)
    mantissa = (x & _U32((1 << mantissa_bits) - 1)).astype(_F64)
    unit = 2.0**-mantissa_bits
    value = np.where(
        exponent == 0,
        np.ldexp(mantissa * unit, 1 - bias),
        np.ldexp(1 + mantissa * unit, exponent - bias),
    )
    return np.where(x == 0x80, np.nan, sign * value).astype(_F32)


def to_small_float(x: Array, kind: str) -> Array:
    """Floats as floats of 8 bits, uint32: to the nearest even one, what is too large is a NaN."""
    values = small_float(np.arange(128, dtype=_U32), kind).astype(_F64)
    values = np.append(values, 2 * values[-1] - values[-2])
    halfway, size = (values[1:] + values[:-1]) / 2, np.abs(x).astype(_F64)
    lower, upper = (np.searchsorted(halfway, size, side) for side in ("left", "right"))
    code = np.where(lower % 2 == 0, lower, upper).astype(_U32)
    return code | np.where((x < 0) & (code > 0), _U32(128), _U32(0))


def _two_floats(kind: str) -> Callable[[Array], Array]:
    def both(x: Array) -> Array:
        low, high = (as_bits(small_float(x >> _U16(shift), kind)).astype(_U64) for shift in (0, 8))
        return low | high << _U64(32)

    return both


# Division: the three steps that a compiler makes of it (RDNA 2 ISA, V_DIV_FIXUP_F32 and others).


def _exponent(x: Array) -> Array:
    """Exponent field of a float."""
    digits, raw = np.finfo(x.dtype).nmant, as_bits(x)
    exponent = (raw >> raw.dtype.type(digits)).astype(_I64)
    return exponent & ((1 << x.dtype.itemsize * 8 - digits - 1) - 1)


def _div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    unit = quotient.dtype.type(1)
    sign = np.copysign(unit, numerator) * np.copysign(unit, denominator)
    top, bottom = np.abs(numerator), np.abs(denominator)
    result = np.copysign(quotient, sign)
    if quotient.dtype != _F16:
        lowest = -150 if quotient.dtype == _F32 else -1075
        result = np.where(np.isnan(quotient), np.copysign(unit * np.inf, sign), result)
        underflow = _exponent(numerator) - _exponent(denominator) < lowest
        result = np.where(underflow, np.copysign(unit * 0, sign), result)
    result = np.where((bottom == np.inf) | (top == 0), np.copysign(unit * 0, sign), result)
    result = np.where((bottom == 0) | (top == np.inf), np.copysign(unit * np.inf, sign), result)
    neither = ((top == 0) & (bottom == 0)) | ((top == np.inf) & (bottom == np.inf))
    result = np.where(neither, np.copysign(unit * np.nan, -unit), result)
    for x in (denominator, numerator):
        result = np.where(np.isnan(x), with_nans(x, x), result)
    return result


def div_scale(first: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """Operand of a division, scaled if the quotient would leave the normal range; and whether.

    As the RDNA 3 ISA guide has it, but for a huge denominator, which is scaled down: scaled up,
    the division of a compiler would not be exact.

    Parameters
    ----------
    first, denominator, numerator : float32 or float64 arrays
        ``first`` is bit for bit one of the two others.

    Returns
    -------
    result, flag : arrays
        The operand, and whether `div_fmas` has to undo what was done.
    """
    first, denominator, numerator = (
        np.ascontiguousarray(x) for x in np.broadcast_arrays(first, denominator, numerator)
    )
    by, near, low = (64, 96, 23) if first.dtype == _F32 else (128, 768, 53)
    tiny = np.finfo(first.dtype).tiny

    def denormal(x: Array) -> Array:
        return (np.abs(x) < tiny) & (x != 0)

    finite = np.isfinite(denominator) & np.isfinite(numerator)
    with np.errstate(all="ignore"):
        tiny_inverse = denormal(first.dtype.type(1) / denominator)
        quotient = numerator / denominator
    # A quotient that rounds to zero is denormal too, as an exact one would be.
    vanishes = (quotient == 0) & (numerator != 0)
    tiny_quotient = finite & (denormal(quotient) & ~vanishes)
    same_denominator = as_bits(first) == as_bits(denominator)
    same_numerator = as_bits(first) == as_bits(numerator)
    up, down = np.ldexp(first, by), np.ldexp(first, -by)
    yes, no = np.ones(first.shape, np.bool_), np.zeros(first.shape, np.bool_)
    cases = (
        ((denominator == 0) | (numerator == 0), np.full_like(first, np.nan), no),
        (
            _exponent(numerator) - _exponent(denominator) >= near,
            np.where(same_denominator, up, first),
            yes,
        ),
        (denormal(denominator), up, no),
        (tiny_inverse & tiny_quotient, np.where(same_denominator, down, first), yes),
        (tiny_inverse, down, no),
        (tiny_quotient, np.where(same_numerator, up, first), yes),
        (_exponent(numerator) <= low, up, no),
    )
    result, flag, done = first.copy(), no.copy(), no.copy()
    for where, value, raised in cases:
        here = where & ~done
        result[here], flag[here] = value[here], raised[here]
        done |= where
    return result, flag


def div_fmas(a: Array, b: Array, c: Array, undo: Array) -> Array:
    """Fused multiply-add that undoes what `div_scale` did, where ``undo`` is set; rounded once.

    Up by 2^64 (2^128 of float64) if the estimate c is 2 or more, when the denominator was scaled;
    else down. The guides have one factor of 2^32, with which compilers' divisions would be wrong.
    """
    a, b, c, undo = np.broadcast_arrays(a, b, c, undo)
    step, half = (64, 127) if a.dtype == _F32 else (128, 1023)
    fused = fma32 if a.dtype == _F32 else fma64
    power = np.where(_exponent(c) > half, step, -step)
    plain = fused(a, b, c)
    if not undo.any():
        return plain
    if a.dtype == _F32:
        total, error = _two_sum(a.astype(_F64) * b, c.astype(_F64))
        scaled = np.ldexp(_to_odd(total, error), power).astype(_F32)
    else:
        scaled = np.ldexp(plain, power)
    usual = np.isfinite(c) & np.isfinite(a) & np.isfinite(b) & (plain != 0)
    if a.dtype == _F64:  # scaling the rounded sum is not exact at both ends
        smallest = 2 * np.finfo(_F64).tiny
        ends = np.isinf(plain) | (np.abs(scaled) < smallest) | (np.abs(plain) < smallest)
        for place in zip(*np.nonzero(undo & usual & ends), strict=True):
            scaled[place] = _exact_fma(a[place], b[place], c[place], int(power[place]))
    return np.where(undo & usual, scaled, plain)


# Comparisons.

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "f": lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    "t": lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
    "tru": lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
}
"""By what stands between ``v_cmp_`` and the type."""


def of_class(x: Array, classes: Array) -> Array:
    """Whether a float is of one of the classes of a mask of ten bits (V_CMP_CLASS)."""
    quiet = as_bits(x) & _quiet_bit(x.dtype) != 0
    nan, zero, infinite = np.isnan(x), x == 0, np.isinf(x)
    small = (np.abs(x) < np.finfo(x.dtype).tiny) & ~zero
    normal = ~(nan | zero | infinite | small)
    negative = np.signbit(x)
    kinds = (
        nan & ~quiet,
        nan & quiet,
        infinite & negative,
        normal & negative,
        small & negative,
        zero & negative,
        zero & ~negative,
        small & ~negative,
        normal & ~negative,
        infinite & ~negative,
    )
    result = np.zeros(np.broadcast(x, classes).shape, np.bool_)
    for number, kind in enumerate(kinds):
        result |= kind & (classes >> _U32(number) & _U32(1)).astype(np.bool_)
    return result


# The table.

_FLOATS = "f16 f32 f64"
_OF_32_BITS, _OF_16_BITS = "i32 u32", "i16 u16"

OPERATIONS: dict[str, Operation] = {}
"""By mnemonic, without the suffix of the encoding."""


def _define(
    names: str, types: str, compute: Callable[..., Array], kinds: str = "-", clamps: bool = False
) -> None:
    """Add a row; ``clamps`` says that ``clamp`` keeps an integer at the limits of its type."""
    for name, result, sources in of_kinds(names, types, kinds):
        saturated = _bounded(compute) if clamps else None
        OPERATIONS[f"v_{name}"] = Operation(result, sources, compute, saturated)


_define("add_T", "T T T", lambda a, b: a + b, _FLOATS)
_define("sub_T", "T T T", lambda a, b: a - b, _FLOATS)
_define("subrev_T", "T T T", lambda a, b: b - a, _FLOATS)
_define("mul_T", "T T T", lambda a, b: a * b, _FLOATS)
_define(
    "mul_legacy_f32 mul_dx9_zero_f32",
    "f32 f32 f32",
    lambda a, b: np.where((a == 0) | (b == 0), _F32(0), a * b),
)
for _kind, _fma in (("f16", fma16), ("f32", fma32), ("f64", fma64)):
    _define("fma_T fmac_T fmaak_T fmamk_T", "T T T T", _fma, _kind)
_define("fma_legacy_f16 fmac_legacy_f16", "f16 f16 f16 f16", fma16)
_define("fma_T fmac_T", "f32 f32 f32 f32", _zero_times(fma32), "legacy_f32 dx9_zero_f32")
_define("mad_T mac_T madak_T madmk_T", "T T T T", lambda a, b, c: a * b + c, "f16 f32")
_define("mad_legacy_f16 mac_legacy_f16", "f16 f16 f16 f16", lambda a, b, c: a * b + c)
_define("mad_legacy_f32 mac_legacy_f32", "f32 f32 f32 f32", _zero_times(lambda a, b, c: a * b + c))
for _name, _function in (
    *(("trunc", np.trunc), ("ceil", np.ceil), ("floor", np.floor), ("rndne", np.rint)),
    *(("rcp", lambda x: 1.0 / x), ("rsq", lambda x: 1.0 / np.sqrt(x)), ("sqrt", np.sqrt)),
):
    _define(f"{_name}_T", "T T", _rounded(_function), _FLOATS)
_define("rcp_iflag_f32", "f32 f32", _rounded(lambda x: 1.0 / x))
for _name, _function in (("exp", _rounded(np.exp2)), ("log", _rounded(np.log2))):
    _define(f"{_name}_T", "T T", _function, "f16 f32")
    _define(f"{_name}_legacy_f32", "f32 f32", _function)
_define("sin_T", "T T", _rounded(lambda x: _of_turns(np.sin, x, 0)), "f16 f32")
_define("cos_T", "T T", _rounded(lambda x: _of_turns(np.cos, x, 1)), "f16 f32")
_define("fract_T", "T T", _fraction, _FLOATS)
_define("ldexp_T", "T T i32", _ldexp, "f32 f64")
_define("ldexp_f16", "f16 f16 i16", _ldexp)
_define("frexp_mant_T", "T T", lambda x: np.where(np.isfinite(x), np.frexp(x)[0], x), _FLOATS)
_define("frexp_exp_i16_f16", "i16 f16", lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0))
_define(
    "frexp_exp_i32_T", "i32 T", lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0), "f32 f64"
)
_define("div_fixup_T", "T T T T", _div_fixup, _FLOATS)
_define("div_fixup_legacy_f16", "f16 f16 f16 f16", _div_fixup)
_define("div_fmas_T", "T T T T mask", div_fmas, "f32 f64")

_define("min_T min_num_T", "T T T", least, f"{_FLOATS} {_OF_16_BITS} {_OF_32_BITS}")
_define("max_T max_num_T", "T T T", most, f"{_FLOATS} {_OF_16_BITS} {_OF_32_BITS}")
for _name, _chosen in (
    *(("min3", _of_three(least, least)), ("max3", _of_three(most, most)), ("med3", _middle)),
    *(("maxmin", _of_three(most, least)), ("minmax", _of_three(least, most))),
):
    _kinds = f"f16 f32 {_OF_16_BITS} {_OF_32_BITS}"
    _define(f"{_name}_T {_name}_num_T", "T T T T", _chosen, _kinds)

for _kinds in (_OF_32_BITS, _OF_16_BITS):
    _define("add_T add_nc_T", "T T T", lambda a, b: a + b, _kinds, clamps=True)
    _define("sub_T sub_nc_T", "T T T", lambda a, b: a - b, _kinds, clamps=True)
    _define("subrev_T subrev_nc_T", "T T T", lambda a, b: b - a, _kinds, clamps=True)
_define("mad_T mad_legacy_T", "T T T T", lambda a, b, c: a * b + c, _OF_16_BITS, clamps=True)
_define("mad_T32_T16", "T32 T16 T16 T32", lambda a, b, c: a.astype(c.dtype) * b + c, "u i")
_define("mul_lo_u32 mul_lo_i32", "u32 u32 u32", lambda a, b: a * b)
_define("mul_lo_u16", "u16 u16 u16", lambda a, b: a * b)
_define("mul_hi_T", "T T T", high_product, _OF_32_BITS)
for _sign, _24 in (("u", _u24), ("i", _i24)):
    _define("mul_T32_T24", "T32 T32 T32", lambda a, b, of=_24: of(a) * of(b), _sign)
    _define("mul_hi_T32_T24", "T32 T32 T32", lambda a, b, of=_24: high_product(of(a), of(b)), _sign)
    _mad = "T32 T32 T32 T32", lambda a, b, c, of=_24: of(a) * of(b) + c
    _define("mad_T32_T24", *_mad, _sign, clamps=True)
for _bits in (8, 16, 32):
    _define(f"sad_u{_bits}", "u32 u32 u32 u32", sad(_bits))
_define("msad_u8", "u32 u32 u32 u32", sad(8, masked=True))
_define("sad_hi_u8", "u32 u32 u32 u32", lambda a, b, c: (sad(8)(a, b, c * 0) << 16) + c)
_define("lerp_u8", "u32 u32 u32 u32", _mean_of_bytes)
_define("cubeid_f32", "f32 f32 f32 f32", _cube_face)
_define("cubesc_f32", "f32 f32 f32 f32", _cube_s)
_define("cubetc_f32", "f32 f32 f32 f32", _cube_t)
_define("cubema_f32", "f32 f32 f32 f32", _cube_axis)
_define("trig_preop_f64", "f64 f64 u32", _segment_of_two_by_pi)

_define("and_bT", "uT uT uT", lambda a, b: a & b, "16 32")
_define("or_bT", "uT uT uT", lambda a, b: a | b, "16 32")
_define("xor_bT", "uT uT uT", lambda a, b: a ^ b, "16 32")
_define("xnor_b32", "u32 u32 u32", lambda a, b: ~(a ^ b))
_define("not_bT", "uT uT", lambda a: ~a, "16 32")
_define("mov_bT", "uT uT", lambda a: a, "16 32 64")
_define("accvgpr_read accvgpr_write accvgpr_mov_b32", "u32 u32", lambda a: a)
_define("accvgpr_read_b32 accvgpr_write_b32", "u32 u32", lambda a: a)
for _bits, _count in ((16, "u16"), (32, "u32"), (64, "u32")):
    _reverse, _plain = f"T{_bits} {_count} T{_bits}", f"T{_bits} T{_bits} {_count}"
    _define(f"lshlrev_b{_bits}", _reverse, lambda s, x: x << shift_by(s, x), "u")
    _define(f"lshrrev_b{_bits}", _reverse, lambda s, x: x >> shift_by(s, x), "u")
    _define(f"ashrrev_i{_bits}", _reverse, lambda s, x: x >> shift_by(s, x), "i")
    _define(f"lshl_b{_bits}", _plain, lambda x, s: x << shift_by(s, x), "u")
    _define(f"lshr_b{_bits}", _plain, lambda x, s: x >> shift_by(s, x), "u")
    _define(f"ashr_i{_bits}", _plain, lambda x, s: x >> shift_by(s, x), "i")
_define("lshl_add_u32", "u32 u32 u32 u32", lambda a, s, b: (a << (s & 31)) + b)
_define("add_lshl_u32", "u32 u32 u32 u32", lambda a, b, s: (a + b) << (s & 31))
_define("lshl_or_b32", "u32 u32 u32 u32", lambda a, s, b: (a << (s & 31)) | b)
_define("lshl_add_u64", "u64 u64 u32 u64", lambda a, s, b: (a << (s & 7).astype(_U64)) + b)
_define("add3_u32", "u32 u32 u32 u32", lambda a, b, c: a + b + c)
_define("and_or_b32", "u32 u32 u32 u32", lambda a, b, c: (a & b) | c)
_define("or3_b32", "u32 u32 u32 u32", lambda a, b, c: a | b | c)
_define("xor3_b32", "u32 u32 u32 u32", lambda a, b, c: a ^ b ^ c)
_define("xad_u32", "u32 u32 u32 u32", lambda a, b, c: (a ^ b) + c)
_define("bfi_b32", "u32 u32 u32 u32", lambda a, b, c: (a & b) | (~a & c))
_define("cndmask_bT", "uT uT uT mask", lambda a, b, chosen: np.where(chosen, b, a), "16 32")
_define("bfm_b32", "u32 u32 u32", ones_at(32))
_define("bfe_u32", "u32 u32 u32 u32", _field)
_define("bfe_i32", "i32 i32 u32 u32", _signed_field)
_define("alignbit_b32", "u32 u32 u32 u32", _aligned(1))
_define("alignbyte_b32", "u32 u32 u32 u32", _aligned(8))
_define("perm_b32", "u32 u32 u32 u32", _permuted)
_define("bcnt_u32_b32", "u32 u32 u32", lambda a, b: np.bitwise_count(a) + b)
_define("bfrev_b32", "u32 u32", reversed_bits)
_define("ffbh_u32 clz_i32_u32", "i32 u32", leading_zeros)
_define("ffbl_b32 ctz_i32_b32", "i32 u32", trailing_zeros)
_define("ffbh_i32 cls_i32", "i32 u32", sign_bits)

for _name in (
    *("f16_i16", "f16_u16", "f32_i32", "f32_u32", "f64_i32", "f64_u32", "f32_f64"),
    *("f64_f32", "u32_u16", "i32_i16"),
):
    _to, _of = _name.split("_")
    _define(f"cvt_{_name}", f"{_to} {_of}", _cast(_to))
_define("cvt_f16_f32", "f16 f32", to_half)
_define("cvt_f32_f16", "f32 f16", from_half)
for _to, _kinds in (("i32", "f32 f64"), ("u32", "f32 f64"), ("i16", "f16"), ("u16", "f16")):
    _define(f"cvt_{_to}_T", f"{_to} T", lambda x, to=_to: to_integer(x, to), _kinds)
_define(
    "cvt_rpi_i32_f32 cvt_nearest_i32_f32",
    "i32 f32",
    lambda x: to_integer(np.floor(x.astype(_F64) + 0.5), "i32"),
)
_define("cvt_flr_i32_f32 cvt_floor_i32_f32", "i32 f32", lambda x: to_integer(np.floor(x), "i32"))
for _byte in range(4):
    _define(f"cvt_f32_ubyte{_byte}", "f32 u32", lambda x, s=8 * _byte: (x >> s & 255).astype(_F32))
_define("cvt_off_f32_i4", "f32 u32", lambda x: (((x & 15).astype(_I32) ^ 8) - 8).astype(_F32) / 16)
_rounded_pair = "cvt_pkrtz_f16_f32 cvt_pk_rtz_f16_f32"
_define(_rounded_pair, "u32 f32 f32", _pair_of(toward_zero16))
_define("cvt_pk_u16_u32", "u32 u32 u32", _pair_of(lambda x: np.minimum(x, 65535)))
_define("cvt_pk_i16_i32", "u32 i32 i32", _pair_of(lambda x: np.clip(x, -32768, 32767)))
_define("cvt_pk_i16_f32", "u32 f32 f32", _pair_of(lambda x: to_integer(x, "i16")))
_define("cvt_pk_u16_f32", "u32 f32 f32", _pair_of(lambda x: to_integer(x, "u16")))
_define("pack_b32_f16", "u32 f16 f16", _pair_of(as_bits))
for _kind, _norm in (("i16", _normed(-1.0, 32767)), ("u16", _normed(0.0, 65535))):
    _names = f"cvt_pknorm_{_kind}_T cvt_pk_norm_{_kind}_T"
    _define(_names, "u32 T T", _pair_of(_norm), "f32 f16")
    _define(f"cvt_norm_{_kind}_T", f"{_kind} T", _norm, "f32 f16")
_define("cvt_pk_u8_f32", "u32 f32 u32 u32", _packed_byte)
_define("sat_pk_u8_i16", "u16 u32", lambda x: _byte_of(x) | _byte_of(x >> _U32(16)) << _U16(8))
for _kind in _SMALL_FLOATS:
    _define("cvt_f32_T", "f32 u32", lambda x, kind=_kind: small_float(x, kind), _kind)
    _define("cvt_pk_f32_T", "u64 u16", _two_floats(_kind), _kind)
