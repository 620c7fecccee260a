"""Random memory and matrix instructions for tests, and registers and memories to run them on."""

import random

from .forms import forms_of
from .generator import special_values
from .machine import GFX9, MASK32, Memory, Wave
from .matrix import WMMA, shape

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
OLD_ATOMICS = (
    *(f"{name}{x2}" for name in (*_OLD, "cmpswap") for x2 in ("", "_x2")),
    *("add_f32", "pk_add_f16", "pk_add_bf16", "add_f64", "min_f64", "max_f64"),
    *("fmin", "fmax", "fmin_x2", "fmax_x2"),
)
_NEW = {
    "u": ("add", "sub", "min", "max", "inc", "dec"),
    "i": ("min", "max"),
    "b": ("and", "or", "xor", "swap", "cmpswap"),
}
NEW_ATOMICS = (
    *(f"{name}_{t}{bits}" for t, names in _NEW.items() for name in names for bits in (32, 64)),
    *("add_f32", "min_f32", "max_f32", "min_num_f32", "max_num_f32", "pk_add_f16", "pk_add_bf16"),
    *("csub_u32", "sub_clamp_u32", "cond_sub_u32"),
)
DS_ATOMICS = (
    *(f"{n}_u{b}" for n in ("add", "sub", "rsub", "inc", "dec", "min", "max") for b in (32, 64)),
    *(f"{n}_i{b}" for n in ("min", "max") for b in (32, 64)),
    *(f"{n}_b{b}" for n in ("and", "or", "xor", "mskor") for b in (32, 64)),
    *(f"{n}_f{b}" for n in ("add", "min", "max", "min_num", "max_num") for b in (32, 64)),
    *(f"{n}_b{b}" for n in ("cmpst", "cmpstore") for b in (32, 64)),
    *("pk_add_f16", "pk_add_bf16"),
)
DS_RETURNING = (
    *(name.replace("_", "_rtn_", 1) for name in DS_ATOMICS if name[3:6] != "num"),
    *(f"{name}_rtn_f32" for name in ("min_num", "max_num")),
    *("pk_add_rtn_f16", "pk_add_rtn_bf16"),
    *(f"{name}_rtn_b{bits}" for name in ("wrxchg", "storexchg") for bits in (32, 64)),
)
DS_PLAIN = (
    *(f"read_{t}" for t in ("b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16")),
    *(f"read_{t}_d16{h}" for t in ("u8", "i8", "u16") for h in ("", "_hi")),
    *(f"load_{t}" for t in ("b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16")),
    *(f"load_{t}_d16{h}" for t in ("u8", "i8", "u16") for h in ("", "_hi")),
    *(f"{x}_{t}" for x in ("write", "store") for t in ("b8", "b16", "b32", "b64", "b96", "b128")),
    *(f"{x}_{t}_d16_hi" for x in ("write", "store") for t in ("b8", "b16")),
    *(f"{x}2{st}_{t}" for x in ("read", "write") for st in ("", "st64") for t in ("b32", "b64")),
    *(
        f"{x}_2addr{st}_{t}"
        for x in ("load", "store")
        for st in ("", "_stride64")
        for t in ("b32", "b64")
    ),
    *("bpermute_b32", "permute_b32", "swizzle_b32"),
)
SCALAR_LOADS = (
    *(f"dword{n}" for n in ("", "x2", "x4", "x8")),
    *("b32", "b64", "b96", "b128", "b256", "u8", "i8", "u16", "i16"),
)


def memory_candidates() -> list[str]:
    out = [f"ds_{name}" for name in (*DS_PLAIN, *DS_ATOMICS, *DS_RETURNING)]
    for segment in ("global", "flat", "scratch", "buffer"):
        out += [f"{segment}_load_{name}" for name in (*OLD_LOADS, *NEW_LOADS)]
        out += [f"{segment}_store_{name}" for name in (*OLD_STORES, *NEW_STORES)]
        if segment != "scratch":
            out += [f"{segment}_atomic_{name}" for name in (*OLD_ATOMICS, *NEW_ATOMICS)]
    out += [f"s_{kind}load_{name}" for kind in ("", "buffer_") for name in SCALAR_LOADS]
    return out


def matrix_candidates() -> list[str]:
    shapes = ("32x32x4", "16x16x4", "4x4x4", "32x32x8", "16x16x16", "32x32x2", "16x16x2", "4x4x2")
    shapes += ("16x16x8", "32x32x16", "16x16x32", "32x32x1", "16x16x1", "4x4x1")
    tails = ["f32", "f16", "bf16", "bf16_1k", "f64", "i8", "_f32", "_f16", "_bf16", "_xf32"]
    tails += ["_f64", "_i8", *(f"_{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8"))]
    tails += [f"_{n}b_{t}" for n in (2, 4, 16) for t in ("f32", "f16", "bf16", "i8", "f64")]
    names = (f"v_mfma_{d}_{s}{t}" for d in ("f32", "i32", "f64") for s in shapes for t in tails)
    return [*names, *WMMA]


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
    if name.startswith(("read2", "load_2addr", "write2", "store_2addr")):
        offsets = rng.randrange(1, 8), rng.randrange(1, 8)
        tail = " offset0:{} offset1:{}".format(*offsets)
        if name.startswith(("read", "load")):
            return f"{base} {registers(8, 2 * words)}, v0{tail}"
        return f"{base} v0, {data}, {registers(12, words)}{tail}"
    if name.startswith(("read", "load")):
        return f"{base} {output}, v0{offset}"
    if name.startswith(("write", "store_")):
        return f"{base} v0, {data}{offset}"
    second = ", " + registers(12, words) if name.startswith(("cmpst", "mskor")) else ""
    first = f"{output}, " if "_rtn" in name else ""
    return f"{base} {first}v0, {data}{second}{offset}"


def random_memory_instruction(rng: random.Random, arch: str) -> str:
    """An instruction for a wave made by `prepare_memory`.

    Addresses are in v0 (offsets), v1 (offsets into scratch), v[2:3] (global), s[2:3], s[4:7] (a
    raw buffer), s8 and s9 (offsets); data in v4 to v7 and v12 to v15; results in v8 to v15, s12 on.
    """
    names = [x for x in memory_candidates() if forms_of(x, arch)]
    segment = rng.choice(("ds", "global", "flat", "scratch", "buffer", "s"))
    return memory_text(rng, arch, rng.choice([x for x in names if x.startswith(f"{segment}_")]))


def memory_text(rng: random.Random, arch: str, base: str) -> str:
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
    words = data_words(name)
    number = rng.randrange(1, 32) * 4
    offset = rng.choice(("", f" offset:{number}"))
    atomic = name.startswith("atomic")
    data = registers(4, words * (2 if "cmpswap" in name else 1))
    returning = " th:TH_ATOMIC_RETURN" if arch == "gfx1201" else " glc"
    returning = " sc0" if arch == "gfx942" else returning
    returns = atomic and rng.random() < 0.5
    if "csub" in name:
        returns = True
    if segment == "buffer":
        address = rng.choice(("v0, s[4:7], s8 offen", "off, s[4:7], s8", "v0, s[4:7], 0 offen"))
        if arch == "gfx1201":
            address = address.replace(", 0 offen", ", null offen")
        tail = returning if returns else ""
        target = data if atomic or name.startswith("store") else registers(8, words)
        return f"{base} {target}, {address}{offset}{tail}"
    if segment == "flat":
        address, scalar = "v[2:3]", ""
    elif segment == "global":
        address, scalar = rng.choice((("v0", ", s[2:3]"), ("v[2:3]", ", off")))
    else:
        address, scalar = rng.choice((("v1", ", off"), ("off", ", s9")))
    if name.startswith("load"):
        return f"{base} {registers(8, words)}, {address}{scalar}{offset}"
    first = f"{registers(8, words)}, " if returns else ""
    return f"{base} {first}{address}, {data}{scalar}{offset}{returning if returns else ''}"


def prepare_memory(rng: random.Random, arch: str, collide: bool = False) -> Wave:
    """A wave whose registers hold addresses as `random_memory_instruction` takes them.

    Each lane has 16 bytes of its own; with ``collide``, lanes share them. The buffer ends early, so
    that some lanes lie outside it.
    """
    lanes = 64 if arch in GFX9 else 32
    places = [rng.randrange(lanes) for _ in range(lanes)] if collide else list(range(lanes))
    rng.shuffle(places)
    pool = special_values("f32") + special_values("u32")
    wave = Wave(
        lanes,
        [
            [rng.choice(pool) if rng.random() < 0.5 else rng.getrandbits(32) for _ in range(lanes)]
            for _ in range(16)
        ],
        [rng.getrandbits(32) for _ in range(106)],
        exec=rng.choice(((1 << lanes) - 1, rng.getrandbits(lanes))),
        lds=bytearray(rng.randbytes(LDS_SIZE)),
        memory=Memory(dict(enumerate(rng.randbytes(SIZE), BASE))),
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


def random_matrix_instruction(rng: random.Random, arch: str) -> str:
    """MFMA or WMMA with A and B in v[0:7] and v[8:15], C and D in v[16:47]; none on gfx1030."""
    base = rng.choice([x for x in matrix_candidates() if forms_of(x, arch)])
    return matrix_text(base, arch)


def matrix_text(base: str, arch: str) -> str:
    if base in WMMA:
        kind, result = WMMA[base]
        bits = {"iu8": 8, "iu4": 4}.get(kind, 16)
        halves = result in ("f16", "bf16")
        factor = bits // 2 if arch == "gfx1100" else bits // 4
        total = 4 if halves and arch == "gfx1201" else 8
    else:
        s = shape(base)
        assert s is not None
        factor = max(1, s.per_lane * s.bits // 32)
        total = s.m * s.n * s.blocks // 64 * (2 if s.kind == "f64" else 1)
    a, b, c = registers(0, factor), registers(8, factor), registers(16, total)
    return f"{base} {c}, {a}, {b}, {c}"
