"""Wide operations that Numba has no words for: a set of the 64 components is a 64-bit word.

A compiler turns each into a few vector instructions of the machine at hand (one to four on
AVX-512, where such a word is a mask register).
"""

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

# Vectors of 64 components in the words of LLVM: what the wide operations of `simd` are made of.

COMPONENTS = 64
WORD = ir.IntType(64)


def everywhere(builder: Any, value: Any, vector: Any) -> Any:
    """Vector with the same value in all elements."""
    zero = ir.Constant(ir.IntType(32), 0)
    alone = builder.insert_element(ir.Constant(vector, ir.Undefined), value, zero)
    nowhere = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), nowhere)


def variable(builder: Any, value_type: Any) -> Any:
    """Place on the stack, which a compiler turns into registers."""
    return cgutils.alloca_once(builder, value_type)  # type: ignore[no-untyped-call]


class Components:
    """Rows of 64 integers of a C-contiguous array as single values."""

    def __init__(self, context: Any, builder: Any, array_type: Any) -> None:
        self._context, self._builder, self._array_type = context, builder, array_type
        self._item = context.get_value_type(array_type.dtype)
        self._bytes = array_type.dtype.bitwidth // 8
        self.type = ir.VectorType(self._item, COMPONENTS)
        self.nothing = ir.Constant(self.type, [0] * COMPONENTS)

    def at(self, array: Any, row: Any) -> Any:
        """Address of a row."""
        view = self._context.make_array(self._array_type)(self._context, self._builder, array)
        data = view.data
        first = self._builder.gep(data, [self._builder.mul(row, WORD(COMPONENTS))])
        return self._builder.bitcast(first, self.type.as_pointer())

    def load(self, place: Any) -> Any:
        """Load the row at an address."""
        return self._builder.load(place, align=self._bytes)

    def store(self, value: Any, place: Any) -> None:
        """Store a row at an address."""
        self._builder.store(value, place, align=self._bytes)

    def load_in_parts(self, items: Any, index: Any, parts: int) -> Any:
        """Vector of ``parts`` items from ``index * parts`` on, each in 64 / parts components."""
        vector = ir.VectorType(self._item, parts)
        first = self._builder.gep(items, [self._builder.mul(index, WORD(parts))])
        loaded = self.load(self._builder.bitcast(first, vector.as_pointer()))
        lanes = [component * parts // COMPONENTS for component in range(COMPONENTS)]
        places = ir.Constant(ir.VectorType(ir.IntType(32), COMPONENTS), lanes)
        return self._builder.shuffle_vector(loaded, ir.Constant(vector, ir.Undefined), places)

    def add_each(self, total: Any, word: Any, each: Any) -> Any:
        """Vector with what is in ``each`` more in every component of ``word``."""
        chosen = self._builder.bitcast(word, ir.VectorType(ir.IntType(1), COMPONENTS))
        return self._builder.add(total, self._builder.select(chosen, each, self.nothing))

    def add_where(self, total: Any, word: Any, cycles: Any) -> Any:
        """Vector with ``cycles`` more in every component of ``word``."""
        return self.add_each(total, word, everywhere(self._builder, cycles, self.type))


# Arrays that begin where a cache line does, so that a row lies in as few lines as possible.
#
# NumPy's memory begins 16 bytes after one where an array is large: a row of 64 bytes is in two
# lines then, and every vector of 512 bits that is loaded from it.

LINE = 64
"""Bytes of a cache line."""


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make zeros; pages that are never touched take no memory."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def aligned_join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays [n, ...] of the same type and width."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    return np.concatenate(parts, out=aligned_zeros(shape, parts[0].dtype))


AT_ONCE = 4
"""Planes that are summed together: 64 sums of 32 bits each just fit into 32 vectors of 512 bits,
with some left to work with."""

FIRST_BITS = (1 << AT_ONCE) - 1
"""The first `AT_ONCE` bits of a word."""

PARTS = 4
"""Parts of 16 components that may count for cycles of their own."""

TOGETHER = 8
"""Tracked cells that are summed together."""

_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Position of the lowest set bit of a non-zero word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _with_bit(typing_context: Any, words: Any, row: Any, bit: Any) -> Any:
    """Components whose word in a row of uint32[:, 64] has a bit."""
    signature = types.uint64(words, types.int64, types.uint32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, row, bit = arguments
        components = Components(context, builder, signature.args[0])
        bits = everywhere(builder, builder.shl(bit.type(1), bit), components.type)
        chosen = builder.and_(components.load(components.at(words, row)), bits)
        return builder.bitcast(builder.icmp_unsigned("!=", chosen, components.nothing), WORD)

    return signature, generate


@intrinsic
def _sum_components(
    typing_context: Any, words: Any, cycles: Any, count: Any, sums: Any, row: Any
) -> Any:
    """Add ``cycles[i]`` to ``sums[row, c]`` for all components c in ``words[i]``, for i < count."""
    signature = types.void(words, cycles, types.int64, sums, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word_type, cycles_type, _, sums_type, _ = signature.args
        words, cycles, count, sums, row = arguments
        word_at = context.make_array(word_type)(context, builder, words).data
        cycles_at = context.make_array(cycles_type)(context, builder, cycles).data
        components = Components(context, builder, sums_type)
        place = components.at(sums, row)
        total = variable(builder, components.type)
        builder.store(components.load(place), total)
        with cgutils.for_range(builder, count) as loop:
            word = builder.load(builder.gep(word_at, [loop.index]))
            each = builder.load(builder.gep(cycles_at, [loop.index]))
            builder.store(components.add_where(builder.load(total), word, each), total)
        components.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _sum_planes(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    begin: Any,
    end: Any,
    first: Any,
    sums: Any,
) -> Any:
    """`sum_components` for `AT_ONCE` columns of planes from column ``first`` on."""
    return _summing(planes, rows, cycles, sums, AT_ONCE)


@intrinsic
def _sum_planes_anew(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    begin: Any,
    end: Any,
    first: Any,
    sums: Any,
) -> Any:
    """`sum_planes` from zero on, whatever the sums were."""
    return _summing(planes, rows, cycles, sums, AT_ONCE, anew=True)


@intrinsic
def _sum_planes_in_parts(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    begin: Any,
    end: Any,
    first: Any,
    sums: Any,
) -> Any:
    """`sum_planes` with cycles for each of the `PARTS` of the components."""
    return _summing(planes, rows, cycles, sums, AT_ONCE, parts=PARTS)


@intrinsic
def _sum_plane(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    begin: Any,
    end: Any,
    first: Any,
    sums: Any,
) -> Any:
    """`sum_components` for one column of planes."""
    return _summing(planes, rows, cycles, sums, 1)


def _summing(
    planes: Any, rows: Any, cycles: Any, sums: Any, at_once: int, anew: bool = False, parts: int = 1
) -> Any:
    """Signature and code of a sum over several columns."""
    long = types.int64
    signature = types.void(planes, rows, cycles, long, long, long, sums)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        planes_type, rows_type, cycles_type, _, _, _, sums_type = signature.args
        planes, rows, cycles, begin, end, first, sums = arguments
        view = context.make_array(planes_type)(context, builder, planes)
        columns = builder.extract_value(view.shape, 1)
        start = builder.gep(view.data, [first])
        row_at = context.make_array(rows_type)(context, builder, rows).data
        cycles_at = context.make_array(cycles_type)(context, builder, cycles).data
        components = Components(context, builder, sums_type)
        places, totals = [], []
        for column in range(at_once):
            place = components.at(sums, builder.add(first, WORD(column)))
            total = variable(builder, components.type)
            builder.store(components.nothing if anew else components.load(place), total)
            places.append(place)
            totals.append(total)
        with cgutils.for_range_slice(builder, begin, end, WORD(1), inc=True) as (index, _):
            row = builder.zext(builder.load(builder.gep(row_at, [index])), WORD)
            word_at = builder.gep(start, [builder.mul(row, columns)])
            each = components.load_in_parts(cycles_at, index, parts)
            for column, total in enumerate(totals):
                word = builder.load(builder.gep(word_at, [WORD(column)]))
                builder.store(components.add_each(builder.load(total), word, each), total)
        for place, total in zip(places, totals, strict=True):
            components.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_where(typing_context: Any, sums: Any, row: Any, word: Any, cycles: Any) -> Any:
    """Add ``cycles`` to ``sums[row, c]`` for every component c in ``word``."""
    signature = types.void(sums, types.int64, types.uint64, sums.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, word, cycles = arguments
        components = Components(context, builder, signature.args[0])
        place = components.at(sums, row)
        components.store(components.add_where(components.load(place), word, cycles), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_row(typing_context: Any, sums: Any, row: Any, added: Any, added_row: Any) -> Any:
    """Add row ``added_row`` of one array [:, 64] to row ``row`` of another."""
    signature = types.void(sums, types.int64, added, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, added, added_row = arguments
        components = Components(context, builder, signature.args[0])
        source = Components(context, builder, signature.args[2])
        place = components.at(sums, row)
        more = source.load(source.at(added, added_row))
        components.store(builder.add(components.load(place), more), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_row_where(
    typing_context: Any, sums: Any, row: Any, added: Any, added_row: Any, word: Any, cycles: Any
) -> Any:
    """`add_row` and `add_where` on the same row."""
    signature = types.void(sums, types.int64, added, types.int64, types.uint64, sums.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, added, added_row, word, cycles = arguments
        components = Components(context, builder, signature.args[0])
        source = Components(context, builder, signature.args[2])
        place = components.at(sums, row)
        total = builder.add(components.load(place), source.load(source.at(added, added_row)))
        components.store(components.add_where(total, word, cycles), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _sum_cells(
    typing_context: Any,
    planes: Any,
    rows: Any,
    cycles: Any,
    begin: Any,
    end: Any,
    shift: Any,
    columns: Any,
    components: Any,
    sums: Any,
    group: Any,
) -> Any:
    """Sum up a group of `TOGETHER` cells over the rows ``begin`` ... ``end`` - 1."""
    long = types.int64
    signature = types.void(
        planes, rows, cycles, long, long, types.uint64, columns, components, sums, long
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        types_of = signature.args
        planes, rows, cycles, begin, end, shift, columns, components, sums, group = arguments
        vector = ir.VectorType(WORD, TOGETHER)
        view = context.make_array(types_of[0])(context, builder, planes)
        width = builder.extract_value(view.shape, 1)
        row_at = context.make_array(types_of[1])(context, builder, rows).data
        cycles_at = context.make_array(types_of[2])(context, builder, cycles).data
        first = builder.mul(group, WORD(TOGETHER))

        def of_group(array: Any, array_type: Any) -> Any:
            data = context.make_array(array_type)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())

        column = builder.load(of_group(columns, types_of[6]), align=8)
        component = builder.load(of_group(components, types_of[7]), align=8)
        place = of_group(sums, types_of[8])
        total = variable(builder, vector)
        builder.store(builder.load(place, align=8), total)
        shifts = everywhere(builder, shift, vector)
        lowest = ir.Constant(vector, [1] * TOGETHER)
        with cgutils.for_range_slice(builder, begin, end, WORD(1), inc=True) as (index, _):
            row = builder.zext(builder.load(builder.gep(row_at, [index])), WORD)
            start = builder.gep(view.data, [builder.mul(row, width)])
            words = ir.Constant(vector, ir.Undefined)
            for which in range(TOGETHER):
                position = ir.Constant(ir.IntType(32), which)
                word_at = builder.gep(start, [builder.extract_element(column, position)])
                words = builder.insert_element(words, builder.load(word_at), position)
            bits = builder.and_(builder.lshr(builder.shl(words, shifts), component), lowest)
            each = builder.load(builder.gep(cycles_at, [index]))
            if each.type != WORD:
                each = builder.zext(each, WORD)
            lit = builder.icmp_unsigned("!=", bits, ir.Constant(vector, [0] * TOGETHER))
            more = builder.select(
                lit, everywhere(builder, each, vector), ir.Constant(vector, [0] * TOGETHER)
            )
            builder.store(builder.add(builder.load(total), more), total)
        builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _prefetch(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
    """Start loading the cache line of an item of a C-contiguous array; does nothing else."""
    signature = types.void(array, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, row, column = arguments
        view = context.make_array(signature.args[0])(context, builder, array)
        row_bytes = builder.extract_value(view.strides, 0)
        item_bytes = ir.Constant(row_bytes.type, signature.args[0].dtype.bitwidth // 8)
        start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        offset = builder.add(builder.mul(row, row_bytes), builder.mul(column, item_bytes))
        integer = ir.IntType(32)
        hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), integer, integer, integer]),
            "llvm.prefetch.p0",
        )
        builder.call(
            hint, [builder.gep(start, [offset]), integer(_READ), integer(_KEEP), integer(_DATA)]
        )
        return context.get_dummy_value()

    return signature, generate


lowest_bit = cast(Callable[[Any], int], _lowest_bit)
"""`lowest_bit(word)`: position of the lowest set bit of a non-zero uint64."""

with_bit = cast(Callable[[Any, int, Any], Any], _with_bit)
"""`with_bit(words, row, bit)`: the components whose word in a row of uint32[:, 64] has a bit."""

sum_components = cast(Callable[[Any, Any, int, Any, int], None], _sum_components)
"""`sum_components(words, cycles, count, sums, row)`: uint64[n], T[n], count <= n, to a row of
T[:, 64] where T has 32 or 64 bits."""

sum_planes = cast(Callable[..., None], _sum_planes)
"""`sum_planes(planes, rows, cycles, begin, end, first, sums)`: uint64[:, columns], uint32[n], T[n];
word ``planes[rows[i], c]`` counts for ``cycles[i]`` in row c of T[columns, 64], for
begin <= i < end and the `AT_ONCE` columns from ``first`` on."""

sum_planes_anew = cast(Callable[..., None], _sum_planes_anew)
"""`sum_planes_anew(planes, rows, cycles, begin, end, first, sums)`: the same from zero on."""

sum_planes_in_parts = cast(Callable[..., None], _sum_planes_in_parts)
"""`sum_planes_in_parts(planes, rows, cycles, begin, end, first, sums)`: `sum_planes` where part p
of the components, 16 p ... 16 p + 15, counts for ``cycles[i, p]``; T[n, 4]."""

sum_plane = cast(Callable[..., None], _sum_plane)
"""`sum_plane(planes, rows, cycles, begin, end, column, sums)`: the same for one column."""

sum_cells = cast(Callable[..., None], _sum_cells)
"""`sum_cells(planes, rows, cycles, begin, end, shift, columns, components, sums, group)`: bit
``components[group, c]`` of the word ``planes[rows[i], columns[group, c]] << shift`` counts for
``cycles[i]`` in ``sums[group, c]``, for begin <= i < end; the last three are of 64 bits, [:, 8]."""

add_where = cast(Callable[[Any, Any, Any, Any], None], _add_where)
"""`add_where(sums, row, word, cycles)`: to the components of ``word`` in a row of T[:, 64]."""

add_row = cast(Callable[[Any, Any, Any, Any], None], _add_row)
"""`add_row(sums, row, added, added_row)`: a row of T[:, 64] to a row of another."""

add_row_where = cast(Callable[[Any, Any, Any, Any, Any, Any], None], _add_row_where)
"""`add_row_where(sums, row, added, added_row, word, cycles)`: `add_row` and `add_where`."""

prefetch = cast(Callable[[Any, int, int], None], _prefetch)
"""`prefetch(array, row, column)`, for compiled functions; of a 1-D array, column 0."""
