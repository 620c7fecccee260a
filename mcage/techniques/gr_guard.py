"""GR-Guard: registers of faulty entries live in reliable ones whose values nobody reads any more.

Tan et al., PACT 2016, as described by Toca-Diaz et al. (RRCD), section VI.B. There the compiler
marks the last read of each value in the instructions; here the trace knows it.
"""

from mcage.techniques.technique import Gating, Placement, Storage, Technique

GR_GUARD = Technique(
    name="gr-guard",
    placement=Placement.GUARD,
    storage=Storage.PLAIN,
    gating=Gating.UNUSED,
    source="Toca-Diaz et al. (RRCD), section VI.B (after Tan et al., PACT 2016)",
    summary="faulty entries' registers in entries with dead values",
    description=(
        "GR-Guard: a register whose entry is faulty borrows a reliable entry whose value nobody "
        "will read again. A register that finds none is spilled to the local memory (LDS)."
    ),
)
