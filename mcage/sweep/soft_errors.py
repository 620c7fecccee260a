"""Soft errors of the lives of a sweep: by epoch, from what kernels need and from spent codes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcage.aging.environment import Environment
from mcage.engines.stress import Turns
from mcage.geometry import COMPONENT_BITS, Floats, SliceGeometry
from mcage.lifetime.outcomes import LifeOutcomes
from mcage.protection.policy import Protection
from mcage.soft_errors.rates import SoftErrors, soft_errors, upsets

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
        workload: tuple[Turns, ...],
        activity: Floats,
        time_fractions: Floats | None = None,
    ) -> Floats:
        """Corrected, detected (DUE) and silent (SDC) errors of each life, epoch by epoch, in FIT.

        Parameters
        ----------
        outcomes : LifeOutcomes
            Faults of I lives at the start of each epoch.
        workload : tuple of Turns
            What runs in each epoch.
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
        needed = np.stack(
            [(turns.weight * self.avf[turns.kernel]).sum(axis=1) for turns in workload], axis=1
        )
        faulty = outcomes.faulty_entries.epoch
        lives = ~np.isnan(faulty) & ~np.isnan(needed)
        usable = 1 - np.where(lives, faulty, 0) / self.geometry.entries
        spent = np.where(lives, outcomes.uncovered.epoch_words_at_risk, 0)
        at_risk = np.minimum(spent / np.maximum(usable, 1e-9), self._words)
        counts = np.stack([self._words - at_risk, at_risk, np.zeros_like(at_risk)], axis=-1)
        busy = np.broadcast_to(activity, len(needed))[:, None]
        total = np.zeros((3, *needed.shape))
        for number, point in enumerate(self.environment.points):
            rates = self._at(point.vdd_volts, counts, np.where(lives, needed * busy, 0))
            share = np.asarray(point.time_fraction)
            if time_fractions is not None:
                share = time_fractions[number, :, None]
            total += share * np.stack([rates.corrected, rates.due, rates.sdc])
        return np.where(lives, total, np.nan)

    def _at(self, vdd_volts: float, counts: Floats, needed: Floats) -> SoftErrors:
        changed = {} if self.fit_per_mbit is None else {"fit_per_mbit": self.fit_per_mbit}
        cells, given = upsets(NODE, vdd_volts, **changed), self.protection
        return soft_errors(counts, np.minimum(needed, 1), cells, given.code, given.interleave)


def over_life(by_epoch: Floats, outcomes: LifeOutcomes) -> Floats:
    """Mean over each life of a rate by epoch: float64[..., I, epochs] to float64[..., I].

    NaN for a life of zero.
    """
    seconds = outcomes.moments.seconds.sum(axis=2)
    with np.errstate(invalid="ignore"):
        mean: Floats = (np.nan_to_num(by_epoch) * seconds).sum(axis=-1) / seconds.sum(axis=-1)
    unknown = (np.isnan(by_epoch) & (seconds > 0)).any(axis=-1)
    return np.where(unknown, np.nan, mean)
