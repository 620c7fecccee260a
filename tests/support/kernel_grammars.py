"""Programs of GPUs, mostly wrong: code objects, and specs that name programs."""

import os
import random
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from faulty_oracle import BLEND, BLEND_ARGUMENTS
from gpu_samples import PROCESSORS, sample
from grammars import STRANGE, toml
from mutations import Grammar

MOST_INSTRUCTIONS = "20000"
CALLS: dict[str, dict[str, Any]] = {
    "saxpy": {
        "args": ["x=f32[640]~normal", "y=f32[640]~uniform", "a=2.5", "n=600", "width=32"],
        "grid": "2,5",
        "block": "16,4",
    },
    "mixed": {
        "args": ["values=f16[384]~normal", "counts=i32[32]", "part=256", "n=192"],
        "grid": "2",
        "block": "64",
    },
}
"""Options for the kernels of the samples."""

NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 512, 4095, 4096, 65535),
    *(65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1),
)


def emulation(source: str, **options: Any) -> list[str]:
    """The command that emulates a kernel."""
    words = ["trace", "emulate", source, "--out", "out/traces/t.h5"]
    for name, value in ({"most-instructions": MOST_INSTRUCTIONS} | options).items():
        value = " ".join(map(str, value)) if isinstance(value, list) else value
        words += [f"--{name}", f"{value}".replace("\0", "")] if value is not None else []
    return words


# ---- code objects ----------------------------------------------------------------------------


class CodeObject:
    """A code object as a tree of the numbers in its tables, its code and its metadata."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        header = struct.unpack_from("<HHIQQQIHHHHHH", content, 16)
        segments, sections = header[4:6]
        self._places = {
            "header": (16, "HHIQQQIHHHHHH", 1),
            "segments": (segments, "IIQQQQQQ", header[9]),
            "sections": (sections, "IIQQQQIIQQ", header[11]),
        }
        for number, (_, kind, flags, _, offset, size, *_) in enumerate(self._rows("sections")):
            if kind == 7:
                self._note = sections + 64 * number + 24, offset, size
                self._places["note"] = (offset, "B", size)
            elif kind in (2, 11):
                self._places["symbols"] = (offset, "I", size // 4)
            elif flags & 4:
                self._places["code"] = (offset, "I", size // 4)
            elif kind == 1 and flags == 2 and size % 64 == 0:
                self._places["descriptors"] = (offset, "I", size // 4)

    def _rows(self, part: str) -> list:
        """Numbers of each row; of words or bytes, the numbers alone."""
        place, row, count = self._places[part]
        end = place + struct.calcsize(f"<{row}") * count
        rows = struct.iter_unpack(f"<{row}", self._content[place:end])
        return [list(numbers) if len(row) > 1 else numbers[0] for numbers in rows]

    def tree(self) -> dict[str, Any]:
        """Rows of each table, words of the code, and the metadata."""
        _, offset, size = self._note
        packed = self._content[offset + 20 : offset + size].rstrip(b"\0")
        metadata = msgpack.unpackb(packed, strict_map_key=False)
        return {part: self._rows(part) for part in self._places} | {"metadata": metadata}

    def write(self, tree: dict[str, Any]) -> bytes:
        """Each table where it was; metadata that were changed stand at the end of the file."""
        content = bytearray(self._content)
        for part, (place, row, count) in self._places.items():
            if tree[part] == self._rows(part):
                continue
            packed = b"".join(_packed(row, numbers) for numbers in tree[part][:count])
            content[place : place + len(packed)] = packed
        if tree["metadata"] != self.tree()["metadata"]:
            made = msgpack.packb(tree["metadata"])
            note = struct.pack("<III8s", 7, len(made), 32, b"AMDGPU\0") + made
            struct.pack_into("<QQ", content, self._note[0], len(content), len(note))
            content += note
        return bytes(content)


def _packed(row: str, numbers: Any) -> bytes:
    """A row of a table; what is missing is zero, and of large numbers the lowest bits are taken."""
    numbers = numbers if isinstance(numbers, list) else [numbers]
    sizes = [struct.calcsize(f"<{letter}") for letter in row]
    return b"".join(
        (number & (1 << 8 * size) - 1).to_bytes(size, "little")
        for number, size in zip([*numbers, *[0] * len(row)], sizes, strict=False)
    )


_ENCODINGS = (0x7E000000, 0x00000000, 0xD1000000, 0xD3800000, 0xBF800000, 0xBE800000, 0x80000000)
_ENCODINGS += (0xB0000000, 0xC0000000, 0xDC000000, 0xE0000000, 0xD8000000, 0xD5000000, 0xCC000000)
_ENCODINGS += (0x7C000000, 0xC8000000, 0xF4000000, 0xD7000000, 0xCA000000)
OF_CODE_OBJECTS: dict[str, tuple[Any, ...]] = {
    "code": (lambda rng: rng.choice(_ENCODINGS) | rng.getrandbits(rng.choice((24, 25, 26))),),
    "note": (0, 0x80, 0xC0, 0xDD, 0xCF, 0xFF, 0x93),
    "metadata": (
        *(None, True, -1, 0, 1, 3, 2**31, 2**63, -(2**63), 1.5, float("nan"), "", "x" * 5000),
        *("s.kd", b"\xff", [], {}, [1], {"a": 1}, "\x1b[31m\n", "saxpy", "by_value", "hidden_x"),
        *("global_buffer", "hidden_block_count_x", "hidden_dynamic_lds_size", "image", 255, 96),
        *("dynamic_shared_pointer", "amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--\0"),
        *("float", "double", "struct s", "float4"),
    ),
    "": NUMBERS,
}


def code_object(content: bytes) -> Grammar:
    """Grammar of a code object."""
    sound = CodeObject(content)
    return Grammar(lambda _: sound.tree(), sound.write, OF_CODE_OBJECTS)


def code_objects(rng: random.Random, folder: Path) -> list[str]:
    """A damaged code object of the samples."""
    arch, name = rng.choice(PROCESSORS), rng.choice(sorted(CALLS))
    (folder / "damaged.co").write_bytes(code_object(sample(arch)).draw(rng))
    times = {"compute-units": rng.choice((1, 1, 2)), "latency": rng.choice((1.0, 0.01, 100.0))}
    return emulation("damaged.co", arch=arch, entry=name, **CALLS[name], **times)


# ---- specs that name programs ----------------------------------------------------------------

OF_PROGRAMS: dict[str, tuple[Any, ...]] = {
    "source": ("k.cl", "k.py", "k.co", "/dev/zero", "fifo", "", "a\x1b[31m.py", 3),
    "args": (
        *("args.py", "x=f32[4]", "x=f32[99999999999]", "n=@fifo", "a.py=1", "", 7, "x=f32[64]"),
        *("index=i32[1024] x=f32[1024] y=f32[1024] n=9", "n=@args.py"),
    ),
    "check": ("args.py", "nothing.py", "k.cl", "", True),
    "flags": (
        *("-DN=4", "-fplugin=./x.so", "-MD -MF s.toml", "'", "@s.toml", "-o s.toml", "-O0", "-O9"),
        *("-I.", "-cl-std=CL2.0", "-cl-std=CL9", "-cl-fast-relaxed-math", "-ffast-math", "-MD"),
        *("-MD -MF k.cl -MT x", "-o k.cl", "-Xclang -load", "-save-temps", "--config=x.cfg"),
        *("-x c++", "-S", "-E", "-", "-ftime-trace=args.py", "-Wl,-o,args.py", "-include args.py"),
        *("-mllvm -help", "-###", "-fcrash-diagnostics-dir=.", "-mcpu=gfx9", "-h"),
        "-fprofile-instr-generate=args.py",
    ),
    "grid": ("4", "4,4,4,4", "-1", "a", "4x4", "9" * 500, "1", "2", "8", "4,2", "0", "1e3"),
    "block": ("64", "128", "256", "1024", "128,2"),
    "arch": ("gfx900", "gfx803", "", 900, "gfx90a", "gfx942", "gfx1030", "gfx1100"),
    "entry": ("blend", "none", ""),
    "inputs": (0, 1, -1, 2**62, 2**63, 1.5),
    "compute_units": (1, 2, 1025),
    "latency": (0.01, 100.0, float("nan")),
    "most_instructions": (1, 1000, 10**10),
    "techniques": (["rrcd"], ["args:X"], ["args:"], [":"], ["os:path"]),
    "fault": ("flip", "stuck", "read"),
    "upset": ("single", "28nm", "16nm"),
    "ages_years": ([0.0], [0.0, 3.0], [3.0, 1.0], [200.0]),
    "tolerance": (0.0, 1e-3, -1.0, float("inf")),
    "stuck_cells": ("args.py", "cells.npy", "none.npy"),
    "instances": (0, 3, -1, 1.5),
    "": STRANGE,
}


def programs(rng: random.Random, folder: Path) -> list[str]:
    """A spec of injections that names a program, which is shown and not run."""
    ran = "open('ran', 'w').write('ran')\n"
    (folder / "k.cl").write_text(BLEND)
    (folder / "args.py").write_text(ran + BLEND_ARGUMENTS)
    (folder / "k.py").write_text(ran)
    os.mkfifo(folder / "fifo")
    np.save(folder / "cells.npy", np.array([[0, rng.choice((0, 5, 2**20)), 1]]))
    sound = {
        "instances": 2,
        "program": {"source": "k.cl", "args": "args.py", "arch": "gfx900"},
        "inject": {"fault": rng.choice(("flip", "stuck"))},
    }
    grammar = Grammar(lambda _: sound, toml, OF_PROGRAMS, by_bytes=0.0)
    (folder / "s.toml").write_bytes(grammar.draw(rng))
    return ["inject", "s.toml", "--show-spec"]
