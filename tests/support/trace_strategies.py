"""Small valid traces for tests: by hand, from a seeded generator, and as Hypothesis strategies.

Random traces are made to hit what engines get wrong: events of several windows in one cycle,
registers never written or written over and over, lanes that no write ever reaches, values just
inside and just outside each compression rule, kernels of different window size one after the
other. The same drawing code serves both sources of randomness, so Hypothesis can shrink it.
"""

import random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from mcage.geometry import GCN
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Kernel, Trace, validate_trace

# Numbers of the slice, for which `geometries.on` puts those of others.
GEOMETRY = GCN
ENTRIES, COMPONENTS = 256, 64
ALL_LANES = 2**64 - 1
MOST_SLOTS = 16
LANE_NUMBERS = np.arange(COMPONENTS)


# ---- by hand ---------------------------------------------------------------------------------


class Event(NamedTuple):
    """One event; ``value`` is what a write brings, of which only its lanes count."""

    cycle: int
    kind: int
    slot: int
    reg: int = 0
    lanes: int = 0
    value: np.ndarray | None = None


def alloc(cycle, slot, window_size):
    return Event(cycle, ALLOC, slot, window_size)


def write(cycle, slot, reg, value, lanes=None):
    """Write of ``value``, all components or one number for all, to the given lanes or all."""
    lanes = ALL_LANES if lanes is None else lanes
    value = np.broadcast_to(np.asarray(value, dtype=np.uint32), COMPONENTS)
    return Event(cycle, WRITE, slot, reg, lanes, value)


def read(cycle, slot, reg):
    return Event(cycle, READ, slot, reg)


def release(cycle, slot):
    return Event(cycle, RELEASE, slot)


def lane_mask(lanes):
    """Lanes of an execution mask as booleans."""
    return np.array([lanes >> lane & 1 for lane in range(COMPONENTS)], dtype=bool)


def trace_of(events, cycles=None, name="by hand"):
    """Valid trace of the given events, put in order; a kernel is a window size."""
    order_in_cycle = (ALLOC, WRITE, READ, RELEASE)
    events = sorted(events, key=lambda event: (event.cycle, order_in_cycle.index(event.kind)))
    allocations = [i for i, event in enumerate(events) if event.kind == ALLOC]
    sizes = sorted({events[i].reg for i in allocations})
    launches, launch, size_before = [], -1, None
    for i in allocations:
        launch += events[i].reg != size_before
        size_before = events[i].reg
        launches.append(launch)
    rows: dict[bytes, int] = {}
    values = [
        -1 if content is None else rows.setdefault(content.tobytes(), len(rows))
        for content in _contents(events)
    ]
    windows = range(len(allocations))
    trace = Trace(
        name=name,
        source={"generator": name},
        kernels=tuple(Kernel(f"kernel{size}", size) for size in sizes),
        cycles=events[-1].cycle + 1 if cycles is None else cycles,
        cycle=np.array([event.cycle for event in events], dtype=np.int64),
        kind=np.array([event.kind for event in events], dtype=np.uint8),
        slot=np.array([event.slot for event in events], dtype=np.uint16),
        reg=np.array([event.reg for event in events], dtype=np.uint16),
        exec_mask=np.array([event.lanes for event in events], dtype=np.uint64),
        value=np.array(values, dtype=np.int32),
        values=np.frombuffer(b"".join(rows), dtype=np.uint32).reshape(-1, COMPONENTS),
        alloc_event=np.array(allocations, dtype=np.uint32),
        alloc_kernel=np.array([sizes.index(events[i].reg) for i in allocations], dtype=np.uint8),
        alloc_launch=np.array(launches, dtype=np.uint32),
        alloc_work_group=np.array(windows, dtype=np.uint32),
        alloc_wavefront=np.array(windows, dtype=np.uint32),
        geometry=GEOMETRY,
    )
    validate_trace(trace)
    return trace


def _contents(events):
    """Whole content of the register after each write; lanes never written are 0."""
    registers: dict[tuple[int, int], np.ndarray] = {}
    for event in events:
        if event.kind == ALLOC:
            registers.update({(event.slot, reg): np.zeros(COMPONENTS) for reg in range(event.reg)})
        if event.kind != WRITE:
            yield None
            continue
        before = registers[event.slot, event.reg]
        content = np.where(lane_mask(event.lanes), event.value, before).astype(np.uint32)
        registers[event.slot, event.reg] = content
        yield content


# ---- values and masks ------------------------------------------------------------------------


def pattern(base, delta_e=0, delta_b=0):
    """All components, with delta_e inside groups of eight and delta_b from group to group."""
    group, element = LANE_NUMBERS // 8, LANE_NUMBERS % 8
    components = int(base) + group.astype(object) * int(delta_b) + element * int(delta_e)
    return np.array([component % 2**32 for component in components], dtype=np.uint32)


def random_value(rng):
    """Register content near one of the borders of the compression rules, or far from all.

    Hypothesis draws one number for it, not each choice: what it would shrink is the trace.
    """
    if type(rng) is not random.Random:
        rng = random.Random(rng.getrandbits(32))
    base = rng.choice([0, 1, 2**32 - 1, 2**32 - 3, 2**31, rng.getrandbits(32)])
    lanes = np.random.default_rng(rng.getrandbits(32))
    shape = rng.choice(["constant", "single", "double", "uneven", "almost", "narrow", "random"])
    if shape == "constant":
        return pattern(base)
    if shape == "single":
        delta = _random_delta(rng)
        return pattern(base, delta, 8 * delta)
    if shape == "double":
        return pattern(base, _random_delta(rng), _random_delta(rng))
    if shape == "uneven":  # regular, but no power of two
        return pattern(base, rng.choice([3, 2**32 - 1, 12, 2]), rng.choice([24, 5, 2**32 - 8, 16]))
    if shape == "almost":  # compressible but for one lane
        value = pattern(base, rng.choice([0, 1, 4]), rng.choice([0, 8, 64]))
        value[rng.randrange(COMPONENTS)] ^= np.uint32(1 << rng.randrange(32))
        return value
    if shape == "narrow":
        low, high = rng.choice([(-128, 127), (-129, 127), (-128, 128), (-32768, 32767), (0, 32768)])
        offsets = lanes.integers(low, high, COMPONENTS, endpoint=True)
        half = COMPONENTS // 2
        lowest, highest = 1 + rng.randrange(half), half + 1 + rng.randrange(half - 1)
        offsets[0], offsets[lowest], offsets[highest] = 0, low, high
        return ((base + offsets) % 2**32).astype(np.uint32)
    return lanes.integers(0, 2**32, COMPONENTS, dtype=np.uint32)


def _random_delta(rng):
    if rng.random() < 0.7:
        return rng.choice([0, 1, 2, 4, 8, 16, 32, 64])
    return 1 << rng.randrange(6, 32)


def _random_lanes(rng, written, existing):
    """Lanes of a write: all that exist, or some, or just those still missing."""
    if rng.random() < 0.65:
        return existing
    chosen = rng.choice(
        [0xFFFFFFFF, 1, 1 << 63, 0x5555555555555555, ~written & ALL_LANES, rng.getrandbits(64)]
    )
    return chosen & existing or existing


# ---- random traces ---------------------------------------------------------------------------


class _Kernel(NamedTuple):
    """What the windows of a random kernel have in common."""

    window_size: int
    registers: list[int]  # those that its windows ever write
    lanes: int  # those that exist


def random_trace(
    rng,
    *,
    slots=(1, 4),
    window_sizes=(1, 12),
    generations=(1, 3),
    accesses=(0, 16),
    phases=(1, 2),
    events=300,
):
    """Valid trace drawn from ``rng`` (``random.Random`` or ``numpy.random.Generator``).

    Ranges include both ends: slots used in a phase, registers of a window, windows one after the
    other in a slot, accesses of a window, phases. Phases are runs of one kernel; no window of
    one is open during another. No window is added once there are ``events`` events.
    """
    if isinstance(rng, np.random.Generator):
        rng = random.Random(int(rng.integers(2**63)))
    kernels = [_random_kernel(rng, window_sizes) for _ in range(2)]
    span = rng.choice([1, 1, 1, 97])
    drawn: list[Event] = []
    begin = rng.choice([0, 0, 0, 5])
    for phase in range(rng.randint(*phases)):
        kernel = kernels[phase % 2]
        room = min(MOST_SLOTS, ENTRIES // kernel.window_size)
        used = min(room, rng.randint(*slots))
        numbers = range(used) if rng.random() < 0.7 else rng.sample(range(room), used)
        for slot in numbers:
            now = begin + rng.randint(0, 3)
            for _ in range(rng.randint(*generations)):
                if drawn and len(drawn) >= events:
                    break
                window = _random_window(rng, kernel, slot, now, rng.randint(*accesses))
                drawn += window
                now = window[-1].cycle + rng.randint(1, 5)
        begin = max(event.cycle for event in drawn) + rng.randint(1, 4)
    if all(event.kind != WRITE for event in drawn):  # a trace without a write is none
        drawn.append(write(drawn[0].cycle, drawn[0].slot, 0, random_value(rng)))
    drawn = [event._replace(cycle=event.cycle * span) for event in drawn]
    cycles = max(event.cycle for event in drawn) + rng.choice([1, 1, 1, 8])
    return trace_of(drawn, cycles, name="random")


def _random_kernel(rng, window_sizes):
    size = min(rng.randint(*window_sizes), ENTRIES)
    registers = list(range(size))
    if rng.random() < 0.5:
        registers = rng.sample(registers, rng.randint(1, size))
    lanes = rng.choice([ALL_LANES] * 5 + [ALL_LANES >> COMPONENTS // 2])
    return _Kernel(size, registers, lanes)


def _random_window(rng, kernel, slot, begin, accesses):
    """One window: allocation, accesses in order of time, release."""
    end = begin + rng.choice([0, accesses // 2, accesses, 2 * accesses])
    drawn = [alloc(begin, slot, kernel.window_size)]
    written: dict[int, int] = {}
    for cycle in sorted(rng.randint(begin, end) for _ in range(accesses)):
        if rng.random() < 0.25:
            drawn.append(read(cycle, slot, rng.randrange(kernel.window_size)))
            continue
        reg = rng.choice(kernel.registers)
        lanes = _random_lanes(rng, written.get(reg, 0), kernel.lanes)
        written[reg] = written.get(reg, 0) | lanes
        drawn.append(write(cycle, slot, reg, random_value(rng), lanes))
    drawn.append(release(end, slot))
    return drawn


SPILLING = {
    "slots": (2, 4),
    "window_sizes": (20, 62),
    "generations": (1, 2),
    "accesses": (30, 80),
    "phases": (1, 1),
}
"""Shape of traces with many rows alive: with a bad fault map RRCD finds no home for all."""


def random_fault_map(rng):
    """Fault map uint8[entries], bit b = block b unusable: none to all of the entries faulty."""
    if isinstance(rng, np.random.Generator):
        rng = random.Random(int(rng.integers(2**63)))
    number = rng.choice([0, 3, 12, 40, 170, 256]) * ENTRIES // 256
    reliable = rng.sample(range(ENTRIES), number)
    blocks = np.random.default_rng(rng.getrandbits(32))
    kinds = rng.choice([[15], [15, 15, 15, 7, 14], list(range(1, 16))])
    kinds = [kind & GEOMETRY.all_blocks or GEOMETRY.all_blocks for kind in kinds]
    fault_map = blocks.choice(np.array(kinds, dtype=np.uint8), ENTRIES)
    fault_map[reliable] = 0
    return fault_map


def traces(**shape):
    """Strategy for ``random_trace``; see there for what ``shape`` may hold."""
    return st.randoms(use_true_random=False).map(lambda rng: random_trace(rng, **shape))


def fault_maps():
    """Strategy for ``random_fault_map``."""
    return st.randoms(use_true_random=False).map(random_fault_map)
