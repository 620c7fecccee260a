"""Power and costs of lives that are known by hand."""

import numpy as np
from life_cases import NUMBA

from mcage.costs.activity import CONVENTIONAL, activity_of, conventional
from mcage.costs.energy import energy, slowdown
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.spec.cost_constants import load_costs

COSTS = load_costs()


NODE = COSTS.technology("28nm")


def power(trace, technique, fault_maps, technology=NODE, vdd_volts=None):
    """Power in mW and slowdown on fault maps, by `mcage.costs` alone."""
    replay = prepare(trace, technique)
    did = activity_of(replay, NUMBA.count(replay, fault_maps))
    slower = slowdown(did, technique, technology, COSTS.penalties).total
    spent = energy(did, technique, technology, vdd_volts, slower)
    return spent.total / (trace.cycles * (1 + slower)), slower


def conventional_power(trace, technology=NODE, vdd_volts=None):
    spent = energy(conventional(trace), CONVENTIONAL, technology, vdd_volts)
    return spent.total[0] / trace.cycles


def map_of(tail):
    """Fault map of the only instance of a tail whose cells are all faulty."""
    blocks = np.zeros((1, 256), dtype=np.uint8)
    for entry, bit in zip(*np.divmod(tail.cell, GCN.entry_bits), strict=True):
        blocks[0, entry] |= 1 << (bit // GCN.block_bits)
    return blocks
