"""Compiles a Triton kernel for an AMD GPU, without one and without PyTorch, as a launch would."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TYPES = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
}
LARGEST_RANGE = 2**31 - 1  # bytes that buffer instructions reach with offsets of 32 bits


class Compiled(NamedTuple):
    """A code object and what a launch must know that its notes do not say."""

    code: bytes
    local_bytes: int  # of local memory a work-group; the notes say 0, as it is given at launch
    arguments: list[str]  # that the kernel takes, in its order, before two pointers to scratch


def kernel(module: ModuleType) -> Any:
    """Return the function to compile: KERNEL of the module, else the one named as the module."""
    return getattr(module, getattr(module, "KERNEL", module.__name__.rpartition(".")[2]))


def scalar_type(value: bool | int | float) -> str:
    """Return the type as which a launch passes a number."""
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, float):
        return "fp32"
    if -(2**31) <= value < 2**31:
        return "i32"
    return "i64" if value < 2**63 else "u64"


def passed(module: ModuleType, arguments: dict[str, Any]) -> list[str]:
    """Return the arguments that the compiled kernel takes, in its order.

    After them it takes two pointers to scratch memory, which are null unless it asks for any.
    Parameters that are `tl.constexpr`, and integers that are 1, are part of its code instead.
    """
    return [
        parameter.name
        for parameter in kernel(module).params
        if not parameter.is_constexpr and not is_one(arguments[parameter.name])
    ]


def is_one(value: Any) -> bool:
    return type(value) is int and value == 1


def compile_triton(module: ModuleType, arguments: dict[str, Any], arch: str) -> Compiled:
    """Return the code object of a kernel for `arch`, such as gfx942.

    Specialised as a launch with these arguments would: integers of 1 are constants, integers that
    16 divides are said to be such; buffers start at multiples of 16 bytes, and span less than
    2 GiB. TYPES of the module, if any, says the element types of buffers that NumPy lacks, such as
    {"weight": "fp8e4nv"} for an array of uint8. The waves of OPTIONS have 64 lanes: on a GPU whose
    waves have 32, a work-group has twice as many waves, so as many work-items.
    """
    function = kernel(module)
    named = getattr(module, "TYPES", {})
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(function.params):
        name = parameter.name
        value = arguments[name]
        if parameter.is_constexpr or is_one(value):
            signature[name] = "constexpr"
            constants[name] = value
            continue
        known = []
        if isinstance(value, np.ndarray):
            signature[name] = "*" + named.get(name, TYPES[value.dtype.name])
            known.append(["tt.divisibility", 16])
            if value.nbytes <= LARGEST_RANGE:
                known.append(["tt.pointer_range", 32])
        else:
            signature[name] = named.get(name, scalar_type(value))
            if type(value) is int and value % 16 == 0:
                known.append(["tt.divisibility", 16])
        if known:
            attributes[(index,)] = known
    source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
    lanes = 32 if int(arch[3:-2]) >= 10 else 64
    options = {**module.OPTIONS, "num_warps": module.OPTIONS["num_warps"] * 64 // lanes}
    compiled = triton.compile(source, target=GPUTarget("hip", arch, lanes), options=options)
    local_bytes = compiled.metadata.shared
    return Compiled(compiled.asm["hsaco"], local_bytes, passed(module, arguments))
