"""The fault scenarios, and the constants that make one."""

import math
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Self

from mcage.errors import UserError
from mcage.geometry import GCN, SliceGeometry
from mcage.plain_text import shortened

PUBLISHED = ("common", "clustered", "dispersed")
"""Scenarios with a published table: Común, Agrupado, Disperso of Toca-Díaz et al. (RRCD, section
II.B)."""

SCENARIOS = (*PUBLISHED, "measured")
"""Names of all scenarios; ``measured`` is fitted to counts of faulty bits of undervolted arrays."""

NO_ARRAYS = "none"
"""In place of a size: the systematic part is a smooth field."""

MODES = ("varius", "table", "table-exact")
"""Ways to make a fault map; see `mcage.variation.fault_models.FaultModel`."""

CLASSES = ("0", "1", "2", "3", ">=4")
"""Classes of entries by their number of faulty bits, as in Table I of RRCD."""


@dataclass(frozen=True)
class ArraySize:
    """Part of a slice that is an SRAM array: so many entries, so many bits of each.

    Parameters
    ----------
    entries, bits : int
        Rows and columns of cells of the array, in entries of the slice and bits of an entry.
    """

    entries: int
    bits: int

    def __str__(self) -> str:
        return f"{self.entries}x{self.bits}"

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Size of a text such as ``128x128``, entries first; None for ``none``.

        Raises
        ------
        UserError
            The text has another form.
        """
        if text == NO_ARRAYS:
            return None
        numbers = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
        if numbers is None:
            raise UserError(
                f"arrays = {shortened(text)}, expected ENTRIESxBITS, such as 128x128, or "
                f"{NO_ARRAYS}"
            )
        return cls(*map(int, numbers.groups()))

    def counts(self, geometry: SliceGeometry) -> tuple[int, int]:
        """Number of arrays along the entries and along the bits of an entry of a slice."""
        return geometry.entries // self.entries, geometry.entry_bits // self.bits


@dataclass(frozen=True)
class Scenario:
    """How the minimum working voltage (Vmin) of a cell varies, and at which Vdd the slice runs.

    Per cell, Vmin = mu + D + S + R: D is normal with ``sigma_die_volts`` and common to all cells
    of all slices of a die; S is normal with ``sigma_systematic_volts``; R is normal with
    ``sigma_random_volts``, independent from cell to cell. A cell is faulty when Vmin > Vdd. S is
    either a smooth field, correlated over the slice within the range ``phi`` and constant inside a
    node, or constant inside an array and independent from array to array.

    Parameters
    ----------
    name : str
        One of `SCENARIOS`, or the name of a user-defined scenario.
    vdd_volts : float
        The default Vdd of slices, and for which ``table_shares`` hold.
    mu_volts, sigma_systematic_volts, sigma_random_volts : float
        The distribution of Vmin. It is fitted to the tail only: ``mu_volts`` is no measured mean.
    sigma_die_volts : float
        Deviation from die to die; 0: all dies are alike, but for their fields and cells.
    phi : float
        Range of the spatial correlation of a smooth field, in sides of the slice.
    table_shares : tuple of 5 float
        Published fractions of entries with 0, 1, 2, 3, and 4 or more faulty bits; they sum to 1.
        Empty if none are published.
    node_rows, node_columns : int
        Nodes of the systematic part along the entries and along the bits of an entry. An array
        consists of whole nodes.
    geometry : SliceGeometry
        The slice. ``table_shares`` are those of the papers' slice, whatever it is.
    arrays : ArraySize, optional
        Size of the arrays; None: the systematic part is a smooth field.
    working_vdd_volts : tuple of float, optional
        The Vdd at which 99 % of the new slices work whose technique redirects, and of conventional
        ones; empty if that is not known.

    Raises
    ------
    UserError
        If a value cannot be meant.

    Notes
    -----
    Variation model: Sarangi et al. (VARIUS), IEEE Trans. Semiconductor Manufacturing 21(1), 2008.
    Each constant's source and status stand in ``mcage/data/variation.toml``.
    """

    name: str
    vdd_volts: float
    mu_volts: float
    sigma_systematic_volts: float
    sigma_random_volts: float
    phi: float
    table_shares: tuple[float, ...]
    node_rows: int = 32
    node_columns: int = 16
    sigma_die_volts: float = 0.0
    geometry: SliceGeometry = GCN
    arrays: ArraySize | None = None
    working_vdd_volts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        shares, geometry = self.table_shares, self.geometry
        demands = {
            "vdd_volts": (0 < self.vdd_volts <= 2, "0 < volts <= 2"),
            "mu_volts": (-2 <= self.mu_volts <= 2, "-2 ... 2 volts"),
            "sigma_die_volts": (0 <= self.sigma_die_volts <= 1, "0 ... 1 volts"),
            "sigma_systematic_volts": (0 <= self.sigma_systematic_volts <= 1, "0 ... 1 volts"),
            "sigma_random_volts": (0 < self.sigma_random_volts <= 1, "0 < volts <= 1"),
            "phi": (0 < self.phi < math.inf, "a positive number of slice sides"),
            "table_shares": (
                not shares
                or (
                    len(shares) == len(CLASSES)
                    and min(shares) >= 0
                    and math.isclose(sum(shares), 1)
                ),
                f"{len(CLASSES)} shares that sum to 1",
            ),
            "node_rows": (
                _divides(self.node_rows, geometry.entries),
                f"a divisor of {geometry.entries}",
            ),
            "node_columns": (
                _divides(self.node_columns, geometry.entry_bits) and self.segment_bits <= 256,
                f"a divisor of {geometry.entry_bits}, with 256 bits between at most",
            ),
            "arrays": (
                self._fits_arrays(),
                f"arrays that divide {geometry.entries} entries of {geometry.entry_bits} bits, and "
                "are whole nodes",
            ),
        }
        for key, (met, demand) in demands.items():
            if not met:
                value = getattr(self, key)
                stated = str(value) if key == "arrays" else repr(value)
                raise UserError(f"scenario {self.name!r}: {key} = {stated}, expected {demand}")

    def _fits_arrays(self) -> bool:
        size, geometry = self.arrays, self.geometry
        return size is None or (
            _divides(size.entries, geometry.entries)
            and _divides(size.bits, geometry.entry_bits)
            and _divides(geometry.entries // self.node_rows, size.entries)
            and _divides(self.segment_bits, size.bits)
        )

    def in_arrays(self, size: ArraySize | None) -> "Scenario":
        """The same with arrays of another size, or with a smooth field; finer nodes if need be.

        Raises
        ------
        UserError
            Arrays of this size do not divide the slice.
        """
        if size is None:
            return replace(self, arrays=None)
        geometry = self.geometry
        rows = geometry.entries // math.gcd(size.entries, geometry.entries // self.node_rows)
        columns = geometry.entry_bits // math.gcd(size.bits, self.segment_bits)
        return replace(self, arrays=size, node_rows=rows, node_columns=columns)

    @property
    def sigma_volts(self) -> float:
        """Deviation of one cell of one die from ``mu_volts``: all three parts together."""
        return math.hypot(
            self.sigma_die_volts, self.sigma_systematic_volts, self.sigma_random_volts
        )

    @property
    def segment_bits(self) -> int:
        """Bits of an entry that lie in the same node, and so have the same systematic value."""
        return self.geometry.entry_bits // self.node_columns

    @property
    def segments(self) -> int:
        """Segments of the slice: one per entry and node column."""
        return self.geometry.entries * self.node_columns


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole % part == 0


@cache
def constants() -> dict[str, Any]:
    """All constants of ``variation.toml``: value, status and source of each."""
    text = files("mcage").joinpath("data/variation.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def scenario(name: str) -> Scenario:
    """Scenario of that name on the papers' slice, with the constants that mcage ships.

    Raises
    ------
    UserError
        If ``name`` is not one of `SCENARIOS`.
    """
    if name not in SCENARIOS:
        raise UserError(f"unknown scenario {name!r}; choose one of {', '.join(SCENARIOS)}")
    entries = constants()["grid"] | constants()["scenario"][name]
    values = {key: entry["value"] for key, entry in entries.items()}
    shares = tuple(share / 100 for share in values.pop("table_percent", ()))
    arrays = ArraySize.of(values.pop("arrays", NO_ARRAYS))
    working = tuple(values.pop("working_vdd_volts", ()))
    made = Scenario(name=name, table_shares=shares, working_vdd_volts=working, **values)
    return made.in_arrays(arrays)


# Cells that a register file is made of, and how their Vmin differs as manufactured.
#
# The scenarios speak of cells of six transistors. An 8T cell has a port of two stacked NMOS for
# reading, so that no read disturbs it: it fails when it is too slow, or cannot be written. How its
# Vmin differs from that of a 6T cell with the same mismatch is simulated (`scripts/spice/`).

CELL_6T, CELL_8T = CELLS = ("6t", "8t")
"""Names of the cells: six transistors, or eight with a port for reading."""

USUAL_TABLE = "margins"
"""Table of a cell that is no end of a band."""

_FILES = MappingProxyType({CELL_6T: "margins.toml", CELL_8T: "margins_8t.toml"})


@cache
def tables_of(cell: str) -> MappingProxyType[str, dict[str, Any]]:
    """Tables of Vmin of a cell by name: value, unit, status and source of each entry.

    Parameters
    ----------
    cell : str
        One of `CELLS`.
    """
    text = files("mcage").joinpath("data", _FILES[cell]).read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


@dataclass(frozen=True)
class Manufactured:
    """How the Vmin of 8T cells differs from that of 6T cells as manufactured.

    Parameters
    ----------
    shift_volts : float
        How much higher the Vmin of an 8T cell lies than that of the 6T cell which is as rare in the
        tail, and which just works at the Vdd of the scenario; below 0 if it lies lower.
    sigma_ratio : float
        Deviation of the Vmin of 8T cells over that of 6T cells.

    Notes
    -----
    At the Vdd of the scenario, the clock leaves a read as much time as the table says, and the
    clock does not change with the supply.
    """

    shift_volts: float
    sigma_ratio: float

    @classmethod
    def of_table(cls, name: str) -> "Manufactured":
        """The difference in a table of `tables_of`.

        Raises
        ------
        UserError
            The table does not say it.
        """
        known = tables_of(CELL_8T)
        if name not in known:
            raise UserError(
                f"aging.vmin_model = {shortened(name)}: no table of 8T cells has this name; choose "
                f"from {', '.join(known)}"
            )
        return cls(*known[name]["manufactured"]["value"])

    def of(self, scenario: Scenario) -> Scenario:
        """A scenario whose cells are 8T cells; no table is published for these."""
        middle = scenario.mu_volts - scenario.vdd_volts
        return replace(
            scenario,
            name=f"{scenario.name} of 8T cells",
            mu_volts=scenario.vdd_volts + self.shift_volts + self.sigma_ratio * middle,
            sigma_die_volts=self.sigma_ratio * scenario.sigma_die_volts,
            sigma_systematic_volts=self.sigma_ratio * scenario.sigma_systematic_volts,
            sigma_random_volts=self.sigma_ratio * scenario.sigma_random_volts,
            table_shares=(),
        )


def on_cell(scenario: Scenario, cell: str | None, table: str = USUAL_TABLE) -> Scenario:
    """A scenario with cells of another kind; the same for 6T cells.

    Parameters
    ----------
    scenario : Scenario
        The scenario for 6T cells.
    cell : str, optional
        One of `CELLS`; 6T cells by default.
    table : str
        Table of the difference, for another cell.
    """
    return Manufactured.of_table(table).of(scenario) if cell == CELL_8T else scenario
