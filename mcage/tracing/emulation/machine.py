"""The state of the waves that run together, and how instructions read and write it.

Waves of one group execute an instruction at once: ``[waves, lanes]`` for a vector register,
``[waves]`` for a scalar one. The text of an instruction, as ``llvm-objdump`` prints it, is taken
apart, and becomes a closure over the machine when it is first reached (`vector`, `scalar`,
`memory`); this module gives it its operands.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcage.tracing.emulation.arithmetic import WORD, Array
from mcage.tracing.emulation.interpreter import ROOM

# The text of an instruction.

SCALARS = {
    **{"vcc": 106, "vcc_lo": 106, "vcc_hi": 107, "m0": 124, "exec": 126, "exec_lo": 126},
    **{"exec_hi": 127, "flat_scratch": 102, "flat_scratch_lo": 102, "flat_scratch_hi": 103},
    **{"xnack_mask": 104, "xnack_mask_lo": 104, "xnack_mask_hi": 105, "null": 125},
}
"""Numbers of the scalar registers that have a name; s0 ... s105 have their own."""

VCC, TTMP, M0, NULL, EXEC = 106, 108, 124, 125, 126


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand.

    Attributes
    ----------
    kind : str
        ``v``, ``a`` (accumulator), ``s``, ``int``, ``float``, or ``name`` for anything else.
    number : int
        The first register, or the integer.
    count : int
        Registers.
    text : str
        The text without signs; of a ``float``, its digits.
    negated, absolute, extended : bool
        ``-x``, ``|x|``, ``sext(x)``.
    half : int
        1 for the upper half of a register (``v1.h``).
    """

    kind: str
    number: int = 0
    count: int = 1
    text: str = ""
    negated: bool = False
    absolute: bool = False
    extended: bool = False
    half: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction.

    Attributes
    ----------
    address, size : int
        Where it lies, and its bytes.
    name : str
        Its mnemonic without the suffix of the encoding.
    encoding : str
        ``dpp``, ``sdwa``, or nothing.
    operands : tuple of Operand
        In the order of the text.
    modifiers : dict of str to str
        What follows the operands: ``offset:16`` is ``{"offset": "16"}``, ``clamp`` is empty.
    text : str
        As it was printed.
    """

    address: int
    size: int
    name: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def modifier(self, name: str, default: int = 0) -> int:
        """A modifier that is a number: decimal or hexadecimal."""
        text = self.modifiers.get(name)
        return default if text is None else int(text or "1", 0)

    def bits(self, name: str, position: int, default: int = 0) -> int:
        """One of the bits of a modifier such as ``op_sel:[0,1]``."""
        listed = self.modifiers.get(name)
        if listed is None:
            return default
        bits = listed.strip("[]").split(",")
        return int(bits[position]) if position < len(bits) else default


_SUFFIX = re.compile(r"_(e32|e64|dpp|e64_dpp|dpp8|sdwa)$")
_REGISTER = re.compile(r"([vas]|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(\.[lh])?$")
_INTEGER = re.compile(r"(-?)(0x[0-9a-f]+|\d+)$")
_FLOAT = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?$|-?\d+e[-+]?\d+$")
_MODIFIER = re.compile(r"([a-z_0-9]+):?(.*)$")
_WITH_TEXT = ("s_waitcnt", "s_sendmsg", "s_delay_alu", "s_getreg", "s_setreg", "s_wait_")


def parse(text: str, address: int = 0, size: int = 4) -> list[Instruction]:
    """Take an instruction apart; a dual issue has two parts, any other one.

    Raises
    ------
    ValueError
        It cannot be taken apart.
    """
    parts = [part.strip() for part in text.split("::")]
    return [_parse(part, address, size) for part in parts]


def _parse(text: str, address: int, size: int) -> Instruction:
    mnemonic, _, rest = text.strip().partition(" ")
    rest = re.sub(r"<.*>$", "", rest).strip()
    suffix = _SUFFIX.search(mnemonic)
    name = mnemonic[: suffix.start()] if suffix else mnemonic
    encoding = suffix[1] if suffix else ""
    encoding = "dpp" if "dpp" in encoding else encoding if encoding == "sdwa" else ""
    if name.startswith(_WITH_TEXT):
        return Instruction(address, size, name, encoding, (), {"text": rest}, text)
    operands, modifiers = [], {}
    parts = _split(rest)
    for number, part in enumerate(parts):
        words = _words(part)
        if not words:
            raise ValueError(f"an empty operand in {text!r}")
        operands.append(_operand(words[0]))
        for word in words[1:]:
            if number + 1 < len(parts):
                raise ValueError(f"{word!r} between operands in {text!r}")
            match = _MODIFIER.match(word)
            if not match:
                raise ValueError(f"{word!r} in {text!r}")
            modifiers[match[1]] = match[2]
    return Instruction(address, size, name, encoding, tuple(operands), modifiers, text)


def _split(text: str) -> list[str]:
    """Parts between commas that are not in brackets."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append(text[begin:place].strip())
            begin = place + 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []


def _words(text: str) -> list[str]:
    return re.findall(r"(?:[^\s\[(]|\[[^\]]*\]|\([^)]*\))+", text)


def _operand(text: str) -> Operand:
    negated = absolute = extended = False
    if text.startswith("sext(") and text.endswith(")"):
        text, extended = text[5:-1], True
    if text.startswith("lit(") and text.endswith(")"):  # as LLVM 20 and later print literals
        text = text[4:-1]
    if text.startswith("neg(") and text.endswith(")"):
        text, negated = text[4:-1], True
    if text.startswith("-") and not (_INTEGER.match(text) or _FLOAT.match(text)):
        text, negated = text[1:], True
    if len(text) > 2 and text[0] == text[-1] == "|":
        text, absolute = text[1:-1], True
    if match := _REGISTER.match(text):
        first = int(match[2] or match[3])
        count = int(match[4] or first) - first + 1
        if not 1 <= count <= 32 or first > 1023:
            raise ValueError(f"registers {text!r}")
        kind = match[1]
        if kind == "ttmp":
            kind, first = "s", TTMP + first
        half = int(match[5] == ".h")
        return Operand(kind, first, count, text, negated, absolute, extended, half)
    if text in SCALARS:
        count = 2 if text in ("vcc", "exec", "flat_scratch", "xnack_mask") else 1
        return Operand("s", SCALARS[text], count, text, negated, absolute, extended)
    if match := _INTEGER.match(text):
        number = int(match[1] + match[2], 0)
        return Operand("int", number, 1, text, negated, absolute, extended)
    if _FLOAT.match(text):
        return Operand("float", 0, 1, text, negated, absolute, extended)
    return Operand("name", 0, 1, text, negated, absolute, extended)


Source = Callable[["Machine"], Array]
"""Gives an operand of the running waves: [waves, lanes], or [waves, 1] of what all lanes share."""

Execute = Callable[["Machine"], Any]

SHARED_BASE, PRIVATE_BASE = 1 << 48, 1 << 49
"""Addresses at which flat accesses find LDS and private memory."""

SCALAR_REGISTERS = 128

_ALL = slice(None)
_INLINE = range(-16, 65)


class UnsupportedError(Exception):
    """An instruction, or a form of it, that is not emulated."""


class OutsideError(Exception):
    """An access outside of every buffer."""


class Machine:
    """Waves of some work-groups that run together.

    Parameters
    ----------
    waves, lanes : int
        How many, and work-items of each.
    registers : int
        Vector registers of a wave, accumulators included.
    generation : int
        Of the instruction set: 9, 10 or 11.
    accumulators_from : int
        Number of the first accumulator among the vector registers.

    Attributes
    ----------
    vector : uint32[registers, waves, lanes]
        A view of `words`, in which the registers of a wave lie together; behind them there is room
        for the interpreter.
    scalar : uint32[128, waves]
        A view of `scalar_words`, likewise.
    active : bool[waves, lanes]
        EXEC.
    scc : bool[waves]
    lds : uint8[work-groups, bytes]
        Of these, the last `lds_spare` are no part of a work-group's.
    group : slice or int64[running]
        The waves that execute.
    """

    def __init__(
        self, waves: int, lanes: int, registers: int, generation: int, accumulators_from: int = 512
    ) -> None:
        self.waves, self.lanes = waves, lanes
        self.registers, self.generation = registers, generation
        self.accumulators_from = accumulators_from
        size = waves * registers * lanes
        self.words = np.zeros(size + ROOM, np.uint32)
        self.vector = self.words[:size].reshape(waves, registers, lanes).swapaxes(0, 1)
        self.scalar_words = np.zeros(waves * SCALAR_REGISTERS, np.uint32)
        self.scalar = self.scalar_words.reshape(waves, SCALAR_REGISTERS).T
        self.active = np.ones((waves, lanes), np.bool_)
        self.scc = np.zeros(waves, np.bool_)
        self.pc = np.zeros(waves, np.int64)
        self.lds: Array = np.zeros((1, 4), np.uint8)
        self.lds_spare = 0
        self.lds_of_wave = np.zeros(waves, np.int64)
        self.scratch: Array = np.zeros((waves, lanes, 0), np.uint8)
        self.memory: Any = None
        self.wrote: Callable[[int, Array], None] | None = None
        self.put_bits(slice(None), EXEC, np.full(waves, (1 << lanes) - 1, np.uint64))
        self.run_group(_ALL)

    # Accesses to memory. A machine of which registers may be wrong does not end with the first.

    def offsets(self, addresses: Array, size: int, which: Any = _ALL) -> Array:
        """Offsets into memory of the addresses of the active lanes, or of some of these.

        Parameters
        ----------
        addresses : int64[n]
            In the order of waves and lanes.
        size : int
            Bytes of each access.
        which : bool[active lanes]
            Whose addresses they are.

        Raises
        ------
        OutsideError
            An access lies outside of every buffer.
        """
        return np.asarray(self.memory.offsets(addresses, size))

    def offsets_of_waves(self, addresses: Array, size: int, which: Any = _ALL) -> Array:
        """The same of an address for each running wave, or for some of these."""
        return np.asarray(self.memory.offsets(addresses, size))

    def refuse(
        self, wrong: Array, what: str, where: Array, which: Any = _ALL, *, dropped: bool = False
    ) -> Array:
        """Refuse the wrong accesses of the active lanes.

        Parameters
        ----------
        wrong : bool[n]
            Which accesses are wrong.
        what : str
            What is wrong, in words.
        where : int64[n]
            Offsets of all accesses.
        which : bool[active lanes]
            Whose accesses these are.
        dropped : bool
            Whether hardware drops such an access and goes on.

        Raises
        ------
        OutsideError
            Always.
        """
        raise OutsideError(f"{what}, at {int(where[np.argmax(wrong)])}")

    def access(self) -> tuple[Any, ...]:
        """Arrays by which the interpreter finds its way in memory, as `advance` takes them."""
        memory, waves = self.memory, np.zeros(self.waves, np.int64)
        content, valid = np.zeros(4, np.uint8), np.zeros(1, np.bool_)
        if memory is not None:
            content, valid = memory.bytes, memory.valid
        nobody = np.zeros((1, 0), np.bool_), np.zeros(0, np.int32), waves[:1], np.zeros(1, np.bool_)
        base = memory.base if memory is not None else 0
        lay = base, len(content), 0, 2
        return content, (valid, valid[None], waves), nobody, lay

    def run_group(self, group: Any) -> None:
        """Let these waves execute: all (a slice), or those with these numbers."""
        self.group = group
        self.running = self.waves if isinstance(group, slice) else len(group)
        self.exec_changed()

    def exec_changed(self) -> None:
        """Note what EXEC is of the running waves."""
        self.lanes_on = self.active[self.group]
        self.all_on = bool(self.lanes_on.all())

    # Scalar registers.

    def word(self, number: int) -> Array:
        """A scalar register of the running waves, uint32[running]."""
        if number == NULL:
            return np.zeros(self.running, np.uint32)
        return self.scalar[number, self.group]

    def pair(self, number: int) -> Array:
        """Two scalar registers, uint64[running]."""
        high = self.word(number + 1 if number != NULL else NULL).astype(np.uint64)
        return self.word(number) | high << np.uint64(32)

    def put_word(self, number: int, value: Array) -> None:
        """Write a scalar register."""
        if number == NULL:
            return
        self.scalar[number, self.group] = value
        if number in (EXEC, EXEC + 1):
            self._exec_from_scalar(self.group)
            self.exec_changed()

    def put_pair(self, number: int, value: Array) -> None:
        """Write two scalar registers."""
        if number == NULL:
            return
        self.put_bits(self.group, number, value)
        if number == EXEC:
            self.exec_changed()

    def put_bits(self, group: Any, number: int, value: Array) -> None:
        """Write two scalar registers of some waves."""
        words = np.ascontiguousarray(value, np.uint64).view(np.uint32).reshape(-1, 2)
        self.scalar[number, group] = words[:, 0]
        self.scalar[number + 1, group] = words[:, 1]
        if number == EXEC:
            self._exec_from_scalar(group)

    def _exec_from_scalar(self, group: Any) -> None:
        words = self.scalar[EXEC : EXEC + self.lanes // 32, group].T
        self.active[group] = lanes_of(np.ascontiguousarray(words), self.lanes)

    def mask(self, number: int) -> Array:
        """A mask of lanes in scalar registers, bool[running, lanes]."""
        words = [self.word(number + part) for part in range(self.lanes // 32)]
        return lanes_of(np.stack(words, axis=1), self.lanes)

    def put_mask(self, number: int, lanes: Array) -> None:
        """Write a mask of lanes; bits of lanes that are off are 0."""
        words = words_of(lanes)
        for part in range(self.lanes // 32):
            self.put_word(number + part, words[:, part])

    # Vector registers.

    def put(self, number: int, bits: Array, lanes: Array | None = None) -> None:
        """Write lanes of a vector register: those of EXEC, unless others are named.

        Parameters
        ----------
        number : int
            The register.
        bits : uint32[running, lanes] or [running, 1]
            What it holds afterwards.
        lanes : bool[running, lanes], optional
            Which lanes are written.
        """
        if number >= self.registers:
            raise UnsupportedError(f"writes register {number} of {self.registers}")
        if lanes is None:
            lanes = self.lanes_on
            whole = self.all_on
        else:
            whole = False
        register = self.vector[number]
        if whole:
            register[self.group] = bits
        elif isinstance(self.group, slice):
            np.copyto(register, bits, where=lanes)
        else:
            content = register[self.group]
            np.copyto(content, bits, where=lanes)
            register[self.group] = content
        if self.wrote is not None:
            self.wrote(number, lanes)

    def put_words(self, first: int, words: Sequence[Array], lanes: Array | None = None) -> None:
        """Write registers that follow each other, as `put` does each.

        All words are read before any is written: one may be a register, seen in place, that
        another one overwrites.
        """
        if len(words) > 1:
            words = [w.copy() if np.may_share_memory(w, self.vector) else w for w in words]
        for number, word in enumerate(words, first):
            self.put(number, word, lanes)


def lanes_of(words: Array, lanes: int) -> Array:
    """Bits of words, bool[waves, lanes], from uint32[waves, words]."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, :lanes].view(np.bool_)


def words_of(lanes: Array) -> Array:
    """Words of bits, uint32[waves, words], from bool[waves, lanes]."""
    return np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)


# Operands.


def constant_bits(operand: Operand, kind: str) -> int:
    """Bits of an inline constant or literal, as an operand of a type reads it."""
    wide = kind.endswith("64")
    if operand.kind == "float":
        if kind in ("f16", "p16"):
            bits = int(np.float16(operand.text).view(np.uint16))
        elif wide:
            bits = int(np.float64(operand.text).view(np.uint64))
        else:
            bits = int(np.float32(operand.text).view(np.uint32))
    else:
        bits = operand.number
        if kind == "f64" and bits not in _INLINE:
            bits = (bits & 0xFFFFFFFF) << 32
        elif kind == "i64" and bits > 0x7FFFFFFF:
            bits -= 1 << 32
    if kind == "f32" or kind == "p16":
        return bits & 0xFFFFFFFF
    return bits & ((1 << int(kind[1:])) - 1)


def raw_source(operand: Operand, machine: Machine, kind: str = "b32", word: int = 0) -> Source:
    """One 32-bit word of an operand: uint32, [running, lanes] or [running, 1].

    Parameters
    ----------
    operand : Operand
        The operand.
    machine : Machine
        Whose registers are named.
    kind : str
        Type as which a constant is read.
    word : int
        Which word: 0 is the lowest.
    """
    if operand.kind in "va":
        number = register_number(operand, machine) + word
        if number >= machine.registers:
            raise UnsupportedError(f"reads register {number} of {machine.registers}")
        return lambda m: m.vector[number, m.group]
    scalar = scalar_word(operand, kind, word)
    return lambda m: scalar(m)[:, None]


def register_number(operand: Operand, machine: Machine) -> int:
    """Number of a vector register; accumulators follow the others.

    Raises
    ------
    UnsupportedError
        The operand is something else, or a wave has no such register.
    """
    if operand.kind not in ("v", "a"):
        raise UnsupportedError(f"operand {operand.text}")
    number = operand.number + (machine.accumulators_from if operand.kind == "a" else 0)
    if number + operand.count > machine.registers:
        raise UnsupportedError(f"{operand.text}; a wave has {machine.registers} registers")
    return number


def scalar_word(operand: Operand, kind: str = "b32", word: int = 0) -> Source:
    """One 32-bit word of a scalar operand or constant, uint32[running]."""
    if operand.kind == "s":
        number = operand.number
        if number == NULL:
            return lambda m: m.word(NULL)
        number += word
        if number >= SCALAR_REGISTERS:
            raise UnsupportedError(f"operand {operand.text}")
        return lambda m: m.scalar[number, m.group]
    if operand.kind in ("int", "float"):
        bits = np.uint32(constant_bits(operand, kind) >> 32 * word & 0xFFFFFFFF)
        return lambda m: np.full(m.running, bits)
    return _special(operand, word)


def _special(operand: Operand, word: int) -> Source:
    name = operand.text.removeprefix("src_")
    if name == "scc":
        return lambda m: m.scc[m.group].astype(np.uint32) * np.uint32(not word)
    if name == "execz":
        return lambda m: (~m.lanes_on.any(axis=1)).astype(np.uint32)
    if name == "vccz":
        return lambda m: (~m.mask(106).any(axis=1)).astype(np.uint32)
    bases = {"shared_base": SHARED_BASE, "private_base": PRIVATE_BASE}
    if name in bases:
        bits = np.uint32(bases[name] >> 32 * word & 0xFFFFFFFF)
        return lambda m: np.full(m.running, bits)
    raise UnsupportedError(f"operand {operand.text}")


def typed(words: list[Source], kind: str, half: int = 0) -> Source:
    """An operand of a type, from its words."""
    dtype = WORD[kind]
    low = words[0]
    if kind.endswith("64"):
        high = words[1]

        def wide(m: Machine) -> Array:
            bits = low(m) | high(m).astype(np.uint64) << np.uint64(32)
            return bits.view(dtype)

        return wide
    if kind.endswith("16"):
        if half:
            return lambda m: (low(m) >> np.uint32(16)).astype(np.uint16).view(dtype)
        return lambda m: low(m).astype(np.uint16).view(dtype)
    if kind == "f32" or kind == "i32":
        return lambda m: low(m).view(dtype)
    return low


def signed(source: Source, kind: str, absolute: bool, negated: bool) -> Source:
    """The operand ``|x|``, ``-x`` or ``-|x|`` of a floating-point type."""
    bits = np.dtype(WORD[kind]).itemsize * 8
    unsigned = WORD[f"u{bits}"]
    sign = unsigned(1 << (bits - 1))
    if not (absolute or negated):
        return source

    def changed(m: Machine) -> Array:
        number = source(m).view(unsigned)
        if absolute:
            number = number & ~sign
        if negated:
            number = number ^ sign
        return number.view(WORD[kind])

    return changed


def scalar_source(operand: Operand, kind: str) -> Source:
    """A scalar operand of a type, [running]."""
    words = 2 if kind.endswith("64") else 1
    return typed([scalar_word(operand, kind, word) for word in range(words)], kind)


def put_scalar(m: Machine, operand: Operand, kind: str, value: Array) -> None:
    """Write a scalar operand."""
    words = 2 if kind.endswith("64") else 1
    if operand.kind != "s" or operand.number + words > SCALAR_REGISTERS:
        raise UnsupportedError(f"destination {operand.text}")
    if kind.endswith("64"):
        m.put_pair(operand.number, value.astype(WORD[kind], copy=False).view(np.uint64))
    else:
        m.put_word(operand.number, value.astype(WORD[kind], copy=False).view(np.uint32))


Families = Sequence[tuple[str, Callable[[Instruction, Machine], Execute]]]
"""Instructions by a pattern of their names, and what makes closures of them."""


def built(families: Families, inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of an instruction by the first family that has its name; None if none has."""
    for pattern, build in families:
        if re.match(pattern, inst.name):
            return build(inst, machine)
    return None


def words_from(value: Array, kind: str) -> list[Array]:
    """32-bit words of a result, the lowest first."""
    value = np.ascontiguousarray(value, WORD[kind])
    if kind.endswith("64"):
        bits = value.view(np.uint64)
        return [bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]
    if kind.endswith("16"):
        return [value.view(np.uint16).astype(np.uint32)]
    return [value.view(np.uint32)]
