"""Tracked cells and shifts on the host, compiled: cell by cell, without arrays in between.

`TrackedSeconds` and `AdditiveShift` are the reference, to the last bit. Shifts are computed here
for the model `facelift`, which is plain arithmetic; for any other model, also for one derived from
it that may have another formula, the reference computes them.
"""

import sys

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.nbti import Facelift
from mcage.aging.transistors import LEAST_RECOVERY, AdditiveShift, FaceliftRates
from mcage.aging.vmin import CellFailure
from mcage.compiled import compiled
from mcage.engines.stress import (
    BINS_PER_VOLT,
    CellSeconds,
    FaultFreeDuties,
    Moments,
    TrackedSeconds,
)
from mcage.geometry import Booleans, Floats, Integers

_LEAST = sys.float_info.min


class CompiledSeconds(TrackedSeconds):
    """As `TrackedSeconds`."""

    @override
    def begin_epoch(self, instances: Integers) -> None:
        _begin(self._among(instances), self._tracked.instance, self.now, self._before)

    def add_duties(
        self, instances: Integers, kernel: Integers, duties: FaultFreeDuties, seconds: Floats
    ) -> None:
        """Let instances without faults run a kernel each, for so many seconds.

        Parameters
        ----------
        instances, kernel : int64[m]
            Positions in the batch, and the kernel that each runs.
        duties : FaultFreeDuties
            Duty cycles of the kernels.
        seconds : float64[m]
            How long each runs it.
        """
        kernel_of, seconds_of = np.full(self._instances, -1), np.zeros(self._instances)
        kernel_of[instances], seconds_of[instances] = kernel, seconds
        zeros, ones = duties.at_zero, duties.at_one
        cells = self._tracked.instance, self._tracked.cell
        _add(kernel_of, *cells, zeros.cycles, ones.cycles, zeros.period, seconds_of, self.now)

    @override
    def failing(
        self, instances: Integers, age: Floats, shift: AdditiveShift, failure: CellFailure
    ) -> tuple[Integers, CellSeconds]:
        if not is_plain(shift, failure):
            return super().failing(instances, age, shift, failure)
        ages = np.full(self._instances, -1.0)
        ages[instances] = age
        fails = np.zeros(len(self._sound), dtype=bool)
        limits = failure.coefficients, failure.lowest_vdd_volts
        seconds, cells = (self._before, self.now), (self._tracked.instance, self._sound)
        vmin = self._tracked.vmin_volts
        _find_failing(*cells, vmin, *seconds, ages, shift.of_facelift, limits, fails)
        places = np.flatnonzero(fails)
        return places, self.of(places)

    @override
    def sampled_dvth(self, instances: Integers, moments: Moments, shift: AdditiveShift) -> Floats:
        if type(shift.nbti) is not Facelift:
            return super().sampled_dvth(instances, moments, shift)
        volts = np.empty((2, len(instances), self._tracked.sampled))
        first = len(self._tracked.cell) - self._instances * self._tracked.sampled
        seconds, when = (self._before, self.now), (moments.part, moments.age)
        _shift_sampled(*seconds, first, instances, *when, shift.of_facelift, volts)
        return volts

    @override
    def histogram(
        self, instances: Integers, moments: Moments, shift: AdditiveShift, bins: int
    ) -> Integers:
        if type(shift.nbti) is not Facelift:
            return super().histogram(instances, moments, shift, bins)
        counts, sampled = np.zeros((2, bins), dtype=np.int64), self._tracked.sampled
        first = len(self._tracked.cell) - self._instances * sampled
        seconds, when = (self._before, self.now), (moments.part, moments.age)
        _count(*seconds, first, sampled, instances, *when, shift.of_facelift, counts)
        return counts


def shifts(
    shift: AdditiveShift, busy: Floats, age: Floats, which: Integers | None = None
) -> Floats:
    """As `AdditiveShift.dvth`: float64[2, n] and float64[n] to float64[2, n].

    `which`, int64[n], are the instances of n transistors; by default all, in their order.
    """
    if type(shift.nbti) is not Facelift:
        return (shift if which is None else shift.of(which)).dvth(busy, age)
    volts, instance = np.empty(busy.shape), np.arange(len(age)) if which is None else which
    _shift_each(np.ascontiguousarray(busy), age, shift.of_facelift, instance, volts)
    return volts


def are_faulty(
    shift: AdditiveShift,
    failure: CellFailure,
    vmin_volts: Floats,
    seconds: CellSeconds,
    moments: Moments,
    scores: Floats | None = None,
    which: Integers | None = None,
) -> Booleans:
    """As `CellFailure.are_faulty` of n cells at a moment of each: bool[n].

    `which`, int64[n], are the instances of n cells, whose shifts `shift` tells; by default it tells
    the shifts of each cell.
    """
    if not is_plain(shift, failure):
        shift = shift if which is None else shift.of(which)
        dvth = shift.of_cells(seconds.at(moments.part), moments.age)
        return failure.are_faulty(vmin_volts, dvth, scores)
    faulty = np.empty(vmin_volts.shape[1], dtype=bool)
    times = np.ascontiguousarray(seconds.before), np.ascontiguousarray(seconds.after)
    limits = failure.coefficients, failure.lowest_vdd_volts
    vmin, when = np.ascontiguousarray(vmin_volts), (moments.part, moments.age)
    instance = np.arange(len(faulty)) if which is None else which
    _judge(vmin, *times, *when, shift.of_facelift, instance, limits, faulty)
    return faulty


def is_plain(shift: AdditiveShift, failure: CellFailure) -> bool:
    """Whether cells fail by shifts of `facelift` in T0 and T1 alone, as is compiled here."""
    plain = shift.pull_downs is None and failure.margins is None
    return plain and type(shift.nbti) is Facelift


@compiled
def _begin(runs: Booleans, instance: Integers, now: Floats, before: Floats) -> None:
    for cell in range(len(instance)):
        if runs[instance[cell]]:
            before[0, cell], before[1, cell] = now[0, cell], now[1, cell]


@compiled
def _add(
    kernel_of: Integers,
    instance: Integers,
    cells: Integers,
    zeros: NDArray[np.integer],
    ones: NDArray[np.integer],
    period: Integers,
    seconds_of: Floats,
    now: Floats,
) -> None:
    """Add the time of a kernel to the cells of instances; -1: the instance runs none."""
    for place in range(len(instance)):
        owner, cell = instance[place], cells[place]
        kernel, seconds = kernel_of[owner], seconds_of[owner]
        if kernel >= 0:
            cycles = np.float64(period[kernel])
            now[0, place] += seconds * (np.float64(zeros[kernel, cell]) / cycles)
            now[1, place] += seconds * (np.float64(ones[kernel, cell]) / cycles)


@compiled
def _of(values: Floats, instance: int) -> float:
    value: float = values[instance] if len(values) > 1 else values[0]
    return value


@compiled
def _dvth(busy: float, age: float, rates: FaceliftRates, instance: int) -> float:
    """Shift in volts as `AdditiveShift.dvth` and `Facelift.dvth` compute it, step by step."""
    diffusion = _of(rates.diffusion, instance)
    stressed = _of(rates.activity, instance) * busy
    recovered = age - stressed
    if not recovered > LEAST_RECOVERY * age:
        recovered = 0.0
    recovery = diffusion * recovered
    total = diffusion * stressed + recovery
    part = np.sqrt(_of(rates.eta, instance) * recovery / max(total, _LEAST))
    shift: float = np.sqrt(np.sqrt(_of(rates.stress, instance) * stressed)) * (1.0 - part)
    return shift


@compiled
def _dvth_within(
    before: Floats,
    after: Floats,
    kind: int,
    cell: int,
    part: float,
    age: float,
    rates: FaceliftRates,
    instance: int,
) -> float:
    """Shift in volts of a transistor of a cell when a part of an epoch has passed."""
    begun = before[kind, cell]
    return _dvth(begun + (after[kind, cell] - begun) * part, age, rates, instance)


@compiled
def _fails(
    vmin: Floats,
    before: Floats,
    after: Floats,
    cell: int,
    part: float,
    age: float,
    rates: FaceliftRates,
    instance: int,
    coefficient: float,
    lowest_vdd: float,
) -> bool:
    """Tell whether a cell fails when a part of an epoch has passed."""
    fails = False
    for kind in range(2):
        shift = _dvth_within(before, after, kind, cell, part, age, rates, instance)
        fails |= vmin[kind, cell] + coefficient * shift > lowest_vdd
    return fails


@compiled
def _shift_each(
    busy: Floats, age: Floats, rates: FaceliftRates, instance: Integers, volts: Floats
) -> None:
    for kind in range(2):
        for place in range(len(age)):
            volts[kind, place] = _dvth(busy[kind, place], age[place], rates, instance[place])


@compiled
def _judge(
    vmin: Floats,
    before: Floats,
    after: Floats,
    part: Floats,
    age: Floats,
    rates: FaceliftRates,
    instance: Integers,
    limits: tuple[Floats, float],
    faulty: Booleans,
) -> None:
    """Tell which cells fail when a part of their epochs has passed; limits are those of cells."""
    coefficients, lowest_vdd = limits
    for cell in range(len(faulty)):
        owner, grows = instance[cell], _of(coefficients, cell)
        when = part[cell], age[cell]
        faulty[cell] = _fails(vmin, before, after, cell, *when, rates, owner, grows, lowest_vdd)


@compiled
def _find_failing(
    instance: Integers,
    sound: Booleans,
    vmin: Floats,
    before: Floats,
    now: Floats,
    ages: Floats,
    rates: FaceliftRates,
    limits: tuple[Floats, float],
    fails: Booleans,
) -> None:
    """Mark sound cells of the tail that fail; an age below 0: the instance is not looked at."""
    coefficients, lowest_vdd = limits
    for cell in range(len(sound)):
        owner = instance[cell]
        age = ages[owner]
        if sound[cell] and age >= 0:
            grows = _of(coefficients, owner)
            fails[cell] = _fails(vmin, before, now, cell, 1.0, age, rates, owner, grows, lowest_vdd)


@compiled
def _shift_sampled(
    before: Floats,
    now: Floats,
    first: int,
    instances: Integers,
    part: Floats,
    age: Floats,
    rates: FaceliftRates,
    volts: Floats,
) -> None:
    """Fill in the shifts of sampled cells, which begin at the first: float64[2, n, sample]."""
    sampled = volts.shape[2]
    for place in range(len(instances)):
        owner = instances[place]
        for number in range(sampled):
            cell = first + owner * sampled + number
            for kind in range(2):
                volts[kind, place, number] = _dvth_within(
                    before, now, kind, cell, part[place], age[place], rates, owner
                )


@compiled
def _count(
    before: Floats,
    now: Floats,
    first: int,
    sampled: int,
    instances: Integers,
    part: Floats,
    age: Floats,
    rates: FaceliftRates,
    counts: Integers,
) -> None:
    """Count sampled cells, which begin at the first, per shift: counts int64[2, bins]."""
    last = counts.shape[1] - 1
    for place in range(len(instances)):
        owner = instances[place]
        for cell in range(first + owner * sampled, first + (owner + 1) * sampled):
            for kind in range(2):
                shift = _dvth_within(before, now, kind, cell, part[place], age[place], rates, owner)
                counts[kind, int(min(BINS_PER_VOLT * shift, float(last)))] += 1
