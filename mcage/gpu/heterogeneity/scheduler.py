"""The two-stage warp scheduler: a planar filter in front of a FinFET scheduler.

The baseline reads the entry of every resident warp in each cycle. In the two-stage scheduler a
planar one-bit array tells which warps have their data, and only these entries are read (Zhang et
al., INTEGRATION 2015, section 4.1). The share of the reads that it spares is the filter rate.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.nbti.models import FinFetPlanar
from mcage.gpu.heterogeneity.aging import Conditions

Reading = Literal["activity", "combined", "thermal"]
READINGS: tuple[Reading, ...] = ("activity", "combined", "thermal")
"""What a filtered read changes: the duty; duty and temperature; the temperature alone."""

BASE_DUTY = 0.4
"""Duty of the baseline (reconstructed): under `activity` the mean of ten two-stage delays is then
2.37 %, where 2.36 is printed."""

_PRINTED_DROPS = ((0.9741, 15.0), (0.7693, 11.0))
"""Filter rate and temperature drop in K of NN and of Backprop (Table 4, section 6.1)."""

THETA_KELVIN = sum(f * drop for f, drop in _PRINTED_DROPS) / sum(f * f for f, _ in _PRINTED_DROPS)
"""Temperature drop of a scheduler whose reads are all filtered, 14.976 K (reconstructed): least
squares through the two drops in print."""

THERMAL_ACTIVATION_EV = 0.972
"""Activation energy of the shift under `thermal`, eV (reconstructed): the mean of what the two
printed drops need; the published value, Ea/4, is an eighth of it."""


@dataclass(frozen=True, eq=False)
class TwoStage:
    """How the two-stage scheduler ages; all numbers may be arrays.

    Parameters
    ----------
    reading : str
        What a filtered read changes.
    base_duty : array
        Share of the time for which an entry of the baseline is under stress.
    theta_kelvin : array
        Temperature drop at a filter rate of 1, K.
    activation_ev : array
        Activation energy of the shift under ``thermal``, eV.
    """

    reading: Reading = "activity"
    base_duty: ArrayLike = BASE_DUTY
    theta_kelvin: ArrayLike = THETA_KELVIN
    activation_ev: ArrayLike = THERMAL_ACTIVATION_EV

    def model(self, kind: FinFetPlanar) -> FinFetPlanar:
        """Return a kind of transistor with the activation energy of the reading."""
        if self.reading != "thermal":
            return kind
        return replace(kind, effective_activation_energy_ev=self.activation_ev)

    def drop_kelvin(self, filter_rate: ArrayLike) -> NDArray[np.float64]:
        """Kelvin by which the scheduler is cooler than the baseline; the same in all readings."""
        drop: NDArray[np.float64] = np.asarray(self.theta_kelvin) * np.asarray(filter_rate)
        return drop

    def dvth_ratio(
        self, kind: FinFetPlanar, conditions: Conditions, filter_rate: ArrayLike
    ) -> NDArray[np.float64]:
        """Shift of the two-stage scheduler over that of the baseline.

        Parameters
        ----------
        kind : FinFetPlanar
            What the scheduler is made of.
        conditions : Conditions
            Age, voltage, temperature.
        filter_rate : array
            Share of the reads that the first stage spares, 0 ... 1.
        """
        rate = np.asarray(filter_rate, np.float64)
        base = np.asarray(self.base_duty, np.float64)
        duty = base * (1 - rate) if self.reading != "thermal" else base
        drop = self.drop_kelvin(rate) if self.reading != "activity" else 0.0
        model = self.model(kind)
        before = conditions.dvth_volts(model, base)
        return conditions.dvth_volts(model, duty, drop) / before

    def delay(
        self,
        kind: FinFetPlanar,
        conditions: Conditions,
        baseline_delay: ArrayLike,
        filter_rate: ArrayLike,
    ) -> NDArray[np.float64]:
        """Relative delay increase of the two-stage scheduler, from that of the baseline."""
        ratio = self.dvth_ratio(kind, conditions, filter_rate)
        return conditions.delay_left(kind, baseline_delay, ratio)


def ipc_overhead(latency_cycles: ArrayLike, extra_cycles: float = 1.0) -> NDArray[np.float64]:
    """Relative extra time of the longest chain of warps (equations 4 to 6).

    Parameters
    ----------
    latency_cycles : array
        Mean latency of the instructions of the chain, cycles.
    extra_cycles : float
        Cycles that the second stage adds to each instruction (printed: 1).
    """
    overhead: NDArray[np.float64] = extra_cycles / np.asarray(latency_cycles, np.float64)
    return overhead
