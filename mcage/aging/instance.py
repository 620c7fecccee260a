"""What instances have of their own for life: temperature, threshold voltage, how busy they are."""

from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, Transistors
from mcage.errors import UserError
from mcage.law import Law
from mcage.random import stream

ONE = Law("constant", (1.0,))


@dataclass(frozen=True, eq=False)
class InstanceConstants:
    """Constants of n instances, each ``float64[n]``, or one number for all.

    Attributes
    ----------
    temperature_kelvin : array
        At every operating point.
    vt0_volts : array
        Unaged threshold voltage of all transistors.
    shift_factor : array
        Factor on every threshold shift.
    activity : array
        Share of the time that the slice is busy; the rest of it, all cells are off, or hold.
    """

    temperature_kelvin: NDArray[np.float64]
    vt0_volts: NDArray[np.float64]
    shift_factor: NDArray[np.float64]
    activity: NDArray[np.float64]

    @property
    def transistors(self) -> Transistors:
        """As NBTI models want them."""
        return Transistors(self.vt0_volts, self.temperature_kelvin, self.shift_factor)


@dataclass(frozen=True)
class InstanceLaws:
    """Laws of the constants of instances; the same in every case of a sweep.

    Parameters
    ----------
    temperature_kelvin, vt0_volts, shift_factor, activity : Law
        See `InstanceConstants`.
    """

    temperature_kelvin: Law
    vt0_volts: Law
    shift_factor: Law = ONE
    activity: Law = ONE

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
        return InstanceConstants(
            *(_drawn(law, seed, f"instance.{name}", instances) for name, law in vars(self).items())
        )

    @property
    def constants(self) -> InstanceConstants:
        """Those of all instances.

        Raises
        ------
        UserError
            If instances differ.
        """
        for name, law in vars(self).items():
            if not law.is_constant:
                raise UserError(
                    f"{name} = {law} differs from instance to instance, which is not supported here"
                )
        return InstanceConstants(*(np.array(law.numbers[0]) for law in vars(self).values()))

    @property
    def extremes(self) -> Transistors:
        """Transistors at all bounds of the laws: a model's largest shift is among theirs."""
        laws = (self.vt0_volts, self.temperature_kelvin, self.shift_factor)
        return Transistors(*np.array(list(product(*(law.bounds for law in laws)))).T)


def _drawn(law: Law, seed: int, name: str, instances: NDArray[np.int64]) -> NDArray[np.float64]:
    if law.is_constant:
        return np.array(law.numbers[0])
    return np.array([law.at(stream(seed, name, one).random()) for one in instances.tolist()])
