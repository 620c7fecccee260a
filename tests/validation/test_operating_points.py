"""Sweeps in environments that a user defines: the same lives in other words, and die by die."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from environment_cases import points
from rare_cases import engine, spec_of
from sweep_cases import assert_same_arrays, joined, small_sweep

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.results.reader import open_results
from mcage.studies.rare_events.case import rare_case
from mcage.sweep.study import Sweep
from mcage.variation.vmin_tail import sample_tail


def swept(given_points, first=0, last=6, **fields):
    """Arrays of a sweep of two techniques in one environment of one's own."""
    given = {"techniques": ["baseline", "rrcd"], "environments": ["own"]} | fields
    return small_sweep(**given, operating_points={"own": given_points}).compute(first, last)


VARYING = points((0.9, "uniform(0.2, 0.6)", 10.0), ("scenario",))


def test_dvfs_in_other_words_is_dvfs():
    preset = small_sweep(techniques=["baseline", "rrcd"], environments=["dvfs"]).compute(0, 6)
    assert_same_arrays(swept(points((0.8, 0.5), ("scenario",))), preset)


@pytest.mark.parametrize("model", ["facelift", "bhardwaj"])
def test_each_instance_lives_as_if_all_had_its_share(model):
    given = {"aging": {"model": model}}
    arrays = swept(VARYING, **given)
    shares = arrays["operating_point_share"][0, :, 0]
    assert np.array_equal(arrays["operating_point_share"][1, :, 0], shares), "the same die"
    assert len(set(shares)) == 6
    for instance in (0, 3):
        alone = swept(points((0.9, float(shares[instance]), 10.0), ("scenario",)), **given)
        for name, array in arrays.items():
            axis = 1 if name not in ("workload", "dvth_histogram") else 0
            if name == "dvth_histogram" or array.ndim < 2:
                continue
            actual, expected = array.take(instance, axis), alone[name].take(instance, axis)
            assert actual == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), name
    assert np.isfinite(arrays["power_mw"][1]).all()


def test_batches_and_shards_do_not_matter(monkeypatch):
    sweep = small_sweep(
        techniques=["rrcd"], environments=["nominal", "own"], operating_points={"own": VARYING}
    )
    whole = sweep.compute(0, 9)
    monkeypatch.setattr(sweep.plan.engine, "batch", 2)
    assert_same_arrays(joined([sweep.compute(0, 5), sweep.compute(5, 9)]), whole)


def test_shares_stand_in_the_file(tmp_path):
    sweep = small_sweep(
        techniques=["rrcd"], environments=["nominal", "own"], operating_points={"own": VARYING}
    )
    campaign = replace(sweep.header, instances=4)
    path = run_campaign(Study(campaign, sweep.compute), tmp_path / "r.h5", 4)
    with open_results(path) as results:
        shares = results["operating_point_share"]
        assert shares.dims == ("case", "instance", "operating_point")
        nominal = shares.isel(case=0).values
        assert (nominal[:, 0] == 1).all()
        assert np.isnan(nominal[:, 1]).all()
        assert shares.isel(case=1).sum("operating_point").values == pytest.approx(1)
        assert (
            tomllib.loads(results.attrs["spec"])["operating_points"]["own"][0]["vdd_volts"] == 0.9
        )


def test_rare_deaths_under_points_of_ones_own():
    """The same deaths, die by die, as in a sweep."""
    fields = {"environments": ["own"], "operating_points": {"own": VARYING}}
    spec = spec_of("rrcd", vdd_volts=0.419, **fields)
    rare, ids = rare_case(spec, 10.0, engine()), np.arange(24)
    tail = sample_tail(rare.distribution.scenario, spec.seed, ids, rare.floor_volts)
    result = rare.cause(rare.lives.draw(spec.seed, ids), tail, rare.luck(spec.seed, ids))
    assert np.array_equal(result, Sweep(spec, engine()).compute(0, 24)["end_cause"][0])
    assert len(set(result.tolist())) > 1
