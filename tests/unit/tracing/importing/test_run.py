"""What an import leaves in its folder: all traces or none, and what was there before."""

import errno
import gzip
import json
import os
import re
import sys

import numpy as np
import pytest
import zstandard
from import_samples import NAMES, expected, facts_of_windows, files_of, imported, text_of
from tables import each

from mcage.errors import UserError
from mcage.geometry import CDNA2, GCN, HOPPER, NVIDIA, RDNA3
from mcage.traces.model import validate_trace
from mcage.tracing.importing.recording import Origin, Place, Recording, WindowLog
from mcage.tracing.importing.run import build_traces, place_windows
from mcage.tracing.importing.sources import BLOCK_BYTES, LONGEST_LINE, Source

TWO_SLICES = """# lanes: 32
cycle,event,window,register,values,size,unit
0,alloc,a,,,1,0
0,alloc,b,,,1,1
1,write,a,0,{0},,
1,write,b,0,{0},,
"""


@pytest.fixture
def fails_at(monkeypatch):
    """Lets a call of the system fail for the n-th time that it is made."""

    def fail(name, call):
        real, calls = getattr(os, name), []

        def failing(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(os, name, failing)

    return fail


def import_of(value, tmp_path, folder):
    (tmp_path / "run.csv").write_text(TWO_SLICES.format(value))
    return imported([tmp_path / "run.csv"], folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "call", "slice_"),
    [("fsync", 1, 0), ("fsync", 2, 1), ("replace", 1, 1), ("replace", 2, 0)],
)
def test_traces_that_were_there_stay_when_a_write_fails(name, call, slice_, tmp_path, fails_at):
    folder = tmp_path / "traces"
    import_of(1, tmp_path, folder)
    before = contents(folder)
    assert set(before) == {"run.sm0.part0.h5", "run.sm1.part0.h5"}
    fails_at(name, call)
    with pytest.raises(UserError, match=rf"run\.sm{slice_}\.part0\.h5: No space left"):
        import_of(2, tmp_path, folder)
    assert contents(folder) == before


@pytest.mark.parametrize(("name", "call"), [("mkdir", 3), ("fsync", 2), ("replace", 2)])
def test_an_import_that_fails_leaves_no_new_folder(name, call, tmp_path, fails_at):
    fails_at(name, call)
    with pytest.raises(UserError, match="No space left"):
        import_of(1, tmp_path, tmp_path / "new" / "traces")
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]


def test_more_slices_than_files_that_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    rows = "".join(f"0,alloc,w{n},,,1,{n}\n1,write,w{n},0,1,,\n" for n in range(12))
    (tmp_path / "run.csv").write_text(TWO_SLICES[: TWO_SLICES.index("0,alloc")] + rows)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, hard))
    try:
        assert len(imported([tmp_path / "run.csv"], tmp_path / "traces").slices) == 12
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list((tmp_path / "traces").iterdir())) == 12


# Text of other tools: plain or compressed, cut, damaged, with any line breaks.

LINES = [b"line %d %s" % (number, b"x" * (number % 97)) for number in range(30_000)]
TEXT = b"\n".join(LINES) + b"\n"


def source(tmp_path, content, name="log.txt"):
    (tmp_path / name).write_bytes(content)
    return Source(tmp_path / name)


def in_two_parts(text):
    return zstandard.compress(text[:50_000]) + zstandard.compress(text[50_000:])


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.compress, in_two_parts])
def test_lines_come_with_their_numbers(tmp_path, packed):
    assert len(TEXT) > 1.5 * BLOCK_BYTES
    assert list(source(tmp_path, packed(TEXT)).lines()) == list(enumerate(LINES, 1))


def test_line_breaks_of_windows_and_marks_of_unicode_are_no_content(tmp_path):
    text = source(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour\r\n")
    assert list(text.lines()) == [(1, b"one"), (2, b"two"), (3, b""), (4, b"four")]


def test_a_last_line_without_a_line_break_was_cut_unless_users_wrote_it(tmp_path):
    cut = source(tmp_path, b"one\ntwo")
    assert list(cut.lines()) == [(1, b"one")]
    assert cut.cut_line == 2
    assert list(cut.lines(unfinished=True)) == [(1, b"one"), (2, b"two")]


def cut(packed):
    return packed[: -len(packed) // 20]


def damaged(packed):
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0x55]) + packed[middle + 1 :]


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress]
)
@pytest.mark.parametrize(
    ("change", "words"), [(cut, r"after line \d+: .* is not complete"), (damaged, ".*damaged")]
)
def test_a_compressed_file_that_is_cut_or_damaged_is_refused(tmp_path, pack, change, words):
    with pytest.raises(UserError, match=rf"log.txt: {words}"):
        list(source(tmp_path, change(pack(TEXT))).lines())


def test_without_zstandard_its_files_are_refused_and_all_others_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        UserError, match=r"log\.txt: Zstandard is not .*: pip install '\.\[import\]'"
    ):
        list(source(tmp_path, zstandard.compress(TEXT)).lines())
    assert list(source(tmp_path, gzip.compress(b"one\n")).lines()) == [(1, b"one")]


def test_a_line_without_end_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"log\.txt: line 2: has more than 4 MiB"):
        list(source(tmp_path, b"one\n" + b"x" * (LONGEST_LINE + BLOCK_BYTES)).lines())


@pytest.mark.slow
def test_a_small_file_that_holds_far_too_much_text_is_refused(tmp_path):
    text = b"read\n" * (16 << 20)
    packed = source(tmp_path, zstandard.compress(text))
    with pytest.raises(UserError, match=r"bytes hold more than \d+ MiB .* decompress it"):
        for _ in packed.blocks():
            pass
    plain = source(tmp_path, text)
    assert sum(len(block) for _, block in plain.blocks()) == len(text)


# Where windows lie that an import has read: as the file says, or first-fit.


def span(begin, end, size=16, *, place=None, entry=None, group=None, last=None):
    place = place or Place(0, 0)
    last = end if last is None else last
    return WindowLog(
        0, size, begin, Origin(work_group=group), place, entry, 64, None, {}, last, end
    )


def recording_of(lanes, geometry, registers):
    """A window of so many registers, in which the last two are written, on a slice."""
    recording = Recording()
    recording.has_lanes(lanes)
    recording.geometry = geometry
    window = recording.open_window(0, registers, Origin(), Place(0, 0))
    for register in (registers - 2, registers - 1):
        recording.write(window, 1, register, 1, np.array([5], np.uint32))
    recording.close_window(window, 2)
    recording.finish()
    return recording


@pytest.mark.parametrize(
    ("lanes", "geometry"), [(64, CDNA2), (32, RDNA3), (32, HOPPER), (64, None), (32, None)]
)
def test_an_importer_says_of_which_slice_it_reads(lanes, geometry):
    expected = geometry or (GCN if lanes == 64 else NVIDIA)
    registers = min(expected.entries, 512)
    (made,) = build_traces(recording_of(lanes, geometry, registers), "run", {})
    validate_trace(made.trace)
    assert made.trace.geometry == expected
    assert made.trace.reg.tolist() == [registers, registers - 2, registers - 1, 0]


def test_the_slice_of_an_importer_has_as_many_lanes_as_its_registers():
    with pytest.raises(ValueError, match="a slice of 32 lanes for 64"):
        list(build_traces(recording_of(64, RDNA3, 4), "run", {}))


def test_windows_stay_where_the_file_says():
    spans = [span(0, 9, entry=32), span(2, 5, entry=0), span(7, 9, entry=16)]
    (placed,) = place_windows(spans, GCN, "log")
    assert placed.as_recorded
    assert placed.slots == [2, 0, 1]


def test_a_release_in_the_cycle_of_the_next_allocation_comes_a_cycle_earlier():
    (placed,) = place_windows([span(0, 5, entry=0, last=4), span(5, 9, entry=0)], GCN, "log")
    assert placed.as_recorded
    assert [each.end for each in placed.windows] == [4, 9]


@pytest.mark.parametrize(
    "spans",
    [
        [span(0, 5, entry=0), span(5, 9, entry=0)],  # the last access in the same cycle
        [span(0, 5, entry=8)],  # no whole slot
        [span(0, 5, entry=512)],  # beyond the slice
        [span(0, 5, entry=0), span(1, 5)],  # unknown
    ],
)
def test_windows_that_cannot_stay_are_placed_first_fit(spans):
    (placed,) = place_windows(spans, GCN, "log")
    assert not placed.as_recorded
    assert placed.slots == list(range(len(spans)))


def test_the_lowest_slot_is_free_in_the_cycle_after_the_release():
    (placed,) = place_windows([span(0, 5), span(5, 9), span(6, 9)], GCN, "log")
    assert placed.slots == [0, 1, 0]


def test_a_file_of_registers_that_is_too_small_is_refused_with_its_numbers():
    spans = [span(0, 9, size=128, entry=k * 128) for k in range(3)]
    with pytest.raises(
        UserError,
        match=r"log cu0\.simd0: a window of 128 registers opens in cycle 0, when 256 of the 256",
    ):
        place_windows(spans, GCN, "log")


def test_work_groups_stay_together_and_fill_one_unit_after_the_other():
    groups = [
        [span(time, time + 10, 64, place=Place(None, part), group=time) for part in range(2)]
        for time in range(6)
    ]
    placed = place_windows([each for group in groups for each in group], GCN, "log")
    expected = [Place(unit, part) for unit in (0, 1) for part in (0, 1)]
    assert [each.place for each in placed] == expected
    assert [len(each.windows) for each in placed] == [4, 4, 2, 2]


def test_a_work_group_larger_than_a_unit_is_refused():
    spans = [span(0, 9, 128, place=Place(None, 0), group=7) for _ in range(3)]
    with pytest.raises(UserError, match="384 registers, more than have room"):
        place_windows(spans, GCN, "log")


# Do imports of what other tools print find what is in it?

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
    result = imported(files_of(name), tmp_path, values=values)
    windows, wanted = facts_of_windows(result), expected(name)["windows"]
    if "wavefront" in wanted[0]:  # the samples of Multi2Sim are ordered by wavefront
        windows.sort(key=lambda window: (window["launch"], window["wavefront"]))
    assert result.facts()["lanes"] == expected(name)["lanes"]
    assert len(windows) == len(wanted)
    for number, (window, known) in enumerate(zip(windows, wanted, strict=True)):
        unit, part = map(int, re.findall(r"\d+", window["slice"]))
        window |= {"sm": unit, "cu": unit, "simd": part}
        keys = known.keys() - NOT_IN_THE_FILE.get(name, set())
        if number in DIVERGENT.get(name, ()):
            keys -= CONTENTS
        assert {key: window.get(key) for key in keys} == {key: known[key] for key in keys}
    json.dumps(result.facts())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in NAMES if "accelsim" not in name and "-after" not in name]
)
def test_a_part_says_what_the_whole_says(name, tmp_path):
    """Also how it is approximate, where reading ends with the window that was asked for."""
    whole = imported(files_of(name), tmp_path / "whole").recording
    part = imported(files_of(name), tmp_path / "part", windows=1).recording
    assert part.in_file.keys() == whole.in_file.keys()
    assert part.approximate.keys() == whole.approximate.keys()
    assert part.inferred.keys() - {"end"} == whole.inferred.keys()


# The same samples, damaged in a line.


def facts_of_changed(name, change, folder):
    """Facts of an import of a sample whose text a function has changed; the file of it."""
    path = folder / files_of(name)[0].stem
    text = text_of(name)
    path.write_bytes(change(text))
    assert path.read_bytes() != text
    values = expected(name).get("values", "before")
    return imported([path], folder / "out", values=values).facts(), path


GEM5, NVBIT = "gem5/reduction-vrf-only", "nvbit/matrixtranspose-two-sms"
MGPUSIM, CUTRACER = "mgpusim/isa_GPU[1].CU1", "cutracer/matrixtranspose-after"


@each(
    ("name", "number", "old", "new", "why"),
    [
        (GEM5, 9, b"v[1][5] = 0x100", b"v[1][5] = 0x1zz", "accesses whose lanes are of another"),
        (NVBIT, 14, b"Reg0_T7: 0x", b"Reg0_T7: hello 0x", "rows that other output has damaged"),
        (MGPUSIM, 51, b'"wg":[0,0,0]', b'"wg":[0,0]', "records without work-group"),
        (MGPUSIM, 51, b'"VGPRs":[[', b'"VGPRs":[[9,', "registers that cannot be read"),
        (MGPUSIM, 51, b"],[", b"],[1],[", "records with another number of registers"),
        (MGPUSIM, 51, b'"EXECLo":', b'"EXECLo":-', "records without work-group, wavefront, EXEC"),
        (MGPUSIM, 51, b"{", b"", "lines that are no JSON object"),
        (CUTRACER, 2, b'"regs_indices":[0]', b'"regs_indices":[0,]', "lines that are no JSON"),
        (CUTRACER, 2, b'"regs_indices":[0]', b'"regs_indices":[0,1]', "records whose rows do not"),
        (CUTRACER, 2, b'"regs_indices":[0]', b'"regs_indices":["0"]', "records whose rows do not"),
        (CUTRACER, 2, b'"regs":[[0,', b'"regs":[[4294967296,', "records whose rows do not fit"),
        (CUTRACER, 2, b'"opcode_id":0', b'"opcode_id":999', "records whose instruction is not"),
        (CUTRACER, 2, b'"cta":[0,0,0]', b'"cta":[0,0]', "records without CTA or warp"),
        (CUTRACER, 2, b'"warp":0', b'"warp":-1', "records without CTA or warp"),
    ],
)
def test_damaged_records_are_left_out_and_counted_with_their_line(
    tmp_path, name, number, old, new, why
):
    def change(text):
        lines = text.splitlines(keepends=True)
        rest = b"".join(lines[number - 1 :])
        return b"".join(lines[: number - 1]) + rest.replace(old, new, 1)

    facts, path = facts_of_changed(name, change, tmp_path)
    (counted,) = [entry for reason, entry in facts["skipped"].items() if reason.startswith(why)]
    assert counted == {"records": 1, "first": f"{path.name}: line {number}"}


@each(
    ("old", "new", "why"),
    [
        (b"\nP", b"\nP0", "no packet"),
        (b'{"type":"launch","launch":0', b'{"type":"launch","launch":9', "which has no line"),
        (b'"number":2,', b'"number":77,', "has no line"),
        (b'"writes":[0]', b'"writes":[9]', "does not write register 0"),
        (b'"writes":[0]', b'"writes":["0"]', "must be a number"),
        (b'"grid":[2,2,1]', b'"grid":[2,2]', "three sizes"),
        (b'{"type":"launch"', b'["type":"launch"', "neither a packet nor"),
        (b"mcage recording 1", b"mcage recording 12", "must be 'mcage recording 1'"),
    ],
)
def test_damaged_recordings_are_refused_with_their_line(tmp_path, old, new, why):
    with pytest.raises(UserError, match=rf"simulated.mcr: line \d+: .*{re.escape(why)}"):
        facts_of_changed("recorder/simulated", lambda text: text.replace(old, new, 1), tmp_path)


@each(
    ("pattern", "new", "words"),
    [
        (rb"(?s)(.{9000}).*", rb"\1", "the end: the recording is not complete"),
        (rb'("writes":\[5\],"guard_overwritten":)0', rb"\g<1>1", "writes of instructions that ov"),
        (rb'("writes":\[2,3\],.*nvbit":)2', rb"\g<1>4", "IMAD 4 instead of 2 (6 times)"),
        (
            rb'STG.E (.*"writes_known":)1',
            rb"HGMMA.64x8x16.F32 R2, \g<1>0",
            "writes of HGMMA",
        ),
    ],
)
def test_what_a_recording_says_of_itself(tmp_path, pattern, new, words):
    facts, path = facts_of_changed(
        "recorder/simulated", lambda text: re.sub(pattern, new, text), tmp_path
    )
    assert words in json.dumps(facts)
    assert words not in json.dumps(imported(files_of("recorder/simulated"), path.parent).facts())
