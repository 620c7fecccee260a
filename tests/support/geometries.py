"""Slices of other geometry: drawn, and put in place of that of the papers in the other supports."""

import contextlib
from dataclasses import replace
from unittest import mock

import oracle
import trace_strategies

from mcage.geometry import CDNA2, ENTRY_COUNTS, NVIDIA, RDNA2, RDNA3, SliceGeometry

DRAWN = (
    NVIDIA,
    SliceGeometry(entries=256, components=32, block_components=8),
    SliceGeometry(entries=1024, components=16),
    SliceGeometry(entries=64, components=48, block_components=24),
    SliceGeometry(entries=128, components=64, block_components=64),
    CDNA2,
    RDNA2,
    replace(RDNA2, block_components=16),
    RDNA3,
    replace(RDNA3, block_components=16),
    SliceGeometry(entries=1536, components=48, block_components=12),
)
"""Presets, and slices at the borders of what there may be.

Of the selectors on a device, a lane has one word of blocks in the first six, then two and three of
1, 2 and 4 blocks an entry, of which a part of the last may be none; and six, which is the most.
"""


def random_geometry(rng):
    """A geometry drawn from ``rng`` (``random.Random``)."""
    blocks = rng.choice([1, 2, 4])
    entries = rng.choice(ENTRY_COUNTS)
    components = rng.choice([n for n in range(16, 65, 8) if n % blocks == 0 and n >= 8 * blocks])
    return SliceGeometry(entries, components, components // blocks)


@contextlib.contextmanager
def on(geometry):
    """Let traces, fault maps and the oracle be of a slice of that geometry."""
    of_traces = {
        "GEOMETRY": geometry,
        "ENTRIES": geometry.entries,
        "COMPONENTS": geometry.components,
        "ALL_LANES": int(geometry.all_lanes),
        "LANE_NUMBERS": trace_strategies.np.arange(geometry.components),
    }
    of_oracle = {
        "ENTRIES": geometry.entries,
        "COMPONENTS": geometry.components,
        "CELLS": geometry.entry_bits,
        "BLOCKS": geometry.blocks,
        "BLOCK_CELLS": geometry.block_bits,
        "BLOCK_COMPONENTS": geometry.block_components,
        "ALL_LANES": int(geometry.all_lanes),
    }
    with (
        mock.patch.multiple(trace_strategies, **of_traces),
        mock.patch.multiple(oracle, **of_oracle),
    ):
        yield
