"""Compiled shifts and failures of cells: those of the reference to the last bit."""

import numpy as np
import pytest

from mcage.aging.additive_shift import AdditiveShift
from mcage.aging.nbti import Rates, nbti_model
from mcage.aging.vmin import CellFailure
from mcage.engines.compiled_cells import are_faulty, shifts
from mcage.engines.tracked_cells import CellSeconds, Moments

FAILURE = CellFailure(vmin_coefficient=0.7, lowest_vdd_volts=0.5)


def shift_of(rng, count, alike):
    """Instances that differ in all of their constants, in one of them, or in none."""
    stress, diffusion, activity = 1e-11 * rng.uniform(1, 2, count), 1 + rng.random(count), 0.6
    model = nbti_model("facelift", None)
    if alike == "all":
        return AdditiveShift(model, Rates(stress[0, ...], diffusion[0, ...]), np.array(1.0))
    if alike == "most":
        return AdditiveShift(model, Rates(stress, diffusion[0, ...]), np.array(activity))
    return AdditiveShift(model, Rates(stress, diffusion), rng.random(count))


@pytest.mark.parametrize("alike", ["all", "most", "none"])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
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
    last = np.nextafter(FAILURE.lowest_vdd_volts, rng.choice([0.0, 1.0], count))
    vmin = last - FAILURE.vmin_coefficient * at_moment.max(axis=0)
    faulty = are_faulty(shift, FAILURE, vmin, seconds, moments)
    assert np.array_equal(faulty, FAILURE.are_faulty(vmin, at_moment))
    assert count < 500 or 100 < faulty.sum() < 400
