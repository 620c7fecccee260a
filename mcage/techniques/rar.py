"""RAR: register addresses rotate inside the window at each re-assignment.

Valero et al., IEEE TC 2019, section 5.2.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RAR = Technique(
    name="rar",
    placement=Placement.ROTATE,
    storage=Storage.PLAIN,
    gating=Gating.UNUSED,
    source="Valero et al., IEEE TC 2019, section 5.2",
    summary="register address rotation alone",
    description=(
        "RAR, register address rotation: each time a slot gets a new window, its registers move "
        "on by one entry, so that the entries of the slot take turns in the stress that each "
        "register causes."
    ),
)
