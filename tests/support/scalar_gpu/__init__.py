"""A scalar model of AMD GPU instructions: one wave, one lane at a time, everything in the open.

It is held against the emulator, and shares nothing with it. Written from AMD's public instruction
set documents (CDNA2 "Instinct MI200", CDNA3 "Instinct MI300", RDNA2, RDNA3, RDNA4) and LLVM's
"User Guide for AMDGPU Backend"; modules name the sections.

Choices: round to nearest even, denormals of all formats kept, also by transcendental instructions
and matrix instructions; IEEE mode and DX10_CLAMP on, as compilers set them.
"""

from .interpreter import run
from .machine import Memory, Unknown, Wave

__all__ = ["Memory", "Unknown", "Wave", "run"]
