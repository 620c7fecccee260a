"""Cells that a register file is made of, and how their Vmin differs as manufactured.

The scenarios speak of cells of six transistors. An 8T cell has a port of two stacked NMOS for
reading, so that no read disturbs it: it fails when it is too slow, or cannot be written. How its
Vmin differs from that of a 6T cell with the same mismatch is simulated (`scripts/spice/`).
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.variation.scenarios import Scenario

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
