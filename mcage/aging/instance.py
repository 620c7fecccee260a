"""What instances have of their own for life: temperature, threshold voltage, how busy they are."""

from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, Transistors
from mcage.aging.shares import ShareLaws
from mcage.errors import UserError
from mcage.law import Law
from mcage.random import stream

ONE = Law("constant", (1.0,))

OF_SLICES = ("temperature_kelvin", "vt0_volts", "shift_factor", "activity")
"""Constants of an instance that are the same in every case."""


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
    """

    temperature_kelvin: NDArray[np.float64]
    vt0_volts: NDArray[np.float64]
    shift_factor: NDArray[np.float64]
    activity: NDArray[np.float64]
    shares: NDArray[np.float64] | None = None

    @property
    def transistors(self) -> Transistors:
        """As NBTI models want them."""
        return Transistors(self.vt0_volts, self.temperature_kelvin, self.shift_factor, self.shares)


@dataclass(frozen=True)
class InstanceLaws:
    """Laws of the constants of instances; the same in every case of a sweep, but for the shares.

    Parameters
    ----------
    temperature_kelvin, vt0_volts, shift_factor, activity : Law
        See `InstanceConstants`.
    shares : ShareLaws, optional
        Where instances differ in the shares of the time at operating points.
    """

    temperature_kelvin: Law
    vt0_volts: Law
    shift_factor: Law = ONE
    activity: Law = ONE
    shares: ShareLaws | None = None

    @property
    def of_slices(self) -> dict[str, Law]:
        """Laws by name, without those of the shares."""
        return {name: getattr(self, name) for name in OF_SLICES}

    @classmethod
    def nominal(cls, nbti: NbtiModel, temperature_kelvin: float) -> Self:
        """All instances alike, and like the nominal transistor."""
        return cls(
            Law("constant", (temperature_kelvin,)), Law("constant", (float(nbti.vt0_volts),))
        )

    def draw(self, seed: int, instances: NDArray[np.int64]) -> InstanceConstants:
        """Constants of instances: what one has depends on seed and instance only.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[n]
            Instance ids.
        """
        drawn = {
            name: _drawn(law, seed, f"instance.{name}", instances)
            for name, law in self.of_slices.items()
        }
        shares = None if self.shares is None else self.shares.draw(seed, instances)
        return InstanceConstants(**drawn, shares=shares)

    @property
    def constants(self) -> InstanceConstants:
        """Those of all instances.

        Raises
        ------
        UserError
            If instances differ.
        """
        for name, law in self.of_slices.items():
            if not law.is_constant:
                raise UserError(
                    f"{name} = {law} differs from instance to instance, which is not supported here"
                )
        if self.shares is not None:
            raise UserError(
                f"shares of environment {self.shares.environment!r} differ from instance to "
                "instance, which is not supported here"
            )
        return InstanceConstants(
            **{name: np.array(law.numbers[0]) for name, law in self.of_slices.items()}
        )

    @property
    def extremes(self) -> Transistors:
        """Transistors at all bounds of the laws: a model's largest shift is among theirs."""
        laws = (self.vt0_volts, self.temperature_kelvin, self.shift_factor)
        bounds = np.array(list(product(*(law.bounds for law in laws)))).T
        if self.shares is None:
            return Transistors(*bounds)
        shares = self.shares.extremes
        count = bounds.shape[1]
        vt0, temperature, factor = np.repeat(bounds, shares.shape[1], axis=1)
        return Transistors(vt0, temperature, factor, np.tile(shares, (1, count)))


def _drawn(law: Law, seed: int, name: str, instances: NDArray[np.int64]) -> NDArray[np.float64]:
    if law.is_constant:
        return np.array(law.numbers[0])
    return np.array([law.at(stream(seed, name, one).random()) for one in instances.tolist()])
