"""A device of this machine through CuPy."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import DTypeLike, NDArray

from mcage.engines.cuda_engine.devices.errors import DeviceError, first_line
from mcage.engines.cuda_engine.devices.kernel_faults import Faults, synchronous
from mcage.kernel_sources import kernel_text

STREAMS = 8
"""Threads of the host that a device serves side by side; more share."""


class CupyDevice:
    """One GPU. Every thread of the host has a stream, so that batches overlap.

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
        self._streams: Iterator[Any] | None = None
        self._handing_out = threading.Lock()

    @property
    def description(self) -> str:
        """Card, compute capability, driver and CuPy."""
        version = int(self._cupy.cuda.runtime.driverGetVersion())
        driver = f"{version // 1000}.{version % 1000 // 10}"
        return (
            f"{self.card} (compute capability {self.capability[0]}.{self.capability[1]}, "
            f"driver for CUDA {driver}, CuPy {self._cupy.__version__})"
        )

    def free_bytes(self) -> int:
        """Memory that may be asked for: free, or held by CuPy's pool and not in use."""
        with self._faults.named("asking for its free memory"), self.current():
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""
        with self._faults.named("copying to it"), self.current():
            return self._cupy.asarray(array, order="C")

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
            self.current() as stream,
            self._faults.answering(stream),
        ):
            copy: NDArray[Any] = self._cupy.asnumpy(array, stream=stream)
            stream.synchronize()
            return copy

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
        options = ("-std=c++17", *(f"-D{name}={value}" for name, value in constants.items()))
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
    def current(self) -> Iterator[Any]:
        """Make the device and the thread's stream those that CuPy uses."""
        runtime = self._cupy.cuda.runtime
        stream = getattr(self._of_thread, "stream", None)
        # Also in a thread that is new, where CUDA says 0 though no device is there yet.
        if stream is None or runtime.getDevice() != self.number:
            runtime.setDevice(self.number)
        if stream is None:
            stream = self._of_thread.stream = self._next_stream()
        with stream:
            yield stream

    def _next_stream(self) -> Any:
        with self._handing_out:
            if self._streams is None:
                made = [self._cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
                self._streams = itertools.cycle(made)
            return next(self._streams)

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
        with self._faults.named(doing), self.current() as stream:
            if self._alone is None:
                with self._faults.launching(stream, kernel):
                    call()
                return
            with self._alone:
                with self._faults.launching(stream, kernel):
                    call()
                with self._faults.answering(stream):
                    stream.synchronize()


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
