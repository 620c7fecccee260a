"""Protection techniques: what one is, the ones that ship."""

from mcage.techniques.catalogue import TECHNIQUES, technique
from mcage.techniques.technique import Gating, Placement, Storage, Technique, refuse_policy

__all__ = [
    "TECHNIQUES",
    "Gating",
    "Placement",
    "Storage",
    "Technique",
    "refuse_policy",
    "technique",
]
