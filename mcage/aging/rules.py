"""What holds for every instance of a case while it lives."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.delay import dvth_at_delay
from mcage.aging.environment import Environment
from mcage.aging.nbti import SECONDS_PER_YEAR, AdditiveModel, Rates
from mcage.aging.vmin import aged_vmin

LEAST_RECOVERY = 1e-12
"""Share of the age below which recovery is what rounding has left of none. It must not count: the
shift of some models falls at once when recovery begins."""


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
    """

    environment: Environment
    nbti: AdditiveModel
    epoch_edges_years: tuple[float, ...]
    delay_guardband: float
    vmin_coefficient: float
    lds_rows: int
    spread_blocks: bool

    @property
    def horizon_seconds(self) -> float:
        """End of the simulated time."""
        return self.epoch_edges_years[-1] * SECONDS_PER_YEAR

    @cached_property
    def dvth_limit_volts(self) -> float:
        """Threshold shift at which the delay, judged at the highest Vdd, uses up its guardband."""
        return dvth_at_delay(
            self.delay_guardband,
            self.environment.highest_vdd_volts,
            self.nbti.vt0_volts,
            self.nbti.alpha,
        )

    @cached_property
    def floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty: lowest Vdd less the largest shift."""
        largest = self.nbti.largest_dvth(self.environment, self.horizon_seconds)
        return self.environment.lowest_vdd_volts - self.vmin_coefficient * largest * (1 + 1e-9)

    @cached_property
    def _rates(self) -> Rates:
        return self.nbti.rates(self.environment)

    def dvth(
        self, stressed: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shift in volts of transistors stressed for so many seconds of their age."""
        recovered = age - stressed
        recovered = np.where(recovered > LEAST_RECOVERY * age, recovered, 0.0)
        return self.nbti.dvth_after(self._rates, stressed, recovered)

    def are_faulty(
        self,
        vmin_volts: NDArray[np.float64],
        seconds: NDArray[np.float64],
        age: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Which cells do not work at the lowest Vdd.

        Parameters
        ----------
        vmin_volts : float64[n]
            Vmin of the cells as manufactured.
        seconds : float64[2, n]
            Seconds that they have held '0' and '1'.
        age : float64[n]
            Their age in seconds.
        """
        shift = self.dvth(seconds, age).max(axis=0)
        vmin = aged_vmin(vmin_volts, shift, self.vmin_coefficient)
        faulty: NDArray[np.bool_] = vmin > self.environment.lowest_vdd_volts
        return faulty
