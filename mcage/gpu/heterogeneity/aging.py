"""Delay of a structure after its years, and what less activity or less heat leaves of it.

Zhang et al., INTEGRATION 2015, section 6. The delay increase of the baseline is an input: it is
turned into a threshold shift, multiplied by the ratio of the model's shifts after and before a
change, and turned back.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import TEMPERATURE_KELVIN, Environment, OperatingPoint, delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, Transistors

YEARS = 7.0
"""Service life (printed, section 5)."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """Age, voltage and temperature of a structure; ages and temperatures may be arrays.

    Parameters
    ----------
    years : array
        Age (printed: 7).
    vdd_volts : float
        Supply voltage, V (printed: 0.9).
    temperature_kelvin : array
        Temperature of the baseline, K (assumed).
    """

    years: ArrayLike = YEARS
    vdd_volts: float = 0.9
    temperature_kelvin: ArrayLike = TEMPERATURE_KELVIN

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
        point = OperatingPoint(self.vdd_volts, 1.0, TEMPERATURE_KELVIN)
        baseline = np.asarray(self.temperature_kelvin, np.float64)
        temperature = baseline - np.asarray(drop_kelvin, np.float64)
        return model.dvth_at(
            Environment("structure", (point,)),
            duty,
            np.asarray(self.years, np.float64) * SECONDS_PER_YEAR,
            Transistors(temperature_kelvin=temperature),
        )

    def delay(self, model: NbtiModel, duty: ArrayLike) -> NDArray[np.float64]:
        """Relative delay increase of a transistor with a duty."""
        return self.delay_of(model, self.dvth_volts(model, duty))

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
        shift = self.shift_at(model, baseline_delay)
        return self.delay_of(model, shift * np.asarray(dvth_ratio, np.float64))

    def delay_of(self, model: NbtiModel, dvth_volts: ArrayLike) -> NDArray[np.float64]:
        """Relative delay increase of a transistor that has shifted."""
        return delay_increase(dvth_volts, self.vdd_volts, model.vt0_volts, model.alpha)

    def shift_at(self, model: NbtiModel, delay: ArrayLike) -> NDArray[np.float64]:
        """Shift at which the delay has grown by ``delay``, V; inverse of `delay_of`."""
        slower = 1 + np.asarray(delay, np.float64)
        shift: NDArray[np.float64] = (self.vdd_volts - model.vt0_volts) * (
            1 - slower ** (-1 / model.alpha)
        )
        return shift
