"""Fault maps straight from Table I of RRCD: as many faulty bits per entry as the table says."""

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.variation.cells import TailCells
from mcage.variation.scenarios import CLASSES, Scenario
from mcage.variation.streams import draws


def exact_counts(shares: tuple[float, ...], total: int) -> NDArray[np.int64]:
    """Whole numbers that sum to ``total`` and come closest to the shares (largest remainder)."""
    ideal = np.asarray(shares) * total
    # A share such as 0.29 * 100 = 28.999999999999996 is meant to be whole.
    counts = np.floor(ideal + 1e-9).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - ideal, kind="stable")[:missing]] += 1
    return counts


def sample_table(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], exact: bool
) -> TailCells:
    """Faulty cells of each instance at the scenario's own Vdd.

    An entry of class i has i faulty bits in i different blocks; the last class, "4 or more", has
    four. Their Vmin is infinite: the table knows one Vdd only, and its faults do not grow.

    Parameters
    ----------
    scenario : Scenario
        Only its table is used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    exact : bool
        Every map has the shares of the table, rounded to whole entries, in random order; if
        false, the class of each entry is drawn, and the shares hold on the average.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B and Table I: "entries with i faulty bits, i >= 2, have
    i faulty blocks", conservatively.
    """
    ladder = np.cumsum(scenario.table_shares)[:-1]
    ranked = np.repeat(np.arange(len(CLASSES)), exact_counts(scenario.table_shares, SLICE.entries))
    parts = []
    for instance in instances.tolist():
        generator = draws(seed, "table", instance)
        uniform = generator.random(SLICE.entries)
        block_order = np.argsort(generator.random((SLICE.entries, SLICE.blocks)), axis=1)
        place = (generator.random((SLICE.entries, SLICE.blocks)) * SLICE.block_bits).astype(int)
        bits = (
            ranked[np.argsort(np.argsort(uniform))]
            if exact
            else np.searchsorted(ladder, uniform, side="right")
        )
        entry, nth = np.nonzero(np.arange(SLICE.blocks) < bits[:, None])
        cell = entry * SLICE.entry_bits + block_order[entry, nth] * SLICE.block_bits
        cell += place[entry, nth]
        parts.append((cell.astype(np.int32), np.full(len(cell), np.inf)))
    return TailCells.join(parts)
