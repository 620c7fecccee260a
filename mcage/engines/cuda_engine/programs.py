"""Which kernels are compiled under which constants: the policies of a technique, and its range."""

from collections.abc import Iterator, Sequence

from mcage.replays.prepare import PreparedReplay
from mcage.techniques import TECHNIQUES, Technique

Program = tuple[str, dict[str, int]]
"""A source file of `kernels/` and its constants."""

PROBE: Program = ("probe.cu", {})
OCCUPANTS: Program = ("occupants.cu", {})
FAULT_FREE: Program = ("fault_free.cu", {})
SHIFTS: Program = ("shifts.cu", {})

_MOST_NARROW_CYCLES = 0xFFFF_FFFF


def select_program(technique: Technique) -> Program:
    """The selectors of a redirecting technique."""
    return "select.cu", {
        "TABLE": int(technique.stores_in_table),
        "ROTATING": int(technique.rotating_selectors),
        "WAKES": int(technique.gates_empty),
        "BORROWS": int(technique.borrows),
    }


def walk_program(replays: Sequence[PreparedReplay]) -> Program:
    """The walk through the entries of replays of a technique."""
    longest = max(replay.period for replay in replays)
    return _walk_program(replays[0].technique, longest > _MOST_NARROW_CYCLES)


def _walk_program(technique: Technique, wide: bool) -> Program:
    return "walk.cu", {
        "GATED": int(technique.gates_released),
        "RECORDS": int(technique.stores_in_blocks),
        "REGIONS": int(technique.stores_inline and technique.gates_released),
        "WIDE": int(wide),
    }


def residencies_program(wide: bool) -> Program:
    """Sums of residencies; `wide`: cycles of a pass exceed 32 bits."""
    return "residencies.cu", {"GATED": 0, "RECORDS": 0, "WIDE": int(wide)}


STRESS_SOURCES = ("epoch_log.cu", "most_stressed.cu", "tracked_cells.cu")
"""Sources of the stress times of redirecting techniques."""


def stress_program(source: str, technique: Technique, wide: bool) -> Program:
    """One of `STRESS_SOURCES`; `wide`: cycles of a pass exceed 32 bits."""
    return source, {
        "GATED": int(technique.gates_released),
        "RECORDS": int(technique.stores_in_blocks),
        "WIDE": int(wide),
    }


def compilations() -> Iterator[Program]:
    """The probe, and every program that the techniques of the catalogue ever ask for, once."""
    programs = [PROBE, OCCUPANTS, FAULT_FREE, SHIFTS, *map(residencies_program, (False, True))]
    for technique in TECHNIQUES.values():
        if technique.redirects:
            programs.append(select_program(technique))
            programs += [
                stress_program(source, technique, wide)
                for source in STRESS_SOURCES
                for wide in (False, True)
            ]
        programs += [_walk_program(technique, wide) for wide in (False, True)]
    for position, program in enumerate(programs):
        if program not in programs[:position]:
            yield program
