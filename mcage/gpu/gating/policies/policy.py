"""What a policy is: from what sensors read, the SMs that are put to work."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.compiled import ranked


@dataclass(frozen=True, eq=False)
class Readings:
    """What a policy may know of I GPUs with n SMs each when it decides.

    Parameters
    ----------
    dvth_volts : float64[n, I]
        Threshold shift of each SM as its sensor reads it, V.
    vt_volts : float64[n, I]
        Aged threshold voltage, Vt0 plus the shift, as the sensor reads it, V.
    temperature_kelvin : float64[n, I]
        Mean temperature of each SM since the last reading, K; before the first reading, that of a
        GPU whose SMs all work.
    retired : bool[n, I]
        SMs that have been given up: they are gated for good.
    turn : int64[I]
        SMs that have been put to work before, by all launches together; for policies that rotate.
    random : callable
        ``random()`` returns float64[n, I], uniform in 0 ... 1: independent draws for each GPU.
    """

    dvth_volts: NDArray[np.float64]
    vt_volts: NDArray[np.float64]
    temperature_kelvin: NDArray[np.float64]
    retired: NDArray[np.bool_]
    turn: NDArray[np.int64]
    random: Callable[[], NDArray[np.float64]]

    @property
    def shape(self) -> tuple[int, int]:
        """SMs of a GPU, and number of GPUs."""
        sms, gpus = self.dvth_volts.shape
        return sms, gpus


class Policy(ABC):
    """A rule by which SMs are put to work.

    Attributes
    ----------
    gates : bool
        Whether SMs that a kernel does not need are gated. Where not, all SMs work all the time.
    rotates : bool
        Whether other SMs work at each launch, whatever the sensors read: over many launches all SMs
        then work for the same share of the time.
    """

    gates: ClassVar[bool] = True
    rotates: ClassVar[bool] = False

    @abstractmethod
    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose the SMs that work on a launch.

        Parameters
        ----------
        readings : Readings
            What is known.
        count : int64[I]
            SMs that the launch needs on each GPU; no more than are not retired.

        Returns
        -------
        bool[n, I]
            ``count`` SMs of each GPU, none of them retired.
        """


class RankingPolicy(Policy):
    """A policy that ranks SMs: a launch takes the first of the ranking, however many it needs."""

    @abstractmethod
    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return float64[n, I]: SMs with smaller numbers work first; of equal ones, lower indices.

        A retired SM never works, whatever its number.
        """

    def ranks(self, readings: Readings) -> NDArray[np.int8]:
        """Return the place of each SM in the ranking, from 0 on: int8[n, I]; retired SMs last."""
        priorities = self.priorities(readings)
        if readings.retired.any():
            priorities = np.where(readings.retired, np.inf, priorities)
        return ranked(priorities)

    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose the first of the ranking; see `Policy.workers`."""
        return self.ranks(readings) < count
