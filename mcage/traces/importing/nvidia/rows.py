"""Rows of 32 numbers as NVBit's tools print them, and as JSON lists."""

import json.scanner
import sys
from array import array
from functools import lru_cache

from mcage.traces.importing.nvidia.warps import LANES

_MOST_KEPT = 1 << 15
_SCAN = json.scanner.make_scanner(json.JSONDecoder())  # type: ignore[arg-type]


@lru_cache(_MOST_KEPT)
def contents_of_hexadecimal(words: bytes) -> bytes | None:
    """Contents of 32 words ``0x0000abcd`` without spaces between them, or None."""
    digits = words.replace(b"0x", b"")
    if len(words) != 10 * LANES or len(digits) != 8 * LANES:
        return None
    try:
        numbers = array("I", bytes.fromhex(digits.decode("ascii")))
    except ValueError:
        return None
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


@lru_cache(_MOST_KEPT)
def contents_of_list(text: bytes) -> bytes | None:
    """Contents of 32 decimal numbers with commas between them, or None."""
    try:
        numbers, end = _SCAN(f"[{text.decode('ascii')}]", 0)
        row = array("I", numbers)
    except (ValueError, OverflowError, TypeError, StopIteration):
        return None
    return row.tobytes() if len(row) == LANES and end == len(text) + 2 else None


@lru_cache(1 << 10)
def _labels(number: int, width: int) -> list[bytes]:
    return [b"Reg%d_T%0*d:" % (number, width, lane) for lane in range(LANES)]


def contents_of_row(line: bytes, number: int) -> bytes | None:
    """Contents that a line ``* Reg0_T0: 0x00000000 Reg0_T1: ...`` shows.

    Parameters
    ----------
    line : bytes
        Without its line break; anything may stand before the star.
    number : int
        Row of the record, from 0, which its labels must name.

    Returns
    -------
    bytes or None
        128 bytes; None if the line is damaged.
    """
    words = line[line.find(b"* Reg") + 1 :].split()
    labels = words[::2]
    if labels != _labels(number, 1) and labels != _labels(number, 2):
        return None
    return contents_of_hexadecimal(b"".join(words[1::2]))
