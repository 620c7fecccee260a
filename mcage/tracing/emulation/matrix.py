"""Matrix instructions as closures over a machine: MFMA and SMFMAC of CDNA, WMMA of RDNA 3.

Layouts after the ISA guides of AMD Instinct MI200 and MI300 ("Matrix arithmetic instructions") and
of RDNA 3 ("WMMA"), and AMD's Matrix Instruction Calculator. Products are exact and summed in
float64 or int64; the hardware adds in an order and with roundings of its own, so that results are
approximate. How it rounds operands of ``xf32`` is not public.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mcage.tracing.emulation.arithmetic import WORD, Array, from_brain, small_float, to_brain
from mcage.tracing.emulation.machine import (
    Execute,
    Instruction,
    Machine,
    Operand,
    UnsupportedError,
    constant_bits,
    register_number,
)

_MFMA = re.compile(r"v_(s?)mf\w+?_(f32|i32|f64)_(4|16|32)x\3x(\d+)_?(?:\d+b_)?(\w*)$")
_WMMA = re.compile(r"v_wmma_(f32|f16|i32|bf16)_16x16x16_(f16|bf16|iu8|iu4)$")

_ELEMENT_BITS = {
    **{"f16": 16, "bf16": 16, "bf16_1k": 16, "f32": 32, "f64": 64, "i8": 8},
    **{"fp8_fp8": 8, "bf8_bf8": 8, "fp8_bf8": 8, "bf8_fp8": 8},
}

_NUMBERS = {
    **{"f64": np.float64, "f32": np.float32, "f16": np.float16},
    **{"i8": np.int8, "u8": np.uint8},
}

_LANE = np.arange(64)
_LANES_OF_B = (
    *(_LANE, _LANE % 32, 32 + _LANE % 32, (_LANE + 16) % 64),
    *(first + _LANE % 16 for first in range(0, 64, 16)),
)
"""Lane that each lane of B reads, by ``blgp``."""


def _words(operand: Operand, machine: Machine, count: int) -> slice:
    first = register_number(operand, machine)
    if first + count > machine.registers:
        raise UnsupportedError(f"registers {operand.text}")
    return slice(first, first + count)


def _elements(words: Array, kind: str) -> Array:
    """Numbers of each lane, float64 or int64[running, lanes, elements], from [words, ...]."""
    packed = np.ascontiguousarray(np.moveaxis(words, 0, -1))
    if kind.startswith("bf16"):
        numbers = from_brain(packed.view(np.uint16))
    elif kind in ("fp8", "bf8"):
        numbers = small_float(packed.view(np.uint8), kind)
    elif kind in ("i4", "u4"):
        pairs = packed.view(np.uint8)
        numbers = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], -1)
        numbers = numbers.astype(np.int64)
        numbers = (numbers ^ 8) - 8 if kind == "i4" else numbers
    else:
        numbers = packed.view(_NUMBERS[kind])
    return numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64)


def build_mfma(inst: Instruction, machine: Machine) -> Execute:
    """Closure of a product of blocks of matrices; of A, two of four elements may be there alone.

    Raises
    ------
    UnsupportedError
        A form of it that is not emulated. So does `build_wmma`.
    """
    match = _MFMA.match(inst.name)
    if inst.name.endswith("xf32"):
        raise UnsupportedError("how it rounds what it multiplies is not public")
    if not match or machine.lanes != 64 or match[5] not in _ELEMENT_BITS:
        raise UnsupportedError("matrix instruction")
    sparse, result, kind = bool(match[1]), match[2], match[5]
    rows, depth = int(match[3]), int(match[4])
    kinds = (kind.split("_") if kind.startswith(("fp8", "bf8")) else [kind, kind])[:2]
    a_words, b_words = (_words(operand, machine, operand.count) for operand in inst.operands[1:3])
    # Lanes beyond the rows of a block hold further products of it, or other blocks.
    groups, count = 64 // rows, inst.operands[2].count * 32 // _ELEMENT_BITS[kind]
    blocks = groups * count // depth
    share, first, order = (inst.modifier(name) for name in ("cbsz", "abid", "blgp"))
    if not blocks or blocks * depth != groups * count:
        raise UnsupportedError("matrix instruction")
    if not sparse and not first < 1 << share <= blocks:
        raise UnsupportedError("cbsz and abid")
    elements = rows * rows * blocks // 64
    if sparse:  # the destination is what is added to, and the last operand says which are there
        choice = _Chosen(inst, machine, count // 2)
        inst = replace(inst, operands=(*inst.operands[:3], inst.operands[0]))
    put_sum = _adds(inst, machine, result, elements)
    row, column, block = _places(rows, blocks, elements, result)
    of_block = (np.arange(blocks) >> share << share) + first
    signs = [-1 if inst.bits("neg", number) else 1 for number in range(2)]

    def operand(m: Machine, words: slice, of: str, lanes: Array = _LANE) -> Array:
        """[running, blocks, rows, groups, elements]."""
        numbers = _elements(m.vector[words, m.group], of)[:, lanes]
        split = numbers.reshape(m.running, groups // blocks, blocks, rows, -1)
        return split.transpose(0, 2, 3, 1, 4)

    def execute(m: Machine) -> None:
        a, b = operand(m, a_words, kinds[0]), operand(m, b_words, kinds[1], _LANES_OF_B[order])
        if sparse:
            chosen = choice.of_lanes(m).reshape(m.running, 1, groups, rows, -1)
            a = choice.spread(a, chosen.transpose(0, 1, 3, 2, 4))
        else:
            a = a[:, of_block]
        whole_a, whole_b = (part.reshape(m.running, blocks, rows, depth) for part in (a, b))
        product = whole_a @ whole_b.transpose(0, 1, 3, 2)  # [running, blocks, rows, columns]
        put_sum(m, product[:, block, row, column] * (signs[0] * signs[1]))

    return execute


class _Chosen:
    """Elements of A that are there: two of four, whose places the bits of a register say."""

    def __init__(self, inst: Instruction, machine: Machine, count: int) -> None:
        self.number, self.count = register_number(inst.operands[3], machine), count
        which = 0 if inst.modifier("cbsz") else inst.modifier("abid")
        self.shifts = (which * 2 * count + 2 * np.arange(count)).astype(np.uint32)
        if self.shifts[-1] > 31:
            raise UnsupportedError("abid")

    def of_lanes(self, m: Machine) -> Array:
        """Place of each element among those of its group, [running, lanes, elements]."""
        bits = m.vector[self.number, m.group][..., None] >> self.shifts & np.uint32(3)
        return bits.astype(np.int64) + np.arange(self.count) // 2 * 4

    def spread(self, a: Array, places: Array) -> Array:
        """Elements at their places, and zeros at the others."""
        at = places[..., None] == np.arange(2 * self.count)
        return np.asarray((at * a[..., None]).sum(axis=-2))


def _adds(
    inst: Instruction, machine: Machine, result: str, elements: int
) -> Callable[[Machine, Array], None]:
    """Return what adds products, [running, lanes, elements], to the last operand in every lane."""
    words = elements * (2 if result == "f64" else 1)
    target, third = _words(inst.operands[0], machine, words), inst.operands[3]
    addend = _words(third, machine, words) if third.kind in "va" else None
    short, shift = result.endswith("16"), np.uint32(16 * inst.bits("op_sel", 2))
    constant: Array = 0
    if addend is None:
        if result == "bf16":
            raise UnsupportedError("a constant of bf16")
        bits = np.array([constant_bits(third, result)], WORD[f"u{result[1:]}"])
        constant = bits.view(WORD[result])[0]
    saturated, sign = "clamp" in inst.modifiers, -1 if inst.bits("neg", 2) else 1

    def numbers(m: Machine, registers: slice) -> Array:
        before = np.ascontiguousarray(np.moveaxis(m.vector[registers, m.group], 0, -1))
        if short:
            halves = (before >> shift).astype(np.uint16)
            return from_brain(halves) if result == "bf16" else halves.view(np.float16)
        return before.view(WORD[result])

    def put_sum(m: Machine, products: Array) -> None:
        total = products + sign * (constant if addend is None else numbers(m, addend))
        if result == "i32":
            if saturated:
                info = np.iinfo(np.int32)
                total = np.clip(total, info.min, info.max)
            out = (total & 0xFFFFFFFF).astype(np.uint32)
        elif short:
            rounded = total.astype(np.float32 if result == "bf16" else np.float16)
            halves = to_brain(rounded) if result == "bf16" else rounded.view(np.uint16)
            others = np.moveaxis(m.vector[target, m.group], 0, -1) & ~(np.uint32(0xFFFF) << shift)
            out = others | halves.astype(np.uint32) << shift
        else:
            out = np.ascontiguousarray(total.astype(WORD[result])).view(np.uint32)
        everywhere = np.ones(m.lanes_on.shape, np.bool_)
        m.put_words(target.start, list(np.moveaxis(out, -1, 0)), everywhere)

    return put_sum


def _places(rows: int, blocks: int, elements: int, result: str) -> tuple[Array, Array, Array]:
    """Row, column and block of each element of each lane, [lanes, elements]."""
    lane, element = np.arange(64)[:, None], np.arange(elements)[None, :]
    each = rows * rows // 64 if rows > 4 else 4
    within, block = element % each, element // each + 0 * lane
    column = lane % rows + 0 * element
    if rows == 4:
        row = lane // 16 if result == "f64" else element
        return row + 0 * lane, column, lane // 4 % blocks + 0 * element
    if result == "f64":
        return lane // 16 + 4 * within, column, block
    groups = 64 // rows
    row = within // 4 * 4 * groups + 4 * (lane // rows) + within % 4
    return row, column, block


def build_wmma(inst: Instruction, machine: Machine) -> Execute:
    """Closure of a product of 16 x 16 matrices; results of 16 bits leave the other halves."""
    match = _WMMA.match(inst.name)
    if not match or machine.lanes != 32:
        raise UnsupportedError("matrix instruction")
    result, kind = match[1], match[2]
    signs = [kind, kind]
    if kind.startswith("iu"):
        signs = [f"{'i' if inst.bits('neg_lo', n) else 'u'}{kind[2:]}" for n in range(2)]
    elif "neg_lo" in inst.modifiers or "neg_hi" in inst.modifiers:
        raise UnsupportedError("matrix instruction with signs")
    a_words, b_words = (_words(operand, machine, operand.count) for operand in inst.operands[1:3])
    put_sum = _adds(inst, machine, result, 8)
    lane, element = np.arange(32)[:, None], np.arange(8)[None, :]
    row, column = 2 * element + lane // 16, lane % 16 + 0 * element

    def execute(m: Machine) -> None:
        # Lanes 16 ... 31 hold the same rows and columns as lanes 0 ... 15.
        a = _elements(m.vector[a_words, m.group], signs[0])[:, :16]
        b = _elements(m.vector[b_words, m.group], signs[1])[:, :16]
        put_sum(m, (a @ b.transpose(0, 2, 1))[:, row, column])

    return execute
