"""Loads, stores and atomics: DS, GLOBAL, FLAT, SCRATCH, BUFFER, SMEM.

Sources: CDNA3 ISA, chapters 8 to 11, RDNA3 ISA, chapters 8 to 12, LLVM's "Syntax of AMDGPU
Instruction Operands". Lanes take part in the order of their numbers.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from . import floats
from .floats import F16, F32, F64
from .machine import (
    MASK32,
    MASK64,
    Instruction,
    Operand,
    Wave,
    read_lane,
    read_scalar,
    register,
    signed,
    write_lane,
    write_scalar,
)


class Access(NamedTuple):
    """What a load or store moves: bytes, sign extension, and the half of a register."""

    size: int
    sign: bool = False
    half: int | None = None  # d16: lower or upper half of the register, the other one is kept


NAMES: dict[str, Access] = {}
for _old, _new, _access in (
    ("ubyte", "u8", Access(1)),
    ("sbyte", "i8", Access(1, True)),
    ("ushort", "u16", Access(2)),
    ("sshort", "i16", Access(2, True)),
    ("dword", "b32", Access(4)),
    ("dwordx2", "b64", Access(8)),
    ("dwordx3", "b96", Access(12)),
    ("dwordx4", "b128", Access(16)),
    ("byte", "b8", Access(1)),
    ("short", "b16", Access(2)),
    ("ubyte_d16", "d16_u8", Access(1, False, 0)),
    ("sbyte_d16", "d16_i8", Access(1, True, 0)),
    ("short_d16", "d16_b16", Access(2, False, 0)),
    ("ubyte_d16_hi", "d16_hi_u8", Access(1, False, 1)),
    ("sbyte_d16_hi", "d16_hi_i8", Access(1, True, 1)),
    ("short_d16_hi", "d16_hi_b16", Access(2, False, 1)),
    ("byte_d16_hi", "d16_hi_b8", Access(1, False, 1)),
    ("u8_d16", "u8_d16", Access(1, False, 0)),
    ("i8_d16", "i8_d16", Access(1, True, 0)),
    ("u16_d16", "u16_d16", Access(2, False, 0)),
    ("u8_d16_hi", "u8_d16_hi", Access(1, False, 1)),
    ("i8_d16_hi", "i8_d16_hi", Access(1, True, 1)),
    ("u16_d16_hi", "u16_d16_hi", Access(2, False, 1)),
    ("b8_d16_hi", "b8_d16_hi", Access(1, False, 1)),
    ("b16_d16_hi", "b16_d16_hi", Access(2, False, 1)),
):
    NAMES[_old] = NAMES[_new] = _access


# Atomics: new value of memory from the old one and the data (and what it is compared with).
def wrap_increment(old: int, data: int) -> int:
    return 0 if old >= data else old + 1


def wrap_decrement(old: int, data: int) -> int:
    return data if old == 0 or old > data else old - 1


def as_signed(function: Callable[[int, int], int], bits: int) -> Callable[[int, int], int]:
    return lambda a, b: function(signed(a, bits), signed(b, bits))


def packed_add(f: floats.Format) -> Callable[[int, int], int]:
    return lambda a, b: (
        floats.add(a & 0xFFFF, b & 0xFFFF, f) | floats.add(a >> 16, b >> 16, f) << 16
    )


def atomic(name: str) -> tuple[Callable[[int, int], int], int] | None:
    """Function of old value and data, and the bytes, of an atomic such as "add_x2" or "add_u32"."""
    words = 8 if name.endswith(("_x2", "64")) else 4
    bits = 8 * words
    bare = re.sub(r"(_x2|_rtn)$", "", name)
    bare = re.sub(r"_rtn_", "_", bare)
    match = re.fullmatch(r"(.*?)(?:_(u32|i32|b32|u64|i64|b64|f32|f64|f16|bf16))?", bare)
    assert match is not None
    base, kind = match.groups()
    kind = kind or ""
    if kind in ("f32", "f64") and base in ("add", "min", "max"):
        f = F32 if kind == "f32" else F64
        function = {"add": floats.add, "min": floats.minimum, "max": floats.maximum}[base]
        return (lambda a, b: function(b, a, f) if base != "add" else function(a, b, f)), words
    if base == "pk_add":
        return packed_add(F16), 4
    if base in ("fmin", "fmax"):
        function = floats.minimum if base == "fmin" else floats.maximum
        f = F32 if words == 4 else F64
        return (lambda a, b: function(b, a, f)), words
    if base in ("min", "max") and kind:
        base = kind[0].replace("i", "s") + base
    table: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "rsub": lambda a, b: b - a,
        "inc": wrap_increment,
        "dec": wrap_decrement,
        "smin": as_signed(min, bits),
        "smax": as_signed(max, bits),
        "umin": min,
        "umax": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "swap": lambda a, b: b,
        "wrxchg": lambda a, b: b,
        "storexchg": lambda a, b: b,
    }
    return (table[base], words) if base in table else None


def read_words(wave: Wave, operand: Operand, size: int, lane: int) -> bytes:
    words = (size + 3) // 4
    return read_lane(wave, operand, 32 * words, lane).to_bytes(4 * words, "little")


def store_bytes(wave: Wave, operand: Operand, access: Access, lane: int) -> bytes:
    data = read_words(wave, operand, access.size, lane)
    first = 2 * (access.half or 0)
    return data[first : first + access.size]


def load_bytes(wave: Wave, operand: Operand, access: Access, lane: int, data: bytes) -> None:
    number = int.from_bytes(data, "little", signed=access.sign)
    if access.half is None:
        write_lane(wave, operand, 8 * max(4, access.size), lane, number & (1 << 128) - 1)
        return
    old, shift = read_lane(wave, operand, 32, lane), 16 * access.half
    bits = old & ~(0xFFFF << shift) | (number & 0xFFFF) << shift
    write_lane(wave, operand, 32, lane, bits)


class Space(NamedTuple):
    """A memory: read and write at an address; a part out of range reads 0 and is not written."""

    load: Callable[[int, int], bytes]
    store: Callable[[int, bytes], None]


def array_space(data: bytearray) -> Space:
    """LDS, or the scratch of a lane."""

    def load(address: int, count: int) -> bytes:
        places = range(address, address + count)
        return bytes(data[i] if 0 <= i < len(data) else 0 for i in places)

    def store(address: int, given: bytes) -> None:
        for i, byte in enumerate(given):
            if 0 <= address + i < len(data):
                data[address + i] = byte

    return Space(load, store)


def global_space(wave: Wave) -> Space:
    return Space(wave.bytes.load, wave.bytes.store)


Locate = Callable[[int], "tuple[Space, int] | None"]


def transfer(
    wave: Wave, ins: Instruction, name: str, data: Operand, output: Operand | None, locate: Locate
) -> bool:
    """A load, store or atomic of all active lanes, at the places that `locate` says."""
    kind, _, what = name.partition("_")
    if kind == "load" and what in NAMES:
        access = NAMES[what]
        found = {}
        for lane in wave.active():
            place = locate(lane)
            found[lane] = place[0].load(place[1], access.size) if place else bytes(access.size)
        for lane, content in found.items():
            load_bytes(wave, data, access, lane, content)
        return True
    if kind == "store" and what in NAMES:
        access = NAMES[what]
        for lane in wave.active():
            if place := locate(lane):
                place[0].store(place[1], store_bytes(wave, data, access, lane))
        return True
    if kind != "atomic":
        return False
    compare = what.startswith("cmpswap")
    size = 8 if what.endswith(("_x2", "64")) else 4
    function = None
    if not compare:
        known = atomic(what)
        if known is None:
            return False
        function, size = known
    old_values = {}
    for lane in wave.active():
        place = locate(lane)
        if not place:
            old_values[lane] = 0
            continue
        space, address = place
        old = int.from_bytes(space.load(address, size), "little")
        given = int.from_bytes(read_words(wave, data, size * (1 + compare), lane), "little")
        if compare:
            source, wanted = given & (1 << 8 * size) - 1, given >> 8 * size
            new = source if old == wanted else old
        else:
            assert function is not None
            new = function(old, given)
        space.store(address, (new & (1 << 8 * size) - 1).to_bytes(size, "little"))
        old_values[lane] = old
    if output is not None:
        for lane, old in old_values.items():
            write_lane(wave, output, 8 * size, lane, old)
    return True


def offset_of(ins: Instruction) -> int:
    given = ins.modifiers.get("offset", 0)
    return given if isinstance(given, int) else 0


def flat(wave: Wave, ins: Instruction) -> bool:
    """FLAT, GLOBAL and SCRATCH: a vector address, an SGPR address with a vector offset, or both."""
    segment, _, name = ins.base.partition("_")
    operands = list(ins.operands)
    output = None
    has_scalar = segment != "flat"
    if "lds" in ins.modifiers or "addtid" in name:
        return False
    if name.startswith("load"):
        data, address = operands[:2]
    elif name.startswith("atomic") and len(operands) == 3 + has_scalar:
        output, address, data = operands[:3]
    else:
        address, data = operands[:2]
    scalar = operands[-1] if has_scalar else None

    def locate(lane: int) -> tuple[Space, int]:
        if segment == "scratch":
            assert scalar is not None
            parts = [o for o in (address, scalar) if o.name != "off"]
            place = sum(read_lane(wave, o, 32, lane) for o in parts) + offset_of(ins)
            return array_space(wave.scratch[lane]), signed(place, 32)
        if scalar is not None and scalar.name not in ("off", "null"):
            place = read_scalar(wave, scalar, 64) + read_lane(wave, address, 32, lane)
        else:
            place = read_lane(wave, address, 64, lane)
        place = place + offset_of(ins) & MASK64
        if segment == "flat":
            if place >> 32 == wave.shared_base >> 32:
                return array_space(wave.lds), place & MASK32
            if place >> 32 == wave.private_base >> 32:
                return array_space(wave.scratch[lane]), place & MASK32
        return global_space(wave), place

    return transfer(wave, ins, name, data, output, locate)


# Buffers.
class Resource(NamedTuple):
    """Buffer resource descriptor: CDNA3 ISA, 9.1.8; RDNA3 ISA, 9.1.5."""

    base: int
    stride: int
    records: int
    swizzled: bool
    check: int  # OOB_SELECT from gfx10 on

    @classmethod
    def of(cls, words: int, gfx9: bool) -> "Resource":
        w = [words >> 32 * i & MASK32 for i in range(4)]
        swizzled = bool(w[1] >> 31) if gfx9 else bool(w[1] >> 30)
        base = w[0] | (w[1] & 0xFFFF) << 32
        return cls(base, w[1] >> 16 & 0x3FFF, w[2], swizzled, w[3] >> 28 & 3)


def buffer(wave: Wave, ins: Instruction) -> bool:
    """MUBUF without formats: linear buffers, each dword checked against the range by itself.

    Raw on gfx9 (no stride, or no swizzle) and with OOB_SELECT 3: the byte offset including
    soffset against num_records. OOB_SELECT 0: index and offset; 1: index; 2: only empty buffers.
    """
    name = ins.base.removeprefix("buffer_")
    if "lds" in ins.modifiers or "tfe" in ins.modifiers or len(ins.operands) != 4:
        return False
    data, vector, descriptor, scalar = ins.operands
    resource = Resource.of(read_scalar(wave, descriptor, 128), ins.gfx9)
    if resource.swizzled and resource.stride:
        return False
    soffset = read_scalar(wave, scalar, 32)
    index_first = "idxen" in ins.modifiers

    def place(lane: int) -> tuple[int, int]:
        """Index and offset of a lane."""
        index = offset = 0
        if index_first:
            index = wave.v[register(wave, vector)][lane]
        if "offen" in ins.modifiers:
            offset = wave.v[register(wave, vector) + index_first][lane]
        return index, offset + offset_of(ins)

    def inside(index: int, offset: int, size: int) -> bool:
        linear = index * resource.stride + offset + soffset
        if ins.gfx9 or resource.check == 3:
            return linear + size <= resource.records
        if resource.check == 2:
            return resource.records > 0
        inner = not resource.stride or offset + size <= resource.stride
        return index < resource.records and (resource.check == 1 or inner)

    def locate(lane: int) -> tuple[Space, int]:
        index, offset = place(lane)
        start = resource.base + soffset + index * resource.stride + offset

        def load(address: int, count: int) -> bytes:
            out = b""
            for i in range(0, count, 4):
                n = min(4, count - i)
                good = inside(index, offset + i, n)
                out += wave.bytes.load(address + i & MASK64, n) if good else bytes(n)
            return out

        def store(address: int, given: bytes) -> None:
            for i in range(0, len(given), 4):
                part = given[i : i + 4]
                if inside(index, offset + i, len(part)):
                    wave.bytes.store(address + i & MASK64, part)

        return Space(load, store), start

    returns = any(key in ins.modifiers for key in ("glc", "sc0"))
    if name.startswith("atomic"):
        size = 8 if name.endswith(("_x2", "64")) else 4

        def locate_whole(lane: int) -> tuple[Space, int] | None:
            index, offset = place(lane)
            return locate(lane) if inside(index, offset, size) else None

        return transfer(wave, ins, name, data, data if returns else None, locate_whole)
    return transfer(wave, ins, name, data, None, locate)


# LDS.
def ds(wave: Wave, ins: Instruction) -> bool:
    name = ins.base.removeprefix("ds_").replace("read", "load").replace("write", "store")
    name = name.replace("load2st64", "load_2addr_stride64").replace("load2_", "load_2addr_")
    if "gds" in ins.modifiers:
        return False
    if name in ("bpermute_b32", "permute_b32", "swizzle_b32"):
        return LANE_MOVES[name](wave, ins)
    space, operands = array_space(wave.lds), list(ins.operands)
    match = re.fullmatch(r"load_2addr_(stride64_)?(b32|b64)", name)
    if match:
        return two_addresses(wave, ins, space, *match.groups())
    offset = offset_of(ins)
    if name.startswith("load"):
        data, address = operands
        return transfer(wave, ins, name, data, None, ds_place(wave, space, address, offset))
    if name.startswith("store_"):
        address, data = operands
        return transfer(wave, ins, name, data, None, ds_place(wave, space, address, offset))
    return ds_atomic(wave, ins, name, space)


def ds_place(wave: Wave, space: Space, address: Operand, offset: int) -> Locate:
    return lambda lane: (space, read_lane(wave, address, 32, lane) + offset)


def two_addresses(wave: Wave, ins: Instruction, space: Space, stride: str | None, t: str) -> bool:
    size = int(t[1:]) // 8
    step = size * (64 if stride else 1)
    offsets = [int(ins.modifiers.get(key, 0)) * step for key in ("offset0", "offset1")]
    data, address = ins.operands
    found = {}
    for lane in wave.active():
        start = read_lane(wave, address, 32, lane)
        found[lane] = b"".join(space.load(start + offset, size) for offset in offsets)
    for lane, content in found.items():
        write_lane(wave, data, 16 * size, lane, int.from_bytes(content, "little"))
    return True


def ds_atomic(wave: Wave, ins: Instruction, name: str, space: Space) -> bool:
    """Atomics of LDS; ds_cmpst has the compared value first, ds_cmpstore the new one."""
    operands = list(ins.operands)
    output = operands.pop(0) if "_rtn" in name else None
    address, *data = operands
    size = 8 if name.endswith("64") else 4
    compare = re.match(r"(cmpst|cmpstore)_", name)
    masked = name.startswith("mskor")
    function = None
    if not compare and not masked:
        known = atomic(name)
        if known is None:
            return False
        function, size = known
    old_values = {}
    for lane in wave.active():
        place = read_lane(wave, address, 32, lane) + offset_of(ins)
        old = int.from_bytes(space.load(place, size), "little")
        values = [read_lane(wave, operand, 8 * size, lane) for operand in data]
        if compare:
            wanted, new_value = values if compare[1] == "cmpst" else reversed(values)
            new = new_value if old == wanted else old
        elif masked:
            new = old & ~values[0] | values[1]
        else:
            assert function is not None
            new = function(old, values[0])
        space.store(place, (new & (1 << 8 * size) - 1).to_bytes(size, "little"))
        old_values[lane] = old
    if output is not None:
        for lane, old in old_values.items():
            write_lane(wave, output, 8 * size, lane, old)
    return True


def lane_number(wave: Wave, ins: Instruction, address: Operand, lane: int) -> int:
    """Lane of a byte address; with 64 lanes on gfx10 and later within the same half."""
    number = (read_lane(wave, address, 32, lane) + offset_of(ins)) // 4
    if wave.lanes == 64 and not ins.gfx9:
        return number % 32 | lane & 32
    return number % wave.lanes


def backward_permute(wave: Wave, ins: Instruction) -> bool:
    """DS_BPERMUTE: read from the lane of the address; inactive lanes give 0."""
    output, address, data = ins.operands
    found = {}
    for lane in wave.active():
        source = lane_number(wave, ins, address, lane)
        found[lane] = read_lane(wave, data, 32, source) if wave.exec >> source & 1 else 0
    for lane, bits in found.items():
        write_lane(wave, output, 32, lane, bits)
    return True


def forward_permute(wave: Wave, ins: Instruction) -> bool:
    """DS_PERMUTE: write to the lane of the address; the highest source wins, none gives 0."""
    output, address, data = ins.operands
    found = dict.fromkeys(range(wave.lanes), 0)
    for lane in wave.active():
        found[lane_number(wave, ins, address, lane)] = read_lane(wave, data, 32, lane)
    for lane in wave.active():
        write_lane(wave, output, 32, lane, found[lane])
    return True


def swizzle_source(ins: Instruction, lane: int) -> int:
    """Lane that DS_SWIZZLE reads."""
    kind, *numbers = re.findall(r"\w+", ins.modifiers["offset"].removeprefix("swizzle"))
    if kind == "QUAD_PERM":
        return lane & ~3 | int(numbers[lane & 3])
    within, group, out = lane & 31, lane & ~31, 0
    for i, c in enumerate(reversed(numbers[0])):
        bit = within >> i & 1
        out |= {"0": 0, "1": 1, "p": bit, "i": 1 - bit}[c] << i
    return group | out


def swizzle(wave: Wave, ins: Instruction) -> bool:
    """DS_SWIZZLE: patterns of four or of 32 lanes; inactive lanes give 0."""
    output, data = ins.operands
    found = {}
    for lane in wave.active():
        source = swizzle_source(ins, lane)
        found[lane] = read_lane(wave, data, 32, source) if wave.exec >> source & 1 else 0
    for lane, bits in found.items():
        write_lane(wave, output, 32, lane, bits)
    return True


LANE_MOVES = {
    "bpermute_b32": backward_permute,
    "permute_b32": forward_permute,
    "swizzle_b32": swizzle,
}


def scalar_load(wave: Wave, ins: Instruction) -> bool:
    """S_LOAD and S_BUFFER_LOAD: dwords at (base & ~3) + (offset & ~3)."""
    match = re.fullmatch(r"s_(buffer_)?load_(dword(?:x(\d+))?|b(\d+))", ins.base)
    if not match:
        return False
    of_buffer, _, times, bits = match.groups()
    output, base, *offset = ins.operands
    size = int(bits or 32 * int(times or 1)) // 8
    place = offset_of(ins)
    if offset:
        if offset[0].kind == "k":
            place += signed(int(offset[0].name, 0), 32)
        else:
            place += read_scalar(wave, offset[0], 32)
    place &= ~3
    limit = None
    if of_buffer:
        resource = Resource.of(read_scalar(wave, base, 128), ins.gfx9)
        start, limit = resource.base, resource.records * max(1, resource.stride)
    else:
        start = read_scalar(wave, base, 64)
    start &= ~3
    content = b""
    for i in range(0, size, 4):
        good = limit is None or place + i + 4 <= limit
        content += wave.bytes.load(start + place + i & MASK64, 4) if good else bytes(4)
    write_scalar(wave, output, 8 * size, int.from_bytes(content, "little"))
    return True


def execute(wave: Wave, ins: Instruction) -> bool:
    """Carry out a memory instruction; False if the model does not know it."""
    for prefix, function in (
        ("ds_", ds),
        ("global_", flat),
        ("flat_", flat),
        ("scratch_", flat),
        ("buffer_", buffer),
        ("s_load_", scalar_load),
        ("s_buffer_load_", scalar_load),
    ):
        if ins.base.startswith(prefix):
            return function(wave, ins)
    return False
