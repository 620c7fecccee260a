"""Kernels from their source: OpenCL C by clang, Triton by its own compiler; their arguments."""

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError, pip_install
from mcage.files.inputs import MIB, array_of_npy, read_regular
from mcage.plain_text import one_line, said_by, shortened, shown, shown_path
from mcage.tracing.emulation.code_object import MOST_BYTES, Argument, run_tool, tool
from mcage.tracing.emulation.memory import MOST_BYTES as MOST_MEMORY
from mcage.tracing.emulation.program import require_allowed

MOST_SOURCE_BYTES = 4 * MIB
MOST_ELEMENTS = 1 << 26
"""Elements of all arguments that a text describes."""

_LONGEST_ERROR = 200
"""Characters that are shown of what a compiler or a user's file says."""

_LIBRARY = "/usr/lib/clc/amdgcn--amdhsa.bc"
"""OpenCL's own functions for AMD GPUs, as Debian's libclc-19 installs them."""

_NEWER = "-cl-std=CL2.0"


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
    types : dict of str to list of str
        For each kernel: types of its arguments in their order, as far as the source says them. A
        code object alone has names of types, which hide what they stand for.
    lds_bytes : int
        LDS that a launch adds to what the code object says.
    facts : dict of str to str
        Compiler, version and options.
    sources : Sources or None
        What it was compiled from, where it is known better than by the name of a file.
    """

    content: bytes
    kernel: str | None = None
    names: list[str] | None = None
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lds_bytes: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    sources: "Sources | None" = None


DIGEST_BYTES = 16
"""Bytes of digests of what a kernel is made of, as of `mcage.traces.model.Trace.digest`."""


@dataclass(frozen=True)
class Sources:
    """Files of a source as they were before it was compiled.

    Attributes
    ----------
    paths : tuple of Path
        The source, and behind it what it includes, but for what comes with compilers and mcage.
    digest : str
        Hash of the file, as ``b2sum -l 128`` prints it; of several files that of their hashes.
    """

    paths: tuple[Path, ...]
    digest: str

    @classmethod
    def read(cls, *paths: Path) -> "Sources":
        """Read the files.

        Raises
        ------
        UserError
            One of them cannot be read.
        """
        first, *others = (content_digest(read_regular(path, MOST_BYTES)) for path in paths)
        return cls(paths, content_digest("".join([first, *others]).encode()) if others else first)

    def require_unchanged(self, place: str) -> None:
        """Refuse a source of which nobody knows what was compiled.

        Raises
        ------
        UserError
            A file has changed since; the message begins with the place.
        """
        if Sources.read(*self.paths) != self:
            raise UserError(f"{place}: the source has changed while it was compiled: run it again")


def content_digest(content: bytes) -> str:
    """Hash of a content in hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def compile_opencl(path: Path, arch: str, flags: list[str]) -> Compiled:
    """Compile OpenCL C with clang and link it, as an OpenCL driver does by default.

    That is OpenCL C 1.2, optimised (-O3), with the arithmetic that clang has for OpenCL:
    multiplications and additions of an expression are contracted, subnormal numbers are kept, a
    division of float is right within 2.5 ulp (OpenCL C 1.2, sections 5.6.4 and 7.4). libclc has no
    functions for the generic pointers of OpenCL C 2.0.

    Parameters
    ----------
    path : Path
        The source; files beside it can be included.
    arch : str
        Processor, such as ``gfx90a``.
    flags : list of str
        Further options of clang; of options that contradict each other the last one holds.

    Raises
    ------
    UserError
        An option is not allowed, a tool is missing, or refuses the source; the message has the
        first line of its own.
    """
    require_allowed("flags", flags)
    clang, linker = tool("clang"), tool("ld.lld")
    read_regular(path, MOST_SOURCE_BYTES)
    path, place = path.absolute(), shown_path(path)  # no name that is taken for an option
    target = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib"]
    options = [*target, "-x", "cl", "-cl-std=CL1.2", "-O3", "-cl-kernel-arg-info"]
    has_library = Path(_LIBRARY).exists()
    linked = [*_linking(_LIBRARY), "-Wno-linker-warnings"] if has_library else []
    asked = [flag for flag in flags if re.match("-cl-std=(?!cl1)", flag, re.IGNORECASE)][-1:]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as shipped:
        compiled, code = f"{folder}/kernel.o", f"{folder}/kernel.co"
        listing, module = f"{folder}/files", f"{folder}/kernel.ll"
        link = [linker, "-shared", "--no-undefined", compiled]
        front = ["-MD", "-MF", listing, "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"]
        headers: list[Path] = []
        data, local = files("mcage") / "data" / "opencl", f"{folder}/local.bc"
        for name in ("work_items.h", "groups.h"):
            headers.append(shipped.enter_context(as_file(data / name)))
            included = [word for each in headers for word in ("-include", str(each))]
            command = [clang, *options, "-fno-crash-diagnostics", *included, *flags, str(path)]
            if len(headers) > 1:
                source = shipped.enter_context(as_file(data / "local_memory.c"))
                run_tool(
                    [clang, *target, "-O3", "-emit-llvm", "-c", str(source), "-o", local], place
                )
                linked = [*linked, *_linking(local)]
            status, _, errors = run_tool([*command, *front, "-o", module], place)
            unread = status
            if not status:
                sources = Sources.read(*_listed(read_regular(listing, MIB), headers))
                types = _types(read_regular(module, MOST_BYTES).decode(errors="replace"))
                status, _, errors = run_tool([*command, *linked, "-c", "-o", compiled], place)
            unlinked = status
            if not status:
                sources.require_unchanged(place)
                status, _, errors = run_tool([*link, "-o", code], place)
            if not status or not _IN_GROUPS.search(errors):
                break
        if not unlinked and "undefined" in errors:
            options += _WITHOUT_UNCALLED
            unlinked, _, errors = run_tool(
                [*command, *linked, *_WITHOUT_UNCALLED, "-c", "-o", compiled], place
            )
            sources.require_unchanged(place)
            if not unlinked:
                status, _, errors = run_tool([*link, "-o", code], place)
        for names, what in _NOT_EMULATED if status else ():
            if re.search(rf"(undeclared identifier '|symbol: )_*({names})", errors):
                raise UserError(f"{place}: uses {what}, which mcage does not emulate")
        if unlinked:
            newer, again = "", [*command, _NEWER, "-fsyntax-only"]
            if unread and not asked and not run_tool(again, place)[0]:
                newer = f"; it is OpenCL C 2.0: --flags={_NEWER}"
            raise UserError(f"{place}: clang refuses it: {_first_error(errors, path)}{newer}")
        if missing := re.search(r"undefined.*symbol: (.+)", errors):
            remedy = "nothing defines; OpenCL's own functions are in libclc"
            if has_library:
                remedy = "neither the source nor libclc defines"
                if asked:
                    remedy += f"; libclc is of OpenCL C 1.2: leave {asked[0]} out"
            raise UserError(
                f"{place}: calls {shown(missing[1], _LONGEST_ERROR)}, which {remedy}",
                "" if has_library else "apt install libclc-19",
            )
        if status:
            raise UserError(f"{place}: ld.lld refuses it: {_first_error(errors, path)}")
        content = read_regular(code, MOST_BYTES)
    version = run_tool([clang, "--version"])[1].splitlines()[0]
    facts = {"compiler": version, "options": " ".join([*options, *flags])}
    if has_library:
        facts["library"] = "libclc"
    return Compiled(content, types=types, facts=facts, sources=sources)


_WITHOUT_UNCALLED = ("-mllvm", "-amdgpu-internalize-symbols")
"""Leaves out functions that no kernel calls, and what these would need."""


def _linking(bitcode: str) -> list[str]:
    """Options of clang that take functions from a file where a source uses them."""
    return ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", bitcode]


_IN_GROUPS = re.compile(
    r"(?:undeclared identifier '|symbol: )(?:\w*sub_group|get_\w+_linear_id|ctz|atomic_"
    r"|work_group_|wait_group_|mad_hi)"
)
"""Errors of a source that needs `groups.h`: it includes no header that it could do without."""

_NOT_EMULATED = (
    ("printf", "printf"),
    ("read_image|write_image|get_image|translate_sampler", "images or samplers"),
    (r"\w+_pipe", "pipes"),
    ("enqueue_|get_default_queue|ndrange_|get_kernel_", "device-side enqueue"),
)
"""Functions of a runtime, and what they are."""

_OF_THE_COMPILER = "opencl-c-base.h"


def _listed(rule: bytes, headers: Sequence[Path]) -> list[Path]:
    """Files of a rule for make, as clang writes it; none of mcage and of the compiler itself."""
    words = re.findall(r"(?:\\[ #]|\S)+", os.fsdecode(rule).replace("\\\n", " "))[1:]
    paths = [Path(re.sub(r"\\([ #])", r"\1", word).replace("$$", "$")) for word in words]
    shipped = {path.parent for path in paths if path.name == _OF_THE_COMPILER}
    return [path for path in paths if path not in headers and path.parent not in shipped]


_KERNEL = re.compile(r"define .*?\bamdgpu_kernel .*?@(\w+)\(.*!kernel_arg_base_type (!\d+)")
_LIST = re.compile(r"(!\d+) = !\{(.*)\}")
_VECTOR = re.compile(r"(\w+) __attribute__\(\(ext_vector_type\((\d+)\)\)\)")


def _types(module: str) -> dict[str, list[str]]:
    """Types of the arguments of each kernel of a module of LLVM, as OpenCL C has them."""
    lists = {match[1]: match[2] for match in map(_LIST.match, module.splitlines()) if match}
    structures = set(re.findall(r"^%(?:struct|union)\.(\w+) = type", module, re.MULTILINE))
    types = {}
    for match in _KERNEL.finditer(module):
        names = re.findall(r'!"([^"]*)"', lists[match[2]])
        types[match[1]] = [
            f"struct {name}" if name in structures else _VECTOR.sub(r"\1\2", name) for name in names
        ]
    return types


def _first_error(errors: str, path: Path) -> str:
    """The first line with an error, without the folder of the source."""
    lines = [line for line in errors.splitlines() if "error" in line] or errors.splitlines()
    lines = lines or ["without a word"]
    return shown(one_line(lines[0].replace(f"{path.parent}/", "")), _LONGEST_ERROR)


# Python files: of a kernel in Triton, or of arguments and a check.


class PythonFile:
    """A user's Python file, imported; what its code raises is the user's to mend.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    UserError
        It cannot be read, or raises an error; the message names file and error. So do the methods.
    """

    def __init__(self, path: Path) -> None:
        read_regular(path, MOST_SOURCE_BYTES)
        self.place, self.stem = shown_path(path), path.stem
        name = f"mcage_kernel_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{self.place}: is no Python file; its name must end in .py")
        self._module = sys.modules[name] = importlib.util.module_from_spec(spec)
        before = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        try:
            with _code_of(self.place):
                spec.loader.exec_module(self._module)
        except UserError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and cause.name == "triton":
                raise UserError(
                    f"{self.place}: needs Triton, which is not installed", pip_install("triton")
                ) from error
            raise
        finally:
            sys.dont_write_bytecode = before

    def value(self, name: str, default: Any = None) -> Any:
        """Return what the file has under a name; it may have a ``__getattr__``."""
        with _code_of(f"{self.place}: {name}"):
            return getattr(self._module, name, default)

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a dict that the file has under a name; an empty one if it has none."""
        if not isinstance(table := self.value(name, {}), dict):
            raise UserError(f"{self.place}: {name} is {shortened(table)}, must be a dict")
        return table

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a function; a dict that it returns is copied, which runs code of the user, too."""
        with _code_of(f"{self.place}: {name}"):
            made = getattr(self._module, name)(*arguments, **named)
            return dict(made) if isinstance(made, dict) else made

    @property
    def warps(self) -> int:
        """Waves of 64 lanes of a work-group of a Triton kernel, as its ``OPTIONS`` say."""
        warps = self.table("OPTIONS").get("num_warps", 4)
        if type(warps) is not int or not 1 <= warps <= 16:
            raise UserError(f"{self.place}: num_warps is {shortened(warps)}, must be 1 ... 16")
        return warps


@contextmanager
def _code_of(place: str) -> Iterator[None]:
    """Turn all that a user's code raises, but Ctrl-C, into its error; its output goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):  # standard output is what mcage itself says
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UserError(f"{place}: {_said_by(error)}") from error


def _said_by(error: BaseException) -> str:
    return shown(said_by(error), _LONGEST_ERROR)


_TRITON_TYPES = {
    **{"bool": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16"},
    **{"int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64"},
    **{"float16": "fp16", "float32": "fp32", "float64": "fp64"},
}
_TYPES_OF_TRITON = {
    **{"i1": "bool", "u1": "bool", "i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort"},
    **{"i32": "int", "u32": "uint", "i64": "long", "u64": "ulong"},
    **{"fp16": "half", "fp32": "float", "fp64": "double"},
}
_REACH_OF_BUFFERS = 2**31 - 1


def compile_triton(
    file: PythonFile, arguments: Mapping[str, Any], arch: str, lanes: int, entry: str | None = None
) -> Compiled:
    """Compile a Triton kernel as a launch with these arguments would.

    Integers of 1 and None become part of the code, integers that 16 divides are said to be such,
    and buffers begin at multiples of 16 bytes and span less than 2 GiB. ``TYPES`` of the file
    says the types of elements that NumPy does not have: ``{"b": "fp8e4nv"}``. ``num_warps`` of its
    ``OPTIONS`` counts waves of 64 lanes; of 32 lanes there are twice as many. A kernel below
    ``@triton.autotune`` or ``@triton.heuristics`` is taken as it is, without their choices.

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
    place = file.place
    wanted = entry or str(file.value("KERNEL", file.stem))
    function = file.value(wanted)
    while isinstance(function, triton.runtime.Autotuner | triton.runtime.Heuristics):
        function = function.fn
    if not isinstance(function, triton.runtime.JITFunction):
        raise UserError(
            f"{place}: has no @triton.jit function {shown(wanted)}; --entry or KERNEL names another"
        )
    named, options = file.table("TYPES"), dict(file.table("OPTIONS"))
    signature, constants, attributes, taken = {}, {}, {}, []
    for index, parameter in enumerate(function.params):
        name = parameter.name
        if name not in arguments:
            raise UserError(f"{place}: argument {name} of {function.__name__} is missing")
        value = arguments[name]
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
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
            signature[name] = named.get(name) or _scalar_type(value, f"{place}: argument {name}")
            if type(value) is int and value % 16 == 0:
                known.append(["tt.divisibility", 16])
        if known:
            attributes[(index,)] = known
    options["num_warps"] = file.warps * 64 // lanes
    with _quiet() as printed:
        try:
            source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
            made = triton.compile(source, target=GPUTarget("hip", arch, lanes), options=options)
            content, lds_bytes = made.asm["hsaco"], int(made.metadata.shared)
        except Exception as error:  # Triton raises errors of many kinds
            said = re.search(r"\berror: (.+)", printed())
            why = shown(said[1], _LONGEST_ERROR) if said else _said_by(error)
            raise UserError(f"{place}: Triton refuses it for {arch}: {why}") from error
    facts = {"compiler": f"Triton {triton.__version__}", "options": shown(options)}
    name, types = made.metadata.name, [_TYPES_OF_TRITON.get(signature[n], "") for n in taken]
    return Compiled(content, name, taken, {name: types}, lds_bytes, facts)


@contextmanager
def _quiet() -> Iterator[Callable[[], str]]:
    """Keep what is printed to standard error, where Triton's compiler prints whole programs.

    Yields
    ------
    callable
        Returns what has been printed so far, or its first mebibyte.
    """
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)

        def printed() -> str:
            kept.seek(0)
            return kept.read(MIB).decode(errors="replace")

        try:
            yield printed
        finally:
            os.dup2(before, 2)
            os.close(before)


def _scalar_type(value: Any, name: str) -> str:
    if isinstance(value, bool | np.bool_):
        return "u1"
    if isinstance(value, float | np.floating):
        return "fp32"
    if not isinstance(value, int | np.integer):
        raise UserError(f"{name} is {shortened(value)}, must be an array or a number")
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def checked_arguments(arguments: Mapping[Any, Any], place: str) -> dict[str, Any]:
    """Arguments whose arrays lie in memory as kernels read them.

    Parameters
    ----------
    arguments : mapping
        Arrays and other values by name.
    place : str
        How errors begin.

    Raises
    ------
    UserError
        A name is no text, or an array holds no numbers or too many.
    """
    checked: dict[str, Any] = {}
    left = MOST_MEMORY
    for name, value in arguments.items():
        if not isinstance(name, str):
            raise UserError(f"{place}: argument {shortened(name)}: its name must be text")
        if isinstance(value, np.ndarray):
            left -= value.nbytes
            if value.dtype.kind not in "fiubcV" or value.dtype.hasobject:
                raise UserError(
                    f"{place}: argument {shown(name)} holds {shown(value.dtype)}, must hold numbers"
                )
            if left < 0:
                raise UserError(f"{place}: arrays of more than {MOST_MEMORY // MIB:,} MiB together")
            value = np.asarray(value)  # itself, since two names may have one array
            if not value.dtype.isnative:
                value = value.astype(value.dtype.newbyteorder("="))
        checked[name] = value
    return checked


# Arguments as text: x=f32[4096]~normal n=4096 a=2.5

_ARGUMENT = re.compile(r"(\w+)=(\S+)$")
_NUMBER = re.compile(r"([fiu]\d+)\(([^()]*)\)$")
_ARRAY = re.compile(r"([fiu]\d+)\[([\d,x]+)\](?:~(\w+)(?:\(([^)]*)\))?)?$")
_DTYPES = {
    f"{kind}{8 * size}": np.dtype(f"{kind}{size}").type
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
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
    left = MOST_ELEMENTS
    for part in text.split():
        match = _ARGUMENT.match(part)
        if not match:
            raise UserError(f"--args {shortened(part)}: must be NAME=VALUE")
        name, value = match[1], match[2]
        if name in arguments:
            raise UserError(f"--args {shown(name)}: is there twice")
        arguments[name] = _argument(shown(name), value, random, left)
        left -= np.size(arguments[name])
    return arguments


def _argument(name: str, text: str, random: np.random.Generator, most: int) -> Any:
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
    if text == "None":
        return None
    match = _NUMBER.match(text)
    if match and match[1] in _DTYPES:
        return _number(name, _DTYPES[match[1]], match[2])
    match = _ARRAY.match(text)
    if not match or match[1] not in _DTYPES:
        raise UserError(
            f"--args {name}: {shortened(text)} must be a number, TYPE(NUMBER), None, @FILE.npy, or "
            f"TYPE[N]~HOW, as f32[4096]~normal; HOW is {_DRAWN}"
        )
    parts = [part for part in re.split("[,x]", match[2]) if part]
    shape = tuple(int(part[:12]) for part in parts)
    if not 1 <= len(shape) <= 32 or not 0 < prod(shape) <= most:
        raise UserError(
            f"--args {name}: must have 1 ... 32 dimensions; all arrays together have 1 ... "
            f"{MOST_ELEMENTS:,} elements"
        )
    return _drawn(name, match[1], shape, match[3] or "zeros", match[4], random)


def _number(name: str, dtype: Any, text: str) -> Any:
    """A number of a type, as ``f32(2)``."""
    try:
        if np.dtype(dtype).kind == "f":
            with np.errstate(over="raise"):
                return dtype(float(text))
        return dtype(int(text, 0))
    except (ValueError, OverflowError, FloatingPointError) as error:
        raise UserError(f"--args {name}: {_said_by(error)}") from error


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
            return np.full(shape, how == "ones", dtype)
        else:
            raise ValueError(f"{how} is not known")
        return _converted(np.asarray(drawn), dtype)
    except (TypeError, ValueError, OverflowError, FloatingPointError) as error:
        raise UserError(f"--args {name}: {_said_by(error)}; HOW is {_DRAWN}") from error


def _converted(drawn: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Numbers as another type, whose fractions are cut off where it has none."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="raise"):
            return drawn.astype(dtype)
    info = np.iinfo(dtype)
    least, most = drawn.min(), drawn.max()
    if not (least >= info.min and most <= info.max):
        raise ValueError(f"{least:.6g} ... {most:.6g} do not fit into {np.dtype(dtype)}")
    return drawn.astype(dtype)


def _array_of_file(name: str, path: Path) -> NDArray[Any]:
    """Numbers of a NumPy file."""
    place = f"--args {name}: {shown_path(path)}"
    try:
        array = array_of_npy(read_regular(path, MOST_MEMORY))
    except ValueError as error:
        raise UserError(f"{place} is no NumPy file (.npy) of numbers: {error}") from error
    if array.dtype.kind not in "fiubV":
        raise UserError(f"{place} holds no array of numbers")
    return array


# Values of arguments as the bytes that a kernel reads, by the types of its parameters. Types are
# what they stand for: ``float`` where a source says ``real``. A code object alone may not say that;
# a value whose type nobody knows must bring its own bytes.


_SCALARS = {
    **{"half": "f2", "float": "f4", "double": "f8", "bool": "i1", "char": "i1", "uchar": "i1"},
    **{"short": "i2", "ushort": "i2", "int": "i4", "uint": "i4", "long": "i8", "ulong": "i8"},
    **{"size_t": "i8", "unsigned char": "i1", "unsigned short": "i2", "unsigned int": "i4"},
    **{"unsigned long": "i8"},
}
"""Kind and bytes of numbers, of whatever sign."""


def described(argument: Argument) -> str:
    """Kind of an argument, in a word or two."""
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
        float_too = f" or np.float{8 * size}(...)" if size > 1 else ""
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
                return np.array(value, element).tobytes()
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            return fitting(int(value), argument)
    except (OverflowError, FloatingPointError):
        pass
    raise UserError(f"{name} is {shortened(value)}, which does not fit into {size} bytes")


def fitting(number: int, argument: Argument) -> bytes:
    """A number in the bytes of an argument; those that are too high are left out."""
    return (number & (1 << 8 * argument.size) - 1).to_bytes(argument.size, "little")
