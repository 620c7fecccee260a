"""Runs a program of one wave, an instruction at a time."""

from collections.abc import Sequence
from itertools import pairwise

from . import matrix, memory, scalar, vector
from .machine import Wave, parse


def step(wave: Wave, text: str, arch: str, following: int) -> int:
    """Carry out one instruction; the address of the next one."""
    if text == "s_nop 0":
        return following
    # The halves of a dual issue (RDNA3 ISA, 7.6) are ordinary instructions.
    halves = [parse(half.strip().replace("v_dual_", "v_"), arch) for half in text.split("::")]
    (ins, *_) = halves
    if matrix.execute(wave, ins):
        return following
    if ins.base.startswith("v_"):
        # All are read before any is written.
        for write in [write for half in halves for write in vector.results(wave, half)]:
            write()
        return following
    target = scalar.branch(wave, ins, following)
    if target is None and not scalar.execute(wave, ins):
        memory.execute(wave, ins)
    return following if target is None else target


def run(wave: Wave, program: Sequence[tuple[int, str]], arch: str) -> None:
    """Run until S_ENDPGM; a jump to where no instruction begins is a `KeyError`."""
    texts, (address, _) = dict(program), program[0]
    following = {one: other for (one, _), (other, _) in pairwise(program)}
    while texts[address] != "s_endpgm":
        address = step(wave, texts[address], arch, following[address])
