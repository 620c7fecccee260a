"""What the variation model expects on the average, and which Vdd it therefore refuses."""

import math
from bisect import bisect_left
from functools import cache, lru_cache, reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mcage.errors import UserError
from mcage.variation.field import spherical_correlation
from mcage.variation.scenarios import CLASSES, Scenario

LATTICE_POINTS = 16384
STEP, REACH = 0.05, 8.0
"""Step and range of the rule over a normal number, in standard deviations."""

MAX_VDD_VOLTS = 2.0


@lru_cache(maxsize=64)
def expected_classes(scenario: Scenario, vdd_volts: float) -> NDArray[np.float64]:
    """Expected fractions of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    scenario : Scenario
        The distribution of Vmin.
    vdd_volts : float
        Supply voltage.

    Returns
    -------
    float64[5], read-only
        Given die part and systematic part, the faulty bits of an entry are a sum of one binomial
        number per segment. That distribution is exact; its average over both parts is a lattice
        sum, good to 0.06 percentage points, or with arrays a quadrature, good to rounding.
    """
    if scenario.arrays:
        return _in_arrays(scenario, vdd_volts)
    parts = _shared_parts(
        scenario.node_columns,
        scenario.phi,
        scenario.sigma_systematic_volts,
        scenario.sigma_die_volts,
    )
    segments = (
        _binomial(scenario.segment_bits, ndtr(-z), ndtr(z))
        for z in (vdd_volts - scenario.mu_volts - parts) / scenario.sigma_random_volts
    )
    return _classes(np.mean(reduce(_sum_of, segments), axis=1))


def _in_arrays(scenario: Scenario, vdd_volts: float) -> NDArray[np.float64]:
    """`expected_classes` of an entry that lies in arrays, which are alike and independent."""
    assert scenario.arrays is not None
    z, weights = standard_normal_rule()
    die = scenario.sigma_die_volts * z[:, None]
    shift = vdd_volts - scenario.mu_volts - scenario.sigma_systematic_volts * z
    standard = (shift - die) / scenario.sigma_random_volts
    array = _binomial(scenario.arrays.bits, ndtr(-standard), ndtr(standard)) @ weights
    entry = reduce(_sum_of, [array] * scenario.arrays.counts(scenario.geometry)[1])
    return _classes(entry @ weights)


@cache
def standard_normal_rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of the trapezoid rule over a standard normal number: float64[n] each.

    For smooth integrands it is exact to rounding, since they and the density are analytic.
    """
    z = np.arange(-REACH, REACH + STEP / 2, STEP)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum()


def _binomial(
    bits: int, bad: NDArray[np.float64], good: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Probabilities of 0, 1, 2, 3 faulty ones of so many bits: float64[4, ...]."""
    shares = np.empty((len(CLASSES) - 1, *bad.shape))
    for i, share in enumerate(shares):
        share[...] = good ** (bits - i)
        if i:
            share *= math.comb(bits, i) * bad**i
    return shares


def _sum_of(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution of a sum of independent numbers, of 0 ... 3: float64[4, ...]."""
    return np.array(
        [
            np.sum([first[k] * second[i - k] for k in range(i + 1)], axis=0)
            for i in range(len(first))
        ]
    )


def _classes(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the classes, with the last, which is the rest; kept for whoever asks next."""
    classes = np.append(shares, max(0.0, 1.0 - shares.sum()))
    classes.setflags(write=False)
    return classes


@lru_cache(maxsize=4)
def _shared_parts(
    columns: int, phi: float, sigma_systematic_volts: float, sigma_die_volts: float
) -> NDArray[np.float64]:
    """Die part plus systematic part of one entry, in volts, float64[columns, points], read-only.

    Both are normal, and so is their sum: the die part adds its variance to every covariance. A
    quadrature rule, not a sample: the best-spread dimensions of the lattice are given to the
    largest principal components. Kept, because they are the same at all voltages.
    """
    x = (np.arange(columns) + 0.5) / columns
    correlation = spherical_correlation(abs(x[:, None] - x), phi)
    covariance = sigma_systematic_volts**2 * correlation + sigma_die_volts**2
    variances, components = np.linalg.eigh(covariance)
    of_points = (_normal_lattice(columns) * np.sqrt(variances[::-1].clip(min=0))) @ (
        components[:, ::-1].T
    )
    parts: NDArray[np.float64] = np.ascontiguousarray(of_points.T)
    parts.setflags(write=False)
    return parts


@cache
def _normal_lattice(dimensions: int) -> NDArray[np.float64]:
    """Standard normal points of Richtmyer's lattice, float64[points, dimensions].

    Multiples of the square roots of primes, modulo 1, best-spread dimension first.
    """
    primes = [p for p in range(2, 2000) if all(p % d for d in range(2, math.isqrt(p) + 1))]
    index = np.arange(1, LATTICE_POINTS + 1)[:, None]
    normal: NDArray[np.float64] = ndtri((index * np.sqrt(primes[:dimensions]) + 0.5) % 1.0)
    normal.setflags(write=False)
    return normal


def expected_reliable_entries(scenario: Scenario, vdd_volts: float) -> float:
    """Expected entries of a slice with fewer than two faulty bits."""
    return scenario.geometry.entries * float(expected_classes(scenario, vdd_volts)[:2].sum())


def check_vdd(scenario: Scenario, vdd_volts: float) -> None:
    """Refuse an impossible Vdd, or a Vdd at which practically all entries are faulty.

    Raises
    ------
    UserError
        If ``vdd_volts`` is no number in 0 ... 2, or fewer than one reliable entry is expected.
    """
    if not 0 < vdd_volts <= MAX_VDD_VOLTS:
        raise UserError(
            f"vdd = {vdd_volts:g} V, expected a voltage above 0 and up to {MAX_VDD_VOLTS:g} V "
            f"({scenario.name} runs at {scenario.vdd_volts:g})"
        )
    if expected_reliable_entries(scenario, vdd_volts) >= 1:
        return
    millivolts = range(1, round(MAX_VDD_VOLTS * 1000) + 1)  # the same steps for each Vdd: kept
    lowest = bisect_left(
        millivolts, 1.0, key=lambda mv: expected_reliable_entries(scenario, mv / 1000)
    )
    remedy = (
        f"use {millivolts[lowest] / 1000:g} V or more"
        if lowest < len(millivolts)
        else f"no Vdd up to {MAX_VDD_VOLTS:g} V would do: check its mu and sigmas"
    )
    raise UserError(
        f"vdd = {vdd_volts:g} V: every entry of a slice would be faulty in scenario "
        f"{scenario.name}; {remedy}"
    )
