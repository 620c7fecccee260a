"""Voltage transfer curves of half cells of 6T and 8T cells, computed by ngspice.

A half cell is an inverter, whose output is a node of the cell, and the access transistor that joins
this node to its bit line. Many half cells stand in one netlist, each with supplies of its own, and
are swept together: the input goes from LOWEST to HIGHEST times the supply of each. The core of an
8T cell, whose read port takes no current from its nodes, has the same halves as a 6T cell.
"""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CARD = Path(__file__).with_name("card.inc")
LOWEST, HIGHEST, POINTS = -0.5, 1.3, 121
SHARES = np.linspace(LOWEST, HIGHEST, POINTS)
"""Inputs of a sweep, as fractions of the supply."""

TOGETHER = 150
"""Half cells of one netlist."""


@dataclass(frozen=True)
class Process:
    """What all transistors share: a BSIM4 card with models `nmos` and `pmos`, and a temperature."""

    card: Path = CARD
    celsius: float = 80.0


@dataclass(frozen=True)
class Widths:
    """Widths of the transistors of a cell in nm; all are 45 nm long, as drawn.

    The two transistors of the read port of an 8T cell are as wide as each other; a 6T cell has
    none, and its port is 0 nm wide.
    """

    pull_up: float = 70.0
    access: float = 90.0
    pull_down: float = 150.0
    port: float = 0.0

    @property
    def cell(self) -> str:
        """What the cell is called: ``6t`` or ``8t``."""
        return "8t" if self.port else "6t"


@dataclass(frozen=True)
class HalfCell:
    """One half cell; word line and bit line as fractions of the supply, shifts in volts.

    A positive shift makes its transistor weaker, also the PMOS.
    """

    vdd: float
    word_line: float
    bit_line: float
    pull_up_shift: float
    pull_down_shift: float
    access_shift: float

    def lines(self, name: str, widths: Widths) -> str:
        """Its part of a netlist; its output is the node ``o<name>``."""
        return (
            f"Vd{name} d{name} 0 {self.vdd!r}\n"
            f"Vw{name} w{name} 0 {self.vdd * self.word_line!r}\n"
            f"Vb{name} b{name} 0 {self.vdd * self.bit_line!r}\n"
            f"Ei{name} i{name} 0 x 0 {self.vdd!r}\n"
            f"Mp{name} o{name} i{name} d{name} d{name} pmos l=45n w={widths.pull_up}n"
            f" delvto={-self.pull_up_shift!r}\n"
            f"Mn{name} o{name} i{name} 0 0 nmos l=45n w={widths.pull_down}n"
            f" delvto={self.pull_down_shift!r}\n"
            f"Ma{name} b{name} w{name} o{name} 0 nmos l=45n w={widths.access}n"
            f" delvto={self.access_shift!r}\n"
        )


def transfer_curves(halves: list[tuple[HalfCell, Widths]], process: Process) -> NDArray[np.float64]:
    """Outputs of half cells in volts, float64[n, POINTS], for the inputs SHARES times their supply.

    Raises
    ------
    RuntimeError
        ngspice ended without the curves; the message is its own.
    """
    parts = [halves[i : i + TOGETHER] for i in range(0, len(halves), TOGETHER)]
    return np.concatenate([_swept(part, process) for part in parts])


def _swept(halves: list[tuple[HalfCell, Widths]], process: Process) -> NDArray[np.float64]:
    step = (HIGHEST - LOWEST) / (POINTS - 1)
    parts = [half.lines(str(i), widths) for i, (half, widths) in enumerate(halves)]
    outputs = [f"v(o{i})" for i in range(len(halves))]
    return simulated(parts, outputs, (LOWEST, HIGHEST + step / 2, step), process)


def simulated(
    parts: list[str], outputs: list[str], sweep: tuple[float, float, float], process: Process
) -> NDArray[np.float64]:
    """What ngspice computes of circuits that share nothing but the input ``x``.

    Parameters
    ----------
    parts : list of str
        Lines of each circuit.
    outputs : list of str
        Voltages and currents that are asked for, as ngspice calls them.
    sweep : tuple of float
        First and last value and step of the input, V.
    process : Process
        Card and temperature.

    Returns
    -------
    float64[outputs, points]

    Raises
    ------
    RuntimeError
        ngspice ended early; the message is its own.
    """
    first, last, step = sweep
    points = int((last - first) / step + 1e-9) + 1
    netlist = [
        "* parts of memory cells\n",
        f'.include "{process.card.resolve()}"\n',
        f".temp {process.celsius}\n.options gmin=1e-15 reltol=1e-6 abstol=1e-15 vntol=1e-9\n",
        "Vx x 0 0\n",
        *parts,
        f".save {' '.join(outputs)}\n",
        f".dc Vx {first} {last} {step!r}\n.end\n",
    ]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cells.cir").write_text("".join(netlist))
        ended = subprocess.run(
            ["ngspice", "-b", "-r", "out.raw", "cells.cir"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        raw = Path(folder) / "out.raw"
        if not raw.exists():
            raise RuntimeError(f"ngspice: {ended.stdout[-400:]} {ended.stderr[-400:]}")
        head, _, data = raw.read_bytes().partition(b"Binary:\n")
    names = [line.split()[1] for line in head.decode().partition("Variables:\n")[2].splitlines()]
    values = np.frombuffer(data).reshape(-1, len(names))
    if len(values) != points:
        raise RuntimeError(f"ngspice stopped after {len(values)} points: {ended.stderr[-400:]}")
    return np.ascontiguousarray(values[:, [names.index(name) for name in outputs]].T)


def simulator_version() -> str:
    """What ngspice calls itself, such as ``ngspice-39``."""
    shown = subprocess.run(["ngspice", "--version"], capture_output=True, text=True, check=True)
    return next(word for word in shown.stdout.split() if word.startswith("ngspice-"))
