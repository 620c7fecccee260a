"""NBTI models: from an environment to rates, from rates and duty cycles to a shift.

All models here are of the reaction-diffusion kind. Under full stress the shift is a root of a sum,
``dVth = (sum of stress * seconds)^(1/root)``, which is the equivalent-time method: a shift reached
under one condition is carried over as the time that the next one would have needed for it. Recovery
is measured against what has diffused meanwhile.
"""

import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import Environment
from mcage.errors import UserError


@dataclass(frozen=True, eq=False)
class Transistors:
    """In what transistors differ from the nominal transistor; by default in nothing.

    Parameters
    ----------
    vt0_volts : array or None
        Unaged threshold voltages in volts; None for that of the model.
    temperature_kelvin : array or None
        Temperatures in kelvin, 200 ... 450, to which a point adds its offset; None for those of the
        points.
    shift_factor : array
        Factors on the prefactor, and with it on every shift; at least 0.
    time_fractions : array [points, ...] or None
        Fraction of the time at each operating point; None for those of the points.

    Raises
    ------
    UserError
        If a value is out of its range.

    Notes
    -----
    The arrays broadcast against each other and against the transistors of a state: ``float64[I,
    1]`` gives each instance a value, ``float64[I, n]`` gives a value to each of its transistors. No
    paper that mcage reproduces gives the spread of any of them.
    """

    vt0_volts: ArrayLike | None = None
    temperature_kelvin: ArrayLike | None = None
    shift_factor: ArrayLike = 1.0
    time_fractions: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _check("vt0_volts", self.vt0_volts, -2, 2, "V")
        _check("temperature_kelvin", self.temperature_kelvin, 200, 450, "K (not degrees Celsius)")
        _check("shift_factor", self.shift_factor, 0, 1e3, "(a factor)")
        _check("time_fractions", self.time_fractions, 0, 1, "of the time")


def _check(name: str, values: ArrayLike | None, lowest: float, highest: float, unit: str) -> None:
    if values is None:
        return
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size and not (numbers.min() >= lowest and numbers.max() <= highest):  # also of NaN
        wrong = ~((numbers >= lowest) & (numbers <= highest))
        raise UserError(
            f"transistors: {name} = {numbers[wrong].flat[0]:g} must be {lowest:g} ... {highest:g} "
            f"{unit}"
        )


NOMINAL_TRANSISTORS = Transistors()


def with_constants(model: "NbtiModel", arrays: Mapping[str, NDArray[np.float64]]) -> "NbtiModel":
    """Return a model that ships with mcage with arrays in place of some of its constants.

    Parameters
    ----------
    model : NbtiModel
        The model.
    arrays : mapping
        Values by name of the constant. They broadcast against the transistors of a state, as those
        of `Transistors` do; where there are none, the model is returned as it is.
    """
    if not arrays:
        return model
    changed: Any = replace(cast(Any, model), **arrays)
    return cast("NbtiModel", changed)


@dataclass(frozen=True, eq=False)
class Rates:
    """Effect of a second in an environment on transistors; a number for all, or an array.

    Attributes
    ----------
    stress : array
        Growth of ``dVth^root`` in a second under full stress, in V^root/s.
    diffusion : array
        Weight of a second in the recovery term: 1, or nm^2/s where it depends on temperature.
    """

    stress: NDArray[np.float64]
    diffusion: NDArray[np.float64]


class NbtiModel(ABC):
    """A model of the threshold shift.

    The state of a transistor is a few numbers, rows of ``float64[state_size, ...]``; the other axes
    are those of the transistors. A state is advanced epoch by epoch and read at any moment:

        state = model.initial_state((instances, cells))
        state = model.advance(state, model.rates(environment), duty_cycle, seconds)
        shift = model.dvth_of(state)

    Where an epoch ends and the next begins does not matter as long as rates and duty do not change.
    A longer duty in any epoch never makes a shift smaller: of two transistors with equal rates, the
    transistor with the longer duty in each epoch has shifted further.

    Attributes
    ----------
    root : float
        Under full stress the shift grows with this root of time, 1 ... 100: 6.25 for an exponent of
        0.16.
    state_size : int
        Number of floats that the state of a transistor consists of.
    additive : bool
        Whether a state is made of sums, so that the order of epochs does not matter, and under one
        environment the total stress time decides: see `AdditiveModel`.
    vt0_volts : float
        Unaged threshold voltage of the nominal transistor (its magnitude), in volts.
    alpha : float
        Exponent of the alpha-power law, for :mod:`mcage.aging.environment`.
    """

    root: ClassVar[float]
    state_size: ClassVar[int]
    additive: ClassVar[bool]
    vt0_volts: float
    alpha: float

    @abstractmethod
    def stress_per_second(
        self, vdd_volts: float, temperature_kelvin: ArrayLike, vt0_volts: ArrayLike
    ) -> NDArray[np.float64]:
        """Return `Rates.stress` at one operating point; 0 where Vdd does not exceed Vt0."""

    @abstractmethod
    def diffusion_per_second(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Return `Rates.diffusion` at one temperature."""

    @abstractmethod
    def advance(
        self,
        state: NDArray[np.float64],
        rates: Rates,
        duty_cycle: ArrayLike,
        seconds: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return a state after another epoch.

        Parameters
        ----------
        state : float64[state_size, ...]
            The state before.
        rates : Rates
            Rates of the epoch.
        duty_cycle : array
            Fraction of the epoch under stress, 0 ... 1: d0 for T0, d1 for T1.
        seconds : array
            Length of the epoch in seconds, at least 0.
        """

    @abstractmethod
    def dvth_of(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts of transistors in a given state, in volts."""

    def initial_state(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the state of transistors as they were manufactured."""
        return np.zeros((self.state_size, *shape))

    def rates(
        self, environment: Environment, transistors: Transistors = NOMINAL_TRANSISTORS
    ) -> Rates:
        """Return what a second in an environment does.

        Rates are averages over the operating points, weighted by their time fractions: a transistor
        is taken to be stressed for the same fraction of the time at each of them (assumed).

        Parameters
        ----------
        environment : Environment
            Operating points.
        transistors : Transistors
            In what the transistors differ from the nominal transistor.
        """
        vt0 = self.vt0_volts if transistors.vt0_volts is None else transistors.vt0_volts
        stress, diffusion = [], []
        for number, point in enumerate(environment.points):
            temperature = transistors.temperature_kelvin
            if temperature is None:
                temperature = point.temperature_kelvin
            temperature = np.asarray(temperature) + point.temperature_offset_kelvin
            fraction = (
                point.time_fraction
                if transistors.time_fractions is None
                else transistors.time_fractions[number]
            )
            stress.append(
                _times(self.stress_per_second(point.vdd_volts, temperature, vt0), fraction)
            )
            diffusion.append(_times(self.diffusion_per_second(temperature), fraction))
        factor = np.asarray(transistors.shift_factor, dtype=np.float64)
        # Products where they do, not a power: see `Facelift.dvth`.
        whole = float(self.root).is_integer()
        level = math.prod([factor] * int(self.root)) if whole else factor**self.root
        total = _times(reduce(np.add, stress), level)
        return Rates(total, np.asarray(reduce(np.add, diffusion)))

    def dvth_at(
        self,
        environment: Environment,
        duty_cycle: ArrayLike,
        seconds: ArrayLike,
        transistors: Transistors = NOMINAL_TRANSISTORS,
    ) -> NDArray[np.float64]:
        """Return the shifts in volts after a single epoch; arguments as of the other methods."""
        rates = self.rates(environment, transistors)
        arrays = (rates.stress, rates.diffusion, duty_cycle, seconds)
        new = self.initial_state(np.broadcast_shapes(*map(np.shape, arrays)))
        return self.dvth_of(self.advance(new, rates, duty_cycle, seconds))

    def largest_dvth(
        self,
        environment: Environment,
        seconds: float,
        transistors: Transistors = NOMINAL_TRANSISTORS,
    ) -> float:
        """Return the shift in volts after ``seconds`` of nothing but stress in ``environment``.

        This is a bound: no transistor of that age can have shifted further, whatever its cell held.
        Of transistors that differ, it is the largest shift.
        """
        return float(np.max(self.dvth_at(environment, 1.0, seconds, transistors)))


def _times(rates: NDArray[np.float64], factor: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Rates times a factor, which often is 1."""
    return np.asarray(rates if np.ndim(factor) == 0 and factor == 1 else rates * factor)


class AdditiveModel(NbtiModel):
    """A model whose state is three sums over the epochs.

    The sums are the stress, and what has diffused under stress and in recovery. They do not depend
    on the order of epochs, nor on where an epoch ends and the next begins. As long as the rates are
    the same all the time and for all, `dvth_after` says it all: of transistors of the same age, the
    transistor that was stressed longest has shifted furthest, whatever the order of epochs. Once
    rates change, that holds only for a transistor that was stressed at least as long in each epoch.
    """

    state_size = 3
    additive = True

    @abstractmethod
    def dvth(
        self, stress: ArrayLike, stressed: ArrayLike, recovered: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the shift in volts; 0 in the initial state.

        Parameters
        ----------
        stress : array
            Sum of `Rates.stress` times seconds under stress, at least 0.
        stressed, recovered : array
            Sums of `Rates.diffusion` times seconds under stress and in recovery, at least 0.
        """

    def dvth_after(
        self, rates: Rates, stress_seconds: ArrayLike, recovery_seconds: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the shift in volts after given seconds under stress and in recovery."""
        stressed = np.asarray(stress_seconds, dtype=np.float64)
        recovered = np.asarray(recovery_seconds, dtype=np.float64)
        return self.dvth(
            rates.stress * stressed, rates.diffusion * stressed, rates.diffusion * recovered
        )

    def advance(
        self,
        state: NDArray[np.float64],
        rates: Rates,
        duty_cycle: ArrayLike,
        seconds: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return a state after another epoch; see `NbtiModel.advance`."""
        duty = np.asarray(duty_cycle, dtype=np.float64)
        duration = np.asarray(seconds, dtype=np.float64)
        stressed = duty * duration
        # Not duration - stressed: near full stress that cancels, and the root magnifies the error.
        recovered = (1 - duty) * duration
        added = (
            rates.stress * stressed,
            rates.diffusion * stressed,
            rates.diffusion * recovered,
        )
        shape = np.broadcast_shapes(state.shape[1:], *(np.shape(sums) for sums in added))
        advanced = np.empty((self.state_size, *shape))
        for number, sums in enumerate(added):
            np.add(state[number], sums, out=advanced[number, ...])
        return advanced

    def dvth_of(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts of transistors in a given state, in volts."""
        return self.dvth(*state)


# Constants of the NBTI models, from `data/nbti.toml`, each with its unit, status and source.

BOLTZMANN_EV_PER_KELVIN = 8.617333e-5
SECONDS_PER_YEAR = 365 * 86_400

MODEL_NAMES = (
    "facelift",
    "bhardwaj",
    "finfet",
    "planar",
    "bhardwaj-unscaled",
    "finfet-thermal",
    "finfet-common",
    "planar-common",
)
"""Models that ship with mcage: four, then variants of them with other constants."""

RANGES = {
    "amplitude": (1e-30, 1e30),
    "scale": (1e-9, 1e9),
    "oxide_thickness_nm": (0.1, 10.0),
    "oxide_capacitance_farads_per_nm2": (1e-22, 1e-17),
    "relative_permittivity": (1.0, 100.0),
    "field_volts_per_nm": (0.05, 10.0),
    "activation_energy_ev": (0.0, 2.0),
    "effective_activation_energy_ev": (0.0, 2.0),
    "diffusion_seconds_per_nm2": (1e-15, 1.0),
    "eta": (0.0, 1.0),
    "xi1": (0.0, 10.0),
    "xi2": (0.0, 10.0),
    "delta": (0.0, 10.0),
    "time_exponent": (0.0, 1.0),
    "period_seconds": (1e-9, 1e6),
    "vt0_volts": (0.0, 1.0),
    "alpha": (0.5, 3.0),
}
"""Range of each constant: wide, but without values for which its equation makes no sense."""


@dataclass(frozen=True)
class Constant:
    """A constant of a model.

    Attributes
    ----------
    value : float
        Its value.
    unit : str
        Its unit; "1" for a plain number.
    status : str
        ``printed``, ``public``, ``reconstructed`` or ``assumed``; docs/aging.md says what each is.
    source : str
        Where it comes from.
    """

    value: float
    unit: str
    status: str
    source: str


def constants(model: str) -> Mapping[str, Constant]:
    """Return the constants of a model that ships with mcage, by name.

    Parameters
    ----------
    model : str
        One of `MODEL_NAMES`. A variant has the constants of the model that it is ``like``, except
        for those that it redefines.
    """
    return _all_constants()[model]


@cache
def _all_constants() -> Mapping[str, Mapping[str, Constant]]:
    text = files("mcage").joinpath("data", "nbti.toml").read_text(encoding="utf-8")
    models: dict[str, Mapping[str, Constant]] = {}
    for model, table in tomllib.loads(text).items():
        inherited = models[table.pop("like")] if "like" in table else {}
        own_constants = {name: Constant(**constant) for name, constant in table.items()}
        models[model] = MappingProxyType({**inherited, **own_constants})
    return models


def values(model: str) -> dict[str, float]:
    """Return the bare values of :func:`constants`."""
    return {name: constant.value for name, constant in constants(model).items()}


def check_constants(model: str, given: Mapping[str, object]) -> None:
    """Refuse constants that a model does not have, or values that make no sense for it.

    Parameters
    ----------
    model : str
        One of `MODEL_NAMES`.
    given : mapping
        Values by name.

    Raises
    ------
    UserError
        One line that names the constant, its value and what is right.
    """
    known = constants(model)
    for name, value in given.items():
        if name not in known:
            raise UserError(
                f"aging.constants.{name}: NBTI model {model!r} has no such constant; "
                f"it has {', '.join(known)}"
            )
        lowest, highest = RANGES[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and lowest <= float(value) <= highest):  # type: ignore[arg-type]
            unit = known[name].unit.removeprefix("1")
            raise UserError(
                f"aging.constants.{name} = {value!r}: must be {lowest:g} ... {highest:g} "
                f"{unit}".rstrip()
            )
