"""Wide operations that Numba has no words for: a set of lanes is a 64-bit word.

A compiler turns each into a few vector instructions of the machine at hand (one to four on
AVX-512, where a word of lanes is a mask register).
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
AT_ONCE = 4
"""Planes that are summed together: 64 sums of 32 bits each just fit into 32 vectors of 512 bits,
with room to work."""

_WORD = ir.IntType(64)


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Position of the lowest set bit of a non-zero word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _sum_lanes(
    typing_context: Any, words: Any, cycles: Any, count: Any, sums: Any, row: Any
) -> Any:
    """Add ``cycles[i]`` to ``sums[row, lane]`` for every lane in ``words[i]``, for i < count."""
    signature = types.void(words, cycles, types.int64, sums, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word_type, cycles_type, _, sums_type, _ = signature.args
        words, cycles, count, sums, row = arguments
        word_at = context.make_array(word_type)(context, builder, words).data
        cycles_at = context.make_array(cycles_type)(context, builder, cycles).data
        lanes = _Lanes(context, builder, sums_type)
        place = lanes.at(sums, row)
        total = _variable(builder, lanes.type)
        builder.store(lanes.load(place), total)
        with cgutils.for_range(builder, count) as loop:
            word = builder.load(builder.gep(word_at, [loop.index]))
            each = builder.load(builder.gep(cycles_at, [loop.index]))
            builder.store(lanes.add_where(builder.load(total), word, each), total)
        lanes.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _sum_planes(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    count: Any,
    first: Any,
    sums: Any,
) -> Any:
    """`sum_lanes` for `AT_ONCE` columns of planes from column ``first`` on."""
    signature = types.void(planes, rows, cycles, types.int64, types.int64, sums)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        planes_type, rows_type, cycles_type, _, _, sums_type = signature.args
        planes, rows, cycles, count, first, sums = arguments
        view = context.make_array(planes_type)(context, builder, planes)
        columns = builder.extract_value(view.shape, 1)
        start = builder.gep(view.data, [first])
        row_at = context.make_array(rows_type)(context, builder, rows).data
        cycles_at = context.make_array(cycles_type)(context, builder, cycles).data
        lanes = _Lanes(context, builder, sums_type)
        places, totals = [], []
        for one in range(AT_ONCE):
            place = lanes.at(sums, builder.add(first, _WORD(one)))
            total = _variable(builder, lanes.type)
            builder.store(lanes.load(place), total)
            places.append(place)
            totals.append(total)
        with cgutils.for_range(builder, count) as loop:
            row = builder.zext(builder.load(builder.gep(row_at, [loop.index])), _WORD)
            word_at = builder.gep(start, [builder.mul(row, columns)])
            each = builder.load(builder.gep(cycles_at, [loop.index]))
            for one, total in enumerate(totals):
                word = builder.load(builder.gep(word_at, [_WORD(one)]))
                builder.store(lanes.add_where(builder.load(total), word, each), total)
        for place, total in zip(places, totals, strict=True):
            lanes.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_where(typing_context: Any, sums: Any, row: Any, word: Any, cycles: Any) -> Any:
    """Add ``cycles`` to ``sums[row, lane]`` for every lane in ``word``."""
    signature = types.void(sums, types.int64, types.uint64, sums.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, word, cycles = arguments
        lanes = _Lanes(context, builder, signature.args[0])
        place = lanes.at(sums, row)
        lanes.store(lanes.add_where(lanes.load(place), word, cycles), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_row(typing_context: Any, sums: Any, row: Any, added: Any, added_row: Any) -> Any:
    """Add row ``added_row`` of one array [:, 64] to row ``row`` of another."""
    signature = types.void(sums, types.int64, added, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, added, added_row = arguments
        lanes = _Lanes(context, builder, signature.args[0])
        source = _Lanes(context, builder, signature.args[2])
        place = lanes.at(sums, row)
        more = source.load(source.at(added, added_row))
        lanes.store(builder.add(lanes.load(place), more), place)
        return context.get_dummy_value()

    return signature, generate


def _variable(builder: Any, value_type: Any) -> Any:
    """Place on the stack, which a compiler turns into registers."""
    return cgutils.alloca_once(builder, value_type)  # type: ignore[no-untyped-call]


class _Lanes:
    """Rows of 64 integers of a C-contiguous array as single values."""

    def __init__(self, context: Any, builder: Any, array_type: Any) -> None:
        self._context, self._builder, self._array_type = context, builder, array_type
        self._item = context.get_value_type(array_type.dtype)
        self._bytes = array_type.dtype.bitwidth // 8
        self.type = ir.VectorType(self._item, LANES)

    def at(self, array: Any, row: Any) -> Any:
        """Address of a row."""
        view = self._context.make_array(self._array_type)(self._context, self._builder, array)
        data = view.data
        first = self._builder.gep(data, [self._builder.mul(row, _WORD(LANES))])
        return self._builder.bitcast(first, self.type.as_pointer())

    def load(self, place: Any) -> Any:
        return self._builder.load(place, align=self._bytes)

    def store(self, value: Any, place: Any) -> None:
        self._builder.store(value, place, align=self._bytes)

    def add_where(self, total: Any, word: Any, cycles: Any) -> Any:
        """Vector with ``cycles`` more in every lane of ``word``."""
        chosen = self._builder.bitcast(word, ir.VectorType(ir.IntType(1), LANES))
        one = ir.Constant(ir.VectorType(self._item, LANES), ir.Undefined)
        one = self._builder.insert_element(one, cycles, ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        each = self._builder.shuffle_vector(one, ir.Constant(self.type, ir.Undefined), everywhere)
        nothing = ir.Constant(self.type, [0] * LANES)
        return self._builder.add(total, self._builder.select(chosen, each, nothing))


lowest_bit = cast(Callable[[Any], int], _lowest_bit)
"""`lowest_bit(word)`: position of the lowest set bit of a non-zero uint64."""

sum_lanes = cast(Callable[[Any, Any, int, Any, int], None], _sum_lanes)
"""`sum_lanes(words, cycles, count, sums, row)`: uint64[n], T[n], count <= n, to a row of T[:, 64]
where T has 32 or 64 bits."""

sum_planes = cast(Callable[[Any, Any, Any, Any, int, Any], None], _sum_planes)
"""`sum_planes(planes, rows, cycles, count, first, sums)`: uint64[:, columns], uint32[n], T[n];
word ``planes[rows[i], c]`` counts for ``cycles[i]`` in row c of T[columns, 64], for i < count and
the `AT_ONCE` columns from ``first`` on."""

add_where = cast(Callable[[Any, Any, Any, Any], None], _add_where)
"""`add_where(sums, row, word, cycles)`: to the lanes of ``word`` in a row of T[:, 64]."""

add_row = cast(Callable[[Any, Any, Any, Any], None], _add_row)
"""`add_row(sums, row, added, added_row)`: a row of T[:, 64] to a row of another."""
