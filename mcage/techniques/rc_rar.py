"""RC+RAR: compression switches entries off, rotation shares the off-time among them.

Valero et al., IEEE TC 2019, sections 5.1 and 5.2.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RC_RAR = Technique(
    name="rc+rar",
    placement=Placement.ROTATE,
    storage=Storage.TABLE,
    gating=Gating.EMPTY,
    source="Valero et al., IEEE TC 2019, section 5",
    summary="compression, switch-off and rotation",
    description=(
        "RC and RAR together: compression switches entries off, and rotation spreads the time "
        "off over the entries of a slot."
    ),
)
