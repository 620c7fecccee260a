"""Oracle of the register file: one slice, one event at a time, every cell in the open.

It says the same thing as the engines in the slowest and plainest way, so that they can be held
against it: one Python object per window and per row, one array element per cell, no shortcut
that would need a proof. Policies follow Valero et al., IEEE TC 2019, section 5 (RC, RAR, WC,
ARGO) and Toca-Díaz et al. (RRCD), sections IV and VI.B (GR-Guard). Nothing here is imported from
the package.

Cells of an entry are numbered 32*component + bit, so byte k is cells 8*k ... 8*k + 7; blocks of 512
cells follow each other. `geometries.on` puts the numbers of another slice in place of these. A pass
is ``trace.cycles`` long and all windows are closed at its end; content and, for rotating windows,
counters go on into the next pass.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

ENTRIES, COMPONENTS, CELLS = 256, 64, 2048
BLOCKS, BLOCK_CELLS, BLOCK_COMPONENTS = 4, 512, 16
ALL_LANES = 2**64 - 1
ALLOC, RELEASE, WRITE, READ = range(4)
EVENT_COLUMNS = ("cycle", "kind", "slot", "reg", "exec_mask", "value")


class Policies(NamedTuple):
    """What a technique is made of."""

    placement: str  # direct | rotate | round-robin | redirect | redirect-rotating | guard | pack
    storage: str  # plain | table | inline | block
    gating: str  # unused | empty | idle


TECHNIQUES = {
    "baseline": Policies("direct", "plain", "unused"),
    "rar": Policies("rotate", "plain", "unused"),
    "rc": Policies("direct", "table", "empty"),
    "rc+rar": Policies("rotate", "table", "empty"),
    "wc": Policies("direct", "inline", "empty"),
    "argo": Policies("round-robin", "plain", "idle"),
    "disable": Policies("pack", "plain", "unused"),
    "gr-guard": Policies("guard", "plain", "unused"),
    "rrcd": Policies("redirect", "block", "unused"),
    "rrcd+pg": Policies("redirect", "block", "empty"),
    "rrcd+rc+rar": Policies("redirect-rotating", "table", "empty"),
}

COUNTERS = (
    "regular",
    "to_reliable",
    "to_faulty",
    "lds",
    "slice_reads",
    "lds_reads",
    "peak_spilled_rows",
    "spilled_row_cycles",
    "mov_writes",
    "wakeups",
    "mispredicted_writes",
    "memory",
    "memory_reads",
)


# ---- compression -----------------------------------------------------------------------------


def compression_deltas(components, delta_limit):
    """(delta_e, delta_b) of a register or of its first block, or None if the rule does not fit."""
    return _deltas(np.asarray(components, dtype="<u4").tobytes(), delta_limit)


@functools.lru_cache(maxsize=100_000)
def _deltas(content, delta_limit):
    numbers = np.frombuffer(content, dtype="<u4").tolist()
    within, between = set(), set()
    for i in range(1, len(numbers)):
        if i % 8 == 0:
            between.add((numbers[i] - numbers[i - 8]) % 2**32)
        else:
            within.add((numbers[i] - numbers[i - 1]) % 2**32)
    if len(within) > 1 or len(between) > 1:
        return None
    deltas = (within.pop(), between.pop() if between else 0)
    for delta in deltas:
        power_of_two_or_zero = delta & (delta - 1) == 0
        if not power_of_two_or_zero or (delta_limit is not None and delta > delta_limit):
            return None
    return deltas


def block_record(value, delta_limit):
    """The five bytes that stand for a compressed register in a block: base and both exponents."""
    delta_e, delta_b = compression_deltas(value, delta_limit)
    codes = [7 if delta == 0 else (delta.bit_length() - 1) % 8 for delta in (delta_e, delta_b)]
    return int(value[0]).to_bytes(4, "little") + bytes([codes[0] | codes[1] << 3])


def inline_record(value):
    """The bytes that WC keeps of a register: 4, 67 or 130 of them, or all 256 uncompressed."""
    base = int(value[0])
    differences = [(int(component) - base + 2**31) % 2**32 - 2**31 for component in value[1:]]
    record = base.to_bytes(4, "little")
    if all(difference == 0 for difference in differences):
        return record
    for width in (1, 2):
        bound = 2 ** (8 * width - 1)
        if all(-bound <= difference < bound for difference in differences):
            packed = (
                difference.to_bytes(width, "little", signed=True) for difference in differences
            )
            return record + b"".join(packed)
    return np.asarray(value, dtype="<u4").tobytes()


def bits_of(record):
    """Cells that hold ``record``, first byte first."""
    return np.unpackbits(np.frombuffer(record, dtype=np.uint8), bitorder="little").astype(bool)


# ---- cells -----------------------------------------------------------------------------------


class Cells:
    """What every cell holds, whether it is on, and for how long it was on and at '1'."""

    def __init__(self, gated):
        self.gated = gated
        self.content = np.zeros((ENTRIES, CELLS), dtype=bool)
        self.written = np.zeros((ENTRIES, CELLS), dtype=bool)
        self.switched_on = np.zeros((ENTRIES, CELLS), dtype=bool)
        self.ever_written: set[int] = set()  # entries; the cells of others are off
        self.start_pass()

    def start_pass(self):
        self.since = [0] * ENTRIES
        self.ones = np.zeros((ENTRIES, CELLS), dtype=np.int64)
        self.powered = np.zeros((ENTRIES, CELLS), dtype=np.int64)

    def settle(self, entry, now):
        """Book the time since the last change of ``entry``."""
        cycles = now - self.since[entry]
        if cycles and entry in self.ever_written:
            on = self.written[entry]
            if self.gated:
                on = on & self.switched_on[entry]
            self.powered[entry] += cycles * on
            self.ones[entry] += cycles * (on & self.content[entry])
        self.since[entry] = now

    def switch(self, place, on, now):
        self.settle(place.entry, now)
        self.switched_on[place.entry, place.first : place.end] = on

    def write(self, entry, first, bits, chosen, now):
        """Put those of ``bits`` that are chosen into the cells from ``first`` on."""
        self.settle(entry, now)
        cells = np.flatnonzero(chosen)
        self.content[entry, first + cells] = bits[cells]
        self.written[entry, first + cells] = True
        self.ever_written.add(entry)


class Place(NamedTuple):
    """Cells of one entry that a row occupies; ``end`` is the first cell after them."""

    entry: int
    first: int
    end: int


# ---- windows ---------------------------------------------------------------------------------


@dataclass
class Row:
    """One register of one window: which lanes it has, how it is stored and where."""

    lanes: int = 0
    compressed: bool = False
    home: str | None = None  # "slice", "table", "lds", or None before the first write
    place: Place | None = None  # only while the home is the slice


@dataclass
class Window:
    size: int
    base: int  # first entry; no meaning under redirection
    shift: int
    rows: dict[int, Row] = field(default_factory=dict)


class Outcome(NamedTuple):
    """What one pass did. Times in cycles, of each cell: at '1' and powered."""

    cycles: int
    counters: dict[str, int]
    ones: np.ndarray
    powered: np.ndarray
    offset: object  # rotation state at the start of the pass
    next_offset: object  # and of the one that follows


class Slice:
    """The slice while the trace goes by."""

    def __init__(self, trace, policies, fault_map, delta_limit, offset, lds_rows):
        self.trace, self.lds_rows = trace, lds_rows
        self.placement, self.storage, self.gating = policies
        self.delta_limit = delta_limit
        self.faults = [0] * ENTRIES if fault_map is None else [int(byte) for byte in fault_map]
        self.cells = Cells(gated=self.gating != "unused")
        self.windows: dict[int, Window] = {}
        if self.placement == "pack":
            self.trace, self.bases = packed(trace, self.faults)
        self.free = [[not self.faults[e] >> b & 1 for b in range(BLOCKS)] for e in range(ENTRIES)]
        self.rotation = dict(offset) if self.placement == "rotate" else offset
        self.last_uses = last_uses(trace) if self.placement == "guard" else set()

    # -- events

    def run_pass(self):
        """Play every event once and say what happened."""
        trace, cells = self.trace, self.cells
        assert not self.windows
        cells.start_pass()
        self.counters = Counter()
        offset = canonical_offset(trace, self.placement, self.rotation)
        spilled, spilled_since = 0, 0
        for i in range(len(trace.cycle)):
            now, kind = int(trace.cycle[i]), int(trace.kind[i])
            slot, reg = int(trace.slot[i]), int(trace.reg[i])
            if kind == ALLOC:
                self.allocate(slot, reg)
            elif kind == WRITE:
                value = trace.values[trace.value[i]]
                self.write(self.windows[slot], reg, int(trace.exec_mask[i]), value, now)
            elif kind == READ:
                row = self.windows[slot].rows.get(reg)
                spilled_to = row.home if row is not None else None
                self.counters["memory_reads"] += spilled_to == "memory"
                in_slice = spilled_to not in ("lds", "memory")
                self.counters["slice_reads" if in_slice else "lds_reads"] += 1
            else:
                self.release(slot, now)
            self.counters["spilled_row_cycles"] += spilled * (now - spilled_since)
            spilled, spilled_since = self.spilled_rows(), now
            self.counters["peak_spilled_rows"] = max(self.counters["peak_spilled_rows"], spilled)
            if i in self.last_uses and reg in self.windows[slot].rows:
                self.leave(self.windows[slot].rows[reg], now)
                spilled = self.spilled_rows()
        for entry in range(ENTRIES):
            cells.settle(entry, trace.cycles)
        if self.placement == "redirect-rotating":
            self.rotation = offset  # each pass is cyclic in itself
        next_offset = canonical_offset(trace, self.placement, self.rotation)
        counters = {name: self.counters[name] for name in COUNTERS}
        return Outcome(trace.cycles, counters, cells.ones, cells.powered, offset, next_offset)

    def allocate(self, slot, size):
        assert slot not in self.windows
        base, shift = slot * size, 0
        if self.placement == "rotate":
            shift = self.rotation[slot]
            self.rotation[slot] += 1
        elif self.placement == "round-robin":
            base = self.next_free_window(size)
            self.rotation = base // size + 1
        elif self.placement == "pack":
            base = self.bases[size][slot]
        elif self.placement == "redirect-rotating":
            self.rotation = (self.rotation + 1) % ENTRIES
        self.windows[slot] = Window(size, base, shift)

    def next_free_window(self, size):
        """First entry of the next idle window in turn, over all that the slice has room for."""
        count = ENTRIES // size
        taken = {entry for w in self.windows.values() for entry in range(w.base, w.base + w.size)}
        for step in range(count):
            base = (self.rotation + step) % count * size
            if taken.isdisjoint(range(base, base + size)):
                return base
        raise ValueError("no idle window")

    def release(self, slot, now):
        for row in self.windows.pop(slot).rows.values():
            self.leave(row, now)

    def spilled_rows(self, homes=("lds", "memory")):
        rows = chain.from_iterable(window.rows.values() for window in self.windows.values())
        return sum(row.home in homes for row in rows)

    # -- writes

    def write(self, window, reg, lanes, value, now):
        assert reg < window.size
        row = window.rows.setdefault(reg, Row())
        full = lanes == ALL_LANES
        compressed = full and self.compressible(value)
        was_compressed = row.compressed
        row.lanes |= lanes

        if was_compressed and not full:
            self.counters["mov_writes"] += 1
        if self.placement.startswith("redirect"):
            first_block_fits = (
                self.storage != "plain"
                and compression_deltas(value[:BLOCK_COMPONENTS], self.delta_limit) is not None
            )
            if full and first_block_fits and not compressed:
                self.counters["mispredicted_writes"] += 1
            self.counters[self.redirect(row, compressed, now)] += 1
        elif self.placement == "guard":
            self.counters[self.guard(row, window.base + reg, full, now)] += 1
        else:
            self.settle_in_window(window, reg, row, compressed, value, now)
            self.counters["regular"] += 1
        row.compressed = compressed

        if row.home == "slice":
            self.fill(row, value, now)
            if self.gating == "empty" and was_compressed and not compressed:
                self.counters["wakeups"] += 1

    def compressible(self, value):
        if self.storage == "plain":
            return False
        if self.storage == "inline":
            return len(inline_record(value)) < 4 * COMPONENTS
        return compression_deltas(value, self.delta_limit) is not None

    def fill(self, row, value, now):
        """Write the content that belongs into the row's place."""
        if not row.compressed:
            bits = bits_of(np.asarray(value, dtype="<u4").tobytes())
            lanes = bits_of(row.lanes.to_bytes(8, "little"))
            chosen = np.repeat(lanes, 32)
        else:
            inline = self.storage == "inline"
            bits = bits_of(
                inline_record(value) if inline else block_record(value, self.delta_limit)
            )
            chosen = np.ones(len(bits), dtype=bool)
        self.cells.write(row.place.entry, row.place.first, bits, chosen, now)

    def leave(self, row, now):
        """Give up the row's place: nothing is there any more."""
        if row.home == "slice":
            self.cells.switch(row.place, False, now)
            if self.placement in ("redirect", "redirect-rotating", "guard"):
                for block in range(row.place.first // BLOCK_CELLS, row.place.end // BLOCK_CELLS):
                    self.free[row.place.entry][block] = True
        row.home, row.place = None, None

    def enter(self, row, place, now):
        row.home, row.place = "slice", place
        self.cells.switch(place, True, now)

    def settle_in_window(self, window, reg, row, compressed, value, now):
        """Home of a row that cannot leave its entry."""
        self.leave(row, now)
        if compressed and self.storage == "table":
            row.home = "table"
            return
        entry = window.base + (window.shift + reg) % window.size
        size = 8 * len(inline_record(value)) if compressed else CELLS
        self.enter(row, Place(entry, 0, size), now)

    def redirect(self, row, compressed, now):
        """Home of a row that may live anywhere; returns the kind of write that this made it."""
        if compressed and self.storage == "table":
            self.leave(row, now)
            row.home = "table"
            return "regular"
        if row.home == "slice" and row.compressed == compressed:
            return "regular"
        self.leave(row, now)
        place = self.free_block() if compressed else self.free_entry()
        if not self.occupy(row, place, now):
            return "lds"
        return "to_faulty" if self.faults[place.entry] else "to_reliable"

    def guard(self, row, own_entry, full, now):
        """Home of a row with an entry of its own, until nobody reads its value any more."""
        if row.home == "slice" and not full:  # the other lanes hold what is still to be read
            return "regular"
        self.leave(row, now)
        usable = self.faults[own_entry] == 0 and all(self.free[own_entry])
        place = Place(own_entry, 0, CELLS) if usable else self.free_entry()
        if not self.occupy(row, place, now):
            return "lds"
        return "regular" if place.entry == own_entry else "to_reliable"

    def occupy(self, row, place, now):
        """Let a row into a place, or spill it if there is none; whether there is one."""
        if place is None:
            row.home = "lds" if self.spilled_rows(("lds",)) < self.lds_rows else "memory"
            self.counters["memory"] += row.home == "memory"
            return False
        for block in range(place.first // BLOCK_CELLS, place.end // BLOCK_CELLS):
            assert self.free[place.entry][block]
            self.free[place.entry][block] = False
        self.enter(row, place, now)
        return True

    def scan(self):
        start = self.rotation if self.placement == "redirect-rotating" else 0
        return [(start + step) % ENTRIES for step in range(ENTRIES)]

    def free_entry(self):
        """Lowest reliable entry with all blocks free."""
        for entry in self.scan():
            if self.faults[entry] == 0 and all(self.free[entry]):
                return Place(entry, 0, CELLS)
        return None

    def free_block(self):
        """Lowest free block: of a faulty entry, else of one in part use, else of a fresh one."""

        def lowest(entries: Iterable[int]):
            for entry in entries:
                for block in range(BLOCKS):
                    if self.free[entry][block]:
                        return Place(entry, BLOCK_CELLS * block, BLOCK_CELLS * (block + 1))
            return None

        faulty = [entry for entry in self.scan() if self.faults[entry]]
        reliable = [entry for entry in self.scan() if not self.faults[entry]]
        partly = [entry for entry in reliable if not all(self.free[entry])]
        return lowest(faulty) or lowest(partly) or lowest(reliable)


# ---- lives -----------------------------------------------------------------------------------


def last_uses(trace):
    """Events after which nobody reads their register's value any more: found from the end."""
    last, wanted = set(), {}
    for i in reversed(range(len(trace.cycle))):
        kind, slot, reg = int(trace.kind[i]), int(trace.slot[i]), int(trace.reg[i])
        if kind in (ALLOC, RELEASE):
            wanted[slot] = set()  # registers whose present value is read later on
        elif kind == READ:
            if reg not in wanted[slot]:
                last.add(i)
            wanted[slot].add(reg)
        else:
            if reg not in wanted[slot]:
                last.add(i)
            if int(trace.exec_mask[i]) == ALL_LANES:
                wanted[slot].discard(reg)
    return last


# ---- waiting ---------------------------------------------------------------------------------


def usable_windows(faults, size):
    """First entries of windows of reliable entries, as early as possible one after the other."""
    bases, entry = [], 0
    while entry + size <= ENTRIES:
        if any(faults[entry : entry + size]):
            entry += 1
        else:
            bases.append(entry)
            entry += size
    return bases


def packed(trace, faults):
    """The trace as it runs where a window waits for a place, and the places by window size.

    Cycle by cycle, the next window in line starts if it may. If some kernel has no place at all,
    nothing ever runs.
    """
    line, open_in = [], {}  # windows: their first event, slot, size, launch, events, begin and end
    for i, (kind, slot) in enumerate(zip(trace.kind, trace.slot, strict=True)):
        if kind == ALLOC:
            launch = int(trace.alloc_launch[len(line)])
            now = int(trace.cycle[i])
            window = {"slot": int(slot), "size": int(trace.reg[i]), "launch": launch, "was": now}
            line.append(window | {"events": []})
            open_in[slot] = line[-1]
        open_in[slot]["events"].append(i)
        open_in[slot]["length"] = int(trace.cycle[i]) - open_in[slot]["was"]
    for window in line:
        window["launched"] = min(w["was"] for w in line if w["launch"] == window["launch"])
    bases = {
        size: usable_windows(faults, size)[: max(w["slot"] for w in line if w["size"] == size) + 1]
        for size in {window["size"] for window in line}
    }
    if not all(bases.values()):
        nothing = {name: getattr(trace, name)[:0] for name in EVENT_COLUMNS}
        return dataclasses.replace(trace, **nothing), bases

    now, started = 0, 0
    while started < len(line):
        window, before = line[started], line[:started]
        taken = {w["place"] for w in before if w["size"] == window["size"] and w["end"] >= now}
        idle = [place for place in range(len(bases[window["size"]])) if place not in taken]
        awaited = (
            w
            for w in before
            if w["size"] != window["size"] or w["was"] + w["length"] < window["launched"]
        )
        if now >= window["was"] and idle and all(w["end"] < now for w in awaited):
            window["place"] = window["slot"] if window["slot"] in idle else min(idle)
            window["end"] = now + window["length"]
            window["delay"] = now - window["was"]
            started += 1
        else:
            now += 1

    rank = {ALLOC: 0, WRITE: 1, READ: 2, RELEASE: 3}
    events = sorted(
        (int(trace.cycle[i]) + window["delay"], rank[int(trace.kind[i])], i, window["place"])
        for window in line
        for i in window["events"]
    )
    order = [i for _, _, i, _ in events]
    columns = {name: getattr(trace, name)[order] for name in EVENT_COLUMNS}
    columns["cycle"] = np.array([cycle for cycle, *_ in events])
    columns["slot"] = np.array([place for *_, place in events])
    after = trace.cycles - max(w["was"] + w["length"] for w in line)
    cycles = max(window["end"] for window in line) + after
    return dataclasses.replace(trace, cycles=cycles, **columns), bases


# ---- passes ----------------------------------------------------------------------------------


def window_sizes(trace, slot=None):
    """Window sizes in order of allocation, of the whole slice or of one slot."""
    return [
        int(reg)
        for kind, s, reg in zip(trace.kind, trace.slot, trace.reg, strict=True)
        if kind == ALLOC and slot in (None, int(s))
    ]


def canonical_offset(trace, placement, offset):
    """Rotation state at the start of a pass, such that equal states mean equal passes.

    rotate: ((slot, counter), ...), counters modulo all window sizes of their slot;
    round-robin: pointer to a window of the first kernel; redirect-rotating: scan start.
    """
    if placement == "rotate":
        slots = sorted({int(slot) for slot in trace.slot[trace.kind == ALLOC]})
        given = (
            dict(offset)
            if not isinstance(offset, int | np.integer)
            else dict.fromkeys(slots, offset)
        )
        return tuple((slot, given[slot] % math.lcm(*window_sizes(trace, slot))) for slot in slots)
    if placement == "round-robin":
        return offset % (ENTRIES // window_sizes(trace)[0])
    return offset % ENTRIES if placement == "redirect-rotating" else 0


def policies_of(technique):
    """Policies of a technique given by name or as (placement, storage, gating)."""
    policies = Policies(*(TECHNIQUES[technique] if isinstance(technique, str) else technique))
    redirected = policies.placement.startswith("redirect")
    if policies.storage == "block" and not redirected:
        raise ValueError("a block of which entry? only redirected rows know")
    if policies.storage == "inline" and redirected:
        raise ValueError("inline storage is not defined for redirected rows")
    if policies.placement in ("guard", "pack") and policies.storage != "plain":
        raise ValueError("compressed values are not defined where whole entries are looked for")
    if policies.gating == "idle" and policies.storage != "plain":
        raise ValueError("gating of idle windows knows no compressed values")
    return policies


def consecutive_passes(
    trace, technique, *, fault_map=None, delta_limit=64, offset=0, lds_rows=ENTRIES
) -> Iterator[Outcome]:
    """Passes from power-on, one after the other; counters of rotating windows go on.

    ``offset`` is the rotation state at the start of the first pass: for ``rotate`` one counter
    for all slots or {slot: counter}, for ``round-robin`` the window that the pointer shows, for
    ``redirect-rotating`` the entry where the scan starts (in every pass anew).
    """
    policies = policies_of(technique)
    start = canonical_offset(trace, policies.placement, offset)
    register_file = Slice(trace, policies, fault_map, delta_limit, start, lds_rows)
    while True:
        yield register_file.run_pass()


def steady_orbit(trace, technique, **options) -> Iterator[Outcome]:
    """Steady passes from the given offset until the rotation comes back to it.

    The orbit is run once before, so that each pass finds what endless repetition leaves it.
    """
    passes = consecutive_passes(trace, technique, **options)
    warm_up = next(passes)
    start, seen = warm_up.offset, set()
    while warm_up.next_offset != start:
        if warm_up.next_offset in seen:
            raise ValueError(f"the rotation never comes back to {start}")
        seen.add(warm_up.next_offset)
        warm_up = next(passes)
    for outcome in passes:
        yield outcome
        if outcome.next_offset == start:
            return


def replay(trace, technique, *, fault_map=None, delta_limit=64, offset=0) -> Outcome:
    """Steady-state pass that starts with the given rotation offset."""
    return next(
        steady_orbit(trace, technique, fault_map=fault_map, delta_limit=delta_limit, offset=offset)
    )


def all_offsets(trace, technique):
    """Offsets that the long-run limit averages over."""
    placement = policies_of(technique).placement
    if placement == "rotate":
        return range(math.lcm(*window_sizes(trace)))
    if placement == "round-robin":
        return range(ENTRIES // window_sizes(trace)[0])
    return range(0, ENTRIES, ENTRIES // 8) if placement == "redirect-rotating" else range(1)


def steady_passes(trace, technique, *, offsets=None, **options) -> Iterator[Outcome]:
    """Steady pass of every distinct offset (default: all), in the order of their orbits."""
    placement = policies_of(technique).placement
    offsets = all_offsets(trace, technique) if offsets is None else offsets
    wanted = {canonical_offset(trace, placement, offset) for offset in offsets}
    while wanted:
        for outcome in steady_orbit(trace, technique, offset=min(wanted), **options):
            if outcome.offset in wanted:
                wanted.remove(outcome.offset)
                yield outcome


def replay_sum(trace, technique, **options) -> tuple[Outcome, int]:
    """Sum of the steady passes over all offsets, and how many these are.

    ``peak_spilled_rows`` is the largest of all passes; everything else, ``cycles`` included, is
    added up.
    """
    passes = steady_passes(trace, technique, **options)
    total, count = next(passes), 1
    ones, powered = total.ones.copy(), total.powered.copy()
    for outcome in passes:
        counters = {name: total.counters[name] + outcome.counters[name] for name in COUNTERS}
        counters["peak_spilled_rows"] = max(
            total.counters["peak_spilled_rows"], outcome.counters["peak_spilled_rows"]
        )
        ones += outcome.ones
        powered += outcome.powered
        total = Outcome(total.cycles + outcome.cycles, counters, ones, powered, None, None)
        count += 1
    return total, count
