"""From the lives of SMs and slices to those of GPUs: the clock, and who dies of what first."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.both.register_files import SliceFates
from mcage.gpu.gating.life import SmHistory
from mcage.lifetime.end_of_life import EndCause


class BothEnd(IntEnum):
    """What ended the life of a GPU."""

    CENSORED = 0
    LOGIC_DELAY = 1
    CELL_DELAY = 2
    FAULTY_ENTRY = 3
    NO_HOME = 4
    SPILL_LIMIT = 5


_OF_SLICE = {
    EndCause.DELAY: BothEnd.CELL_DELAY,
    EndCause.FAULTY_ENTRY: BothEnd.FAULTY_ENTRY,
    EndCause.NO_HOME: BothEnd.NO_HOME,
    EndCause.SPILL_LIMIT: BothEnd.SPILL_LIMIT,
}


@dataclass(frozen=True, eq=False)
class Clock:
    """What the clock of I GPUs asks of the cells of their register files.

    Parameters
    ----------
    vdd_volts : float
        Highest supply voltage of the cells, at which delay is judged.
    alpha : float
        Exponent of the alpha-power law.
    guardband : float
        Delay increase over the slowest new cell of the GPU at which a cell is too slow.
    vt0_volts : float64[n, I]
        Unaged threshold voltage of the cells of each SM.
    """

    vdd_volts: float
    alpha: float
    guardband: float
    vt0_volts: NDArray[np.float64]

    @property
    def overdrive(self) -> NDArray[np.float64]:
        """Overdrive of new cells: float64[I, n, 1]."""
        return (self.vdd_volts - self.vt0_volts.T)[..., None]

    @property
    def least_overdrive(self) -> NDArray[np.float64]:
        """Overdrive of the slowest new cell of each GPU: float64[I, 1, 1]."""
        least: NDArray[np.float64] = self.overdrive.min(axis=1, keepdims=True)
        return least

    def dvth_limit(self) -> NDArray[np.float64]:
        """Shift at which the cells of an SM are too slow: float64[I, n, 1]."""
        needed = self.least_overdrive * (1 + self.guardband) ** (-1 / self.alpha)
        limit: NDArray[np.float64] = self.overdrive - needed
        return limit

    def margins(self, dvth_volts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Delay over that of the slowest new cell, less 1, for shifts float64[I, n, k, E]."""
        left = self.overdrive[..., None] - dvth_volts
        with np.errstate(invalid="ignore"):
            slower = np.where(left > 0, self.least_overdrive[..., None] / left, np.nan)
        margins: NDArray[np.float64] = slower**self.alpha - 1
        return margins


@dataclass(frozen=True, eq=False)
class GpuFates:
    """What became of I GPUs.

    Parameters
    ----------
    cell_margin, max_dvth_volts : float64[I, E]
        Delay of the slowest cell of the slices that live over that of the slowest new cell, less 1,
        and largest shift of such a cell, at the end of each epoch; NaN where the GPU has failed for
        faults.
    longest_duty : float64[I]
        Longest duty cycle of a cell.
    cell_delay_years, fault_years, life_years : float64[I]
        Ages at which more SMs than may be given up have cells that are too slow; have register
        files that no kernel can run on for their faults; are dead, by these or by their logic.
    cause : int8[I]
        `BothEnd` of the life.
    """

    cell_margin: NDArray[np.float64]
    max_dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]
    cell_delay_years: NDArray[np.float64]
    fault_years: NDArray[np.float64]
    life_years: NDArray[np.float64]
    cause: NDArray[np.int8]


@dataclass(frozen=True)
class GpuRules:
    """What holds for the lives of all GPUs.

    Parameters
    ----------
    spares : int
        SMs that may be given up.
    root : int
        Root of time with which the shift of the NBTI model grows.
    ages_years : tuple of float
        Ends of the epochs.
    """

    spares: int
    root: int
    ages_years: tuple[float, ...]


def combined(slices: SliceFates, sms: SmHistory, clock: Clock, rules: GpuRules) -> GpuFates:
    """Combine the lives of SMs and slices into those of GPUs.

    An SM is dead when its logic is too slow, or any of its slices is too slow or has failed. A GPU
    is dead when more SMs are than there are spares.

    Parameters
    ----------
    slices : SliceFates
        Lives of the slices, by faults alone.
    sms : SmHistory
        Lives of the SMs.
    clock : Clock
        When cells are too slow.
    rules : GpuRules
        What holds for all GPUs.
    """
    spares = rules.spares
    late = too_slow_years(slices, clock.dvth_limit(), rules.root)
    by_delay, by_faults = late.min(axis=2), slices.fault_years.min(axis=2)
    by_logic = sms.too_slow_years.T
    first_slice = slices.fault_years.argmin(axis=2)[..., None]
    cause = np.take_along_axis(slices.cause, first_slice, axis=2)[..., 0]
    causes = np.stack(
        [
            np.full(cause.shape, BothEnd.LOGIC_DELAY, np.int8),
            np.full(cause.shape, BothEnd.CELL_DELAY, np.int8),
            _of_gpu(cause),
        ]
    )
    ways = np.stack([by_logic, by_delay, by_faults])
    first_way = ways.argmin(axis=0)[None]
    death = np.take_along_axis(ways, first_way, axis=0)[0]
    cause = np.take_along_axis(causes, first_way, axis=0)[0]
    last = death.argsort(axis=1, kind="stable")[:, spares : spares + 1]
    life = np.take_along_axis(death, last, axis=1)[:, 0]
    cause = np.where(np.isfinite(life), np.take_along_axis(cause, last, axis=1)[:, 0], 0)
    fault_years = np.sort(by_faults, axis=1)[:, spares]
    failed = fault_years[:, None] < np.array(rules.ages_years)
    return GpuFates(
        cell_margin=np.where(failed, np.nan, _largest(clock.margins(slices.dvth_volts))),
        max_dvth_volts=np.where(failed, np.nan, _largest(slices.dvth_volts)),
        longest_duty=slices.longest_duty.max(axis=(1, 2)),
        cell_delay_years=np.sort(by_delay, axis=1)[:, spares],
        fault_years=fault_years,
        life_years=life,
        cause=cause.astype(np.int8),
    )


def too_slow_years(
    slices: SliceFates, limit_volts: NDArray[np.float64], root: int
) -> NDArray[np.float64]:
    """Age at which the worst cell of each slice has shifted by a limit: float64[I, n, k].

    Within an epoch, a power of the shift, the root of the model, grows evenly: exactly so where
    duty cycles stay the same. Infinite where it is not reached while the slice lives.

    Parameters
    ----------
    slices : SliceFates
        The slices.
    limit_volts : float64[I, n, 1]
        Limit for the cells of each SM, above 0.
    root : int
        Root of time with which the shift grows.
    """
    years = np.full(slices.fault_years.shape, np.inf)
    before, began = np.zeros(years.shape), np.zeros(years.shape)
    limit = np.broadcast_to(limit_volts, years.shape)
    for epoch in range(slices.dvth_volts.shape[-1]):
        after, ended = slices.dvth_volts[..., epoch], slices.ages_years[..., epoch]
        crossed = np.isinf(years) & (after >= limit)
        low, high, aim = (volts[crossed] ** root for volts in (before, after, limit))
        part = (aim - low) / (high - low)
        years[crossed] = began[crossed] + part * (ended - began)[crossed]
        before, began = after, ended
    return years


def _of_gpu(cause: NDArray[np.int8]) -> NDArray[np.int8]:
    """`BothEnd` of each `EndCause`."""
    table = np.zeros(max(EndCause) + 1, np.int8)
    table[list(_OF_SLICE)] = list(_OF_SLICE.values())
    return table[cause]


def _largest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest of all slices that live: float64[I, n, k, E] to float64[I, E]."""
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=(1, 2))
    return np.where(np.isneginf(largest), np.nan, largest)
