"""Compiled shifts and failures of cells: those of the reference to the last bit."""

import numpy as np
from tables import each

from mcage.aging.additive_shift import AdditiveShift
from mcage.aging.nbti import Facelift, Rates, nbti_model
from mcage.aging.vmin import CellFailure
from mcage.engines.compiled_cells import CompiledSeconds, are_faulty, shifts
from mcage.engines.stress import CellSeconds, Moments, TrackedCells, TrackedSeconds

FAILURE = CellFailure(vmin_coefficient=0.7, lowest_vdd_volts=0.5)


def shift_of(rng, count, alike):
    """Instances that differ in all of their constants, in one of them, or in none."""
    stress, diffusion, activity = 1e-11 * rng.uniform(1, 2, count), 1 + rng.random(count), 0.6
    model = nbti_model("facelift", None)
    if alike == "all":
        return AdditiveShift(model, Rates(stress[0, ...], diffusion[0, ...]), np.array(1.0))
    if alike == "most":
        return AdditiveShift(model, Rates(stress, diffusion[0, ...]), np.array(activity))
    return AdditiveShift(
        model, Rates(stress, diffusion), rng.random(count), {"eta": stress / 3e-11}
    )


@each("alike", ["all", "most", "none"])
@each("count", [0, 1, 2, 500])
def test_compiled_shifts_are_those_of_the_reference(alike, count):
    rng = np.random.default_rng(count)
    shift = shift_of(rng, count, alike) if count else shift_of(rng, 1, "all")
    age = 10.0 ** rng.uniform(0, 8, count)
    busy = age * np.array([rng.choice([0, 0.3, 1 - 1e-14, 1], count), rng.random(count)])
    expected = shift.dvth(busy, age)
    assert np.array_equal(shifts(shift, busy, age), expected)
    assert np.array_equal(shifts(shift, np.asfortranarray(busy), age), expected)
    assert not count or expected.any()

    seconds, moments = CellSeconds(0.4 * busy, busy), Moments(rng.random(count), age)
    at_moment = shift.dvth(seconds.at(moments.part), age)
    # Half of the cells fail, many of them by a last bit.
    growth = rng.random(count) if alike == "none" else FAILURE.vmin_coefficient
    failure = CellFailure(growth, FAILURE.lowest_vdd_volts)
    last = np.nextafter(failure.lowest_vdd_volts, rng.choice([0.0, 1.0], count))
    of_cell = last - failure.vmin_coefficient * at_moment.max(axis=0)
    vmin = np.stack([of_cell, of_cell])
    vmin[1, ::3] -= 0.01
    faulty = are_faulty(shift, failure, vmin, seconds, moments)
    assert np.array_equal(faulty, failure.are_faulty(vmin, at_moment))
    assert count < 500 or 100 < faulty.sum() < 400


class Forgetless(Facelift):
    """Derived from the model that is compiled, with another formula."""

    def dvth(self, stress, stressed, recovered):
        return np.sqrt(np.sqrt(stress))


def test_a_model_derived_from_facelift_has_its_own_formula():
    rng, count = np.random.default_rng(1), 60
    model = Forgetless(**vars(nbti_model("facelift", None)))
    shift = AdditiveShift(model, Rates(np.array(1e-11), np.array(1.0)), np.array(0.7))
    age = 10.0 ** rng.uniform(6, 8, count)
    seconds, moments = rng.random((2, count)) * age, Moments(rng.random(count), age)
    expected = shift.dvth(seconds, age)
    assert np.array_equal(shifts(shift, seconds, age), expected)
    at_moment = shift.dvth(moments.part * seconds, age)
    middle = FAILURE.lowest_vdd_volts - FAILURE.vmin_coefficient * at_moment.mean()
    vmin = np.full((2, count), middle)
    of_cells = CellSeconds(np.zeros((2, count)), seconds)
    faulty = are_faulty(shift, FAILURE, vmin, of_cells, moments)
    assert np.array_equal(faulty, FAILURE.are_faulty(vmin, at_moment))
    assert 0 < faulty.sum() < count

    tracked = TrackedCells(np.tile(np.arange(count), 2), np.arange(2 * count), vmin, sampled=1)
    everybody, found_by = np.arange(count), []
    for kind in (TrackedSeconds, CompiledSeconds):
        both = kind(tracked, count)
        both.now[:] = np.tile(seconds, 2)
        places, _ = both.failing(everybody, age, shift, FAILURE)
        counts = both.histogram(everybody, moments, shift, 60)
        found_by.append([*places, *counts.ravel()])
    assert found_by[0] == found_by[1]
