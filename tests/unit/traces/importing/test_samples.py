"""Do imports of what other tools print find what is in it?"""

import json

import numpy as np
import pytest
from import_samples import NAMES, expected, files_of, imported

from mcage.traces import READ, WRITE, load_trace

PLACE = {"hardware_warp", "sm"}
CONTENTS = {"writes", "registers_written", "partial_writes", "digest", "state_digest"}
NOT_IN_THE_FILE = {
    "gem5/reduction-vrf-only": {"work_group"},
    "cutracer/matrixtranspose-after": PLACE,
    "cutracer/matrixtranspose-before": PLACE,
    "cutracer/matrixtranspose-before-text": PLACE | {"registers"},
    "cutracer/reduction-after": PLACE,
    "nvbit/matrixtranspose-two-sms": CONTENTS,
    "nvbit/scanlargearrays-two-kernels": CONTENTS | {"launch"},
}
"""Facts that a sample's maker knew, but that other debug flags or tools print."""

DIVERGENT = {"cutracer/reduction-after": {0}}
"""Windows with writes of some lanes, in files without masks."""


@pytest.mark.parametrize("name", [name for name in NAMES if "windows" in expected(name)])
def test_every_window_has_its_expected_facts(name, tmp_path):
    values = expected(name).get("values", "before")
    facts = imported(files_of(name), tmp_path, values=values).facts()
    wanted = expected(name)["windows"]
    if "wavefront" in wanted[0]:  # the samples of Multi2Sim are ordered by wavefront
        facts["windows"].sort(key=lambda window: (window["launch"], window["wavefront"]))
    assert facts["lanes"] == expected(name)["lanes"]
    assert len(facts["windows"]) == len(wanted)
    for number, (window, known) in enumerate(zip(facts["windows"], wanted, strict=True)):
        keys = known.keys() - NOT_IN_THE_FILE.get(name, set())
        if number in DIVERGENT.get(name, ()):
            keys -= CONTENTS
        assert {key: window.get(key) for key in keys} == {key: known[key] for key in keys}
    json.dumps(facts)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("gem5/")])
def test_each_read_sees_the_last_write(name, tmp_path):
    result = imported(files_of(name), tmp_path)
    gaps = result.recording.gaps
    assert gaps.reads
    assert not gaps.other_contents
    for file, made in result.slices:
        trace = load_trace(tmp_path / file)
        assert trace.digest() == made.trace.digest()
        assert before_any_write(trace) == 0


def before_any_write(trace):
    """Reads of registers that nothing has written since their window was opened."""
    registers = trace.window_of_event() * 256 + trace.reg
    (writes,) = np.nonzero(trace.kind == WRITE)
    known, first = np.unique(registers[writes], return_index=True)
    first_write = dict(zip(known.tolist(), writes[first].tolist(), strict=True))
    (reads,) = np.nonzero(trace.kind == READ)
    return sum(first_write.get(registers[row], row + 1) > row for row in reads.tolist())
