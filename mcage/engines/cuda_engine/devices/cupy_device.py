"""A device of this machine through CuPy."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mcage.concurrency import FreeList
from mcage.engines.cuda_engine.devices.errors import DeviceError, first_line
from mcage.engines.cuda_engine.devices.kernel_faults import Faults, synchronous
from mcage.engines.cuda_engine.devices.lane import Kept, Lane
from mcage.kernel_sources import kernel_text

_ALIGNMENT_BYTES = 256
"""Of arrays that are uploaded together, as those of CUDA's own allocations."""


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
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy = cupy
        self.number = number
        self._of_thread = threading.local()
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.card: str = properties["name"].decode()
        self.capability: tuple[int, int] = properties["major"], properties["minor"]
        self._faults = Faults(cupy, f"device {number} ({self.card})")
        # While every kernel is waited for, it is also alone.
        self._alone = threading.Lock() if synchronous() else None
        self._lanes = FreeList(lambda: Lane(cupy))
        self._tables: Any = None

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
        with self._faults.named("beginning a batch"):
            self._set_current()
            lane = self._lanes.take()
        self._of_thread.lane = lane
        try:
            yield
            with self._faults.named("ending a batch"), self._faults.answering(lane.stream):
                lane.wait()
        except BaseException:
            # Others may use the stream at once, and what tables the batch had may go.
            with suppress(*self._faults.of_cuda), self._faults.answering(lane.stream):
                lane.wait()
            raise
        finally:
            self._of_thread.lane = before
            self._lanes.give_back(lane)

    def free_bytes(self) -> int:
        """Memory that may be asked for: free, or held by CuPy's pool and not in use."""
        with self._faults.named("asking for its free memory"), self.current():
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""
        with self._faults.named("copying to it"), self.current():
            return self._cupy.asarray(array, order="C")

    def upload_together(self, *arrays: NDArray[Any]) -> tuple[Any, ...]:
        """Copies of some arrays on the device, which travel as one."""
        starts, end = [], 0
        for array in arrays:
            starts.append(end)
            end += -(-array.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        packed = np.empty(max(1, end), dtype=np.uint8)
        for start, array in zip(starts, arrays, strict=True):
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            packed[start : start + array.nbytes] = flat
        together = self.upload(packed)
        return tuple(
            together[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            for start, array in zip(starts, arrays, strict=True)
        )

    def upload_table(self, array: NDArray[Any]) -> Any:
        """Copy of an array that stays, in a pool of its own; there for all threads."""
        cuda = self._cupy.cuda
        with self._faults.named("copying a table to it"), self.current() as lane:
            self._tables = self._tables or cuda.MemoryPool()
            with cuda.using_allocator(self._tables.malloc):
                table = self._cupy.asarray(array, order="C")
            with self._faults.answering(lane.stream):
                lane.wait()
        return table

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array of zeros on the device."""
        with self._faults.named("taking memory"), self.current():
            return self._cupy.zeros(shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array on the device whose contents do not matter."""
        with self._faults.named("taking memory"), self.current():
            return self._cupy.empty(shape, dtype)

    def download(self, array: Any) -> NDArray[Any]:
        """Copy of an array of the device, once all work of this thread before is done."""
        with (
            self._faults.named("copying from it"),
            self.current() as lane,
            self._faults.answering(lane.stream),
        ):
            staged = lane.staging(array.shape, array.dtype)
            copy: NDArray[Any] = self._cupy.asnumpy(
                array, stream=lane.stream, out=staged, blocking=False
            )
            lane.wait()
            return copy if staged is None else copy.copy()

    def address(self, array: Any) -> int:
        """Address of an array of the device."""
        return int(array.__cuda_array_interface__["data"][0])

    def module(self, source: str, constants: Mapping[str, int]) -> "CupyModule":
        """Kernels of a file of `kernels/`, compiled by NVRTC for this device.

        Raises
        ------
        DeviceError
            If NVRTC or the driver refuses.
        """
        # Products and sums are rounded one by one, as on the host.
        defined = (f"-D{name}={value}" for name, value in constants.items())
        options = ("-std=c++17", "--fmad=false", *defined)
        with self._faults.named(f"loading kernels/{source}"), self.current():
            module = self._cupy.RawModule(
                code=kernel_text(source), options=options, backend="nvrtc"
            )
            try:
                module.compile()
            except self._faults.of_cuda:
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
        self._set_current()
        lane: Lane | None = getattr(self._of_thread, "lane", None)
        if lane is None:
            if not hasattr(self._of_thread, "kept"):
                self._of_thread.kept = Kept(self._lanes, self._lanes.take())
            lane = self._of_thread.kept.lane
        with lane.stream:
            yield lane

    def _set_current(self) -> None:
        runtime = self._cupy.cuda.runtime
        # Also in a thread that is new, where CUDA says 0 though no device is there yet.
        if not hasattr(self._of_thread, "knows") or runtime.getDevice() != self.number:
            runtime.setDevice(self.number)
            self._of_thread.knows = True

    def launch(self, kernel: str, doing: str, call: Callable[[], None]) -> None:
        """Let a kernel be launched.

        Parameters
        ----------
        kernel : str
            Its name.
        doing : str
            The launch in words, should the device refuse it.
        call : callable
            Launches it.
        """
        with self._faults.named(doing), self.current() as lane:
            if self._alone is None:
                with self._faults.launching(lane.stream, kernel):
                    call()
                return
            with self._alone:
                with self._faults.launching(lane.stream, kernel):
                    call()
                with self._faults.answering(lane.stream):
                    lane.wait()


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

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> None:
        """See `device.Module`; a refused launch raises DeviceError."""

        def call() -> None:
            function = self._module.get_function(kernel)
            function(grid, block, tuple(arguments), shared_mem=shared_bytes)

        doing = f"kernel {kernel} of {self._source}, grid {grid}, block {block}"
        self._device.launch(kernel, doing, call)
