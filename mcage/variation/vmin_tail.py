"""The tail of Vmin: all cells of a slice that lie above a floor, without drawing the others.

The cells of a segment have the same die part and the same systematic value, and are independent
given these. So their random parts, worst first, are the order statistics of independent normal
numbers, and those can be drawn one after the other: with Phi the normal distribution function and n
cells, -log Phi of the worst is exponential with mean 1/n, the next one larger by an exponential
with mean 1/(n-1), and so on (Rényi, 1953). Each takes a place among the places not yet taken. The
drawing of a segment stops at the first cell below the floor, which is exact: all further ones are
lower still.

The numbers that a cell uses do not depend on the floor. A lower floor continues the same list,
so that the faults of an instance are nested in Vdd, and the map is a function of seed and instance.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from mcage.compiled import compiled
from mcage.errors import UserError
from mcage.geometry import GCN, SliceGeometry
from mcage.protection.codes import Code
from mcage.protection.policy import Protection, check_cells, logical_bits
from mcage.random import stream_key
from mcage.variation.field import die_of, sample_die, sample_field, spherical_correlation
from mcage.variation.scenarios import CLASSES, Scenario

if TYPE_CHECKING:
    from mcage.philox import ExponentialGroups

MAX_TAIL_CELLS = 200_000
"""Expected cells of a slice above the floor beyond which the model has nothing to say."""

ROUNDING = 1e-9
"""Relative margin of the stop, so that rounding cannot drop a cell at the very floor."""

SAMPLED_TOGETHER = 128
"""Slices whose cells are drawn together, so that their numbers stay in the cache."""


@dataclass(frozen=True)
class TailCells:
    """The weakest cells of I instances, without all others.

    Parameters
    ----------
    offsets : int64[I+1]
        Cells ``offsets[i] ... offsets[i+1] - 1`` belong to the i-th instance.
    cell : int32[n]
        Number of the cell in its slice, cells of an entry x entry + bit; ascending within an
        instance. Check bit c of a word has the number of data bit c of the word plus the number of
        cells of the slice.
    vmin_volts : float64[n]
        Minimum working voltage; infinite where a cell is faulty at any Vdd.
    geometry : SliceGeometry
        The slice.
    """

    offsets: NDArray[np.int64]
    cell: NDArray[np.int32]
    vmin_volts: NDArray[np.float64]
    geometry: SliceGeometry = GCN

    @classmethod
    def join(
        cls,
        parts: Sequence[tuple[NDArray[np.int32], NDArray[np.float64]]],
        geometry: SliceGeometry = GCN,
    ) -> "TailCells":
        """Cells of several instances, from ``(cell, vmin_volts)`` of each, in any order."""
        orders = [np.argsort(cell) for cell, _ in parts]
        cells = [cell[order] for (cell, _), order in zip(parts, orders, strict=True)]
        vmins = [vmin[order] for (_, vmin), order in zip(parts, orders, strict=True)]
        return cls(
            offsets=np.cumsum([0, *map(len, cells)], dtype=np.int64),
            cell=np.concatenate([np.empty(0, np.int32), *cells]),
            vmin_volts=np.concatenate([np.empty(0), *vmins]),
            geometry=geometry,
        )

    @classmethod
    def interleaved(
        cls, parts: Sequence["TailCells"], places: Sequence[NDArray[np.int64]]
    ) -> "TailCells":
        """Cells of all instances from those of parts, by the places of the instances of each.

        Parameters
        ----------
        parts : sequence of TailCells
            At least one.
        places : sequence of int64[I]
            Positions that the instances of each part get; every position once.
        """
        owner = np.concatenate([to[part.instance] for part, to in zip(parts, places, strict=True)])
        order = np.argsort(owner, kind="stable")
        count = np.bincount(owner, minlength=sum(map(len, places)))
        return cls(
            offsets=np.concatenate([[0], np.cumsum(count)]),
            cell=np.concatenate([part.cell for part in parts])[order],
            vmin_volts=np.concatenate([part.vmin_volts for part in parts])[order],
            geometry=parts[0].geometry,
        )

    def at(self, places: NDArray[np.int64], instances: NDArray[np.int64]) -> "TailCells":
        """Cells at selected places, all of selected instances; both in rising order."""
        offsets = np.searchsorted(places, self.offsets)[instances]
        return replace(
            self,
            offsets=np.append(offsets, len(places)),
            cell=self.cell[places],
            vmin_volts=self.vmin_volts[places],
        )

    def above(self, floor_volts: float | NDArray[np.float64]) -> "TailCells":
        """Cells whose Vmin lies above a floor of each instance, float64[I], or of all."""
        if isinstance(floor_volts, np.ndarray) and floor_volts.ndim:
            floor_volts = floor_volts[self.instance]
        return self.where(self.vmin_volts > floor_volts)

    def of_data(self) -> "TailCells":
        """The same without check cells."""
        return self.where(self.cell < self.geometry.cells)

    def where(self, chosen: NDArray[np.bool_]) -> "TailCells":
        """Chosen cells of all instances: bool[n]."""
        most, offsets = len(chosen) + 1, np.zeros(len(self.offsets), np.int64)
        cell, vmin_volts = np.empty(most, np.int32), np.empty(most)
        _choose(self.offsets, self.cell, self.vmin_volts, chosen, offsets, cell, vmin_volts)
        kept = offsets[-1]
        return replace(self, offsets=offsets, cell=cell[:kept], vmin_volts=vmin_volts[:kept])

    @property
    def instances(self) -> int:
        """Number of instances I."""
        return len(self.offsets) - 1

    @cached_property
    def vmin_of_both(self) -> NDArray[np.float64]:
        """Vmin of each cell, once for T0 and once for T1: float64[2, n]."""
        return np.stack([self.vmin_volts, self.vmin_volts])

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Position (0 ... I-1) of the instance that each cell belongs to, int64[n]."""
        instance = np.empty(len(self.cell), dtype=np.int64)
        _number_instances(self.offsets, instance)
        return instance

    @property
    def entry(self) -> NDArray[np.int32]:
        """Entry of each cell, int32[n]."""
        within = self.cell % np.int32(self.geometry.cells)
        entry: NDArray[np.int32] = within // np.int32(self.geometry.entry_bits)
        return entry

    @cached_property
    def slice_entry(self) -> NDArray[np.int64]:
        """Entry of each cell among those of all slices, entries x instance + entry, int64[n]."""
        return self.instance * self.geometry.entries + self.entry

    @cached_property
    def block(self) -> NDArray[np.int32]:
        """Block of each cell inside its entry, int32[n]."""
        within = self.cell % np.int32(self.geometry.entry_bits)
        block: NDArray[np.int32] = within // np.int32(self.geometry.block_bits)
        return block


@compiled
def _number_instances(offsets: NDArray[np.int64], instance: NDArray[np.int64]) -> None:
    """Fill in the instance of each cell, which `numpy.repeat` does under Python's lock."""
    for number in range(len(offsets) - 1):
        for place in range(offsets[number], offsets[number + 1]):
            instance[place] = number


@compiled
def _choose(
    offsets: NDArray[np.int64],
    cell: NDArray[np.int32],
    vmin_volts: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    new_offsets: NDArray[np.int64],
    new_cell: NDArray[np.int32],
    new_vmin_volts: NDArray[np.float64],
) -> None:
    """Fill in `TailCells` with those that are chosen, and what comes last counts for nothing."""
    kept = 0
    for instance in range(len(offsets) - 1):
        for place in range(offsets[instance], offsets[instance + 1]):
            new_cell[kept], new_vmin_volts[kept] = cell[place], vmin_volts[place]
            kept += chosen[place]  # without a branch, which would often be a surprise
        new_offsets[instance + 1] = kept


def expected_tail_cells(scenario: Scenario, floor_volts: float) -> float:
    """Expected number of cells of a slice with Vmin above the floor."""
    share = float(ndtr((scenario.mu_volts - floor_volts) / scenario.sigma_volts))
    return scenario.geometry.cells * share


def lowest_floor(scenario: Scenario) -> float:
    """Lowest Vmin, in whole mV, down to which all cells of a slice can be drawn."""
    fraction = MAX_TAIL_CELLS / scenario.geometry.cells
    lowest = scenario.mu_volts - scenario.sigma_volts * float(ndtri(fraction))
    return math.ceil(lowest * 1000) / 1000


def sample_tail(
    scenario: Scenario,
    seed: int,
    instances: NDArray[np.int64],
    floor_volts: float,
    slices_per_chip: int = 1,
    code: Code | None = None,
) -> TailCells:
    """All cells of each instance whose Vmin lies above a floor.

    Parameters
    ----------
    scenario : Scenario
        The distribution of Vmin; its Vdd and its table are not used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    floor_volts : float
        Lowest Vdd to be asked about, less the largest shift by aging.
    slices_per_chip : int
        Slices with successive ids that share a die part; see `mcage.variation.field.die_of`.
    code : Code, optional
        Draw the cells of its check bits instead of those of data. They lie beside the data, so that
        they have their systematic part, and have numbers of their own: check columns of an entry x
        entry + column (see `in_words`).

    Returns
    -------
    TailCells
        Their distribution is that of drawing all cells of the slice; a lower floor only adds cells.

    Raises
    ------
    UserError
        If more than 200,000 cells of a slice are expected above the floor.
    """
    from mcage.philox import ExponentialGroups  # Numba takes long to import

    expected = expected_tail_cells(scenario, floor_volts)
    if not expected <= MAX_TAIL_CELLS:
        raise UserError(
            f"scenario {scenario.name}: {expected:,.0f} of {scenario.geometry.cells:,} cells of a "
            f"slice would have a Vmin above {floor_volts:g} V (lowest Vdd less the shift by "
            "ageing); "
            f"the model speaks about {lowest_floor(scenario):g} V and more"
        )
    means = sample_field(scenario, seed, instances)
    means += scenario.mu_volts
    means += sample_die(scenario, seed, die_of(instances, slices_per_chip))[:, None, None]
    part, bits = "cells", scenario.segment_bits
    if code is not None:
        part, bits = "check cells", bits * code.check_bits // code.data_bits
    keys = np.tile(stream_key(seed, f"variation.{part}"), (len(instances), 1))
    drawing = ExponentialGroups(scenario.segments, bits, SAMPLED_TOGETHER)
    parts = []
    for begin in range(0, len(instances), SAMPLED_TOGETHER):
        chunk = slice(begin, begin + SAMPLED_TOGETHER)
        chunk_of = means[chunk], keys[chunk], instances[chunk]
        parts.append(_sample_slices(scenario, drawing, *chunk_of, floor_volts))
    counts, cells, vmins = zip(*parts, strict=True) if parts else ((), (), ())
    return TailCells(
        offsets=np.cumsum(np.concatenate([[0], *counts]), dtype=np.int64),
        cell=np.concatenate([np.empty(0, np.int32), *cells]),
        vmin_volts=np.concatenate([np.empty(0), *vmins]),
        geometry=scenario.geometry,
    )


def _sample_slices(
    scenario: Scenario,
    drawing: "ExponentialGroups",
    nodes: NDArray[np.float64],
    keys: NDArray[np.uint64],
    instances: NDArray[np.int64],
    floor_volts: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Number of the cells above the floor of each of I slices, these cells, and their Vmin.

    Parameters
    ----------
    scenario, floor_volts
        As of `sample_tail`.
    drawing : ExponentialGroups
        Segments of a slice, with -log Phi of the random parts of their cells.
    nodes : float64[I, node_rows, node_columns]
        Mean Vmin of the cells of each node, in V.
    keys, instances : uint64[I, 2], int64[I]
        Streams of the slices.
    """
    sigma, limits = scenario.sigma_random_volts, np.empty(nodes.shape)
    _fill_in_limits(nodes.ravel(), floor_volts, sigma, _table_of_limits(), limits.reshape(-1))
    drawn = drawing.up_to(keys, instances, limits)
    vmin = ndtri_exp(np.negative(drawn.number, out=drawn.number), out=drawn.number)
    vmin *= sigma
    vmin += nodes.ravel()[drawn.limit]
    kept = vmin > floor_volts
    if kept.all():
        return np.diff(drawn.offsets), drawn.member, vmin
    before = np.append(0, np.cumsum(kept))[drawn.offsets]
    return np.diff(before), drawn.member[kept], vmin[kept]


_LOWEST, _HIGHEST, _STEPS = -8, 12, 1024
"""Range of the table of limits, in standard deviations, and its steps in one of them."""


@cache
def _table_of_limits() -> NDArray[np.float64]:
    """-log Phi from the lowest standard normal number to the highest, float64[n]; read-only."""
    numbers = np.arange(_LOWEST * _STEPS, _HIGHEST * _STEPS + 1) / _STEPS
    table: NDArray[np.float64] = -log_ndtr(numbers) * (1 + ROUNDING)
    table.setflags(write=False)
    return table


@compiled
def _fill_in_limits(
    means: NDArray[np.float64],
    floor: float,
    sigma: float,
    table: NDArray[np.float64],
    limits: NDArray[np.float64],
) -> None:
    """Fill in limits of -log Phi for cells of such means above the floor, or slightly larger.

    A chord of the table lies above it, since -log Phi is convex. Beyond the table, it rises less
    fast than the square, and falls.
    """
    last = len(table) - 1
    for node in range(len(means)):
        standard = (floor - means[node]) / sigma
        place = min((standard - _LOWEST) * _STEPS, float(last))
        if place < 0.0:
            limits[node] = standard * standard
        else:
            below = min(int(place), last - 1)
            rise = table[below + 1] - table[below]
            limits[node] = table[below] + rise * (place - below)


def in_words(data: TailCells, check: TailCells, protection: Protection) -> TailCells:
    """Weak cells of slices whose words have a code, as bits of words.

    Parameters
    ----------
    data, check : TailCells
        Weak cells of the same I slices, by columns of their entries, as `sample_tail` draws them.
    protection : Protection
        Says which bit of which word lies in which column.

    Returns
    -------
    TailCells
        Data cells have the numbers of their bits, check cells those that `TailCells` gives them.
    """
    geometry, bits = data.geometry, logical_bits(protection, data.geometry)
    columns = check_cells(protection, geometry)
    entry, column = np.divmod(data.cell.astype(np.int64), geometry.entry_bits)
    check_entry, check_column = np.divmod(check.cell.astype(np.int64), len(columns))
    cell = np.concatenate(
        [
            entry * geometry.entry_bits + bits[column],
            geometry.cells + check_entry * geometry.entry_bits + columns[check_column],
        ]
    )
    owner = np.concatenate([data.instance, check.instance])
    order = np.argsort(owner * 2 * geometry.cells + cell)  # no number stands there twice
    return TailCells(
        offsets=data.offsets + check.offsets,
        cell=cell[order].astype(np.int32),
        vmin_volts=np.concatenate([data.vmin_volts, check.vmin_volts])[order],
        geometry=geometry,
    )


# Expected values of the variation model, and the Vdd that it therefore refuses.

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
    lowest = lowest_vdd(scenario)
    remedy = (
        f"no Vdd up to {MAX_VDD_VOLTS:g} V would do: check its mu and sigmas"
        if lowest is None
        else f"use {lowest:g} V or more"
    )
    raise UserError(
        f"vdd = {vdd_volts:g} V: every entry of a slice would be faulty in scenario "
        f"{scenario.name}; {remedy}"
    )


def lowest_vdd(scenario: Scenario) -> float | None:
    """Lowest Vdd, in whole mV, at which a reliable entry is expected; None if there is none."""
    millivolts = range(1, round(MAX_VDD_VOLTS * 1000) + 1)  # the same steps for each Vdd: kept
    lowest = bisect_left(
        millivolts, 1.0, key=lambda mv: expected_reliable_entries(scenario, mv / 1000)
    )
    return millivolts[lowest] / 1000 if lowest < len(millivolts) else None
