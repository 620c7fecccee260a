"""The mixture that slices and lives are drawn from in place of their plain distribution.

Besides the plain distribution, a mixture has parts. A part draws the cells of a slice as they are,
weighted with their pairs of weak cells (`PairProposal`), or with many faulty entries (`SliceTilt`);
and it draws the life as it is, or tilted (`LifeTilt`). The weight of a slice and its life is their
plain density over the density of the whole mixture, whichever part drew them (Veach and Guibas,
SIGGRAPH 1995: the balance heuristic), so that the share of the plain distribution bounds the weight
(Hesterberg, Technometrics 1995: defensive mixture).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.random import stream, streams_of
from mcage.studies.rare_events.lives import LifeDistribution, Lives
from mcage.studies.rare_events.proposals.entries import (
    FAULTY_BITS,
    EntryProposal,
    log_ratio,
    place_cells,
)
from mcage.studies.rare_events.proposals.fields import Bumps, FaultyFields
from mcage.studies.rare_events.proposals.lives import LifeTilt
from mcage.studies.rare_events.proposals.pairs import PairProposal
from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian
from mcage.variation.vmin_tail import TailCells

TOGETHER = 64
"""Slices whose numbers of cells are drawn together."""


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
class Part:
    """A part of a mixture, besides the plain distribution.

    Parameters
    ----------
    share : float
        Share of the slices that are drawn from it, 0 ... 1.
    cells : SliceTilt or PairProposal, optional
        Distribution of the cells; by default the plain one.
    lives : LifeTilt, optional
        Distribution of the lives; by default that of a sweep.
    """

    share: float
    cells: SliceTilt | PairProposal | None = None
    lives: LifeTilt | None = None


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of distributions of a slice and its life.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice that is not tilted.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this level; that of all
        slice tilts.
    parts : tuple of Part
        Parts besides the plain distribution. Cells that several parts draw alike are the same
        object.
    without_cells : bool
        Whether slices are drawn without any cell above the floor, because cells do not matter; no
        part then has a distribution of them.
    """

    distribution: VminGaussian
    level_volts: float
    parts: tuple[Part, ...] = ()
    without_cells: bool = False

    @property
    def plain_share(self) -> float:
        """Share of the slices that are drawn from the plain distribution."""
        return 1.0 - sum(part.share for part in self.parts)

    def part_of(self, seed: int, role: str, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Part that draws each instance, int64[I]; the number of parts for the plain one."""
        streams = streams_of(seed, f"{role}.part", instances.tolist())
        uniform = np.array([generator.random() for generator in streams])
        ladder = np.cumsum([part.share for part in self.parts])
        part: NDArray[np.int64] = (uniform[:, None] >= ladder).sum(axis=1)
        return part

    def draw_lives(
        self,
        distribution: LifeDistribution,
        seed: int,
        role: str,
        instances: NDArray[np.int64],
    ) -> Lives:
        """Draw lives; those of the plain part and of parts without a tilt are as in a sweep.

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        seed : int
            Seed, of the plain lives, too.
        role : str
            Purpose of the lives; see `draw_slices`.
        instances : int64[I]
            Instance ids.
        """
        lives = distribution.draw(seed, instances)
        part_of = self.part_of(seed, role, instances)
        for number, part in enumerate(self.parts):
            drawn = np.flatnonzero(part_of == number)
            if part.lives is not None and len(drawn):
                tilted = part.lives.draw(
                    distribution, lives.of(drawn), seed, role, instances[drawn]
                )
                lives.ranks[drawn] = tilted.ranks
                lives.kernel_of_period[drawn] = tilted.kernel_of_period
        return lives

    def weights(self, slices: "DrawnSlices", lives: Lives | None = None) -> NDArray[np.float64]:
        """Plain density of slices and their lives over their density under the mixture: float64[I].

        Lives may be left out if no part tilts them.
        """
        density = np.full(slices.tail.instances, self.plain_share)
        for part, log_ratio_of_cells in zip(self.parts, slices.log_ratios, strict=True):
            ratio = log_ratio_of_cells
            if part.lives is not None:
                assert lives is not None
                ratio = ratio + part.lives.log_ratio(lives)
            with np.errstate(over="ignore"):
                density += part.share * np.exp(ratio)
        return 1.0 / density


@dataclass(frozen=True, eq=False)
class DrawnSlices:
    """Slices drawn from a mixture.

    Attributes
    ----------
    tail : TailCells
        Cells of these slices above the floor.
    log_ratios : float64[parts, I]
        Logarithm of the density of their cells under each part over the plain one.
    normals : float64[I, normals]
        Standard normal numbers behind the fields of the slices; NaN where no cell was drawn.
    """

    tail: TailCells
    log_ratios: NDArray[np.float64]
    normals: NDArray[np.float64]


def draw_slices(
    proposal: Proposal,
    seed: int,
    role: str,
    instances: NDArray[np.int64],
    floor_volts: float,
) -> DrawnSlices:
    """Draw slices from a mixture.

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
    distribution, level, ids = proposal.distribution, proposal.level_volts, instances.tolist()
    if proposal.without_cells:
        return _without_cells(proposal, len(ids))
    part_of = proposal.part_of(seed, role, instances)
    normals = np.empty((len(ids), distribution.normals))
    for generator, of_slice in zip(streams_of(seed, f"{role}.field", ids), normals, strict=True):
        generator.standard_normal(out=of_slice)
    cells_of = [part.cells for part in proposal.parts] + [None]
    forced: dict[int, tuple[NDArray[np.int32], NDArray[np.float64]]] = {}
    for i, instance in enumerate(ids):
        match cells_of[part_of[i]]:
            case PairProposal() as pairs:
                generator = stream(seed, f"{role}.pair", instance)
                normals[i], cell, vmin_volts = pairs.draw(normals[i], generator)
                forced[i] = cell, vmin_volts
            case SliceTilt() as tilt:
                generator = stream(seed, f"{role}.bump", instance)
                normals[i] = tilt.bumps.draw(normals[i], generator)
    nodes = distribution.node_volts(normals)
    entries = EntryProposal.of(distribution, nodes, level)
    log_odds = {
        id(cells): cells.log_odds(nodes) for cells in cells_of if isinstance(cells, SliceTilt)
    }

    odds = np.zeros(len(ids))
    for tilt in (cells for cells in cells_of if isinstance(cells, SliceTilt)):
        tilted = np.array([cells_of[part] is tilt for part in part_of.tolist()], dtype=bool)
        odds[tilted] = log_odds[id(tilt)][tilted]
    drawn = []
    for begin in range(0, len(ids), TOGETHER):
        together = slice(begin, begin + TOGETHER)
        generators = [stream(seed, f"{role}.cells", instance) for instance in ids[together]]
        counts = entries.of_slices(together).draw(odds[together], generators)
        for i, (of_slice, generator) in enumerate(zip(counts, generators, strict=True), begin):
            placed = place_cells(distribution, nodes[i], of_slice, level, floor_volts, generator)
            drawn.append(_with_forced(*placed, *forced[i]) if i in forced else placed)
    tail = TailCells.join(drawn, distribution.scenario.geometry)

    ratios: dict[int, NDArray[np.float64]] = {id(None): np.zeros(len(ids))}
    for cells in cells_of:
        if id(cells) in ratios:
            continue
        if isinstance(cells, SliceTilt):
            faulty = faulty_entries(tail, level)
            ratios[id(cells)] = cells.bumps.log_ratio(normals) + log_ratio(
                distribution, entries, log_odds[id(cells)], faulty
            )
        elif isinstance(cells, PairProposal):
            with np.errstate(divide="ignore"):
                ratios[id(cells)] = np.log(cells.count(tail) / cells.expected_pairs)
    of_parts = [ratios[id(part.cells)] for part in proposal.parts]
    return DrawnSlices(tail, np.array(of_parts).reshape(-1, len(ids)), normals)


def _without_cells(proposal: Proposal, count: int) -> DrawnSlices:
    nothing = [(np.empty(0, np.int32), np.empty(0))] * count
    return DrawnSlices(
        TailCells.join(nothing, proposal.distribution.scenario.geometry),
        np.zeros((len(proposal.parts), count)),
        np.full((count, proposal.distribution.normals), np.nan),
    )


def faulty_entries(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Number of entries of each instance that have two cells or more above a level: int64[I]."""
    above = tail.vmin_volts > level_volts
    entries = tail.geometry.entries
    size = tail.instances * entries
    cells = np.bincount(tail.slice_entry[above], minlength=size).reshape(-1, entries)
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
