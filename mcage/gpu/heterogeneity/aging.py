"""Delay of a structure after its years, and what less activity or less heat leaves of it.

Zhang et al., INTEGRATION 2015, section 6. The delay increase of the baseline is an input: it is
turned into a threshold shift, multiplied by the ratio of the model's shifts after and before a
change, and turned back.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.delay import delay_increase
from mcage.aging.environment import TEMPERATURE_KELVIN, Environment, OperatingPoint
from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, Transistors


@dataclass(frozen=True)
class Conditions:
    """Age, voltage and temperature of a structure.

    Parameters
    ----------
    years : float
        Age (printed: 7).
    vdd_volts : float
        Supply voltage, V (printed: 0.9).
    temperature_kelvin : float
        Temperature of the baseline, K (assumed).
    """

    years: float = 7.0
    vdd_volts: float = 0.9
    temperature_kelvin: float = TEMPERATURE_KELVIN

    def dvth_volts(
        self, model: NbtiModel, duty: ArrayLike, drop_kelvin: ArrayLike = 0.0
    ) -> NDArray[np.float64]:
        """Shift of a transistor, V.

        Parameters
        ----------
        model : NbtiModel
            What the structure is made of.
        duty : array
            Share of the time under stress, 0 ... 1.
        drop_kelvin : array
            Kelvin by which it is cooler than the baseline.
        """
        point = OperatingPoint(self.vdd_volts, 1.0, self.temperature_kelvin)
        temperature = self.temperature_kelvin - np.asarray(drop_kelvin, np.float64)
        return model.dvth_at(
            Environment("structure", (point,)),
            duty,
            self.years * SECONDS_PER_YEAR,
            Transistors(temperature_kelvin=temperature),
        )

    def delay(self, model: NbtiModel, duty: ArrayLike) -> NDArray[np.float64]:
        """Relative delay increase of a transistor with a duty."""
        return self._delay_of(model, self.dvth_volts(model, duty))

    def delay_left(
        self, model: NbtiModel, baseline_delay: ArrayLike, dvth_ratio: ArrayLike
    ) -> NDArray[np.float64]:
        """Delay increase of which a baseline's shift is multiplied by a ratio.

        Parameters
        ----------
        model : NbtiModel
            What the structure is made of.
        baseline_delay : array
            Relative delay increase of the baseline.
        dvth_ratio : array
            Shift after the change over the shift before.
        """
        baseline = np.asarray(baseline_delay, np.float64)
        overdrive = self.vdd_volts - model.vt0_volts
        shift = overdrive * (1 - (1 + baseline) ** (-1 / model.alpha))
        return self._delay_of(model, shift * np.asarray(dvth_ratio, np.float64))

    def _delay_of(self, model: NbtiModel, dvth_volts: ArrayLike) -> NDArray[np.float64]:
        return delay_increase(dvth_volts, self.vdd_volts, model.vt0_volts, model.alpha)
