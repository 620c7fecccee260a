"""Slices drawn from other distributions, against their definitions and against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from rare_cases import distribution_of, fields
from scipy.stats import binom, kstest, multivariate_normal, norm

from mcage.geometry import GCN
from mcage.methods.rare_events.proposals import (
    Bumps,
    EntryProposal,
    FaultyFields,
    MixturePart,
    PairProposal,
    Proposal,
    SliceTilt,
    VminGaussian,
    draw_slices,
    faulty_entries,
    place_cells,
)
from mcage.methods.rare_events.search import climb
from mcage.variation.vmin_tail import expected_tail_cells

SIGMAS = 4.5
"""Standard errors that a mean may be off: one false alarm in 150,000 for each."""

NEEDED = np.arange(GCN.entries) < 200


def with_die():
    return VminGaussian(replace(distribution_of("common").scenario, sigma_die_volts=0.01))


def assert_mean(values, expected):
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - expected) <= SIGMAS * error + 1e-12 * abs(expected)


def test_faulty_entries_have_two_cells_by_convolution():
    distribution = distribution_of("clustered")
    nodes = fields(distribution, 3)
    entries = EntryProposal.of(distribution, nodes, 0.5)
    for instance, row in ((0, 0), (1, 17), (2, 31)):
        count = np.ones(1)
        for p in entries.above[instance, row]:
            count = np.convolve(count, binom.pmf(np.arange(129), 128, p))
        assert entries.faulty[instance, row] == pytest.approx(count[2:].sum(), rel=1e-9)


def test_two_cells_stay_exact_where_they_are_rare():
    distribution = distribution_of("dispersed")
    entries = EntryProposal.of(distribution, fields(distribution, 1), 1.0)
    p = norm.sf((1.0 - distribution.scenario.mu_volts) / distribution.random_volts)
    assert 1e-40 < p < 1e-19
    assert entries.faulty[0, 0] == pytest.approx(2048 * 2047 / 2 * p**2, rel=1e-9)


@pytest.mark.parametrize("log_odds", [0.0, 1.0])
def test_counts_follow_their_law_whatever_the_odds(log_odds):
    distribution = distribution_of("common")
    entries = EntryProposal.of(distribution, fields(distribution, 1), 0.45)
    generator = np.random.default_rng(1)
    counts = np.array([entries.draw(np.full(1, log_odds), [generator])[0] for _ in range(400)])
    faulty = counts.sum(axis=2) >= 2
    p = distribution.per_entry(entries.faulty[0])
    tilted = np.exp(log_odds) * p / (1 - p + np.exp(log_odds) * p)
    assert_mean(faulty.sum(axis=1), tilted.sum())
    # Weighted back, cells are as many in each column as without odds.
    log_weight = (np.log1p(np.expm1(log_odds) * p) - log_odds * faulty).sum(axis=1)
    weight = np.exp(log_weight)[:, None]
    expected = 128 * distribution.per_entry(entries.above[0]).sum(axis=0)
    for column, values in enumerate((weight * counts.sum(axis=1)).T):
        assert_mean(values, expected[column])


def test_counts_of_faulty_entries_follow_their_law():
    distribution = distribution_of("common")
    entries = EntryProposal.of(distribution, np.full((1, 32, 16), 0.2), 0.4)
    generator = np.random.default_rng(2)
    counts = np.concatenate([entries.draw(np.full(1, 60.0), [generator])[0] for _ in range(200)])
    assert (counts.sum(axis=1) >= 2).all()
    p = float(entries.above[0, 0, 0])
    total = np.arange(2, 12)
    expected = binom.pmf(total, 2048, p) / binom.sf(1, 2048, p)
    seen = (counts.sum(axis=1)[:, None] == total).mean(axis=0)
    error = np.sqrt(expected / len(counts))
    assert (np.abs(seen - expected) < SIGMAS * error + 1e-6).all()
    # Columns are alike.
    assert counts.mean(axis=0) == pytest.approx(np.full(16, counts.mean()), rel=0.05)


def test_cells_have_places_of_their_own_and_tails_of_the_normal_law():
    distribution = distribution_of("dispersed")
    nodes = fields(distribution, 1)[0]
    counts = np.zeros((256, 16), dtype=np.int64)
    counts[3, 5], counts[200, 0] = 128, 40
    level, floor = 0.42, 0.36
    cell, vmin = place_cells(distribution, nodes, counts, level, floor, np.random.default_rng(3))
    assert len(np.unique(cell)) == len(cell)
    assert (vmin > floor).all()
    above = vmin > level
    assert np.array_equal(np.bincount(cell[above] // 128, minlength=4096), counts.ravel())
    mu, sigma = distribution.scenario.mu_volts, distribution.random_volts
    tails = norm.sf((np.array([floor, level]) - mu) / sigma)
    uniform = norm.sf((vmin - mu) / sigma)
    assert kstest(uniform[above] / tails[1], "uniform").pvalue > 1e-4
    between = (uniform[~above] - tails[1]) / (tails[0] - tails[1])
    assert kstest(between, "uniform").pvalue > 1e-4
    expected = (GCN.cells - 168) * (tails[0] - tails[1]) / (1 - tails[1])
    assert abs((~above).sum() - expected) < SIGMAS * np.sqrt(expected)


def test_expected_pairs_by_two_normal_numbers():
    distribution = with_die()
    level = 0.41
    pairs = PairProposal(distribution, level, NEEDED)
    covariance = np.einsum("in,jn->ij", distribution.factor[:16], distribution.factor[:16])
    expected = 0.0
    for i in range(16):
        for j in range(i, 16):
            ways = 128 * 127 / 2 if i == j else 128 * 128
            matrix = np.full((2, 2), covariance[i, j])
            np.fill_diagonal(matrix, covariance[0, 0] + distribution.random_volts**2)
            both = multivariate_normal([0, 0], matrix).cdf(np.full(2, 0.1463 - level))
            expected += ways * both
    assert pairs.expected_pairs == pytest.approx(200 * expected, rel=1e-4)


def test_pairs_in_two_columns_may_have_the_same_bit():
    distribution, generator = with_die(), np.random.default_rng(1)
    pairs = PairProposal(distribution, 0.53, NEEDED)
    drawn = [pairs.draw(np.zeros(distribution.normals), generator)[1] for _ in range(5000)]
    column, bit = np.divmod(np.array(drawn) % 2048, 128)
    apart = column[:, 0] != column[:, 1]
    same = bit[:, 0] == bit[:, 1]
    assert not same[~apart].any()
    assert abs(same.sum() - apart.sum() / 128) < SIGMAS * np.sqrt(apart.sum() / 128)


def test_bumps_go_along_unit_vectors():
    for widths in ((0.1, 0.4), (np.inf, np.inf)):
        along = Bumps(distribution_of("common"), widths, 1.5, 0.7).directions
        np.testing.assert_allclose(np.linalg.norm(along, axis=1), 1.0)


@pytest.mark.slow
def test_pairs_are_drawn_from_the_law_weighted_with_their_number():
    distribution = with_die()
    level = 0.53
    pairs = PairProposal(distribution, level, NEEDED)
    only = Proposal(distribution, level, pairs, (MixturePart(1.0, of_cells=True),))
    dies = draw_slices(only, 1, "test", np.arange(800), level)
    number = pairs.count(dies.tail)
    assert (number >= 1).all()
    weights = only.weights(dies)
    assert weights == pytest.approx(pairs.expected_pairs / number)
    # Slices with exactly one pair are as frequent under the plain distribution as they are seen.
    plain = draw_slices(Proposal(distribution, level), 2, "test", np.arange(4000), level)
    once = np.where(number == 1, weights, 0.0)
    seen = pairs.count(plain.tail) == 1
    error = np.hypot(once.std() / np.sqrt(800), seen.std() / np.sqrt(4000))
    assert abs(once.mean() - seen.mean()) < SIGMAS * error


@pytest.mark.parametrize(
    ("scenario_name", "kind"),
    [
        ("common", "tilt"),
        ("dispersed", "pairs"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("common", "pairs"), ("clustered", "tilt"), ("dispersed", "tilt"))
        ),
    ],
)
def test_weights_bring_back_the_plain_law(scenario_name, kind):
    distribution = distribution_of(scenario_name)
    level = {"common": 0.47, "clustered": 0.55, "dispersed": 0.43}[scenario_name]
    fields_of = FaultyFields(distribution, level)
    bumps = (
        Bumps(distribution, (0.2, 0.4), 1.5, 0.7)
        if distribution.factor.any()
        else Bumps.none(distribution)
    )
    tilt, pairs = SliceTilt(fields_of, bumps, 8.0), PairProposal(distribution, level, NEEDED)
    cells = tilt if kind == "tilt" else pairs
    proposal = Proposal(
        distribution, level, cells, (MixturePart(0.4), MixturePart(0.3, of_cells=True))
    )
    floor = level - 0.01
    dies = draw_slices(proposal, 4, "test", np.arange(1500), floor)
    weights = proposal.weights(dies)
    assert weights.max() <= 1 / 0.7 * (1 + 1e-12)  # two parts draw plain cells
    assert_mean(weights, 1.0)
    assert_mean(
        weights * np.diff(dies.tail.offsets), expected_tail_cells(distribution.scenario, floor)
    )
    each = EntryProposal.of(distribution, distribution.node_volts(dies.normals), level).faulty
    assert_mean(weights * (faulty_entries(dies.tail, level) - 8 * each.sum(axis=1)), 0.0)
    assert_mean(weights * (dies.normals @ distribution.factor.sum(axis=0)), 0.0)


@pytest.mark.slow
def test_a_climb_ends_where_many_entries_are_faulty():
    distribution = distribution_of("clustered")
    level, target = 0.55, 40.0
    fields_of = FaultyFields(distribution, level)
    normals = climb(fields_of, target, 1)
    faulty = EntryProposal.of(distribution, distribution.node_volts(normals), level).faulty
    plain = EntryProposal.of(distribution, fields(distribution, 1000), level).faulty
    assert 8 * faulty.sum(axis=1).mean() > 30 > 10 > 8 * plain.sum(axis=1).mean()
    bumps = Bumps.like(distribution, normals, np.ones(len(normals)))
    assert bumps.height > 2
    assert max(bumps.widths) < 1


def test_odds_make_as_many_faulty_entries_as_asked_for():
    distribution = distribution_of("common")
    tilt = SliceTilt(FaultyFields(distribution, 0.47), Bumps.none(distribution), 30.0)
    proposal = Proposal(distribution, 0.47, tilt, (MixturePart(1.0, of_cells=True),))
    dies = draw_slices(proposal, 6, "test", np.arange(300), 0.47)
    assert faulty_entries(dies.tail, 0.47).mean() == pytest.approx(30, abs=1.5)
