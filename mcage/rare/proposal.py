"""The law that slices are drawn from instead of their own, and the weight of each.

A mixture. Its parts are the plain law; slices weighted with their pairs of weak cells
(`PairLaw`); slices whose mean is shifted and whose entries are faulty with other odds
(`SliceTilt`). The weight of a slice is the plain density over that of the whole mixture, whichever
part drew it (Veach and Guibas, SIGGRAPH 1995: the balance heuristic), so that the share of the
plain law bounds all weights (Hesterberg, Technometrics 1995: defensive mixture).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.random import stream
from mcage.rare.cells import place_cells
from mcage.rare.entries import FAULTY_BITS, EntryLaw, log_ratio
from mcage.rare.pairs import PairLaw
from mcage.rare.slice_law import SliceLaw
from mcage.variation import TailCells


@dataclass(frozen=True)
class SliceTilt:
    """Slices made worse as a whole.

    Parameters
    ----------
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this.
    mean_shift : float
        Shift of the mean of the slice, in its own deviations.
    log_odds : float
        Logarithm of the factor on the odds that an entry is faulty, given the field.
    """

    level_volts: float
    mean_shift: float = 0.0
    log_odds: float = 0.0


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of laws of a slice.

    Parameters
    ----------
    law : SliceLaw
        The plain law.
    tilt : SliceTilt
        The second part; its level is also that down to which entries are told apart.
    tilt_share : float
        Share of slices drawn from it, 0 ... 1.
    pairs : PairLaw, optional
        The third part.
    pair_share : float
        Share of slices drawn from it. The shares together stay below 1.
    """

    law: SliceLaw
    tilt: SliceTilt
    tilt_share: float = 0.0
    pairs: PairLaw | None = None
    pair_share: float = 0.0

    @property
    def plain_share(self) -> float:
        """Share of slices drawn from the plain law; no weight exceeds its inverse."""
        return 1.0 - self.tilt_share - self.pair_share


@dataclass(frozen=True, eq=False)
class WeightedDies:
    """Slices drawn from a proposal.

    Attributes
    ----------
    tail : TailCells
        Their cells above the floor.
    weights : float64[I]
        Plain density over that of the proposal.
    mean_shift : float64[I]
        Shift of the mean of each slice, in deviations of that mean.
    node_volts : float64[I, node_rows, node_columns]
        Mean Vmin at their nodes.
    """

    tail: TailCells
    weights: NDArray[np.float64]
    mean_shift: NDArray[np.float64]
    node_volts: NDArray[np.float64]


def draw_dies(
    proposal: Proposal,
    seed: int,
    role: str,
    instances: NDArray[np.int64],
    floor_volts: float,
) -> WeightedDies:
    """Draw slices from a proposal.

    Parameters
    ----------
    proposal : Proposal
        Where from.
    seed : int
        Seed.
    role : str
        What the slices are for; other roles have other random numbers.
    instances : int64[I]
        Instance ids: what each is depends on proposal, seed, role and its id only.
    floor_volts : float
        Cells with a lower Vmin are left out; at most the level of the tilt.
    """
    law, tilt, pairs = proposal.law, proposal.tilt, proposal.pairs
    ids = instances.tolist()
    uniform = np.array([stream(seed, f"{role}.part", one).random() for one in ids])
    from_pairs = uniform < proposal.pair_share
    from_tilt = ~from_pairs & (uniform < proposal.pair_share + proposal.tilt_share)

    normals = np.empty((len(ids), law.normals))
    forced: list[tuple[NDArray[np.int32], NDArray[np.float64]] | None] = [None] * len(ids)
    for i, instance in enumerate(ids):
        stream(seed, f"{role}.field", instance).standard_normal(out=normals[i])
        if from_tilt[i]:
            normals[i] += tilt.mean_shift * law.mean_direction
        elif from_pairs[i]:
            assert pairs is not None
            generator = stream(seed, f"{role}.pair", instance)
            normals[i], cell, vmin = pairs.draw(normals[i], generator)
            forced[i] = cell, vmin
    nodes = law.node_volts(normals)
    entries = EntryLaw.of(law, nodes, tilt.level_volts)

    parts = []
    for i, instance in enumerate(ids):
        generator = stream(seed, f"{role}.cells", instance)
        counts = entries.at(i).draw(law, tilt.log_odds if from_tilt[i] else 0.0, generator)
        cells = place_cells(law, nodes[i], counts, tilt.level_volts, floor_volts, generator)
        parts.append(_with_forced(*cells, forced[i]))
    tail = TailCells.join(parts)

    mean_shift = np.einsum("ij,j->i", normals, law.mean_direction)
    faulty = faulty_entries(tail, tilt.level_volts)
    density = np.full(len(ids), proposal.plain_share)
    if proposal.tilt_share:
        shift = tilt.mean_shift
        exponent = shift * mean_shift - 0.5 * shift**2 * float((law.mean_direction**2).sum())
        exponent += log_ratio(law, entries, tilt.log_odds, faulty)
        with np.errstate(over="ignore"):
            density += proposal.tilt_share * np.exp(exponent)
    if pairs is not None:
        density += proposal.pair_share * pairs.count(tail) / pairs.expected_pairs
    return WeightedDies(tail, 1.0 / density, mean_shift, nodes)


def _with_forced(
    cell: NDArray[np.int32],
    vmin_volts: NDArray[np.float64],
    forced: tuple[NDArray[np.int32], NDArray[np.float64]] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Cells with the forced ones in the place of what was drawn for them."""
    if forced is None:
        return cell, vmin_volts
    kept = ~np.isin(cell, forced[0])
    return np.append(cell[kept], forced[0]), np.append(vmin_volts[kept], forced[1])


def faulty_entries(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Entries of each instance that have two cells above a level: int64[I]."""
    above = tail.vmin_volts > level_volts
    size = tail.instances * SLICE.entries
    cells = np.bincount(tail.slice_entry[above], minlength=size).reshape(-1, SLICE.entries)
    faulty: NDArray[np.int64] = (cells >= FAULTY_BITS).sum(axis=1)
    return faulty
