"""The new faults of an epoch: which cells become faulty, and what the fault maps are meanwhile."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mcage.aging.sampling import InstanceConstants
from mcage.aging.transistors import NbtiSpread, scores_of
from mcage.aging.vmin import CellFailure
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.lifetime import BISECTIONS
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import CellDegradation, EpochSpan
from mcage.random import stream_key, streams_of
from mcage.variation.fault_models import EntryFaults, NewSlices
from mcage.variation.vmin_tail import TailCells


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that become faulty within an epoch of each.

    Attributes
    ----------
    failure : CellFailure
        When each of the cells fails.
    span : EpochSpan
        The epochs.
    earlier : EntryFaults
        Faults at the starts of the epochs.
    places : int64[m]
        Positions of the cells in the tail of the batch, in rising order.
    cells : TailCells
        Cells that are fault-free at the start and faulty at the end.
    vmin_volts : float64[2, m]
        Vmin of these cells from which the shifts of T0 and T1 start.
    degradation : CellDegradation
        Shifts of these cells.
    scores : float64[k, m], optional
        Scores of their transistors, as of `CellFailure.are_faulty`.
    """

    failure: CellFailure
    span: EpochSpan
    earlier: EntryFaults
    places: Integers
    cells: TailCells
    vmin_volts: Floats
    degradation: CellDegradation
    scores: Floats | None = None

    def of(self, which: Integers) -> "NewFaults":
        """New faults of selected instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.failure.of(kept),
            self.span.of(which),
            self.earlier.of(which),
            self.places[kept],
            self.cells.at(kept, which),
            self.vmin_volts[:, kept],
            self.degradation.of(kept),
            None if self.scores is None else self.scores[:, kept],
        )

    def faults_at(self, moment: Floats) -> EntryFaults:
        """Faults at a moment of each epoch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        return self.earlier.more(self.cells, self.are_faulty_at(moment))

    def fault_maps_at(self, moment: Floats) -> Bytes:
        """Fault maps at a moment of each epoch: uint8[n, 256]."""
        if not len(self.cells.cell):
            return self.earlier.maps
        return self.earlier.maps_with(self.cells, self.are_faulty_at(moment))

    def are_faulty_at(self, moment: Floats) -> Booleans:
        """Whether the cells are faulty at a moment of each epoch: bool[m]."""
        return self._are_faulty(moment[self.cells.instance])

    def first_moments(self) -> Floats:
        """Moments from which the cells are faulty, by bisection of the epochs: float64[m]."""
        epochs = self.span.of(self.cells.instance)
        low, high = epochs.start, epochs.end
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            faulty = self._are_faulty(middle)
            low, high = np.where(faulty, low, middle), np.where(faulty, middle, high)
        return high

    def _are_faulty(self, moment: Floats) -> Booleans:
        """Whether the cells are faulty at a moment of each: float64[m] to bool[m]."""
        return self.degradation.are_faulty(self.failure, self.vmin_volts, moment, self.scores)


# The luck of transistors: scores of the traps of each, functions of seed and instance alone.
#
# A transistor keeps its score for life, under all techniques, voltages and scenarios. The scores
# of a slice's unluckiest transistors, which may decide its delay, are drawn as order statistics of
# independent uniform numbers, at random places; all others lie below the last of them.

UNLUCKIEST = 256
"""Transistors of a slice whose scores are drawn first, and whose shifts are followed."""


@dataclass(frozen=True, eq=False)
class BatchLuck:
    """Scores that the lives of a batch depend on.

    Attributes
    ----------
    vmin_volts : float64[k, n]
        Vmin of the cells of the tail from which the mean shifts of their transistors start, as
        `CellFailure.start_of` gives it; without meaning where there are margins.
    sampled : float64[2, I, sample]
        Scores of the sampled cells.
    unlucky_cells : int64[I, k]
        Cells of the unluckiest transistors.
    unlucky : float64[2, I, k]
        Scores of these cells.
    others_at_most : float64[I]
        Score below which all other transistors of an instance lie.
    path : float64[I]
        Score of the worst path.
    """

    vmin_volts: Floats
    sampled: Floats
    unlucky_cells: Integers
    unlucky: Floats
    others_at_most: Floats
    path: Floats


@dataclass(frozen=True, eq=False)
class SliceLuck:
    """Scores of the transistors of I instances.

    Parameters
    ----------
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    cells : int
        Cells of a slice; each has two transistors, T0 and T1.
    """

    seed: int
    instances: Integers
    cells: int

    def of(self, which: Integers) -> "SliceLuck":
        """Luck of selected instances."""
        return SliceLuck(self.seed, self.instances[which], self.cells)

    @cached_property
    def _unluckiest(self) -> tuple[Integers, Floats]:
        """Transistors ``2 * cell + side`` and their ranks: int64[I, k], float64[I, k], rising."""
        transistors = 2 * self.cells
        count = min(UNLUCKIEST, transistors)
        chosen = np.empty((len(self.instances), count), dtype=np.int64)
        uniform = np.empty((len(self.instances), count))
        streams = streams_of(self.seed, "traps.unluckiest", self.instances.tolist())
        for row, draws in enumerate(streams):
            uniform[row] = draws.random(count)
            chosen[row] = draws.choice(transistors, count, replace=False)
        # Each is the smallest of those that are left (Rényi, 1953).
        steps = np.log1p(-uniform) / (transistors - np.arange(count))
        return chosen, -np.expm1(np.cumsum(steps, axis=1))

    @cached_property
    def _listed(self) -> tuple[Integers, Floats]:
        """The unluckiest among the transistors of all instances, in rising order, and ranks."""
        chosen, ranks = self._unluckiest
        listed = (np.arange(len(chosen))[:, None] * 2 * self.cells + chosen).ravel()
        order = np.argsort(listed)
        return listed[order], ranks.ravel()[order]

    @property
    def unlucky_cells(self) -> Integers:
        """Cells of the unluckiest transistors: int64[I, k]."""
        return self._unluckiest[0] // 2

    @cached_property
    def others_at_most(self) -> Floats:
        """Score below which all other transistors lie: float64[I]."""
        return scores_of(self._unluckiest[1][:, -1])

    def scores(self, owner: Integers, cell: Integers) -> Floats:
        """Scores of T0 and T1 of n cells.

        Parameters
        ----------
        owner, cell : int64[n]
            Position of the instance of each cell, 0 ... I-1, and number of the cell in its slice.
            Check cells, beyond the cells of the slice, are never among the unluckiest.

        Returns
        -------
        float64[2, n]
        """
        is_check = cell >= self.cells
        if is_check.any():
            scores = np.empty((2, len(cell)))
            scores[:, ~is_check] = self.scores(owner[~is_check], cell[~is_check])
            place = 2 * (cell[is_check] - self.cells)
            drawn = [self.numbers("traps.check", owner[is_check], place + t) for t in range(2)]
            scores[:, is_check] = scores_of(1 - np.stack(drawn))
            return scores
        transistor = 2 * cell + np.arange(2)[:, None]
        owners = np.broadcast_to(owner, transistor.shape)
        uniform = self.numbers("traps", owners.ravel(), transistor.ravel())
        last = self._unluckiest[1][owners, -1]
        rank = last + (1 - last) * uniform.reshape(transistor.shape)
        # Of the unluckiest, the ranks are known.
        listed, ranks = self._listed
        sought = (owners * 2 * self.cells + transistor).ravel()
        place = np.minimum(np.searchsorted(listed, sought), len(listed) - 1)
        known = listed[place] == sought
        rank.reshape(-1)[known] = ranks[place[known]]
        return scores_of(rank)

    def numbers(self, name: str, owner: Integers, place: Integers) -> Floats:
        """Uniform numbers for a use of such a name.

        Parameters
        ----------
        name : str
            What the numbers are for.
        owner, place : int64[n]
            Position of the instance of each number, 0 ... I-1, and place in its stream.

        Returns
        -------
        float64[n]
            0 <= number < 1.
        """
        from mcage.philox import numbers_at

        keys = np.tile(stream_key(self.seed, name), (len(self.instances), 1))
        return numbers_at(keys, self.instances, owner, place)

    def scores_of_cells(self, owner: Integers, cell: Integers, pull_downs: bool) -> Floats:
        """Scores of the transistors of n cells that age; arguments as of `scores`.

        Returns
        -------
        float64[2, n] or float64[4, n]
            T0 and T1, then N0 and N1 if asked for: these have traps of their own.
        """
        scores = self.scores(owner, cell)
        if not pull_downs:
            return scores
        name = "traps.pull_downs"
        uniform = [self.numbers(name, owner, 2 * cell + which) for which in range(2)]
        return np.concatenate([scores, scores_of(1 - np.stack(uniform))])

    def path_scores(self, spread: NbtiSpread) -> Floats:
        """Scores of the worst path of each instance: float64[I]."""
        streams = streams_of(self.seed, "traps.path", self.instances.tolist())
        uniform = np.array([1 - draws.random() for draws in streams])
        return spread.scores_of_worst(uniform)

    def of_batch(
        self,
        conditions: LifeConditions,
        constants: InstanceConstants | None,
        new: NewSlices,
        sampled_cells: Integers,
    ) -> tuple[NewSlices, BatchLuck | None]:
        """Luck of slices where conditions let transistors differ, and the cells that may fail.

        Parameters
        ----------
        conditions : LifeConditions
            What holds for the lives of the slices.
        constants : InstanceConstants, optional
            Constants of the slices, if they differ.
        new : NewSlices
            The slices, with all cells above the floor of the conditions.
        sampled_cells : int64[I, sample]
            Cells whose shifts stand for the distribution over the slice.

        Returns
        -------
        NewSlices, BatchLuck or None
            The slices without the cells that their luck keeps from ever failing, and the scores.
        """
        spread = conditions.spread
        if spread is None:
            return new, None
        if conditions.margins is None:
            tail, start = self._starts(conditions, constants, new)
        else:  # see `mcage.lifetime.end_of_life`
            tail, start = new.tail, np.empty((0, len(new.tail.cell)))
        return (
            replace(new, tail=tail),
            BatchLuck(
                vmin_volts=start,
                sampled=self._of_each(sampled_cells),
                unlucky_cells=self.unlucky_cells,
                unlucky=self._of_each(self.unlucky_cells),
                others_at_most=self.others_at_most,
                path=self.path_scores(spread),
            ),
        )

    def _starts(
        self, conditions: LifeConditions, constants: InstanceConstants | None, new: NewSlices
    ) -> tuple[TailCells, Floats]:
        """Cells that may fail without margins, and from where their mean shifts start.

        Returns
        -------
        TailCells, float64[k, n]
            See `BatchLuck.vmin_volts`.
        """
        assert conditions.spread is not None
        tail, traps = new.tail, conditions.spread.traps
        failure, cells = conditions.cell_failure(constants), tail.cell.astype(np.int64)
        scores = self.scores_of_cells(tail.instance, cells, conditions.pbti is not None)
        # First by a bound, which is quickly worked out: see `largest_shifts`.
        growth = np.sqrt(failure.lowest_vdd_volts - conditions.mean_floor_volts)
        of_luck = np.sqrt(traps.eta_volts / 2 * failure.of(tail.instance).coefficients)
        reach = growth + of_luck * np.maximum.reduce(scores)
        able = failure.lowest_vdd_volts - tail.vmin_volts <= reach**2 * (1 + 1e-9)
        able &= reach > 0
        kept = np.flatnonzero(able)
        tail, scores = tail.at(kept, np.arange(len(new))), scores[:, kept]
        start = failure.of(tail.instance).start_of(tail.vmin_volts, scores, traps)
        kept = np.flatnonzero(start.max(axis=0) > conditions.mean_floor_volts)
        return tail.at(kept, np.arange(len(new))), start[:, kept]

    def _of_each(self, cells: Integers) -> Floats:
        """Scores of as many cells of each instance: int64[I, n] to float64[2, I, n]."""
        owner = np.repeat(np.arange(len(cells), dtype=np.int64), cells.shape[1])
        return self.scores(owner, cells.ravel()).reshape(2, *cells.shape)
