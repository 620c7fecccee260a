"""Does what is made of PTX do what the PTX ISA says, and is all else refused?

PTX by hand; `test_kernels_from_ptx` runs what NVRTC makes of the kernels.
"""

import numpy as np
import ptx_model
import pytest
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice, LaunchError
from host_gpu.ptx import KNOWN, PtxError, translate
from tables import each

pytestmark = needs_host_compiler

ONE, WARP = (1, 1, 1), (32, 1, 1)

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


# ---- instructions that compute -----------------------------------------------------------------

EDGES = (
    *(0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 0x7FFF),
    *(0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
)
NUMBERS = (
    *(0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 5e-324, -2.3e-308, 1e300, -1e308, 2.0**-1074, 2.5, -2.5),
    *(np.inf, -np.inf, np.nan, 2.0**31, 2.0**31 - 0.5, -(2.0**31) - 0.5, 2.0**32, 2.0**32 - 0.25),
    *(2.0**63, -(2.0**63), 2.0**64, 1e19, 1 + 2.0**-52, 1 - 2.0**-53, 3.0000000000000004),
)
SAMPLES = 256


def draw(rng, kind):
    """64 bits each for an operand: of edges, near to them, or anything."""
    if kind == "f64":
        anything = rng.normal(size=SAMPLES) * 10.0 ** rng.integers(-20, 21, SAMPLES)
        return np.where(rng.random(SAMPLES) < 0.6, rng.choice(NUMBERS, SAMPLES), anything).view(
            "u8"
        )
    anything = rng.integers(0, 2**64, SAMPLES, dtype=np.uint64)
    edges = rng.choice(np.array(EDGES, dtype=np.uint64), SAMPLES)
    near = edges + rng.integers(0, 3, SAMPLES, dtype=np.uint64) - np.uint64(1)
    return np.choose(rng.integers(0, 3, SAMPLES), (anything, edges, near))


def operands_of(instruction, form, rng):
    """Operands of an instruction that does not say that their result is anything."""
    raw = [draw(rng, kind) for kind in form.operands]
    if instruction.startswith(("div.", "rem.")) and form.result != "f64":
        width = ptx_model.width_of(form.result)
        divisor = raw[1] % np.uint64(2 ** (width - 1)) if width < 64 else raw[1] >> np.uint64(1)
        raw[1] = np.maximum(divisor, 1)  # 0, and -1 of the lowest number, may give anything
    return raw


REGISTERS = {8: "%rs", 16: "%rs", 32: "%r", 64: "%rd", 1: "%p"}


def register(kind, number):
    name = "%fd" if kind == "f64" else REGISTERS[ptx_model.width_of(kind)]
    return f"{name}{number + 10 * (name == '%rd')}"  # the first ten say where words are


def loaded(kind, number):
    """Put the 64 bits that an operand is made of from %rd10 into its register."""
    to = register(kind, number)
    if kind == "pred":
        return f"setp.ne.b64 {to}, %rd10, 0;"
    width = max(16, ptx_model.width_of(kind))
    return f"mov.b64 {to}, %rd10;" if width == 64 else f"cvt.u{width}.u64 {to}, %rd10;"


def stored(kind):
    """Put the result into %rd10."""
    of = register(kind, 8)
    if kind == "pred":
        return f"selp.b64 %rd10, 1, 0, {of};"
    width = max(16, ptx_model.width_of(kind))
    return f"mov.b64 %rd10, {of};" if width == 64 else f"cvt.u64.u{width} %rd10, {of};"


def computed(cases):
    """Results of instructions, each for operands of `SAMPLES` threads."""
    step, body, given = 8 * SAMPLES, [], []
    for number, (instruction, form, raw) in enumerate(cases):
        for place, (kind, values) in enumerate(zip(form.operands, raw, strict=True)):
            body += [f"ld.global.b64 %rd10, [%rd4+{step * len(given)}];", loaded(kind, place + 3)]
            given.append(values)
        operands = [register(form.result, 8)]
        operands += [register(kind, place + 3) for place, kind in enumerate(form.operands)]
        body += [f"{instruction} {', '.join(operands)};", stored(form.result)]
        body.append(f"st.global.b64 [%rd5+{step * number}], %rd10;")
    device = HostDevice(seed=2)
    results = device.zeros((len(cases), SAMPLES), np.uint64)
    arguments = [device.upload(np.stack(given)), results, np.int32(0)]
    module = device.module_from_ptx(kernels_of(["\n".join(body)]))
    module.launch("kernel0", ONE, (SAMPLES, 1, 1), arguments)
    return device.download(results)


PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_that_is_known_computes_what_the_isa_says(part):
    rng = np.random.default_rng(part)
    cases = [
        (name, form, operands_of(name, form, rng))
        for name, form in list(KNOWN.items())[part::PARTS]
    ]
    for (name, form, raw), results in zip(cases, computed(cases), strict=True):
        width = 64 if form.result in ("f64", "pred") else max(16, ptx_model.width_of(form.result))
        for operands, actual in zip(zip(*raw, strict=True), results.tolist(), strict=True):
            values = [int(value) for value in operands]
            value = ptx_model.result(name, form.operands, values)
            if form.result == "f64" and np.isnan(value):
                assert np.isnan(ptx_model.decoded("f64", actual)), (name, values)
                continue
            # A result of 8 bits fills its register with its sign, or with zeros.
            kind = form.result
            meant = ptx_model.encoded(kind, value)
            if kind in ("s8", "u8"):
                meant = ptx_model.decoded(kind, meant) % 2**width
            assert actual == meant, (name, list(map(hex, values)))


# ---- registers, parameters and memory, by hand ---------------------------------------------------

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


def source_of(mode, lane, operand, clamp):
    """Lane that a shuffle reads, and whether that lies within bounds."""
    segment, bits = clamp >> 8 & 31, operand & 31
    least = lane & segment
    bound = least | clamp & 31 & ~segment
    source = {
        "up": lane - bits,
        "down": lane + bits,
        "bfly": lane ^ bits,
        "idx": least | bits & ~segment,
    }[mode]
    valid = source >= bound if mode == "up" else source <= bound
    return (source if valid else lane), valid


CLAMPS = (31, 0, 7, 0x181F, 0x1800, 0x1C1F, 0x1010, 0x0305)
"""The last number of shuffles: of the whole warp, and of parts of it."""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode):
    cases = [(operand, clamp) for operand in (0, 1, 5, 16, 31, 33) for clamp in CLAMPS]
    body = "".join(
        f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {operand}, {clamp}, -1; selp.u32 %r3, 100, 0, %p1; "
        f"add.s32 %r2, %r2, %r3; cvt.u64.u32 %rd6, %r2; st.global.b64 [%rd5+{256 * number}], %rd6; "
        for number, (operand, clamp) in enumerate(cases)
    )
    device = HostDevice(seed=4)
    results = device.zeros((len(cases), 32), np.uint64)
    module = device.module_from_ptx(kernels_of([body]))
    module.launch("kernel0", ONE, WARP, [results, results, np.int32(0)])
    for case, actual in zip(cases, device.download(results).tolist(), strict=True):
        meant = [source_of(mode, lane, *case) for lane in range(32)]
        assert actual == [lane + 100 * valid for lane, valid in meant], case


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
    "ld.global.b64 %rd6, [%rd4+8]; st.global.b64 [%rd5], %rd6;": "after the end of the array",
    "st.global.b8 [%rd1+-1], 3;": "writes 1 bytes before the array",
    "ld.shared.b32 %r2, [held+256];": r"uses 4 bytes at .* of dynamic shared memory.*\.ptx:\d+\)",
    "ld.shared.b32 %r2, [held+-4];": r"in no variable \(kernels\.ptx:\d+\)",
    "st.shared.v4.b32 [held+256], {%r2, %r2, %r2, %r2};": "uses 16 bytes",
    "ld.shared.b64 %rd6, [dynamic+32];": "uses 8 bytes at 32 of dynamic shared memory",
    "ld.shared.u8 %rd6, [dynamic+-1];": "uses 1 bytes at -1 of",
    # Addresses that a type does not take.
    "ld.global.u16 %rs1, [%rd4+1];": "misaligned access",
    "ld.volatile.global.b64 %rd6, [%rd4+4];": "misaligned access",
    "ld.global.nc.v2.b32 {%r2, %r3}, [%rd4+4];": "misaligned access",
    "st.global.v2.b64 [%rd4+8], {%rd6, %rd6};": "misaligned access",
    "ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [held+8];": "misaligned access",
    "st.shared.b32 [held+1], 0;": "misaligned access",
    "atom.global.add.u32 %r2, [%rd4+2], 1;": "misaligned access",
}  # fmt: skip


@each(("body", "message"), WRONG.items())
def test_what_is_wrong_is_found(body, message):
    with pytest.raises(LaunchError, match=message):
        run(body, range(64), among=WRONG)


def test_messages_name_the_line():
    with pytest.raises(LaunchError, match=rf"__trap \(kernels\.ptx:{FIRST_LINE + 1}\)"):
        run("mov.u32 %r2, 0; trap;", [0])


def test_races_are_found_on_lines_of_ptx():
    body = "st.shared.b32 [held], %r1; bar.warp.sync -1; ld.shared.b32 %r2, [held];"
    with pytest.raises(LaunchError, match=r"shared memory that thread \d+ .*kernels\.ptx:\d+"):
        run(body, range(32), races=True)


# ---- refusals ----------------------------------------------------------------------------------

REFUSED = {
    "add.sat.s32 %r2, %r2, %r2;": "instruction add.sat.s32 not known",
    "add.f64 %fd1, %fd1, %fd1;": "instruction add.f64 not known",
    "mul.f64 %fd1, %fd1, %fd1;": "instruction mul.f64 not known",
    "shfl.idx.b32 %r2, %r3, 0, 31;": "not known",
    "vote.sync.uni.pred %p1, %p2, -1;": "not known",
    "bar.sync 0, 64;": "barrier that is not the first, or not of the whole block",
    "activemask.b32 %r2;": "not known",
    "mov.u32 %r2, %clock;": "%clock is not declared",
    "mov.u32 %r2, elsewhere;": "symbol elsewhere not known",
    "mov.b64 %rd6, {%r2, %r3, %r4};": "not known|not declared|needed",
    "add.s32 %r2, %rd1, 1;": "%rd1 of type b64 where b32 is needed",
    "add.s64 %rd2, %rd1, %r2;": "%r2 of type b32 where b64 is needed",
    "add.rn.f64 %fd1, %rd1, 1;": "operand 1 not known as f64",
    "add.s32 %r2, %r2, 4294967296;": "4294967296 is too large for b32",
    "add.s32 %r2, %r2;": "2 operands where 3 are known",
    "ld.global.v2.b32 {%r2, %r3, %r4}, [%rd4];": "3 operands where 2 are known",
    "ld.local.b32 %r2, [%rd4];": "not known",
    "ld.global.b32 %r2, [%rd4+%r3];": "address .* not known",
    "ld.param.b64 %rd6, [kernel_param_2];": "8 bytes at 0 of parameter kernel_param_2",
    "ld.param.b32 %r2, [kernel_param_9];": "parameter .* not known",
    "mov.b32 %r2, kernel_param_0;": "type b32 not known",
    "st.param.b32 [kernel_param_2], %r2;": "not known",
    "st.global.nc.b32 [%rd4], %r2;": "not known",
    "ld.nc.b32 %r2, [%rd4];": "not known",
    "atom.global.add.f64 %fd1, [%rd4], %fd2;": "atomic operation not known",
    "red.global.exch.b32 [%rd4], 1;": "atomic operation not known",
    "bra $L__BB7_1;": "label not known",
    "@%r2 mov.u32 %r3, 0;": "%r2 of type b32 where pred is needed",
    ".reg .b32 %r<3>;": "registers declared before",
    ".shared .align 4 .b8 held[4];": "variable declared before",
    ".reg .f32 %f<3>;": "not known in a kernel",
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
