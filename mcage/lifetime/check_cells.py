"""Check cells: how those of a batch shift, whose words have a code, beside the cells of data.

The check cells of a slice are taken to be a slice by themselves, with the same windows at the same
places, in which writes store check bits (`mcage.replays.stored_values.check_bits_of`). Faults are
looked for in both. The delay of a slice is that of its data cells: a check bit is a sum of data
bits, and the most stressed data cell of a slice holds the same value nearly all the time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from mcage.aging.vmin import CellFailure
from mcage.engines import stress
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.lifetime.degradation import CellDegradation, Degradation


@dataclass(frozen=True, eq=False)
class CellsOfBoth(CellDegradation):
    """Degradation of n cells of data and of check bits.

    Attributes
    ----------
    data, check : CellDegradation
        Those of either kind, in their order.
    is_check : bool[n]
        Of which kind each cell is.
    """

    data: CellDegradation
    check: CellDegradation
    is_check: Booleans

    @override
    def dvth(self, moment: Floats) -> Floats:
        return self._of_both(self.data.dvth, self.check.dvth, moment)

    @override
    def of_cells(self, moment: Floats) -> Floats:
        return self._of_both(self.data.of_cells, self.check.of_cells, moment)

    def _of_both(
        self,
        of_data: Callable[[Floats], Floats],
        of_check: Callable[[Floats], Floats],
        moment: Floats,
    ) -> Floats:
        data, check = of_data(moment[~self.is_check]), of_check(moment[self.is_check])
        result = np.empty((len(data), len(self.is_check)))
        result[:, ~self.is_check], result[:, self.is_check] = data, check
        return result

    @override
    def are_faulty(
        self, failure: CellFailure, vmin_volts: Floats, moment: Floats, scores: Floats | None = None
    ) -> Booleans:
        faulty = np.empty(len(self.is_check), dtype=np.bool_)
        for cells, which in ((self.data, ~self.is_check), (self.check, self.is_check)):
            of_cells = None if scores is None else scores[:, which]
            faulty[which] = cells.are_faulty(
                failure.of(which), vmin_volts[:, which], moment[which], of_cells
            )
        return faulty

    @override
    def of(self, which: Integers | Booleans) -> "CellsOfBoth":
        place = np.where(self.is_check, np.cumsum(self.is_check), np.cumsum(~self.is_check)) - 1
        chosen, is_check = place[which], self.is_check[which]
        return CellsOfBoth(
            self.data.of(chosen[~is_check]), self.check.of(chosen[is_check]), is_check
        )


class DegradationOfBoth(Degradation):
    """Degradation of a batch whose words have a code.

    Parameters
    ----------
    make : callable
        Makes the degradation of cells of either kind, given whether they are check cells, and which
        cells are tracked.
    tracked : TrackedCells
        The cells of the tail, of either kind, and the sampled ones, which are cells of data.
    cells : int
        Data cells of a slice: check cells have numbers from here on.
    instances : int
        Size of the batch.
    """

    def __init__(
        self,
        make: Callable[[bool, stress.TrackedCells], Degradation],
        tracked: stress.TrackedCells,
        cells: int,
        instances: int,
    ) -> None:
        super().__init__(instances)
        tail = tracked.tail
        is_check = tracked.cell >= cells
        self._is_check = is_check[:tail]
        self._places = np.flatnonzero(~self._is_check), np.flatnonzero(self._is_check)
        of_data, of_check = (
            stress.TrackedCells(
                tracked.instance[which],
                tracked.cell[which] % cells,
                tracked.vmin_volts[:, places],
                sampled,
                tracked.scores_of(places),
            )
            for which, places, sampled in (
                (~is_check, self._places[0], tracked.sampled),
                (is_check, self._places[1], 0),
            )
        )
        self._data, self._check = make(False, of_data), make(True, of_check)
        self._check.stay_below(np.arange(instances), np.full(instances, np.inf), 0.0)
        self.span = self._data.span

    @override
    def add(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, start: float, end: float
    ) -> None:
        for part in (self._data, self._check):
            part.add(instances, turns, fault_maps, start, end)

    @override
    def longest_duty(self, instances: Integers, moment: Floats) -> Floats:
        return self._data.longest_duty(instances, moment)

    @override
    def failing(self, instances: Integers, failure: CellFailure) -> tuple[Integers, CellsOfBoth]:
        data, of_data = self._data.failing(instances, failure)
        check, of_check = self._check.failing(instances, failure)
        places = np.sort(np.concatenate([self._places[0][data], self._places[1][check]]))
        return places, CellsOfBoth(of_data, of_check, self._is_check[places])

    @override
    def mark_faulty(self, places: Integers) -> None:
        parts = zip((self._data, self._check), self._places, strict=True)
        for number, (part, of_part) in enumerate(parts):
            within = places[self._is_check[places] == bool(number)]
            part.mark_faulty(np.searchsorted(of_part, within))

    @override
    def sampled_dvth(self, instances: Integers, moment: Floats) -> Floats:
        return self._data.sampled_dvth(instances, moment)

    @override
    def histogram(self, instances: Integers, moment: Floats, bins: int) -> Integers:
        return self._data.histogram(instances, moment, bins)

    @override
    def _look_for_worst(self, instances: Integers, moment: Floats) -> Floats:
        return self._data.worst_dvth(instances, moment)

    @override
    def exceeds(self, instances: Integers, limit_volts: Floats) -> Booleans:
        return self._data.exceeds(instances, limit_volts)

    @override
    def stay_below(self, instances: Integers, limit_volts: Floats, age: float) -> bool:
        return self._data.stay_below(instances, limit_volts, age)

    @override
    def reaching(self, instances: Integers, limit_volts: Floats) -> Floats:
        return self._data.reaching(instances, limit_volts)
