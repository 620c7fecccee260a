"""State of a wave, and the text of an instruction taken apart.

Texts are those of llvm-objdump (LLVM's "User Guide for AMDGPU Backend" and its pages on operands
and modifiers). Register names: v, s, vcc, exec.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from .floats import F16, F32, F64, Format, from_float

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
GFX9 = ("gfx90a",)


class Space:
    """A memory, of which only so many bytes may be used: others read 0 and are not written."""

    def __init__(self, data: bytearray, first: int = 0, size: int | None = None) -> None:
        self.data, self.first, self.size = data, first, len(data) if size is None else size

    def holds(self, address: int, count: int) -> bool:
        return 0 <= address - self.first <= min(self.size, len(self.data)) - count

    def load(self, address: int, count: int) -> bytes:
        places = range(address, address + count)
        return bytes(self.data[i - self.first] if self.holds(i, 1) else 0 for i in places)

    def store(self, address: int, data: bytes) -> None:
        for i, byte in enumerate(data, address):
            if self.holds(i, 1):
                self.data[i - self.first] = byte


@dataclass
class Wave:
    """Registers of a wave, and the memories that it sees.

    ``vcc`` holds 64 bits, also with 32 lanes, where compilers use ``vcc_hi`` as one more SGPR.
    ``indexing`` is MODE.gpr_idx_en of gfx9.
    """

    lanes: int
    v: list[list[int]]
    s: list[int]
    vcc: int = 0
    exec: int = 0
    m0: int = 0
    scc: int = 0
    indexing: bool = False
    lds: bytearray = field(default_factory=bytearray)
    memory: Space = field(default_factory=lambda: Space(bytearray()))
    scratch: list[bytearray] = field(default_factory=list)

    def active(self) -> list[int]:
        """Lanes that EXEC lets take part."""
        return [lane for lane in range(self.lanes) if self.exec >> lane & 1]


class Operand(NamedTuple):
    """One operand: a register of kind "v" or "s", a constant "k", or another name "n"."""

    kind: str
    name: str
    index: int = 0
    neg: bool = False
    abs: bool = False
    sext: bool = False


class Instruction(NamedTuple):
    base: str  # without the suffix of the encoding
    operands: tuple[Operand, ...]
    modifiers: dict[str, object]
    arch: str

    @property
    def gfx9(self) -> bool:
        return self.arch in GFX9

    @property
    def dpp(self) -> bool:
        return any(key in self.modifiers for key in DPP_KEYS)

    @property
    def sdwa(self) -> bool:
        return any(key in self.modifiers for key in SDWA_KEYS)

    def bits(self, key: str, count: int, default: int = 0) -> list[int]:
        """A list such as op_sel, filled up with its default."""
        given = list(self.modifiers.get(key, ()))
        return given + [default] * (count - len(given))


SDWA_KEYS = ("dst_sel", "src0_sel", "src1_sel")
DPP_KEYS = (
    *("quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror", "row_bcast"),
    *("row_newbcast", "row_share", "row_xmask", "wave_shl", "wave_rol", "wave_shr", "wave_ror"),
    "dpp8",
)
SUFFIX = re.compile(r"(_e64_dpp|_e32|_e64|_dpp|_sdwa)$")
REGISTER = re.compile(r"(-?)(\|?)(sext\()?([vs])(?:(\d+)|\[(\d+):\d+\])[|)]?")


def parse_operand(text: str) -> Operand:
    match = REGISTER.fullmatch(text)
    if not match:
        return Operand("k" if text.lstrip("-")[0].isdigit() else "n", text)
    neg, absolute, sext, kind, single, first = match.groups()
    return Operand(kind, text, int(single or first), bool(neg), bool(absolute), bool(sext))


def parse_modifier(text: str) -> tuple[str, object]:
    key, colon, value = text.partition(":")
    if not colon:
        return key, True
    if value.startswith("["):
        return key, tuple(int(x, 0) for x in value[1:-1].split(","))
    return key, int(value, 0) if re.fullmatch(r"0x\w+|\d+", value) else value


@cache
def parse(text: str, arch: str) -> Instruction:
    mnemonic, _, rest = text.partition(" ")
    if not rest:
        return Instruction(mnemonic, (), {}, arch)
    *operands, last = re.split(r",\s*(?![^\[(]*[\])])", rest)  # in no bracket
    last, *modifiers = last.split()
    return Instruction(
        SUFFIX.sub("", mnemonic),
        tuple(parse_operand(operand) for operand in (*operands, last)),
        dict(map(parse_modifier, modifiers)),
        arch,
    )


def signed(x: int, bits: int) -> int:
    """The low bits of x as a two's complement number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def constant(text: str, width: int, kind: str) -> int:
    """Bits of a constant operand: CDNA3 ISA 4.1 and RDNA3 ISA, "Inline constants", "Literals".

    ``kind`` is the first letter of the type that reads it. A literal has 32 bits: sign-extended
    for signed integers of 64 bits, else zero-extended.
    """
    if text.startswith("0x"):
        literal = int(text, 16)
        return signed(literal, 32) & MASK64 if kind == "i" else literal
    if "." in text:
        f: Format = {16: F16, 64: F64}.get(width, F32)
        if text.startswith("0.15915494"):
            return {16: 0x3118, 64: 0x3FC45F306DC9C882}.get(width, 0x3E22F983)
        return from_float(float(text), f)
    return int(text) & MASK64


def read_scalar(wave: Wave, operand: Operand, width: int, kind: str = "b") -> int:
    """Bits of a scalar operand or constant, without modifiers."""
    mask, name = (1 << width) - 1, operand.name
    if operand.kind == "s":
        parts = wave.s[operand.index : operand.index + max(1, width // 32)]
        return sum(word << 32 * i for i, word in enumerate(parts)) & mask
    if operand.kind == "k":
        return constant(name, width, kind) & mask
    if name in ("null", "off"):
        return 0
    return getattr(wave, name.removesuffix("_lo")) & mask


def write_scalar(wave: Wave, operand: Operand, width: int, value: int) -> None:
    value &= (1 << width) - 1
    if operand.kind == "s":
        for i in range(max(1, width // 32)):
            wave.s[operand.index + i] = value >> 32 * i & MASK32
    else:
        name = operand.name.removesuffix("_lo")
        setattr(wave, name, getattr(wave, name) >> width << width | value)


def read_lane(wave: Wave, operand: Operand, width: int, lane: int, kind: str = "b") -> int:
    """Bits of a vector or scalar operand in a lane, without modifiers."""
    if operand.kind != "v":
        return read_scalar(wave, operand, width, kind)
    words = max(1, width // 32)
    return sum(wave.v[operand.index + i][lane] << 32 * i for i in range(words))


def write_lane(wave: Wave, operand: Operand, width: int, lane: int, value: int) -> None:
    for i in range(max(1, width // 32)):
        wave.v[operand.index + i][lane] = value >> 32 * i & MASK32


VCC = {64: Operand("n", "vcc"), 32: Operand("n", "vcc_lo")}
EXEC = {64: Operand("n", "exec"), 32: Operand("n", "exec_lo")}
