"""The conventional register file: every value at its own entry, unused entries off.

Valero et al. assume for every design, this one included, that the entries which a kernel does not
use are switched off (IEEE TC 2019, section 6.2).
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

BASELINE = Technique(
    name="baseline",
    placement=Placement.DIRECT,
    storage=Storage.PLAIN,
    gating=Gating.UNUSED,
    source="Valero et al., IEEE TC 2019, section 2.1",
    summary="conventional register file",
    description=(
        "The conventional register file: every register has one entry while its window is open. "
        "Entries that no window of the kernel uses are switched off."
    ),
)
