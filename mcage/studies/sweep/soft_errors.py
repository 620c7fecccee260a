"""Soft errors of the lives of a sweep: by epoch, from what kernels need and from spent codes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcage.aging.environment import Environment
from mcage.compiled import compiled
from mcage.engines.stress import Turns
from mcage.geometry import COMPONENT_BITS, Floats, SliceGeometry
from mcage.lifetime.outcomes import LifeOutcomes
from mcage.protection.policy import Protection
from mcage.soft_errors.rates import differing_by_default, fates_of_words, upsets

NODE = "28nm"
"""Technology node whose constants are taken (`mcage/data/soft_errors.toml`)."""


@dataclass(frozen=True, eq=False)
class SoftErrorMeter:
    """Tells the soft errors of lives of a case.

    Parameters
    ----------
    avf : float64[kernels]
        Share of the bits of the slice that each kernel needs under the technique, on the mean over
        time: `mcage.soft_errors.ace.TechniqueAce.avf`; NaN where nobody knows.
    geometry : SliceGeometry
        The slice.
    environment : Environment
        Operating points; cells are the easier to change the lower their Vdd.
    protection : Protection
        Code of each word, if there is any.
    fit_per_mbit : float, optional
        Rate of changed bits at the reference voltage of the constants; None: theirs.
    """

    avf: Floats
    geometry: SliceGeometry
    environment: Environment
    protection: Protection
    fit_per_mbit: float | None = None

    @cached_property
    def _words(self) -> int:
        bits = self.protection.word_bits or COMPONENT_BITS
        return self.geometry.cells // bits

    def read(
        self,
        outcomes: LifeOutcomes,
        workload: Turns,
        activity: Floats,
        time_fractions: Floats | None = None,
    ) -> Floats:
        """Corrected, detected (DUE) and silent (SDC) errors of each life, epoch by epoch, in FIT.

        Parameters
        ----------
        outcomes : LifeOutcomes
            Faults of I lives at the start of each epoch.
        workload : Turns
            What runs: [I, epochs, turns].
        activity : float64[I] or float64[]
            Fraction of the time in which a slice is busy; while it is idle, nothing is needed.
        time_fractions : float64[points, I], optional
            Fraction of the time at each operating point, where lives differ in it.

        Returns
        -------
        float64[3, I, epochs]
            NaN in epochs after the end of life. Words are taken to be needed alike: what a kernel
            needs lies in words that are at risk as often as in others.
        """
        needed = (workload.weight * self.avf[workload.kernel]).sum(axis=2)
        lives = len(needed)
        if time_fractions is None:
            points = self.environment.points
            time_fractions = np.repeat([[point.time_fraction] for point in points], lives, axis=1)
        rates = np.empty((3, *needed.shape))
        _add_up(
            outcomes.faulty_entries.epoch,
            outcomes.uncovered.epoch_words_at_risk,
            needed,
            np.array(np.broadcast_to(activity, lives)),
            np.ascontiguousarray(time_fractions),
            self._fates,
            self.geometry.entries,
            self._words,
            rates,
        )
        return rates

    @cached_property
    def _fates(self) -> Floats:
        """Fates of words with a hard fault or none: float64[points, fates, 5].

        Hard faults of the words, the chance, and the rates of `FateOfWords`.
        """
        changed = {} if self.fit_per_mbit is None else {"fit_per_mbit": self.fit_per_mbit}
        differs, given = np.asarray(differing_by_default()), self.protection
        data_bits, columns = COMPONENT_BITS, 2
        return np.array(
            [
                [
                    (fate.hard, fate.chance(differs), *fate[2:])
                    for fate in fates_of_words(
                        upsets(NODE, point.vdd_volts, **changed),
                        *(given.code, given.interleave, data_bits, columns),
                    )
                    if fate.corrected is not None
                ]
                for point in self.environment.points
            ]
        )


@compiled
def _add_up(
    faulty: Floats,
    spent: Floats,
    needed: Floats,
    activity: Floats,
    time_fractions: Floats,
    fates: Floats,
    entries: int,
    words: int,
    rates: Floats,
) -> None:
    """Fill in rates of all epochs, as `soft_errors` has them of words with hard faults."""
    for life in range(len(needed)):
        for epoch in range(needed.shape[1]):
            unknown = np.isnan(faulty[life, epoch]) or np.isnan(needed[life, epoch])
            rates[:, life, epoch] = np.nan if unknown else 0.0
            if unknown:
                continue
            usable = 1 - faulty[life, epoch] / entries
            at_risk = min(spent[life, epoch] / max(usable, 1e-9), words)
            share = min(needed[life, epoch] * activity[life], 1.0)
            for point in range(len(fates)):
                corrected = due = sdc = 0.0
                for number in range(fates.shape[1]):
                    fate = fates[point, number]
                    affected = (at_risk if fate[0] else words - at_risk) * share * fate[1]
                    corrected += affected * fate[2]
                    due += affected * fate[3]
                    sdc += affected * fate[4]
                rates[0, life, epoch] += time_fractions[point, life] * corrected
                rates[1, life, epoch] += time_fractions[point, life] * due
                rates[2, life, epoch] += time_fractions[point, life] * sdc


def over_life(by_epoch: Floats, outcomes: LifeOutcomes) -> Floats:
    """Mean over each life of a rate by epoch: float64[..., I, epochs] to float64[..., I].

    NaN for a life of zero.
    """
    seconds, unknown = outcomes.moments.seconds.sum(axis=2), np.isnan(by_epoch)
    with np.errstate(invalid="ignore"):
        total = (np.where(unknown, 0.0, by_epoch) * seconds).sum(axis=-1)
        mean: Floats = total / seconds.sum(axis=-1)
    mean[(unknown & (seconds > 0)).any(axis=-1)] = np.nan
    return mean
