"""Vmin over life says of each slice what sweeps at that Vdd say of it."""

import numpy as np
import pytest
from tables import each, slow

from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.studies.vmin.spec import VminSpec
from mcage.studies.vmin.study import VminStudy

ENGINE, _ = select_engine("numba")
DIES = 20
WORKLOAD = {
    "kernels": ["MatrixTranspose", "Reduction", "ScanLargeArrays", "BlackScholes"],
    "generations": 1,
}
SHORTER = WORKLOAD | {"kernels": ["MatrixTranspose"]}


def vmin_of(**fields):
    """Vmin of the dies: float64[technique, die, age]."""
    spec = VminSpec.from_mapping({"instances": DIES, "workload": WORKLOAD} | fields)
    return VminStudy(spec, ENGINE).compute(0, DIES)["vmin_volts"]


def scale_of(study, name):
    """Values of a coordinate of the study."""
    (of,) = (each for each in study.header.coordinates if each.variable.name == name)
    return np.array(of.values)


def lives_at(vdd_volts, **fields):
    """Lives of the dies in sweeps: float64[vdd, technique, die]."""
    spec = SweepSpec.from_mapping(
        {"instances": DIES, "environments": ["dvfs"], "workload": WORKLOAD}
        | fields
        | {"vdd_volts": vdd_volts}
    )
    lives = Sweep(spec, ENGINE).compute(0, DIES)["life_years"]
    return lives.reshape(len(vdd_volts), -1, DIES)


@pytest.mark.parametrize(
    "technique",
    ["baseline", "rrcd", *map(slow, ("rc+rar", "disable", "gr-guard", "rrcd+pg", "rrcd+rc+rar"))],
)
def test_a_new_slice_works_from_its_vmin_on(technique):
    (vmin,) = vmin_of(techniques=[technique], vmin={"ages_years": [0.0, 0.001]})
    rising = np.sort(vmin[:, 0])
    tried = sorted({round(float(volts), 4) for volts in rising[[2, -3]]})
    lives = lives_at(tried, techniques=[technique])[:, 0]
    for volts, years in zip(tried, lives, strict=True):
        assert ((years == 0) == (vmin[:, 0] > volts)).all(), volts
        assert (years == 0).any()
        assert (years > 0).any()


@pytest.mark.parametrize(
    ("technique", "schedule"),
    [
        ("rc+rar", "interleaved"),
        ("rrcd", "sequential"),
        slow("disable", "interleaved"),
        slow("disable", "sequential"),
        slow("rrcd", "interleaved"),
        slow("rrcd+rc+rar", "interleaved"),
    ],
)
def test_a_slice_lives_until_the_last_age_from_its_vmin_on(technique, schedule):
    """But for dies whose Vmin lies within half a millivolt: see docs/vmin.md."""
    given = {"techniques": [technique], "workload": WORKLOAD | {"schedule": schedule}}
    (vmin,) = vmin_of(**given)
    old = vmin[:, -1]
    tried = [round(float(volts), 4) for volts in np.quantile(old, (0.3, 0.7))]
    lives = lives_at(tried, **given)[:, 0]
    for volts, years in zip(tried, lives, strict=True):
        clear = np.abs(old - volts) > 5e-4
        assert clear.mean() > 0.7
        assert ((years < 10) == (old > volts))[clear].all(), volts


def test_vmin_rises_with_age_and_gating_slows_it():
    baseline, gated = vmin_of(techniques=["baseline", "rc+rar"], workload=SHORTER)
    assert (np.diff(baseline, axis=1) > 0).all()
    assert np.array_equal(baseline[:, 0], gated[:, 0])
    assert (gated[:, -1] < baseline[:, -1]).mean() > 0.9


@pytest.mark.slow
def test_the_age_of_the_target_is_that_until_which_slices_are_used():
    """Whatever ages follow; it is looked at though it is none of those that are named."""
    asked, alone = (
        vmin_of(techniques=["rrcd"], workload=SHORTER, vmin=given)[0]
        for given in ({"ages_years": [0, 1, 10], "years": 3}, {"ages_years": [0, 1, 3]})
    )
    assert asked.shape == (DIES, 4)
    assert np.array_equal(asked[:, :3], alone)
    assert (asked[:, 3] >= asked[:, 2]).all()


@pytest.mark.parametrize(
    ("technique", "environment"),
    [("rrcd", "undervolted"), slow("disable", "dvfs"), slow("rrcd+rc+rar", "dvfs")],
)
def test_a_slice_saves_at_a_vdd_what_it_saves_in_a_sweep(technique, environment):
    """Also below the Vdd at which nearly all slices work."""
    given = {"techniques": [technique], "environments": [environment], "workload": WORKLOAD}
    study = VminStudy(VminSpec.from_mapping({"instances": DIES} | given), ENGINE)
    arrays, vdds = study.compute(0, DIES), scale_of(study, "vdd")
    saved, old = arrays["energy_saving_nominal"][0], arrays["vmin_volts"][0, :, -1]
    assert np.array_equal(np.isfinite(saved), old[:, None] <= vdds)
    assert (vdds[0], vdds[-1]) == (0.38, 0.58)
    places = np.searchsorted(vdds, np.quantile(old, [0.15, 0.5, 0.8, 1.0])).tolist()
    some = [float(vdds[place]) for place in dict.fromkeys(places)]
    spec = SweepSpec.from_mapping({"instances": DIES, "vdd_volts": some} | given)
    of_sweep = Sweep(spec, ENGINE).compute(0, DIES)["energy_saving_nominal"]
    for place, expected in zip(dict.fromkeys(places), of_sweep, strict=True):
        works = old <= vdds[place]
        assert works.any()
        np.testing.assert_allclose(saved[works, place], expected[works], rtol=0, atol=1e-12)


def test_no_vdd_is_low_enough_once_the_delay_is_too_large():
    vmin = vmin_of(techniques=["baseline"], life={"delay_guardband": 0.02})[0]
    assert np.isfinite(vmin[:, 0]).all()
    assert np.isnan(vmin[:, -1]).all()


def test_the_lowest_vdd_that_is_tried_bounds_vmin():
    low, high, highest = (
        vmin_of(techniques=["rrcd"], workload=SHORTER, vmin={"lowest_volts": volts})[0]
        for volts in (0.395, 0.415, 0.8)
    )
    assert high.min() == 0.415
    assert np.array_equal(np.maximum(low, 0.415)[:, 0], high[:, 0])
    assert (highest == 0.8).all()  # where no cell is faulty at any time


@pytest.mark.slow
def test_slices_with_a_code_need_more_than_the_lowest_vdd_that_is_tried():
    """Nearly all of them; and in no scenario is that refused by default."""
    for scenario in ("clustered", "dispersed", "measured", "common"):
        fields = {"protections": ["secded32"], "scenarios": [scenario], "techniques": ["rrcd"]}
        fields |= {"instances": 8, "workload": WORKLOAD, "life": {"epochs": 1}}
        study = VminStudy(VminSpec.from_mapping(fields), ENGINE)
    new = study.compute(0, 8)["vmin_volts"][0, :, 0]
    assert (new > scale_of(study, "lowest_volts")).sum() > 6


@each(
    ("fields", "word"),
    [
        ({"vmin": {"ages_years": [3, 1]}}, "ages_years = [3.0, 1.0] must rise"),
        ({"vmin": {"ages_years": [0, 11]}}, "must lie within life.horizon_years = 10"),
        ({"vmin": {"years": 11}}, "vmin.years = 11.0 must lie within life.horizon_years = 10"),
        ({"vmin": {"lowest_volts": 0.2}}, "every entry of a slice would be faulty"),
        ({"vdd_volts": [0.4]}, "vdd_volts"),
        ({"faults": {"mode": "table"}}, "faults.mode = 'table' knows faults at one Vdd only"),
        ({"aging": {"nbti_spread_mv": 2.0}}, "aging.nbti_spread_mv = 2"),
        ({"aging": {"vmin_model": "margins"}}, "aging.vmin_model = 'margins'"),
    ],
)
def test_what_cannot_be_asked(fields, word):
    with pytest.raises(UserError) as refused:
        VminStudy(VminSpec.from_mapping({"workload": WORKLOAD} | fields), ENGINE)
    assert word in str(refused.value)
