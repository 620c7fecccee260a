"""Margins of cells from the curves of their halves, and the lowest supply at which they are met.

A cell is given by the shifts of its transistors. For a stored '0' (node Q low, node QB high):

    T0  PMOS of QB, stressed by '0'      N0  pull-down of Q, stressed by '0'
    T1  PMOS of Q, stressed by '1'       N1  pull-down of QB, stressed by '1'
    A0  access transistor of Q           A1  access transistor of QB

and of an 8T cell, whose node QB is the gate of its read port:

    R0  lower transistor of the port, stressed by '0'     R1  its upper one, the read word line's

Only margins of the value '0' are computed; those of '1' are the mirror image, but for the read port
of an 8T cell, which draws no current where QB is low.
"""

from dataclasses import dataclass

import numpy as np
from half_cell import SHARES, HalfCell, Process, Widths, transfer_curves
from numpy.typing import NDArray
from read_current import Pair, read_currents
from scipy.interpolate import PchipInterpolator

TRANSISTORS = ("T0", "T1", "N0", "N1", "A0", "A1", "R0", "R1")
"""Of an 8T cell; a 6T cell has the first six."""

KINDS = ("read", "write", "hold")
"""Static margins."""

ACCESS = "access"
"""Margin of the time that a read takes: the logarithm of the current over what the clock needs."""

LINES = {"read": (1.0, 1.0, 1.0), "write": (1.0, 0.0, 1.0), "hold": (0.0, 1.0, 1.0)}
"""Word line, bit lines of Q and of QB, as fractions of the supply. Write: a '0' over '1'."""

CELL = Widths()

CELL_8T = Widths(pull_up=70.0, access=110.0, pull_down=110.0, port=150.0)
"""An 8T cell whose core is made for writing, since no read disturbs it (assumed)."""

TOLERANCE = 2e-5
"""Volts of supply to which a Vmin is found."""

GRID = 801


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell, a margin of which is asked for; shifts in volts, in the order of TRANSISTORS.

    ``needed_amperes`` is the read current for which the clock leaves time.
    """

    kind: str
    shifts: NDArray[np.float64]
    widths: Widths = CELL
    needed_amperes: float = np.nan

    def halves(self, vdd: float) -> list[tuple[HalfCell, Widths]]:
        """The half that drives QB from Q, and the one that drives Q from QB."""
        t0, t1, n0, n1, a0, a1 = map(float, self.shifts[:6])
        word, bit, bit_bar = LINES[self.kind]
        return [
            (HalfCell(float(vdd), word, bit_bar, t0, n1, a1), self.widths),
            (HalfCell(float(vdd), word, bit, t1, n0, a0), self.widths),
        ]


def margin(
    kind: str, vdd: float, qb_of_q: NDArray[np.float64], q_of_qb: NDArray[np.float64]
) -> float:
    """Static noise margin in volts; negative where the cell fails, not a number far from that.

    Notes
    -----
    Seevinck, List and Lohstroh, JSSC 1987: in coordinates turned by 45 degrees, the diagonal of the
    largest square between the two curves is the extremum of their distance. Read and hold: the
    square of the state '0' in the butterfly must exist. Write: the state '1' must not, and the
    margin is how far the curves are apart where it was.
    """
    inputs = SHARES * vdd
    # Curve 1: (inputs, qb_of_q); its u rises. Curve 2: (q_of_qb, inputs); its u falls.
    u1, v1 = (inputs - qb_of_q) / np.sqrt(2), (inputs + qb_of_q) / np.sqrt(2)
    u2, v2 = (q_of_qb - inputs) / np.sqrt(2), (q_of_qb + inputs) / np.sqrt(2)
    low, high = max(u1[0], u2[-1]), min(u1[-1], u2[0])
    u = np.linspace(low, high, GRID)
    apart = PchipInterpolator(u1, v1)(u) - PchipInterpolator(u2[::-1], v2[::-1])(u)
    if kind == "write":  # from the other end, and the other way up
        apart = -apart[::-1]
    inner = (apart[1:-1] >= apart[:-2]) & (apart[1:-1] > apart[2:])
    tops = np.flatnonzero(inner) + 1
    if not tops.size:
        return np.nan
    left, top, right = apart[tops[0] - 1 : tops[0] + 2]
    peak = top + (right - left) ** 2 / (8 * (2 * top - left - right))
    return float(-peak if kind == "write" else peak) / np.sqrt(2)


def margins(cells: list[Cell], vdds: NDArray[np.float64], process: Process) -> NDArray[np.float64]:
    """Margin of each cell, all of them static or none, at its supply: float64[n]."""
    if cells[0].kind == ACCESS:
        pairs = [Pair.of(v, cell.widths, cell.shifts) for cell, v in zip(cells, vdds, strict=True)]
        needed = np.array([cell.needed_amperes for cell in cells])
        return np.log(read_currents(pairs, process) / needed)
    halves = [half for cell, vdd in zip(cells, vdds, strict=True) for half in cell.halves(vdd)]
    curves = transfer_curves(halves, process)
    return np.array(
        [
            margin(cell.kind, vdd, curves[2 * i], curves[2 * i + 1])
            for i, (cell, vdd) in enumerate(zip(cells, vdds, strict=True))
        ]
    )


def vmins(
    cells: list[Cell], around: NDArray[np.float64], reach: float, process: Process
) -> NDArray[np.float64]:
    """Supply in volts at which the margin of each cell passes zero: float64[n].

    Looked for within ``reach`` of ``around``, float64[n]: not a number where the margin has one
    sign at both ends. Every cell is bracketed by itself; all of them are simulated together.
    """
    low, high = around - reach, around + reach
    at_low, at_high = _signed(cells, low, process), _signed(cells, high, process)
    outside = (at_low >= 0) | (at_high < 0)
    bisect = np.zeros(len(cells), bool)
    while (left := np.flatnonzero(~outside & (high - low > TOLERANCE))).size:
        down, up, at_down, at_up = low[left], high[left], at_low[left], at_high[left]
        straight = np.isfinite(at_down) & np.isfinite(at_up) & ~bisect[left]
        with np.errstate(invalid="ignore"):
            root = (down * at_up - up * at_down) / (at_up - at_down)
        # A step beyond the root, so that the other end soon moves as well.
        root = root + np.where(2 * root < down + up, 1, -1) * TOLERANCE / 2
        tried = np.where(straight, root, (down + up) / 2)
        found = _signed([cells[i] for i in left], tried, process)
        works = found >= 0
        high[left], at_high[left] = np.where(works, tried, up), np.where(works, found, at_up)
        low[left], at_low[left] = np.where(works, down, tried), np.where(works, at_down, found)
        bisect[left] = straight & (high[left] - low[left] > (up - down) / 2)
    return np.where(outside, np.nan, (low + high) / 2)


def _signed(cells: list[Cell], vdds: NDArray[np.float64], process: Process) -> NDArray[np.float64]:
    """Margins; where there is none to be measured, infinite with the sign that it must have."""
    found = margins(cells, vdds, process)
    # No square of '0' is left: the cell fails. No trace of '1' is left: it is written.
    none = np.array([np.inf if cell.kind == "write" else -np.inf for cell in cells])
    return np.where(np.isnan(found), none, found)
