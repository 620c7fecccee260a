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
    description=(
        "RRCD, redirection of registers by data compression: compressed registers go to blocks "
        "without faults in faulty entries, all others to reliable entries. A register that "
        "finds no place is spilled to the local memory (LDS). An entry with one faulty bit is "
        "reliable, since error-correcting pointers (ECP) repair that bit."
    ),
)
