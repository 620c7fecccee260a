"""Does what is made of PTX do what the PTX ISA says, and is all else refused?

PTX by hand, and what instructions say of operands at their borders. That they compute what they
are meant to, `test_kernels_from_ptx` shows, which runs what NVRTC makes of the kernels.
"""

import numpy as np
import pytest
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice, LaunchError
from host_gpu.ptx import PtxError, translate
from tables import each

pytestmark = needs_host_compiler

ONE = (1, 1, 1)

BEGINNING = """
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.shared .align 16 .b8 held[256];
"""
HEAD = """.visible .entry kernel%d(
    .param .u64 .ptr .align 8 kernel_param_0,
    .param .u64 kernel_param_1,
    .param .u32 kernel_param_2
)
.maxntid 256, 1, 1
{
    .reg .pred  %%p<9>;
    .reg .b16   %%rs<9>;
    .reg .b32   %%r<9>;
    .reg .b64   %%rd<19>;
    .reg .f64   %%fd<9>;
    ld.param.u64    %%rd1, [kernel_param_0];
    ld.param.u64    %%rd2, [kernel_param_1];
    mov.u32         %%r1, %%tid.x;
    mul.wide.u32    %%rd3, %%r1, 8;
    add.s64         %%rd4, %%rd1, %%rd3;   // of this thread: a word of 64 bits to read,
    add.s64         %%rd5, %%rd2, %%rd3;   // and one to write
"""
FIRST_LINE = (BEGINNING + HEAD).count("\n") + 1
"""Line of the first instruction of a kernel by itself."""


def kernels_of(bodies):
    """Kernels whose first instructions have said where a thread reads and writes."""
    of_bodies = (body.strip().replace("; ", ";\n") for body in bodies)
    kernels = (f"{HEAD % number}{body}\nret;\n}}\n" for number, body in enumerate(of_bodies))
    return BEGINNING + "".join(kernels)


def run(body, given, among=None, races=False):
    """What is left of the words that threads read, and what they write, a word each.

    The kernel is compiled together with others, once.
    """
    bodies, device = [*(among or [body])], HostDevice(seed=1, races=races)
    module = device.module_from_ptx(kernels_of(bodies))
    words, results = device.upload(np.asarray(given)), device.zeros(len(given), np.uint64)
    arguments, kernel = [words, results, np.int32(7)], f"kernel{bodies.index(body)}"
    module.launch(kernel, ONE, (len(given), 1, 1), arguments, shared_bytes=32)
    return device.download(words).tolist(), device.download(results).tolist()


# ---- by hand -----------------------------------------------------------------------------------

WORD = 0x8182_8384_8586_8788
EXAMPLES = [
    # A word of 64 bits in %rd6, which is written in the end.
    ("cvt.u32.u64 %r2, %rd6; cvt.s16.s32 %rd6, %r2;", 0x1_8000, 2**64 - 0x8000),
    ("mov.b64 {%r2, %r3}, %rd6; mov.b64 %rd6, {%r3, %r2};", 1 << 32 | 2, 2 << 32 | 1),
    ("mov.b64 {_, %r3}, %rd6; cvt.u64.u32 %rd6, %r3;", 7 << 32 | 2, 7),
    ("mov.b64 {%rs1, %rs2, %rs3, %rs4}, %rd6; mov.b64 %rd6, {%rs4, %rs3, %rs2, %rs1};",
     0x0001_0002_0003_0004, 0x0004_0003_0002_0001),
    ("mov.pred %p1, -1; mov.pred %p2, 0; xor.pred %p3, %p1, %p2; @!%p3 mov.b64 %rd6, 1; "
     "@%p3 add.s64 %rd6, %rd6, 2; @!%p2 add.s64 %rd6, %rd6, 4;", 40, 46),
    ("setp.gt.u64 %p1, %rd6, 3; @%p1 bra $L__BB0_1; mov.b64 %rd6, 9; bra.uni $L__BB0_1; "
     "mov.b64 %rd6, 8;\n$L__BB0_1:\n", 3, 9),
    ("mov.b64 %rd6, %rd9;", 1, 0xDBDB_DBDB_DBDB_DBDB),  # no register is 0 by itself
    ("mov.u32 %r2, %ntid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %laneid; "
     "mad.lo.s32 %r2, %r2, 10, %r3; add.s32 %r2, %r2, %r4; cvt.u64.u32 %rd6, %r2;", 0, 11),
    # Operands at their borders.
    ("shl.b64 %rd7, 1, 64; shr.u64 %rd8, %rd6, 99; shr.s64 %rd6, %rd6, 99; "
     "add.s64 %rd6, %rd6, %rd7; add.s64 %rd6, %rd6, %rd8;", 2**63, 2**64 - 1),
    ("mov.b64 {%r2, %r3}, %rd6; shf.l.wrap.b32 %r2, %r2, %r3, 36; cvt.u64.u32 %rd6, %r2;",
     0x1234_5678_9ABC_DEF0, 0x2345_6789),
    ("mov.b64 {%r2, %r3}, %rd6; shf.r.wrap.b32 %r2, %r2, %r3, 36; cvt.u64.u32 %rd6, %r2;",
     0x1234_5678_9ABC_DEF0, 0x89AB_CDEF),
    ("mul.hi.s64 %rd7, %rd6, -1; mul.hi.u64 %rd8, %rd6, -1; sub.s64 %rd6, %rd8, %rd7;",
     2**63, 2**63 - 1),
    ("cvt.u32.u64 %r2, %rd6; bfe.s32 %r2, %r2, 28, 8; cvt.s64.s32 %rd6, %r2;", 2**31, 2**64 - 8),
    ("bfe.s64 %rd7, %rd6, 5, 0; bfe.u64 %rd6, %rd6, 60, 8; add.s64 %rd6, %rd6, %rd7;",
     2**63 + 16, 8),
    ("bfi.b64 %rd6, %rd6, 1, 60, 8;", 2**64 - 1, 0xF << 60 | 1),
    ("bfind.shiftamt.u32 %r2, 0; cvt.u64.u32 %rd6, %r2;", 1, 2**32 - 1),
    ("cvt.u32.u64 %r2, %rd6; prmt.b32 %r2, %r2, 0x1234, 0x9852; cvt.u64.u32 %rd6, %r2;",
     0x0181_7F80, 0x00FF_1281),
    ("mov.b64 %fd1, %rd6; cvt.rzi.s32.f64 %r2, %fd1; cvt.s64.s32 %rd6, %r2;",
     0x7E37_E43C_8800_759C, 2**31 - 1),  # 1e300
    ("mov.b64 %fd1, %rd6; mov.f64 %fd2, 0d3FF0000000000000; setp.leu.f64 %p1, %fd1, %fd2; "
     "setp.lt.f64 %p2, %fd1, %fd2; setp.neu.f64 %p3, %fd1, %fd1; min.f64 %fd3, %fd1, %fd2; "
     "min.f64 %fd3, %fd3, %fd1; mov.b64 %rd6, %fd3; @!%p1 mov.b64 %rd6, 1; "
     "@%p2 mov.b64 %rd6, 2; @!%p3 mov.b64 %rd6, 3;",
     0x7FF8 << 48, 0x3FF << 52),  # no number: what compares with it, and the lesser of it and 1
    # Parameters, of which the last is 7.
    ("ld.param.s32 %rd6, [kernel_param_2];", 1, 7),
    ("ld.param.u16 %rd6, [kernel_param_2+2];", 1, 0),
    ("setp.gt.u64 %p1, %rd6, 3; mov.b64 %rd7, kernel_param_2; mov.b64 %rd8, kernel_param_0; "
     "selp.b64 %rd7, %rd7, %rd8, %p1; ld.param.s32 %rd6, [%rd7];", 4, 7),
    # Memory.
    ("ld.global.u8 %rd6, [%rd4];", WORD, 0x88),
    ("ld.global.s8 %rd6, [%rd4+1];", WORD, 2**64 - 0x79),
    ("ld.s16 %rd6, [%rd4+2];", WORD, 2**64 - 0x7A7A),
    ("ld.volatile.global.u32 %rd6, [%rd4];", WORD, 0x8586_8788),
    ("ld.global.nc.b32 %rd6, [%rd4+4];", WORD, 0x8182_8384),
    ("add.s64 %rd4, %rd4, 100; ld.b64 %rd6, [%rd4+-100];", WORD, WORD),
    ("ld.global.v4.u16 {%rs1, %rs2, %rs3, %rs4}, [%rd4]; mov.b64 %rd6, {%rs2, %rs1, %rs4, %rs3};",
     WORD, 0x8384_8182_8788_8586),
    ("ld.global.v2.u32 {_, %r2}, [%rd4]; cvt.u64.u32 %rd6, %r2;", WORD, 0x8182_8384),
    ("st.shared.b32 [held], %rd6; ld.shared.s16 %rd6, [held];", WORD, 2**64 - 0x7878),
    ("mov.u32 %r2, held; st.shared.v2.b64 [%r2+16], {%rd6, 5}; "
     "ld.shared.v2.b64 {%rd7, %rd8}, [held+16]; add.s64 %rd6, %rd7, %rd8;", WORD, WORD + 5),
    ("mov.u32 %r2, dynamic; st.shared.u8 [%r2+31], 9; ld.volatile.shared.u8 %rd6, [dynamic+31];",
     1, 9),
    ("ld.shared.b64 %rd6, [held];", 0, 0x7F7F_7F7F_7F7F_7F7F),  # nor is memory
]  # fmt: skip
ATOMICS = [
    # What is in memory before and after, and what the instruction gives.
    ("atom.global.add.u32 %r2, [%rd4], 5;", 0x7_0000_000C, 7),
    ("atom.relaxed.gpu.global.add.u64 %rd6, [%rd4], -1;", 0x7_0000_0006, 0x7_0000_0007),
    ("atom.max.s32 %r2, [%rd4], -1;", 0x7_0000_0007, 7),
    ("atom.max.u32 %r2, [%rd4], -1;", 0x7_FFFF_FFFF, 7),
    ("atom.min.s64 %rd6, [%rd4], -1;", 2**64 - 1, 0x7_0000_0007),
    ("atom.global.or.b32 %r2, [%rd4], 8;", 0x7_0000_000F, 7),
    ("atom.global.and.b32 %r2, [%rd4], 2;", 0x7_0000_0002, 7),
    ("atom.global.xor.b64 %rd6, [%rd4], 1;", 0x7_0000_0006, 0x7_0000_0007),
    ("atom.global.exch.b32 %r2, [%rd4+4], 1;", 0x1_0000_0007, 7),
    ("atom.global.cas.b32 %r2, [%rd4], 7, 1;", 0x7_0000_0001, 7),
    ("atom.global.cas.b32 %r2, [%rd4], 6, 1;", 0x7_0000_0007, 7),
    ("red.global.add.u32 [%rd4], 1; mov.u32 %r2, 0;", 0x7_0000_0008, 0),
]
BY_HAND = [(body, given, given, meant) for body, given, meant in EXAMPLES]
BY_HAND += [
    (body if "%rd6" in body else f"{body} cvt.u64.u32 %rd6, %r2;", 0x7_0000_0007, left, before)
    for body, left, before in ATOMICS
]


@each(("body", "given", "left", "meant"), BY_HAND)
def test_by_hand(body, given, left, meant):
    whole = "ld.global.b64 %rd6, [%rd4]; {} st.global.b64 [%rd5], %rd6;".format
    among = [whole(case[0]) for case in BY_HAND]
    assert run(whole(body), np.array([given], np.uint64), among) == ([left], [meant])


# ---- operations of a warp ----------------------------------------------------------------------


def test_a_shuffle_from_a_lane_that_takes_no_part_gives_anything():
    body = """
        setp.gt.u32 %p1, %r1, 15;
        @%p1 bra $L__BB0_1;
        shfl.sync.bfly.b32 %r2, %r1, 24, 31, 0xFFFF;
        cvt.u64.u32 %rd6, %r2;
        st.global.b64 [%rd5], %rd6;
    $L__BB0_1:
    """
    assert run(body, range(32))[1] == [0xDBDB_DBDB] * 16 + [0] * 16


# ---- what is wrong -----------------------------------------------------------------------------

WRONG = {
    "setp.eq.u32 %p1, %r1, 3; @%p1 bra $L__BB0_1; bar.sync 0; bra.uni $L__BB0_2;\n"
    "$L__BB0_1:\nbar.warp.sync -1;\n$L__BB0_2:":
        r"deadlock.*__syncthreads \(kernels.ptx:\d+\).*__syncwarp",
    "setp.lt.u32 %p1, %r1, 32; @%p1 bra $L__BB0_1; bar.sync 0; bra.uni $L__BB0_2;\n"
    "$L__BB0_1:\nbar.sync 0;\n$L__BB0_2:": "divergent barrier",
    "bar.warp.sync 65535;": "without its own lane",
    "setp.lt.u32 %p1, %r1, 16; selp.b32 %r2, 0x1FFFF, -1, %p1; "
    "vote.sync.ballot.b32 %r3, %p1, %r2;": "(divergent warp|deadlock).*lanes 0x0001ffff",
    "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra $L__BB0_1; bar.warp.sync -1; "
    "bra.uni $L__BB0_2;\n$L__BB0_1:\nmatch.any.sync.b32 %r2, %r1, -1;\n$L__BB0_2:":
        "divergent warp",
    "sub.s32 %r2, %r1, %r1; div.s32 %r3, %r1, %r2;": r"division by zero .*kernels.ptx:\d+\)",
    "trap;": r"__trap \(kernels.ptx:\d+\)",
    # Memory that is not there.
    "mov.b64 %rd7, kernel_param_2; ld.param.b32 %r2, [%rd7+4096];": "that are in no parameter",
    "ld.global.b64 %rd6, [%rd4+8000]; st.global.b64 [%rd5], %rd6;": "after the end of the array",
    "st.global.b8 [%rd1+-1], 3;": "writes 1 bytes before the array",
    "ld.shared.b32 %r2, [held+256];": r"uses 4 bytes at .* of dynamic shared memory.*\.ptx:\d+\)",
    "ld.shared.b32 %r2, [held+-4];": r"in no variable \(kernels\.ptx:\d+\)",
    "st.shared.v4.b32 [held+256], {%r2, %r2, %r2, %r2};": "uses 16 bytes",
    "ld.shared.b64 %rd6, [dynamic+32];": "uses 8 bytes at 32 of dynamic shared memory",
    # Addresses that a type does not take.
    "ld.global.u16 %rs1, [%rd4+1];": "misaligned access",
    "ld.global.nc.v2.b32 {%r2, %r3}, [%rd4+4];": "misaligned access",
    "ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [held+8];": "misaligned access",
    "atom.global.add.u32 %r2, [%rd4+2], 1;": "misaligned access",
}  # fmt: skip


@each(("body", "message"), WRONG.items())
def test_what_is_wrong_is_found(body, message):
    with pytest.raises(LaunchError, match=message):
        run(body, range(64), among=WRONG)


def test_races_are_found_on_lines_of_ptx():
    body = "st.shared.b32 [held], %r1; bar.warp.sync -1; ld.shared.b32 %r2, [held];"
    with pytest.raises(LaunchError, match=r"shared memory that thread \d+ .*kernels\.ptx:\d+"):
        run(body, range(32), races=True)


# ---- refusals ----------------------------------------------------------------------------------

REFUSED = {
    "add.sat.s32 %r2, %r2, %r2;": "instruction add.sat.s32 not known",
    "add.f64 %fd1, %fd1, %fd1;": "instruction add.f64 not known",
    "shfl.idx.b32 %r2, %r3, 0, 31;": "not known",
    "bar.sync 0, 64;": "barrier that is not the first, or not of the whole block",
    "mov.u32 %r2, %clock;": "%clock is not declared",
    "mov.u32 %r2, elsewhere;": "symbol elsewhere not known",
    "mov.b64 %rd6, {%r2, %r3, %r4};": "not known|not declared|needed",
    "add.s32 %r2, %rd1, 1;": "%rd1 of type b64 where b32 is needed",
    "add.s64 %rd2, %rd1, %r2;": "%r2 of type b32 where b64 is needed",
    "add.rn.f64 %fd1, %rd1, 1;": "operand 1 not known as f64",
    "add.s32 %r2, %r2, 4294967296;": "4294967296 is too large for b32",
    "add.s32 %r2, %r2;": "2 operands where 3 are known",
    "ld.local.b32 %r2, [%rd4];": "not known",
    "ld.global.b32 %r2, [%rd4+%r3];": "address .* not known",
    "ld.param.b64 %rd6, [kernel_param_2];": "8 bytes at 0 of parameter kernel_param_2",
    "mov.b32 %r2, kernel_param_0;": "type b32 not known",
    "st.param.b32 [kernel_param_2], %r2;": "not known",
    "st.global.nc.b32 [%rd4], %r2;": "not known",
    "atom.global.add.f64 %fd1, [%rd4], %fd2;": "atomic operation not known",
    "bra $L__BB7_1;": "label not known",
    "@%r2 mov.u32 %r3, 0;": "%r2 of type b32 where pred is needed",
    ".reg .b32 %r<3>;": "registers declared before",
    ".shared .align 4 .b8 held[4];": "variable declared before",
    '.pragma "frequency 3";': "not known in a kernel",
    "mov.u32 %r2, 0; mov.u32 %r3, 0;": "not known",
}


@each("line", REFUSED)
def test_refusals_name_the_line(line):
    with pytest.raises(PtxError, match=rf"^some\.ptx:{FIRST_LINE}: .*({REFUSED[line]})") as refusal:
        translate(f"{BEGINNING}{HEAD % 0}{line}\nret;\n}}\n", "some.ptx")
    assert str(refusal.value).endswith(line)
    assert translate(kernels_of([""]), "some.ptx")


OUTSIDE_OF_KERNELS = {
    ".address_size 32": "not known outside of a kernel",
    ".global .align 4 .b8 table[4];": "not known outside of a kernel",
    "mov.u32 %r1, 0;": "not known outside of a kernel",
    ".visible .entry other(\n.param .align 8 .b8 other_param_0[40]\n)": "parameter not known",
    ".visible .entry other(\n)\n.reqntid 64, 1, 1\n{\n}": "not known before a kernel's body",
}


@each("line", OUTSIDE_OF_KERNELS)
def test_what_is_not_known_outside_of_kernels(line):
    with pytest.raises(PtxError, match=OUTSIDE_OF_KERNELS[line]):
        translate(f"{kernels_of([''])}{line}\n{{\n}}\n", "some.ptx")


def test_what_has_no_effect():
    """How often a loop is unrolled, and which bytes of what is read are used."""
    pragmas = '.pragma "nounroll"; .pragma "used_bytes_mask 0xf0f"; .pragma "used_bytes_mask 4095";'
    meant = translate(kernels_of(["\n\n"]), "some.ptx").split()
    assert translate(kernels_of([pragmas]), "some.ptx").split() == meant


def test_a_kernel_must_end():
    with pytest.raises(PtxError, match="a kernel that does not end"):
        translate(BEGINNING + HEAD % 0, "some.ptx")
