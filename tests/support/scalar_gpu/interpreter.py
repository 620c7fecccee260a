"""Runs a program of one wave, an instruction at a time."""

from collections.abc import Sequence

from . import matrix, memory, scalar, vector
from .machine import Instruction, Unknown, Wave, parse


def dual(text: str, address: int, arch: str) -> list[Instruction]:
    """The two halves of a dual issue (RDNA3 ISA, 7.6), as ordinary instructions."""
    halves = [half.strip().replace("v_dual_", "v_", 1) for half in text.split("::")]
    return [parse(half, address, arch) for half in halves]


def step(wave: Wave, text: str, address: int, arch: str, following: int) -> int | None:
    """Carry out one instruction; the address of the next one, None at the end."""
    text = text.partition("//")[0].strip()
    mnemonic = text.split()[0]
    if mnemonic == "s_endpgm":
        return None
    if mnemonic == "s_nop":
        return following
    if "::" in text:
        # Both read before either writes.
        groups = [vector.results(wave, half) for half in dual(text, address, arch)]
        if any(group is None for group in groups):
            raise Unknown(mnemonic, address)
        for group in groups:
            for write in group or ():
                write()
        return following
    ins = parse(text, address, arch)
    if mnemonic.startswith("v_"):
        if matrix.execute(wave, ins):
            return following
        writes = vector.results(wave, ins)
        if writes is None:
            raise Unknown(mnemonic, address)
        for write in writes:
            write()
        return following
    target = scalar.branch(wave, ins, following)
    if target is not None:
        return target
    if scalar.execute(wave, ins) or memory.execute(wave, ins):
        return following
    raise Unknown(mnemonic, address)


def run(wave: Wave, program: Sequence[tuple[int, str]], arch: str, limit: int = 10000) -> None:
    """Run until S_ENDPGM or past the last instruction.

    A jump to where no instruction begins is a `ValueError`, more than ``limit`` instructions a
    `RuntimeError`, an instruction that the model does not know `Unknown`.
    """
    places = {address: i for i, (address, _) in enumerate(program)}
    i = 0
    for _ in range(limit):
        if i >= len(program):
            return
        address, text = program[i]
        following = program[i + 1][0] if i + 1 < len(program) else address + 4
        target = step(wave, text, address, arch, following)
        if target is None:
            return
        if target == following:
            i += 1
        elif target in places:
            i = places[target]
        else:
            raise ValueError(f"no instruction at {target:#x}, where {address:#x} jumps to")
    raise RuntimeError(f"more than {limit} instructions")
