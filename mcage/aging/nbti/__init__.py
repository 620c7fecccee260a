"""NBTI: how far the threshold voltage of a PMOS shifts while it is stressed and recovers.

In a 6T cell, T0 is stressed while the cell holds '0' and T1 while it holds '1'; the other one, and
both while the cell is off, recover (Valero et al., IEEE TC 2019, section 2.2). Each transistor
therefore ages by the fraction of the time for which it is stressed: d0 for T0, d1 for T1.
"""

from mcage.aging.nbti.catalogue import nbti_model
from mcage.aging.nbti.model import (
    BOLTZMANN_EV_PER_KELVIN,
    MODEL_NAMES,
    SECONDS_PER_YEAR,
    AdditiveModel,
    NbtiModel,
    Rates,
    Transistors,
    constants,
    with_constants,
)
from mcage.aging.nbti.models import Bhardwaj, Facelift, Phases, facelift

__all__ = [
    "BOLTZMANN_EV_PER_KELVIN",
    "MODEL_NAMES",
    "SECONDS_PER_YEAR",
    "AdditiveModel",
    "Bhardwaj",
    "Facelift",
    "NbtiModel",
    "Phases",
    "Rates",
    "Transistors",
    "constants",
    "facelift",
    "nbti_model",
    "with_constants",
]
