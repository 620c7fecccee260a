"""What the CUDA kernels take of a GPU, as NVIDIA's compiler tells: registers, memory, spills.

    python scripts/benchmarks/gpu/kernel_resources.py [--all] [architecture ...]

Prints a Markdown table for the oldest architecture of each generation (75 is sm_75), for those
named, or for all. It needs no GPU and no driver, only the compiler: ``pip install
nvidia-cuda-nvrtc``. Exit code 1: a kernel spills or has a stack.
"""

import ctypes
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import chain

from mcage.version import kernel_text

_WHEELS = {
    13: ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13"),
    12: ("nvidia-cuda-nvrtc-cu12",),
}
"""Of each version of CUDA, the newest first."""
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


class NvrtcError(Exception):
    """The compiler is missing or refuses; the message has its log."""


@dataclass(frozen=True)
class Resources:
    """What one kernel takes; bytes of stack and spills are those of a thread.

    Attributes
    ----------
    kernel : str
        Its name.
    registers : int
        Of a thread.
    shared_bytes : int
        Shared memory of a block, without what a launch adds.
    stack_bytes, spill_bytes : int
        Local memory of the kernel and the functions that it calls; bytes of its spills' stores
        and loads.
    """

    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def architectures(cuda: int | None = None) -> list[int]:
    """Architectures that the compiler knows, 75 for sm_75, oldest first.

    Parameters
    ----------
    cuda : int, optional
        Version of CUDA; by default the newest that is installed.
    """
    nvrtc = _nvrtc(cuda)
    count = ctypes.c_int()
    _check(nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(nvrtc.nvrtcGetSupportedArchs(numbers))
    return sorted(numbers)


def oldest_of_generations() -> list[int]:
    """The first architecture of each generation: 75, 80, 90 ..."""
    oldest: dict[int, int] = {}
    for architecture in architectures():
        oldest.setdefault(architecture // 10, architecture)
    return list(oldest.values())


def compile_kernels(
    text: str,
    name: str,
    architecture: int,
    cuda: int | None = None,
) -> tuple[bytes, list[Resources]]:
    """CUBIN of a source and what each of its kernels takes.

    Parameters
    ----------
    text : str
        CUDA C++.
    name : str
        What the compiler's messages call it, where the text does not say so.
    architecture : int
        75 for sm_75.
    cuda : int, optional
        As for `architectures`.
    """
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17", "--ptxas-options=-v"]
    options.append("--fmad=false")  # as where they run
    with _compiled(text, name, options, cuda) as (nvrtc, program, log):
        return _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), _resources(log)


def compile_to_ptx(
    text: str, name: str, options: Sequence[str], architecture: int, cuda: int | None = None
) -> str:
    """PTX of a source, as NVRTC makes it on the way to machine code.

    Parameters
    ----------
    text, name, architecture, cuda
        As for `compile_kernels`.
    options : sequence of str
        All but the architecture.
    """
    options = [f"--gpu-architecture=compute_{architecture}", *options]
    with _compiled(text, name, options, cuda) as (nvrtc, program, _):
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    return ptx.rstrip(b"\0").decode()


@contextmanager
def _compiled(
    text: str, name: str, options: Sequence[str], cuda: int | None
) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p, str]]:
    """The compiler, a program that it has compiled, and what it said of it."""
    nvrtc = _nvrtc(cuda)
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), name.encode(), 0, None, None
    )
    _check(made)
    before = _use_locale(None)
    try:
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        refused = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode()
        if refused:
            raise NvrtcError(f"{name} with {options[0]}:\n{log}")
        yield nvrtc, program, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        _use_locale(before)


def _use_locale(new: int | None) -> int | None:
    """Set the locale of this thread, which CUDA 12's compiler does not give back; the old one."""
    use = ctypes.CDLL(None).uselocale
    use.argtypes, use.restype = [ctypes.c_void_p], ctypes.c_void_p
    old: int | None = use(new)
    return old


def _resources(log: str) -> list[Resources]:
    """Resources of the kernels, by their order in the log of ``ptxas -v``."""
    resources = []
    for part in log.split("Compiling entry function ")[1:]:
        used = _USED.search(part)
        if not used:
            raise NvrtcError(f"no registers in the compiler's log:\n{log}")
        functions = [tuple(map(int, numbers)) for numbers in _STACK.findall(part)]
        stack, stores, loads = (sum(numbers) for numbers in zip(*functions, strict=True))
        kernel, registers, shared = part.split("'")[1], int(used[1]), int(used[2] or 0)
        resources.append(Resources(kernel, registers, shared, stack, stores + loads))
    if not resources:
        raise NvrtcError(f"no kernel in the compiler's log:\n{log}")
    return resources


@cache
def _nvrtc(cuda: int | None = None) -> ctypes.CDLL:
    return ctypes.CDLL(path_of_compiler(cuda))


def path_of_compiler(cuda: int | None = None) -> str:
    """Path of NVRTC's library.

    Parameters
    ----------
    cuda : int, optional
        As for `architectures`.

    Raises
    ------
    NvrtcError
        If it is not installed.
    """
    for wheel in _WHEELS[cuda] if cuda else chain(*_WHEELS.values()):
        try:
            files = metadata.files(wheel) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if re.match(r"libnvrtc\.so\.\d+$|nvrtc64_\d+_0\.dll$", file.name):
                return str(file.locate())
    what = f"nvidia-cuda-nvrtc-cu{cuda}" if cuda else "nvidia-cuda-nvrtc"
    raise NvrtcError(f"no NVRTC: pip install {what}")


def _text(size_of: Callable[..., int], get: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(get(program, buffer))
    return buffer.raw


def _check(status: int) -> None:
    if status:
        _nvrtc().nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NvrtcError(_nvrtc().nvrtcGetErrorString(status).decode())


def _rows(chosen: list[int]) -> Iterator[tuple[str, bool]]:
    """Lines of the table, and whether all kernels of a line do without local memory."""
    from mcage.engines.cuda_engine.programs import compilations

    yield "| kernel | constants | " + " | ".join(f"sm_{number}" for number in chosen) + " |", True
    yield "|---|---|" + "---|" * len(chosen), True
    for source, constants in compilations():
        text = kernel_text(source, constants)
        compiled = [compile_kernels(text, source, number)[1] for number in chosen]
        given = ", ".join(f"{key}={value}" for key, value in constants.items())
        for name in sorted({kernel.kernel for kernel in compiled[0]}):
            kernels = [kernel for resources in compiled for kernel in resources]
            of_name = [kernel for kernel in kernels if kernel.kernel == name]
            local = [kernel.stack_bytes + kernel.spill_bytes for kernel in of_name]
            cells = [
                f"{kernel.registers} / {kernel.shared_bytes} / {local_bytes}"
                for kernel, local_bytes in zip(of_name, local, strict=True)
            ]
            yield f"| `{source}` `{name}` | {given} | " + " | ".join(cells) + " |", not any(local)


def main() -> None:
    if sys.argv[1:] == ["--all"]:
        chosen = architectures()
    else:
        chosen = [int(text) for text in sys.argv[1:]] or oldest_of_generations()
    print(
        "Registers of a thread / bytes of shared memory of a block / bytes of stack and spills.\n"
    )
    without_local_memory = True
    for row, good in _rows(chosen):
        print(row, flush=True)
        without_local_memory &= good
    sys.exit(not without_local_memory)


if __name__ == "__main__":
    main()
