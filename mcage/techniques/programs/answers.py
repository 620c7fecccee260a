"""What a placement program answers, as numbers: a place, a spill, a swap.

A place is ``64 * entry + block``, with the block `WHOLE` for the whole entry. These functions may
be called in programs: every engine knows them.
"""

NOWHERE, SPILL, IN_TABLE = -1, -2, -3
"""In place of a place: no value yet; in the LDS; in the compression table."""

NO_SWAP = -1
"""No two entries are swapped."""

WHOLE = 63
"""In place of a block: all blocks of the entry."""

PLACES = 64
"""Places of an entry: more than it has blocks, so that a power of two makes them."""

SWAPS = 1 << 20
"""More than there are entries."""


def in_entry(entry: int) -> int:
    """Place of a value that takes a whole entry."""
    return entry * PLACES + WHOLE


def in_block(entry: int, block: int) -> int:
    """Place of a compressed value in a block of an entry."""
    return entry * PLACES + block


def entry_of(place: int) -> int:
    """Entry of a place."""
    return place // PLACES


def block_of(place: int) -> int:
    """Block of a place, or `WHOLE`."""
    return place % PLACES


def lowest_block(blocks: int) -> int:
    """Number of the lowest block in a set that is not empty."""
    number = 0
    while blocks & 1 == 0:
        blocks >>= 1
        number += 1
    return number


def swap(entry: int, other: int) -> int:
    """Answer of `allocate` or `release`: let the values of two entries change places."""
    return entry * SWAPS + other


def entries_swapped(answer: int) -> tuple[int, int]:
    """Entries of a swap."""
    return answer // SWAPS, answer % SWAPS
