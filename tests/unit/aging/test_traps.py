"""The law of shifts of transistors that are stressed alike: `mcage.aging.traps`."""

import re

import numpy as np
import pytest
from places import ROOT
from scipy.special import ndtri, pdtr

from mcage.aging import traps
from mcage.aging.delay_path import DelayPath, NbtiSpread
from mcage.aging.traps import LARGEST_SCORE, TrapLaw, scores_of
from mcage.errors import UserError

PAGE = (ROOT / "docs" / "aging.md").read_text()
MEANS_MV = (0.1, 0.5, 2.0, 12.0, 40.0, 66.7, 90.0)


@pytest.mark.parametrize("eta_mv", [0.5, 1.0, 2.0])
def test_both_directions_hold_the_exact_law(eta_mv):
    """Across the border of the table, for tails of 1e-14, and for a word of 32 cells."""
    assert TrapLaw(eta_mv / 1e3).of_mean(32) == TrapLaw(eta_mv / 32e3)
    compared = 0
    for eta in (eta_mv / 1e3, eta_mv / 32e3):
        law = TrapLaw(eta)
        for mean in np.array(MEANS_MV) / 1e3:
            for shift in mean * np.array([0.3, 0.8, 1.0, 1.1, 1.5, 2.5]):
                probability = law.exceedance(shift, mean)
                if 1e-14 < probability < 1 - 1e-9:
                    score = -ndtri(probability)
                    reached = float(law.mean_at(shift, score))
                    assert abs(reached - mean) < 2e-3 * eta, (mean, shift)
                    assert float(law.shift(reached, score)) == pytest.approx(shift, rel=1e-7)
                    compared += 1
    assert compared > 35


def test_lucky_transistors():
    """The bounds that the module states, down to one transistor in 1e15."""
    stated = re.search(
        r"within ([\d.]+) eta.*?within ([\d.]+) %\s+of the mean", traps.__doc__, re.S
    )
    of_eta, percent = map(float, stated.groups())
    law, worst = TrapLaw(1.0), 0.0
    for shift in np.geomspace(0.002, 60, 40):
        means = shift + np.geomspace(0.1, 60, 30) * np.sqrt(1 + shift)
        count = np.arange(400)
        below = traps._poisson(count, np.array(shift)) @ pdtr(count[:, None], means)
        scores = ndtri(below)
        seen = scores > -LARGEST_SCORE
        errors = np.abs(law.mean_at(shift, scores) - means)[seen]
        assert (errors <= np.maximum(of_eta, percent / 100 * means[seen])).all()
        worst = max(worst, errors.max())
    assert worst > 2 * of_eta, "the luckiest are further off"


def test_law_against_sums_of_single_traps():
    """P(shift <= x) by the exact sum and by drawing the traps of 200,000 transistors."""
    rng, mean, eta = np.random.default_rng(5), 12e-3, 2e-3
    count = rng.poisson(mean / eta, 200_000)
    drawn = rng.gamma(np.maximum(count, 1), eta) * (count > 0)
    shifts = TrapLaw(eta).shift(mean, scores_of(rng.random(200_000)))
    for share in (0.01, 0.3, 0.5, 0.9, 0.999):
        at = np.quantile(drawn, share)
        error = np.sqrt(share * (1 - share) / 200_000)
        assert TrapLaw(eta).exceedance(at, mean) == pytest.approx(1 - share, abs=4 * error)
        assert (shifts <= at).mean() == pytest.approx(share, abs=5 * error)
    assert (shifts == 0).mean() == pytest.approx(np.exp(-6), rel=0.15)


def test_mean_and_variance():
    """2 eta m within a percent, over 10^6 transistors."""
    ranks = np.random.default_rng(2).random(1_000_000)
    for mean, eta in ((12e-3, 0.5e-3), (66.7e-3, 1e-3), (66.7e-3, 2e-3)):
        shifts = TrapLaw(eta).shift(mean, scores_of(ranks))
        assert shifts.mean() == pytest.approx(mean, rel=2e-3)
        assert shifts.var() == pytest.approx(2 * eta * mean, rel=0.01)


def test_worst_of_many_transistors():
    """Medians of the worst of 131,072, and their distribution against drawing all of them."""
    for eta, median in ((0.5e-3, 107), (1e-3, 127), (2e-3, 157)):
        spread = NbtiSpread(TrapLaw(eta), DelayPath(131_072, 1))
        assert float(spread.restated(66.7e-3)) == pytest.approx(median * 1e-3, abs=0.5e-3)
    rng, count, repeats = np.random.default_rng(3), 4096, 300
    traps = rng.poisson(30.0, (repeats, count))
    brute = np.sort((rng.gamma(np.maximum(traps, 1), 1e-3) * (traps > 0)).max(axis=1))
    spread = NbtiSpread(TrapLaw(1e-3), DelayPath(count, 1))
    by_rank = spread.traps.shift(30e-3, spread.scores_of_worst(1 - rng.random(repeats)))
    both = np.sort(np.concatenate([brute, by_rank]))
    steps = [np.searchsorted(np.sort(each), both, "right") / repeats for each in (brute, by_rank)]
    assert np.abs(steps[0] - steps[1]).max() < 1.63 * np.sqrt(2 / repeats)  # Kolmogorov, 1 %


def test_a_shift_rises_with_the_mean_and_with_bad_luck():
    law = TrapLaw(1e-3)
    means, scores = np.geomspace(1e-6, 0.4, 300), np.linspace(-LARGEST_SCORE, LARGEST_SCORE, 301)
    shifts = law.shift(means[:, None], scores)
    assert (np.diff(shifts, axis=0) >= 0).all()
    assert (np.diff(shifts, axis=1) >= 0).all()
    # What selects the worst of many transistors.
    assert (np.sqrt(shifts) <= np.sqrt(means[:, None]) + scores * np.sqrt(0.5e-3))[shifts > 0].all()
    assert np.isinf(law.mean_at(np.inf, 0.0))
    assert law.mean_at(-1.0, 0.0) == law.shift(0.0, 5.0) == 0


def test_limits_of_the_page_are_those_of_a_whole_slice():
    """docs/aging.md: limits restated at eta 1 mV, and the means that an unchanged one allows."""
    mean_volts = 66.6872e-3
    for text, limit_mv in (("word", "74.9"), ("worst", "131.4")):
        spread = NbtiSpread(TrapLaw(1e-3), DelayPath.of(text, 524_288))
        assert f"{1e3 * float(spread.restated(mean_volts)):.1f}" == limit_mv
        assert f"| {limit_mv} mV |" in PAGE
    allowed = []
    for eta in (0.5e-3, 1e-3, 2e-3):
        spread = NbtiSpread(TrapLaw(eta), DelayPath.of("worst", 524_288))
        score = spread.scores_of_worst(np.array(0.5))
        allowed.append(f"{1e3 * float(spread.traps.mean_at(mean_volts, score)):.1f}")
    assert "mean shifts of {}, {} or {} mV only".format(*allowed) in PAGE


def test_paths():
    assert DelayPath.of("word", 524_288) == DelayPath(16_384, 32)
    assert DelayPath.of("worst", 1024) == DelayPath(1024, 1, each_transistor=True)
    assert DelayPath.of(" paths(20, 8)", 1024) == DelayPath(20, 8)
    for text in ("paths(0, 8)", "paths(8)", "best", "paths(1, 1e3)"):
        with pytest.raises(UserError, match=r"life.delay_path = .* must be worst, word, or"):
            DelayPath.of(text, 1024)
