"""What holds for every instance of a case while it lives."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcage.aging.delay import dvth_at_delay
from mcage.aging.drift import Drift
from mcage.aging.environment import Environment
from mcage.aging.instance import InstanceConstants, InstanceLaws
from mcage.aging.limits import Limits
from mcage.aging.nbti import SECONDS_PER_YEAR, AdditiveModel
from mcage.errors import UserError


@dataclass(frozen=True)
class LifeRules:
    """What holds for every instance of a case.

    Parameters
    ----------
    environment : Environment
        Operating points.
    nbti : AdditiveModel
        Model of the threshold shift; of others, the cell with the longest time under stress need
        not be the worst.
    epoch_edges_years : tuple of float
        Borders of the epochs.
    delay_guardband : float
        Delay increase that ends a life.
    vmin_coefficient : float
        Growth of Vmin per threshold shift, V/V.
    lds_rows : int
        Spilled rows for which there is room.
    spread_blocks : bool
        Conservative rule for fault maps.
    laws : InstanceLaws
        What instances have of their own.
    spill_limit : float
        Share of a kernel's writes that may go to the LDS; 1 for no limit.
    holds_while_idle : bool
        Whether replays contain the idle time of a slice; if not, all its cells are off in it.
    """

    environment: Environment
    nbti: AdditiveModel
    epoch_edges_years: tuple[float, ...]
    delay_guardband: float
    vmin_coefficient: float
    lds_rows: int
    spread_blocks: bool
    laws: InstanceLaws
    spill_limit: float = 1.0
    holds_while_idle: bool = False

    @property
    def horizon_seconds(self) -> float:
        """End of the simulated time."""
        return self.epoch_edges_years[-1] * SECONDS_PER_YEAR

    @cached_property
    def floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty: lowest Vdd less the largest shift."""
        largest = self.nbti.largest_dvth(self.environment, self.horizon_seconds, self.laws.extremes)
        return self.environment.lowest_vdd_volts - self.vmin_coefficient * largest * (1 + 1e-9)

    def drift(self, constants: InstanceConstants | None = None) -> Drift:
        """How the transistors of instances drift.

        Parameters
        ----------
        constants : InstanceConstants, optional
            What they have of their own, within the bounds of the laws.

        Raises
        ------
        UserError
            If none are given, but instances differ; or if a transistor within the bounds of the
            laws would drift further than those at the bounds.
        """
        own = self.laws.constants if constants is None else constants
        self._check(own)
        return Drift(
            nbti=self.nbti,
            rates=self.nbti.rates(self.environment, own.transistors),
            activity=np.ones(()) if self.holds_while_idle else own.activity,
        )

    def limits(self, constants: InstanceConstants | None = None) -> Limits:
        """How far the transistors of instances may shift; arguments and errors as of `drift`."""
        own = self.laws.constants if constants is None else constants
        return Limits(
            vt0_volts=own.vt0_volts,
            dvth_limit_volts=np.asarray(
                dvth_at_delay(
                    self.delay_guardband,
                    self.environment.highest_vdd_volts,
                    own.vt0_volts,
                    self.nbti.alpha,
                )
            ),
            vmin_coefficient=self.vmin_coefficient,
            lowest_vdd_volts=self.environment.lowest_vdd_volts,
        )

    def _check(self, own: InstanceConstants) -> None:
        """Refuse instances that drift further than the floor allows for."""
        seconds = self.horizon_seconds
        largest = self.nbti.largest_dvth(self.environment, seconds, own.transistors)
        bound = self.nbti.largest_dvth(self.environment, seconds, self.laws.extremes)
        if largest > bound * (1 + 1e-9):
            raise UserError(
                f"NBTI model {self.nbti!r}: a transistor within the bounds of vt0_volts and "
                f"temperature_kelvin shifts by {largest:g} V, those at the bounds by {bound:g} V; "
                "sweeps need a model whose shift rises or falls with each of them"
            )
