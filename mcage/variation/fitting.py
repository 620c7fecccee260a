"""The distribution of Vmin from counts of faulty bits at several voltages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, ndtr, ndtri

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.plain_text import shortened
from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, Estimate

# Counts of faulty bits at several voltages, as a user measures them: a CSV file, read and checked.
#
# The columns ``voltage``, ``faulty_bits`` and ``bits`` are needed. With a column ``array``, each
# row is about the array of that name; without, about all arrays together. Then ``arrays``, their
# number, and ``faultless_arrays``, how many of them have no faulty bit, may be given; the latter
# also for some of the voltages only.

MOST_BITS = 10**15
MOST_COUNTS = 1_000_000
MIN_VOLTS, MAX_VOLTS = 0.001, 2.0
NEEDED = ("voltage", "faulty_bits", "bits")
OPTIONAL = ("array", "arrays", "faultless_arrays")
UNKNOWN = -1
"""In place of a number of arrays without a fault that nobody counted."""


@dataclass(frozen=True, eq=False)
class FaultCounts:
    """Faulty bits of the same arrays at V falling voltages.

    Attributes
    ----------
    name : str
        Where they come from.
    volts : float64[V]
        Voltages, falling.
    faulty : int64[V]
        Faulty bits of all arrays together: of those that were faulty at a voltage before, none is
        missing.
    bits : int
        Bits of all arrays together.
    arrays : int
        Number of arrays; 0 if unknown.
    faultless : int64[V]
        Arrays without a faulty bit; -1 where unknown.
    by_array : int64[A, V] or None
        Faulty bits of each array.
    array_bits : int64[A] or None
        Bits of each array.
    mended : int
        Counts that were raised to the count at the voltage before.
    """

    name: str
    volts: NDArray[np.float64]
    faulty: NDArray[np.int64]
    bits: int
    arrays: int
    faultless: NDArray[np.int64]
    by_array: NDArray[np.int64] | None = None
    array_bits: NDArray[np.int64] | None = None
    mended: int = 0

    def at(self, kept: NDArray[np.bool_]) -> "FaultCounts":
        """Counts at selected voltages, bool[V]."""
        by_array = None if self.by_array is None else self.by_array[:, kept]
        return replace(
            self,
            volts=self.volts[kept],
            faulty=self.faulty[kept],
            faultless=self.faultless[kept],
            by_array=by_array,
        )


def shipped_counts() -> FaultCounts:
    """The public counts to which scenario ``measured`` is fitted."""
    name = "measured_counts.csv"
    return replace(read_counts(Path(str(files("mcage") / "data" / name))), name=name)


def read_counts(path: Path) -> FaultCounts:
    """Counts of a user's file.

    Raises
    ------
    UserError
        The file cannot be read, or a number in it cannot be meant; the message names the line.
    """
    counts: list[_Count] = []
    for row in read_table(path, NEEDED, MOST_COUNTS):
        if not counts:
            _check_columns(str(path), [*row.values])
        counts.append(_count(row))
    return _counts(str(path), counts)


@dataclass(frozen=True)
class _Count:
    """A line of the file; the optional numbers are -1 where there are none."""

    where: str
    volts: float
    faulty: int
    bits: int
    array: str
    arrays: int
    faultless: int


def _counts(name: str, rows: list[_Count]) -> FaultCounts:
    volts = np.array(sorted({row.volts for row in rows}, reverse=True))
    if len(volts) < 2:
        raise UserError(f"{name}: counts at two voltages or more are needed, not at {len(volts)}")
    arrays: dict[str, list[_Count]] = {}
    for row in rows:
        arrays.setdefault(row.array, []).append(row)
    parts = [_in_order(name, group, volts) for group in arrays.values()]
    faulty = np.array([[row.faulty for row in part] for part in parts], np.int64)
    bits = np.array([part[0].bits for part in parts], np.int64)
    raised = np.maximum.accumulate(faulty, axis=1)
    counts = FaultCounts(
        name=name,
        volts=volts,
        faulty=raised.sum(axis=0),
        bits=int(bits.sum()),
        arrays=max(parts[0][0].arrays, 0),
        faultless=np.array([row.faultless for row in parts[0]], np.int64),
        mended=int((raised != faulty).sum()),
    )
    if rows[0].array:
        faultless = (raised == 0).sum(axis=0)
        counts = replace(
            counts, arrays=len(parts), faultless=faultless, by_array=raised, array_bits=bits
        )
    if counts.faulty[-1] == counts.faulty[0]:
        raise UserError(
            f"{name}: {counts.faulty[0]} faulty bits at all voltages; the counts must rise as the "
            "voltage falls"
        )
    return counts


def _in_order(name: str, rows: list[_Count], volts: NDArray[np.float64]) -> list[_Count]:
    """Rows of an array by falling voltage; each voltage once, the other numbers always the same."""
    of = f" of array {shortened(rows[0].array)}" if rows[0].array else ""
    ordered = sorted(rows, key=lambda row: -row.volts)
    for before, row in pairwise(ordered):
        if before.volts == row.volts:
            raise UserError(f"{row.where}: voltage = {row.volts:g}{of} stands there twice")
        for key in ("bits", "arrays"):
            first, other = getattr(before, key), getattr(row, key)
            if first != other:
                raise UserError(
                    f"{row.where}: {key} = {other}{of}, but {first} at {before.volts:g} V; the "
                    "same bits must be counted at all voltages"
                )
    missing = set(volts.tolist()) - {row.volts for row in rows}
    if missing:
        raise UserError(f"{name}: no row{of} at {max(missing):g} V")
    return ordered


def _check_columns(source: str, columns: Sequence[str]) -> None:
    for key in columns:
        if key not in (*NEEDED, *OPTIONAL):
            raise UserError(
                f"{source}: unknown column {shortened(key)}; choose from "
                f"{', '.join((*NEEDED, *OPTIONAL))}"
            )
    if "array" in columns and len(columns) > len(NEEDED) + 1:
        raise UserError(f"{source}: with a column array, arrays are counted; leave out the others")
    if "faultless_arrays" in columns and "arrays" not in columns:
        raise UserError(f"{source}: column faultless_arrays needs the number of arrays: add arrays")


def _count(row: Row) -> _Count:
    volts = row.number("voltage", MIN_VOLTS, MAX_VOLTS)
    bits = row.integer("bits", 1, MOST_BITS)
    faulty = row.integer("faulty_bits", 0, bits)
    array = row.text("array") if "array" in row.values else ""
    arrays = row.integer("arrays", 1, bits) if "arrays" in row.values else UNKNOWN
    faultless = UNKNOWN
    if row.values.get("faultless_arrays"):
        faultless = row.integer("faultless_arrays", max(0, arrays - faulty), arrays)
        if faultless == arrays and faulty:
            raise UserError(
                f"{row.source}: faultless_arrays = {faultless}, but {faulty} faulty bits"
            )
    return _Count(row.source, volts, faulty, bits, array, arrays, faultless)


# Vmin that deviates from array to array, and inside an array from cell to cell.
#
# A cell of an array with the deviation s is faulty at a voltage V with probability Phi((mu + s -
# V) / within), independently of all others given s; s is normal with the deviation ``between``. A
# cell that is faulty at a voltage is faulty at all lower ones.

REACH = 8.0
"""Range of a deviation of arrays that is summed over, in standard deviations."""


@dataclass(frozen=True)
class TwoLevels:
    """The constants.

    Attributes
    ----------
    mu_volts, between_volts, within_volts : float
        Mean of Vmin, and its standard deviations between arrays and between the cells of an array.
    """

    mu_volts: float
    between_volts: float
    within_volts: float

    @property
    def total_volts(self) -> float:
        """Standard deviation of a cell."""
        return math.hypot(self.between_volts, self.within_volts)

    def faulty(
        self, deviations: NDArray[np.float64], volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Probability that a cell is faulty.

        Parameters
        ----------
        deviations : float64[n]
            Deviation of the array from mu, in standard deviations between arrays.
        volts : float64[V]
            Voltages.

        Returns
        -------
        float64[n, V]
        """
        shifted = self.mu_volts + self.between_volts * deviations[:, None]
        return np.asarray(ndtr((shifted - volts) / self.within_volts), np.float64)

    def rule(self, step: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points and weights of the trapezoid rule over the deviation of an array: float64[n]."""
        points = np.arange(-REACH, REACH + step / 2, step)
        weights = np.exp(-0.5 * points**2)
        return points, weights / weights.sum()

    def draw(
        self,
        bits: NDArray[np.int64],
        volts: NDArray[np.float64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Faulty bits of arrays of so many bits, int64[A], at falling voltages: int64[A, V]."""
        share = self.faulty(generator.standard_normal(len(bits)), volts)
        counts = np.zeros(share.shape, np.int64)
        so_far, before = np.zeros(len(bits), np.int64), np.zeros(len(bits))
        for place in range(len(volts)):
            rise = (share[:, place] - before) / np.maximum(1.0 - before, 1e-300)
            so_far = so_far + generator.binomial(bits - so_far, rise.clip(0.0, 1.0))
            counts[:, place], before = so_far, share[:, place]
        return counts


# How likely counts are: of each array, of all with some shares without a fault, of all together.
#
# The three are what a user may have. Faulty bits at a voltage are split into those that are new at
# it, since a cell stays faulty at lower voltages.

STEP = 0.1
"""Step over the deviation of arrays, in standard deviations, where counts are small."""

MOST_POINTS = 20_000
TINY = 1e-300


class Observed(Protocol):
    """Counts whose likelihood can be computed, and which can be drawn again."""

    def log_likelihood(self, levels: TwoLevels) -> float:
        """Logarithm of their likelihood, up to a constant."""

    def again(self, counts: NDArray[np.int64]) -> Self:
        """The same made of other counts of each array, int64[A, V]."""


@dataclass(frozen=True, eq=False)
class EachArray:
    """Counts of each array: the exact likelihood.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    bits : int64[A]
        Bits of each array.
    new : float64[K, V + 1]
        The K different rows: new faulty bits at each voltage, and bits that never fail.
    times : int64[K]
        Arrays with each row.
    """

    volts: NDArray[np.float64]
    bits: NDArray[np.int64]
    new: NDArray[np.float64]
    times: NDArray[np.int64]

    @classmethod
    def of(
        cls, volts: NDArray[np.float64], bits: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Self:
        """Count what is new of int64[A, V]."""
        new = np.diff(counts, axis=1, prepend=0)
        rows, times = np.unique(
            np.column_stack([new, bits - counts[:, -1]]), axis=0, return_counts=True
        )
        return cls(volts, bits, rows.astype(np.float64), times)

    def again(self, counts: NDArray[np.int64]) -> Self:
        """See `Observed`."""
        return self.of(self.volts, self.bits, counts)

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`: a multinomial number, averaged over the deviation of the array."""
        # Given many faults, the deviation of an array is known well: the rule has to be fine.
        most = np.sqrt(1.0 + self.new[:, :-1].sum(axis=1).max())
        width = levels.within_volts / (4.0 * most * levels.between_volts)
        points, weights = levels.rule(float(np.clip(0.5 * width, 16.0 / MOST_POINTS, STEP)))
        faulty = levels.faulty(points, self.volts)
        rising = np.diff(faulty, axis=1, prepend=0.0, append=1.0)
        log_share = np.log(np.maximum(rising, TINY))
        joint = np.einsum("kv,nv->kn", self.new, log_share) + np.log(np.maximum(weights, TINY))
        highest = joint.max(axis=1)
        each = highest + np.log(np.exp(joint - highest[:, None]).sum(axis=1))
        return float((self.times * each).sum())


@dataclass(frozen=True, eq=False)
class SomeShares:
    """Counts of all arrays together, and how many arrays have no fault: a composite likelihood.

    New faults at each voltage count as a negative binomial number with the mean and the variance
    that the arrays give it, arrays without a fault as a binomial one, all as if independent. They
    are not, so that intervals cannot be read off this likelihood.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    arrays, bits : int
        Number of arrays, and bits of each.
    new : float64[V]
        New faulty bits of all arrays.
    known : bool[V]
        Where the arrays without a fault were counted.
    faultless : float64[V]
        Arrays without a fault.
    """

    volts: NDArray[np.float64]
    arrays: int
    bits: float
    new: NDArray[np.float64]
    known: NDArray[np.bool_]
    faultless: NDArray[np.float64]

    def again(self, counts: NDArray[np.int64]) -> "SomeShares":
        """See `Observed`."""
        new = np.diff(counts.sum(axis=0), prepend=0).astype(np.float64)
        faultless = (counts == 0).sum(axis=0).astype(np.float64)
        return SomeShares(self.volts, self.arrays, self.bits, new, self.known, faultless)

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`."""
        points, weights = levels.rule(STEP)
        faulty = levels.faulty(points, self.volts)
        rising = np.diff(faulty, axis=1, prepend=0.0)
        mean = weights @ rising
        spread = np.maximum(weights @ rising**2 - mean**2, 0.0)
        expected = np.maximum(self.arrays * self.bits * mean, TINY)
        # Beyond that of independent bits; 0 would be a Poisson number.
        excess = np.maximum(self.arrays * self.bits**2 * spread, 1e-9 * expected**2)
        shape = expected**2 / excess
        likelihood = (
            gammaln(self.new + shape)
            - gammaln(shape)
            + shape * np.log(shape / (shape + expected))
            + self.new * np.log(expected / (shape + expected))
        ).sum()
        sound = weights @ np.exp(self.bits * np.log1p(-np.minimum(faulty, 1 - 1e-12)))
        sound = sound[self.known].clip(TINY, 1 - 1e-15)
        without = self.faultless[self.known]
        likelihood += (without * np.log(sound)).sum()
        likelihood += ((self.arrays - without) * np.log1p(-sound)).sum()
        return float(likelihood)


@dataclass(frozen=True, eq=False)
class AllTogether:
    """Counts of all bits together, which are taken as independent.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    new : float64[V + 1]
        New faulty bits, and bits that never fail.
    """

    volts: NDArray[np.float64]
    new: NDArray[np.float64]

    def again(self, counts: NDArray[np.int64]) -> "AllTogether":
        """See `Observed`."""
        total = counts.sum(axis=0)
        new = np.diff(total, prepend=0, append=int(self.new.sum()))
        return AllTogether(self.volts, new.astype(np.float64))

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`: a multinomial number."""
        faulty = levels.faulty(np.zeros(1), self.volts)[0]
        rising = np.diff(faulty, prepend=0.0, append=1.0)
        return float((self.new * np.log(np.maximum(rising, TINY))).sum())


LEAST_ARRAYS = 10
"""Number of arrays below which no deviation between them is fitted."""


def observed(counts: FaultCounts) -> Observed:
    """The most informative form of the counts."""
    enough = counts.arrays >= LEAST_ARRAYS
    if enough and counts.by_array is not None and counts.array_bits is not None:
        return EachArray.of(counts.volts, counts.array_bits, counts.by_array)
    new = np.diff(counts.faulty, prepend=0).astype(np.float64)
    known = counts.faultless >= 0
    if enough and known.any():
        bits, faultless = counts.bits / counts.arrays, counts.faultless.astype(np.float64)
        return SomeShares(counts.volts, counts.arrays, bits, new, known, faultless)
    return AllTogether(counts.volts, np.append(new, counts.bits - new.sum()))


# The constants of Vmin that make counts most likely, and what follows for other voltages.

SAMPLES = 200
"""Samples of the parametric bootstrap."""

DRAWS = 5
"""Counts that are drawn with the constants of each sample."""

STEPS = np.array([0.1, 0.05, 0.3])
"""First steps of the search: of the lowest voltage's distance, of log total and of log ratio."""

LEAST_RATIO, LARGEST_RATIO = 0.02, 20.0
"""Range of the deviation between arrays over that within."""

PRECISION = 1e-3


@dataclass(frozen=True)
class Prediction:
    """Effect of the fitted constants at a voltage.

    Attributes
    ----------
    volts : float
        The voltage.
    left_out : bool
        Whether the fit did not use the counts there.
    faulty, faultless : Estimate
        Faulty bits of as many arrays, and arrays without one, with 95 % intervals of a new count:
        they hold the uncertainty of the constants, too. Of ``faultless``, NaN if no deviation
        between arrays is fitted.
    """

    volts: float
    left_out: bool
    faulty: Estimate
    faultless: Estimate


@dataclass(frozen=True)
class FittedVmin:
    """Fitted constants with 95 % intervals, and predictions.

    Attributes
    ----------
    mu, total : Estimate
        Mean of Vmin and its standard deviation from cell to cell, in volts.
    between, within : Estimate or None
        Standard deviations between arrays and inside an array, in volts; None if the counts do not
        tell them apart.
    exact : bool
        Whether the likelihood is exact; if not, it is a composite one.
    predictions : tuple of Prediction
        For each voltage, in the order of the counts.
    """

    mu: Estimate
    total: Estimate
    between: Estimate | None
    within: Estimate | None
    exact: bool
    predictions: tuple[Prediction, ...]


def fit_vmin(
    counts: FaultCounts,
    left_out: tuple[float, ...] = (),
    *,
    seed: int = 1,
    samples: int = SAMPLES,
) -> FittedVmin:
    """Fit the distribution of Vmin to counts of faulty bits.

    Parameters
    ----------
    counts : FaultCounts
        The counts. With those of each array, or with a share of arrays without a fault, the
        deviation between arrays is fitted beside that within; otherwise only both together.
    left_out : tuple of float
        Voltages that the fit does not use, but predicts.
    seed : int
        Seed of the bootstrap.
    samples : int
        Samples of the bootstrap.

    Returns
    -------
    FittedVmin
        Intervals are percentiles of a parametric bootstrap: counts are drawn with the fitted
        constants, array by array, and fitted again.

    Raises
    ------
    UserError
        A voltage that is left out has no counts, or too few counts are left.

    Notes
    -----
    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13. Composite
    likelihood: Varin, Reid and Firth, Statistica Sinica 21 (2011).
    """
    kept = _kept(counts, left_out)
    used = counts.at(kept)
    data = observed(used)
    start = _start(used)
    split = not isinstance(data, AllTogether)
    best = _most_likely(data, start if split else start[:2], used.volts[-1])
    bits = _bits_of_arrays(counts, split)
    refitted, faulty, faultless = [], [], []
    for number in range(samples):
        generator = stream(seed, "faults.fit", number)
        again = data.again(best.draw(bits, used.volts, generator))
        levels = _most_likely(again, _numbers(best, used.volts[-1], split), used.volts[-1])
        refitted.append(levels)
        for _ in range(DRAWS):
            drawn = levels.draw(bits, counts.volts, generator)
            faulty.append(drawn.sum(axis=0))
            faultless.append((drawn == 0).sum(axis=0))
    expected = _expected(best, counts.volts, bits)
    predictions = tuple(
        Prediction(
            float(counts.volts[place]),
            not kept[place],
            _interval(expected[0][place], np.array(faulty)[:, place]),
            _interval(expected[1][place], np.array(faultless)[:, place])
            if split
            else Estimate(np.nan, np.nan, np.nan),
        )
        for place in range(len(counts.volts))
    )

    def estimated(name: str) -> Estimate:
        of_samples = np.array([getattr(levels, name) for levels in refitted])
        return _interval(getattr(best, name), of_samples)

    return FittedVmin(
        estimated("mu_volts"),
        estimated("total_volts"),
        estimated("between_volts") if split else None,
        estimated("within_volts") if split else None,
        isinstance(data, EachArray | AllTogether),
        predictions,
    )


def _kept(counts: FaultCounts, left_out: tuple[float, ...]) -> NDArray[np.bool_]:
    """Voltages that the fit uses, bool[V]."""
    near = np.array([np.abs(counts.volts - volts) < 1e-9 for volts in left_out], bool)
    near = near.reshape(len(left_out), len(counts.volts))
    for volts, places in zip(left_out, near, strict=True):
        if not places.any():
            raise UserError(f"{counts.name}: no counts at {volts:g} V that could be left out")
    kept: NDArray[np.bool_] = np.logical_not(near.any(axis=0))
    if len(np.unique(counts.faulty[kept & (counts.faulty > 0)])) < 2:
        raise UserError(
            f"{counts.name}: faulty bits are needed at two voltages or more, with different counts"
        )
    return kept


def _start(counts: FaultCounts) -> NDArray[np.float64]:
    """Numbers from which a search begins: a line through the shares of faulty bits."""
    between = (counts.faulty > 0) & (counts.faulty < counts.bits)
    distance = -ndtri(counts.faulty[between] / counts.bits)
    volts = counts.volts[between]
    slope = np.polyfit(volts, distance, 1)[0] if len(volts) > 1 else 0.0
    total = 1.0 / slope if slope > 1.0 else 0.05
    lowest = distance[-1] + (counts.volts[-1] - volts[-1]) / total if len(volts) else 0.0
    return np.array([lowest, np.log(total), np.log(0.6)])


def _levels(numbers: NDArray[np.float64], lowest_volts: float) -> TwoLevels:
    """Constants of the numbers of a search.

    They are the distance of the lowest voltage from mu in standard deviations, the logarithm of
    the total deviation and that of the ratio of its parts: these hardly depend on each other.
    """
    total = float(np.exp(np.clip(numbers[1], -9.0, 0.0)))
    mu_volts = lowest_volts - float(numbers[0]) * total
    if len(numbers) == 2:
        return TwoLevels(mu_volts, 0.0, total)
    ratio = float(np.clip(np.exp(numbers[2]), LEAST_RATIO, LARGEST_RATIO))
    within = total / np.hypot(1.0, ratio)
    return TwoLevels(mu_volts, float(ratio * within), float(within))


def _numbers(levels: TwoLevels, lowest_volts: float, split: bool) -> NDArray[np.float64]:
    """The inverse of `_levels`."""
    total = levels.total_volts
    numbers = [(lowest_volts - levels.mu_volts) / total, np.log(total)]
    ratio = [np.log(levels.between_volts / levels.within_volts)] if split else []
    return np.array([*numbers, *ratio])


def _most_likely(data: Observed, start: NDArray[np.float64], lowest_volts: float) -> TwoLevels:
    """Search for the maximum by the method of Nelder and Mead."""
    corners = np.vstack([start, start + np.diag(STEPS[: len(start)])])

    def unlikely(numbers: NDArray[np.float64]) -> float:
        return -data.log_likelihood(_levels(numbers, lowest_volts))

    options: Any = {"initial_simplex": corners, "xatol": PRECISION, "fatol": PRECISION}
    result: Any = minimize(unlikely, start, method="Nelder-Mead", options=options)
    return _levels(result.x, lowest_volts)


def _bits_of_arrays(counts: FaultCounts, split: bool) -> NDArray[np.int64]:
    """Bits of each array, as even as can be where only their sum is known: int64[A]."""
    if split and counts.array_bits is not None:
        return counts.array_bits
    number = counts.arrays if split else 1
    each, rest = divmod(counts.bits, number)
    return np.full(number, each, np.int64) + (np.arange(number) < rest)


def _expected(
    levels: TwoLevels, volts: NDArray[np.float64], bits: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected faulty bits of all arrays, and arrays without a fault: float64[V] each."""
    points, weights = levels.rule(0.02)
    share = levels.faulty(points, volts)
    sizes, times = np.unique(bits, return_counts=True)
    sound = np.exp(sizes[:, None, None] * np.log1p(-np.minimum(share, 1 - 1e-12)))
    return bits.sum() * (weights @ share), times @ np.einsum("n,snv->sv", weights, sound)


def _interval(value: float, of_samples: NDArray[np.float64] | NDArray[np.int64]) -> Estimate:
    tail = 50 * (1 - CONFIDENCE)
    lower, upper = np.percentile(of_samples, [tail, 100 - tail])
    return Estimate(float(value), float(lower), float(upper))
