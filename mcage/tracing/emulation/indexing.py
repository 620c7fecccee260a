"""Vector registers that are chosen at run time: arrays in registers.

The index is a part of the place that a wave has reached: with 3 in M0, ``v_movrels_b32 v1, v2`` is
``v_mov_b32 v1, v5`` there. So an instruction at a place reads and writes registers that are known,
and waves with different indexes are at different places until they have executed it.

After AMD's "Vega" (VGPR indexing, S_SET_GPR_IDX_ON and others) and "RDNA 2 Instruction Set
Architecture Reference Guide" (V_MOVRELS_B32 and others). In generation 9 the index is M0[7:0] and
counts for the operands of M0[15:12] while a mode of the wave is on, later it is M0. As the guides
say of registers that a wave does not have: v0 is read, and an instruction that would write one does
nothing.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mcage.tracing.emulation.arithmetic import OPERATIONS, Array
from mcage.tracing.emulation.machine import (
    M0,
    Execute,
    Instruction,
    Machine,
    Operand,
    UnsupportedError,
    scalar_word,
)

ADDRESS = (1 << 48) - 1
"""Bits of a place that are the address of an instruction."""

_MODE = 1 << 48
_INDEX, _MOST = 49, 0xFFF
_KNOWN = 1 << 62

_MOVES = {"v_movrels_b32": "s", "v_movreld_b32": "d", "v_movrelsd_b32": "sd"}
"""Moves by M0, and whether it counts for the source or for the destination."""

_OPERANDS = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}


def place_after(inst: Instruction, place: int) -> int:
    """Place of the instruction behind one that goes straight on."""
    mode = place & _MODE
    if re.match(r"s_set_gpr_idx_o(n|ff)$", inst.name):
        mode = _MODE if inst.name.endswith("on") else 0
    return inst.address + inst.size | mode


def places_of(addresses: Array, place: int) -> Array:
    """Places that waves reach by a jump from a place: int64, of uint64 addresses."""
    there = np.where(addresses >> np.uint64(48) == 0, addresses, np.uint64(ADDRESS))
    return there.astype(np.int64) | place & _MODE


def index_of(inst: Instruction, place: int) -> Callable[[Machine], Array] | None:
    """What gives the place of each running wave with its index, int64[running].

    None if no index counts for the instruction, or if it is a part of the place already.
    """
    if place & _KNOWN:
        return None
    if inst.name in _MOVES:
        index: Callable[[Machine], Array] = lambda m: np.minimum(m.word(M0), _MOST)  # noqa: E731
    elif place & _MODE and inst.name.startswith("v_") and inst.name != "v_nop":
        index = lambda m: m.word(M0) & 0xFF | m.word(M0) >> 4 & 0xF00  # noqa: E731
    else:
        return None
    return lambda m: index(m).astype(np.int64) << _INDEX | place | _KNOWN


def indexed(inst: Instruction, place: int) -> Instruction:
    """The instruction that is at a place of which the index is a part; another one as it is.

    Raises
    ------
    UnsupportedError
        Indexed registers of such an instruction are not emulated.
    """
    if not place & _KNOWN:
        return inst
    index = place >> _INDEX & _MOST
    if counts_for := _MOVES.get(inst.name):
        counts = [letter in counts_for for letter in "ds"]
        return replace(inst, name="v_mov_b32", operands=_moved(inst, counts, index))
    index, mask = index & 0xFF, index >> 8
    plain = inst.name in OPERATIONS and not re.match(r"v_f?mac_|v_(mad|fma)mk_|v_acc", inst.name)
    if mask and (not plain or inst.encoding):
        raise UnsupportedError("with an index of registers")
    counts = [bool(mask >> bit & 1) for bit in (3, 0, 1, 2)]
    return replace(inst, operands=_moved(inst, counts, index))


def _moved(inst: Instruction, counts: list[bool], index: int) -> tuple[Operand, ...]:
    counts = [*counts, *[False] * len(inst.operands)]
    return tuple(
        replace(of, number=of.number + index) if moves and of.kind == "v" else of
        for of, moves in zip(inst.operands, counts, strict=False)
    )


def within(
    inst: Instruction, machine: Machine, build: Callable[[Instruction, Machine], Execute | None]
) -> tuple[Instruction, Execute | None]:
    """Build an instruction whose registers a wave may not have; return what it comes to be.

    A machine refuses it when it is executed, unless its registers may be wrong.
    """
    has = min(machine.registers, machine.accumulators_from)
    beyond = [of.number for of in inst.operands if of.kind == "v" and of.number + of.count > has]
    if not beyond:
        return inst, build(inst, machine)
    target, *sources = (
        replace(of, number=0) if of.kind == "v" and of.number in beyond else of
        for of in inst.operands
    )
    inside = replace(inst, operands=(target, *sources))
    plain = build(inside, machine) if target == inst.operands[0] else None
    what, number = f"{has} vector registers of a wave", np.array(beyond[:1])

    def execute(m: Machine) -> None:
        m.refuse(np.ones(1, np.bool_), what, number, dropped=True)
        if plain is not None:
            plain(m)

    return inside, execute


def build_mode(inst: Instruction) -> Execute | None:
    """Closure of an instruction that sets what is indexed, and by how much; None for others."""
    if not (match := re.match(r"s_set_gpr_idx_(on|off|mode|idx)$", inst.name)):
        return None
    if match[1] == "off":
        return lambda m: None
    index = None if match[1] == "mode" else scalar_word(inst.operands[0])
    mask = None if match[1] == "idx" else _mask(inst.operands[-1])

    def execute(m: Machine) -> None:
        word = m.word(M0)
        if index is not None:
            word = word & ~np.uint32(0xFF) | index(m) & np.uint32(0xFF)
        if mask is not None:
            word = word & ~np.uint32(0xF000) | np.uint32(mask << 12)
        m.put_word(M0, word)

    return execute


def _mask(operand: Operand) -> int:
    """Operands for which an index counts: ``gpr_idx(SRC0,DST)``, or a number."""
    if operand.kind == "int":
        return operand.number & 15
    match = re.match(r"gpr_idx\((.*)\)$", operand.text)
    if not match:
        raise UnsupportedError(f"operand {operand.text}")
    return sum(_OPERANDS[name] for name in match[1].split(",") if name)
