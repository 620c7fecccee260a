"""State of a wave, and the text of an instruction taken apart.

Texts are those of llvm-objdump (LLVM's "User Guide for AMDGPU Backend" and its pages on operands
and modifiers). Register names: v, a (behind `accum_offset`), s, vcc, exec, m0, ttmp, null, scc.
"""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

from .floats import F16, F32, F64, Format, from_float

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
GFX9 = ("gfx90a", "gfx942")


class Unknown(Exception):  # noqa: N818
    """The model does not know this instruction (or this form of it)."""

    def __init__(self, mnemonic: str, address: int) -> None:
        super().__init__(f"{mnemonic} at {address:#x}")
        self.mnemonic, self.address = mnemonic, address


class Addressable(Protocol):
    """What loads and stores need of memory."""

    def load(self, address: int, count: int) -> bytes: ...

    def store(self, address: int, data: bytes) -> None: ...


class Memory:
    """Bytes at 64-bit addresses; what was never written reads 0."""

    def __init__(self, bytes_at: MutableMapping[int, int] | None = None) -> None:
        self.bytes_at = {} if bytes_at is None else bytes_at

    def load(self, address: int, count: int) -> bytes:
        return bytes(self.bytes_at.get(address + i, 0) for i in range(count))

    def store(self, address: int, data: bytes) -> None:
        self.bytes_at.update((address + i, byte) for i, byte in enumerate(data))


@dataclass
class Wave:
    """Registers of a wave, and the memories that it sees.

    ``vcc`` holds 64 bits, also with 32 lanes, where compilers use ``vcc_hi`` as one more SGPR.
    Flat addresses whose upper half is that of ``shared_base`` or ``private_base`` lie in LDS or
    scratch.
    """

    lanes: int
    v: list[list[int]]
    s: list[int]
    vcc: int = 0
    exec: int = 0
    m0: int = 0
    scc: int = 0
    accum_offset: int = 256
    lds: bytearray = field(default_factory=bytearray)
    memory: Addressable | dict[int, int] = field(default_factory=Memory)
    scratch: list[bytearray] = field(default_factory=list)
    ttmp: list[int] = field(default_factory=lambda: [0] * 16)
    shared_base: int = 1 << 60
    private_base: int = 2 << 60

    def active(self) -> list[int]:
        """Lanes that EXEC lets take part."""
        return [lane for lane in range(self.lanes) if self.exec >> lane & 1]

    @property
    def bytes(self) -> Addressable:
        return Memory(self.memory) if isinstance(self.memory, dict) else self.memory


class Operand(NamedTuple):
    """One operand: a register of kind "v", "a" or "s", a constant "k", or another name "n"."""

    kind: str
    name: str
    index: int = 0
    count: int = 1
    neg: bool = False
    abs: bool = False
    sext: bool = False
    half: int | None = None  # .l and .h of gfx11


class Instruction(NamedTuple):
    mnemonic: str
    base: str  # without the suffix of the encoding
    operands: tuple[Operand, ...]
    modifiers: dict[str, object]
    address: int
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

    def unknown(self) -> Unknown:
        return Unknown(self.mnemonic, self.address)


SDWA_KEYS = ("dst_sel", "src0_sel", "src1_sel")
DPP_KEYS = (
    *("quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror", "row_bcast"),
    *("row_newbcast", "row_share", "row_xmask", "wave_shl", "wave_rol", "wave_shr", "wave_ror"),
    "dpp8",
)
SUFFIX = re.compile(r"(_e64_dpp|_e32|_e64|_dpp8|_dpp|_sdwa)$")
REGISTER = re.compile(r"(ttmp|[vas])(\d+)(?:\.([lh]))?$|(ttmp|[vas])\[(\d+)(?::(\d+))?\]$")


def split_operands(text: str) -> list[str]:
    """Parts between commas that no bracket and no quote encloses."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def parse_operand(text: str) -> Operand:
    neg = absolute = sext = False
    while True:
        if text.startswith("-") and not re.fullmatch(r"-(0x\w+|[\d.]+(e[-+]?\d+)?)", text):
            neg, text = True, text[1:]
        elif text.startswith(("neg(", "abs(", "sext(")) and text.endswith(")"):
            neg, absolute = neg or text[0] == "n", absolute or text[0] == "a"
            sext = sext or text[0] == "s"
            text = text[text.index("(") + 1 : -1]
        elif text.startswith("|") and text.endswith("|"):
            absolute, text = True, text[1:-1]
        else:
            break
    match = REGISTER.fullmatch(text)
    if match:
        kind, first, half, kind_of_range, low, high = match.groups()
        if kind:
            place = None if half is None else int(half == "h")
            return Operand(kind, text, int(first), 1, neg, absolute, sext, place)
        count = int(high or low) - int(low) + 1
        return Operand(kind_of_range, text, int(low), count, neg, absolute, sext)
    constant = re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+(\.\d+)?(e[-+]?\d+)?)", text)
    return Operand("k" if constant else "n", text, 0, 1, neg, absolute, sext)


def parse_modifier(text: str) -> tuple[str, object]:
    key, colon, value = text.partition(":")
    if not colon:
        return key, True
    if value.startswith("["):
        return key, tuple(int(x, 0) for x in value[1:-1].split(","))
    return key, int(value, 0) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", value) else value


@cache
def parse(text: str, address: int, arch: str) -> Instruction:
    text = re.sub(r"/\*.*?\*/", "", text.partition("//")[0]).strip()
    mnemonic, _, rest = text.partition(" ")
    base = SUFFIX.sub("", mnemonic)
    operands, modifiers = [], {}
    parts = split_operands(rest.strip()) if rest.strip() else []
    for i, part in enumerate(parts):
        words = part.split()
        if i == len(parts) - 1:
            modifiers = dict(parse_modifier(word) for word in words[1:])
            if words and ":" in words[0] and "[" not in words[0].partition(":")[0]:
                key, value = parse_modifier(words[0])  # without any operand
                modifiers[key] = value
                continue
        operands.append(parse_operand(words[0] if i == len(parts) - 1 else part))
    return Instruction(mnemonic, base, tuple(operands), modifiers, address, arch)


def signed(x: int, bits: int) -> int:
    """The low bits of x as a two's complement number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def constant(text: str, width: int, kind: str) -> int:
    """Bits of a constant operand: CDNA3 ISA 4.1 and RDNA3 ISA, "Inline constants", "Literals".

    ``kind`` is the first letter of the type that reads it. A literal has 32 bits: the upper half
    of a float of 64 bits, sign-extended for signed integers of 64 bits, else zero-extended.
    """
    if text.startswith("0x"):
        literal = int(text, 16) & MASK32
        if width == 64 and kind == "f":
            return literal << 32
        return signed(literal, 32) & MASK64 if kind == "i" else literal
    if "." in text or "e" in text:
        f: Format = {16: F16, 64: F64}.get(width, F32)
        if text.startswith("0.15915494"):
            return {16: 0x3118, 64: 0x3FC45F306DC9C882}.get(width, 0x3E22F983)
        return from_float(float(text), f)
    return int(text) & MASK64


SPECIAL = {  # (attribute, first bit, bits)
    "vcc": ("vcc", 0, 64),
    "vcc_lo": ("vcc", 0, 32),
    "vcc_hi": ("vcc", 32, 32),
    "exec": ("exec", 0, 64),
    "exec_lo": ("exec", 0, 32),
    "exec_hi": ("exec", 32, 32),
    "m0": ("m0", 0, 32),
    "src_scc": ("scc", 0, 32),
    "scc": ("scc", 0, 32),
    "src_shared_base": ("shared_base", 0, 64),
    "src_private_base": ("private_base", 0, 64),
}


def read_scalar(wave: Wave, operand: Operand, width: int, kind: str = "b") -> int:
    """Bits of a scalar operand or constant, without modifiers."""
    mask, name = (1 << width) - 1, operand.name
    if operand.kind == "s" or operand.kind == "ttmp":
        registers = wave.s if operand.kind == "s" else wave.ttmp
        words = max(1, width // 32)
        parts = registers[operand.index : operand.index + words]
        return sum(word << 32 * i for i, word in enumerate(parts)) & mask
    if operand.kind == "k":
        return constant(name, width, kind) & mask
    if name in ("null", "off"):
        return 0
    if name in SPECIAL:
        attribute, first, bits = SPECIAL[name]
        return getattr(wave, attribute) >> first & (1 << bits) - 1 & mask
    if name in ("src_vccz", "vccz"):
        return int(lane_mask(wave, wave.vcc) == 0)
    if name in ("src_execz", "execz"):
        return int(wave.exec == 0)
    raise KeyError(name)


def write_scalar(wave: Wave, operand: Operand, width: int, value: int) -> None:
    value &= (1 << width) - 1
    if operand.kind == "s" or operand.kind == "ttmp":
        registers = wave.s if operand.kind == "s" else wave.ttmp
        for i in range(max(1, width // 32)):
            registers[operand.index + i] = value >> 32 * i & MASK32
    elif operand.name in SPECIAL:
        attribute, first, bits = SPECIAL[operand.name]
        old = getattr(wave, attribute) & ~((1 << bits) - 1 << first)
        setattr(wave, attribute, old | (value & (1 << bits) - 1) << first)
    elif operand.name != "null":
        raise KeyError(operand.name)


def lane_mask(wave: Wave, mask: int) -> int:
    return mask & (1 << wave.lanes) - 1


def register(wave: Wave, operand: Operand) -> int:
    """Number of the first VGPR, with AGPRs behind `accum_offset`."""
    return operand.index + (wave.accum_offset if operand.kind == "a" else 0)


def read_lane(wave: Wave, operand: Operand, width: int, lane: int, kind: str = "b") -> int:
    """Bits of a vector or scalar operand in a lane, without modifiers."""
    if operand.kind not in "va":
        return read_scalar(wave, operand, width, kind)
    first = register(wave, operand)
    words = max(1, width // 32)
    return sum(wave.v[first + i][lane] << 32 * i for i in range(words))


def write_lane(wave: Wave, operand: Operand, width: int, lane: int, value: int) -> None:
    first = register(wave, operand)
    for i in range(max(1, width // 32)):
        wave.v[first + i][lane] = value >> 32 * i & MASK32


VCC = {64: Operand("n", "vcc"), 32: Operand("n", "vcc_lo")}
EXEC = {64: Operand("n", "exec"), 32: Operand("n", "exec_lo")}
