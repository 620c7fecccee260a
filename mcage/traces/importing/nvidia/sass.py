"""Which registers an instruction of an NVIDIA GPU writes and reads, from its SASS text alone.

``scripts/nvbit/sass.h`` says the same of what is written, for the recorder.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

ZERO = 255
"""Number of RZ, which always reads 0 and never holds anything."""

_NO_REGISTER = frozenset(
    {
        *("ST", "STG", "STS", "STL", "STSM", "STAS", "SUST", "SURED", "RED", "REDG", "REDAS"),
        *("ISETP", "FSETP", "DSETP", "HSETP2", "VSETP", "PSETP", "CSETP", "FCHK", "R2P", "PLOP3"),
        *("EXIT", "BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU", "CALL", "RET", "BAR", "BSSY"),
        *("BSYNC", "BREAK", "WARPSYNC", "NANOSLEEP", "YIELD", "NOP", "BPT", "KILL", "MEMBAR"),
        *("ERRBAR", "DEPBAR", "LDGDEPBAR", "LDGSTS", "CCTL", "CCTLL", "CCTLT", "PREFETCH", "R2B"),
        *("RPCMOV", "SYNCS", "ARRIVES", "ACQBULK", "UBLKCP", "UBLKRED", "UBLKPF", "HGMMA", "IGMMA"),
        *("QGMMA", "BGMMA", "WARPGROUP", "WARPGROUPSET", "RTT", "IDE", "PMTRIG", "SETCTAID"),
        *("SETLMEMBASE", "SUQUERY", "VOTEU", "TEXDEPBAR", "ELECT", "ENDCOLLECTIVE"),
    }
)
"""Instructions whose first register is a source: they write memory, predicates or barriers."""

_STORES = frozenset({"ST", "STG", "STS", "STL"})
_WIDE_ARITHMETIC = frozenset({"DADD", "DMUL", "DFMA", "DMNMX", "FADD2", "FMUL2", "FFMA2"})
_SIZED = frozenset({"LD", "LDG", "LDS", "LDL", "LDC", "ATOM", "ATOMG", "ATOMS", "SULD"}) | {
    *("IADD", "MOV", "SEL", "IMAD"),
}
_TYPES = frozenset({"F16", "F32", "F64", "BF16"})

_PREDICATE = re.compile(r"!?U?P(?:T|R|\d)\Z", re.ASCII)
_REGISTER = re.compile(r"[-~!|]*R(Z|\d{1,3})(?=[.|\s]|\Z)(\.64)?", re.ASCII)
_IN_BRACKETS = re.compile(r"\bR(Z|\d{1,3})(\.U32|\.64|\.X\d+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the text of an instruction says of registers.

    Attributes
    ----------
    name : str
        ``IMAD``; empty if the text is no instruction.
    written : tuple of int
        Registers that it writes.
    read : tuple of int
        Registers that it reads, those of addresses included, each once, in their order.
    operands : tuple of (int, bool)
        Every operand that is a register, from left to right, with False; RZ is `ZERO`. With True,
        the first register of a memory operand.
    ends : bool
        Whether a warp is at its end after it: an ``EXIT`` without a guard.
    """

    name: str
    written: tuple[int, ...]
    read: tuple[int, ...]
    operands: tuple[tuple[int, bool], ...]
    ends: bool


@lru_cache(1 << 16)
def instruction_of(text: str) -> Instruction:
    """Read the SASS text of an instruction, such as ``@!P0 IMAD.WIDE R2, R0, R3, RZ ;``."""
    words = text.partition(";")[0].strip()
    guard = ""
    if words.startswith("@"):
        guard, _, words = words.partition(" ")
    opcode, _, rest = words.strip().partition(" ")
    name, *suffixes = opcode.split(".")
    parts = list(_operands(rest))
    written = _written(name, suffixes, parts)
    sources = list(_sources(name, suffixes, parts, bool(written)))
    return Instruction(
        name=name,
        written=written,
        read=tuple(dict.fromkeys(number for number in sources if number < ZERO)),
        operands=tuple(operand for part in parts if (operand := _operand(part))),
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


def _written(name: str, suffixes: list[str], parts: list[str]) -> tuple[int, ...]:
    """The destination is the first operand, or the first after predicates."""
    if name in _NO_REGISTER:
        return ()
    for part in parts:
        if not part:
            return ()
        if _PREDICATE.match(part):
            continue
        first = _register(part) if part[0] == "R" else None
        if first is None or first == ZERO:
            return ()
        return tuple(range(first, min(first + _width(name, suffixes), ZERO)))
    return ()


def _width(name: str, suffixes: list[str]) -> int:
    """How many registers the destination has."""
    if name in ("HMMA", "IMMA", "QMMA", "OMMA", "BMMA"):
        if "884" in suffixes:
            return 8 if "F32" in suffixes else 4
        if not {"8816", "8832", "88128"}.isdisjoint(suffixes):
            return 2
        halves = suffixes and name in ("HMMA", "QMMA") and "F32" not in suffixes
        return 2 if halves else 4
    if name == "DMMA":
        return 4 if "884" in suffixes else 8
    if name == "LDSM":
        return 4 if "4" in suffixes else 2 if "2" in suffixes else 1
    if name in _WIDE_ARITHMETIC or (name == "IMAD" and "WIDE" in suffixes):
        return 2
    if name == "CS2R":
        return 1 if "32" in suffixes else 2
    if name in ("F2F", "FRND"):  # the first type is that of the destination
        return 2 if next((kind for kind in suffixes if kind in _TYPES), "") == "F64" else 1
    if name == "I2F":
        return 2 if "F64" in suffixes else 1
    if name == "F2I":
        return 2 if "S64" in suffixes or "U64" in suffixes else 1
    return _size(suffixes) if name in _SIZED else 1


def _size(suffixes: list[str]) -> int:
    """Registers that a memory access moves."""
    return 4 if "128" in suffixes else 2 if "64" in suffixes or "F64" in suffixes else 1


def _sources(name: str, suffixes: list[str], parts: list[str], writes: bool) -> Iterator[int]:
    wide = 2 if name in _WIDE_ARITHMETIC else 1
    if name in _STORES:
        wide = _size(suffixes)
    destination = writes
    for place, part in enumerate(parts):
        number = _register(part)
        if number is None:
            yield from _of_address(part)
        elif destination or (place == 0 and name not in _NO_REGISTER):
            destination = False
        else:
            added = name == "IMAD" and "WIDE" in suffixes and place == len(parts) - 1
            width = 2 if added or _REGISTER.match(part)[2] else wide  # type: ignore[index]
            yield from range(number, ZERO if number == ZERO else min(number + width, ZERO))
