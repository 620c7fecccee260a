"""Tracked cells: those whose stress times are kept cell by cell, and how far they have shifted."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcage.aging.additive_shift import AdditiveShift
from mcage.aging.vmin import CellFailure

BINS_PER_VOLT = 1e3
"""Shifts are counted in bins of a millivolt."""

SAMPLED_TOGETHER = 16
"""Instances whose sampled cells are aged together, so that their times stay in the cache."""


@dataclass(frozen=True, eq=False)
class TrackedCells:
    """Cells of the instances of a batch: first those of the tail, last the sampled ones.

    Attributes
    ----------
    instance : int64[n]
        Position of the cell's instance in the batch.
    cell : int64[n]
        Number of the cell in its slice, ``2048 * entry + bit``.
    vmin_volts : float64[2, tail]
        Vmin of the first cells, those that may become faulty, from which the shifts of T0 and T1
        start (see `CellFailure.are_faulty`). The cells of an instance stand in rising order, after
        those of the instances before.
    sampled : int
        Number of sampled cells of each instance: the last of the cells, instance by instance.
    scores : float64[k, tail], optional
        Scores of the transistors of the first cells (see `CellFailure.are_faulty`).
    """

    instance: NDArray[np.int64]
    cell: NDArray[np.int64]
    vmin_volts: NDArray[np.float64] = field(default_factory=lambda: np.empty((2, 0)))
    sampled: int = 0
    scores: NDArray[np.float64] | None = None

    @property
    def tail(self) -> int:
        """Number of the cells that may become faulty."""
        return len(self.vmin_volts[0])

    def scores_of(self, places: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Scores of selected cells of the tail."""
        return None if self.scores is None else self.scores[:, places]


@dataclass(frozen=True, eq=False)
class CellSeconds:
    """Seconds at '0' and at '1' of n cells at both ends of the latest epochs of their instances.

    Attributes
    ----------
    before, after : float64[2, n]
        Seconds at the start and at the end, if slices were always busy.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def at(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds when a part of each epoch has passed: float64[n] to float64[2, n]."""
        return between(self.before, self.after, part)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "CellSeconds":
        """Seconds of selected cells."""
        return CellSeconds(self.before[:, which], self.after[:, which])


@dataclass(frozen=True, eq=False)
class Moments:
    """A moment within the latest epoch of each of n instances.

    Attributes
    ----------
    part : float64[n]
        Part of the epoch that has passed, 0 ... 1.
    age : float64[n]
        Age of the instance in seconds.
    """

    part: NDArray[np.float64]
    age: NDArray[np.float64]


def between(
    before: NDArray[np.float64], after: NDArray[np.float64], part: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Times of cells when a part of a span has passed, from those at its start and its end."""
    return before + (after - before) * part


class TrackedSeconds:
    """Seconds at '0' and at '1' of tracked cells, at both ends of the latest epochs.

    This is the reference. What it says of a cell depends on no other cell.

    Parameters
    ----------
    tracked : TrackedCells
        The cells.
    instances : int
        Size of the batch.
    """

    def __init__(self, tracked: TrackedCells, instances: int) -> None:
        self._tracked, self._instances = tracked, instances
        self._before = np.zeros((2, len(tracked.cell)))
        self._now = np.zeros((2, len(tracked.cell)))
        self._sound = np.ones(tracked.tail, dtype=bool)

    @property
    def now(self) -> NDArray[np.float64]:
        """Seconds at the end of the latest epochs: float64[2, n]."""
        return self._now

    def begin_epoch(self, instances: NDArray[np.int64]) -> None:
        """Let an epoch begin for selected instances: what is, is then what was before."""
        of_cells = self._among(instances)[self._tracked.instance]
        np.copyto(self._before, self._now, where=of_cells)

    def of(self, places: NDArray[np.int64]) -> CellSeconds:
        """Seconds of selected cells."""
        return CellSeconds(self._before[:, places], self._now[:, places])

    def failing(
        self,
        instances: NDArray[np.int64],
        age: NDArray[np.float64],
        shift: AdditiveShift,
        failure: CellFailure,
    ) -> tuple[NDArray[np.int64], CellSeconds]:
        """Sound cells of the tail that fail at the end of the latest epochs of n instances.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch, in rising order.
        age : float64[n]
            Their ages at these ends, in seconds.
        shift : AdditiveShift
            How the transistors of all instances of the batch shift.
        failure : CellFailure
            When cells of all instances of the batch fail.

        Returns
        -------
        int64[m], CellSeconds
            Places of the cells, in rising order, and their seconds.
        """
        tail = len(self._sound)
        looked_at = self._among(instances)[self._tracked.instance[:tail]] & self._sound
        places = np.flatnonzero(looked_at)
        instance, seconds = self._tracked.instance[places], self.of(places)
        ages = np.zeros(self._instances)
        ages[instances] = age
        shifts = shift.of(instance).of_cells(seconds.at(np.ones(len(places))), ages[instance])
        fails = failure.of(instance).are_faulty(
            self._tracked.vmin_volts[:, places], shifts, self._tracked.scores_of(places)
        )
        return places[fails], seconds.of(fails)

    def mark_faulty(self, places: NDArray[np.int64]) -> None:
        """Mark cells of the tail that are faulty from now on."""
        self._sound[places] = False

    def sampled_dvth(
        self, instances: NDArray[np.int64], moments: Moments, shift: AdditiveShift
    ) -> NDArray[np.float64]:
        """Shifts of the sampled cells of n instances at a moment of each: float64[2, n, sampled].

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        moments : Moments
            The moments.
        shift : AdditiveShift
            How the transistors of all instances of the batch shift.
        """
        sampled = self._tracked.sampled
        shape = (2, self._instances, sampled)
        first = len(self._tracked.cell) - self._instances * sampled
        before, now = (seconds[:, first:].reshape(shape) for seconds in (self._before, self._now))
        dvth = np.empty((2, len(instances), sampled))
        for begin in range(0, len(instances), SAMPLED_TOGETHER):
            chunk = slice(begin, begin + SAMPLED_TOGETHER)
            which = instances[chunk]
            seconds = between(before[:, which], now[:, which], moments.part[chunk, None])
            dvth[:, chunk] = shift.of(which).dvth(seconds, moments.age[chunk, None])
        return dvth

    def histogram(
        self, instances: NDArray[np.int64], moments: Moments, shift: AdditiveShift, bins: int
    ) -> NDArray[np.int64]:
        """Sampled cells per shift, as `dvth_histogram` counts; arguments as of `sampled_dvth`."""
        return dvth_histogram(self.sampled_dvth(instances, moments, shift), bins)

    def _among(self, instances: NDArray[np.int64]) -> NDArray[np.bool_]:
        among = np.zeros(self._instances, dtype=bool)
        among[instances] = True
        return among


def dvth_histogram(dvth_volts: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Transistors in each bin of a millivolt.

    Parameters
    ----------
    dvth_volts : float64[2, ...]
        Threshold shifts of T0 and T1 of cells.
    bins : int
        Number of bins.

    Returns
    -------
    int64[2, bins]
        A shift on a border counts above it, and a shift beyond the last border in the last bin.
    """
    number = np.minimum(BINS_PER_VOLT * dvth_volts, bins - 1).astype(np.int64)
    return np.stack([np.bincount(of_kind.ravel(), minlength=bins) for of_kind in number])
