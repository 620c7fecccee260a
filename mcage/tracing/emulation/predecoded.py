"""Instructions as rows of numbers, which the compiled interpreter executes.

What has no row here is left to its closure: rare instructions and forms, and all that the closure
refuses.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcage.tracing.emulation import interpreter as of
from mcage.tracing.emulation.arithmetic import OPERATIONS, Array
from mcage.tracing.emulation.machine import (
    EXEC,
    NULL,
    VCC,
    Instruction,
    Machine,
    Operand,
    UnsupportedError,
    constant_bits,
    register_number,
)
from mcage.tracing.emulation.memory import lanes_swizzled, moved_by
from mcage.tracing.emulation.scalar import scalar_operation
from mcage.tracing.emulation.vector import (
    TYPES_WITH_MASK,
    factor_of,
    keeps_half,
    lanes_read,
    lanes_written,
    makes_nans,
    plain_name,
)

_WORD, _HALF = 0xFFFFFFFF, 0xFFFF
_MOST_SCALARS = 124
"""The registers behind are M0, NULL and EXEC."""


class NoRowError(Exception):
    """An instruction that only its closure executes."""


class Rows:
    """Rows of the instructions of a listing.

    Parameters
    ----------
    places : sequence of (int, int)
        Address and bytes of each instruction, in the order of addresses.
    base : int
        What is added to these addresses.
    machine : Machine
        A machine like those that execute them.

    Attributes
    ----------
    rows : int64[2 x instructions, columns]
        One for each instruction, then one for the second part of each.
    row_of : int32[words]
        By address in words: number of its row, -1 if no instruction begins there.
    patterns : int8[patterns, lanes]
        Lane that each lane reads, -1 if there is none.
    """

    def __init__(self, places: Sequence[tuple[int, int]], base: int, machine: Machine) -> None:
        self.machine = machine
        self.rows = np.zeros((2 * len(places), of.COLUMNS), np.int64)
        first, size = np.array(places, np.int64).reshape(-1, 2).T
        self.row_of = np.full((first + size).max(initial=0) // 4 + 1, -1, np.int32)
        aligned = np.flatnonzero(first % 4 == 0)
        self.row_of[first[aligned] // 4] = aligned
        self.rows[: len(places), of.AT] = base + first
        self.rows[: len(places), of.AFTER] = base + first + size
        self.patterns = np.zeros((1, of.LANES), np.int8)

    def pattern(self, index: Array, there: Array) -> int:
        """Number of a new pattern: the lane that each lane reads, and whether there is one."""
        lanes = np.full((1, of.LANES), -1, np.int8)
        lanes[0, : len(index)] = np.where(there, index, -1)
        self.patterns = np.concatenate([self.patterns, lanes])
        return len(self.patterns) - 1

    def enter(
        self, place: int, number: int, parts: Sequence[Instruction], known: Mapping[str, int]
    ) -> bool:
        """Make the row of an instruction; False if it is left to its closure.

        Parameters
        ----------
        place : int
            Address without the base.
        number : int
            Number of the instruction.
        parts : sequence of Instruction
            The instruction, or both parts of a dual issue.
        known : mapping of str to int
            Columns that are known already, in small letters.
        """
        if place % 4:
            return False
        index = int(self.row_of[place // 4])
        row, second = self.rows[index], self.rows[index + len(self.rows) // 2]
        second[:] = _EMPTY
        row[: of.AT], row[of.AT + 2 :] = _EMPTY[: of.AT], _EMPTY[of.AT + 2 :]
        row[of.NUMBER], row[of.KIND] = number, of.CLOSED
        try:
            maker = _Maker(self, row, second)
            if "kind" not in known:
                maker.make(parts)
        except (NoRowError, UnsupportedError, ValueError, KeyError, IndexError):
            row[of.KIND] = of.CLOSED
        for name, value in known.items():
            row[getattr(of, name.upper())] = value
        return bool(row[of.KIND] > of.CLOSED)


def _require(possible: bool) -> None:
    if not possible:
        raise NoRowError


# Numbers of what instructions compute, by their names.


def _named(table: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    """Entries of rows of a table: names, what stands for each ``T`` in them, and the entry."""
    return {
        name.replace("T", kind): entry
        for names, kinds, entry in table
        for kind in kinds.split()
        for name in names.split()
    }


def _numbered(table: Sequence[tuple[str, str, Any]]) -> dict[str, int]:
    return _named([(names, kinds, number) for number, (names, kinds, _) in enumerate(table)])


_OF_WORDS, _OF_PAIRS = _numbered(of.WORD_OPERATIONS), _numbered(of.PAIR_OPERATIONS)

_WITH_MASK = {
    **dict.fromkeys(("v_add_co_u32", "v_addc_co_u32"), of.ADD_CARRY),
    **dict.fromkeys(("v_sub_co_u32", "v_subb_co_u32"), of.SUB_CARRY),
    "v_mad_u64_u32": of.MULTIPLY_ADD,
}

_COMPARED = {
    **{"i16": of.CMP_I32, "i32": of.CMP_I32, "u16": of.CMP_U32, "u32": of.CMP_U32},
    **{"i64": of.CMP_I64, "u64": of.CMP_U64, "f16": of.CMP_F32, "f32": of.CMP_F32},
    "f64": of.CMP_F64,
}

_RELATIONS = {
    **{"f": 0, "lt": 1, "eq": 2, "le": 3, "gt": 4, "lg": 5, "ge": 6, "o": 7, "u": 8},
    **{"nge": 9, "nlg": 10, "ngt": 11, "nle": 12, "ne": 13, "neq": 13, "nlt": 14},
    **{"t": 15, "tru": 15},
}
"""1 if less counts, 2 if equal, 4 if greater, 8 if unordered; the sum of those that do."""

_OF_LANES = {
    **{"v_readfirstlane_b32": of.READ_FIRST, "v_readlane_b32": of.READ_LANE},
    **{"v_writelane_b32": of.WRITE_LANE, "ds_bpermute_b32": of.PERMUTE},
}

_CHANGES = _named(
    [
        ("add add_T", "u32", of.A_ADD),
        ("sub sub_T", "u32", of.A_SUB),
        ("and and_T", "b32", of.A_AND),
        ("or or_T", "b32", of.A_OR),
        ("xor xor_T", "b32", of.A_XOR),
        ("swap swap_T wrxchg_T storexchg_T", "b32", of.A_SWAP),
        ("smin min_T", "i32", of.A_MIN_I),
        ("smax max_T", "i32", of.A_MAX_I),
        ("umin min_T", "u32", of.A_MIN_U),
        ("umax max_T", "u32", of.A_MAX_U),
    ]
)

_BRANCHES = {
    **{"s_cbranch_scc0": 0, "s_cbranch_scc1": 1, "s_cbranch_vccz": 2, "s_cbranch_vccnz": 3},
    **{"s_cbranch_execz": 4, "s_cbranch_execnz": 5, "s_branch": 6},
}
"""Conditions of branches, as the interpreter numbers them."""


def branch_number(name: str) -> int:
    """Number of the condition of a branch."""
    return _BRANCHES[name]


def _empty_row() -> Array:
    row = np.zeros(of.COLUMNS, np.int64)
    row[[of.MASK_OUT, of.MASK_IN, of.PATTERN]] = -1
    row[[of.PARTS, of.PART, of.BITS_OUT]] = 1, _WORD, _WORD
    for source in range(3):
        row[of.SOURCE + source * of.OF_SOURCE + np.array([of.BITS, of.KEEPS])] = _WORD
    return row


_EMPTY = _empty_row()


class _Maker:
    """Makes a row."""

    def __init__(self, rows: Rows, row: Array, second: Array) -> None:
        self._rows, self._machine = rows, rows.machine
        self._row, self._second = row, second

    def make(self, parts: Sequence[Instruction]) -> None:
        """Fill in a row.

        Raises
        ------
        NoRowError, UnsupportedError, ...
            It has none.
        """
        inst, row = parts[0], self._row
        if len(parts) == 2:
            for part, into in zip(parts, (row, self._second), strict=True):
                self._computed(replace(part, name=part.name.replace("v_dual_", "v_")), into)
                _require(into[of.WORDS] == 1 and into[of.KIND] == of.VECTOR)
            row[of.MASK_IN] = max(row[of.MASK_IN], self._second[of.MASK_IN])
            row[of.PARTS] = row[of.WORDS] = 2
            return
        if plain_name(inst.name) in _WITH_MASK:
            self._with_mask(inst)
            return
        for pattern, make in self._families:
            if re.match(pattern, inst.name):
                make(self, inst)
                return
        self._computed(inst, row)

    # Operands.

    def _operand(self, into: Array, source: int, operand: Operand, kind: str = "u32") -> Array:
        """Columns of a source of a type, without modifiers."""
        words = 2 if kind.endswith("64") else 1
        columns = into[of.SOURCE + source * of.OF_SOURCE :][: of.OF_SOURCE]
        columns[of.WIDE] = words - 1
        if operand.kind in ("v", "a"):
            columns[of.FROM], columns[of.WHICH] = of.AS_IT_IS, self._register(operand, words)
        elif operand.kind == "s" and operand.number != NULL:
            _require(operand.number + words <= EXEC + 2)
            columns[of.FROM], columns[of.WHICH] = of.OF_SCALARS, operand.number
        else:
            _require(operand.kind in ("int", "float", "s"))
            bits = 0 if operand.kind == "s" else constant_bits(operand, kind)
            columns[[of.FROM, of.WHICH, of.HIGH]] = of.CONSTANT, bits & _WORD, bits >> 32
        return columns

    def _register(self, operand: Operand, words: int = 1) -> int:
        number = register_number(operand, self._machine)
        _require(number + words <= self._machine.registers)
        return number

    def _source(
        self, into: Array, source: int, inst: Instruction, operand: Operand, kind: str
    ) -> None:
        """A source of a vector instruction, with its modifiers."""
        constant = f"f{kind[1:]}" if operand.negated or operand.absolute else kind
        columns = self._operand(into, source, operand, constant)
        half = operand.half
        selection = "DWORD"
        if inst.encoding == "sdwa":
            selection = inst.modifiers.get(f"src{source}_sel", "DWORD") or "DWORD"
        elif kind.endswith("16"):
            half = half or inst.bits("op_sel", source)
        if selection != "DWORD":
            self._select(columns, selection, operand.extended)
            _require(not (operand.extended and kind == "u16"))
        elif kind.endswith("16"):
            columns[[of.SHIFT, of.BITS]] = 16 * half, _HALF
            columns[of.EXTENDS] = 0x8000 if kind == "i16" else 0
        if kind == "i16" and selection.startswith("WORD"):
            columns[of.EXTENDS] = 0x8000
        self._sign(columns, kind, operand.absolute, operand.negated)
        if inst.encoding == "dpp" and source == 0:
            self._read_other_lanes(into, inst)
            _require(columns[of.FROM] == of.AS_IT_IS or columns[of.FROM] == of.REGISTER)
            columns[of.FROM] = of.REGISTER

    @staticmethod
    def _select(columns: Array, selection: str, extended: bool) -> None:
        name, _, number = selection.partition("_")
        bits = 8 if name == "BYTE" else 16
        columns[[of.SHIFT, of.BITS]] = bits * int(number), (1 << bits) - 1
        columns[of.EXTENDS] = (1 << (bits - 1)) if extended else 0

    @staticmethod
    def _sign(columns: Array, kind: str, absolute: bool, negated: bool) -> None:
        """Signs, and where the source is taken from once it is no register as it is."""
        if kind == "f16":
            columns[of.OF_HALF] = 1
        sign = 1 << (15 if kind.endswith("16") and kind != "f16" else 31)
        columns[of.KEEPS] = _WORD & ~sign if absolute else _WORD
        columns[of.FLIPS] = sign if negated else 0
        plain = columns[[of.SHIFT, of.BITS, of.OF_HALF, of.KEEPS, of.FLIPS]].tolist()
        if columns[of.FROM] == of.AS_IT_IS and plain != [0, _WORD, 0, _WORD, 0]:
            columns[of.FROM] = of.REGISTER

    def _read_other_lanes(self, into: Array, inst: Instruction) -> None:
        lanes = self._machine.lanes
        into[of.PATTERN] = self._rows.pattern(*lanes_read(inst.modifiers, lanes))
        enabled, zero, also_off = lanes_written(inst, lanes)
        into[of.ENABLED] = np.packbits(np.resize(enabled, 64), bitorder="little").view(np.int64)[0]
        into[of.BOUND], into[of.ALSO_OFF] = zero, also_off

    def _mask(self, inst: Instruction, position: int) -> int:
        number = inst.operands[position].number if position < len(inst.operands) else VCC
        _require(number + self._machine.lanes // 32 <= _MOST_SCALARS or number == EXEC)
        return number

    # Results.

    def _result(self, into: Array, inst: Instruction, kind: str, sources: int) -> None:
        operand = inst.operands[0]
        words = 2 if kind.endswith("64") else 1
        into[of.OUT], into[of.WORDS] = self._register(operand, words), words
        factor = factor_of(inst)
        if "clamp" in inst.modifiers or factor != 1:
            _require(kind == "f32")
            into[of.CLAMPS] = "clamp" in inst.modifiers
            into[of.FACTOR] = int(np.float32(factor).view(np.uint32)) if factor != 1 else 0
        into[of.TO_HALF] = kind == "f16"
        selection = inst.modifiers.get("dst_sel", "DWORD") if inst.encoding == "sdwa" else "DWORD"
        if selection != "DWORD":
            name, _, number = selection.partition("_")
            bits = 8 if name == "BYTE" else 16
            unused = inst.modifiers.get("dst_unused", "UNUSED_PAD")
            into[[of.PART, of.SHIFT_OUT]] = (1 << bits) - 1, bits * int(number)
            if unused == "UNUSED_PRESERVE":
                into[of.KEPT] = _WORD & ~(((1 << bits) - 1) << bits * int(number))
            elif unused == "UNUSED_SEXT":
                into[of.SIGN] = 1 << (bits - 1)
        elif kind.endswith("16"):
            half = operand.half or inst.bits("op_sel", sources)
            half = 0 if inst.encoding == "sdwa" else half
            keeps = inst.encoding != "sdwa" and keeps_half(inst, self._machine, half)
            self._into_half(into, half, keeps)
        into[of.CHANGED] = bool(
            into[[of.FACTOR, of.CLAMPS, of.TO_HALF]].any() or into[of.PART] != _WORD
        )

    @staticmethod
    def _into_half(into: Array, half: int, keeps: bool) -> None:
        into[[of.PART, of.SHIFT_OUT]] = _HALF, 16 * half
        into[of.KEPT] = (_HALF if half else _WORD & ~_HALF) if keeps else 0
        into[of.CHANGED] = 1

    # Vector instructions.

    def _computed(self, inst: Instruction, into: Array) -> None:
        """An instruction that computes each lane by itself."""
        if re.match(r"v_f?mac_", inst.name):  # the destination is the last source too
            target = inst.operands[0]
            last = Operand(target.kind, target.number, target.count)
            inst = replace(inst, operands=(*inst.operands, last))
        operation, name = OPERATIONS[inst.name], inst.name
        is_wide = name in _OF_PAIRS
        into[of.KIND] = of.WIDE_VECTOR if is_wide else of.VECTOR
        into[of.OP] = _OF_PAIRS[name] if is_wide else _OF_WORDS[name]
        sources = [kind for kind in operation.sources if kind != "mask"]
        for number, kind in enumerate(sources):
            operand = inst.operands[number + 1]
            self._source(into, number, inst, operand, kind)
            if name == "v_pack_b32_f16":  # the halves as they are
                _require(not (operand.negated or operand.absolute))
                into[of.SOURCE + number * of.OF_SOURCE + of.OF_HALF] = 0
        if "mask" in operation.sources:
            into[of.MASK_IN] = self._mask(inst, 1 + len(sources))
        if name.startswith("v_cvt_f32_ubyte"):
            _require(inst.encoding != "sdwa")
            self._select(into[of.SOURCE :], f"BYTE_{name[-1]}", False)
            self._sign(into[of.SOURCE :], "u32", False, False)
        if makes_nans(name, operation) and not is_wide:
            into[of.NANS] = len(sources)
        self._result(into, inst, operation.result, len(operation.sources))
        _require(not (is_wide and into[of.CHANGED]))

    def _with_mask(self, inst: Instruction) -> None:
        """A result and a mask: sums with a carry, ``v_mad_u64_u32``."""
        row, name = self._row, plain_name(inst.name)
        kind, types = TYPES_WITH_MASK[name]
        _require("clamp" not in inst.modifiers)
        row[of.KIND], row[of.OP] = of.CARRIES, _WITH_MASK[name]
        kinds = [kind for kind in types.split() if kind != "mask"]
        for number, kind_of in enumerate(kinds):
            self._source(row, number, inst, inst.operands[2 + number], kind_of)
        if "mask" in types:
            row[of.MASK_IN] = self._mask(inst, 2 + len(kinds))
        if inst.operands[1].number != NULL:
            row[of.MASK_OUT] = self._mask(inst, 1)
            _require(row[of.MASK_OUT] != EXEC)
        self._result(row, inst, kind, len(types.split()))
        _require(not row[of.CHANGED])

    def _comparison(self, inst: Instruction) -> None:
        match = re.match(r"v_cmp(x?)_(\w+)_([fiu]\d+)$", inst.name)
        _require(bool(match))
        assert match
        row, (into_exec, relation, kind) = self._row, match.groups()
        alone = bool(into_exec) and self._machine.generation >= 10
        row[of.KIND], row[of.OP] = of.COMPARES, _COMPARED[kind]
        of_class = relation == "class"
        if of_class:
            _require(kind == "f32")
            row[of.OP] = of.CMP_CLASS
        else:
            row[of.TARGET] = _RELATIONS[relation]
        for number in range(2):
            operand = inst.operands[number + (not alone)]
            self._source(row, number, inst, operand, "u32" if of_class and number else kind)
        row[of.MASK_OUT] = EXEC if alone else self._mask(inst, 0)
        row[of.SPACE] = bool(into_exec) and not alone

    def _mixed(self, inst: Instruction) -> None:
        """``v_fma_mix``: sources are float16 halves where ``op_sel_hi`` says so."""
        row = self._row
        _require(not inst.encoding)
        row[of.KIND], row[of.NANS] = of.VECTOR, 3
        row[of.OP] = _OF_WORDS["v_fma_f32" if inst.name.startswith("v_fma") else "v_mad_f32"]
        for number in range(3):
            operand = inst.operands[number + 1]
            kind = "f16" if inst.bits("op_sel_hi", number) else "f32"
            columns = self._operand(row, number, operand, kind)
            if kind == "f16":
                columns[[of.SHIFT, of.BITS]] = 16 * inst.bits("op_sel", number), _HALF
            absolute = operand.absolute or bool(inst.bits("neg_hi", number))
            negated = operand.negated or bool(inst.bits("neg_lo", number))
            self._sign(columns, kind, absolute, negated)
        row[of.OUT], row[of.WORDS] = self._register(inst.operands[0]), 1
        row[of.CLAMPS] = row[of.CHANGED] = "clamp" in inst.modifiers
        if inst.name.endswith("f16"):
            row[of.TO_HALF] = 1
            self._into_half(row, int("mixhi" in inst.name), True)

    def _packed(self, inst: Instruction) -> None:
        """Two words of pairs: ``v_pk_fma_f32`` and others, ``v_pk_mov_b32``."""
        name = f"v_{inst.name.removeprefix('v_pk_')}"
        operation, op = OPERATIONS[name], _OF_WORDS[name]
        _require(operation.result.endswith("32") and not inst.encoding)
        for part, into in enumerate((self._row, self._second)):
            into[of.KIND], into[of.OP] = of.VECTOR, op
            for number, kind in enumerate(operation.sources):
                which = inst.bits("op_sel_hi", number, 1) if part else inst.bits("op_sel", number)
                source = number
                if name == "v_mov_b32":
                    source, which = part, inst.bits("op_sel", part)
                operand = inst.operands[source + 1]
                if operand.kind in ("v", "a", "s") and operand.number != NULL:
                    operand = replace(operand, number=operand.number + which, count=1)
                columns = self._operand(into, number, operand, kind)
                sign = bool(inst.bits("neg_hi" if part else "neg_lo", source)) ^ operand.negated
                is_float = kind.startswith("f")
                self._sign(columns, kind, is_float and operand.absolute, is_float and sign)
            into[of.OUT] = self._register(inst.operands[0], 2) + part
            if makes_nans(name, operation):
                into[of.NANS] = len(operation.sources)
            if "clamp" in inst.modifiers:
                _require(operation.result == "f32")
                into[of.CLAMPS] = into[of.CHANGED] = 1
        self._row[of.PARTS] = self._row[of.WORDS] = 2

    def _count_below(self, inst: Instruction) -> None:
        row = self._row
        _require(not inst.encoding)
        row[of.KIND], row[of.OP] = of.CARRIES, of.COUNT_BELOW
        for number in range(2):
            self._operand(row, number, inst.operands[number + 1])
        self._operand(row, 2, Operand("int", 0 if "lo" in inst.name else 32))
        row[of.OUT], row[of.WORDS] = self._register(inst.operands[0]), 1

    def _lane(self, inst: Instruction) -> None:
        """``v_readlane`` and others; ``ds_bpermute``."""
        row, operands = self._row, inst.operands
        _require(not inst.encoding)
        row[of.KIND], row[of.OP] = of.LANE, _OF_LANES[inst.name]
        if inst.name == "ds_bpermute_b32":
            columns = self._operand(row, 0, operands[2])
            _require(columns[of.FROM] == of.AS_IT_IS)
            row[of.SOURCE + of.OF_SOURCE + of.WHICH] = self._register(operands[1])
            row[of.OUT], row[of.OFFSET] = self._register(operands[0]), inst.modifier("offset")
            return
        columns = self._operand(row, 0, operands[1])
        lane = operands[2] if len(operands) > 2 else Operand("int", 0)
        _require(lane.kind in ("s", "int"))
        self._scalar_operand(1, lane, "u32")
        if inst.name == "v_writelane_b32":
            _require(columns[of.FROM] in (of.OF_SCALARS, of.CONSTANT))
            row[of.OUT] = self._register(operands[0])
        else:
            row[of.OUT] = self._scalar_target(operands[0], 1)

    def _swizzle(self, inst: Instruction) -> None:
        row, lanes = self._row, self._machine.lanes
        row[of.KIND], row[of.OP] = of.VECTOR, _OF_WORDS["v_mov_b32"]
        columns = self._operand(row, 0, inst.operands[1])
        _require(columns[of.FROM] == of.AS_IT_IS)
        columns[of.FROM] = of.REGISTER
        index = lanes_swizzled(inst.modifiers.get("offset", "0"), lanes)
        row[of.PATTERN] = self._rows.pattern(index, index >= 0)
        row[[of.ENABLED, of.BOUND]] = -1, 1
        row[of.OUT], row[of.WORDS] = self._register(inst.operands[0]), 1

    # Scalar instructions.

    def _scalar_operand(self, source: int, operand: Operand, kind: str) -> None:
        columns = self._operand(self._row, source, operand, kind)
        if columns[of.FROM] == of.CONSTANT:
            bits = 0 if operand.kind == "s" else constant_bits(operand, kind)
            columns[of.WHICH] = np.array([bits], np.uint64).view(np.int64)[0]

    def _scalar_target(self, operand: Operand, words: int) -> int:
        _require(operand.kind == "s" and operand.number + words <= _MOST_SCALARS + 1)
        return operand.number

    def _scalar(self, inst: Instruction) -> None:
        row = self._row
        row[of.OP], result, kinds = scalar_operation(inst.name)
        row[of.KIND] = of.SCALAR
        operands = [kind for kind in kinds if kind not in ("scc", "pc")]
        first = int(len(inst.operands) > len(operands))
        for number, kind in enumerate(operands):
            operand = inst.operands[first + number]
            if kind in ("k", "ku"):
                _require(operand.kind == "int")
                bits = operand.number & _HALF
                signed = (bits ^ 0x8000) - 0x8000
                operand = Operand("int", bits if kind == "ku" else signed & _WORD)
                kind = "u32"
            self._scalar_operand(number, operand, kind)
        if kinds == ("pc",):
            row[of.SOURCE + of.FROM], row[of.SOURCE + of.WHICH] = of.CONSTANT, row[of.AFTER]
        if result == "scc":
            return
        words = 2 if result.endswith("64") else 1
        target = inst.operands[0]
        _require(target.kind == "s")
        if target.number == NULL:
            return
        whole = target.number == EXEC and words == self._machine.lanes // 32
        row[of.OUT] = EXEC if whole else self._scalar_target(target, words)
        row[of.WORDS] = words

    def _saves(self, inst: Instruction) -> None:
        match = re.match(r"s_(\w+?)_(saveexec|wrexec)_b(32|64)$", inst.name)
        _require(bool(match))
        assert match
        row, words = self._row, int(match[3]) // 32
        _require(words == self._machine.lanes // 32)
        row[of.KIND], row[of.OP] = of.SAVES, scalar_operation(f"s_{match[1]}_b{match[3]}")[0]
        row[of.TARGET] = match[2] == "saveexec"
        self._scalar_operand(0, inst.operands[1], f"u{match[3]}")
        row[of.OUT], row[of.WORDS] = self._scalar_target(inst.operands[0], words), words

    def _scalar_load(self, inst: Instruction) -> None:
        match = re.match(r"s_load_(?:dword(?:x(\d+))?|b(\d+))$", inst.name)
        _require(bool(match))
        assert match
        row, (_, base, step) = self._row, inst.operands
        words = int(match[2]) // 32 if match[2] else int(match[1] or 1)
        row[of.KIND], row[of.SIZE], row[of.WORDS] = of.LOADED, 4, words
        self._scalar_operand(0, base, "u64")
        row[of.OFFSET] = inst.modifier("offset")
        if step.kind == "int":
            row[of.OFFSET] += step.number
        elif step.number != NULL:
            self._scalar_operand(1, step, "u32")
        _require(base.kind == "s" and base.number != NULL)
        row[of.OUT] = inst.operands[0].number
        _require(inst.operands[0].kind == "s" and row[of.OUT] + words <= _MOST_SCALARS)

    # Accesses to memory.

    def _access(self, inst: Instruction) -> None:
        match = re.match(r"(global|flat|scratch)_(load|store)_(\w+)$", inst.name)
        _require(bool(match) and "lds" not in inst.modifiers)
        assert match
        where, loads = match[1], match[2] == "load"
        operands = inst.operands
        address, data = ((operands[1:], operands[0]) if loads else
                         ((operands[0], *operands[2:]), operands[1]))  # fmt: skip
        self._move(inst, match[3], loads, (data,))
        self._address(where, address)

    def _address(self, where: str, address: Sequence[Operand]) -> None:
        row, (vector, *others) = self._row, address
        base = next((o for o in others if o.kind == "s" and o.number != NULL), None)
        if where == "scratch":
            row[of.SPACE] = of.PRIVATE
        else:
            row[of.SPACE] = of.GLOBAL if base is None else of.BY_BASE
        nothing = vector.kind not in ("v", "a")
        _require(not nothing or row[of.SPACE] != of.GLOBAL)
        kind = "u64" if row[of.SPACE] == of.GLOBAL else "u32"
        self._operand(row, 0, Operand("int", 0) if nothing else vector, kind)
        if base is not None:
            self._scalar_operand(1, base, "u64" if row[of.SPACE] == of.BY_BASE else "u32")

    def _move(self, inst: Instruction, text: str, loads: bool, data: Sequence[Operand]) -> None:
        """What is loaded or stored, at one place or at several."""
        row, moved = self._row, moved_by(text)
        row[of.KIND], row[of.LOADS] = (of.ACCESS, 1) if loads else (of.CHANGE, 0)
        row[of.OP], row[of.OFFSET] = -1, inst.modifier("offset")
        row[of.SIZE], row[of.WORDS] = moved.size, moved.words
        if not loads:
            row[of.SHIFT_OUT] = 16 if moved.half else 0
            for number, operand in enumerate(data):
                at = of.SOURCE + 2 * of.OF_SOURCE + of.WHICH + number
                row[at] = self._register(operand, moved.words)
            return
        row[of.OUT] = self._register(data[0], moved.words)
        if moved.extended or moved.half is not None:
            if moved.half is not None:
                self._into_half(row, moved.half, True)
            row[of.PART] = (1 << 8 * moved.size) - 1
            row[of.SIGN] = 1 << (8 * moved.size - 1) if moved.extended else 0
            row[of.BITS_OUT] = _WORD if moved.half is None else _HALF
            row[of.CHANGED] = 1

    def _local(self, inst: Instruction) -> None:
        match = re.match(r"ds_(read|load|write|store)_?(\w+)$", inst.name)
        _require(bool(match))
        assert match
        row, loads = self._row, match[1] in ("read", "load")
        two = re.match(r"(?:2|2addr_)(st64_|stride64_|_)?(b32|b64)$", match[2])
        data = inst.operands[:1] if loads else inst.operands[1 : 2 + bool(two)]
        self._move(inst, two[2] if two else match[2], loads, data)
        self._operand(row, 0, inst.operands[int(loads)])
        row[of.SPACE] = of.LOCAL
        if two:
            unit = 4 * int(row[of.WORDS]) * (64 if "64" in (two[1] or "") else 1)
            places = [inst.modifier(f"offset{number}") * unit for number in range(2)]
            row[of.OFFSET], row[of.STEP], row[of.PARTS] = places[0], places[1] - places[0], 2
            if loads:
                self._register(replace(inst.operands[0], count=1), 2 * int(row[of.WORDS]))

    def _atomic(self, inst: Instruction) -> None:
        match = re.match(r"(global|ds)_(?:atomic_)?(\w+?)(_rtn)?(?:_([uib]32))?$", inst.name)
        _require(bool(match))
        assert match
        row, local = self._row, match[1] == "ds"
        returns = bool(match[3]) if local else is_coherent(inst)
        name = f"{match[2]}_{match[4]}" if match[4] else match[2]
        row[of.KIND], row[of.OP] = of.CHANGE, _CHANGES[name]
        row[of.OFFSET] = inst.modifier("offset")
        row[of.SIZE], row[of.WORDS] = 4, 1
        operands = inst.operands[int(returns) :]
        row[of.LOADS] = returns
        row[of.SOURCE + 2 * of.OF_SOURCE + of.WHICH] = self._register(operands[1])
        if returns:
            row[of.OUT] = self._register(inst.operands[0])
        if local:
            self._operand(row, 0, operands[0])
            row[of.SPACE] = of.LOCAL
        else:
            self._address("global", (operands[0], *operands[2:]))

    _families: Sequence[tuple[str, Callable[["_Maker", Instruction], None]]] = (
        (r"v_cmpx?_", _comparison),
        (r"v_(fma|mad)_mix(lo_f16|hi_f16|_f32)$", _mixed),
        (r"v_pk_", _packed),
        (r"v_mbcnt_", _count_below),
        (r"v_(read(first)?|write)lane_b32$|ds_bpermute_b32$", _lane),
        (r"ds_swizzle_b32$", _swizzle),
        (r"s_\w+_(saveexec|wrexec)_b(32|64)$", _saves),
        (r"s_load_", _scalar_load),
        (r"s_", _scalar),
        (r"ds_(read|load|write|store)", _local),
        (r"global_atomic_|ds_", _atomic),
        (r"(global|flat|scratch)_(load|store)_", _access),
    )


def is_coherent(inst: Instruction) -> bool:
    """Whether an access is one that other waves may answer."""
    return any(name in inst.modifiers for name in ("glc", "sc0", "sc1"))
