"""NBTI: how far the threshold voltage of a PMOS drifts while it is stressed and recovers.

In a 6T cell, T0 is stressed while the cell holds '0' and T1 while it holds '1'; the other one, and
both while the cell is off, recover (Valero et al., IEEE TC 2019, section 2.2). Each transistor
therefore ages on its own stressed fraction of the time: d0 for T0, d1 for T1.
"""

import math
import sys
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import Environment

BOLTZMANN_EV_PER_KELVIN = 8.617333e-5
SECONDS_PER_YEAR = 365 * 86_400


@dataclass(frozen=True)
class Facelift:
    """NBTI threshold shift of Tiwari and Torrellas (Facelift), as Valero et al. use it.

    ``K(V, T) = A t_ox sqrt(C_ox (V - Vt0)) exp(V / (t_ox E0) - Ea / (k T))`` and
    ``dVth = K t_stress^0.25 (1 - sqrt(eta t_rec / (t_stress + t_rec)))``.

    Parameters
    ----------
    amplitude : float
        A, in V s^-0.25 C^-0.5.
    oxide_thickness_nm : float
        t_ox, in nm.
    oxide_capacitance_farads_per_nm2 : float
        C_ox, in F/nm^2.
    field_volts_per_nm : float
        E0, in V/nm.
    activation_energy_ev : float
        Ea, in eV.
    eta : float
        Recoverable part, 0 ... 1: unlimited recovery takes away sqrt(eta) of the shift.
    vt0_volts : float
        Vt0, the unaged threshold voltage (its magnitude), in volts.
    alpha : float
        Exponent of the alpha-power law, for :mod:`mcage.aging.delay`.

    Notes
    -----
    Valero et al., IEEE TC 2019, equation 3, after Tiwari and Torrellas, MICRO 2008, and Vattikonda
    et al., DAC 2006. The equation's factor ``1 - Vds / (alpha (V - Vt0))`` is 1: a cell that holds
    its value has Vds = 0. The ratio of times stands inside the root; docs/aging.md says why.
    """

    amplitude: float
    oxide_thickness_nm: float
    oxide_capacitance_farads_per_nm2: float
    field_volts_per_nm: float
    activation_energy_ev: float
    eta: float
    vt0_volts: float
    alpha: float

    def prefactor(self, vdd_volts: float, temperature_kelvin: float) -> float:
        """Return K, the shift after one second of stress, in V s^-0.25.

        Parameters
        ----------
        vdd_volts : float
            Supply voltage in volts; at or below ``vt0_volts`` there is no stress and K is 0.
        temperature_kelvin : float
            Temperature in kelvin, above 0.
        """
        overdrive_volts = vdd_volts - self.vt0_volts
        if overdrive_volts <= 0:
            return 0.0
        charge = self.oxide_capacitance_farads_per_nm2 * overdrive_volts
        field = vdd_volts / (self.oxide_thickness_nm * self.field_volts_per_nm)
        thermal = self.activation_energy_ev / (BOLTZMANN_EV_PER_KELVIN * temperature_kelvin)
        return (
            self.amplitude * self.oxide_thickness_nm * math.sqrt(charge) * math.exp(field - thermal)
        )

    def stress_rate(self, environment: Environment) -> float:
        """Return the stress that one second under stress adds in ``environment``, in V^4/s.

        It is K^4 averaged over the operating points by their shares of the time: a transistor is
        taken to be stressed for the same fraction of the time at each of them.
        """
        return math.fsum(
            point.share * self.prefactor(point.vdd_volts, point.temperature_kelvin) ** 4
            for point in environment.points
        )

    def dvth(
        self, stress: ArrayLike, stress_seconds: ArrayLike, recovery_seconds: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the threshold shift of transistors with a given past, in volts.

        Parameters
        ----------
        stress : array, any shape
            Sum of K^4 times stressed seconds over the past, in V^4; at least 0.
        stress_seconds, recovery_seconds : array, same shape or broadcast to it
            Seconds under stress and in recovery; at least 0. Keep both sums: recovery taken as age
            less stress may round below 0, and its root is then not a number.

        Returns
        -------
        array
            Shift in volts; 0 for a transistor without a past.

        Notes
        -----
        Only operations that IEEE 754 rounds correctly, and none that a compiler could fuse: the
        same past gives the same bits in every engine. Hence two square roots, not a power.
        """
        recovery = np.asarray(recovery_seconds, dtype=np.float64)
        total = np.asarray(stress_seconds, dtype=np.float64) + recovery
        # Without a past both times are 0, and any divisor will do.
        recovered = np.sqrt(self.eta * recovery / np.maximum(total, sys.float_info.min))
        shift: NDArray[np.float64] = np.sqrt(np.sqrt(stress)) * (1.0 - recovered)
        return shift

    def largest_dvth(self, environment: Environment, seconds: float) -> float:
        """Return the shift in volts after ``seconds`` of nothing but stress in ``environment``.

        No transistor of that age can have drifted further, whatever its cell held.
        """
        return float(self.dvth(self.stress_rate(environment) * seconds, seconds, 0.0))


def facelift() -> Facelift:
    """Return the ``facelift`` model with the constants of ``data/nbti.toml``."""
    text = files("mcage").joinpath("data", "nbti.toml").read_text(encoding="utf-8")
    constants = tomllib.loads(text)["facelift"]
    return Facelift(**{name: constant["value"] for name, constant in constants.items()})


@dataclass(frozen=True, eq=False)
class Accumulators:
    """All that a transistor's past means to its shift: three sums over its epochs.

    They do not depend on the order of the epochs nor on where one ends and the next begins. The
    stress part is the equivalent-time method: a shift reached at K1 is carried over as the time
    that K2 would have needed for it.

    Parameters
    ----------
    stress : array, any shape
        Sum of K^4 times stressed seconds, in V^4.
    stress_seconds, recovery_seconds : array, same shape
        Seconds under stress and in recovery.
    """

    stress: NDArray[np.float64]
    stress_seconds: NDArray[np.float64]
    recovery_seconds: NDArray[np.float64]

    @classmethod
    def fresh(cls, shape: tuple[int, ...]) -> Self:
        """Return the accumulators of transistors as they were manufactured."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def after(self, seconds: float, duty_cycle: ArrayLike, stress_rate: float) -> "Accumulators":
        """Return the accumulators after one more epoch.

        Parameters
        ----------
        seconds : float
            Length of the epoch in seconds, at least 0.
        duty_cycle : array, same shape
            Fraction of the epoch under stress, 0 ... 1: d0 for T0, d1 for T1.
        stress_rate : float
            The epoch's :meth:`Facelift.stress_rate`, in V^4/s.
        """
        duty = np.asarray(duty_cycle, dtype=np.float64)
        # Not seconds - stressed: near full stress that cancels, and the root magnifies the error.
        recovered = (1 - duty) * seconds
        stressed = duty * seconds
        return Accumulators(
            stress=self.stress + stress_rate * stressed,
            stress_seconds=self.stress_seconds + stressed,
            recovery_seconds=self.recovery_seconds + recovered,
        )
