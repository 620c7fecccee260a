"""Constants of Vmin from counts of faulty bits: likelihoods, recovery, what counts can tell."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from tables import each

from mcage.errors import UserError
from mcage.variation.fitting import (
    AllTogether,
    EachArray,
    FaultCounts,
    SomeShares,
    TwoLevels,
    _bits_of_arrays,
    fit_vmin,
    observed,
    read_counts,
    shipped_counts,
)
from mcage.variation.scenarios import scenario

TRUTH = TwoLevels(0.394, 0.0186, 0.0326)
VOLTS = np.array([0.57, 0.55, 0.54, 0.53])


def drawn(arrays=300, bits=8192, levels=TRUTH, volts=VOLTS, seed=1):
    sizes = np.full(arrays, bits)
    counts = levels.draw(sizes, volts, np.random.default_rng(seed))
    return FaultCounts(
        name="drawn",
        volts=volts,
        faulty=counts.sum(axis=0),
        bits=int(sizes.sum()),
        arrays=arrays,
        faultless=(counts == 0).sum(axis=0),
        by_array=counts,
        array_bits=sizes,
    )


def totals_of(counts, known=True):
    faultless = counts.faultless if known else np.full(len(counts.volts), -1)
    return replace(counts, faultless=faultless, by_array=None, array_bits=None)


def inside(estimate, value):
    return estimate.lower <= value <= estimate.upper


def test_drawn_counts_are_nested_and_have_the_expected_mean_and_spread():
    counts = drawn(arrays=20_000)
    assert np.all(np.diff(counts.by_array, axis=1) >= 0)
    points, weights = TRUTH.rule(0.02)
    mean = 8192 * weights @ TRUTH.faulty(points, VOLTS)
    error = counts.by_array.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(counts.by_array.mean(axis=0) - mean) < 4.5 * error)
    single = stats.norm.sf((VOLTS - TRUTH.mu_volts) / TRUTH.total_volts)
    np.testing.assert_allclose(mean / 8192, single, rtol=1e-6)
    sound = weights @ (1 - TRUTH.faulty(points, VOLTS)) ** 8192
    assert np.all(np.abs(counts.faultless - 20_000 * sound) < 4.5 * np.sqrt(20_000 * sound) + 5)


def test_bits_whose_sum_alone_is_known_are_spread_evenly():
    sizes = _bits_of_arrays(replace(totals_of(drawn(arrays=7)), bits=100), split=True)
    assert sizes.tolist() == [15, 15, 14, 14, 14, 14, 14]


def test_the_likelihood_of_an_array_against_an_integral():
    rows = np.array([[0, 0, 1, 5], [0, 3, 30, 90], [0, 0, 0, 0], [0, 0, 0, 0]])
    bits = np.array([8192, 4096, 8192, 8192])
    data = EachArray.of(VOLTS, bits, rows)
    assert sorted(data.times.tolist()) == [1, 1, 2]

    z = np.linspace(-8, 8, 20_001)

    def of_array(counts, size):
        new = np.append(np.diff(counts, prepend=0), size - counts[-1])
        rising = np.diff(TRUTH.faulty(z, VOLTS), axis=1, prepend=0.0, append=1.0)
        given = (new * np.log(rising)).sum(axis=1) + stats.norm.logpdf(z)
        highest = given.max()
        return highest + np.log(trapezoid(np.exp(given - highest), z))

    by_hand = sum(of_array(*pair) for pair in zip(rows, bits, strict=True))
    assert data.log_likelihood(TRUTH) == pytest.approx(by_hand, rel=1e-6)


def test_the_likelihood_of_all_bits_is_multinomial():
    counts = totals_of(drawn(arrays=5))
    data = observed(counts)
    assert isinstance(data, AllTogether)
    new = np.diff(counts.faulty, prepend=0, append=counts.bits)
    found, by_hand = [], []
    for mu in (0.394, 0.4):
        shares = np.diff(stats.norm.sf((VOLTS - mu) / 0.0375), prepend=0.0, append=1.0)
        found.append(data.log_likelihood(TwoLevels(mu, 0.0, 0.0375)))
        by_hand.append(stats.multinomial.logpmf(new, counts.bits, shares))
    assert np.diff(found) == pytest.approx(np.diff(by_hand), rel=1e-6)


def test_shares_without_faults_against_distributions_of_scipy():
    """Arrays that do not differ: Poisson and binomial, up to what the data alone decide."""
    counts = totals_of(drawn())
    data = observed(counts)
    assert isinstance(data, SomeShares)
    new = np.diff(counts.faulty, prepend=0)
    found, by_hand = [], []
    for mu in (0.394, 0.3945):
        z = (VOLTS - mu) / 0.0375
        mean = 300 * 8192 * np.diff(stats.norm.sf(z), prepend=0.0)
        sound = stats.binom.logpmf(counts.faultless, 300, stats.norm.cdf(z) ** 8192)
        found.append(data.log_likelihood(TwoLevels(mu, 1e-7, 0.0375)))
        by_hand.append(stats.poisson.logpmf(new, mean).sum() + sound.sum())
    assert np.diff(found) == pytest.approx(np.diff(by_hand), rel=1e-3)


@each(
    ("counts", "exact"),
    [(drawn(arrays=150, seed=3), True), (totals_of(drawn(arrays=900)), False)],
)
def test_counts_give_back_the_constants(counts, exact):
    """Those of each array; and totals with shares of arrays without a fault."""
    fitted = fit_vmin(counts, samples=10)
    assert fitted.exact == exact
    for name, value in (("mu", 0.394), ("between", 0.0186), ("within", 0.0326)):
        assert inside(getattr(fitted, name), value)
    assert not exact or 0.002 < fitted.between.upper - fitted.between.lower < 0.02


def test_totals_tell_only_the_deviation_of_a_cell():
    even = drawn(levels=TwoLevels(0.394, 1e-9, 0.0375))
    fitted = fit_vmin(totals_of(even, known=False), samples=20)
    assert (fitted.between, fitted.within) == (None, None)
    assert inside(fitted.mu, 0.394)
    assert inside(fitted.total, 0.0375)
    assert np.isnan(fitted.predictions[0].faultless.value)
    assert fit_vmin(drawn(arrays=9), samples=3).between is None, "few arrays"


def test_a_fit_is_the_same_every_time_and_another_with_another_seed():
    counts = shipped_counts()
    first, again, other = (fit_vmin(counts, seed=seed, samples=5) for seed in (1, 1, 2))
    assert first == again
    assert first.mu.value == other.mu.value
    assert first.mu.lower != other.mu.lower


def test_scenario_measured_is_the_fit_of_the_shipped_counts():
    counts, this = shipped_counts(), scenario("measured")
    fitted = fit_vmin(counts, samples=10)
    constants = fitted.mu, fitted.between, fitted.within
    sigmas = this.sigma_systematic_volts, this.sigma_random_volts
    assert (this.mu_volts, *sigmas) == tuple(round(of.value, 4) for of in constants)
    for prediction, *of_volts in zip(
        fitted.predictions, counts.faulty, counts.faultless, strict=True
    ):
        faulty, faultless = of_volts
        assert inside(prediction.faulty, faulty)
        assert faultless < 0 or inside(prediction.faultless, faultless)
    # Of the same maps: the tenth of the arrays with most faults holds 82 % of them.
    drawn_counts = TRUTH.draw(np.full(890, 8192), np.array([0.53]), np.random.default_rng(1))
    tenth = np.sort(drawn_counts[:, 0])[-89:].sum() / drawn_counts.sum()
    assert 0.7 < tenth < 0.9


@pytest.mark.parametrize(
    "volts", [*(pytest.param(v, marks=pytest.mark.slow) for v in (0.59, 0.57)), 0.54]
)
def test_counts_that_were_left_out_lie_in_their_intervals(volts):
    """Without 0.53 V, nothing would tell arrays from cells: results/variation.md."""
    counts = shipped_counts()
    fitted = fit_vmin(counts, (volts,), samples=20)
    (place,) = np.flatnonzero(counts.volts == volts)
    assert [it.left_out for it in fitted.predictions] == (counts.volts == volts).tolist()
    assert inside(fitted.predictions[place].faulty, counts.faulty[place])
    assert fitted.predictions[place].faulty.lower > (0 if volts < 0.575 else -1)


def write(tmp_path, text):
    path = tmp_path / "counts.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_counts_of_arrays_in_any_order(tmp_path):
    text = "array,bits,faulty_bits,voltage\nb,64,3,0.5\na,64,0,0.6\nb,64,0,0.6\n# that is all\n"
    counts = read_counts(write(tmp_path, text + "\na,64,1,0.5\n"))
    assert counts.volts.tolist() == [0.6, 0.5]
    assert counts.faulty.tolist() == [0, 4]
    assert (counts.bits, counts.arrays, counts.mended) == (128, 2, 0)
    assert counts.faultless.tolist() == [2, 0]
    assert counts.by_array.tolist() == [[0, 3], [0, 1]]


def test_counts_that_fall_are_raised_and_counted(tmp_path):
    text = "voltage,faulty_bits,bits\n0.6,2,90\n0.5,7,90\n0.4,6,90\n"
    counts = read_counts(write(tmp_path, text))
    assert counts.faulty.tolist() == [2, 7, 7]
    assert counts.mended == 1


HEAD = "voltage,faulty_bits,bits,arrays,faultless_arrays\n"


OF_ARRAYS = "array,voltage,bits,faulty_bits"


@each(
    ("text", "message"),
    [
        ("", "column voltage is missing"),
        ("voltage,faulty_bits,bits,mood\n0.5,1,2,3\n", "unknown column 'mood'"),
        ("voltage,bits,bits,faulty_bits\n0.5,1,2,3\n", "line 1: the column 'bits' stands there"),
        (OF_ARRAYS + ",arrays\n", "there is no row in it"),
        (OF_ARRAYS + ",arrays\na,1,2,1,1\n", "with a column array, arrays are"),
        ("voltage,faulty_bits,bits,faultless_arrays\n0.5,1,9,1\n", "needs the number of arrays"),
        (OF_ARRAYS + "\n,0.5,9,1\n", "line 2: array is missing"),
        (HEAD + "0.5,1,9\n", "line 2: 3 values, but 5 columns"),
        (HEAD + "mean,1,9,2,\n", "line 2: voltage = 'mean' must be a number"),
        (HEAD + "nan,1,9,2,\n", "voltage = 'nan' must be a number, 0.001 ... 2"),
        (HEAD + "0.5,1.5,9,2,\n", "faulty_bits = '1.5' must be a whole number"),
        (HEAD + "0.5,10,9,2,\n", "faulty_bits = '10' must be a number, 0 ... 9"),
        (HEAD + "0.5,1,9,2,0\n", "faultless_arrays = '0' must be a number, 1 ... 2"),
        (HEAD + "0.5,1,9,2,2\n", "faultless_arrays = 2, but 1 faulty bits"),
        (HEAD + "0.5,1,9,2,1\n", "counts at two voltages or more"),
        (HEAD + "0.5,1,9,2,\n0.5,2,9,2,\n0.4,3,9,2,\n", "line 3: voltage = 0.5 stands there"),
        (HEAD + "0.5,1,9,2,\n0.4,2,8,2,\n", "line 3: bits = 8, but 9 at 0.5 V"),
        (HEAD + "0.5,1,9,2,\n0.4,1,9,2,\n", "1 faulty bits at all voltages"),
        (OF_ARRAYS + "\na,0.5,9,1\na,0.4,9,2\nb,0.5,9,1\n", "no row of array 'b' at 0.4 V"),
        ('voltage,faulty_bits,bits\n0.5,1,"9\n', "no CSV"),
    ],
)
def test_counts_that_cannot_be_meant(tmp_path, text, message):
    with pytest.raises(UserError, match=r"counts\.csv.*" + message.replace("...", r"\.\.\.")):
        read_counts(write(tmp_path, text))


def test_what_cannot_be_left_out():
    with pytest.raises(UserError, match=r"no counts at 0\.61 V"):
        fit_vmin(shipped_counts(), (0.61,))
    volts = tuple(shipped_counts().volts[1:].tolist())
    with pytest.raises(UserError, match="at two voltages or more, with different counts"):
        fit_vmin(shipped_counts(), volts)
