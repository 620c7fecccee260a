"""The importer of MGPUSim's ``-debug-isa``."""

import json

import pytest
from import_samples import files_of, imported
from tables import each

from mcage.errors import UserError
from mcage.traces.importing.formats.mgpusim import instruction_of
from mcage.traces.importing.sources import Source

NAME = "isa_GPU[1].CU1.debug"


def lines_of(name="mgpusim/isa_GPU[1].CU1"):
    (path,) = files_of(name)
    return [line for _, line in Source(path).lines(unfinished=True)]


def facts(tmp_path, lines, name=NAME, end=b"\n"):
    """Facts of the windows of a file."""
    (tmp_path / name).write_bytes(end.join([*lines, b""]))
    return imported([tmp_path / name], tmp_path / "out").facts()


def test_a_file_whose_end_is_missing(tmp_path):
    """The run was ended; windows are open then."""
    lines = lines_of()
    whole = facts(tmp_path, lines)
    assert facts(tmp_path, lines[:-2])["windows"] == whole["windows"]
    part = facts(tmp_path, lines[:100])
    assert 0 < part["windows"][0]["writes"] < whole["windows"][0]["writes"]


def test_crlf_and_other_forms(tmp_path):
    lines = lines_of()
    whole = facts(tmp_path, lines)["windows"]
    assert facts(tmp_path, lines, end=b"\r\n")["windows"] == whole
    spaced = [
        b", " + json.dumps(json.loads(line.lstrip(b","))).encode() if b"{" in line else line
        for line in lines
    ]
    assert facts(tmp_path, spaced)["windows"] == whole


@each(
    ("text", "written", "read"),
    [
        ("v_add_u32_e32 v2, vcc, v1, v2", (2,), (1, 2)),
        ("v_fma_f64 v[2:3], v[4:5], -v[6:7], |v8|", (2, 3), (4, 5, 6, 7, 8)),
        ("v_cmp_gt_i32_e32 vcc, s0, v1", (), (1,)),
        ("v_readfirstlane_b32 s0, v3", (), (3,)),
        ("v_swap_b32 v1, v2", (1, 2), (2,)),
        ("flat_load_dwordx4 v[4:7], v[0:1]", (4, 5, 6, 7), (0, 1)),
        ("flat_store_dword v[0:1], v2", (), (0, 1, 2)),
        ("flat_atomic_add v[0:1], v2", (), (0, 1, 2)),
        ("flat_atomic_add v3, v[0:1], v2 glc", (3,), (0, 1, 2)),
        ("ds_read_b64 v[2:3], v1", (2, 3), (1,)),
        ("ds_write_b32 v1, v2", (), (1, 2)),
        ("s_load_dwordx2 s[0:1], s[4:5], 0x0", (), ()),
        ("s_endpgm", (), ()),
        ("v_mov_b32_e32 v[9:2], v999999", (), ()),
        ("", (), ()),
    ],
)
def test_registers_of_instructions(text, written, read):
    instruction = instruction_of(text)
    assert (instruction.written, instruction.read) == (written, read)
    assert instruction.ends == (text == "s_endpgm")


@pytest.mark.parametrize("content", [b"[\n\n]\n", b"[\n"])
def test_a_file_without_records_is_refused(content, tmp_path):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(UserError, match=r"only the work-group \(75, 1\), .*isadebugger\.go"):
        imported([tmp_path / NAME], tmp_path / "out")


def test_a_wavefront_that_comes_again_belongs_to_the_next_launch(tmp_path):
    lines = lines_of()
    again = [line if line.startswith(b",") or b"{" not in line else b"," + line for line in lines]
    windows = facts(tmp_path, [*lines[:-2], *again[1:]])["windows"]
    assert [window["launch"] for window in windows] == [0, 0, 1, 1]
    assert windows[0]["digest"] == windows[2]["digest"]


def test_changes_that_no_instruction_explains_are_writes(tmp_path):
    lines = lines_of()
    place = next(n for n, line in enumerate(lines) if b'"v_mov_b32' in line)
    lines[place] = lines[place].replace(b"v_mov_b32_e32 v", b"s_nop v")
    result = facts(tmp_path, lines)
    assert "1 of them from contents that had changed" in result["inferred"]["writes"]


def test_accesses_to_v255_are_counted_as_a_window_has_255_registers(tmp_path):
    """A code object may have 256 registers; each is shown with every instruction."""
    record = json.loads(lines_of()[1].lstrip(b","))
    record |= {"VGPRs": [[0] * 64 for _ in range(256)], "Inst": "v_mov_b32_e32 v254, v1"}
    written, changed = json.loads(json.dumps(record)), json.loads(json.dumps(record))
    written |= {"Inst": "v_mov_b32_e32 v255, v255"}
    written["VGPRs"][255] = [7] * 64
    changed["VGPRs"][255] = [8] * 64
    records = [record, written, changed, changed]
    result = facts(tmp_path, [b"[", *(b"," + json.dumps(each).encode() for each in records)])
    assert [(window["writes"], window["registers"]) for window in result["windows"]] == [(3, 255)]
    (reason,) = result["skipped"]
    assert reason.endswith("of registers that it does not have; a window has 255 at most")
    assert result["skipped"][reason]["records"] == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"wg":[0,0,0]', b'"wg":[0,0]', "records without work-group"),
        (b'"VGPRs":[[', b'"VGPRs":[[9,', "registers that cannot be read"),
        (b"],[", b"],[1],[", "records with another number of registers"),
        (b'"EXECLo":', b'"EXECLo":-', "records without work-group, wavefront, EXEC"),
        (b"{", b"", "lines that are no JSON object"),
    ],
)
def test_damaged_records_are_left_out_and_counted(old, new, reason, tmp_path):
    lines = lines_of()
    assert old in lines[50]
    lines[50] = lines[50].replace(old, new, 1)
    skipped = facts(tmp_path, lines)["skipped"]
    (counted,) = [entry for why, entry in skipped.items() if why.startswith(reason)]
    assert counted["first"] == f"{NAME}: line 51"
