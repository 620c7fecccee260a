"""Kernels that were compiled, and those of `scripts/modern_kernels`."""

from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "samples" / "emulation"
MODERN = Path(__file__).parents[2] / "scripts" / "modern_kernels"
PROCESSORS = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100")


def sample(arch: str) -> bytes:
    """Code object of the kernels of the samples."""
    return (SAMPLES / f"{arch}.co").read_bytes()
