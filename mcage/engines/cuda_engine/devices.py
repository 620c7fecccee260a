"""Devices of this machine through CuPy, and what the engine asks of any device."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mcage.concurrency import FreeList, Lazy
from mcage.errors import UserError
from mcage.geometry import Bytes
from mcage.version import kernel_text

# Services of the machine that runs the kernels of the CUDA engine: memory, kernels, launches.
#
# `CupyDevice` answers with a GPU. Tests answer with a host compiler and fibers, so that the same
# engine and the same kernels run where there is no GPU.


class Module(Protocol):
    """Compiled kernels of one source file under one set of constants."""

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> None:
        """Run a kernel.

        Parameters
        ----------
        kernel : str
            Name of an ``extern "C" __global__`` function.
        grid, block : tuple of int
            Blocks of the grid and threads of a block.
        arguments : sequence
            Arrays of this device, and NumPy scalars of exactly the parameters' types.
        shared_bytes : int
            Dynamic shared memory of a block.
        """


class Download(Protocol):
    """An array on its way from a device."""

    def result(self) -> NDArray[Any]:
        """Copy of the array, once all work before the begin of the download is done."""


class Device(Protocol):
    """One device, as a thread of the host sees it: its work is done in the order of the calls."""

    @property
    def description(self) -> str:
        """Name of the device, as results record it."""

    def working(self) -> AbstractContextManager[None]:
        """While the thread computes a batch, which the device may do beside other batches.

        All of its work is done when it ends, also by an error. Its arrays are used within it, or
        after its end by a thread that waits for what it does with them.
        """

    def free_bytes(self) -> int:
        """Memory that may be asked for."""

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""

    def upload_together(self, *arrays: NDArray[Any]) -> tuple[Any, ...]:
        """Copies of some arrays on the device, which travel as one."""

    def upload_table(self, array: NDArray[Any]) -> Any:
        """Copy of an array that stays for long, and is there for all threads at once."""

    def empty_table(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array that stays for long, as a table does, and is written to by kernels before."""

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array of zeros on the device."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array on the device whose contents do not matter."""

    def download(self, array: Any) -> NDArray[Any]:
        """Copy of an array of the device, once all work before is done."""

    def begin_download(self, array: Any) -> Download:
        """Let an array travel from the device while the host goes on.

        Whoever waits for one array of a thread has all that it has begun to download before.
        """

    def address(self, array: Any) -> int:
        """Address of an array of the device, for tables of arrays; the array must be kept."""

    def module(self, source: str, constants: Mapping[str, int]) -> Module:
        """Kernels of the file ``source`` of `kernels/`, compiled under constants."""


# Failures of devices, in words that a user can act on.


class NoDeviceError(UserError):
    """No device can be used.

    Parameters
    ----------
    why : str
        In a few words.
    remedy : str
        What would help, if anything is known to.
    """

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(f"engine 'cuda': {why}" + (f"; {remedy}" if remedy else ""))
        self.why = why
        self.remedy = remedy


class DeviceError(UserError):
    """A device failed at work."""


class OutOfDeviceMemoryError(DeviceError, MemoryError):
    """A device has no room for what is asked of it: smaller batches may help."""


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its kind if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def causes(error: BaseException) -> list[BaseException]:
    """An error, and those that led to it: the first of them last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain


# A stream of a device, with what belongs to it: an event to wait for, and memory of the host.

_ALIGNMENT_BYTES = 256
"""Alignment of arrays that are uploaded together, as in CUDA's own allocations."""
_MOST_STAGED_BYTES = 1 << 26
_LEAST_STAGED_BYTES = 1 << 20
_HALF_RING_BYTES = 1 << 23
"""Half of the memory from which arrays travel to the device: more than an epoch needs."""


class UploadRing:
    """Memory of the host that cannot be moved, from which arrays travel while the host goes on.

    It has two halves. One is written to while the device may still read the other, which is
    written to again once the stream has passed the point where it was left.

    Parameters
    ----------
    cupy : module
        CuPy, whose current device is that of the stream.
    stream : cupy.cuda.Stream
        The stream.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._stream = stream
        self._memory = _pinned(cupy, 2 * _HALF_RING_BYTES)
        self._left = [cupy.cuda.Event(block=True, disable_timing=True) for _ in range(2)]
        self._half, self._used_bytes = 0, 0

    def slot(self, size_bytes: int) -> Bytes | None:
        """Memory for a copy that is about to begin; None if it is too large, or there is none."""
        if self._memory is None or size_bytes > _HALF_RING_BYTES:
            return None
        if self._used_bytes + size_bytes > _HALF_RING_BYTES:
            self._left[self._half].record(self._stream)
            self._half, self._used_bytes = 1 - self._half, 0
            self._left[self._half].synchronize()
        first = self._half * _HALF_RING_BYTES + self._used_bytes
        self._used_bytes += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return self._memory[first : first + size_bytes]


def _pinned(cupy: Any, size_bytes: int) -> Bytes | None:
    """Memory of the host that cannot be moved; None if the driver gives none."""
    try:
        pinned = cupy.cuda.alloc_pinned_memory(size_bytes)
    except (MemoryError, cupy.cuda.runtime.CUDARuntimeError):
        return None
    return np.frombuffer(pinned, dtype=np.uint8, count=size_bytes)


class Lane:
    """A stream for one thread of the host at a time.

    What travels between host and device goes through memory of the host that cannot be moved,
    which stays with the stream: the device copies other memory at a fraction of the speed, and
    fresh pages cost more than the copy.

    A thread that waits leaves its core to others; by default CUDA would keep it busy.

    Parameters
    ----------
    cupy : module
        CuPy, whose current device is that of the stream.

    Attributes
    ----------
    stream : cupy.cuda.Stream
        The stream.
    begun, arrived : int
        Downloads that have begun; how many of them have arrived, as far as the host knows.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream: Any = cupy.cuda.Stream(non_blocking=True)
        self._done = cupy.cuda.Event(block=True, disable_timing=True)
        self.begun = self.arrived = 0
        self._free: dict[int, list[Bytes]] = {}
        self._at_work: list[Bytes] = []

    @cached_property
    def ring(self) -> UploadRing:
        """From where arrays travel to the device."""
        return UploadRing(self._cupy, self.stream)

    def wait(self) -> None:
        """Wait until all work of the stream so far is done."""
        begun = self.begun
        self._done.record(self.stream)
        self._done.synchronize()
        self.arrived = begun
        self._at_work.clear()

    def staging(self, size_bytes: int) -> Bytes | None:
        """Memory of the host for a download that is about to begin, until it is given back.

        None if the array is large, or the driver gives no such memory.
        """
        if not 0 < size_bytes <= _MOST_STAGED_BYTES:
            return None
        size = max(_LEAST_STAGED_BYTES, 1 << (size_bytes - 1).bit_length())
        free = self._free.setdefault(size, [])
        memory = free.pop() if free else _pinned(self._cupy, size)
        if memory is not None:
            self._at_work.append(memory)  # also if nobody asks for the result
        return memory

    def give_back(self, memory: Bytes) -> None:
        """Put back memory of a download that has arrived."""
        self._free[len(memory)].append(memory)


class Kept:
    """A stream that a thread keeps until it ends, and then gives back.

    Parameters
    ----------
    lanes : FreeList of Lane
        Streams of a device.
    lane : Lane
        The stream, taken from them.
    """

    def __init__(self, lanes: FreeList[Lane], lane: Lane) -> None:
        self._lanes = lanes
        self.lane = lane

    def __del__(self) -> None:
        self._lanes.give_back(self.lane)


# Errors of CUDA.
#
# A kernel runs after the call that launches it has returned. What it does wrong therefore surfaces
# at a later call, often in another thread of the host: at the next launch, copy or wait.

_OUT_OF_MEMORY = 2
_TIMEOUT = 702
_OF_KERNELS = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
"""Codes of errors that occur while kernels run (CUDA Driver API, ``CUresult``)."""


NVRTC_OPTIONS = ("-std=c++17", "--fmad=false")
"""Products and sums are rounded one by one, as on the host."""


class _Asked:
    """While something is asked of a device: CUDA's errors are put in words.

    Parameters
    ----------
    device : CupyDevice
        The device; its stream of the thread is that which CuPy uses from now on.
    doing : str
        What is asked of it.
    """

    __slots__ = ("_device", "_doing")

    def __init__(self, device: "CupyDevice", doing: str) -> None:
        self._device, self._doing = device, doing

    def __enter__(self) -> Lane:
        lane = self._device.lane()
        lane.stream.use()
        return lane

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, self._device.of_cuda):
            raise self._device.in_words(error, self._doing) from error


class CupyDevice:
    """One GPU. Every batch has a stream while it is computed, so that batches overlap.

    Streams are kept for later batches, with the memory that CuPy holds ready for each of them. A
    thread that uses the device beside all batches has a stream until it ends.

    Tables that stay are in a pool of their own: a table in the midst of the memory of a batch would
    keep it from being used again as a whole.

    A thread of the host that uses a device makes it CUDA's current one and leaves it so: CuPy's
    ``with Device`` would go back to device 0 each time, and so begin work on a device that nobody
    asked for.

    Parameters
    ----------
    cupy : module
        CuPy.
    number : int
        Of the device, as the driver counts.

    Attributes
    ----------
    number : int
        As given.
    card : str
        Its name.
    capability : tuple of int
        Compute capability, such as (9, 0).
    of_cuda : tuple of type
        CuPy's errors that say what CUDA says.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy = cupy
        self.number = number
        self._of_thread = threading.local()
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.card: str = properties["name"].decode()
        self.capability: tuple[int, int] = properties["major"], properties["minor"]
        self.of_cuda = (
            cupy.cuda.memory.OutOfMemoryError,
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
        )
        self._failure, self._failing = "", threading.Lock()
        self._lanes = FreeList(lambda: Lane(cupy))
        self._tables = Lazy[Any](cupy.cuda.MemoryPool)

    @property
    def description(self) -> str:
        """Card, compute capability, driver and CuPy."""
        version = int(self._cupy.cuda.runtime.driverGetVersion())
        driver = f"{version // 1000}.{version % 1000 // 10}"
        return (
            f"{self.card} (compute capability {self.capability[0]}.{self.capability[1]}, "
            f"driver for CUDA {driver}, CuPy {self._cupy.__version__})"
        )

    @contextmanager
    def working(self) -> Iterator[None]:
        """While the thread computes a batch: it has a stream that no other thread has."""
        before = getattr(self._of_thread, "lane", None)
        try:
            self._set_current()
            lane = self._lanes.take()
        except self.of_cuda as error:
            raise self.in_words(error, "beginning a batch") from error
        self._of_thread.lane = lane
        try:
            yield
            with _Asked(self, "ending a batch"):
                lane.wait()
        except BaseException:
            # Others may use the stream at once, and what tables the batch had may go.
            with suppress(*self.of_cuda):
                lane.wait()
            raise
        finally:
            self._of_thread.lane = before
            self._lanes.give_back(lane)

    def free_bytes(self) -> int:
        """Memory that may be asked for: free, or held by a pool and not in use."""
        with _Asked(self, "asking for its free memory"):
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free) + sum(int(pool.free_bytes()) for pool in self._pools)

    @property
    def _pools(self) -> tuple[Any, Any]:
        """CuPy's pool, and that of tables."""
        return self._cupy.get_default_memory_pool(), self._tables.get()

    def _taken(self, take: Callable[..., Any], *arguments: Any) -> Any:
        """Take memory; if there is none, once more without what either pool holds in reserve."""
        try:
            return take(*arguments)
        except self._cupy.cuda.memory.OutOfMemoryError:
            for pool in self._pools:
                pool.free_all_blocks()
            return take(*arguments)

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""
        return self.upload_together(array)[0]

    def upload_together(self, *arrays: NDArray[Any]) -> tuple[Any, ...]:
        """Copies of some arrays on the device, which travel as one."""
        starts, end = [], 0
        for array in arrays:
            starts.append(-(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES)
            end = starts[-1] + array.nbytes
        size_bytes = max(1, end)
        with _Asked(self, "copying to it") as lane:
            slot = lane.ring.slot(size_bytes)
            packed = np.empty(size_bytes, dtype=np.uint8) if slot is None else slot
            for start, array in zip(starts, arrays, strict=True):
                np.ndarray(array.shape, array.dtype, packed, start)[...] = array
            if slot is None:
                together = self._taken(self._cupy.asarray, packed)
            else:
                together = self._taken(self._cupy.empty, packed.shape, np.uint8)
                together.data.copy_from_host_async(packed.ctypes.data, size_bytes)
        return tuple(
            together[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            for start, array in zip(starts, arrays, strict=True)
        )

    def upload_table(self, array: NDArray[Any]) -> Any:
        """Copy of an array that stays, in a pool of its own; there for all threads."""
        cuda = self._cupy.cuda
        with _Asked(self, "copying a table to it") as lane:
            with cuda.using_allocator(self._tables.get().malloc):
                table = self._taken(self._cupy.asarray, np.ascontiguousarray(array))
            lane.wait()
        return table

    def empty_table(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array that stays, in the pool of tables."""
        cuda = self._cupy.cuda
        with _Asked(self, "taking memory"), cuda.using_allocator(self._tables.get().malloc):
            return self._taken(self._cupy.empty, shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array of zeros on the device."""
        with _Asked(self, "taking memory"):
            return self._taken(self._cupy.zeros, shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array on the device whose contents do not matter."""
        with _Asked(self, "taking memory"):
            return self._taken(self._cupy.empty, shape, dtype)

    def download(self, array: Any) -> NDArray[Any]:
        """Copy of an array of the device, once all work of this thread before is done."""
        return self.begin_download(array).result()

    def begin_download(self, array: Any) -> "CupyDownload":
        """Let an array travel from the device while the host goes on."""
        with _Asked(self, "copying from it") as lane:
            staging = lane.staging(array.nbytes)
            staged = None
            if staging is not None:
                staged = staging[: array.nbytes].view(array.dtype).reshape(array.shape)
            copy: NDArray[Any] = self._cupy.asnumpy(
                array, stream=lane.stream, out=staged, blocking=False
            )
            lane.begun += 1
        return CupyDownload(self, lane, copy, staging)

    def wait(self, lane: Lane) -> None:
        """Wait until all work of a stream so far is done."""
        with _Asked(self, "waiting for it"):
            lane.wait()

    def address(self, array: Any) -> int:
        """Address of an array of the device."""
        return int(array.data.ptr)

    def module(self, source: str, constants: Mapping[str, int]) -> "CupyModule":
        """Kernels of a file of `kernels/`, compiled by NVRTC for this device.

        Raises
        ------
        DeviceError
            If NVRTC or the driver refuses.
        """
        # The constants are no options: CuPy asks NVRTC about each set of options at every start.
        code = kernel_text(source, constants)
        with _Asked(self, f"loading kernels/{source}"):
            module = self._cupy.RawModule(code=code, options=NVRTC_OPTIONS, backend="nvrtc")
            try:
                module.compile()
            except self.of_cuda:
                raise
            except Exception as error:  # NVRTC is missing or refuses, CuPy's cache, and more
                raise DeviceError(
                    f"device {self.number} ({self.card}): kernels/{source} does not compile: "
                    f"{first_line(error)}"
                ) from error
        return CupyModule(self, module, source)

    @contextmanager
    def current(self) -> Iterator[Lane]:
        """Make the device and the thread's stream those that CuPy uses."""
        lane = self.lane()
        with lane.stream:
            yield lane

    def lane(self) -> Lane:
        """The thread's stream; the device is CUDA's current one from now on."""
        lane: Lane | None = getattr(self._of_thread, "lane", None)
        if lane is None:
            self._set_current()
            if not hasattr(self._of_thread, "kept"):
                self._of_thread.kept = Kept(self._lanes, self._lanes.take())
            return self._of_thread.kept.lane  # type: ignore[no-any-return]
        if self._cupy.cuda.runtime.getDevice() != self.number:
            self._set_current()
        return lane

    def _set_current(self) -> None:
        runtime = self._cupy.cuda.runtime
        # Also in a thread that is new, where CUDA says 0 though no device is there yet.
        if not hasattr(self._of_thread, "knows") or runtime.getDevice() != self.number:
            runtime.setDevice(self.number)
            self._of_thread.knows = True

    def in_words(self, error: BaseException, doing: str) -> DeviceError:
        """Error of CUDA after a request to the device.

        Returns
        -------
        DeviceError
            Or `OutOfDeviceMemoryError`, if the device has no room.
        """
        status = getattr(error, "status", _OUT_OF_MEMORY)
        who = f"device {self.number} ({self.card})"
        if status == _OUT_OF_MEMORY:
            return OutOfDeviceMemoryError(f"{who}: {doing}: {first_line(error)}")
        if status not in _OF_KERNELS:
            return DeviceError(f"{who} refuses: {doing}: {first_line(error)}")
        remedy = "run the same command again, or see 'mcage doctor'"
        if status == _TIMEOUT:
            remedy = (
                "a card that drives a display ends kernels that run for seconds: name another one "
                "in --devices, or give it shorter traces"
            )
        # The device answers nobody from now on: all threads report the first error.
        with self._failing:
            self._failure = self._failure or (
                f"{who} failed by the time of: {doing} (CUDA_LAUNCH_BLOCKING=1 in the environment "
                f"tells which kernel): {first_line(error)}; what is finished is kept: {remedy}"
            )
        return DeviceError(self._failure)


class CupyDownload:
    """An array on its way from a GPU.

    Parameters
    ----------
    device : CupyDevice
        From where.
    lane : Lane
        On which stream; the latest download of it.
    copy : ndarray
        Where it arrives.
    staging : uint8[n], optional
        Memory of the stream that `copy` is a part of, if it is.
    """

    def __init__(
        self, device: CupyDevice, lane: Lane, copy: NDArray[Any], staging: Bytes | None
    ) -> None:
        self._device, self._lane, self._copy, self._staging = device, lane, copy, staging
        self._number = lane.begun

    def result(self) -> NDArray[Any]:
        """See `Download.result`; the array is of the caller, who asks once."""
        if self._lane.arrived < self._number:
            self._device.wait(self._lane)
        if self._staging is None:
            return self._copy
        copy = self._copy.copy()
        self._lane.give_back(self._staging)
        return copy


class CupyModule:
    """Compiled kernels of one source file.

    Parameters
    ----------
    device : CupyDevice
        Where they run.
    module : cupy.RawModule
        Compiled.
    source : str
        Name of the file.
    """

    def __init__(self, device: CupyDevice, module: Any, source: str) -> None:
        self._device = device
        self._module = module
        self._source = source
        # Another one of the same kernel would ask the driver for it again.
        self._functions: dict[str, Any] = {}

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> None:
        """See `Module`; a refused launch raises DeviceError."""
        with _Asked(self._device, f"kernel {kernel} of {self._source}, grid {grid}, block {block}"):
            function = self._functions.get(kernel)
            if function is None:
                function = self._functions[kernel] = self._module.get_function(kernel)
            function(grid, block, tuple(arguments), shared_mem=shared_bytes)
