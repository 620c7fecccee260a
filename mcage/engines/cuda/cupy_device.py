"""Devices of this machine through CuPy: the one place that imports it."""

import importlib.util
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

from numpy.typing import DTypeLike, NDArray

from mcage.errors import UserError

STREAMS = 8
"""Threads of the host that a device serves side by side; more share."""


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


def open_devices(numbers: Sequence[int] | None = None) -> tuple["CupyDevice", ...]:
    """Devices by number; by default all that the machine shows.

    Raises
    ------
    NoDeviceError
        If CuPy is missing or does not start, or no device answers.
    UserError
        If there is no device of that number.
    """
    if importlib.util.find_spec("cupy") is None:
        raise NoDeviceError(
            "CuPy is not installed",
            "pip install 'mcage[cuda13]' or 'mcage[cuda12]', as the driver's version of CUDA",
        )
    try:
        import cupy
    except Exception as error:  # whatever a broken installation raises
        raise NoDeviceError(f"CuPy does not start ({_reason(error)})") from error
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        raise NoDeviceError(f"no device answers ({_reason(error)})") from error
    if count == 0:
        raise NoDeviceError("the driver shows no device")
    chosen = range(count) if numbers is None else numbers
    for number in chosen:
        if not 0 <= number < count:
            known = "device 0 only" if count == 1 else f"devices 0 ... {count - 1}"
            raise UserError(f"--devices: there is no device {number}; this machine has {known}")
    return tuple(CupyDevice(cupy, number) for number in chosen)


def _reason(error: Exception) -> str:
    """First line of the message of the first of the errors that led to this one."""
    cause = error.__cause__ or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]


class CupyDevice:
    """One GPU. Every thread of the host has a stream, so that batches overlap.

    Parameters
    ----------
    cupy : module
        CuPy.
    number : int
        Of the device, as the driver counts.

    Raises
    ------
    NoDeviceError
        If the device does not answer.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy = cupy
        self._number = number
        self._of_thread = threading.local()
        try:
            with cupy.cuda.Device(number):
                streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
                self._properties = cupy.cuda.runtime.getDeviceProperties(number)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise NoDeviceError(f"device {number} does not answer ({_reason(error)})") from error
        self._streams = itertools.cycle(streams)
        self._handing_out = threading.Lock()

    @property
    def description(self) -> str:
        """Card, compute capability, driver and CuPy."""
        name = self._properties["name"].decode()
        capability = f"{self._properties['major']}.{self._properties['minor']}"
        version = int(self._cupy.cuda.runtime.driverGetVersion())
        driver = f"{version // 1000}.{version % 1000 // 10}"
        return (
            f"{name} (compute capability {capability}, driver for CUDA {driver}, "
            f"CuPy {self._cupy.__version__})"
        )

    def free_bytes(self) -> int:
        """Memory that may be asked for: free, or held by CuPy's pool and not in use."""
        with self._cupy.cuda.Device(self._number):
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""
        with self.current():
            return self._cupy.asarray(array, order="C")

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array of zeros on the device."""
        with self.current():
            return self._cupy.zeros(shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array on the device whose contents do not matter."""
        with self.current():
            return self._cupy.empty(shape, dtype)

    def download(self, array: Any) -> NDArray[Any]:
        """Copy of an array of the device, once all work of this thread before is done."""
        with self.current() as stream:
            copy: NDArray[Any] = self._cupy.asnumpy(array, stream=stream)
            stream.synchronize()
            return copy

    def module(self, source: str, constants: Mapping[str, int]) -> "CupyModule":
        """Kernels of a file of `mcage/kernels`, compiled by NVRTC for this device."""
        text = (resources.files("mcage") / "kernels" / source).read_text(encoding="utf-8")
        options = ("-std=c++17", *(f"-D{name}={value}" for name, value in constants.items()))
        with self.current():
            module = self._cupy.RawModule(
                code=f'#line 1 "kernels/{source}"\n{text}', options=options, backend="nvrtc"
            )
            module.compile()
        return CupyModule(self, module, source)

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Make the device and the thread's stream those that CuPy uses."""
        stream = getattr(self._of_thread, "stream", None)
        if stream is None:
            with self._handing_out:
                stream = next(self._streams)
            self._of_thread.stream = stream
        # A device of its own for each time: it remembers which was current before.
        with self._cupy.cuda.Device(self._number), stream:
            yield stream


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
        """See `mcage.engines.cuda.device.Module`; a refused launch raises RuntimeError."""
        with self._device.current():
            try:
                function = self._module.get_function(kernel)
                function(grid, block, tuple(arguments), shared_mem=shared_bytes)
            except Exception as error:
                raise RuntimeError(
                    f"kernel {kernel} of {self._source}, grid {grid}, block {block}: {error}"
                ) from error
