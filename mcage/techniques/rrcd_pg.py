"""RRCD with power gating: as `rrcd`, and every block that holds nothing is switched off.

A composition of mcage: Toca-Diaz et al. (RRCD) for the placement, the gating after Valero et al.,
IEEE TC 2019.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RRCD_PG = Technique(
    name="rrcd+pg",
    placement=Placement.REDIRECT,
    storage=Storage.BLOCK,
    gating=Gating.EMPTY,
    source="mcage, after Toca-Diaz et al.",
    summary="RRCD with empty blocks switched off",
    description=(
        "RRCD with power gating: as rrcd, and every block that holds no value is switched off "
        "and recovers."
    ),
)
