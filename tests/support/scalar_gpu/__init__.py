"""A scalar model of AMD GPU instructions: one wave, one lane at a time, everything in the open.

It is held against the emulator, and shares nothing with it. Written from AMD's public instruction
set documents (CDNA2 "Instinct MI200", CDNA3 "Instinct MI300", RDNA2, RDNA3) and LLVM's
"User Guide for AMDGPU Backend"; modules name the sections.

Choices: round to nearest even; denormals of all formats are kept, also by transcendental and matrix
instructions, whose hardware flushes some; IEEE mode and DX10_CLAMP on, as compilers set them.
Random instructions mean 64 lanes on gfx90a, which stands for all of gfx9, 32 elsewhere.
"""

from .generator import INDEX, indexed_instructions, random_instruction, special_values
from .interpreter import run
from .machine import Wave
from .memory_generator import prepare_memory

__all__ = [
    "INDEX",
    "Wave",
    "indexed_instructions",
    "prepare_memory",
    "random_instruction",
    "run",
    "special_values",
]
