"""What studies of Vmin say of a Vdd."""

import math

import numpy as np
import pytest
from tables import each

from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.studies.vmin.spec import VminSpec
from mcage.studies.vmin.study import NAMES, VminStudy, quantile, saved_at

ENGINE, _ = select_engine("numba")
VDDS = np.array([0.4, 0.5])
VMIN = np.array([0.38, 0.43, 0.48, np.nan])
SAVED = np.array([[0.6, 0.4], [np.nan, 0.4], [np.nan, 0.2], [np.nan, np.nan]])


@each(
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


@each("vdd_volts", [0.39, 0.51, math.inf, math.nan])
def test_nothing_is_said_of_other_voltages(vdd_volts):
    assert math.isnan(saved_at(vdd_volts, VMIN, VDDS, SAVED).value)


def test_energy_that_is_unknown_is_not_nothing():
    assert math.isnan(saved_at(0.45, VMIN, VDDS, np.full((4, 2), np.nan)).value)


@each("share", [0.5, 0.9, 0.99, 0.999])
def test_a_quantile_needs_as_many_slices_as_leave_one(share):
    """Of fewer slices all of them say of a smaller share what all of them need."""
    fewest = round(1 / (1 - share))
    for count in sorted({1, fewest - 1, fewest}):
        volts = np.linspace(0.4, 0.5, count)
        assert math.isfinite(quantile(volts, share).value) == (count >= fewest)
    assert quantile(volts, share).value == volts[-2]


@each(
    ("horizon", "ages"),
    [(10, (0, 1, 3, 5, 10)), (5, (0, 1, 3, 5)), (0.5, (0, 0.5)), (20, (0, 1, 3, 5, 20))],
)
def test_the_ages_lead_up_to_the_horizon(horizon, ages):
    assert VminSpec.from_mapping({"life": {"horizon_years": horizon}}).vmin.ages == ages
    assert VminSpec(life={"horizon_years": horizon}, vmin={"share": 0.9}).vmin.ages == ages
    given = {"life": {"horizon_years": horizon}, "vmin": {"ages_years": [0.1]}}
    assert VminSpec.from_mapping(given).vmin.ages == (0.1,)


def test_a_study_stops_by_what_its_help_names():
    (key,) = (key for key in VminSpec.options() if key.name == "stopping.of")
    assert all(name in key.help for name in NAMES)
    for of in ({}, *({"of": name} for name in NAMES)):
        spec = VminSpec.from_mapping({"stopping": {"rel_ci": 0.1} | of})
        rule = VminStudy(spec, ENGINE).header.stopping
        assert rule.of == of.get("of", "vmin_volts") == spec.stopping.of
    shared = {"faults": {"slices_per_chip": 4, "sigma_die_volts": 0.01}}
    study = VminStudy(VminSpec.from_mapping({"stopping": {"rel_ci": 0.1}} | shared), ENGINE)
    with pytest.raises(UserError, match=r"4 slices share each die"):
        assert study.header


def test_the_age_of_the_target_is_the_last_unless_told_otherwise():
    spec = VminSpec.from_mapping({"vmin": {"ages_years": [0, 5]}})
    assert (spec.vmin.target_years, spec.vmin.ages) == (5, (0, 5))
    spec = VminSpec.from_mapping({"vmin": {"ages_years": [0, 5], "years": 2}})
    assert (spec.vmin.target_years, spec.vmin.ages) == (2, (0, 2, 5))
    with pytest.raises(UserError, match=r"vmin.years = -1"):
        VminSpec.from_mapping({"vmin": {"years": -1}})
