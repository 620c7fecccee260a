"""What an engine does for placement programs: run them for some passes, and sum up cell times."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.replays.prepare import ProgrammedReplay

Integers = NDArray[np.int64]

COUNTERS = 8
REGULAR, TO_RELIABLE, TO_FAULTY, LDS, LDS_READS, PEAK, ROW_CYCLES, WAKEUPS = range(COUNTERS)
"""Columns of counted events: the arrays of `mcage.replays.outcome.Counters` in their order."""


FINE, NO_ENTRY, NEEDS_BLOCK, NEEDS_ENTRY, NOT_SOUND, TAKEN, KEPT = range(7)
PROBLEMS = (
    "",
    "there is no such entry",
    "a compressed value needs a block of it",
    "an uncompressed value needs the whole of it",
    "it has a faulty block, which the value does not fit into",
    "another row lives there",
    "it is not free though all windows are closed",
)
"""What may be wrong with an answer."""


ARRIVAL = ("cycle", "until", "write", "place")
CYCLE, UNTIL, WRITE_OF, PLACE = range(len(ARRIVAL))
"""Columns of arrivals, which are values that come to a place of the slice, by a write or by a swap:
when, from the start of the pass; when the value is gone from there, as it is replaced, released or
swapped; the write that it is of; and the place, as programs answer it."""


@dataclass(frozen=True, eq=False)
class PassRecord:
    """What happened in a pass.

    Attributes
    ----------
    counters : int64[8]
        Counted events; of the spilled rows the most at once.
    arrivals : int32[n, 4]
        Where values lived: entry after entry, in the order of time in each.
    """

    counters: Integers
    arrivals: NDArray[np.int32]


class ProgramRunner(ABC):
    """Runs the program of a replay, for one slice at a time.

    Parameters
    ----------
    replay : ProgrammedReplay
        A technique with a program on a trace.
    """

    def __init__(self, replay: ProgrammedReplay) -> None:
        self.replay = replay

    @abstractmethod
    def run_pass(self, fault_map: NDArray[np.uint8], state: Integers) -> PassRecord:
        """Run one pass.

        Parameters
        ----------
        fault_map : uint8[entries]
            Bit b set = block b is unusable.
        state : int64[words]
            What the program keeps; changed.

        Raises
        ------
        UserError
            The program fails, or answers what cannot be.
        """

    @abstractmethod
    def cell_times(self, passes: Sequence[PassRecord]) -> tuple[Integers, Integers]:
        """Cycles of each cell at '1' and powered in passes that repeat: int64[entries, bits]."""


def breach(
    replay: ProgrammedReplay, cycle: int, row: int, entry: int, problem: int, answer: int
) -> UserError:
    """Error of a program whose answer cannot be; `problem` is a number of `PROBLEMS`."""
    return UserError(
        f"technique {replay.technique.name!r}: cycle {cycle}, row {row}, entry {entry}: "
        f"{PROBLEMS[problem]} (answer {answer})"
    )
