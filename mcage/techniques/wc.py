"""WC: Warped-Compression keeps base and deltas in the entry and switches the other bytes off.

As modelled by Valero et al., IEEE TC 2019, section 5.3.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

WC = Technique(
    name="wc",
    placement=Placement.DIRECT,
    storage=Storage.INLINE,
    gating=Gating.EMPTY,
    source="Valero et al., IEEE TC 2019, section 5.3 (after Lee et al.)",
    summary="Warped-Compression: base and deltas in the entry",
    description=(
        "WC, Warped-Compression: a compressible register is stored as a base and narrow deltas "
        "in the first bytes of its entry. The other bytes of the entry are switched off."
    ),
)
