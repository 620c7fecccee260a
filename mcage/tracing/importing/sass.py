"""Which registers an instruction of an NVIDIA GPU writes and reads, from its SASS text alone.

For Volta and later. The widths are those of the life ranges that ``nvdisasm -plr`` prints;
results/importer-sources.md says how they were compared. What the table does not know is left out,
not guessed. ``scripts/nvbit/sass.h`` says the same of what is written, for the recorder.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import dropwhile

ZERO = 255
"""Number of RZ, which always reads 0 and never holds anything."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ONE = _words(
    "B2R BMSK BREV F2FP F2IP FADD FADD32I FFMA FFMA32I FHADD FHFMA FLO FMNMX FMNMX3 FMUL FMUL32I "
    "FSEL FSET FSWZADD HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 I2FP I2I I2IP "
    "IABS IADD3 IADD32I IDP ISCADD ISCADD32I LEA LOP LOP3 LOP32I MATCH MOV32I MUFU P2R POPC PRMT "
    "QSPC S2R SGXT SHF SHFL SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX3 VOTE"
)
"""Instructions that write a single register, whatever their suffixes are."""

_TWO = _words("CLMAD DADD DFMA DMNMX DMUL FADD2 FFMA2 FMUL2 GETLMEMBASE LEPC")
"""Instructions that write a pair."""

_SOURCE_FIRST = _words(
    "BAR BRX BRXU CALL CSETP CSMTEST DSETP FCHK FSETP HSETP2 ISETP JMX JMXU NANOSLEEP PLOP3 PSETP "
    "R2B R2P RET SETCTAID SETLMEMBASE VSETP WARPSYNC"
)
"""Instructions whose first register is a source: they write predicates, barriers or nothing."""

_MEMORY = _words("ATOM ATOMG ATOMS LD LDC LDG LDGMC LDL LDS SUATOM SULD")
_STORES = frozenset({"ST", "STG", "STS", "STL"})
_MOVES = _MEMORY | _STORES | {"RED", "REDG"}
_SIXTY_FOUR = _words("IADD IMAD IMNMX MOV SEL VIMNMX")
"""Arithmetic that has forms of 64 bits."""

_TEXTURES = _words("FOOTPRINT TEX TLD TLD4 TMML TXD TXQ")
_WITH_MASK = _words("TEX TLD TLD4 TXD")
_TENSOR = {
    "HMMA": {"F16": 2, "F32": 4},
    "QMMA": {"F16": 2, "F32": 4},
    "OMMA": {"F32": 4},
    "IMMA": {"8816": 2, "8832": 2, "16816": 4, "16832": 4, "16864": 4},
    "BMMA": {"88128": 2, "168128": 4, "168256": 4},
    "DMMA": {"884": 4, "8x8x4": 4, "16x8x4": 8, "16x8x8": 8, "16x8x16": 8},
}
"""Registers of a result, by the type of the accumulator or by the shape."""

_ROWS_OF_TENSOR_MEMORY = {
    **{"16dp32bit_t0_t15": 1, "16dp32bit_t16_t31": 1, "16dp64bit": 1, "PACK16BIT": 1},
    **{"16dp128bit": 2, "16dp256bit": 4},
}
_TYPES = frozenset({"F16", "F32", "F64", "BF16"})
_MASK = re.compile(r"0x[0-9a-f]\Z", re.ASCII)
_TIMES = re.compile(r"x\d{1,3}\Z", re.ASCII)
_VECTOR = re.compile(r"(B?F16|F32)x(\d)\Z", re.ASCII)

_PREDICATE = re.compile(r"!?U?P(?:T|R|\d)\Z", re.ASCII)
_REGISTER = re.compile(r"[-~!|]*R(Z|\d{1,3})(?=[.|\s]|\Z)(\.64)?", re.ASCII)
_IN_BRACKETS = re.compile(r"\bR(Z|\d{1,3})(\.U32|\.64|\.X\d+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """Registers of an instruction, from its text.

    Attributes
    ----------
    name : str
        ``IMAD``; empty if the text is no instruction.
    written : tuple of int
        Registers that it writes.
    unknown : range
        Registers that it may write, where it is not known which it writes; otherwise empty.
    read : tuple of int
        Registers that it reads, those of addresses included, each once, in their order.
    operands : tuple of (int, bool)
        Every operand that is a register, from left to right, with False; RZ is `ZERO`. With True,
        the first register of a memory operand.
    moved : int or None
        Registers that an operand of an access to memory has, 0 if it moves less than 32 bits; None
        for everything else.
    ends : bool
        Whether a warp is at its end after it: an ``EXIT`` without a guard.
    """

    name: str
    written: tuple[int, ...]
    unknown: range
    read: tuple[int, ...]
    operands: tuple[tuple[int, bool], ...]
    moved: int | None
    ends: bool


@lru_cache(1 << 16)
def instruction_of(text: str) -> SassInstruction:
    """Read the SASS text of an instruction, such as ``@!P0 IMAD.WIDE R2, R0, R3, RZ ;``."""
    words = text.partition(";")[0].strip()
    guard = ""
    if words.startswith("@"):
        guard, _, words = words.partition(" ")
    opcode, _, rest = words.strip().partition(" ")
    name, *suffixes = opcode.split(".")
    parts = list(_operands(rest))
    first = _destinations(name, suffixes, parts)
    widths = _widths(name, suffixes, parts) if first else ()
    unknown = range(0)
    if widths is None:
        widths = ()
        unknown = range(min(first), ZERO)
    written = dict.fromkeys(
        number
        for start, width in zip(first, widths, strict=False)
        for number in range(start, min(start + width, ZERO))
    )
    sources = list(_sources(name, suffixes, parts, len(first)))
    return SassInstruction(
        name=name,
        written=tuple(sorted(written)),
        unknown=unknown,
        read=tuple(dict.fromkeys(number for number in sources if number < ZERO)),
        operands=tuple(operand for part in parts if (operand := _operand(part))),
        moved=_bits(suffixes) // 32 if name in _MOVES else None,
        ends=name == "EXIT" and not guard,
    )


def _operands(text: str) -> Iterator[str]:
    """Parts between commas that stand outside of brackets."""
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0:
            yield text[begin:place].strip()
            begin = place + 1
    if last := text[begin:].strip():
        yield last


def _register(part: str) -> int | None:
    """Number of the register that an operand is, `ZERO` for RZ, or None."""
    match = _REGISTER.match(part)
    if not match:
        return None
    number = ZERO if match[1] == "Z" else int(match[1])
    return number if number <= ZERO else None


def _operand(part: str) -> tuple[int, bool] | None:
    """Register of an operand, or first register of a memory operand."""
    number = _register(part)
    if number is not None:
        return number, False
    numbers = _of_address(part)
    return (numbers[0], True) if numbers else None


def _of_address(part: str) -> list[int]:
    """Registers of a memory operand: two where the address has 64 bits."""
    if "[" not in part or part.startswith(("c[", "cx[")):
        return []
    numbers = []
    for match in _IN_BRACKETS.finditer(part):
        if match[1] != "Z" and (number := int(match[1])) < ZERO:
            pair = ".64" in match[0] and number % 2 == 0
            numbers += [number, number + 1][: 2 if pair else 1]
    return numbers


def _destinations(name: str, suffixes: list[str], parts: list[str]) -> list[int]:
    """Registers at which results begin: the first operand, or the first after predicates.

    Texture instructions and loads of 256 bits have two such operands.
    """
    if name in _SOURCE_FIRST:
        return []
    after = list(dropwhile(_PREDICATE.match, parts))
    count = 2 if name in _TEXTURES or "ENL2" in suffixes else 1
    first = [_register(part) for part in after[:count] if part.startswith("R")]
    return [number for number in first if number is not None] if len(first) == count else []


def _widths(name: str, suffixes: list[str], parts: list[str]) -> tuple[int, ...] | None:
    """How many registers there are from each destination on; None if that is not known."""
    kinds = set(suffixes)
    width: int | None = None
    if name in _ONE:
        width = 1
    elif name in _TWO:
        width = 2
    elif name in _MEMORY:
        if "ENL2" in kinds:
            return (4, 4) if "256" in kinds and name in ("LD", "LDG") else None
        width = None if kinds & {"256", "P"} else max(_bits(suffixes) // 32, 1)
    elif name in _SIXTY_FOUR:
        width = 2 if kinds & {"64", "S64", "U64", "WIDE"} else 1
    elif name in _TENSOR:
        if "884" in kinds and name == "HMMA":
            return (2,) if any(kind.startswith("STEP") for kind in kinds) else None
        width = next((_TENSOR[name][kind] for kind in suffixes if kind in _TENSOR[name]), None)
    elif name in _WITH_MASK:
        last = parts[-1]
        mask = 15 if not last.startswith("0x") else int(last, 16) if _MASK.match(last) else 0
        if not mask or kinds & {"F16", "P"}:
            return None
        return max(mask.bit_count() - 2, 0), min(mask.bit_count(), 2)
    elif name == "LDSM":
        width = (4 if "4" in kinds else 2 if "2" in kinds else 1) * (2 if "MT1616" in kinds else 1)
    elif name == "LDTM":
        width = 1
        for kind in suffixes:
            times = int(kind[1:]) if _TIMES.match(kind) else 0
            width *= times or _ROWS_OF_TENSOR_MEMORY.get(kind, 0)
    elif name == "MOVM":
        width = 1 if "MT88" in kinds else 2 if kinds & {"M832", "M864"} else None
    elif name == "CS2R":
        width = 1 if "32" in kinds else 2
    elif name in ("F2F", "FRND"):  # the first type is that of the destination
        width = 2 if next((kind for kind in suffixes if kind in _TYPES), "") == "F64" else 1
    elif name == "I2F":
        width = 2 if "F64" in kinds else 1
    elif name == "F2I":
        width = 2 if kinds & {"S64", "U64"} else 1
    elif name == "SYNCS":
        width = 2 if {"ARRIVE", "TRANS64"} <= kinds else None
    elif name in ("BMOV", "RPCMOV"):
        width = 1 if "32" in kinds else None
    return (width,) if width else None


def _bits(suffixes: list[str]) -> int:
    """Bits that an access to memory moves."""
    for suffix in suffixes:
        if vector := _VECTOR.match(suffix):
            return int(vector[1].lstrip("BF")) * int(vector[2])
        if suffix in ("U8", "S8", "U16", "S16"):
            return int(suffix[1:])
    sizes = {suffix.lstrip("SUF") for suffix in suffixes}
    return next((size for size in (256, 128, 64) if str(size) in sizes), 32)


def _sources(name: str, suffixes: list[str], parts: list[str], destinations: int) -> Iterator[int]:
    wide = 2 if name in _TWO else 1
    if name in _STORES:
        wide = max(_bits(suffixes) // 32, 1) // (2 if "ENL2" in suffixes else 1)
    for place, part in enumerate(parts):
        number = _register(part)
        if number is None:
            yield from _of_address(part)
        elif destinations:
            destinations -= 1
        else:
            added = name == "IMAD" and "WIDE" in suffixes and place == len(parts) - 1
            width = 2 if added or _REGISTER.match(part)[2] else wide  # type: ignore[index]
            yield from range(number, ZERO if number == ZERO else min(number + width, ZERO))
