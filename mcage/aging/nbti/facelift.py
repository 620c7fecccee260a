"""`facelift`: the NBTI model of Tiwari and Torrellas, as Valero et al. use it."""

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import Environment
from mcage.aging.nbti.constants import BOLTZMANN_EV_PER_KELVIN, values
from mcage.aging.nbti.model import AdditiveModel


@dataclass(frozen=True)
class Facelift(AdditiveModel):
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

    root = 4

    def prefactor(self, vdd_volts: float, temperature_kelvin: float) -> float:
        """Return K of the nominal transistor, its shift after one second of stress, in V s^-0.25.

        Parameters
        ----------
        vdd_volts : float
            Supply voltage in volts; at or below ``vt0_volts`` there is no stress and K is 0.
        temperature_kelvin : float
            Temperature in kelvin, above 0.
        """
        return math.sqrt(
            math.sqrt(self.stress_per_second(vdd_volts, temperature_kelvin, self.vt0_volts))
        )

    def stress_per_second(
        self, vdd_volts: float, temperature_kelvin: ArrayLike, vt0_volts: ArrayLike
    ) -> NDArray[np.float64]:
        """Return K^4, in V^4/s; 0 where Vdd does not exceed Vt0."""
        overdrive = np.maximum(vdd_volts - np.asarray(vt0_volts, dtype=np.float64), 0.0)
        charge = self.oxide_capacitance_farads_per_nm2 * overdrive
        field = vdd_volts / (self.oxide_thickness_nm * self.field_volts_per_nm)
        energy = BOLTZMANN_EV_PER_KELVIN * np.asarray(temperature_kelvin, dtype=np.float64)
        growth = np.exp(field - self.activation_energy_ev / energy)
        squared = np.square(self.amplitude * self.oxide_thickness_nm * growth) * charge
        stress: NDArray[np.float64] = squared * squared
        return stress

    def diffusion_per_second(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Return 1: recovery counts in seconds, at every temperature alike (assumed)."""
        return np.ones_like(temperature_kelvin, dtype=np.float64)

    def stress_rate(self, environment: Environment) -> float:
        """Return the stress that one second adds to the nominal transistor, in V^4/s."""
        return float(self.rates(environment).stress)

    def dvth(
        self, stress: ArrayLike, stressed: ArrayLike, recovered: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the threshold shift of transistors from the sums of their history, in volts.

        Parameters
        ----------
        stress : array, any shape
            Sum of K^4 times stressed seconds over the history, in V^4; at least 0.
        stressed, recovered : array, same shape or broadcast to it
            Seconds under stress and in recovery; at least 0. Keep both sums: recovery taken as age
            less stress may round below 0, and its root is then not a number.

        Returns
        -------
        array
            Shift in volts; 0 for a transistor without a history.

        Notes
        -----
        Only operations that IEEE 754 rounds correctly, and none that a compiler could fuse: the
        same sums give the same bits in every engine. Hence two square roots, not a power.
        """
        recovery = np.asarray(recovered, dtype=np.float64)
        total = np.asarray(stressed, dtype=np.float64) + recovery
        # Without a history both times are 0, and any divisor will do.
        part = np.sqrt(self.eta * recovery / np.maximum(total, sys.float_info.min))
        shift: NDArray[np.float64] = np.sqrt(np.sqrt(stress)) * (1.0 - part)
        return shift


def facelift() -> Facelift:
    """Return the ``facelift`` model with the constants of ``data/nbti.toml``."""
    return Facelift(**values("facelift"))
