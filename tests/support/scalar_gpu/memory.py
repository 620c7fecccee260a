"""Loads, stores and atomics: DS, GLOBAL, FLAT, SCRATCH, BUFFER, SMEM.

Sources: CDNA3 ISA, chapters 8 to 11, RDNA3 ISA, chapters 8 to 12, LLVM's "Syntax of AMDGPU
Instruction Operands". Lanes take part in the order of their numbers.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from . import floats
from .floats import BF16, F16, F32, F64, Format
from .machine import (
    MASK32,
    Instruction,
    Operand,
    Space,
    Wave,
    read_lane,
    read_scalar,
    signed,
    write_lane,
    write_scalar,
)

Locate = Callable[[int], tuple[Space, int]]


class Access(NamedTuple):
    """What a load or store moves: bytes, sign extension, and the half of a register."""

    size: int
    sign: bool
    half: int | None  # d16: lower or upper half of the register, the other one is kept


SIZES = {
    **dict.fromkeys(("ubyte", "sbyte", "byte", "u8", "i8", "b8"), 1),
    **dict.fromkeys(("ushort", "sshort", "short", "u16", "i16", "b16"), 2),
    **{f"dword{times}": size for times, size in (("", 4), ("x2", 8), ("x3", 12), ("x4", 16))},
    **{f"b{8 * size}": size for size in (4, 8, 12, 16)},
}


def access_of(name: str) -> Access:
    """Of a name such as "load_ubyte_d16_hi" or "load_d16_hi_u8"."""
    _, *words = name.split("_")
    (what,) = {*words} - {"d16", "hi", "lds"}
    half = int("hi" in words) if "d16" in words else None
    return Access(SIZES[what], what[0] in "si" and what != "short", half)


def transfer(wave: Wave, name: str, data: Operand, locate: Locate) -> None:
    """A load or store of all active lanes, at the places that `locate` says."""
    access = access_of(name)
    size, first = access.size, 2 * (access.half or 0)
    if not name.startswith(("load", "read")):
        for lane in wave.active():
            bits = read_lane(wave, data, 8 * max(4, size), lane)
            space, address = locate(lane)
            space.store(address, bits.to_bytes(max(4, size), "little")[first : first + size])
        return
    found = {}
    for lane in wave.active():
        space, address = locate(lane)
        found[lane] = int.from_bytes(space.load(address, size), "little", signed=access.sign)
    for lane, number in found.items():
        width = 8 * max(4, size)
        bits = number & (1 << width) - 1
        if access.half is not None:
            old, shift = read_lane(wave, data, 32, lane), 8 * first
            bits = old & ~(0xFFFF << shift) | (number & 0xFFFF) << shift
        write_lane(wave, data, width, lane, bits)


def transfer_to_lds(wave: Wave, ins: Instruction, name: str, locate: Locate) -> None:
    """A load of a word of the LDS for each lane: at M0[15:0], the offset and 4 times the lane's
    number (CDNA3 ISA, "Memory Buffer Load to LDS"; LLVM, llvm.amdgcn.global.load.lds)."""
    access, lds, found = access_of(name), Space(wave.lds), {}
    for lane in wave.active():
        space, address = locate(lane)
        loaded = space.load(address, access.size)
        found[lane] = int.from_bytes(loaded, "little", signed=access.sign) & MASK32
    for lane, number in found.items():
        place = (wave.m0 & 0xFFFF) + offset_of(ins) + 4 * lane
        lds.store(place, number.to_bytes(4, "little"))


# Atomics: new value of memory from the old one and the data.
def wrap_increment(old: int, data: int) -> int:
    return 0 if old >= data else old + 1


def wrap_decrement(old: int, data: int) -> int:
    return data if old == 0 or old > data else old - 1


def as_signed(function: Callable[[int, int], int], bits: int) -> Callable[[int, int], int]:
    return lambda a, b: function(signed(a, bits), signed(b, bits))


def packed_add(f: Format) -> Callable[[int, int], int]:
    def add(a: int, b: int) -> int:
        low, high = (floats.add(a >> i & 0xFFFF, b >> i & 0xFFFF, f) for i in (0, 16))
        return low | high << 16

    return add


def atomic_operation(name: str) -> tuple[Callable[..., int], int]:
    """Function of old value and data, and the bytes, of an atomic such as "add_x2" or "add_u32".

    The compared value comes first in ds_cmpst, and last in all others.
    """
    size = 8 if name.endswith(("_x2", "64")) else 4
    bare = re.sub(r"_x2|_rtn", "", name)
    match = re.fullmatch(r"(.*?)(?:_(u32|i32|b32|u64|i64|b64|f32|f64|b?f16))?", bare)
    assert match is not None
    base, kind = match.groups("")
    f = F32 if size == 4 else F64
    if kind in ("f32", "f64") and base == "add":
        return lambda a, b: floats.add(a, b, f), size
    if kind in ("f32", "f64") or base in ("fmin", "fmax"):
        function = floats.minimum if base.endswith("min") else floats.maximum
        return lambda a, b: function(b, a, f), size
    if base in ("min", "max"):
        base = kind[0].replace("i", "s") + base
    table: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "pk_add": packed_add(BF16 if kind == "bf16" else F16),
        "csub": lambda a, b: a - b if a >= b else 0,
        "sub": lambda a, b: a - b,
        "rsub": lambda a, b: b - a,
        "inc": wrap_increment,
        "dec": wrap_decrement,
        "smin": as_signed(min, 8 * size),
        "smax": as_signed(max, 8 * size),
        "umin": min,
        "umax": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "mskor": lambda a, mask, b: a & ~mask | b,
        **dict.fromkeys(("swap", "wrxchg", "storexchg"), lambda a, b: b),
        "cmpst": lambda a, wanted, b: b if a == wanted else a,
        **dict.fromkeys(("cmpswap", "cmpstore"), lambda a, b, wanted: b if a == wanted else a),
    }
    return table[base], size


def atomic(
    wave: Wave, name: str, data: list[Operand], output: Operand | None, locate: Locate
) -> None:
    """An atomic of all active lanes; one that lies outside, even in part, gives 0."""
    function, size = atomic_operation(name)
    old_values = {}
    for lane in wave.active():
        space, address = locate(lane)
        values = [read_lane(wave, operand, 8 * size, lane) for operand in data]
        old_values[lane] = 0
        if space.holds(address, size):
            old = old_values[lane] = int.from_bytes(space.load(address, size), "little")
            new = function(old, *values) & (1 << 8 * size) - 1
            space.store(address, new.to_bytes(size, "little"))
    if output is not None:
        for lane, old in old_values.items():
            write_lane(wave, output, 8 * size, lane, old)


def data_of(name: str, data: Operand) -> list[Operand]:
    """Data of an atomic that is not of the LDS: with the compared value in the next registers."""
    words = 2 if name.endswith(("x2", "64")) else 1
    return [data, data._replace(index=data.index + words)] if "cmpswap" in name else [data]


def offset_of(ins: Instruction) -> int:
    return int(ins.modifiers.get("offset", 0))


def flat(wave: Wave, ins: Instruction) -> None:
    """FLAT, GLOBAL and SCRATCH: a vector address, an SGPR address with a vector offset, or both."""
    segment, _, name = ins.base.partition("_")
    operands = list(ins.operands)
    scalar = None if segment == "flat" else operands.pop()
    if name.startswith("load"):
        operands.reverse()
    if "lds" in name:
        operands.append(operands[0])
    *output, address, data = operands

    def locate(lane: int) -> tuple[Space, int]:
        if segment == "scratch":
            assert scalar is not None
            place = sum(read_lane(wave, o, 32, lane) for o in (address, scalar))
            return Space(wave.scratch[lane]), place + offset_of(ins)
        if scalar is None or scalar.name == "off":
            place = read_lane(wave, address, 64, lane)
        else:
            place = read_scalar(wave, scalar, 64) + read_lane(wave, address, 32, lane)
        return wave.memory, place + offset_of(ins)

    if name.startswith("atomic"):
        name = name.removeprefix("atomic_")
        atomic(wave, name, data_of(name, data), output[0] if output else None, locate)
    elif "lds" in name:
        transfer_to_lds(wave, ins, name, locate)
    else:
        transfer(wave, name, data, locate)


def buffer_space(wave: Wave, descriptor: Operand) -> Space:
    """What a raw buffer holds, whose bytes are words: CDNA3 ISA, 9.1.8; RDNA3 ISA, 9.1.5."""
    bits = read_scalar(wave, descriptor, 128)
    base, records = bits & (1 << 48) - 1, bits >> 64 & MASK32
    assert base == wave.memory.first
    return Space(wave.memory.data, base, records)


def buffer(wave: Wave, ins: Instruction) -> None:
    """MUBUF of raw buffers: the byte offset including soffset is held against num_records."""
    name = ins.base.removeprefix("buffer_")
    *data, vector, descriptor, scalar = ins.operands
    space = buffer_space(wave, descriptor)
    start = space.first + read_scalar(wave, scalar, 32) + offset_of(ins)

    def locate(lane: int) -> tuple[Space, int]:
        return space, start + read_lane(wave, vector, 32, lane)

    if name.startswith("atomic"):
        name, returns = name.removeprefix("atomic_"), {"glc", "sc0"} & ins.modifiers.keys()
        atomic(wave, name, data_of(name, data[0]), data[0] if returns else None, locate)
    elif "lds" in ins.modifiers or "lds" in name:
        transfer_to_lds(wave, ins, name, locate)
    else:
        transfer(wave, name, data[0], locate)


# LDS.
def ds(wave: Wave, ins: Instruction) -> None:
    name, space = ins.base.removeprefix("ds_"), Space(wave.lds)
    if name in LANE_MOVES:
        LANE_MOVES[name](wave, ins)
        return
    if match := re.fullmatch(r"(?:read2|load_2addr_?)(st64|stride64)?_?b(32|64)", name):
        two_addresses(wave, ins, space, 64 if match[1] else 1, int(match[2]) // 8)
        return
    operands = list(ins.operands)
    loads, stores = name.startswith(("load_", "read_")), name.startswith(("store_", "write_"))
    output = operands.pop(0) if loads or "_rtn" in name else None
    address, *data = operands

    def locate(lane: int) -> tuple[Space, int]:
        return space, read_lane(wave, address, 32, lane) + offset_of(ins)

    if loads or stores:
        transfer(wave, name, output or data[0], locate)
    else:
        atomic(wave, name, data, output, locate)


def two_addresses(wave: Wave, ins: Instruction, space: Space, step: int, size: int) -> None:
    offsets = [int(ins.modifiers.get(key, 0)) * step * size for key in ("offset0", "offset1")]
    data, address = ins.operands
    found = {}
    for lane in wave.active():
        start = read_lane(wave, address, 32, lane)
        found[lane] = b"".join(space.load(start + offset, size) for offset in offsets)
    for lane, content in found.items():
        write_lane(wave, data, 16 * size, lane, int.from_bytes(content, "little"))


def lane_number(wave: Wave, ins: Instruction, address: Operand, lane: int) -> int:
    """Lane of a byte address."""
    return (read_lane(wave, address, 32, lane) + offset_of(ins)) // 4 % wave.lanes


def forward_permute(wave: Wave, ins: Instruction) -> None:
    """DS_PERMUTE: write to the lane of the address; the highest source wins, none gives 0."""
    output, address, data = ins.operands
    found = dict.fromkeys(range(wave.lanes), 0)
    for lane in wave.active():
        found[lane_number(wave, ins, address, lane)] = read_lane(wave, data, 32, lane)
    for lane in wave.active():
        write_lane(wave, output, 32, lane, found[lane])


def swizzle_source(ins: Instruction, lane: int) -> int:
    """Lane that DS_SWIZZLE reads: by a pattern of four or of 32 lanes."""
    kind, *numbers = re.findall(r"\w+", ins.modifiers["offset"].removeprefix("swizzle"))
    if kind == "QUAD_PERM":
        return lane & ~3 | int(numbers[lane & 3])
    within, group, out = lane & 31, lane & ~31, 0
    for i, c in enumerate(reversed(numbers[0])):
        bit = within >> i & 1
        out |= {"0": 0, "1": 1, "p": bit, "i": 1 - bit}[c] << i
    return group | out


def gather(wave: Wave, ins: Instruction) -> None:
    """DS_BPERMUTE and DS_SWIZZLE: read from another lane; inactive lanes give 0."""
    output, *address, data = ins.operands
    found = {}
    for lane in wave.active():
        source = lane_number(wave, ins, address[0], lane) if address else swizzle_source(ins, lane)
        found[lane] = read_lane(wave, data, 32, source) if wave.exec >> source & 1 else 0
    for lane, bits in found.items():
        write_lane(wave, output, 32, lane, bits)


LANE_MOVES = {"bpermute_b32": gather, "permute_b32": forward_permute, "swizzle_b32": gather}


def scalar_load(wave: Wave, ins: Instruction) -> None:
    """S_LOAD and S_BUFFER_LOAD: dwords at (base & ~3) + (offset & ~3)."""
    match = re.fullmatch(r"s_(buffer_)?load_(?:dword(?:x(\d+))?|b(\d+))", ins.base)
    assert match is not None
    of_buffer, times, bits = match.groups()
    output, base, offset = ins.operands
    size = int(bits or 32 * int(times or 1)) // 8
    space = buffer_space(wave, base) if of_buffer else wave.memory
    start = (space.first if of_buffer else read_scalar(wave, base, 64)) & ~3
    content = space.load(start + (read_scalar(wave, offset, 32) & ~3), size)
    write_scalar(wave, output, 8 * size, int.from_bytes(content, "little"))


def execute(wave: Wave, ins: Instruction) -> None:
    """Carry out a memory instruction."""
    {"ds": ds, "buffer": buffer, "s": scalar_load}.get(ins.base.partition("_")[0], flat)(wave, ins)
