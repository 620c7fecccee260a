"""Register windows of an import: where they come from, and which slice and slot holds them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.geometry import SliceGeometry

# What an import knows of a window, and what is counted of it.

_MOST_NARROW = 255
"""Registers up to this one are a byte in digests, all others two."""


@dataclass(frozen=True)
class Origin:
    """Where a window comes from.

    Attributes
    ----------
    kernel : str
        Name of its kernel.
    launch : int
        Number of the kernel launch.
    work_group, wavefront : int or None
        Global numbers. Without a work-group, the window is alone in its own.
    """

    kernel: str = "kernel"
    launch: int = 0
    work_group: int | None = None
    wavefront: int | None = None


@dataclass(frozen=True)
class Place:
    """The part of a GPU whose registers hold a window.

    Attributes
    ----------
    unit : int or None
        Compute unit (64 lanes) or SM (32 lanes). If the file does not say, work-groups fill one
        unit after the other.
    part : int
        SIMD unit of a compute unit, or partition of an SM.
    """

    unit: int | None = None
    part: int = 0

    def names(self) -> frozenset[str]:
        """What the slice is called with 64 and with 32 lanes."""
        return frozenset({self.name(64), self.name(32)})

    def name(self, lanes: int) -> str:
        """What the slice is called: ``cu0.simd1`` or ``sm0.part1``."""
        unit, part = ("cu", "simd") if lanes == 64 else ("sm", "part")
        return f"{unit}{self.unit}.{part}{self.part}"


class Counted:
    """Numbers and digests of the writes and reads of a window."""

    def __init__(self) -> None:
        self.writes = self.exact_writes = self.lane_writes = self.partial_writes = self.reads = 0
        self.most_register = -1
        self._all: Any = blake2b(digest_size=12)
        self._states: Any = blake2b(digest_size=12)
        self._registers = bytearray()
        self._exact: Any = None  # that of all writes, until one is not exact
        self._digests: dict[str, str] = {}

    def write(self, register: int, lanes: int, packed: bytes, content: bytes, exact: bool) -> None:
        """Count a write: the values of its lanes, and what the whole register holds after it."""
        number = register.to_bytes(1 if register <= _MOST_NARROW else 2, "little")
        written = number + lanes.to_bytes(8, "little") + packed
        self.writes += 1
        self.exact_writes += exact
        self.lane_writes += len(packed) // 4
        self.partial_writes += len(packed) < len(content)
        if self._exact is not None and exact:
            self._exact.update(written)
        elif self._exact is None and not exact:
            self._exact = self._all.copy()
        self._all.update(written)
        self._states.update(number + content)
        self._registers += number

    def facts(self) -> dict[str, Any]:
        """Numbers and digests by name."""
        numbers = ("writes", "exact_writes", "lane_writes", "partial_writes", "reads")
        self.close()
        return {name: getattr(self, name) for name in numbers} | self._digests

    def close(self) -> None:
        """Keep the digests only as text, which is smaller."""
        if self._digests:
            return
        registers = blake2b(self._registers, digest_size=12)
        digests = (self._all, self._exact or self._all, self._states, registers)
        names = ("digest", "digest_of_exact", "state_digest", "registers_written")
        texts = (digest.hexdigest() for digest in digests)
        self._digests = dict(zip(names, texts, strict=True))
        self._all = self._exact = self._states = None
        self._registers = bytearray()


@dataclass(eq=False, slots=True)
class Window:
    """A register window; what it holds is known to the recording alone.

    Attributes
    ----------
    number : int
        From 0, in the order in which windows open; -1 for one that the user has not asked for.
    size : int or None
        Registers; None until they are known, which `Recording.close_window` may say.
    begin, last, end : int
        Time of the allocation, of the last access so far, and of the release (None: not yet).
    lanes : int
        Lanes that have a work-item.
    facts : dict
        What `--json` says of this window besides what the recording counts.
    """

    number: int
    size: int | None
    begin: int
    origin: Origin
    place: Place
    first_entry: int | None
    lanes: int
    facts: dict[str, Any]
    last: int = 0
    end: int | None = None
    contents: dict[int, bytes] = field(default_factory=dict)
    counted: Counted = field(default_factory=Counted)


@dataclass
class Gaps:
    """Reads that do not see what the last recorded write has left.

    Attributes
    ----------
    reads : int
        All reads of the windows that were kept.
    before_any_write : int
        Reads of a register that nothing has written since its window was opened.
    other_contents : int
        Reads for which the file shows other contents than the last write.
    """

    reads: int = 0
    before_any_write: int = 0
    other_contents: int = 0

    @property
    def share(self) -> float:
        """Share of the reads."""
        return (self.before_any_write + self.other_contents) / max(self.reads, 1)


# Which slice holds a window, and which of its slots: as the file says, or first-fit.

_FREE = -1


@dataclass(frozen=True)
class Span:
    """A window as it is placed: registers and cycles, ends included.

    ``last`` is the cycle of the last access, at or before ``end``, that of the release.
    """

    window: Window
    size: int
    begin: int
    last: int
    end: int


@dataclass(frozen=True)
class Placed:
    """Windows of a slice.

    Attributes
    ----------
    place : Place
        Which slice, with unit and part.
    spans : list of Span
        Windows in the order of their allocation; `end` may be a cycle earlier than it was.
    slots : list of int
        Slot of each.
    as_recorded : bool
        Whether every window lies where the file says that it lay.
    """

    place: Place
    spans: list[Span]
    slots: list[int]
    as_recorded: bool


def place_windows(spans: Sequence[Span], geometry: SliceGeometry, name: str) -> list[Placed]:
    """Give every window a slice and a slot.

    Windows whose unit and part are known stay there, and keep their entries where every window of
    the slice has known ones that are whole slots. All others are placed first-fit: each in the
    lowest free slot, a work-group whose unit is not known in the first unit that has room for all
    of it and that the file does not name.

    Parameters
    ----------
    spans : sequence of Span
        Windows.
    geometry : SliceGeometry
        The slices.
    name : str
        How errors begin.

    Returns
    -------
    list of Placed
        One for each slice, ordered by unit and part.

    Raises
    ------
    UserError
        A slice has no room for a window.
    """
    entries = geometry.entries
    slices: dict[Place, list[Span]] = defaultdict(list)
    loose = []
    for span in sorted(spans, key=lambda span: span.begin):
        if span.window.place.unit is None:
            loose.append(span)
        else:
            slices[span.window.place].append(span)
    placed = []
    for place, of_slice in slices.items():
        whole_name = f"{name} {place.name(geometry.components)}"
        placed.append(_placed_in(place, of_slice, entries, whole_name))
    placed += _packed(loose, entries, name, {place.unit for place in slices})
    return sorted(placed, key=lambda of_slice: (of_slice.place.unit or 0, of_slice.place.part))


class _Entries:
    """Entries of a slice, and until which cycle each is in use."""

    def __init__(self, entries: int) -> None:
        self.until = np.full(entries, _FREE, np.int64)
        self.slots_until = np.full(entries, _FREE, np.int64)

    def slot_for(self, size: int, begin: int) -> int | None:
        """Lowest slot of so many registers that is free from a cycle on, and its number too."""
        slots = len(self.until) // size
        until = self.until[: slots * size].reshape(slots, size).max(axis=1)
        free = np.flatnonzero(np.maximum(until, self.slots_until[:slots]) < begin)
        return int(free[0]) if len(free) else None

    def take(self, slot: int, span: Span) -> None:
        self.until[slot * span.size : (slot + 1) * span.size] = span.end
        self.slots_until[slot] = span.end

    def copy(self) -> "_Entries":
        """Another one, in the same state."""
        other = _Entries(0)
        other.until, other.slots_until = self.until.copy(), self.slots_until.copy()
        return other

    def in_use(self, begin: int) -> int:
        return int((self.until >= begin).sum())


def _placed_in(place: Place, spans: list[Span], entries: int, name: str) -> Placed:
    recorded = _as_recorded(place, spans, entries)
    if recorded:
        return recorded
    held, slots = _Entries(entries), []
    for span in spans:
        slot = held.slot_for(span.size, span.begin)
        if slot is None:
            raise UserError(
                f"{name}: a window of {span.size} registers opens in cycle {span.begin}, when "
                f"{held.in_use(span.begin)} of the {entries} entries of a slice are in use; "
                "the recorded register file was larger, or the windows were not open at a time"
            )
        held.take(slot, span)
        slots.append(slot)
    return Placed(place, spans, slots, as_recorded=False)


def _as_recorded(place: Place, spans: list[Span], entries: int) -> Placed | None:
    """Windows where the file says that they lay, if these are whole slots and free in time.

    A release in the cycle in which the next window takes the same entries happens a cycle earlier.
    """
    until = np.full(entries, _FREE, np.int64)
    holder = np.full(entries, -1)
    of_slot: dict[int, int] = {}
    kept, slots = list(spans), []
    for number, span in enumerate(spans):
        first = span.window.first_entry
        if first is None or first % span.size or first + span.size > entries:
            return None
        slot, wanted = first // span.size, slice(first, first + span.size)
        others = set(holder[wanted][until[wanted] >= span.begin].tolist())
        if slot in of_slot and kept[of_slot[slot]].end >= span.begin:
            others.add(of_slot[slot])
        for other in others:
            before = kept[other]
            if before.end > span.begin or before.last >= span.begin:
                return None
            kept[other] = replace(before, end=span.begin - 1)
        until[wanted], holder[wanted], of_slot[slot] = span.end, number, number
        slots.append(slot)
    return Placed(place, kept, slots, as_recorded=True)


def _packed(
    spans: list[Span], entries: int, name: str, named_units: Set[int | None]
) -> Iterator[Placed]:
    """Work-groups whose unit is not known, each in the first unit with room for all of it."""
    units = [unit for unit in range(len(spans) + len(named_units)) if unit not in named_units]
    held: dict[Place, _Entries] = defaultdict(lambda: _Entries(entries))
    slices: dict[Place, tuple[list[Span], list[int]]] = defaultdict(lambda: ([], []))
    for group in _work_groups(spans):
        for span, place, slot in _first_room(group, held, name, units):
            held[place].take(slot, span)
            slices[place][0].append(span)
            slices[place][1].append(slot)
    for place, (of_slice, slots) in slices.items():
        order = sorted(range(len(of_slice)), key=lambda row: of_slice[row].begin)
        yield Placed(place, [of_slice[n] for n in order], [slots[n] for n in order], False)


def _work_groups(spans: list[Span]) -> list[list[Span]]:
    """Windows that open together, ordered by the first of each group."""
    groups: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in spans:
        origin = span.window.origin
        alone = -1 - span.window.number
        group = alone if origin.work_group is None else origin.work_group
        groups[origin.launch, group].append(span)
    return list(groups.values())


def _first_room(
    group: list[Span], held: dict[Place, _Entries], name: str, units: Sequence[int]
) -> list[tuple[Span, Place, int]]:
    """Places and slots for all windows of a work-group, in the first unit that has room."""
    entries = len(held[Place(units[0])].until)
    for unit in units:
        places = [Place(unit, span.window.place.part) for span in group]
        unused = all((held[place].until == _FREE).all() for place in places)
        slots = _room(group, places, held)
        if slots:
            return list(zip(group, places, slots, strict=True))
        if unused:
            break
    raise UserError(
        f"{name}: a work-group has windows of {sum(span.size for span in group)} registers, more "
        f"than have room in slices of {entries} entries"
    )


def _room(group: list[Span], places: list[Place], held: dict[Place, _Entries]) -> list[int] | None:
    """Slots for all windows of a work-group from its first cycle on, if they have room there."""
    before = {place: held[place].copy() for place in places}
    slots: list[int] = []
    for span, place in zip(group, places, strict=True):
        slot = held[place].slot_for(span.size, group[0].begin)
        if slot is None:
            break
        held[place].take(slot, span)
        slots.append(slot)
    held.update(before)
    return slots if len(slots) == len(group) else None
