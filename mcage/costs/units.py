"""Which units a technique adds to a slice: a matter of its policies, never of its name."""

from dataclasses import dataclass

from mcage.spec.cost_constants import Component, Technology
from mcage.techniques import Storage, Technique, refuse_policy


@dataclass(frozen=True)
class Units:
    """Units beside the slice; None or False for those that the technique has no use for.

    Attributes
    ----------
    compression, decompression : Component or None
        One unit at the write port, and each of those at the read ports.
    table : bool
        Compression table (RC).
    redirection : bool
        Redirection table (TR) and redirection selection unit (USR).
    speculates : bool
        The first block decides where a register goes: a buffer (BRD) holds the register meanwhile,
        and compression and decompression have a pipeline stage each.
    power_gating : bool
        Sleep transistors for every entry.
    """

    compression: Component | None
    decompression: Component | None
    table: bool
    redirection: bool
    speculates: bool
    power_gating: bool


def units_of(technique: Technique, technology: Technology) -> Units:
    """Find the units that a technique needs.

    Parameters
    ----------
    technique : Technique
        Table and block storage compress by deltas, inline storage as Warped-Compression does.
    technology : Technology
        Whose components the units are.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5; Toca-Diaz et al. (RRCD), section IV.
    """
    compression = decompression = None
    match technique.storage:
        case Storage.PLAIN:
            pass
        case Storage.INLINE:
            compression = technology.wc_compression_unit
            decompression = technology.wc_decompression_unit
        case Storage.TABLE | Storage.BLOCK:
            compression = technology.compression_unit
            decompression = technology.decompression_unit
        case unknown:
            refuse_policy(unknown, "units_of")
    return Units(
        compression=compression,
        decompression=decompression,
        table=technique.stores_in_table,
        redirection=technique.redirects,
        speculates=technique.redirects and technique.compresses,
        power_gating=technique.gates_released,
    )
