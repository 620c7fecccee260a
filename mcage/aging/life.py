"""The life of a batch of instances, epoch by epoch, until its end or the horizon.

In an epoch the kernel and the fault map stay as they are. Before it, the technique must find room
for the kernel on that map; after it, cells have aged, faults may have grown, and the technique must
still find room; whatever ends a life on the way is solved for inside the epoch.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.crossing import crossing
from mcage.aging.delay import delay_increase, dvth_at_delay
from mcage.aging.end_of_life import EndCause
from mcage.aging.environment import Environment
from mcage.aging.growth import growth_weights
from mcage.aging.nbti import SECONDS_PER_YEAR, Facelift
from mcage.aging.shared import EVENTS, SharedReplays, events_per_cycle
from mcage.aging.vmin import aged_vmin
from mcage.engines.exposure import Watched
from mcage.engines.interface import Engine
from mcage.epochs import middle_of_growth
from mcage.variation import TailCells, fault_map

BISECTIONS = 12
"""Halvings of an epoch in search of the moment at which room runs out: to hours in two years."""


@dataclass(frozen=True)
class LifeRules:
    """What holds for every instance of a case.

    Parameters
    ----------
    environment : Environment
        Operating points.
    nbti : Facelift
        Model of the threshold shift.
    epoch_edges_years : tuple of float
        Borders of the epochs.
    delay_guardband : float
        Delay increase that ends a life.
    vmin_coefficient : float
        Growth of Vmin per threshold shift, V/V.
    lds_rows : int
        Spilled rows for which there is room.
    spread_blocks : bool
        Conservative rule for fault maps.
    """

    environment: Environment
    nbti: Facelift
    epoch_edges_years: tuple[float, ...]
    delay_guardband: float
    vmin_coefficient: float
    lds_rows: int
    spread_blocks: bool

    @property
    def horizon_seconds(self) -> float:
        """End of the simulated time."""
        return self.epoch_edges_years[-1] * SECONDS_PER_YEAR

    @property
    def dvth_limit_volts(self) -> float:
        """Threshold shift at which the delay, judged at the highest Vdd, uses up its guardband."""
        return dvth_at_delay(
            self.delay_guardband,
            self.environment.highest_vdd_volts,
            self.nbti.vt0_volts,
            self.nbti.alpha,
        )

    @property
    def floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty: lowest Vdd less the largest shift."""
        largest = self.nbti.largest_dvth(self.environment, self.horizon_seconds)
        return self.environment.lowest_vdd_volts - self.vmin_coefficient * largest * (1 + 1e-9)

    def dvth(
        self, stressed: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shift in volts of transistors stressed for so many seconds of their age."""
        stress = self.nbti.stress_rate(self.environment) * stressed
        return self.nbti.dvth(stress, stressed, np.maximum(age - stressed, 0.0))


@dataclass(frozen=True)
class Lives:
    """What became of the instances of a batch; arrays [instances, ...].

    Attributes
    ----------
    life_seconds, end_cause : float64[I], int8[I]
        End of life, or the horizon where the cause is `EndCause.CENSORED`.
    max_dvth_volts, longest_duty : float64[I, 2]
        Largest shift of T0 and T1; longest share of the life at '0' and at '1'.
    writes : float64[I, 4]
        Shares of the writes of the life: regular, to reliable, to faulty, LDS. NaN (as the next
        three) if there was no life.
    wakeups, movs, mispredictions : float64[I]
        Per write.
    peak_spilled_rows, faulty_start, faulty_end : int64[I]
        Spilled rows at most; faulty entries at the start and at the end.
    epoch_max_dvth_volts, epoch_faulty, epoch_peak_spilled : float64[I, epochs(, 2)]
        Shifts at the end of each epoch; faulty entries and spilled rows in it. NaN after death.
    sampled_dvth_volts : float64[I, sample, 2]
        Shifts of the sampled cells at the end.
    """

    life_seconds: NDArray[np.float64]
    end_cause: NDArray[np.int8]
    max_dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]
    delay_increase: NDArray[np.float64]
    writes: NDArray[np.float64]
    wakeups: NDArray[np.float64]
    movs: NDArray[np.float64]
    mispredictions: NDArray[np.float64]
    peak_spilled_rows: NDArray[np.int64]
    faulty_start: NDArray[np.int64]
    faulty_end: NDArray[np.int64]
    epoch_max_dvth_volts: NDArray[np.float64]
    epoch_faulty: NDArray[np.float64]
    epoch_peak_spilled: NDArray[np.float64]
    sampled_dvth_volts: NDArray[np.float64]


def live(
    rules: LifeRules,
    engine: Engine,
    shared: SharedReplays,
    kernel_of_epoch: NDArray[np.int64],
    tail: TailCells,
    sample: NDArray[np.int64],
) -> Lives:
    """Live a batch of instances of one case.

    Parameters
    ----------
    rules : LifeRules
        What holds for all of them.
    engine : Engine
        Replays what depends on a fault map.
    shared : SharedReplays
        The case's technique on each kernel.
    kernel_of_epoch : int64[I, epochs]
        Kernel that each instance runs.
    tail : TailCells
        Cells that may become faulty above the rules' floor.
    sample : int64[I, sample]
        Cells whose shifts stand for the distribution over the slice.
    """
    return _Batch(rules, engine, shared, kernel_of_epoch, tail, sample).run()


class _Batch:
    """State of a batch while it lives; index [instance] throughout."""

    def __init__(
        self,
        rules: LifeRules,
        engine: Engine,
        shared: SharedReplays,
        kernel_of_epoch: NDArray[np.int64],
        tail: TailCells,
        sample: NDArray[np.int64],
    ) -> None:
        count, epochs = kernel_of_epoch.shape
        self.rules, self.engine, self.shared = rules, engine, shared
        self.kernel_of_epoch, self.tail = kernel_of_epoch, tail
        tails = len(tail.cell)
        self.tails = slice(0, tails)
        self.sampled = slice(tails, None)
        watched = Watched(
            np.concatenate([tail.instance, np.repeat(np.arange(count), sample.shape[1])]),
            np.concatenate([tail.cell.astype(np.int64), sample.ravel()]),
        )
        self.watched_instance = watched.instance
        self.exposure = engine.exposure(shared.duties, watched, count)
        self.faulty = tail.vmin_volts > rules.environment.lowest_vdd_volts
        self.alive = np.ones(count, dtype=bool)
        self.end_seconds = np.full(count, rules.horizon_seconds)
        self.cause = np.zeros(count, dtype=np.int8)
        self.watched_end = np.zeros((2, len(watched.cell)))
        self.longest_end = np.zeros((2, count))
        self.events = np.zeros((count, EVENTS))
        self.peak = np.zeros(count, dtype=np.int64)
        self.fault_maps = self._fault_maps(self.faulty)
        self.faulty_start = (self.fault_maps != 0).sum(axis=1)
        self.faulty_end = self.faulty_start.copy()
        self.epoch_max_dvth = np.full((count, epochs, 2), np.nan)
        self.epoch_faulty = np.full((count, epochs), np.nan)
        self.epoch_peak = np.full((count, epochs), np.nan)
        redirects = shared.replays[0].technique.redirects
        self.failure = EndCause.NO_HOME if redirects else EndCause.FAULTY_ENTRY

    def run(self) -> Lives:
        edges = [years * SECONDS_PER_YEAR for years in self.rules.epoch_edges_years]
        for epoch, (start, end) in enumerate(pairwise(edges)):
            if not self.alive.any():
                break
            self._epoch(epoch, start, end)
        return self._lives()

    def _epoch(self, epoch: int, start: float, end: float) -> None:
        running = np.flatnonzero(self.alive)
        kernel = self.kernel_of_epoch[running, epoch]
        first = self._try(kernel, self.fault_maps[running])
        self._die(running[~first.fits], start, self.failure)
        running, kernel, first = running[first.fits], kernel[first.fits], first.of(first.fits)
        if not len(running):
            return
        maps = self.fault_maps[running]
        self.epoch_faulty[running, epoch] = (maps != 0).sum(axis=1)

        watched_before = self.exposure.watched_seconds.copy()
        longest_before = self.exposure.longest.copy()
        self.exposure.add(running, kernel, maps, end - start)
        stretch = _Stretch(
            start,
            end,
            watched_before,
            self.exposure.watched_seconds,
            longest_before,
            self.exposure.longest,
        )

        lived = np.full(len(running), end)
        for position in np.flatnonzero(self._excess(stretch, end, running) >= 0):
            lived[position] = self._end_by_delay(running[position], stretch)
            self.cause[running[position]] = EndCause.DELAY
        grown_maps = self._maps_at(stretch, end)
        last = self._try(kernel, grown_maps[running])
        for position in np.flatnonzero(~last.fits):
            failed = self._end_by_faults(running[position], kernel[position], stretch)
            if failed < lived[position]:
                lived[position], self.cause[running[position]] = failed, self.failure

        ended = lived < end
        moment = np.full(len(self.alive), end)
        moment[running] = lived
        maps_at_end = (self._maps_at(stretch, moment) if ended.any() else grown_maps)[running]
        halfway = np.array([middle_of_growth(start, one) for one in moment.tolist()])
        middle = self._try(kernel, self._maps_at(stretch, halfway)[running])
        at_end = self._try(kernel[ended], maps_at_end[ended])
        last.events[ended], last.peak[ended] = at_end.events, at_end.peak
        weights = growth_weights(start, lived)[:, :, None]
        self.events[running] += (
            weights[0] * first.events + weights[1] * middle.events + weights[2] * last.events
        )
        # One row more than there is room for ends the life: it never lived in the LDS.
        peak = np.maximum(first.peak, np.minimum(last.peak, self.rules.lds_rows))
        self.epoch_peak[running, epoch] = peak
        self.peak[running] = np.maximum(self.peak[running], peak)
        self._settle(running, moment, stretch)
        self.epoch_max_dvth[running, epoch] = self._longest_dvth(running)
        self.faulty_end[running] = (maps_at_end != 0).sum(axis=1)
        self.alive[running[ended]] = False
        self.faulty, self.fault_maps = self._grown(stretch, end, self.tails), grown_maps

    def _fault_maps(self, faulty: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return fault_map(self.tail, faulty, self.rules.spread_blocks)

    def _maps_at(
        self, stretch: "_Stretch", moment: float | NDArray[np.float64]
    ) -> NDArray[np.uint8]:
        """Fault maps of all instances at one moment, or at a moment of each: uint8[I, 256]."""
        each = np.broadcast_to(moment, len(self.alive))[self.watched_instance[self.tails]]
        return self._fault_maps(self._grown(stretch, each, self.tails))

    def _try(self, kernel: NDArray[np.int64], maps: NDArray[np.uint8]) -> "_Replayed":
        """Replay each kernel on its fault map."""
        shared = self.shared
        events = shared.events[kernel].copy()
        peak = shared.peak_spilled_rows[kernel].copy()
        fits = np.ones(len(kernel), dtype=bool)
        for one in np.unique(kernel):
            replay = shared.replays[one]
            chosen = (kernel == one) & (maps.any(axis=1))
            if replay.technique.redirects and chosen.any():
                counters = self.engine.count(replay, maps[chosen])
                events[chosen] = events_per_cycle(replay, counters)
                peak[chosen] = counters.peak_spilled_rows
            fits[chosen] = ~(replay.needed & (maps[chosen] != 0)).any(axis=1)
        return _Replayed(fits & (peak <= self.rules.lds_rows), events, peak)

    def _grown(
        self, stretch: "_Stretch", moment: float | NDArray[np.float64], which: slice
    ) -> NDArray[np.bool_]:
        """Which of some tail cells are faulty at a moment, of all or of each: once is for ever."""
        shift = self.rules.dvth(stretch.watched(moment, which), moment)
        vmin = aged_vmin(
            self.tail.vmin_volts[which], shift.max(axis=0, initial=0.0), self.rules.vmin_coefficient
        )
        faulty: NDArray[np.bool_] = self.faulty[which] | (
            vmin > self.rules.environment.lowest_vdd_volts
        )
        return faulty

    def _end_by_faults(self, instance: int, kernel: int, stretch: "_Stretch") -> float:
        """Moment at which room for the kernel runs out, known to do so within the stretch."""
        mine = slice(self.tail.offsets[instance], self.tail.offsets[instance + 1])
        cells = TailCells(
            np.array([0, mine.stop - mine.start]), self.tail.cell[mine], self.tail.vmin_volts[mine]
        )
        low, high = stretch.start, stretch.end
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            faulty = self._grown(stretch, middle, mine)
            maps = fault_map(cells, faulty, self.rules.spread_blocks)
            fits = self._try(np.array([kernel]), maps).fits[0]
            low, high = (middle, high) if fits else (low, middle)
        return high

    def _excess(
        self, stretch: "_Stretch", moment: float, instances: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Shift of the worst transistor beyond the guardband's, in volts."""
        shift = self.rules.dvth(stretch.longest(moment, instances), moment)
        excess: NDArray[np.float64] = shift.max(axis=0) - self.rules.dvth_limit_volts
        return excess

    def _end_by_delay(self, instance: int, stretch: "_Stretch") -> float:
        """Moment at which the worst transistor uses up the guardband within the stretch."""
        one = np.array([instance])
        return crossing(
            lambda moment: float(self._excess(stretch, moment, one)[0]), stretch.start, stretch.end
        )

    def _die(self, instances: NDArray[np.int64], moment: float, cause: int) -> None:
        self.alive[instances] = False
        self.end_seconds[instances] = moment
        self.cause[instances] = cause

    def _settle(
        self, running: NDArray[np.int64], moment: NDArray[np.float64], stretch: "_Stretch"
    ) -> None:
        """Keep the times of cells as they are at the end of each instance's stretch."""
        mine = np.isin(self.watched_instance, running)
        self.watched_end[:, mine] = stretch.watched(moment[self.watched_instance[mine]], mine)
        self.longest_end[:, running] = stretch.longest(moment[running], running)
        self.end_seconds[running] = moment[running]

    def _longest_dvth(self, instances: NDArray[np.int64]) -> NDArray[np.float64]:
        age = self.end_seconds[instances]
        shift: NDArray[np.float64] = self.rules.dvth(self.longest_end[:, instances], age).T
        return shift

    def _lives(self) -> Lives:
        everyone = np.arange(len(self.alive))
        lived = self.end_seconds > 0
        writes = self.events[:, :4].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = self.events / writes[:, None]
        dvth = np.where(lived[:, None], self._longest_dvth(everyone), 0.0)
        duty = self.longest_end.T / np.where(lived, self.end_seconds, 1.0)[:, None]
        age = self.end_seconds[self.watched_instance[self.sampled]]
        sampled = self.rules.dvth(self.watched_end[:, self.sampled], age)
        return Lives(
            life_seconds=self.end_seconds,
            end_cause=self.cause,
            max_dvth_volts=dvth,
            longest_duty=duty,
            delay_increase=delay_increase(
                dvth.max(axis=1),
                self.rules.environment.highest_vdd_volts,
                self.rules.nbti.vt0_volts,
                self.rules.nbti.alpha,
            ),
            writes=rates[:, :4],
            wakeups=rates[:, 4],
            movs=rates[:, 5],
            mispredictions=rates[:, 6],
            peak_spilled_rows=self.peak,
            faulty_start=self.faulty_start,
            faulty_end=self.faulty_end,
            epoch_max_dvth_volts=self.epoch_max_dvth,
            epoch_faulty=self.epoch_faulty,
            epoch_peak_spilled=self.epoch_peak,
            sampled_dvth_volts=sampled.T.reshape(len(everyone), -1, 2),
        )


@dataclass(frozen=True)
class _Replayed:
    """Whether each kernel fits on its map, its events per cycle, its spilled rows at most."""

    fits: NDArray[np.bool_]
    events: NDArray[np.float64]
    peak: NDArray[np.int64]

    def of(self, which: NDArray[np.bool_]) -> "_Replayed":
        """Some of them."""
        return _Replayed(self.fits[which], self.events[which], self.peak[which])


@dataclass(frozen=True)
class _Stretch:
    """Times of cells at both ends of an epoch; in between they grow evenly."""

    start: float
    end: float
    watched_before: NDArray[np.float64]
    watched_after: NDArray[np.float64]
    longest_before: NDArray[np.float64]
    longest_after: NDArray[np.float64]

    def watched(
        self, moment: float | NDArray[np.float64], which: slice | NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Seconds at '0' and '1' of watched cells at a moment: float64[2, n]."""
        return self._at(moment, self.watched_before[:, which], self.watched_after[:, which])

    def longest(
        self, moment: float | NDArray[np.float64], which: slice | NDArray[np.int64] = slice(None)
    ) -> NDArray[np.float64]:
        """Longest seconds at '0' and '1' of instances at a moment: float64[2, n].

        Exact if one cell has the longest time throughout, never too short otherwise.
        """
        return self._at(moment, self.longest_before[:, which], self.longest_after[:, which])

    def _at(
        self,
        moment: float | NDArray[np.float64],
        before: NDArray[np.float64],
        after: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        part = (moment - self.start) / (self.end - self.start)
        return before + (after - before) * part
