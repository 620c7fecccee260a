"""RRCD+RC+RAR: the composition that no paper has.

Compressible values live in the compression table of RC, the others are redirected to reliable
entries as in RRCD, and the selectors' scan rotates as addresses do in RAR. A composition of mcage
from Toca-Diaz et al. (RRCD) and Valero et al. (IEEE TC 2019).
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

RRCD_RC_RAR = Technique(
    name="rrcd+rc+rar",
    placement=Placement.REDIRECT,
    storage=Storage.TABLE,
    gating=Gating.EMPTY,
    source="mcage, after both papers",
    summary="redirection, compression table, rotating selectors",
    description=(
        "RRCD, RC and RAR together: compressible registers live in the table of RC, all others "
        "are redirected to reliable entries, and the search for a free entry starts one entry "
        "further for each new window. Entries that hold no value are switched off."
    ),
    rotating_selectors=True,
)
