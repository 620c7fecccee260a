"""Kernels under SM gating: their time on k SMs, and which of them each interval runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.gpu.chip import GpuTiming
from mcage.plain_text import shortened
from mcage.random import stream
from mcage.spec.keys import Section, first_problem
from mcage.studies.gpu_gating.spec import DAYS_PER_YEAR, GpuWorkload, Launches

# How long a kernel takes on k SMs, and on how many it should run (Chen et al., DAC 2014).

LANES = 32
"""Threads of a warp."""

TOLERANCE = 1e-9
"""Relative difference of cycle counts that rounding may make (assumed): under equation 4 a count
does not depend on the number of SMs, and without a tolerance rounding would choose it."""

Reading = Literal["literal", "bounded"]
READINGS: tuple[Reading, ...] = ("literal", "bounded")


@dataclass(frozen=True)
class KernelTiming:
    """Measured characteristics of a kernel for the time model.

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

    def cycles(self, kernel: KernelTiming, machine: GpuTiming) -> NDArray[np.float64]:
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

    def optimum(self, kernel: KernelTiming, machine: GpuTiming) -> int:
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
        as_fast = self._smallest(cycles, 0.0)
        return as_fast if as_fast < machine.sms else self._smallest(cycles, self.delta)

    def _smallest(self, cycles: NDArray[np.float64], loss: float) -> int:
        """Fewest SMs that take at most ``loss`` longer than all of them."""
        allowed = cycles[-1] * (1 + loss) * (1 + TOLERANCE)
        return self.min_sms + int(np.argmax(cycles[self.min_sms - 1 :] <= allowed))

    @staticmethod
    def _miss(kernel: KernelTiming, sms: int) -> NDArray[np.float64]:
        rates = kernel.miss
        if isinstance(rates, Sequence) and len(rates) != sms:
            raise UserError(f"miss gives {len(rates)} rates, but the GPU has {sms} SMs")
        return np.broadcast_to(np.asarray(rates, dtype=np.float64), (sms,))


# Which kernels each interval runs.

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
        A kernel is not known, or there are too many jobs.
    """
    if workload.recorded:
        recorded = _recorded(workload.recorded, names)
        return lambda _: recorded
    shares = _weights(workload.weights, names)
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
            drawn_kernels = np.searchsorted(shares.cumsum(), uniform, "right")
            column[:] = np.minimum(drawn_kernels, len(shares) - 1)
        return DrawnJobs(kernels, workload.job_days, len(names))

    return drawn


def _weights(weights: Mapping[str, float] | None, names: Sequence[str]) -> NDArray[np.float64]:
    if weights is None:
        return np.full(len(names), 1 / len(names))
    _refuse_unknown("workload.weights", weights, names)
    numbers = np.array([weights.get(name, 0.0) for name in names])
    shares: NDArray[np.float64] = numbers / numbers.sum()
    return shares


def _recorded(launches: Launches, names: Sequence[str]) -> RepeatedShares:
    numbers = {name: number for number, name in enumerate(names)}
    for launch, kernel in enumerate(launches.kernels):
        if kernel not in numbers:
            _refuse_unknown(launches.place(launch), [kernel], names)
    kernels = np.array([numbers[kernel] for kernel in launches.kernels])
    return RepeatedShares(kernels, np.array(launches.seconds) / 86_400, len(names))


def _refuse_unknown(
    where: str, keys: Mapping[str, object] | list[str], names: Sequence[str]
) -> None:
    for name in keys:
        if name not in names:
            raise UserError(
                f"{where}: kernel {shortened(name)} is unknown; there are "
                f"{shortened(', '.join(names))}"
            )


# Kernels as SM gating knows them: SMs that each needs, and how long it takes on them.
#
# Either the number of SMs is given, as in Table 2 of Chen et al. (DAC 2014), or characteristics
# are, from which the time model and Algorithm 1 compute it. Two sets ship with mcage: `chen-2014`,
# and `chen-2014-sizes` with execution times by problem size. Any other set is a TOML file with a
# table for each kernel.

KERNEL_SETS = ("chen-2014", "chen-2014-sizes")
"""Sets of kernels that ship with mcage."""

Cycles = Annotated[float, Field(gt=0, le=1e15)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class GatedKernel:
    """A kernel on a GPU that gates SMs.

    Parameters
    ----------
    name : str
        Its name.
    sms : int
        SMs that it needs.
    time_ratio : float
        Time that it takes on them relative to all SMs.
    """

    name: str
    sms: int
    time_ratio: float


class KernelTable(Section):
    """Table of a kernel: its SMs, or the characteristics of `KernelTiming`."""

    sms: Annotated[int, Field(ge=1, le=127)] | None = None
    time_ratio: Annotated[float, Field(gt=0, le=1e3)] | None = None
    global_latency_cycles: Cycles | None = None
    cache_latency_cycles: Cycles | None = None
    miss: Share | tuple[Share, ...] | None = None
    load_bytes_per_thread: Annotated[float, Field(ge=0, le=1e6)] | None = None
    comp_cycles: Cycles | None = None
    total_warps: Cycles | None = None
    total_workload_warps: Cycles | None = None

    @model_validator(mode="after")
    def _counted_or_measured(self) -> Self:
        missing = [name for name in _MEASURED if getattr(self, name) is None]
        if self.sms is not None and len(missing) < len(_MEASURED):
            raise ValueError("gives both sms and measured characteristics: give one of them")
        if self.sms is None and len(missing) == len(_MEASURED):
            raise ValueError("needs sms, or the measured characteristics of the kernel")
        if self.sms is None and missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        if self.sms is None and self.time_ratio is not None:
            raise ValueError("time_ratio follows from the measured characteristics: leave it out")
        return self

    def timing(self) -> KernelTiming:
        """Return the measured characteristics."""
        return KernelTiming(**{name: getattr(self, name) for name in _MEASURED})


_MEASURED = tuple(KernelTiming.__dataclass_fields__)


class _KernelFile(Section):
    """Keys of a file of kernels."""

    kernels: Annotated[dict[str, KernelTable], Field(min_length=1, max_length=10_000)]


def gated_kernels(
    name: str, names: Sequence[str], machine: GpuTiming, model: TimeModel
) -> tuple[GatedKernel, ...]:
    """Kernels of a set, with the SMs that each needs on a GPU.

    Parameters
    ----------
    name : str
        A set that ships with mcage, or a TOML file.
    names : sequence of str
        Kernels of the set; empty: all.
    machine : GpuTiming
        The GPU.
    model : TimeModel
        Chooses SMs of kernels whose characteristics are given.

    Raises
    ------
    UserError
        There is no such set or kernel; the file cannot be read, a key is missing or wrong; a kernel
        needs more SMs than the GPU has.
    """
    if name in KERNEL_SETS:
        path = Path(str(files("mcage") / "data" / "kernels" / f"{name}.toml"))
    elif name.endswith(".toml"):
        path = Path(name)
    else:
        raise UserError(
            f"kernels {shortened(name)} are unknown; choose from {', '.join(KERNEL_SETS)}, or name "
            "a TOML file"
        )
    fields = read_toml(path)
    try:
        tables = _KernelFile.model_validate_json(json.dumps(fields)).kernels
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, _KernelFile)}") from error
    for kernel in names:
        if kernel not in tables:
            raise UserError(f"{path}: there is no kernel {shortened(kernel)} in it")
    chosen = {kernel: tables[kernel] for kernel in (names or tables)}
    return tuple(_gated(k, table, machine, model, str(path)) for k, table in chosen.items())


def _gated(
    name: str, table: KernelTable, machine: GpuTiming, model: TimeModel, source: str
) -> GatedKernel:
    if table.sms is not None:
        if table.sms > machine.sms:
            raise UserError(
                f"{source}: kernels.{shortened(name)}.sms = {table.sms}, but the GPU has "
                f"{machine.sms} SMs"
            )
        return GatedKernel(name, table.sms, table.time_ratio or 1.0)
    try:
        timing = table.timing()
        cycles = model.cycles(timing, machine)
        best = model.optimum(timing, machine)
    except UserError as error:
        raise UserError(f"{source}: kernels.{shortened(name)}: {error}") from error
    return GatedKernel(name, best, float(cycles[best - 1] / cycles[-1]))


# Load of a GPU by the kernels of an interval: for which share of the time how many SMs work.


@dataclass(frozen=True, eq=False)
class Demand:
    """Load of I GPUs with n SMs by the kernels of an interval; I is 1 where all GPUs are alike.

    Parameters
    ----------
    busy : float64[I]
        Share of the time in which some SM is at work.
    time_by_sms : float64[n + 1, I]
        Share of the time in which so many SMs are at work.
    slowdown : float64[I]
        Time of the work relative to all SMs, less 1.
    """

    busy: NDArray[np.float64]
    time_by_sms: NDArray[np.float64]
    slowdown: NDArray[np.float64]

    @cached_property
    def by_rank(self) -> NDArray[np.float64]:
        """Share of the time for which the SM at each place of a ranking works: float64[n, I]."""
        # An SM that all kernels need works for exactly all of the busy time: under the long-term
        # form of `bhardwaj` a hair less would be far less.
        fewer = self.time_by_sms.cumsum(axis=0)[:-1]
        more = self.time_by_sms[:0:-1].cumsum(axis=0)[::-1]
        return np.where(more < self.busy / 2, more, np.maximum(self.busy - fewer, 0.0))

    @cached_property
    def mean_sms(self) -> NDArray[np.float64]:
        """SMs at work, mean over all of the time: float64[I]."""
        return row_sum(self.by_rank)


def row_sum(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the rows of float64[n, I], one after the other: float64[I].

    NumPy's own sum adds in an order that depends on I, and a GPU must not depend on others.
    """
    total: NDArray[np.float64] = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


@dataclass(frozen=True, eq=False)
class KernelDemands:
    """From shares of kernels to what they ask of a GPU.

    Parameters
    ----------
    kernels : sequence of GatedKernel
        SMs that each needs, and how long it takes on them.
    sms : int
        SMs of a GPU.
    utilisation : float
        Share of the time in which a GPU whose SMs all work is busy.
    """

    kernels: Sequence[GatedKernel]
    sms: int
    utilisation: float

    def of(self, shares: NDArray[np.float64], available: NDArray[np.int64], gates: bool) -> Demand:
        """Return what kernels ask of GPUs.

        Parameters
        ----------
        shares : float64[kernels, I]
            Shares of the kernels in the busy time of GPUs whose SMs all work; I may be 1.
        available : int64[I]
            SMs that are not retired; I may be 1.
        gates : bool
            Whether SMs that a kernel does not need are gated.

        Notes
        -----
        A kernel that needs more SMs than are left takes longer in proportion (assumed). A GPU that
        cannot do its work in time is busy all of the time.
        """
        needed = np.array([kernel.sms if gates else self.sms for kernel in self.kernels])[:, None]
        ratio = np.array([kernel.time_ratio if gates else 1.0 for kernel in self.kernels])[:, None]
        longer = ratio * np.maximum(needed / available, 1.0)
        slowdown = row_sum(shares * (longer - 1))
        busy = np.minimum(self.utilisation * (1 + slowdown), 1.0)
        times = shares * longer * (busy / (1 + slowdown))
        counts = np.broadcast_to(np.minimum(needed, available), times.shape)
        by_sms = np.zeros((self.sms + 1, times.shape[1]))
        gpus = np.arange(times.shape[1])
        for time, count in zip(times, counts, strict=True):
            by_sms[count, gpus] += time
        return Demand(busy, by_sms, slowdown)
