"""Placement programs of users: what one is told, what it keeps, what it answers."""

from mcage.techniques.programs.answers import (
    IN_TABLE,
    NO_SWAP,
    NOWHERE,
    SPILL,
    WHOLE,
    block_of,
    entry_of,
    in_block,
    in_entry,
    lowest_block,
    swap,
)
from mcage.techniques.programs.program import PlacementProgram
from mcage.techniques.programs.told import (
    Entries,
    PerEntry,
    PerSlice,
    PerWindow,
    Value,
    Window,
)

__all__ = [
    "IN_TABLE",
    "NOWHERE",
    "NO_SWAP",
    "SPILL",
    "WHOLE",
    "Entries",
    "PerEntry",
    "PerSlice",
    "PerWindow",
    "PlacementProgram",
    "Value",
    "Window",
    "block_of",
    "entry_of",
    "in_block",
    "in_entry",
    "lowest_block",
    "swap",
]
