"""Compression algorithms and weights of the experiment about suites of kernels, by hand."""

import numpy as np
import pytest
from compressors import ALGORITHMS, BEST, sizes_of
from kernel_suites import Subject, compression
from tables import each
from trace_strategies import alloc, read, release, trace_of, write

LANES = np.arange(64, dtype=np.uint32)
RANDOM = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
HALVES = np.where(LANES < 32, 0x11223344, 0x11223355)

SIZES = {
    "nothing": (np.zeros(64), {"zero": 0, "uniform": 4, "affine": 8, "narrow": 64, "rc": 5}),
    "a constant": (
        np.full(64, 0xDEADBEEF),
        {"zero": 256, "uniform": 4, "affine": 8, "byte planes": 4, "warped": 4, "narrow": 256},
    ),
    "-1": (np.full(64, 0xFFFFFFFF), {"narrow": 64, "zero": 256}),
    "255": (np.full(64, 255), {"narrow": 64}),
    "-129": (np.full(64, 2**32 - 129), {"narrow": 128}),
    "65535": (np.full(64, 65535), {"narrow": 128}),
    "-32769": (np.full(64, 2**32 - 32769), {"narrow": 256}),
    "255 and -1": (np.where(LANES < 5, 255, 2**32 - 1), {"narrow": 128}),
    "lanes": (
        LANES,
        {"rc": 5, "rc, in a block": 64, "affine": 8, "uniform": 256, "warped": 67, "narrow": 64}
        | {"byte planes": 67},
    ),
    "steps of 3": (3 * LANES, {"rc": 256, "rc, any delta": 256, "affine": 8, "warped": 130}),
    "steps of 128": (128 * LANES, {"rc": 256, "rc, any delta": 6, "affine": 8, "warped": 130}),
    "steps of -1": (1000 - LANES, {"rc": 256, "affine": 8, "warped": 67}),
    "steps that wrap": (LANES * np.uint32(0x12345679), {"affine": 8, "warped": 256}),
    "rows of 8": (
        1000 * (LANES // 8 % 2) + LANES % 8,
        {"rc": 256, "affine": 256, "warped": 130},
    ),
    "tiles": (64 * (LANES // 8) + LANES % 8, {"rc": 5, "affine": 256, "byte planes": 130}),
    "halves": (HALVES, {"byte planes": 67, "uniform": 256, "warped": 67}),
    "one lane": (np.where(LANES == 63, 1, 0), {"uniform": 256, "zero": 256, "affine": 256}),
    "anything": (RANDOM, {each.name: 256 for each in ALGORITHMS if not each.is_bound}),
}


@each("name", SIZES)
def test_sizes(name):
    contents, expected = SIZES[name]
    sizes = sizes_of(np.array(contents).astype(np.uint32)[None])
    assert {key: sizes[key][0] for key in expected} == expected
    built = [sizes[each.name][0] for each in ALGORITHMS if not each.is_bound]
    assert sizes[BEST][0] == min(built)


def test_bounds():
    """Two equally frequent symbols take a bit a lane; tables count where they are said to."""
    contents = np.stack([HALVES, LANES, np.full(64, 7), RANDOM]).astype(np.uint32)
    sizes = sizes_of(contents)
    free, with_bytes = sizes["entropy of bytes"], sizes["coded bytes"]
    assert free[:3] == pytest.approx([64 / 8, 64 * 6 / 8, 0], abs=1e-9)
    assert with_bytes[:3] == pytest.approx([8 + 5, 48 + 67, 4])
    assert sizes["coded words"] == pytest.approx([8 + 8, 256, 4, 256])
    assert 150 < free[3] < 4 * 48
    assert with_bytes[3] == 256, "no more than the register itself"


IRREGULAR = np.arange(64) ** 3 + 2**27 * np.arange(64) + 5
"""No pattern, and no byte in which all lanes agree."""


def small():
    """A constant for 10 cycles, the same under a partial mask for 20, anything for 30."""
    events = [
        alloc(0, 0, 2),
        write(10, 0, 0, 7),
        write(20, 0, 0, 7, lanes=1),
        write(10, 0, 1, IRREGULAR),
        read(39, 0, 0),
        release(40, 0),
    ]
    return trace_of(events, 50)


def test_shares_by_writes_and_by_time():
    subject = Subject("suite", "kernel", small())
    lines = {line["algorithm"]: line for line in compression(subject)}
    residence = subject.played.cycle[-1] - np.array([10, 20])
    times = [10, *(residence[::-1])]  # until the next write; until the release, which is the last
    warped = lines["warped"]
    assert warped["compressed_by_writes"] == pytest.approx(1 / 3)
    assert warped["compressed_by_time"] == pytest.approx(10 / sum(times))
    assert warped["bytes_by_writes"] == pytest.approx((4 + 256 + 256) / 3 + 2 / 8)
    assert warped["bytes_by_time"] == pytest.approx(256 - 252 * 10 / sum(times) + 2 / 8)
    assert lines["zero"]["stored_by_writes"] == pytest.approx((256 + 1 / 8) / 256)
    assert lines[BEST]["bytes_by_writes"] == pytest.approx((4 + 256 + 256) / 3 + 1)
