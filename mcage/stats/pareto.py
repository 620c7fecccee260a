"""The front of designs: which of them no other beats, and how sure that is with so few dies.

A design dominates another if it is as good in all objectives and better in one. The front are the
designs that no other dominates. Designs that share dies share their luck: a resample draws dies
with replacement, the same for all designs, and has a front of its own.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mcage.compiled import compiled
from mcage.stats import estimates

SAME = 1e-9
"""Difference of two means over the larger of them that rounding of equal numbers can leave."""

NOTHING = 1e-14
"""The same over the largest of all means, for means that are zero but for rounding."""

BLOCK = 64
"""Resamples that are weighed together: so many that products of matrices are fast (numerical)."""

UNKNOWN = -1
"""Rank of a design that has no value of an objective."""

Integers = npt.NDArray[np.integer]
Ranks = npt.NDArray[np.int32]


def front(points: estimates.Floats) -> estimates.Bools:
    """Designs that no other dominates: bool[design].

    Parameters
    ----------
    points : ndarray of float [design, objective]
        Values of which less is better. A design without a value (NaN) of some objective neither
        dominates nor is on the front; designs with the same values do not dominate each other.
    """
    return _counts(_ranks(points[None])) > 0


def front_shares(
    samples: Sequence[estimates.Floats],
    groups: Integers,
    resamples: int,
    generator: np.random.Generator,
) -> estimates.Floats:
    """Share of the resamples in which each design is on the front: float64[design], 0 ... 1.

    Parameters
    ----------
    samples : sequence of ndarray of float
        For each objective, values of which less is better: of each instance, [design, instance],
        whose mean counts; or [design], what does not depend on instances. Missing values (NaN) do
        not count; a design none of whose instances in a resample has a value is not on its front.
    groups : ndarray of int [instance]
        Group of each instance, rising. Instances of a group are drawn together: groups are
        independent of one another.
    resamples : int
        Number of resamples, 1 or more.
    generator : numpy.random.Generator
        Draws the groups.

    Notes
    -----
    The bootstrap of Efron, Ann. Stat. 7 (1979), over groups, as Davison and Hinkley, Bootstrap
    Methods and their Application, section 3.8, have it for grouped data; the share of resamples in
    which a set of parameters falls into a region as Felsenstein, Evolution 39 (1985). What no
    instance has shown, no resample shows either.
    """
    starts, size = _starts(groups), len(groups)
    count = len(starts)
    of_groups = [_by_group(sample, starts, size) for sample in samples]
    times = np.zeros(len(samples[0]), np.int64)
    for first in range(0, resamples, BLOCK):
        block = min(BLOCK, resamples - first)
        weights = generator.multinomial(count, np.full(count, 1.0 / count), block)
        points = np.stack(list(_means(weights.astype(np.float64), of_groups)), axis=2)
        times += _counts(_ranks(points))
    return times / resamples


def group_means(
    values: estimates.Floats,
    groups: Integers,
    within: estimates.Range | None = None,
    confidence: float = estimates.CONFIDENCE,
) -> tuple[estimates.Floats, estimates.Floats, estimates.Floats]:
    """Means over instances with their bounds, where only groups of instances are independent.

    Parameters
    ----------
    values : ndarray of float [design, instance]
        A quantity; missing values (NaN) do not count.
    groups : ndarray of int [instance]
        Group of each instance, rising.
    within : (float, float), optional
        Range of the quantity, such as 0 and 1 of a share.
    confidence : float
        Probability that each interval covers, 0 ... 1.

    Returns
    -------
    tuple of ndarray of float64 [design]
        Means, lower and upper bounds; bounds are NaN where there is a single group.

    Notes
    -----
    The mean is a ratio, of sums to numbers of instances, whose variance is that of the residuals
    of the groups (Cochran, Sampling Techniques, section 9A.1). Where each instance is a group of
    its own, the interval is that of `mcage.stats.estimates.mean`, and so that of shares Wilson's of
    `mcage.stats.estimates.proportion`.
    """
    from scipy.special import stdtrit

    sums, counts = _by_group(values, _starts(groups), len(groups))
    total = counts.sum(axis=1)
    known = np.broadcast_to((counts > 0).sum(axis=1), len(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=1) / total
        squares = np.square(sums - mean[:, None] * counts).sum(axis=1) / total**2
        low, high = (bound(values, axis=1) for bound in (np.fmin.reduce, np.fmax.reduce))
        squares[low == high] = 0.0
        if within:
            bounds = estimates.bounds_within(within, mean, squares * known, known, confidence)
        else:
            error = np.sqrt(squares * known / (known - 1.0))
            half = stdtrit(known - 1.0, (1.0 + confidence) / 2.0) * error
            bounds = mean - half, mean + half
    lower, upper = (np.where(known < 2, np.nan, bound) for bound in bounds)
    return mean, lower, upper


def dominators(points: estimates.Floats, preference: estimates.Floats) -> npt.NDArray[np.int64]:
    """A design on the front that dominates each: int64[design], -1 where none does.

    Parameters
    ----------
    points : ndarray of float [design, objective]
        As of `front`.
    preference : ndarray of float [design]
        Of several, the design with the largest one is chosen.
    """
    (ranks,) = _ranks(points[None])
    members = np.flatnonzero(_counts(ranks[None]))
    members = members[np.argsort(-preference[members], kind="stable")]
    chosen = np.full(len(points), -1)
    for member in members[::-1]:
        no_worse = (ranks[member] <= ranks).all(axis=1)
        chosen[no_worse & (ranks[member] < ranks).any(axis=1)] = member
    return chosen


def _starts(groups: Integers) -> Integers:
    """Place of the first instance of each group."""
    return np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))


def _by_group(
    values: estimates.Floats, starts: Integers, instances: int
) -> tuple[estimates.Floats, estimates.Floats]:
    """Sums and numbers of the known values of each group: float64[design, group].

    Numbers that are the same for all designs have a length of 1 along these; what does not depend
    on instances counts once in each group.
    """
    if values.ndim == 1:
        return np.repeat(values[:, None], len(starts), axis=1), np.ones((1, len(starts)))
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts, axis=1, dtype=np.float64)
    if known.all():
        known = np.ones((1, instances), np.bool_)
    return sums, np.add.reduceat(known, starts, axis=1, dtype=np.float64)


def _means(
    weights: estimates.Floats, of_groups: Sequence[tuple[estimates.Floats, estimates.Floats]]
) -> Iterator[estimates.Floats]:
    """Mean of each objective in each resample: float64[resample, design]."""
    for sums, counts in of_groups:
        with np.errstate(invalid="ignore"):
            yield (weights @ sums.T) / (weights @ counts.T)


def _ranks(points: estimates.Floats) -> Ranks:
    """Ranks along designs, equal where values are but for rounding: int32[..., design, objective].

    `UNKNOWN` in all objectives where a design has no value of one of them.
    """
    values = np.moveaxis(points, -1, 0)
    order = np.argsort(values, axis=-1)
    rising = np.take_along_axis(values, order, axis=-1)
    size = np.abs(rising)
    floor = NOTHING * np.fmax.reduce(size, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        steps = np.diff(rising) > np.fmax(SAME * np.fmax(size[..., 1:], size[..., :-1]), floor)
    ranks = np.zeros(values.shape, np.int32)
    np.put_along_axis(ranks, order[..., 1:], np.cumsum(steps, axis=-1, dtype=np.int32), -1)
    ranks = np.ascontiguousarray(np.moveaxis(ranks, 0, -1))
    ranks[np.isnan(points).any(axis=-1)] = UNKNOWN
    return ranks


def _counts(ranks: Ranks) -> npt.NDArray[np.int64]:
    """Number of resamples in which each design is on the front: int64[design]."""
    designs = ranks.shape[1]
    # A dominating case has a smaller sum of ranks, and so comes first.
    order = np.argsort(ranks.sum(axis=2), axis=1)
    times, members = np.zeros(designs, np.int64), np.zeros(designs, np.int64)
    _count_fronts(ranks, order, members, times)
    return times


@compiled
def _count_fronts(ranks: Ranks, order: Integers, members: Integers, times: Integers) -> None:
    """Add the front of each resample to ``times``; ``members`` is room to work in.

    A design is compared with the members of the front so far. One that dominates is moved to the
    place before its own in the list, so that those that dominate many are asked first.
    """
    for resample in range(ranks.shape[0]):
        count = 0
        for place in range(ranks.shape[1]):
            design = order[resample, place]
            if ranks[resample, design, 0] < 0:
                continue
            dominated = False
            for turn in range(count):
                member = members[turn]
                better, worse = False, False
                for objective in range(ranks.shape[2]):
                    ours = ranks[resample, design, objective]
                    theirs = ranks[resample, member, objective]
                    if theirs > ours:
                        worse = True
                        break
                    if theirs < ours:
                        better = True
                if better and not worse:
                    dominated = True
                    if turn > 0:
                        members[turn] = members[turn - 1]
                        members[turn - 1] = member
                    break
            if not dominated:
                members[count] = design
                count += 1
                times[design] += 1
