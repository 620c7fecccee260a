"""Margins of a cell: how its Vmin for reading, writing and holding follows from four shifts.

A cell works while all of its margins are met. Each margin exists for both values, and the least of
them limits the cell. Around the weak cells of the tail, the Vmin of a margin is close to linear in
the shifts of the four transistors that age: T0 and N0, which '0' stresses, T1 and N1, which '1'
stresses. The coefficients are in `data/margins.toml`; `scripts/spice/` derives them.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.plain_text import shortened

LARGER = "larger"
"""Rule without margins: Vmin grows with the larger shift of a cell."""

KINDS = ("read", "write", "hold")
"""Margins of a cell."""

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

    Notes
    -----
    The margin of '1' is the mirror image of that of '0'. Which kind limits a cell is drawn by the
    shares, and each of the two values is as likely. The others are taken to lie so far below that
    aging does not bring them to the limit: mismatch that weakens one value strengthens the other.
    """

    coefficients: tuple[tuple[float, float, float, float], ...]
    shares: tuple[float, ...]

    @property
    def rows(self) -> tuple[tuple[float, float, float, float], ...]:
        """Coefficients by limit: of each kind, that of '0', then that of '1'."""
        return tuple(
            row
            for t0, t1, n0, n1 in self.coefficients
            for row in ((t0, t1, n0, n1), (t1, t0, n1, n0))
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


def margins(name: str) -> Margins | None:
    """Margins by the name of a rule; None for the rule without margins.

    Raises
    ------
    UserError
        There is no such rule.
    """
    if name == LARGER:
        return None
    if name not in _tables():
        names = ", ".join((LARGER, *_tables()))
        raise UserError(f"aging.vmin_model = {shortened(name)} is unknown; choose from {names}")
    return _tables()[name]


@cache
def _tables() -> MappingProxyType[str, Margins]:
    text = files("mcage").joinpath("data", "margins.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            name: Margins(
                coefficients=tuple(tuple(table[kind]["value"]) for kind in KINDS),
                shares=tuple(table["shares"]["value"]),
            )
            for name, table in tomllib.loads(text).items()
        }
    )
