"""``mcage trace emulate``: kernels become traces, and whatever is wrong ends in a line or two."""

import json
import os
import re
import tempfile
from dataclasses import replace
from hashlib import blake2b
from importlib.util import find_spec
from itertools import product

import check_triton_versions
import numpy as np
import pytest
from amd_tools import needs_clang, needs_library, needs_objdump
from engine_cases import daily
from gpu_samples import PROCESSORS, SAMPLES
from places import ROOT, shown_files
from record_modern_kernels import recorded_on
from tables import each

from mcage import open_results
from mcage.errors import UserError
from mcage.geometry import preset
from mcage.traces import WRITE, load_trace
from mcage.traces.library import bundled_trace
from mcage.tracing.emulation import code_object, compilers, record, waves
from mcage.tracing.emulation.emulate import GEOMETRIES
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.record import record_kernel

SAXPY = """__kernel void saxpy(__global const float *x, __global float *y, float a, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
CHECK = """TOLERANCE = 1e-6
def expected(x, y, a, n):
    return {"y": a * x.astype(float) + y}
"""
CALL = ("--arch", "gfx900", "--grid", "4", "--block", "64")
GIVEN = "x=f32[256]~normal y=f32[256]~ones a=2.5 n=256"
RUN = ("trace", "emulate", "k.cl", *CALL, "--args", GIVEN, "--out", "t.h5")


@pytest.fixture
def said_of(refusal, tmp_path):
    """What is said of a source that is refused."""

    def said(source, *options):
        (tmp_path / "k.cl").write_text(source)
        return refusal(*RUN, *options)

    return said


def of_sample(arch="gfx90a", kernel="saxpy"):
    """Arguments that emulate a kernel of the samples."""
    inputs = SAMPLES / f"{kernel}.py"
    return [
        *("trace", "emulate", SAMPLES / f"{arch}.co", "--arch", arch),
        *("--entry", kernel, "--args", inputs, "--out", "t.h5"),
    ]


def changed(arguments, **options):
    """The same with other options; None leaves one out."""
    arguments = list(arguments)
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if option in arguments:
            place = arguments.index(option)
            del arguments[place : place + 2]
        if value is not None:
            arguments += [option, value]
    return arguments


BUNDLED = [("softmax", "gfx900"), ("spmv", "gfx90a"), ("swiglu", "gfx1100"), ("rope", "nvidia")]
"""Bundled traces of each slice, whose registers depend on how the compiler treats floats."""


@needs_clang
@pytest.mark.parametrize(("kernel", "place"), daily(BUNDLED, BUNDLED[:1]))
def test_a_bundled_trace_is_what_its_source_becomes(kernel, place):
    """With the compiler of the bundle; so without -ffast-math, as a driver compiles."""
    slice_name = GEOMETRIES.get(place, place)
    bundled, trace = bundled_trace(f"{kernel}.{slice_name}"), recorded_on(kernel, place).trace
    assert trace.geometry == preset(slice_name)
    assert trace.caveat == bundled.caveat
    assert ("instructions" in trace.caveat) == (place == "nvidia")
    if bundled.source["compiler"] != trace.source["compiler"]:
        pytest.skip("another compiler, which may make other instructions")
    for fact in ("options", "digests"):
        assert bundled.source[fact] == trace.source[fact]
    assert bundled.digest() == trace.digest()


@needs_clang
def test_a_kernel_is_compiled_run_checked_and_recorded(command, tmp_path):
    (tmp_path / "k.cl").write_text(SAXPY)
    (tmp_path / "check.py").write_text(CHECK)
    code, out, said = command(*RUN, "--check", "check.py", "--json")
    assert (code, said) == (0, "")
    facts = json.loads(out)
    assert facts["errors"]["y"] <= 1e-6
    trace = load_trace(tmp_path / "t.h5")
    assert facts["digest"] == trace.digest()
    assert (facts["windows"], facts["writes"]) == (trace.windows, trace.writes)
    assert trace.windows == 1  # four waves on four SIMD units
    assert facts["source"]["compiler"].startswith("Debian clang") or "clang" in out
    assert facts["source"]["inputs"]["x"] == "float32[256]"
    assert command("trace", "validate", "t.h5")[0] == 0
    again = command(*RUN)
    assert again[0] == 0
    assert "saxpy gfx900" in again[1]
    assert load_trace(tmp_path / "t.h5").digest() == facts["digest"]


def digests_of(command, *options):
    """Digests that the trace of saxpy in ``k.cl`` keeps."""
    code, out, said = command(*RUN, "--json", *options)
    assert (code, said) == (0, "")
    return json.loads(out)["source"]["digests"]


@needs_clang
@pytest.mark.slow
def test_a_trace_says_by_digest_what_was_compiled_and_run(command, tmp_path):
    """Also of a source that its check replaces after it was compiled, and of included files."""
    source, included = tmp_path / "k.cl", tmp_path / "a b" / "scale #$.h"
    included.parent.mkdir()
    included.write_text("#define SCALE(x) (x)\n")
    source.write_text('#include "scale #$.h"\n' + SAXPY.replace("x[i] +", "SCALE(x[i]) +"))
    folder = ("--flags", "'-Ia b'")
    first = digests_of(command, *folder)
    assert load_trace(tmp_path / "t.h5").source["included"] == ["scale #$.h"]
    assert digests_of(command, *folder) == first

    def changed(*options):
        found = digests_of(command, *folder, *options)
        return [name for name in first if found[name] != first[name]]

    assert changed("--inputs", "1") == ["inputs"]
    included.write_text("#define SCALE(x) (x) // a comment\n")
    assert changed() == ["source"]
    included.write_text("#define SCALE(x) (-x)\n")
    assert changed() == ["source", "code_object"]
    source.write_text(SAXPY)
    plain = digests_of(command)
    assert plain["source"] == blake2b(SAXPY.encode(), digest_size=16).hexdigest()
    check = CHECK.replace("    return", "    open('k.cl', 'w').write('nothing')\n    return")
    (tmp_path / "check.py").write_text(check)
    assert digests_of(command, "--check", "check.py") == plain
    assert source.read_text() == "nothing"


@pytest.mark.slow
@needs_clang
@each("name", ["k.cl", "inner.h"])
def test_a_source_that_changes_while_it_is_compiled_is_refused(monkeypatch, tmp_path, name):
    (tmp_path / "k.cl").write_text('#include "inner.h"\n' + SAXPY)
    (tmp_path / "inner.h").write_text("// nothing\n")
    run_tool = compilers.run_tool

    def meanwhile(command, place=""):
        if "-c" in command:
            (tmp_path / name).write_text("// edited\n" + (tmp_path / name).read_text())
        return run_tool(command, place)

    monkeypatch.setattr(compilers, "run_tool", meanwhile)
    with pytest.raises(UserError, match=r"k\.cl: the source has changed while it was compiled"):
        compilers.compile_opencl(tmp_path / "k.cl", "gfx900", [])


PASSED_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (1,), (64,), 0
def arguments(random):
    p = np.array((2.0, 50), [("factor", "f4"), ("count", "i4")])
    v, x = np.arange(4, dtype="f4"), random.normal(size=64).astype("f4")
    return {"p": p, "v": v, "none": None, "x": x, "a": 3, "y": np.zeros(64, "f4")}
def expected(x, none, p, v, a, y):
    return {"y": np.where(np.arange(64) < p["count"], p["factor"] * x, a * v[1])}
"""


GROUPS_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (1, 1, 2), (20, 2, 2), 2e-6
def arguments(random):
    x = random.integers(-50, 50, 160)
    made = {f"x_{t}": x.astype(d) for t, d in (("int", "i4"), ("float", "f4"), ("long", "i8"))}
    made["x_long"] <<= 40
    return made | {f"out_{t[2:]}": np.zeros(1280, x.dtype) for t, x in made.items()} | {
        "n": np.zeros(2240, "u4")}
def expected(n, **of):
    said, lanes = {}, LANES
    for kind in ("int", "float", "long"):
        x, rows = of[f"x_{kind}"], []
        least = -np.inf if kind == "float" else np.iinfo(x.dtype).min
        for first in [g + w for g in (0, 80) for w in range(0, 80, lanes)]:
            wave = x[first : min(first + lanes, first // 80 * 80 + 80)]
            one = np.ones_like(wave)
            highest = np.maximum.accumulate(wave)
            rows.append(np.stack([one * wave.sum(), one * wave.min(), one * wave.max(),
                wave.cumsum(), wave.cumsum() - wave, np.append(least, highest[:-1]),
                one * wave[3], wave.reshape(-1, 2)[:, ::-1].reshape(-1)], axis=1))
        said[f"out_{kind}"] = np.concatenate(rows)
    i, x = np.arange(160), of["x_int"]
    local = i % 80
    size = np.minimum(lanes, 80 - local // lanes * lanes)
    wave = i // 80 * 9 + local // lanes
    true = lambda some, how: np.array([how(some[wave == of]) for of in wave])
    ctz = [32 if number == 0 else (int(number) & -int(number)).bit_length() - 1 for number in x]
    z, y = i // 80 * 2 + local // 40, local // 20 % 2
    facts = [size, 0 * i + lanes, 0 * i - (-80 // lanes), local // lanes, local % lanes, local,
             (z * 2 + y) * 20 + local % 20, true(x > 40, np.any), true(x < 40, np.all), ctz,
             *(0 * i + number for number in (3, 2, 20, 2))]
    return said | {"n": np.stack(facts, axis=1)}
"""


FLAT_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (1,), (64,), 0
def arguments(random):
    return {"y": np.arange(64, dtype="i4"), "old": np.zeros(64, "i4"), "t": 256}
def expected(y, old, t):
    i = np.arange(64)
    t, mine = 100 * i, 10 * i + (i & 3)
    which = np.choose(i % 3, [mine, t, y]) + 7
    old = which + np.where(i % 3, which, 0)
    t, mine = np.where(i % 3 == 1, which + 5, t), np.where(i % 3 == 0, which, mine)
    return {"old": old, "y": t + mine + np.where(i % 3 == 2, which + 5, 0)}
"""


CALLS_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (1,), (64,), 0
def arguments(random):
    return {"y": np.zeros(64, "i4")}
def inner(p, n):
    own = [p[k & 3] * k + n for k in range(8)]
    s = sum(own[(k + n) & 7] * (k + 1) for k in range(8))
    p[n & 3] += s
    return s
def of(i):
    p = [i, 2 * i, 3, 4]
    a = inner(p, i) + inner(p, i + 1)
    return a + p[0] + 3 * p[1] + 5 * p[2] + 7 * p[3]
def expected(y):
    return {"y": [of(i) for i in range(64)]}
"""
"""The stack pointer counts bytes of a wave, where an address counts those of a lane."""


THREE_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (2, 3, 4), (5, 4, 6), 0
def arguments(random):
    return {"x": np.zeros(2880, "i4")}
def expected(x):
    return {"x": np.arange(24)[:, None] * 10000 + np.arange(120)}
"""
"""Ids of work-items come in three registers, or packed into one."""


WORK_GROUPS_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (3,), (200,), 0
def arguments(random):
    x, f = random.integers(-50, 50, 600).astype("i4"), random.normal(size=600).astype("f4")
    return {"x": x, "f": f, "y": np.zeros(4200, "i4"), "z": np.zeros(1200, "f4"),
            "h": np.zeros(600, "f2"), "t": 800}
def expected(x, f, y, z, h, t):
    short = f.astype("f2")
    too_far = np.abs(short.astype("f4")) > np.abs(f)
    short = np.where(too_far, np.nextafter(short, np.float16(0)), short)
    x, f, one = x.reshape(3, 200), f.reshape(3, 200), np.ones((3, 200), "i4")
    whole = lambda some: some[:, None] * one
    highest = np.maximum.accumulate(x, axis=1)
    before = np.concatenate([whole(np.full(3, -2**31))[:, :1], highest[:, :-1]], axis=1)
    rows = [whole(x.sum(1)), x.cumsum(1), before, whole(x[:, 70]), whole((x > 48).any(1)),
            whole((x < 49).all(1)), (x.astype(int) * x * 2**40 >> 32) + x]
    return {"y": np.stack(rows), "z": np.stack([whole(f.min(1)), short.reshape(3, 200)]),
            "h": short}
"""


INDEXED_INPUTS = """import numpy as np
GRID, BLOCK, TOLERANCE = (1,), (256,), 0
def arguments(random):
    x = random.integers(-2**31, 2**31, 4096).astype("i4")
    return {"x": x, "y": np.zeros(256, "i4"), "n": 40}
def expected(x, y, n):
    w, a, i = x.reshape(256, 16).copy(), np.arange(256, dtype="i4"), np.arange(256)
    for t in range(16, n):
        v = w[:, t & 15] + (w[:, (t - 7) & 15] ^ w[i, a & 15])
        w[:, t & 15] = v
        a = a * np.int32(31) + v
    stack, top = np.zeros((256, 48), "i4"), np.zeros(256, "i4")
    for t in range(40):
        push = a >> (t & 31) & 1 == 1
        pop = ~push & (top > 0)
        stack[i[push], top[push]] = w[push, t & 15] + t
        top += np.where(push, 1, np.where(pop, -1, 0)).astype("i4")
        a[pop] += stack[i[pop], top[pop]]
    return {"y": a}
"""
"""Arrays in registers: indexes of a wave, and of each work-item; a stack in private memory."""


KERNELS = {
    "passed": ("passed", PASSED_INPUTS, ""),
    "groups": ("groups", GROUPS_INPUTS, ""),
    "groups of OpenCL 2": ("groups", GROUPS_INPUTS, "-cl-std=CL2.0"),
    "flat": ("flat", FLAT_INPUTS, "-cl-std=CL2.0"),
    "calls": ("calls", CALLS_INPUTS, ""),
    "work-groups": ("work_groups", WORK_GROUPS_INPUTS, ""),
    "indexed": ("indexed", INDEXED_INPUTS, ""),
    "three dimensions": ("three_dimensions", THREE_INPUTS, ""),
}
"""Source among the samples, the Python file that says what it computes, and options of clang."""

DAILY = {
    *(("groups", "gfx1100"), ("calls", "gfx1030"), ("three dimensions", "gfx942")),
    *(("indexed", "gfx90a"), ("work-groups", "gfx1030")),
}


@needs_clang
@needs_library
@pytest.mark.parametrize(
    ("kernel", "arch"),
    daily(product(KERNELS, PROCESSORS), DAILY),
)
def test_a_kernel_computes_what_its_python_file_says(command, tmp_path, kernel, arch):
    source, inputs, flags = KERNELS[kernel]
    (tmp_path / "k.cl").write_text((SAMPLES / f"{source}.cl").read_text())
    (tmp_path / "k.py").write_text(inputs.replace("LANES", "64" if "gfx9" in arch else "32"))
    run = ("trace", "emulate", "k.cl", "--arch", arch, "--entry", "k", "--args", "k.py")
    assert command(*run, f"--flags={flags}", "--out", "t.h5")[::2] == (0, "")


@needs_clang
def test_a_kernel_without_arguments_that_does_nothing(refusal, tmp_path):
    """It has a descriptor of its own beside that of the other kernel."""
    (tmp_path / "k.cl").write_text((SAMPLES / "three_dimensions.cl").read_text())
    said = refusal(
        "trace", "emulate", "k.cl", *CALL, "--entry", "none", "--args", "", "--out", "u.h5"
    )
    assert said == "error: k.cl: the recorded waves write no register\n"


ARITHMETIC = """
__kernel void f(__global const float *x, __global float *guarded, __global float *compensated,
                __global float *rounded, __global float *small, __global float *quotient,
                __global float *sine, __global float *vectors, __global float *parts) {
    int i = get_global_id(0);
    float v = x[i], sum = 1.0f, lost = 0.0f, whole;
    guarded[i] = v != v ? 0.0f : v;
    for (int k = 0; k < 64; k++) {
        float term = x[k] * 1e-8f - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    compensated[i] = sum - lost;
    rounded[i] = (v + 12582912.0f) - 12582912.0f;
    small[i] = v * 1e-42f;
    quotient[i] = v / 3e38f;
    sine[i] = sin(v);
    if (i < 32) vstore4(2.0f * vload4(i, x), i, vectors);
    parts[i] = fract(v, &whole) + whole;
}
"""
OUTPUTS = ["guarded", "compensated", "rounded", "small", "quotient", "sine", "vectors", "parts"]


@needs_clang
@needs_library
@pytest.mark.parametrize("arch", daily(PROCESSORS, ["gfx90a"]))
def test_arithmetic_is_that_of_an_opencl_driver(tmp_path, arch):
    """By default nothing is reordered, NaNs and subnormal numbers are there, functions are right.

    Bounds in units of the last place are those of OpenCL C 1.2, section 7.4.
    """
    (tmp_path / "k.cl").write_text(ARITHMETIC)
    x = np.random.default_rng(7).uniform(1, 1e4, 128).astype("f4")
    x[100], x[101] = 1e4, np.nan
    given = {"x": x} | {name: np.zeros(128, "f4") for name in OUTPUTS}
    found = record_kernel(Program.of(tmp_path / "k.cl", arch, given, (2,), (64,))).outputs
    exact = x.astype(float)
    wanted = {
        "guarded": (np.where(np.isnan(x), 0, exact), 0),
        "compensated": (np.full(128, 1 + exact[:64].sum() * float(np.float32(1e-8))), 1),
        "rounded": (np.rint(exact), 0),
        "small": (exact * float(np.float32(1e-42)), 0.5),
        "quotient": (exact / float(np.float32(3e38)), 2.5),
        "sine": (np.sin(exact), 4),
        "vectors": (2 * exact, 0),
        "parts": (exact, 0),
    }
    for name, (value, ulps) in wanted.items():
        unit = np.spacing(np.abs(value).astype("f4")).astype(float)
        off = np.abs(found[name] - value) <= ulps * unit
        assert (off | np.isnan(found[name]) & np.isnan(value)).all(), name


@pytest.mark.slow
@needs_clang
@each(
    ("body", "words"),
    [
        ('if (*y) printf("%d", *y);', "uses printf, which mcage does not emulate"),
        ("y[0] = y[0] + __builtin_readcyclecounter();", "s_memtime"),
        ("y[0] = __builtin_amdgcn_s_getreg(0x1804);", "s_getreg_b32"),
        ("y[0] = sub_group_ballot(y[1]);", "identifier 'sub_group_ballot'"),
        ("y[0] = get_image_width(*(image2d_t *)y);", "image2d_t"),
    ],
)
def test_what_is_not_emulated_has_a_name(refusal, tmp_path, body, words):
    (tmp_path / "k.cl").write_text(f"__kernel void k(__global int *y) {{ {body} }}")
    run = ("trace", "emulate", "k.cl", "--arch", "gfx90a", "--grid", "1", "--block", "64")
    said = refusal(*run, "--args", "y=i32[64]~ones", "--out", "t.h5")
    assert words in said
    assert "0x1" not in said or "instruction" in said


@needs_clang
@each(
    ("source", "words"),
    [
        (SAXPY.replace("a * x", "a * z"), "k.cl: clang refuses it: k.cl:3:27: error: use of"),
        (f"float4 other(uint at, float4 x);{SAXPY.replace('a * x[i]', 'other(i, a).x')}",
         "k.cl: calls other, which n"),
        ("__kernel void f(__global int *x) { __local int a[99999]; a[*x] = 1; *x = a[x[1]]; }",
         "error: local memory (399996) exceeds limit (65536) in 'f'\n"),
        (f"float one(const float *x) {{ return *x; }}{SAXPY.replace('a * x[i]', 'one(x + i)')}",
         "of pointer; it is OpenCL C 2.0: --flags=-cl-std=CL2.0"),
    ],
)  # fmt: skip
def test_sources_that_are_refused(said_of, tmp_path, source, words):
    said = said_of(source)
    assert words in said
    assert said.count("\n") <= 2
    assert not (tmp_path / "t.h5").exists()


@pytest.mark.slow
@needs_clang
@needs_library
@each(
    ("function", "name"),
    [
        ("vload4(i, x).x", "vload4(unsigned long, float const AS0*)"),
        ("sin(x[i]) + fract(a, y)", "fract(float, float AS0*)"),
    ],
)
def test_missing_functions_are_named_whole(said_of, function, name):
    """libclc has no functions that take the generic pointers of OpenCL C 2.0."""
    said = said_of(SAXPY.replace("a * x[i]", function), "--flags=-cl-std=CL2.0")
    assert f"calls {name}, which neither the source nor libclc defines" in said
    assert said.endswith("; libclc is of OpenCL C 1.2: leave -cl-std=CL2.0 out\n")


@pytest.mark.slow
@needs_objdump
@each("arch", PROCESSORS)
def test_code_objects_of_every_processor(command, tmp_path, arch):
    """Two-dimensional work-groups, whose ids come packed or not; LDS, a local buffer, atomics."""
    for kernel in ("saxpy", "mixed"):
        code, out, said = command(*of_sample(arch, kernel), "--json")
        assert (code, said) == (0, ""), said
        assert json.loads(out)["errors"].keys() == {"y" if kernel == "saxpy" else "counts"}
        assert command("trace", "validate", "t.h5")[0] == 0


@needs_objdump
@each(
    ("options", "words"),
    [
        ({"entry": None}, "gfx90a.co: has 2 kernels; choose one with --entry: saxpy, mixed"),
        ({"entry": "gemm"}, "gfx90a.co: has no kernel gemm; there are saxpy, mixed"),
        ({"arch": "gfx1201"}, "processor gfx1201 is not emulated; choose one of gfx900"),
        ({"arch": "gfx900"}, "gfx90a.co: is for gfx90a, not for gfx900"),
        ({"grid": "0"}, "--grid (0,): must be"),
        ({"grid": "2,x"}, "--grid '2,x': must be X or X,Y or X,Y,Z"),
        ({"grid": "4194304,2"}, "a grid at most 4,194,304 work-groups"),
        ({"block": "1025"}, "a block has at most 1,024 work-items"),
        ({"args": None}, "--args is missing"),
        ({"args": GIVEN}, "saxpy: argument width (int) is missing; the kernel takes x (float*)"),
        ({"args": "x=f32[9] y=f32[640] a=1 n=640 width=32"},
         "gfx90a.co: instruction global_load_dword"),
        ({"most_instructions": "50"}, "more than 50 wave instructions"),
        ({"tolerance": "0"}, "output y differs from"),
        ({"flags": "-D'"}, "--flags \"-D'\": No closing quotation"),
    ],
)  # fmt: skip
def test_requests_that_are_refused(refusal, tmp_path, options, words):
    (tmp_path / "t.h5").write_bytes(b"")
    if "grid" not in options and options.get("args"):
        options |= {"grid": "2,5", "block": "16,4"}
    said = refusal(*changed(of_sample(), **options))
    assert words in said
    assert said.count("\n") <= 2
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("t.h5", b"")]


@needs_clang
@needs_library
def test_a_function_that_no_kernel_calls_may_need_what_is_not_emulated(tmp_path):
    """An OpenCL driver leaves it out as well."""
    path = tmp_path / "k.cl"
    path.write_text(
        "float pixel(__read_only image2d_t image, sampler_t sampler) {\n"
        "    return read_imagef(image, sampler, (int2)(0, 0)).x;\n"
        "}\n" + SAXPY
    )
    x, y = np.arange(64, dtype="f4"), np.ones(64, "f4")
    program = Program.of(path, "gfx1030", {"x": x, "y": y, "a": 2.0, "n": 64}, (1,), (64,))
    recorded = record_kernel(program)
    assert recorded.outputs["y"].tolist() == (2 * x + 1).tolist()
    assert "-amdgpu-internalize-symbols" in recorded.source["options"]


@needs_clang
def test_hidden_arguments_behind_those_of_triton(monkeypatch, tmp_path):
    """Triton does not name its arguments; what comes behind its own is not for it to say."""
    (tmp_path / "k.cl").write_text(
        "__kernel void count(__global int *y, __global int *scratch) {\n"
        "    __constant int *hidden = (__constant int *)__builtin_amdgcn_implicitarg_ptr();\n"
        "    y[__builtin_amdgcn_workgroup_id_x()] = scratch ? -1 : hidden[0];\n"
        "}\n"
    )
    compiled = compilers.compile_opencl(tmp_path / "k.cl", "gfx90a", [])
    unnamed = replace(compiled, kernel="count", names=["target"])
    monkeypatch.setattr(record, "_compiled", lambda *program: unnamed)
    arguments = {"target": np.zeros(3, np.int32)}
    program = Program.of(tmp_path / "k.cl", "gfx90a", arguments, (3,), (64,))
    assert record_kernel(program).outputs["target"].tolist() == [3, 3, 3]


@needs_clang
def test_one_array_for_two_arguments_is_one_buffer(tmp_path):
    (tmp_path / "k.cl").write_text(
        "__kernel void twice(__global const int *x, __global int *y) {\n"
        "    int i = __builtin_amdgcn_workitem_id_x();\n"
        "    y[i] = 2 * x[i];\n"
        "}\n"
    )
    x = np.arange(64, dtype=np.int32)
    program = Program.of(tmp_path / "k.cl", "gfx90a", {"x": x, "y": x}, (1,), (64,))
    outputs = record_kernel(program).outputs
    assert outputs["x"].tolist() == outputs["y"].tolist() == (2 * x).tolist()


@needs_objdump
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_kernels_in_triton(tmp_path, arch):
    """`scripts/validation/check_triton_versions.py` runs them with other versions of Triton."""
    assert check_triton_versions.check(tmp_path, [arch])


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_what_triton_refuses_is_named(tmp_path):
    (tmp_path / "halves.py").write_text(check_triton_versions.SMALL)
    with pytest.raises(UserError, match="refuses it for gfx1030: unsupported target: 'gfx1030'"):
        record_kernel(Program.of(tmp_path / "halves.py", "gfx1030"))


def test_missing_tools_are_named(refusal, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    (tmp_path / "k.cl").write_text(SAXPY)
    for source in ("k.cl", SAMPLES / "gfx900.co"):
        said = refusal("trace", "emulate", source, *CALL, "--args", GIVEN, "--out", "t.h5")
        assert "is not installed; Debian has it in" in said
        assert "apt install clang-19 lld-19 llvm-19" in said


@needs_clang
@each(
    ("does", "words"),
    [
        ("kill -KILL $$", "was ended by signal 9 (SIGKILL); out of memory?"),
        ("kill -SEGV $$", "was ended by signal 11 (SIGSEGV)\n"),
        ("kill -40 $$", "was ended by signal 40\n"),
        ("kill -XFSZ $$", "writes more than 64 MiB"),
        ("kill -XCPU $$", "takes more than 1 s of processor time; MCAGE_COMPILER_SECONDS allows"),
        ("echo LLVM ERROR: out of memory >&2; exit 1", "has run out of memory; it may take 4,096"),
        ("echo PLEASE submit a bug report >&2; exit 1", "has crashed: a defect of it, or too"),
        ("exit 3", "clang refuses it: without a word"),
    ],
)  # fmt: skip
def test_compilers_that_end_too_early(said_of, monkeypatch, tmp_path, does, words):
    compiler_that(does, monkeypatch, tmp_path)
    said = said_of(SAXPY)
    assert said.startswith("error: k.cl: clang")
    assert words in said


def compiler_that(does, monkeypatch, tmp_path):
    """A clang of a few words of shell, which may take a second of processor time."""
    program = tmp_path / "clang-25"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("MCAGE_COMPILER_SECONDS", "1")


@needs_clang
@pytest.mark.slow
def test_a_compiler_without_end(said_of, monkeypatch, tmp_path):
    """Time is that of the processor, of which a machine may give a small part."""
    monkeypatch.setattr(code_object, "_WAITING", 600)
    compiler_that("while :; do :; done", monkeypatch, tmp_path)
    assert "takes more than 1 s of processor time; MCAGE_COMPILER_SECONDS" in said_of(SAXPY)


@pytest.mark.slow
@needs_clang
def test_a_crash_of_clang_leaves_no_file(said_of, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    said = said_of(f"#pragma clang __debug crash\n{SAXPY}")
    assert re.fullmatch(r"error: k\.cl: clang-\d+ has crashed: a defect of it, or .*\n", said)
    assert not list((tmp_path / "temporary").iterdir())


@needs_clang
@each("text", ["0", "x", "1.5", "-1", "10000000"])
def test_times_of_compilers_that_are_refused(said_of, monkeypatch, text):
    monkeypatch.setenv("MCAGE_COMPILER_SECONDS", text)
    said = said_of(SAXPY)
    assert said == f"error: MCAGE_COMPILER_SECONDS is '{text}', must be 1 ... 999999 seconds\n"


@needs_objdump
def test_a_long_run_says_how_far_it_is(command, monkeypatch):
    monkeypatch.setattr(waves, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(waves, "_STEPS_AT_ONCE", 40)
    code, _, said = command(*of_sample())
    assert code == 0
    *emulated, recorded = said.splitlines()
    told = [int(line.split()[1].replace(",", "")) for line in emulated]
    assert told == sorted(told)
    assert len(told) > 3
    assert emulated[-1].endswith(" wave instructions, of at most 20,000,000")
    assert re.fullmatch(r"recorded ([\d,]+) of \1 cycles", recorded)


SOLVE = """__kernel void solve(__global const float *a, __global const float *b,
                    __global volatile float *x, __global volatile int *ready, int rows) {
    int row = __builtin_amdgcn_workgroup_id_x();
    float sum = b[row];
    for (int k = 0; k < row; k++) {
        while (!ready[k]);
        sum -= a[row * rows + k] * x[k];
    }
    x[row] = sum / a[row * rows + row];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    ready[row] = 1;
}
"""
SOLVED = """import numpy as np
GRID, BLOCK, TOLERANCE = (48,), (1,), 1e-5

def arguments(random):
    a = np.tril(random.normal(0, 0.2, (48, 48)).astype(np.float32), -1) + 2 * np.eye(48)
    vectors = {"b": np.ones(48, np.float32), "x": np.zeros(48, np.float32)}
    return {"a": a.astype(np.float32), **vectors, "ready": np.zeros(48, np.int32), "rows": 48}

def expected(a, b, x, ready, rows):
    return {"x": np.linalg.solve(a.astype(float), b)}
"""


@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_a_wave_that_spins_lets_others_go_on(command, tmp_path, arch):
    """A triangular solve: each row waits for those before it."""
    (tmp_path / "k.cl").write_text(SOLVE)
    (tmp_path / "k.py").write_text(SOLVED)
    limit = ("--most-instructions", "40000")  # 27,111 and 32,429
    code, _, said = command(
        *("trace", "emulate", "k.cl", "--arch", arch, "--args", "k.py", "--out", "t.h5", *limit)
    )
    assert code == 0, said


@needs_objdump
@each(
    ("before", "after", "words"),
    [
        ("    return {", "    return 5, {", "saxpy.py: arguments returns no dict"),
        ('    return {"y"', '    return {"z"', "expected must return a dict of buffers"),
        ("TOLERANCE = 2e-7", "TOLERANCE = -1", "TOLERANCE is -1, must be 0 or more"),
    ],
)
def test_files_of_inputs_that_say_nothing(refusal, tmp_path, before, after, words):
    text = (SAMPLES / "saxpy.py").read_text()
    assert before in text
    (tmp_path / "saxpy.py").write_text(text.replace(before, after))
    assert words in refusal(*changed(of_sample(), args="saxpy.py"))


def test_a_file_of_inputs_prints_beside_the_results(command, tmp_path):
    """What a user's file prints goes to standard error: JSON stays JSON."""
    text = (SAMPLES / "saxpy.py").read_text()
    (tmp_path / "in.py").write_text(text.replace("    return {\n", "    print(5)\n    return {\n"))
    code, out, said = command(*changed(of_sample(), args="in.py"), "--json")
    assert (code, said) == (0, "5\n")
    assert json.loads(out)["windows"] == 3


@needs_objdump
@each(
    ("changed_by", "warned"),
    [
        ({}, []),
        ({"x": np.inf}, ["60 elements of output y have become infinite or no number"]),
        ({"x": 0, "y": np.inf}, ["the kernel has changed no buffer"]),
    ],
)
def test_what_speaks_against_outputs_that_nobody_compared(tmp_path, recwarn, changed_by, warned):
    """It is in facts and caveats; a comparison by the user stands for both."""
    numbers = {"x": 1, "y": 1, "n": 60} | changed_by
    arrays = {name: np.full(64, numbers[name], np.float32) for name in ("x", "y")}
    arguments = arrays | {"a": 2.5, "n": numbers["n"], "width": 64}
    request = (SAMPLES / "gfx90a.co", "gfx90a", arguments, (1,), (64,))
    recwarn.clear()
    doubted = record_kernel(Program.of(*request, entry="saxpy"))
    assert [str(each.message) for each in recwarn] == [f"{request[0]}: {line}" for line in warned]
    outputs = ["x", "y"] if "y" in changed_by else ["y"]
    assert list(doubted.source["not_compared"]) == outputs
    assert doubted.warnings == doubted.source.get("warnings", []) == warned
    caveats = ["approximate in time", f"outputs that nobody compared: {', '.join(outputs)}"]
    assert doubted.trace.caveat == "; ".join([*caveats, *warned])
    if "y" not in changed_by:
        y = doubted.outputs["y"].tolist()
        (tmp_path / "c.py").write_text(f"inf = 1e999\ndef expected(**of): return {{'y': {y}}}")
        compared = record_kernel(Program.of(*request, check=tmp_path / "c.py", entry="saxpy"))
        assert compared.trace.caveat == "approximate in time"
        assert not compared.warnings


UNTOUCHED = """__kernel void k(__global const float *x, __global float *y, __global float *z) {
    y[get_global_id(0)] = x[get_global_id(0)];
}
"""


@needs_clang
@needs_library
def test_caveats_of_outputs_reach_all_that_is_computed_of_a_trace(command, tmp_path):
    (tmp_path / "k.cl").write_text(UNTOUCHED)
    program = ("k.cl", "--arch", "gfx900", "--grid", "4", "--block", "64")
    program += ("--args", "x=f32[256]~normal y=f32[256] z=f32[256]")
    untouched = "output z holds what it held before the run"
    code, out, said = command("trace", "emulate", *program, "--out", "t.h5")
    assert (code, said) == (0, f"warning: k.cl: {untouched}\n")
    assert "not compared: z" in out
    caveat = f"approximate in time; outputs that nobody compared: y, z; {untouched}"
    sweep = ("sweep", "--kernel", "t.h5", "--technique", "baseline", "--instances", "2")
    code, out, said = command(*sweep, "--out", "s.h5")
    assert code == 0
    assert f"warning: trace 'k gfx900 cu0.simd0' is {caveat}" in said
    assert f"CAVEAT: k gfx900 cu0.simd0: {caveat}" in " ".join(out.split())
    code, out, said = command("inject", *program, "--instances", "2", "--out", "i.h5")
    assert code == 0
    assert f"warning: k.cl: {untouched}" in said
    assert f"CAVEAT: k gfx900 cu0.simd0: {caveat}" in " ".join(out.split())
    assert caveat in str(open_results(tmp_path / "i.h5").mcage.notes())


@needs_objdump
def test_lanes_without_a_work_item_write_nothing(command, tmp_path):
    """172 work-items are two waves of 64 lanes, and one of 44; the ninth wave is of the unit."""
    arguments = "x=f32[1200] y=f32[1200] a=2 n=1200 width=1"
    run = changed(of_sample(), args=arguments, grid="3", block="172")
    assert command(*run)[0] == 0
    trace = load_trace(tmp_path / "t.h5")
    masks = {int(mask) for mask in trace.exec_mask[trace.kind == WRITE]}
    assert masks == {2**64 - 1, 2**44 - 1}


@needs_clang
@needs_library
@pytest.mark.slow
def test_the_page_that_records_a_kernel(command, tmp_path, monkeypatch):
    """Files and the first command of docs/emulation.md, as they stand there."""
    text = (ROOT / "docs" / "emulation.md").read_text(encoding="utf-8")
    files = shown_files("emulation.md")
    assert list(files) == ["assign.cl", "assign.py"]
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = re.search(r"<!-- run -->\n```bash\n(.*?)```", text, re.S)[1].splitlines()
    monkeypatch.chdir(tmp_path)
    code, output, errors = command(*commands[0].split()[1:])
    assert code == 0, errors
    assert "distance is right" in output
    trace = load_trace("assign.h5")
    assert (trace.windows, trace.window_sizes, trace.cycles) == (160, (32,), 237_582)
