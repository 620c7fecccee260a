"""Sobol' indices: the share of the variance that each parameter makes, alone and with others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mcage.errors import UserError
from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, Estimate, Floats
from mcage.studies.sensitivity.one_at_a_time import summary
from mcage.studies.sensitivity.parameters import Choice, Parameter
from mcage.studies.sensitivity.study import SensitivityStudy

RESAMPLES = 999
"""Bootstrap samples of the indices."""

VALUES_AT_ONCE = 2**18
"""Values of resampled designs that the bootstrap holds at a time: 2 MiB."""

MOST_SAMPLES = 2**16


@dataclass(frozen=True)
class Index:
    """Indices of one parameter.

    Parameters
    ----------
    parameter : Parameter
        The parameter.
    first_order : Estimate
        Share of the variance by which the variance would shrink, on average, if this parameter were
        known.
    total : Estimate
        Share of the variance that would be left, on average, if all other parameters were known.
    """

    parameter: Parameter
    first_order: Estimate
    total: Estimate


@dataclass(frozen=True)
class Sobol:
    """Indices of all parameters, the largest total first.

    Parameters
    ----------
    label, quantity, unit : str
        Label of the case; name and unit of the quantity.
    instances, samples, evaluations : int
        Numbers of dies, of points of each of the two designs, and of settings that were computed.
    horizon_years : float
        End of the simulated time.
    refit : bool
        Whether amplitude and mu were fitted again.
    mean, deviation, lowest, highest : float
        Mean and standard deviation of the quantity over the two designs; its least and its largest
        value over all settings.
    indices : tuple of Index
        Indices, the largest total first.
    """

    label: str
    quantity: str
    unit: str
    instances: int
    samples: int
    evaluations: int
    horizon_years: float
    refit: bool
    mean: float
    deviation: float
    lowest: float
    highest: float
    indices: tuple[Index, ...]


def check_samples(samples: int) -> None:
    """Refuse a number of points for which the design is not balanced.

    Raises
    ------
    UserError
        It is no power of two, or out of range.
    """
    if not (2 <= samples <= MOST_SAMPLES and samples.bit_count() == 1):
        raise UserError(f"samples = {samples}: a power of two is needed, 2 ... {MOST_SAMPLES}")


def sobol(study: SensitivityStudy, parameters: Sequence[Parameter | Choice], samples: int) -> Sobol:
    """Compute indices of parameters that are uniform and independent within their ranges.

    Parameters
    ----------
    study : SensitivityStudy
        The case, its dies and the quantity.
    parameters : sequence of Parameter
        Parameters to vary, two at least.
    samples : int
        A power of two; ``samples * (parameters + 2)`` settings are computed.

    Raises
    ------
    UserError
        A choice is among the parameters; ``samples`` is no power of two; a setting is refused; or
        the quantity lies beyond the horizon, or is missing, or does not vary.
    """
    check_samples(samples)
    ranges = [varied for varied in parameters if isinstance(varied, Parameter)]
    for varied in parameters:
        if isinstance(varied, Choice):
            raise UserError(f"{varied.name}: a choice has no Sobol' index; leave it out")
    if len(ranges) < 2:
        raise UserError("Sobol' indices compare parameters: two or more are needed")
    study.check(ranges)

    def evaluate(points: Floats) -> Floats:
        settings = [
            {varied.key: float(x) for varied, x in zip(ranges, point, strict=True)}
            for point in points
        ]
        return np.array(study.each(settings, lambda _, dies: _value(study, dies)))

    values = evaluated(evaluate, ranges, samples, study.spec.seed)
    first, total = indices(samples, values, study.spec.seed)
    order = np.argsort([-estimate.value for estimate in total], kind="stable")
    of_design = values[: 2 * samples]
    return Sobol(
        label=study.label,
        quantity=study.quantity.name,
        unit=study.quantity.unit,
        instances=study.spec.instances,
        samples=samples,
        evaluations=len(values),
        horizon_years=study.spec.life.horizon_years,
        refit=study.refit,
        mean=float(of_design.mean()),
        deviation=float(of_design.std()),
        lowest=float(values.min()),
        highest=float(values.max()),
        indices=tuple(Index(ranges[i], first[i], total[i]) for i in order),
    )


def _value(study: SensitivityStudy, dies: Floats) -> float:
    """The quantity over all dies; refused where it is not a number that describes all of them."""
    quantity = study.quantity
    value = summary(quantity, dies).value
    horizon = study.spec.life.horizon_years
    if np.isinf(value):
        raise UserError(
            f"{quantity.name} lies beyond the horizon of {horizon:g} years, and indices of lives "
            "cut there would be of the cut; give a longer --horizon, or ask for mean_life, which "
            "is defined up to the horizon"
        )
    if np.isnan(dies).any() and quantity.changes:
        raise UserError(
            f"{np.count_nonzero(np.isnan(dies))} of {dies.size} dies die before the horizon of "
            f"{horizon:g} years: {quantity.name} would be of the others only; give a shorter "
            "--horizon, or ask for mean_life"
        )
    if np.isnan(value):
        raise UserError(f"no die has a {quantity.name}")
    return value


def evaluated(
    function: Callable[[Floats], Floats],
    ranges: Sequence[Parameter],
    samples: int,
    seed: int,
) -> Floats:
    """Evaluate a function at the points of Saltelli's design.

    Parameters
    ----------
    function : callable
        From points, float64[n, parameters], to values, float64[n].
    ranges : sequence of Parameter
        Within which the points lie.
    samples : int
        A power of two.
    seed : int
        Seed of the random shift of the design.

    Returns
    -------
    float64[(parameters + 2) * samples]
        Values at A, at B, and at A with each column from B.

    Notes
    -----
    A and B are halves of the columns of a Sobol' sequence, shifted by random numbers modulo 1
    (Cranley and Patterson, 1976), so that no point is at the end of a range by design.
    """
    from scipy.stats import qmc

    count = len(ranges)
    sequence = qmc.Sobol(2 * count, scramble=False).random_base2(samples.bit_length() - 1)
    shift = stream(seed, "sensitivity.design", 0).random(2 * count)
    unit = (sequence + shift) % 1.0
    low, high = (np.array([getattr(varied, end) for varied in ranges]) for end in ("low", "high"))
    a, b = (low + (high - low) * half for half in (unit[:, :count], unit[:, count:]))
    mixed = np.repeat(a[None], count, axis=0)
    for column in range(count):
        mixed[column, :, column] = b[:, column]
    points = np.concatenate([a, b, *mixed])
    return function(points)


def indices(samples: int, values: Floats, seed: int) -> tuple[list[Estimate], list[Estimate]]:
    """Estimate first-order and total indices, with bootstrap intervals.

    Parameters
    ----------
    samples : int
        Points of A.
    values : float64[(parameters + 2) * samples]
        As `evaluated` returns them.
    seed : int
        Seed of the bootstrap.

    Raises
    ------
    UserError
        The values do not vary.

    Notes
    -----
    Estimators of Saltelli et al., Comput. Phys. Commun. 181 (2010), as `scipy.stats.sobol_indices`
    has them. Intervals are percentiles over resampled points: they express the uncertainty of the
    design, not that of the dies.
    """
    if np.ptp(values[: 2 * samples]) == 0.0:
        raise UserError(
            f"the quantity is {values[0]:g} whatever the parameters: nothing to explain"
        )
    designs = values.reshape(-1, 1, samples)
    best = _saltelli(designs)[:, 0]
    drawn = stream(seed, "sensitivity.bootstrap", 0).integers(samples, size=(RESAMPLES, samples))
    at_once = max(1, VALUES_AT_ONCE // values.size)
    resampled = np.concatenate(
        [
            _saltelli(designs[:, 0].take(drawn[first : first + at_once], axis=1))
            for first in range(0, RESAMPLES, at_once)
        ],
        axis=1,
    )
    tail = 100 * (1.0 - CONFIDENCE) / 2.0
    lower, upper = np.percentile(resampled, (tail, 100 - tail), axis=1)
    return (
        [Estimate(*map(float, three)) for three in zip(best[0], lower[0], upper[0], strict=True)],
        [Estimate(*map(float, three)) for three in zip(best[1], lower[1], upper[1], strict=True)],
    )


def _saltelli(designs: Floats) -> Floats:
    """First-order and total indices of designs, float64[2, designs, parameters].

    Parameters
    ----------
    designs : float64[parameters + 2, designs, samples]
        Values at A, at B, and at A with each column from B, of each design.
    """
    both = np.concatenate([designs[0], designs[1]], axis=1)
    designs = designs - both.mean(axis=1)[:, None]  # Sobol' and Levitan, 1999
    of_a, of_b, of_mixed = designs[0], designs[1], designs[2:]
    variance = np.concatenate([of_a, of_b], axis=1).var(axis=1)
    shares = np.stack(
        [
            np.mean(of_b * (of_mixed - of_a), axis=-1),
            0.5 * np.mean((of_a - of_mixed) ** 2, axis=-1),
        ]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        of_variance = (shares / variance).swapaxes(1, 2)
    return np.where(np.isfinite(of_variance), of_variance, 0.0)  # nothing varies: no share
