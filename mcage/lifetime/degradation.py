"""How far the transistors of a batch have shifted: by sums of stress times, or epoch by epoch."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.nbti import NbtiModel, Rates, with_constants
from mcage.aging.sampling import Columns
from mcage.aging.transistors import AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.engines import stress
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.programs import Learnt
from mcage.errors import UserError
from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.most_stressed import BLOCK, DutyCycles
from mcage.replays.outcome import CellTimes

# Bisection: where increasing functions reach zero, and so when degradation reaches its limits.

Function = Callable[[Floats], Floats]


def crossing(function: Function, lower: Floats, upper: Floats) -> Floats:
    """Return where increasing functions reach zero, each to a relative 1e-12.

    Parameters
    ----------
    function : callable
        From n places to the values of n functions there. Each function is at most zero at its
        ``lower``, at least zero at its ``upper``, and negative up to a single place in between.
    lower, upper : float64[n]
        Ends of the intervals, 0 <= ``lower`` <= ``upper``.

    Returns
    -------
    float64[n]
        Places at which the functions are zero or just above.

    Raises
    ------
    ValueError
        If a function does not reach zero between the ends.

    Notes
    -----
    Plain bisection, each function by itself: the answer is the same on all machines that evaluate
    the function alike, and does not depend on the functions that are solved together with it.
    """
    at_lower, at_upper = function(lower), function(upper)
    reached = (at_lower <= 0) & (at_upper >= 0)
    if not reached.all():
        failed = np.argmin(reached)
        raise ValueError(
            f"no crossing between {lower[failed]} and {upper[failed]}: "
            f"the function goes from {at_lower[failed]} to {at_upper[failed]}"
        )
    upper = np.where(at_lower == 0, lower, upper)
    while (wide := upper - lower > np.maximum(1e-12 * upper, sys.float_info.min)).any():
        middle = 0.5 * (lower + upper)
        below = function(middle) < 0
        lower, upper = np.where(wide & below, middle, lower), np.where(wide & ~below, middle, upper)
    return upper


# Degradation: how far the transistors of a batch of instances have shifted, epoch by epoch.
#
# There are two kinds. Where an NBTI model needs no more than the total stress time,
# `AdditiveDegradation` keeps that time; otherwise `StepwiseDegradation` keeps what happened in
# each epoch, and advances transistors through all of them.


@dataclass(frozen=True)
class EpochSpan:
    """An epoch of n instances, or a part of one: from ``start`` to ``end``, float64[n] seconds.

    Kernel, fault map and environment of an instance stay the same, so that its cells age evenly.
    """

    start: Floats
    end: Floats

    def part(self, moment: Floats) -> Floats:
        """Part of each span that has passed at a moment of each: float64[n]."""
        return (moment - self.start) / (self.end - self.start)

    def of(self, which: Integers | Booleans) -> "EpochSpan":
        """Spans of selected instances."""
        return EpochSpan(self.start[which], self.end[which])


class CellDegradation(ABC):
    """Shifts of n cells within the latest epochs of their instances."""

    @abstractmethod
    def dvth(self, moment: Floats) -> Floats:
        """Shifts of T0 and T1 in volts at a moment of each cell: float64[n] to float64[2, n]."""

    @abstractmethod
    def of_cells(self, moment: Floats) -> Floats:
        """Shifts of all transistors that age, N0 and N1 last: float64[2, n] or float64[4, n]."""

    def are_faulty(
        self, failure: CellFailure, vmin_volts: Floats, moment: Floats, scores: Floats | None = None
    ) -> Booleans:
        """Whether the cells fail at a moment of each: float64[n] to bool[n].

        Parameters
        ----------
        failure : CellFailure
            When each of the cells fails.
        vmin_volts, scores
            As of `CellFailure.are_faulty`.
        moment : float64[n]
            The moments.
        """
        return failure.are_faulty(vmin_volts, self.of_cells(moment), scores)

    @abstractmethod
    def of(self, which: Integers | Booleans) -> Self:
        """Shifts of selected cells."""


class Degradation(ABC):
    """Degradation of a batch of instances; moments lie within the latest epoch of each.

    Parameters
    ----------
    instances : int
        Size of the batch.

    Attributes
    ----------
    span : EpochSpan
        The latest epoch of each instance.
    """

    def __init__(self, instances: int) -> None:
        self.span = EpochSpan(np.zeros(instances), np.zeros(instances))
        # The worst shifts, and the moments at which they were last looked for.
        self._worst, self._worst_at = np.zeros((2, instances)), np.full(instances, np.nan)

    @abstractmethod
    def add(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, start: float, end: float
    ) -> None:
        """Let selected instances live through an epoch, in which kernels take turns.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        turns : Turns
            What each runs.
        fault_maps : uint8[m, 256]
            Fault map of each meanwhile.
        start, end : float
            Age in seconds at both ends of the epoch. The first epoch starts at 0, and each of the
            others where the epoch before has ended.
        """

    @abstractmethod
    def longest_duty(self, instances: Integers, moment: Floats) -> Floats:
        """Longest duty cycles of the life so far, at '0' and at '1': float64[2, n]."""

    @abstractmethod
    def failing(
        self, instances: Integers, failure: CellFailure
    ) -> tuple[Integers, CellDegradation]:
        """Sound cells of the tail that fail at the end of the latest epochs of instances.

        A cell that is fault-free at both ends of an epoch is so throughout (docs/aging.md).

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch, in rising order.
        failure : CellFailure
            When cells of all instances of the batch fail.

        Returns
        -------
        int64[m], CellDegradation
            Places of the cells in the tail, in rising order, and their shifts.
        """

    @abstractmethod
    def mark_faulty(self, places: Integers) -> None:
        """Mark cells of the tail that are faulty from now on."""

    @abstractmethod
    def sampled_dvth(self, instances: Integers, moment: Floats) -> Floats:
        """Shifts of the sampled cells of n instances at a moment of each: float64[2, n, sample]."""

    def histogram(self, instances: Integers, moment: Floats, bins: int) -> Integers:
        """Sampled cells per shift, as `dvth_histogram` counts: int64[2, bins]."""
        return stress.dvth_histogram(self.sampled_dvth(instances, moment), bins)

    def worst_dvth(self, instances: Integers, moment: Floats) -> Floats:
        """Shifts of the worst T0 and T1 of n instances at a moment of each: float64[2, n]."""
        unknown = moment != self._worst_at[instances]
        sought, when = instances[unknown], moment[unknown]
        if len(sought):
            self._worst[:, sought] = self._look_for_worst(sought, when)
            self._worst_at[sought] = when
        return self._worst[:, instances]

    @abstractmethod
    def _look_for_worst(self, instances: Integers, moment: Floats) -> Floats:
        """`worst_dvth` where it is not known."""

    def exceeds(self, instances: Integers, limit_volts: Floats) -> Booleans:
        """Whether the worst transistors have reached a limit at the end of the epoch: bool[n].

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        limit_volts : float64[n], or a number for all
            Shift at which each reaches its limit.
        """
        worst = self.worst_dvth(instances, self.span.end[instances])
        beyond: Booleans = worst.max(axis=0) - limit_volts >= 0
        return beyond

    def stay_below(self, instances: Integers, limit_volts: Floats, age: float) -> bool:
        """Whether no transistor reaches a limit by an age in seconds, even if always under stress.

        Then the worst transistors are not looked for in epochs to come.
        """
        return False

    @abstractmethod
    def reaching(self, instances: Integers, limit_volts: Floats) -> Floats:
        """Moments at which the worst transistors reach their limits: float64[n].

        At the end of the epoch, all of them exceed the limits.
        """


# The history of transistors: what each epoch does to those of a batch of instances.

TOGETHER = 1 << 13
"""Transistors that are advanced together, so that their states stay in the cache."""

DutyIn = Callable[[int, slice], Floats]
"""From an epoch and a slice of m transistors to their duty cycles while the slice is busy."""


@dataclass(frozen=True, eq=False)
class History:
    """Stress of the transistors of n instances by the epochs.

    Parameters
    ----------
    nbti : NbtiModel
        Model of the threshold shift.
    rates : tuple of Rates
        What a second does in each epoch; arrays [n], or a number for all.
    edges : tuple of float
        Ages in seconds at which epochs begin and end, from 0 to the horizon.
    activity : array
        Fraction of the time in which cells hold what is replayed: float64[n], or a number for all;
        the rest of it they are off.
    of_model : mapping
        Constants of the model that differ, by name: float64[n] each.
    pull_downs : History, optional
        What they do to the pull-down transistors; by default nothing.
    """

    nbti: NbtiModel
    rates: tuple[Rates, ...]
    edges: tuple[float, ...]
    activity: Floats
    of_model: Columns = field(default_factory=dict)
    pull_downs: "History | None" = None

    def model_of(self, instance: Integers) -> NbtiModel:
        """The model of transistors, by the instance of each."""
        of_model = {name: values[instance] for name, values in self.of_model.items()}
        return with_constants(self.nbti, of_model)

    def advance(
        self, state: Floats, epoch: int, instance: Integers, duty: Floats, seconds: float | Floats
    ) -> Floats:
        """States of transistors after a number of seconds of an epoch.

        Parameters
        ----------
        state : float64[state_size, ..., m]
            Their states before.
        epoch : int
            The epoch.
        instance : int64[m]
            Instance of each transistor.
        duty : float64[..., m]
            Fraction of the busy time of the epoch under stress.
        seconds : float or float64[m]
            Seconds of the epoch that pass.
        """
        rates, activity = self.rates[epoch], self.activity
        if rates.stress.ndim or rates.diffusion.ndim:
            rates = Rates(_of(rates.stress, instance), _of(rates.diffusion, instance))
        if activity.ndim or float(activity) != 1.0:
            duty = duty * _of(activity, instance)
        return self.model_of(instance).advance(state, rates, duty, seconds)

    def dvth(self, epochs: int, instance: Integers, duty: DutyIn, moment: Floats) -> Floats:
        """Shifts in volts of transistors that are advanced from new through the first epochs.

        Parameters
        ----------
        epochs : int
            Number of epochs.
        instance : int64[m]
            Instance of each transistor.
        duty : callable
            Duty cycles of the m transistors in an epoch: `DutyIn`.
        moment : float64[instances]
            Age of each instance, within the last of the epochs.
        """
        shift = np.empty(len(instance))
        for first in range(0, len(instance), TOGETHER):
            chunk = slice(first, first + TOGETHER)
            owner = instance[chunk]
            state = self.nbti.initial_state(owner.shape)
            for epoch in range(epochs):
                seconds = self._seconds(epoch, epochs, moment[owner])
                state = self.advance(state, epoch, owner, duty(epoch, chunk), seconds)
            shift[chunk] = self.model_of(owner).dvth_of(state)
        return shift

    def life_duty(self, epochs: int, instance: Integers, duty: DutyIn, moment: Floats) -> Floats:
        """Duty cycles of transistors over their lives; arguments as of `dvth`."""
        held = np.zeros(len(instance))
        for epoch in range(epochs):
            held += duty(epoch, slice(None)) * self._seconds(epoch, epochs, moment[instance])
        return _of(self.activity, instance) * (held / moment[instance])

    def _seconds(self, epoch: int, epochs: int, moment: Floats) -> float | Floats:
        """Seconds of an epoch that have passed at moments in the last of so many epochs."""
        begin, end = self.edges[epoch : epoch + 2]
        return moment - begin if epoch == epochs - 1 else end - begin


def _of(values: Floats, instance: Integers) -> Floats:
    return values[instance] if values.ndim else values


# Duty cycles of slices in each epoch, cell by cell and in groups whose largest bounds each cell.
#
# Of fault-free slices only the skyline of `mcage.replays.most_stressed` can have the worst cell. A
# slice whose registers are redirected has different duty cycles in each epoch; a group of it is a
# bit of an entry in all components, since these are much alike.

_Times = NDArray[Any]  # unsigned integers, or float64


class DutyTree(ABC):
    """Duty cycles at '0', or at '1', of the cells of n slices in each epoch, in a tree of groups.

    Attributes
    ----------
    roots : int
        Groups of the coarsest level.
    branches : tuple of int
        For each level, coarsest first: number of groups of the next level, in the end of cells, in
        a group of this level. Group g is made of g * branches ... (g + 1) * branches - 1 of the
        next level.
    """

    roots: int
    branches: tuple[int, ...]

    @abstractmethod
    def largest(self, level: int, epoch: int, index: Integers, group: Integers) -> Floats:
        """Largest duty of the cells of m groups; slice and group of each: int64[m], int64[m]."""

    @abstractmethod
    def duty(self, epoch: int, index: Integers, cell: Integers) -> Floats:
        """Duty of m cells; slice and number of each: int64[m], int64[m]."""

    @abstractmethod
    def cell(self, place: Integers) -> Integers:
        """Numbers in the slice of the cells at the given places below the finest groups."""


class FaultFreeSlices(DutyTree):
    """Fault-free slices.

    Parameters
    ----------
    duties : DutyCycles
        Duty cycles under each kernel.
    turns : sequence of Turns
        What each slice runs in each epoch.
    """

    def __init__(self, duties: DutyCycles, turns: Sequence[stress.Turns]) -> None:
        self._duties, self._turns = duties, turns
        self.roots = duties.skyline.largest.shape[1]
        self.branches = (BLOCK,)

    @override
    def largest(self, level: int, epoch: int, index: Integers, group: Integers) -> Floats:
        of_kernels = self._duties.skyline.largest
        return _mean_duty(self._turns[epoch].of(index), lambda kernel: of_kernels[kernel, group])

    @override
    def duty(self, epoch: int, index: Integers, cell: Integers) -> Floats:
        return _mean_duty(
            self._turns[epoch].of(index), lambda kernel: self._duties.at(kernel, cell)
        )

    @override
    def cell(self, place: Integers) -> Integers:
        return self._duties.skyline.cell[place]


def _mean_duty(turns: stress.Turns, duty_of: Callable[[Integers], Floats]) -> Floats:
    """Duty cycles over the turns of an epoch: those under each kernel, int64[n], by its share.

    Turns are short against all that a transistor remembers, so that the models take a mix as one
    phase with its mean duty.
    """
    (kernel, weight), *others = turns.one_by_one()
    duty: Floats = weight * duty_of(kernel)
    for kernel, weight in others:
        duty += weight * duty_of(kernel)
    return np.minimum(duty, 1.0)  # shares may sum to a little more by rounding


DUTY_BYTES = 256 << 20
"""Memory for the duty cycles of the redirected slices of a batch, slice by slice."""


def most_instances(epochs: int, cells: int) -> int:
    """Size of a batch whose slices of so many cells may all be redirected, in so many epochs."""
    of_slice = 2 * cells * np.dtype(np.uint32).itemsize
    return max(1, DUTY_BYTES // (epochs * of_slice))


@dataclass(frozen=True, eq=False)
class SliceDuty:
    """Duty cycles of a slice in one epoch.

    Attributes
    ----------
    geometry : SliceGeometry
        The slice.
    held : tuple of int or float[cells]
        Time that each cell holds '0', and '1', out of ``period``.
    period : float
        The time for which a duty cycle is 1.
    of_bits : float64[2, entries x 32]
        Largest duty cycle at '0' and at '1' of any component, for each bit of each entry.
    of_entries : float64[2, entries]
        Largest duty cycle in each entry.
    """

    geometry: SliceGeometry
    held: tuple[_Times, _Times]
    period: float
    of_bits: Floats
    of_entries: Floats

    @classmethod
    def of(
        cls,
        geometry: SliceGeometry,
        zeros: NDArray[np.generic],
        ones: NDArray[np.generic],
        period: float,
    ) -> "SliceDuty":
        """Group the cells of a slice by their times: array[cells] each, in the unit of period."""
        by_bit = (geometry.entries, geometry.components, COMPONENT_BITS)
        longest = np.stack([held.reshape(by_bit).max(axis=1) for held in (zeros, ones)])
        of_bits = longest / period
        return cls(geometry, (zeros, ones), period, of_bits.reshape(2, -1), of_bits.max(axis=2))

    def duty(self, which: int, cell: Integers) -> Floats:
        """Duty of cells at '0' (0) or '1' (1): int64[m] to float64[m]."""
        duty: Floats = self.held[which][cell] / self.period
        return duty


def slice_duty(geometry: SliceGeometry, of_turns: Sequence[CellTimes], weight: Floats) -> SliceDuty:
    """Duty cycles of the only slice of the replays of turns, each with its share of the time.

    Times of a single kernel are kept in as few bytes as they need.
    """
    if len(of_turns) == 1:
        (times,) = of_turns
        (period,) = np.broadcast_to(times.period, 1).tolist()
        narrow = np.min_scalar_type(period)
        ones, powered = times.ones.ravel().astype(narrow), times.powered.ravel().astype(narrow)
        return SliceDuty.of(geometry, powered - ones, ones, period)
    at_zero, at_one = np.zeros(geometry.cells), np.zeros(geometry.cells)
    for times, share in zip(of_turns, weight, strict=True):
        (period,) = np.broadcast_to(times.period, 1).tolist()
        at_zero += share * (times.zeros.ravel() / period)
        at_one += share * (times.ones.ravel() / period)
    return SliceDuty.of(geometry, np.minimum(at_zero, 1.0), np.minimum(at_one, 1.0), 1.0)


class RedirectedSlice(DutyTree):
    """A slice whose registers are redirected.

    Parameters
    ----------
    which : int
        At '0' (0) or at '1' (1).
    epochs : sequence of SliceDuty
        Its duty cycles in each epoch.
    """

    def __init__(self, which: int, epochs: Sequence[SliceDuty]) -> None:
        self._which, self._epochs = which, epochs
        self._components = epochs[0].geometry.components
        self.roots = epochs[0].geometry.entries
        self.branches = (COMPONENT_BITS, self._components)

    @override
    def largest(self, level: int, epoch: int, index: Integers, group: Integers) -> Floats:
        groups = self._epochs[epoch].of_bits if level else self._epochs[epoch].of_entries
        largest: Floats = groups[self._which, group]
        return largest

    @override
    def duty(self, epoch: int, index: Integers, cell: Integers) -> Floats:
        return self._epochs[epoch].duty(self._which, cell)

    @override
    def cell(self, place: Integers) -> Integers:
        bit, component = np.divmod(place, self._components)
        entry, bit = np.divmod(bit, COMPONENT_BITS)
        return (entry * self._components + component) * COMPONENT_BITS + bit


# The worst cell of a slice under any NBTI model, by branch and bound.
#
# A transistor whose duty is longer in each epoch never shifts less (`NbtiModel`). So the shift of
# a transistor that has the largest duty of a group in each epoch bounds the whole group, and only
# groups whose bound exceeds the worst shift so far are opened, down to cells. The result is the
# maximum over all cells, and what is opened of a slice depends on that slice only.

ROUNDING = 1e-9
"""Relative amount by which a bound may fall short for no other reason than rounding."""

ShiftOf = Callable[[Integers, DutyIn], Floats]
"""From the slice of each of m transistors, int64[m], and their duties to their shifts."""


def worst_cells(slices: DutyTree, shift_of: ShiftOf, known: Integers) -> tuple[Floats, Integers]:
    """Worst cells of n slices.

    Parameters
    ----------
    slices : DutyTree
        Duty cycles of n slices.
    shift_of : callable
        Shifts of transistors.
    known : int64[n, k]
        Cells of each slice, at least one, that may be among the worst.

    Returns
    -------
    float64[n], int64[n]
        Largest shift of each slice in volts, and a cell with this shift.

    Raises
    ------
    UserError
        If a cell shifts further than its group can: a longer duty does not mean more shift.
    """

    def bounds(level: int, index: Integers, group: Integers) -> Floats:
        return shift_of(index, lambda e, part: slices.largest(level, e, index[part], group[part]))

    def shifts(index: Integers, cell: Integers) -> Floats:
        return shift_of(index, lambda e, part: slices.duty(e, index[part], cell[part]))

    def opened(
        level: int, index: Integers, group: Integers, bound: Floats
    ) -> tuple[Integers, Integers, Floats]:
        """Members of groups of a level: slice; group, or in the end cell; bound, or shift."""
        branches = slices.branches[level]
        index, parent = np.repeat(index, branches), np.repeat(bound, branches)
        group = (group[:, None] * branches + np.arange(branches)).ravel()
        if level < len(slices.branches) - 1:
            bound = bounds(level + 1, index, group)
        else:
            group = slices.cell(group)
            bound = shifts(index, group)
        _check(bound, parent)
        return index, group, bound

    count, tried = known.shape
    all_slices = np.arange(count)
    shift = shifts(np.repeat(all_slices, tried), known.ravel()).reshape(known.shape)
    best = shift.argmax(axis=1)
    worst, worst_cell = shift[all_slices, best], known[all_slices, best]

    index, group = (axis.ravel() for axis in np.indices((count, slices.roots)))
    bound = bounds(0, index, group)
    _check(bound, np.inf)

    # Depth first: straight down to a cell, along the groups with the largest bounds.
    below, promise = _best(group, bound, count)
    for level in range(len(slices.branches)):
        _, members, bounds_of_members = opened(level, all_slices, below, promise)
        below, promise = _best(members, bounds_of_members, count)
    _raise(worst, worst_cell, all_slices, below, promise)

    for level in range(len(slices.branches)):
        promising = bound > worst[index]
        index, group, bound = opened(level, index[promising], group[promising], bound[promising])
    _raise(worst, worst_cell, index, group, bound)
    return worst, worst_cell


def _best(group: Integers, promise: Floats, count: int) -> tuple[Integers, Floats]:
    """Group with the largest bound in each slice, of equally many groups, and the bound."""
    by_slice = promise.reshape(count, -1)
    place = by_slice.argmax(axis=1) + np.arange(count) * by_slice.shape[1]
    return group[place], promise[place]


def _raise(
    worst: Floats, worst_cell: Integers, index: Integers, cell: Integers, shift: Floats
) -> None:
    """Replace the worst cells so far by cells that have shifted further."""
    order = np.lexsort((shift, index))
    last = order[np.diff(index[order], append=-1) != 0]
    last = last[shift[last] > worst[index[last]]]
    worst[index[last]], worst_cell[index[last]] = shift[last], cell[last]


def _check(shift: Floats, bound: Floats | float) -> None:
    if not (shift >= 0).all():
        raise UserError("the NBTI model gives shifts that are negative or no numbers")
    if (shift > bound * (1 + ROUNDING)).any():
        raise UserError(
            "the NBTI model gives a transistor that was stressed less in every epoch the larger "
            "shift; sweeps need one in which a longer duty never shifts less"
        )


# Degradation where the total stress time says it all: additive models with constant rates.
#
# Of transistors of one age, the transistor that was stressed longest has then shifted furthest, so
# that the longest stress times of a slice give the shifts of its worst transistors. These times
# are known at the end of an epoch. They are looked for at a moment within it, where another cell
# may be the worst: the times of all cells grow evenly, so that what was added after that moment
# can be taken back.

SAME = 1e-12
"""Relative difference of shifts that are the same but for rounding."""


@dataclass(frozen=True)
class AdditiveCells(CellDegradation):
    """Degradation of n cells.

    Attributes
    ----------
    shift : AdditiveShift
        How the transistors of the instances of a batch shift.
    instance : int64[n]
        Instance of each cell.
    span : EpochSpan
        Latest epochs of their instances.
    seconds : CellSeconds
        Seconds at '0' and at '1' at both ends of the epochs.
    """

    shift: AdditiveShift
    instance: Integers
    span: EpochSpan
    seconds: stress.CellSeconds

    @override
    def dvth(self, moment: Floats) -> Floats:
        return self.shift.of(self.instance).dvth(self.seconds.at(self.span.part(moment)), moment)

    @override
    def of_cells(self, moment: Floats) -> Floats:
        return self.shift.of(self.instance).of_cells(
            self.seconds.at(self.span.part(moment)), moment
        )

    @override
    def of(self, which: Integers | Booleans) -> "AdditiveCells":
        return AdditiveCells(
            self.shift, self.instance[which], self.span.of(which), self.seconds.of(which)
        )


class AdditiveDegradation(Degradation):
    """Degradation by total stress time.

    Parameters
    ----------
    shift : AdditiveShift
        How the transistors of the batch shift.
    engine : Engine
        Adds up the times of cells.
    duties : FaultFreeDuties
        The technique on each kernel.
    tracked : TrackedCells
        Cells whose times are kept cell by cell.
    instances : int
        Size of the batch.
    learnt : Learnt, optional
        What their placement programs know.
    """

    def __init__(
        self,
        shift: AdditiveShift,
        engine: Engine,
        duties: stress.FaultFreeDuties,
        tracked: stress.TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> None:
        super().__init__(instances)
        self._shift = shift
        self._stress = engine.stress(duties, tracked, instances, learnt)
        self._instance = tracked.instance
        self._longest_before = np.zeros((2, instances))
        self._turns = stress.Turns.single(np.zeros(instances, dtype=np.int64))
        self._fault_maps = fault_free_maps(instances, duties.replays[0].geometry)
        # The longest times within the latest epoch at the moment when they were last looked for.
        self._looked_at = np.full(instances, np.nan)
        self._longest_then = np.zeros((2, instances))

    @override
    def add(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, start: float, end: float
    ) -> None:
        chosen = np.zeros(len(self.span.start), dtype=bool)
        chosen[instances] = True
        np.copyto(self._longest_before, self._stress.longest, where=chosen)
        self.span.start[instances], self.span.end[instances] = start, end
        self._turns = self._turns.with_turns(instances, turns)
        self._fault_maps[instances] = fault_maps
        self._stress.add(instances, turns, fault_maps, end - start)

    @override
    def failing(self, instances: Integers, failure: CellFailure) -> tuple[Integers, AdditiveCells]:
        places, seconds = self._stress.tracked_seconds.failing(
            instances, self.span.end[instances], self._shift, failure
        )
        instance = self._instance[places]
        return places, AdditiveCells(self._shift, instance, self.span.of(instance), seconds)

    @override
    def mark_faulty(self, places: Integers) -> None:
        self._stress.tracked_seconds.mark_faulty(places)

    @override
    def sampled_dvth(self, instances: Integers, moment: Floats) -> Floats:
        return self._stress.tracked_seconds.sampled_dvth(
            instances, self._moments(instances, moment), self._shift
        )

    @override
    def histogram(self, instances: Integers, moment: Floats, bins: int) -> Integers:
        return self._stress.tracked_seconds.histogram(
            instances, self._moments(instances, moment), self._shift, bins
        )

    def _moments(self, instances: Integers, moment: Floats) -> stress.Moments:
        return stress.Moments(self.span.of(instances).part(moment), moment)

    @override
    def longest_duty(self, instances: Integers, moment: Floats) -> Floats:
        busy = self._longest_busy(instances, moment) / moment
        if self._shift.is_always_busy:
            return busy
        return busy * self._shift.of(instances).activity

    def _longest_busy(self, instances: Integers, moment: Floats) -> Floats:
        """Longest seconds at '0' and at '1' if slices were always busy: float64[2, n]."""
        span = self.span.of(instances)
        longest = np.where(
            moment > span.start,
            self._stress.longest[:, instances],
            self._longest_before[:, instances],
        )
        within = np.flatnonzero((span.start < moment) & (moment < span.end))
        if len(within):
            self._look_within(instances[within], moment[within])
            longest[:, within] = self._longest_then[:, instances[within]]
        return longest

    def _look_within(self, instances: Integers, moment: Floats) -> None:
        """Look for the longest times at moments within the latest epochs of selected instances."""
        unknown = moment != self._looked_at[instances]
        sought, when = instances[unknown], moment[unknown]
        if len(sought):
            self._longest_then[:, sought] = self._stress.longest_earlier(
                sought,
                self._turns.of(sought),
                self._fault_maps[sought],
                self.span.end[sought] - when,
            )
            self._looked_at[sought] = when

    @override
    def _look_for_worst(self, instances: Integers, moment: Floats) -> Floats:
        return self._shift.of(instances).dvth(self._longest_busy(instances, moment), moment)

    @override
    def stay_below(self, instances: Integers, limit_volts: Floats, age: float) -> bool:
        ages = np.full(len(instances), age)
        stress = np.full((2, len(instances)), age * (1 + 1e-9))  # sums of epochs are rounded
        worst = self._shift.of(instances).dvth(stress, ages).max(axis=0)
        below = bool((worst - limit_volts < 0).all())
        self._stress.knows_longest = not below
        return below

    def reaching(self, instances: Integers, limit_volts: Floats) -> Floats:
        """See `Degradation.reaching`.

        It is solved on the line between the longest times at both ends. Where the longest times lie
        below the line at that moment, it is solved again on the line from there: the limit can only
        be reached later.
        """
        moment, end = self.span.start[instances], self.span.end[instances]
        longest, after = self._longest_before[:, instances], self._stress.longest[:, instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        open_ = np.arange(len(instances))
        while len(open_):
            unsolved, line = instances[open_], EpochSpan(moment[open_], end[open_])
            excess = self._excess_on(
                unsolved, line, longest[:, open_], after[:, open_], limit[open_]
            )
            moment[open_] = crossing(excess, line.start, line.end)
            longest[:, open_] = self._longest_busy(unsolved, moment[open_])
            shift = self._shift.of(unsolved)
            worst = shift.dvth(longest[:, open_], moment[open_]).max(axis=0)
            open_ = open_[worst < limit[open_] * (1 - SAME)]
        return moment

    def _excess_on(
        self,
        instances: Integers,
        line: EpochSpan,
        before: Floats,
        after: Floats,
        limit_volts: Floats,
    ) -> Callable[[Floats], Floats]:
        """Worst shifts beyond limits, in volts, where the longest times grow evenly."""
        shift = self._shift.of(instances)

        def excess(moment: Floats) -> Floats:
            dvth = shift.dvth(stress.between(before, after, line.part(moment)), moment)
            beyond: Floats = dvth.max(axis=0) - limit_volts
            return beyond

        return excess


# Degradation under any NBTI model: transistors are advanced through each epoch in turn.
#
# Tracked cells are advanced epoch by epoch. Among all the others, the worst are searched for by
# branch and bound (`worst_cells`), at the end of each epoch and at the moment at which a life
# ends.


@dataclass(frozen=True)
class StepwiseCells(CellDegradation):
    """Degradation of n cells.

    Attributes
    ----------
    history : History
        What epochs do to the transistors.
    instance, epoch : int64[n]
        Instance of each cell, and the latest epoch of the instance.
    state : float64[state_size, 2, n]
        States of T0 and T1 when that epoch began.
    duty : float64[2, n]
        Fractions of the busy time of that epoch at '0' and at '1'.
    pull_downs : StepwiseCells or None
        The same for N0 and N1, where these age.
    """

    history: History
    instance: Integers
    epoch: Integers
    state: Floats
    duty: Floats
    pull_downs: "StepwiseCells | None" = None

    @override
    def dvth(self, moment: Floats) -> Floats:
        shift = np.empty(self.duty.shape)
        for epoch in np.unique(self.epoch).tolist():
            places = np.flatnonzero(self.epoch == epoch)
            seconds = moment[places] - self.history.edges[epoch]
            state = self.history.advance(
                self.state[..., places], epoch, self.instance[places], self.duty[:, places], seconds
            )
            shift[:, places] = self.history.model_of(self.instance[places]).dvth_of(state)
        return shift

    @override
    def of_cells(self, moment: Floats) -> Floats:
        dvth = self.dvth(moment)
        if self.pull_downs is None:
            return dvth
        return np.concatenate([dvth, self.pull_downs.dvth(moment)])

    @override
    def of(self, which: Integers | Booleans) -> "StepwiseCells":
        return StepwiseCells(
            self.history,
            self.instance[which],
            self.epoch[which],
            self.state[..., which],
            self.duty[:, which],
            self.pull_downs and self.pull_downs.of(which),
        )


class StepwiseDegradation(Degradation):
    """Degradation epoch by epoch.

    Parameters
    ----------
    history : History
        What epochs do to the transistors of the batch.
    engine : Engine
        Gives the times of the cells of redirected slices.
    duties : FaultFreeDuties
        The technique on each kernel.
    tracked : TrackedCells
        Cells that are advanced cell by cell.
    instances : int
        Size of the batch.
    learnt : Learnt, optional
        What their placement programs know.
    """

    def __init__(
        self,
        history: History,
        engine: Engine,
        duties: stress.FaultFreeDuties,
        tracked: stress.TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> None:
        super().__init__(instances)
        self._learnt = learnt or engine.learnt(duties.replays, instances)
        self._history, self._engine = history, engine
        self._geometry = duties.replays[0].geometry
        self._replays, self._duties = duties.replays, (duties.at_zero, duties.at_one)
        self._tracked, self._sampled = tracked, tracked.sampled
        self._sound = np.ones(tracked.tail, dtype=bool)
        # The states of T0 and T1, then those of N0 and N1 where these age.
        self._histories = [history, *([history.pull_downs] if history.pull_downs else [])]
        self._states = [each.nbti.initial_state((2, len(tracked.cell))) for each in self._histories]
        self._duty = np.zeros((2, len(tracked.cell)))

        epochs = len(history.rates)
        self._epoch = np.full(instances, -1)
        self._turns: list[stress.Turns] = []
        # Duty cycles of redirected slices by epoch, and of fault-free slices by kernel.
        self._redirected: list[dict[int, SliceDuty]] = [{} for _ in range(instances)]
        self._fault_free: dict[tuple[bytes, bytes], SliceDuty] = {}
        # Cells that have been the worst, and the worst when they were last searched for.
        self._known = np.zeros((2, instances, epochs), dtype=np.int64)
        self._worst_cell = np.zeros((2, instances), dtype=np.int64)

    @override
    def add(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, start: float, end: float
    ) -> None:
        self.span.start[instances], self.span.end[instances] = start, end
        epoch = int(self._epoch[instances[0]]) + 1
        self._epoch[instances] = epoch
        nothing = stress.Turns.single(np.zeros(len(self._epoch), dtype=np.int64))
        self._turns.append(nothing.with_turns(instances, turns))
        if self._replays[0].technique.heeds_faults:
            differ = self._learnt is not None and self._learnt.differs
            alone = fault_maps.any(axis=1) | np.full(len(instances), differ)
            self._keep_redirected(instances[alone], turns.of(alone), fault_maps[alone], epoch)
        self._advance(instances, epoch)

    def _keep_redirected(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, epoch: int
    ) -> None:
        """Keep the duty cycles of slices whose technique reacts to their faults."""
        times_of_turns = []
        for turn, kernel in enumerate(turns.kernel.T):
            if self._learnt:
                which = instances, turn, kernel, fault_maps
                times = self._learnt.cell_times(self._replays, *which)
            else:
                times = self._engine.cell_times_each(self._replays, kernel, fault_maps)
            times_of_turns.append(times)
        each = zip(instances.tolist(), turns.weight, zip(*times_of_turns, strict=True), strict=True)
        for instance, weight, of_turns in each:
            self._redirected[instance][epoch] = slice_duty(self._geometry, of_turns, weight)

    def _advance(self, instances: Integers, epoch: int) -> None:
        """Advance tracked cells to the start of an epoch, and look up their duty in it."""
        runs = np.zeros(len(self._epoch), dtype=bool)
        runs[instances] = True
        places = np.flatnonzero(runs[self._tracked.instance])
        instance, cell = self._tracked.instance[places], self._tracked.cell[places]
        if epoch:
            begin, end = self._history.edges[epoch - 1 : epoch + 1]
            for history, state in zip(self._histories, self._states, strict=True):
                state[..., places] = history.advance(
                    state[..., places], epoch - 1, instance, self._duty[:, places], end - begin
                )
        self._duty[:, places] = self._duty_in(epoch, instance, cell)

    @override
    def failing(self, instances: Integers, failure: CellFailure) -> tuple[Integers, StepwiseCells]:
        among = np.zeros(len(self._epoch), dtype=bool)
        among[instances] = True
        places = np.flatnonzero(self._sound & among[self._tracked.instance[: len(self._sound)]])
        cells = self._cells(places)
        shift, vmin_volts = cells.of_cells(self.span.end[cells.instance]), self._tracked.vmin_volts
        fails = failure.of(cells.instance).are_faulty(
            vmin_volts[:, places], shift, self._tracked.scores_of(places)
        )
        return places[fails], cells.of(fails)

    @override
    def mark_faulty(self, places: Integers) -> None:
        self._sound[places] = False

    def _cells(self, places: Integers) -> StepwiseCells:
        """Shifts of tracked cells, given by their positions: int64[n]."""
        instance = self._tracked.instance[places]
        cells, *pull_downs = (
            StepwiseCells(each, instance, self._epoch[instance], state[..., places], duty)
            for duty in [self._duty[:, places]]
            for each, state in zip(self._histories, self._states, strict=True)
        )
        return replace(cells, pull_downs=pull_downs[0]) if pull_downs else cells

    @override
    def sampled_dvth(self, instances: Integers, moment: Floats) -> Floats:
        first = len(self._tracked.cell) - len(self._epoch) * self._sampled
        places = first + instances[:, None] * self._sampled + np.arange(self._sampled)
        cells = self._cells(places.ravel())
        shift = cells.dvth(np.repeat(moment, self._sampled))
        of_instances: Floats = shift.reshape(2, len(instances), self._sampled)
        return of_instances

    def longest_duty(self, instances: Integers, moment: Floats) -> Floats:
        """See `Degradation.longest_duty`; exact."""
        longest, _ = self._worst_of(self._history.life_duty, instances, moment)
        return longest

    def _look_for_worst(self, instances: Integers, moment: Floats) -> Floats:
        """See `Degradation.worst_dvth`; exact."""
        worst, cell = self._worst_of(self._history.dvth, instances, moment)
        self._worst_cell[:, instances] = cell
        self._known[:, instances, self._epoch[instances]] = cell
        return worst

    def reaching(self, instances: Integers, limit_volts: Floats) -> Floats:
        """See `Degradation.reaching`; exact.

        It is solved for the worst cells of the end. While another cell is worse at that moment, it
        is solved again with that cell, too: the limit can only be reached sooner.
        """
        self.worst_dvth(instances, self.span.end[instances])
        moment = self.span.end[instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        tried = self._worst_cell[:, instances].T
        open_ = np.arange(len(instances))
        while len(open_):
            unsolved = instances[open_]
            moment[open_], most = self._solved(unsolved, tried[open_], limit[open_])
            worst = self.worst_dvth(unsolved, moment[open_])
            cell = self._worst_cell[worst.argmax(axis=0), unsolved]
            known = (cell[:, None] == tried[open_]).any(axis=1)
            more = tried[:, :1].copy()
            more[open_, 0] = cell
            tried = np.concatenate([tried, more], axis=1)
            open_ = open_[(worst.max(axis=0) > most) & ~known]
        return moment

    def _solved(self, instances: Integers, cell: Integers, limit: Floats) -> tuple[Floats, Floats]:
        """Moments at which the worst of k cells of each instance, int64[n, k], reach limits.

        Returns
        -------
        float64[n], float64[n]
            The moments, and the largest shift of these cells of each instance then.
        """
        count, tried = cell.shape
        cells = self._advanced(np.repeat(instances, tried), cell.ravel())

        def largest(moment: Floats) -> Floats:
            shift = cells.dvth(np.repeat(moment, tried)).max(axis=0)
            most: Floats = shift.reshape(count, tried).max(axis=1)
            return most

        span = self.span.of(instances)
        moment = crossing(lambda at: largest(at) - limit, span.start, span.end)
        return moment, largest(moment)

    def _advanced(self, instance: Integers, cell: Integers) -> StepwiseCells:
        """Any cells, advanced from new to the latest epochs of their instances."""
        latest = self._epoch[instance]
        state = self._history.nbti.initial_state((2, len(cell)))
        for epoch, seconds in enumerate(np.diff(self._history.edges[: latest.max() + 1]).tolist()):
            places = np.flatnonzero(latest > epoch)
            duty = self._duty_in(epoch, instance[places], cell[places])
            state[..., places] = self._history.advance(
                state[..., places], epoch, instance[places], duty, seconds
            )
        duty = np.empty((2, len(cell)))
        for epoch in np.unique(latest).tolist():
            places = np.flatnonzero(latest == epoch)
            duty[:, places] = self._duty_in(epoch, instance[places], cell[places])
        return StepwiseCells(self._history, instance, latest, state, duty)

    def _duty_in(self, epoch: int, instance: Integers, cell: Integers) -> Floats:
        """Fractions of the busy time of an epoch at '0' and at '1' of n cells: float64[2, n]."""
        turns = self._turns[epoch].of(instance)
        at_zero, at_one = self._duties
        zeros = _mean_duty(turns, lambda kernel: at_zero.at(kernel, cell))
        duty = np.stack([zeros, _mean_duty(turns, lambda kernel: at_one.at(kernel, cell))])
        for redirected in np.unique(instance).tolist():
            if of_slice := self._redirected[redirected].get(epoch):
                places = np.flatnonzero(instance == redirected)
                for which in range(2):
                    duty[which, places] = of_slice.duty(which, cell[places])
        return duty

    def _worst_of(
        self, measure: Callable[..., Floats], instances: Integers, moment: Floats
    ) -> tuple[Floats, Integers]:
        """Largest measure at '0' and at '1' of any cell of selected instances, and the cells.

        Parameters
        ----------
        measure : callable
            `History.dvth`, or another of its methods that grows with the duty in each epoch.
        instances : int64[n]
            Positions in the batch.
        moment : float64[n]
            Age of each.

        Returns
        -------
        float64[2, n], int64[2, n]
        """
        most, cell = np.empty((2, len(instances))), np.empty((2, len(instances)), dtype=np.int64)
        ages = np.empty(len(self._epoch))
        ages[instances] = moment
        for epoch, places, slices in self._slices(instances):
            group = instances[places]

            def measured(
                index: Integers, duty: DutyIn, epochs: int = epoch + 1, group: Integers = group
            ) -> Floats:
                return measure(epochs, group[index], duty, ages)

            for which in range(2):
                known = self._known[which, group, : epoch + 1]
                most[which, places], cell[which, places] = worst_cells(
                    slices[which], measured, known
                )
        return most, cell

    def _slices(
        self, instances: Integers
    ) -> Iterator[tuple[int, Integers, tuple[DutyTree, DutyTree]]]:
        """Groups of instances whose worst cells are searched for together.

        A group is all instances in an epoch that have been fault-free so far, or a single instance
        that has been redirected.

        Yields
        ------
        int, int64[n], tuple of Slices
            Latest epoch of the group; places of its instances in the list; their duty cycles at '0'
            and at '1'.
        """
        latest = self._epoch[instances]
        is_redirected = np.array([bool(self._redirected[i]) for i in instances.tolist()])
        for epoch in np.unique(latest).tolist():
            places = np.flatnonzero((latest == epoch) & ~is_redirected)
            if len(places):
                turns = [of_epoch.of(instances[places]) for of_epoch in self._turns]
                zeros, ones = (FaultFreeSlices(duties, turns) for duties in self._duties)
                yield epoch, places, (zeros, ones)
        for place in np.flatnonzero(is_redirected).tolist():
            instance, epoch = instances[place], int(latest[place])
            duties = [self._slice_duty(instance, passed) for passed in range(epoch + 1)]
            yield epoch, np.array([place]), (RedirectedSlice(0, duties), RedirectedSlice(1, duties))

    def _slice_duty(self, instance: np.int64, epoch: int) -> SliceDuty:
        """Duty cycles of all cells of an instance in an epoch, redirected or fault-free."""
        if redirected := self._redirected[instance].get(epoch):
            return redirected
        turns = self._turns[epoch].of(np.array([instance]))
        key = turns.kernel.tobytes(), turns.weight.tobytes()
        if key not in self._fault_free:
            at_zero, at_one = self._duties
            zeros = _mean_duty(turns, lambda kernel: at_zero.of_kernel(int(kernel[0])))
            ones = _mean_duty(turns, lambda kernel: at_one.of_kernel(int(kernel[0])))
            self._fault_free[key] = SliceDuty.of(self._geometry, zeros, ones, 1.0)
        return self._fault_free[key]
