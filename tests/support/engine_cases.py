"""What the tests of the engines have in common: techniques, fault maps, and traces to replay."""

import dataclasses
import itertools
import random

import numpy as np
from oracle import Policies
from trace_strategies import ALL_LANES, random_fault_map

from mcage.errors import UserError
from mcage.techniques import Gating, Placement, Storage, Technique
from mcage.traces.model import ALLOC, ALLOC_COLUMNS, EVENT_COLUMNS, WRITE

COUNTED = (
    "regular",
    "to_reliable",
    "to_faulty",
    "lds",
    "lds_reads",
    "peak_spilled_rows",
    "spilled_row_cycles",
    "wakeups",
)
WRITE_KINDS = COUNTED[:4]


def possible_techniques():
    """Every combination of policies that is a technique, by a name of its policies."""
    techniques = {}
    for placement, storage, gating, rotating in itertools.product(
        Placement, Storage, Gating, (False, True)
    ):
        if gating is Gating.NONE and placement is not Placement.DIRECT:
            continue  # as under `UNUSED`: once for each storage is enough
        name = f"{placement.value}/{storage.value}/{gating.value}/{rotating}".replace(" ", "-")
        try:
            techniques[name] = Technique(name, placement, storage, gating, "", "", rotating)
        except UserError:
            continue
    return techniques


def possible_redirections():
    """The possible techniques that redirect."""
    return {name: each for name, each in possible_techniques().items() if each.redirects}


def possible_fault_heeding_techniques():
    """The possible techniques that do something else on another fault map."""
    return {name: each for name, each in possible_techniques().items() if each.heeds_faults}


def oracle_policies(technique):
    """The policies of a technique as the oracle calls them."""
    gating = {Gating.IDLE_WINDOWS: "idle", Gating.EMPTY: "empty"}.get(technique.gating, "unused")
    rotating = "-rotating" if technique.rotating_selectors else ""
    return Policies(technique.placement.value + rotating, technique.storage.value, gating)


def fault_map_batch(rng):
    """Fault maps of five slices: no faults, mild, heavy, random, and without a usable block."""
    blocks = np.random.default_rng(rng.getrandbits(32))
    mild = np.where(blocks.random(256) < 0.1, 1 << blocks.integers(0, 4, 256), 0)
    heavy = np.where(blocks.random(256) < 0.95, blocks.integers(1, 16, 256), 0)
    maps = [np.zeros(256), mild, heavy, random_fault_map(rng), np.full(256, 15)]
    return np.stack(maps).astype(np.uint8)


def seeded_fault_maps(seed):
    return fault_map_batch(random.Random(seed))


def with_full_masks(trace):
    """The same trace, but every write writes all lanes."""
    masks = np.where(trace.kind == WRITE, np.uint64(ALL_LANES), np.uint64(0))
    return dataclasses.replace(trace, exec_mask=masks)


def with_first_slots(trace, slots):
    """The same trace, but only the windows of its first slots."""
    kept_event = trace.slot < slots
    kept_window = kept_event[trace.alloc_event]
    columns = {c.attribute: getattr(trace, c.attribute)[kept_event] for c in EVENT_COLUMNS}
    columns |= {c.attribute: getattr(trace, c.attribute)[kept_window] for c in ALLOC_COLUMNS}
    columns["alloc_event"] = np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32)
    return dataclasses.replace(trace, **columns)


def rotation_comes_back(trace):
    """Whether the counters of all slots that share an entry can be those of one offset.

    Slots that share an entry in kernels of different window size may be re-assigned differently
    often; if their sizes have a common factor, they drift apart and no offset has both counters.
    """
    slots = trace.slot[trace.alloc_event].astype(int)
    sizes = trace.reg[trace.alloc_event].astype(int)
    count = np.bincount(slots)
    windows = sorted(set(zip(slots.tolist(), sizes.tolist(), strict=True)))
    for (slot, size), (other, other_size) in itertools.combinations(windows, 2):
        overlap = range(
            max(slot * size, other * other_size),
            min((slot + 1) * size, (other + 1) * other_size),
        )
        if overlap and (count[slot] - count[other]) % np.gcd(size, other_size):
            return False
    return True
