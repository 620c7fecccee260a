"""Kernels from their source: OpenCL C by clang, Triton by its own compiler; their arguments."""

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError, pip_install
from mcage.files.inputs import MIB, read_regular
from mcage.plain_text import one_line, said_by, shortened, shown, shown_path
from mcage.traces.emulation.code_object import MOST_BYTES, run_tool, tool

MOST_SOURCE_BYTES = 4 * MIB
MOST_ELEMENTS = 1 << 28
"""Elements of an argument."""

_LIBRARY = "/usr/lib/clc/amdgcn--amdhsa.bc"
"""OpenCL's own functions for AMD GPUs, as Debian's libclc-19 installs them."""


@dataclass(frozen=True)
class Compiled:
    """A code object that was made or read.

    Attributes
    ----------
    content : bytes
        The ELF file.
    kernel : str or None
        Name of the kernel, where the source says it.
    names : list of str or None
        Names of its arguments in their order, where the code object does not say them.
    lds_bytes : int
        LDS that a launch adds to what the code object says.
    facts : dict of str to str
        Compiler, version and options.
    """

    content: bytes
    kernel: str | None = None
    names: list[str] | None = None
    lds_bytes: int = 0
    facts: dict[str, str] = field(default_factory=dict)


def compile_opencl(path: Path, arch: str, flags: list[str]) -> Compiled:
    """Compile OpenCL C with clang and link it.

    Parameters
    ----------
    path : Path
        The source; files beside it can be included.
    arch : str
        Processor, such as ``gfx90a``.
    flags : list of str
        Further options of clang.

    Raises
    ------
    UserError
        A tool is missing, or refuses the source; the message has the first line of its own.
    """
    clang, linker = tool("clang"), tool("ld.lld")
    read_regular(path, MOST_SOURCE_BYTES)
    options = [
        *("-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-x", "cl"),
        *("-cl-std=CL2.0", "-O3", "-ffast-math", "-cl-kernel-arg-info"),
    ]
    library = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", _LIBRARY, "-Wno-linker-warnings"]
    linked = library if Path(_LIBRARY).exists() else []
    with tempfile.TemporaryDirectory() as folder:
        compiled, code = f"{folder}/kernel.o", f"{folder}/kernel.co"
        with as_file(files("mcage") / "data" / "opencl" / "work_items.h") as header:
            status, _, errors = run_tool(
                [
                    *(clang, *options, "-include", str(header), *flags, *linked),
                    *("-c", str(path), "-o", compiled),
                ]
            )
        if status:
            raise UserError(f"{shown_path(path)}: clang refuses it: {_first_error(errors, path)}")
        status, _, errors = run_tool([linker, "-shared", "--no-undefined", compiled, "-o", code])
        if missing := re.search(r"undefined.*symbol: (\S+)", errors):
            remedy = "" if linked else "; it is a function of OpenCL's library"
            raise UserError(
                f"{shown_path(path)}: calls {missing[1]}, which is not there{remedy}",
                "" if linked else "apt install libclc-19",
            )
        if status:
            raise UserError(f"{shown_path(path)}: ld.lld refuses it: {_first_error(errors, path)}")
        content = Path(code).read_bytes()
    version = run_tool([clang, "--version"])[1].splitlines()[0]
    facts = {"compiler": version, "options": " ".join([*options, *flags])}
    if linked:
        facts["library"] = "libclc"
    return Compiled(content, facts=facts)


def _first_error(errors: str, path: Path) -> str:
    """The first line with an error, without the folder of the source."""
    lines = [line for line in errors.splitlines() if "error" in line] or errors.splitlines() or [""]
    return shortened(one_line(lines[0].replace(f"{path.parent}/", "")))


def read_source(path: Path) -> str:
    """Digest of a source, for the facts of a trace."""
    return hashlib.blake2b(read_regular(path, MOST_SOURCE_BYTES), digest_size=8).hexdigest()


def read_compiled(path: Path) -> Compiled:
    """Read a code object that was compiled elsewhere."""
    return Compiled(read_regular(path, MOST_BYTES), facts={"compiler": "not known: a code object"})


# Python files: of a kernel in Triton, or of arguments and a check.


def load_module(path: Path) -> ModuleType:
    """Import a user's Python file.

    Raises
    ------
    UserError
        It cannot be read, or raises an error; the message names file and error.
    """
    read_regular(path, MOST_SOURCE_BYTES)
    name = f"mcage_kernel_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{shown_path(path)}: is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if error.name == "triton":
            raise UserError(
                f"{shown_path(path)}: needs Triton, which is not installed", pip_install("triton")
            ) from error
        raise UserError(f"{shown_path(path)}: {said_by(error)}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"{shown_path(path)}: {shortened(said_by(error))}") from error
    finally:
        sys.dont_write_bytecode = before
    return module


def call(module: ModuleType, name: str, path: Path, *given: Any, **named: Any) -> Any:
    """Call a function of a user's file; whatever it raises is the user's to mend."""
    try:
        return getattr(module, name)(*given, **named)
    except (Exception, SystemExit) as error:
        raise UserError(f"{shown_path(path)}: {name}: {shortened(said_by(error))}") from error


_TRITON_TYPES = {
    **{"bool": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16"},
    **{"int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64"},
    **{"float16": "fp16", "float32": "fp32", "float64": "fp64"},
}
_REACH_OF_BUFFERS = 2**31 - 1


def compile_triton(
    module: ModuleType, path: Path, arguments: Mapping[str, Any], arch: str, lanes: int
) -> Compiled:
    """Compile a Triton kernel as a launch with these arguments would.

    Integers of 1 become part of the code, integers that 16 divides are said to be such, and buffers
    begin at multiples of 16 bytes and span less than 2 GiB. ``TYPES`` of the module says the types
    of elements that NumPy does not have: ``{"b": "fp8e4nv"}``. ``num_warps`` of its ``OPTIONS``
    counts waves of 64 lanes; of 32 lanes there are twice as many.

    Raises
    ------
    UserError
        Triton is missing or refuses the kernel, or an argument is missing.
    """
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise UserError("Triton is not installed", pip_install("triton")) from error
    place = shown_path(path)
    function = getattr(module, getattr(module, "KERNEL", path.stem), None)
    if not isinstance(function, triton.runtime.JITFunction):
        raise UserError(
            f'{place}: has no @triton.jit function {path.stem}; KERNEL = "name" names another'
        )
    named, options = getattr(module, "TYPES", {}), dict(getattr(module, "OPTIONS", {}))
    signature, constants, attributes, taken = {}, {}, {}, []
    for index, parameter in enumerate(function.params):
        name = parameter.name
        if name not in arguments:
            raise UserError(f"{place}: argument {name} of {function.__name__} is missing")
        value = arguments[name]
        if parameter.is_constexpr or (type(value) is int and value == 1):
            signature[name], constants[name] = "constexpr", value
            continue
        taken.append(name)
        known: list[list[Any]] = []
        if isinstance(value, np.ndarray):
            signature[name] = "*" + named.get(name, _TRITON_TYPES.get(value.dtype.name, "fp32"))
            known.append(["tt.divisibility", 16])
            if value.nbytes <= _REACH_OF_BUFFERS:
                known.append(["tt.pointer_range", 32])
        else:
            signature[name] = named.get(name) or _scalar_type(value)
            if type(value) is int and value % 16 == 0:
                known.append(["tt.divisibility", 16])
        if known:
            attributes[(index,)] = known
    options["num_warps"] = int(options.get("num_warps", 4)) * 64 // lanes
    try:
        source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
        with _quiet():
            made = triton.compile(source, target=GPUTarget("hip", arch, lanes), options=options)
        content, lds_bytes = made.asm["hsaco"], int(made.metadata.shared)
    except Exception as error:  # Triton raises errors of many kinds
        raise UserError(
            f"{place}: Triton refuses it for {arch}: {shortened(said_by(error))}"
        ) from error
    facts = {"compiler": f"Triton {triton.__version__}", "options": shown(options)}
    return Compiled(content, made.metadata.name, taken, lds_bytes, facts)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let nothing be printed to standard error, where Triton's compiler prints whole programs."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _scalar_type(value: Any) -> str:
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


# Arguments as text: x=f32[4096]~normal n=4096 a=2.5

_ARGUMENT = re.compile(r"(\w+)=(\S+)$")
_ARRAY = re.compile(r"([fiu]\d+)\[([\d,x]+)\](?:~(\w+)(?:\(([^)]*)\))?)?$")
_DTYPES = {
    **{"f16": np.float16, "f32": np.float32, "f64": np.float64},
    **{"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64},
    **{"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64},
}
_DRAWN = (
    "normal, normal(MEAN,DEVIATION), uniform(LOW,HIGH), integers(LOW,HIGH), index, ones or zeros"
)


def arguments_from_text(text: str, random: np.random.Generator) -> dict[str, Any]:
    """Arguments from a text such as ``x=f32[4096]~normal n=4096 a=2.5 t=@table.npy``.

    Raises
    ------
    UserError
        The text is not of this form; the message names the argument.
    """
    arguments: dict[str, Any] = {}
    for part in text.split():
        match = _ARGUMENT.match(part)
        if not match:
            raise UserError(f"--args {shortened(part)}: must be NAME=VALUE")
        name, value = match[1], match[2]
        if name in arguments:
            raise UserError(f"--args {name}: is there twice")
        arguments[name] = _argument(name, value, random)
    return arguments


def _argument(name: str, text: str, random: np.random.Generator) -> Any:
    if text.startswith("@"):
        return _array_of_file(name, Path(text[1:]))
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        pass
    match = _ARRAY.match(text)
    if not match or match[1] not in _DTYPES:
        raise UserError(
            f"--args {name}: {shortened(text)} must be a number, @FILE.npy, or TYPE[N]~HOW, as "
            f"f32[4096]~normal; HOW is {_DRAWN}"
        )
    shape = tuple(int(part) for part in re.split("[,x]", match[2]) if part)
    if not shape or not 0 < int(np.prod(shape, dtype=object)) <= MOST_ELEMENTS:
        raise UserError(f"--args {name}: must have 1 ... {MOST_ELEMENTS:,} elements")
    return _drawn(name, match[1], shape, match[3] or "zeros", match[4], random)


def _drawn(
    name: str,
    kind: str,
    shape: tuple[int, ...],
    how: str,
    bounds: str | None,
    random: np.random.Generator,
) -> NDArray[Any]:
    dtype = _DTYPES[kind]
    try:
        numbers = [float(part) for part in bounds.split(",")] if bounds else []
        if how == "normal":
            mean, deviation = numbers or (0.0, 1.0)
            drawn: Any = random.normal(mean, deviation, shape)
        elif how == "uniform":
            low, high = numbers or (0.0, 1.0)
            drawn = random.uniform(low, high, shape)
        elif how == "integers":
            first, end = (int(number) for number in numbers)
            drawn = random.integers(first, end, shape)
        elif how == "index" and not numbers:
            drawn = np.arange(int(np.prod(shape))).reshape(shape)
        elif how in ("ones", "zeros") and not numbers:
            drawn = np.full(shape, int(how == "ones"))
        else:
            raise ValueError(f"{how} is not known")
    except (TypeError, ValueError) as error:
        raise UserError(f"--args {name}: {shortened(said_by(error))}; HOW is {_DRAWN}") from error
    return np.asarray(drawn).astype(dtype)


def _array_of_file(name: str, path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"--args {name}: cannot read {shown_path(path)}: {said_by(error)}"
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise UserError(f"--args {name}: {shown_path(path)} holds no array of numbers")
    return array
