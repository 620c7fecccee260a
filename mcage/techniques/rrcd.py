"""RRCD: compressed registers go to the sound blocks of faulty entries, others to reliable ones.

Toca-Diaz et al. (RRCD), section IV.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RRCD = Technique(
    name="rrcd",
    placement=Placement.REDIRECT,
    storage=Storage.BLOCK,
    gating=Gating.UNUSED,
    source="Toca-Diaz et al. (RRCD), section IV",
    summary="redirection by compression around faults",
)
