"""What a card can do at most, by kernels that do nothing else; what our kernels take of it.

`add` is what the compiler makes of integer additions: half of them run where multiplications do.
"""

import re
import statistics
import threading
import time
from collections import defaultdict

import numpy as np
from phases import covered

from mcage.engines.cuda_engine.programs import PROBE, compilations
from mcage.geometry import COMPONENT_BITS, GCN
from mcage.version import KERNELS

COPY = """
extern "C" __global__ void copy(const int4 *from, int4 *to, long long count) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        to[i] = from[i];
    }
}
"""
# Eight sums that depend on each other in a ring, so that nothing can be left out or hoisted.
RATE = """
#define STEP(i, j, k) sum[i] = OPERATION(sum[i], sum[j], sum[k]);
extern "C" __global__ void __launch_bounds__(256) rate(unsigned *sink, long long *cycles,
                                                       int rounds, unsigned seed) {
    unsigned sum[8];
#pragma unroll
    for (int i = 0; i < 8; i++) sum[i] = seed * (threadIdx.x + 7 * i + 1);
    __syncthreads();
    const long long begun = clock64();
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int repeat = 0; repeat < 16; repeat++) {
            STEP(0, 1, 2) STEP(1, 2, 3) STEP(2, 3, 4) STEP(3, 4, 5)
            STEP(4, 5, 6) STEP(5, 6, 7) STEP(6, 7, 0) STEP(7, 0, 1)
        }
    }
    __syncthreads();
    const long long taken = clock64() - begun;
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) all ^= sum[i];
    if (all == 0x9E3779B9u) sink[0] = all;
    if (threadIdx.x == 0) cycles[blockIdx.x] = taken;
}
"""
OPERATIONS = {
    "add": "a + b",
    "lop3": "(a ^ b) & ~c",
    "dp2a": "__dp2a_lo(b, c, a)",
}
STEPS = 128
"""Operations of a thread in a round of `RATE`."""

_ROUNDS = 2000
_THREADS = 256
_LAUNCHES = 5
_COPY_BYTES = 1 << 31
_ORIGIN_SECONDS = 5.0
"""From one origin to the next, single precision resolves half a microsecond."""

BLOCK_THREADS = {
    "probe": 64,
    "place": 32,
    "sort_occupants": 1024,
    "cell_times": 64,
    "sum_residencies": 64,
    "begin": 256,
    "log_epoch": 256,
    "find_alike": 32,
    "guess": 256,
    "list_open": 256,
    "close": 768,
    "work_out": 256,
    "track": 256,
    "longest_of_mixtures": 256,
    "live_without_faults": 256,
    "list_failing": 256,
    "count_shifts": 256,
}
_KERNEL = re.compile(r"__global__\s+void(?:\s+__launch_bounds__\([^)]*\))?\s+(\w+)\(")


def rate_source(operation):
    """CUDA C++ of the kernel that repeats an operation of `OPERATIONS`."""
    return f"#define OPERATION(a, b, c) ({OPERATIONS[operation]})\n{RATE}"


class TimedDevice:
    """A device of CuPy that tells when each of its kernels ran.

    A kernel's time is that between an event before it and an event after it. Where the stream has
    nothing else to do, it holds the time that the host takes to launch: `empty_seconds` says how
    long that is, and `kernel_seconds` takes it off.
    """

    def __init__(self, cupy, device):
        self._cupy, self._device = cupy, device
        self._launches = []
        self._origins = [(self.event(), time.monotonic())]
        self._lock = threading.Lock()

    def __getattr__(self, name):
        return getattr(self._device, name)

    def event(self):
        """Moment at which the work of this thread so far is done."""
        with self._device.current() as lane:
            event = self._cupy.cuda.Event()
            event.record(lane.stream)
            return event

    def module(self, source, constants):
        """See `Device.module`."""
        return _TimedModule(self, self._device.module(source, constants))

    def forget(self):
        """Begin a new measurement."""
        with self._lock:
            self._launches.clear()
            self._origins = [(self.event(), time.monotonic())]

    def launched(self, kernel, begun, ended):
        """A kernel between two events; now and then, time is counted from a new origin."""
        with self._lock:
            if time.monotonic() - self._origins[-1][1] > _ORIGIN_SECONDS:
                self._origins.append((self.event(), time.monotonic()))
            self._launches.append((kernel, len(self._origins) - 1, begun, ended))

    def spans(self):
        """Kernel, beginning and end of each launch, in seconds.

        CUDA tells the time between two events in single precision: from one origin to the next it
        is short, and the sum is taken in double precision.
        """
        with self._device.current(), self._lock:
            self._cupy.cuda.runtime.deviceSynchronize()
            origins = [origin for origin, _ in self._origins]
            since = np.cumsum([0.0, *map(self._between, origins[:-1], origins[1:])]).tolist()
            spans = []
            for kernel, number, begun, ended in self._launches:
                start = since[number] + self._between(origins[number], begun)
                spans.append((kernel, start, start + self._between(begun, ended)))
            return spans

    def _between(self, begun, ended):
        return 1e-3 * self._cupy.cuda.get_elapsed_time(begun, ended)

    def busy_seconds(self):
        """Time during which a kernel ran."""
        return covered((begun, ended) for _, begun, ended in self.spans())

    def kernel_seconds(self):
        """Time of each kernel; meant for one thread of the host, whose kernels do not overlap."""
        taken, empty = defaultdict(float), self.empty_seconds()
        for kernel, begun, ended in self.spans():
            taken[kernel] += max(0.0, ended - begun - empty)
        return dict(taken)

    def empty_seconds(self):
        """What a launch of next to nothing takes between its two events."""
        module = self._device.module(*PROBE)
        given = self._device.zeros((64,), np.int32), self._device.zeros((64,), np.int32)
        pairs = []
        for _ in range(_LAUNCHES + 1):
            begun = self.event()
            module.launch("probe", (1, 1, 1), (64, 1, 1), list(given))
            pairs.append((begun, self.event()))
            self._device.download(given[0])  # the stream has nothing to do before the next
        return statistics.median(self._between(*pair) for pair in pairs[1:])


class _TimedModule:
    def __init__(self, device, module):
        self._device, self._module = device, module

    def launch(self, kernel, *arguments, **named):
        begun = self._device.event()
        self._module.launch(kernel, *arguments, **named)
        self._device.launched(kernel, begun, self._device.event())


def measure_ceilings(cupy, device):
    """Bytes and operations per second that simple kernels reach on a device.

    Operations are those of one thread; `per_clock_and_multiprocessor` is by the card's own cycle
    counter.
    """
    with device.current():
        size = min(_COPY_BYTES, device.free_bytes() // 8) // 16 * 16
        copied = _copy_seconds(cupy, device, size)
        measured = {
            "copy": {
                "bytes_per_second": 2 * size / copied,
                "bytes_copied": size,
                "seconds": copied,
            }
        }
        for operation in OPERATIONS:
            measured[operation] = _rate(cupy, device, operation)
    return measured


def _copy_seconds(cupy, device, size):
    kernel = cupy.RawModule(code=COPY, backend="nvrtc").get_function("copy")
    source, target = device.zeros((size // 4,), np.uint32), device.empty((size // 4,), np.uint32)
    blocks = 8 * _attribute(cupy, "MultiProcessorCount")
    arguments = (source, target, np.int64(size // 16))
    return _best_seconds(cupy, device, lambda: kernel((blocks,), (_THREADS,), arguments))


def _rate(cupy, device, operation):
    kernel = cupy.RawModule(code=rate_source(operation), backend="nvrtc").get_function("rate")
    multiprocessors = _attribute(cupy, "MultiProcessorCount")
    resident = _attribute(cupy, "MaxThreadsPerMultiProcessor") // _THREADS
    blocks = multiprocessors * resident
    sink, cycles = device.zeros((1,), np.uint32), device.zeros((blocks,), np.int64)
    arguments = (sink, cycles, np.int32(_ROUNDS), np.uint32(12345))
    seconds = _best_seconds(cupy, device, lambda: kernel((blocks,), (_THREADS,), arguments))
    of_thread = STEPS * _ROUNDS
    of_multiprocessor = of_thread * resident * _THREADS
    clocks = float(np.median(device.download(cycles)))
    return {
        "operations_per_second": of_thread * blocks * _THREADS / seconds,
        "per_clock_and_multiprocessor": of_multiprocessor / clocks,
        "seconds": seconds,
    }


def _best_seconds(cupy, device, launch):
    taken = []
    with device.current() as lane:
        for number in range(_LAUNCHES + 1):
            begun, ended = cupy.cuda.Event(), cupy.cuda.Event()
            begun.record(lane.stream)
            launch()
            ended.record(lane.stream)
            ended.synchronize()
            if number:
                taken.append(1e-3 * cupy.cuda.get_elapsed_time(begun, ended))
    return min(taken)


def _attribute(cupy, name):
    return int(cupy.cuda.Device().attributes[name])


def kernel_resources(cupy, device):
    """Registers, memory and occupancy of every kernel as compiled for a device."""
    occupancy = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
    with device.current():
        most_warps = _attribute(cupy, "MaxThreadsPerMultiProcessor") // 32
        for source, constants in compilations():
            compiled = device.module(source, constants)
            for name in kernels_of(source):
                kernel = compiled._module.get_function(name)  # as CuPy knows it
                threads = BLOCK_THREADS[name]
                blocks = int(occupancy(kernel.kernel.ptr, threads, 0))
                yield {
                    "source": source,
                    "kernel": name,
                    "constants": constants,
                    "registers_per_thread": int(kernel.num_regs),
                    "shared_bytes_per_block": int(kernel.shared_size_bytes),
                    "local_bytes_per_thread": int(kernel.local_size_bytes),
                    "threads_per_block": threads,
                    "blocks_per_multiprocessor": blocks,
                    "occupancy": blocks * threads / 32 / most_warps,
                }


def kernels_of(source):
    """Kernels of a source file of `kernels/`."""
    return _KERNEL.findall((KERNELS / source).read_text())


# ---- floors ----------------------------------------------------------------------------------

BYTES_OF_OCCUPANT = 16 + 32 + 4 + 256
"""What `log_epoch` moves for an occupant: the occupant, its residency, its code, and bounds."""

BYTES_OF_BOUNDS = 3 * 2 * GCN.entries * COMPONENT_BITS * 8
"""Bounds of an instance, read and written, and written to where they stand before an epoch."""

BYTES_OF_SECTOR = 32
"""What a load of a single sum moves."""


def floors_of_stress(replay, slices, tracked, ceilings):
    """Least times of `log_epoch` and `track` by the bytes that they move.

    Parameters
    ----------
    replay : RedirectedReplay
        A technique whose registers all find homes.
    slices : int
        Instances.
    tracked : int
        Tracked cells of all of them.
    ceilings : dict
        As `measure_ceilings` returns.

    Returns
    -------
    dict
        By kernel, bytes and seconds. What `track` moves counts occupants as evenly spread over the
        entries.
    """
    schedule = replay.schedule
    begins = schedule.residency_first == np.arange(schedule.writes)
    occupants = replay.passes * int((begins & ~schedule.in_table).sum())
    moved = {
        "log_epoch": slices * (occupants * BYTES_OF_OCCUPANT + BYTES_OF_BOUNDS),
        "track": tracked * occupants // GCN.entries * BYTES_OF_SECTOR,
    }
    bandwidth = ceilings["copy"]["bytes_per_second"]
    return {kernel: {"bytes": size, "seconds": size / bandwidth} for kernel, size in moved.items()}
