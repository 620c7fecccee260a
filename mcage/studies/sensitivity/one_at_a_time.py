"""One at a time: each parameter at the ends of its range, all others as the spec says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, Estimate, Floats, mean, proportion
from mcage.stats.paired import compare_means
from mcage.stats.survival import life_quantile
from mcage.studies.sensitivity.parameters import Choice, Parameter, Value
from mcage.studies.sensitivity.quantities import Quantity
from mcage.studies.sensitivity.study import SensitivityStudy

RESAMPLES = 2000
"""Bootstrap samples of a difference of medians."""


ROUNDING = 1e-9
"""Relative difference that rounding alone makes when an amplitude is fitted again."""


@dataclass(frozen=True)
class Effect:
    """Effect of a setting of a parameter.

    Parameters
    ----------
    setting : float or str
        Value of the parameter.
    value : Estimate
        The quantity under this setting; infinity for "after the horizon".
    difference : Estimate
        This value minus that of the nominal setting, on the same dies. Infinite, with its sign,
        where either value lies beyond the horizon; NaN where both do.
    least_difference : float
        The difference with lives counted up to the horizon.
    dies, pairs : int
        Dies that have the quantity under this setting, and those that have it under the nominal
        one, too: of the former is the value, of the latter the difference.
    """

    setting: Value
    value: Estimate
    difference: Estimate
    least_difference: float
    dies: int
    pairs: int


@dataclass(frozen=True)
class Bar:
    """A parameter and the effects of its settings: a bar of a tornado.

    Parameters
    ----------
    parameter : Parameter or Choice
        The parameter.
    effects : tuple of Effect
        An effect for each setting except the nominal one.
    """

    parameter: Parameter | Choice
    effects: tuple[Effect, ...]

    @property
    def size(self) -> float:
        """Span of the quantity over all settings, with lives counted up to the horizon."""
        ends = [0.0, *(effect.least_difference for effect in self.effects)]
        return max(ends) - min(ends)


@dataclass(frozen=True)
class OneAtATime:
    """Result of varying each parameter alone.

    Parameters
    ----------
    label, quantity, unit : str
        Label of the case; name and unit of the quantity.
    instances : int
        Number of dies.
    horizon_years : float
        End of the simulated time.
    refit : bool
        Whether amplitude and mu were fitted again.
    nominal : Estimate
        The quantity under the nominal setting, that of the spec.
    nominal_dies : int
        Dies that have the quantity under this setting.
    bars : tuple of Bar
        Bars, the largest first.
    """

    label: str
    quantity: str
    unit: str
    instances: int
    horizon_years: float
    refit: bool
    nominal: Estimate
    nominal_dies: int
    bars: tuple[Bar, ...]

    @property
    def leaves_out(self) -> bool:
        """Whether dies are left out somewhere, since they do not have the quantity."""
        effects = (effect for bar in self.bars for effect in bar.effects)
        return min(self.nominal_dies, *(effect.pairs for effect in effects)) < self.instances


def one_at_a_time(study: SensitivityStudy, parameters: Sequence[Parameter | Choice]) -> OneAtATime:
    """Vary each parameter alone.

    Parameters
    ----------
    study : SensitivityStudy
        The case, its dies and the quantity.
    parameters : sequence
        Parameters to vary.

    Raises
    ------
    UserError
        A setting is refused.

    Notes
    -----
    Differences are of the same dies under both settings. The interval of a difference of means is
    Student's; of medians, the percentiles of a bootstrap over dies (Efron and Tibshirani, 1993),
    which is not exact where many lives end at the same age.
    """
    study.check(parameters)
    settings = [(varied, value) for varied in parameters for value in varied.settings]
    nominal, *results = study.values([{}, *({varied.key: value} for varied, value in settings)])
    horizon = study.spec.life.horizon_years
    effects: dict[str, list[Effect]] = {varied.name: [] for varied in parameters}
    for (varied, value), dies in zip(settings, results, strict=True):
        effects[varied.name].append(_effect(study.quantity, value, dies, nominal, horizon))
    bars = [Bar(varied, tuple(effects[varied.name])) for varied in parameters]
    return OneAtATime(
        label=study.label,
        quantity=study.quantity.name,
        unit=study.quantity.unit,
        instances=study.spec.instances,
        horizon_years=horizon,
        refit=study.refit,
        nominal=summary(study.quantity, nominal),
        nominal_dies=_known(nominal),
        bars=tuple(sorted(bars, key=lambda bar: -bar.size)),
    )


def summary(quantity: Quantity, dies: Floats) -> Estimate:
    """Median, share or mean of the quantity over all dies, with its interval."""
    if quantity.is_median:
        died = np.isfinite(dies)
        return life_quantile(np.where(died, dies, np.inf), died)
    if quantity.is_share:
        share = proportion(int(np.count_nonzero(dies)), dies.size)
        return Estimate(100.0 * share.value, 100.0 * share.lower, 100.0 * share.upper)
    return mean(dies)


def _effect(
    quantity: Quantity, setting: Value, dies: Floats, nominal: Floats, horizon_years: float
) -> Effect:
    value = summary(quantity, dies)
    counts = _known(dies), _known(dies + nominal)
    if np.allclose(dies, nominal, rtol=ROUNDING, atol=0.0, equal_nan=True) and value.value < np.inf:
        return Effect(setting, value, Estimate(0.0, 0.0, 0.0), 0.0, *counts)
    if not quantity.is_median:
        difference = compare_means(dies, nominal).difference
        least = 0.0 if math.isnan(difference.value) else difference.value
        return Effect(setting, value, difference, least, *counts)
    before = summary(quantity, nominal).value
    least = min(value.value, horizon_years) - min(before, horizon_years)
    return Effect(setting, value, _difference_of_medians(dies, nominal), least, *counts)


def _known(dies: Floats) -> int:
    """Number of dies that have the quantity."""
    return int(np.count_nonzero(~np.isnan(dies)))


def _difference_of_medians(dies: Floats, nominal: Floats) -> Estimate:
    """Difference of the medians of paired lives; infinite lives end after the horizon."""
    count = dies.size
    drawn = stream(0, "sensitivity.medians", count).integers(count, size=(RESAMPLES, count))
    # Both beyond the horizon: their difference is not known.
    with np.errstate(invalid="ignore"):
        value = _median(dies[None])[0] - _median(nominal[None])[0]
        differences = _median(dies[drawn]) - _median(nominal[drawn])
    tail = (1.0 - CONFIDENCE) / 2.0
    # So few dies may all lie on the same side of the true median: there is no interval.
    if not math.isfinite(value) or 0.5**count > tail:
        return Estimate(float(value), math.nan, math.nan)
    ranked = np.sort(np.where(np.isnan(differences), np.inf, differences))
    lower, upper = (ranked[round(share * (RESAMPLES - 1))] for share in (tail, 1.0 - tail))
    if np.isnan(differences).mean() > tail:
        upper = math.nan
    return Estimate(float(value), float(lower), float(upper))


def _median(lives: Floats) -> Floats:
    """Lower median of each row, as that of `life_quantile`."""
    middle = (lives.shape[1] + 1) // 2 - 1
    medians: Floats = np.partition(lives, middle, axis=1)[:, middle]
    return medians
