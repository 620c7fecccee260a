"""Random memory and matrix instructions for tests, and registers and memories to run them on."""

import random

from .generator import special_values
from .machine import GFX9, MASK32, Space, Wave
from .matrix import shape

BASE, SIZE, LDS_SIZE, SCRATCH_SIZE = 0x7F00_1234_0000, 4096, 4096, 256

OLD_SIZES = ("dword", "dwordx2", "dwordx3", "dwordx4")
NEW_SIZES = ("b32", "b64", "b96", "b128")
OLD_LOADS = (
    *("ubyte", "sbyte", "ushort", "sshort", *OLD_SIZES, "ubyte_d16", "ubyte_d16_hi", "sbyte_d16"),
    *("sbyte_d16_hi", "short_d16", "short_d16_hi"),
)
NEW_LOADS = (
    *("u8", "i8", "u16", "i16", *NEW_SIZES, "d16_u8", "d16_hi_u8", "d16_i8", "d16_hi_i8"),
    *("d16_b16", "d16_hi_b16"),
)
OLD_STORES = ("byte", "short", *OLD_SIZES, "byte_d16_hi", "short_d16_hi")
NEW_STORES = ("b8", "b16", *NEW_SIZES, "d16_hi_b8", "d16_hi_b16")
_OLD = ("add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec", "swap")
OLD_ATOMICS = tuple(f"{name}{x2}" for name in (*_OLD, "cmpswap") for x2 in ("", "_x2"))
_NEW = {
    "u": ("add", "sub", "min", "max", "inc", "dec"),
    "i": ("min", "max"),
    "b": ("and", "or", "xor", "swap", "cmpswap"),
}
NEW_ATOMICS = tuple(
    f"{name}_{t}{bits}" for t, names in _NEW.items() for name in names for bits in (32, 64)
)


def _atomics(segments: str, names: str) -> list[str]:
    return [f"{segment}_atomic_{name}" for segment in segments.split() for name in names.split()]


OLD_FLOAT_ATOMICS = [
    *_atomics("buffer flat global", "add_f32 pk_add_f16 add_f64 min_f64 max_f64"),
    *_atomics("buffer flat global", "fmin fmin_x2 fmax fmax_x2"),
    *("ds_add_f64", "ds_add_rtn_f64", "ds_pk_add_f16", "ds_pk_add_rtn_f16"),
    *("ds_pk_add_bf16", "ds_pk_add_rtn_bf16", "global_atomic_pk_add_bf16", "buffer_atomic_csub"),
]
TO_LDS = ("dword", "ubyte", "sbyte", "ushort", "sshort")
"""Loads into the LDS; `lds` stands where the text has it as a modifier."""
NEW_FLOAT_ATOMICS = _atomics("buffer flat global", "add_f32 min_f32 max_f32")
DS_ATOMICS = (
    *(f"{n}_u{b}" for n in ("add", "sub", "rsub", "inc", "dec", "min", "max") for b in (32, 64)),
    *(f"{n}_i{b}" for n in ("min", "max") for b in (32, 64)),
    *(f"{n}_b{b}" for n in ("and", "or", "xor", "mskor") for b in (32, 64)),
    *("add_f32", *(f"{n}_f{b}" for n in ("min", "max") for b in (32, 64))),
)
WORDS = ("b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16")


def memory_candidates(arch: str) -> list[str]:
    """Accesses to memory, by the names that they had up to gfx10 or have since gfx11.

    Without stores to two places of the LDS: which is first is nowhere laid down.
    """
    new = arch == "gfx1100"
    load, store, exchange, compare, two, far = (
        ("load", "store", "storexchg", "cmpstore", "load_2addr", "load_2addr_stride64")
        if new
        else ("read", "write", "wrxchg", "cmpst", "read2", "read2st64")
    )
    atomics = [*DS_ATOMICS, *(f"{compare}_b{bits}" for bits in (32, 64))]
    out = [f"ds_{name}" for name in (*atomics, "bpermute_b32", "permute_b32", "swizzle_b32")]
    out += [f"ds_{name.replace('_', '_rtn_', 1)}" for name in atomics]
    out += [f"ds_{exchange}_rtn_b{bits}" for bits in (32, 64)]
    out += [f"ds_{load}_{t}" for t in WORDS]
    out += [f"ds_{load}_{t}_d16{hi}" for t in ("u8", "i8", "u16") for hi in ("", "_hi")]
    out += [f"ds_{store}_{t}" for t in ("b8", "b16", *NEW_SIZES, "b8_d16_hi", "b16_d16_hi")]
    out += [f"ds_{name}_{t}" for name in (two, far) for t in ("b32", "b64")]
    for segment in ("global", "flat", "scratch", "buffer"):
        out += [f"{segment}_load_{name}" for name in (NEW_LOADS if new else OLD_LOADS)]
        out += [f"{segment}_store_{name}" for name in (NEW_STORES if new else OLD_STORES)]
        if segment != "scratch":
            out += [f"{segment}_atomic_{name}" for name in (NEW_ATOMICS if new else OLD_ATOMICS)]
    sizes = ("b32", "b64", "b128", "b256") if new else ("dword", "dwordx2", "dwordx4", "dwordx8")
    out += [f"s_{kind}load_{size}" for kind in ("", "buffer_") for size in sizes]
    if new:
        return [*out, *NEW_FLOAT_ATOMICS, *(f"buffer_load_lds_{of}" for of in NEW_LOADS[:5])]
    out += [f"{segment}_load_lds_{of}" for segment in ("global", "scratch") for of in TO_LDS]
    return [*out, *OLD_FLOAT_ATOMICS, *(f"buffer_load_{of} lds" for of in TO_LDS)]


def data_words(name: str) -> int:
    """Registers that a load, store or atomic moves."""
    for words, ends in (
        (4, ("x4", "b128")),
        (3, ("x3", "b96")),
        (2, ("x2", "b64", "u64", "i64", "f64")),
    ):
        if name.endswith(ends):
            return words
    return 1


def registers(first: int, words: int, letter: str = "v") -> str:
    return f"{letter}{first}" if words == 1 else f"{letter}[{first}:{first + words - 1}]"


def ds_instruction(rng: random.Random, base: str) -> str:
    name = base.removeprefix("ds_")
    words = data_words(name)
    data, output = registers(4, words), registers(8, words)
    offset = rng.choice(("", f" offset:{4 * rng.randrange(1, 32)}"))
    if name == "swizzle_b32":
        pattern = rng.choice(
            (
                'swizzle(BITMASK_PERM,"{}")'.format("".join(rng.choice("01pi") for _ in range(5))),
                "swizzle(QUAD_PERM,{},{},{},{})".format(*(rng.randrange(4) for _ in range(4))),
            )
        )
        return f"{base} v8, v4 offset:{pattern}"
    if "permute" in name:
        return f"{base} v8, v0, v4" + offset
    if name.startswith(("read2", "load_2addr")):
        most = 5 if "64" in name.rpartition("_")[0] else 8  # 4096 bytes are there
        places = rng.randrange(1, most), rng.randrange(1, most)
        tail = " offset0:{} offset1:{}".format(*places)
        return f"{base} {registers(8, 2 * words)}, v0{tail}"
    if name.startswith(("read", "load")):
        return f"{base} {output}, v0{offset}"
    if name.startswith(("write", "store_")):
        return f"{base} v0, {data}{offset}"
    second = ", " + registers(12, words) if name.startswith(("cmpst", "mskor")) else ""
    first = f"{output}, " if "_rtn" in name else ""
    return f"{base} {first}v0, {data}{second}{offset}"


def memory_text(rng: random.Random, arch: str, base: str) -> str:
    """An access to memory for a wave made by `prepare_memory`.

    Addresses are in v0 (offsets), v1 (offsets into scratch), v[2:3] (global), s[2:3], s[4:7] (a
    raw buffer), s8 and s9 (offsets); data in v4 to v7 and v12 to v15; results in v8 to v15, s12 on.
    """
    segment, _, name = base.partition("_")
    if segment == "ds":
        return ds_instruction(rng, base)
    if segment == "s":
        match = base.rpartition("_")[2]
        words = int(match.partition("x")[2] or 1) if match.startswith("dword") else 1
        if match[0] == "b":
            words = int(match[1:]) // 32
        address = "s[4:7]" if "buffer" in base else "s[2:3]"
        offset = f"{4 * rng.randrange(1, 32):#x}"
        if arch in ("gfx1030", "gfx1100") and rng.random() < 0.2:
            offset = "null"
        return f"{base} {registers(12, words, 's')}, {address}, {offset}"
    base, modifier, lds = base.partition(" ")
    words = data_words(name)
    number = rng.randrange(1, 32) * 4
    offset = rng.choice(("", f" offset:{number}"))
    atomic = name.startswith("atomic")
    data = registers(4, words * (2 if "cmpswap" in name else 1))
    returning = rng.choice((" sc0", " glc"))
    returns = atomic and rng.random() < 0.5
    if segment == "buffer":
        address = rng.choice(("v0, s[4:7], s8 offen", "off, s[4:7], s8", "v0, s[4:7], 0 offen"))
        tail = returning if returns else ""
        if "lds" in name:
            return f"{base} {address}{offset}{modifier}{lds}"
        target = data if atomic or name.startswith("store") else registers(8, words)
        return f"{base} {target}, {address}{offset}{tail}"
    if segment == "flat":
        address, scalar = "v[2:3]", ""
    elif segment == "global":
        address, scalar = rng.choice((("v0", ", s[2:3]"), ("v[2:3]", ", off")))
    else:
        address, scalar = rng.choice((("v1", ", off"), ("off", ", s9")))
    if "load_lds" in name:
        return f"{base} {address}{scalar}{offset}"
    if name.startswith("load"):
        return f"{base} {registers(8, words)}, {address}{scalar}{offset}"
    first = f"{registers(8, words)}, " if returns else ""
    return f"{base} {first}{address}, {data}{scalar}{offset}{returning if returns else ''}"


def prepare_memory(rng: random.Random, arch: str, collide: bool = False) -> Wave:
    """A wave whose registers hold addresses as `memory_text` takes them.

    Each lane has 16 bytes of its own; with ``collide``, lanes share them. The buffer ends early, so
    that some lanes lie outside it.
    """
    lanes = 64 if arch in GFX9 else 32
    places = [rng.randrange(lanes) for _ in range(lanes)] if collide else list(range(lanes))
    rng.shuffle(places)
    pool, same = special_values("f32") + special_values("u32"), rng.getrandbits(30)

    def content(size: int) -> bytearray:
        """Every other eight bytes are words that registers have as well, to compare with."""
        known = same.to_bytes(4, "little") * 2
        return bytearray(b"".join(known + rng.randbytes(8) for _ in range(size // 16)))

    wave = Wave(
        lanes,
        [
            [rng.choice((same, rng.choice(pool), rng.getrandbits(32))) for _ in range(lanes)]
            for _ in range(16)
        ],
        [rng.getrandbits(32) for _ in range(106)],
        exec=rng.choice(((1 << lanes) - 1, rng.getrandbits(lanes))),
        m0=4 * rng.randrange(64),
        lds=content(LDS_SIZE),
        memory=Space(content(SIZE), BASE),
        scratch=[bytearray(rng.randbytes(SCRATCH_SIZE)) for _ in range(lanes)],
    )
    for lane, place in enumerate(places):
        wave.v[0][lane] = 16 * place
        wave.v[1][lane] = 4 * rng.randrange(16)
        address = BASE + 16 * place
        wave.v[2][lane], wave.v[3][lane] = address & MASK32, address >> 32
    wave.s[2], wave.s[3] = BASE & MASK32, BASE >> 32
    records = 4 * rng.randrange(lanes, 5 * lanes)
    check = 3 << 28 if arch not in GFX9 else 0
    wave.s[4:8] = [BASE & MASK32, BASE >> 32, records, check | 0x27000]
    wave.s[8], wave.s[9] = 4 * rng.randrange(4), 4 * rng.randrange(8)
    return wave


def matrix_text(base: str, modifiers: str = "") -> str:
    """A product of v[0:7] and v[8:14], for SMFMAC with v15, added to v[16:47]."""
    if base.startswith("v_wmma"):
        factor, total = {"4": 2, "8": 4}.get(base[-1], 8), 8
    else:
        s = shape(base)
        factor = max(1, s.per_lane * s.bits // 32)
        total = s.m * s.m * s.blocks // 64 * (2 if s.kind == "f64" else 1)
    sparse = base.startswith("v_smfmac")
    a, b, c = registers(0, factor), registers(8, factor * (1 + sparse)), registers(16, total)
    return f"{base} {c}, {a}, {b}, {'v15' if sparse else c}{modifiers}"
