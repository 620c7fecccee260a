"""Memory of an emulated GPU, and the instructions that load, store and change it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.tracing.emulation.arithmetic import WORD, Array, from_brain, least, most, to_brain
from mcage.tracing.emulation.machine import (
    M0,
    NULL,
    PRIVATE_BASE,
    SHARED_BASE,
    Execute,
    Instruction,
    Machine,
    Operand,
    OutsideError,
    Source,
    UnsupportedError,
    raw_source,
    register_number,
    scalar_source,
    typed,
)

BASE = 0x7F5A_8C00_0000
"""Address of the first byte of memory; where a runtime places buffers is assumed."""

ALIGNMENT = 4096
"""Buffers begin at multiples of this."""

MOST_BYTES = 1 << 31
"""Largest memory of a run."""

SCRATCH_BASE = 0x5C00_0000_0000
"""Base of the buffer resource that stands for private memory."""


_RUNTIME_BASE = 0x6E00_0000_0000
_RUNTIME = {
    "hidden_printf_buffer": "printf",
    "hidden_hostcall_buffer": "functions that the host runs, as of printf",
    "hidden_default_queue": "device-side enqueue",
    "hidden_completion_action": "device-side enqueue",
    "hidden_multigrid_sync_arg": "a barrier of several grids",
    "hidden_heap_v1": "malloc",
    "hidden_queue_ptr": "the queue of a runtime",
}
"""Features for which a kernel needs a runtime, by the kind of the argument with their address."""


def address_of_runtime(kind: str) -> int | None:
    """Address that stands for something of a runtime, which nothing can use; None if unknown."""
    return _RUNTIME_BASE + (list(_RUNTIME).index(kind) << 32) if kind in _RUNTIME else None


def outside(address: int, size: int) -> OutsideError:
    """The error of an access to an address at which nothing lies."""
    number = (address >> 32) - (_RUNTIME_BASE >> 32)
    if 0 <= number < len(_RUNTIME):
        return OutsideError(f"needs {list(_RUNTIME.values())[number]}, which is not emulated")
    return OutsideError(f"address {address:#x} ({size} bytes) lies outside of every buffer")


class Memory:
    """One flat memory, of which the parts that belong to a buffer are valid.

    Attributes
    ----------
    bytes : uint8[size]
        Contents, the first at `BASE`.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, Array]] = []
        self._size = 0
        self.base = BASE
        self.bytes: Array = np.zeros(0, np.uint8)

    def add(self, content: Array) -> int:
        """Place a buffer; return its address. All are placed before `seal`."""
        offset = self._size
        content = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self._parts.append((offset, content))
        self._size = -(-(offset + len(content) + ALIGNMENT) // ALIGNMENT) * ALIGNMENT
        if self._size > MOST_BYTES:
            raise UserError(f"arguments of more than {MOST_BYTES:,} bytes together")
        return self.base + offset

    def seal(self) -> None:
        """Make the memory of the buffers that were added."""
        self.bytes = np.zeros(self._size, np.uint8)
        self.valid = np.zeros(self._size // 4, np.bool_)
        for offset, content in self._parts:
            self.bytes[offset : offset + len(content)] = content
            self.valid[offset // 4 : -(-(offset + len(content)) // 4)] = True
        self._parts = []

    def content(self, address: int, like: Array) -> Array:
        """Content of a buffer, in the shape of an array."""
        first = address - self.base
        return self.bytes[first : first + like.nbytes].view(like.dtype).reshape(like.shape).copy()

    def offsets(self, addresses: Array, size: int) -> Array:
        """Offsets of addresses, int64; all their bytes must be valid."""
        offset = addresses.astype(np.int64) - self.base
        if not len(offset):
            return offset
        inside = (offset >= 0) & (offset <= len(self.bytes) - size)
        safe = np.where(inside, offset, 0)
        inside &= self.valid[safe >> 2]
        if size > 1:
            inside &= self.valid[(safe + size - 1) >> 2]
        if not inside.all():
            raise outside(int(addresses[np.argmin(inside)]), size)
        return offset


def _numbers(content: Array, kind: str) -> Array:
    """Bytes as numbers of a type; a rest is left out."""
    size = WORD[kind](0).itemsize
    return content[: len(content) // size * size].view(WORD[kind])


def _loaded(content: Array, offset: Array, size: int) -> Array:
    """Unsigned numbers of 1, 2 or 4 bytes at offsets of a flat array of bytes, uint32."""
    if size == 1:
        return content[offset].astype(np.uint32)
    if not (offset & (size - 1)).any():
        return _numbers(content, f"u{8 * size}")[offset // size].astype(np.uint32)
    parts = np.zeros((len(offset), 4), np.uint8)
    parts[:, :size] = content[offset[:, None] + np.arange(size)]
    return parts.view(np.uint32)[:, 0]


def _store(content: Array, offset: Array, value: Array, size: int) -> None:
    if size > 1 and not (offset & (size - 1)).any():
        _numbers(content, f"u{8 * size}")[offset // size] = value.astype(WORD[f"u{8 * size}"])
        return
    for byte in range(size):
        content[offset + byte] = (value >> np.uint32(8 * byte)).astype(np.uint8)


_EVERY = slice(None)

# Data that an access moves.


@dataclass(frozen=True)
class Moved:
    """Data that an instruction moves.

    Attributes
    ----------
    words : int
        Registers.
    size : int
        Bytes of each, 4 unless there is only one.
    extended : bool
        Whether a part of a word is extended with its sign.
    half : int or None
        The half of a register that is loaded or stored and whose other half stays.
    """

    words: int
    size: int
    extended: bool = False
    half: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of an access."""
        return self.words * self.size


_SIZES = {
    **{"dword": (1, 4), "dwordx2": (2, 4), "dwordx3": (3, 4), "dwordx4": (4, 4)},
    **{"b32": (1, 4), "b64": (2, 4), "b96": (3, 4), "b128": (4, 4)},
    **{"ubyte": (1, 1), "sbyte": (1, 1), "ushort": (1, 2), "sshort": (1, 2)},
    **{"u8": (1, 1), "i8": (1, 1), "u16": (1, 2), "i16": (1, 2)},
    **{"byte": (1, 1), "short": (1, 2), "b8": (1, 1), "b16": (1, 2)},
}


def moved_by(text: str) -> Moved:
    """Moved data, from the end of a mnemonic: ``dwordx2``, ``u16_d16_hi``, ``short_d16``."""
    half = 1 if text.endswith("_d16_hi") or text.startswith("d16_hi_") else None
    if half is None and "d16" in text:
        half = 0
    plain = re.sub(r"_d16(_hi)?$|^d16_(hi_)?", "", text)
    if plain not in _SIZES:
        raise UnsupportedError(f"access {text}")
    words, size = _SIZES[plain]
    return Moved(words, size, plain in ("sbyte", "sshort", "i8", "i16"), half)


def _extended(value: Array, moved: Moved) -> Array:
    sign = np.uint32(1 << (8 * moved.size - 1) if moved.extended else 0)
    return (value ^ sign) - sign


def _put_loaded(m: Machine, first: int, moved: Moved, values: list[Array]) -> None:
    words = []
    for number, value in enumerate(values, first):
        value = _extended(value, moved)
        if moved.half is not None:
            before = m.vector[number, m.group]
            if moved.half:
                value = before & np.uint32(0xFFFF) | value << np.uint32(16)
            else:
                value = before & np.uint32(0xFFFF0000) | value & np.uint32(0xFFFF)
        words.append(value)
    m.put_words(first, words)


def _full(m: Machine, values: Array) -> Array:
    """Values of the active lanes, at their lanes; 0 elsewhere."""
    whole = np.zeros(m.lanes_on.shape, np.uint32)
    whole[m.lanes_on] = values
    return whole


def _active(m: Machine, value: Array) -> Array:
    """Values of the active lanes, in the order of waves and lanes."""
    return np.broadcast_to(value, m.lanes_on.shape)[m.lanes_on]


Space = Callable[[Machine, int, int], Iterable[tuple[Array, Array, Any]]]
"""Gives, for each of so many words of so many bytes, the bytes of an address space, the offsets of
the active lanes, which are checked, and which of these lanes they are."""


def _each_word(content: Array, offset: Array, words: int) -> Iterator[tuple[Array, Array, Any]]:
    """The words of an access that is checked as a whole."""
    return ((content, offset + 4 * word, _EVERY) for word in range(words))


def _offset(inst: Instruction) -> int:
    return inst.modifier("offset")


def _addresses(
    inst: Instruction, machine: Machine, address: Sequence[Operand]
) -> Callable[[Machine], Array]:
    """Addresses of the active lanes: a pair of registers, or an offset to a scalar base."""
    offset, vector = np.int64(_offset(inst)), address[0]
    if len(address) > 1 and address[1].kind == "s" and address[1].number != NULL:
        beginning = scalar_source(address[1], "u64")
        if vector.kind == "name":
            return lambda m: _active(m, (beginning(m).astype(np.int64) + offset)[:, None])
        step = raw_source(vector, machine)
        return lambda m: _active(
            m, beginning(m).astype(np.int64)[:, None] + step(m).astype(np.int64) + offset
        )
    pair = typed([raw_source(vector, machine, word=word) for word in range(2)], "i64")
    return lambda m: _active(m, pair(m) + offset)


def _global_space(inst: Instruction, machine: Machine, address: Sequence[Operand]) -> Space:
    addresses, is_flat = _addresses(inst, machine, address), inst.name.startswith("flat_")

    def space(m: Machine, words: int, size: int) -> Iterator[tuple[Array, Array, Any]]:
        at = addresses(m)
        if is_flat and _lies_in(SHARED_BASE, at[:1]).any():
            content, offset = _lds_of(m, at & 0xFFFF_FFFF, words * size)
        elif is_flat and _lies_in(PRIVATE_BASE, at[:1]).any():
            content, offset = _scratch_of(m, at & 0xFFFF_FFFF, words * size)
        else:
            content, offset = m.memory.bytes, m.offsets(at, words * size)
        return _each_word(content, offset, words)

    return space


def _lies_in(aperture: int, addresses: Array) -> Array:
    """Which addresses stand for LDS or private memory, whose apertures span 4 GiB."""
    return np.asarray(addresses >> 32 == aperture >> 32)


def _space_by_space(
    inst: Instruction, machine: Machine, address: Sequence[Operand], execute: Execute
) -> Execute:
    """Execute a flat access for the lanes of LDS, of private memory and of buffers in turn."""
    addresses = _addresses(inst, machine, address)

    def in_turn(m: Machine) -> None:
        at = addresses(m)
        local, private = _lies_in(SHARED_BASE, at), _lies_in(PRIVATE_BASE, at)
        parts = [part for part in (local, private, ~(local | private)) if part.any()]
        if len(parts) < 2:
            execute(m)
            return
        lanes, tell = m.lanes_on, m.wrote
        written: list[int] = []
        m.wrote = lambda number, _: written.append(number)
        for part in parts:
            m.lanes_on, m.all_on = np.zeros_like(lanes), False
            m.lanes_on[lanes] = part
            execute(m)
        m.exec_changed()
        m.wrote = tell
        if tell is not None:
            for number in dict.fromkeys(written):
                tell(number, m.lanes_on)

    return in_turn


def _scratch_of(m: Machine, offset: Array, size: int) -> tuple[Array, Array]:
    """Private memory of the active lanes, at an offset of each."""
    private = m.scratch.shape[2]
    wrong = (offset < 0) | (offset > private - size)
    if wrong.any():
        offset = m.refuse(wrong, f"private memory of {private} bytes", offset)
    waves = np.arange(m.waves)[m.group]
    place = (waves[:, None] * m.lanes + np.arange(m.lanes)) * private
    return m.scratch.reshape(-1), _active(m, place) + offset


def _scratch_space(inst: Instruction, machine: Machine, address: Sequence[Operand]) -> Space:
    constant = np.int64(_offset(inst))
    parts: list[Source] = []
    for operand in address:
        if operand.kind == "v" or (operand.kind == "s" and operand.number != NULL):
            parts.append(raw_source(operand, machine))

    def space(m: Machine, words: int, size: int) -> Iterator[tuple[Array, Array, Any]]:
        offset = np.zeros((m.running, 1), np.int64) + constant
        for part in parts:
            offset = offset + part(m).view(np.int32)
        return _each_word(*_scratch_of(m, _active(m, offset), words * size), words)

    return space


# Buffers: addresses by a resource of four scalar registers (ISA guides, "buffer addressing").


def _buffer_space(inst: Instruction, machine: Machine, address: Sequence[Operand]) -> Space:
    vector, resource, scalar = address[:3]
    four = [scalar_source(Operand("s", resource.number + word), "u32") for word in range(4)]
    soffset = scalar_source(scalar, "u32")
    constant = np.int64(_offset(inst))
    indexed, offset_too = "idxen" in inst.modifiers, "offen" in inst.modifiers
    index = raw_source(vector, machine) if indexed else None
    voffset = raw_source(vector, machine, word=int(indexed)) if offset_too else None

    def space(m: Machine, words: int, size: int) -> Iterator[tuple[Array, Array, Any]]:
        low, high, records, _ = (word(m).astype(np.int64) for word in four)
        base, stride = low | (high & 0xFFFF) << 32, high >> 16 & 0x3FFF
        inside = np.full(m.lanes_on.shape, constant)
        if voffset is not None:
            inside = inside + voffset(m).astype(np.int64)
        number = np.zeros(m.lanes_on.shape, np.int64)
        if index is not None:
            number = number + index(m).astype(np.int64)
        private = base >> 40 == SCRATCH_BASE >> 40
        if private.any():
            # A wave that takes another way here has a wrong resource.
            wrong = np.broadcast_to(~private[:, None], m.lanes_on.shape)[m.lanes_on]
            if wrong.any():
                m.refuse(wrong, "a resource of private memory is wrong", wrong.astype(np.int64))
            # The scalar offset counts bytes of a wave, in which those of its lanes take turns.
            of_wave = soffset(m).astype(np.int64) // m.lanes + base - SCRATCH_BASE
            total = inside + of_wave[:, None] & 0xFFFFFFFF  # an index below 0, with a constant
            content, offset = _scratch_of(m, _active(m, total), words * size)
            yield from _each_word(content, offset, words)
            return
        shift = soffset(m).astype(np.int64)
        raw = stride == 0
        left = records[:, None] - shift[:, None] - inside
        # Bytes of each lane that are in range: all or none of a structured buffer.
        whole = np.where(number < records[:, None], words * size, 0)
        left = np.where(raw[:, None], left, whole)[m.lanes_on]
        place = ((base + shift)[:, None] + inside + number * stride[:, None])[m.lanes_on]
        for word in range(words):
            good = left >= 4 * word + size
            offset = m.offsets(place[good], 4 * word + size, good)
            yield m.memory.bytes, offset + 4 * word, good

    return space


# LDS.


def _lds_of(m: Machine, offset: Array, size: int) -> tuple[Array, Array]:
    """LDS of the work-groups, at an offset of each active lane."""
    bytes_of_row = m.lds.shape[1]
    bytes_of_group = bytes_of_row - m.lds_spare
    wrong = (offset < 0) | (offset > bytes_of_group - size)
    if wrong.any():
        offset = m.refuse(wrong, f"LDS of {bytes_of_group} bytes", offset, dropped=True)
    group = m.lds_of_wave[m.group][:, None] * bytes_of_row
    return m.lds.reshape(-1), offset + _active(m, group)


def _lds_space(
    inst: Instruction, machine: Machine, address: Operand, steps: Sequence[int] = ()
) -> Space:
    """One place, or two: the bytes in which the offset of each counts."""
    source = raw_source(address, machine)
    places = [
        np.uint32(inst.modifier(f"offset{number}") * step) for number, step in enumerate(steps)
    ]

    def space(m: Machine, words: int, size: int) -> Iterator[tuple[Array, Array, Any]]:
        for place in places or [np.uint32(_offset(inst))]:
            at = _active(m, source(m) + place).astype(np.int64)
            yield from _each_word(*_lds_of(m, at, words * size), words)

    return space


def _lane_permutation(inst: Instruction, machine: Machine) -> Execute:
    """``ds_bpermute`` gathers, ``ds_permute`` scatters, over the lanes that are on."""
    first = register_number(inst.operands[0], machine)
    address, value = raw_source(inst.operands[1], machine), raw_source(inst.operands[2], machine)
    place = np.uint32(_offset(inst))
    gathers = "bpermute" in inst.name

    def execute(m: Machine) -> None:
        shape = m.lanes_on.shape
        lane = ((np.broadcast_to(address(m), shape) + place) >> np.uint32(2)) % np.uint32(m.lanes)
        index = lane.astype(np.int64)
        whole = np.broadcast_to(value(m), shape)
        if gathers:
            moved = np.take_along_axis(whole, index, axis=1)
            on = np.take_along_axis(m.lanes_on, index, axis=1)
            m.put(first, np.where(on, moved, np.uint32(0)))
            return
        result = np.zeros(shape, np.uint32)
        for wave in range(m.running):
            on = m.lanes_on[wave]
            result[wave, index[wave, on]] = whole[wave, on]
        m.put(first, result)

    return execute


def _swizzle(inst: Instruction, machine: Machine) -> Execute:
    first = register_number(inst.operands[0], machine)
    value = raw_source(inst.operands[1], machine)
    index = lanes_swizzled(inst.modifiers.get("offset", "0"), machine.lanes)

    def execute(m: Machine) -> None:
        moved = np.broadcast_to(value(m), m.lanes_on.shape)[:, index]
        m.put(first, np.where(m.lanes_on[:, index], moved, np.uint32(0)))

    return execute


def lanes_swizzled(text: str, lanes: int) -> Array:
    """Lane that each lane reads (ISA guides, DS_SWIZZLE_B32), in groups of 32 or four lanes."""
    lane = np.arange(lanes)
    named = re.match(r"swizzle\((\w+),(.*)\)$", text)
    if not named:
        bits = int(text, 0)
        if bits >= 0xE000:
            raise UnsupportedError("ds_swizzle with a rotation or an FFT")
        if bits & 0x8000:
            order = np.array([bits >> 2 * place & 3 for place in range(4)])
            return lane // 4 * 4 + order[lane % 4]
        return lane // 32 * 32 + (((lane & bits & 31) | bits >> 5 & 31) ^ bits >> 10 & 31)
    if named[1] == "BITMASK_PERM":
        index = lane.copy()
        for place, letter in enumerate(reversed(named[2].strip('"'))):
            bit = 1 << place
            index = {"0": index & ~bit, "1": index | bit, "p": index, "i": index ^ bit}[letter]
        return index
    size, *others = (int(number) for number in named[2].split(","))
    if named[1] == "QUAD_PERM":
        return lane // 4 * 4 + np.array([size, *others])[lane % 4]
    if named[1] == "SWAP":
        return lane ^ size
    if named[1] == "REVERSE":
        return lane // size * size + size - 1 - lane % size
    if named[1] == "BROADCAST":
        return lane // size * size + others[0]
    raise UnsupportedError(f"ds_swizzle {named[1]}")


# Loads and stores.


def _load(inst: Instruction, machine: Machine, moved: Moved, space: Space) -> Execute:
    """Load the first operand and those behind it; lanes that are not there get 0."""
    first = register_number(inst.operands[0], machine)

    def execute(m: Machine) -> None:
        values = []
        for content, offset, good in space(m, moved.words, moved.size):
            value = np.zeros(m.lanes_on.shape, np.uint32)
            lanes = m.lanes_on
            if good is not _EVERY:
                lanes = lanes.copy()
                lanes[m.lanes_on] = good
            value[lanes] = _loaded(content, offset, moved.size)
            values.append(value)
        _put_loaded(m, first, moved, values)

    return execute


def _load_to_lds(inst: Instruction, moved: Moved, space: Space) -> Execute:
    """Load a word of the LDS of each lane, at M0, the offset and four times the lane's number.

    After the ISA guide of AMD Instinct MI300 (memory buffer load to LDS) and LLVM's intrinsics,
    which say that the offset counts for both addresses.
    """
    if moved.words > 1:
        raise UnsupportedError("loads of several words into LDS")
    constant = np.int64(_offset(inst))

    def execute(m: Machine) -> None:
        ((content, offset, good),) = space(m, 1, moved.size)
        value = np.zeros(int(m.lanes_on.sum()), np.uint32)
        value[good] = _loaded(content, offset, moved.size)
        at = (m.word(M0) & np.uint32(0xFFFF)).astype(np.int64)[:, None] + 4 * np.arange(m.lanes)
        lds, place = _lds_of(m, _active(m, at + constant), 4)
        _store(lds, place, _extended(value, moved), 4)

    return execute


def _stored(machine: Machine, moved: Moved, data: Sequence[Operand], space: Space) -> Execute:
    """Store the registers of some operands."""
    sources = [raw_source(of, machine, word=word) for of in data for word in range(moved.words)]
    shift = np.uint32(16 if moved.half else 0)

    def execute(m: Machine) -> None:
        words = space(m, moved.words, moved.size)
        for source, (content, offset, good) in zip(sources, words, strict=True):
            _store(content, offset, _active(m, source(m))[good] >> shift, moved.size)

    return execute


_SPACES = {
    **{"global": _global_space, "flat": _global_space},
    **{"scratch": _scratch_space, "buffer": _buffer_space},
}


def _address_and_data(
    operands: Sequence[Operand], where: str, *, takes: bool, gives: bool
) -> tuple[Sequence[Operand], Sequence[Operand]]:
    """Operands of the address, and of what an access takes; what it gives is the first operand.

    By a resource, both are the same operand.
    """
    if where == "buffer":
        return operands[1:], operands[:1]
    first, *others = operands[gives:]
    return (first, *others[takes:]), others[:takes]


def to_lds(inst: Instruction) -> bool:
    """Whether an instruction loads into the LDS, and has no register for it."""
    return "lds" in inst.modifiers or "_load_lds_" in inst.name


def _access(inst: Instruction, machine: Machine, where: str, loads: bool, text: str) -> Execute:
    """A load or a store by a flat address, or by a resource."""
    moved = moved_by(text.removeprefix("lds_"))
    if to_lds(inst):
        return _load_to_lds(inst, moved, _SPACES[where](inst, machine, inst.operands))
    address, data = _address_and_data(inst.operands, where, takes=not loads, gives=loads)
    space = _SPACES[where](inst, machine, address)
    execute = _load(inst, machine, moved, space) if loads else _stored(machine, moved, data, space)
    return _space_by_space(inst, machine, address, execute) if where == "flat" else execute


def _lds_access(inst: Instruction, machine: Machine, loads: bool, text: str) -> Execute:
    """A load or a store of the LDS: at a place, or at two (``2st64_b32``)."""
    two = re.match(r"(?:2|2addr_)(st64_|stride64_|_)?(b32|b64)$", text)
    moved = moved_by(two[2] if two else text)
    elements = 64 if two and "64" in (two[1] or "") else 1
    steps = (moved.bytes * elements,) * 2 if two else ()
    space = _lds_space(inst, machine, inst.operands[int(loads)], steps)
    if loads:
        return _load(inst, machine, moved, space)
    return _stored(machine, moved, inst.operands[1 : 2 + bool(two)], space)


# Atomics: lanes one after the other, in the order of waves and lanes.

_ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "rsub": lambda old, new: new - old,
    **{"min": least, "smin": least, "umin": least, "fmin": least},
    **{"max": most, "smax": most, "umax": most, "fmax": most},
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "swap": lambda old, new: new,
    "wrxchg": lambda old, new: new,
    "storexchg": lambda old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
    "csub": lambda old, new: np.where(old >= new, old - new, old.dtype.type(0)),
    "pk_add": lambda old, new: (old.view(np.float16) + new.view(np.float16)).view(np.uint32),
    "pk_add_bf16": lambda old, new: to_brain(
        from_brain(old.view(np.uint16)) + from_brain(new.view(np.uint16))
    ).view(np.uint32),
}


def _atomic_kind(operation: str, text: str) -> str:
    """Type of an atomic: of its name, or of what it does where the name gives only a size."""
    if operation.startswith("pk_add"):
        return "u32"
    if text in ("u32", "i32", "f32", "u64", "i64", "f64", "f16"):
        return text
    wide = "64" if text in ("x2", "b64") else "32"
    if operation in ("fmin", "fmax"):
        return f"f{wide}"
    return ("i" if operation in ("smin", "smax") else "u") + wide


def _apply(
    content: Array, offset: Array, operands: list[Array], kind: str, operation: str
) -> Array:
    """Change memory at offsets that may be equal; return what was there before each change."""
    view = _numbers(content, kind)
    index = offset // view.itemsize
    before = np.empty(len(index), view.dtype)
    left = np.arange(len(index))
    while len(left):  # each turn, the first lane that is left of each address
        _, first = np.unique(index[left], return_index=True)
        now = left[first]
        place = index[now]
        old = view[place]
        before[now] = old
        if operation == "mskor":
            view[place] = (old & ~operands[0][now]) | operands[1][now]
        elif operation == "cmpswap":
            view[place] = np.where(old == operands[1][now], operands[0][now], old)
        else:
            view[place] = _ATOMICS[operation](old, operands[0][now])
        left = np.delete(left, first)
    return before


_PLAIN_UFUNCS: dict[str, Any] = {"add": np.add, "or": np.bitwise_or, "and": np.bitwise_and}


def _atomic(
    inst: Instruction,
    machine: Machine,
    operation: str,
    kind: str,
    space: Space,
    data: Sequence[Operand],
    target: Operand | None,
) -> Execute:
    """Change memory; the operands of a compare-and-swap are new, expected."""
    operation += "_bf16" if inst.name.endswith("bf16") else ""
    if operation not in _ATOMICS and operation not in ("cmpswap", "mskor"):
        raise UnsupportedError("atomic")
    size = WORD[kind](0).itemsize
    words = size // 4 or 1
    first = register_number(target, machine) if target else 0
    sources = [
        typed([raw_source(of, machine, word=word) for word in range(words)], kind) for of in data
    ]

    def execute(m: Machine) -> None:
        ((content, offset, good),) = space(m, 1, 4 * words)
        if m.lds_spare and content.base is m.lds:  # what lies outside is dropped
            inside = offset % m.lds.shape[1] < m.lds.shape[1] - m.lds_spare
            offset, good = offset[inside], inside
        operands = [_active(m, source(m))[good] for source in sources]
        if (unaligned := offset & (size - 1) != 0).any():
            m.refuse(unaligned, "an atomic access that is not aligned", offset, good)
            offset = offset & ~np.int64(size - 1)  # in the memory of its own run, which has ended
        whole_words = not (offset & (4 * words - 1)).any()
        if not target and operation in _PLAIN_UFUNCS and kind.startswith("u") and whole_words:
            _PLAIN_UFUNCS[operation].at(_numbers(content, kind), offset // size, operands[0])
            return
        before = _apply(content, offset, operands, kind, operation)
        if target:
            old = np.zeros((int(m.lanes_on.sum()), words), np.uint32)
            old[good] = np.ascontiguousarray(before).view(np.uint32).reshape(-1, words)
            m.put_words(first, [_full(m, word) for word in old.T])

    return execute


def _memory_atomic(inst: Instruction, machine: Machine, where: str, of: str, text: str) -> Execute:
    """An atomic by an address; by a resource, the data are where the result goes."""
    kind, returns = _atomic_kind(of, text), "glc" in inst.modifiers or "sc0" in inst.modifiers
    operands = inst.operands
    address, (data,) = _address_and_data(operands, where, takes=True, gives=returns)
    words = WORD[kind](0).itemsize // 4
    both = [data, Operand(data.kind, data.number + words, words)][: 1 + (of == "cmpswap")]
    space, target = _SPACES[where](inst, machine, address), operands[0] if returns else None
    execute = _atomic(inst, machine, of, kind, space, both, target)
    return _space_by_space(inst, machine, address, execute) if where == "flat" else execute


def _lds_atomic(inst: Instruction, machine: Machine, of: str, text: str) -> Execute:
    target = inst.operands[0] if "rtn" in inst.name else None
    address, *data = inst.operands[bool(target) :]
    if of in ("cmpst", "cmpstore"):
        # LDS before generation 11: expected, new (ISA guides, DS_CMPST_B32).
        data = data[::-1] if of == "cmpst" else data
        of = "cmpswap"
    space = _lds_space(inst, machine, address)
    return _atomic(inst, machine, of, _atomic_kind(of, text), space, data, target)


# Scalar loads.


def _scalar_load(inst: Instruction, machine: Machine, text: str) -> Execute:
    words = {"": 1, "x2": 2, "x3": 3, "x4": 4, "x8": 8, "x16": 16}.get(text.removeprefix("dword"))
    if text.startswith("b"):
        words = int(text[1:]) // 32
    if words is None:
        raise UnsupportedError("scalar load")
    base, step = inst.operands[1], inst.operands[2]
    buffered = "buffer" in inst.name
    beginning = scalar_source(base, "u64")
    records = scalar_source(Operand("s", base.number + 2), "u32")
    constant = np.int64(_offset(inst))
    moving = None
    if step.kind == "int":
        constant = constant + np.int64(step.number)
    elif step.number != NULL:
        moving = scalar_source(step, "u32")
    first = inst.operands[0].number
    if first + words > 124:
        raise UnsupportedError("scalar load")

    def execute(m: Machine) -> None:
        offset = np.full(m.running, constant)
        if moving is not None:
            offset = offset + moving(m).astype(np.int64)
        address = beginning(m).astype(np.int64)
        good = np.ones(m.running, np.bool_)
        if buffered:
            address = address & 0xFFFFFFFFFFFF
            good = offset + 4 * words <= records(m).astype(np.int64)
        place = np.zeros(m.running, np.int64)
        wanted = (address + offset & ~np.int64(3))[good]
        place[good] = m.offsets_of_waves(wanted, 4 * words, good)
        view = m.memory.bytes.view(np.uint32)
        loaded = [np.where(good, view[(place >> 2) + word], np.uint32(0)) for word in range(words)]
        for word, value in enumerate(loaded):
            m.put_word(first + word, value)

    return execute


_ATOMIC_LDS = (
    r"ds_(add|sub|rsub|min|max|and|or|xor|inc|dec|wrxchg|storexchg|cmpst|cmpstore|mskor)(_rtn)?"
    r"_([uifb](?:32|64))$|ds_(pk_add)(_rtn)?_(b?f16)$"
)
_ATOMIC = (
    r"(global|flat|buffer)_atomic_(add|sub|smin|umin|smax|umax|fmin|fmax|min|max|and|or|xor|swap"
    r"|cmpswap|csub|inc|dec)(?:_(x2|[uifb](?:32|64)))?$|(global|flat|buffer)_atomic_(pk_add)_(b?f16)$"
)


def build_memory(inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of a load, a store or an atomic; None if its name is not known here.

    Raises
    ------
    UnsupportedError
        A form of it that is not emulated.
    """
    name = inst.name
    if match := re.match(r"s_(?:buffer_)?load_(dword\w*|b\d+)$", name):
        return _scalar_load(inst, machine, match[1])
    if name == "buffer_store_lds_dword":
        raise UnsupportedError("a store from the LDS")
    if match := re.match(r"(global|flat|scratch|buffer)_(load|store)_(\w+)$", name):
        return _access(inst, machine, match[1], match[2] == "load", match[3])
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        return _lane_permutation(inst, machine)
    if name == "ds_swizzle_b32":
        return _swizzle(inst, machine)
    if match := re.match(_ATOMIC_LDS, name):
        return _lds_atomic(inst, machine, match[1] or match[4], match[3] or match[6])
    if match := re.match(_ATOMIC, name):
        where, operation, text = match.groups()[:3] if match[1] else match.groups()[3:]
        return _memory_atomic(inst, machine, where, operation, text or "")
    if match := re.match(r"ds_(read|load|write|store)_?(\w+)$", name):
        return _lds_access(inst, machine, match[1] in ("read", "load"), match[2])
    return None
