"""Which cells of slices become faulty, at which age, and which value each of them loses.

The outcomes of a life tell how many entries are faulty, and what ended it. Who injects faults into
programs wants to know the cells.

A technique that heeds faults moves data away from them, and its life ends when it finds no room.
One that does not places its registers as if there were none, so that its cells are stressed alike
with and without faults: lives under it go on past faults here, as those of slices of which nobody
notices the faults, until delay ends them or a limit that faults do not touch. So neither these
cells of data nor their ages depend on what protects the entries.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.vmin import VALUES, aged_vmin
from mcage.engines.interface import Engine
from mcage.geometry import Floats, Integers, SliceGeometry
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.faults import NewFaults, SliceLuck, limits_of_cells
from mcage.lifetime.feasibility import FaultFreeReplays, FaultMapReplays
from mcage.lifetime.outcomes import LifeEnd
from mcage.lifetime.simulator import BatchOfLives, SliceBatch
from mcage.variation.vmin_tail import TailCells

UNKNOWN = -1
"""Stands for the value that a cell loses, where the models do not say which."""


class FaultyCellsOfSlice(NamedTuple):
    """Cells of a slice that are faulty sometime within its life, in rising order of their ages.

    Attributes
    ----------
    cell : int64[n]
        Numbers of the cells: `FaultyCells.cell`.
    years : float64[n]
        Age from which each is faulty.
    weak_value : int8[n]
        Value that each loses.
    """

    cell: Integers
    years: Floats
    weak_value: NDArray[np.int8]

    def by(self, age_years: float) -> Self:
        """Cells that are faulty at an age."""
        count = np.searchsorted(self.years, age_years, side="right")
        return type(self)(self.cell[:count], self.years[:count], self.weak_value[:count])


@dataclass(frozen=True, eq=False)
class FaultyCells:
    """Cells of I slices that are faulty sometime within their lives; they stay faulty.

    Attributes
    ----------
    offsets : int64[I+1]
        Cells ``offsets[i] ... offsets[i+1] - 1`` belong to the i-th slice.
    cell : int64[n]
        Number of the cell in its slice, check cells included, as of `TailCells`; slice by slice in
        rising order of age, and of equal age in rising order.
    years : float64[n]
        Age from which the cell is faulty, at most that at which the life ends; 0 where it is faulty
        in the new slice.
    weak_value : int8[n]
        Value that the cell cannot keep, 0 or 1; `UNKNOWN` where the models do not say it.
    end_years : float64[I]
        Age at which the life ends, or the horizon where it goes on.
    end_cause : int8[I]
        `EndCause`; `EndCause.CENSORED` where the life goes on at the horizon.
    """

    offsets: Integers
    cell: Integers
    years: Floats
    weak_value: NDArray[np.int8]
    end_years: Floats
    end_cause: NDArray[np.int8]

    @classmethod
    def _of(cls, parts: "list[_Cells]", end: LifeEnd) -> Self:
        """Parts of the cells in any order, and the ends of the lives."""
        owner, cell, years, weak_value = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((cell, years, owner))
        counts = np.bincount(owner, minlength=len(end.seconds))
        return cls(
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            cell=cell[order],
            years=years[order],
            weak_value=weak_value[order],
            end_years=end.seconds / SECONDS_PER_YEAR,
            end_cause=end.cause,
        )

    def of(self, instance: int) -> FaultyCellsOfSlice:
        """Cells of a slice."""
        part = slice(*self.offsets[instance : instance + 2].tolist())
        return FaultyCellsOfSlice(self.cell[part], self.years[part], self.weak_value[part])

    def __len__(self) -> int:
        return len(self.end_years)


def faulty_cells(
    conditions: LifeConditions,
    engine: Engine,
    fault_free: FaultFreeReplays,
    batch: SliceBatch,
    weak: TailCells,
    luck: SliceLuck | None = None,
) -> FaultyCells:
    """Faulty cells of a batch of slices in a case.

    Parameters
    ----------
    conditions, engine, fault_free, batch
        As of `simulate_lifetimes`.
    weak : TailCells
        All weak cells of the slices, of which `NewSlices.at` made those of the batch.
    luck : SliceLuck, optional
        What the limits of cells are drawn from, as of `luck_and_limits`. Without it, or without
        margins, nothing says which value a cell loses that is faulty in the new slice.

    Raises
    ------
    UserError
        As `LifeConditions.additive_shift`.

    Notes
    -----
    Without margins, the larger shift of a cell decides when it fails: it loses the value that
    stressed the transistor whose shift exceeds what the cell can bear. With margins, it loses the
    value of the margin that limits it: `Margins.weak_values`.
    """
    conditions = _regardless_of_faults(conditions, fault_free.geometry)
    with engine.working():
        lives = _LivesOfCells(conditions, engine, fault_free, batch)
        end = lives.run().end
    return FaultyCells._of([_of_new(conditions, weak, luck), *lives.aged], end)


class _Cells(NamedTuple):
    """Faulty cells in any order: int64[n], int64[n], float64[n], int8[n]."""

    owner: Integers
    cell: Integers
    years: Floats
    weak_value: NDArray[np.int8]


def _regardless_of_faults(conditions: LifeConditions, geometry: SliceGeometry) -> LifeConditions:
    """Conditions under which faults in entries that a technique cannot avoid end no life."""
    every_block = geometry.entries * geometry.blocks
    return replace(conditions, limits=replace(conditions.limits, uncorrectable_blocks=every_block))


def _of_new(conditions: LifeConditions, weak: TailCells, luck: SliceLuck | None) -> _Cells:
    """Cells that are faulty in new slices."""
    faulty = weak.vmin_volts > conditions.environment.lowest_vdd_volts
    owner, cell = weak.instance[faulty], weak.cell[faulty].astype(np.int64)
    weak_value, margins = np.full(len(cell), UNKNOWN, dtype=np.int8), conditions.margins
    if margins is not None and luck is not None:
        weak_value = margins.weak_values(limits_of_cells(margins, luck, owner, cell))
    return _Cells(owner, cell, np.zeros(len(cell)), weak_value)


class _LivesOfCells(BatchOfLives):
    """State of a batch while it lives, and the cells that aging has made faulty so far."""

    def __init__(
        self,
        conditions: LifeConditions,
        engine: Engine,
        fault_free: FaultFreeReplays,
        batch: SliceBatch,
    ) -> None:
        super().__init__(conditions, engine, fault_free, batch)
        self.aged: list[_Cells] = []

    @override
    def record(
        self,
        instances: Integers,
        moment: Floats,
        new_faults: NewFaults,
        first: FaultMapReplays,
        last: FaultMapReplays,
    ) -> None:
        super().record(instances, moment, new_faults, first, last)
        if not len(new_faults.places):
            return
        cells, faulty = new_faults.cells, new_faults.are_faulty_at(moment)
        since = new_faults.first_moments()
        weak_value = self._weak_values(new_faults, since)
        since = np.minimum(since, moment[cells.instance])  # bisection found it from above
        self.aged.append(
            _Cells(
                owner=instances[cells.instance[faulty]],
                cell=cells.cell[faulty].astype(np.int64),
                years=since[faulty] / SECONDS_PER_YEAR,
                weak_value=weak_value[faulty],
            )
        )

    def _weak_values(self, new_faults: NewFaults, since: Floats) -> NDArray[np.int8]:
        """Values that the cells lose, by the moments from which they are faulty: int8[m]."""
        if self.conditions.margins is not None and self.batch.limits is not None:
            return self.conditions.margins.weak_values(self.batch.limits.limit[new_faults.places])
        shifts = new_faults.degradation.of_cells(since)
        vmin = aged_vmin(new_faults.vmin_volts, shifts, new_faults.failure.vmin_coefficient)
        # Rows are of T0, T1, N0 and N1, which '0' and '1' stress in turn.
        weak_values: NDArray[np.int8] = (vmin.argmax(axis=0) % VALUES).astype(np.int8)
        return weak_values
