"""Ask for memory before it is needed: what a walk visits next follows no pattern."""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


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


prefetch = cast(Callable[[Any, int, int], None], _prefetch)
"""`prefetch(array, row, column)`, for compiled functions; of a 1-D array, column 0."""
