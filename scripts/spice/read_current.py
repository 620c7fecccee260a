"""Currents with which cells are read, computed by ngspice.

A cell that is read draws the charge of its bit line through two stacked NMOS. The gate of the upper
one is the word line, that of the lower one a node of the cell which holds '1':

    6T cell, value '0':  access transistor A0 over pull-down N0, whose gate is node QB
    8T cell, value '0':  R1 over R0, whose gate is node QB, at a bit line for reading alone

So the port of an 8T cell discharges its bit line for one of the two values. Bit line, word line and
node are at Vdd, as when a read begins: the time that a bit line takes is the reciprocal of this
current, with the same charge for all cells. A 6T cell that loses its value meanwhile fails by its
read margin, which is another kind of failure.
"""

from dataclasses import dataclass

import numpy as np
from half_cell import Process, Widths, simulated
from numpy.typing import NDArray

TOGETHER = 400
"""Pairs of one netlist."""


@dataclass(frozen=True)
class Pair:
    """Two stacked NMOS at a supply; widths in nm, shifts in volts."""

    vdd: float
    upper_nm: float
    lower_nm: float
    upper_shift: float = 0.0
    lower_shift: float = 0.0

    @classmethod
    def of(cls, vdd: float, widths: Widths, shifts: NDArray[np.float64]) -> "Pair":
        """The pair that reads a '0' from a cell; shifts in the order of `mismatched`."""
        _, _, n0, _, a0, _, *port = map(float, shifts)
        if widths.port:
            r0, r1 = port
            return cls(float(vdd), widths.port, widths.port, r1, r0)
        return cls(float(vdd), widths.access, widths.pull_down, a0, n0)

    def lines(self, name: str) -> str:
        """Its part of a netlist; the current of its bit line is that of ``vb<name>``."""
        return (
            f"Vb{name} b{name} 0 {self.vdd!r}\n"
            f"Mu{name} b{name} b{name} m{name} 0 nmos l=45n w={self.upper_nm}n"
            f" delvto={self.upper_shift!r}\n"
            f"Ml{name} m{name} b{name} 0 0 nmos l=45n w={self.lower_nm}n"
            f" delvto={self.lower_shift!r}\n"
        )


def read_currents(pairs: list[Pair], process: Process) -> NDArray[np.float64]:
    """Currents of pairs in amperes: float64[n].

    Raises
    ------
    RuntimeError
        As `simulated`.
    """
    found = []
    for first in range(0, len(pairs), TOGETHER):
        part = pairs[first : first + TOGETHER]
        lines = [pair.lines(str(i)) for i, pair in enumerate(part)]
        outputs = [f"i(vb{i})" for i in range(len(part))]
        found.append(-simulated(lines, outputs, (0.0, 0.5, 1.0), process)[:, 0])
    return np.concatenate(found)
