"""Stress times: how long each cell of a batch of instances has held '0' and '1' so far.

Two kinds of cells count: the most stressed one of each instance, and tracked cells, whose times are
kept cell by cell.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.transistors import AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.compiled import compiled
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.replays.most_stressed import DutyCycles, longest_total
from mcage.replays.prepare import PreparedReplay

# Turns: which kernels a slice runs in an epoch, and for which part of it.


@dataclass(frozen=True, eq=False)
class Turns:
    """Kernels that take turns in an epoch of each of n instances.

    Turns are long against a pass of a trace, and short against an epoch, so that all of them run on
    the fault map of the epoch, and stress times grow evenly.

    Attributes
    ----------
    kernel : int64[n, turns]
        Numbers of the kernels of each instance, in rising order.
    weight : float64[n, turns]
        Share of each in the busy time; those of an instance sum to 1.
    """

    kernel: Integers
    weight: Floats

    @classmethod
    def single(cls, kernel: Integers) -> "Turns":
        """Turns of instances that run one kernel each: int64[n]."""
        return cls(kernel[:, None], np.ones((len(kernel), 1)))

    def of(self, which: Integers | Booleans) -> "Turns":
        """Turns of selected instances."""
        return Turns(self.kernel[which], self.weight[which])

    def with_turns(self, which: Integers, turns: "Turns") -> "Turns":
        """These turns, with those of selected instances, int64[m], replaced by no fewer of each."""
        if len(which) == len(self.kernel):
            return turns
        kernel, weight = self.kernel.copy(), self.weight.copy()
        if len(turns) > len(self):
            more = (0, 0), (0, len(turns) - len(self))
            kernel, weight = np.pad(kernel, more, mode="edge"), np.pad(weight, more)
        kernel[which], weight[which] = turns.kernel, turns.weight
        return Turns(kernel, weight)

    def one_by_one(self) -> Iterator[tuple[Integers, Floats]]:
        """Turn after turn: the kernel of each instance, int64[n], and its share, float64[n]."""
        return zip(self.kernel.T, self.weight.T, strict=True)

    def __len__(self) -> int:
        return int(self.kernel.shape[1])


class TurnsByEpoch(tuple[Turns, ...]):
    """Turns of the same instances in each epoch of their lives, equally many in all of them."""

    @classmethod
    def of(cls, turns: Iterable[Turns]) -> Self:
        """The same turns, which may be of this kind already."""
        return turns if isinstance(turns, cls) else cls(turns)

    @cached_property
    def kernel(self) -> Integers:
        """Kernels: int64[n, epochs, turns]."""
        return np.stack([of_epoch.kernel for of_epoch in self], axis=1)

    @cached_property
    def weight(self) -> Floats:
        """Share of each in the busy time: float64[n, epochs, turns]."""
        return np.stack([of_epoch.weight for of_epoch in self], axis=1)


# Tracked cells: those whose stress times are kept cell by cell, and how far they have shifted.

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

    instance: Integers
    cell: Integers
    vmin_volts: Floats = field(default_factory=lambda: np.empty((2, 0)))
    sampled: int = 0
    scores: Floats | None = None

    @property
    def tail(self) -> int:
        """Number of the cells that may become faulty."""
        return len(self.vmin_volts[0])

    def scores_of(self, places: Integers) -> Floats | None:
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

    before: Floats
    after: Floats

    def at(self, part: Floats) -> Floats:
        """Seconds when a part of each epoch has passed: float64[n] to float64[2, n]."""
        return between(self.before, self.after, part)

    def of(self, which: Integers | Booleans) -> "CellSeconds":
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

    part: Floats
    age: Floats


def between(before: Floats, after: Floats, part: float | Floats) -> Floats:
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
    def now(self) -> Floats:
        """Seconds at the end of the latest epochs: float64[2, n]."""
        return self._now

    def begin_epoch(self, instances: Integers) -> None:
        """Let an epoch begin for selected instances: what is, is then what was before."""
        of_cells = self._among(instances)[self._tracked.instance]
        np.copyto(self._before, self._now, where=of_cells)

    def of(self, places: Integers) -> CellSeconds:
        """Seconds of selected cells."""
        return CellSeconds(self._before[:, places], self._now[:, places])

    def failing(
        self, instances: Integers, age: Floats, shift: AdditiveShift, failure: CellFailure
    ) -> tuple[Integers, CellSeconds]:
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

    def mark_faulty(self, places: Integers) -> None:
        """Mark cells of the tail that are faulty from now on."""
        self._sound[places] = False

    def sampled_dvth(self, instances: Integers, moments: Moments, shift: AdditiveShift) -> Floats:
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
        self, instances: Integers, moments: Moments, shift: AdditiveShift, bins: int
    ) -> Integers:
        """Sampled cells per shift, as `dvth_histogram` counts; arguments as of `sampled_dvth`."""
        return dvth_histogram(self.sampled_dvth(instances, moments, shift), bins)

    def _among(self, instances: Integers) -> Booleans:
        among = np.zeros(self._instances, dtype=bool)
        among[instances] = True
        return among


def dvth_histogram(dvth_volts: Floats, bins: int) -> Integers:
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


SliceTimes = tuple[NDArray[np.integer], NDArray[np.integer], int]
"""Cycles of every cell of a slice, at '1' and powered, [entries, cells of an entry] each; cycles of
the replay."""


@dataclass(frozen=True, eq=False)
class FaultFreeDuties:
    """A technique on every kernel of a sweep, and its duty cycles on a slice without faults.

    Attributes
    ----------
    replays : tuple of PreparedReplay
        The technique on each kernel.
    at_zero, at_one : DutyCycles
        Fraction of the time for which each cell holds '0' and '1'.
    """

    replays: tuple[PreparedReplay, ...]
    at_zero: DutyCycles
    at_one: DutyCycles


def by_kernel(kernel: Integers) -> Iterator[tuple[int, Booleans]]:
    """Each kernel that occurs in int64[m], with bool[m]: who runs it."""
    for number in np.flatnonzero(np.bincount(kernel)).tolist():
        yield number, kernel == number


@compiled
def _add_turn(
    kernel_of: Integers,
    seconds_of: Floats,
    instance: Integers,
    cell: Integers,
    zeros: NDArray[np.integer],
    ones: NDArray[np.integer],
    period: Integers,
    now: Floats,
) -> None:
    """Add the turn of each instance to tracked cells, float64[2, n]; kernel -1: it has none."""
    for place in range(len(instance)):
        owner = instance[place]
        kernel, seconds = kernel_of[owner], seconds_of[owner]
        if kernel >= 0:
            cycles = np.float64(period[kernel])
            now[0, place] += seconds * (np.float64(zeros[kernel, cell[place]]) / cycles)
            now[1, place] += seconds * (np.float64(ones[kernel, cell[place]]) / cycles)


class StressAccumulator(ABC):
    """Seconds at '0' and at '1' of the cells of a batch of instances.

    Each engine keeps the times of instances with faults in another way. What it tells of them is
    the same to the last bit, for the terms of a cell's sum are the same and added in this order:
    the mixture, kernel by kernel, then epoch by epoch, turn by turn.

    Parameters
    ----------
    duties : FaultFreeDuties
        The technique on each kernel.
    tracked : TrackedCells
        Cells whose times are kept for each cell.
    instances : int
        Size of the batch.
    """

    def __init__(self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int) -> None:
        self._duties = duties
        self._tracked = tracked
        self._mixture = np.zeros((instances, len(duties.replays)))
        self._has_separate_times = np.zeros(instances, dtype=bool)
        self.tracked_seconds = self._new_tracked_seconds()
        """Seconds at '0' and at '1' of the tracked cells."""
        self.longest = np.zeros((2, instances))
        """Longest seconds at '0' and at '1' among all cells of each instance."""
        self.knows_longest = True
        """Whether anybody asks for them, now or within an epoch; an engine may leave them out."""

    def add(self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: float) -> None:
        """Let each of the instances live through an epoch.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        turns : Turns
            What each runs.
        fault_maps : uint8[m, entries]
            Fault map of each meanwhile.
        seconds : float
            Length of the epoch.
        """
        self.tracked_seconds.begin_epoch(instances)
        alone = self._are_alone(instances, fault_maps)
        beginning = instances[alone & ~self._has_separate_times[instances]]
        if len(beginning):
            self._begin(beginning)
            self._has_separate_times[beginning] = True
        if alone.any():
            self._run_each(instances[alone], turns.of(alone), fault_maps[alone], seconds)
        if not alone.all():
            self._add_to_mixtures(instances[~alone], turns.of(~alone), seconds)

    def _are_alone(self, instances: Integers, fault_maps: Bytes) -> Booleans:
        """Which instances do not live as fault-free ones do, or have not: bool[m]."""
        heeds_faults = self._duties.replays[0].technique.heeds_faults
        return heeds_faults & (fault_maps.any(axis=1) | self._has_separate_times[instances])

    def _add_to_mixtures(self, instances: Integers, turns: Turns, seconds: float) -> None:
        for kernel, weight in turns.one_by_one():
            self._mixture[instances, kernel] += seconds * weight
            self._track_mixtures(instances, kernel, seconds * weight)
        self.longest[:, instances] = self._longest_of_mixtures(self._mixture[instances])

    def _track_mixtures(self, instances: Integers, kernel: Integers, seconds: Floats) -> None:
        """Add a turn to `tracked_seconds` of instances without separate times: [m] each."""
        count, duties, tracked = len(self._has_separate_times), self._duties, self._tracked
        kernel_of, seconds_of = np.full(count, -1, dtype=np.int64), np.zeros(count)
        kernel_of[instances], seconds_of[instances] = kernel, seconds
        cycles = duties.at_zero.cycles, duties.at_one.cycles, duties.at_zero.period
        now = self.tracked_seconds.now
        _add_turn(kernel_of, seconds_of, tracked.instance, tracked.cell, *cycles, now)

    def longest_earlier(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        """Longest seconds at '0' and at '1' of any cell so many seconds before: float64[2, m].

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        turns, fault_maps : Turns, uint8[m, entries]
            What each ran last, and on which map.
        seconds : float64[m]
            Seconds to be taken back, fewer than it ran.
        """
        longest = np.empty((2, len(instances)))
        separate = self._has_separate_times[instances]
        fault_free, alone = np.flatnonzero(~separate), np.flatnonzero(separate)
        if len(fault_free):
            mixtures, everyone = self._mixture[instances[fault_free]], np.arange(len(fault_free))
            for kernel, weight in turns.of(fault_free).one_by_one():
                mixtures[everyone, kernel] -= seconds[fault_free] * weight
            longest[:, fault_free] = self._longest_of_mixtures(mixtures)
        if len(alone):
            longest[:, alone] = self._separate_longest_earlier(
                instances[alone], turns.of(alone), fault_maps[alone], seconds[alone]
            )
        return longest

    def _longest_of_mixtures(self, mixtures: Floats) -> Floats:
        """Longest seconds at '0' and at '1' of any cell: float64[m, kernels] to float64[2, m]."""
        duties = (self._duties.at_zero, self._duties.at_one)
        return np.stack([longest_total(mixtures, of_cells.skyline) for of_cells in duties])

    def _new_tracked_seconds(self) -> TrackedSeconds:
        return TrackedSeconds(self._tracked, len(self._has_separate_times))

    @abstractmethod
    def _begin(self, instances: Integers) -> None:
        """Give instances separate times: so far, those of their mixtures.

        Brings `tracked_seconds` in line with these.
        """

    def _run_each(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        """Add an epoch to instances that have separate times; arguments as of `add`.

        Brings `longest` and `tracked_seconds` up to date.
        """
        raise NotImplementedError

    def _separate_longest_earlier(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        """`longest_earlier` of instances that have separate times.

        To the last bit the largest of what is left of a cell's seconds when the cycles of its last
        epoch, times seconds x weight / period, are taken from them turn by turn; 0 at least.
        """
        raise NotImplementedError

    def _tracked_of(self, instances: Integers) -> Integers:
        """Positions of the tracked cells of instances."""
        chosen = np.zeros(len(self._has_separate_times), dtype=bool)
        chosen[instances] = True
        return np.flatnonzero(chosen[self._tracked.instance])


class DenseStress(StressAccumulator):
    """Two sums for each of the cells of an instance: simple, and 8 MB of 524,288.

    `_times` says what an epoch adds to them.
    """

    def __init__(self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int) -> None:
        super().__init__(duties, tracked, instances)
        # Pages that are never touched take no memory.
        self._seconds = np.zeros((2, instances, duties.at_zero.cycles.shape[1]))

    def _begin(self, instances: Integers) -> None:
        duties = (self._duties.at_zero, self._duties.at_one)
        for instance in instances:
            for seconds, duty in zip(self._seconds, duties, strict=True):
                for kernel in np.flatnonzero(self._mixture[instance]).tolist():
                    seconds[instance] += self._mixture[instance, kernel] * duty.of_kernel(kernel)
        self._read_tracked(instances)

    def _run_each(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        for place, instance in enumerate(instances):
            of_turns = zip(turns.kernel[place], turns.weight[place], strict=True)
            for turn, (kernel, weight) in enumerate(of_turns):
                replay = self._duties.replays[kernel]
                ones, powered, period = self._times(replay, fault_maps[place], int(instance), turn)
                scale = seconds * weight / period
                self._seconds[0, instance] += (powered - ones).ravel() * scale
                self._seconds[1, instance] += ones.ravel() * scale
        self.longest[:, instances] = self._seconds[:, instances].max(axis=2)
        self._read_tracked(instances)

    def _separate_longest_earlier(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        longest = np.zeros((2, len(instances)))
        for place, instance in enumerate(instances):
            earlier = self._seconds[:, instance].copy()
            of_turns = zip(turns.kernel[place], turns.weight[place], strict=True)
            for turn, (kernel, weight) in enumerate(of_turns):
                replay = self._duties.replays[kernel]
                ones, powered, period = self._times(replay, fault_maps[place], int(instance), turn)
                back = seconds[place] * weight / period
                for left, cycles in zip(earlier, (powered - ones, ones), strict=True):
                    left -= cycles.ravel() * back
            longest[:, place] = np.maximum(0.0, earlier.max(axis=1))
        return longest

    @abstractmethod
    def _times(
        self, replay: PreparedReplay, fault_map: Bytes, instance: int, turn: int
    ) -> SliceTimes:
        """Times of an instance in a turn of its epoch, with a fault map uint8[entries]."""

    def _read_tracked(self, instances: Integers) -> None:
        tracked = self._tracked_of(instances)
        instance, cell = self._tracked.instance[tracked], self._tracked.cell[tracked]
        self.tracked_seconds.now[:, tracked] = self._seconds[:, instance, cell]
