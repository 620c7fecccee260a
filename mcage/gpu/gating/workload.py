"""Which kernels a GPU launches in each interval of its life."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.gpu.gating.spec import DAYS_PER_YEAR, GpuWorkload, Launches
from mcage.plain_text import shortened
from mcage.random import stream

MOST_JOBS = 100_000
"""Most jobs of a life."""


class KernelShares(Protocol):
    """Shares of the kernels in the busy time of GPUs whose SMs all work."""

    constant: bool
    """Whether they are the same in all intervals, for all GPUs."""

    def between(self, start_days: float, end_days: float) -> NDArray[np.float64]:
        """Return float64[kernels, I], or [kernels, 1] for all; each column sums to 1."""


class ConstantShares:
    """The same shares at any time.

    Parameters
    ----------
    shares : float64[kernels]
        They sum to 1.
    """

    constant = True

    def __init__(self, shares: NDArray[np.float64]) -> None:
        self._shares = shares[:, None]

    def between(self, start_days: float, end_days: float) -> NDArray[np.float64]:
        """Return the shares."""
        return self._shares


class RepeatedShares:
    """A recorded sequence, again and again; the same for all GPUs.

    Parameters
    ----------
    kernels : int64[m]
        Kernel of each entry.
    days : float64[m]
        Length of each entry, above 0.
    count : int
        Number of kernels.
    """

    constant = False

    def __init__(self, kernels: NDArray[np.int64], days: NDArray[np.float64], count: int) -> None:
        spent = np.zeros((count, len(kernels) + 1))
        spent[kernels, np.arange(len(kernels)) + 1] = days
        self._spent = spent.cumsum(axis=1)
        self._ends = np.concatenate([[0.0], days.cumsum()])

    def between(self, start_days: float, end_days: float) -> NDArray[np.float64]:
        """Return the shares; exact, also of a part of an entry."""
        spent = self._until(end_days) - self._until(start_days)
        shares: NDArray[np.float64] = (spent / spent.sum())[:, None]
        return shares

    def _until(self, days: float) -> NDArray[np.float64]:
        whole, part = divmod(days, self._ends[-1])
        within = np.array([np.interp(part, self._ends, row) for row in self._spent])
        spent: NDArray[np.float64] = whole * self._spent[:, -1] + within
        return spent


class DrawnJobs:
    """Jobs of equal length, each a kernel; drawn for each GPU.

    Parameters
    ----------
    jobs : int16[jobs, I]
        Kernel of each job.
    job_days : float
        Length of a job.
    count : int
        Number of kernels.
    """

    constant = False

    def __init__(self, jobs: NDArray[np.int16], job_days: float, count: int) -> None:
        self._jobs = jobs
        self._job_days = job_days
        self._count = count

    def between(self, start_days: float, end_days: float) -> NDArray[np.float64]:
        """Return the shares; of a job that the interval cuts, the part within it counts."""
        first, last = int(start_days / self._job_days), int(end_days / self._job_days)
        gpus = np.arange(self._jobs.shape[1])
        spent = np.zeros((self._count, len(gpus)))
        for job in range(first, min(last, len(self._jobs) - 1) + 1):
            start, end = job * self._job_days, (job + 1) * self._job_days
            within = min(end, end_days) - max(start, start_days)
            if within > 0:
                spent[self._jobs[job], gpus] += within
        return spent / (end_days - start_days)


def kernel_shares(
    workload: GpuWorkload, names: Sequence[str], horizon_days: float, seed: int
) -> Callable[[NDArray[np.int64]], KernelShares]:
    """Make what returns the shares of kernels of GPUs, from their ids int64[I].

    Parameters
    ----------
    workload : GpuWorkload
        What the spec says.
    names : sequence of str
        Names of the kernels.
    horizon_days : float
        Simulated time.
    seed : int
        Seed of the study.

    Raises
    ------
    UserError
        A kernel is not known or missing; the chain has no unique stationary distribution, or there
        are too many jobs.
    """
    if workload.recorded:
        recorded = _recorded(workload.recorded, names)
        return lambda _: recorded
    chain = _chain(workload, names)
    shares = _weights(workload.weights, names) if chain is None else _stationary(chain)
    if workload.job_days == 0:
        return lambda _: ConstantShares(shares)
    jobs = int(np.ceil(horizon_days / workload.job_days))
    if jobs > MOST_JOBS:
        raise UserError(
            f"workload.job_days = {workload.job_days:g}: {jobs:,} jobs in "
            f"{horizon_days / DAYS_PER_YEAR:g} years, at most {MOST_JOBS:,} are drawn; 0 takes "
            "their shares instead"
        )

    def drawn(instances: NDArray[np.int64]) -> KernelShares:
        kernels = np.empty((jobs, len(instances)), np.int16)
        for column, instance in zip(kernels.T, instances.tolist(), strict=True):
            uniform = stream(seed, "gpu.workload", instance).random(jobs)
            column[:] = _walk(uniform, shares, chain)
        return DrawnJobs(kernels, workload.job_days, len(names))

    return drawn


def _walk(
    uniform: NDArray[np.float64], start: NDArray[np.float64], chain: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Kernels of a GPU's jobs, from a number in 0 ... 1 for each."""
    last = len(start) - 1
    if chain is None:
        return np.minimum(np.searchsorted(start.cumsum(), uniform, "right"), last)
    steps = chain.cumsum(axis=1)
    kernels = np.empty(len(uniform), np.int64)
    row = start.cumsum()
    for job, number in enumerate(uniform.tolist()):
        kernels[job] = min(int(np.searchsorted(row, number, "right")), last)
        row = steps[kernels[job]]
    return kernels


def _weights(weights: Mapping[str, float] | None, names: Sequence[str]) -> NDArray[np.float64]:
    if weights is None:
        return np.full(len(names), 1 / len(names))
    _refuse_unknown("workload.weights", weights, names)
    numbers = np.array([weights.get(name, 0.0) for name in names])
    shares: NDArray[np.float64] = numbers / numbers.sum()
    return shares


def _chain(workload: GpuWorkload, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Matrix of the probabilities of the next kernel: float64[kernels, kernels]."""
    if workload.transitions is None:
        return None
    given = workload.transitions
    _refuse_unknown("workload.transitions", given, names)
    for name in names:
        if name not in given:
            raise UserError(f"workload.transitions.{shortened(name)} is missing")
        _refuse_unknown(f"workload.transitions.{name}", given[name], names)
    return np.array([[given[name].get(following, 0.0) for following in names] for name in names])


def _stationary(chain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the kernels in the long run."""
    count = len(chain)
    equations = np.vstack([chain.T - np.eye(count), np.ones(count)])
    shares, _, rank, _ = np.linalg.lstsq(equations, np.append(np.zeros(count), 1.0), rcond=None)
    if rank < count:
        raise UserError(
            "workload.transitions: some kernels never lead to others, so that shares depend on the "
            "first kernel"
        )
    shares = np.maximum(shares, 0.0)
    stationary: NDArray[np.float64] = shares / shares.sum()
    return stationary


def _recorded(launches: Launches, names: Sequence[str]) -> RepeatedShares:
    numbers = {name: number for number, name in enumerate(names)}
    for launch, kernel in enumerate(launches.kernels):
        if kernel not in numbers:
            _refuse_unknown(launches.place(launch), [kernel], names)
    kernels = np.array([numbers[kernel] for kernel in launches.kernels])
    return RepeatedShares(kernels, np.array(launches.seconds) / 86_400, len(names))


def _refuse_unknown(
    where: str, given: Mapping[str, object] | list[str], names: Sequence[str]
) -> None:
    for name in given:
        if name not in names:
            raise UserError(
                f"{where}: kernel {shortened(name)} is unknown; there are "
                f"{shortened(', '.join(names))}"
            )
