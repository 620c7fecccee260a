"""Slices with all their faulty cells: when they are looked at, and what comes of it.

A reported age is looked at as it is. Beside it, a slice is looked at whenever its cells fail: with
tests, at the last moment before the test that finds the new faults; without, when they appear. So
no wrong answer between two reported ages is missed.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.gpu.exchange import words_allowed
from mcage.lifetime import EndCause
from mcage.protection.policy import Protection
from mcage.studies.inject.cells import Rules, SliceUnderKernel
from mcage.studies.inject.hard import FaultsAtAge, Look, SliceFaults
from mcage.studies.inject.kernel import InjectedKernel, Placement
from mcage.studies.inject.outcomes import DETECTED, OF_SLICES, SILENT, Fate
from mcage.tracing.emulation.faults import Faults, Ran

GIVEN_UP = (EndCause.NO_HOME, EndCause.SPILL_LIMIT, EndCause.TOO_SLOW)
"""Ends of lives that a technique notices."""

NOBODY_KNOWS = -1.0
"""Age of which a test has found all faults, if there was none, not even of the new slice."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice of a case.

    Parameters
    ----------
    cells : SliceFaults
        Its cells that become faulty.
    end_years : float
        Age at which it is not in use any more, or the horizon.
    end_cause : EndCause
        Why.
    protection : Protection
        What protects its entries.
    interval_years : float or None
        Time between two tests; None if nothing needs them.
    known_years : float
        Age of which the first test has found all faults; or `NOBODY_KNOWS`.
    """

    cells: SliceFaults
    end_years: float
    end_cause: EndCause
    protection: Protection
    interval_years: float | None
    known_years: float = 0.0

    def at_reported(self, age_years: float, geometry: SliceGeometry) -> FaultsAtAge | None:
        """Faults at an age, just before a test; None if the slice is not in use any more."""
        if age_years >= self.end_years and self.end_cause != EndCause.CENSORED:
            return None
        interval = self.interval_years
        known = self.known_years if interval is None else max(age_years - interval, 0.0)
        return self.cells.at(age_years, known, self.protection, geometry)

    def _is_refused(self, where: Placement, age_years: float) -> bool:
        """Whether a test at an age finds that the slice cannot run the kernel."""
        given = age_years, age_years, self.protection, where.kernel.geometry
        return where.refuses(self.cells.at(*given).fault_map)

    def looks(self, where: Placement) -> tuple[list[tuple[Look, FaultsAtAge]], float]:
        """When it is looked at beside reported ages, and when a test gives it up.

        Parameters
        ----------
        where : Placement
            Where its technique keeps values.

        Returns
        -------
        list of (Look, FaultsAtAge), float
            In rising order of age; and an age in years, infinite if no test does.
        """
        if self._is_refused(where, self.known_years):
            return [], 0.0
        looks = []
        for look in self.cells.looks(self.interval_years, self.end_years, self.known_years):
            given = look.age_years, look.known_years, self.protection, where.kernel.geometry
            looks.append((look, self.cells.at(*given)))
            test = look.test_years
            if test is not None and test <= self.end_years and self._is_refused(where, test):
                return looks, test
        return looks, math.inf


def ran_with(
    states: Mapping[Key, tuple[int, FaultsAtAge]],
    where: Placement,
    rules: Rules,
    kernel: InjectedKernel,
) -> dict[Key, Ran]:
    """Run the kernel on slices; those of which nobody notices a fault are left out.

    Parameters
    ----------
    states : mapping of key to (int, FaultsAtAge)
        Instance and faults.
    where : Placement
        Where the technique keeps values on a slice without faults.
    rules : Rules
        How cells keep values.
    kernel : InjectedKernel
        What runs.
    """
    alike: dict[tuple[int, bytes], tuple[FaultsAtAge, list[Key]]] = {}
    for key, (instance, faults) in states.items():
        harmful = faults.harmful(rules.code)
        if len(harmful.cell):
            state = harmful.cell.tobytes() + harmful.fault_map.tobytes()
            alike.setdefault((instance, state), (harmful, []))[1].append(key)
    runs = wrong_runs(alike, where, rules)
    ran = kernel.reruns.run([faults for faults, _ in runs])
    return {key: of for (_, keys), of in zip(runs, ran, strict=True) for key in keys}


def wrong_runs(
    alike: Mapping[tuple[int, bytes], tuple[FaultsAtAge, list[Key]]],
    where: Placement,
    rules: Rules,
) -> list[tuple[Faults, list[Key]]]:
    """What is wrong in the runs of slices, of those in which anything is."""
    if not alike:
        return []
    maps = np.array([faults.fault_map for faults, _ in alike.values()])
    runs = []
    for on_map, ((instance, _), (faults, keys)) in zip(
        where.on_maps(maps), alike.items(), strict=True
    ):
        which = instance % len(on_map.placed.entry)  # the pass of a placement that rotates
        wrong = SliceUnderKernel(on_map, faults, rules, which).faults()
        if wrong is not None:
            runs.append((wrong, keys))
    return runs


@dataclass(frozen=True, eq=False)
class Looked:
    """What came of the looks at a slice.

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

    ages_years: Sequence[float]
    fates: Sequence[Fate]
    given_up_years: float

    def numbers(self, rule: str = "secded") -> dict[str, float]:
        """What the file has of it, by the names of `OF_SLICES`.

        Parameters
        ----------
        rule : str
            As of `mcage.gpu.exchange.words_allowed`.
        """
        pairs = list(zip(self.ages_years, self.fates, strict=True))
        given_up = self.given_up_years
        errors = [age for age, fate in pairs if fate in DETECTED]
        told = min([given_up, *errors])
        words = [age for age, fate in pairs if fate == Fate.CODE]
        allowed = words_allowed(rule)
        exchanged = words[allowed] if len(words) > allowed else math.inf
        silent = [age for age, fate in pairs if fate in SILENT]
        before_told = [age for age in silent if age < told]
        return {
            "silent_years": before_told[0] if before_told else math.nan,
            "told_years": told if math.isfinite(told) else math.nan,
            "silent_faults": len(before_told),
            "exchange_years": exchanged if math.isfinite(exchanged) else math.nan,
            "silent_before_exchange": sum(age < min(exchanged, given_up) for age in silent),
        }


def arrays_of(looked: Sequence[Looked]) -> dict[str, NDArray[Any]]:
    """Arrays of the results file of slices."""
    numbers = [each.numbers() for each in looked]
    return {
        variable.name: np.array([of[variable.name] for of in numbers], variable.dtype)
        for variable in OF_SLICES
    }
