"""The amplitude of a model for which other constants leave a published delay as it is.

An amplitude is fitted to a delay, after a given stress at a given voltage and temperature. Another
field constant, say, moves that delay too, unless the amplitude is fitted again: what is then left
of the change is the dependence on voltage.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from mcage.aging.delay import delay_increase, dvth_at_delay
from mcage.aging.environment import TEMPERATURE_KELVIN, Environment, OperatingPoint
from mcage.aging.nbti.constants import SECONDS_PER_YEAR
from mcage.aging.nbti.facelift import Facelift
from mcage.aging.nbti.finfet_planar import FinFetPlanar
from mcage.errors import UserError

CALIBRATED = "calibrated"
"""In place of a number for the amplitude."""

Fitted = TypeVar("Fitted", Facelift, FinFetPlanar)


@dataclass(frozen=True)
class CalibrationPoint:
    """The stress for which a model's amplitude is fitted to a delay.

    Parameters
    ----------
    duty_cycle : float
        Fraction of the time under stress.
    years : float
        Age in years.
    vdd_volts, temperature_kelvin : float
        Operating point at which it is spent.
    """

    duty_cycle: float
    years: float
    vdd_volts: float
    temperature_kelvin: float = TEMPERATURE_KELVIN

    def dvth_volts(self, model: Facelift | FinFetPlanar) -> float:
        """Shift of the nominal transistor there, in volts."""
        conditions = Environment(
            "calibration", (OperatingPoint(self.vdd_volts, 1.0, self.temperature_kelvin),)
        )
        return float(model.dvth_at(conditions, self.duty_cycle, self.years * SECONDS_PER_YEAR))


POINTS: dict[type, CalibrationPoint] = {
    Facelift: CalibrationPoint(duty_cycle=1.0, years=3.0, vdd_volts=1.0),
    FinFetPlanar: CalibrationPoint(duty_cycle=0.4, years=7.0, vdd_volts=0.9),
}
"""Valero et al., IEEE TC 2019, section 6.4; Zhang et al., INTEGRATION 2015, section 6.1."""


def calibrated(changed: Fitted, shipped: Fitted) -> Fitted:
    """Return ``changed`` with the amplitude that leaves the delay of ``shipped`` as it is.

    Parameters
    ----------
    changed : Facelift or FinFetPlanar
        Model with other constants; its amplitude is not used.
    shipped : Facelift or FinFetPlanar
        The same model with the constants that mcage ships.

    Raises
    ------
    UserError
        With the changed constants, no transistor is stressed at the calibration point.
    """
    point = POINTS[type(shipped)]
    slower = float(
        delay_increase(point.dvth_volts(shipped), point.vdd_volts, shipped.vt0_volts, shipped.alpha)
    )
    needed = dvth_at_delay(slower, point.vdd_volts, changed.vt0_volts, changed.alpha)
    unscaled = replace(changed, amplitude=1.0)
    shift = point.dvth_volts(unscaled)
    if not shift > 0:
        raise UserError(
            f"aging.constants.amplitude = {CALIBRATED!r}: with vt0_volts = {changed.vt0_volts:g} "
            f"nothing is stressed at the {point.vdd_volts:g} V of the calibration"
        )
    return replace(unscaled, amplitude=needed / shift)
