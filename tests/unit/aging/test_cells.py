"""Environments: the presets, and what is refused."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nbti_cases import exceedance, vectors
from places import ROOT
from scipy.special import ndtr, ndtri, pdtr
from scipy.stats import ks_2samp
from tables import each

from mcage.aging import transistors
from mcage.aging.environment import (
    PRESETS,
    Environment,
    OperatingPoint,
    delay_increase,
    dvth_at_delay,
    environment,
)
from mcage.aging.nbti import facelift, nbti_model
from mcage.aging.nbti.model import Transistors
from mcage.aging.transistors import LARGEST_SCORE, DelayPath, NbtiSpread, Pbti, TrapLaw, scores_of
from mcage.aging.vmin import KINDS_OF, CellFailure, Margins, aged_vmin, margins
from mcage.errors import UserError
from mcage.lifetime.degradation import crossing
from mcage.variation.scenarios import tables_of


@each(
    ("name", "points"),
    [
        ("turbo", [(1.0, 1.0)]),
        ("undervolted", [(0.419, 1.0)]),
        ("dvfs", [(0.8, 0.5), (0.419, 0.5)]),
    ],
)
def test_presets(name, points):
    """Faults are judged at the lowest and delay at the highest Vdd."""
    found = environment(name, 0.419)
    assert found.points == tuple(OperatingPoint(*of, 353.15) for of in points)
    assert (found.highest_vdd_volts, found.lowest_vdd_volts) == (points[0][0], points[-1][0])
    assert found == environment(name, 0.419) != environment(name, 0.419, 333.15)
    assert {of.temperature_kelvin for of in environment(name, 0.419, 333.15).points} == {333.15}
    assert list(PRESETS) == ["turbo", "undervolted", "dvfs"]


def of_shares(*shares):
    return Environment("mine", tuple(OperatingPoint(0.8, share, 353.15) for share in shares))


@each(
    ("made", "message"),
    [
        (lambda: environment("boost", 0.419), "'boost'.*turbo, undervolted, dvfs"),
        (lambda: environment("dvfs", 0.9), r"0\.9 V.*0\.8 V"),
        *((lambda name=name: environment(name, math.nan), "vdd_volts") for name in PRESETS),
        *((lambda v=v: environment("turbo", 1.0, v), "kelvin") for v in (80.0, 1000.0, math.nan)),
        *((lambda v=v: OperatingPoint(v, 1.0, 353.15), "vdd_volts") for v in (0.0, -0.4, 419.0)),
        *((lambda v=v: of_shares(v), "time_fraction") for v in (0.0, -0.5, 1.5, math.nan)),
        *((lambda v=v: of_shares(*v), "'mine'.*not to 1") for v in ((0.5, 0.4), (1.0, 1.0))),
        (of_shares, "at least one"),
    ],
)
def test_environments_that_cannot_be(made, message):
    with pytest.raises(UserError, match=message):
        made()


def test_shares_may_carry_rounding():
    Environment("mine", tuple(OperatingPoint(0.5 + 0.01 * i, 0.1, 353.15) for i in range(10)))


# Delay, Vmin growth and the crossing of limits.

TRANSISTOR = {"vdd_volts": 1.0, "vt0_volts": 0.3, "alpha": 1.3}


DELAYS = vectors("delay")


@each("row", DELAYS)
def test_vectors(row):
    inputs, percent = json.loads(row["inputs_json"]), float(row["value"])
    shift, *transistor = (inputs[key] for key in ("dVth_V", "Vdd", "Vt0", "alpha"))
    assert 100 * delay_increase(shift, *transistor) == pytest.approx(percent, rel=1e-5)
    assert dvth_at_delay(percent / 100, *transistor) == pytest.approx(shift, rel=1e-5)
    assert len(DELAYS) == 3


def test_published_delays_and_published_savings_belong_together():
    """Baseline, ARGO, RC+RAR of Valero et al., section 6.4: slower by 13.9, 8.7 and 6.0 %."""
    baseline, argo, rc_rar = (dvth_at_delay(x, **TRANSISTOR) for x in (0.139, 0.087, 0.060))
    assert 1 - argo / baseline == pytest.approx(0.348, abs=5e-4)
    assert 1 - rc_rar / baseline == pytest.approx(0.540, abs=5e-4)


def test_without_overdrive_a_transistor_does_not_switch():
    shifts = np.array([[0.69, 0.71], [1.0, 0.0]])
    assert np.isinf(delay_increase(shifts, **TRANSISTOR)).tolist() == [[False, True], [True, False]]
    assert delay_increase(0.25, 0.5, 0.25, 1.3) == math.inf
    for vdd_volts in (0.3, 0.2):
        assert delay_increase(0.0, vdd_volts, 0.3, 1.3) == math.inf
        assert dvth_at_delay(0.1, vdd_volts, 0.3, 1.3) == 0
    assert dvth_at_delay(math.inf, **TRANSISTOR) == 0.7


@given(st.floats(1e-6, 0.69))
def test_inverse(shift):
    increase = float(delay_increase(shift, **TRANSISTOR))
    assert dvth_at_delay(increase, **TRANSISTOR) == pytest.approx(shift, rel=1e-8)


@given(st.tuples(st.floats(0, 0.8), st.floats(0, 0.8)).map(sorted))
def test_delay_grows_with_the_shift(shifts):
    less, more = delay_increase(shifts, **TRANSISTOR)
    assert 0 <= less <= more


def test_each_transistor_may_have_a_threshold_of_its_own():
    shifts, vt0 = np.array([[0.01, 0.05]]), np.array([[0.28], [0.3], [0.35]])
    increases, limits = delay_increase(shifts, 1.0, vt0, 1.3), dvth_at_delay(0.1, 1.0, vt0, 1.3)
    for own, increase, limit in zip(vt0.ravel().tolist(), increases, limits, strict=True):
        alone = [float(delay_increase(shift, 1.0, own, 1.3)) for shift in shifts[0]]
        assert increase == pytest.approx(alone)
        assert limit == [dvth_at_delay(0.1, 1.0, own, 1.3)]
    assert dvth_at_delay(0.1, 0.3, np.array([0.3, 0.4]), 1.3).tolist() == [0, 0]


def test_vmin_grows_by_the_shift():
    vmin_volts = np.array([0.40, 0.45])
    assert aged_vmin(vmin_volts, [0.0, 0.02]) == pytest.approx([0.40, 0.47])
    assert aged_vmin(vmin_volts, [0.0, 0.02], coefficient=0.5) == pytest.approx([0.40, 0.46])


def crossing_of(function, lower, upper):
    """Crossing of one function of one number."""

    def of_arrays(x):
        return np.array([function(float(one)) for one in x])

    (found,) = crossing(of_arrays, np.array([lower]), np.array([upper]))
    return found


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=5))
@example([(0.0, 1.0), (1.0, 0.0)])
@example([(1e-5, 1e9), (0.3, 1.0), (1e200, 1e300), (5.0, 2.0)])
def test_crossings_of_lines_do_not_depend_on_what_is_solved_with_them(cases):
    """Some take many steps, some none; each must be left alone once it is found."""
    place, width = np.reshape(np.array(cases, dtype=float), (-1, 2)).T
    lower, upper = np.maximum(place - width, 0), place + width
    together = crossing(lambda x: x - place, lower, upper)
    assert (together >= place).all()
    assert together == pytest.approx(place, rel=2e-12, abs=1e-300)
    for one, found in enumerate(together.tolist()):
        assert found == crossing_of(lambda x, one=one: x - place[one], lower[one], upper[one])


def test_crossing_of_a_jump_is_where_the_limit_is_already_passed():
    found = crossing_of(lambda x: -1.0 if x < 3.0 else math.inf, 0.0, 10.0)
    assert 3.0 <= found <= 3.0 * (1 + 2e-12)
    assert crossing_of(lambda x: 1.0 if x > 0 else -1.0, 0.0, 1.0) < 1e-300


@each("function", [lambda x: x + 1, lambda x: x - 2, lambda x: math.nan])
def test_no_crossing_is_an_error(function):
    """Also if there are others."""

    def both(x):
        return np.array([x[0] - 0.5, function(float(x[1]))])

    with pytest.raises(ValueError, match=r"no crossing between 0\.0 and 1\.0"):
        crossing(both, np.zeros(2), np.array([2.0, 1.0]))


# Margins of a cell: coefficients, limits, and when a cell fails by them.

NAMES = ("margins", "margins-low", "margins-high")


DERIVED = json.loads((ROOT / "scripts/spice/coefficients.json").read_text())
CLOCKS = ("reference", "a tenth of the current", "half of the current")
"""Variants of the bench whose clock the tables of 8T cells have."""


@each("name", NAMES)
@each("cell", KINDS_OF)
def test_margins_agree_with_the_simulations(name, cell):
    """The tables that ship have what the script derived: its reference, and ends of its band."""
    table, ends = margins(name, cell), {"margins-low": np.min, "margins-high": np.max}
    rows = {
        kind: [row for row in DERIVED["rows"] if (row["cell"], row["margin"]) == (cell, kind)]
        for kind in table.kinds
    }
    for kind, coefficient in zip(table.kinds, table.coefficients, strict=True):
        port = kind == "access"  # R0 stands in the place of N0
        columns = ("T0", "T1", "R0" if port else "N0", "N1")
        band = np.array([[row["coefficients"][of] for of in columns] for row in rows[kind]])
        assert not port or np.count_nonzero(band) == len(band)
        expected = ends[name](band, axis=0) if name in ends else band[0]
        np.testing.assert_allclose(coefficient, expected, atol=0.0101 if cell == "6t" else 0.00501)
    if cell == "6t":
        shares = np.array([rows[kind][0]["share_of_cells"] for kind in table.kinds])
        np.testing.assert_allclose(margins("margins").shares, shares / shares.sum(), atol=0.005)
        # Up to 60 mV, a straight line is off by few mV where Vmin grows by more than 100.
        assert max(rows["read"][0]["linearity_error_mv"].values()) < 6
    else:
        clock = CLOCKS[NAMES.index(name)]
        (compared,) = (of for of in DERIVED["compared"] if of["variant"] == clock)
        np.testing.assert_allclose(table.shares, [*compared["shares"].values()], atol=0.00501)
        shift, ratio = tables_of("8t")[name]["manufactured"]["value"]
        assert 1e3 * shift == pytest.approx(compared["shift_mv"], abs=0.501)
        assert ratio == pytest.approx(compared["sigma_ratio"], abs=0.00501)


@each("name", NAMES)
def test_margins_move_as_they_must(name):
    read, write, hold = margins(name).coefficients
    # A weak pull-down or PMOS of the value that is read or held hurts; of the other value, helps.
    for t0, t1, n0, n1 in (read, hold):
        assert min(t0, n0) > 0 >= t1
        assert n1 < 0
    # A value is written against the transistors that the other value stresses: weak ones yield.
    assert max(write[1], write[3]) < 0 <= write[0]
    assert sum(margins(name).shares) == pytest.approx(1)


def test_scores_of_both_cells_follow_from_their_rows():
    """What is compared, worked out from the rows of the reference anew."""

    def score_and_sigma(cell):
        """From the cells that fail at a Vdd, for straight lines through the weak cells."""
        rows = [
            row
            for row in DERIVED["rows"]
            if (row["cell"], row["variant"]) == (cell, "reference")
            and row["margin"] in KINDS_OF[cell]
        ]
        beta, sigma = (np.array([row[key] for row in rows]) for key in ("beta", "sigma_mv"))
        values = [1 if row["margin"] == "access" else 2 for row in rows]
        millivolts = np.array([[0.0], [-0.1], [0.1]])
        at, low, high = -ndtri(ndtr(-beta - millivolts / sigma) @ values)
        return at, 0.2 / (high - low)

    (z6, sigma6), (z8, sigma8) = map(score_and_sigma, ("6t", "8t"))
    reference = DERIVED["compared"][0]
    assert reference["score"] == pytest.approx(z8, abs=0.002)
    assert reference["sigma_ratio"] == pytest.approx(sigma8 / sigma6, abs=0.002)
    assert reference["shift_mv"] == pytest.approx((z6 - z8) * sigma8, abs=0.1)


def test_an_8t_cell_is_read_through_a_single_port():
    table = margins("margins", "8t")
    rows = np.array(table.rows)
    assert table.kinds == KINDS_OF["8t"] == ("access", "write", "hold")
    assert np.array_equal(rows[0], rows[1])  # the same transistor, whatever limits the cell
    assert rows[0].tolist() == [0, 0, table.coefficients[0][2], 0]
    assert np.array_equal(rows[2::2][:, [1, 0, 3, 2]], rows[3::2])
    # NBTI alone slows no read, and makes writing easier.
    assert not table.growth(np.full((2, 5), 0.05))[:4].any()
    held = np.array([[0.05], [0.0], [0.03], [0.0]])
    assert table.growth(held)[0] == pytest.approx(0.03 * rows[0, 2])
    for name, message in (("larger", "is a rule for 6T"), ("best", "is unknown; choose from marg")):
        with pytest.raises(UserError, match=f"'{name}' {message}"):
            margins(name, "8t")


def test_the_margin_of_a_one_mirrors_that_of_a_zero():
    rows = np.array(margins("margins").rows)
    assert np.array_equal(rows[0::2][:, [1, 0, 3, 2]], rows[1::2])
    shifts = np.random.default_rng(1).uniform(0, 0.06, (4, 100))
    growth = margins("margins").growth(shifts)
    mirrored = margins("margins").growth(shifts[[1, 0, 3, 2]])
    np.testing.assert_allclose(growth[0::2], mirrored[1::2], atol=1e-15)
    assert growth.min() == 0
    np.testing.assert_allclose(growth, np.maximum(rows @ shifts, 0), rtol=1e-12, atol=1e-15)
    assert (margins("margins").largest_growth(shifts) >= growth).all()
    # Without shifts of N0 and N1, those count as zero.
    still = np.concatenate([shifts[:2], np.zeros((2, 100))])
    without = margins("margins").growth(shifts[:2])
    assert np.array_equal(without, margins("margins").growth(still))


def test_coefficients_1_and_0_are_the_larger_shift_to_the_bit():
    """Of each value, the transistor that it stresses, and nothing else."""
    rng = np.random.default_rng(2)
    vmin, shifts = rng.uniform(0.4, 0.5, 5000), rng.uniform(0, 0.05, (2, 5000))
    vdd = float(np.median(vmin + 0.7 * shifts.max(axis=0)))
    vmin[::3] = vdd - 0.7 * shifts.max(axis=0)[::3]  # by a last bit
    limits = np.full((6, 5000), -np.inf)
    limits[:2] = vmin
    larger = Margins(((1.0, 0.0, 0.0, 0.0),) * 3, (1.0, 0.0, 0.0))
    plain = CellFailure(0.7, vdd).are_faulty(np.stack([vmin, vmin]), shifts)
    assert np.array_equal(plain, CellFailure(0.7, vdd, larger).are_faulty(limits, shifts))
    assert 1000 < plain.sum() < 4000


def test_traps_of_four_transistors_act_before_margins():
    transistors, shifts = TrapLaw(2e-3), np.full((4, 3), 0.02)
    scores = scores_of(np.random.default_rng(3).uniform(size=(4, 3)))
    grown = margins("margins").growth(transistors.shift(shifts, scores))[0]
    failure = CellFailure(1.0, 0.5, margins("margins"), transistors)
    limits = np.full((6, 3), -np.inf)
    for slack, expected in ((1e-6, True), (-1e-6, False)):
        limits[0] = 0.5 - grown + slack
        assert failure.are_faulty(limits, shifts, scores).tolist() == [expected] * 3


def test_limits_are_drawn_by_their_shares():
    table = Margins(margins("margins").coefficients, (0.5, 0.3, 0.2))
    limits = table.limits_at(np.random.default_rng(4).uniform(size=100_000))
    shares = np.bincount(limits, minlength=6) / 100_000
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.15, 0.15, 0.1, 0.1], atol=0.006)


def test_pull_downs_follow_a_ratio_or_a_model():
    nbti, pmos = facelift(), Transistors(vt0_volts=0.31, shift_factor=np.array([1.0, 1.5]))
    assert Pbti.of(0.0, nbti) is None
    half, named = Pbti.of(0.5, nbti), Pbti.of("planar", nbti)
    assert half.model is nbti
    assert half.transistors(pmos).vt0_volts == 0.31
    assert half.transistors(pmos).shift_factor.tolist() == [0.5, 0.75]
    assert named.model == nbti_model("planar")
    assert named.transistors(pmos).vt0_volts is None
    with pytest.raises(UserError, match="unknown"):
        Pbti.of("none-such", nbti)
    with pytest.raises(UserError, match=r"aging\.vmin_model = 'best' is unknown"):
        margins("best")


# The law of shifts of transistors that are stressed alike: `mcage.aging.transistors`.

PAGE = (ROOT / "docs" / "aging.md").read_text()
MEANS_MV = (0.1, 0.5, 2.0, 12.0, 40.0, 66.7, 90.0)


@each("eta_mv", [0.5, 1.0, 2.0])
def test_both_directions_hold_the_exact_law(eta_mv):
    """Across the border of the table, for tails of 1e-14, and for a word of 32 cells."""
    assert TrapLaw(eta_mv / 1e3).of_mean(32) == TrapLaw(eta_mv / 32e3)
    compared = 0
    for eta in (eta_mv / 1e3, eta_mv / 32e3):
        law = TrapLaw(eta)
        assert law.shift(10 * eta, -4.2) == 0, "one in e^10 transistors has no trap"
        for mean in np.array(MEANS_MV) / 1e3:
            for shift in mean * np.array([0.3, 0.8, 1.0, 1.1, 1.5, 2.5]):
                probability = exceedance(law, shift, mean)
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
        r"within ([\d.]+) eta.*?within ([\d.]+) %\s+of the mean", transistors.__doc__, re.S
    )
    of_eta, percent = map(float, stated.groups())
    law, worst = TrapLaw(1.0), 0.0
    for shift in np.geomspace(0.002, 60, 40):
        means = shift + np.geomspace(0.1, 60, 30) * np.sqrt(1 + shift)
        count = np.arange(400)
        below = transistors._poisson(count, np.array(shift)) @ pdtr(count[:, None], means)
        scores = ndtri(below)
        seen = scores > -LARGEST_SCORE
        errors = np.abs(law.mean_at(shift, scores) - means)[seen]
        assert (errors <= np.maximum(of_eta, percent / 100 * means[seen])).all()
        worst = max(worst, errors.max())
    assert worst > 2 * of_eta, "the luckiest are further off"


def test_worst_of_many_transistors():
    """Their distribution against drawing all of them; medians are those of the page."""
    rng, count, repeats = np.random.default_rng(3), 4096, 300
    transistors = rng.poisson(30.0, (repeats, count))
    brute = (rng.gamma(np.maximum(transistors, 1), 1e-3) * (transistors > 0)).max(axis=1)
    spread = NbtiSpread(TrapLaw(1e-3), DelayPath(count, 1))
    by_rank = spread.traps.shift(30e-3, spread.scores_of_worst(1 - rng.random(repeats)))
    assert ks_2samp(brute, by_rank).pvalue > 0.01
    for eta, median in ((0.5e-3, 107), (1e-3, 127), (2e-3, 157)):
        spread = NbtiSpread(TrapLaw(eta), DelayPath(131_072, 1))
        assert float(spread.restated(66.7e-3)) == pytest.approx(median * 1e-3, abs=0.5e-3)


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
