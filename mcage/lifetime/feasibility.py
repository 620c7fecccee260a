"""Feasibility: whether a mix can run on a fault map, and what happens to its writes there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import KernelActivity, entries_that_hold, of_all
from mcage.costs.energy import slowdown
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.programs import Learnt
from mcage.engines.stress import FaultFreeDuties, Turns, by_kernel
from mcage.files.disk_cache import arrays_of_record, kept_on_disk, record_of_arrays
from mcage.geometry import Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.lifetime import EndCause
from mcage.replays.most_stressed import DutyCycles, skyline_cells
from mcage.replays.outcome import COUNTED, EVENTS, Counters, Event, counted, events_per_cycle
from mcage.replays.prepare import PackedReplay, PreparedReplay, RedirectedReplay
from mcage.spec.cost_constants import Penalties, Technology

# Replays of each kernel on a fault-free slice, made once for all instances.
#
# Where a slice holds its values while it is idle, cells live through longer passes than those in
# which events are counted: through the passes of the trace and the idle time after each.

_NONE = EndCause.CENSORED
_DECIMALS = 12

Replays = tuple[PreparedReplay, ...]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class FaultFreeEvents:
    """Events on a fault-free slice while each kernel runs, without its cells.

    Attributes
    ----------
    events : float64[kernels, EVENTS]
        Events per busy cycle.
    peak_spilled_rows : int64[kernels]
        Largest number of spilled rows.
    needed : bool[kernels, entries]
        Entries that must be reliable.
    idle : float64[kernels]
        Idle time after a pass in which the slice holds, over its busy time.
    holding : int64[kernels]
        Entries that stay on meanwhile.
    """

    events: Floats
    peak_spilled_rows: Integers
    needed: Booleans
    idle: Floats
    holding: Integers

    @classmethod
    def of(cls, replays: Replays, aging: Replays, counters: list[Counters]) -> "FaultFreeEvents":
        """Events of replays, as an engine has counted them; `aging` has the idle time, too."""
        pairs = zip(aging, replays, strict=True)
        return cls(
            events=np.concatenate(
                [events_per_cycle(*both) for both in zip(replays, counters, strict=True)]
            ),
            peak_spilled_rows=np.concatenate([counts.peak_spilled_rows for counts in counters]),
            needed=np.stack([replay.needed for replay in replays]),
            idle=np.array([whole.cycles / busy.cycles - 1 for whole, busy in pairs]),
            holding=np.array([entries_that_hold(replay) for replay in replays]),
        )


@dataclass(frozen=True, eq=False)
class FaultFreeReplays:
    """A technique on each kernel of a sweep, and its results on a fault-free slice.

    Attributes
    ----------
    replays : tuple of PreparedReplay
        Busy passes, a replay for each kernel.
    duties : FaultFreeDuties
        Whole passes, a replay for each kernel, and the duty cycles of all cells.
    happens : FaultFreeEvents
        What happens in busy passes.
    activity : KernelActivity
        What the slice does meanwhile, on all kernels (`of_all`).
    check_duties : FaultFreeDuties, optional
        As `duties`, of the check cells of words that have a code.
    """

    replays: Replays
    duties: FaultFreeDuties
    happens: FaultFreeEvents
    activity: KernelActivity
    check_duties: FaultFreeDuties | None = None

    @property
    def geometry(self) -> SliceGeometry:
        """The slice."""
        return self.replays[0].geometry

    @cached_property
    def redirects(self) -> bool:
        """Whether the technique moves registers away from faults."""
        return self.replays[0].technique.redirects

    @cached_property
    def packs(self) -> bool:
        """Whether the technique moves whole windows away from faults."""
        return self.replays[0].technique.packs

    @cached_property
    def redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays of a technique that redirects."""
        return tuple(replay for replay in self.replays if isinstance(replay, RedirectedReplay))

    @cached_property
    def cycles(self) -> Integers:
        """Cycles of a busy pass of each kernel: int64[kernels]."""
        return np.array([replay.cycles for replay in self.replays], dtype=np.int64)

    @property
    def needed(self) -> Booleans:
        """Entries that must be reliable under each kernel: bool[kernels, entries]."""
        return self.happens.needed


@dataclass(frozen=True)
class SlowdownTiming:
    """Data that decide how slow a kernel becomes.

    Parameters
    ----------
    technology : Technology
        Says how often the compression table is refreshed.
    penalties : Penalties
        Cycles that events cost.
    """

    technology: Technology
    penalties: Penalties


class Slowdowns(NamedTuple):
    """Slowdown of each kernel under any events, against a conventional slice.

    It is that of `mcage.costs.slowdown`, which is linear in the events that a fault map may change:
    no technique that refreshes a table ever spills what lives there.

    Attributes
    ----------
    undisturbed : float64[kernels]
        Slowdown without any such event.
    wakeup, lds, memory : float
        Cycles that each of the events adds.
    """

    undisturbed: Floats
    wakeup: float
    lds: float
    memory: float

    @classmethod
    def of(cls, fault_free: FaultFreeReplays, timing: SlowdownTiming) -> Self:
        """Look at each kernel without events."""
        technique, penalties = fault_free.replays[0].technique, timing.penalties
        activity = fault_free.activity.under(np.zeros((len(fault_free.replays), EVENTS)))
        undisturbed = slowdown(activity, technique, timing.technology, penalties).total
        cycles = (penalties.wakeup, penalties.lds, penalties.memory)
        return cls(undisturbed, *(float(penalty.unhidden_cycles) for penalty in cycles))

    def of_turns(self, kernel: Integers, events: Floats) -> Floats:
        """Slowdown of each turn, waits included: int64[..., turns] to float64[..., turns]."""
        in_memory = events[..., Event.MEMORY] + events[..., Event.MEMORY_READ]
        in_lds = events[..., Event.LDS] + events[..., Event.LDS_READ] - in_memory
        lost = self.undisturbed[kernel] + self.wakeup * events[..., Event.WAKEUP]
        lost = lost + self.lds * in_lds + self.memory * in_memory
        slower: Floats = (1 + lost) * (1 + events[..., Event.WAIT]) - 1
        return slower

    def of_mix(self, turns: Turns, events: Floats) -> Floats:
        """Slowdown of n mixes, whose kernels have shares of the busy time: float64[n]."""
        done = turns.weight / (1 + self.of_turns(turns.kernel, events))
        slower: Floats = turns.weight.sum(axis=-1) / done.sum(axis=-1) - 1
        return slower


@dataclass(frozen=True)
class Limits:
    """Resources that a slice needs to run its mix.

    Parameters
    ----------
    lds_rows : int
        Rows of the LDS that spilled registers may take.
    to_memory : bool
        Whether rows beyond these live in memory; otherwise they end a life.
    spill_limit : float
        Fraction of a kernel's writes that may be spilled; 1 for no limit.
    uncorrectable_blocks : int
        Unusable blocks in entries that cannot be avoided which a slice may have.
    slowdown : float
        Slowdown of a mix above which a life ends; infinite for no limit.
    timing : SlowdownTiming, optional
        What decides how slow a kernel becomes; needed with a limit.
    """

    lds_rows: int
    to_memory: bool = False
    spill_limit: float = 1.0
    uncorrectable_blocks: int = 0
    slowdown: float = np.inf
    timing: SlowdownTiming | None = None


def fault_free_replays(
    engine: Engine, replays: Replays, with_idle: Replays | None = None, key: str = ""
) -> FaultFreeReplays:
    """Replay each kernel once without faults, or take what is kept on disk of an earlier time.

    Parameters
    ----------
    engine : Engine
        Engine that replays.
    replays : tuple of PreparedReplay
        A technique on each kernel.
    with_idle : tuple of PreparedReplay, optional
        The same with the idle time in which the slice holds its values; by default there is none.
    key : str
        All that decides the results; nothing is kept if it is empty.
    """
    aging = replays if with_idle is None else with_idle

    def computed() -> Arrays:
        counters = _counted(engine, replays)
        arrays = arrays_of_record(FaultFreeEvents.of(replays, aging, counters), "happens")
        for kernel, replay in enumerate(replays):
            arrays |= arrays_of_record(KernelActivity.of(replay), f"activity {kernel}")
        return arrays | _times_of_cells(engine, aging)

    arrays = kept_on_disk(key, computed) if key else computed()
    return FaultFreeReplays(
        replays=replays,
        duties=_duties_of(aging, arrays),
        happens=record_of_arrays(FaultFreeEvents, arrays, "happens"),
        activity=of_all(
            [
                record_of_arrays(KernelActivity, arrays, f"activity {kernel}")
                for kernel in range(len(replays))
            ]
        ),
    )


def duties_without_faults(engine: Engine, replays: Replays, key: str = "") -> FaultFreeDuties:
    """Duty cycles of the cells of replays without faults; arguments as of `fault_free_replays`."""

    def computed() -> Arrays:
        return _times_of_cells(engine, replays)

    return _duties_of(replays, kept_on_disk(key, computed) if key else computed())


def _duties_of(replays: Replays, arrays: Arrays) -> FaultFreeDuties:
    components = replays[0].geometry.components
    by_state = ((arrays[_cycles_at(which)], arrays[_skyline_at(which)]) for which in _STATES)
    at_zero, at_one = (
        DutyCycles.of(cycles, arrays["period"], skyline, components) for cycles, skyline in by_state
    )
    return FaultFreeDuties(replays, at_zero, at_one)


def _counted(engine: Engine, replays: Replays) -> list[Counters]:
    """Events without faults under each kernel."""
    redirected = [replay for replay in replays if isinstance(replay, RedirectedReplay)]
    maps = fault_free_maps(len(replays), replays[0].geometry)
    if not redirected:
        return [engine.count(replay, maps[:1]) for replay in replays]
    kernels = np.arange(len(replays))
    return engine.redirect_each(redirected, kernels, maps).one_by_one()


def _times_of_cells(engine: Engine, replays: Replays) -> Arrays:
    """Cycles of all cells at '0' and at '1', those of whole replays, and the skylines."""
    cycles: dict[str, list[NDArray[np.integer]]] = {which: [] for which in _STATES}
    period = np.zeros(len(replays), dtype=np.int64)
    kernels = np.arange(len(replays))
    maps = fault_free_maps(len(replays), replays[0].geometry)
    each = engine.cell_times_each(replays, kernels, maps)
    for kernel, times in enumerate(each):
        period[kernel] = np.max(times.period)
        narrow = np.uint32 if period[kernel] < 1 << 32 else np.int64
        for of_kernels, of_kernel in zip(cycles.values(), (times.zeros, times.ones), strict=True):
            of_kernels.append(of_kernel.ravel().astype(narrow))
    arrays: Arrays = {"period": period}
    for which, of_kernels in cycles.items():
        arrays[_cycles_at(which)] = of_cells = np.stack(of_kernels)
        arrays[_skyline_at(which)] = skyline_cells(of_cells, period)
    return arrays


_STATES = ("zero", "one")


def _cycles_at(which: str) -> str:
    return f"cycles at {which}"


def _skyline_at(which: str) -> str:
    return f"skyline at {which}"


@dataclass(frozen=True, eq=False)
class FaultMapReplays:
    """Kernels replayed on a fault map for each of n instances; arrays [n, ...].

    Attributes
    ----------
    kernel, weight : int64[n, turns], float64[n, turns]
        Kernels, and the share of each in the busy time; -1 where there is no replay yet.
    fault_maps : uint8[n, entries]
        Fault maps.
    end_cause : int8[n]
        `EndCause` of a life for which a replay, the first of them, or the mix is infeasible;
        `EndCause.CENSORED` where the life can go on.
    events : float64[n, turns, EVENTS]
        Events per cycle of each kernel.
    peak_spilled_rows : int64[n, turns]
        Largest number of spilled rows under each kernel.
    """

    kernel: Integers
    weight: Floats
    fault_maps: Bytes
    end_cause: NDArray[np.int8]
    events: Floats
    peak_spilled_rows: Integers

    @classmethod
    def none(cls, count: int, turns: int, entries: int) -> Self:
        """Arrays for replays to come, of slices of so many entries."""
        return cls(
            np.full((count, turns), -1),
            np.zeros((count, turns)),
            np.zeros((count, entries), dtype=np.uint8),
            np.full(count, EndCause.CENSORED, dtype=np.int8),
            np.zeros((count, turns, EVENTS)),
            np.zeros((count, turns), dtype=np.int64),
        )

    @property
    def turns(self) -> Turns:
        """Kernels and their shares."""
        return Turns(self.kernel, self.weight)

    @property
    def feasible(self) -> Booleans:
        """Whether a life can go on: bool[n]."""
        going: Booleans = self.end_cause == _NONE
        return going

    def of(self, which: Integers | Booleans) -> "FaultMapReplays":
        """Replays of selected instances."""
        return FaultMapReplays(*[values[which] for values in vars(self).values()])

    def keep(self, which: Integers | Booleans, others: "FaultMapReplays") -> None:
        """Replace the replays of selected instances by those of others, one for each."""
        for name, values in vars(self).items():
            values[which] = getattr(others, name)


@dataclass(frozen=True)
class Feasibility:
    """Tells whether instances can run their mixes on fault maps, by replaying them there.

    Parameters
    ----------
    engine : Engine
        Replays what depends on a fault map.
    fault_free : FaultFreeReplays
        The technique on each kernel.
    limits : Limits
        What ends a life.
    learnt : Learnt, optional
        What the placement programs of a batch know.
    """

    engine: Engine
    fault_free: FaultFreeReplays
    limits: Limits
    learnt: Learnt | None = None

    def replay(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, *known: FaultMapReplays
    ) -> FaultMapReplays:
        """Replay the kernels of each instance on its fault map.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        turns : Turns
            Kernels of the n instances, and their shares.
        fault_maps : uint8[n, entries]
            Fault maps.
        *known : FaultMapReplays
            Replays [n] made before, which are taken over where kernels and fault map are the same.
        """
        fault_free, kernel = self.fault_free, turns.kernel
        happens, cause = fault_free.happens, np.empty(len(fault_maps), dtype=np.int8)
        without_faults = happens.events[kernel], happens.peak_spilled_rows[kernel]
        result = FaultMapReplays(kernel, turns.weight, fault_maps, cause, *without_faults)
        causes = np.full(kernel.shape, _NONE, dtype=np.int8)
        affected = np.asarray(fault_maps.any(axis=1))
        if self.learnt is not None and self.learnt.differs:
            affected[:] = True
        if fault_free.redirects:
            for earlier in known:
                same = affected & (earlier.kernel == kernel).all(axis=1)
                same &= (earlier.fault_maps == fault_maps).all(axis=1)
                result.events[same] = earlier.events[same]
                result.peak_spilled_rows[same] = earlier.peak_spilled_rows[same]
                affected &= ~same
            if affected.any():
                self._redirect(instances, affected, result)
        elif fault_free.packs:
            self._pack(np.flatnonzero(affected), result, causes)
        elif affected.any():
            self._find_harm(result, causes)
        self._judge(result, causes)
        return result

    def _find_harm(self, result: FaultMapReplays, causes: NDArray[np.int8]) -> None:
        """See which kernels have faults in entries that cannot be avoided."""
        blocks = np.bitwise_count(result.fault_maps)
        for kernel, cause in zip(result.kernel.T, causes.T, strict=True):
            harmed = (blocks * self.fault_free.needed[kernel]).sum(axis=1)
            cause[harmed > self.limits.uncorrectable_blocks] = EndCause.FAULTY_ENTRY

    def _judge(self, result: FaultMapReplays, causes: NDArray[np.int8]) -> None:
        """Fill in why lives end: for each instance, its first turn that cannot run, or its mix.

        Rates and slowdowns are rounded, so that those that equal a limit do not exceed it by a last
        bit. Where there is no room at all, the limit of the rate does not matter.
        """
        limits, events = self.limits, result.events
        if limits.spill_limit < 1:
            writes = events[..., : Event.LDS + 1].sum(axis=-1)
            rate = np.divide(
                events[..., Event.LDS], writes, where=writes > 0, out=np.zeros_like(writes)
            )
            causes[rate.round(_DECIMALS) > limits.spill_limit] = EndCause.SPILL_LIMIT
        if not limits.to_memory:
            causes[result.peak_spilled_rows > limits.lds_rows] = EndCause.NO_HOME
        ends = causes != _NONE
        first = np.arange(len(causes)), ends.argmax(axis=1)
        result.end_cause[:] = causes[first]
        if limits.slowdown < np.inf:
            slower = self._pace.of_mix(result.turns, events).round(_DECIMALS)
            result.end_cause[~ends.any(axis=1) & (slower > limits.slowdown)] = EndCause.TOO_SLOW

    @cached_property
    def _pace(self) -> Slowdowns:
        """How fast the kernels run, looked up once for all replays."""
        assert self.limits.timing is not None, "a limit of slowdown needs constants of time"
        return Slowdowns.of(self.fault_free, self.limits.timing)

    def _redirect(self, instances: Integers, unknown: Booleans, result: FaultMapReplays) -> None:
        """Count events and spilled rows of a result, where bool[n] says so."""
        which = np.flatnonzero(unknown)
        turns = result.kernel.shape[1]
        # Row by row: an instance in each of its turns.
        kernel = result.kernel[which].ravel()
        fault_maps = result.fault_maps.take(which.repeat(turns), axis=0)
        replays = self.fault_free.replays
        if self.learnt:
            rows = instances[which].repeat(turns), np.tile(np.arange(turns), len(which))
            counters = self.learnt.count(replays, *rows, kernel, fault_maps)
        elif self.fault_free.redirected:
            counters = self.engine.redirect_each(self.fault_free.redirected, kernel, fault_maps)
        else:
            counters = self.engine.programs.count(replays, kernel, fault_maps)
        cycles = counters.passes * self.fault_free.cycles[kernel]
        rates = counted(counters) / cycles[:, None]
        result.events[which, :, :COUNTED] = rates.reshape(len(which), turns, COUNTED)
        result.peak_spilled_rows[which] = counters.peak_spilled_rows.reshape(-1, turns)

    def _pack(self, which: Integers, result: FaultMapReplays, causes: NDArray[np.int8]) -> None:
        """See which instances of a result have windows left, and how long wavefronts wait."""
        for turn, kernels in enumerate(result.kernel[which].T):
            for number, runs_it in by_kernel(kernels):
                selected = which[runs_it]
                replay = self.fault_free.replays[number]
                assert isinstance(replay, PackedReplay)
                packing = replay.packing
                waits = packing.slowdown(result.fault_maps[selected])
                causes[selected[np.isinf(waits)], turn] = EndCause.NO_HOME
                for place in np.flatnonzero(np.isinf(waits)):
                    # A life ends with its last window, not with an endless wait for the next.
                    places = packing.places(result.fault_maps[selected[place]])
                    last = packing.timing(tuple(max(1, count) for count in places))
                    waits[place] = last.cycles / packing.trace.cycles - 1
                result.events[selected, turn, Event.WAIT] = waits
