"""List the instructions of each processor, and which of them the emulator has.

    python scripts/docs/list_instructions.py [--out results/instructions]

Every operation code of every encoding is disassembled by LLVM 19, which names those that the
processor has; the emulator is asked to decode each. Writes ``counts.csv``, how many of each kind
are emulated, and ``missing.csv``, the others by name, with a reason where the emulator gives one.
Left out is what is of graphics alone: images, typed buffers, exports, interpolation and the global
data share.
"""

import argparse
import csv
import re
import subprocess
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

from mcage.errors import UserError
from mcage.tracing.emulation.code_object import CodeObject
from mcage.tracing.emulation.machine import Machine
from mcage.tracing.emulation.waves import Instructions

DISASSEMBLER = "llvm-mc-19"
GENERATIONS = {"gfx900": 9, "gfx90a": 9, "gfx942": 9, "gfx1030": 10, "gfx1100": 11}
KINDS = {
    "matrix": r"v_(s?mfma|wmma)",
    "vector": r"v_",
    "memory": r"ds_|global_|flat_|scratch_|buffer_|s_(buffer_|scratch_)?(load|store|atomic)",
    "scalar": r"s_",
}
"""Beginnings of the names of each kind; the first that fits counts."""

OF_GRAPHICS = re.compile(
    r"image_|exp|v_interp|lds_(direct|param)|t?buffer_\w*format|ds_(gws|ordered|bvh)|v_illegal"
    r"|v_screen|s_endpgm_ordered"
)
SUFFIX = re.compile(r"_(e32|e64|dpp|e64_dpp|dpp8|sdwa)$")

V, S = 256 + 8, 8
"""Sources: v8 and s8."""


def either(first, *fields):
    """Words with each of the fields and without it: the disassembler wants 0 in unused ones."""
    return [first | sum(chosen) for chosen in product(*((0, field) for field in fields))]


def encodings(generation):
    """First words without operation code, its bits and their place, and second words, of each.

    Sources: chapters "Microcode Formats" of AMD's ISA guides of Vega, MI200, RDNA 2 and RDNA 3.
    """
    nine, eleven = generation == 9, generation == 11
    three = [*either(0, V, V << 9, V << 18), *either(0, S, S << 9, S << 18)]
    three += [V | S << 9, V | S << 9 | S << 18, V | V << 9 | S << 18]
    four = either(0, 8, 8 << 8, 8 << 16, 8 << 24)  # registers of address, data and result
    null = 0x7F if nine else 0x7D if generation == 10 else 0x7C
    yield either(0x17D << 23, S << 16, S), 8, 8, [0]  # SOP1
    yield [2 << 30 | S << 16 | S << 8 | S], 7, 23, [0]  # SOP2
    yield [0x17E << 23 | S << 8 | S], 7, 16, [0]  # SOPC
    yield [0xB << 28 | S << 16 | 1, 0xB << 28 | S << 16 | 20], 5, 23, [0]  # SOPK
    yield [0x17F << 23, 0x17F << 23 | 15], 7, 16, [0]  # SOPP
    yield either(0x3F << 25, 8 << 17, V, S), 8, 9, [0]  # VOP1
    yield [8 << 17 | 8 << 9 | V], 6, 25, [0]  # VOP2
    yield [0x3E << 25 | 8 << 9 | V], 8, 17, [0]  # VOPC
    yield either((0x34 if nine else 0x35) << 26, 8, S << 8), 10, 16, three  # VOP3
    yield [0x1A7 << 23 | 8 if nine else 0x33 << 26 | 8], 7, 16, [of | 3 << 27 for of in three]
    smem = 0x30 << 26 | 1 << 17 if nine else 0x3D << 26
    at_null = [0] if nine else [null << 25]
    yield either(smem, 8 << 6, 4), 8, 18, at_null  # SMEM
    yield either(0x30 << 26 if nine else smem, 8 << 6), 8, 18, [0]
    yield [0x36 << 26], 8, 17 if nine else 18, four  # DS
    for segment in range(3):  # FLAT, SCRATCH, GLOBAL
        first = 0x37 << 26 | segment << (16 if eleven else 14)
        glc, lds = 1 << (14 if eleven else 16), 0 if eleven else 1 << 13
        saddr = 0 if nine and not segment else null << 16
        second = [word & ~(0xFF << 16) | saddr for word in four]
        yield either(first, glc, lds), 7, 18, second
    glc, lds = 1 << 14, 0 if eleven else 1 << 16
    resource = 2 << 16 | S << 24
    yield (
        either(0x38 << 26, glc, lds),
        8 if eleven else 7,
        18,
        [resource, resource | 8 << 8],
    )  # MUBUF
    if eleven:  # VOPD
        yield [0x32 << 26 | 8 << 9 | V], 9, 17, [V | 9 << 9 | 9 << 17 | 8 << 24]


def disassembled(arch):
    """Texts that LLVM prints of all codes, by the name of the instruction."""
    lines = []
    for firsts, bits, place, seconds in encodings(GENERATIONS[arch]):
        for first, code, second in product(firsts, range(1 << bits), seconds):
            word = first | code << place | second << 32
            lines.append(",".join(f"{byte:#04x}" for byte in word.to_bytes(8, "little")))
    command = [DISASSEMBLER, "--disassemble", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}"]
    ran = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    texts = defaultdict(dict)
    for line in ran.stdout.splitlines():
        text = line.strip().replace("\t", " ")
        if not text or text[0] == "." or "/*" in text or OF_GRAPHICS.match(text):
            continue
        for half in text.split(" :: "):
            name = SUFFIX.sub("", half.split(" ")[0])
            name += " lds" if text.endswith(" lds") else ""
            texts[name][text] = None
    return {name: list(forms) for name, forms in texts.items()}


def refusal(arch, machine, texts):
    """Why the emulator decodes no form of an instruction; None if it decodes one."""
    why = ""
    for text in texts:
        code = CodeObject(arch, {}, bytearray(), [], {0: (text, 8)})
        try:
            Instructions(code, 0, machine).at(0)
        except UserError as error:
            why = str(error).rpartition(text)[2].strip(" ()")
        else:
            return None
    return why


def tables():
    """Rows of counts.csv and of missing.csv, the first of each with the names of the columns."""
    there, every, missing = Counter(), Counter(), defaultdict(list)
    for arch, generation in GENERATIONS.items():
        machine = Machine(1, 64 if generation == 9 else 32, 512, generation, 256)
        for name, texts in disassembled(arch).items():
            kind = next(kind for kind, begins in KINDS.items() if re.match(begins, name))
            every[arch, kind] += 1
            if (why := refusal(arch, machine, texts)) is None:
                there[arch, kind] += 1
            else:
                missing[kind, name, why].append(arch)
    counts = [[arch, kind, there[arch, kind], every[arch, kind]] for arch, kind in sorted(every)]
    names = [[*key, " ".join(archs)] for key, archs in sorted(missing.items())]
    return {
        "counts.csv": [["processor", "kind", "emulated", "of"], *counts],
        "missing.csv": [["kind", "instruction", "why", "processors"], *names],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/instructions"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables().items():
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
