"""Multi2Sim's ISA text: its spellings of registers and values, and what it leaves out."""

import pytest
from import_samples import imported

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
        ("v_mov_b32 v1, 1", "t0: V1<=(1) "), ("v_add_f64 v[2:3], v[4:5], v[6:7]", "t0: S[2]<=(1f) ")
    )
    result = import_text(tmp_path, text)
    why = "register writes whose text does not name the register"
    assert result.recording.skipped[why] == [1, "run.txt", 6]


def test_a_text_that_begins_or_ends_anywhere_is_read(tmp_path):
    whole = text_of(*[("v_mov_b32 v1, 1", f"t{64 * n}: V1<=({n}) ") for n in range(9)])
    lines = whole.splitlines(True)
    result = import_text(tmp_path, "".join(lines[4:-7]) + " v_mov_b32 v1, 1    // 000")
    assert [window["wavefront"] for window in result.facts()["windows"]] == [1, 2, 3, 4, 5, 6]
    assert result.recording.skipped == {"a last line that is cut off": [1, "run.txt", 18]}


def timing(*names, skipped=()):
    """Timing of an instruction each ten cycles, without those that are skipped."""
    lines = [TIMES, "c clk=100\nsi.map_wg cu=2 wg=0 wi_first=0 wi_count=64 wf_first=0 wf_count=1\n"]
    for number, asm in enumerate(names, 1):
        if number - 1 in skipped:
            continue
        place = f"id={number} cu=2"
        lines.append(f"c clk={100 + 10 * number}\n")
        lines.append(f'si.new_inst {place} ib=3 wf=0 uop_id=1 stg="f" asm="{asm}"\n')
        lines.append(f'si.inst {place} wf=0 uop_id=1 stg="simd-e"\n')
        lines.append(f"c clk={104 + 10 * number}\nsi.end_inst {place}\n")
    return "".join([*lines, "c clk=900\nsi.unmap_wg cu=2 wg=0\n"])


@pytest.mark.parametrize("skipped", [(), (1,), (0, 2)])
def test_blocks_without_timing_take_the_time_of_the_one_before(tmp_path, skipped):
    codes = [
        "v_mov_b32 v0, 1",
        "v_add_i32 v0, vcc, v0, v0",
        "v_xor_b32 v0, v0, v0",
        "v_mov_b32 v1, 2",
    ]
    text = text_of(*[(code, f"t0: V{code.split()[1][1]}<=(4) ") for code in codes])
    names = ["V_MOV_B32", "V_ADD_I32", "V_XOR_B32", "V_MOV_B32"]
    result = import_text(tmp_path, text, timing(*names, skipped=skipped))
    ((name, made),) = result.slices
    assert name == "run.cu2.simd3.h5"
    trace = made.trace
    assert trace.cycles == 801
    times = trace.cycle[trace.kind == WRITE].tolist()
    for number in range(4):
        if number not in skipped:
            assert times[number] == 10 * (number + 1) + 4
    assert times == sorted(times)
    assert sum(trace.kind == READ) == 4
    missing = result.recording.skipped.get(
        "instructions that the timing trace lacks: at the time of the one before", [0]
    )
    assert missing[0] == len(skipped)


def test_a_timing_trace_alone_is_refused(tmp_path):
    (tmp_path / "run.m2s").write_text(timing("V_MOV_B32"))
    with pytest.raises(UserError, match="an import takes one ISA text"):
        imported([tmp_path / "run.m2s"], tmp_path)
