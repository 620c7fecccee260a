"""What holds for every instance of a case while it lives."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.delay import dvth_at_delay
from mcage.aging.environment import Environment
from mcage.aging.nbti import SECONDS_PER_YEAR, AdditiveModel, NbtiModel
from mcage.aging.nbti.monotonicity import check_model
from mcage.aging.sampling import InstanceConstants, InstanceDistributions
from mcage.errors import UserError
from mcage.lifetime.degradation.history import History
from mcage.lifetime.degradation.shifts import Drift
from mcage.lifetime.failure_criteria import FailureCriteria


@dataclass(frozen=True)
class LifeConditions:
    """What holds for every instance of a case.

    Parameters
    ----------
    environment : Environment
        Operating points.
    nbti : NbtiModel
        Model of the threshold shift.
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
    nbti: NbtiModel
    epoch_edges_years: tuple[float, ...]
    delay_guardband: float
    vmin_coefficient: float
    lds_rows: int
    spread_blocks: bool
    laws: InstanceDistributions
    spill_limit: float = 1.0
    holds_while_idle: bool = False

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.epoch_edges_years) - 1

    @property
    def horizon_seconds(self) -> float:
        """End of the simulated time."""
        return self.epoch_edges_years[-1] * SECONDS_PER_YEAR

    @cached_property
    def floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty: lowest Vdd less the largest shift."""
        largest = self.nbti.largest_dvth(self.environment, self.horizon_seconds, self.laws.extremes)
        return self.environment.lowest_vdd_volts - self.vmin_coefficient * largest * (1 + 1e-9)

    @property
    def sums_suffice(self) -> bool:
        """Whether shifts follow from the total seconds under stress, whatever came when."""
        return isinstance(self.nbti, AdditiveModel) and not self.laws.swings

    def check_model(self) -> None:
        """Refuse a model that lives cannot rely on, as far as random histories show it.

        Raises
        ------
        UserError
            See `mcage.aging.nbti.monotonicity.check_model`.
        """
        if not self.sums_suffice:
            check_model(self.nbti, self.environment, self.horizon_seconds, self.laws.extremes)

    def drift(self, constants: InstanceConstants | None = None) -> Drift:
        """How the transistors of instances drift, where sums suffice.

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
        own = self._own(constants)
        assert isinstance(self.nbti, AdditiveModel)
        return Drift(
            nbti=self.nbti,
            rates=self.nbti.rates(self.environment, own.transistors),
            activity=self._switched_on(own),
        )

    def history(self, constants: InstanceConstants | None = None) -> History:
        """What epochs do to the transistors of instances; arguments and errors as of `drift`."""
        own = self._own(constants)
        return History(
            nbti=self.nbti,
            rates=tuple(
                self.nbti.rates(self.environment, own.in_epoch(epoch).transistors)
                for epoch in range(self.epochs)
            ),
            edges=tuple(years * SECONDS_PER_YEAR for years in self.epoch_edges_years),
            activity=self._switched_on(own),
        )

    def limits(self, constants: InstanceConstants | None = None) -> FailureCriteria:
        """How far the transistors of instances may shift; arguments and errors as of `drift`."""
        own = self._own(constants)
        return FailureCriteria(
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

    def _switched_on(self, own: InstanceConstants) -> NDArray[np.float64]:
        """Share of the time that replays stand for."""
        return np.ones(()) if self.holds_while_idle else own.activity

    def _own(self, constants: InstanceConstants | None) -> InstanceConstants:
        """Constants of instances, unless they drift further than the floor allows for."""
        own = self.laws.constants if constants is None else constants
        seconds = self.horizon_seconds
        moments = range(self.epochs) if own.temperature_swing_kelvin.ndim else [0]
        largest = max(
            self.nbti.largest_dvth(self.environment, seconds, own.in_epoch(epoch).transistors)
            for epoch in moments
        )
        bound = self.nbti.largest_dvth(self.environment, seconds, self.laws.extremes)
        if largest > bound * (1 + 1e-9):
            raise UserError(
                f"NBTI model {self.nbti!r}: a transistor within the bounds of vt0_volts and "
                f"temperature_kelvin shifts by {largest:g} V, those at the bounds by {bound:g} V; "
                "sweeps need a model whose shift rises or falls with each of them"
            )
        return own
