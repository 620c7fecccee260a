"""The tail of Vmin: all cells of a slice that lie above a floor, without drawing the others.

The cells of a segment have the same die part and the same systematic value, and are independent
given these. So their random parts, worst first, are the order statistics of independent normal
numbers, and those can be drawn one after the other: with Phi the normal distribution function and n
cells, -log Phi of the worst is exponential with mean 1/n, the next one larger by an exponential
with mean 1/(n-1), and so on (Rényi, 1953). Each takes a place among the places not yet taken. The
drawing of a segment stops at the first cell below the floor, which is exact: all further ones are
lower still.

The numbers that a cell uses do not depend on the floor. A lower floor continues the same list,
so that the faults of an instance are nested in Vdd, and the map is a function of seed and instance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from mcage.errors import UserError
from mcage.geometry import SLICE
from mcage.random import variation_stream, with_attempts
from mcage.variation.die import die_of, sample_die
from mcage.variation.field import sample_field
from mcage.variation.scenarios import Scenario

MAX_TAIL_CELLS = 200_000
"""Expected cells of a slice above the floor beyond which the model has nothing to say."""

ROUNDING = 1e-9
"""Relative margin of the stop, so that rounding cannot drop a cell at the very floor."""


@dataclass(frozen=True)
class TailCells:
    """The weakest cells of I instances, without all others.

    Parameters
    ----------
    offsets : int64[I+1]
        Cells ``offsets[i] ... offsets[i+1] - 1`` belong to the i-th instance.
    cell : int32[n]
        Number of the cell in its slice, ``2048 * entry + bit``; ascending within an instance.
    vmin_volts : float64[n]
        Minimum working voltage; infinite where a cell is faulty at any Vdd.
    """

    offsets: NDArray[np.int64]
    cell: NDArray[np.int32]
    vmin_volts: NDArray[np.float64]

    @classmethod
    def join(cls, parts: Sequence[tuple[NDArray[np.int32], NDArray[np.float64]]]) -> "TailCells":
        """Cells of several instances, from ``(cell, vmin_volts)`` of each, in any order."""
        orders = [np.argsort(cell) for cell, _ in parts]
        cells = [cell[order] for (cell, _), order in zip(parts, orders, strict=True)]
        vmins = [vmin[order] for (_, vmin), order in zip(parts, orders, strict=True)]
        return cls(
            offsets=np.cumsum([0, *map(len, cells)], dtype=np.int64),
            cell=np.concatenate([np.empty(0, np.int32), *cells]),
            vmin_volts=np.concatenate([np.empty(0), *vmins]),
        )

    def at(self, places: NDArray[np.int64], instances: NDArray[np.int64]) -> "TailCells":
        """Cells at selected places, all of selected instances; both in rising order."""
        offsets = np.searchsorted(places, self.offsets)[instances]
        return TailCells(
            np.append(offsets, len(places)), self.cell[places], self.vmin_volts[places]
        )

    @property
    def instances(self) -> int:
        """Number of instances I."""
        return len(self.offsets) - 1

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Position (0 ... I-1) of the instance that each cell belongs to, int64[n]."""
        return np.repeat(np.arange(self.instances), np.diff(self.offsets))

    @property
    def entry(self) -> NDArray[np.int32]:
        """Entry of each cell, int32[n]."""
        return self.cell // np.int32(SLICE.entry_bits)

    @cached_property
    def slice_entry(self) -> NDArray[np.int64]:
        """Entry of each cell among those of all slices, 256 * instance + entry, int64[n]."""
        return self.instance * SLICE.entries + self.entry

    @cached_property
    def block(self) -> NDArray[np.int32]:
        """Block of each cell inside its entry, int32[n]."""
        return self.cell % np.int32(SLICE.entry_bits) // np.int32(SLICE.block_bits)


def expected_tail_cells(scenario: Scenario, floor_volts: float) -> float:
    """Expected number of cells of a slice with Vmin above the floor."""
    return SLICE.cells * float(ndtr((scenario.mu_volts - floor_volts) / scenario.sigma_volts))


def sample_tail(
    scenario: Scenario,
    seed: int,
    instances: NDArray[np.int64],
    floor_volts: float,
    slices_per_chip: int = 1,
    attempts: NDArray[np.int64] | None = None,
) -> TailCells:
    """All cells of each instance whose Vmin lies above a floor.

    Parameters
    ----------
    scenario : Scenario
        The distribution of Vmin; its Vdd and its table are not used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    floor_volts : float
        Lowest Vdd to be asked about, less the largest shift by aging.
    slices_per_chip : int
        Slices with successive ids that share a die part; see `mcage.variation.die_of`.
    attempts : int64[I], optional
        See `mcage.variation.select_attempts`.

    Returns
    -------
    TailCells
        Their distribution is that of drawing all 524,288 cells; a lower floor only adds cells.

    Raises
    ------
    UserError
        If more than 200,000 cells of a slice are expected above the floor.
    """
    expected = expected_tail_cells(scenario, floor_volts)
    if not expected <= MAX_TAIL_CELLS:
        fraction = MAX_TAIL_CELLS / SLICE.cells
        lowest = scenario.mu_volts - scenario.sigma_volts * float(ndtri(fraction))
        raise UserError(
            f"scenario {scenario.name}: {expected:,.0f} of {SLICE.cells:,} cells of a slice would "
            f"have a Vmin above {floor_volts:g} V (lowest Vdd less the shift by ageing); "
            f"the model speaks about {math.ceil(lowest * 1000) / 1000:g} V and more"
        )
    fields = sample_field(scenario, seed, instances, attempts)
    shifts = sample_die(scenario, seed, die_of(instances, slices_per_chip))
    means = scenario.mu_volts + fields + shifts[:, None, None]
    return TailCells.join(
        [
            _sample_slice(
                scenario, nodes, variation_stream(seed, "cells", instance, attempt), floor_volts
            )
            for nodes, (instance, attempt) in zip(
                means, with_attempts(instances, attempts), strict=True
            )
        ]
    )


def _sample_slice(
    scenario: Scenario,
    nodes: NDArray[np.float64],
    generator: np.random.Generator,
    floor_volts: float,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Cells of one slice above the floor, and their Vmin, worst round first.

    ``nodes``, float64[node_rows, node_columns], is the mean Vmin of the cells of each node, in V.
    """
    bits, segments = scenario.segment_bits, scenario.segments
    limits = -log_ndtr((floor_volts - nodes) / scenario.sigma_random_volts) * (1 + ROUNDING)
    mean, limit = (
        np.repeat(of_nodes, SLICE.entries // scenario.node_rows, axis=0).ravel()
        for of_nodes in (nodes, limits)
    )

    active = np.arange(segments)
    depth = np.zeros(segments)  # -log Phi of the last cell drawn
    places = np.empty((0, bits), np.uint8)
    cells, vmins = [], []
    for taken in range(bits):
        # All segments draw in each round: what a segment uses must not depend on other segments.
        uniform = generator.random(segments)
        depth = depth - np.log1p(-uniform[active]) / (bits - taken)
        above = depth <= limit[active]
        active, depth = active[above], depth[above]
        if not active.size:
            break
        if taken == 0:
            places = np.tile(np.arange(bits, dtype=np.uint8), (active.size, 1))
        else:
            places = places[above]
        # A step of the Fisher-Yates shuffle: swap a random free place to the front.
        uniform = generator.random(segments)
        chosen = taken + (uniform[active] * (bits - taken)).astype(np.intp)
        each = np.arange(active.size)
        place = places[each, chosen]
        places[each, chosen] = places[:, taken]
        cells.append((active * bits + place).astype(np.int32))
        vmins.append(mean[active] + scenario.sigma_random_volts * ndtri_exp(-depth))
    cell = np.concatenate([np.empty(0, np.int32), *cells])
    vmin = np.concatenate([np.empty(0), *vmins])
    above_floor = vmin > floor_volts
    return cell[above_floor], vmin[above_floor]
