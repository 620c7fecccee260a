"""Is a trace of narrower warps, padded to 64 lanes, accepted with a word, and no other?"""

import dataclasses
import sys
import warnings
from contextlib import suppress

import numpy as np
import pytest

from mcage.cli.main import main
from mcage.engines.parity import excerpt
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS, open_trace, save_trace
from mcage.traces.library import PaddedTraceWarning, uses_lower_half_only
from mcage.traces.model import WRITE

LOWER = np.uint64(0xFFFF_FFFF)
EVERY = ~np.uint64(0)


def padded(trace, masks="lower"):
    """The same kernels as warps of 32 lanes; masks tell so, or are full."""
    writes = trace.kind == WRITE
    lower = np.where((trace.exec_mask & LOWER) == 0, LOWER, trace.exec_mask & LOWER)
    mask = lower if masks == "lower" else EVERY
    contents = trace.values.copy()
    contents[:, 32:] = 0
    values, row = np.unique(contents, axis=0, return_inverse=True)
    value = np.where(writes, row.reshape(-1)[trace.value], -1).astype(np.int32)
    return dataclasses.replace(
        trace,
        name="padded",
        exec_mask=np.where(writes, mask, 0).astype(np.uint64),
        value=value,
        values=values,
    )


@pytest.fixture(scope="module", params=["lower", "full"])
def file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("padded") / "padded.h5"
    save_trace(padded(excerpt(), request.param), path)
    return path


def test_no_bundled_kernel_looks_padded():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddedTraceWarning)
        assert not any(uses_lower_half_only(open_trace(name)) for name in KERNELS)


def test_a_padded_trace_is_opened_with_a_warning(file):
    with pytest.warns(PaddedTraceWarning, match="'padded' writes the lower 32 of 64 lanes only"):
        trace = open_trace(file)
    share = prepare(trace, TECHNIQUES["rc"]).schedule.compressed.mean()
    assert share < 0.5 * prepare(excerpt(), TECHNIQUES["rc"]).schedule.compressed.mean()


def test_one_write_to_an_upper_lane_is_enough():
    trace = padded(excerpt())
    first = np.flatnonzero(trace.kind == WRITE)[0]
    trace.exec_mask[first] |= np.uint64(1 << 63)
    assert uses_lower_half_only(trace)  # still without a value there
    trace.values[trace.value[first], 63] = 1
    assert not uses_lower_half_only(trace)


def test_a_trace_of_zeros_is_no_padded_one():
    trace = excerpt()
    assert not uses_lower_half_only(
        dataclasses.replace(trace, values=np.zeros_like(trace.values), exec_mask=trace.exec_mask)
    )


@pytest.mark.parametrize(
    "command",
    [
        "trace show FILE",
        "trace validate FILE",
        "replay FILE --technique rc --engine numpy",
        "sweep --kernel FILE --technique baseline --environment nominal --instances 2 "
        "--engine numpy --out OUT",
        "rare --kernel FILE --technique baseline --instances 2 --engine numpy",
        "sensitivity --kernel FILE --technique baseline --instances 2 --engine numpy "
        "--parameter guardband",
    ],
)
def test_commands_warn_in_one_line(command, tmp_path, monkeypatch, capsys):
    file = tmp_path / "padded.h5"
    save_trace(padded(excerpt()), file)
    words = [{"FILE": str(file), "OUT": str(tmp_path / "r.h5")}.get(w, w) for w in command.split()]
    monkeypatch.setattr(sys, "argv", ["mcage", *words])
    with warnings.catch_warnings(), suppress(SystemExit):
        warnings.simplefilter("default")
        main()
    errors = capsys.readouterr().err.splitlines()
    warned = [line for line in errors if line.startswith("warning: trace 'padded' writes")]
    assert len(warned) == 1, errors
    assert warned[0].endswith("a trace file may have 32 lanes itself, with values of 32 columns")
    assert sum("lanes only" in line for line in errors) == 1
