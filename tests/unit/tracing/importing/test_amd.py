"""Multi2Sim's ISA text: its spellings of registers and values, and what it leaves out."""

import json
import re
from contextlib import suppress

import pytest
from import_samples import facts_of_windows, imported, text_of
from multi2sim_text import timing_of
from tables import each

from mcage.errors import UserError
from mcage.traces import READ, WRITE
from mcage.tracing.importing.mgpusim import instruction_of

SUMMARY = "================ Initialization Summary ================\n"


def isa_text(*blocks):
    """Blocks of an instruction and its effects."""
    lines = (
        f" {code:40s} // {8 * n:08X}: 7E040200\n{effects}\n\n"
        for n, (code, effects) in enumerate(blocks)
    )
    return SUMMARY + "".join(lines)


def import_text(folder, text, timing=None):
    files = [folder / "run.txt", folder / "run.m2s"]
    files[0].write_text(text)
    files[1].write_text(timing_of(text) if timing is None else timing)
    return imported(files, folder)


def writes_of(folder, *blocks):
    """Register, lanes and values of each write."""
    ((_, made),) = import_text(folder, isa_text(*blocks)).slices
    trace = made.trace
    return [
        (int(trace.reg[row]), int(trace.exec_mask[row]), trace.values[trace.value[row]].tolist())
        for row in range(len(trace.kind))
        if trace.kind[row] == WRITE
    ]


@pytest.mark.parametrize(
    ("code", "effects", "wanted"),
    [
        ("v_mov_b32 v3, s1", "t0: V3<=(0x10) ", {3: 0x10}),
        ("v_mul_i32_i24 v3, s1, v2", "t0: V[3]<=(-3, 4294967293) ", {3: 2**32 - 3}),
        ("v_movreld_b32 v3, s1", "t0: V[3+2]<=(7) ", {5: 7}),
        ("v_xor_b32 v4, v5, v6", "t0: V4<=(5)(1 ^ 4) ", {4: 5}),
        ("v_add_i32 v3, vcc, v0, v3", "t0: V3<=(4294967295) (1 + 2) vcc<=(0) ", {3: 2**32 - 1}),
        ("v_mul_f32 v2, v3, v2", "t0: V2<=(1.5f) (1f*1.5f)", {2: 0x3FC00000}),
        ("v_madmk_f32 v2, v3, v2, 1", "t0: V2<=(0.500000) ", {2: 0x3F000000}),
        ("v_rcp_f32 v2, v3", "t0: V2<=(inff) ", {2: 0x7F800000}),
        ("v_rcp_f32 v2, v3", "t0: V2<=(-inff) ", {2: 0xFF800000}),
        ("v_rcp_f32 v2, v3", "t0: V2<=(nanf) ", {2: 0x7FC00000}),
        ("v_bfe_u32 v3, v1, 2, 3", "t0: (9, 2, 3) V3<=(2) ", {3: 2}),
        ("buffer_load_dword v2, v3, s[4:7], 0 offen", "t0: V2<=(64)(1130869780) ", {2: 1130869780}),
        (
            "tbuffer_load_format_x v2, v2, s[4:7]",
            "t0: V2<=(56)(1089299884,7.41866f) offen 0,0",
            {2: 1089299884},
        ),
        ("ds_read_b32 v2, v3", "t0: V2<=(0x0)(0x42bbb871) ", {2: 0x42BBB871}),
        ("ds_read2_b32 v[2:3], v1", "t0: V2<=(0)(17) V3<=(4)(18) ", {2: 17, 3: 18}),
        ("v_cvt_i64 v[3:4], v1", "t0: V[3:+1]<=(4294967298) ", {3: 2, 4: 1}),
    ],
)
def test_every_spelling_of_registers_and_values(tmp_path, code, effects, wanted):
    assert {
        register: values[0] for register, _, values in writes_of(tmp_path, (code, effects))
    } == wanted


def test_a_value_of_64_bits_that_is_none_is_no_zero(tmp_path):
    blocks = [("v_mov_b32 v3, s1", "t0: V3<=(7) "), ("v_cvt_i64 v[3:4], v1", "t0: V[3:+1]<=(1x) ")]
    result = import_text(tmp_path, isa_text(*blocks))
    ((_, made),) = result.slices
    assert sum(made.trace.kind == WRITE) == 1
    assert result.recording.skipped == {"effects that are damaged": [1, "run.txt", 6]}


def test_lanes_are_work_items_of_the_wavefront(tmp_path):
    effects = "t65: V1<=(5) t127: V1<=(6) "
    ((register, lanes, values),) = writes_of(tmp_path, ("v_mov_b32 v1, v2", effects))
    assert (register, lanes, values[1], values[63]) == (1, 1 << 1 | 1 << 63, 5, 6)


def test_what_looks_like_a_write_and_is_none_is_none(tmp_path):
    blocks = [
        ("v_mov_b32 v1, 1", "t0: V1<=(1) "),
        ("v_readfirstlane_b32 s0, v1", "t0: S0<=(1) "),
        ("buffer_store_byte v1, v2, s[4:7], 0 offen", "t0: V1<=(1024)(5) "),
        ("buffer_atomic_add v1, v2, s[4:7], 0 offen", "t0: V1<=(1024)(5) "),
        ("v_cmp_gt_i32 vcc, 0, v1", "t0: vcc<=(0) "),
        ("s_barrier", "Group 0 wavefront 0 reached barrier (1 reached, 0 left)"),
        ("v_mov_b32 v1, 1", ""),  # with no active lane
    ]
    assert [write[0] for write in writes_of(tmp_path, *blocks)] == [1]


def test_writes_that_the_text_does_not_show_are_counted(tmp_path):
    text = isa_text(
        ("v_mov_b32 v1, 1", "t0: V1<=(1) "),
        ("v_rcp_f64 v[2:3], v[4:5]", "t0: S[2]<=(1f) "),
        ("v_lshl_b64 v[2:3], v[4:5], v[6:7]", ""),
    )
    result = import_text(tmp_path, text)
    assert result.recording.skipped == {
        "register writes whose text does not name the register": [1, "run.txt", 6],
        "instructions that print no effects": [1, "run.txt", 9],
    }


PRINT_LANES = [
    ("v_cmp_gt_i32 vcc, 70, v0", "t3: vcc<=(1) t5: vcc<=(0) ", {}, [0]),
    ("v_cmp_gt_i32 s[2:3], abs(v0), -abs(v6)", "t3: S[2:+1]<=(1) t5: S[2:+1]<=(0) ", {}, [0, 6]),
    ("v_cmpx_eq_i32 s[2:3], s4, v6", "t3: S[2:3],EXEC<=(1) t5: S[2:3],EXEC<=(0) ", {}, [6]),
    ("v_max3_i32    FIXME", "t3: V[4]<=(-1) t5: V[4]<=(9) ", {4: (2**32 - 1, 9)}, []),
    ("v_med3_i32 v5, v0, v1, 9", "t3: V[5]<=(8) t5: V[5]<=(9) ", {5: (8, 9)}, [0, 1]),
    (
        "v_lshr_b64 v[8:9], v[0:1], 3",
        "t3: S[8]<=(0x5) S[9]<=(0x0) t5: S[8]<=(0x6) S[9]<=(0x1) ",
        {8: (5, 6), 9: (0, 1)},
        [0, 1],
    ),
    (
        "v_ashr_i64    FIXME",
        "t3: S[8]<=(0x5) S[9]<=(0x0) t5: S[8]<=(0x6) S[9]<=(0x1) ",
        {8: (5, 6), 9: (0, 1)},
        [],
    ),
    (
        "v_add_f64 v[8:9], v[0:1], v[0:1]",
        "t3: S[8:+1]<=(1f) t5: S[8:+1]<=(-inff) ",
        {8: (0, 0), 9: (0x3FF00000, 0xFFF00000)},
        [0, 1, 0, 1],
    ),
]
"""Instructions that print lanes; what they write to lanes 3 and 5, and read."""


@pytest.mark.parametrize(("code", "effects", "written", "read"), PRINT_LANES)
def test_lanes_that_are_printed_belong_to_the_wavefront_that_was_fetched(
    tmp_path, code, effects, written, read
):
    text = isa_text(("v_mov_b32 v0, 1", f"t{64 * 40}: V0<=(1) "), (code, effects))
    asm = code.split()[0].upper()
    result = import_text(tmp_path, text, timing_of(text).replace(asm, f"{asm}_VOP3a"))
    (window,) = result.facts()["windows"]
    assert (window["wavefront"], window["writes"]) == (40, 1 + len(written))
    ((_, made),) = result.slices
    trace = made.trace
    rows = [row for row in range(len(trace.kind)) if trace.kind[row] == WRITE][1:]
    assert {int(trace.exec_mask[row]) for row in rows} <= {1 << 3 | 1 << 5}
    contents = {int(trace.reg[row]): trace.values[trace.value[row]] for row in rows}
    assert {register: (of[3], of[5]) for register, of in contents.items()} == written
    assert trace.reg[trace.kind == READ].tolist() == read
    assert result.recording.skipped.keys() == (
        {"reads by instructions that print no operands"} if "FIXME" in code else set()
    )


def test_a_block_that_the_timing_lacks_belongs_to_no_wavefront_where_it_prints_lanes(tmp_path):
    text = isa_text(("v_mov_b32 v0, 1", f"t{64 * 40}: V0<=(1) "), PRINT_LANES[0][:2])
    result = import_text(tmp_path, text * 40, timing_of(text * 39))
    why = "instructions that print lanes: the text does not name their wavefront"
    assert result.recording.skipped[why][0] == 1
    assert len(result.recording.windows) == 39


NAMES = ["V_MOV_B32", "V_ADD_I32", "V_XOR_B32", "V_MUL_LO_I32"] * 20


def text_with(names):
    blocks = (
        (f"{name.lower()} v{n % 4}, v{n % 4}", f"t0: V{n % 4}<=({n}) ")
        for n, name in enumerate(names)
    )
    return isa_text(*blocks)


@pytest.mark.parametrize("skipped", [(), (1,), (0, 2)])
def test_blocks_without_timing_take_the_time_of_the_one_before(tmp_path, skipped):
    text = text_with(NAMES)
    unknown = "|".join(map(str, skipped)) or "none"
    times = re.sub(rf"(?m)^si\.\w+ id=({unknown}) .*\n", "", timing_of(text))
    result = import_text(tmp_path, text, times)
    ((name, made),) = result.slices
    assert name == "run.cu2.simd3.h5"
    trace = made.trace
    assert trace.cycles == 10 * len(NAMES) + 5
    times = trace.cycle[trace.kind == WRITE].tolist()
    for number in range(len(NAMES)):
        if number not in skipped:
            assert times[number] == 10 * (number + 1) + 4
    assert times == sorted(times)
    assert sum(trace.kind == READ) == len(NAMES)
    missing = result.recording.skipped.get(
        "instructions that the timing trace lacks: at the time of the one before", [0]
    )
    assert missing[0] == len(skipped)


def test_the_line_after_a_branch_begins_with_a_space(tmp_path):
    text = text_with(["V_MOV_B32", "S_CBRANCH_VCCZ", "V_ADD_I32", "S_CBRANCH_VCCZ"])
    times = re.sub(r"(end_inst id=[13] cu=2\n)", r"\1 ", timing_of(text))
    result = import_text(tmp_path, text, times)
    ((_, made),) = result.slices
    trace = made.trace
    assert trace.cycle[trace.kind == WRITE].tolist() == [14, 34]
    assert (trace.cycles, result.recording.skipped) == (45, {})


def test_launches_begin_where_the_text_says(tmp_path):
    """Even where a work-group of the launch before has not left."""
    text = isa_text(("v_mov_b32 v0, 1", "t0: V0<=(1) "))
    text += isa_text(("v_mov_b32 v0, 1", "t64: V0<=(1) "))
    times = timing_of(text).replace("si.unmap_wg cu=2 wg=0\n", "")
    windows = import_text(tmp_path, text, times).facts()["windows"]
    assert [(window["launch"], window["wavefront"]) for window in windows] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("text", "times", "message"),
    [
        (NAMES, NAMES[5:], r"run\.txt: \d+ instructions of 80 are not both here and in run\.m2s"),
        (NAMES, NAMES[:70], r"run\.txt: 10 instructions of 80 are not both"),
        (NAMES[5:], NAMES, r"run\.txt: 11 instructions of 75 are not both"),
        (NAMES[:-5], NAMES, r"run\.txt: 5 instructions of 75 are not both"),
        (NAMES * 5, ["V_OR_B32", *NAMES * 5], r"run\.txt: line 768: 256 instructions in a row"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path, text, times, message):
    with pytest.raises(UserError, match=message):
        import_text(tmp_path, text_with(text), timing_of(text_with(times)))
    assert not list(tmp_path.glob("*.h5"))


def test_instructions_that_the_text_lacks_at_its_end_are_counted(tmp_path):
    """Two of 80: few enough for the import."""
    text = text_with(NAMES[:-2])
    result = import_text(tmp_path, text, timing_of(text_with(NAMES)))
    why = "instructions of the timing trace that the text lacks at its end"
    assert result.recording.skipped == {why: [2, "run.txt", text.count("\n")]}


def test_a_text_that_begins_within_a_launch_has_no_timing(tmp_path):
    text = text_with(NAMES)
    with pytest.raises(UserError, match=r"run\.txt: line 2: the text begins within a launch"):
        import_text(tmp_path, text.removeprefix(SUMMARY), timing_of(text))


@each("number", [0, 14, 28, 7, 21, 35, 49])
def test_no_window_is_another_where_a_line_is_lost(tmp_path, number):
    """Of the text, of which comparisons name no wavefront, or of the timing."""
    moves = [("v_mov_b32 v0, 1", f"t{64 * wave}: V0<=(1) ") for wave in range(3)]
    compare = ("v_cmp_eq_i32 vcc, 0, v0", "t0: vcc<=(0) ")
    text = isa_text(*[moves[0], moves[1], compare, moves[1], moves[0], compare] * 10)
    text += isa_text(*[moves[2], compare] * 10)
    files = [text.splitlines(True), timing_of(text).splitlines(True)]
    whole = import_text(tmp_path, *map("".join, files)).facts()["windows"]
    lines = files[number % 2]
    places = [n for n, line in enumerate(lines) if "si.new_inst" in line or "// 0" in line]
    del lines[places[number % len(places)]]
    with suppress(UserError):
        windows = import_text(tmp_path, *map("".join, files)).facts()["windows"]
        assert [window["wavefront"] for window in windows] == [each["wavefront"] for each in whole]
        assert all(
            window["writes"] <= each["writes"] for window, each in zip(windows, whole, strict=True)
        )


# The importer of MGPUSim's ``-debug-isa``.

NAME = "isa_GPU[1].CU1.debug"


def lines_of():
    return text_of("mgpusim/isa_GPU[1].CU1").splitlines()


def facts(tmp_path, lines):
    """Facts of the windows of a file."""
    (tmp_path / NAME).write_bytes(b"\n".join([*lines, b""]))
    result = imported([tmp_path / NAME], tmp_path / "out")
    return result.facts() | {"windows": facts_of_windows(result)}


def test_a_file_whose_end_is_missing(tmp_path):
    """The run was ended; windows are open then."""
    lines = lines_of()
    whole = facts(tmp_path, lines)
    assert facts(tmp_path, lines[:-2])["windows"] == whole["windows"]
    part = facts(tmp_path, lines[:100])
    assert 0 < part["windows"][0]["writes"] < whole["windows"][0]["writes"]


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


def test_v255_is_a_register_as_all_others(tmp_path):
    """A code object may have 256 registers; each is shown with every instruction."""
    record = json.loads(lines_of()[1].lstrip(b","))
    record |= {"VGPRs": [[0] * 64 for _ in range(256)], "Inst": "v_mov_b32_e32 v254, v1"}
    written, changed = json.loads(json.dumps(record)), json.loads(json.dumps(record))
    written |= {"Inst": "v_mov_b32_e32 v255, v255"}
    written["VGPRs"][255] = [7] * 64
    changed["VGPRs"][255] = [8] * 64
    records = [record, written, changed, changed]
    result = facts(tmp_path, [b"[", *(b"," + json.dumps(each).encode() for each in records)])
    assert [(window["writes"], window["registers"]) for window in result["windows"]] == [(5, 256)]
    assert not result["skipped"]


# gem5's log as it may also look: other flags, other output between the lines, damage.

LONG_NAME = b"warn: slow kernel " + b"x<" * 2500
LINE = re.compile(rb"(?m)^(\d+): (system\S+|global): (.*)$")


@pytest.fixture(scope="module")
def text():
    return text_of("gem5/reduction-vrf-only")


def gem5_facts(text, folder):
    (folder / "log.txt").write_bytes(text)
    result = imported([folder / "log.txt"], folder)
    return result.facts() | {"windows": facts_of_windows(result)}


@pytest.fixture(scope="module")
def windows(text, tmp_path_factory):
    return gem5_facts(text, tmp_path_factory.mktemp("gem5"))["windows"]


@pytest.fixture(scope="module")
def no_pools(text):
    return b"".join(line for line in text.splitlines(True) if b"pool_manager" not in line)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: LINE.sub(rb"\1: GPUVRF: \2: \3", text),
        lambda text: LINE.sub(rb"   \1: \2: \3", text),
        lambda text: b"gem5 Simulator System.\n" + text + b"Exiting @ tick 12\n",
        lambda text: text + b"1048755",
        lambda text: text.replace(b"system.cpu1.CUs0", b"system.Shader.CUs00"),
        lambda text: re.sub(rb"(?m)^(\d+: global: W)", LONG_NAME + rb"\n\1", text),
    ],
)
def test_the_same_windows_are_found(text, windows, tmp_path, change):
    assert gem5_facts(change(text), tmp_path)["windows"] == windows


def test_a_read_of_other_contents_than_the_last_write_is_a_gap(text, tmp_path):
    before = gem5_facts(text, tmp_path)["gaps"]
    lost = re.sub(rb"48567500: global: Write v\[1\]\n(?:48567500: .*v\[1\].*\n)+", b"", text)
    after = gem5_facts(lost, tmp_path)["gaps"]
    assert (before["other_contents"], after["other_contents"]) == (0, 1)
    assert after["share"] == pytest.approx((before["before_any_write"] + 1) / before["reads"])


def facts_named(windows, *names):
    return [[window[name] for name in names] for window in windows]


def test_without_pools_a_window_lasts_from_the_first_to_the_last_access(
    no_pools, windows, tmp_path
):
    found = gem5_facts(no_pools, tmp_path)
    assert [window["wave_dyn_id"] for window in found["windows"]] == [0, 1]
    assert found["inferred"]["windows"] == "from the first to the last access of a wave"
    keys = ("writes", "reads", "digest")
    assert facts_named(found["windows"], *keys) == facts_named(windows, *keys)


def test_registers_of_a_wave_begin_at_its_lowest_where_no_pool_says_it(no_pools, windows, tmp_path):
    """With the simple policy, the waves of a work-group lie one behind the other."""
    sizes = [window["registers"] for window in windows]
    moved = re.sub(rb"(?<=v\[)\d+(?=\])", lambda m: b"%d" % (int(m[0]) + 1600), no_pools)
    found = gem5_facts(moved, tmp_path)["windows"]
    assert [window["first_register"] for window in found] == [1600, 1600 + sizes[0]]
    keys = ("registers", "writes", "reads", "digest")
    assert facts_named(found, *keys) == facts_named(windows, *keys)


def test_without_ticks_only_the_order_is_known(text, windows, tmp_path):
    found = gem5_facts(LINE.sub(rb"\2: \3", text), tmp_path)
    assert found["approximate"] == {"time": "only the order is known"}
    assert [window["digest"] for window in found["windows"]] == [w["digest"] for w in windows]
