"""What becomes of an injection, and what the results file says of it."""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.results.variable import Variable, flags_of


class Fate(IntEnum):
    """What becomes of a run, from the outside."""

    MASKED = 0
    """All memory holds what it holds without faults."""
    TOLERABLE = 1
    """Silent data corruption (SDC) within the tolerance."""
    SDC = 2
    """Silent data corruption beyond the tolerance."""
    ADDRESS = 3
    """Detected (DUE): an access to where no buffer lies."""
    LIMIT = 4
    """Detected: three times as many instructions, or waves that wait for ever."""
    CODE = 5
    """Detected: by the code of a word."""
    RETIRED = 6
    """The slice is not in use: a test has found that it cannot run the kernel, its technique finds
    no room or is slower than a life may be, or its delay has used up the guardband."""
    NOT_EMULATED = 7
    """The run comes to an instruction that is not emulated."""


SILENT = (Fate.TOLERABLE, Fate.SDC)
DETECTED = (Fate.ADDRESS, Fate.LIMIT, Fate.CODE)
NOT_RUN = (Fate.RETIRED, Fate.NOT_EMULATED)
"""Of which nothing is known; shares of flips leave them out."""


def are_known(fate: NDArray[Any]) -> NDArray[np.bool_]:
    """Which slices never come to an instruction that is not emulated: fates [..., age]."""
    return np.asarray((fate != Fate.NOT_EMULATED).all(axis=-1))


_EACH = ("case", "instance", "age")

VARIABLES = (
    Variable(
        "fate",
        _EACH,
        "int8",
        "1",
        "what becomes of the run",
        "tolerable: wrong within the tolerance, sdc: beyond it; address, limit, code: detected.",
        flags=flags_of(Fate),
    ),
    Variable("silent", _EACH, "int8", "1", "whether the run is silently wrong"),
    Variable("detected", _EACH, "int8", "1", "whether the run ends with a detected error"),
    Variable(
        "output_error",
        _EACH,
        "float64",
        "1",
        "largest error of an output, relative to its largest value",
        missing="where the run has not come to its end, a number has become infinite or no number, "
        "or memory beside the outputs has changed",
    ),
    Variable(
        "wrong_elements",
        _EACH,
        "int32",
        "1",
        "elements of outputs that are wrong",
    ),
    Variable(
        "wrong_bits",
        _EACH,
        "int8",
        "1",
        "most wrong bits of an element",
    ),
    Variable(
        "not_finite",
        _EACH,
        "int8",
        "1",
        "whether an element has become infinite or no number",
    ),
    Variable(
        "faulty_bits",
        _EACH,
        "int32",
        "1",
        "faulty cells of the slice that nothing repairs, in blocks that may be used",
        "Of flips: wrong bits of the word that is hit, of several the most; without a code, the "
        "cells that have changed.",
    ),
)
"""What every kind of faults has."""

OF_SLICES = (
    Variable(
        "silent_years",
        ("case", "instance"),
        "float64",
        "year",
        "age of the first silently wrong answer",
        missing="where there is none before something tells, or until the slice is not in use",
    ),
    Variable(
        "told_years",
        ("case", "instance"),
        "float64",
        "year",
        "age at which something tells for the first time: a detected error, or a test",
        "A test that finds that the slice cannot run the kernel, that of the new slice among them; "
        "or the technique finds no room, or is slower than a life may be.",
        missing="where nothing does until the slice is not in use",
    ),
    Variable(
        "silent_faults",
        ("case", "instance"),
        "int32",
        "1",
        "times that new faults have given a silently wrong answer before anything tells",
    ),
    Variable(
        "exchange_years",
        ("case", "instance"),
        "float64",
        "year",
        "age at which the exchange rule acts: too many errors that a code has detected",
        "The slice is a bank, and each new detected error is a word.",
        missing="where it does not until the slice is not in use",
    ),
    Variable(
        "silent_before_exchange",
        ("case", "instance"),
        "int32",
        "1",
        "times that new faults have given a silently wrong answer before the exchange rule acts",
    ),
)
"""What slices with all their faults have beside it."""

OF_FLIPS = (
    Variable("flip_register", ("case", "instance"), "int16", "1", "register that was hit"),
    Variable(
        "flip_bit",
        ("case", "instance"),
        "int16",
        "1",
        "bit of the register, 0 ... 31",
        "-1 where a compressed value was hit, of which many lanes hang on one cell, or a check "
        "bit. Of several cells: of the one that was drawn.",
    ),
    Variable(
        "flip_lane",
        ("case", "instance"),
        "int16",
        "1",
        "lane that was hit",
        "-1 where a check bit was hit.",
    ),
    Variable("flip_cells", ("case", "instance"), "int8", "1", "neighbouring cells that change"),
    Variable(
        "flip_attempts",
        ("case", "instance"),
        "int32",
        "1",
        "upsets that were drawn until this one",
        "An upset of several needed cells is drawn more often than it happens, and drawn anew; "
        "drawn_fit over the mean of this is the rate of the flips.",
    ),
    Variable("flip_entry", ("case", "instance"), "int16", "1", "entry that was hit"),
    Variable(
        "flip_moment",
        ("case", "instance"),
        "float64",
        "1",
        "when it was hit, as a share of the kernel's time",
    ),
)
"""What flips have beside it."""
