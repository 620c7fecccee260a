"""CuPy on a card that there is not, whose kernels are stand-ins: for what the host does beside.

The CUDA engine and its device are the real ones, and arrays are NumPy's. A kernel's stand-in fills
in plausible answers: cells are stressed by the same part of all time, redirected slices live on,
and a slice spills from so many faulty entries on. `Clock` adds up the processor time of stand-ins,
which is taken off, and lets the card be busy if that is asked for. What gives Python's lock away in
CuPy does so here: launches, copies, and waits.
"""

import collections
import ctypes
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from mcage.aging.nbti import Rates, facelift
from mcage.aging.transistors import AdditiveShift
from mcage.aging.vmin import CellFailure

ENOUGH_ENTRIES = 70
"""Faulty entries from which on a redirected slice spills."""

LONGEST_DUTY = np.array([[0.9], [0.85]])
"""Duty cycles of the cells that are longest at '0' and at '1'."""

CELL_DUTY = 0.2
"""Duty cycle of tracked cells."""

_give_lock_away = ctypes.CDLL(None).getppid


class Clock:
    """Processor time of stand-ins, calls, and until when the card is busy.

    Attributes
    ----------
    seconds : float
        Processor time of stand-ins so far.
    calls : Counter
        Calls that give the lock away, by kind.
    device_us : float
        For how long an epoch of an instance keeps the card busy, in microseconds.
    sampler : LockSampler, optional
        Looks away while stand-ins compute.
    """

    def __init__(self):
        self.seconds, self.calls, self.device_us = 0.0, collections.Counter(), 0.0
        self.sampler = None
        self._lock, self._busy_until = threading.Lock(), 0.0

    @contextmanager
    def stand_in(self):
        """While a kernel's stand-in computes."""
        if self.sampler:
            self.sampler.paused += 1
        begun = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - begun
            with self._lock:
                self.seconds += took
            if self.sampler:
                self.sampler.paused -= 1

    def count(self, call):
        """Count a call that gives the lock away, and do so."""
        self.calls[call] += 1
        _give_lock_away()

    def occupy(self, instances):
        """Let the card be busy with an epoch of so many instances; return until when."""
        seconds = 1e-6 * self.device_us * instances
        with self._lock:
            self._busy_until = max(self._busy_until, time.perf_counter()) + seconds
            return self._busy_until


class Array(np.ndarray):
    """An array of the card."""

    @property
    def data(self):
        """Its address, and what copies to it."""
        address = self.__array_interface__["data"][0]

        def copy_from_host_async(source, size_bytes):
            CLOCK.count("upload")
            ctypes.memmove(address, source, size_bytes)

        return SimpleNamespace(ptr=address, copy_from_host_async=copy_from_host_async)


CLOCK = Clock()
_of_thread = threading.local()


class _Stream:
    def __init__(self, non_blocking=True):
        self.until = 0.0

    def __enter__(self):
        _of_thread.stream = self
        return self

    def __exit__(self, *error):
        pass

    def use(self):
        _of_thread.stream = self


class _Event:
    def __init__(self, block, disable_timing):
        self._until = 0.0

    def record(self, stream):
        self._until = stream.until

    def synchronize(self):
        CLOCK.count("wait")
        left = self._until - time.perf_counter()
        if left > 0:
            time.sleep(left)


class _Pool:
    malloc = None

    def free_bytes(self):
        return 0

    def free_all_blocks(self):
        pass


@contextmanager
def _using_allocator(allocator):
    yield


def imitated_cupy(memory_bytes):
    """CuPy with one card of so much memory."""

    def asarray(array):
        CLOCK.count("upload")
        return np.array(array).view(Array)

    def zeros(shape, dtype):
        with CLOCK.stand_in():
            return np.zeros(shape, dtype).view(Array)

    def asnumpy(array, stream, out, blocking):
        CLOCK.count("download")
        if out is None:
            return np.array(array)
        np.copyto(out, array)
        return out

    class Error(Exception):
        status = 0

    cuda = SimpleNamespace(
        Stream=_Stream,
        Event=_Event,
        MemoryPool=_Pool,
        using_allocator=_using_allocator,
        alloc_pinned_memory=lambda size: np.empty(size, dtype=np.uint8),
        memory=SimpleNamespace(OutOfMemoryError=Error),
        driver=SimpleNamespace(CUDADriverError=Error),
        runtime=SimpleNamespace(
            CUDARuntimeError=Error,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            getDeviceCount=lambda: 1,
            getDevice=lambda: 0,
            setDevice=lambda number: None,
            getDeviceProperties=lambda number: {"name": b"none", "major": 9, "minor": 0},
            memGetInfo=lambda: (memory_bytes, memory_bytes),
        ),
    )
    return SimpleNamespace(
        __version__="imitated",
        cuda=cuda,
        asarray=asarray,
        asnumpy=asnumpy,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(Array),
        zeros=zeros,
        RawModule=lambda code, options, backend: _Module(),
        get_default_memory_pool=_Pool,
    )


class _Module:
    def compile(self):
        pass

    def get_function(self, kernel):
        stand_in = STAND_INS.get(kernel)

        def launch(grid, block, arguments, shared_mem):
            CLOCK.count("launch")
            if stand_in:
                with CLOCK.stand_in():
                    stand_in(*arguments)

        return launch


# Stand-ins of kernels, by name. What slices have been through is kept with their `State`.


def _busy(instances):
    stream = _of_thread.stream
    stream.until = CLOCK.occupy(instances)


def _place(
    kernels, groups, map_of, maps, passes, wanted, homes, arrivals, arrived, events
):  # fmt: skip
    CLOCK.calls[f"placed in {int(passes)} passes"] += len(events)
    faulty = (np.asarray(maps) != 0).sum(axis=1)[np.asarray(map_of)]
    events[:] = 0
    events[:, 0, 0] = 16 * faulty
    events[:, 0, 4] = np.maximum(faulty - ENOUGH_ENTRIES, 0)


class _Lived:
    """Seconds that the slices of a batch have lived, and those of their last turns."""

    def __init__(self, instances):
        self.seconds, self.last = np.zeros(instances), np.zeros((instances, 1))
        self.scales = np.ones((instances, 1))


def _lived(state, instances):
    if not hasattr(state, "lived"):
        state.lived = _Lived(1 + int(instances.max()))
    lived = state.lived
    if len(lived.seconds) <= instances.max():
        more = 1 + int(instances.max()) - len(lived.seconds)
        lived.seconds = np.pad(lived.seconds, (0, more))
        lived.last, lived.scales = (
            np.pad(array, ((0, more), (0, 0))) for array in (lived.last, lived.scales)
        )
    return lived


def _begin(state, mixtures, among):
    among = np.asarray(among)
    _lived(state, among).seconds[among] = np.asarray(mixtures).sum(axis=1)


def _cell_times(tables, runs, most_orbits, starts, occupants, ones, powered):
    powered[:] = np.asarray(tables)[0, -1]
    ones[:] = powered // 2


def _log_epoch(
    residencies, state, runs, slice_of, turns, first_write, cycles, starts, occupants, among,
    scales, by_pass, codes, starts_there, powered, shared, shared_kernel, like,
):  # fmt: skip
    among, scales, slice_of = np.asarray(among), np.asarray(scales), np.asarray(slice_of)
    lived, placed = _lived(state, among), slice_of >= 0
    of_turns = scales.copy()
    of_turns[placed] *= np.asarray(cycles)[np.asarray(runs)[slice_of[placed], 2]]
    in_shared = np.array(
        [ctypes.c_uint32.from_address(int(row[1])).value if row[1] else 0 for row in shared]
    )
    of_turns[~placed] *= in_shared[np.asarray(shared_kernel)[~slice_of[~placed]]]
    CLOCK.calls["in shared places"] += int((~placed).sum())
    if lived.last.shape[1] < turns:
        shape = len(lived.seconds), int(turns)
        lived.last, lived.scales = np.zeros(shape), np.ones(shape)
    lived.seconds[among] += of_turns.sum(axis=1)
    lived.last[among], lived.scales[among] = of_turns, np.where(scales > 0, scales, 1.0)
    _busy(len(among))


def _work_out(residencies, state, among, parts, backs, longest, count, turns, items, how_many):
    among = np.asarray(among)
    CLOCK.calls["searched"] += int(count)
    lived = _lived(state, among)
    back = (np.asarray(backs) / lived.scales[among] * lived.last[among]).sum(axis=1)
    longest.view(np.float64)[:] = LONGEST_DUTY * (lived.seconds[among] - back)


def _longest_of_mixtures(mixtures, count, kernels, zero, zeros, one, ones, longest):
    longest[:] = LONGEST_DUTY * np.asarray(mixtures).sum(axis=1)
    _busy(int(count))


def _live_without_faults(
    mixtures, count, kernels, zero, zeros, one, ones, longest, kernel_of, seconds_of, turns,
    instances, instance, cell, cells, duties, before, now,
):  # fmt: skip
    _longest_of_mixtures(mixtures, count, kernels, zero, zeros, one, ones, longest)
    runs = np.where(np.asarray(kernel_of)[0] >= 0, np.asarray(seconds_of).sum(axis=0), 0.0)
    _live(np.asarray(instance), runs, np.asarray(kernel_of)[0] >= 0, before, now)


def _track(residencies, state, runs, turns, instance, cell, cells, before, now):
    runs = np.asarray(runs).astype(bool)
    lived = _lived(state, np.array([len(runs) - 1]))
    seconds = np.where(runs, lived.last[: len(runs)].sum(axis=1), 0.0)
    _live(np.asarray(instance), seconds, runs, before, now)


def _live(instance, seconds, runs, before, now):
    who = runs[instance]
    np.copyto(before, now, where=who)
    np.add(now, CELL_DUTY * seconds[instance], out=now)


def _array_at(address, size):
    return np.frombuffer((ctypes.c_double * size).from_address(int(address)), dtype=np.float64)


def _list_failing(
    shift, ages, instance, vmin, sound, tail, tracked, before, now, coefficients, stride,
    lowest_vdd, listed,
):  # fmt: skip
    words, ages, owner = np.asarray(shift), np.asarray(ages), np.asarray(instance)[:tail]
    stress, diffusion, activity, eta = (
        np.broadcast_to(_array_at(address, len(ages) if each else 1), len(ages))
        for address, each in zip(words[:4], words[4:8], strict=True)
    )
    shifts = AdditiveShift(facelift(), Rates(stress, diffusion), activity, {"eta": eta})
    coefficients = np.broadcast_to(np.asarray(coefficients), len(ages))
    seconds = np.asarray(before), np.asarray(now)
    looked_at = np.flatnonzero(np.asarray(sound).view(bool) & (ages[owner] >= 0))
    owner = owner[looked_at]
    dvth = shifts.of(owner).dvth(seconds[1][:, looked_at], ages[owner])
    failure = CellFailure(coefficients[owner], float(lowest_vdd))
    places = looked_at[failure.are_faulty(np.asarray(vmin)[:, looked_at], dvth)]
    listed[0, 0] = len(places)
    rows = listed[1 : 1 + len(places)]
    rows[:, 0] = places
    rows[:, 1:] = np.concatenate([times[:, places] for times in seconds]).T.copy().view(np.uint64)


def _count_shifts(
    shift, instances, parts, ages, first, sampled, tracked, before, now, per_volt, bins, counts
):
    counts[:, 1] = len(instances) * int(sampled)


STAND_INS = {
    "place": _place,
    "cell_times": _cell_times,
    "begin": _begin,
    "log_epoch": _log_epoch,
    "work_out": _work_out,
    "longest_of_mixtures": _longest_of_mixtures,
    "live_without_faults": _live_without_faults,
    "track": _track,
    "list_failing": _list_failing,
    "count_shifts": _count_shifts,
}
"""All other kernels fill in nothing that the host looks at."""
