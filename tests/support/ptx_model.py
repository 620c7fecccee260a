"""What PTX instructions compute, as the PTX ISA describes it, over Python's integers and floats.

Written apart from `host_gpu/ptx.py` and `ptx.h`, which it judges: sections 9.7.1 to 9.7.9 of the
ISA, version 9.0. Integers arrive with the sign that their type has.
"""

import math
from fractions import Fraction

import numpy as np


def width_of(kind):
    return 1 if kind == "pred" else int(kind[1:])


def decoded(kind, raw):
    """The value of 64 bits of a register, of which a type takes the lowest."""
    if kind == "f64":
        return np.uint64(raw).view(np.float64)
    if kind == "pred":
        return int(raw != 0)
    value = raw % 2 ** width_of(kind)
    return value - 2 ** width_of(kind) if kind[0] == "s" and value >> width_of(kind) - 1 else value


def encoded(kind, value):
    """Bits of a result."""
    if kind == "f64":
        return int(np.float64(value).view(np.uint64))
    return int(value) % 2 ** width_of(kind)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def left(amount, low, high):
    return (high << 32 | low) << amount >> 32


def right(amount, low, high):
    return (high << 32 | low) >> amount


def highest(value):
    return (~value if value < 0 else value).bit_length() - 1


def extracted(n, value, position, length, with_sign):
    position, length, value = position & 255, length & 255, value % 2**n
    field = value >> position & (1 << length) - 1
    sign = value >> min(position + length - 1, n - 1) & 1 if length and with_sign else 0
    filled = min(length, max(0, n - position))
    return field | (-sign << filled)


def inserted(n, field, into, position, length):
    for i in range(length & 255):
        place = (position & 255) + i
        if place < n:
            into = into & ~(1 << place) | (field >> i & 1) << place
    return into


def permuted(a, b, selector):
    pair, result = (b << 32 | a).to_bytes(8, "little"), 0
    for i in range(4):
        choice = selector >> 4 * i & 15
        byte = pair[choice & 7]
        if choice & 8:
            byte = 255 if byte >> 7 else 0
        result |= byte << 8 * i
    return result


def dot(a, b, c, first):
    return c + sum((a >> 16 * i & 0xFFFF) * (b >> 8 * (first + i) & 0xFF) for i in range(2))


INTEGERS = {
    "add": lambda n, a, b: a + b,
    "sub": lambda n, a, b: a - b,
    "mul.lo": lambda n, a, b: a * b,
    "mul.hi": lambda n, a, b: a * b >> n,
    "mul.wide": lambda n, a, b: a * b,
    "mad.lo": lambda n, a, b, c: a * b + c,
    "mad.wide": lambda n, a, b, c: a * b + c,
    "div": lambda n, a, b: quotient(a, b),
    "rem": lambda n, a, b: a - b * quotient(a, b),
    "min": lambda n, a, b: min(a, b),
    "max": lambda n, a, b: max(a, b),
    "neg": lambda n, a: -a,
    "abs": lambda n, a: abs(a),
    "and": lambda n, a, b: a & b,
    "or": lambda n, a, b: a | b,
    "xor": lambda n, a, b: a ^ b,
    "not": lambda n, a: ~a,
    "shl": lambda n, a, b: a << min(b, n),
    "shr": lambda n, a, b: a >> min(b, n),
    "shf.l.wrap": lambda n, a, b, c: left(c % 32, a, b),
    "shf.r.wrap": lambda n, a, b, c: right(c % 32, a, b),
    "shf.l.clamp": lambda n, a, b, c: left(min(c, 32), a, b),
    "shf.r.clamp": lambda n, a, b, c: right(min(c, 32), a, b),
    "popc": lambda n, a: a.bit_count(),
    "clz": lambda n, a: n - a.bit_length(),
    "brev": lambda n, a: int(f"{a:0{n}b}"[::-1], 2),
    "bfind": lambda n, a: highest(a),
    "bfind.shiftamt": lambda n, a: -1 if highest(a) < 0 else n - 1 - highest(a),
    "bfi": inserted,
    "prmt": lambda n, a, b, c: permuted(a, b, c),
    "dp2a.lo": lambda n, a, b, c: dot(a, b, c, 0),
    "dp2a.hi": lambda n, a, b, c: dot(a, b, c, 2),
    "selp": lambda n, a, b, c: a if c else b,
    "cvt": lambda n, a: a,
    "cvt.rn": lambda n, a: float(a),
    "setp.eq": lambda n, a, b: a == b,
    "setp.ne": lambda n, a, b: a != b,
    **dict.fromkeys(("setp.lt", "setp.lo"), lambda n, a, b: a < b),
    **dict.fromkeys(("setp.le", "setp.ls"), lambda n, a, b: a <= b),
    **dict.fromkeys(("setp.gt", "setp.hi"), lambda n, a, b: a > b),
    **dict.fromkeys(("setp.ge", "setp.hs"), lambda n, a, b: a >= b),
}


def fused(a, b, c):
    """One rounding of the product and the sum."""
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return a * b + c if not (a and b) else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def extreme(a, b, larger):
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:
        return max(a, b, key=lambda x: math.copysign(1, x) * (1 if larger else -1))
    return (max if larger else min)(a, b)


def toward_zero(kind, value):
    n = width_of(kind)
    least, most = (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if kind[0] == "s" else (0, 2**n - 1)
    if math.isnan(value):
        return 2 ** (n - 1)
    if math.isinf(value):
        return most if value > 0 else least
    return min(max(math.trunc(value), least), most)


def unordered(a, b):
    return math.isnan(a) or math.isnan(b)


FLOATS = {
    "add.rn": lambda a, b: a + b,
    "sub.rn": lambda a, b: a - b,
    "mul.rn": lambda a, b: a * b,
    "div.rn": lambda a, b: a / b,
    "sqrt.rn": np.sqrt,
    "fma.rn": fused,
    "neg": lambda a: -a,
    "abs": lambda a: abs(a),
    "min": lambda a, b: extreme(a, b, False),
    "max": lambda a, b: extreme(a, b, True),
    "selp": lambda a, b, c: a if c else b,
    "setp.eq": lambda a, b: a == b and not unordered(a, b),
    "setp.ne": lambda a, b: a != b and not unordered(a, b),
    "setp.lt": lambda a, b: a < b,
    "setp.le": lambda a, b: a <= b,
    "setp.gt": lambda a, b: a > b,
    "setp.ge": lambda a, b: a >= b,
    "setp.equ": lambda a, b: a == b or unordered(a, b),
    "setp.neu": lambda a, b: a != b or unordered(a, b),
    "setp.ltu": lambda a, b: a < b or unordered(a, b),
    "setp.leu": lambda a, b: a <= b or unordered(a, b),
    "setp.gtu": lambda a, b: a > b or unordered(a, b),
    "setp.geu": lambda a, b: a >= b or unordered(a, b),
    "setp.num": lambda a, b: not unordered(a, b),
    "setp.nan": unordered,
}


def result(instruction, kinds, raw):
    """Value that an instruction computes of operands of these types, given as 64 bits each."""
    parts = instruction.split(".")
    types = [part for part in parts if part == "pred" or part[1:].isdigit()]
    name = ".".join(part for part in parts if part not in types)
    values = [decoded(kind, bits) for kind, bits in zip(kinds, raw, strict=True)]
    if name == "cvt.rzi":
        return toward_zero(types[0], values[0])
    with np.errstate(all="ignore"):
        if types[0] == "f64" and name != "cvt.rn":
            return FLOATS[name](*values)
    if name == "bfe":
        return extracted(width_of(types[0]), *values, with_sign=types[0][0] == "s")
    return INTEGERS[name](width_of(types[0]), *values)
