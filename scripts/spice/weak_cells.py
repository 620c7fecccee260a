"""The weak cell of the tail: the most probable mismatch with which a margin fails at a supply."""

from dataclasses import dataclass

import numpy as np
from half_cell import Process, Widths
from margins import ACCESS, TRANSISTORS, Cell, margins
from numpy.typing import NDArray
from read_current import Pair, read_currents

LENGTH_NM = 45.0
STEP = 0.01
"""Difference of a threshold in volts from which derivatives are taken."""

START = {
    "read": (0.06, 0.0, 0.10, -0.06, -0.08, 0.0),
    "write": (0.0, -0.15, 0.0, 0.0, 0.15, 0.0),
    "hold": (0.15, 0.0, 0.10, -0.15, -0.05, 0.0),
    ACCESS: (0.0, 0.0, 0.03, 0.0, 0.05, 0.0),
}
"""Where the search begins, volts, in the order of TRANSISTORS; of a read port, at 0.03 V."""


@dataclass(frozen=True, eq=False)
class WeakCell:
    """A cell with mismatch whose margin is zero at ``vdd``.

    ``beta`` is its distance from the cell without mismatch in standard deviations: at the first
    order, a share Phi(-beta) of all cells fails by this margin of this value. ``slopes`` are the
    derivatives of Vmin to the threshold of each transistor, V/V, in the order of TRANSISTORS.
    """

    kind: str
    vdd: float
    widths: Widths
    shifts: NDArray[np.float64]
    beta: float
    slopes: NDArray[np.float64]
    sigmas: NDArray[np.float64]
    needed_amperes: float = np.nan

    @property
    def sigma_volts(self) -> float:
        """Standard deviation of Vmin by this margin, at the first order: V."""
        return float(np.linalg.norm(self.slopes * self.sigmas))

    def aged(self, dvth: dict[str, float]) -> Cell:
        """The cell after shifts in volts of some of its transistors."""
        added = np.array([dvth.get(name, 0.0) for name in TRANSISTORS[: len(self.shifts)]])
        return Cell(self.kind, self.shifts + added, self.widths, self.needed_amperes)


def sigmas(widths: Widths, pelgrom_mv_um: float) -> NDArray[np.float64]:
    """Standard deviation of each mismatch in volts (Pelgrom et al., JSSC 1989)."""
    of = [widths.pull_up] * 2 + [widths.pull_down] * 2 + [widths.access] * 2
    of += [widths.port] * 2 if widths.port else []
    return pelgrom_mv_um * 1e-3 / np.sqrt(np.array(of) * LENGTH_NM * 1e-6)


def weak_cell(
    kind: str,
    vdd: float,
    widths: Widths,
    pelgrom_mv_um: float,
    process: Process,
    fraction: float = np.nan,
) -> WeakCell:
    """Most probable mismatch with which a margin is zero at ``vdd``.

    The search is that of Hasofer and Lind, and of Rackwitz and Fiessler (1978). The margin stays
    zero along the Vmin of neighbouring cells, so that dVmin/ds = -(dm/ds)/(dm/dVdd). Of the kind
    ACCESS, the clock leaves time for a read current that is ``fraction`` of that of the cell
    without mismatch at ``vdd``, and it does not change with the supply.

    Raises
    ------
    RuntimeError
        The search has not settled.
    """
    sigma = sigmas(widths, pelgrom_mv_um)
    count = len(sigma)
    x = np.array([*START[kind], *[0.03 if kind == ACCESS else 0.0] * 2][:count])
    needed = np.nan
    if kind == ACCESS:
        without = Pair.of(vdd, widths, np.zeros(count))
        needed = fraction * float(read_currents([without], process)[0])
    for _ in range(25):
        points = [x, *(x + STEP * side for row in np.eye(count) for side in (row, -row))]
        cells = [Cell(kind, point, widths, needed) for point in [*points, x, x]]
        vdds = np.array([*[vdd] * len(points), vdd + STEP, vdd - STEP])
        *found, above, below = margins(cells, vdds, process)
        found = np.array(found)
        slope = (found[1::2] - found[2::2]) / (2 * STEP)
        if not np.isfinite(slope).all() or not np.isfinite(found[0]):
            x = x * 0.8 if kind != "write" else x * 1.2
            continue
        weighted = sigma**2 * slope
        target = (slope @ x - found[0]) * weighted / (slope @ weighted)
        step = target - x
        x = x + step * min(1.0, 0.05 / np.abs(step).max())
        if np.abs(step).max() < 2e-4:
            slopes = -slope * 2 * STEP / (above - below)
            beta = float(np.linalg.norm(x / sigma))
            return WeakCell(kind, vdd, widths, x, beta, slopes, sigma, needed)
    raise RuntimeError(f"{kind} at {vdd} V, {widths}: no weak cell found, last {x}")
