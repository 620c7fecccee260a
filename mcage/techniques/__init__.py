"""Protection techniques: what one is, those that ship, and how one of a user is found.

A technique is a placement, a storage and a gating policy. Engines implement policies, not
techniques. A technique that recombines policies is one value of `Technique`, in the table of
`TECHNIQUES` if it ships with mcage.

A new policy is a member of `Placement`, `Storage` or `Gating`; a placement also needs a row in
`PLACEMENTS`. What implements policies:

- placements fixed by the trace: `replays/layout.py`, for all engines
- placements of registers that depend on faults: `engines/numpy_engine/redirection.py`,
  `engines/numba_engine/homes.py`, `kernels/place.cu`
- placements of windows that depend on faults: `replays/layout.py` and `engines/programs.py`,
  above all engines
- placement programs: `engines/programs.py` above all engines; `engines/numba_engine/programs.py`
- storage: `replays/stored_values.py` and `replays/schedule.py`, for all engines
- gating: `engines/numpy_engine/__init__.py`, `engines/numba_engine/cell_times.py`,
  `kernels/walk.cu`, `kernels/stress.cuh`
"""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Never, NoReturn, get_type_hints

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import is_plugin, load_plugin, plugin_label
from mcage.techniques.programs import PlacementProgram


class Placement(Enum):
    """Which entry a row of a register window lives in."""

    DIRECT = "direct"
    """Base of the window plus register index; windows lie at slot x N."""
    ROTATE = "rotate"
    """Base + (s + index) mod N; s advances by one at each re-assignment of the slot (RAR)."""
    ROUND_ROBIN = "round-robin"
    """Each new window takes the next free one in turn, of all floor(256/N) (ARGO)."""
    REDIRECT = "redirect"
    """Any entry, chosen anew when a row's compression state changes (RRCD)."""
    GUARD = "guard"
    """As `DIRECT`; out of a faulty or occupied entry, one that holds no live value (GR-Guard)."""
    PACK = "pack"
    """Whole windows between faulty entries; if fewer fit than there were, wavefronts wait."""
    PROGRAM = "program"
    """Where a program of the user says, which may learn (`PlacementProgram`)."""


class Storage(Enum):
    """Cells that a written value occupies in its entry."""

    PLAIN = "plain"
    """All 256 bytes, as written."""
    TABLE = "table"
    """No cell if compressible: the value lives in the NBTI-free compression table (RC)."""
    INLINE = "inline"
    """Base and narrow deltas from byte 0 on; the rest of the entry holds nothing (WC)."""
    BLOCK = "block"
    """Five bytes of one 64-byte block if compressible (RRCD)."""


class Gating(Enum):
    """Which cells are switched off."""

    NONE = "none"
    """None: cells keep and stress their last content."""
    UNUSED = "unused"
    """Entries that the workload never uses."""
    IDLE_WINDOWS = "idle windows"
    """As `UNUSED`, and every place from the release of its window on (ARGO)."""
    EMPTY = "empty"
    """Whatever holds no value: the entry (table), the bytes (inline), the block (block)."""


@dataclass(frozen=True)
class PlacementTraits:
    """Consequences of a placement for the code around the engines.

    Attributes
    ----------
    redirects : bool
        Registers move away from faults.
    borrows : bool
        Each register has an entry, and borrows another only if it cannot use that entry.
    packs : bool
        Windows lie where faults leave room for them.
    rotates : bool
        Registers of a window take turns in its entries.
    may_lack_room : bool
        Windows lie elsewhere than recorded, where there may be no room for one.
    """

    redirects: bool = False
    borrows: bool = False
    packs: bool = False
    rotates: bool = False
    may_lack_room: bool = False


PLACEMENTS = {
    Placement.DIRECT: PlacementTraits(),
    Placement.ROTATE: PlacementTraits(rotates=True),
    Placement.ROUND_ROBIN: PlacementTraits(may_lack_room=True),
    Placement.REDIRECT: PlacementTraits(redirects=True),
    Placement.GUARD: PlacementTraits(redirects=True, borrows=True),
    Placement.PACK: PlacementTraits(packs=True, may_lack_room=True),
    Placement.PROGRAM: PlacementTraits(redirects=True),
}
"""Traits of each placement; a placement without a row is refused."""


@dataclass(frozen=True)
class Technique:
    """A protection technique.

    Parameters
    ----------
    name : str
        One word, which tables and figures show; of a technique of mcage, also its name on the
        command line.
    placement, storage, gating : Placement, Storage, Gating
        The three policies.
    source : str
        The paper (authors, venue, section) that describes it.
    summary : str
        What it does, in a few words.
    rotating_selectors : bool
        Redirecting techniques only: the scan for a free entry starts at an entry that advances
        by one with every window allocation, wrapping, instead of at entry 0.
    description : str
        What it does, in whole sentences, for `mcage techniques`. It decides no result, and is no
        part of the digest of a sweep.
    program : PlacementProgram, optional
        With placement `PROGRAM` alone: says where values live.

    Raises
    ------
    UserError
        If the policies do not go together.
    """

    name: str
    placement: Placement
    storage: Storage
    gating: Gating
    source: str
    summary: str
    rotating_selectors: bool = False
    description: str = field(default="", repr=False, compare=False)
    program: PlacementProgram | None = None

    def __post_init__(self) -> None:
        programmed = self.placement is Placement.PROGRAM
        redirects = self.placement is Placement.REDIRECT
        plain = self.storage is Storage.PLAIN
        problem = None
        if not self.name or any(letter.isspace() for letter in self.name):
            problem = "its name must be one word"
        elif programmed != isinstance(self.program, PlacementProgram):
            problem = "program placement needs a program, an object of a class derived from "
            problem += "PlacementProgram, and no other placement has any"
        elif self.storage is Storage.BLOCK and not (redirects or programmed):
            problem = "block storage needs redirect placement"
        elif self.storage is Storage.INLINE and (redirects or programmed):
            problem = "inline storage keeps its entry and does not go with "
            problem += f"{self.placement.value} placement"
        elif self.rotating_selectors and not redirects:
            problem = "rotating selectors need redirect placement"
        elif self.placement is Placement.GUARD and not plain:
            problem = "guard placement looks for whole entries and needs plain storage"
        elif self.placement is Placement.PACK and not plain:
            problem = "pack placement moves whole windows and needs plain storage"
        elif self.gating is Gating.IDLE_WINDOWS and self.redirects:
            problem = f"{self.placement.value} placement has no windows to gate; use 'empty' gating"
        elif self.gating is Gating.IDLE_WINDOWS and not plain:
            problem = f"{self.storage.value} storage empties its entries; use 'empty' gating"
        if problem:
            raise UserError(f"technique {self.name!r}: {problem}")
        if self.program is not None:
            self.program.check()

    def __repr__(self) -> str:
        """All that decides results; a technique without a program is silent of it."""
        values = [(part.name, getattr(self, part.name)) for part in fields(self) if part.repr]
        told = (f"{name}={value!r}" for name, value in values if value is not None)
        return f"Technique({', '.join(told)})"

    @property
    def compresses(self) -> bool:
        """Whether any value is stored in less than an entry."""
        match self.storage:
            case Storage.PLAIN:
                return False
            case Storage.TABLE | Storage.INLINE | Storage.BLOCK:
                return True
            case unknown:
                refuse_policy(unknown, "Technique.compresses")

    @property
    def stores_in_table(self) -> bool:
        """Whether compressed values go to the compression table."""
        return self.storage is Storage.TABLE

    @property
    def stores_inline(self) -> bool:
        """Whether compressed values stay at the beginning of their entries."""
        return self.storage is Storage.INLINE

    @property
    def stores_in_blocks(self) -> bool:
        """Whether compressed values take a block of an entry."""
        return self.storage is Storage.BLOCK

    @property
    def placement_traits(self) -> PlacementTraits:
        """Consequences of the placement for the code around the engines.

        Raises
        ------
        UserError
            If `PLACEMENTS` has no row for it.
        """
        if self.placement not in PLACEMENTS:
            raise UserError(
                f"technique {self.name!r}: placement {self.placement.value!r} is not implemented: "
                "it has no row in mcage.techniques.PLACEMENTS"
            )
        return PLACEMENTS[self.placement]

    @property
    def redirects(self) -> bool:
        """Whether the technique can move registers away from faults."""
        return self.placement_traits.redirects

    @property
    def borrows(self) -> bool:
        """Whether each register has an entry, and borrows another if it cannot use that entry."""
        return self.placement_traits.borrows

    @property
    def packs(self) -> bool:
        """Whether windows lie where faults leave room for them."""
        return self.placement_traits.packs

    @property
    def rotates(self) -> bool:
        """Whether the registers of a window take turns in its entries."""
        return self.placement_traits.rotates

    @property
    def may_lack_room(self) -> bool:
        """Whether windows lie elsewhere than recorded, where there may be no room for one."""
        return self.placement_traits.may_lack_room

    @property
    def heeds_faults(self) -> bool:
        """Whether what the technique does depends on the fault map."""
        return self.redirects or self.packs

    @property
    def gates_released(self) -> bool:
        """Whether a place is switched off once its value is gone."""
        match self.gating:
            case Gating.NONE | Gating.UNUSED:
                return False
            case Gating.IDLE_WINDOWS | Gating.EMPTY:
                return True
            case unknown:
                refuse_policy(unknown, "Technique.gates_released")

    @property
    def gates_empty(self) -> bool:
        """Whether all that holds no value is switched off, also in an open window."""
        return self.gating is Gating.EMPTY


def refuse_policy(policy: Never, where: str) -> NoReturn:
    """End a distinction of all members of a policy: a member that comes here is not implemented.

    As `typing.assert_never`, type checkers complain of members that can come here; at run time
    the error is one for users.

    Parameters
    ----------
    policy : Placement, Storage or Gating
        A member that was added without code.
    where : str
        What has no code for it.

    Raises
    ------
    UserError
        Always.
    """
    raise UserError(
        f"{type(policy).__name__.lower()} {policy.value!r} is not implemented in {where}"
    )


# The techniques that ship with mcage, in the order of tables.

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
