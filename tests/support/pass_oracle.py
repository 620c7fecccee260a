"""Oracle of the costs of a pass: what docs/costs.md says of a kernel on a fault map.

A kernel goes by once, on one slice, under one technique. `oracle.py` says where every row lives;
here accesses, switched parts and time are counted, and from these slowdown and power computed. The
constants of energy and time are those of the package; nothing else of it is used. Where the page
leaves something open, the reading that was taken stands beside it.
"""

import functools
import math
from collections import Counter
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import oracle
from oracle import ALL_LANES, ALLOC, COMPONENTS, ENTRIES, READ, RELEASE, WRITE

MOVING = ("redirect", "redirect-rotating", "guard")
"""Placements whose rows may live anywhere."""

HEEDING = (*MOVING, "pack")
"""Placements under which cell times and events depend on the fault map."""


SCAN = [*range(ENTRIES), *range(ENTRIES)]


# ---- what a kernel does, whatever the fault map -----------------------------------------------


@dataclass
class Tally:
    """Accesses of a pass by what they are, of whole registers unless it says blocks."""

    reads: int = 0
    writes: int = 0
    compressed_reads: int = 0
    compressed_writes: int = 0
    compressed_read_blocks: int = 0
    movs: int = 0
    mov_blocks: int = 0
    expanded: int = 0
    mispredictions: int = 0
    fitting_first_blocks: int = 0
    examined_blocks: int = 0
    instructions: int = 0


def tally(trace, policies, delta_limit):
    """What the events of a pass are under a storage policy."""
    of_pass, stored = Tally(), {}  # stored: bytes of each compressed register of open windows
    reading, writing, opened = set(), set(), Counter()
    fitting = functools.cache(lambda row: _fitting(trace.values[row], policies, delta_limit))
    for now, kind, slot, reg, lanes, row in events_of(trace):
        window = slot, opened[slot]
        if kind == ALLOC:
            opened[slot] += 1
        elif kind == RELEASE:
            stored = {place: size for place, size in stored.items() if place[0] != slot}
        elif kind == READ:
            reading.add((window, now))
            of_pass.reads += 1
            if (slot, reg) in stored:
                of_pass.compressed_reads += 1
                of_pass.compressed_read_blocks += _blocks_read(policies, stored[slot, reg])
        elif kind == WRITE:
            writing.add((window, now))
            of_pass.writes += 1
            size, fit, first_fits = fitting(row)
            before = stored.pop((slot, reg), None)
            if lanes == ALL_LANES and policies.storage != "plain":
                of_pass.examined_blocks += min(fit + 1, oracle.BLOCKS)
                of_pass.fitting_first_blocks += first_fits
                if size is not None:
                    stored[slot, reg] = size
                    of_pass.compressed_writes += 1
                elif first_fits:
                    of_pass.mispredictions += 1
            elif before is not None:
                of_pass.movs += 1
                of_pass.mov_blocks += _blocks_read(policies, before)
            if before is not None and (slot, reg) not in stored:
                of_pass.expanded += 1
    of_pass.instructions = max(len(reading), len(writing))
    return of_pass


def _fitting(value, policies, delta_limit):
    """Bytes of a compressible register or None, leading blocks that fit, whether the first does."""
    if policies.storage == "plain":
        return None, 0, False

    def fits(components):
        if policies.storage == "inline":
            base = int(value[0])
            signed = ((int(c) - base + 2**31) % 2**32 - 2**31 for c in components)
            return all(-(2**15) <= difference < 2**15 for difference in signed)
        return oracle.compression_deltas(components, delta_limit) is not None

    fit = 0
    while fit < oracle.BLOCKS and fits(value[: (fit + 1) * oracle.BLOCK_COMPONENTS]):
        fit += 1
    whole = fit == oracle.BLOCKS
    size = (len(oracle.inline_record(value)) if policies.storage == "inline" else 5) if whole else 0
    return (size or None), fit, fit > 0


def _blocks_read(policies, size):
    """Blocks of the slice that a read of a compressed register takes."""
    if policies.storage == "table":
        return 0 if policies.placement.startswith("redirect") else 1
    return math.ceil(size / 64) if policies.storage == "inline" else 1


# ---- what happens on a fault map ---------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _events(identity):
    trace = _TRACES[identity]
    columns = (getattr(trace, name).tolist() for name in oracle.EVENT_COLUMNS)
    return list(zip(*columns, strict=True))


_TRACES = {}


def events_of(trace):
    """Events of a trace as plain numbers, made once."""
    _TRACES[id(trace)] = trace
    return _events(id(trace))


class NoCells:
    """Stands for the cells where only events are asked for."""

    def switch(self, place, on, now):
        pass

    def write(self, entry, first, bits, chosen, now):
        pass


class Played(oracle.Slice):
    """The slice while a trace goes by, which also knows memory and what is switched on."""

    def __init__(self, kernel, fault_map, offset, with_cells):
        trace, policies = kernel.trace, kernel.policies
        self.placement, self.storage, self.gating = policies
        self.delta_limit = kernel.delta_limit
        self.lds_rows = kernel.lds_rows if kernel.overflow == "memory" else ENTRIES
        self.faults = [int(byte) for byte in fault_map]
        self.with_cells = with_cells
        self.cells = oracle.Cells(gated=self.gating != "unused") if with_cells else NoCells()
        self.windows, self.rotation = {}, offset
        self.kernel, self.trace = kernel, trace
        if self.placement == "pack":
            self.trace, self.bases = kernel.packed(self.faults)
        blocks = range(oracle.BLOCKS)
        self.free = [[not self.faults[e] >> b & 1 for b in blocks] for e in range(ENTRIES)]
        self.last_uses = kernel.last_uses if self.placement == "guard" else set()
        self._fits = kernel.fits

    def play(self):
        """One pass: its counters, and the entry-cycles for which something is on."""
        self.counters, self.switched_on, self.powered_cells, self.peak = Counter(), 0, 0, 0
        covered, start = set(), self.rotation
        if self.with_cells:
            self.cells.start_pass()
        for i, (now, kind, slot, reg, lanes, value) in enumerate(events_of(self.trace)):
            if kind == ALLOC:
                self.allocate(slot, reg)
                self.windows[slot].opened = now
                base = self.windows[slot].base
                covered.update(range(base, base + reg))
                self.open_window(reg)
            elif kind == WRITE:
                window = self.windows[slot]
                self.write(window, reg, lanes, self.trace.values[value], now)
                row = window.rows[reg]
                if row.home in ("lds", "memory"):
                    self.peak = max(self.peak, self.spilled_rows())
            elif kind == READ:
                row = self.windows[slot].rows.get(reg)
                if row is not None and row.home in ("lds", "memory"):
                    self.counters["lds_reads"] += 1
                    self.counters["memory_reads"] += row.home == "memory"
            else:
                self.close_window(self.windows[slot], now)
                self.release(slot, now)
            if i in self.last_uses and reg in self.windows[slot].rows:
                self.leave(self.windows[slot].rows[reg], now)
        if self.with_cells:
            for entry in range(ENTRIES):
                self.cells.settle(entry, self.trace.cycles)
        if self.placement == "redirect-rotating":
            self.rotation = start
        if self.gating == "unused":
            if self.placement == "pack":  # as many as on a slice without faults
                covered = self.kernel.covered_without_faults()
            used = ENTRIES if self.placement in MOVING else len(covered)
            self.powered_cells = used * oracle.CELLS * self.trace.cycles
        return self

    def compressible(self, value):
        return self._fits(value.tobytes())

    def scan(self):
        start = self.rotation if self.placement == "redirect-rotating" else 0
        return SCAN[start : start + ENTRIES]

    # -- what is switched

    def open_window(self, size):
        if self.gating == "idle":
            self.switched_on += size * oracle.CELLS
        elif self.storage == "inline":
            self.switched_on += size * 32

    def close_window(self, window, now):
        span = now - window.opened
        if self.gating == "idle":
            self.powered_cells += window.size * oracle.CELLS * span
        elif self.storage == "inline":
            self.powered_cells += window.size * 32 * span

    def write(self, window, reg, lanes, value, now):
        row = window.rows.get(reg)
        before = row.place if row is not None else None
        was_compressed = row.compressed if row is not None else None
        super().write(window, reg, lanes, value, now)
        row = window.rows[reg]
        if self.gating != "empty":
            return
        if self.placement in MOVING:  # a stay of a row, in the LDS or not, is counted once
            if row.compressed != was_compressed:
                compressed = 0 if self.storage == "table" else oracle.BLOCK_CELLS
                self.switched_on += compressed if row.compressed else oracle.CELLS
        elif row.place is not None:
            always = 32 if self.storage == "inline" else 0
            kept = before.end - before.first if before is not None else always
            self.switched_on += max(0, row.place.end - row.place.first - kept)

    def fill(self, row, value, now):
        if self.with_cells:
            super().fill(row, value, now)

    def enter(self, row, place, now):
        super().enter(row, place, now)
        row.since = now

    def leave(self, row, now):
        if self.gating == "empty" and row.home == "slice":
            always = 32 if self.storage == "inline" else 0
            self.powered_cells += (row.place.end - row.place.first - always) * (now - row.since)
        super().leave(row, now)


@dataclass
class Pass:
    """A pass on a fault map; numbers of events are means over the offsets."""

    cycles: int
    waiting: float = 0.0
    lds: float = 0.0
    lds_reads: float = 0.0
    memory: float = 0.0
    memory_reads: float = 0.0
    redirections: float = 0.0
    wakeups: float = 0.0
    switched_on: float = 0.0
    powered: float = 0.0
    peak: int = 0


class Kernel:
    """A trace under a technique; remembers what it has done on a fault map."""

    def __init__(self, trace, technique, *, delta_limit, lds_rows, overflow, offsets):
        self.trace, self.policies = trace, oracle.policies_of(technique)
        self.technique, self.delta_limit = technique, delta_limit
        self.lds_rows, self.overflow = lds_rows, overflow
        placement = self.policies.placement
        self.offsets = (
            range(0, ENTRIES, ENTRIES // offsets) if placement.endswith("-rotating") else [0]
        )
        self.heeds = placement in HEEDING
        self.tally = tally(trace, self.policies, delta_limit)
        self.last_uses = oracle.last_uses(trace) if placement == "guard" else set()
        self._packed, self._passes, self._times = {}, {}, {}
        self.fits = functools.cache(self._fits)

    def _fits(self, content):
        value = np.frombuffer(content, dtype=np.uint32)
        if self.policies.storage == "plain":
            return False
        if self.policies.storage == "inline":
            return len(oracle.inline_record(value)) < 4 * COMPONENTS
        return oracle.compression_deltas(value, self.delta_limit) is not None

    # -- may it run?

    def needs(self):
        """Entries that must be reliable where data cannot move."""
        return _entries_needed(self.trace, self.technique, self.delta_limit)

    def windows(self, faults):
        """Windows that fit between faults, by size, no more than the kernel has slots."""
        slots = {}
        for _, kind, slot, reg, _, _ in events_of(self.trace):
            if kind == ALLOC:
                slots[reg] = max(slots.get(reg, 0), slot + 1)
        return {size: oracle.usable_windows(faults, size)[:most] for size, most in slots.items()}

    def with_a_last_window(self, fault_map):
        """The pass where a kernel without a window counts as if it had one left."""
        usable = oracle.usable_windows

        def at_least_one(faults, size):
            return usable(faults, size) or [0]

        with mock.patch.object(oracle, "usable_windows", at_least_one):
            return self._counted(fault_map)

    def packed(self, faults):
        bases = self.windows(faults)
        key = tuple(sorted((size, len(of_size)) for size, of_size in bases.items()))
        if key not in self._packed:
            self._packed[key] = oracle.packed(self.trace, faults)[0]
        return self._packed[key], bases

    def covered_without_faults(self):
        """Entries that windows cover at some time on a slice without faults."""
        bases, covered = self.windows([0] * ENTRIES), set()
        for _, kind, slot, reg, _, _ in events_of(self.trace):
            if kind == ALLOC:
                covered.update(range(bases[reg][slot], bases[reg][slot] + reg))
        return covered

    # -- what does it do?

    def on(self, fault_map):
        """The pass on a fault map."""
        key = bytes(fault_map) if self.heeds else b""
        if key not in self._passes:
            self._passes[key] = self._counted(fault_map if self.heeds else bytes(ENTRIES))
        return self._passes[key]

    def _start(self, offset):
        if self.policies.placement == "rotate":
            return dict(oracle.canonical_offset(self.trace, "rotate", offset))
        return offset

    def _counted(self, fault_map):
        if self.policies.placement == "pack":
            windows = self.windows(fault_map)
            if not all(windows.values()):
                return None
        played = [Played(self, fault_map, self._start(o), False).play() for o in self.offsets]

        def mean(count):
            return sum(map(count, played)) / len(played)

        cycles = played[0].trace.cycles
        moved = ("to_reliable", "to_faulty", "lds")
        return Pass(
            cycles=cycles,
            waiting=cycles / self.trace.cycles - 1,
            redirections=mean(lambda p: sum(p.counters[name] for name in moved)),
            wakeups=mean(lambda p: p.counters["wakeups"]),
            switched_on=mean(lambda p: p.switched_on / oracle.CELLS),
            powered=mean(lambda p: p.powered_cells / oracle.CELLS),
            peak=max(p.peak for p in played),
            **{
                name: mean(lambda p, name=name: p.counters[name])
                for name in ("lds", "lds_reads", "memory", "memory_reads")
            },
        )

    def duties(self, fault_map):
        """Fractions of the time at '0' and at '1' of every cell: float64[2, entries, cells]."""
        key = bytes(fault_map) if self.heeds else b""
        if key not in self._times:
            self._times = {key: self._timed(fault_map)} if self.heeds else {key: self._timed(None)}
        return self._times[key]

    def _timed(self, fault_map):
        if not self.heeds:
            summed, _ = oracle.replay_sum(self.trace, self.technique, delta_limit=self.delta_limit)
            ones, powered, cycles = summed.ones, summed.powered, summed.cycles
        else:
            ones, powered, cycles = 0, 0, 0
            for offset in self.offsets:
                played = Played(self, fault_map, self._start(offset), True)
                played.play()  # so that the next pass finds what endless repetition leaves
                played.play()
                ones, powered = ones + played.cells.ones, powered + played.cells.powered
                cycles += played.trace.cycles
        return np.stack([powered - ones, ones]) / cycles


@functools.lru_cache(maxsize=64)
def _needed(identity, technique, delta_limit):
    trace, policies = _TRACES[identity], oracle.policies_of(technique)
    entries, held = set(), set()  # held: (slot, window size, register) outside of the table
    sizes = {}
    for _, kind, slot, reg, lanes, row in events_of(trace):
        if kind == ALLOC:
            sizes[slot] = reg
            if policies.storage != "table":
                held |= {(slot, reg, number) for number in range(reg)}
        elif kind == WRITE:
            value = trace.values[row]
            in_table = lanes == ALL_LANES and (
                oracle.compression_deltas(value, delta_limit) is not None
            )
            if not in_table:
                held.add((slot, sizes[slot], reg))
    for slot, size, register in held:
        if policies.placement == "rotate":
            entries |= set(range(slot * size, (slot + 1) * size))
        elif policies.placement == "round-robin":
            entries |= set(range(ENTRIES // size * size))
        else:
            entries.add(slot * size + register)
    return frozenset(entries)


def _entries_needed(trace, technique, delta_limit):
    events_of(trace)
    return _needed(id(trace), technique, delta_limit)


# ---- what it costs -----------------------------------------------------------------------------


def slice_constants(technology, points):
    """Constants of the slice, on the mean of the operating points: (Vdd, fraction of the time)."""
    at = [(technology.slice_at(vdd), fraction) for vdd, fraction in points]
    names = ("read_pj", "write_pj", "leakage_mw")
    means = {name: sum(getattr(c, name) * fraction for c, fraction in at) for name in names}
    return replace(technology.slice, **means)


def slowdown(kernel, of_pass, technology, penalties):
    """Extra cycles over those of the baseline, without waiting."""
    t, cycles, policies = kernel.tally, of_pass.cycles, kernel.policies
    redirects = policies.placement.startswith("redirect")
    spilled = of_pass.lds + of_pass.lds_reads
    beyond = of_pass.memory + of_pass.memory_reads
    extra = penalties.wakeup.unhidden_cycles * of_pass.wakeups
    extra += penalties.mov.unhidden_cycles * t.movs
    extra += penalties.lds.unhidden_cycles * (spilled - beyond)
    if beyond:
        extra += penalties.memory.unhidden_cycles * beyond
    if redirects and policies.storage != "plain":
        extra += penalties.pipeline.unhidden_cycles * t.instructions
        extra += penalties.misprediction.unhidden_cycles * t.mispredictions
    if policies.storage == "table":
        refreshes = cycles // technology.refresh_period_cycles
        busy = t.reads + t.movs + t.compressed_writes + t.expanded
        extra += penalties.refresh.unhidden_cycles * refreshes * min(1.0, busy / cycles)
    return extra / cycles


def energy(kernel, of_pass, of_slice, technology, slower):
    """Energy of a pass in pJ."""
    t, policies, node = kernel.tally, kernel.policies, technology
    redirects = policies.placement.startswith("redirect")
    time = of_pass.cycles / node.clock_ghz * (1 + slower)
    # Spilled accesses are taken as uncompressed, as long as there are uncompressed ones.
    plain_reads = t.reads - t.compressed_reads - of_pass.lds_reads
    plain_writes = t.writes - t.compressed_writes - of_pass.lds
    share_read = share_written = 1.0
    if plain_reads < 0:
        share_read = 1 + plain_reads / t.compressed_reads
    if plain_writes < 0:
        share_written = 1 + plain_writes / t.compressed_writes
    written_blocks = {"plain": 0, "inline": 4, "block": 1}
    of_compressed = written_blocks.get(policies.storage, 0 if redirects else 4)
    read = 4 * max(plain_reads, 0) + share_read * t.compressed_read_blocks
    written = 4 * max(plain_writes, 0) + share_written * of_compressed * t.compressed_writes
    in_vain = t.mispredictions if policies.storage == "block" else 0

    total = of_slice.leakage_mw * of_pass.powered * (1 + slower) / node.clock_ghz / ENTRIES
    total += of_slice.read_pj * (read + t.mov_blocks)
    total += of_slice.write_pj * (written + 4 * t.movs + in_vain)
    if policies.storage != "plain":
        wc = policies.storage == "inline"
        squeeze = node.wc_compression_unit if wc else node.compression_unit
        expand = node.wc_decompression_unit if wc else node.decompression_unit
        total += (squeeze.leakage_mw + node.decompression_units * expand.leakage_mw) * time
        total += squeeze.write_pj * t.examined_blocks
        total += expand.read_pj * 4 * (t.compressed_reads + t.movs)
    if policies.storage == "table":
        table = node.compression_table
        refreshes = math.floor(of_pass.cycles * (1 + slower) / node.refresh_period_cycles)
        total += table.leakage_mw * time
        total += table.read_pj * (t.reads + t.movs + refreshes)
        total += table.write_pj * (t.compressed_writes + t.expanded + refreshes)
    if policies.placement in MOVING:
        where, choice = node.redirection_table, node.selection_unit
        total += (where.leakage_mw + choice.leakage_mw) * time
        total += where.read_pj * (t.reads + t.writes + t.movs)
        total += where.write_pj * of_pass.redirections
        total += choice.write_pj * t.writes
    if redirects and policies.storage != "plain":
        buffer = node.destination_buffer
        total += buffer.leakage_mw * time
        total += 4 * buffer.write_pj * t.fitting_first_blocks
        total += 4 * buffer.read_pj * t.mispredictions
    beyond, beyond_reads = of_pass.memory, of_pass.memory_reads
    total += 4 * node.lds.read_pj * (of_pass.lds_reads - beyond_reads)
    total += 4 * node.lds.write_pj * (of_pass.lds - beyond)
    if beyond or beyond_reads:
        total += 4 * (node.memory.read_pj * beyond_reads + node.memory.write_pj * beyond)
    return total + node.wakeup_pj * of_pass.switched_on


def conventional_energy(kernel, of_slice, technology):
    """Energy in pJ of a pass of the recorded trace on the slice with everything on."""
    time = kernel.trace.cycles / technology.clock_ghz
    accesses = (
        of_slice.read_pj * 4 * kernel.tally.reads + of_slice.write_pj * 4 * kernel.tally.writes
    )
    return of_slice.leakage_mw * time + accesses
