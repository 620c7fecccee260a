"""The distribution of Vmin from counts of faulty bits at several voltages."""

from mcage.variation.fitting.counts import FaultCounts, read_counts, shipped_counts
from mcage.variation.fitting.fit import FittedVmin, Prediction, fit_vmin
from mcage.variation.fitting.two_levels import TwoLevels

__all__ = [
    "FaultCounts",
    "FittedVmin",
    "Prediction",
    "TwoLevels",
    "fit_vmin",
    "read_counts",
    "shipped_counts",
]
