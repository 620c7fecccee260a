"""The two kinds of transistor of a heterogeneous GPU (Zhang et al., INTEGRATION 2015, Table 3)."""

from dataclasses import dataclass
from typing import Literal, cast

from mcage.aging.nbti import nbti_model
from mcage.aging.nbti.models import FinFetPlanar

Fields = Literal["swapped", "common"]
FIELDS: tuple[Fields, ...] = ("swapped", "common")
"""How Table 3's field constants are read: with its columns swapped, or 0.335 V/nm for both. As
printed, planar transistors would age 19 times more, against the paper's claim (docs/aging.md)."""


@dataclass(frozen=True)
class Parts:
    """FinFET and planar transistors.

    Parameters
    ----------
    finfet, planar : FinFetPlanar
        How each kind shifts.
    """

    finfet: FinFetPlanar
    planar: FinFetPlanar


def parts(fields: Fields = "swapped") -> Parts:
    """Return both kinds under a reading of the field constants."""
    suffix = "" if fields == "swapped" else "-common"
    finfet, planar = (nbti_model(f"{kind}{suffix}") for kind in ("finfet", "planar"))
    return Parts(cast(FinFetPlanar, finfet), cast(FinFetPlanar, planar))
