"""What studies of Vmin say of a Vdd."""

import math

import numpy as np
import pytest

from mcage.errors import UserError
from mcage.studies.vmin.presentation import saved_at
from mcage.studies.vmin.study import VminSpec, epoch_of

VDDS = np.array([0.4, 0.5])
VMIN = np.array([0.38, 0.43, 0.48, np.nan])
SAVED = np.array([[0.6, 0.4], [np.nan, 0.4], [np.nan, 0.2], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("vdd_volts", "of_slices"),
    [
        (0.4, [0.6, 0, 0, 0]),
        (0.425, [0.55, 0, 0, 0]),  # between two voltages, a quarter of the way
        (0.45, [0.5, 0.4, 0, 0]),  # that it works at 0.45 V, Vmin says; what it saves, 0.5 V
        (0.5, [0.4, 0.4, 0.2, 0]),
    ],
)
def test_a_slice_that_does_not_work_saves_nothing(vdd_volts, of_slices):
    assert saved_at(vdd_volts, VMIN, VDDS, SAVED).value == pytest.approx(np.mean(of_slices))


@pytest.mark.parametrize("vdd_volts", [0.39, 0.51, math.inf, math.nan])
def test_nothing_is_said_of_other_voltages(vdd_volts):
    assert math.isnan(saved_at(vdd_volts, VMIN, VDDS, SAVED).value)


def test_energy_that_is_unknown_is_not_nothing():
    assert math.isnan(saved_at(0.45, VMIN, VDDS, np.full((4, 2), np.nan)).value)


@pytest.mark.parametrize(
    ("age_years", "epoch"), [(0, 0), (1, 0), (2.5, 0), (3, 1), (5, 1), (10, 3)]
)
def test_the_epoch_of_an_age(age_years, epoch):
    assert epoch_of(age_years, (0.0, 2.5, 5.0, 7.5, 10.0)) == epoch


def test_the_age_of_the_target_is_the_last_unless_told_otherwise():
    spec = VminSpec.from_mapping({"vmin": {"ages_years": [0, 5]}})
    assert (spec.vmin.target_years, spec.vmin.ages) == (5, (0, 5))
    spec = VminSpec.from_mapping({"vmin": {"ages_years": [0, 5], "years": 2}})
    assert (spec.vmin.target_years, spec.vmin.ages) == (2, (0, 2, 5))
    with pytest.raises(UserError, match=r"vmin.years = -1"):
        VminSpec.from_mapping({"vmin": {"years": -1}})
