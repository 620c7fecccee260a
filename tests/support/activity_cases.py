"""What a slice does on traces of a few events."""

from dataclasses import replace

import numpy as np
from trace_strategies import alloc, pattern, read, release, trace_of, write

from mcage.costs.activity import activity_of, powered_fractions, used_entries
from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine import NumpyEngine
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES

ENGINE = NumpyEngine()


COUNTER = pattern(0, 1, 8)  # single-delta; 63 one-byte deltas inline


NOISE = np.random.default_rng(0).integers(0, 2**32, 64, dtype=np.uint32)


HALF = np.where(np.arange(64) < 32, pattern(0, 1, 8), NOISE)  # two blocks fit, two do not


def replay_of(trace, name, delta_limit=64):
    technique = TECHNIQUES[name] if isinstance(name, str) else name
    return prepare(trace, technique, delta_limit)


def activity(trace, name, fault_maps=None, delta_limit=64):
    fault_maps = fault_free_maps() if fault_maps is None else fault_maps
    replay = replay_of(trace, name, delta_limit)
    return activity_of(replay, ENGINE.count(replay, fault_maps))


def gated_entry_cycles(did):
    """Sum over cycles of the entries that are off."""
    return float(did.geometry.entries * did.cycles) - did.gating.powered_entry_cycles


def compressed_entry_cycles(trace, name, delta_limit=64):
    """Sum over cycles of the parts of entries that are off since their values are compressed."""
    schedule = replay_of(trace, name, delta_limit).schedule
    if not schedule.technique.gates_empty or schedule.technique.redirects:
        return 0.0
    return float((schedule.end_cycle - schedule.cycle) @ (1 - powered_fractions(schedule)))


def with_idle_entries_on(did, trace, name, delta_limit=64):
    """What a slice does if an entry is off only while it is unused or its value is compressed.

    Entries that the workload uses at any time then stay on before their first value and after the
    end of their window. The energy of Valero et al., IEEE TC 2019, section 6.6, is to be read so;
    the gating policies of mcage switch off all that holds nothing.
    """
    used = used_entries(replay_of(trace, name, delta_limit))
    on = float(used * did.cycles) - compressed_entry_cycles(trace, name, delta_limit)
    powered = 0 * did.gating.powered_entry_cycles + on
    return replace(
        did, gating=replace(did.gating, opened_entries=0.0, powered_entry_cycles=powered)
    )


def life_of_a_register():
    """One window of two registers, open for 100 of 120 cycles; register 1 is never written."""
    return trace_of(
        [
            alloc(0, 0, 2),
            write(10, 0, 0, COUNTER),  # compressed for 20 cycles
            read(12, 0, 0),
            read(14, 0, 0),
            write(30, 0, 0, NOISE),  # uncompressed for 10
            read(32, 0, 0),
            write(40, 0, 0, 7),  # constant, for 20
            write(60, 0, 0, NOISE, lanes=1),  # divergent: a MOV first; uncompressed for 10
            write(70, 0, 0, HALF),  # first block fits: mispredicted; uncompressed for 30
            release(100, 0),
        ],
        cycles=120,
    )
