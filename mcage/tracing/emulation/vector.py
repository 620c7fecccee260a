"""Vector instructions as closures over a machine, with those that move data between lanes."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mcage.tracing.emulation.arithmetic import (
    COMPARISONS,
    OPERATIONS,
    WORD,
    Array,
    Operation,
    div_scale,
    fma16,
    fma32,
    of_class,
    sad,
    to_half,
    to_small_float,
    to_unit,
    with_nans,
)
from mcage.tracing.emulation.machine import (
    EXEC,
    VCC,
    Execute,
    Families,
    Instruction,
    Machine,
    Operand,
    Source,
    UnsupportedError,
    built,
    raw_source,
    register_number,
    scalar_word,
    signed,
    typed,
    words_from,
)
from mcage.tracing.emulation.matrix import build_mfma, build_wmma

_PRESERVE_UPPER = re.compile(
    r"v_(mad|fma|div_fixup|min3|max3|med3)_[fiu]16$|v_(madmk|madak|mac|fmac)_f16$"
    r"|v_(add|sub)_i16$"
)
"""Instructions of generation 9 that keep the other half of a register; the others clear it.

From generation 10 on, all keep it (LLVM, ``GCNSubtarget::zeroesHigh16BitsOfDest``).
"""

_CHOOSE_NANS = re.compile(r"min|max|med3|div_fixup|legacy_f32|dx9_zero|cube")


# Sources: DPP and SDWA change the first or both before they are read as a type.


_PATTERNS: dict[str, Callable[[Array, int], Array]] = {
    "row_shl": lambda lane, count: lane + count,
    "row_shr": lambda lane, count: lane - count,
    "row_ror": lambda lane, count: lane // 16 * 16 + (lane - count) % 16,
    "row_share": lambda lane, number: lane // 16 * 16 + number,
    "row_newbcast": lambda lane, number: lane // 16 * 16 + number,
    "row_xmask": lambda lane, mask: lane ^ mask,
    "row_mirror": lambda lane, _: lane ^ 15,
    "row_half_mirror": lambda lane, _: lane ^ 7,
    "row_bcast": lambda lane, last: np.where(lane > last, lane // (last + 1) * (last + 1) - 1, -1),
    "wave_shl": lambda lane, _: lane + 1,
    "wave_shr": lambda lane, _: lane - 1,
    "wave_rol": lambda lane, _: (lane + 1) % len(lane),
    "wave_ror": lambda lane, _: (lane - 1) % len(lane),
}
"""Lane that each lane reads under DPP, by the name of the pattern and its number."""


def lanes_read(modifiers: dict[str, str], lanes: int) -> tuple[Array, Array]:
    """Lane that each lane reads under DPP, and whether there is one.

    Raises
    ------
    UnsupportedError
        The pattern is not known.
    """
    lane = np.arange(lanes)
    for name, text in modifiers.items():
        if name in ("quad_perm", "dpp8"):
            order = np.array([int(part) for part in text.strip("[]").split(",")])
            size = len(order)
            return lane // size * size + order[lane % size], lane >= 0
        if name in _PATTERNS:
            read = _PATTERNS[name](lane, int(text or "0", 0))
            there = (read >= 0) & (read < lanes)
            if name in ("row_shl", "row_shr"):
                there &= read // 16 == lane // 16
            return np.where(there, read, 0), there
    raise UnsupportedError("a pattern of DPP that is not known")


def lanes_written(inst: Instruction, lanes: int) -> tuple[Array, bool, bool]:
    """Lanes that DPP writes; whether also those without a source, and of sources that are off."""
    lane = np.arange(lanes)
    rows, banks = inst.modifier("row_mask", 15), inst.modifier("bank_mask", 15)
    enabled = (rows >> lane // 16 & 1).astype(np.bool_) & (banks >> lane % 16 // 4 & 1).astype(
        np.bool_
    )
    zero = bool(inst.modifier("bound_ctrl")) or "dpp8" in inst.modifiers
    return enabled, zero, bool(inst.modifier("fi"))


def _over_lanes(source: Source, inst: Instruction, machine: Machine) -> tuple[Source, Source]:
    """The first source under DPP, and the lanes that are written."""
    index, valid = lanes_read(inst.modifiers, machine.lanes)
    enabled, zero, also_off = lanes_written(inst, machine.lanes)

    def readable(m: Machine) -> Array:
        return valid if also_off else m.lanes_on[:, index] & valid

    def moved(m: Machine) -> Array:
        value = np.broadcast_to(source(m), m.lanes_on.shape)[:, index]
        return np.where(readable(m), value, np.uint32(0))

    def written(m: Machine) -> Array:
        return m.lanes_on & enabled & (True if zero else readable(m))

    return moved, written


def _selected(source: Source, selection: str, extended: bool) -> Source:
    """Part of a word that SDWA selects."""
    if selection in ("", "DWORD"):
        return source
    kind, _, number = selection.partition("_")
    bits = 8 if kind == "BYTE" else 16
    shift, mask = np.uint32(bits * int(number)), np.uint32((1 << bits) - 1)
    sign = np.uint32(1 << (bits - 1))

    def part(m: Machine) -> Array:
        value = source(m) >> shift & mask
        return (value ^ sign) - sign if extended else value

    return part


def source(
    inst: Instruction, machine: Machine, position: int, number: int, kind: str
) -> tuple[Source, Source | None]:
    """An operand of a type, and under DPP the lanes that are written.

    Parameters
    ----------
    position : int
        Of the operand among all.
    number : int
        Of the source, from 0, as ``op_sel`` and ``src0_sel`` count them.
    """
    if kind == "mask":
        mask = inst.operands[position].number if position < len(inst.operands) else VCC
        return lambda m: m.mask(mask), None
    operand = inst.operands[position]
    written = None
    constant = f"f{kind[1:]}" if operand.negated or operand.absolute else kind
    count = 2 if kind.endswith("64") else 1
    words = [raw_source(operand, machine, constant, word) for word in range(count)]
    if inst.encoding == "dpp" and number == 0:
        pairs = [_over_lanes(word, inst, machine) for word in words]
        words, written = [pair[0] for pair in pairs], pairs[0][1]
    half = operand.half
    if inst.encoding == "sdwa":
        selection = inst.modifiers.get(f"src{number}_sel", "DWORD")
        words[0] = _selected(words[0], selection, operand.extended)
    elif kind.endswith("16"):
        half = half or inst.bits("op_sel", number)
    value = typed(words, kind, half)
    return signed(value, kind, operand.absolute, operand.negated), written


# Results.


def destination(
    inst: Instruction, machine: Machine, kind: str, sources: int
) -> Callable[..., None]:
    """Return what writes a result into the first operand: ``write(machine, value, lanes)``."""
    operand = inst.operands[0]
    if operand.kind not in "va":
        raise UnsupportedError(f"destination {operand.text}")
    first = register_number(operand, machine)
    clamp, factor = "clamp" in inst.modifiers, factor_of(inst)
    half = operand.half or (inst.bits("op_sel", sources) if kind.endswith("16") else 0)
    selection = inst.modifiers.get("dst_sel", "DWORD") if inst.encoding == "sdwa" else "DWORD"
    keeps = keeps_half(inst, machine, half)
    unused = inst.modifiers.get("dst_unused", "UNUSED_PAD")

    def write(m: Machine, value: Array, lanes: Array | None) -> None:
        if kind.startswith("f"):
            if factor != 1:
                value = value * value.dtype.type(factor)
            if clamp:
                value = to_unit(value)
        words = words_from(value, kind)
        if kind.endswith("16") and inst.encoding != "sdwa":
            words[0] = _into_half(m, first, words[0], half, keeps)
        elif selection != "DWORD":
            words[0] = _into_part(m, first, words[0], selection, unused)
        m.put_words(first, words, lanes)

    return write


def keeps_half(inst: Instruction, machine: Machine, half: int) -> bool:
    """Whether a result of 16 bits in a half of a register leaves the other half."""
    return machine.generation >= 10 or bool(_PRESERVE_UPPER.match(inst.name)) or bool(half)


def factor_of(inst: Instruction) -> float:
    """Factor on a result: ``mul:2``, ``div:2``."""
    for name, sign in (("mul", 1), ("div", -1)):
        if name in inst.modifiers:
            return float(int(inst.modifiers[name])) ** sign
    return 1.0


def _into_half(m: Machine, number: int, bits: Array, half: int, keeps: bool) -> Array:
    if not keeps:
        return bits
    before = m.vector[number, m.group]
    if half:
        return before & np.uint32(0xFFFF) | bits << np.uint32(16)
    return before & np.uint32(0xFFFF0000) | bits


def _into_part(m: Machine, number: int, bits: Array, selection: str, unused: str) -> Array:
    kind, _, place = selection.partition("_")
    width = 8 if kind == "BYTE" else 16
    shift, mask = np.uint32(width * int(place)), np.uint32((1 << width) - 1)
    bits = bits & mask
    if unused == "UNUSED_PRESERVE":
        before = m.vector[number, m.group]
        return before & ~(mask << shift) | bits << shift
    placed = bits << shift
    if unused == "UNUSED_SEXT":
        sign = np.uint32(1 << (width - 1))
        return ((bits ^ sign) - sign) << shift
    return placed


# Instructions that compute each lane by itself.


def _elementwise(inst: Instruction, machine: Machine, operation: Operation) -> Execute:
    compute = operation.compute
    pairs = [
        source(inst, machine, number + 1, number, kind)
        for number, kind in enumerate(operation.sources)
    ]
    sources = [pair[0] for pair in pairs]
    written = pairs[0][1]
    if "clamp" in inst.modifiers and not operation.result.startswith("f"):
        if operation.saturated is None:
            raise UnsupportedError("clamp")
        compute = operation.saturated
    if makes_nans(inst.name, operation):
        compute = _with_nans(compute)
    write = destination(inst, machine, operation.result, len(sources))

    def execute(m: Machine) -> None:
        write(m, compute(*[each(m) for each in sources]), written and written(m))

    return execute


def makes_nans(name: str, operation: Operation) -> bool:
    """Whether NaNs of a result have bits of their own; selections and quotients choose theirs."""
    alike = all(kind == operation.result for kind in operation.sources)
    return operation.result.startswith("f") and alike and not _CHOOSE_NANS.search(name)


def _with_nans(compute: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *operands: with_nans(compute(*operands), *operands)


# Instructions with a mask as a second result: the second operand.


def _added(a: Array, b: Array, carry: Any = 0) -> tuple[Array, Array]:
    total = a.astype(np.int64) + b + carry
    return total.astype(np.uint32), total > 0xFFFFFFFF


def _subtracted(a: Array, b: Array, borrow: Any = 0) -> tuple[Array, Array]:
    total = a.astype(np.int64) - b - borrow
    return total.astype(np.uint32), total < 0


def _multiplied_u64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = a.astype(np.uint64) * b
    total = product + c
    return total, total < product


def _multiplied_i64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """With the sign of the exact sum, which has 65 bits."""
    product = a.astype(np.int64) * b
    total = product + c
    overflow = ((product >= 0) == (c >= 0)) & ((total >= 0) != (product >= 0))
    return total, (total < 0) ^ overflow


_WITH_MASK: dict[str, tuple[str, str, Callable[..., tuple[Array, Array]]]] = {
    "v_add_co_u32": ("u32", "u32 u32", _added),
    "v_addc_co_u32": ("u32", "u32 u32 mask", _added),
    "v_sub_co_u32": ("u32", "u32 u32", _subtracted),
    "v_subb_co_u32": ("u32", "u32 u32 mask", _subtracted),
    "v_subrev_co_u32": ("u32", "u32 u32", lambda a, b: _subtracted(b, a)),
    "v_subbrev_co_u32": ("u32", "u32 u32 mask", lambda a, b, c: _subtracted(b, a, c)),
    "v_mad_u64_u32": ("u64", "u32 u32 u64", _multiplied_u64),
    "v_mad_i64_i32": ("i64", "i32 i32 i64", _multiplied_i64),
    "v_div_scale_f32": ("f32", "f32 f32 f32", div_scale),
    "v_div_scale_f64": ("f64", "f64 f64 f64", div_scale),
}
"""Types of the result and of the sources, and what gives both results."""

TYPES_WITH_MASK = {name: (kind, types) for name, (kind, types, _) in _WITH_MASK.items()}
"""Types of the result and of the sources of instructions with a mask as a second result."""

_OF_RDNA = {
    **{"v_add_co_ci_u32": "v_addc_co_u32", "v_sub_co_ci_u32": "v_subb_co_u32"},
    "v_subrev_co_ci_u32": "v_subbrev_co_u32",
    **{"v_mad_co_u64_u32": "v_mad_u64_u32", "v_mad_co_i64_i32": "v_mad_i64_i32"},
}
"""Names of the same instructions from generation 10 on."""


def plain_name(name: str) -> str:
    """Name of an instruction with a mask as a second result before generation 10."""
    return _OF_RDNA.get(name, name)


def _with_mask(inst: Instruction, machine: Machine) -> Execute:
    kind, types, compute = _WITH_MASK[plain_name(inst.name)]
    if "clamp" in inst.modifiers and not kind.startswith("f"):
        raise UnsupportedError("clamp")
    kinds = types.split()
    pairs = [source(inst, machine, 2 + number, number, of) for number, of in enumerate(kinds)]
    written = pairs[0][1]
    write = destination(inst, machine, kind, len(kinds))
    mask = inst.operands[1].number

    def execute(m: Machine) -> None:
        value, flag = compute(*[each(m) for each, _ in pairs])
        lanes = written(m) if written else None
        write(m, value, lanes)
        m.put_mask(
            mask, np.broadcast_to(flag, m.lanes_on.shape) & (lanes if written else m.lanes_on)
        )

    return execute


def _comparison(inst: Instruction, machine: Machine) -> Execute:
    """``v_cmp``: into a mask; ``v_cmpx``: into EXEC as well, from generation 10 on only there."""
    match = re.match(r"v_cmp(x?)_(\w+)_([fiub]\d+)$", inst.name)
    if not match:
        raise UnsupportedError("comparison")
    into_exec, relation, kind = bool(match[1]), match[2], match[3]
    alone = into_exec and machine.generation >= 10
    offset = 0 if alone else 1
    if relation == "class":
        a, written = source(inst, machine, offset, 0, kind)
        classes = source(inst, machine, offset + 1, 1, "u32")[0]
        compare: Callable[[Machine], Array] = lambda m: of_class(a(m), classes(m))  # noqa: E731
    else:
        if relation not in COMPARISONS:
            raise UnsupportedError("comparison")
        function = COMPARISONS[relation]
        first, written = source(inst, machine, offset, 0, kind)
        second, _ = source(inst, machine, offset + 1, 1, kind)
        compare = lambda m: function(first(m), second(m))  # noqa: E731
    target = EXEC if alone else inst.operands[0].number

    def execute(m: Machine) -> None:
        lanes = m.lanes_on if written is None else written(m)
        result = np.broadcast_to(compare(m), m.lanes_on.shape) & lanes
        m.put_mask(target, result)
        if into_exec and not alone:
            m.put_mask(EXEC, result)

    return execute


def _widened(narrow: Source) -> Source:
    """A float16 operand as float32."""
    return lambda m: narrow(m).astype(np.float32)


def _float_mix(inst: Instruction, machine: Machine) -> Execute:
    """``v_fma_mix``, ``v_mad_mix``: sources are float16 halves where ``op_sel_hi`` says so.

    The latter rounds the product as well, as ``v_mad_f32`` does (LLVM, ``VOP3PInstructions.td``).
    """
    compute = _with_nans(OPERATIONS[f"{inst.name[:5]}_f32"].compute)
    sources = []
    for number in range(3):
        operand = inst.operands[number + 1]
        low = raw_source(operand, machine, "f16" if inst.bits("op_sel_hi", number) else "f32")
        if inst.bits("op_sel_hi", number):
            narrow = typed([low], "f16", inst.bits("op_sel", number))
            value = _widened(narrow)
        else:
            value = typed([low], "f32")
        absolute = operand.absolute or bool(inst.bits("neg_hi", number))
        negated = operand.negated or bool(inst.bits("neg_lo", number))
        sources.append(signed(value, "f32", absolute, negated))
    if inst.name.endswith("f16"):
        upper = "mixhi" in inst.name
        number = register_number(inst.operands[0], machine)

        def execute_half(m: Machine) -> None:
            bits = to_half(compute(*(each(m) for each in sources)))
            if "clamp" in inst.modifiers:
                bits = to_unit(bits)
            word = bits.view(np.uint16).astype(np.uint32)
            m.put(number, _into_half(m, number, word, int(upper), True))

        return execute_half
    clamp = {key: text for key, text in inst.modifiers.items() if key == "clamp"}
    write = destination(replace(inst, encoding="", modifiers=clamp), machine, "f32", 3)
    return lambda m: write(m, compute(*(each(m) for each in sources)), None)


# Packed instructions: two results in a register, or in a pair of registers.


def _packed(inst: Instruction, machine: Machine) -> Execute:
    """Halves of words, or words of pairs: ``v_pk_fma_f32`` and others, ``v_pk_mov_b32``."""
    name = f"v_{inst.name.removeprefix('v_pk_')}"
    if name not in OPERATIONS:
        raise UnsupportedError("packed")
    operation, compute = OPERATIONS[name], OPERATIONS[name].compute
    kind, clamp = operation.result, "clamp" in inst.modifiers
    if makes_nans(name, operation):
        compute = _with_nans(compute)
    if clamp and not kind.startswith("f"):
        if operation.saturated is None:
            raise UnsupportedError("clamp")
        compute = operation.saturated
    parts: list[list[Source]] = [[], []]
    for part, sources in enumerate(parts):
        for number, of in enumerate(operation.sources):
            which = inst.bits("op_sel_hi", number, 1) if part else inst.bits("op_sel", number)
            if name == "v_mov_b32":  # result 0 is of source 0, result 1 of source 1 (CDNA 2 ISA)
                number, which = part, inst.bits("op_sel", part)
            operand = inst.operands[number + 1]
            value = _packed_source(operand, machine, which, of)
            if of.startswith("f"):
                sign = bool(inst.bits("neg_hi" if part else "neg_lo", number)) ^ operand.negated
                value = signed(value, of, operand.absolute, sign)
            sources.append(value)
    first = register_number(inst.operands[0], machine)

    def execute(m: Machine) -> None:
        values = [compute(*[each(m) for each in sources]) for sources in parts]
        if clamp and kind.startswith("f"):
            values = [to_unit(value) for value in values]
        words = [words_from(value, kind)[0] for value in values]
        if kind.endswith("16"):
            words = [words[0] | words[1] << np.uint32(16)]
        m.put_words(first, words)

    return execute


def _packed_source(operand: Operand, machine: Machine, which: int, kind: str) -> Source:
    """A half of a word, or a word of a pair; a constant is the same in both words."""
    if kind.endswith("16"):
        raw = raw_source(operand, machine, "p16" if kind == "f16" else "b32")
        return typed([raw], kind, which)
    word = 0 if operand.kind in ("int", "float") else which
    return typed([raw_source(operand, machine, kind, word)], kind)


# Dot products: halves or bytes of two words, added to a third.


def _dot(inst: Instruction, machine: Machine) -> Execute:
    match = re.match(r"v_dot(2|4|8)(c|acc)?_(\w+?)_(\w+)$", inst.name)
    if not match:
        raise UnsupportedError("dot product")
    count, kind, parts = int(match[1]), match[3], match[4]
    if kind not in WORD:
        raise UnsupportedError("dot product")
    pairs = [source(inst, machine, 1 + number, number, "b32") for number in range(2)]
    operands, written = [pair[0] for pair in pairs], pairs[0][1]
    last = inst.operands[0] if match[2] else inst.operands[3]
    half = inst.bits("op_sel", 2) if kind.endswith("16") else 0
    addend = typed([raw_source(last, machine, kind)], kind, half)
    addend = signed(addend, kind, last.absolute, last.negated)
    bits = 32 // count
    write = destination(inst, machine, kind, 3)
    saturated = "clamp" in inst.modifiers
    with_sign = [
        parts[0] == "i" if "iu" not in parts else bool(inst.bits("neg_lo", n)) for n in range(2)
    ]

    def element(word: Array, place: int, which: int) -> Array:
        part = word >> np.uint32(bits * place) & np.uint32((1 << bits) - 1)
        if parts == "f16":
            return part.astype(np.uint16).view(np.float16).astype(WORD[kind])
        if parts == "bf16":
            return (part << np.uint32(16)).view(np.float32)
        if with_sign[which]:
            sign = 1 << (bits - 1)
            return (part.astype(np.int64) ^ sign) - sign
        return part.astype(np.int64)

    def execute(m: Machine) -> None:
        a, b = (operand(m) for operand in operands)
        total = addend(m)
        if kind.startswith("f"):
            fused = _with_nans(fma32 if kind == "f32" else fma16)
            for place in range(count):
                total = fused(element(a, place, 0), element(b, place, 1), total)
        else:
            products = (element(a, p, 0) * element(b, p, 1) for p in range(count))
            wide = sum(products, total.astype(np.int64))
            if saturated:
                info = np.iinfo(WORD[kind])
                wide = np.clip(wide, info.min, info.max)
            total = wide.astype(WORD[kind])
        write(m, total, written and written(m))

    return execute


def _quad_sad(inst: Instruction, machine: Machine) -> Execute:
    """``v_qsad``: four sums of differences, of the words of a pair from its first four bytes on."""
    if "clamp" in inst.modifiers:
        raise UnsupportedError("clamp")
    packed, (target, *operands) = "_pk_" in inst.name, inst.operands
    counts = (2, 1, 2 if packed else 4)
    pair, (reference,), addends = (
        [raw_source(operand, machine, "b64", word) for word in range(count)]
        for operand, count in zip(operands, counts, strict=True)
    )
    first, summed = register_number(target, machine), sad(8, masked="mqsad" in inst.name)
    half = np.uint32(0xFFFF)

    def execute(m: Machine) -> None:
        whole, word, before = typed(pair, "u64")(m), reference(m), [each(m) for each in addends]
        if packed:
            before = [before[n // 2] >> np.uint32(16 * (n % 2)) & half for n in range(4)]
        parts = ((whole >> np.uint64(8 * n)).astype(np.uint32) for n in range(4))
        totals = [summed(part, word, of) for part, of in zip(parts, before, strict=True)]
        if packed:
            totals = [totals[n] & half | totals[n + 1] << np.uint32(16) for n in (0, 2)]
        m.put_words(first, totals)

    return execute


def _to_small_floats(inst: Instruction, machine: Machine) -> Execute:
    """``v_cvt_pk_fp8_f32``, ``v_cvt_pk_bf8_f32``: two numbers, into a half of a register."""
    if "_sr_" in inst.name:
        raise UnsupportedError("how it rounds at random is not public")
    kind, half = inst.name.split("_")[3], inst.bits("op_sel", 2)
    low, high = (source(inst, machine, 1 + number, number, "f32")[0] for number in range(2))
    number = register_number(inst.operands[0], machine)

    def execute(m: Machine) -> None:
        bits = to_small_float(low(m), kind) | to_small_float(high(m), kind) << np.uint32(8)
        m.put(number, _into_half(m, number, bits, half, True))

    return execute


# Between lanes.


def _read_lane(inst: Instruction, machine: Machine) -> Execute:
    """``v_readlane``, ``v_readfirstlane``: a lane of a register, or the first that is on."""
    value, target = raw_source(inst.operands[1], machine), inst.operands[0].number
    lane = None if "first" in inst.name else scalar_word(inst.operands[2])

    def execute(m: Machine) -> None:
        whole = np.broadcast_to(value(m), m.lanes_on.shape)
        which = m.lanes_on.argmax(axis=1) if lane is None else lane(m) % m.lanes
        m.put_word(target, whole[np.arange(m.running), which])

    return execute


def _write_lane(inst: Instruction, machine: Machine) -> Execute:
    value, lane = scalar_word(inst.operands[1]), scalar_word(inst.operands[2])
    number = register_number(inst.operands[0], machine)

    def execute(m: Machine) -> None:
        lanes = np.arange(m.lanes) == (lane(m) % m.lanes)[:, None]
        m.put(number, np.broadcast_to(value(m)[:, None], lanes.shape), lanes)

    return execute


def _count_mask(inst: Instruction, machine: Machine) -> Execute:
    """``v_mbcnt``: ones of a mask below the lane, added to the second source."""
    mask, added = raw_source(inst.operands[1], machine), raw_source(inst.operands[2], machine)
    lane = np.arange(machine.lanes)
    below = np.clip(lane if "lo" in inst.name else lane - 32, 0, 32).astype(np.uint64)
    part = ((np.uint64(1) << below) - np.uint64(1)).astype(np.uint32)
    number = register_number(inst.operands[0], machine)
    ones = OPERATIONS["v_bcnt_u32_b32"].compute
    return lambda m: m.put(number, ones(mask(m) & part, added(m)))


def _permute_rows(inst: Instruction, machine: Machine) -> Execute:
    """``v_permlane16`` and ``v_permlanex16``: any lane of the own or the neighbouring row of 16."""
    value = raw_source(inst.operands[1], machine)
    low, high = scalar_word(inst.operands[2]), scalar_word(inst.operands[3])
    lane = np.arange(machine.lanes)
    row = lane // 16 * 16
    if "x16" in inst.name:
        row = row ^ 16
    number = register_number(inst.operands[0], machine)
    also_off, zero = bool(inst.bits("op_sel", 0)), bool(inst.bits("op_sel", 1))
    shift = (lane % 8 * 4).astype(np.uint64)

    def execute(m: Machine) -> None:
        words = np.where(lane % 16 < 8, low(m)[:, None], high(m)[:, None]).astype(np.uint64)
        index = row + (words >> shift & np.uint64(15)).astype(np.int64)
        whole = np.broadcast_to(value(m), m.lanes_on.shape)
        moved = np.take_along_axis(whole, index, axis=1)
        if also_off:
            m.put(number, moved)
            return
        on = np.take_along_axis(m.lanes_on, index, axis=1)
        lanes = m.lanes_on if zero else m.lanes_on & on
        m.put(number, np.where(on, moved, np.uint32(0)), lanes)

    return execute


def _permute_halves(inst: Instruction, machine: Machine) -> Execute:
    """``v_permlane64``: the halves of a wave of 64 lanes change places."""
    value = raw_source(inst.operands[1], machine)
    number = register_number(inst.operands[0], machine)
    if machine.lanes == 32:
        return lambda m: None
    index = (np.arange(machine.lanes) + 32) % machine.lanes
    return lambda m: m.put(number, np.broadcast_to(value(m), m.lanes_on.shape)[:, index])


def _swap(inst: Instruction, machine: Machine) -> Execute:
    first, second = (register_number(operand, machine) for operand in inst.operands)

    def execute(m: Machine) -> None:
        a, b = m.vector[first, m.group].copy(), m.vector[second, m.group].copy()
        m.put(first, b)
        m.put(second, a)

    return execute


_FAMILIES: Families = (
    (r"v_cmpx?_", _comparison),
    (r"v_(fma|mad)_mix(lo_f16|hi_f16|_f32)$", _float_mix),
    (r"v_pk_", _packed),
    (r"v_dot\d", _dot),
    (r"v_m?qsad_", _quad_sad),
    (r"v_cvt_(pk|sr)_(fp|bf)8_f32$", _to_small_floats),
    (r"v_read(first)?lane_b32$", _read_lane),
    (r"v_writelane_b32$", _write_lane),
    (r"v_mbcnt_", _count_mask),
    (r"v_permlanex?16_b32$", _permute_rows),
    (r"v_permlane64_b32$", _permute_halves),
    (r"v_swap_b32$", _swap),
    (r"v_s?mf", build_mfma),
    (r"v_wmma", build_wmma),
)


def build_vector(inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of a vector instruction; None if its name is not known here.

    Raises
    ------
    UnsupportedError
        A form of it that is not emulated.
    """
    if re.match(r"v_(pk_)?f?mac_", inst.name):  # the destination is the last source too
        of = inst.operands[0]
        inst = replace(inst, operands=(*inst.operands, Operand(of.kind, of.number, of.count)))
    if inst.name in OPERATIONS:
        return _elementwise(inst, machine, OPERATIONS[inst.name])
    if inst.name in _WITH_MASK or inst.name in _OF_RDNA:
        return _with_mask(inst, machine)
    if inst.encoding and not re.match(r"v_cmp|v_dot", inst.name):
        raise UnsupportedError(inst.encoding)
    return built(_FAMILIES, inst, machine)


def build_dual(parts: list[Instruction], machine: Machine) -> Execute:
    """Closure of a dual issue: both parts read before either writes."""
    halves = []
    for part in parts:
        execute = build_vector(replace(part, name=part.name.replace("v_dual_", "v_")), machine)
        if execute is None:
            raise UnsupportedError(part.name)
        halves.append(execute)
    first, second = halves

    def execute_both(m: Machine) -> None:
        written: list[tuple[int, Array, Array | None]] = []
        put = m.put

        def later(number: int, bits: Array, lanes: Array | None = None) -> None:
            written.append((number, np.array(bits), lanes))

        m.put = later  # type: ignore[method-assign]
        try:
            first(m)
            second(m)
        finally:
            m.put = put  # type: ignore[method-assign]
        for number, bits, lanes in written:
            put(number, bits, lanes)

    return execute_both
