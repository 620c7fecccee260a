"""Which slice and which slot holds each register window of an import."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.tracing.importing.recording import Place, Window

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
