"""The fault model of a sweep: which scenario, and how its maps come about."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.variation.cells import TailCells
from mcage.variation.scenarios import Scenario
from mcage.variation.table import sample_table
from mcage.variation.theory import check_vdd
from mcage.variation.vmin import sample_tail

MODES = ("varius", "table", "table-exact")
"""Ways to make a fault map; see `FaultModel`."""


@dataclass(frozen=True)
class FaultModel:
    """Where the faults of an instance come from.

    Parameters
    ----------
    scenario : Scenario
        Of `mcage.variation.scenario`, or changed by `dataclasses.replace`.
    mode : str
        ``varius``: Vmin of every cell from the spatial model; any Vdd, faults grow with age.
        ``table``: class of every entry drawn from the scenario's table; its own Vdd only, faults
        never grow. ``table-exact``: the same with exactly the table's shares in every map.
    spread_blocks : bool
        Hand it on to `mcage.variation.fault_map`.

    Raises
    ------
    UserError
        If ``mode`` is not one of `MODES`.
    """

    scenario: Scenario
    mode: str = "varius"
    spread_blocks: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"unknown fault mode {self.mode!r}; choose one of {', '.join(MODES)}")

    @property
    def grows(self) -> bool:
        """Whether ageing can add faults."""
        return self.mode == "varius"

    def check_vdd(self, vdd_volts: float) -> None:
        """Refuse a Vdd at which this model has nothing to say.

        Raises
        ------
        UserError
            If the Vdd cannot be meant, leaves no reliable entry, or is not the table's.
        """
        check_vdd(self.scenario, vdd_volts)
        if self.mode != "varius" and abs(vdd_volts - self.scenario.vdd_volts) > 1e-9:
            raise UserError(
                f"vdd = {vdd_volts:g} V: mode {self.mode} knows scenario {self.scenario.name} "
                f"at {self.scenario.vdd_volts:g} V only; use that, or mode varius"
            )

    def sample(self, seed: int, instances: NDArray[np.int64], floor_volts: float) -> TailCells:
        """Cells of each instance that are faulty at some Vdd above the floor.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[I]
            Instance ids.
        floor_volts : float
            Lowest Vdd to be asked about, less the largest shift by ageing.

        Raises
        ------
        UserError
            If the floor is too low for ``varius``, or above the Vdd that a table speaks of.
        """
        if self.mode == "varius":
            return sample_tail(self.scenario, seed, instances, floor_volts)
        if not floor_volts <= self.scenario.vdd_volts:
            self.check_vdd(floor_volts)
        return sample_table(self.scenario, seed, instances, exact=self.mode == "table-exact")
