"""The fault model of a sweep: which scenario, and how its maps come about."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import GCN, SliceGeometry
from mcage.variation.die import die_of
from mcage.variation.expected import check_vdd
from mcage.variation.modes import GROWING_MODES, MODES
from mcage.variation.published_table import sample_table, select_attempts
from mcage.variation.scenarios import ArraySize, Scenario, scenario
from mcage.variation.vmin_tail import TailCells, sample_tail

DEFAULT_TOLERANCE = 0.05
"""Tolerance of selected maps: five percentage points in the worst class."""


@dataclass(frozen=True)
class FaultModel:
    """Where the faults of an instance come from.

    Parameters
    ----------
    scenario : Scenario
        Of `mcage.variation.scenarios.scenario`, or changed by `dataclasses.replace`.
    mode : str
        ``varius``: Vmin of each cell from the spatial model; any Vdd, faults grow with age.
        ``varius-selected``: the same, but only slices whose new map is close to the scenario's
        table; only the Vdd of the table. ``table``: the class of each entry is drawn from the
        table; only the Vdd of the table, and faults never grow. ``table-exact``: the same with
        exactly the fractions of the table in each map.
    spread_blocks : bool
        Whether fault maps follow the conservative rule of `mcage.variation.fault_maps`.
    slices_per_chip : int
        Slices with successive ids that share a die; see `mcage.variation.die.die_of`.
    tolerance : float
        Of ``varius-selected``: largest deviation of a class from the table, as a fraction of the
        entries.

    Raises
    ------
    UserError
        If ``mode`` is not one of `MODES`, a value is impossible, or the mode cannot take a die
        part into account, or needs a table that the scenario does not have.
    """

    scenario: Scenario
    mode: str = "varius"
    spread_blocks: bool = False
    slices_per_chip: int = 1
    tolerance: float = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"unknown fault mode {self.mode!r}; choose one of {', '.join(MODES)}")
        if self.slices_per_chip < 1:
            raise UserError(f"slices_per_chip = {self.slices_per_chip}, expected 1 or more")
        if not 0 < self.tolerance <= 1:
            raise UserError(f"tolerance = {self.tolerance:g}, expected a share: 0 < share <= 1")
        if self.mode != "varius" and not self.scenario.table_shares:
            raise UserError(
                f"mode {self.mode}: no table is published for scenario {self.scenario.name}; use "
                "mode varius"
            )
        if self.mode != "varius" and self.scenario.sigma_die_volts > 0:
            raise UserError(
                f"sigma_die_volts = {self.scenario.sigma_die_volts:g}: mode {self.mode} holds "
                "slices to one table, whatever their die; use 0, or mode varius"
            )

        if self.mode != "varius" and self.scenario.geometry.shape != GCN.shape:
            raise UserError(
                f"mode {self.mode}: the published table counts faulty bits of entries of a "
                f"{GCN.name} slice, not of {self.scenario.geometry.name}; use mode varius"
            )

    @property
    def grows(self) -> bool:
        """Whether aging can add faults."""
        return self.mode in GROWING_MODES

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

    def attempts(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slices drawn and rejected for each instance; none unless maps are selected.

        Raises
        ------
        UserError
            If no map comes close enough to the table.
        """
        if self.mode == "varius-selected":
            return select_attempts(self.scenario, seed, instances, self.tolerance)
        return np.zeros(len(instances), np.int64)

    def dies(self, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Die of each instance."""
        return die_of(instances, self.slices_per_chip)

    def sample(self, seed: int, instances: NDArray[np.int64], floor_volts: float) -> TailCells:
        """Cells of each instance that are faulty at some Vdd above the floor.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[I]
            Instance ids.
        floor_volts : float
            Lowest Vdd to be asked about, less the largest shift by aging.

        Raises
        ------
        UserError
            If the floor is too low for ``varius``, or above the Vdd that a table speaks of; if
            no map comes close enough to the table.
        """
        if self.grows:
            attempts = self.attempts(seed, instances)
            return sample_tail(
                self.scenario, seed, instances, floor_volts, self.slices_per_chip, attempts
            )
        if not floor_volts <= self.scenario.vdd_volts:
            self.check_vdd(floor_volts)
        return sample_table(self.scenario, seed, instances, exact=self.mode == "table-exact")


def fault_model(
    scenario_name: str,
    mode: str = "varius",
    *,
    spread_blocks: bool = False,
    slices_per_chip: int = 1,
    tolerance: float | None = None,
    geometry: SliceGeometry = GCN,
    arrays: str | None = None,
    **changes: float | None,
) -> FaultModel:
    """Fault model of a shipped scenario, whose parameters may be changed.

    Parameters
    ----------
    scenario_name, mode, spread_blocks, slices_per_chip
        See `mcage.variation.scenarios.scenario` and `FaultModel`.
    tolerance : float, optional
        Of ``varius-selected``; 0.05 by default.
    geometry : SliceGeometry
        The slice.
    arrays : str, optional
        Size of the arrays, see `mcage.variation.scenarios.ArraySize.of`; None: the scenario's.
        On a slice with fewer entries than these have, they are as many bits wider.
    **changes : float, optional
        Parameters of the scenario, such as ``sigma_die_volts``, ``sigma_systematic_volts``,
        ``sigma_random_volts`` or ``phi``; None leaves the shipped one.

    Raises
    ------
    UserError
        As `FaultModel` and `mcage.variation.scenarios.Scenario`; and if an option is given that
        the mode would not use.
    """
    changed = {key: value for key, value in changes.items() if value is not None}
    base = scenario(scenario_name)
    size = _that_fits(base.arrays, geometry) if arrays is None else ArraySize.of(arrays)
    if size and "phi" in changed:
        raise UserError(
            f"phi = {changed['phi']:g}: arrays ({size} in scenario {scenario_name}) have no "
            'correlation over a distance; leave it out, or give arrays = "none"'
        )
    smooth = replace(base.in_arrays(None), geometry=geometry, **changed)  # type: ignore[arg-type]
    chosen = FaultModel(
        smooth.in_arrays(size),
        mode,
        spread_blocks,
        slices_per_chip,
        DEFAULT_TOLERANCE if tolerance is None else tolerance,
    )
    given = changed if arrays is None else changed | {"arrays": arrays}
    if given and not chosen.grows:
        key, value = next(iter(given.items()))
        shown = value if isinstance(value, str) else f"{value:g}"
        raise UserError(
            f"{key} = {shown}: mode {mode} takes classes from a table and would not use it; "
            "leave it out, or use mode varius"
        )
    if tolerance is not None and mode != "varius-selected":
        raise UserError(
            f"tolerance = {tolerance:g}: mode {mode} rejects no map and would not use it; "
            "leave it out, or use mode varius-selected"
        )
    return chosen


def _that_fits(size: ArraySize | None, geometry: SliceGeometry) -> ArraySize | None:
    """Arrays of as many cells that are not higher than the slice."""
    if size is None or size.entries <= geometry.entries:
        return size
    return ArraySize(geometry.entries, size.bits * size.entries // geometry.entries)
