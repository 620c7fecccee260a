"""Figures of Chen et al., "Run-time technique for simultaneous aging and power optimization".

DAC 2014: gating of SMs. A kernel runs 100 rounds, 36 ms, on SMs that start new; the least shifted
work. Numbers of SMs are the printed ones, since what they were computed from is not printed.
"""

from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import Transistors, nbti_model
from mcage.gpu.chip import gpu
from mcage.gpu.gating.kernels import GatedKernel, gated_kernels
from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, ROUNDS, Rounds
from mcage.gpu.gating.time_model import TimeModel
from mcage.studies.reproduction.measured import Measured
from mcage.studies.reproduction.published import MEAN, Published, published_figures

PAPER = "003"

VDD_VOLTS = 1.0
"""Section 6.1."""

SMALLEST, LARGEST = "smallest", "largest"
"""In place of a kernel: the extreme over the fourteen kernels."""

SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    MEAN: fmean,
    SMALLEST: min,
    LARGEST: max,
}
"""What the paper prints of the fourteen kernels together."""

EQUAL, PRINTED = "equal times", "printed times"
TIMES = (EQUAL, PRINTED)
"""Execution time on the chosen SMs: that on all SMs, or as Tables 3 and 4 print it."""

GatingMetric = Callable[[Published, str], Measured]
"""Computes a printed value with execution times of a kind."""


@cache
def kernels(name: str = "chen-2014") -> dict[str, GatedKernel]:
    """Kernels of a set by name, with the printed numbers of SMs."""
    listed = gated_kernels(name, (), gpu("gtx580").machine, TimeModel())
    return {kernel.name: kernel for kernel in listed}


@cache
def sms() -> int:
    """SMs of the GPU of the paper."""
    return gpu("gtx580").sms


def history(active: int, rounds: int = ROUNDS, time_ratio: float = 1.0) -> Rounds:
    """Rounds of a kernel on equal SMs at 353.15 K.

    Parameters
    ----------
    active : int
        SMs that work.
    rounds : int
        Rounds.
    time_ratio : float
        Length of a round relative to that on all SMs.
    """
    return Rounds(
        model=nbti_model("bhardwaj-unscaled"),
        counts=np.full(rounds, active),
        seconds=ROUND_SECONDS * time_ratio,
        vdd_volts=VDD_VOLTS,
        transistors=Transistors(temperature_kelvin=353.15),
        sms=sms(),
    )


@cache
def largest_dvth_mv(name: str, active: int, time_ratio: float = 1.0) -> float:
    """Largest shift of an SM after the last round under a policy, mV."""
    shifts: NDArray[np.float64] = history(active, time_ratio=time_ratio).dvth_volts(policy(name))
    return float(1e3 * shifts.max())


def mitigation_percent(active: int, time_ratio: float = 1.0) -> float:
    """How far gating lowers the largest shift, %."""
    gated = largest_dvth_mv("least-shift", active, time_ratio)
    return 100 * (1 - gated / largest_dvth_mv("default", sms()))


def gated_percent(active: int) -> float:
    """Share of the SMs that are gated, %: what their power falls by if all SMs draw the same."""
    return 100 * (1 - active / sms())


def time_ratio(kernel: GatedKernel, times: str) -> float:
    """Execution time relative to all SMs."""
    return kernel.time_ratio if times == PRINTED else 1.0


def of_kernels(figure: Published, by_kernel: dict[str, float]) -> Measured:
    """Reduce values of the fourteen kernels to what is printed of them."""
    values = list(by_kernel.values())
    return Measured(SUMMARIES[figure.kernel](values), by_kernel=by_kernel)


def _of_counts(value: Callable[[int, float], float]) -> GatingMetric:
    """Metric that follows from the number of SMs and the execution time of a kernel."""

    def measure(figure: Published, times: str) -> Measured:
        if figure.kernel in (MEAN, SMALLEST, LARGEST):
            values = {k.name: value(k.sms, 1.0) for k in kernels().values()}
            return of_kernels(figure, values)
        known = kernels() | kernels("chen-2014-sizes")
        kernel = known[figure.kernel]
        return Measured(value(kernel.sms, time_ratio(kernel, times)))

    return measure


def _largest_dvth(figure: Published, times: str) -> Measured:
    return Measured(largest_dvth_mv(figure.technique, kernels()[figure.kernel].sms))


def _sm_energy_saving(figure: Published, times: str) -> Measured:
    """Energy saving that follows from the printed power saving and the printed time, %."""
    (power,) = (
        other
        for other in published_figures(PAPER)
        if (other.metric, other.kernel) == ("sm_power_saving", figure.kernel)
    )
    ratio = kernels("chen-2014-sizes")[figure.kernel].time_ratio
    return Measured(100 * (1 - (1 - power.low / 100) * ratio))


METRICS: dict[str, GatingMetric] = {
    "largest_dvth": _largest_dvth,
    "mitigation": _of_counts(mitigation_percent),
    "sm_power_saving": _of_counts(lambda active, _: gated_percent(active)),
    "sm_energy_saving": _sm_energy_saving,
}
