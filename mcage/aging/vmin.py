"""Vmin of aged cells: how it grows, and when a cell fails.

The supply voltage that a cell needs (Vmin) rises with the threshold shifts of its transistors. A
cell is faulty once its Vmin exceeds the lowest supply voltage of the environment.
"""

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.transistors import TrapLaw
from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.variation.scenarios import CELL_6T, CELL_8T, tables_of

# Margins of a cell: how its Vmin for reading, writing and holding follows from four shifts.
#
# A cell works while all of its margins are met. Each margin exists for both values, and the least
# of them limits the cell. Around the weak cells of the tail, the Vmin of a margin is close to
# linear in the shifts of the four transistors that age: T0 and N0, which '0' stresses, T1 and N1,
# which '1' stresses. The coefficients are in `data/margins.toml` and, of 8T cells, in
# `data/margins_8t.toml`; `scripts/spice/` derives them.

LARGER = "larger"
"""Rule without margins: Vmin grows with the larger shift of a cell."""

KINDS = ("read", "write", "hold")
"""Margins of a cell."""

ACCESS = "access"
"""Margin of an 8T cell in place of ``read``: its read port must draw enough current in time. The
port has one transistor that ages, whose gate is node QB, so that '0' stresses it as it does N0."""

KINDS_OF = MappingProxyType({CELL_6T: KINDS, CELL_8T: (ACCESS, "write", "hold")})
"""Margins by cell."""

VALUES = 2


@dataclass(frozen=True)
class Margins:
    """How Vmin grows, and by which margin cells are limited.

    Parameters
    ----------
    coefficients : tuple
        By kind: growth of the Vmin of value '0' with the shifts of T0, T1, N0 and N1, V/V.
    shares : tuple of float
        Share of the weak cells that each kind limits; their sum is 1.
    kinds : tuple of str
        Kinds of margins: those of a 6T cell, or of another in `KINDS_OF`.

    Notes
    -----
    The margin of '1' is the mirror image of that of '0', but for `ACCESS`: an 8T cell has a single
    port, whatever it holds, and both rows of this kind are the same. Which kind limits a cell is
    drawn by the shares, and each of the two values is as likely. The others are taken to lie so far
    below that aging does not bring them to the limit: mismatch that weakens one value strengthens
    the other.
    """

    coefficients: tuple[tuple[float, float, float, float], ...]
    shares: tuple[float, ...]
    kinds: tuple[str, ...] = field(default=KINDS, repr=False)

    @property
    def rows(self) -> tuple[tuple[float, float, float, float], ...]:
        """Coefficients by limit: of each kind, that of '0', then that of '1'."""
        return tuple(
            row
            for kind, (t0, t1, n0, n1) in zip(self.kinds, self.coefficients, strict=True)
            for row in ((t0, t1, n0, n1), (t0, t1, n0, n1) if kind == ACCESS else (t1, t0, n1, n0))
        )

    def growth(self, dvth_volts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Growth of the Vmin of every limit, in volts; never below 0.

        A cell that becomes stronger keeps the Vmin that it had when new: another of its margins may
        limit it by then.

        Parameters
        ----------
        dvth_volts : float64[2, n] or float64[4, n]
            Shifts of T0 and T1, and of N0 and N1 where these age.

        Returns
        -------
        float64[6, n]
            By limit, as `rows`.
        """
        grown = np.zeros((len(self.rows), *dvth_volts.shape[1:]))
        for of_limit, row in zip(grown, self.rows, strict=True):
            for weight, shift in zip(row, dvth_volts, strict=False):
                of_limit += weight * shift  # in a fixed order: the same bits in any batch
            np.maximum(of_limit, 0.0, out=of_limit)
        return grown

    def largest_growth(self, dvth_volts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound of the growth of every limit, whatever the cell holds; arguments as of `growth`.

        Parameters
        ----------
        dvth_volts : float64[2, n] or float64[4, n]
            Largest shifts of the transistors.
        """
        weights = np.maximum(self.rows, 0.0)[:, : len(dvth_volts)]
        bound: NDArray[np.float64] = (weights[:, :, None] * dvth_volts).sum(axis=1)
        return bound

    def limits_at(self, uniform: NDArray[np.float64]) -> NDArray[np.int8]:
        """Limits of cells, numbers of `rows`, from a uniform number of each: int8[n]."""
        doubled = VALUES * uniform
        value = doubled.astype(np.int8)
        kind = np.searchsorted(np.cumsum(self.shares)[:-1], doubled - value, side="right")
        limits: NDArray[np.int8] = (VALUES * kind + value).astype(np.int8)
        return limits

    def weak_values(self, limits: NDArray[np.int8]) -> NDArray[np.int8]:
        """Values that cells lose when they fail by their limits: int8[n] to int8[n].

        That is the value of the limit, but for `ACCESS`: whatever the limit, the read port must
        draw its current while the cell holds '0', which is otherwise read as '1'.
        """
        kind, value = np.divmod(limits, VALUES)
        lost: NDArray[np.int8] = np.where(np.array(self.kinds)[kind] == ACCESS, 0, value)
        return lost.astype(np.int8)


def margins(name: str, cell: str = CELL_6T) -> Margins | None:
    """Margins by the name of a rule; None for the rule without margins.

    Parameters
    ----------
    name : str
        Name of a rule.
    cell : str
        Cell whose margins are meant, one of `mcage.variation.scenarios.CELLS`.

    Raises
    ------
    UserError
        There is no such rule; or the rule knows no margins, and the cell is not of 6 transistors.
    """
    known = _tables(cell)
    if name == LARGER and cell == CELL_6T:
        return None
    if name == LARGER:
        raise UserError(
            f"aging.vmin_model = {name!r} is a rule for 6T cells, and faults.cell = {cell!r}: "
            f"choose from {', '.join(known)}, or leave it out"
        )
    if name not in known:
        names = ", ".join((LARGER, *known) if cell == CELL_6T else known)
        raise UserError(f"aging.vmin_model = {shortened(name)} is unknown; choose from {names}")
    return known[name]


@cache
def _tables(cell: str) -> MappingProxyType[str, Margins]:
    return MappingProxyType(
        {
            name: Margins(
                coefficients=tuple(tuple(table[kind]["value"]) for kind in KINDS_OF[cell]),
                shares=tuple(table["shares"]["value"]),
                kinds=KINDS_OF[cell],
            )
            for name, table in tables_of(cell).items()
        }
    )


def aged_vmin(
    vmin_volts: ArrayLike, dvth_volts: ArrayLike, coefficient: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return the minimum supply voltage of aged cells, in volts.

    Parameters
    ----------
    vmin_volts : array, any shape
        Vmin of the cells as manufactured, in volts.
    dvth_volts : array, same shape
        Shift of a transistor of each cell, in volts, at least 0.
    coefficient : float, or array of the same shape
        Vmin growth per shift, in V/V.

    Notes
    -----
    The coefficient is assumed: Krishnan et al., IEDM 2006, find a growth of the order of the shift.
    For sensitivity studies take 0.5 ... 1. That the larger shift of T0 and T1 counts is assumed,
    too: the Vmin of a cell is the larger of those that follow from the two.
    """
    grown: NDArray[np.float64] = np.asarray(vmin_volts) + np.asarray(coefficient) * np.asarray(
        dvth_volts
    )
    return grown


@dataclass(frozen=True)
class CellFailure:
    """When cells fail.

    Parameters
    ----------
    vmin_coefficient : float or float64[n]
        Growth of Vmin per threshold shift, V/V: of all, or of each of n instances or cells.
    lowest_vdd_volts : float
        Vdd at which cells must work.
    margins : Margins, optional
        How Vmin grows by the margin that limits a cell, the coefficient being a factor on all its
        coefficients. By default Vmin grows with the larger shift of a cell.
    traps : TrapLaw, optional
        The law of the shifts, where there are margins and transistors differ by their luck.
    """

    vmin_coefficient: float | NDArray[np.float64]
    lowest_vdd_volts: float
    margins: Margins | None = None
    traps: TrapLaw | None = None

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "CellFailure":
        """The same for selected instances or cells, also repeated."""
        coefficient = self.vmin_coefficient
        if isinstance(coefficient, np.ndarray) and coefficient.ndim:
            return replace(self, vmin_coefficient=coefficient[which])
        return self

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """Growth of Vmin as an array: float64[n], or float64[1] for all."""
        return np.atleast_1d(np.asarray(self.vmin_coefficient, dtype=np.float64))

    def start_of(
        self, vmin_volts: NDArray[np.float64], scores: NDArray[np.float64], traps: TrapLaw
    ) -> NDArray[np.float64]:
        """Vmin from which the mean shifts of transistors seem to start, by their luck.

        A transistor makes its cell fail once it has shifted far enough, and it has done so at one
        mean shift (`TrapLaw.mean_at`). A cell with this Vmin would fail at the same mean shift if
        all transistors shifted alike.

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of cells as manufactured, at most the lowest Vdd.
        scores : float64[k, n]
            Scores of T0 and T1 of each cell, and of N0 and N1 where these age.
        traps : TrapLaw
            The law of their shifts.

        Returns
        -------
        float64[k, n]
        """
        growth = np.broadcast_to(self.vmin_coefficient, vmin_volts.shape)
        grows = growth > 0
        needed = np.full(vmin_volts.shape, np.inf)
        np.divide(self.lowest_vdd_volts - vmin_volts, growth, out=needed, where=grows)
        start = np.stack([vmin_volts] * len(scores))
        reached = growth * np.where(grows, traps.mean_at(needed, scores), 0.0)
        return np.where(grows, self.lowest_vdd_volts - reached, start)

    def are_faulty(
        self,
        vmin_volts: NDArray[np.float64],
        dvth_volts: NDArray[np.float64],
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.bool_]:
        """Whether cells do not work at the lowest Vdd: bool[n].

        Parameters
        ----------
        vmin_volts : float64[k, n]
            Without margins: Vmin from which the shift of each transistor starts, that of the cell
            as manufactured, or what `start_of` makes of it where transistors differ by their luck.
            With margins: Vmin of each limit as manufactured, minus infinity for those that do not
            limit the cell.
        dvth_volts : float64[2, n] or float64[4, n]
            Shifts of T0 and T1 of each cell, and of N0 and N1 where these age; the mean of all
            transistors that are stressed alike.
        scores : float64[2, n] or float64[4, n], optional
            Scores of these transistors, where there are margins and transistors differ.
        """
        if self.margins is not None:
            if self.traps is not None and scores is not None:
                dvth_volts = self.traps.shift(dvth_volts, scores)
            dvth_volts = self.margins.growth(dvth_volts)
        vmin = aged_vmin(vmin_volts, dvth_volts, self.vmin_coefficient)
        faulty: NDArray[np.bool_] = np.logical_or.reduce(vmin > self.lowest_vdd_volts)
        return faulty
