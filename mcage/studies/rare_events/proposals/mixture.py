"""The mixture that slices are drawn from in place of their plain distribution, and their weights.

The parts of the mixture are the plain distribution; slices weighted with their pairs of weak cells
(`PairProposal`); and slices with many faulty entries (`SliceTilt`). The weight of a slice is its
plain density over the density of the whole mixture, whichever part drew it (Veach and Guibas,
SIGGRAPH 1995: the balance heuristic), so that the share of the plain distribution bounds the weight
(Hesterberg, Technometrics 1995: defensive mixture).

Workloads in which the kernel that kills is more frequent are drawn here, too. Each slice draws
several workloads as a sweep does and keeps one, with odds that favour those with a given kernel.
The weight that makes up for it is exact whatever the distribution of workloads is: the mean odds of
the drawn workloads over the odds of the one that is kept.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.random import stream
from mcage.studies.rare_events.case import RareCase
from mcage.studies.rare_events.proposals.entries import (
    FAULTY_BITS,
    EntryProposal,
    log_ratio,
    place_cells,
)
from mcage.studies.rare_events.proposals.fields import Bumps, FaultyFields
from mcage.studies.rare_events.proposals.pairs import PairProposal
from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian
from mcage.variation import TailCells

CANDIDATES = 8
"""Workloads that a slice draws, of which it keeps one."""

FAVOUR = 8.0
"""Odds of a workload with the favoured kernel over those of one without."""


@dataclass(frozen=True, eq=False)
class SliceTilt:
    """Slices with many faulty entries.

    Parameters
    ----------
    fields : FaultyFields
        How many faulty entries a field makes likely.
    bumps : Bumps
        Distribution of the fields.
    target : float
        Number of faulty entries. Given the field, the odds of a faulty entry are multiplied such
        that at least this number is expected.
    """

    fields: FaultyFields
    bumps: Bumps
    target: float

    def log_odds(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the factor on the odds of a faulty entry, for each slice: float64[I]."""
        faulty = self.fields.faulty(nodes.reshape(len(nodes), -1))
        _, log_odds = self.fields.log_chance(faulty, self.target)
        return log_odds


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of distributions of a slice.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice that is not tilted.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this level.
    tilt : SliceTilt, optional
        The second part, of the same level.
    tilt_share : float
        Share of the slices that are drawn from it, 0 ... 1.
    pairs : PairProposal, optional
        The third part.
    pair_share : float
        Share of the slices that are drawn from it, 0 ... 1.
    """

    distribution: VminGaussian
    level_volts: float
    tilt: SliceTilt | None = None
    tilt_share: float = 0.0
    pairs: PairProposal | None = None
    pair_share: float = 0.0

    @property
    def plain_share(self) -> float:
        """Share of the slices that are drawn from the plain distribution."""
        return 1.0 - self.tilt_share - self.pair_share


@dataclass(frozen=True, eq=False)
class WeightedSlices:
    """Slices drawn from a proposal.

    Attributes
    ----------
    tail : TailCells
        Cells of these slices above the floor.
    weights : float64[I]
        Plain density of each slice over its density under the proposal.
    normals : float64[I, normals]
        Standard normal numbers behind the fields of the slices.
    """

    tail: TailCells
    weights: NDArray[np.float64]
    normals: NDArray[np.float64]


def draw_slices(
    proposal: Proposal,
    seed: int,
    role: str,
    instances: NDArray[np.int64],
    floor_volts: float,
) -> WeightedSlices:
    """Draw slices from a proposal.

    Parameters
    ----------
    proposal : Proposal
        Distribution that slices are drawn from.
    seed : int
        Seed.
    role : str
        Purpose of the slices; different purposes have different random numbers.
    instances : int64[I]
        Instance ids. A slice depends on proposal, seed, role and its id only.
    floor_volts : float
        Cells with a lower Vmin are left out; at most the level of the proposal.
    """
    distribution, tilt, pairs, level = (
        proposal.distribution,
        proposal.tilt,
        proposal.pairs,
        proposal.level_volts,
    )
    ids = instances.tolist()
    uniform = np.array([stream(seed, f"{role}.part", instance).random() for instance in ids])
    from_pairs = uniform < proposal.pair_share
    from_tilt = ~from_pairs & (uniform < proposal.pair_share + proposal.tilt_share)

    normals = np.empty((len(ids), distribution.normals))
    for i, instance in enumerate(ids):
        stream(seed, f"{role}.field", instance).standard_normal(out=normals[i])
    forced: dict[int, tuple[NDArray[np.int32], NDArray[np.float64]]] = {}
    if pairs is not None:
        for i in np.flatnonzero(from_pairs).tolist():
            generator = stream(seed, f"{role}.pair", ids[i])
            normals[i], cell, vmin_volts = pairs.draw(normals[i], generator)
            forced[i] = cell, vmin_volts
    if tilt is not None:
        for i in np.flatnonzero(from_tilt).tolist():
            normals[i] = tilt.bumps.draw(normals[i], stream(seed, f"{role}.bump", ids[i]))
    nodes = distribution.node_volts(normals)
    entries = EntryProposal.of(distribution, nodes, level)
    log_odds = tilt.log_odds(nodes) if tilt else np.zeros(len(ids))

    parts = []
    for i, instance in enumerate(ids):
        generator = stream(seed, f"{role}.cells", instance)
        counts = entries.at(i).draw(distribution, log_odds[i] if from_tilt[i] else 0.0, generator)
        cells = place_cells(distribution, nodes[i], counts, level, floor_volts, generator)
        parts.append(_with_forced(*cells, *forced[i]) if i in forced else cells)
    tail = TailCells.join(parts)

    density = np.full(len(ids), proposal.plain_share)
    if tilt is not None:
        ratio = tilt.bumps.log_ratio(normals)
        ratio += log_ratio(distribution, entries, log_odds, faulty_entries(tail, level))
        with np.errstate(over="ignore"):
            density += proposal.tilt_share * np.exp(ratio)
    if pairs is not None:
        density += proposal.pair_share * pairs.count(tail) / pairs.expected_pairs
    return WeightedSlices(tail, 1.0 / density, normals)


def faulty_entries(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Number of entries of each instance that have two cells or more above a level: int64[I]."""
    above = tail.vmin_volts > level_volts
    size = tail.instances * SLICE.entries
    cells = np.bincount(tail.slice_entry[above], minlength=size).reshape(-1, SLICE.entries)
    faulty: NDArray[np.int64] = (cells >= FAULTY_BITS).sum(axis=1)
    return faulty


def _with_forced(
    cell: NDArray[np.int32],
    vmin_volts: NDArray[np.float64],
    forced_cell: NDArray[np.int32],
    forced_vmin_volts: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Replace what was drawn for the forced cells by their forced Vmin."""
    kept = ~np.isin(cell, forced_cell)
    return (
        np.append(cell[kept], forced_cell),
        np.append(vmin_volts[kept], forced_vmin_volts),
    )


def favoured(
    case: RareCase, kernel: int, instances: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw workloads that favour a kernel.

    Parameters
    ----------
    case : RareCase
        The case.
    kernel : int
        Number of the kernel.
    instances : int64[I]
        Instance ids.

    Returns
    -------
    kernel_of_epoch : int64[I, epochs]
        Number of the kernel that each slice runs in each epoch.
    weights : float64[I]
        Weight of each workload.
    """
    ids = instances[:, None] * CANDIDATES + np.arange(CANDIDATES)
    candidates = case.kernels(ids.ravel()).reshape(len(ids), CANDIDATES, -1)
    odds = np.where((candidates == kernel).any(axis=2), FAVOUR, 1.0)
    uniform = np.array(
        [
            stream(case.spec.seed, "rare.workload", instance).random()
            for instance in instances.tolist()
        ]
    )
    ladder = np.cumsum(odds, axis=1)
    kept = (uniform[:, None] * ladder[:, -1:] >= ladder).sum(axis=1)
    each = np.arange(len(ids))
    return candidates[each, kept], odds.mean(axis=1) / odds[each, kept]
