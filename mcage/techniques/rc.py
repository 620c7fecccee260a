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
    description=(
        "RC, register compression: a register whose 64 components differ by regular steps is "
        "kept as a base and two deltas in a small eDRAM table, which does not age by NBTI. Its "
        "entry is switched off meanwhile and recovers."
    ),
)
