"""Vectors of 64 components in the words of LLVM: what the wide operations of `simd` are made of."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

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
