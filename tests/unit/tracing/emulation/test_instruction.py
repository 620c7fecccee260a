"""Texts of instructions, taken apart."""

import random

import pytest
from emulated import emulate, random_wave
from tables import each

from mcage.errors import UserError
from mcage.tracing.emulation.machine import M0, TTMP, Operand, parse
from mcage.tracing.emulation.timing import waits_for


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
