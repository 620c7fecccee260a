"""Do survival statistics agree with lifelines, which other fields have used for years?"""

import warnings

import check_coverage as script
import numpy as np
import pytest
from tables import each

from mcage.stats.estimates import Estimate
from mcage.stats.fits import LogLives, fit_distributions, lognormal, maximum_likelihood, weibull
from mcage.stats.survival import cumulative_incidence, kaplan_meier

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lifelines


HORIZON = 10.0


def lives(count, seed, shape=1.7, scale=9.0, lost=False):
    """Lives cut at the horizon, and earlier if some get lost."""
    draw = np.random.default_rng(seed)
    years = scale * draw.weibull(shape, count)
    end = draw.uniform(2, 12, count) if lost else np.inf
    end = np.minimum(end, HORIZON)
    return np.minimum(years, end), years < end


@each(("count", "lost"), [(5, False), (80, True)])
def test_kaplan_meier(count, lost):
    years, died = lives(count, 1, lost=lost)
    years = np.ceil(years * 4) / 4  # ties
    curve = kaplan_meier(years, died)
    theirs = lifelines.KaplanMeierFitter().fit(years, died)
    at = theirs.survival_function_at_times(curve.years).to_numpy()
    np.testing.assert_allclose(curve.survival, at, atol=1e-12)
    band = theirs.confidence_interval_survival_function_.reindex(curve.years).to_numpy()
    inside = curve.survival > 0
    np.testing.assert_allclose(curve.lower[inside], band[inside, 0], atol=1e-9)
    np.testing.assert_allclose(curve.upper[inside], band[inside, 1], atol=1e-9)


@each(("seed", "lost"), [(2, False), (3, True)])
def test_aalen_johansen(seed, lost):
    years, died = lives(60, seed, lost=lost)
    cause = np.where(died, np.random.default_rng(seed).integers(1, 4, years.size), 0)
    for number in (1, 2, 3):
        theirs = lifelines.AalenJohansenFitter().fit(years, cause, event_of_interest=number)
        table = theirs.cumulative_density_.iloc[1:, 0]
        table = table[table.index < HORIZON]
        at = table.index.to_numpy()
        curve = cumulative_incidence(years, died, cause == number, at)
        np.testing.assert_allclose(curve.share, table.to_numpy(), atol=1e-12)
        variance = theirs.variance_.reindex(at).to_numpy()
        # The band is Wilson's for as many slices as a plain share needs for that variance.
        risen = curve.share > 0
        share = curve.share[risen]
        count = share * (1 - share) / variance[risen]
        z2 = 1.959963984540054**2
        for bound in (curve.lower[risen], curve.upper[risen]):
            np.testing.assert_allclose(
                (share - bound) ** 2, z2 * bound * (1 - bound) / count, rtol=1e-6
            )


@each("count", [30, 2000])
@each(
    ("distribution", "theirs", "names"),
    [
        (weibull, lifelines.WeibullFitter, ("rho_", "lambda_")),
        (lognormal, lifelines.LogNormalFitter, ("sigma_", "mu_")),
    ],
)
def test_laws(distribution, theirs, names, count):
    years, died = lives(count, 4)
    log_lives = LogLives(np.log(years)[None], died[None], np.log(HORIZON))
    mu, sigma = (float(values[0]) for values in maximum_likelihood(distribution(), log_lives))
    first, second = distribution().natural(mu, sigma)
    fitted = theirs().fit(years, died)
    expected = [getattr(fitted, name) for name in names]
    if distribution is lognormal:
        expected[1] = np.exp(expected[1])
    assert [first, second] == pytest.approx(expected, rel=2e-4)
    # Theirs stops early: ours is at least as likely.
    assert _log_likelihood(fitted, years, died, first, second) >= fitted.log_likelihood_ - 1e-9


def _log_likelihood(fitted, years, died, first, second):
    """Of our parameters, by their functions."""
    weibull_fit = isinstance(fitted, lifelines.WeibullFitter)
    parameters = (second if weibull_fit else np.log(second), first)
    hazard = fitted._log_hazard(parameters, years[died]).sum()
    return hazard - fitted._cumulative_hazard(parameters, years).sum()


@pytest.mark.slow
def test_intervals_of_many_lives_are_those_of_the_observed_information():
    """For 2,000 lives theirs, from the curvature of the likelihood, are as good."""
    years, died = lives(2000, 5)
    fit, _ = fit_distributions(years, died, HORIZON)
    table = lifelines.WeibullFitter().fit(years, died).summary
    for name, theirs in (("shape", "rho_"), ("scale_years", "lambda_")):
        lower, upper = table.loc[theirs, ["coef lower 95%", "coef upper 95%"]]
        slack = 0.1 * (upper - lower)
        assert fit.parameters[name].lower == pytest.approx(lower, abs=slack)
        assert fit.parameters[name].upper == pytest.approx(upper, abs=slack)


# Does the script that checks the intervals know the truth, and see an interval that fails?


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
