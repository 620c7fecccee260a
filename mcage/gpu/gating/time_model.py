"""How long a kernel takes on k SMs, and on how many it should run (Chen et al., DAC 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError

LANES = 32
"""Threads of a warp."""

TOLERANCE = 1e-9
"""Relative difference of cycle counts that rounding may make (assumed): under equation 4 a count
does not depend on the number of SMs, and without a tolerance rounding would choose it."""

Reading = Literal["literal", "bounded"]
READINGS: tuple[Reading, ...] = ("literal", "bounded")


@dataclass(frozen=True)
class Machine:
    """What the time model knows of a GPU.

    Parameters
    ----------
    sms : int
        Streaming multiprocessors (SMs), at least 1.
    bandwidth_bytes_per_s : float
        Bandwidth of the global memory, B/s.
    clock_hz : float
        Clock of the SMs, Hz.
    """

    sms: int
    bandwidth_bytes_per_s: float
    clock_hz: float


@dataclass(frozen=True)
class KernelTiming:
    """What the time model knows of a kernel: measured characteristics.

    Parameters
    ----------
    global_latency_cycles, cache_latency_cycles : float
        Latency of an access to the global memory and to the cache, cycles.
    miss : float or tuple of float
        Share of the accesses that miss the cache, 0 ... 1; or a share for each number of SMs, from
        1 on.
    load_bytes_per_thread : float
        Bytes that a thread loads in an access.
    comp_cycles : float
        Cycles that a warp computes between two accesses.
    total_warps : float
        Warps that are resident on the whole GPU.
    total_workload_warps : float
        Warps of the whole launch.
    """

    global_latency_cycles: float
    cache_latency_cycles: float
    miss: float | tuple[float, ...]
    load_bytes_per_thread: float
    comp_cycles: float
    total_warps: float
    total_workload_warps: float


@dataclass(frozen=True)
class TimeModel:
    """Equations 3 to 7, and Algorithm 1.

    Parameters
    ----------
    reading : str
        ``literal``: as printed. ``bounded``: no more warps access the memory at once than an SM
        has, as in Hong and Kim (ISCA 2009), on whom the model builds.
    whole_warps : bool
        Whether an SM has a whole number of warps: the last wave of a launch is then not full.
    delta : float
        Relative loss of time that is accepted where no smaller number of SMs is as fast as all
        (section 5.2.2: 0.08).
    min_sms : int
        Fewest SMs that may run a kernel (section 6.1: 4).
    """

    reading: Reading = "literal"
    whole_warps: bool = False
    delta: float = 0.08
    min_sms: int = 4

    def cycles(self, kernel: KernelTiming, machine: Machine) -> NDArray[np.float64]:
        """Cycles of a launch on each number of SMs, 1 ... ``machine.sms``: float64[sms].

        Raises
        ------
        UserError
            The kernel gives a miss rate for another number of SMs.
        """
        sms = np.arange(1, machine.sms + 1, dtype=np.float64)
        miss = self._miss(kernel, machine.sms)
        mem = kernel.global_latency_cycles * miss + kernel.cache_latency_cycles * (1 - miss)
        warps = kernel.total_warps / sms
        if self.whole_warps:
            warps = np.ceil(warps)
        repeat = kernel.total_workload_warps / kernel.total_warps
        loaded = kernel.load_bytes_per_thread * LANES * miss
        with np.errstate(divide="ignore"):
            parallel = machine.bandwidth_bytes_per_s * mem / (sms * machine.clock_hz * loaded)
        if self.reading == "bounded":
            parallel = np.minimum(parallel, warps)
        computing = mem + repeat * warps * kernel.comp_cycles
        with np.errstate(invalid="ignore"):
            waiting = repeat * warps / parallel * mem
        return np.where(parallel >= mem / kernel.comp_cycles, computing, waiting)

    def optimum(self, kernel: KernelTiming, machine: Machine) -> int:
        """Number of SMs that Algorithm 1 chooses.

        The smallest number that is as fast as all SMs; if that is all of them, the smallest that
        loses no more than `delta`. The algorithm's loops have no ``break`` in print; that the
        smallest is meant follows from Table 2 (docs/gpu-level.md).

        Raises
        ------
        UserError
            The GPU has fewer SMs than `min_sms`; or as `cycles`.
        """
        if not 1 <= self.min_sms <= machine.sms:
            raise UserError(
                f"min_sms = {self.min_sms} must be 1 ... {machine.sms}, the SMs of the GPU"
            )
        cycles = self.cycles(kernel, machine)
        return (
            self._smallest(cycles, 0.0)
            if self._smallest(cycles, 0.0) < machine.sms
            else (self._smallest(cycles, self.delta))
        )

    def _smallest(self, cycles: NDArray[np.float64], loss: float) -> int:
        """Fewest SMs that take at most ``loss`` longer than all of them."""
        allowed = cycles[-1] * (1 + loss) * (1 + TOLERANCE)
        return self.min_sms + int(np.argmax(cycles[self.min_sms - 1 :] <= allowed))

    @staticmethod
    def _miss(kernel: KernelTiming, sms: int) -> NDArray[np.float64]:
        given = kernel.miss
        if isinstance(given, Sequence) and len(given) != sms:
            raise UserError(f"miss gives {len(given)} rates, but the GPU has {sms} SMs")
        return np.broadcast_to(np.asarray(given, dtype=np.float64), (sms,))
