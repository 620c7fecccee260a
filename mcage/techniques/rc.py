"""RC: a compressible value moves to the eDRAM compression table and its entry is switched off.

Valero et al., IEEE TC 2019, section 5.1.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RC = Technique(
    name="rc",
    placement=Placement.DIRECT,
    storage=Storage.TABLE,
    gating=Gating.EMPTY,
    source="Valero et al., IEEE TC 2019, section 5.1",
    summary="register compression and switch-off",
)
