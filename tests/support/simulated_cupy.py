"""Machines with graphics cards that there are not, as CuPy shows them.

    machine = SimulatedCupy([Card(), Card(capability=(7, 0))])
    monkeypatch.setitem(sys.modules, "cupy", machine)

What kernels do is computed by the host device. What is asked of a card is the work of a stream,
never of CUDA's default one; an array may be used on another stream once its own has been waited
for. Messages and codes of errors are those of CuPy 14.
"""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
from host_gpu.host_device import HostDevice, Stream

MESSAGES = {
    2: "cudaErrorMemoryAllocation: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
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


class CompileException(Exception):  # noqa: N818  (its name in CuPy)
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
    faults_in : str
        Kernel that goes wrong once it runs, or none.
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
    driver, runtime : int
        Versions of CUDA, of the driver 0 for none.
    cache_error : OSError, optional
        Why compiled kernels cannot be kept.
    """

    __version__ = "14.2.0"

    def __init__(
        self, cards, nvrtc=True, newest=(12, 1), driver=13000, runtime=13020, cache_error=None
    ):
        super().__init__("cupy")
        self.__spec__ = ModuleSpec("cupy", None)
        self.cards, self.nvrtc, self.newest = cards, nvrtc, newest
        self.cache_error = cache_error
        self.set_devices, self.streams = [], []
        self._of_thread = threading.local()
        self.RawModule = lambda **given: _RawModule(self, **given)
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: _Stream(self),
            Event=lambda block, disable_timing: _Event(self, block),
            MemoryPool=lambda: SimpleNamespace(malloc="tables"),
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
        self.set_devices.append(number)
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

    def get_default_memory_pool(self):
        return SimpleNamespace(free_bytes=lambda: 0)

    def asarray(self, array, order):
        return self._allocated(self.on_stream().upload, array)

    def zeros(self, shape, dtype):
        return self._allocated(self.on_stream().zeros, shape, dtype)

    def empty(self, shape, dtype):
        return self._allocated(self.on_stream().empty, shape, dtype)

    @contextmanager
    def _using_allocator(self, allocator):
        self._of_thread.allocator = allocator
        yield
        self._of_thread.allocator = None

    def _alloc_pinned_memory(self, size_bytes):
        if not self.current().pinned:
            raise CUDARuntimeError(2)
        return bytearray(size_bytes)

    def asnumpy(self, array, stream, out, blocking):
        """The copy is not there before the stream has been waited for."""
        assert not blocking
        stream.used_by.add(threading.get_ident())
        assert stream is self.streams_in_use()[-1]
        copy = self.on_stream().download(array)
        if out is None:
            out = np.zeros_like(copy)
        assert out.shape == copy.shape
        stream.copies.append((out, copy))
        return out


class _Stream:
    def __init__(self, cupy):
        self._cupy = cupy
        self.device = cupy.cuda.runtime.getDevice()
        self.copies, self.used_by, self.work = [], set(), Stream()
        cupy.streams.append(self)
        cupy.current()

    def __enter__(self):
        self.used_by.add(threading.get_ident())
        assert self.device == self._cupy.cuda.runtime.getDevice()  # as CuPy does
        self._cupy.streams_in_use().append(self)
        return self

    def __exit__(self, *error):
        self._cupy.streams_in_use().pop()


class _Event:
    def __init__(self, cupy, block):
        assert block  # a thread that waits leaves its core to others
        self._cupy = cupy

    def record(self, stream):
        self._copies, stream.copies = stream.copies, []
        self._work, stream.work = stream.work, Stream()

    def synchronize(self):
        self._cupy.current()
        for out, copy in self._copies:
            out[...] = copy
        self._work.ended = True


class _RawModule:
    def __init__(self, cupy, code, options, backend):
        assert backend == "nvrtc"
        assert options[0] == "-std=c++17"
        self._cupy, self._code = cupy, code
        assert options[1] == "--fmad=false"
        pairs = [option.removeprefix("-D").split("=") for option in options[2:]]
        self._constants = {name: int(value) for name, value in pairs}

    def compile(self):
        cupy, card = self._cupy, self._cupy.current()
        if not cupy.nvrtc:
            raise RuntimeError(
                'Failure finding "libnvrtc.so.13 or libnvrtc.so.12": No such file: libnvrtc.so.13'
            )
        if cupy.cache_error:
            raise cupy.cache_error
        if card.capability > cupy.newest:
            raise CUDADriverError(209)
        self._card = card
        self._module = card.host.module_from_text(self._code, self._constants)

    def get_function(self, kernel):
        def launch(grid, block, arguments, shared_mem):
            card = self._cupy.current()
            if kernel == card.refuses:
                raise CUDADriverError(701)
            self._cupy.on_stream()
            self._module.launch(kernel, grid, block, arguments, shared_mem)
            if kernel == card.faults_in:
                card.fault = 700

        return launch
