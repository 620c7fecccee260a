"""Damaged code objects, sources and inputs of kernels, and a judge of what an emulation does.

Input number n of a kind depends on the seed, the kind and n alone. Code objects are those of
`tests/samples/emulation`, or for the kind ``modern`` those of `scripts/modern_kernels`, which are
compiled once; sources are compiled each time.
"""

import contextlib
import io
import os
import random
import re
import signal
import struct
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import damaged_files
import msgpack
import numpy as np

from mcage.cli.trace import emulate_command
from mcage.errors import UserError
from mcage.traces import load_trace
from mcage.tracing.emulation.compilers import compile_opencl

SECONDS = 20
"""Of a run, on a machine that others use as well."""

SECONDS_OF_COMPILER = 60
"""More, where a source is compiled: a longer loop that is unrolled takes clang half a minute."""

MOST_INSTRUCTIONS = 20_000
PEAK_BYTES = 1_000_000_000
MOST_LINES, MOST_LETTERS = 2, 400

SAMPLES = Path(__file__).parents[1] / "samples" / "emulation"
MODERN = Path(__file__).parents[2] / "scripts" / "modern_kernels"
PROCESSORS = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100")

SAXPY = "x=f32[640]~normal y=f32[640]~uniform a=2.5 n=600 width=32"
MIXED = "values=f16[384]~normal counts=i32[32] part=256 n=192"
CALLS = {"saxpy": (SAXPY, "2,5", "16,4"), "mixed": (MIXED, "2", "64")}
"""Arguments, grid and block of the kernels of the samples."""

MODERN_NAMES = ("saxpy", "gemm", "softmax", "lds_histogram", "gemv_int4", "spmv", "random_numbers")
NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 512, 4095, 4096, 65535),
    *(65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1),
)


class SlowError(BaseException):
    """A run takes too long; nothing that catches exceptions of users catches it."""


def complaint(kind, number, seed, folder):
    """What an emulation of a damaged input does wrong; None if nothing."""
    _compile_loops()
    rng = random.Random(f"{seed} {kind} {number}")
    source, asked = KINDS[kind](rng, folder)
    out = folder / "out.h5"
    before = {path.name for path in folder.iterdir()}
    taken = forget_peak()
    message, printed, said = None, io.StringIO(), []
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS + SECONDS_OF_COMPILER * (kind == "sources"))
    try:
        with (
            warnings.catch_warnings(record=True) as said,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            _emulate(source, out, asked, rng.random() < 0.5)
    except UserError as error:
        message = str(error)
    except SlowError:
        return "takes too long"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300] + _where(error)
    finally:
        signal.alarm(0)
    peak = resident("VmHWM") - taken
    left = {path.name for path in folder.iterdir()} - before
    warned = [str(w.message) for w in said if "mcage" in w.filename]
    complaints = (
        (peak > PEAK_BYTES, f"{peak / 1e6:.0f} MB"),
        (left - {"out.h5"}, f"leaves {left}"),
        (message is not None and out.name in left, "refuses, and leaves a trace"),
        (message is None and out.name not in left, "writes nothing"),
        (message == "", "refuses without a word"),
        (message and len(message) > MOST_LETTERS, f"a long message: {message}"),
        (message and message.count("\n") >= MOST_LINES, "a message of many lines"),
        (
            message and not message.replace("\n", "").isprintable(),
            f"control characters {message!a}",
        ),
        (message and not _names(message, source, asked), f"names no file: {message}"),
        (warned, f"warns: {warned[:1]}"),
    )
    wrong = next((words for is_so, words in complaints if is_so), None)
    if wrong is None and message is None:
        load_trace(out)
    return wrong


class Asked(SimpleNamespace):
    """Options of `mcage trace emulate`."""

    args = None


def _emulate(source, out, asked, as_json):
    keys = [(name, value, f"--{name}") for name, value in vars(asked).items() if value is not None]
    emulate_command(source, out, keys, None, as_json)


@cache
def _compile_loops():
    """Emulate a sound kernel: what it compiles for the CPU is no matter of a damaged one."""
    asked = Asked(arch="gfx900", args=str(SAMPLES / "saxpy.py"), entry="saxpy")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        _emulate(SAMPLES / "gfx900.co", Path(folder) / "out.h5", asked, True)


def outcome(kind, number, seed, folder):
    """Message of a refusal; None if a trace was written."""
    source, asked = KINDS[kind](random.Random(f"{seed} {kind} {number}"), folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _emulate(source, folder / "out.h5", asked, True)
    except UserError as error:
        return str(error)
    return None


def _where(error):
    """The last lines of mcage's own code that an exception passed."""
    places, trace = [], error.__traceback__
    while trace:
        places.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " at " + " ".join(places[-6:])


def forget_peak():
    """Let the peak of this process's memory begin anew; the memory that it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(line):
    """Bytes of a line of what the system says of this process."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{line}:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024


def _too_slow(number, frame):
    raise SlowError


def _names(message, source, asked):
    """Whether a message says which file or option it is about."""
    of_options = ("--args", "--grid", "--block", "flags = ", "processor")
    files = [source, *(Path(text) for text in (asked.args or "").split() if text[-3:] == ".py")]
    files += [Path(text[1:]) for text in re.findall(r"@\S+", asked.args or "")]
    return message.startswith(of_options) or any(path.stem in message for path in files)


# ---- code objects ------------------------------------------------------------------------------


def _call(rng, name, arch):
    arguments, grid, block = CALLS[name]
    return Asked(
        arch=arch, grid=grid, block=block, args=arguments, entry=name,
        compute_units=rng.choice((1, 1, 2)), latency=rng.choice((1.0, 0.01, 100.0)),
        most_instructions=MOST_INSTRUCTIONS,
    )  # fmt: skip


def sample(arch):
    """Code object of a sample."""
    return (SAMPLES / f"{arch}.co").read_bytes()


def _code_object(rng, folder):
    arch = rng.choice(PROCESSORS)
    asked = _call(rng, rng.choice(sorted(CALLS)), arch)
    path = folder / "damaged.co"
    path.write_bytes(_mutated(rng, sample(arch)))
    return path, asked


def _modern(rng, folder):
    name, arch = rng.choice(MODERN_NAMES), rng.choice(PROCESSORS)
    path = folder / "damaged.co"
    path.write_bytes(_mutated(rng, compiled(name, arch)))
    asked = Asked(
        arch=arch, args=str(MODERN / f"{name}.py"), grid="2", most_instructions=MOST_INSTRUCTIONS
    )
    return path, asked


@cache
def compiled(name, arch):
    """Code object of a kernel of `scripts/modern_kernels`, compiled once."""
    return compile_opencl(MODERN / f"{name}.cl", arch, []).content


_NOT_POSSIBLE = (struct.error, ArithmeticError, LookupError, ValueError, TypeError, StopIteration)
"""What a mutation raises of a file that an earlier one has damaged too much."""


def _mutated(rng, content):
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        with contextlib.suppress(*_NOT_POSSIBLE):
            content = rng.choice(MUTATIONS)(rng, content)
    return bytes(content)


_HEADER_FIELDS = ((16, 2), (18, 2), (20, 4), (24, 8), (32, 8), (40, 8), (48, 4), (52, 2), (54, 2))
_HEADER_FIELDS += ((56, 2), (58, 2), (60, 2), (62, 2))
_SECTION_FIELDS = ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8))
_SEGMENT_FIELDS = ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8))


def _sections(content):
    """Kind, flags, offset and size of each section, and where its header stands."""
    start, count = (
        struct.unpack_from("<Q", content, 40)[0],
        struct.unpack_from("<H", content, 60)[0],
    )
    places = [start + 64 * number for number in range(count)]
    return [(*struct.unpack_from("<4xIQ8xQQ", content, place), place) for place in places]


def _put(rng, content, place, size):
    number = rng.choice(NUMBERS)
    if rng.random() < 0.3:
        number = int.from_bytes(content[place : place + size], "little") + rng.choice(
            (-8, -1, 1, 4)
        )
    number &= (1 << 8 * size) - 1
    return content[:place] + number.to_bytes(size, "little") + content[place + size :]


def _elf_header(rng, content):
    return _put(rng, content, *rng.choice(_HEADER_FIELDS))


def _section_header(rng, content):
    place, size = rng.choice(_SECTION_FIELDS)
    return _put(rng, content, rng.choice(_sections(content))[4] + place, size)


def _segment_header(rng, content):
    start, count = (
        struct.unpack_from("<Q", content, 32)[0],
        struct.unpack_from("<H", content, 56)[0],
    )
    place, size = rng.choice(_SEGMENT_FIELDS)
    return _put(rng, content, start + 56 * rng.randrange(count) + place, size)


def _swapped_sections(rng, content):
    first, second = (section[4] for section in rng.sample(_sections(content), 2))
    if rng.random() < 0.5:  # what they hold, as far as that is as long
        first, second = (rng.choice(_sections(content))[2] for _ in range(2))
    content = bytearray(content)
    one, other = content[first : first + 64], content[second : second + 64]
    content[first : first + 64], content[second : second + 64] = other, one
    return content


def _chosen(content, fits):
    """First byte and size of a section that fits."""
    return next((row[2], row[3]) for row in _sections(content) if fits(row))


def _code(content):
    return _chosen(content, lambda row: row[1] & 4)


def _flipped_code(rng, content):
    """Some bits of instructions."""
    start, size = _code(content)
    content = bytearray(content)
    for _ in range(rng.choice((1, 2, 8, 40))):
        content[start + rng.randrange(size)] ^= 1 << rng.randrange(8)
    return content


_ENCODINGS = (0x7E000000, 0x00000000, 0xD1000000, 0xD3800000, 0xBF800000, 0xBE800000, 0x80000000)
_ENCODINGS += (0xB0000000, 0xC0000000, 0xDC000000, 0xE0000000, 0xD8000000, 0xD5000000, 0xCC000000)
_ENCODINGS += (0x7C000000, 0xC8000000, 0xF4000000, 0xD7000000, 0xCA000000)


def _random_code(rng, content):
    """Random instructions of a known encoding."""
    start, size = _code(content)
    content = bytearray(content)
    for _ in range(rng.choice((1, 3, 20))):
        place = start + rng.randrange(size // 4) * 4
        word = rng.choice(_ENCODINGS) | rng.getrandbits(rng.choice((24, 25, 26)))
        content[place : place + 4] = word.to_bytes(4, "little")
    return content


def _moved_code(rng, content):
    start, size = _code(content)
    content = bytearray(content)
    first, second = (start + rng.randrange(size // 4) * 4 for _ in range(2))
    length = 4 * rng.choice((1, 2, 10))
    content[first : first + length] = content[second : second + length]
    return content


def _descriptor(rng, content):
    """Kernel descriptors: 64 bytes each, in the section of data before the code."""
    rodata = [row for row in _sections(content) if row[0] == 1 and row[1] == 2 and row[3] % 64 == 0]
    start, size = rng.choice(rodata)[2:4]
    if rng.random() < 0.5:
        return _put(rng, content, start + rng.randrange(size // 4) * 4, 4)
    content = bytearray(content)
    for _ in range(rng.choice((1, 4))):
        content[start + rng.randrange(size)] ^= 1 << rng.randrange(8)
    return content


def _symbols(rng, content):
    start, size = _chosen(content, lambda row: row[0] in (2, 11))
    return _put(rng, content, start + rng.randrange(size // 4) * 4, 4)


def _note_bytes(rng, content):
    start, size = _chosen(content, lambda row: row[0] == 7)
    content = bytearray(content)
    for _ in range(rng.choice((1, 3))):
        content[start + rng.randrange(size)] = rng.choice((0, 0x80, 0xC0, 0xDD, 0xCF, 0xFF, 0x93))
    return content


_VALUES = (
    *(None, True, -1, 0, 1, 3, 2**31, 2**63, -(2**63), 1.5, float("nan"), "", "x" * 5000, "s.kd"),
    *(b"\xff", [], {}, [1], {"a": 1}, "\x1b[31m\n", "saxpy", "by_value", "global_buffer"),
    *("hidden_x", "hidden_block_count_x", "hidden_dynamic_lds_size", "dynamic_shared_pointer"),
    *("image", 255, 96, "amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--\0", "float", "double"),
    *("struct s", "float4"),
)


def _metadata(rng, content):
    """Another value, or none, in the metadata, which move to the end of the file."""
    header = next(row[4] for row in _sections(content) if row[0] == 7)
    start, size = struct.unpack_from("<QQ", content, header + 24)
    metadata = msgpack.unpackb(
        content[start + 20 : start + size].rstrip(b"\0"), strict_map_key=False
    )
    for _ in range(rng.choice((1, 1, 2))):
        _change(rng, metadata)
    made = msgpack.packb(metadata)
    note = struct.pack("<III8s", 7, len(made), 32, b"AMDGPU\0") + made
    content = bytearray(content) + note
    struct.pack_into("<QQ", content, header + 24, len(content) - len(note), len(note))
    return content


def _change(rng, parent):
    """Change a value anywhere below a list or a dict."""
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = rng.choice(keys)
        if not (isinstance(parent[key], dict | list) and parent[key]) or rng.random() < 0.1:
            break
        parent = parent[key]
    action = rng.choice(("change", "change", "change", "drop", "twice"))
    if action == "drop":
        del parent[key]
    elif action == "twice" and isinstance(parent, list):
        parent.extend([parent[key]] * rng.choice((1, 30)))
    else:
        parent[key] = rng.choice(_VALUES)


def _bits(rng, content):
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 4, 40))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return content


def _bytes(rng, content):
    mutate = damaged_files.BYTE_MUTATIONS[rng.choice(sorted(damaged_files.BYTE_MUTATIONS))]
    return mutate(bytes(content), np.random.default_rng(rng.getrandbits(64)))


def _cut(rng, content):
    if rng.random() < 0.2:
        return rng.choice((b"", content[:4], content[:63], content[:64], rng.randbytes(5000)))
    return content[: rng.randrange(len(content))]


MUTATIONS = (
    *(_elf_header, _section_header, _section_header, _segment_header, _swapped_sections),
    *(_flipped_code, _flipped_code, _random_code, _random_code, _moved_code, _descriptor, _symbols),
    *(_note_bytes, _metadata, _metadata, _metadata, _bits, _bytes, _cut),
)


# ---- sources -----------------------------------------------------------------------------------

_NOISE = (
    *("}", "{", "(", ")", ";", "*", "#endif", "#if 1", '"', "'", "\\", "\0", "\x1b[31m", "/*"),
    *("//", "#include <stdio.h>", '#include "gone.h"', "#error a\x07b", "half", "double"),
    *("image2d_t", "0x", "while(1);", "return;", "barrier(CLK_LOCAL_MEM_FENCE);"),
    *('asm("s_trap 2");', "x" * 5000, "__kernel void other() {}", "struct s { int a[5]; };"),
    *("__builtin_trap();", "goto a;", "\xff", "((((((((" * 200, "#define A A A A\n"),
    *("int a[1 << 30];", 'printf("%d", 1);', "@", "1.0e999f"),
)
_TYPES = (
    ("float", "int"),
    ("int", "float"),
    ("int", "long"),
    ("float", "double"),
    ("float", "half"),
)
_TYPES += (("int", "struct s { int a, b; } "), ("float", "float4"), ("__global", "__local"))
_TYPES += (("__global", ""), ("const", ""), ("float", "bool"), ("int", "uchar"), ("=", "-="))


def _source(rng, folder):
    name = rng.choice(("saxpy", "mixed", *MODERN_NAMES))
    arch = rng.choice(PROCESSORS)
    if name in CALLS:
        path, asked = SAMPLES / "kernels.cl", _call(rng, name, arch)
    else:
        path = MODERN / f"{name}.cl"
        (folder / "gpu.h").write_bytes((MODERN / "gpu.h").read_bytes())
        asked = Asked(
            arch=arch, args=str(MODERN / f"{name}.py"), grid="2",
            most_instructions=MOST_INSTRUCTIONS,
        )  # fmt: skip
    text = path.read_text()
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_TEXT_MUTATIONS)(rng, text)
    made = folder / "damaged.cl"
    made.write_bytes(text.encode("latin-1"))
    return made, asked


def _line_gone(rng, text):
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines) or "\n"


def _line_twice(rng, text):
    lines = text.split("\n")
    place = rng.randrange(len(lines))
    return "\n".join([*lines[:place], lines[place], *lines[place:]])


def _lines_swapped(rng, text):
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _letters(rng, text):
    place = rng.randrange(len(text))
    kind = rng.randrange(3)
    if kind == 0:
        return text[:place] + text[place + 1 :]
    if kind == 1:
        return text[:place] + text[place] + text[place:]
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


def _noise(rng, text):
    place = rng.choice([0, *(match.start() for match in re.finditer("\n|;|,", text)), len(text)])
    return text[:place] + rng.choice(("\n", " ")) + rng.choice(_NOISE) + "\n" + text[place:]


def _other_type(rng, text):
    old, new = rng.choice(_TYPES)
    places = [match.start() for match in re.finditer(rf"{old}", text)]
    if not places:
        return text
    place = rng.choice(places)
    return text[:place] + new + text[place + len(old) :]


def _other_number(rng, text):
    places = [match.span() for match in re.finditer(r"\d+", text)]
    if not places:
        return text
    first, last = rng.choice(places)
    return text[:first] + str(rng.choice(NUMBERS)) + text[last:]


def _short(rng, text):
    return text[: rng.randrange(len(text) + 1)]


_TEXT_MUTATIONS = (
    *(_line_gone, _line_twice, _lines_swapped, _letters, _letters, _noise, _noise, _other_type),
    *(_other_type, _other_number, _other_number, _short),
)


# ---- arguments ---------------------------------------------------------------------------------

_ARGUMENTS = (
    *("x=f32[640]~normal", "x=f32[0]", "x=f32[99999999999]", "x=f64[640]", "x=5", "x=f32[64x10]"),
    *("x=", "x=f16[640]~normal(0,1e9)", "x=u8[640]~normal", "x=f32[640]~uniform(1,0)"),
    *("x=i8[9]~index", "x=f32[640]~integers(0,1e30)", "x=f32[640]~integers(0,inf)"),
    *("x=f32[9]~normal(0,-1)", "x=@x.npy", "x=i8[9]~integers(0,1000)"),
    *("x=f32[640]~normal(nan,nan)", "x=f32[1e3]", f"x=f32[{'1x' * 70}1]"),
    *("x=f32[640]~uniform(-inf,inf)", f"x=f32[{'9' * 5000}]", "x=f99[3]", "x=f32[640]~magic(1)"),
    *("x", "a=1e999", "a=nan", "a=-inf", "a=2", "a=1e300", "a=f32[4]", "a=0x7f", f"a={'9' * 5000}"),
    *("a=-", "n=1.5", "n=-1", "n=99999999999", f"n=0x{'f' * 9999}", "n=600", "n=1_0", "n=True"),
    *("n=@n.npy", "width=0", "width=-1000000", "width=2147483647", "width=4294967295", "\x1b=3"),
    *("b=1", "=", "==3", "y=@gone.npy", "y=@fifo.npy", "y=f32[640]~ones", "y=f64[268435456]"),
    *("x=@big.npy", "x=@swapped.npy", "y=@damaged.npy", "y=@text.npy", "y=@objects.npy"),
    *("y=@empty.npy", "y=@turned.npy", "x=@many.npz", "part=256", "part=0", "part=-1"),
    *("part=65536", "part=99999999999", "part=1.5", "part=f32[64]", "values=f16[384]"),
    *("values=f16[1]", "counts=i32[32]", "counts=i32[1]", "n=192", "n=100000"),
)
_EXTENTS = (
    *("2,5", "2", "1", "0", "-1", "4194304", "4194305", "99999,99999,99999", "1,1,1", "1,1,1,1"),
    *("", "1024", "1025", "16,4", "64", "100", "1,64", "1,1,64", "3x3x3", "x", "1.5", "999999999"),
    "\u0663",
)


def _arguments(rng, folder):
    arch = rng.choice(PROCESSORS)
    name = rng.choice(sorted(CALLS))
    arguments, grid, block = CALLS[name]
    parts = arguments.split()
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        new = rng.choice(_ARGUMENTS)
        kept = [part for part in parts if part.split("=")[0] != new.split("=")[0]]
        parts = rng.choice(
            ([*parts, new], [*kept, new], [*kept, new], [new, *parts[1:]], parts[1:])
        )
    if rng.random() < 0.3:
        grid = rng.choice(_EXTENTS)
    if rng.random() < 0.3:
        block = rng.choice(_EXTENTS)
    _write_arrays(rng, folder)
    text = re.sub(r"@", f"@{folder}/", " ".join(parts))
    path = folder / "sound.co"
    path.write_bytes(sample(arch))
    if rng.random() < 0.05:
        arch = rng.choice(("gfx906", "gfx1201", "x\n"))
    if rng.random() < 0.1:
        name = rng.choice((None, "gone\x1b"))
    return path, Asked(
        arch=arch, grid=grid, block=block, args=text, entry=name,
        most_instructions=MOST_INSTRUCTIONS,
    )  # fmt: skip


def _write_arrays(rng, folder):
    """Files of arrays, some of them no such thing."""
    array = np.arange(640, dtype=np.float32)
    stream = io.BytesIO()
    np.save(stream, array)
    sound = stream.getvalue()
    np.save(folder / "x.npy", array)
    np.save(folder / "n.npy", np.int32(600))
    np.save(folder / "swapped.npy", array.astype(">f4"))
    np.save(folder / "turned.npy", np.asfortranarray(array.reshape(20, 32)))
    np.save(folder / "empty.npy", array[:0])
    np.save(folder / "objects.npy", np.array([None, 1], object), allow_pickle=True)
    np.savez(folder / "many.npz", a=array)
    (folder / "text.npy").write_text("1, 2, 3")
    (folder / "big.npy").write_bytes(
        sound.replace(b"(640,), }" + b" " * 13, b"(99999999999999,), }  ")
    )
    (folder / "damaged.npy").write_bytes(_bytes(rng, sound))
    os.mkfifo(folder / "fifo.npy")


_INPUTS = '''"""Inputs."""

import numpy as np

GRID = (2, 5)
BLOCK = (16, 4)
TOLERANCE = 1e-6
TITLE = "a test"


def arguments(random):
    made = {
        "x": random.standard_normal(640, dtype=np.float32),
        "y": np.ones(640, np.float32),
        "a": 2.5,
        "n": 600,
        "width": 32,
    }
    return made


def expected(x, y, a, n, width):
    y = y.copy()
    y[:n] += np.float32(a) * x[:n]
    return {"y": y}
'''
_REPLACEMENTS = {
    "(2, 5)": ("(0,)", "None", "'64'", "5", "(1.5, 2)", "(-1,)", "[10]", "(2,) * 5"),
    "(16, 4)": ("(2000,)", "64", "object()", "(float('inf'),)", "np.array([64])"),
    "1e-6": ("'x'", "None", "float('nan')", "-1", "[]", "10**400", "0"),
    '"a test"': ("None", "'\\x1b[31m'", "'x' * 10**6", "object()"),
    "return made": (
        *("return None", "return [1]", "return {5: 1}", "raise KeyError", "return dict(made, z=1)"),
        *("return 1 / 0", "exit(3)", "yield 1", "made.pop('x'); return made", "raise SystemExit"),
        *("print(1)", "raise type('Own', (BaseException,), {})", "raise GeneratorExit"),
    ),
    "np.ones(640, np.float32)": (
        *("np.ones(640)", "np.ones((64, 10), np.float32).T", "np.ones(640, '>f4')"),
        *("np.ones(640, object)", "np.ones(0, np.float32)", "np.ones(64, np.float32)"),
        *("np.zeros((), np.float32)", "[1.0] * 640", "np.full(640, np.nan, np.float32)"),
        *("np.full(640, np.inf, np.float32)", "None", "'y'", "np.ones(640, 'U3')"),
        *("np.ones(640, 'M8[s]')", "np.ones(640, complex)", "np.zeros(640, 'i4,f4')"),
        *("np.ones(1280, np.float32)[::2]", "np.ones(640, bool)"),
        *("np.matrix(np.ones(640, np.float32))", "np.broadcast_to(np.float32(1), 2**34)"),
        *("np.ma.ones(640, np.float32)", "np.float32(1)"),
    ),
    "2.5": ("10**400", "None", "'a'", "np.float64(2.5)", "1j", "1e300", "np.ones(3)"),
    "600": (
        *("2.5", "np.float32(3)", "np.int8(5)", "np.uint32(2**31)", "None", "True", "10**400"),
        *("-2**31", "2**32", "np.array(600)", "np.bool_(True)", "{}"),
    ),
    'return {"y": y}': (
        *("return None", "return {'q': y}", "return {'y': y[1:]}", "return {'y': 'text'}"),
        *("raise ValueError", "return {'y': y * np.nan}", "return {'y': y * np.inf}"),
        *("return {5: y}", "return {'y': [[1], 2]}", "return {'y': y + 1j}", "return {'y': None}"),
        *("return {'x': x}", "return {}", "return {'y': {}}", "raise Exception('a' * 10**6)"),
        "raise type('Own', (BaseException,), {})",
        *("raise BaseException", "return {'y': np.log(y - 9)}", "return {'y': y.astype(object)}"),
    ),
    "def expected": ("def other",),
    "def arguments": ("def other",),
    "import numpy": ("import gone",),
    "(x, y, a, n, width)": ("(x, y)",),
    "arguments(random)": ("arguments()",),
    "np": ("np2",),
}


def _inputs(rng, folder):
    arch = rng.choice(PROCESSORS)
    text = _INPUTS
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.8:
            old = rng.choice(sorted(_REPLACEMENTS))
            text = text.replace(old, rng.choice(_REPLACEMENTS[old]))
        else:
            text = rng.choice((_letters, _line_gone, _line_twice, _short))(rng, text)
    inputs = folder / "inputs.py"
    inputs.write_text(text)
    path = folder / "sound.co"
    path.write_bytes(sample(arch))
    return path, Asked(
        arch=arch, args=str(inputs), entry="saxpy", check=rng.choice((None, None, inputs)),
        most_instructions=MOST_INSTRUCTIONS,
    )  # fmt: skip


KINDS = {
    "code objects": _code_object,
    "modern": _modern,
    "sources": _source,
    "arguments": _arguments,
    "inputs": _inputs,
}
