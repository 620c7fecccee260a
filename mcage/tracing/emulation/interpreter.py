"""Waves execute predecoded instructions, compiled: the frequent forms, and which waves go next.

Rows of numbers stand for instructions (`predecoded`). What they compute equals the closures of
`vector`, `scalar` and `memory` to the bit. The interpreter stops before what it has no row for, and
before an access that it cannot vouch for: the closure executes that one, or says what is wrong.

Of the waves that can go on, those at the lowest address go first, so that waves that took
different ways meet again. A wave rests when it has jumped back after an access that others may
answer (an atomic, a coherent load, a sleep), and after every `JUMPS` jumps back: the others go on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mcage.compiled import compiled

I32, U32, I64, U64 = np.int32, np.uint32, np.int64, np.uint64
F32, F64 = np.float32, np.float64

# Rows: one for each instruction, and one for the second part of each.

(KIND, OP, NUMBER, IDLES, ASKS, TARGET, PARTS, OUT, WORDS, MASK_OUT, MASK_IN, NANS) = range(12)
(CHANGED, PART, SIGN, BITS_OUT, SHIFT_OUT, KEPT, TO_HALF, FACTOR, CLAMPS) = range(12, 21)
(PATTERN, ENABLED, BOUND, ALSO_OFF, OFFSET, SIZE, STEP, SPACE, LOADS) = range(21, 30)
(AT, AFTER) = range(30, 32)
SOURCE, OF_SOURCE = 32, 10
FROM, WHICH, HIGH, SHIFT, BITS, EXTENDS, OF_HALF, KEEPS, FLIPS, WIDE = range(OF_SOURCE)
COLUMNS = SOURCE + 3 * OF_SOURCE
"""Columns of a row; those of each of three sources follow one another."""

(UNKNOWN, CLOSED, NOTHING, SCALAR, SAVES, VECTOR, WIDE_VECTOR, CARRIES, COMPARES) = range(9)
(LANE, LOADED, ACCESS, CHANGE, JUMP, WAITS, ENDS) = range(9, 16)
"""Kinds of rows: not decoded, left to its closure, without effect, and so on."""

AS_IT_IS, REGISTER, OF_SCALARS, CONSTANT = range(4)
"""Where a source comes from: a vector register, the same with modifiers, and so on."""

GLOBAL, BY_BASE, LOCAL, PRIVATE = range(4)
"""Address spaces; `BY_BASE` is global memory, at an offset to a scalar base."""

LANES = 64
"""Lanes for which there is room at each step."""

ROOM = 12 * LANES
"""Words behind the registers of all waves: two for each of three operands of both parts."""

JUMPS = 64
NEVER = 1 << 62

ADDRESS_BITS = (1 << 48) - 1
"""Bits of a place that are its address; the interpreter knows no places with others."""


# Operations that Numba has no name for.


def _operation(result: Any, operand: Any, count: int, emit: Callable[..., Any]) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, context.get_value_type(result), *arguments)

    def of_one(typing_context: Any, x: Any) -> Any:
        return result(operand), generate

    def of_two(typing_context: Any, x: Any, y: Any) -> Any:
        return result(operand, operand), generate

    def of_three(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
        return result(operand, operand, operand), generate

    operation: Any = intrinsic((of_one, of_two, of_three)[count - 1])
    return operation


def _cast(builder: Any, to: Any, x: Any) -> Any:
    return builder.bitcast(x, to)


def _fused(builder: Any, of: Any, x: Any, y: Any, z: Any) -> Any:
    return builder.fma(x, y, z)


def _zeros(name: str) -> Callable[..., Any]:
    def emit(builder: Any, of: Any, x: Any) -> Any:
        return getattr(builder, name)(x, ir.Constant(ir.IntType(1), 0))

    return emit


def _llvm(name: str) -> Callable[..., Any]:
    def emit(builder: Any, of: Any, x: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [of]), [x])

    return emit


_as_f32 = _operation(types.float32, types.uint32, 1, _cast)
_as_u32 = _operation(types.uint32, types.float32, 1, _cast)
_as_f64 = _operation(types.float64, types.uint64, 1, _cast)
_as_u64 = _operation(types.uint64, types.float64, 1, _cast)
_fma32 = _operation(types.float32, types.float32, 3, _fused)
_fma64 = _operation(types.float64, types.float64, 3, _fused)
_divided = _operation(types.float64, types.float64, 2, lambda builder, of, x, y: builder.fdiv(x, y))
_floor, _ceil, _trunc, _rint, _root = (
    _operation(types.float64, types.float64, 1, _llvm(name))
    for name in ("floor", "ceil", "trunc", "rint", "sqrt")
)
_ones = _operation(types.uint64, types.uint64, 1, lambda builder, of, x: builder.ctpop(x))
_before = _operation(types.uint64, types.uint64, 1, _zeros("ctlz"))
_behind = _operation(types.uint64, types.uint64, 1, _zeros("cttz"))
_reversed = _operation(types.uint64, types.uint64, 1, lambda builder, of, x: builder.bitreverse(x))


def _place_of_word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(32).as_pointer())


def _read_word(typing_context: Any, content: Any, first: Any) -> Any:
    """Four bytes of an array of bytes as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place_of_word(context, builder, signature, arguments), align=1)

    return types.uint32(content, types.uint64), generate


def _write_word(typing_context: Any, content: Any, first: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place_of_word(context, builder, signature, arguments)
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return types.void(content, types.uint64, types.uint32), generate


_word_at: Any = intrinsic(_read_word)
_put_word: Any = intrinsic(_write_word)


# Floats in a lane.

_SIGN, _INFINITY, _QUIET, _NAN = U32(1 << 31), U32(0x7F800000), U32(0x400000), U32(0x7FC00000)
_INFINITY64, _QUIET64, _NAN64 = U64(0x7FF << 52), U64(1 << 51), U64(0x7FF8 << 48)
_SIGN64, _BELOW_1 = U64(1 << 63), F32(1 - 2.0**-24)


@compiled
def _is_nan(x: Any) -> Any:
    return x & ~_SIGN > _INFINITY


@compiled
def _is_nan64(x: Any) -> Any:
    return x & ~_SIGN64 > _INFINITY64


@compiled
def _extreme(a: Any, b: Any, least: bool) -> Any:
    """Smaller or larger of two float32, as `arithmetic.least` and `most` have it."""
    x, y = _as_f32(a), _as_f32(b)
    chosen = a if (x < y) == least else b
    if x == y:
        chosen = a
        if x == F32(0):
            chosen = a | b if least else a & b
    if _is_nan(b):
        chosen = a
        if b & _QUIET == U32(0):
            chosen = b | _QUIET
    elif _is_nan(a):
        chosen = b
    if _is_nan(a) and a & _QUIET == U32(0):
        chosen = a | _QUIET
    return chosen


@compiled
def _middle(a: Any, b: Any, c: Any) -> Any:
    low = _extreme(a, b, True)
    if _is_nan(a) or _is_nan(b) or _is_nan(c):
        return _extreme(low, c, True)
    return _extreme(low, _extreme(_extreme(a, b, False), c, True), False)


@compiled
def _extreme64(a: Any, b: Any, least: bool) -> Any:
    """The same of float64."""
    x, y = _as_f64(a), _as_f64(b)
    chosen = a if (x < y) == least else b
    if x == y:
        chosen = a
        if x == 0.0:
            chosen = a | b if least else a & b
    if _is_nan64(b):
        chosen = a
        if b & _QUIET64 == U64(0):
            chosen = b | _QUIET64
    elif _is_nan64(a):
        chosen = b
    if _is_nan64(a) and a & _QUIET64 == U64(0):
        chosen = a | _QUIET64
    return chosen


@compiled
def _from_half(x: Any) -> Any:
    """A float16 as float32."""
    sign, exponent, digits = (x & U32(0x8000)) << U32(16), x >> U32(10) & U32(31), x & U32(0x3FF)
    if exponent == U32(31):
        return sign | _INFINITY | digits << U32(13)
    if exponent == U32(0):
        return sign | _as_u32(F32(I32(digits)) * F32(2.0**-24))
    return sign | (exponent + U32(112)) << U32(23) | digits << U32(13)


@compiled
def _to_half(x: Any) -> Any:
    """A float32 as float16, as `arithmetic.to_half` has it."""
    sign, size = x >> U32(16) & U32(0x8000), x & ~_SIGN
    if size > _INFINITY:
        return sign | U32(0x7E00) | x >> U32(13) & U32(0x1FF)
    if size >= U32(0x477FF000):
        return sign | U32(0x7C00)
    if size < U32(0x38800000):  # a subnormal number: a multiple of 2^-24
        return sign | U32(I32(_rint(F64(_as_f32(size)) * F64(2.0**24))))
    return sign | U32(size + U32(0xFFF) + (size >> U32(13) & U32(1)) - U32(0x38000000)) >> U32(13)


@compiled
def _bounded(x: Any, low: Any, high: Any) -> Any:
    """A float towards zero as an integer; a NaN is 0."""
    return I64(min(max(x, low), high)) if x == x else I64(0)


@compiled
def _power(exponent: Any) -> Any:
    """A power of 2, in which a float32 has become 0 or infinite long before the ends."""
    return _as_f64(U64(min(max(exponent, I32(-400)), I32(400)) + 1023) << U64(52))


@compiled
def _mantissa(x: Any) -> Any:
    """A float32 between 0.5 and 1, or one that has no exponent."""
    bits, size = _as_u64(F64(_as_f32(x))), x & ~_SIGN
    half = _as_u32(F32(_as_f64(bits & U64(0x800FFFFFFFFFFFFF) | U64(1022) << U64(52))))
    return x if size == U32(0) or size >= _INFINITY else half


@compiled
def _exponent(x: Any) -> Any:
    bits, size = _as_u64(F64(_as_f32(x))), x & ~_SIGN
    exponent = I64(bits >> U64(52) & U64(0x7FF)) - I64(1022)
    return I64(0) if size == U32(0) or size >= _INFINITY else exponent


@compiled
def _nan64(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Bits of a float64, a NaN as `arithmetic.with_nans` gives it; operands that are none are 0."""
    bits = _as_u64(x)
    if _is_nan64(bits):
        for nan in (c, b, a):
            if _is_nan64(nan):
                bits = nan | _QUIET64
        if not (_is_nan64(a) or _is_nan64(b) or _is_nan64(c)):
            bits = _NAN64
    return bits


# Integers in a lane.


@compiled
def _both(low: Any, high: Any) -> Any:
    return U64(low) | U64(high) << U64(32)


@compiled
def _low_ones(count: Any) -> Any:
    return U32((U32(1) << U32(count & U32(31))) - U32(1))


@compiled
def _signed_field(x: Any, offset: Any, width: Any) -> Any:
    spare = I32(U32(32) - (width & U32(31))) & I32(31)
    bits = I32(I32(x) >> I32(offset & U32(31)))
    return I32(I32(bits << spare) >> spare) if width & U32(31) else I32(0)


@compiled
def _leading(x: Any) -> Any:
    return I64(_before(U64(x))) - I64(32) if x else I64(-1)


@compiled
def _i24(x: Any) -> Any:
    return I32(x << U32(8)) >> I32(8)


# What vector instructions compute: by their names, with what stands for each ``T`` in them, a
# function of the operands in a lane. Operands and results of less than 32 bits lie in a word;
# floats of 16 bits are floats of 32 bits on the way. `w` is the bit of the lane in a mask.

_f, _b = _as_f32, _as_u32

WORD_OPERATIONS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("v_mov_T v_accvgpr_read_T v_accvgpr_write_T", "b32 b16", lambda x, y, z, w: x),
    ("v_accvgpr_read v_accvgpr_write v_accvgpr_mov_b32", "-", lambda x, y, z, w: x),
    ("v_cvt_f16_f32 v_cvt_u32_u16 v_cvt_i32_i16", "-", lambda x, y, z, w: x),
    ("v_cvt_f32_f16", "-", lambda x, y, z, w: x | _QUIET if _is_nan(x) else x),
    ("v_add_T v_add_nc_T", "u32 i32 u16 i16", lambda x, y, z, w: x + y),
    ("v_sub_T v_sub_nc_T", "u32 i32 u16 i16", lambda x, y, z, w: x - y),
    ("v_subrev_T v_subrev_nc_T", "u32 i32 u16 i16", lambda x, y, z, w: y - x),
    ("v_and_T", "b32 b16", lambda x, y, z, w: x & y),
    ("v_or_T", "b32 b16", lambda x, y, z, w: x | y),
    ("v_xor_T", "b32 b16", lambda x, y, z, w: x ^ y),
    ("v_xnor_b32", "-", lambda x, y, z, w: ~(x ^ y)),
    ("v_not_T", "b32 b16", lambda x, y, z, w: ~x),
    ("v_lshlrev_b32", "-", lambda x, y, z, w: y << (x & U32(31))),
    ("v_lshrrev_b32", "-", lambda x, y, z, w: y >> (x & U32(31))),
    ("v_ashrrev_i32", "-", lambda x, y, z, w: I32(y) >> I32(x & U32(31))),
    ("v_lshlrev_b16", "-", lambda x, y, z, w: y << (x & U32(15))),
    ("v_lshrrev_b16", "-", lambda x, y, z, w: y >> (x & U32(15))),
    ("v_ashrrev_i16", "-", lambda x, y, z, w: I32(y) >> I32(x & U32(15))),
    ("v_lshl_add_u32", "-", lambda x, y, z, w: (x << (y & U32(31))) + z),
    ("v_add_lshl_u32", "-", lambda x, y, z, w: (x + y) << (z & U32(31))),
    ("v_lshl_or_b32", "-", lambda x, y, z, w: x << (y & U32(31)) | z),
    ("v_add3_u32", "-", lambda x, y, z, w: x + y + z),
    ("v_and_or_b32", "-", lambda x, y, z, w: x & y | z),
    ("v_or3_b32", "-", lambda x, y, z, w: x | y | z),
    ("v_xor3_b32", "-", lambda x, y, z, w: x ^ y ^ z),
    ("v_xad_u32", "-", lambda x, y, z, w: (x ^ y) + z),
    ("v_bfi_b32", "-", lambda x, y, z, w: x & y | ~x & z),
    ("v_bfm_b32", "-", lambda x, y, z, w: _low_ones(x) << (y & U32(31))),
    ("v_bfe_u32", "-", lambda x, y, z, w: x >> (y & U32(31)) & _low_ones(z)),
    ("v_bfe_i32", "-", lambda x, y, z, w: _signed_field(x, y, z)),
    ("v_alignbit_b32", "-", lambda x, y, z, w: _both(y, x) >> U64(z & U32(31))),
    ("v_alignbyte_b32", "-", lambda x, y, z, w: _both(y, x) >> U64((z & U32(3)) * U32(8))),
    ("v_bcnt_u32_b32", "-", lambda x, y, z, w: _ones(U64(x)) + y),
    ("v_bfrev_b32", "-", lambda x, y, z, w: _reversed(U64(x)) >> U64(32)),
    ("v_ffbh_u32 v_clz_i32_u32", "-", lambda x, y, z, w: _leading(x)),
    ("v_ffbl_b32 v_ctz_i32_b32", "-", lambda x, y, z, w: I64(_behind(U64(x))) if x else I64(-1)),
    ("v_ffbh_i32 v_cls_i32", "-", lambda x, y, z, w: _leading(U32(x ^ U32(I32(x) >> I32(31))))),
    ("v_min_T", "i32 i16", lambda x, y, z, w: min(I32(x), I32(y))),
    ("v_max_T", "i32 i16", lambda x, y, z, w: max(I32(x), I32(y))),
    ("v_min_T", "u32 u16", lambda x, y, z, w: min(x, y)),
    ("v_max_T", "u32 u16", lambda x, y, z, w: max(x, y)),
    ("v_min3_T", "i32 i16", lambda x, y, z, w: min(min(I32(x), I32(y)), I32(z))),
    ("v_max3_T", "i32 i16", lambda x, y, z, w: max(max(I32(x), I32(y)), I32(z))),
    ("v_min3_T", "u32 u16", lambda x, y, z, w: min(min(x, y), z)),
    ("v_max3_T", "u32 u16", lambda x, y, z, w: max(max(x, y), z)),
    ("v_mul_lo_T", "u32 i32 u16", lambda x, y, z, w: x * y),
    ("v_mul_hi_u32", "-", lambda x, y, z, w: U64(x) * U64(y) >> U64(32)),
    ("v_mul_hi_i32", "-", lambda x, y, z, w: I64(I32(x)) * I64(I32(y)) >> I64(32)),
    ("v_mul_u32_u24", "-", lambda x, y, z, w: (x & U32(0xFFFFFF)) * (y & U32(0xFFFFFF))),
    ("v_mul_i32_i24", "-", lambda x, y, z, w: _i24(x) * _i24(y)),
    ("v_mad_u32_u24", "-", lambda x, y, z, w: (x & U32(0xFFFFFF)) * (y & U32(0xFFFFFF)) + z),
    ("v_mad_i32_i24", "-", lambda x, y, z, w: _i24(x) * _i24(y) + I32(z)),
    ("v_mad_T", "u16 i16 u32_u16 i32_i16", lambda x, y, z, w: x * y + z),
    ("v_cndmask_T", "b32 b16", lambda x, y, z, w: y if w else x),
    ("v_pack_b32_f16", "-", lambda x, y, z, w: x | y << U32(16)),
    ("v_cvt_f32_i32", "-", lambda x, y, z, w: _b(F32(I32(x)))),
    ("v_cvt_f32_u32", "-", lambda x, y, z, w: _b(F32(x))),
    ("v_cvt_f32_ubyteT", "0 1 2 3", lambda x, y, z, w: _b(F32(I32(x & U32(255))))),
    ("v_cvt_i32_f32", "-", lambda x, y, z, w: _bounded(F64(_f(x)), -(2.0**31), 2.0**31 - 1)),
    ("v_cvt_u32_f32", "-", lambda x, y, z, w: _bounded(F64(_f(x)), 0.0, 2.0**32 - 1)),
    ("v_add_T", "f32 f16", lambda x, y, z, w: _b(_f(x) + _f(y))),
    ("v_sub_T", "f32 f16", lambda x, y, z, w: _b(_f(x) - _f(y))),
    ("v_subrev_T", "f32 f16", lambda x, y, z, w: _b(_f(y) - _f(x))),
    ("v_mul_T", "f32 f16", lambda x, y, z, w: _b(_f(x) * _f(y))),
    (
        "v_fma_T v_fmac_T v_fmaak_T v_fmamk_T",
        "f32",
        lambda x, y, z, w: _b(_fma32(_f(x), _f(y), _f(z))),
    ),
    ("v_mad_T v_mac_T v_madak_T v_madmk_T", "f32", lambda x, y, z, w: _b(_f(x) * _f(y) + _f(z))),
    ("v_min_T v_min_num_T", "f32 f16", lambda x, y, z, w: _extreme(x, y, True)),
    ("v_max_T v_max_num_T", "f32 f16", lambda x, y, z, w: _extreme(x, y, False)),
    (
        "v_min3_T v_min3_num_T",
        "f32 f16",
        lambda x, y, z, w: _extreme(_extreme(x, y, True), z, True),
    ),
    (
        "v_max3_T v_max3_num_T",
        "f32 f16",
        lambda x, y, z, w: _extreme(_extreme(x, y, False), z, False),
    ),
    ("v_med3_T v_med3_num_T", "f32 f16", lambda x, y, z, w: _middle(x, y, z)),
    ("v_trunc_T", "f32 f16", lambda x, y, z, w: _b(F32(_trunc(F64(_f(x)))))),
    ("v_ceil_T", "f32 f16", lambda x, y, z, w: _b(F32(_ceil(F64(_f(x)))))),
    ("v_floor_T", "f32 f16", lambda x, y, z, w: _b(F32(_floor(F64(_f(x)))))),
    ("v_rndne_T", "f32 f16", lambda x, y, z, w: _b(F32(_rint(F64(_f(x)))))),
    ("v_fract_f32", "-", lambda x, y, z, w: _b(min(_f(x) - F32(_floor(F64(_f(x)))), _BELOW_1))),
    ("v_rcp_f32 v_rcp_iflag_f32", "-", lambda x, y, z, w: _b(F32(_divided(1.0, F64(_f(x)))))),
    ("v_rsq_f32", "-", lambda x, y, z, w: _b(F32(_divided(1.0, _root(F64(_f(x))))))),
    ("v_sqrt_f32", "-", lambda x, y, z, w: _b(F32(_root(F64(_f(x)))))),
    ("v_ldexp_f32", "-", lambda x, y, z, w: _b(F32(F64(_f(x)) * _power(I32(y))))),
    ("v_frexp_mant_f32", "-", lambda x, y, z, w: _mantissa(x)),
    ("v_frexp_exp_i32_f32", "-", lambda x, y, z, w: _exponent(x)),
)

PAIR_OPERATIONS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("v_lshlrev_b64", "-", lambda x, y, z, w: y << (x & U64(63))),
    ("v_lshrrev_b64", "-", lambda x, y, z, w: y >> (x & U64(63))),
    ("v_ashrrev_i64", "-", lambda x, y, z, w: U64(I64(y) >> I64(x & U64(63)))),
    ("v_lshl_add_u64", "-", lambda x, y, z, w: (x << (y & U64(7))) + z),
    ("v_mov_b64", "-", lambda x, y, z, w: x),
    ("v_add_f64", "-", lambda x, y, z, w: _nan64(_as_f64(x) + _as_f64(y), x, y, U64(0))),
    ("v_mul_f64", "-", lambda x, y, z, w: _nan64(_as_f64(x) * _as_f64(y), x, y, U64(0))),
    (
        "v_fma_f64 v_fmac_f64",
        "-",
        lambda x, y, z, w: _nan64(_fma64(_as_f64(x), _as_f64(y), _as_f64(z)), x, y, z),
    ),
    ("v_min_f64", "-", lambda x, y, z, w: _extreme64(x, y, True)),
    ("v_max_f64", "-", lambda x, y, z, w: _extreme64(x, y, False)),
    ("v_cvt_f64_f32", "-", lambda x, y, z, w: _as_u64(F64(_f(U32(x))))),
    ("v_cvt_f64_i32", "-", lambda x, y, z, w: _as_u64(F64(I32(U32(x))))),
    ("v_cvt_f64_u32", "-", lambda x, y, z, w: _as_u64(F64(U32(x)))),
    ("v_cvt_f32_f64", "-", lambda x, y, z, w: U64(_b(F32(_as_f64(x))))),
    ("v_cvt_i32_f64", "-", lambda x, y, z, w: U64(_bounded(_as_f64(x), -(2.0**31), 2.0**31 - 1))),
    ("v_cvt_u32_f64", "-", lambda x, y, z, w: U64(_bounded(_as_f64(x), 0.0, 2.0**32 - 1))),
)
"""The same of operands or results of 64 bits; behind an operand of 32 bits there is anything."""


def _by_number(lanes: Sequence[Callable[..., Any]], word: Any) -> Callable[..., Any]:
    """Code that computes by one of some functions, in a loop over lanes: those of its number.

    The arguments are the number, the array v, where the words of three operands begin there (three
    lower and three upper ones), a mask of lanes, the array of results and the number of lanes.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, v, low, high, mask, out, n = arguments
        to, half = context.get_value_type(word), ir.Constant(ir.IntType(64), 32)
        data, results = (
            context.make_array(signature.args[place])(context, builder, array).data
            for place, array in ((1, v), (5, out))
        )

        def operand(i: Any, source: int) -> Any:
            parts = []
            for words in (low, high)[: word.bitwidth // 32]:
                first = builder.extract_value(words, source)
                parts.append(builder.load(builder.gep(data, [builder.add(first, i)])))
            if len(parts) == 1:
                return parts[0]
            wide = [builder.zext(part, to) for part in parts]
            return builder.or_(wide[0], builder.shl(wide[1], half))

        def store(i: Any, result: Any) -> None:
            for place in range(word.bitwidth // 32):
                at = builder.add(i, ir.Constant(i.type, place * LANES))
                builder.store(builder.trunc(result, ir.IntType(32)), builder.gep(results, [at]))
                result = builder.lshr(result, half) if word.bitwidth == 64 else result

        behind = builder.append_basic_block("behind")
        switch = builder.switch(number, behind)
        of_lane = word(word, word, word, types.uint64)
        for case, lane in enumerate(lanes):
            block = builder.append_basic_block(f"operation {case}")
            switch.add_case(ir.Constant(number.type, case), block)
            builder.position_at_end(block)
            with cgutils.for_range(builder, n) as loop:
                bit = builder.and_(builder.lshr(mask, loop.index), ir.Constant(mask.type, 1))
                operands = [*(operand(loop.index, source) for source in range(3)), bit]
                store(loop.index, context.compile_internal(builder, lane, of_lane, operands))
            builder.branch(behind)
        builder.position_at_end(behind)
        return context.get_dummy_value()

    return generate


def _of_table(table: Sequence[tuple[str, str, Callable[..., Any]]], word: Any) -> Any:
    def typed(typing_context: Any, op: Any, v: Any, low: Any, high: Any, mask: Any, out: Any,
              n: Any) -> Any:  # fmt: skip
        code = _by_number([lane for _, _, lane in table], word)
        return types.void(types.int64, v, low, high, types.uint64, out, types.uint64), code

    return intrinsic(typed)


_by_words, _by_pairs = (
    _of_table(WORD_OPERATIONS, types.uint32),
    _of_table(PAIR_OPERATIONS, types.uint64),
)


@compiled
def _words(op: int, v: Any, low: Any, high: Any, mask: Any, out: Any, n: Any) -> None:
    """Compute words of 32 bits."""
    _by_words(op, v, low, high, mask, out, n)


@compiled
def _pairs(op: int, v: Any, low: Any, high: Any, mask: Any, out: Any, n: Any) -> None:
    """Compute words of 64 bits, lower halves and upper halves, or from such."""
    _by_pairs(op, v, low, high, mask, out, n)


@compiled
def _give_nans(v: Any, a: Any, b: Any, c: Any, count: int, out: Any, n: Any) -> None:
    """Give NaNs of a result their bits, as `arithmetic.with_nans` does for so many operands."""
    any_nan = False
    for i in range(n):
        any_nan |= _is_nan(out[i])
    if not any_nan:
        return
    for i in range(n):
        if _is_nan(out[i]):
            bits = _NAN
            if count > 2 and _is_nan(v[c + i]):
                bits = v[c + i] | _QUIET
            if count > 1 and _is_nan(v[b + i]):
                bits = v[b + i] | _QUIET
            if _is_nan(v[a + i]):
                bits = v[a + i] | _QUIET
            out[i] = bits


# Instructions with a mask as a second result.

ADD_CARRY, SUB_CARRY, MULTIPLY_ADD, COUNT_BELOW = range(4)


@compiled
def _with_flags(
    op: int, v: Any, low: Any, high: Any, mask: Any, out: Any, flags: Any, n: Any
) -> None:
    """Compute sums with a carry, products with one; ones of a mask below each lane."""
    (a, b, c), (_, _, c1) = low, high
    if op == ADD_CARRY:
        for i in range(n):
            total = U64(v[a + i]) + U64(v[b + i]) + (mask >> i & U64(1))
            out[i], flags[i] = U32(total), total >> U64(32)
    elif op == SUB_CARRY:
        for i in range(n):
            total = U64(v[a + i]) - U64(v[b + i]) - (mask >> i & U64(1))
            out[i], flags[i] = U32(total), total >> U64(63)
    elif op == MULTIPLY_ADD:
        for i in range(n):
            addend = _both(v[c + i], v[c1 + i])
            total = U64(v[a + i]) * U64(v[b + i]) + addend
            out[i], out[U64(LANES) + i] = U32(total), U32(total >> U64(32))
            flags[i] = total < addend
    else:  # the first lane of the mask is c
        for i in range(n):
            below = U64(min(max(I64(i) - I64(v[c + i]), I64(0)), I64(32)))
            out[i] = _ones(U64(v[a + i]) & ((U64(1) << below) - U64(1))) + U64(v[b + i])


# Comparisons: 1 if less, 2 if equal, 4 if greater, 8 if unordered.

CMP_I32, CMP_U32, CMP_I64, CMP_U64, CMP_F32, CMP_F64, CMP_CLASS = range(7)


@compiled
def _compare(op: int, wanted: int, v: Any, places: Any, flags: Any, n: Any) -> None:
    """Which lanes compare as wanted: the sum of the numbers above that count."""
    a, a1, b, b1 = places
    less, equal, greater, neither = wanted & 1, wanted >> 1 & 1, wanted >> 2 & 1, wanted >> 3 & 1
    if op == CMP_I32:
        for i in range(n):
            x, y = I32(v[a + i]), I32(v[b + i])
            flags[i] = less if x < y else equal if x == y else greater
    elif op == CMP_U32:
        for i in range(n):
            x, y = v[a + i], v[b + i]
            flags[i] = less if x < y else equal if x == y else greater
    elif op == CMP_F32:
        for i in range(n):
            x, y = _as_f32(v[a + i]), _as_f32(v[b + i])
            flags[i] = less if x < y else equal if x == y else greater if x > y else neither
    elif op == CMP_CLASS:  # of float32, as `arithmetic.of_class` has it
        for i in range(n):
            x, negative = v[a + i] & ~_SIGN, v[a + i] > U32(0x7FFFFFFF)
            kind = 3 if negative else 8
            if x > _INFINITY:
                kind = 1 if x & _QUIET else 0
            elif x == _INFINITY:
                kind = 2 if negative else 9
            elif x == U32(0):
                kind = 5 if negative else 6
            elif x < U32(0x800000):
                kind = 4 if negative else 7
            flags[i] = v[b + i] >> U32(kind) & U32(1)
    else:
        for i in range(n):
            p = U64(v[a + i]) | U64(v[a1 + i]) << U64(32)
            q = U64(v[b + i]) | U64(v[b1 + i]) << U64(32)
            if op == CMP_U64:
                flags[i] = less if p < q else equal if p == q else greater
            elif op == CMP_I64:
                flags[i] = less if I64(p) < I64(q) else equal if p == q else greater
            else:
                s, t = _as_f64(p), _as_f64(q)
                flags[i] = less if s < t else equal if s == t else greater if s > t else neither


@compiled
def _mask_of(flags: Any, n: Any) -> Any:
    mask = U64(0)
    for i in range(n):
        mask |= U64(flags[i]) << i
    return mask


# Operands and results.


@compiled
def _fetch(row: Any, at: Any, word: Any, v: Any, first_word: Any, to: Any, scalars: Any,
           of_wave: Any, exec_mask: Any, patterns: Any, n: Any) -> None:  # fmt: skip
    """Put a word of an operand, with its modifiers, into a place of v, lane by lane."""
    where, which = row[at + FROM], row[at + WHICH]
    if where >= OF_SCALARS:
        bits = U32(row[at + WHICH + word])
        if where == OF_SCALARS:
            bits = scalars[of_wave + U64(which + word)]
        for i in range(n):
            v[to + i] = bits
    else:
        first = first_word + U64(which + word) * n
        if row[PATTERN] >= 0 and at == SOURCE:
            there = U64(0xFFFFFFFFFFFFFFFF) if row[ALSO_OFF] else exec_mask
            for i in range(n):
                lane = patterns[row[PATTERN], i]
                read = lane >= 0 and there >> U64(max(lane, 0)) & U64(1)
                v[to + i] = v[first + U64(max(lane, 0))] if read else U32(0)
        else:
            for i in range(n):
                v[to + i] = v[first + i]
    shift, mask, sign = U32(row[at + SHIFT]), U32(row[at + BITS]), U32(row[at + EXTENDS])
    if mask != U32(0xFFFFFFFF):
        for i in range(n):
            v[to + i] = ((v[to + i] >> shift & mask) ^ sign) - sign
    if row[at + OF_HALF]:
        for i in range(n):
            v[to + i] = _from_half(v[to + i] & U32(0xFFFF))
    kept, turned = U32(row[at + KEEPS]), U32(row[at + FLIPS])
    if (kept != U32(0xFFFFFFFF) or turned) and word == row[at + WIDE]:
        for i in range(n):
            v[to + i] = v[to + i] & kept ^ turned


@compiled
def _change_result(row: Any, v: Any, target: Any, out: Any, n: Any) -> None:
    """Give a result of one word its modifiers, and the bits of the register that stay."""
    factor = row[FACTOR]
    if factor:
        for i in range(n):
            out[i] = _as_u32(_as_f32(out[i]) * _as_f32(U32(factor)))
    if row[CLAMPS]:
        for i in range(n):
            x = _as_f32(out[i])
            out[i] = _as_u32(min(x, F32(1)) if x > F32(0) else F32(0))
    if row[TO_HALF]:
        for i in range(n):
            out[i] = _to_half(out[i])
    part, sign, bits = U32(row[PART]), U32(row[SIGN]), U32(row[BITS_OUT])
    shift, kept = U32(row[SHIFT_OUT]), U32(row[KEPT])
    for i in range(n):
        x = U32((out[i] & part ^ sign) - sign)
        out[i] = (x & bits) << shift | v[target + i] & kept


@compiled
def _put(v: Any, target: Any, out: Any, first: Any, on: Any, at: Any, whole: bool, n: Any) -> None:
    """Write lanes of a register."""
    if whole:
        for i in range(n):
            v[target + i] = out[first + i]
    else:
        for i in range(n):
            if on[at + i]:
                v[target + i] = out[first + i]


@compiled
def _spread(mask: Any, on: Any, at: Any, n: Any) -> None:
    for i in range(n):
        on[at + i] = mask >> i & U64(1)


_LOW = U64(0xFFFFFFFF)


# Scalar instructions: names without ``s_``; types of the result and of the operands; what stands
# for each ``T``; the result of operands as words of 64 bits, of SCC and of the bits of the first;
# what SCC becomes of the result and the operands, or None: it stays. Types are those of
# `arithmetic.WORD`; ``scc``, which is no operand; ``pc``, the address behind the instruction; ``k``
# and ``ku``, a constant of 16 bits with and without a sign.

SOME = lambda r, a, b, c: r != U64(0)  # noqa: E731


def _relation(wanted: int, is_signed: bool) -> Callable[..., Any]:
    """A comparison: 1 if less counts, 2 if equal, 4 if greater; the sum of those that do."""

    def compare(a: Any, b: Any, c: Any, n: Any) -> Any:
        less = _signed(a) < _signed(b) if is_signed else a < b
        return U64(wanted) >> (U64(0) if less else U64(1) if a == b else U64(2)) & U64(1)

    return compare


@compiled
def _signed(x: Any) -> Any:
    return I64(I32(U32(x)))


@compiled
def _field(a: Any, b: Any, n: Any, is_signed: bool) -> Any:
    """Bits of a number: bits 0 ... 5 of the second operand are the offset, 16 ... 22 the width."""
    width, first = min(b >> U64(16) & U64(127), n), b & (n - U64(1))
    whole = I64(a) if n > U64(32) else _signed(a)
    result = U64(whole >> I64(first)) if is_signed else a >> first
    if width < U64(64):
        result &= (U64(1) << width) - U64(1)
    if is_signed and width > U64(0):
        sign = U64(1) << (width - U64(1))
        result = (result ^ sign) - sign
    return result


@compiled
def _top(n: Any) -> Any:
    """Mask of the count of a shift of so many bits."""
    return n - U64(1)


@compiled
def _first_one(a: Any) -> Any:
    return _behind(a) if a else ~U64(0)


@compiled
def _zeros_above(a: Any, n: Any) -> Any:
    return _before(a) - (U64(64) - n) if a else ~U64(0)


@compiled
def _quads(a: Any, times: Any) -> Any:
    """A bit, or four, for each group of four bits of which one is set."""
    result = U64(0)
    for quad in range(U64(16)):
        if a >> (U64(4) * quad) & U64(15):
            result |= U64(15 if times == 4 else 1) << (U64(times) * quad)
    return result


@compiled
def _doubled(a: Any) -> Any:
    result = U64(0)
    for bit in range(U64(32)):
        result |= (a >> bit & U64(1)) * U64(3) << (U64(2) * bit)
    return result


_RELATIONS = {"eq": 2, "lg": 5, "gt": 4, "ge": 6, "lt": 1, "le": 3}

SCALAR_OPERATIONS: tuple[tuple[str, str, str, Callable[..., Any], Any], ...] = (
    ("and_T", "T T T", "b32 b64", lambda a, b, c, n: a & b, SOME),
    ("or_T", "T T T", "b32 b64", lambda a, b, c, n: a | b, SOME),
    ("xor_T", "T T T", "b32 b64", lambda a, b, c, n: a ^ b, SOME),
    ("nand_T", "T T T", "b32 b64", lambda a, b, c, n: ~(a & b), SOME),
    ("nor_T", "T T T", "b32 b64", lambda a, b, c, n: ~(a | b), SOME),
    ("xnor_T", "T T T", "b32 b64", lambda a, b, c, n: ~(a ^ b), SOME),
    ("andn1_T and_not0_T", "T T T", "b32 b64", lambda a, b, c, n: ~a & b, SOME),
    ("andn2_T and_not1_T", "T T T", "b32 b64", lambda a, b, c, n: a & ~b, SOME),
    ("orn1_T or_not0_T", "T T T", "b32 b64", lambda a, b, c, n: ~a | b, SOME),
    ("orn2_T or_not1_T", "T T T", "b32 b64", lambda a, b, c, n: a | ~b, SOME),
    ("not_T", "T T", "b32 b64", lambda a, b, c, n: ~a, SOME),
    ("mov_T", "T T", "b32 b64", lambda a, b, c, n: a, None),
    ("movk_i32", "i32 k", "-", lambda a, b, c, n: a, None),
    ("getpc_b64", "b64 pc", "-", lambda a, b, c, n: a, None),
    ("cmov_T", "T T T scc", "b32 b64", lambda a, b, c, n: b if c else a, None),
    ("cmovk_i32", "i32 i32 k scc", "-", lambda a, b, c, n: b if c else a, None),
    ("cselect_T", "T T T scc", "b32 b64", lambda a, b, c, n: a if c else b, None),
    ("lshl_T", "T T u32", "b32 b64", lambda a, b, c, n: a << (b & _top(n)), SOME),
    ("lshr_T", "T T u32", "b32 b64", lambda a, b, c, n: a >> (b & _top(n)), SOME),
    ("ashr_i32", "i32 i32 u32", "-", lambda a, b, c, n: U64(_signed(a) >> I64(b & U64(31))), SOME),
    ("ashr_i64", "i64 i64 u32", "-", lambda a, b, c, n: U64(I64(a) >> I64(b & U64(63))), SOME),
    ("brev_T", "T T", "b32 b64", lambda a, b, c, n: _reversed(a) >> (U64(64) - n), None),
    ("bitset0_T", "T T u32", "b32 b64", lambda a, b, c, n: a & ~(U64(1) << (b & _top(n))), None),
    ("bitset1_T", "T T u32", "b32 b64", lambda a, b, c, n: a | U64(1) << (b & _top(n)), None),
    ("bitcmp0_T", "scc T u32", "b32 b64", lambda a, b, c, n: ~(a >> (b & _top(n))) & U64(1), SOME),
    ("bitcmp1_T", "scc T u32", "b32 b64", lambda a, b, c, n: a >> (b & _top(n)) & U64(1), SOME),
    ("bfm_b32", "b32 u32 u32", "-", lambda a, b, c, n: U64(_low_ones(a)) << (b & U64(31)), None),
    ("bfm_b64", "b64 u32 u32", "-",
     lambda a, b, c, n: ((U64(1) << (a & U64(63))) - U64(1)) << (b & U64(63)), None),
    ("bfe_T", "T T u32", "u32 u64", lambda a, b, c, n: _field(a, b, n, False), SOME),
    ("bfe_T", "T T u32", "i32 i64", lambda a, b, c, n: _field(a, b, n, True), SOME),
    ("bcnt0_i32_T", "i32 T", "b32 b64", lambda a, b, c, n: n - _ones(a), SOME),
    ("bcnt1_i32_T", "i32 T", "b32 b64", lambda a, b, c, n: _ones(a), SOME),
    ("ff0_i32_b32", "i32 b32", "-", lambda a, b, c, n: _first_one(a ^ _LOW), None),
    ("ff0_i32_b64", "i32 b64", "-", lambda a, b, c, n: _first_one(~a), None),
    ("ff1_i32_T ctz_i32_T", "i32 T", "b32 b64", lambda a, b, c, n: _first_one(a), None),
    ("flbit_i32_bT clz_i32_uT", "i32 bT", "32 64", lambda a, b, c, n: _zeros_above(a, n), None),
    ("flbit_i32 cls_i32", "i32 u32", "-",
     lambda a, b, c, n: _zeros_above((a ^ U64(_signed(a) >> I64(31))) & _LOW, n), None),
    ("flbit_i32_i64 cls_i32_i64", "i32 i64", "-",
     lambda a, b, c, n: _zeros_above(a ^ U64(I64(a) >> I64(63)), n), None),
    ("bitreplicate_b64_b32", "b64 b32", "-", lambda a, b, c, n: _doubled(a), None),
    ("quadmask_T", "T T", "b32 b64", lambda a, b, c, n: _quads(a, 1), SOME),
    ("wqm_T", "T T", "b32 b64", lambda a, b, c, n: _quads(a, 4), SOME),
    ("sext_i32_i8", "i32 u32", "-", lambda a, b, c, n: U64(I64(a << U64(56)) >> I64(56)), None),
    ("sext_i32_i16", "i32 u32", "-", lambda a, b, c, n: U64(I64(a << U64(48)) >> I64(48)), None),
    ("abs_i32", "u32 i32", "-", lambda a, b, c, n: U64(abs(_signed(a))), SOME),
    ("absdiff_i32", "u32 i32 i32", "-", lambda a, b, c, n: U64(abs(_signed(a - b))), SOME),
    ("min_i32", "i32 i32 i32", "-", lambda a, b, c, n: a if _signed(a) < _signed(b) else b,
     lambda r, a, b, c: _signed(a) < _signed(b)),
    ("max_i32", "i32 i32 i32", "-", lambda a, b, c, n: b if _signed(a) < _signed(b) else a,
     lambda r, a, b, c: _signed(a) >= _signed(b)),
    ("min_u32", "u32 u32 u32", "-", lambda a, b, c, n: min(a, b), lambda r, a, b, c: a < b),
    ("max_u32", "u32 u32 u32", "-", lambda a, b, c, n: max(a, b), lambda r, a, b, c: a >= b),
    ("add_i32 add_co_i32", "i32 i32 i32", "-", lambda a, b, c, n: a + b,
     lambda r, a, b, c: (a ^ r) & (b ^ r) & U64(1 << 31)),
    ("addk_i32 addk_co_i32", "i32 i32 k", "-", lambda a, b, c, n: a + b,
     lambda r, a, b, c: (a ^ r) & (b ^ r) & U64(1 << 31)),
    ("sub_i32 sub_co_i32", "i32 i32 i32", "-", lambda a, b, c, n: a - b,
     lambda r, a, b, c: (a ^ b) & (a ^ r) & U64(1 << 31)),
    ("add_u32 add_co_u32", "u32 u32 u32", "-", lambda a, b, c, n: a + b, lambda r, a, b, c: r < a),
    ("sub_u32 sub_co_u32", "u32 u32 u32", "-", lambda a, b, c, n: a - b, lambda r, a, b, c: a < b),
    ("addc_u32 add_co_ci_u32", "u32 u32 u32 scc", "-", lambda a, b, c, n: a + b + c,
     lambda r, a, b, c: (a + b + c) >> U64(32)),
    ("subb_u32 sub_co_ci_u32", "u32 u32 u32 scc", "-", lambda a, b, c, n: a - b - c,
     lambda r, a, b, c: a < b + c),
    ("add_nc_u64 add_u64", "u64 u64 u64", "-", lambda a, b, c, n: a + b, None),
    ("sub_nc_u64 sub_u64", "u64 u64 u64", "-", lambda a, b, c, n: a - b, None),
    ("lshl1_add_u32", "u32 u32 u32", "-", lambda a, b, c, n: (a << U64(1)) + b,
     lambda r, a, b, c: ((a << U64(1)) + b) >> U64(32)),
    ("lshl2_add_u32", "u32 u32 u32", "-", lambda a, b, c, n: (a << U64(2)) + b,
     lambda r, a, b, c: ((a << U64(2)) + b) >> U64(32)),
    ("lshl3_add_u32", "u32 u32 u32", "-", lambda a, b, c, n: (a << U64(3)) + b,
     lambda r, a, b, c: ((a << U64(3)) + b) >> U64(32)),
    ("lshl4_add_u32", "u32 u32 u32", "-", lambda a, b, c, n: (a << U64(4)) + b,
     lambda r, a, b, c: ((a << U64(4)) + b) >> U64(32)),
    ("mul_i32", "u32 u32 u32", "-", lambda a, b, c, n: a * b, None),
    ("mulk_i32", "i32 i32 k", "-", lambda a, b, c, n: a * b, None),
    ("mul_u64", "u64 u64 u64", "-", lambda a, b, c, n: a * b, None),
    ("mul_hi_u32", "u32 u32 u32", "-", lambda a, b, c, n: a * b >> U64(32), None),
    ("mul_hi_i32", "i32 i32 i32", "-", lambda a, b, c, n: U64(_signed(a) * _signed(b) >> 32), None),
    ("pack_ll_b32_b16", "u32 u32 u32", "-",
     lambda a, b, c, n: a & U64(0xFFFF) | b << U64(16), None),
    ("pack_lh_b32_b16", "u32 u32 u32", "-",
     lambda a, b, c, n: a & U64(0xFFFF) | b & U64(0xFFFF0000), None),
    ("pack_hh_b32_b16", "u32 u32 u32", "-",
     lambda a, b, c, n: a >> U64(16) | b & U64(0xFFFF0000), None),
    ("pack_hl_b32_b16", "u32 u32 u32", "-", lambda a, b, c, n: a >> U64(16) | b << U64(16), None),
    *(
        (f"{name}_{relation}_T", types, kinds, _relation(wanted, "i32" in kinds), SOME)
        for relation, wanted in _RELATIONS.items()
        for name, types, kinds in (
            *(("cmp", "scc T T", "i32"), ("cmp", "scc T T", "u32 u64")),
            *(("cmpk", "scc T k", "i32"), ("cmpk", "scc T ku", "u32")),
        )
    ),
)  # fmt: skip


def _typed_scalars(typing: Any, op: Any, a: Any, b: Any, scc: Any, bits: Any, kept: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, a, b, scc, bits, kept = arguments
        word = types.uint64
        kept_place: Any = cgutils.alloca_once_value
        places = [kept_place(builder, value) for value in (a, scc)]
        behind = builder.append_basic_block("behind")
        switch = builder.switch(number, behind)
        for case, (_, _, _, result, flag) in enumerate(SCALAR_OPERATIONS):
            block = builder.append_basic_block(f"scalar {case}")
            switch.add_case(ir.Constant(number.type, case), block)
            builder.position_at_end(block)
            operands = [a, b, scc, bits]
            value = context.compile_internal(builder, result, word(*[word] * 4), operands)
            value = builder.and_(value, kept)
            builder.store(value, places[0])
            if flag is not None:
                operands = [value, a, b, scc]
                of_flag = context.compile_internal(builder, flag, word(*[word] * 4), operands)
                builder.store(of_flag, places[1])
            builder.branch(behind)
        builder.position_at_end(behind)
        pair = [builder.load(place) for place in places]
        return context.make_tuple(builder, signature.return_type, pair)

    of_operands = [types.int64, *[types.uint64] * 5]
    pair: Any = types.UniTuple
    return pair(types.uint64, 2)(*of_operands), generate


_by_scalars: Any = intrinsic(_typed_scalars)


@compiled
def _compute_scalar(op: int, a: Any, b: Any, scc: bool, bits: int, words: int) -> Any:
    """Result of a scalar instruction, of so many words, and whether SCC is set behind it."""
    kept = U64(0xFFFFFFFFFFFFFFFF) if words > 1 else _LOW
    result, flag = _by_scalars(op, a, b, U64(scc), U64(bits), kept)
    return result, flag != U64(0)


@compiled
def compute_scalars(op: int, operands: Any, scc: Any, bits: int, words: int, results: Any) -> None:
    """Results of a scalar instruction of several waves, and what SCC becomes."""
    for k in range(len(results)):
        results[k], scc[k] = _compute_scalar(
            op, operands[0, k], operands[1, k], scc[k], bits, words
        )


@compiled
def _scalar_operand(row: Any, at: int, scalars: Any, of_wave: Any) -> Any:
    if row[at + FROM] == CONSTANT:
        return U64(row[at + WHICH])
    first = of_wave + U64(row[at + WHICH])
    low = U64(scalars[first])
    return low | U64(scalars[first + U64(1)]) << U64(32) if row[at + WIDE] else low


# Accesses to memory.


@compiled
def _locate(row: Any, second: int, v: Any, address: Any, begin: Any, on: Any, at: Any, memory: Any,
            wave: int, place: Any, n: Any) -> bool:  # fmt: skip
    """Find where in its memory each lane that is on begins its access; False if not all may.

    Parameters
    ----------
    second : int
        What is added to the offset: that of the second place of an access to the LDS.
    address : (uint64, uint64)
        Places of v with the lower and the upper half of the address of each lane.
    begin : int64
        What is added to it, beside the offset of the instruction.
    """
    _, (valid, here, run_of), _, lay = memory
    base, size, stride, shift, lds_stride, lds_size, lds_of, private_size = lay
    low, high = address
    space, bytes_of, offset = row[SPACE], row[SIZE] * row[WORDS], row[OFFSET] + second + begin
    aligned, run, good = min(row[SIZE], 4) - 1, run_of[wave], True
    most = (lds_size if space == LOCAL else private_size) - bytes_of
    if space == LOCAL:
        group = lds_of[wave] * lds_stride
        for i in range(n):
            to = I64(U32(v[low + i] + U32(offset)))
            fits = (to <= most) & ((to & aligned) == 0)
            good &= fits | (not on[at + i])
            place[i] = to + group if fits else 0
        return good
    if space == PRIVATE:
        for i in range(n):
            to, lane = I64(I32(v[low + i])) + offset, (wave * I64(n) + I64(i)) * private_size
            fits = (to >= 0) & (to <= most) & (((to + lane) & aligned) == 0)
            good &= fits | (not on[at + i])
            place[i] = to + lane if fits else 0
        return good
    most = size - bytes_of
    for i in range(n):
        to = I64(v[low + i])
        if space == GLOBAL:
            to = I64(_both(v[low + i], v[high + i]))
        to += offset - base
        fits = (to >= 0) & (to <= most) & ((to & aligned) == 0)
        to = to if fits else I64(0)
        first, last = U64(to >> shift), U64((to + bytes_of - 1) >> shift)
        fits &= valid[first] & valid[last] & here[run, first] & here[run, last]
        good &= fits | (not on[at + i])
        place[i] = to + run * stride
    return good


@compiled
def _load(row: Any, content: Any, place: Any, out: Any, to: Any, n: Any) -> None:
    """Load words, or parts of one, of all lanes; those that are off have a place, too."""
    size, words = row[SIZE], U64(row[WORDS])
    for word in range(words):
        first = to + word * U64(LANES)
        if size == 4:
            for i in range(n):
                out[first + i] = _word_at(content, U64(place[i]) + U64(4) * word)
        else:
            for i in range(n):
                bits = U32(content[U64(place[i])])
                if size > 1:
                    bits |= U32(content[U64(place[i]) + U64(1)]) << U32(8)
                out[first + i] = bits


@compiled
def _store(row: Any, content: Any, place: Any, on: Any, at: Any, v: Any, of: Any, n: Any) -> None:
    """Store registers, or a part of one, of the lanes that are on."""
    size, words, half = row[SIZE], U64(row[WORDS]), U32(row[SHIFT_OUT])
    for word in range(words):
        for i in range(n):
            if on[at + i]:
                first, bits = U64(place[i]) + U64(4) * word, U32(v[of + word * n + i] >> half)
                if size == 4:
                    _put_word(content, first, bits)
                else:
                    content[first] = bits
                    if size > 1:
                        content[first + U64(1)] = bits >> U32(8)


(A_ADD, A_SUB, A_AND, A_OR, A_XOR, A_SWAP, A_MIN_I, A_MAX_I, A_MIN_U, A_MAX_U) = range(10)


@compiled
def _change(op: int, content: Any, place: Any, on: Any, at: Any, v: Any, of: Any, out: Any,
            n: Any) -> None:  # fmt: skip
    """Change words of memory, lane after lane; what was there before goes to `out`."""
    for i in range(n):
        if on[at + i]:
            first, new = U64(place[i]), v[of + i]
            old = _word_at(content, first)
            out[i] = old
            if op == A_ADD:
                new = U32(old + new)
            elif op == A_SUB:
                new = U32(old - new)
            elif op == A_AND:
                new &= old
            elif op == A_OR:
                new |= old
            elif op == A_XOR:
                new ^= old
            elif op == A_MIN_I:
                new = old if I32(old) < I32(new) else new
            elif op == A_MAX_I:
                new = old if I32(old) > I32(new) else new
            elif op == A_MIN_U:
                new = min(old, new)
            elif op == A_MAX_U:
                new = max(old, new)
            _put_word(content, first, U32(new))


@compiled
def _note_words(row: Any, on: Any, at: Any, memory: Any, wave: int, place: Any, n: Any) -> None:
    """Note which words of its memory a run uses, and whether others change one of them."""
    _, (_, _, run_of), (used, writer, group_of_run, foreign), lay = memory
    run = run_of[wave]
    begin, owner, bytes_of = run * lay[2], group_of_run[run] + 1, row[SIZE] * row[WORDS]
    for i in range(n):
        if on[at + i]:
            first = place[i] - begin
            for word in range(first >> 2, ((first + bytes_of - 1) >> 2) + 1):
                if used.shape[1]:
                    used[run, word] = True
                if len(writer) and writer[word] != 0 and writer[word] != owner:
                    foreign[run] = True


@compiled
def _load_scalars(row: Any, scalars: Any, of_wave: Any, memory: Any, wave: int) -> bool:
    """Load words into scalar registers; False if not all may be loaded."""
    (content, _, _), (valid, here, run_of), (used, writer, _, _), lay = memory
    base, size, stride, shift = lay[0], lay[1], lay[2], lay[3]
    first = of_wave + U64(row[SOURCE + WHICH])
    at = I64(U64(scalars[first]) | U64(scalars[first + U64(1)]) << U64(32)) + row[OFFSET]
    if row[SOURCE + OF_SOURCE + FROM] == OF_SCALARS:
        at += I64(scalars[of_wave + U64(row[SOURCE + OF_SOURCE + WHICH])])
    at = (at & ~3) - base
    if at < 0 or at > size - 4 * row[WORDS] or used.shape[1] or len(writer):
        return False
    begin, end, run = at >> shift, (at + 4 * row[WORDS] - 1) >> shift, run_of[wave]
    if not (valid[begin] and valid[end] and here[run, begin] and here[run, end]):
        return False
    for word in range(row[WORDS]):
        bits = _word_at(content, U64(at + run * stride + 4 * word))
        scalars[of_wave + U64(row[OUT] + word)] = bits
    return True


# Which waves go, and what they leave.

(LEFT, ADDRESS, STEPS_LOGGED, WRITTEN, LOGS, BASE, EXECUTED) = range(7)
CONTROLS, HELD = 7, -2
"""What Python and the interpreter tell each other: instructions that may still be executed, and
so on; `EXECUTED` counts those of the interpreter."""

(READ_FIRST, READ_LANE, WRITE_LANE, PERMUTE) = range(4)
_MOST_STEPS = 1 << 8


@compiled
def _choose(state: Any) -> int:
    """Place of the waves that go next: that can go on and do not rest; -1 if none can go on."""
    pc, done, waiting, resting = state[0], state[1], state[2], state[4]
    while True:
        best, place, rests = NEVER, 0, False
        for wave in range(len(pc)):
            if not (done[wave] or waiting[wave]):
                if resting[wave]:
                    rests = True
                elif pc[wave] & ADDRESS_BITS < best:
                    best, place = pc[wave] & ADDRESS_BITS, pc[wave]
        if best < NEVER:
            return place
        if not rests:
            return -1
        for wave in range(len(pc)):
            resting[wave] = False


@compiled
def _pause(wave: int, ends: bool, state: Any) -> None:
    """Let a wave end, or wait until all others of its work-group wait or have ended."""
    _, done, waiting, _, _, _, _, _, _, group_of, members, stopped, _ = state
    if ends:
        done[wave] = True
    else:
        waiting[wave] = True
    group = group_of[wave]
    stopped[group] += 1
    if stopped[group] == members[group]:
        for other in range(len(done)):
            if group_of[other] == group and waiting[other]:
                waiting[other] = False
                stopped[group] -= 1


@compiled
def _jump_back(wave: int, state: Any) -> None:
    """Note that a wave has jumped back: it may have to rest."""
    resting, asks, backs = state[4], state[5], state[6]
    backs[wave] += 1
    if asks[wave] or backs[wave] >= JUMPS:
        resting[wave], asks[wave], backs[wave] = True, False, 0


@compiled
def _log_step(wave: int, code: int, log: Any, control: Any) -> None:
    """Note that a wave executes an instruction."""
    first, count, runs = log[0], log[1], log[2]
    if code == first[wave] + 2 * count[wave]:
        count[wave] += 1
        return
    if count[wave]:
        at = control[STEPS_LOGGED]
        runs[at, 0], runs[at, 1], runs[at, 2] = wave, first[wave], count[wave]
        control[STEPS_LOGGED] = at + 1
    first[wave], count[wave] = code, 1


@compiled
def pause(waves: Any, ends: bool, state: Any) -> None:
    """Let waves end, or wait for the others of their work-groups."""
    for wave in waves:
        _pause(wave, ends, state)


@compiled
def jump_back(waves: Any, state: Any) -> None:
    """Note that waves have jumped back."""
    for wave in waves:
        _jump_back(wave, state)


@compiled
def log_steps(waves: Any, codes: Any, log: Any, control: Any) -> None:
    """Note which instruction each of some waves executes."""
    for k in range(len(waves)):
        _log_step(waves[k], codes[k], log, control)


@compiled
def advance(code: Any, state: Any, registers: Any, memory: Any, log: Any, control: Any) -> None:
    """Let waves go on for as long as they can.

    It returns with the address of those that Python has to deal with, which `chosen` names: their
    instruction is not decoded, or left to its closure, or something is planned for their step.
    Address -1 says that no wave can go on, `HELD` that the budget is used up, or a log is full.
    """
    rows, row_of, patterns = code
    pc, done, waiting, stuck, resting, asks, _, steps, stop_at, _, _, _, chosen = state
    v, scalars, scc, active, recorded, out, flags, lane_mask, places, n = registers
    contents_of, _, (used, writer, _, _), _ = memory
    _, _, runs, writes, masks, contents = log
    whole_mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - n)
    waves, second_rows = len(pc), len(rows) // 2
    vectors = U64(len(v) - ROOM) // U64(waves)  # words of the registers of a wave
    room = U64(len(v) - ROOM)
    notes = used.shape[1] > 0 or len(writer) > 0
    while True:
        chosen[:] = False
        address = _choose(state)
        control[ADDRESS] = address
        if address < 0:
            return
        slot = address - control[BASE]
        first_row = -1
        if slot >= 0 and slot >> 2 < len(row_of) and not slot & 3:
            first_row = row_of[slot >> 2]
        if first_row < 0 or rows[first_row, KIND] <= CLOSED:
            for wave in range(waves):
                chosen[wave] = pc[wave] == address and not (
                    done[wave] or waiting[wave] or resting[wave]
                )
            return
        went = False
        for wave in range(waves):
            if pc[wave] != address or done[wave] or waiting[wave] or resting[wave]:
                continue
            if stuck[wave] or steps[wave] >= stop_at[wave]:
                chosen[wave] = True
                continue
            went = True
            if (
                control[STEPS_LOGGED] + _MOST_STEPS > len(runs)
                or control[WRITTEN] + 4 * _MOST_STEPS > len(masks)
                or control[LEFT] <= 0
            ):
                control[ADDRESS] = HELD
                return
            most = min(stop_at[wave] - steps[wave], control[LEFT], _MOST_STEPS)
            first_word, of_wave = U64(wave) * vectors, U64(wave) * U64(128)
            at = U64(wave) * n
            exec_mask = U64(scalars[of_wave + U64(126)])
            if n > U64(32):
                exec_mask |= U64(scalars[of_wave + U64(127)]) << U64(32)
            number, count, follows = first_row, 0, address
            while count < most:
                row = rows[number]
                kind, op = row[KIND], row[OP]
                if row[AT] != follows or kind <= CLOSED or (kind == CHANGE and count):
                    break
                idle = exec_mask == U64(0) and row[IDLES] != 0
                words, mask, on, on_at = 0, exec_mask, active, at
                second = row
                if kind == NOTHING:
                    pass
                elif kind in (SCALAR, SAVES):
                    a = _scalar_operand(row, SOURCE, scalars, of_wave)
                    b = _scalar_operand(row, SOURCE + OF_SOURCE, scalars, of_wave)
                    bits, size = 32 + 32 * row[SOURCE + WIDE], row[WORDS]
                    if kind == SAVES:
                        b = exec_mask
                    result, flag = _compute_scalar(op, a, b, scc[wave], bits, size)
                    scc[wave], after = flag, result
                    if kind == SAVES and row[TARGET]:
                        result = exec_mask
                    target = of_wave + U64(row[OUT])
                    if row[WORDS] > 0:
                        scalars[target] = U32(result)
                    if row[WORDS] > 1:
                        scalars[target + U64(1)] = U32(result >> U64(32))
                    if kind == SAVES:
                        scalars[of_wave + U64(126)] = U32(after)
                        if n > U64(32):
                            scalars[of_wave + U64(127)] = U32(after >> U64(32))
                    if kind == SAVES or (row[WORDS] and row[OUT] + row[WORDS] > 126):
                        exec_mask = U64(scalars[of_wave + U64(126)])
                        if n > U64(32):
                            exec_mask |= U64(scalars[of_wave + U64(127)]) << U64(32)
                        _spread(exec_mask, active, at, n)
                elif VECTOR <= kind <= COMPARES:
                    chosen_lanes = U64(0)
                    if row[MASK_IN] >= 0:
                        chosen_lanes = U64(scalars[of_wave + U64(row[MASK_IN])])
                        if n > U64(32):
                            high = U64(scalars[of_wave + U64(row[MASK_IN] + 1)])
                            chosen_lanes |= high << U64(32)
                    for part in range(row[PARTS]):
                        if part:
                            second = rows[number + second_rows]
                        this = second if part else row
                        to = room + U64(part * 6 * LANES)
                        a, b, c = U64(0), U64(0), U64(0)
                        a1, b1, c1 = U64(0), U64(0), U64(0)
                        for source in range(3):
                            s = SOURCE + source * OF_SOURCE
                            low = first_word + U64(this[s + WHICH]) * n
                            high = low + n
                            if this[s + FROM] != AS_IT_IS:
                                low = to + U64(2 * source * LANES)
                                high = low + U64(LANES)
                                for word in range(1 + this[s + WIDE]):
                                    place_of = low + U64(word * LANES)
                                    _fetch(this, I64(s), I64(word), v, first_word, place_of,
                                           scalars, of_wave, exec_mask, patterns, n)  # fmt: skip
                            if source == 0:
                                a, a1 = low, high
                            elif source == 1:
                                b, b1 = low, high
                            else:
                                c, c1 = low, high
                        if kind == COMPARES:
                            _compare(op, row[TARGET], v, (a, a1, b, b1), flags, n)
                        elif kind == CARRIES:
                            _with_flags(op, v, (a, b, c), (a1, b1, c1), chosen_lanes, out, flags, n)
                        elif kind == WIDE_VECTOR:
                            _pairs(op, v, (a, b, c), (a1, b1, c1), chosen_lanes, out, n)
                        else:
                            result_of = out if not part else out[LANES:]
                            _words(this[OP], v, (a, b, c), (a1, b1, c1), chosen_lanes, result_of, n)
                            if this[NANS]:
                                _give_nans(v, a, b, c, this[NANS], result_of, n)
                            if this[CHANGED]:
                                target = first_word + U64(this[OUT]) * n
                                _change_result(this, v, target, result_of, n)
                    if row[PATTERN] >= 0:
                        mask &= U64(row[ENABLED])
                        if not row[BOUND]:
                            there = U64(0)
                            for i in range(n):
                                lane = patterns[row[PATTERN], i]
                                if lane >= 0:
                                    bit = U64(1) if row[ALSO_OFF] else exec_mask >> U64(lane)
                                    there |= (bit & U64(1)) << i
                            mask &= there
                        _spread(mask, lane_mask, U64(0), n)
                        on, on_at = lane_mask, U64(0)
                    words = row[WORDS]
                    if row[MASK_OUT] >= 0:
                        result = _mask_of(flags, n) & mask
                        scalars[of_wave + U64(row[MASK_OUT])] = U32(result)
                        if n > U64(32):
                            scalars[of_wave + U64(row[MASK_OUT] + 1)] = U32(result >> U64(32))
                        if kind == COMPARES and (row[MASK_OUT] == 126 or row[SPACE]):
                            exec_mask = result
                            scalars[of_wave + U64(126)] = U32(result)
                            if n > U64(32):
                                scalars[of_wave + U64(127)] = U32(result >> U64(32))
                            _spread(result, active, at, n)
                elif kind == LANE:
                    s, t = SOURCE, SOURCE + OF_SOURCE
                    low = first_word + U64(row[s + WHICH]) * n
                    if row[s + FROM] != AS_IT_IS:
                        low = room
                        _fetch(
                            row, s, 0, v, first_word, low, scalars, of_wave, exec_mask, patterns, n
                        )
                    if op == PERMUTE:  # what lanes read of others; both operands are registers
                        high = first_word + U64(row[t + WHICH]) * n
                        for i in range(n):
                            lane = U64(U32(v[high + i] + U32(row[OFFSET])) >> U32(2)) % n
                            out[i] = v[low + lane] if exec_mask >> lane & U64(1) else U32(0)
                        words = 1
                    elif op == WRITE_LANE:
                        lane = _scalar_operand(row, t, scalars, of_wave) % n
                        mask = U64(1) << lane
                        out[lane] = v[low + lane]
                        _spread(mask, lane_mask, U64(0), n)
                        on, on_at, words = lane_mask, U64(0), 1
                    else:
                        lane = _scalar_operand(row, t, scalars, of_wave) % n
                        if op == READ_FIRST:
                            lane = _behind(exec_mask) if exec_mask else U64(0)
                        scalars[of_wave + U64(row[OUT])] = v[low + lane]
                elif kind == LOADED:
                    if not _load_scalars(row, scalars, of_wave, memory, wave):
                        stuck[wave] = True
                        break
                elif kind in (ACCESS, CHANGE):
                    low = first_word + U64(row[SOURCE + WHICH]) * n
                    if row[SOURCE + FROM] != AS_IT_IS:
                        low = room
                        _fetch(row, I64(SOURCE), I64(0), v, first_word, low, scalars, of_wave,
                               exec_mask, patterns, n)  # fmt: skip
                    begin = I64(0)
                    if row[SOURCE + OF_SOURCE + FROM] == OF_SCALARS:
                        begin = I64(_scalar_operand(row, SOURCE + OF_SOURCE, scalars, of_wave))
                        if row[SPACE] == PRIVATE:
                            begin = I64(I32(U32(begin)))
                    content = contents_of[0]
                    if row[SPACE] == LOCAL:
                        content = contents_of[1]
                    elif row[SPACE] == PRIVATE:
                        content = contents_of[2]
                    good = True
                    for part in range(row[PARTS]):
                        place = places[part]
                        good &= _locate(row, row[STEP] * part, v, (low, low + n), begin, active, at,
                                        memory, wave, place, n)  # fmt: skip
                    if not good:
                        stuck[wave] = True
                        break
                    if notes and row[SPACE] <= BY_BASE:
                        _note_words(row, active, at, memory, wave, places[0], n)
                    for part in range(row[PARTS]):
                        if kind == CHANGE and op >= 0:
                            of = first_word + U64(row[SOURCE + 2 * OF_SOURCE + WHICH]) * n
                            _change(op, content, places[0], active, at, v, of, out, n)
                        elif row[LOADS] and exec_mask:
                            to = U64(part * row[WORDS] * LANES)
                            _load(row, content, places[part], out, to, n)
                        elif not row[LOADS]:
                            of = SOURCE + 2 * OF_SOURCE + part
                            of_data = first_word + U64(row[of + WHICH]) * n
                            _store(row, content, places[part], active, at, v, of_data, n)
                    words = row[WORDS] * row[PARTS] if row[LOADS] else 0
                    if row[CHANGED] and row[LOADS]:
                        _change_result(row, v, first_word + U64(row[OUT]) * n, out, n)
                for word in range(words):
                    register = row[OUT] + word
                    if word and row[PARTS] > 1 and kind == VECTOR:
                        register = second[OUT]
                    target = first_word + U64(register) * n
                    _put(v, target, out, U64(word * LANES), on, on_at, mask == whole_mask, n)
                    if recorded[wave] and mask:
                        written = control[WRITTEN]
                        writes[written, 0], writes[written, 1] = wave, steps[wave] + count
                        writes[written, 2], masks[written] = register, mask
                        for i in range(n):
                            contents[written, i] = v[target + i]
                        control[WRITTEN] = written + 1
                if row[ASKS]:
                    asks[wave] = True
                if control[LOGS]:
                    _log_step(wave, 2 * row[NUMBER] + I64(idle), log, control)
                count += 1
                follows = row[AFTER]
                number += 1
                if kind == JUMP:
                    taken = True
                    if op < 2:
                        taken = scc[wave] == op
                    elif op < 4:
                        vcc = U64(scalars[of_wave + U64(106)])
                        if n > U64(32):
                            vcc |= U64(scalars[of_wave + U64(107)]) << U64(32)
                        taken = (vcc != U64(0)) == (op == 3)
                    elif op < 6:
                        taken = (exec_mask != U64(0)) == (op == 5)
                    if taken:
                        if row[TARGET] < follows:
                            _jump_back(wave, state)
                        follows = row[TARGET]
                    break
                if kind in (WAITS, ENDS):
                    _pause(wave, kind == ENDS, state)
                    break
                if kind == CHANGE or second_rows <= number:
                    break
            pc[wave] = follows
            steps[wave] += count
            control[LEFT] -= count
            control[EXECUTED] += count
        if not went:
            return
