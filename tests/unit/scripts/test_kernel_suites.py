"""Weights and groups of the experiment about suites of kernels, on traces made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from compressors import BEST
from kernel_suites import OF_2011, Subject, compression, fault_maps, latencies_table
from trace_strategies import alloc, read, release, trace_of, write

from mcage.geometry import GCN

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


def test_names_and_suites():
    trace = small()
    assert Subject.of(replace(trace, name="DCT")).suite == OF_2011
    source = {"emulated": "gfx90a (cdna2), from documents", "file": "gemm.cl, blake2b 1f"}
    source |= {"inputs": {"a": "f32", "what they are": "normal numbers"}}
    subject = Subject.of(replace(trace, source=source))
    assert (subject.suite, subject.kernel) == ("modern on cdna2", "gemm")
    assert subject.inputs == "normal numbers"


def test_the_first_map_has_no_faults():
    maps = fault_maps(GCN, 2)
    assert maps.shape == (3, 256)
    assert maps.any(axis=1).tolist() == [False, True, True]


def test_latencies_are_compared_kernel_by_kernel():
    numbers = ("rc_zero", "rc_one", "rc+rar_zero", "rc+rar_one", "argo_zero", "argo_one")
    numbers += ("rc_by_time", "warped_stored_by_time", "rrcd_lds", "utilisation", "slowdown")
    numbers += ("rrcd_slowdown",)

    def row(factor, kernel, value):
        return {"factor": factor, "suite": "s", "kernel": kernel} | dict.fromkeys(numbers, value)

    rows = [row("1", "a", 0.5), row("1", "b", 0.4), row("2", "a", 0.3), row("2", "b", 0.5)]
    rows.append(row("1", "only once", 0.9))
    assert "| s | entries in use | 45.0 | 40.0 (a -20.0) |" in latencies_table(rows)
