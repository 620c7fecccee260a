"""Transistors that differ: shifts that scatter with the number of traps, and PBTI of pull-downs.

A transistor has a Poisson number of charged traps, and each of them shifts the threshold by an
exponentially distributed voltage with mean eta (Kaczer et al., IEEE EDL 2015,
10.1109/LED.2015.2404293). If m is the mean shift, which an NBTI model gives, there are m / eta
charged traps on average, and the variance of the shift is 2 eta m.

**A transistor keeps its luck for life.** Its shift is the quantile of this law at a rank that the
transistor keeps; it rises with the mean, and never falls while the mean rises. So the moment at
which a transistor reaches a given shift has the same distribution as if each trap were drawn once
and charged when the mean reaches it: that moment is later than t if and only if the shift at t lies
below. Lives therefore follow the law of single traps exactly. Only the shifts of a transistor at
two ages are tied closer: by a correlation of 1 instead of the root of the ratio of the two means.

**The law in numbers.** With L = m / eta traps on average and a = shift / eta: a sum of n
exponential numbers exceeds a if a Poisson number with mean a is below n. So a transistor shifts
further with the probability ``P(N > N')``, for independent Poisson numbers N and N' with means L
and a. Where a is large, the normal score of that probability is ``w + ln(a / L) / (4 w)`` with
``w = sqrt(2 a) - sqrt(2 L)``: the saddle-point formula of Lugannani and Rice (1980) as
Barndorff-Nielsen (1986) writes it, which has a closed form for this law. Elsewhere the exact sums
are tabulated. Both together give the mean of a shift and a score within 0.002 eta, or within 0.07 %
of the mean where this is more: for very lucky transistors, whose shifts are a small part of the
mean (`tests/unit/aging/test_cells.py`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtri, pdtr, pdtrc

from mcage.aging.nbti import (
    AdditiveModel,
    Facelift,
    NbtiModel,
    Rates,
    Transistors,
    nbti_model,
    with_constants,
)
from mcage.aging.sampling import Columns
from mcage.compiled import compiled
from mcage.errors import UserError

LARGEST_SCORE = 8.2
"""Scores end here: one transistor in 8e15 has a larger score."""

_TABLE_ROOT = 7.0
"""Largest tabulated root of a; the closed form begins there."""

_STEP = 0.05
"""Distance of the tabulated roots of a, and of the tabulated scores."""

_ROUNDS = 4
"""Rounds of fixed-point iterations, each of which leaves less than a hundredth of the error."""


def scores_of(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of transistors by their ranks.

    Parameters
    ----------
    ranks : float64[...]
        Share of the transistors that shift further when stressed alike, 0 ... 1: uniform numbers.

    Returns
    -------
    float64[...]
        Standard normal numbers up to `LARGEST_SCORE`: the larger, the unluckier.
    """
    scores: NDArray[np.float64] = np.clip(-ndtri(ranks), -LARGEST_SCORE, LARGEST_SCORE)
    return scores


@dataclass(frozen=True)
class TrapLaw:
    """The law of the shifts of transistors that are stressed alike.

    Parameters
    ----------
    eta_volts : float
        Mean shift by a charged trap, in volts, above 0.
    """

    eta_volts: float

    def of_mean(self, transistors: int) -> "TrapLaw":
        """Law of the mean shift of so many transistors: as of a transistor with as many traps."""
        return TrapLaw(self.eta_volts / transistors)

    def shift(self, mean_volts: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Shifts of transistors.

        Parameters
        ----------
        mean_volts, scores : array
            Mean shift of all transistors that are stressed like each, in volts, and the score of
            each; of shapes that broadcast against each other.

        Returns
        -------
        array
            Shifts in volts; 0 for a transistor without a charged trap.
        """
        return self._each(_shifts, mean_volts, scores)

    def mean_at(self, shift_volts: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Mean shifts at which transistors reach given shifts: the inverse of `shift`.

        Parameters
        ----------
        shift_volts, scores : array
            The shifts in volts, and the score of each transistor; of shapes that broadcast against
            each other.

        Returns
        -------
        array
            Means in volts; 0 where the shift is 0 or less, infinite where it is infinite.
        """
        return self._each(_means, shift_volts, scores)

    def _each(
        self, fill_in: Callable[..., None], volts: ArrayLike, scores: ArrayLike
    ) -> NDArray[np.float64]:
        values, score = np.broadcast_arrays(
            np.asarray(volts, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        )
        results = np.empty(values.size)
        arrays = values.flatten(), score.flatten()
        fill_in(*arrays, self.eta_volts, _roots_of_means(), results)
        return results.reshape(values.shape)


def _poisson(counts: NDArray[np.int64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of counts for Poisson numbers with such means."""
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(counts == 0, 0.0, counts * np.log(means))
    probability: NDArray[np.float64] = np.exp(powers - means - gammaln(counts + 1.0))
    return probability


@cache
def _roots_of_means() -> NDArray[np.float64]:
    """Roots of the mean number of traps, by root of a (rows) and score (columns); read-only."""
    rows = np.arange(0, _TABLE_ROOT + _STEP / 2, _STEP)
    columns = np.arange(-LARGEST_SCORE, LARGEST_SCORE + _STEP / 2, _STEP)
    tried = np.concatenate([np.geomspace(1e-9, 0.02, 200), np.arange(0.03, 16, 0.01)])
    count = np.arange(400)
    below = _poisson(count, rows[:, None] ** 2)
    above = below @ pdtrc(count, tried[:, None] ** 2).T
    under = below @ pdtr(count, tried[:, None] ** 2).T
    # Whichever probability is small is exact in all its digits.
    with np.errstate(divide="ignore"):
        scores = np.where(above < 0.5, -ndtri(above), ndtri(under))
    table = np.stack([np.interp(-columns, -of_row, tried) for of_row in scores])
    table.setflags(write=False)
    return table


@compiled
def _slope(first: float, second: float) -> float:
    """``ln(second / first) / (second - first)`` of positive numbers, also where they are equal."""
    distance = second - first
    if abs(distance) < 1e-5 * first:
        nearby: float = 1.0 / (first + 0.5 * distance)
        return nearby
    slope: float = np.log(second / first) / distance
    return slope


@compiled
def _closed(root: float, score: float) -> float:
    """Root of the mean by that of a, in the closed form."""
    result = root - score / np.sqrt(2.0)
    for _ in range(_ROUNDS):
        result = root - (score - _slope(max(result, 0.1), root) / np.sqrt(8.0)) / np.sqrt(2.0)
    return float(result)


@compiled
def _in_table(table: NDArray[np.float64], row: int, score: float) -> float:
    """Root of the mean in a row of the table."""
    place = (score + LARGEST_SCORE) / _STEP
    column = min(max(int(place), 0), table.shape[1] - 2)
    part = place - column
    root: float = table[row, column] * (1.0 - part) + table[row, column + 1] * part
    return root


@compiled
def _missing(table: NDArray[np.float64], score: float) -> float:
    """Error of the closed form at the border of the table; it fades as the root of a grows."""
    return _in_table(table, table.shape[0] - 1, score) - _closed(_TABLE_ROOT, score)


@compiled
def _faded(root: float) -> float:
    fading = _TABLE_ROOT / root
    return fading * fading * fading


@compiled
def _means(
    shifts: NDArray[np.float64],
    scores: NDArray[np.float64],
    eta: float,
    table: NDArray[np.float64],
    means: NDArray[np.float64],
) -> None:
    for each in range(len(shifts)):
        if shifts[each] <= 0.0:
            means[each] = 0.0
            continue
        if shifts[each] == np.inf:
            means[each] = np.inf
            continue
        root, score = np.sqrt(shifts[each] / eta), scores[each]
        if root < _TABLE_ROOT:
            place = root / _STEP
            row = min(int(place), table.shape[0] - 2)
            part = place - row
            lower, upper = _in_table(table, row, score), _in_table(table, row + 1, score)
            result = lower * (1.0 - part) + upper * part
        else:
            result = _closed(root, score) + _missing(table, score) * _faded(root)
        means[each] = eta * result * result


@compiled
def _shifts(
    means: NDArray[np.float64],
    scores: NDArray[np.float64],
    eta: float,
    table: NDArray[np.float64],
    shifts: NDArray[np.float64],
) -> None:
    last = table.shape[0] - 1
    for each in range(len(means)):
        root, score = np.sqrt(means[each] / eta), scores[each]
        if root < _in_table(table, 0, score):
            result = 0.0
        elif root < _in_table(table, last, score):
            low, high = 0, last
            while high - low > 1:
                middle = (low + high) // 2
                if _in_table(table, middle, score) <= root:
                    low = middle
                else:
                    high = middle
            lower, upper = _in_table(table, low, score), _in_table(table, high, score)
            result = _STEP * (low + (root - lower) / (upper - lower))
        else:
            missing = _missing(table, score)
            result = max(root + score / np.sqrt(2.0), _TABLE_ROOT)
            for _ in range(_ROUNDS):
                closed = root - missing * _faded(result)
                bent = score - _slope(closed, result) / np.sqrt(8.0)
                result = max(closed + bent / np.sqrt(2.0), _TABLE_ROOT)
        shifts[each] = eta * result * result


# PBTI: how far the two pull-down transistors of a cell shift.
#
# The bit that stresses a PMOS stresses the NMOS that holds the other node as well: '0' stresses T0
# and N0, '1' stresses T1 and N1. So N0 has the duty cycle of T0 and N1 that of T1, and any model
# of `mcage.aging.nbti` describes them, or the model of the PMOS times a factor.


@dataclass(frozen=True)
class Pbti:
    """The model of the pull-down transistors.

    Parameters
    ----------
    model : NbtiModel
        Its equations.
    factor : float
        Factor on every shift of the model.
    alike : bool
        Whether pull-downs have the model of the PMOS, and with it the constants in which instances
        differ; if not, only their temperatures and factors differ.
    """

    model: NbtiModel
    factor: float = 1.0
    alike: bool = False

    @classmethod
    def of(cls, pbti: float | str, nbti: NbtiModel) -> "Pbti | None":
        """Read the key ``aging.pbti`` of a spec.

        Parameters
        ----------
        pbti : float or str
            The ratio of a pull-down's shift to that of a PMOS under the same stress, or the name of
            a model; 0 for no PBTI.
        nbti : NbtiModel
            The model of the PMOS, for a ratio.

        Raises
        ------
        UserError
            As `nbti_model`.
        """
        if isinstance(pbti, str):
            return cls(nbti_model(pbti))
        return cls(nbti, pbti, alike=True) if pbti else None

    def transistors(self, pmos: Transistors) -> Transistors:
        """In what pull-downs differ from those of the model, given the PMOS of the instances."""
        vt0_volts = pmos.vt0_volts if self.alike else None
        factor = pmos.shift_factor * self.factor  # type: ignore[operator]
        return replace(pmos, vt0_volts=vt0_volts, shift_factor=factor)


# Threshold shifts of the transistors of many instances, where the total stress time decides.

LEAST_RECOVERY = 1e-12
"""Fraction of the age below which a recovery time is a rounding error and is taken as 0: the shift
of some models falls at once when recovery begins."""


class FaceliftRates(NamedTuple):
    """Arguments of the formula of `facelift`, of each instance or of all: float64[I] or [1].

    Attributes
    ----------
    stress, diffusion : float64[I]
        As `Rates`.
    activity, eta : float64[I]
        Fraction of the time in which cells hold values, and the share of recovery.
    """

    stress: NDArray[np.float64]
    diffusion: NDArray[np.float64]
    activity: NDArray[np.float64]
    eta: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AdditiveShift:
    """How the transistors of n instances shift; arrays [n], or a number for all instances.

    Parameters
    ----------
    nbti : AdditiveModel
        Model of the threshold shift.
    rates : Rates
        What a second in their environment does.
    activity : array
        Fraction of the time in which cells hold what is replayed; the rest of it they are off.
    of_model : mapping
        Constants of the model that differ, by name: float64[n] each.
    pull_downs : AdditiveShift, optional
        How their pull-down transistors shift; by default they do not.
    """

    nbti: AdditiveModel
    rates: Rates
    activity: NDArray[np.float64]
    of_model: Columns = field(default_factory=dict)
    pull_downs: "AdditiveShift | None" = None

    @cached_property
    def of_facelift(self) -> "FaceliftRates":
        """Arguments of the formula of `facelift`, if that is the model."""
        assert isinstance(self.nbti, Facelift)
        rates, eta = self.rates, self.of_model.get("eta", self.nbti.eta)
        columns = (rates.stress, rates.diffusion, self.activity, eta)
        return FaceliftRates(
            *(np.ascontiguousarray(v, dtype=np.float64).reshape(-1) for v in columns)
        )

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveShift":
        """The same for selected instances, also repeated."""
        arrays = (self.rates.stress, self.rates.diffusion, self.activity)
        pull_downs = self.pull_downs and self.pull_downs.of(which)
        alike = not self.of_model and not any(array.ndim for array in arrays)
        if alike and pull_downs is self.pull_downs:
            return self
        stress, diffusion, activity = [a[which] if a.ndim else a for a in arrays]
        of_model = {name: values[which] for name, values in self.of_model.items()}
        return AdditiveShift(self.nbti, Rates(stress, diffusion), activity, of_model, pull_downs)

    def dvth(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shifts in volts of transistors of n instances.

        Parameters
        ----------
        busy : float64[2, n, ...]
            Stress time in seconds, if the slice were busy all the time.
        age : float64[n, ...]
            Their age in seconds.
        """
        rates, activity, axes = self.rates, self.activity, busy.ndim - 2
        if axes:
            rates = Rates(_along(rates.stress, axes), _along(rates.diffusion, axes))
            activity = _along(activity, axes)
        stressed = busy if self.is_always_busy else activity * busy
        recovered = age - stressed
        recovered = np.where(recovered > LEAST_RECOVERY * age, recovered, 0.0)
        of_model = {name: _along(values, axes) for name, values in self.of_model.items()}
        nbti = cast(AdditiveModel, with_constants(self.nbti, of_model))
        return nbti.dvth_after(rates, stressed, recovered)

    def of_cells(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shifts in volts of all transistors of n cells that age; arguments as of `dvth`.

        Returns
        -------
        float64[2, n, ...] or float64[4, n, ...]
            T0 and T1, then N0 and N1 where these age.
        """
        dvth = self.dvth(busy, age)
        if self.pull_downs is None:
            return dvth
        return np.concatenate([dvth, self.pull_downs.dvth(busy, age)])

    @property
    def is_always_busy(self) -> bool:
        """Whether no instance is ever idle."""
        return not self.activity.ndim and float(self.activity) == 1.0


def _along(values: NDArray[np.float64], axes: int) -> NDArray[np.float64]:
    """Values of instances, or a number for all, against arrays with so many axes more."""
    return values.reshape(-1, *[1] * axes) if values.ndim else values


# Which transistors decide the delay of a slice, where transistors differ by their luck.
#
# A guardband that was published for the mean shift says nothing about a transistor with more traps
# than others, of which a slice has thousands. So the guardband is restated: it becomes what the
# worst path of half of the slices needs when all their transistors have reached the shift that
# uses up the published guardband. The median life of slices that are stressed alike throughout
# stays as published under each reading; what changes is how much slices differ, and what
# techniques gain that do not stress all transistors alike.

WORD_CELLS = 32
"""Cells of a word: a component of a register."""

FORMS = 'worst, word, or "paths(COUNT, CELLS)"'

_PATHS = re.compile(r"paths\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True)
class DelayPath:
    """How many paths a slice has, and the mean shift of how many cells delays each.

    Parameters
    ----------
    paths : int
        Number of paths.
    cells : int
        Cells of each path.
    each_transistor : bool
        Whether each transistor is a path and is stressed as it is. If not, all paths are taken to
        be stressed like the most stressed transistor of the slice: an upper bound of their delay.
    """

    paths: int
    cells: int
    each_transistor: bool = False

    @classmethod
    def of(cls, text: str, slice_cells: int) -> Self:
        """Read the key ``life.delay_path`` of a spec, for a slice of so many cells.

        Raises
        ------
        UserError
            The text is none of `FORMS`, or a number is out of its range.
        """
        if text == "worst":
            return cls(slice_cells, 1, each_transistor=True)
        if text == "word":
            return cls(slice_cells // WORD_CELLS, WORD_CELLS)
        match = _PATHS.fullmatch(text.strip())
        paths, cells = (int(number) for number in match.groups()) if match else (0, 0)
        if not (1 <= paths <= 10**9 and 1 <= cells <= 10**9):
            raise UserError(f"life.delay_path = {text!r} must be {FORMS}, with 1 ... 10^9 of each")
        return cls(paths, cells)


@dataclass(frozen=True)
class NbtiSpread:
    """How transistors differ that are stressed alike, and which of them decide the delay.

    Parameters
    ----------
    traps : TrapLaw
        The law of their shifts.
    path : DelayPath
        What a path is.
    """

    traps: TrapLaw
    path: DelayPath

    @property
    def of_path(self) -> TrapLaw:
        """The law of the shift of a path."""
        return self.traps.of_mean(self.path.cells)

    def restated(self, mean_volts: ArrayLike) -> NDArray[np.float64]:
        """Shift of the worst path of half of the slices, whose mean shifts are as given.

        Parameters
        ----------
        mean_volts : array
            Mean shift of all transistors of a slice, in volts.
        """
        return self.of_path.shift(mean_volts, self.scores_of_worst(np.array(0.5)))

    def scores_of_worst(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of the worst paths of slices, from a uniform number of each, 0 < number <= 1."""
        return scores_of(-np.expm1(np.log(uniform) / self.path.paths))
