"""Disable: faulty entries are unusable, and windows lie between them, as many as fit.

What one would do without any paper: no hardware but a map of usable windows, paid for with
concurrency. The yardstick for techniques that redirect.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

DISABLE = Technique(
    name="disable",
    placement=Placement.PACK,
    storage=Storage.PLAIN,
    gating=Gating.UNUSED,
    source="mcage: what needs no paper",
    summary="faulty entries unusable, fewer windows at once",
    description=(
        "Faulty entries are not used, and whole windows lie between them. Where fewer windows "
        "fit than the kernel had open at once, wavefronts wait, which costs time."
    ),
)
