"""Memory of an emulated GPU, and the instructions that load, store and change it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.tracing.emulation.arithmetic import WORD, Array, least, most
from mcage.tracing.emulation.instruction import Instruction, Operand
from mcage.tracing.emulation.machine import (
    PRIVATE_BASE,
    SHARED_BASE,
    Execute,
    Machine,
    OutsideError,
    UnsupportedError,
    raw_source,
    register_number,
    scalar_source,
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
"""What a kernel needs a runtime for, by the kind of the argument with its address."""


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
        """What a buffer holds, in the shape of an array."""
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


def _loaded(content: Array, offset: Array, size: int) -> Array:
    """Unsigned numbers of 1, 2 or 4 bytes at offsets of a flat array of bytes, uint32."""
    if size == 1:
        return content[offset].astype(np.uint32)
    shift = {2: 1, 4: 2}[size]
    if not (offset & (size - 1)).any():
        whole = content[: len(content) // size * size].view({2: np.uint16, 4: np.uint32}[size])
        return whole[offset >> shift].astype(np.uint32)
    parts = [
        content[offset + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(size)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total | part
    return total


def _store(content: Array, offset: Array, value: Array, size: int) -> None:
    for byte in range(size):
        content[offset + byte] = (value >> np.uint32(8 * byte)).astype(np.uint8)


def _store_aligned(content: Array, offset: Array, value: Array, size: int) -> None:
    if size == 1 or (offset & (size - 1)).any():
        _store(content, offset, value, size)
        return
    dtype, shift = {2: (np.uint16, 1), 4: (np.uint32, 2)}[size]
    content[: len(content) // size * size].view(dtype)[offset >> shift] = value.astype(dtype)


_EVERY = slice(None)

# What an access moves.


@dataclass(frozen=True)
class Moved:
    """What an instruction moves.

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
    """What is moved, from the end of a mnemonic: ``dwordx2``, ``u16_d16_hi``, ``short_d16``."""
    half = 1 if text.endswith("_d16_hi") or text.startswith("d16_hi_") else None
    if half is None and "d16" in text:
        half = 0
    plain = re.sub(r"_d16(_hi)?$|^d16_(hi_)?", "", text)
    if plain not in _SIZES:
        raise UnsupportedError(f"access {text}")
    words, size = _SIZES[plain]
    return Moved(words, size, plain in ("sbyte", "sshort", "i8", "i16"), half)


def _put_loaded(m: Machine, first: int, moved: Moved, values: list[Array]) -> None:
    for number, value in enumerate(values):
        if moved.extended:
            sign = np.uint32(1 << (8 * moved.size - 1))
            value = (value ^ sign) - sign
        if moved.half is not None:
            before = m.vector[first + number, m.group]
            if moved.half:
                value = before & np.uint32(0xFFFF) | value << np.uint32(16)
            else:
                value = before & np.uint32(0xFFFF0000) | value & np.uint32(0xFFFF)
        m.put(first + number, value)


def _full(m: Machine, values: Array) -> Array:
    """Values of the active lanes, at their lanes; 0 elsewhere."""
    whole = np.zeros(m.lanes_on.shape, np.uint32)
    whole[m.lanes_on] = values
    return whole


def _active(m: Machine, value: Array) -> Array:
    """Values of the active lanes, in the order of waves and lanes."""
    return np.broadcast_to(value, m.lanes_on.shape)[m.lanes_on]


Space = Callable[[Machine], tuple[Array, Array]]
SpaceOf = Callable[[Machine, int], tuple[Array, Array, Any]]
"""Gives the bytes of an address space and the offsets of the active lanes, which are checked."""


def _offset(inst: Instruction) -> int:
    return inst.modifier("offset")


def _global_addresses(
    inst: Instruction, machine: Machine, position: int, base: int | None
) -> Callable[[Machine], Array]:
    """Addresses of the active lanes: a pair of registers, or an offset to a scalar base."""
    offset = np.int64(_offset(inst))
    vector = inst.operands[position]
    scalar = inst.operands[base] if base is not None and base < len(inst.operands) else None
    if scalar is not None and scalar.kind == "s" and scalar.number != 125:
        beginning = scalar_source(scalar, "u64")
        if vector.kind == "name":
            return lambda m: _active(m, (beginning(m).astype(np.int64) + offset)[:, None])
        step = raw_source(vector, machine)
        return lambda m: _active(
            m, beginning(m).astype(np.int64)[:, None] + step(m).astype(np.int64) + offset
        )
    low, high = raw_source(vector, machine), raw_source(vector, machine, word=1)
    return lambda m: _active(
        m, (low(m) | high(m).astype(np.uint64) << np.uint64(32)).view(np.int64) + offset
    )


def _global_space(
    inst: Instruction, machine: Machine, position: int, base: int | None, size: int
) -> Space:
    addresses = _global_addresses(inst, machine, position, base)
    if not inst.name.startswith("flat_"):
        return lambda m: (m.memory.bytes, m.offsets(addresses(m), size))

    def space(m: Machine) -> tuple[Array, Array]:
        at = addresses(m)
        if _lies_in(SHARED_BASE, at[:1]).any():
            return _lds_of(m, at & 0xFFFF_FFFF, size)
        if _lies_in(PRIVATE_BASE, at[:1]).any():
            return _scratch_of(m, at & 0xFFFF_FFFF, size)
        return m.memory.bytes, m.offsets(at, size)

    return space


def _lies_in(aperture: int, addresses: Array) -> Array:
    """Which addresses stand for LDS or private memory, whose apertures span 4 GiB."""
    return np.asarray(addresses >> 32 == aperture >> 32)


def _space_by_space(
    inst: Instruction, machine: Machine, position: int, execute: Execute
) -> Execute:
    """Execute a flat access for the lanes of LDS, of private memory and of buffers in turn."""
    if not inst.name.startswith("flat_"):
        return execute
    addresses = _global_addresses(inst, machine, position, position + 2)

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


def _scratch_space(inst: Instruction, machine: Machine, position: int, size: int) -> Space:
    constant = np.int64(_offset(inst))
    parts: list[Callable[[Machine], Array]] = []
    for operand in inst.operands[position : position + 3]:
        if operand.kind == "v" and operand is inst.operands[position]:
            parts.append(raw_source(operand, machine))
        elif operand.kind == "s" and operand.number != 125:
            scalar = scalar_source(operand, "u32")
            parts.append(lambda m, s=scalar: s(m)[:, None])  # type: ignore[misc]

    def space(m: Machine) -> tuple[Array, Array]:
        offset = np.zeros((m.running, 1), np.int64) + constant
        for part in parts:
            offset = offset + part(m).view(np.int32)
        return _scratch_of(m, _active(m, offset), size)

    return space


Words = Callable[[Machine], Iterable[tuple[Array, Array, Any]]]
"""Gives for each register that is moved the bytes of an address space, offsets of the active lanes,
and which of these lanes they are."""


def _load(inst: Instruction, machine: Machine, moved: Moved, words: Words) -> Execute:
    """Load the first operand and those behind it; lanes that are not there get 0."""
    first = register_number(inst.operands[0], machine)

    def execute(m: Machine) -> None:
        values = []
        for content, offset, good in words(m):
            value = np.zeros(m.lanes_on.shape, np.uint32)
            lanes = m.lanes_on
            if good is not _EVERY:
                lanes = lanes.copy()
                lanes[m.lanes_on] = good
            value[lanes] = _loaded(content, offset, moved.size)
            values.append(value)
        _put_loaded(m, first, moved, values)

    return execute


def _stored(machine: Machine, moved: Moved, data: Sequence[Operand], words: Words) -> Execute:
    """Store the registers of some operands."""
    sources = [raw_source(of, machine, word=word) for of in data for word in range(moved.words)]
    shift = np.uint32(16 if moved.half else 0)

    def execute(m: Machine) -> None:
        for source, (content, offset, good) in zip(sources, words(m), strict=True):
            value = _active(m, source(m))[good] >> shift
            _store_aligned(content, offset, value, moved.size)

    return execute


def _words_of(space: Space, moved: Moved) -> Words:
    """The registers of an access, one behind the other."""

    def words(m: Machine) -> Iterator[tuple[Array, Array, Any]]:
        content, offset = space(m)
        for word in range(moved.words):
            yield content, offset + 4 * word, _EVERY

    return words


def _flat_load(inst: Instruction, machine: Machine, kind: str, text: str) -> Execute:
    moved = moved_by(text)
    if "lds" in inst.modifiers:
        raise UnsupportedError("loads into LDS")
    if kind == "scratch":
        space = _scratch_space(inst, machine, 1, moved.bytes)
    else:
        space = _global_space(inst, machine, 1, 2, moved.bytes)
    return _load(inst, machine, moved, _words_of(space, moved))


def _flat_store(inst: Instruction, machine: Machine, kind: str, text: str) -> Execute:
    moved, data = moved_by(text), inst.operands[1]
    if kind == "scratch":
        others = replace(inst, operands=(inst.operands[0], *inst.operands[2:]))
        space = _scratch_space(others, machine, 0, moved.bytes)
    else:
        space = _global_space(inst, machine, 0, 2, moved.bytes)
    return _stored(machine, moved, [data], _words_of(space, moved))


# Buffers: addresses by a resource of four scalar registers (ISA guides, "buffer addressing").


def _buffer_space(
    inst: Instruction, machine: Machine, position: int, size: int
) -> Callable[[Machine], Any]:
    """Content, addresses of the active lanes, and how many bytes from each on are in range.

    None in place of these: private memory, of which offsets are given.
    """
    resource, scalar = inst.operands[position + 1], inst.operands[position + 2]
    words = [scalar_source(Operand("s", resource.number + word), "u32") for word in range(4)]
    soffset = scalar_source(scalar, "u32")
    constant = np.int64(_offset(inst))
    indexed, offset_too = "idxen" in inst.modifiers, "offen" in inst.modifiers
    if "lds" in inst.modifiers:
        raise UnsupportedError("loads into LDS")
    vector = inst.operands[position]
    index = raw_source(vector, machine) if indexed else None
    voffset = raw_source(vector, machine, word=int(indexed)) if offset_too else None

    def space(m: Machine) -> tuple[Array, Array, Any]:
        base = (
            words[0](m).astype(np.int64) | (words[1](m) & np.uint32(0xFFFF)).astype(np.int64) << 32
        )
        stride = (words[1](m) >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.int64)
        records = words[2](m).astype(np.int64)
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
            total = inside + of_wave[:, None]
            content, offset = _scratch_of(m, _active(m, total), size)
            return content, offset, None
        shift = soffset(m).astype(np.int64)
        raw = stride == 0
        left = records[:, None] - shift[:, None] - inside
        # Bytes of each lane that are in range: all or none of a structured buffer.
        bytes_left = np.where(raw[:, None], left, np.where(number < records[:, None], size, 0))
        total = (base + shift)[:, None] + inside + number * stride[:, None]
        return m.memory.bytes, total[m.lanes_on], bytes_left[m.lanes_on]

    return space


def _in_range(m: Machine, place: Array, left: Any, end: int) -> tuple[Array, Array]:
    """Offsets of the lanes whose bytes up to `end` are in range, and which lanes these are."""
    if left is None:
        return place, np.ones(len(place), np.bool_)
    good = left >= end
    return m.offsets(place[good], end, good), good


def _buffer_words(inst: Instruction, machine: Machine, moved: Moved) -> Words:
    space = _buffer_space(inst, machine, 1, moved.bytes)

    def words(m: Machine) -> Iterator[tuple[Array, Array, Any]]:
        content, place, left = space(m)
        for word in range(moved.words):
            offset, good = _in_range(m, place, left, 4 * word + moved.size)
            yield content, offset + 4 * word, good

    return words


# LDS.


def _lds_space(m: Machine, address: Array, size: int) -> tuple[Array, Array]:
    """LDS of the work-groups, and the offsets of the active lanes in it, by their addresses."""
    return _lds_of(m, _active(m, address).astype(np.int64), size)


def _lds_of(m: Machine, offset: Array, size: int) -> tuple[Array, Array]:
    """LDS of the work-groups, at an offset of each active lane."""
    bytes_of_row = m.lds.shape[1]
    bytes_of_group = bytes_of_row - m.lds_spare
    wrong = (offset < 0) | (offset > bytes_of_group - size)
    if wrong.any():
        offset = m.refuse(wrong, f"LDS of {bytes_of_group} bytes", offset, dropped=True)
    group = m.lds_of_wave[m.group][:, None] * bytes_of_row
    return m.lds.reshape(-1), offset + _active(m, group)


def _lds_access(inst: Instruction, machine: Machine, text: str, position: int) -> Any:
    """What is moved, how many places it has, and its registers; the operand is the address."""
    address = raw_source(inst.operands[position], machine)
    two, stride, text = _two(text)
    moved = moved_by(text)
    places = [np.uint32(_offset(inst))]
    if two:
        step = moved.bytes * stride
        places = [np.uint32(inst.modifier(f"offset{number}") * step) for number in range(2)]

    def words(m: Machine) -> Iterator[tuple[Array, Array, Any]]:
        for place in places:
            content, offset = _lds_space(m, address(m) + place, moved.bytes)
            for word in range(moved.words):
                yield content, offset + 4 * word, _EVERY

    return moved, len(places), words


def _two(text: str) -> tuple[bool, int, str]:
    """Whether an access has two places, how many elements their offsets count in, and its size."""
    match = re.match(r"(?:2|2addr_)(st64_|stride64_|_)?(b32|b64)$", text)
    if not match:
        return False, 1, text
    return True, 64 if match[1] and "64" in match[1] else 1, match[2]


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
    index = _swizzled(inst.modifiers.get("offset", "0"), machine.lanes)

    def execute(m: Machine) -> None:
        moved = np.broadcast_to(value(m), m.lanes_on.shape)[:, index]
        m.put(first, np.where(m.lanes_on[:, index], moved, np.uint32(0)))

    return execute


def _swizzled(text: str, lanes: int) -> Array:
    """Lane that each lane reads (ISA guides, DS_SWIZZLE_B32), in groups of 32 or four lanes."""
    lane = np.arange(lanes)
    group, within = lane // 32 * 32, lane % 32
    named = re.match(r"swizzle\((\w+),(.*)\)$", text)
    if not named:
        bits = int(text, 0)
        if bits >= 0xE000:
            raise UnsupportedError("ds_swizzle with a rotation or an FFT")
        if bits & 0x8000:
            order = np.array([bits >> 2 * place & 3 for place in range(4)])
            return lane // 4 * 4 + order[lane % 4]
        return group + (((within & bits & 31) | bits >> 5 & 31) ^ bits >> 10 & 31)
    numbers = named[2].split(",")
    if named[1] == "QUAD_PERM":
        order = np.array([int(number) for number in numbers])
        return lane // 4 * 4 + order[lane % 4]
    if named[1] == "SWAP":
        return lane ^ int(numbers[0])
    if named[1] == "REVERSE":
        size = int(numbers[0])
        return lane // size * size + size - 1 - lane % size
    if named[1] == "BROADCAST":
        size, of = int(numbers[0]), int(numbers[1])
        return lane // size * size + of
    if named[1] == "BITMASK_PERM":
        index = within.copy()
        for place, letter in enumerate(reversed(numbers[0].strip('"'))):
            bit = 1 << place
            index = {"0": index & ~bit, "1": index | bit, "p": index, "i": index ^ bit}[letter]
        return group + index
    raise UnsupportedError(f"ds_swizzle {named[1]}")


# Atomics: lanes one after the other, in the order of waves and lanes.

_ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "rsub": lambda old, new: new - old,
    "min": lambda old, new: least(old, new) if old.dtype.kind == "f" else np.minimum(old, new),
    "max": lambda old, new: most(old, new) if old.dtype.kind == "f" else np.maximum(old, new),
    "smin": np.minimum,
    "smax": np.maximum,
    "umin": np.minimum,
    "umax": np.maximum,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "swap": lambda old, new: new,
    "wrxchg": lambda old, new: new,
    "storexchg": lambda old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
    "pk_add": lambda old, new: (old.view(np.float16) + new.view(np.float16)).view(np.uint32),
}


def _atomic_kind(operation: str, text: str) -> str:
    """Type of an atomic: of its name, or of what it does where the name gives only a size."""
    if operation == "pk_add":
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
    dtype = np.dtype(WORD[kind])
    view = content[: len(content) // dtype.itemsize * dtype.itemsize].view(dtype)
    index = offset // dtype.itemsize
    before = np.empty(len(index), dtype)
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
    space: SpaceOf,
    data: list[Operand],
    returns: bool,
) -> Execute:
    operation = {"fmin": "min", "fmax": "max"}.get(operation, operation)
    if operation not in _ATOMICS and operation not in ("cmpswap", "mskor"):
        raise UnsupportedError("atomic")
    words = np.dtype(WORD[kind]).itemsize // 4 or 1
    first = register_number(inst.operands[0], machine) if returns else 0
    sources = [[raw_source(operand, machine, word=w) for w in range(words)] for operand in data]

    def execute(m: Machine) -> None:
        content, offset, good = space(m, 4 * words)
        operands = []
        for parts in sources:
            bits = [_active(m, part(m)) for part in parts]
            if words == 2:
                bits = [bits[0] | bits[1].astype(np.uint64) << np.uint64(32)]
            operands.append(bits[0].view(WORD[kind])[good])
        below = np.dtype(WORD[kind]).itemsize - 1
        if (unaligned := offset & below != 0).any():
            m.refuse(unaligned, "an atomic access that is not aligned", offset, good)
            offset = offset & ~np.int64(below)  # in the memory of its own run, which has ended
        whole_words = not (offset & (4 * words - 1)).any()
        if not returns and operation in _PLAIN_UFUNCS and kind.startswith("u") and whole_words:
            view = content[: len(content) // (4 * words) * (4 * words)].view(WORD[kind])
            _PLAIN_UFUNCS[operation].at(view, offset // (4 * words), operands[0])
            return
        before = _apply(content, offset, operands, kind, operation)
        if returns:
            old = np.zeros((int(m.lanes_on.sum()), words), np.uint32)
            old[good] = np.ascontiguousarray(before).view(np.uint32).reshape(-1, words)
            for word in range(words):
                m.put(first + word, _full(m, old[:, word]))

    return execute


def _returns(inst: Instruction) -> bool:
    return "glc" in inst.modifiers or "sc0" in inst.modifiers


def _global_atomic(inst: Instruction, machine: Machine, operation: str, text: str) -> Execute:
    kind = _atomic_kind(operation, text)
    returns = _returns(inst)
    position = int(returns)
    data = _atomic_data(inst.operands[position + 1], operation, kind)
    match = _global_space(inst, machine, position, position + 2, np.dtype(WORD[kind]).itemsize)
    execute = _atomic(
        inst, machine, operation, kind, lambda m, _: (*match(m), _EVERY), data, returns
    )
    return _space_by_space(inst, machine, position, execute)


def _buffer_atomic(inst: Instruction, machine: Machine, operation: str, text: str) -> Execute:
    """The data are where the result goes, if it is asked for."""
    kind = _atomic_kind(operation, text)
    size_of = np.dtype(WORD[kind]).itemsize
    match = _buffer_space(inst, machine, 1, size_of)
    data = _atomic_data(inst.operands[0], operation, kind)

    def space(m: Machine, size: int) -> tuple[Array, Array, Any]:
        content, place, left = match(m)
        offset, good = _in_range(m, place, left, size)
        return content, offset, good

    return _atomic(inst, machine, operation, kind, space, data, _returns(inst))


def _atomic_data(operand: Operand, operation: str, kind: str) -> list[Operand]:
    """Operands of an atomic; those of a compare-and-swap follow one another: new, expected."""
    words = np.dtype(WORD[kind]).itemsize // 4
    if operation != "cmpswap":
        return [operand]
    return [operand, Operand(operand.kind, operand.number + words, words)]


def _lds_atomic(inst: Instruction, machine: Machine, operation: str, text: str) -> Execute:
    returns = "rtn" in inst.name
    kind = _atomic_kind(operation, text)
    position = int(returns)
    address = raw_source(inst.operands[position], machine)
    place = np.uint32(_offset(inst))
    data = list(inst.operands[position + 1 :])
    if operation in ("cmpst", "cmpstore"):
        operation = "cmpswap"
        # LDS before generation 11: expected, new (ISA guides, DS_CMPST_B32).
        data = data[::-1] if "cmpst_" in inst.name else data

    def space(m: Machine, size: int) -> tuple[Array, Array, Any]:
        content, offset = _lds_space(m, address(m) + place, size)
        bytes_of_row = m.lds.shape[1]
        good = offset % bytes_of_row < bytes_of_row - m.lds_spare  # others are dropped
        return content, offset[good], good

    return _atomic(inst, machine, operation, kind, space, data, returns)


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
    elif step.number != 125:
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
    r"_([uifb](?:32|64))$|ds_(pk_add)(_rtn)?_(f16)$"
)
_ATOMIC = (
    r"(global|flat|buffer)_atomic_(add|sub|smin|umin|smax|umax|fmin|fmax|min|max|and|or|xor|swap"
    r"|cmpswap|inc|dec)(?:_(x2|[uifb](?:32|64)))?$|(global|flat|buffer)_atomic_(pk_add)_(f16)$"
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
    if match := re.match(r"(global|flat|scratch)_load_(\w+)$", name):
        return _space_by_space(inst, machine, 1, _flat_load(inst, machine, match[1], match[2]))
    if match := re.match(r"(global|flat|scratch)_store_(\w+)$", name):
        return _space_by_space(inst, machine, 0, _flat_store(inst, machine, match[1], match[2]))
    if match := re.match(r"buffer_load_(\w+)$", name):
        moved = moved_by(match[1])
        return _load(inst, machine, moved, _buffer_words(inst, machine, moved))
    if match := re.match(r"buffer_store_(\w+)$", name):
        moved = moved_by(match[1])
        words = _buffer_words(inst, machine, moved)
        return _stored(machine, moved, inst.operands[:1], words)
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        return _lane_permutation(inst, machine)
    if name == "ds_swizzle_b32":
        return _swizzle(inst, machine)
    if match := re.match(_ATOMIC_LDS, name):
        return _lds_atomic(inst, machine, match[1] or match[4], match[3] or match[6])
    if match := re.match(_ATOMIC, name):
        space, operation, text = match.groups()[:3] if match[1] else match.groups()[3:]
        build = _buffer_atomic if space == "buffer" else _global_atomic
        return build(inst, machine, operation, text or "")
    if match := re.match(r"ds_(?:read|load)_?(\w+)$", name):
        moved, _, words = _lds_access(inst, machine, match[1], 1)
        return _load(inst, machine, moved, words)
    if match := re.match(r"ds_(?:write|store)_?(\w+)$", name):
        moved, places, words = _lds_access(inst, machine, match[1], 0)
        return _stored(machine, moved, inst.operands[1 : 1 + places], words)
    return None
