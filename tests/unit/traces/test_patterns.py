"""Patterns of register contents: by hand, at their borders, and against plain integers."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each
from trace_strategies import pattern, random_value

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.traces.patterns import (
    CONSTANT,
    DOUBLE_DELTA,
    OTHER,
    SINGLE_DELTA,
    classify,
    compressible,
    first_block_fits,
    wc_bytes,
)

M = 2**32


def changed(value, component, new):
    value = value.copy()
    value[component] = new
    return value


BY_HAND = [
    # content, code, delta_e, delta_b
    (pattern(0), CONSTANT, 0, 0),
    (pattern(M - 1), CONSTANT, 0, 0),
    (pattern(7, 1, 8), SINGLE_DELTA, 1, 8),
    (pattern(0, 64, 512), SINGLE_DELTA, 64, 512),
    (pattern(100, 4, 4096), DOUBLE_DELTA, 4, 4096),
    (pattern(100, 4, 0), DOUBLE_DELTA, 4, 0),  # rows of a matrix read again and again
    (pattern(100, 0, 4), DOUBLE_DELTA, 0, 4),
    (pattern(2, 2, 8), DOUBLE_DELTA, 2, 8),  # the example of section 4 of the paper
    (pattern(M - 3, 1, 8), SINGLE_DELTA, 1, 8),  # wraps around inside the first group
    (pattern(5, 2**31, 0), SINGLE_DELTA, 2**31, 0),  # 8 * 2**31 wraps to 0
    (pattern(5, 2**28, 2**31), SINGLE_DELTA, 2**28, 2**31),
    (pattern(5, 2**28, 0), DOUBLE_DELTA, 2**28, 0),
    (pattern(5, 3, 24), OTHER, 0, 0),  # regular, but no powers of two
    (pattern(5, 1, 12), OTHER, 0, 0),
    (pattern(5, M - 1, M - 8), OTHER, 0, 0),  # counts down
    (pattern(5, 1, M - 8), OTHER, 0, 0),
    (changed(pattern(9), 63, 8), OTHER, 0, 0),
    (changed(pattern(9), 0, 8), OTHER, 0, 0),
    (changed(pattern(0, 1, 8), 8, 9), OTHER, 0, 0),
    (np.arange(64, dtype=np.uint32) ** 2, OTHER, 0, 0),
]


@each(("content", "code", "delta_e", "delta_b"), BY_HAND)
def test_pattern_by_hand(content, code, delta_e, delta_b):
    patterns = classify(content[None])
    assert (patterns.code[0], patterns.delta_e[0], patterns.delta_b[0]) == (code, delta_e, delta_b)


@each(
    ("content", "with_64", "with_none"),
    [
        (pattern(3), True, True),
        (pattern(3, 8, 64), True, True),
        (pattern(3, 16, 128), False, True),  # delta_b beyond
        (pattern(3, 64, 64), True, True),
        (pattern(3, 128, 0), False, True),  # delta_e beyond
        (pattern(3, 4, 2**31), False, True),
        (pattern(3, 3, 24), False, False),
    ],
)
def test_delta_limit(content, with_64, with_none):
    patterns = classify(content[None])
    assert compressible(patterns, 64).tolist() == [with_64]
    assert compressible(patterns, None).tolist() == [with_none]


@each("limit", [0, -64, 3, 63, 65, 2**32])
def test_delta_limit_must_be_a_power_of_two(limit):
    with pytest.raises(UserError, match=f"delta limit {limit} is not a power of two"):
        compressible(classify(pattern(0)[None]), limit)
    with pytest.raises(UserError, match="power of two"):
        first_block_fits(pattern(0)[None], GCN, limit)


@each(
    ("content", "fits"),
    [
        (pattern(1, 4, 32), True),
        (changed(pattern(1, 4, 32), 16, 0), True),  # broken behind the first block
        (changed(pattern(1, 4, 32), 15, 0), False),
        (changed(pattern(1, 4, 32), 8, 0), False),
        (pattern(1, 4, 128), False),  # beyond the limit
        (pattern(1, 3, 24), False),
    ],
)
def test_first_block_decides_from_sixteen_components(content, fits):
    assert first_block_fits(content[None], GCN, 64).tolist() == [fits]


def offsets(*deltas):
    """A content whose components differ from the base by 0 or by one of the deltas."""
    value = np.zeros(64, np.int64)
    value[10 : 10 + len(deltas)] = deltas
    return value


@each("base", [0, 5, M - 1, M - 100, 2**31, 2**31 - 1])
@each(
    ("content", "size"),
    [
        (offsets(), 4),
        (offsets(1), 67),
        (offsets(127, -128), 67),
        (offsets(128), 130),
        (offsets(-129), 130),
        (offsets(2**15 - 1, -(2**15)), 130),
        (offsets(2**15), 256),
        (offsets(-(2**15) - 1), 256),
        (offsets(-(2**31)), 256),
    ],
)
def test_warped_compression_sizes(content, size, base):
    content = ((content + base) % M).astype(np.uint32)
    assert wc_bytes(content[None]).tolist() == [size]


def plain_pattern(content):
    """The same rule said again over Python integers, and whether the first block fits."""
    content = [int(component) for component in content]
    powers = {0, *(2**i for i in range(32))}

    def deltas(components):
        count = len(components)
        inside = {(components[i + 1] - components[i]) % M for i in range(count - 1) if i % 8 != 7}
        between = {(components[i + 8] - components[i]) % M for i in range(0, count - 8, 8)}
        if len(inside) > 1 or len(between) > 1 or not inside | between <= powers:
            return None
        return inside.pop(), between.pop()

    whole = deltas(content)
    if whole is None:
        code = OTHER
    elif whole == (0, 0):
        code = CONSTANT
    else:
        code = SINGLE_DELTA if whole[1] == whole[0] * 8 % M else DOUBLE_DELTA
    return code, whole or (0, 0), deltas(content[:16]) is not None


@given(st.integers(0, 2**63), st.integers(1, 30))
def test_patterns_equal_plain_arithmetic(seed, rows):
    rng = random.Random(seed)
    values = np.array([random_value(rng) for _ in range(rows)])
    patterns = classify(values)
    found = zip(
        patterns.code.tolist(),
        zip(patterns.delta_e.tolist(), patterns.delta_b.tolist(), strict=True),
        first_block_fits(values, GCN, None).tolist(),
        strict=True,
    )
    assert list(found) == [plain_pattern(content) for content in values]


def test_many_rows_are_told_apart_across_chunks():
    contents = np.array([content for content, *_ in BY_HAND])
    repeats = 20000 // len(contents) + 1
    patterns = classify(np.tile(contents, (repeats, 1)))
    assert np.array_equal(patterns.code, np.tile([code for _, code, *_ in BY_HAND], repeats))
    once, often = wc_bytes(contents), wc_bytes(np.tile(contents, (repeats, 1)))
    assert np.array_equal(often, np.tile(once, repeats))


def test_no_rows():
    none = np.zeros((0, 64), np.uint32)
    assert (
        len(classify(none).code) == len(wc_bytes(none)) == len(first_block_fits(none, GCN, 64)) == 0
    )
