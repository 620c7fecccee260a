"""Which tests need compilers of AMD GPU code, or a disassembler; without them they are skipped."""

from pathlib import Path

import pytest

from mcage.errors import UserError
from mcage.tracing.emulation.code_object import tool

LIBRARY = Path("/usr/lib/clc/amdgcn--amdhsa.bc")


def _are_there(*names):
    try:
        return all(map(tool, names))
    except UserError:
        return False


has_objdump = _are_there("llvm-objdump")
has_clang = has_objdump and _are_there("clang", "ld.lld")

needs_objdump = pytest.mark.skipif(
    not has_objdump, reason="reading code objects needs llvm-objdump, of Debian's llvm-19"
)
needs_clang = pytest.mark.skipif(
    not has_clang, reason="compiling kernels needs clang-19, lld-19 and llvm-19"
)
needs_library = pytest.mark.skipif(
    not LIBRARY.exists(), reason="OpenCL's own functions need libclc-19"
)
