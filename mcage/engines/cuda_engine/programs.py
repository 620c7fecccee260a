"""Which kernels are compiled under which constants: the policies of a technique, and its range."""

from collections.abc import Iterator

from mcage.replays.prepare import PreparedReplay
from mcage.techniques import TECHNIQUES, Technique

Program = tuple[str, dict[str, int]]
"""A source file of `kernels/` and its constants."""

PROBE: Program = ("probe.cu", {})
OCCUPANTS: Program = ("occupants.cu", {})
STRESS_TIMES: Program = ("stress_times.cu", {})

_MOST_NARROW_CYCLES = 0xFFFF_FFFF


def select_program(technique: Technique) -> Program:
    """The selectors of a redirecting technique."""
    return "select.cu", {
        "TABLE": int(technique.stores_in_table),
        "ROTATING": int(technique.rotating_selectors),
        "WAKES": int(technique.gates_empty),
        "BORROWS": int(technique.borrows),
    }


def stress_program(replay: PreparedReplay) -> Program:
    """The walk through the entries of a replay."""
    return _stress_program(replay.technique, replay.period > _MOST_NARROW_CYCLES)


def _stress_program(technique: Technique, wide: bool) -> Program:
    return "stress.cu", {
        "GATED": int(technique.gates_released),
        "RECORDS": int(technique.stores_in_blocks),
        "REGIONS": int(technique.stores_inline and technique.gates_released),
        "WIDE": int(wide),
    }


def compilations() -> Iterator[Program]:
    """The probe, and every program that the techniques of the catalogue ever ask for, once."""
    programs = [PROBE, OCCUPANTS, STRESS_TIMES]
    for technique in TECHNIQUES.values():
        if technique.redirects:
            programs.append(select_program(technique))
        programs += [_stress_program(technique, wide) for wide in (False, True)]
    for position, program in enumerate(programs):
        if program not in programs[:position]:
            yield program
