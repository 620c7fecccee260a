"""Matrix instructions: MFMA of CDNA and WMMA of RDNA 3.

Layouts after the ISA guides of AMD Instinct MI200 and MI300 ("Matrix arithmetic instructions") and
of RDNA 3 ("WMMA"). Products are exact and summed in float64 or int64; the hardware adds in an order
and with roundings of its own, so that results are approximate.
"""

import re
from collections.abc import Callable

import numpy as np

from mcage.tracing.emulation.arithmetic import WORD, Array, small_float
from mcage.tracing.emulation.instruction import Instruction, Operand
from mcage.tracing.emulation.machine import (
    Execute,
    Machine,
    UnsupportedError,
    constant_bits,
    register_number,
)

_MFMA = re.compile(r"v_mfma_(f32|i32|f64)_(\d+)x(\d+)x(\d+)_?((?:\d+b_)?)(\w*)$")
_WMMA = re.compile(r"v_wmma_(f32|f16|i32|bf16)_16x16x16_(f16|bf16|iu8)$")

_ELEMENT_BITS = {
    **{"f16": 16, "bf16": 16, "bf16_1k": 16, "f32": 32, "f64": 64, "i8": 8},
    **{"fp8_fp8": 8, "bf8_bf8": 8, "fp8_bf8": 8, "bf8_fp8": 8},
}


_NUMBERS = {
    **{"f64": np.float64, "f32": np.float32, "f16": np.float16},
    **{"i8": np.int8, "u8": np.uint8},
}


def _words(operand: Operand, machine: Machine, count: int) -> slice:
    first = register_number(operand, machine)
    if first + count > machine.registers:
        raise UnsupportedError(f"registers {operand.text}")
    return slice(first, first + count)


def _elements(words: Array, kind: str) -> Array:
    """Numbers of each lane, float64 or int64[running, lanes, elements], from [words, ...]."""
    packed = np.ascontiguousarray(np.moveaxis(words, 0, -1))
    if kind.startswith("bf16"):
        numbers: Array = (packed.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif kind in ("fp8", "bf8"):
        numbers = small_float(packed.view(np.uint8), kind)
    else:
        numbers = packed.view(_NUMBERS[kind])
    return numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64)


def _build_mfma(inst: Instruction, machine: Machine) -> Execute:
    match = _MFMA.match(inst.name)
    if not match or machine.lanes != 64 or match[6] not in _ELEMENT_BITS:
        raise UnsupportedError("matrix instruction")
    rows, columns, depth = (int(number) for number in match.groups()[1:4])
    result, kind = match[1], match[6]
    if rows != columns or rows not in (4, 16, 32) or (result == "f64" and rows == 4):
        raise UnsupportedError("matrix instruction")
    if any(inst.modifier(name) for name in ("cbsz", "abid", "blgp")) or "neg" in inst.modifiers:
        raise UnsupportedError("cbsz, abid, blgp or neg")
    bits = _ELEMENT_BITS[kind]
    count = inst.operands[1].count * 32 // bits
    # Lanes beyond the rows of a block hold further products of it, or other blocks.
    groups = 64 // rows
    if count * groups == depth:
        blocks = 1
    elif count == depth:
        blocks = groups
    else:
        raise UnsupportedError("matrix instruction")
    kinds = (kind.split("_") if kind.startswith(("fp8", "bf8")) else [kind, kind])[:2]
    a_words = _words(inst.operands[1], machine, inst.operands[1].count)
    b_words = _words(inst.operands[2], machine, inst.operands[2].count)
    elements = rows * columns * blocks // 64
    put_sum = _adds(inst, machine, result, elements)
    row, column, block = _places(rows, blocks, elements, result)

    def operand(words: slice, of: str, m: Machine) -> Array:
        """[running, blocks, rows, depth]."""
        numbers = _elements(m.vector[words, m.group], of)
        if blocks == 1:
            split = numbers.reshape(m.running, groups, rows, count)
            return split.transpose(0, 2, 1, 3).reshape(m.running, 1, rows, depth)
        return numbers.reshape(m.running, blocks, rows, count)

    def execute(m: Machine) -> None:
        a, b = operand(a_words, kinds[0], m), operand(b_words, kinds[1], m)
        product = a @ b.transpose(0, 1, 3, 2)  # [running, blocks, rows, columns]
        put_sum(m, product[:, block, row, column])

    return execute


def _adds(
    inst: Instruction, machine: Machine, result: str, elements: int
) -> Callable[[Machine, Array], None]:
    """Return what adds products, [running, lanes, elements], to the last operand in every lane."""
    words = elements * (2 if result == "f64" else 1)
    target, third = _words(inst.operands[0], machine, words), inst.operands[3]
    addend = _words(third, machine, words) if third.kind in "va" else None
    constant = None
    if addend is None:
        bits = np.array([constant_bits(third, result)], WORD[f"u{result[1:]}"])
        constant = bits.view(WORD[result])[0]

    def put_sum(m: Machine, products: Array) -> None:
        if addend is None:
            total = products + constant
        else:
            before = np.ascontiguousarray(np.moveaxis(m.vector[addend, m.group], 0, -1))
            total = products + before.view(WORD[result])
        if result == "i32":
            rounded = (total & 0xFFFFFFFF).astype(np.uint32)
        else:
            rounded = total.astype(WORD[result])
        out = np.ascontiguousarray(rounded).view(np.uint32)
        everywhere = np.ones(m.lanes_on.shape, np.bool_)
        for number in range(words):
            m.put(target.start + number, out[:, :, number], everywhere)

    return put_sum


def _places(rows: int, blocks: int, elements: int, result: str) -> tuple[Array, Array, Array]:
    """Row, column and block of each element of each lane, [lanes, elements]."""
    lane, element = np.arange(64)[:, None], np.arange(elements)[None, :]
    each = rows * rows // 64 if rows > 4 else 4
    within, block = element % each, element // each + 0 * lane
    column = lane % rows + 0 * element
    if rows == 4:
        return element + 0 * lane, column, lane // 4 + 0 * element
    if result == "f64":
        return lane // 16 + 4 * within, column, block
    groups = 64 // rows
    row = within // 4 * 4 * groups + 4 * (lane // rows) + within % 4
    return row, column, block


def _build_wmma(inst: Instruction, machine: Machine) -> Execute:
    match = _WMMA.match(inst.name)
    if not match or machine.lanes != 32:
        raise UnsupportedError("matrix instruction")
    result, kind = match[1], match[2]
    if result in ("f16", "bf16") or "op_sel" in inst.modifiers:
        raise UnsupportedError("matrix instruction with 16-bit results")
    signs = [kind, kind]
    if kind == "iu8":
        signs = ["i8" if inst.bits("neg_lo", n) else "u8" for n in range(2)]
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


def build_matrix(inst: Instruction, machine: Machine) -> Execute | None:
    """Closure of a matrix instruction; None if it is none.

    Raises
    ------
    UnsupportedError
        A shape or a form that is not emulated.
    """
    if inst.name.startswith("v_mfma"):
        return _build_mfma(inst, machine)
    if inst.name.startswith("v_wmma"):
        return _build_wmma(inst, machine)
    return None
