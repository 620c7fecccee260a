"""From a CUDA source to a library of the host, kept in a cache from run to run."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from kept_folders import kept_folder

HEADERS = Path(__file__).parent
_LANGUAGE = ["-std=c++17", "-fsigned-char"]
_CHECKS = "bounds,shift-exponent,signed-integer-overflow,integer-divide-by-zero,alignment,return"
_OPTIONS = [
    "-Og",  # half the time of -O2 to compile, for kernels that run for a moment
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fstack-clash-protection",
    "-w",
    f"-fsanitize={_CHECKS}",
]
_RACES = ["-fsanitize=thread", "--param", "tsan-distinguish-volatile=1", "-g1"]
"""Let kernels tell of every access to memory, and where it is in the source."""
_DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\w+\s*\)\s*)?"
    r"([\w:\s]+?)\s*\b(\w+)\s*\[\s*\]"
)


class CompileError(Exception):
    """The source is not what the shim takes for CUDA C++; the message is the compiler's."""


def host_compiler():
    """Path of a C++ compiler; None if there is none, or none whose libraries we can load."""
    return shutil.which(os.environ.get("CXX", "g++")) if sys.platform == "linux" else None


needs_host_compiler = pytest.mark.skipif(
    not host_compiler(), reason="no C++ compiler of Linux (g++, or what CXX names)"
)


def compile_kernels(text, name, folder, constants, architecture, races=False):
    """Path of the library with the kernels of a source.

    Parameters
    ----------
    text : str
        CUDA C++.
    name : str or path
        What messages call the source.
    folder : path
        Where its relative includes are.
    constants : mapping of str to int
        Macros, as by ``-D``.
    architecture : int
        Value of ``__CUDA_ARCH__`` over 10.
    races : bool
        Whether every access to memory is looked at.
    """
    compiler = host_compiler()
    if not compiler:
        raise CompileError("no C++ compiler: install g++ or set CXX")
    macros = {**constants, "__CUDA_ARCH__": 10 * architecture, "__CUDACC_RTC__": 1}
    defines = tuple(f"-D{key}={value}" for key, value in macros.items())
    return _library(compiler, text, name, folder, defines, tuple(_RACES) if races else ())


@cache  # within a process: the files that a source includes stay as they are meanwhile
def _library(compiler, text, name, folder, defines, more):
    preprocess = [compiler, *_LANGUAGE, "-E", "-x", "c++", *defines, f"-I{folder}", "-"]
    source = _host_source(_run(preprocess, f'#line 1 "{name}"\n{text}'))
    shared = _compiled_once(compiler, more)
    digest = hashlib.sha256(source.encode() + shared.name.encode()).hexdigest()[:24]
    library = _cache() / f"{Path(name).stem}-{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            made = Path(scratch, "kernels.o"), Path(scratch, "kernels.so")
            headers = [f"-I{shared}", f"-I{HEADERS}"]
            compiling = [compiler, *_LANGUAGE, *_OPTIONS, *more, *headers, "-x", "c++", "-"]
            _run([*compiling, "-c", "-o", str(made[0])], source)
            # Apart, so that the library of -fsanitize, which ends the process, stays out.
            _run([compiler, "-shared", "-o", *map(str, (made[1], made[0], shared / "fibers.o"))])
            made[1].replace(library)  # at once: another process may be doing the same
    return library


@cache
def _compiled_once(compiler, more):
    """Folder with what all libraries share: the fibers, and the headers read by the compiler."""
    digest = hashlib.sha256(_version(Path(compiler).resolve()).encode())
    for part in sorted([*HEADERS.glob("*.h"), *HEADERS.glob("*.cpp")]):
        digest.update(part.read_bytes())
    digest.update(repr([*_OPTIONS, *more]).encode())
    folder = _cache() / f"shared-{digest.hexdigest()[:24]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            for source, result, options in (
                ("fibers.cpp", "fibers.o", ["-O2", "-c"]),
                ("cuda_shim.h", "cuda_shim.h.gch", [*more, "-x", "c++-header"]),
            ):
                compiling = [compiler, *_LANGUAGE, *_OPTIONS, *options]
                _run([*compiling, "-o", str(made / result), str(HEADERS / source)])
            with suppress(OSError):  # another process has done the same
                made.rename(folder)
    return folder


def _host_source(preprocessed):
    kernels = _kernels(preprocessed)
    body = _DYNAMIC_SHARED.sub(r"HOST_GPU_DYNAMIC_SHARED(\1, \2)", preprocessed)
    table = "".join(f"HOST_GPU_KERNEL({name}, {most}),\n" for name, most in kernels)
    # Without a name, the namespace gives nothing to the linker and hides nothing of the host's.
    return (
        f'#include "cuda_shim.h"\nnamespace {{\n{body}\n}}\n#include "launch.h"\nnamespace {{\n'
        f"const host_gpu::Kernel kernels[] = {{\n{table}}};\n}}\nHOST_GPU_LIBRARY(kernels)\n"
    )


def _kernels(preprocessed):
    """Names of the ``extern "C" __global__`` functions and the most threads of their blocks."""
    compiler = []
    for match in re.finditer(r'extern\s*"C"\s*(?=[^;{]*?\b__global__\b)', preprocessed):
        rest = preprocessed[match.end() :]
        most_threads = "1024"
        bounds = re.match(r"[\w\s]*?__launch_bounds__\s*\(", rest)
        if bounds:
            arguments, rest = _balanced(rest[bounds.end() :])
            most_threads = _first_argument(arguments)
        compiler.append((re.search(r"(\w+)\s*\(", rest)[1], most_threads))
    return compiler


def _balanced(text):
    """What comes before and after the parenthesis that closes."""
    depth = 1
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[:place], text[place + 1 :]
    raise CompileError("__launch_bounds__ that does not end")


def _first_argument(text):
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            return text[:place]
    return text


def _run(command, text=None):
    # Compilers write UTF-8 in this locale or none.
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise CompileError(f"{' '.join(command)}\n{done.stderr[:4000]}")
    return done.stdout


@cache
def compile_ptx(text, name, options, architecture, cuda=None):
    """PTX of a CUDA source by NVRTC, as `kernel_resources.compile_to_ptx`, made once."""
    import kernel_resources  # of `scripts`, which only this needs

    nvrtc = os.stat(kernel_resources.path_of_compiler(cuda))
    asked = text, name, options, architecture, nvrtc.st_size, nvrtc.st_mtime_ns
    digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:24]
    kept = _cache() / f"{Path(name).stem}-{digest}.ptx"
    if not kept.exists():
        ptx = kernel_resources.compile_to_ptx(text, name, options, architecture, cuda)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            made = Path(scratch, "made.ptx")
            made.write_text(ptx, encoding="utf-8")
            made.replace(kept)
    return kept.read_text(encoding="utf-8")


@cache
def _version(compiler):
    return _run([str(compiler), "--version"])


def _cache():
    return kept_folder("host-gpu")
