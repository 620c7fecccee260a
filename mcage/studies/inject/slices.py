"""Faulty cells of slices: which are known, when a slice is looked at, and what comes of it.

**What is known.** Error-correcting pointers, spare entries and techniques that avoid faults need to
know which cells are faulty. Tests find that out: one of the new slice, and others at intervals. A
cell that has failed since the last test does harm, whatever the technique. A code needs no test.

**When.** A reported age is looked at as it is. Beside it, a slice is looked at whenever its cells
fail: with tests, at the last moment before the test that finds the new faults; without, when they
appear. So no wrong answer between two reported ages is missed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.gpu.exchange import words_allowed
from mcage.lifetime import EndCause
from mcage.lifetime.faulty_cells import UNKNOWN
from mcage.protection.codes import Code
from mcage.protection.policy import Protection
from mcage.soft_errors.stuck import drawn_values
from mcage.studies.inject.kernel import PlacedKernel
from mcage.studies.inject.outcomes import DETECTED, SILENT, Fate
from mcage.variation.fault_models import EntryFaults
from mcage.variation.vmin_tail import TailCells

GIVEN_UP = (EndCause.NO_HOME, EndCause.SPILL_LIMIT, EndCause.TOO_SLOW)
"""Ends of lives that a technique notices."""

NOBODY_KNOWS = -1.0
"""Age of which a test has found all faults, if there was none, not even of the new slice."""


def values_of_cells(
    seed: int, instance: int, cell: Integers, weak_value: NDArray[np.int8]
) -> Booleans:
    """Whether each faulty cell gives '1': the value that it can keep, drawn where nobody knows it.

    Parameters
    ----------
    seed, instance : int
        Of the stream that says what else a cell gives.
    cell, weak_value : array[n]
        As of `mcage.lifetime.faulty_cells.FaultyCells`.
    """
    drawn = drawn_values(seed, instance, cell)
    return np.where(weak_value == UNKNOWN, drawn, weak_value == 0)


@dataclass(frozen=True, eq=False)
class FaultySlice:
    """A slice of a case, and its cells that become faulty.

    Parameters
    ----------
    cell : int64[n]
        Number of each, as in `TailCells`.
    at_one : bool[n]
        Whether it gives '1'; otherwise '0'.
    years : float64[n]
        Age from which it is faulty.
    geometry : SliceGeometry
        The slice.
    protection : Protection
        What protects its entries.
    end_years : float
        Age at which it is not in use any more, or the horizon.
    end_cause : EndCause
        Why.
    interval_years : float or None
        Time between two tests; None if nothing needs them.
    known_years : float
        Age of which the first test has found all faults; or `NOBODY_KNOWS`.
    """

    cell: Integers
    at_one: Booleans
    years: Floats
    geometry: SliceGeometry
    protection: Protection
    end_years: float
    end_cause: EndCause = EndCause.CENSORED
    interval_years: float | None = None
    known_years: float = 0.0

    def at(self, age_years: float, known_years: float) -> "FaultsAtAge":
        """Faults at an age, if tests have found those that are older than another age.

        Those in blocks that are known to be unusable are left out: a slice that uses such a block
        is given up, or its technique avoids it.
        """
        geometry, protection = self.geometry, self.protection
        known = self.years <= known_years
        entry, bit = _entry_and_bit(self.cell, geometry)
        maps = _fault_maps(self.cell[known], protection, geometry)
        spared = np.flatnonzero((maps[0] != 0) & (maps[1] == 0))  # by spare entries
        repaired = _repaired(self.cell, known, entry, protection, geometry)
        live = (self.years <= age_years) & ~repaired & ~np.isin(entry, spared)
        live &= maps[1][entry] >> (bit // geometry.block_bits).astype(np.uint8) & 1 == 0
        return FaultsAtAge(self.cell[live], self.at_one[live], maps[1], geometry)

    def at_reported(self, age_years: float) -> "FaultsAtAge | None":
        """Faults at an age, just before a test; None if the slice is not in use any more."""
        if age_years >= self.end_years and self.end_cause != EndCause.CENSORED:
            return None
        interval = self.interval_years
        known = self.known_years if interval is None else max(age_years - interval, 0.0)
        return self.at(age_years, known)

    def moments(self) -> "list[Look]":
        """When something has changed that a run may notice, in rising order of age.

        Returns
        -------
        list of Look
            Without tests, every age at which cells fail. With tests, the last moment before each
            test that finds something new; if tests come at once, the ages at which cells fail.
        """
        known, interval = self.known_years, self.interval_years
        ages = np.unique(self.years[(self.years > known) & (self.years <= self.end_years)])
        if interval is None:
            return [Look(age, known, None) for age in ages.tolist()]
        if not interval:
            return [Look(age, age, age) for age in ages.tolist()]
        return [
            Look(min(test * interval, self.end_years), (test - 1) * interval, test * interval)
            for test in np.unique(np.ceil(ages / interval)).tolist()
        ]

    def looks(self, where: PlacedKernel) -> "tuple[list[tuple[Look, FaultsAtAge]], float]":
        """When it is looked at beside reported ages, and when a test gives it up.

        Parameters
        ----------
        where : PlacedKernel
            Where its technique keeps values.

        Returns
        -------
        list of (Look, FaultsAtAge), float
            In rising order of age; and an age in years, infinite if no test does.
        """

        def is_refused(age: float) -> bool:
            """Whether a test at an age finds that the slice cannot run the kernel."""
            return where.refuses(self.at(age, age).fault_map)

        if is_refused(self.known_years):
            return [], 0.0
        looks = []
        for look in self.moments():
            looks.append((look, self.at(look.age_years, look.known_years)))
            test = look.test_years
            if test is not None and test <= self.end_years and is_refused(test):
                return looks, test
        return looks, math.inf


def _entry_and_bit(cell: Integers, geometry: SliceGeometry) -> tuple[Integers, Integers]:
    """Entry of each cell, and its bit there; a check cell has those of the data bit it follows."""
    return np.divmod(cell % geometry.cells, geometry.entry_bits)


def _fault_maps(
    cell: Integers, protection: Protection, geometry: SliceGeometry
) -> tuple[Bytes, Bytes]:
    """Fault maps of known cells, before and after spares have taken the places of entries."""
    order = np.sort(cell).astype(np.int32)
    tail = TailCells(np.array([0, len(order)]), order, np.zeros(len(order)), geometry)
    none = EntryFaults.none(1, protection, geometry)
    faults = none.more(tail, np.ones(len(order), np.bool_))
    return faults.unspared[0], faults.maps[0]


def _repaired(
    cell: Integers,
    known: Booleans,
    entry: Integers,
    protection: Protection,
    geometry: SliceGeometry,
) -> Booleans:
    """Which cells pointers replace: of each entry the oldest known ones that need it, bool[n]."""
    repaired = np.zeros(len(cell), np.bool_)
    if not protection.pointers:
        return repaired
    needs = known.copy()
    if protection.code is not None:
        word = cell % geometry.cells // protection.word_bits
        _, place, count = np.unique(word[known], return_inverse=True, return_counts=True)
        needs[known] = count[place] > 1
    left: dict[int, int] = {}
    for number in np.flatnonzero(needs).tolist():
        used = left.get(int(entry[number]), 0)
        if used < protection.pointers:
            left[int(entry[number])] = used + 1
            repaired[number] = True
    return repaired


class Look(NamedTuple):
    """A moment at which a slice is looked at.

    Attributes
    ----------
    age_years : float
        Its age.
    known_years : float
        Age of which tests have found all faults.
    test_years : float or None
        Age of the next test; None if there is none.
    """

    age_years: float
    known_years: float
    test_years: float | None


@dataclass(frozen=True, eq=False)
class FaultsAtAge:
    """Faulty cells that nothing repairs, in blocks that may be used.

    Parameters
    ----------
    cell : int64[n]
        Number of each, as in `TailCells`.
    at_one : bool[n]
        Whether it gives '1'.
    fault_map : uint8[entries]
        What is known of all faults: bit b set, block b cannot be used.
    geometry : SliceGeometry
        The slice.
    """

    cell: Integers
    at_one: Booleans
    fault_map: Bytes
    geometry: SliceGeometry

    @property
    def entry(self) -> Integers:
        """Entry of each: int64[n]."""
        return _entry_and_bit(self.cell, self.geometry)[0]

    @property
    def bit(self) -> Integers:
        """Bit of the entry that each is, or that the data bit is whose number it has: int64[n]."""
        return _entry_and_bit(self.cell, self.geometry)[1]

    @property
    def is_check(self) -> Booleans:
        """Whether each is a check cell: bool[n]."""
        return np.asarray(self.cell >= self.geometry.cells)

    def harmful(self, code: Code | None) -> "FaultsAtAge":
        """Faults by which a value may be wrong: a code corrects a single cell of a word."""
        if code is None:
            return self
        word = self.cell % self.geometry.cells // code.data_bits
        _, place, count = np.unique(word, return_inverse=True, return_counts=True)
        several = count[place] > 1
        return replace(self, cell=self.cell[several], at_one=self.at_one[several])

    def of_word(self, entry: int, word: int, code: Code) -> tuple[Integers, Booleans]:
        """Faulty cells of a word: their bits, check bits after those of data, and what they give.

        Parameters
        ----------
        entry, word : int
            The entry, and the word in it.
        code : Code
            Its code.
        """
        of_word, number = np.divmod(self.bit, code.data_bits)
        here = np.flatnonzero((self.entry == entry) & (of_word == word))
        return number[here] + code.data_bits * self.is_check[here], self.at_one[here]


def numbers_of(
    ages_years: Sequence[float], fates: Sequence[Fate], given_up_years: float
) -> dict[str, float]:
    """Variables of the looks at a slice, by the names of `OF_SLICES`.

    Parameters
    ----------
    ages_years : sequence of float
        When it was looked at, rising.
    fates : sequence of Fate
        What came of each look.
    given_up_years : float
        Age at which a test finds that it cannot run the kernel, or its technique finds no room;
        infinite if that does not happen.
    """
    pairs = list(zip(ages_years, fates, strict=True))
    errors = [age for age, fate in pairs if fate in DETECTED]
    told = min([given_up_years, *errors])
    words = [age for age, fate in pairs if fate == Fate.CODE]
    allowed = words_allowed("secded")
    exchanged = words[allowed] if len(words) > allowed else math.inf
    silent = [age for age, fate in pairs if fate in SILENT]
    before_told = [age for age in silent if age < told]
    return {
        "silent_years": before_told[0] if before_told else math.nan,
        "told_years": told if math.isfinite(told) else math.nan,
        "silent_faults": len(before_told),
        "exchange_years": exchanged if math.isfinite(exchanged) else math.nan,
        "silent_before_exchange": sum(age < min(exchanged, given_up_years) for age in silent),
    }
