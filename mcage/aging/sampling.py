"""What instances have of their own: temperature, threshold voltage, how busy they are."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, Transistors
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.random import stream

ONE, ZERO = Distribution("constant", (1.0,)), Distribution("constant", (0.0,))

OF_SLICES = ("temperature_kelvin", "vt0_volts", "shift_factor", "activity")
"""Constants of an instance that are the same in every case, for life."""


@dataclass(frozen=True, eq=False)
class InstanceConstants:
    """Constants of n instances, each ``float64[n]``, or one number for all.

    Attributes
    ----------
    temperature_kelvin : array
        At every operating point, but for what that is hotter.
    vt0_volts : array
        Unaged threshold voltage of all transistors.
    shift_factor : array
        Factor on every threshold shift.
    activity : array
        Share of the time that the slice is busy; the rest of it, all cells are off, or hold.
    shares : float64[points, n], optional
        Shares of the time at each operating point; by default the environment's.
    temperature_swing_kelvin : float64[n, epochs], or one number for all
        What the slice is hotter than its temperature in each epoch.
    """

    temperature_kelvin: NDArray[np.float64]
    vt0_volts: NDArray[np.float64]
    shift_factor: NDArray[np.float64]
    activity: NDArray[np.float64]
    shares: NDArray[np.float64] | None = None
    temperature_swing_kelvin: NDArray[np.float64] = field(default_factory=lambda: np.zeros(()))

    def in_epoch(self, epoch: int) -> "InstanceConstants":
        """The same with the temperatures of an epoch."""
        swing = self.temperature_swing_kelvin
        swing = swing[:, epoch] if swing.ndim else swing
        return replace(self, temperature_kelvin=self.temperature_kelvin + swing)

    @property
    def transistors(self) -> Transistors:
        """As NBTI models want them."""
        return Transistors(self.vt0_volts, self.temperature_kelvin, self.shift_factor, self.shares)


@dataclass(frozen=True)
class TimeFractionDistributions:
    """Laws of the shares of the time at the operating points of an environment.

    Parameters
    ----------
    environment : str
        Its name, after which the random streams are named.
    laws : tuple of Law or None
        One for each point; None takes what the others leave. Shares sum to 1 whatever is drawn.
    """

    environment: str
    laws: tuple[Distribution | None, ...]

    @property
    def vary(self) -> bool:
        """Whether instances differ."""
        return any(law is not None and not law.is_constant for law in self.laws)

    @property
    def middle(self) -> tuple[float, ...]:
        """Shares at the medians of the laws; those of all instances if none varies."""
        given = [np.zeros(()) if law is None else np.array(law.at(0.5)) for law in self.laws]
        return tuple(float(share) for share in self._with_rest(given))

    def draw(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shares of instances: what one has depends on seed, environment and instance only.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[n]
            Instance ids.

        Returns
        -------
        float64[points, n]
        """
        given = [np.zeros(len(instances)) for _ in self.laws]
        for number, law in enumerate(self.laws):
            if law is not None:
                name = f"environment.{self.environment}.{number}"
                uniform = (stream(seed, name, one).random() for one in instances.tolist())
                given[number] = np.array([law.at(one) for one in uniform])
        return self._with_rest(given)

    @property
    def extremes(self) -> NDArray[np.float64]:
        """Shares at all bounds of the laws: float64[points, combinations].

        Rates are linear in the shares, so that the largest and the smallest are among these.
        """
        bounds = [(0.0,) if law is None else law.bounds for law in self.laws]
        given = np.array(list(product(*(dict.fromkeys(pair) for pair in bounds)))).T
        return self._with_rest(list(given))

    def _with_rest(self, given: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        shares = np.stack(given)
        for number, law in enumerate(self.laws):
            if law is None:
                shares[number] = 1 - shares.sum(axis=0)
        return shares


@dataclass(frozen=True)
class InstanceDistributions:
    """Laws of the constants of instances; the same in every case of a sweep, but for the shares.

    Parameters
    ----------
    temperature_kelvin, vt0_volts, shift_factor, activity : Law
        See `InstanceConstants`.
    shares : ShareLaws, optional
        Where instances differ in the shares of the time at operating points.
    temperature_swing_kelvin : Law
        Drawn anew for each epoch.
    """

    temperature_kelvin: Distribution
    vt0_volts: Distribution
    shift_factor: Distribution = ONE
    activity: Distribution = ONE
    shares: TimeFractionDistributions | None = None
    temperature_swing_kelvin: Distribution = ZERO

    @property
    def of_slices(self) -> dict[str, Distribution]:
        """Laws of what an instance has for life, by name."""
        return {name: getattr(self, name) for name in OF_SLICES}

    @property
    def swings(self) -> bool:
        """Whether temperatures change from epoch to epoch."""
        return self.temperature_swing_kelvin != ZERO

    @classmethod
    def nominal(cls, nbti: NbtiModel, temperature_kelvin: float) -> Self:
        """All instances alike, and like the nominal transistor."""
        return cls(
            Distribution("constant", (temperature_kelvin,)),
            Distribution("constant", (float(nbti.vt0_volts),)),
        )

    def draw(self, seed: int, instances: NDArray[np.int64], epochs: int = 1) -> InstanceConstants:
        """Constants of instances: what one has depends on seed and instance only.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[n]
            Instance ids.
        epochs : int
            Epochs for which there are temperatures; more do not change those of the first.
        """
        drawn = {
            name: _drawn(law, seed, f"instance.{name}", instances)
            for name, law in self.of_slices.items()
        }
        swing = _drawn(
            self.temperature_swing_kelvin,
            seed,
            "instance.temperature_swing_kelvin",
            instances,
            epochs,
        )
        shares = None if self.shares is None else self.shares.draw(seed, instances)
        return InstanceConstants(**drawn, shares=shares, temperature_swing_kelvin=swing)

    @property
    def constants(self) -> InstanceConstants:
        """Those of all instances.

        Raises
        ------
        UserError
            If instances differ.
        """
        laws = self.of_slices | {"temperature_swing_kelvin": self.temperature_swing_kelvin}
        for name, law in laws.items():
            if not law.is_constant:
                raise UserError(
                    f"{name} = {law} differs from instance to instance, which is not supported here"
                )
        if self.shares is not None:
            raise UserError(
                f"shares of environment {self.shares.environment!r} differ from instance to "
                "instance, which is not supported here"
            )
        return InstanceConstants(**{name: np.array(law.numbers[0]) for name, law in laws.items()})

    @property
    def extremes(self) -> Transistors:
        """Transistors at all bounds of the laws: a model's largest shift is among theirs."""
        kelvin = np.add(self.temperature_kelvin.bounds, self.temperature_swing_kelvin.bounds)
        bounds = np.array(list(product(self.vt0_volts.bounds, kelvin, self.shift_factor.bounds))).T
        if self.shares is None:
            return Transistors(*bounds)
        shares = self.shares.extremes
        count = bounds.shape[1]
        vt0, temperature, factor = np.repeat(bounds, shares.shape[1], axis=1)
        return Transistors(vt0, temperature, factor, np.tile(shares, (1, count)))


def _drawn(
    law: Distribution, seed: int, name: str, instances: NDArray[np.int64], epochs: int | None = None
) -> NDArray[np.float64]:
    """A number for each instance, or for each of its epochs; one for all if it is constant."""
    if law.is_constant:
        return np.array(law.numbers[0])
    streams = (stream(seed, name, one) for one in instances.tolist())
    if epochs is None:
        return np.array([law.at(one.random()) for one in streams])
    return np.array([[law.at(rank) for rank in one.random(epochs).tolist()] for one in streams])
