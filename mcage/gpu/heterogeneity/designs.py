"""Three designs of scheduler and L2: how far each ages, and what that is worth.

Zhang et al., INTEGRATION 2015, sections 3, 4 and 7: the baseline is made of FinFETs alone; the
proposal has the two-stage scheduler and an L2 with planar tags that are read first; duplication has
two copies of both structures, which take turns.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.nbti.models import FinFetPlanar
from mcage.gpu.heterogeneity.aging import YEARS, Conditions
from mcage.gpu.heterogeneity.l2 import SequentialL2
from mcage.gpu.heterogeneity.parts import Parts
from mcage.gpu.heterogeneity.scheduler import TwoStage

Design = Literal["baseline", "two-stage+planar-tags", "duplication"]
BASELINE: Design = "baseline"
PROPOSAL: Design = "two-stage+planar-tags"
DUPLICATION: Design = "duplication"
DESIGNS: tuple[Design, ...] = (BASELINE, PROPOSAL, DUPLICATION)

COPY_SHARE = 0.5
"""Share of the accesses of which each of two copies is spared."""


def nbti_efficiency(
    delay: ArrayLike, delay_increase: ArrayLike, power: ArrayLike
) -> NDArray[np.float64]:
    """NBTI efficiency of a design; less is better (Zhang et al., section 7).

    Parameters
    ----------
    delay : array
        Execution time, relative to any unit.
    delay_increase : array
        Larger one of the relative delay increases of scheduler and L2.
    power : array
        Power, relative to any unit.
    """
    slowest = np.asarray(delay, np.float64) * (1 + np.asarray(delay_increase, np.float64))
    efficiency: NDArray[np.float64] = slowest * slowest * slowest * np.asarray(power, np.float64)
    return efficiency


@dataclass(frozen=True, eq=False)
class DesignDelays:
    """Relative delay increases of a design; arrays of one shape.

    Parameters
    ----------
    finfet_scheduler, finfet_l2 : float64[...]
        Of what is made of FinFETs: a scheduler, or its second stage; tags and data array, or the
        data array.
    planar_scheduler, planar_l2 : float64[...]
        Of what is made of planar transistors: the first stage, the tags; 0 where there is nothing.
    """

    finfet_scheduler: NDArray[np.float64]
    finfet_l2: NDArray[np.float64]
    planar_scheduler: NDArray[np.float64]
    planar_l2: NDArray[np.float64]

    @property
    def scheduler(self) -> NDArray[np.float64]:
        """Of the scheduler: the larger of its parts."""
        larger: NDArray[np.float64] = np.maximum(self.finfet_scheduler, self.planar_scheduler)
        return larger

    @property
    def l2(self) -> NDArray[np.float64]:
        """Of the L2: the larger of its parts."""
        larger: NDArray[np.float64] = np.maximum(self.finfet_l2, self.planar_l2)
        return larger

    @property
    def largest(self) -> NDArray[np.float64]:
        """Of scheduler and L2, the larger: it sets the timing margin."""
        larger: NDArray[np.float64] = np.maximum(self.scheduler, self.l2)
        return larger


@dataclass(frozen=True, eq=False)
class Structure:
    """Scheduler or L2 of the baseline: what it is known by.

    Parameters
    ----------
    base_duty : array
        Share of the time under stress.
    baseline_delay : array
        Relative delay increase after `YEARS` at the temperature of the baseline; NaN: that of the
        model at the base duty.
    """

    base_duty: ArrayLike
    baseline_delay: ArrayLike


@dataclass(frozen=True, eq=False)
class HeterogeneousGpu:
    """A GPU of which scheduler and L2 age, under one reading; all numbers may be arrays.

    Parameters
    ----------
    kinds : Parts
        FinFET and planar transistors.
    conditions : Conditions
        Age, voltage, temperature.
    two_stage : TwoStage
        The scheduler, whose base duty is that of the baseline.
    sequential : SequentialL2
        The L2, likewise.
    scheduler_delay, l2_delay : array
        As `Structure.baseline_delay`.
    """

    kinds: Parts
    conditions: Conditions
    two_stage: TwoStage
    sequential: SequentialL2
    scheduler_delay: ArrayLike
    l2_delay: ArrayLike

    def delays(self, design: Design, filter_rate: ArrayLike, miss_rate: ArrayLike) -> DesignDelays:
        """Delay increases of a design.

        Parameters
        ----------
        design : str
            The design.
        filter_rate : array
            Share of the reads that the first stage of the proposal spares.
        miss_rate : array
            Miss rate of the L2.

        Notes
        -----
        Delays that are given for the baseline fix the amplitude of both kinds of transistor in that
        structure; everything else goes as the model. The planar parts of the proposal are accessed
        as often as the baseline's structure, and are as hot.
        """
        finfet, conditions = self.kinds.finfet, self.conditions
        scheduler, l2 = self._scheduler, self._l2
        before = self._baseline(scheduler), self._baseline(l2)
        none = np.zeros_like(before[0])
        if design == "baseline":
            return DesignDelays(*before, none, none)
        if design == "duplication":
            ratio = self._duty_ratio(np.asarray(l2.base_duty, np.float64) * (1 - COPY_SHARE))
            return DesignDelays(
                self.two_stage.delay(finfet, conditions, before[0], COPY_SHARE),
                conditions.delay_left(finfet, before[1], ratio),
                none,
                none,
            )
        ratio = self._duty_ratio(self.sequential.duty(miss_rate))
        return DesignDelays(
            self.two_stage.delay(finfet, conditions, before[0], filter_rate),
            conditions.delay_left(finfet, before[1], ratio),
            self._planar(scheduler),
            self._planar(l2),
        )

    @property
    def _scheduler(self) -> Structure:
        return Structure(self.two_stage.base_duty, self.scheduler_delay)

    @property
    def _l2(self) -> Structure:
        return Structure(self.sequential.base_duty, self.l2_delay)

    def _duty_ratio(self, duty: ArrayLike) -> NDArray[np.float64]:
        """Shift of the L2's FinFETs at another duty over that at the base duty."""
        finfet = self.kinds.finfet
        base = self.conditions.dvth_volts(finfet, self.sequential.base_duty)
        return self.conditions.dvth_volts(finfet, duty) / base

    def _factor(self, structure: Structure) -> NDArray[np.float64]:
        """Factor on the model's shifts with which the baseline's delay is as given."""
        finfet = self.kinds.finfet
        given = np.asarray(structure.baseline_delay, np.float64)
        new = Conditions(YEARS, self.conditions.vdd_volts, self.conditions.temperature_kelvin)
        at_base = new.dvth_volts(finfet, structure.base_duty)
        return np.where(np.isnan(given), 1.0, new.shift_at(finfet, given) / at_base)

    def _baseline(self, structure: Structure) -> NDArray[np.float64]:
        return self._aged(self.kinds.finfet, structure)

    def _planar(self, structure: Structure) -> NDArray[np.float64]:
        return self._aged(self.kinds.planar, structure)

    def _aged(self, kind: FinFetPlanar, structure: Structure) -> NDArray[np.float64]:
        """Delay of a kind of transistor at the base duty of a structure."""
        shift = self.conditions.dvth_volts(kind, structure.base_duty)
        return self.conditions.delay_of(kind, self._factor(structure) * shift)
