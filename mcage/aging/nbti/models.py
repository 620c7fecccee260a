"""NBTI models that ship: Facelift; Bhardwaj et al.; FinFET and planar (Zhang et al.)."""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import TEMPERATURE_KELVIN, Environment
from mcage.aging.nbti.model import BOLTZMANN_EV_PER_KELVIN, AdditiveModel, NbtiModel, Rates, values
from mcage.errors import UserError


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
        Exponent of the alpha-power law, for :mod:`mcage.aging.environment`.

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


# `bhardwaj`: the NBTI model of Bhardwaj et al. that Chen et al. use, in both of its forms.
#
# :class:`Bhardwaj` is the long-term form, for lifetimes; :class:`Phases` is the phase-wise form,
# for histories that state every phase of stress and of recovery.

ELEMENTARY_CHARGE_COULOMBS = 1.602176634e-19
VACUUM_PERMITTIVITY_FARADS_PER_NM = 8.8541878128e-21


@dataclass(frozen=True)
class Bhardwaj(NbtiModel):
    """NBTI threshold shift of Bhardwaj et al., as Chen et al. use it; long-term form.

    ``C(T) = exp(-Ea / (k T)) / T0`` and ``Kv(V, T) = scale (q t_ox / eps_ox)^3 K^2 C_ox (V - Vt0)
    sqrt(C) exp(2 (V - Vt0) / (t_ox E0))``, with ``C_ox = eps_ox / t_ox``. From new, with duty a
    repeated in every period Tclk, ``dVth = X^(1/3)`` and

    - ``X = Kv sqrt(t)`` for a = 1, and 0 for a = 0;
    - else the smaller of that and ``Kv sqrt(a Tclk) / (1 - b^3)``, where
      ``b = 1 - (2 xi1 t_ox + sqrt(xi2 C (1 - a) Tclk)) / (2 t_ox + sqrt(C t))``, at least 0.

    An epoch starts at the time at which its conditions would have led to the X reached so far, and
    X never falls. Hence the order of epochs matters.

    Parameters
    ----------
    amplitude : float
        K, in s^-0.25 C^-0.5 nm^-2.
    scale : float
        Factor on Kv: 1 for the constants as they are.
    oxide_thickness_nm : float
        t_ox, in nm; also the t_e of the recovery term.
    relative_permittivity : float
        eps_ox / eps_0.
    field_volts_per_nm : float
        E0, in V/nm.
    activation_energy_ev : float
        Ea, in eV.
    diffusion_seconds_per_nm2 : float
        T0, in s/nm^2.
    xi1, xi2 : float
        Of the recovery term.
    time_exponent : float
        n; it must be 1/6.
    period_seconds : float
        Tclk, in seconds. Epochs should be longer.
    vt0_volts : float
        Vt0, the unaged threshold voltage (its magnitude), in volts.
    alpha : float
        Exponent of the alpha-power law, for :mod:`mcage.aging.environment`.

    Raises
    ------
    UserError
        If ``time_exponent`` is not 1/6.

    Notes
    -----
    Bhardwaj et al., CICC 2006; Chen et al., DAC 2014, equations 1 and 2. Powers are products and
    cube roots. Libraries round cube roots differently: unlike an additive model's, the last bits of
    a shift hold for one machine.
    """

    amplitude: float
    scale: float
    oxide_thickness_nm: float
    relative_permittivity: float
    field_volts_per_nm: float
    activation_energy_ev: float
    diffusion_seconds_per_nm2: float
    xi1: float
    xi2: float
    time_exponent: float
    period_seconds: float
    vt0_volts: float
    alpha: float

    root = 6
    state_size = 1
    additive = False

    def __post_init__(self) -> None:
        if abs(self.time_exponent * self.root - 1) > 1e-12:
            raise UserError(
                f"model 'bhardwaj': time_exponent = {self.time_exponent:g}, where 1/6 is needed: "
                "powers are computed as products and cube roots"
            )

    def stress_per_second(
        self, vdd_volts: float, temperature_kelvin: ArrayLike, vt0_volts: ArrayLike
    ) -> NDArray[np.float64]:
        """Return Kv^2, in V^6/s; 0 where Vdd does not exceed Vt0."""
        overdrive = np.maximum(vdd_volts - np.asarray(vt0_volts, dtype=np.float64), 0.0)
        permittivity = self.relative_permittivity * VACUUM_PERMITTIVITY_FARADS_PER_NM
        trapping = ELEMENTARY_CHARGE_COULOMBS * self.oxide_thickness_nm / permittivity
        capacitance = permittivity / self.oxide_thickness_nm
        field = overdrive / (self.oxide_thickness_nm * self.field_volts_per_nm)
        charge = trapping * trapping * trapping * capacitance * overdrive
        kv = self.scale * self.amplitude * self.amplitude * charge * np.square(np.exp(field))
        stress: NDArray[np.float64] = np.square(kv) * self.diffusion_per_second(temperature_kelvin)
        return stress

    def diffusion_per_second(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Return C, in nm^2/s."""
        energy = BOLTZMANN_EV_PER_KELVIN * np.asarray(temperature_kelvin, dtype=np.float64)
        diffusion: NDArray[np.float64] = (
            np.exp(-self.activation_energy_ev / energy) / self.diffusion_seconds_per_nm2
        )
        return diffusion

    def advance(
        self,
        state: NDArray[np.float64],
        rates: Rates,
        duty_cycle: ArrayLike,
        seconds: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return a state after another epoch; see `NbtiModel.advance`. A state is X, in V^3."""
        (reached,) = state
        duty = np.asarray(duty_cycle, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_period, recovery = self._of_period(rates, duty), self._recovery(rates, duty)
            stressed_for = np.square(reached) / rates.stress
            recovering_for = np.where(
                duty < 1, self._time_on_envelope(reached, rates, of_period, recovery), 0.0
            )
            time = np.maximum(stressed_for, recovering_for) + seconds
            static = np.sqrt(rates.stress * time)
            envelope = self._envelope(time, rates, of_period, recovery)
            grown = np.where(duty < 1, np.minimum(static, envelope), static)
        ages = (duty > 0) & (rates.stress > 0)
        advanced: NDArray[np.float64] = np.where(ages, np.maximum(reached, grown), reached)
        return advanced[np.newaxis]

    def dvth_of(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts of transistors in a given state, in volts."""
        (reached,) = state
        shift: NDArray[np.float64] = np.cbrt(reached)
        return shift

    def _envelope(
        self,
        time: NDArray[np.float64],
        rates: Rates,
        of_period: NDArray[np.float64],
        recovery: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """X where stress and recovery of every period balance, after a time under equal rates."""
        oxide = 2 * self.oxide_thickness_nm
        lost = np.minimum(recovery / (oxide + np.sqrt(rates.diffusion * time)), 1.0)
        # 1 - (1 - lost)^3, which would cancel: little is lost after a long time.
        envelope: NDArray[np.float64] = of_period / (lost * (3 - lost * (3 - lost)))
        return envelope

    def _time_on_envelope(
        self,
        reached: NDArray[np.float64],
        rates: Rates,
        of_period: NDArray[np.float64],
        recovery: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Inverse of `_envelope`: 0 where X is below all of it."""
        part = np.minimum(of_period / reached, 1.0)
        kept = np.cbrt(1 - part)
        # 1 - kept, which would cancel.
        lost = part / (1 + kept + kept * kept)
        way = recovery / lost - 2 * self.oxide_thickness_nm
        return np.where((part < 1) & (way > 0), np.square(way) / rates.diffusion, 0.0)

    def _of_period(self, rates: Rates, duty: NDArray[np.float64]) -> NDArray[np.float64]:
        """X that the stress of one period reaches from new."""
        of_period: NDArray[np.float64] = np.sqrt(rates.stress * (duty * self.period_seconds))
        return of_period

    def _recovery(self, rates: Rates, duty: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numerator of the recovery term in each period, in nm."""
        recovered = rates.diffusion * ((1 - duty) * self.period_seconds)
        recovery: NDArray[np.float64] = 2 * self.xi1 * self.oxide_thickness_nm + np.sqrt(
            self.xi2 * recovered
        )
        return recovery


def bhardwaj() -> Bhardwaj:
    """Return the ``bhardwaj`` model with the constants of ``data/nbti.toml``, for lifetimes."""
    return Bhardwaj(**values("bhardwaj"))


@dataclass(frozen=True)
class Phases:
    """Threshold shift of transistors that are either stressed or recover, phase after phase.

    Under stress ``dVth^6`` grows by Kv^2 a second. In a recovery that began at a shift V1,
    ``dVth = V1 (1 - (2 xi1 t_e + sqrt(xi2 Dr)) / (2 t_ox + sqrt(D)))``, the fraction at most 1,
    with D and Dr the integrals of C over all time and over this recovery, and t_e = t_ox.

    A phase may be given in pieces, and rates may change within it.

    Parameters
    ----------
    model : Bhardwaj
        The constants; histories of seconds take those of ``bhardwaj-unscaled``.

    Notes
    -----
    Chen et al., DAC 2014, equations 1 and 2. Equation 1 taken literally adds a root
    of the time of each phase; here stress goes on from the time that would have led to the shift
    reached so far.
    """

    model: Bhardwaj

    def initial_state(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the state of transistors as they were manufactured: float64[3, ...]."""
        return np.zeros((3, *shape))

    def advance(
        self,
        state: NDArray[np.float64],
        rates: Rates,
        stressed: ArrayLike,
        seconds: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return a state after another phase, or a piece of a phase.

        Parameters
        ----------
        state : float64[3, ...]
            Shift at the end of the last stress; D; Dr.
        rates : Rates
            Rates of the phase.
        stressed : bool array
            Which transistors are stressed; the others recover.
        seconds : array
            Length of the phase in seconds, at least 0.
        """
        at_stress, diffused, recovered = state
        under_stress = np.asarray(stressed, dtype=np.bool_)
        duration = np.asarray(seconds, dtype=np.float64)
        so_far = self.dvth_of(state)
        cubed = so_far * so_far * so_far
        grown = np.cbrt(np.sqrt(cubed * cubed + rates.stress * duration))
        passed = rates.diffusion * duration
        return np.stack(
            np.broadcast_arrays(
                np.where(under_stress, grown, at_stress),
                diffused + passed,
                np.where(under_stress, 0.0, recovered + passed),
            )
        )

    def dvth_of(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts of transistors in a given state, in volts."""
        at_stress, diffused, recovered = state
        thickness = self.model.oxide_thickness_nm
        removed = 2 * self.model.xi1 * thickness + np.sqrt(self.model.xi2 * recovered)
        left = np.maximum(1 - removed / (2 * thickness + np.sqrt(diffused)), 0.0)
        shift: NDArray[np.float64] = np.where(recovered > 0, at_stress * left, at_stress)
        return shift


# `finfet` and `planar`: the NBTI models of two kinds of transistor of Zhang et al.


@dataclass(frozen=True)
class FinFetPlanar(AdditiveModel):
    """NBTI threshold shift of a FinFET or a planar transistor, as Zhang et al. use it.

    ``C(T) = exp(-Ea / (k T)) / T0``,
    ``K(V, T) = G t_ox sqrt(V - Vt) exp((V - Vt) / (t_ox Eo)) C^0.25`` and
    ``dVth = K t_stress^0.25 F``, where without recovery F is 1, and else
    ``1 - (2 xi1 t_ox + sqrt(xi2 C t_rec)) / ((1 + delta) t_ox + sqrt(C (t_stress + t_rec)))``,
    at least 0.

    Parameters
    ----------
    amplitude : float
        G, all of K that depends on neither voltage nor temperature, in V^0.5 nm^-1.5.
    oxide_thickness_nm : float
        t_ox, in nm.
    field_volts_per_nm : float
        Eo, in V/nm.
    activation_energy_ev : float
        Ea, in eV.
    diffusion_seconds_per_nm2 : float
        T0, in s/nm^2.
    xi1, xi2, delta : float
        Of the recovery term.
    vt0_volts : float
        Vt, the unaged threshold voltage (its magnitude), in volts.
    alpha : float
        Exponent of the alpha-power law, for :mod:`mcage.aging.environment`.
    effective_activation_energy_ev : array, optional
        In place of Ea/4 in K, so that K stays as it is at 353.15 K; F is then that at 353.15 K.

    Notes
    -----
    Zhang et al., INTEGRATION 2015, equations 2 and 3 and Table 3. The equations as printed cannot
    be computed with; docs/aging.md lists what is wrong and how it is resolved.
    """

    amplitude: float
    oxide_thickness_nm: float
    field_volts_per_nm: float
    activation_energy_ev: float
    diffusion_seconds_per_nm2: float
    xi1: float
    xi2: float
    delta: float
    vt0_volts: float
    alpha: float
    effective_activation_energy_ev: ArrayLike | None = None

    root = 4

    def stress_per_second(
        self, vdd_volts: float, temperature_kelvin: ArrayLike, vt0_volts: ArrayLike
    ) -> NDArray[np.float64]:
        """Return K^4, in V^4/s; 0 where Vdd does not exceed Vt."""
        overdrive = np.maximum(vdd_volts - np.asarray(vt0_volts, dtype=np.float64), 0.0)
        field = overdrive / (self.oxide_thickness_nm * self.field_volts_per_nm)
        squared = np.square(self.amplitude * self.oxide_thickness_nm * np.exp(field)) * overdrive
        stress: NDArray[np.float64] = squared * squared * self._thermal(temperature_kelvin)
        return stress

    def _thermal(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Factor of K^4 that depends on temperature, in nm^2/s."""
        diffusion = self.diffusion_per_second(temperature_kelvin)
        if self.effective_activation_energy_ev is None:
            return diffusion
        temperature = np.asarray(temperature_kelvin, dtype=np.float64)
        colder = (1 / temperature - 1 / TEMPERATURE_KELVIN) / BOLTZMANN_EV_PER_KELVIN
        energy = np.asarray(self.effective_activation_energy_ev, dtype=np.float64)
        heated: NDArray[np.float64] = diffusion * np.exp(-4 * energy * colder)
        return heated

    def diffusion_per_second(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Return C, in nm^2/s."""
        temperature = np.asarray(temperature_kelvin, dtype=np.float64)
        if self.effective_activation_energy_ev is not None:
            temperature = np.full_like(temperature, TEMPERATURE_KELVIN)
        energy = BOLTZMANN_EV_PER_KELVIN * temperature
        diffusion: NDArray[np.float64] = (
            np.exp(-self.activation_energy_ev / energy) / self.diffusion_seconds_per_nm2
        )
        return diffusion

    def dvth(
        self, stress: ArrayLike, stressed: ArrayLike, recovered: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the threshold shift of transistors from the sums of their history, in volts.

        Parameters
        ----------
        stress : array, any shape
            Sum of K^4 times stressed seconds over the history, in V^4; at least 0.
        stressed, recovered : array, same shape or broadcast to it
            Sums of C times seconds under stress and in recovery, in nm^2; at least 0.

        Returns
        -------
        array
            Shift in volts; 0 for a transistor without a history.

        Notes
        -----
        Only operations that IEEE 754 rounds correctly, and none that a compiler could fuse: the
        same sums give the same bits in every engine.
        """
        recovery = np.asarray(recovered, dtype=np.float64)
        total = np.asarray(stressed, dtype=np.float64) + recovery
        removed = 2 * self.xi1 * self.oxide_thickness_nm + np.sqrt(self.xi2 * recovery)
        spread = (1 + self.delta) * self.oxide_thickness_nm + np.sqrt(total)
        left = np.where(recovery > 0, np.maximum(1.0 - removed / spread, 0.0), 1.0)
        shift: NDArray[np.float64] = np.sqrt(np.sqrt(stress)) * left
        return shift


def finfet() -> FinFetPlanar:
    """Return the ``finfet`` model with the constants of ``data/nbti.toml``."""
    return FinFetPlanar(**values("finfet"))


def planar() -> FinFetPlanar:
    """Return the ``planar`` model with the constants of ``data/nbti.toml``."""
    return FinFetPlanar(**values("planar"))
