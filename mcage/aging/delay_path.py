"""Which transistors decide the delay of a slice, where transistors differ by their luck.

A guardband that was published for the mean shift says nothing about a transistor with more traps
than others, of which a slice has thousands. So the guardband is restated: it becomes what the worst
path of half of the slices needs when all their transistors have reached the shift that uses up the
published guardband. The median life of slices that are stressed alike throughout stays as published
under each reading; what changes is how much slices differ, and what techniques gain that do not
stress all transistors alike.
"""

import re
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.traps import TrapLaw, scores_of
from mcage.errors import UserError

WORD_CELLS = 32
"""Cells of a word: a component of a register."""

FORMS = 'worst, word, or "paths(COUNT, CELLS)"'

_PATHS = re.compile(r"paths\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True)
class DelayPath:
    """How many paths a slice has, and the mean shift of how many cells delays each.

    Parameters
    ----------
    paths : int
        Number of paths.
    cells : int
        Cells of each path.
    each_transistor : bool
        Whether each transistor is a path and is stressed as it is. If not, all paths are taken to
        be stressed like the most stressed transistor of the slice: an upper bound of their delay.
    """

    paths: int
    cells: int
    each_transistor: bool = False

    @classmethod
    def of(cls, text: str, slice_cells: int) -> Self:
        """Read the key ``life.delay_path`` of a spec, for a slice of so many cells.

        Raises
        ------
        UserError
            The text is none of `FORMS`, or a number is out of its range.
        """
        if text == "worst":
            return cls(slice_cells, 1, each_transistor=True)
        if text == "word":
            return cls(slice_cells // WORD_CELLS, WORD_CELLS)
        match = _PATHS.fullmatch(text.strip())
        paths, cells = (int(number) for number in match.groups()) if match else (0, 0)
        if not (1 <= paths <= 10**9 and 1 <= cells <= 10**9):
            raise UserError(f"life.delay_path = {text!r} must be {FORMS}, with 1 ... 10^9 of each")
        return cls(paths, cells)


@dataclass(frozen=True)
class NbtiSpread:
    """How transistors differ that are stressed alike, and which of them decide the delay.

    Parameters
    ----------
    traps : TrapLaw
        The law of their shifts.
    path : DelayPath
        What a path is.
    """

    traps: TrapLaw
    path: DelayPath

    @property
    def of_path(self) -> TrapLaw:
        """The law of the shift of a path."""
        return self.traps.of_mean(self.path.cells)

    def restated(self, mean_volts: ArrayLike) -> NDArray[np.float64]:
        """Shift of the worst path of half of the slices, whose mean shifts are as given.

        Parameters
        ----------
        mean_volts : array
            Mean shift of all transistors of a slice, in volts.
        """
        return self.of_path.shift(mean_volts, self.scores_of_worst(np.array(0.5)))

    def scores_of_worst(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of the worst paths of slices, from a uniform number of each, 0 < number <= 1."""
        return scores_of(-np.expm1(np.log(uniform) / self.path.paths))
