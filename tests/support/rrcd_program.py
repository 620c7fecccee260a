"""RRCD, written as a placement program: it must do what the policies of the built-in one do."""

import dataclasses

from mcage.techniques import TECHNIQUES, Placement
from mcage.techniques.programs import (
    SPILL,
    WHOLE,
    PlacementProgram,
    block_of,
    in_block,
    in_entry,
    lowest_block,
)


def place_of_compressed(entries):
    """A block of a faulty entry, of a partly filled one, of an empty one; each the lowest."""
    partly, empty = -1, -1
    for entry in range(len(entries.free)):
        free = entries.free[entry]
        if free == entries.all_blocks:
            if empty < 0:
                empty = entry
        elif free:
            if entries.unusable[entry]:
                return in_block(entry, lowest_block(free))
            if partly < 0:
                partly = entry
    entry = partly if partly >= 0 else empty
    return SPILL if entry < 0 else in_block(entry, lowest_block(entries.free[entry]))


class Rrcd(PlacementProgram):
    """Toca-Diaz et al. (RRCD), section IV."""

    @staticmethod
    def write(state, entries, value):
        home = value.home
        if home >= 0 and (block_of(home) != WHOLE) == value.compressed:
            return home
        if value.compressed:
            return place_of_compressed(entries)
        for entry in range(len(entries.free)):
            if entries.free[entry] == entries.all_blocks:
                return in_entry(entry)
        return SPILL


def programmed(name):
    """A shipped technique that redirects, with its placement by program."""
    return dataclasses.replace(
        TECHNIQUES[name], name=f"{name}/program", placement=Placement.PROGRAM, program=Rrcd()
    )
