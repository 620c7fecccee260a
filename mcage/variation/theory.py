"""What the variation model expects on the average, and which Vdd it therefore refuses."""

import math
from bisect import bisect_left
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mcage.errors import UserError
from mcage.geometry import SLICE
from mcage.variation.field import spherical_correlation
from mcage.variation.scenarios import CLASSES, Scenario

LATTICE_POINTS = 16384
MAX_VDD_VOLTS = 2.0


def expected_classes(scenario: Scenario, vdd_volts: float) -> NDArray[np.float64]:
    """Expected shares of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    scenario : Scenario
        The law of Vmin.
    vdd_volts : float
        Supply voltage.

    Returns
    -------
    float64[5]
        Given the systematic part, the faulty bits of an entry are a sum of one binomial number
        per segment. That law is exact; its average over the systematic part of the entry is a
        lattice sum, good to 0.06 percentage points.
    """
    systematic = scenario.sigma_systematic_volts * _unit_rows(scenario.phi, scenario.node_columns)
    z = (vdd_volts - scenario.mu_volts - systematic) / scenario.sigma_random_volts
    good, bad = ndtr(z), ndtr(-z)
    n, last = scenario.segment_bits, len(CLASSES) - 1
    entry = [np.ones(len(z))] + [np.zeros(len(z))] * (last - 1)
    for column in range(scenario.node_columns):
        p, q = bad[:, column], good[:, column]
        segment = [math.comb(n, i) * p**i * q ** (n - i) for i in range(last)]
        entry = [
            np.sum([entry[k] * segment[i - k] for k in range(i + 1)], axis=0) for i in range(last)
        ]
    shares = np.mean(entry, axis=1)
    return np.append(shares, max(0.0, 1.0 - shares.sum()))


@cache
def _unit_rows(phi: float, node_columns: int) -> NDArray[np.float64]:
    """Systematic parts of one entry, in units of their deviation, float64[points, columns].

    A quadrature rule, not a sample: Richtmyer's lattice (multiples of the square roots of
    primes, modulo 1), its best-spread dimensions given to the largest principal components.
    """
    x = (np.arange(node_columns) + 0.5) / node_columns
    variances, components = np.linalg.eigh(spherical_correlation(abs(x[:, None] - x), phi))
    primes = [p for p in range(2, 2000) if all(p % d for d in range(2, math.isqrt(p) + 1))]
    index = np.arange(1, LATTICE_POINTS + 1)[:, None]
    lattice = (index * np.sqrt(primes[:node_columns]) + 0.5) % 1.0
    normal = ndtri(lattice) * np.sqrt(variances[::-1].clip(min=0))
    rows: NDArray[np.float64] = normal @ components[:, ::-1].T
    rows.setflags(write=False)
    return rows


def expected_reliable_entries(scenario: Scenario, vdd_volts: float) -> float:
    """Expected entries of a slice with fewer than two faulty bits."""
    return SLICE.entries * float(expected_classes(scenario, vdd_volts)[:2].sum())


def check_vdd(scenario: Scenario, vdd_volts: float) -> None:
    """Refuse a Vdd that cannot be meant, or at which practically every entry is faulty.

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
    millivolts = range(math.ceil(vdd_volts * 1000), round(MAX_VDD_VOLTS * 1000) + 1)
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
