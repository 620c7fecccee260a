"""The law that slices are drawn from instead of their own, and the weight of each.

A mixture. Its parts are the plain law; slices weighted with their pairs of weak cells
(`PairProposal`); slices with many faulty entries (`SliceTilt`). The weight of a slice is the plain
density over that of the whole mixture, whichever part drew it (Veach and Guibas, SIGGRAPH 1995:
the balance heuristic), so that the share of the plain law bounds it (Hesterberg, Technometrics
1995: defensive mixture).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.random import stream
from mcage.studies.rare_events.bumps import Bumps
from mcage.studies.rare_events.cells import place_cells
from mcage.studies.rare_events.entry_proposal import FAULTY_BITS, EntryProposal, log_ratio
from mcage.studies.rare_events.field_proposal import FaultyFields
from mcage.studies.rare_events.pair_proposal import PairProposal
from mcage.studies.rare_events.vmin_gaussian import VminGaussian
from mcage.variation import TailCells


@dataclass(frozen=True, eq=False)
class SliceTilt:
    """Slices with many faulty entries.

    Parameters
    ----------
    fields : FaultyFields
        What fields mean.
    bumps : Bumps
        Law of the fields.
    target : float
        Number of faulty entries: given the field, the odds of a faulty entry are multiplied such
        that at least so many are expected.
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
    """A mixture of laws of a slice.

    Parameters
    ----------
    law : SliceLaw
        The plain law.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this.
    tilt : SliceTilt, optional
        The second part, of the same level.
    tilt_share : float
        Share of slices drawn from it, 0 ... 1.
    pairs : PairLaw, optional
        The third part.
    pair_share : float
        Share of slices drawn from it.
    """

    law: VminGaussian
    level_volts: float
    tilt: SliceTilt | None = None
    tilt_share: float = 0.0
    pairs: PairProposal | None = None
    pair_share: float = 0.0

    @property
    def plain_share(self) -> float:
        """Share of slices drawn from the plain law."""
        return 1.0 - self.tilt_share - self.pair_share


@dataclass(frozen=True, eq=False)
class WeightedDies:
    """Slices drawn from a proposal.

    Attributes
    ----------
    tail : TailCells
        Their cells above the floor.
    weights : float64[I]
        Plain density of each over that of the proposal.
    normals : float64[I, normals]
        Standard normal numbers behind their fields.
    """

    tail: TailCells
    weights: NDArray[np.float64]
    normals: NDArray[np.float64]


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
        Cells with a lower Vmin are left out; at most the level of the proposal.
    """
    law, tilt, pairs, level = proposal.law, proposal.tilt, proposal.pairs, proposal.level_volts
    ids = instances.tolist()
    uniform = np.array([stream(seed, f"{role}.part", one).random() for one in ids])
    from_pairs = uniform < proposal.pair_share
    from_tilt = ~from_pairs & (uniform < proposal.pair_share + proposal.tilt_share)

    normals = np.empty((len(ids), law.normals))
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
    nodes = law.node_volts(normals)
    entries = EntryProposal.of(law, nodes, level)
    log_odds = tilt.log_odds(nodes) if tilt else np.zeros(len(ids))

    parts = []
    for i, instance in enumerate(ids):
        generator = stream(seed, f"{role}.cells", instance)
        counts = entries.at(i).draw(law, log_odds[i] if from_tilt[i] else 0.0, generator)
        cells = place_cells(law, nodes[i], counts, level, floor_volts, generator)
        parts.append(_with_forced(*cells, *forced[i]) if i in forced else cells)
    tail = TailCells.join(parts)

    density = np.full(len(ids), proposal.plain_share)
    if tilt is not None:
        ratio = tilt.bumps.log_ratio(normals)
        ratio += log_ratio(law, entries, log_odds, faulty_entries(tail, level))
        with np.errstate(over="ignore"):
            density += proposal.tilt_share * np.exp(ratio)
    if pairs is not None:
        density += proposal.pair_share * pairs.count(tail) / pairs.expected_pairs
    return WeightedDies(tail, 1.0 / density, normals)


def faulty_entries(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Entries of each instance that have two cells above a level: int64[I]."""
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
    """Cells with the forced ones in the place of what was drawn for them."""
    kept = ~np.isin(cell, forced_cell)
    return (
        np.append(cell[kept], forced_cell),
        np.append(vmin_volts[kept], forced_vmin_volts),
    )
