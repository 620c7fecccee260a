"""Ask for memory before it is needed: the rows of images that a walk visits follow no pattern."""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LINE_BYTES = 64
_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def _prefetch_row(typing_context: Any, array: Any, row: Any) -> Any:
    """Start loading row ``row`` of a C-contiguous 2-D array; does nothing else."""
    signature = types.void(array, row)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        row_bytes = builder.extract_value(view.strides, 0)
        index = builder.sext(arguments[1], row_bytes.type)
        start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        start = builder.gep(start, [builder.mul(index, row_bytes)])
        integer = ir.IntType(32)
        hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [start.type, integer, integer, integer]),
            "llvm.prefetch.p0",
        )
        for offset in range(0, 256, _LINE_BYTES):
            line = builder.gep(start, [ir.Constant(row_bytes.type, offset)])
            builder.call(hint, [line, integer(_READ), integer(_KEEP), integer(_DATA)])
        return context.get_dummy_value()

    return signature, generate


prefetch_row = cast(Callable[[Any, Any], None], _prefetch_row)
"""`prefetch_row(array, row)`, for compiled functions."""
