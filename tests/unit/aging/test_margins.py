"""Margins of a cell: coefficients, limits, and when a cell fails by them."""

import json

import numpy as np
import pytest
from places import ROOT

from mcage.aging.margins import KINDS, Margins, margins
from mcage.aging.nbti import facelift, nbti_model
from mcage.aging.nbti.model import Transistors
from mcage.aging.pbti import Pbti
from mcage.aging.traps import TrapLaw, scores_of
from mcage.aging.vmin import CellFailure
from mcage.errors import UserError

NAMES = ("margins", "margins-low", "margins-high")
LARGER_SHIFT = Margins(((1.0, 0.0, 0.0, 0.0),) * 3, (1.0, 0.0, 0.0))
"""Coefficients (1, 0): of each value, the transistor that it stresses, and nothing else."""


def test_margins_agree_with_the_simulations():
    """The table that ships has what the script derived: its reference, and the ends of its band."""
    derived = json.loads((ROOT / "scripts/spice/coefficients.json").read_text())
    rows = {kind: [r for r in derived["rows"] if r["margin"] == kind] for kind in KINDS}
    columns = {
        kind: np.array([list(row["coefficients"].values()) for row in rows[kind]]) for kind in KINDS
    }
    for name, of_band in zip(NAMES, (lambda c: c[0], np.min, np.max), strict=True):
        for kind, given in zip(KINDS, margins(name).coefficients, strict=True):
            band = columns[kind]
            expected = band[0] if name == "margins" else of_band(band, axis=0)
            np.testing.assert_allclose(given, expected, atol=0.0101)
    shares = np.array([rows[kind][0]["share_of_cells"] for kind in KINDS])
    np.testing.assert_allclose(margins("margins").shares, shares / shares.sum(), atol=0.005)
    # Up to 60 mV, a straight line is off by few mV where Vmin grows by more than 100.
    assert max(rows["read"][0]["linearity_error_mv"].values()) < 6


@pytest.mark.parametrize("name", NAMES)
def test_margins_move_as_they_must(name):
    read, write, hold = margins(name).coefficients
    # A weak pull-down or PMOS of the value that is read or held hurts; of the other value, helps.
    for t0, t1, n0, n1 in (read, hold):
        assert min(t0, n0) > 0 >= t1
        assert n1 < 0
    # A value is written against the transistors that the other value stresses: weak ones yield.
    assert max(write[1], write[3]) < 0 <= write[0]
    assert sum(margins(name).shares) == pytest.approx(1)


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
    rng = np.random.default_rng(2)
    vmin, shifts = rng.uniform(0.4, 0.5, 5000), rng.uniform(0, 0.05, (2, 5000))
    vdd = float(np.median(vmin + 0.7 * shifts.max(axis=0)))
    vmin[::3] = vdd - 0.7 * shifts.max(axis=0)[::3]  # by a last bit
    limits = np.full((6, 5000), -np.inf)
    limits[:2] = vmin
    plain = CellFailure(0.7, vdd).are_faulty(np.stack([vmin, vmin]), shifts)
    with_margins = CellFailure(0.7, vdd, LARGER_SHIFT).are_faulty(limits, shifts)
    assert np.array_equal(plain, with_margins)
    assert 1000 < plain.sum() < 4000


def test_traps_of_four_transistors_act_before_margins():
    traps, shifts = TrapLaw(2e-3), np.full((4, 3), 0.02)
    scores = scores_of(np.random.default_rng(3).uniform(size=(4, 3)))
    grown = margins("margins").growth(traps.shift(shifts, scores))[0]
    failure = CellFailure(1.0, 0.5, margins("margins"), traps)
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
