"""The text of an instruction, as ``llvm-objdump`` prints it, taken apart."""

import re
from dataclasses import dataclass, field

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
