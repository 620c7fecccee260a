"""Texts of instructions, taken apart."""

import random

import numpy as np
import pytest
from emulated import emulate, machine_of, random_wave
from tables import each

from mcage.errors import UserError
from mcage.tracing.emulation.code_object import CodeObject
from mcage.tracing.emulation.faults import FaultyMachine
from mcage.tracing.emulation.machine import M0, TTMP, Operand, parse
from mcage.tracing.emulation.memory import SCRATCH_BASE
from mcage.tracing.emulation.timing import waits_for
from mcage.tracing.emulation.waves import Budget, Instructions, Run
from mcage.tracing.importing.contents import Contents


def v(number, count=1, text="", **more):
    return Operand("v", number, count, text or f"v{number}", **more)


@each(
    ("text", "name", "encoding", "operands", "modifiers"),
    [
        ("s_endpgm", "s_endpgm", "", [], {}),
        ("v_add_f32_e64 v1, -|v2|, -1.5 clamp mul:2", "v_add_f32", "",
         [v(1), v(2, negated=True, absolute=True), Operand("float", 0, 1, "-1.5")],
         {"clamp": "", "mul": "2"}),
        ("v_mov_b32_e64_dpp v0, v1 quad_perm:[1,0,3,2]", "v_mov_b32", "dpp", [v(0), v(1)],
         {"quad_perm": "[1,0,3,2]"}),
        ("v_add_u16_sdwa v0, sext(v1), v2 dst_sel:BYTE_1 src0_sel:WORD_1", "v_add_u16", "sdwa",
         [v(0), v(1, extended=True), v(2)], {"dst_sel": "BYTE_1", "src0_sel": "WORD_1"}),
        ("s_mov_b32 m0, ttmp9", "s_mov_b32", "",
         [Operand("s", M0, 1, "m0"), Operand("s", TTMP + 9, 1, "ttmp9")], {}),
        ("v_accvgpr_write_b32 a15, v3", "v_accvgpr_write_b32", "",
         [Operand("a", 15, 1, "a15"), v(3)], {}),
        ("v_mov_b16_e32 v1.h, v2.l", "v_mov_b16", "", [v(1, 1, "v1.h", half=1), v(2, 1, "v2.l")],
         {}),
        ("s_cbranch_scc1 12 <saxpy+0x40>", "s_cbranch_scc1", "", [Operand("int", 12, 1, "12")], {}),
        ("s_waitcnt vmcnt(0) lgkmcnt(1)", "s_waitcnt", "", [], {"text": "vmcnt(0) lgkmcnt(1)"}),
    ],
)  # fmt: skip
def test_an_instruction(text, name, encoding, operands, modifiers):
    """Others are taken apart, and compute, in tests/unit/tracing/test_emulated_instructions.py."""
    (found,) = parse(text, 16, 8)
    assert (found.address, found.size, found.text) == (16, 8, text)
    assert (found.name, found.encoding) == (name, encoding)
    assert list(found.operands) == operands
    assert found.modifiers == modifiers


def test_a_dual_issue_has_two_parts():
    first, second = parse("v_dual_mul_f32 v0, v1, v2 :: v_dual_mov_b32 v3, 0", 0, 8)
    assert (first.name, second.name) == ("v_dual_mul_f32", "v_dual_mov_b32")
    assert [operand.number for operand in second.operands] == [3, 0]


def test_modifiers_are_numbers_or_bits():
    (inst,) = parse("x v0 offset:0x10 op_sel:[0,1] glc")
    assert (inst.modifier("offset"), inst.modifier("glc"), inst.modifier("slc")) == (16, 1, 0)
    assert [inst.bits("op_sel", place, 7) for place in range(3)] == [0, 1, 7]
    assert inst.bits("neg_lo", 0, 5) == 5


@each("text", ["v_mov v1 ?, v2", "x v1,, v2", "x v[3:2]", "x v[0:99]", "x v0 !", "x v9999"])
def test_texts_that_cannot_be_taken_apart(text):
    with pytest.raises(ValueError):
        parse(text)


@each(
    ("text", "words"),
    [
        ("v_swap_b32 v0, v64", "v64; a wave has 64 registers"),
        ("global_load_dwordx4 v[61:64], v[0:1], off", "v[61:64]; a wave has 64 registers"),
        ("v_accvgpr_read_b32 v0, a16", "a16; a wave has 64 registers"),
        ("v_accvgpr_write_b32 a16, v0", "a16; a wave has 64 registers"),
        ("s_mov_b64 s[0:1], exec_hi", "operand exec_hi"),
        ("s_mov_b64 exec_hi, s[0:1]", "destination exec_hi"),
        ("ds_read_b32 s0, v0", "operand s0"),
    ],
)
def test_registers_that_a_wave_does_not_have(text, words):
    rng = random.Random(1)
    with pytest.raises(UserError) as refused:
        emulate([random_wave(rng, "gfx90a")], [text], "gfx90a")
    assert words in str(refused.value)


def recorded_run(texts, arch, indexes):
    """Run waves that have an index in M0, and record them."""
    waves = [random_wave(random.Random(number), arch, few=False) for number in range(len(indexes))]
    for wave, index in zip(waves, indexes, strict=True):
        wave.m0, wave.exec = index, 1
    m = machine_of(waves, arch)
    listing = {4 * place: (text, 4) for place, text in enumerate([*texts, "s_endpgm"])}
    program = Instructions(CodeObject(arch, {}, bytearray(), [], listing), 0, m)
    everybody, groups = np.ones(len(waves), np.bool_), np.arange(len(waves))
    run = Run(m, program, groups, everybody, Contents(m.lanes), Budget(100))
    run.finish()
    ran = run.waves(0, 0 * groups, np.ones(len(waves), np.int64))
    texts_of = [[program.codes[code >> 1].inst.text for code in wave.codes] for wave in ran]
    reads = [[program.codes[code >> 1].reads for code in wave.codes] for wave in ran]
    return texts_of, reads, [wave.register.tolist() for wave in ran]


@each(
    ("arch", "texts", "reads", "writes"),
    [
        ("gfx1030", ["v_movrels_b32_e32 v1, v20"], [(22,), (29,), (22,)], [[1], [1], [1]]),
        ("gfx1100", ["v_movreld_b32_e32 v20, v1"], [(1,), (1,), (1,)], [[22], [29], [22]]),
        ("gfx1030", ["v_movrelsd_b32_e32 v20, v1"], [(3,), (10,), (3,)], [[22], [29], [22]]),
        ("gfx90a", ["s_set_gpr_idx_on m0, gpr_idx(SRC1,DST)", "v_add_u32_e32 v20, v4, v1",
                    "s_set_gpr_idx_off"], [(4, 3), (4, 10), (4, 3)], [[22], [29], [22]]),
    ],
)  # fmt: skip
def test_registers_that_are_chosen_at_run_time_are_recorded(arch, texts, reads, writes):
    """Of each wave those that it has used, and nothing that it has not executed."""
    executed, read, written = recorded_run(texts, arch, [2, 9, 2])
    assert executed == [[*texts, "s_endpgm"]] * 3
    assert [[of for of in wave if of] for wave in read] == [[of] for of in reads]
    assert written == writes


@each(
    ("text", "registers"),
    [
        ("buffer_load_dword v1, s[0:3], 0 offen lds", (1,)),
        ("global_load_lds_dword v[2:3], off", (2, 3)),
        ("buffer_load_dword v1, v2, s[0:3], 0 offen", (2,)),
    ],
)
def test_a_load_into_local_memory_reads_its_address(text, registers):
    m = machine_of([random_wave(random.Random(1), "gfx90a")], "gfx90a")
    code = CodeObject("gfx90a", {}, bytearray(), [], {0: (text, 8)})
    assert Instructions(code, 0, m).at(0).reads == registers


@each(
    ("text", "words"),
    [
        ("v_movrels_b32_e32 v1, v20", "v1, v20 at 0x8: 48 vector registers of a wave, at 50"),
        ("v_movreld_b32_e32 v20, v1", "48 vector registers of a wave, at 50"),
    ],
)  # fmt: skip
def test_an_index_beyond_the_registers_of_a_wave(text, words):
    """It is refused, unless registers may be wrong: v0 is read then, and nothing is written."""
    wave = random_wave(random.Random(1), "gfx1030")
    wave.m0, program = 30, ["s_nop 0", text]
    with pytest.raises(UserError, match=words):
        emulate([wave], program, "gfx1030")
    before = machine_of([wave], "gfx1030").vector
    after = emulate([wave], program, "gfx1030", kind=FaultyMachine).vector
    expected = before.copy()
    if "rels" in text:
        on = [bool(wave.exec >> lane & 1) for lane in range(32)]
        expected[1, 0, on] = before[0, 0, on]
    assert np.array_equal(after, expected)


@each("text", ["v_mac_f32_e32 v1, v2, v3", "v_readlane_b32 s0, v1, 3", "v_swap_b32 v1, v2",
               "v_mov_b32_dpp v1, v2 row_shl:1"])  # fmt: skip
def test_instructions_that_take_no_index_of_registers(text):
    program = ["s_set_gpr_idx_on 1, gpr_idx(SRC0)", "v_nop", text]
    with pytest.raises(UserError, match=r"at 0x10 is not supported.*with an index of registers"):
        emulate([random_wave(random.Random(1), "gfx90a")], program, "gfx90a")


@each("text", ["buffer_load_dword v0, v1, s[0:3], 0 offen offset:4",
               "buffer_load_dword v0, v1, s[0:3], s4 offen offset:4"])  # fmt: skip
def test_private_memory_below_an_index_of_zero(text):
    """Compilers address an element behind an index, such as the one of -1."""
    wave = random_wave(random.Random(1), "gfx90a")
    wave.exec, wave.scratch = 1, [bytearray(range(16)) for _ in range(64)]
    wave.s[:5] = SCRATCH_BASE & 0xFFFFFFFF, SCRATCH_BASE >> 32, 0xFFFFFFFF, 0, 8 * 64
    wave.v[1][0] = 2**32 - 4
    loaded = emulate([wave], [text], "gfx90a").vector[0, 0, 0]
    assert loaded.tobytes() == (bytes(range(8, 12)) if "s4" in text else bytes(range(4)))


@each(
    ("text", "words"),
    [
        ("s_memtime s[0:1]", "reads a clock"),
        ("s_getreg_b32 s0, hwreg(HW_REG_SHADER_CYCLES, 0, 20)", "reads a clock"),
        ("s_sendmsg_rtn_b64 s[0:1], sendmsg(MSG_RTN_GET_REALTIME)", "reads a clock"),
        ("s_getreg_b32 s0, hwreg(HW_REG_HW_ID)", "hardware register HW_REG_HW_ID"),
        ("s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 5)", "hardware register HW_REG_MODE"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3", "rounds otherwise"),
        ("s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s0", "hardware register HW_REG_MODE"),
        ("s_denorm_mode 0", "flushes denormals"),
        ("s_trap 2", "a trap"),
        ("s_movrels_b32 s90, s100", "106 scalar registers, at 109"),
    ],
)
def test_what_a_trace_cannot_know_has_a_name(text, words):
    wave = random_wave(random.Random(1), "gfx1030")
    wave.m0 = 9
    with pytest.raises(UserError, match=words):
        emulate([wave], [text], "gfx1030")


def test_modes_that_stay_as_they_are():
    texts = [
        *("s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 4)", "s_getreg_b32 s1, hwreg(HW_REG_MODE, 4, 2)"),
        *(
            "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3",
            "s_setreg_b32 hwreg(HW_REG_FLAT_SCR_LO), s0",
        ),
        *("s_round_mode 0x0", "s_denorm_mode 15", "s_call_b64 s[2:3], 2", "s_mov_b32 s0, 5"),
    ]
    wave = random_wave(random.Random(1), "gfx1030")
    m = emulate([wave], texts, "gfx1030")
    assert m.scalar[:4, 0].tolist() == [0, 3, 8 * 7, 0]


MANY = 1 << 30


@each(
    ("text", "loads", "others", "stores"),
    [
        ("s_waitcnt vmcnt(0)", 0, MANY, MANY),
        ("s_waitcnt vmcnt(3) lgkmcnt(0)", 3, 0, MANY),
        ("s_waitcnt vmcnt(63) expcnt(7) lgkmcnt(15)", 63, 15, MANY),
        ("s_waitcnt expcnt(0)", MANY, MANY, MANY),
        ("s_waitcnt_vscnt null, 0x0", MANY, MANY, 0),
        ("s_waitcnt_vmcnt null, 0x2", 2, MANY, MANY),
        ("s_waitcnt_lgkmcnt null, 0x1", MANY, 1, MANY),
        ("s_wait_loadcnt 0x0", 0, MANY, MANY),
        ("s_wait_dscnt 0x5", MANY, 5, MANY),
        ("s_wait_kmcnt 0x0", MANY, 0, MANY),
        ("s_wait_storecnt 0x0", MANY, MANY, 0),
        ("s_waitcnt_depctr 0xfff", MANY, MANY, MANY),
        ("s_wait_idle", MANY, MANY, MANY),
    ],
)
def test_what_waits_wait_for(text, loads, others, stores):
    found = waits_for(text)
    assert [min(count, MANY) for count in found] == [loads, others, stores]
