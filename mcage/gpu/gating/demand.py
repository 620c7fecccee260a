"""What the kernels of an interval ask of a GPU: for which share of the time how many SMs work."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.kernels import GatedKernel


@dataclass(frozen=True, eq=False)
class Demand:
    """What the kernels of an interval ask of I GPUs with n SMs; I is 1 where all GPUs are alike.

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
