"""The luck of transistors in a life: who is the worst, and which cells it makes faulty."""

from types import SimpleNamespace

import numpy as np
import pytest
from life_cases import rules
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import kstest, norm

from mcage.aging.delay_path import DelayPath, NbtiSpread
from mcage.aging.environment import environment
from mcage.aging.traps import TrapLaw
from mcage.lifetime.delay_end import DelayEndByLuck
from mcage.lifetime.luck import UNLUCKIEST, SliceLuck
from mcage.variation.fault_maps import NewSlices
from mcage.variation.vmin_tail import TailCells

SPREAD = NbtiSpread(TrapLaw(1e-3), DelayPath.of("worst", 65_536))


def all_scores(luck):
    """Scores of all transistors of each instance: float64[2, I, cells]."""
    count = len(luck.instances)
    owner = np.repeat(np.arange(count), luck.cells)
    return luck.scores(owner, np.tile(np.arange(luck.cells), count)).reshape(2, count, -1)


def test_scores_are_standard_normal_and_an_instance_has_its_own():
    luck = SliceLuck(3, np.array([5, 9]), 4000)
    scores = all_scores(luck)
    for instance in range(2):
        assert kstest(scores[:, instance].ravel(), norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(scores.reshape(4, -1)) - np.eye(4)).max() < 0.08
    alone = SliceLuck(3, np.array([9]), 4000)
    assert np.array_equal(all_scores(alone)[:, 0], scores[:, 1])
    # The unluckiest are those that are followed.
    beyond = (scores > luck.others_at_most[:, None]).sum(axis=(0, 2))
    assert beyond.tolist() == [UNLUCKIEST - 1] * 2
    unlucky = luck.scores(np.repeat([0, 1], UNLUCKIEST), luck.unlucky_cells.ravel())
    assert unlucky.max() == scores.max()


@pytest.mark.parametrize("least", [0.9, 0.5])
def test_worst_transistor_of_a_slice_is_that_of_all(least):
    """Against all transistors of slices whose mean shifts lie between a share of 60 mV and all."""
    cells, count = 65_536, 6
    luck = SliceLuck(4, np.arange(count), cells)
    means = 60e-3 * np.random.default_rng(1).uniform(least, 1, (2, count, cells))
    brute = SPREAD.traps.shift(means, all_scores(luck)).max(axis=2)

    followed = luck.unlucky_cells
    degradation = SimpleNamespace(
        sampled_dvth=lambda instances, _: np.take_along_axis(
            means[:, instances], followed[None, instances], 2
        ),
        worst_dvth=lambda instances, _: means[:, instances].max(axis=2),
    )
    owner = np.repeat(np.arange(count), UNLUCKIEST)
    of_batch = SimpleNamespace(
        unlucky=luck.scores(owner, followed.ravel()).reshape(2, count, -1),
        others_at_most=luck.others_at_most,
    )
    delay_end = DelayEndByLuck(None, SPREAD, of_batch)
    chosen = np.array([0, 2, 3, 5])
    worst = delay_end.worst_dvth(degradation, chosen, np.ones(4))
    if least == 0.9:
        assert np.array_equal(worst, brute[:, chosen])
    else:  # an upper bound, which few slices need
        assert (worst >= brute[:, chosen]).all()
        assert (worst == brute[:, chosen]).mean() > 0.5


def test_cells_that_bad_luck_makes_faulty():
    """As many as the law says among all cells, also of those that the mean shift would spare."""
    slices, sigma, spread = 40, 0.03, NbtiSpread(TrapLaw(1e-3), DelayPath.of("word", 524_288))
    given = rules(spread=spread, environment=environment("dvfs", 0.419), vmin_coefficient=0.8)
    largest, vdd = given._largest_dvth_volts, 0.419
    mu = vdd - 0.8 * largest - 0.1
    floor = given.floor_volts
    rng, parts = np.random.default_rng(7), []
    for _ in range(slices):
        count = rng.binomial(524_288, ndtr((mu - floor) / sigma))
        ranks = rng.uniform(0, ndtr((mu - floor) / sigma), count)
        cells = rng.choice(524_288, count, replace=False).astype(np.int32)
        parts.append((cells, mu - sigma * norm.ppf(ranks)))
    new = NewSlices.at(vdd, TailCells.join(parts))
    luck = SliceLuck(1, np.arange(slices), 524_288)
    kept, of_batch = luck.of_batch(given, None, new, np.zeros((slices, 1), dtype=np.int64))
    fails = of_batch.vmin_volts + 0.8 * largest > vdd
    assert np.array_equal(fails.any(axis=0), np.ones(len(kept.tail.cell), dtype=bool))

    def density(vmin):
        above = spread.traps.exceedance((vdd - vmin) / 0.8, largest)
        return norm.pdf(vmin, mu, sigma) * (1 - (1 - above) ** 2)

    expected = slices * 524_288 * quad(density, floor, vdd, points=[vdd - 0.8 * largest])[0]
    spared = norm.sf(vdd - 0.8 * largest, mu, sigma) - norm.sf(vdd, mu, sigma)
    assert expected > 1.3 * slices * 524_288 * spared
    assert len(kept.tail.cell) == pytest.approx(expected, abs=4 * np.sqrt(expected))
