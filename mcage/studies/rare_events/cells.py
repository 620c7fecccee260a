"""Cells of one slice above a floor, from the numbers of them in its segments."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from mcage.studies.rare_events.vmin_gaussian import VminGaussian


def place_cells(
    law: VminGaussian,
    node_volts: NDArray[np.float64],
    counts: NDArray[np.int64],
    level_volts: float,
    floor_volts: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Places and Vmin of the cells above a floor.

    Parameters
    ----------
    law : SliceLaw
        Law of the slice.
    node_volts : float64[node_rows, node_columns]
        Mean Vmin at the nodes.
    counts : int64[256, node_columns]
        Cells of each segment above the level.
    level_volts, floor_volts : float
        The level; cells between it and the lower floor are drawn here.
    generator : Generator
        Source of random numbers.

    Returns
    -------
    cell : int32[n]
        Numbers of the cells in their slice.
    vmin_volts : float64[n]
        Their Vmin, all above the floor.
    """
    bits, sigma = law.scenario.segment_bits, law.random_volts
    mean = law.of_entries(node_volts).ravel()
    above = counts.ravel()
    between = np.zeros_like(above)
    if floor_volts < level_volts:
        of_level, of_floor = (ndtr((mean - volts) / sigma) for volts in (level_volts, floor_volts))
        share = (of_floor - of_level) / np.maximum(1.0 - of_level, 1e-300)
        between = generator.binomial(bits - above, np.clip(share, 0.0, 1.0))

    segment, bit, is_above = _places(above, between, bits, generator)
    uniform = 1.0 - generator.random(len(segment))
    own = mean[segment]
    over_level = -ndtri_exp(np.log(uniform) + log_ndtr((own - level_volts) / sigma))
    vmin = np.maximum(own + sigma * over_level, np.nextafter(level_volts, np.inf))
    lower = np.flatnonzero(~is_above)
    if len(lower):
        where = segment[lower]
        tail = of_level[where] + uniform[lower] * (of_floor[where] - of_level[where])
        volts = own[lower] - sigma * ndtri(tail)
        vmin[lower] = np.clip(volts, np.nextafter(floor_volts, np.inf), level_volts)
    return (segment * bits + bit).astype(np.int32), vmin


def _places(
    above: NDArray[np.int64],
    between: NDArray[np.int64],
    bits: int,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Segment and bit of every cell, and whether it lies above the level."""
    total = above + between
    active = np.flatnonzero(total)
    places = np.tile(np.arange(bits, dtype=np.int64), (len(active), 1))
    segments, chosen_bits, is_above = [], [], []
    taken = 0
    while len(active):
        # A step of the Fisher-Yates shuffle: swap a random free place to the front.
        each = np.arange(len(active))
        chosen = taken + generator.integers(bits - taken, size=len(active))
        bit = places[each, chosen]
        places[each, chosen] = places[:, taken]
        segments.append(active)
        chosen_bits.append(bit)
        is_above.append(taken < above[active])
        taken += 1
        going = total[active] > taken
        active, places = active[going], places[going]
    empty = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([empty, *segments]),
        np.concatenate([empty, *chosen_bits]),
        np.concatenate([empty.astype(bool), *is_above]),
    )
