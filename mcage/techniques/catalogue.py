"""The techniques that ship with mcage, in the order of tables, and how one of a user is found."""

from typing import get_type_hints

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import is_plugin, load_plugin, plugin_label
from mcage.techniques.technique import Gating, Placement, Storage, Technique

_SHIPPED = (
    # Valero et al. assume for every design, this one included, that the entries which a kernel does
    # not use are switched off (IEEE TC 2019, section 6.2).
    Technique(
        name="baseline",
        placement=Placement.DIRECT,
        storage=Storage.PLAIN,
        gating=Gating.UNUSED,
        source="Valero et al., IEEE TC 2019, section 2.1",
        summary="conventional register file",
        description=(
            "The conventional register file: every register has one entry while its window is "
            "open. Entries that no window of the kernel uses are switched off."
        ),
    ),
    Technique(
        name="rar",
        placement=Placement.ROTATE,
        storage=Storage.PLAIN,
        gating=Gating.UNUSED,
        source="Valero et al., IEEE TC 2019, section 5.2",
        summary="register address rotation alone",
        description=(
            "RAR, register address rotation: each time a slot gets a new window, its registers "
            "move on by one entry, so that the entries of the slot take turns in the stress that "
            "each register causes."
        ),
    ),
    Technique(
        name="rc",
        placement=Placement.DIRECT,
        storage=Storage.TABLE,
        gating=Gating.EMPTY,
        source="Valero et al., IEEE TC 2019, section 5.1",
        summary="register compression and switch-off",
        description=(
            "RC, register compression: a register whose 64 components differ by regular steps is "
            "kept as a base and two deltas in a small eDRAM table, which does not age by NBTI. Its"
            " entry is switched off meanwhile and recovers."
        ),
    ),
    Technique(
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
    ),
    Technique(
        name="wc",
        placement=Placement.DIRECT,
        storage=Storage.INLINE,
        gating=Gating.EMPTY,
        source="Valero et al., IEEE TC 2019, section 5.3 (after Lee et al.)",
        summary="Warped-Compression: base and deltas in the entry",
        description=(
            "WC, Warped-Compression: a compressible register is stored as a base and narrow deltas"
            " in the first bytes of its entry. The other bytes of the entry are switched off."
        ),
    ),
    Technique(
        name="argo",
        placement=Placement.ROUND_ROBIN,
        storage=Storage.PLAIN,
        gating=Gating.IDLE_WINDOWS,
        source="Valero et al., IEEE TC 2019, section 5.3 (after ARGO)",
        summary="windows in turn, idle windows off",
        description=(
            "ARGO: new windows take the places of the register file in turn, and a place is "
            "switched off from the release of its window until it is written again."
        ),
    ),
    # No hardware but a map of usable windows, paid for with concurrency: the yardstick for
    # techniques that redirect.
    Technique(
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
    ),
    # In the paper the compiler marks the last read of each value in the instructions; here the
    # trace knows it.
    Technique(
        name="gr-guard",
        placement=Placement.GUARD,
        storage=Storage.PLAIN,
        gating=Gating.UNUSED,
        source="Toca-Diaz et al. (RRCD), section VI.B (after Tan et al., PACT 2016)",
        summary="faulty entries' registers in entries with dead values",
        description=(
            "GR-Guard: a register whose entry is faulty borrows a reliable entry whose value "
            "nobody will read again. A register that finds none is spilled to the local memory "
            "(LDS)."
        ),
    ),
    Technique(
        name="rrcd",
        placement=Placement.REDIRECT,
        storage=Storage.BLOCK,
        gating=Gating.UNUSED,
        source="Toca-Diaz et al. (RRCD), section IV",
        summary="redirection by compression around faults",
        description=(
            "RRCD, redirection of registers by data compression: compressed registers go to blocks"
            " without faults in faulty entries, all others to reliable entries. A register that "
            "finds no place is spilled to the local memory (LDS). An entry with one faulty bit is "
            "reliable, since error-correcting pointers (ECP) repair that bit."
        ),
    ),
    Technique(
        name="rrcd+pg",
        placement=Placement.REDIRECT,
        storage=Storage.BLOCK,
        gating=Gating.EMPTY,
        source="mcage, after Toca-Diaz et al.",
        summary="RRCD with empty blocks switched off",
        description=(
            "RRCD with power gating: as rrcd, and every block that holds no value is switched off "
            "and recovers."
        ),
    ),
    Technique(
        name="rrcd+rc+rar",
        placement=Placement.REDIRECT,
        storage=Storage.TABLE,
        gating=Gating.EMPTY,
        source="mcage, after both papers",
        summary="redirection, compression table, rotating selectors",
        description=(
            "RRCD, RC and RAR together: compressible registers live in the table of RC, all others"
            " are redirected to reliable entries, and the search for a free entry starts one entry"
            " further for each new window. Entries that hold no value are switched off."
        ),
        rotating_selectors=True,
    ),
)

TECHNIQUES = {technique.name: technique for technique in _SHIPPED}


def technique(name: str) -> Technique:
    """Find a technique by name: one that ships with mcage, or a user-defined ``module:NAME``.

    Raises
    ------
    UserError
        If there is none, the module cannot be imported, or ``NAME`` is no `Technique`.
    """
    if name in TECHNIQUES:
        return TECHNIQUES[name]
    if not is_plugin(name):
        raise UserError(
            f"technique {shortened(name)} is unknown; choose from {', '.join(TECHNIQUES)}, "
            "or name a user-defined one as module:NAME"
        )
    loaded = load_plugin("technique", name, Technique)
    _check(loaded, plugin_label("technique", name))
    return loaded


def _check(loaded: Technique, label: str) -> None:
    """Refuse policies that engines would not recognise, and what they would not look at."""
    if type(loaded) is not Technique:
        raise UserError(
            f"{label}: is of the subclass {type(loaded).__name__}; engines read the policies of a "
            "mcage.techniques.Technique, and run no code of it"
        )
    for name, kind in get_type_hints(Technique).items():
        value = getattr(loaded, name)
        if not isinstance(value, kind):
            raise UserError(f"{label}: its {name} is {shortened(value)}, no {kind.__name__}")
