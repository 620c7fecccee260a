"""ARGO: windows are given out in turn and idle ones are switched off.

As modelled by Valero et al., IEEE TC 2019, section 5.3.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

ARGO = Technique(
    name="argo",
    placement=Placement.ROUND_ROBIN,
    storage=Storage.PLAIN,
    gating=Gating.IDLE_WINDOWS,
    source="Valero et al., IEEE TC 2019, section 5.3 (after ARGO)",
    summary="windows in turn, idle windows off",
    description=(
        "ARGO: new windows take the places of the register file in turn, and a place is "
        "switched off from the release of its window until it is written again."
    ),
)
