"""Arguments of kernels: as text, from files, as a kernel reads them; and what outputs should be."""

import os
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from amd_tools import needs_clang, needs_objdump
from gpu_samples import SAMPLES
from tables import each

from mcage.errors import UserError
from mcage.tracing.emulation import code_object, program
from mcage.tracing.emulation.code_object import Argument, run_tool
from mcage.tracing.emulation.compilers import (
    PythonFile,
    arguments_from_text,
    bytes_by_value,
    checked_arguments,
    compile_opencl,
)
from mcage.tracing.emulation.program import Program, extent_of, options_of
from mcage.tracing.emulation.record import ready_kernel, record_kernel, relative_error


def given(text):
    return arguments_from_text(text, np.random.default_rng(1))


@each(
    ("text", "value"),
    [
        *[("a=5", 5), ("a=-0x10", -16), ("a=2.5", 2.5), ("a=-1e-3", -0.001), ("a=inf", np.inf)],
        ("a=u8[5]~index", np.arange(5, dtype=np.uint8)),
        ("a=f16[2,3]~ones", np.ones((2, 3), np.float16)),
        ("a=i64[2x3]", np.zeros((2, 3), np.int64)),
        ("a=f32[4]~normal", np.random.default_rng(1).normal(0, 1, 4).astype(np.float32)),
        ("a=f32[4]~normal(5,2)", np.random.default_rng(1).normal(5, 2, 4).astype(np.float32)),
        ("a=f64[4]~uniform(1,3)", np.random.default_rng(1).uniform(1, 3, 4)),
        *[("a=f32(2)", np.float32(2)), ("a=u8(0xff)", np.uint8(255)), ("a=None", None)],
        ("a=i8[4]~integers(-9,9)", np.random.default_rng(1).integers(-9, 9, 4).astype(np.int8)),
    ],
)
def test_arguments_as_text(text, value):
    found = given(text)["a"]
    assert type(found) is type(value)
    assert np.array_equal(found, value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype


def test_several_arguments_are_drawn_one_after_the_other():
    found = given("x=f32[4]~normal n=4 y=f32[4]~normal")
    assert list(found) == ["x", "n", "y"]
    assert not np.array_equal(found["x"], found["y"])


@each(
    ("text", "words"),
    [
        ("a", "--args 'a': must be NAME=VALUE"),
        ("a=1 a=2", "--args a: is there twice"),
        ("a=f33[3]", "--args a: 'f33[3]' must be a number"),
        ("a=f32[0]", "1 ... 67,108,864"),
        ("a=f32[67108865]", "1 ... 67,108,864"),
        ("a=u8[67108864] b=f32[9]", "--args b: must have"),
        (f"a=u8[{'9' * 5000}]", "--args a: must have"),
        (f"a=u8[{'1,' * 40}1]", "1 ... 32 dimensions"),
        ("a=f16[9]~normal(0,1e9)", "--args a: FloatingPointError"),
        ("a=u8[9]~integers(0,1000)", "do not fit into uint8"),
        ("a=u8[9]~normal(0,5)", "do not fit into uint8"),
        ("a=i32[9]~normal(nan,1)", "do not fit into int32"),
        ("a=f32[9]~normal(1)", "--args a: ValueError"),
        ("a=f32[9]~normal(0,-1)", "--args a: ValueError: scale < 0"),
        ("a=f32[9]~integers(0,inf)", "--args a: OverflowError"),
        ("a=f32[9]~index(3)", "index is not known"),
        ("a=u8(256)", "--args a: OverflowError"),
        ("a=f16(1e9)", "--args a: "),
        ("a=i32(1.5)", "--args a: ValueError"),
    ],
)
def test_texts_that_are_refused(text, words):
    with pytest.raises(UserError) as refused:
        given(text)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 400


def test_files_of_arrays(tmp_path):
    for number, array in enumerate(
        [np.arange(6, dtype=">i2").reshape(2, 3), np.zeros((), bool), np.ones((3, 2), order="F")]
    ):
        path = tmp_path / f"{number}.npy"
        np.save(path, array)
        found = given(f"a=@{path}")["a"]
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


def test_files_that_are_refused(tmp_path):
    np.save(tmp_path / "sound.npy", np.arange(6.0))
    sound = (tmp_path / "sound.npy").read_bytes()
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a"]))
    (tmp_path / "cut.npy").write_bytes(sound[:-1])
    (tmp_path / "large.npy").write_bytes(
        sound.replace(b"(6,), }" + b" " * 13, b"(99999999999999,), }")
    )
    (tmp_path / "text.npy").write_text("1 2 3")
    for name in ("objects", "words", "cut", "large", "text", "gone"):
        with pytest.raises(UserError, match=f"{name}.npy"):
            given(f"a=@{tmp_path / name}.npy")


def test_arrays_lie_in_memory_as_kernels_read_them():
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    arrays = {
        "swapped": numbers.astype(">f4"),
        "turned": np.asfortranarray(numbers),
        "steps": np.repeat(numbers, 2, axis=1)[:, ::2],
        "matrix": numbers.view(np.matrix),
    }
    for array in checked_arguments(arrays | {"n": 3}, "f.py").values():
        if isinstance(array, np.ndarray):
            assert array.tobytes() == numbers.tobytes()


@each(
    ("arguments", "words"),
    [
        ({3: 1}, "f.py: argument 3: its name must be text"),
        ({"x": np.array([None])}, "f.py: argument x holds object, must hold numbers"),
        ({"x": np.array(["a"])}, "f.py: argument x holds <U1"),
        ({"x": np.broadcast_to(np.float32(1), 1 << 30)}, "more than 2,048 MiB together"),
        ({"x": np.ones(3), "y": np.broadcast_to(np.int8(1), (1 << 31) - 9)}, "together"),
    ],
)
def test_arguments_that_are_refused(arguments, words):
    with pytest.raises(UserError) as refused:
        checked_arguments(arguments, "f.py")
    assert words in str(refused.value)


@each(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([0.0, 0.5], [0.0, 0.0], 0.5),
        ([np.inf, np.nan, 1.0], [np.inf, np.nan, 2.0], 0.5),
        ([-np.inf, 1.0], [np.inf, 1.0], np.inf),
        ([1.0, 9.0], [np.inf, 1.0], np.inf),
        ([np.nan], [1.0], np.nan),
        ([2**60 + 1], [2**60], 2.0**-60),
        ([[1.0], [2.0]], [1.0, 2.0], 0),
        ([], [], 0),
    ],
)
def test_the_error_of_an_output(found, expected, error):
    assert np.array_equal(relative_error(np.array(found), expected), error, equal_nan=True)


@each("expected", [[1.0], "text", [None, None], [1j, 1j], [[1.0], 2.0]])
def test_what_no_output_can_be(expected):
    with pytest.raises((TypeError, ValueError)):
        relative_error(np.ones(2), expected)


SAXPY = {"a": 2.5, "n": 60, "width": 64}


def recorded(**changes):
    """A run of saxpy of the samples with other arguments."""
    x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    return record_kernel(
        Program.of(
            SAMPLES / "gfx90a.co",
            "gfx90a",
            {"x": x, "y": y, **SAXPY, **changes},
            (1,),
            (64,),
            entry="saxpy",
        )
    )


@needs_objdump
@each(
    ("changes", "factor"),
    [
        ({"a": 3}, 3),
        ({"a": True}, 1),
        ({"a": np.float64(2)}, 2),
        ({"a": np.float16(0.5)}, 0.5),
        ({"a": np.int8(-2)}, -2),
        ({"n": np.uint16(60)}, 2.5),
        ({"n": np.array(60)}, 2.5),
        ({"width": -1}, 2.5),
        ({"width": 2**32 - 1}, 2.5),
    ],
)
def test_numbers_become_the_type_of_the_argument(changes, factor):
    found = recorded(**changes).outputs["y"]
    lanes = np.arange(64)
    assert np.array_equal(found, np.where(lanes < 60, factor * lanes + 1, 1))


@needs_objdump
@each(
    ("changes", "words"),
    [
        ({"n": 2.0}, "argument n (int) is 2.0, must be an integer"),
        ({"n": np.float32(2)}, "argument n (int) is 2.0, must be an integer"),
        ({"n": "2"}, "argument n (int) is '2', must be an integer"),
        ({"a": None}, "argument a (float) is None, must be a number"),
        ({"a": 1e300}, "argument a is 1e+300, which does not fit into 4 bytes"),
        ({"a": 10**400}, "does not fit into 4 bytes"),
        ({"n": 2**32}, "argument n is 4294967296, which does not fit into 4 bytes"),
        ({"n": np.ones(3)}, "argument n is a number (int), must be no array"),
        ({"x": np.ones(64)}, "argument x (float*) is an array of float64"),
        ({"x": np.ones(64, np.int32)}, "argument x (float*) is an array of int32"),
        ({"x": [1.0] * 64}, "argument x is a buffer, must be an array, or None of no buffer"),
        ({"n": b"1234"}, "argument n (int) is b'1234', must be an integer"),
        ({"x": np.ones(0, np.float32)}, "lies outside of every buffer"),
        ({"z": 1}, "saxpy: has no argument z; it takes x (float*), y (float*), a (float), n"),
    ],
)
def test_arguments_that_do_not_fit(changes, words):
    with pytest.raises(UserError, match=r"gfx90a\.co") as refused:
        recorded(**changes)
    assert words in str(refused.value)


@needs_objdump
def test_arrays_without_elements_are_buffers_that_nothing_may_read():
    assert recorded(n=0, x=np.ones(0, np.float32)).outputs["x"].shape == (0,)


TYPES = """
typedef float real; typedef real other; typedef float pair __attribute__((ext_vector_type(2)));
typedef int count; typedef unsigned char byte; typedef double wide; enum choice { A, B };
typedef enum { C, D } hidden; typedef float three __attribute__((ext_vector_type(3)));
typedef struct { float f; int n; } both; struct one { char c; }; typedef struct { float f; } single;
typedef union { int i; float f; } either; typedef struct { short a, b; } small;
"""
TWO = np.dtype([("f", "f4"), ("n", "i4")])
REAL, WHOLE = np.float32(2).tobytes(), np.int32(2).tobytes()
BY_VALUE = [
    *[("real", 2, REAL), ("other", 2.0, REAL), ("float", np.float64(2), REAL), ("real", "2", None)],
    *[
        ("count", 2, WHOLE),
        ("count", 2.0, None),
        ("count", 5.0, None),
        ("wide", 2, b"\0" * 7 + b"@"),
    ],
    *[("byte", 255, b"\xff"), ("byte", 2.0, None), ("byte", 256, None), ("count", REAL, None)],
    *[("enum choice", 2, WHOLE), ("enum choice", 2.0, None), ("hidden", 2, None)],
    *[("hidden", np.int32(2), WHOLE), ("pair", 2.0, None), ("pair", 2, None), ("pair", REAL, None)],
    *[("pair", np.ones(2, "f4"), np.ones(2, "f4").tobytes()), ("pair", np.ones(2), None)],
    *[("pair", np.ones(3, "f4"), None), ("pair", np.ones(2, "i4"), None)],
    *[("three", np.ones(3, "f4"), np.array([1, 1, 1, 0], "f4").tobytes())],
    *[("float4", np.ones(4, "f4"), np.ones(4, "f4").tobytes()), ("real", np.ones(1, "f4"), None)],
    *[("both", 2.0, None), ("both", 2, None), ("both", None, None), ("both", (2.0, 2), None)],
    *[("both", np.array((2.0, 2), TWO), REAL + WHOLE), ("both", REAL + WHOLE, REAL + WHOLE)],
    *[("both", np.array([(2.0, 2)], TWO)[0], REAL + WHOLE), ("both", REAL, None)],
    *[("both", np.ones(2, "f4"), None), ("both", np.zeros(2, TWO), None)],
    *[("struct one", 1, None), ("struct one", b"1", b"1"), ("single", 2.0, None)],
    *[("single", np.float32(2), None), ("both", np.float64(2), None)],
    *[("small", 2, None), ("small", np.int32(2), None), ("either", 2.0, None)],
]
"""Type of a parameter, a value, and its bytes; None: it is refused."""


@cache
def parameters():
    """Parameters of a kernel, by the names of their types, as `compile_opencl` knows them."""
    names = sorted({kind for kind, _, _ in BY_VALUE})
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "k.cl")
        listed = ", ".join(f"{name} a{number}" for number, name in enumerate(names))
        source.write_text(f"{TYPES}__kernel void k({listed}) {{}}")
        ready = ready_kernel(Program.of(source, "gfx90a", {}, (1,), (64,)))
        arguments = ready.launch.kernel.arguments
    return dict(zip(names, arguments, strict=False))


@needs_clang
@each(("kind", "value", "content"), BY_VALUE)
def test_values_become_the_types_that_names_stand_for(kind, value, content):
    argument = parameters()[kind]
    if content is not None:
        assert bytes_by_value(argument, value, "argument a") == content
        return
    with pytest.raises(UserError) as refused:
        bytes_by_value(argument, value, "argument a")
    assert str(refused.value).startswith("argument a")
    assert len(str(refused.value)) < 300


@each("name", ["", "real", "P"])
@each("size", [1, 2, 4, 8])
def test_what_no_type_is_known_of_must_bring_its_bytes(name, size):
    argument = Argument("a", "by_value", 0, size, name)
    for value in (2, 2.0, True, None, "2", [2]):
        with pytest.raises(UserError, match=rf"np\.int{8 * size}\(\.\.\.\)"):
            bytes_by_value(argument, value, "argument a")
    for dtype in ("i1", "u2", "f2", "f4", "i4", "f8", "i8"):
        value = np.dtype(dtype).type(2)
        if value.nbytes == size:
            assert bytes_by_value(argument, value, "argument a") == value.tobytes()
        else:
            with pytest.raises(UserError, match=f"has {size} bytes, not {value.nbytes}"):
                bytes_by_value(argument, value, "argument a")


ALLOWED = (
    "-DA -DB=2 -D C=3 -UA -U B -I. -I folder -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast -O -w -Wall "
    "-Wno-unused -Werror=implicit -Wframe-larger-than=9 -cl-std=CL2.0 -cl-fast-relaxed-math "
    "-cl-ext=+cl_khr_fp64,-cl_khr_fp16 -cl-opt-disable -ffast-math -fno-fast-math "
    "-ffp-contract=off -ffp-model=strict -fdenormal-fp-math=ieee -fno-unroll-loops "
    "-fno-signed-zeros -fwrapv -mcumode -munsafe-fp-atomics"
)
REFUSED = """
-fplugin=./x.so; -fpass-plugin=x.so; -Xclang -load -Xclang x.so; -mllvm -load=x.so; -MD -MF FILE;
-o x; -ox; -save-temps; -include x.h; -iquote x; -fprofile-use=x; -ftime-trace; -fmodules; -B.;
--config=x; @x; -x c; -c; -E; -Wl,-o,x; -Wa,x; -Wp,-MD,x; -Xarch_host x; -frecord-command-line;
-fopenmp; -g; -flto; -mcpu=gfx900; -march=x; --target=x; -F x; -L x; -l x; x.c; -; --; -###; -v;
-std=cl2.0; -emit-llvm; -fuse-ld=x; -D; -I; -U; -DA -fplugin=x; -Werror -o x; '-DA\0';
-ffp-contract=off -E; -fno-plugin; -mwavefrontsize64; -fno-fast-mathx; -Wall,x
"""


def test_options_of_clang_that_pass():
    """Options with a value of its own become one, so that none of them is a file with options."""
    options = options_of("--flags", ALLOWED)
    assert options[:4] == ["-DA", "-DB=2", "-DC=3", "-UA"]
    assert options_of("--flags", "-D @file -DA='b c'") == ["-D@file", "-DA=b c"]
    assert all(option.startswith("-") for option in options)


@each("text", [" ".join(text.split()) for text in REFUSED.split(";")])
def test_options_of_clang_that_are_refused(text):
    """None may load code, or read and write files, whatever stands before it."""
    with pytest.raises(UserError, match=r"^--flags '.*': is not allowed; these are: -D, -U, -I"):
        options_of("--flags", text)


@each("flag", ["-fplugin=./x.so", "-Wp,-MD,f", "-\x00", 3])
def test_no_door_to_clang_takes_other_options(tmp_path, flag):
    (tmp_path / "k.cl").write_text("__kernel void k(__global int *x) { *x = 1; }")
    with pytest.raises(UserError, match="is not allowed; these are"):
        record_kernel(Program.of(tmp_path / "k.cl", "gfx90a", {}, (1,), (64,), flags=[flag]))
    if isinstance(flag, str):
        with pytest.raises(ValueError, match="is not allowed; these are"):
            Program(flags=f"'{flag}'")


def test_a_dict_of_a_user_may_raise_errors(tmp_path):
    (tmp_path / "a.py").write_text(
        "class D(dict):\n    def items(self): raise KeyError(1)\n"
        "    def __iter__(self): raise KeyError(2)\n    keys = __iter__\n"
        "def arguments(random): return D(x=1)\n"
    )
    file = PythonFile(tmp_path / "a.py")
    with pytest.raises(UserError, match=r"a\.py: arguments: "):
        file.call("arguments", None)


def test_a_grid_that_is_too_large_names_the_bound():
    with pytest.raises(UserError, match="999,999,999"):
        extent_of("--grid", "9" * 20)


def test_a_program_that_only_waits_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(code_object, "_SLEEPS", 0.1)
    os.mkfifo(tmp_path / "ff.h")
    with pytest.raises(UserError, match=r"^k\.cl: cat waits for a file.*FIFO\?"):
        run_tool(["/bin/cat", str(tmp_path / "ff.h")], "k.cl")


@needs_clang
def test_clang_knows_the_options_that_pass(tmp_path):
    """Those of arithmetic, code and processor, each in the form that its list allows."""
    (tmp_path / "k.cl").write_text("__kernel void k(__global int *x) { *x = 1; }")
    names = [f"-fno-{name}" for name in (*program._OF_ARITHMETIC, *program._OF_CODE)]
    names += [f"-m{name}" for name in program._OF_PROCESSOR]
    compile_opencl(tmp_path / "k.cl", "gfx90a", options_of("--flags", " ".join(names)))


def test_the_page_names_the_options_that_pass():
    page = (Path(__file__).parents[4] / "docs" / "emulation.md").read_text(encoding="utf-8")
    list_ = page.split("`--flags` takes only")[1].split("\n\n## ")[0]
    for name in (*program._OF_ARITHMETIC, *program._OF_CODE, *program._OF_PROCESSOR):
        assert f"`{name}`" in list_


def test_only_clang_takes_options_of_clang(tmp_path):
    source = tmp_path / "k.co"
    source.write_bytes((SAMPLES / "gfx90a.co").read_bytes())
    inputs = SAMPLES / "saxpy.py"
    with pytest.raises(UserError, match=r"k\.co: flags '-O1' are of clang"):
        ready_kernel(Program.of(source, "gfx90a", inputs, entry="saxpy", flags=["-O1"]))
