"""Machines with graphics cards that there are not, as CuPy shows them.

    machine = SimulatedCupy([Card(), Card(capability=(7, 0))])
    monkeypatch.setitem(sys.modules, "cupy", machine)

What kernels do is computed by the host device. What is asked of a card is the work of a stream,
never of CUDA's default one; an array may be used on another stream once its own has been waited
for. Copies take as long as they may: what comes down is not there before its stream has been waited
for, and memory of the host from which something goes up must be as it was until then. Messages and
codes of errors are those of CuPy 14.
"""

import collections
import ctypes
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
from host_gpu.host_device import HostDevice, Stream
from host_gpu.memory import DeviceArray

MESSAGES = {
    2: "cudaErrorMemoryAllocation: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    702: "cudaErrorLaunchTimeout: the launch timed out and was terminated",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
}


class _CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(MESSAGES[status])
        self.status = status


class CUDARuntimeError(_CudaError):
    pass


class CUDADriverError(_CudaError):
    pass


class OutOfMemoryError(MemoryError):
    pass


@dataclass
class Card:
    """A card.

    Attributes
    ----------
    capability : tuple of int
        Compute capability.
    memory_bytes, free_bytes : int
        What it has; what it says is free.
    begins : int
        Error with which it refuses to begin, or 0.
    faults_in, with_code : str, int
        Kernel that goes wrong once it runs, or none; the error of CUDA.
    refuses : str
        Kernel that it does not launch, or none.
    pinned : bool
        Whether the driver gives memory of the host that stays where it is.
    """

    capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 2**32
    free_bytes: int = 2**32
    begins: int = 0
    faults_in: str = ""
    with_code: int = 700
    refuses: str = ""
    pinned: bool = True
    fault: int = 0
    host: HostDevice = field(init=False)

    def __post_init__(self):
        self.host = HostDevice(memory_bytes=self.memory_bytes)


class SimulatedCupy(ModuleType):
    """CuPy on a machine with some cards.

    Parameters
    ----------
    cards : list of Card
        None for a machine whose driver shows no card.
    nvrtc : bool
        Whether there is a compiler.
    newest : tuple of int
        Compute capability up to which it compiles.
    headers : bool
        Whether CUDA's headers are there, without which CuPy compiles nothing.
    version : str
        Of CuPy.
    driver, runtime : int
        Versions of CUDA, of the driver 0 for none.
    cache_error : OSError, optional
        Why compiled kernels cannot be kept.

    Attributes
    ----------
    calls : Counter
        How often what makes a thread give Python's lock away: ``launch``, also ``launch of`` each
        kernel, ``upload``, ``download``, ``memset``, ``wait``, ``get_function``.
    """

    def __init__(
        self,
        cards,
        nvrtc=True,
        newest=(12, 1),
        headers=True,
        version="14.2.0",
        driver=13000,
        runtime=13020,
        cache_error=None,
    ):
        super().__init__("cupy")
        self.__spec__ = ModuleSpec("cupy", None)
        self.__version__, self.headers = version, headers
        self.calls, self._counting = collections.Counter(), threading.Lock()
        self._array = type("ndarray", (DeviceArray,), {"data": property(self._pointer)})
        self.cards, self.nvrtc, self.newest = cards, nvrtc, newest
        self.cache_error = cache_error
        self.set_devices, self.streams = [], []
        self._of_thread = threading.local()
        self.RawModule = lambda **given: _RawModule(self, **given)
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: _Stream(self),
            Event=lambda block, disable_timing: _Event(self, block),
            MemoryPool=_MemoryPool,
            using_allocator=self._using_allocator,
            alloc_pinned_memory=self._alloc_pinned_memory,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            driver=SimpleNamespace(CUDADriverError=CUDADriverError),
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                driverGetVersion=lambda: driver,
                runtimeGetVersion=lambda: runtime,
                getDeviceCount=lambda: self._count(driver),
                getDevice=lambda: getattr(self._of_thread, "device", 0),
                setDevice=self._set_device,
                getDeviceProperties=self._properties,
                memGetInfo=lambda: (self.current().free_bytes, 2**40),
            ),
        )

    def _count(self, driver):
        if not self.cards:
            raise CUDARuntimeError(100 if driver else 35)
        return len(self.cards)

    def _set_device(self, number):
        self.set_devices.append((threading.current_thread(), number))
        self._of_thread.device = number
        self._answered(self.cards[number])

    def _properties(self, number):
        major, minor = self.cards[number].capability
        return {"name": b"Simulated %d" % number, "major": major, "minor": minor}

    def current(self):
        """The card that the thread uses; raises what has gone wrong on it."""
        return self._answered(self.cards[self.cuda.runtime.getDevice()])

    def _answered(self, card):
        if card.begins or card.fault:
            raise CUDARuntimeError(card.begins or card.fault)
        return card

    def on_stream(self):
        """The card that the thread uses, for work on the stream that it uses."""
        card, streams = self.current(), self.streams_in_use()
        assert streams, "work for CUDA's default stream"
        assert self.cards[streams[-1].device] is card
        card.host.use(streams[-1].work)
        return card.host

    def streams_in_use(self):
        """Streams that the thread has entered."""
        return self._of_thread.__dict__.setdefault("streams", [])

    def _allocated(self, allocate, *arguments):
        try:
            return allocate(*arguments)
        except MemoryError as error:
            raise OutOfMemoryError("Out of memory allocating a lot.") from error

    def count_call(self, name):
        with self._counting:
            self.calls[name] += 1

    def get_default_memory_pool(self):
        return _MemoryPool()

    def asarray(self, array):
        self.count_call("upload")
        return self._allocated(self.on_stream().upload, array).view(self._array)

    def zeros(self, shape, dtype):
        self.count_call("memset")
        return self._allocated(self.on_stream().zeros, shape, dtype).view(self._array)

    def empty(self, shape, dtype):
        return self._allocated(self.on_stream().empty, shape, dtype).view(self._array)

    def _pointer(self, array):
        address = array.__array_interface__["data"][0]

        def copy_from_host_async(mem, size):
            """Let bytes travel that nobody may change before the stream has been waited for."""
            self.count_call("upload")
            self.on_stream()
            assert size <= array.nbytes
            sent = ctypes.string_at(mem, size)
            ctypes.memmove(address, sent, size)
            self.streams_in_use()[-1].enqueue(lambda: _assert_unchanged(mem, sent))

        return SimpleNamespace(ptr=address, copy_from_host_async=copy_from_host_async)

    @contextmanager
    def _using_allocator(self, allocator):
        self._of_thread.allocator = allocator
        yield
        self._of_thread.allocator = None

    def _alloc_pinned_memory(self, size_bytes):
        if not self.current().pinned:
            raise CUDARuntimeError(2)
        # What was there before may be anything.
        return np.full(size_bytes, 0xA5, dtype=np.uint8)

    def asnumpy(self, array, stream, out, blocking):
        """The copy is not there before the stream has been waited for."""
        assert not blocking
        assert stream is self.streams_in_use()[-1]
        copy = self.on_stream().download(array)
        if out is None:
            out = np.zeros_like(copy)
        assert out.shape == copy.shape
        self.count_call("download")
        stream.enqueue(lambda: np.copyto(out, copy))
        return out


class _MemoryPool:
    malloc = "of the pool"

    def free_bytes(self):
        return 0

    def free_all_blocks(self):
        pass


def _assert_unchanged(address, sent):
    assert ctypes.string_at(address, len(sent)) == sent, "memory in flight was written to"


class _Stream:
    def __init__(self, cupy):
        self._cupy = cupy
        self.device = cupy.cuda.runtime.getDevice()
        self.work = Stream()
        self._enqueued, self._done = collections.deque(), 0
        cupy.streams.append(self)
        cupy.current()

    def enqueue(self, action):
        """Do something once the stream has come that far, as the host sees it."""
        self._enqueued.append(action)

    @property
    def enqueued(self):
        """How much has been enqueued so far."""
        return self._done + len(self._enqueued)

    def come_to(self, number):
        """Have so much done."""
        while self._done < number:
            self._enqueued.popleft()()
            self._done += 1

    def __enter__(self):
        assert self.device == self._cupy.cuda.runtime.getDevice()  # as CuPy does
        self._cupy.streams_in_use().append(self)
        return self

    def __exit__(self, *error):
        self._cupy.streams_in_use().pop()

    def use(self):
        """Be what the thread uses, until another stream is."""
        assert self.device == self._cupy.cuda.runtime.getDevice()  # as CuPy does
        self._cupy.streams_in_use()[-1:] = [self]


class _Event:
    def __init__(self, cupy, block):
        assert block  # a thread that waits leaves its core to others
        self._cupy, self._stream = cupy, None

    def record(self, stream):
        work, stream.work = stream.work, Stream()
        stream.enqueue(lambda: setattr(work, "ended", True))
        self._stream, self._number = stream, stream.enqueued

    def synchronize(self):
        self._cupy.count_call("wait")
        self._cupy.current()
        if self._stream:  # before it is recorded, there is nothing to wait for
            self._stream.come_to(self._number)


class _RawModule:
    def __init__(self, cupy, code, options, backend):
        assert backend == "nvrtc"
        # Whatever differs costs a run of NVRTC at each start.
        assert options == ("-std=c++17", "--fmad=false")
        self._cupy, self._code = cupy, code

    def compile(self):
        cupy, card = self._cupy, self._cupy.current()
        if not cupy.nvrtc:
            raise RuntimeError(
                'Failure finding "libnvrtc.so.13 or libnvrtc.so.12": No such file: libnvrtc.so.13'
            )
        if not cupy.headers:
            raise RuntimeError(
                "Failed to find CUDA headers. Please install CUDA toolkit headers (e.g., pip "
                "install cupy-cuda12x[ctk]) or specify CUDA_PATH environment variable."
            )
        if cupy.cache_error:
            raise cupy.cache_error
        if card.capability > cupy.newest:
            raise CUDADriverError(209)
        self._module = card.host.module_from_text(self._code)

    def get_function(self, kernel):
        self._cupy.count_call("get_function")

        def launch(grid, block, arguments, shared_mem):
            self._cupy.count_call("launch")
            self._cupy.count_call(f"launch of {kernel}")
            card = self._cupy.current()
            if kernel == card.refuses:
                raise CUDADriverError(701)
            self._cupy.on_stream()
            self._module.launch(kernel, grid, block, arguments, shared_mem)
            if kernel == card.faults_in:
                card.fault = card.with_code
                if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
                    self._cupy._answered(card)

        return launch
