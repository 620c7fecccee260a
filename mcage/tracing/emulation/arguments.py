"""Values of arguments as the bytes that a kernel reads, by the types of its parameters.

Types are what they stand for: ``float`` where a source says ``real``. A code object alone may not
say that; a value whose type nobody knows must bring its own bytes.
"""

import re
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.plain_text import shortened, shown
from mcage.tracing.emulation.code_object import Argument

_SCALARS = {
    **{"half": "f2", "float": "f4", "double": "f8", "bool": "i1", "char": "i1", "uchar": "i1"},
    **{"short": "i2", "ushort": "i2", "int": "i4", "uint": "i4", "long": "i8", "ulong": "i8"},
    **{"size_t": "i8", "unsigned char": "i1", "unsigned short": "i2", "unsigned int": "i4"},
    **{"unsigned long": "i8"},
}
"""Kind and bytes of numbers, of whatever sign."""

_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}
_VECTOR = re.compile(r"(\w+) __attribute__\(\(ext_vector_type\((\d+)\)\)\)")


def plain_type(name: str) -> str:
    """Name of a type as OpenCL C has it: ``float4`` of clang's name of that vector."""
    return _VECTOR.sub(r"\1\2", name)


def described(argument: Argument) -> str:
    """What an argument is, in a word or two."""
    kind = "buffer" if argument.kind == "global_buffer" else f"{argument.size} bytes"
    return shown(argument.type_name) if argument.type_name else kind


def require_elements(argument: Argument, dtype: Any, name: str) -> None:
    """Refuse an array of another type than the buffer's, as far as its name says that.

    Raises
    ------
    UserError
        The elements are numbers of another kind or size; the message begins with `name`.
    """
    wanted = _SCALARS.get(re.sub(r"(\d+)?\*$", "", argument.type_name))
    if wanted is not None and dtype.kind in "fiub" and wanted != _element(dtype):
        raise UserError(f"{name} ({described(argument)}) is an array of {dtype}")


def bytes_by_value(argument: Argument, value: Any, name: str) -> bytes:
    """Bytes of a value that is passed itself.

    Parameters
    ----------
    argument : Argument
        Of what type and size it is.
    value : object
        A number where the type is one; an array of its elements where it is a vector; otherwise
        what has bytes of its own: a scalar of NumPy, a structured array of one element, or bytes.
    name : str
        How errors begin.

    Raises
    ------
    UserError
        The value does not fit, or it is not known what it means.
    """
    kind, digits = re.fullmatch(r"(.*?)(\d*)", argument.type_name).groups()  # type: ignore[union-attr]
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind != "V":
        value = value[()]
    if argument.type_name.startswith("enum "):
        return _number_bytes(argument, value, name, f"i{argument.size}")
    if kind not in _SCALARS:
        return _own_bytes(argument, value, name)
    if digits:
        return _vector_bytes(argument, value, name, _SCALARS[kind], int(digits))
    return _number_bytes(argument, value, name, _SCALARS[kind])


def _element(dtype: Any) -> str:
    return f"{'f' if dtype.kind == 'f' else 'i'}{dtype.itemsize}"


def _own_bytes(argument: Argument, value: Any, name: str) -> bytes:
    """Bytes of a value that says itself how many it has, and what they mean."""
    size, is_structure = argument.size, re.match("struct |union ", argument.type_name)
    structured = isinstance(value, np.void | np.ndarray) and value.dtype.kind == "V"
    plain = isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and not argument.type_name
    )
    if isinstance(value, bytes) or structured or (plain and not is_structure):
        content = value if isinstance(value, bytes) else value.tobytes()
        if len(content) == size:
            return content
        raise UserError(f"{name} ({described(argument)}) has {size} bytes, not {len(content)}")
    wanted = "a structured array of NumPy or bytes"
    if size in (1, 2, 4, 8) and not is_structure:
        float_too = f" or np.float{8 * size}(...)" if size in _FLOATS else ""
        wanted = f"np.int{8 * size}(...){float_too}, in --args i{8 * size}(...), or else {wanted}"
    why = "is no number that is known" if argument.type_name else "is of a type that nobody says"
    raise UserError(f"{name} ({described(argument)}) {why}, must be {wanted}")


def _vector_bytes(argument: Argument, value: Any, name: str, element: str, length: int) -> bytes:
    """Bytes of a vector; one of three elements takes the room of four."""
    sizes = (3, 4) if length == 3 else (length,)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
        what = shortened(value)
    else:
        what = f"of {value.size} {value.dtype}"
        if _element(value.dtype) == element and value.size in sizes:
            return value.tobytes().ljust(argument.size, b"\0")
    raise UserError(f"{name} ({described(argument)}) is {what}, must be an array of its elements")


def _number_bytes(argument: Argument, value: Any, name: str, element: str) -> bytes:
    """A number as the argument's type; integers go into floats, but not the other way round."""
    is_float, size = element[0] == "f", int(element[1])
    if isinstance(value, np.ndarray):
        raise UserError(f"{name} is a number ({described(argument)}), must be no array")
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float) or (isinstance(value, float) and not is_float):
        wanted = "a number" if is_float else "an integer"
        raise UserError(f"{name} ({described(argument)}) is {shortened(value)}, must be {wanted}")
    if size != argument.size:
        raise UserError(f"{name} ({described(argument)}) has {argument.size} bytes")
    try:
        if is_float:
            with np.errstate(over="raise"):
                return np.array(value, _FLOATS[size]).tobytes()
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            return fitting(int(value), argument)
    except (OverflowError, FloatingPointError):
        pass
    raise UserError(f"{name} is {shortened(value)}, which does not fit into {size} bytes")


def fitting(number: int, argument: Argument) -> bytes:
    """A number in the bytes of an argument; those that are too high are left out."""
    return (number & (1 << 8 * argument.size) - 1).to_bytes(argument.size, "little")
