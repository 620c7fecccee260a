"""Does the script that checks the intervals know the truth, and see an interval that fails?"""

import check_coverage as script
import fake_campaign
import numpy as np
import pytest

from mcage.campaign.run import run_campaign
from mcage.campaign.stopping import checkpoints
from mcage.campaign.study import Study
from mcage.stats.estimates import Estimate


def test_the_laws_of_life_are_what_they_say():
    draw = np.random.default_rng(1)
    dies = script.draw_dies(script.life_with_atoms, draw, 200_000)
    for years, rates in zip(dies.years, dies.spill_rate, strict=True):
        assert np.isnan(rates[years == 0]).all()
        assert not np.isnan(rates[years > 0]).any()
    years = dies.years[0]
    assert np.mean(years == 0) == pytest.approx(0.13, abs=0.004)
    assert np.mean(years == 2) == pytest.approx(0.125, abs=0.004)
    assert np.mean(years == 10) == pytest.approx(0.32, abs=0.005)
    assert np.mean(dies.years[1]) > np.mean(years)
    smooth = script.draw_dies(script.continuous_life, draw, 200_000).years[0]
    assert np.unique(smooth[smooth < 10]).size == np.count_nonzero(smooth < 10)
    assert script.continuous_life(np.array([0.5])) == pytest.approx(np.median(smooth), rel=0.02)


def test_an_interval_that_fails_is_seen(monkeypatch, capsys):
    draw = np.random.default_rng(2)

    def sweeps():
        return (script.draw_dies(script.continuous_life, draw, 60) for _ in range(40))

    truth = script.draw_dies(script.continuous_life, draw, 50_000)
    whole = script.ESTIMATORS["RMST up to the horizon"]

    def too_narrow(dies):
        estimate = whole(dies)
        half = (estimate.upper - estimate.lower) / 20
        return Estimate(estimate.value, estimate.value - half, estimate.value + half)

    monkeypatch.setattr(script, "ESTIMATORS", {"whole": whole, "too narrow": too_narrow})
    covered = script.check("a title", truth, sweeps())
    assert covered["whole"] > 0.8
    assert covered["too narrow"] < 0.5
    assert "a title, 40 sweeps" in capsys.readouterr().out


def test_a_file_is_cut_without_a_common_die(tmp_path):
    out = run_campaign(Study(fake_campaign.CAMPAIGN, fake_campaign.compute), tmp_path / "r.h5", 50)
    whole = script.dies_of_file(out)
    parts = list(whole.cut(30))
    assert len(parts) == 3
    together = np.concatenate([part.years[1] for part in parts])
    assert np.array_equal(together, whole.years[1][:90])


def test_sweeps_stop_where_the_precision_comes(capsys):
    draw = np.random.default_rng(3)
    dies = script.draw_dies(script.continuous_life, draw, 5000)
    of = script.PRECISIONS["spill rate"]
    stops = script.stops(of, dies)
    for rel_ci in script.REL_CI:
        stop = stops[rel_ci, ""]
        relative = {n: of(next(dies.cut(n))).relative for n in checkpoints(5000)}
        assert stop.reached
        assert stop.dies == min(n for n, precision in relative.items() if precision <= rel_ci)
        assert stop.precision.relative == relative[stop.dies]
    assert stops[0.1, ""].dies < stops[0.05, ""].dies < 5000
    assert not script.stops(script.PRECISIONS["B10 life"], dies)[0.05, ""].reached

    covered = script.check_stopped("a title", dies, iter([dies, dies]))
    assert len(covered) == len(script.PRECISIONS) * len(script.REL_CI)
    assert min(covered) == 1.0  # the truth is the sweep itself
    assert "a title, stopped" in capsys.readouterr().out


def test_the_rule_waits_where_the_interval_is_narrow_by_luck():
    """Beside an atom the interval alone stops earlier, the more often the less it encloses."""
    draw = np.random.default_rng(4)
    of = script.PRECISIONS["median life"]
    sweeps = [
        script.stops(of, script.draw_dies(script.life_with_atoms, draw, 25_000)) for _ in range(15)
    ]
    late = [stops[0.1, ""].dies > stops[0.1, "- by the interval alone"].dies for stops in sweeps]
    assert all(
        stops[0.1, ""].dies >= stops[0.1, "- by the interval alone"].dies for stops in sweeps
    )
    assert sum(late) > 5
