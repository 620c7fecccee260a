"""Multi2Sim's ISA text: its spellings of registers and values, and what it leaves out."""

from contextlib import suppress

import pytest
from import_samples import expected, files_of, imported
from multi2sim_text import multi2sim_files
from small_traces import small_trace

from mcage.errors import UserError
from mcage.traces import READ, WRITE

SUMMARY = "================ Initialization Summary ================\n"
TIMES = 'si.init version="1.1" num_compute_units=1\n'


def text_of(*blocks):
    """Blocks of an instruction and its effects."""
    lines = (
        f" {code:40s} // {8 * n:08X}: 7E040200\n{effects}\n\n"
        for n, (code, effects) in enumerate(blocks)
    )
    return SUMMARY + "".join(lines)


def import_text(folder, text, timing=None):
    files = [folder / "run.txt"]
    files[0].write_text(text)
    if timing is not None:
        files.append(folder / "run.m2s")
        files[1].write_text(timing)
    return imported(files, folder)


def writes_of(folder, *blocks):
    """Register, lanes and values of each write."""
    ((_, made),) = import_text(folder, text_of(*blocks)).slices
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
    result = import_text(tmp_path, text_of(*blocks))
    ((_, made),) = result.slices
    assert sum(made.trace.kind == WRITE) == 1
    assert result.recording.skipped == {"effects that are damaged": [1, "run.txt", 6]}


def test_lanes_are_work_items_of_the_wavefront(tmp_path):
    effects = "t65: V1<=(5) t127: V1<=(6) "
    ((register, lanes, values),) = writes_of(tmp_path, ("v_mov_b32 v1, v2", effects))
    assert (register, lanes, values[1], values[63]) == (1, 1 << 1 | 1 << 63, 5, 6)


def test_floats_make_a_trace_approximate(tmp_path):
    result = import_text(tmp_path, text_of(("v_mul_f32 v2, v3, v2", "t0: V2<=(1.5f) (1f*1f)")))
    assert result.recording.approximate["contents"].startswith("1 writes were printed as floats")
    assert result.facts()["windows"][0]["exact_writes"] == 0


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
    text = text_of(
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
    text = text_of(("v_mov_b32 v0, 1", f"t{64 * 40}: V0<=(1) "), (code, effects))
    asm = code.split()[0].upper()
    result = import_text(tmp_path, text, timing("V_MOV_B32", f"{asm}_VOP3a", wavefront=40))
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


@pytest.mark.parametrize("code", [case[:2] for case in PRINT_LANES])
def test_lanes_that_are_printed_belong_to_no_wavefront_of_the_text_alone(tmp_path, code):
    text = text_of(("v_mov_b32 v0, 1", f"t{64 * 40}: V0<=(1) "), code)
    result = import_text(tmp_path, text)
    (window,) = result.facts()["windows"]
    assert (window["wavefront"], window["writes"], window["reads"]) == (40, 1, 0)
    why = "instructions that print lanes: the text does not name their wavefront"
    assert result.recording.skipped == {why: [1, "run.txt", 6]}


def test_the_text_alone_has_what_names_its_work_items(tmp_path):
    sample = "multi2sim/lanes-detailed-real"
    result = imported([path for path in files_of(sample) if ".txt" in path.name], tmp_path)
    wanted = expected(sample)["text_alone"]
    windows = result.facts()["windows"]
    windows.sort(key=lambda window: (window["launch"], window["wavefront"]))
    keys = wanted["windows"][0].keys()
    assert [{key: window[key] for key in keys} for window in windows] == wanted["windows"]
    why = "instructions that print lanes: the text does not name their wavefront"
    assert result.recording.skipped[why][0] == wanted["instructions_that_print_lanes"]
    assert set(result.recording.approximate) == {"contents", "time"}


def test_work_groups_that_look_like_one_wavefront_are_noticed(tmp_path):
    sample = "multi2sim/floydwarshall-detailed-real"
    result = imported([path for path in files_of(sample) if ".txt" in path.name], tmp_path)
    assert len(result.recording.windows) == 4  # of 16
    assert result.recording.approximate["lanes"].startswith("12 wavefronts have no window of")


def test_a_text_that_begins_or_ends_anywhere_is_read(tmp_path):
    whole = text_of(*[("v_mov_b32 v1, 1", f"t{64 * n}: V1<=({n}) ") for n in range(9)])
    lines = whole.splitlines(True)
    result = import_text(tmp_path, "".join(lines[4:-7]) + " v_mov_b32 v1, 1    // 000")
    assert [window["wavefront"] for window in result.facts()["windows"]] == [1, 2, 3, 4, 5, 6]
    assert result.recording.skipped == {"a last line that is cut off": [1, "run.txt", 18]}


def timing(*names, skipped=(), wavefront=0):
    """Timing of an instruction each ten cycles, without those that are skipped."""
    group = f"wi_first={64 * wavefront} wi_count=64 wf_first={wavefront} wf_count=1"
    lines = [TIMES, f"c clk=100\nsi.map_wg cu=2 wg={wavefront} {group}\n"]
    for number, asm in enumerate(names, 1):
        if number - 1 in skipped:
            continue
        place = f"id={number} cu=2"
        lines.append(f"c clk={100 + 10 * number}\n")
        lines.append(f'si.new_inst {place} ib=3 wf={wavefront} uop_id=1 stg="f" asm="{asm}"\n')
        lines.append(f'si.inst {place} wf={wavefront} uop_id=1 stg="simd-e"\n')
        lines.append(f"c clk={104 + 10 * number}\nsi.end_inst {place}\n")
        if asm.startswith("S_CBRANCH"):
            lines.append(" ")
    return "".join([*lines, f"c clk=90000\nsi.unmap_wg cu=2 wg={wavefront}\n"])


NAMES = ["V_MOV_B32", "V_ADD_I32", "V_XOR_B32", "V_MUL_LO_I32"] * 20


def blocks_of(names):
    return [
        (f"{name.lower()} v{n % 4}, v{n % 4}", f"t0: V{n % 4}<=({n}) ")
        for n, name in enumerate(names)
    ]


@pytest.mark.parametrize("skipped", [(), (1,), (0, 2)])
def test_blocks_without_timing_take_the_time_of_the_one_before(tmp_path, skipped):
    result = import_text(tmp_path, text_of(*blocks_of(NAMES)), timing(*NAMES, skipped=skipped))
    ((name, made),) = result.slices
    assert name == "run.cu2.simd3.h5"
    trace = made.trace
    assert trace.cycles == 89_901
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
    names = ["V_MOV_B32", "S_CBRANCH_VCCZ", "V_ADD_I32", "S_CBRANCH_VCCZ"]
    result = import_text(tmp_path, text_of(*blocks_of(names)), timing(*names))
    ((_, made),) = result.slices
    trace = made.trace
    assert trace.cycle[trace.kind == WRITE].tolist() == [14, 34]
    assert (trace.cycles, result.recording.skipped) == (89_901, {})


def test_launches_begin_where_the_text_says(tmp_path):
    """Even where a work-group of the launch before has not left."""
    times, more = timing("V_MOV_B32"), timing("V_MOV_B32", wavefront=1)
    times = times.replace("si.unmap_wg", "si.map_wg") + more.removeprefix(TIMES)
    text = text_of(("v_mov_b32 v0, 1", "t0: V0<=(1) "))
    text += text_of(("v_mov_b32 v0, 1", "t64: V0<=(1) "))
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
        import_text(tmp_path, text_of(*blocks_of(text)), timing(*times))
    assert not list(tmp_path.glob("*.h5"))


def test_instructions_that_the_text_lacks_at_its_end_are_counted(tmp_path):
    """Two of 80: few enough for the import."""
    text = text_of(*blocks_of(NAMES[:-2]))
    result = import_text(tmp_path, text, timing(*NAMES))
    why = "instructions of the timing trace that the text lacks at its end"
    assert result.recording.skipped == {why: [2, "run.txt", text.count("\n")]}


def test_a_text_that_begins_within_a_launch_has_no_timing(tmp_path):
    text = text_of(*blocks_of(NAMES)).removeprefix(SUMMARY)
    with pytest.raises(UserError, match=r"run\.txt: line 2: the text begins within a launch"):
        import_text(tmp_path, text, timing(*NAMES))


@pytest.mark.parametrize("number", range(0, 60, 7))
def test_no_window_is_another_where_a_line_is_lost(tmp_path, number):
    """Of the text or of the timing, whose comparisons name no wavefront."""
    files = [text.splitlines(True) for text in multi2sim_files(small_trace())]
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


def test_a_timing_trace_alone_is_refused(tmp_path):
    (tmp_path / "run.m2s").write_text(timing("V_MOV_B32"))
    with pytest.raises(UserError, match="an import takes one ISA text"):
        imported([tmp_path / "run.m2s"], tmp_path)
